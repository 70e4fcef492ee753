//! What is said to the model: an argument, a file, or the standard input.

use std::fs::File;
use std::io::{IsTerminal, Read, stdin};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use fanlight_messages::limits::MESSAGE_CHARS_MAX;

use crate::options::RunOptions;

/// Longest text: four bytes for each character of the longest message.
const TEXT_BYTES_MAX: u64 = 4 * MESSAGE_CHARS_MAX;

/// The prompt, and behind it the text of a file where both are given.
pub fn message(options: &RunOptions) -> Result<String> {
    let is_dash = |path: &Path| path == Path::new("-");
    match (options.prompt.as_deref(), options.file.as_deref()) {
        (Some("-"), Some(path)) if is_dash(path) => {
            bail!("the standard input can be read once: give - to --prompt or to --file, not to both")
        }
        (prompt, file) => {
            let prompt = match prompt {
                Some("-") => Some(standard_input()?),
                Some(text) => Some(text.to_owned()),
                None => None,
            };
            let file = match file {
                Some(path) if is_dash(path) => Some(standard_input()?),
                Some(path) => Some(read_file(path)?),
                None => None,
            };
            match (prompt, file) {
                (Some(prompt), Some(file)) => Ok(format!("{prompt}\n\n{file}")),
                (Some(text), None) | (None, Some(text)) => Ok(text),
                (None, None) if stdin().is_terminal() => {
                    bail!("there is nothing to say: give --prompt TEXT or --file FILE, or pipe text in")
                }
                (None, None) => standard_input(),
            }
        }
    }
}

fn standard_input() -> Result<String> {
    text_of(stdin().lock(), "the standard input")
}

fn read_file(path: &Path) -> Result<String> {
    let name = path.display().to_string();
    text_of(File::open(path).with_context(|| name.clone())?, &name)
}

/// A whole text without the line break at its end, which tools and editors put there.
fn text_of(from: impl Read, name: &str) -> Result<String> {
    let mut bytes = Vec::new();
    from.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(|| name.to_owned())?;
    ensure!(
        bytes.len() as u64 <= TEXT_BYTES_MAX,
        "{name} holds more than {TEXT_BYTES_MAX} bytes: shorten it"
    );
    let mut text = String::from_utf8(bytes).with_context(|| format!("{name} is not UTF-8 text"))?;
    let end = text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text).len());
    text.truncate(end.unwrap_or(text.len()));
    ensure!(!text.is_empty(), "{name} is empty: there is nothing to say to the model");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l02_a_text_is_read_whole_and_refused_by_what_is_wrong_with_it() {
        assert_eq!(text_of(&b"one\ntwo\r\n"[..], "x").unwrap(), "one\ntwo");
        assert_eq!(text_of(&b"one\n\n"[..], "x").unwrap(), "one\n");
        for (bytes, wanted) in [(&b""[..], "is empty"), (b"\n", "is empty"), (b"a\xFF", "is not UTF-8")] {
            let error = format!("{:#}", text_of(bytes, "the input").unwrap_err());
            assert!(error.contains("the input") && error.contains(wanted), "{error}");
        }
        let endless = std::io::repeat(b'x');
        assert!(text_of(endless, "x").unwrap_err().to_string().contains("more than"));
    }
}
