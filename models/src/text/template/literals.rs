//! Whether a template belongs to the vocabulary: its control texts have to be pieces.

use super::super::tokenizer::Tokenizer;
use super::error::TemplateError;
use std::collections::BTreeSet;

/// Longest text between bars that counts as a control text.
const NAME_LEN_MAX: usize = 64;

/// The texts of the form `<|name|>` (or with full-width bars) in a template that are no special pieces.
///
/// Some missing ones are normal, since one template serves several vocabularies; when all are missing the
/// template belongs to another model.
pub(super) fn missing(source: &str, tokenizer: &Tokenizer) -> Result<Vec<String>, TemplateError> {
    let literals: BTreeSet<&str> = ["<|", "<｜"]
        .into_iter()
        .zip(["|>", "｜>"])
        .flat_map(|(open, close)| between(source, open, close))
        .collect();
    let missing: Vec<String> =
        literals.iter().filter(|text| !tokenizer.has_special(text)).map(|&text| text.to_owned()).collect();
    match !literals.is_empty() && missing.len() == literals.len() {
        true => Err(TemplateError::Foreign { texts: missing.join(", ") }),
        false => Ok(missing),
    }
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
