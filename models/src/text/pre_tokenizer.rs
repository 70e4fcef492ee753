//! How byte-level vocabularies split text before merging: one rule per `tokenizer.ggml.pre`.
//!
//! A rule is a list of regular expressions. Each in turn cuts the stretches that the ones before it left,
//! both at its matches and between them. The originals use a negative look-ahead in one place only,
//! `\s+(?!\S)`: white space leaves its last character to the word that follows. Here the pattern says `\s+`
//! and [`Stage::give_back`] says when that character is given back, so that matching takes linear time on any
//! input.

use super::error::TokenizerError;
use regex::Regex;
use std::ops::Range;

/// When a match of white space leaves its last character to what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GiveBack {
    /// Never: the rule has no such look-ahead.
    Never,
    /// Always, when a character that is not white space follows.
    Always,
    /// As above, but white space up to a line break stays whole: another alternative matched it.
    UnlessLineBreak,
}

struct Rule {
    /// Values of `tokenizer.ggml.pre` that mean this rule.
    names: &'static [&'static str],
    stages: &'static [(&'static str, GiveBack)],
    /// The models' own tokenizers bring text into normal form C first.
    normalises: bool,
    /// A word that is a piece is taken whole, whatever the merges would give.
    looks_up_words: bool,
    /// BOS is added unless the file says otherwise.
    adds_bos: bool,
}

const GPT2: (&str, GiveBack) =
    (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+", GiveBack::Always);
const SINGLE_DIGITS: (&str, GiveBack) = (r"\p{N}", GiveBack::Never);
const CL100K: (&str, GiveBack) = (
    concat!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
    ),
    GiveBack::UnlessLineBreak,
);
const QWEN2: (&str, GiveBack) = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+",
    GiveBack::UnlessLineBreak,
);
/// As `QWEN2`, with line breaks apart from the signs before them.
const SEED_CODER: (&str, GiveBack) = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+",
    GiveBack::UnlessLineBreak,
);
/// As `QWEN2`, with digits left together.
const MINICPM5: (&str, GiveBack) = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+",
    GiveBack::UnlessLineBreak,
);
const TEKKEN: (&str, GiveBack) = (
    concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+"
    ),
    GiveBack::UnlessLineBreak,
);
const O200K: (&str, GiveBack) = (
    concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+"
    ),
    GiveBack::UnlessLineBreak,
);
const DEEPSEEK_V3: (&str, GiveBack) = (
    concat!(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
        r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+"
    ),
    GiveBack::UnlessLineBreak,
);
/// Letters with case, as the DeepSeek LLM rule lists them. Written as code points, because editors normalise
/// some of the letters into others.
const DEEPSEEK_LLM_LETTERS: &str = concat!(
    r"\s?[A-Za-z\xB5\xC0-\xD6\xD8-\xF6\xF8-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}",
    r"\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}",
    r"\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}",
    r"\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}",
    r"\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}",
    r"\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}",
    r"\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}",
    r"\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}",
    r"\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}",
    r"\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}",
    r"\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}",
    r"\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}",
    r"\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+"
);
const CJK_AND_MORE: (&str, GiveBack) = (r"[一-龥ࠀ-一가-\x{D7FF}]+", GiveBack::Never);

