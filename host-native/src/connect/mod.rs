//! `fanlight connect`: what other programs must know of a server, printed for a shell or given to a command.

mod ask;
mod variables;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::report::print_text;
use crate::serve::key_of;
use ask::ask;
use variables::{Shell, variables};

/// Which server, and for whom.
#[derive(Debug, Args)]
pub struct ConnectOptions {
    /// The server.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8787")]
    pub url: String,
    /// Its key [default: FANLIGHT_KEY of the environment, or none].
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// For which shell the variables are printed.
    #[arg(long, value_enum, default_value_t = ShellName::Sh)]
    pub shell: ShellName,
    /// Start this command with the variables instead of printing them.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Shells by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ShellName {
    /// Sh, bash, zsh.
    Sh,
    /// PowerShell.
    Powershell,
}

/// Runs the command.
pub fn connect(options: &ConnectOptions) -> Result<ExitCode> {
    let url = options.url.trim_end_matches('/');
    let key = key_of(options.key.as_deref(), None)?;
    let served = ask(url, key.as_deref())?;
    let variables = variables(url, key.as_deref(), &served);
    let Some((program, arguments)) = options.command.split_first() else {
        let shell = match options.shell {
            ShellName::Sh => Shell::Sh,
            ShellName::Powershell => Shell::PowerShell,
        };
        let lines: String = variables.iter().map(|(name, value)| shell.line(name, value)).collect();
        print_text(&lines);
        return Ok(ExitCode::SUCCESS);
    };
    let status = Command::new(program).args(arguments).envs(variables).status();
    let status = status.with_context(|| format!("cannot start {program}"))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
