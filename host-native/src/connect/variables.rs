//! The variables that other programs read, and how shells set them.

use super::ask::Served;

/// Milliseconds for which a program waits for a reply: a long prompt takes minutes on a small machine.
const PATIENCE_MS: &str = "1800000";

/// Names and values.
pub fn variables(url: &str, key: Option<&str>, served: &Served) -> Vec<(&'static str, String)> {
    // Programs want some key, whether the server does or not.
    let key = key.unwrap_or("none").to_owned();
    let openai = format!("{url}/v1");
    vec![
        ("OPENAI_BASE_URL", openai.clone()),
        ("OPENAI_API_BASE", openai),
        ("OPENAI_API_KEY", key.clone()),
        ("OPENAI_MODEL", served.model.clone()),
        ("ANTHROPIC_BASE_URL", url.to_owned()),
        ("ANTHROPIC_AUTH_TOKEN", key),
        ("ANTHROPIC_MODEL", served.model.clone()),
        ("OLLAMA_HOST", url.to_owned()),
        ("CLAUDE_CODE_MAX_CONTEXT_TOKENS", served.context_len.to_string()),
        ("CLAUDE_CODE_ATTRIBUTION_HEADER", "0".into()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
        ("API_TIMEOUT_MS", PATIENCE_MS.into()),
    ]
}

/// How a shell sets a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    Sh,
    PowerShell,
}

impl Shell {
    /// A line; the value is quoted so that nothing in it is read as a command.
    pub fn line(self, name: &str, value: &str) -> String {
        match self {
            Self::Sh => format!("export {name}='{}'\n", value.replace('\'', r"'\''")),
            Self::PowerShell => format!("$env:{name} = '{}'\n", value.replace('\'', "''")),
        }
    }
}

#[test]
fn values_are_quoted_for_each_shell() {
    assert_eq!(Shell::Sh.line("A", "x'$(rm)"), "export A='x'\\''$(rm)'\n");
    assert_eq!(Shell::PowerShell.line("A", "x'y"), "$env:A = 'x''y'\n");
}
