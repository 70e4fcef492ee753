//! A conversation as data: turns, calls of functions and their results.

/// Who says a message of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatRole {
    /// Instructions.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A function that the model called.
    Tool,
}

/// A message of a conversation. Control tokens in its texts are plain text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatTurn {
    /// Who.
    pub role: ChatRole,
    /// What; empty where a message only calls.
    pub content: String,
    /// What the model thought before it said this, where that is known.
    pub reasoning: Option<String>,
    /// Functions that the model calls in it.
    pub calls: Vec<ChatCall>,
    /// Of [`ChatRole::Tool`]: the call that this answers.
    pub call_id: Option<String>,
    /// Name of the speaker or function.
    pub name: Option<String>,
}

impl ChatTurn {
    /// A message that is only text.
    pub fn new(role: ChatRole, content: impl Into<String>) -> Self {
        let content = content.into();
        Self { role, content, reasoning: None, calls: Vec::new(), call_id: None, name: None }
    }
}

/// A call of a function by the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatCall {
    /// What its result refers to.
    pub id: Option<String>,
    /// Name of the function.
    pub name: String,
    /// A JSON object as text; a model may have written something else.
    pub arguments: String,
}

/// A function that the model may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatTool {
    /// Its name.
    pub name: String,
    /// What it does, for the model; possibly empty.
    pub description: String,
    /// JSON schema of its arguments, as text; empty for none.
    pub parameters: String,
}

/// What functions a reply may call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChatTools {
    /// The functions.
    pub functions: Vec<ChatTool>,
    /// Whether it is over behind its first call.
    pub one_call: bool,
}