const RULES: &[Rule] = &[
    Rule {
        names: &[
            "gpt-2",
            "phi-2",
            "gpt2",
            "mpt",
            "jais",
            "exaone4",
            "mellum",
            "trillion",
            "olmo",
            "a.x-4.0",
            "gigachat",
            "granite-docling",
            "modern-bert",
        ],
        stages: &[GPT2],
        normalises: false,
        looks_up_words: false,
        adds_bos: false,
    },
    Rule {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2", "midm-2.0"],
        stages: &[CL100K],
        normalises: false,
        looks_up_words: true,
        adds_bos: true,
    },
    Rule {
        names: &["dbrx", "smaug-bpe", "chatglm-bpe", "glm4"],
        stages: &[CL100K],
        normalises: false,
        looks_up_words: false,
        adds_bos: false,
    },
    Rule { names: &["qwen2"], stages: &[QWEN2], normalises: true, looks_up_words: false, adds_bos: false },
    Rule {
        names: &[
            "deepseek-r1-qwen",
            "stablelm2",
            "megrez",
            "hunyuan",
            "grok-2",
            "kormo",
            "f2llmv2",
            "solar-open",
        ],
        stages: &[QWEN2],
        normalises: false,
        looks_up_words: false,
        adds_bos: false,
    },
    Rule {
        names: &[
            "smollm",
            "starcoder",
            "refact",
            "command-r",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        stages: &[SINGLE_DIGITS, GPT2],
        normalises: false,
        looks_up_words: false,
        adds_bos: false,
    },
    Rule {
        names: &["deepseek-llm"],
        stages: &[
            (r"[\r\n]", GiveBack::Never),
            (DEEPSEEK_LLM_LETTERS, GiveBack::Never),
            (r"\s?[!-/:-~！-／：-～‘-‟\x{3000}-。]+", GiveBack::Never),
            (r"\s+$", GiveBack::Never),
            CJK_AND_MORE,
            (r"\p{N}+", GiveBack::Never),
        ],
        normalises: false,
        looks_up_words: false,
        adds_bos: false,
    },
    Rule {
        names: &["deepseek-coder"],
        stages: &[
            (r"[\r\n]", GiveBack::Never),
            (r"\s?\p{L}+", GiveBack::Never),
            (r"\s?\p{P}+", GiveBack::Never),
            CJK_AND_MORE,
            SINGLE_DIGITS,
        ],
        normalises: false,
        looks_up_words: false,
        adds_bos: false,
    },
    Rule {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm"],
        stages: &[(r"\p{N}{1,3}", GiveBack::Never), (r"[一-龥぀-ゟ゠-ヿ]+", GiveBack::Never), DEEPSEEK_V3],
        normalises: false,
        looks_up_words: false,
        adds_bos: false,
    },
    Rule {
        names: &["seed-coder"],
        stages: &[SEED_CODER],
        normalises: false,
        looks_up_words: false,
        adds_bos: false,
    },
    Rule {
        names: &["minicpm5"],
        stages: &[(r"\p{N}{1,3}", GiveBack::Never), MINICPM5],
        normalises: false,
        looks_up_words: false,
        adds_bos: false,
    },
    Rule { names: &["tekken"], stages: &[TEKKEN], normalises: false, looks_up_words: true, adds_bos: true },
    Rule {
        names: &["gpt-4o", "llama4", "minimax-m2", "kanana2", "talkie"],
        stages: &[O200K],
        normalises: false,
        looks_up_words: false,
        adds_bos: false,
    },
    Rule {
        names: &["falcon"],
        stages: &[(r"[\p{P}\$\+<=>\^~\|`]+", GiveBack::Never), GPT2, (r"[0-9][0-9][0-9]", GiveBack::Never)],
        normalises: false,
        looks_up_words: false,
        adds_bos: false,
    },
    Rule {
        names: &[UNNAMED],
        stages: &[
            (r"[\p{P}\$\+<=>\^~\|]+", GiveBack::Never),
            GPT2,
            (r"\p{N}+", GiveBack::Never),
            (r"[0-9][0-9][0-9]", GiveBack::Never),
        ],
        normalises: false,
        looks_up_words: false,
        adds_bos: false,
    },
];

/// What converters write when they know no rule, and what a missing value is taken for.
pub(super) const UNNAMED: &str = "default";

#[derive(Debug)]
struct Stage {
    pattern: Regex,
    give_back: GiveBack,
}

/// A compiled rule.
#[derive(Debug)]
pub(super) struct PreTokenizer {
    stages: Vec<Stage>,
    normalises: bool,
    looks_up_words: bool,
    adds_bos: bool,
}

impl PreTokenizer {
    /// The rule that `tokenizer.ggml.pre` names. An unknown name is refused: any other rule would give wrong
    /// ids.
    pub fn named(name: &str) -> Result<Self, TokenizerError> {
        let rule = RULES.iter().find(|rule| rule.names.contains(&name)).ok_or_else(|| {
            let known: Vec<&str> = RULES.iter().flat_map(|rule| rule.names).copied().collect();
            TokenizerError::UnknownPreTokenizer { found: name.to_owned(), known: known.join(", ") }
        })?;
        let stages = rule
            .stages
            .iter()
            .map(|&(pattern, give_back)| match Regex::new(pattern) {
                Ok(pattern) => Ok(Stage { pattern, give_back }),
                Err(error) => {
                    Err(TokenizerError::BrokenRule { name: name.to_owned(), reason: error.to_string() })
                }
            })
            .collect::<Result<_, _>>()?;
        let Rule { normalises, looks_up_words, adds_bos, .. } = *rule;
        Ok(Self { stages, normalises, looks_up_words, adds_bos })
    }

    /// Whether text is brought into normal form C first.
    pub fn normalises(&self) -> bool {
        self.normalises
    }

    /// Whether a word that is a piece is taken whole.
    pub fn looks_up_words(&self) -> bool {
        self.looks_up_words
    }

    /// Whether BOS is added unless the file says otherwise.
    pub fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    /// Cuts `text` into non-empty byte ranges that cover it from left to right.
    pub fn split(&self, text: &str) -> Vec<Range<usize>> {
        let whole = 0..text.len();
        let mut pieces = vec![whole];
        for stage in &self.stages {
            let mut finer = Vec::with_capacity(pieces.len());
            for piece in pieces {
                stage.split(text, piece, &mut finer);
            }
            pieces = finer;
        }
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }
}

impl Stage {
    fn split(&self, text: &str, piece: Range<usize>, finer: &mut Vec<Range<usize>>) {
        let stretch = &text[piece.clone()];
        let mut done = 0;
        while let Some(found) = self.pattern.find_at(stretch, done) {
            let end = self.end_of(stretch, found.range());
            if found.start() > done {
                finer.push(piece.start + done..piece.start + found.start());
            }
            finer.push(piece.start + found.start()..piece.start + end);
            done = end;
        }
        if done < stretch.len() {
            finer.push(piece.start + done..piece.end);
        }
    }

    /// The end of a match, after giving back what the look-ahead of the original would.
    fn end_of(&self, stretch: &str, found: Range<usize>) -> usize {
        if self.give_back == GiveBack::Never || found.end == stretch.len() {
            return found.end;
        }
        let matched = &stretch[found.clone()];
        let Some(last) = matched.chars().next_back() else { return found.end };
        let stays_whole = self.give_back == GiveBack::UnlessLineBreak && matches!(last, '\r' | '\n');
        if stays_whole || matched.len() == last.len_utf8() || !matched.chars().all(char::is_whitespace) {
            return found.end;
        }
        found.end - last.len_utf8()
    }
}
