//! A conversation that goes on, and its file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use fanlight_messages::protocol::engine::{ChatRole, ChatTurn};

/// Bytes of a file that is read: many times the longest context.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Who said what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conversation {
    /// Instructions.
    pub system: Option<String>,
    /// What was said, oldest first: the person and the model by turns.
    pub turns: Vec<ChatTurn>,
}

impl Conversation {
    /// What the model is given.
    pub fn prompt(&self) -> Vec<ChatTurn> {
        let system = self.system.as_ref().map(|text| ChatTurn::new(ChatRole::System, text.clone()));
        system.into_iter().chain(self.turns.iter().cloned()).collect()
    }

    /// Takes the last reply back, so that it can be given again; false when there is none.
    pub fn take_back(&mut self) -> bool {
        if self.turns.last().is_some_and(|turn| turn.role == ChatRole::Assistant) {
            self.turns.pop();
        }
        !self.turns.is_empty()
    }

    /// Writes it to a file, which is replaced as a whole.
    pub fn save(&self, path: &Path) -> Result<()> {
        let messages: Vec<Value> = self.prompt().iter().map(message).collect();
        let text = format!("{:#}\n", json!({ "messages": messages }));
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, path))
            .with_context(|| path.display().to_string())
    }

    /// Reads it from a file.
    pub fn load(path: &Path) -> Result<Self> {
        let about = || path.display().to_string();
        if fs::metadata(path).with_context(about)?.len() > FILE_BYTES_MAX {
            bail!("{} has more than {} MiB: it is no conversation", path.display(), FILE_BYTES_MAX >> 20);
        }
        let value: Value =
            serde_json::from_str(&fs::read_to_string(path).with_context(about)?).with_context(about)?;
        let messages = value["messages"].as_array();
        let Some(messages) = messages else { bail!("{} has no list of messages", path.display()) };
        let turns: Option<Vec<ChatTurn>> = messages.iter().map(turn).collect();
        let Some(mut turns) = turns else {
            bail!("{}: each message has a role (system, user or assistant) and a content", path.display())
        };
        let begins_with_system = turns.first().is_some_and(|turn| turn.role == ChatRole::System);
        let system = begins_with_system.then(|| turns.remove(0).content);
        Ok(Self { system, turns })
    }
}

fn message(turn: &ChatTurn) -> Value {
    let role = match turn.role {
        ChatRole::System => "system",
        ChatRole::User => "user",
        ChatRole::Assistant => "assistant",
        ChatRole::Tool => "tool",
    };
    let mut message = json!({ "role": role, "content": turn.content });
    if let Some(reasoning) = &turn.reasoning {
        message["reasoning_content"] = reasoning.as_str().into();
    }
    message
}

fn turn(message: &Value) -> Option<ChatTurn> {
    let role = match message["role"].as_str()? {
        "system" => ChatRole::System,
        "user" => ChatRole::User,
        "assistant" => ChatRole::Assistant,
        _ => return None,
    };
    let reasoning = message["reasoning_content"].as_str().map(str::to_owned);
    Some(ChatTurn { reasoning, ..ChatTurn::new(role, message["content"].as_str()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_loaded_again() {
        let path = std::env::temp_dir().join(format!("fanlight-chat-{}.json", std::process::id()));
        let said = ChatTurn { reasoning: Some("t".into()), ..ChatTurn::new(ChatRole::Assistant, "b\n\"c\"") };
        let turns = vec![ChatTurn::new(ChatRole::User, "a"), said];
        let mut conversation = Conversation { system: Some("s".into()), turns };
        conversation.save(&path).unwrap();
        assert_eq!(Conversation::load(&path).unwrap(), conversation);
        assert!(conversation.take_back());
        assert_eq!(conversation.turns.len(), 1);
        for text in
            ["", "[]", "{\"messages\":[{\"role\":\"robot\",\"content\":\"\"}]}", "{\"messages\":[{}]}"]
        {
            fs::write(&path, text).unwrap();
            assert!(Conversation::load(&path).is_err(), "{text}");
        }
        fs::remove_file(path).unwrap();
    }
}
