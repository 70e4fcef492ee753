//! Models that say what a test wants: one layer of zeros, and a head in which each token calls for the next
//! one.

use std::collections::BTreeMap;

use fanlight_messages::TensorType;

use super::random::Random;
use super::tiny::SynthError;
use super::vocabulary::byte_char;
use crate::blocks::encode_row;
use crate::gguf::{GgufFile, TensorPlan, Value};

/// Width of the model: enough that random signs tell 300 tokens apart.
const WIDTH: usize = 128;
/// Inner width of its feed-forward, which adds nothing.
const FFN: usize = 32;

/// How a file types a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typed {
    /// As ordinary text.
    Normal = 1,
    /// As structure.
    Control = 3,
    /// As text that is always one piece.
    UserDefined = 4,
}

/// A model to be written: byte-level tokens and the given special ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Scripted {
    pieces: Vec<(String, Typed)>,
    next: BTreeMap<usize, usize>,
    keys: Vec<(String, Value)>,
}

impl Scripted {
    /// With these special pieces, of which the last control piece ends a reply, and this chat template.
    pub fn new(template: &str, specials: &[(&str, Typed)]) -> Self {
        let bytes = (0..=255).map(|byte| (byte_char(byte).to_string(), Typed::Normal));
        let pieces = bytes.chain(specials.iter().map(|(text, kind)| ((*text).to_owned(), *kind))).collect();
        let keys = vec![("tokenizer.chat_template".to_owned(), template.into())];
        let mut model = Self { pieces, next: BTreeMap::new(), keys };
        if let Some(end) = model.pieces.iter().rposition(|piece| piece.1 == Typed::Control) {
            model.set("tokenizer.ggml.eos_token_id", end as u32);
        }
        model
    }

    /// Sets a key of the file, replacing an earlier value.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) -> &mut Self {
        self.keys.retain(|(k, _)| k != key);
        self.keys.push((key.to_owned(), value.into()));
        self
    }

    /// After the piece `after` the model says these, one after the other. A piece has one successor, so none
    /// may occur twice.
    ///
    /// # Panics
    /// When one is not in the vocabulary.
    pub fn says(&mut self, after: &str, pieces: &[&str]) -> &mut Self {
        let mut last = self.id(after);
        for piece in pieces {
            let id = self.id(piece);
            let before = self.next.insert(last, id);
            assert!(before.is_none_or(|before| before == id), "two pieces follow {last}");
            last = id;
        }
        self
    }

    /// The id of a special piece, or of a single byte.
    ///
    /// # Panics
    /// When there is none.
    pub fn id(&self, piece: &str) -> usize {
        let special = self.pieces[256..].iter().position(|(text, _)| text == piece).map(|at| at + 256);
        let byte = || (piece.len() == 1).then(|| usize::from(piece.as_bytes()[0]));
        special.or_else(byte).unwrap_or_else(|| panic!("{piece} is not in the vocabulary"))
    }

    /// The file.
    ///
    /// # Errors
    /// [`SynthError`] when writing fails.
    pub fn build(&self) -> Result<GgufFile, SynthError> {
        let vocabulary_len = self.pieces.len();
        let mut file = GgufFile { metadata: self.metadata(), tensors: Vec::new() };
        let mut random = Random::new(1, 0);
        let sign = |random: &mut Random| if random.normal() < 0.0 { -1.0 } else { 1.0 };
        let embedding: Vec<f32> = (0..vocabulary_len * WIDTH).map(|_| sign(&mut random)).collect();
        let mut head = vec![0.0; vocabulary_len * WIDTH];
        for (from, to) in &self.next {
            let said = &embedding[from * WIDTH..][..WIDTH];
            head[to * WIDTH..][..WIDTH].iter_mut().zip(said).for_each(|(sum, sign)| *sum += sign);
        }
        let mut push = |name: &str, rows: usize, columns: usize, values: &[f32]| -> Result<(), SynthError> {
            let tensor_type = if rows == 1 { TensorType::F32 } else { TensorType::F16 };
            let plan = TensorPlan::new(name, rows as u64, columns as u64, tensor_type)?;
            file.push(plan, encode_row(tensor_type, values)?)?;
            Ok(())
        };
        push("token_embd.weight", vocabulary_len, WIDTH, &embedding)?;
        push("output_norm.weight", 1, WIDTH, &[1.0; WIDTH])?;
        push("output.weight", vocabulary_len, WIDTH, &head)?;
        for name in ["attn_norm", "ffn_norm"] {
            push(&format!("blk.0.{name}.weight"), 1, WIDTH, &[1.0; WIDTH])?;
        }
        for name in ["attn_q", "attn_k", "attn_v", "attn_output"] {
            push(&format!("blk.0.{name}.weight"), WIDTH, WIDTH, &[0.0; WIDTH * WIDTH])?;
        }
        for (name, rows, columns) in
            [("ffn_gate", FFN, WIDTH), ("ffn_up", FFN, WIDTH), ("ffn_down", WIDTH, FFN)]
        {
            push(&format!("blk.0.{name}.weight"), rows, columns, &[0.0; WIDTH * FFN])?;
        }
        Ok(file)
    }

    fn metadata(&self) -> Vec<(String, Value)> {
        let (pieces, kinds): (Vec<&str>, Vec<i32>) =
            self.pieces.iter().map(|(text, kind)| (&**text, *kind as i32)).unzip();
        let mut keys: Vec<(String, Value)> = [
            ("general.architecture", Value::from("llama")),
            ("general.name", "scripted".into()),
            ("llama.block_count", 1_u32.into()),
            ("llama.context_length", 4096_u32.into()),
            ("llama.embedding_length", (WIDTH as u32).into()),
            ("llama.feed_forward_length", (FFN as u32).into()),
            ("llama.attention.head_count", 2_u32.into()),
            ("llama.attention.head_count_kv", 2_u32.into()),
            ("llama.attention.layer_norm_rms_epsilon", 1e-5_f32.into()),
            ("llama.rope.freq_base", 10_000.0_f32.into()),
            ("tokenizer.ggml.model", "gpt2".into()),
            ("tokenizer.ggml.pre", "gpt-2".into()),
            ("tokenizer.ggml.tokens", Value::strings(&pieces)),
            ("tokenizer.ggml.token_type", Value::i32s(&kinds)),
            ("tokenizer.ggml.merges", Value::strings(Vec::<&str>::new())),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
        keys.retain(|(key, _)| !self.keys.iter().any(|(k, _)| k == key));
        keys.extend(self.keys.iter().cloned());
        keys
    }
}
