//! The forms in which models write calls.

/// How a model writes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallForm {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, repeated: Hermes, Qwen2.5, Qwen3. Also what a
    /// model is told to write whose template knows no tools.
    Hermes,
    /// `<tool_call><function=f><parameter=p>…</parameter></function></tool_call>`: Qwen3-Coder, Qwen3.5.
    QwenXml,
    /// The answer is `{"name": …, "parameters": {…}}`: Llama 3.1 to 3.3.
    Llama,
}

impl CallForm {
    /// The form that a template asks for; where it says nothing of any, the first.
    pub fn of_template(source: &str) -> Self {
        if source.contains("<function=") {
            Self::QwenXml
        } else if source.contains("<tool_call>") {
            Self::Hermes
        } else if source.contains("<|python_tag|>") || source.contains("\"parameters\"") {
            Self::Llama
        } else {
            Self::Hermes
        }
    }

    /// Marks of this form: where a vocabulary types one as control, its text counts all the same.
    pub fn marks(self) -> &'static [&'static str] {
        match self {
            Self::Hermes | Self::QwenXml => &["<tool_call>", "</tool_call>"],
            Self::Llama => &[],
        }
    }
}
