//! A conversation in the words of hosts, as templates take it.

use fanlight_messages::protocol::chat::{ChatCall, ChatRole, ChatTool, ChatTurn};
use serde_json::{Value, json};

use super::message::{ChatMessage, Role, ToolCall};

impl From<&ChatTurn> for ChatMessage {
    fn from(turn: &ChatTurn) -> Self {
        let role = match turn.role {
            ChatRole::System => Role::System,
            ChatRole::User => Role::User,
            ChatRole::Assistant => Role::Assistant,
            ChatRole::Tool => Role::Tool,
        };
        Self {
            reasoning_content: turn.reasoning.clone(),
            tool_calls: turn.calls.iter().map(ToolCall::from).collect(),
            tool_call_id: turn.call_id.clone(),
            name: turn.name.clone(),
            ..Self::new(role, turn.content.clone())
        }
    }
}

impl From<&ChatCall> for ToolCall {
    fn from(call: &ChatCall) -> Self {
        let arguments = Value::String(call.arguments.clone());
        Self { id: call.id.clone(), name: call.name.clone(), arguments }
    }
}

/// Tools in the form that templates know, `None` where there are none. A schema that is no JSON stays text.
pub fn tools_json(tools: &[ChatTool]) -> Option<Value> {
    let tool = |tool: &ChatTool| {
        let mut function = json!({ "name": tool.name, "description": tool.description });
        if !tool.parameters.is_empty() {
            let schema = serde_json::from_str(&tool.parameters);
            function["parameters"] = schema.unwrap_or_else(|_| tool.parameters.clone().into());
        }
        json!({ "type": "function", "function": function })
    };
    (!tools.is_empty()).then(|| tools.iter().map(tool).collect())
}
