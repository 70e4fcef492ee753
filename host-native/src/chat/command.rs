//! What a line of a chat asks for. Pure.

use std::path::PathBuf;

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Something is said to the model.
    Say(String),
    /// The instructions are these from now on, or none.
    System(Option<String>),
    /// The conversation begins again.
    Clear,
    /// The last reply is given again.
    Again,
    /// The conversation is written to a file.
    Save(PathBuf),
    /// The conversation is read from a file.
    Load(PathBuf),
    /// Whether the model thinks before it answers.
    Think(bool),
    /// What the last reply took.
    Stats,
    /// The commands.
    Help,
    /// The end.
    Exit,
}

/// The commands, for people.
pub const HELP: &str = "\
/system TEXT   set the instructions, without TEXT drop them; the conversation goes on
/clear         begin a new conversation
/regen         give the last reply again
/save FILE     write the conversation to a file (JSON)
/load FILE     read a conversation from a file
/think on|off  let the model think before it answers, where it can
/stats         what the last reply took
/exit          end; so does Ctrl-D
A line that ends with \\ goes on in the next one. Text between \"\"\" and \"\"\" may have many lines.
Ctrl-C stops a reply.
";

/// What a line, or several that belong together, asks for; nothing for an empty one.
pub fn parse(text: &str) -> Result<Option<Input>, String> {
    let text = text.trim();
    let Some(command) = text.strip_prefix('/') else {
        return Ok((!text.is_empty()).then(|| Input::Say(text.to_owned())));
    };
    let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let argument = argument.trim();
    let file = || match argument {
        "" => Err(format!("/{name} needs a file: /{name} chat.json")),
        path => Ok(PathBuf::from(path)),
    };
    let input = match name {
        "system" => Input::System((!argument.is_empty()).then(|| argument.to_owned())),
        "save" => Input::Save(file()?),
        "load" => Input::Load(file()?),
        "think" => match argument {
            "on" => Input::Think(true),
            "off" => Input::Think(false),
            _ => return Err("/think needs on or off".into()),
        },
        _ if !argument.is_empty() => return Err(unknown(name)),
        "clear" => Input::Clear,
        "regen" => Input::Again,
        "stats" => Input::Stats,
        "help" | "?" => Input::Help,
        "exit" | "quit" | "bye" => Input::Exit,
        _ => return Err(unknown(name)),
    };
    Ok(Some(input))
}

fn unknown(name: &str) -> String {
    format!("/{name} is not a command: /help lists them; to say it to the model, put a space before it")
}

/// Lines that belong together, as they are entered.
#[derive(Debug, Default)]
pub struct Lines {
    text: String,
    is_quoted: bool,
}

/// Begins and ends a text of many lines.
const QUOTES: &str = "\"\"\"";

impl Lines {
    /// Adds a line; returns the whole when it is complete.
    pub fn push(&mut self, line: &str) -> Option<String> {
        if self.is_quoted {
            match line.trim_end().strip_suffix(QUOTES) {
                Some(last) => {
                    self.text.push_str(last);
                    return Some(std::mem::take(self).text);
                }
                None => self.text.push_str(line),
            }
            self.text.push('\n');
            return None;
        }
        if self.text.is_empty()
            && let Some(first) = line.trim_start().strip_prefix(QUOTES)
        {
            if let Some(only) = first.trim_end().strip_suffix(QUOTES) {
                return Some(only.to_owned());
            }
            self.is_quoted = true;
            if !first.is_empty() {
                self.text.push_str(first);
                self.text.push('\n');
            }
            return None;
        }
        match line.strip_suffix('\\') {
            Some(more) => {
                self.text.push_str(more);
                self.text.push('\n');
                None
            }
            None => {
                self.text.push_str(line);
                Some(std::mem::take(self).text)
            }
        }
    }

    /// Whether a line that follows belongs to what is there.
    pub fn is_open(&self) -> bool {
        self.is_quoted || !self.text.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_what_is_said() {
        assert_eq!(parse("  "), Ok(None));
        assert_eq!(parse(" hi /clear "), Ok(Some(Input::Say("hi /clear".into()))));
        assert_eq!(parse("/system Be brief."), Ok(Some(Input::System(Some("Be brief.".into())))));
        assert_eq!(parse("/system"), Ok(Some(Input::System(None))));
        assert_eq!(parse("/save my chat.json"), Ok(Some(Input::Save("my chat.json".into()))));
        assert_eq!(parse("/think off"), Ok(Some(Input::Think(false))));
        assert_eq!(parse("/regen"), Ok(Some(Input::Again)));
        for wrong in ["/save", "/think maybe", "/cleer", "/clear all"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lines_go_on_behind_a_backslash_and_between_quotes() {
        let mut lines = Lines::default();
        assert_eq!(lines.push("a\\"), None);
        assert!(lines.is_open());
        assert_eq!(lines.push("b"), Some("a\nb".into()));
        assert!(!lines.is_open());
        assert_eq!(lines.push("\"\"\"a"), None);
        assert_eq!(lines.push("  b\\"), None);
        assert_eq!(lines.push("c\"\"\""), Some("a\n  b\\\nc".into()));
        assert_eq!(lines.push("\"\"\"one\"\"\""), Some("one".into()));
        assert_eq!(lines.push("plain"), Some("plain".into()));
    }
}
