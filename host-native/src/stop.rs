//! Ctrl-C: the first one stops the reply cleanly, the second one the process.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use futures::StreamExt;
use futures::channel::mpsc;

/// What a shell expects of a process that was interrupted.
pub const INTERRUPTED: u8 = 130;

/// Hears of Ctrl-C.
pub struct Interrupts(mpsc::Receiver<()>);

impl Interrupts {
    /// Takes over Ctrl-C; once per process.
    pub fn listen() -> Result<Self> {
        let (sender, receiver) = mpsc::channel(1);
        let sender = Mutex::new(sender);
        let was_pressed = AtomicBool::new(false);
        ctrlc::set_handler(move || {
            if was_pressed.swap(true, Ordering::SeqCst) {
                std::process::exit(INTERRUPTED.into());
            }
            if let Ok(mut sender) = sender.lock() {
                // Full means that one is waiting already.
                let _ = sender.try_send(());
            }
        })
        .context("cannot listen for Ctrl-C")?;
        Ok(Self(receiver))
    }

    /// Resolves at the first Ctrl-C.
    pub async fn next(&mut self) {
        if self.0.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
