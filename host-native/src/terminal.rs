//! Text that a file or a model supplies, on its way to a person's terminal.

use std::borrow::Cow;
use std::io::{IsTerminal, stderr, stdout};

/// Whether the answer goes to a terminal.
pub fn shows_answer() -> bool {
    stdout().is_terminal()
}

/// Whether notes go to a terminal.
pub fn shows_notes() -> bool {
    stderr().is_terminal()
}

/// The text with every character that could command a terminal written out; line breaks and tabs stay.
pub fn plain(text: &str) -> Cow<'_, str> {
    let commands = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || is_invisible(c);
    if !text.contains(commands) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match commands(character) {
            true => shown.extend(character.escape_unicode()),
            false => shown.push(character),
        }
    }
    shown.into()
}

/// Characters that change the direction of what follows, so that text reads as what it is not.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// The text in a fainter colour where a terminal shows it and colours are wanted.
pub fn faint(text: &str) -> String {
    let text = plain(text);
    let wants_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if shows_notes() && wants_colour { format!("\x1b[2m{text}\x1b[0m") } else { text.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l09_nothing_that_commands_a_terminal_gets_through() {
        assert_eq!(plain("good\u{1b}]0;PWNED\u{7}\u{9b}2J"), "good\\u{1b}]0;PWNED\\u{7}\\u{9b}2J");
        assert_eq!(plain("a\r\u{8}b\u{202e}c\u{7f}"), "a\\u{d}\\u{8}b\\u{202e}c\\u{7f}");
        let usual = "Ünïcödé 🦙 \u{200d}\u{fe0f}\tand\nlines";
        assert!(matches!(plain(usual), Cow::Borrowed(text) if text == usual));
    }
}
