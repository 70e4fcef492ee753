//! `fanlight serve`: a model behind the protocols that other programs speak.
//!
//! ```text
//! client ── HTTP ──> [thread "http": guard, routes, dialects] ── Errand ──> [this thread: desk, engine]
//!                                      │  <──────────────── ReplyEvent ───────────┘
//! ```

mod body;
mod chance;
mod desk;
mod facts;
mod guard;
mod job;
mod line;
mod listen;
mod options;
mod patient;
mod reply;
mod routes;

pub use options::ServeOptions;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock};

use anyhow::{Context, Result, bail};
use futures::future::{Either, select};
use futures::pin_mut;
use tokio::sync::mpsc;

use fanlight_actors::kit::World;

use crate::report;
use crate::start::Start;
use crate::stop::{INTERRUPTED, Interrupts};
use desk::Desk;
use guard::{Guard, key_hash};
use job::ERRANDS;
use routes::Server;

/// Bytes of a key's file: what is longer is another file.
const KEY_BYTES_MAX: u64 = 4096;

/// Runs the command, until it is interrupted.
pub fn serve(options: &ServeOptions) -> Result<ExitCode> {
    let key = key_of(options.key.as_deref(), options.key_file.as_deref())?;
    let is_open = options.host.is_some_and(|host| !host.is_loopback());
    if is_open && key.is_none() {
        bail!(
            "--host {} lets others in: give them a key with --key-file, or leave --host out",
            address(options)
        );
    }
    let listeners = listen::bind(options.host, options.port)?;
    let port = listeners[0].local_addr().context("the socket has no address")?.port();
    let guard = Guard {
        port,
        hosts: options.allow_host.iter().cloned().chain(options.host.map(|host| host.to_string())).collect(),
        any_address: is_open,
        origins: options.allow_origin.clone(),
        key: key.as_deref().map(key_hash),
        tries: Mutex::new(None),
    };
    let (errands, received) = mpsc::channel(ERRANDS);
    let (strict_model, logs) = (options.strict_model, options.log_requests);
    let server = Arc::new(Server { guard, model: OnceLock::new(), strict_model, logs, errands });
    let urls = urls(&listeners);
    // From here on clients hear that the model is loading.
    listen::spawn(listeners, server.clone())?;
    World::run(|world, _| async move {
        let mut interrupts = Interrupts::listen()?;
        let mut model = facts::facts(options).await?;
        let start = Start {
            model: &options.model,
            context: options.context,
            kv: options.kv,
            budget: &options.budget,
        };
        let Some((handle, loaded)) = start.load(&world, &mut interrupts).await? else {
            return Ok(ExitCode::from(INTERRUPTED));
        };
        facts::complete(&mut model, &loaded);
        eprintln!("fanlight: serving {} with a context of {} tokens", model.id, model.context_len);
        let lines: String = urls.iter().map(|url| format!("{url}\n")).collect();
        report::print_text(&lines);
        let _ = server.model.set(model);
        drop(server);

        let desk = Desk::new(handle, &loaded);
        let (errands, replies) = (desk.errands(received), desk.replies());
        let work = select(Box::pin(errands), Box::pin(replies));
        let interrupted = interrupts.next();
        pin_mut!(interrupted);
        match select(work, interrupted).await {
            Either::Left(_) => bail!("the server's thread has ended: start it again"),
            Either::Right(_) => Ok(ExitCode::from(INTERRUPTED)),
        }
    })
}

/// The key, from wherever it is given.
pub fn key_of(key: Option<&str>, file: Option<&Path>) -> Result<Option<String>> {
    let key = match (key, file) {
        (Some(key), _) => Some(key.to_owned()),
        (None, Some(path)) => {
            let about = || format!("the key file {}", path.display());
            if fs::metadata(path).with_context(about)?.len() > KEY_BYTES_MAX {
                bail!("{} has more than {KEY_BYTES_MAX} bytes: it holds no key", path.display());
            }
            Some(fs::read_to_string(path).with_context(about)?.trim().to_owned())
        }
        (None, None) => std::env::var("FANLIGHT_KEY").ok(),
    };
    match key {
        Some(key) if key.is_empty() || key.contains(char::is_whitespace) => {
            bail!("the key is empty or has a space in it: give letters, digits and signs")
        }
        key => Ok(key),
    }
}

fn address(options: &ServeOptions) -> String {
    options.host.map_or_else(String::new, |host| host.to_string())
}

fn urls(listeners: &[TcpListener]) -> Vec<String> {
    let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok());
    addresses.map(|address| format!("http://{address}")).collect()
}
