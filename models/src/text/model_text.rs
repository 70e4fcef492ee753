//! The text side of a model as hosts need it: tokenizer, chat template, and what is odd about them.

use super::error::TokenizerError;
use super::template::{ChatTemplate, TemplateError};
use super::tokenizer::Tokenizer;
use crate::gguf::Metadata;
use fanlight_messages::warning::Warning;

/// Tokenizer and template of a file.
#[derive(Debug)]
pub struct ModelText {
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// The template, or why conversations are not possible: plain text can be continued without.
    pub template: Result<ChatTemplate, TemplateError>,
    /// What a person should know about both.
    pub warnings: Vec<Warning>,
}

impl ModelText {
    /// Reads the `tokenizer.*` keys, and renders a conversation to see that the template prints it.
    ///
    /// # Errors
    /// [`TokenizerError`] when there is no usable tokenizer.
    pub fn from_metadata(metadata: &Metadata) -> Result<Self, TokenizerError> {
        let tokenizer = Tokenizer::from_metadata(metadata)?;
        let mut warnings = tokenizer.warnings().to_vec();
        let mut template = ChatTemplate::from_metadata(metadata, &tokenizer);
        if let Ok(found) = &mut template {
            match found.probe() {
                Ok(()) => warnings.extend_from_slice(found.warnings()),
                Err(error) => template = Err(error),
            }
        }
        match &template {
            Ok(_) => {}
            Err(TemplateError::Missing) => warnings.push(Warning::NoChatTemplate),
            Err(error) => warnings.push(Warning::ChatTemplateUnusable { reason: error.to_string() }),
        }
        Ok(Self { tokenizer, template, warnings })
    }
}
