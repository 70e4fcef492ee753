//! Texts that are control tokens whatever type a file gives them. Some published files type them as ordinary
//! text; a conversation would then be spelled in letters, and its end never be recognised.

use std::collections::BTreeSet;

/// Names that begin or divide turns in the published model families. Those that end them are in `endings`.
const NAMES: [&str; 14] = [
    "<|im_start|>",
    "<|im_sep|>",
    "<start_of_turn>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|begin_of_text|>",
    "<|start|>",
    "<|message|>",
    "<|channel|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<｜User｜>",
    "<｜Assistant｜>",
];

/// Names among the endings that also occur in ordinary text, where the file's type decides.
const ORDINARY: [&str; 6] = ["</s>", "<eos>", "<EOT>", "[EOT]", "[EOS]", "_<EOT>"];

/// Longest text between bars that counts as a control text.
const NAME_LEN_MAX: usize = 64;

/// Whether a piece with this text is a control token, also where the file types it otherwise. `literals` are
/// the control texts of the file's own template.
pub(super) fn is_control(text: &str, literals: &BTreeSet<&str>) -> bool {
    let is_ending = super::endings::is_name(text) && !ORDINARY.contains(&text);
    is_ending || NAMES.contains(&text) || literals.contains(text)
}

/// The texts of the form `<|name|>` (or with full-width bars) in a template.
pub(super) fn literals(source: &str) -> BTreeSet<&str> {
    [("<|", "|>"), ("<｜", "｜>")]
        .into_iter()
        .flat_map(|(open, close)| between(source, open, close))
        .collect()
}

fn between<'a>(source: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = &'a str> {
    source.match_indices(open).filter_map(move |(start, _)| {
        let name_start = start + open.len();
        let name_len = source[name_start..].find(close)?;
        let name = &source[name_start..name_start + name_len];
        let is_name = !name.is_empty()
            && name.len() <= NAME_LEN_MAX
            && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '▁'));
        is_name.then(|| &source[start..name_start + name_len + close.len()])
    })
}
