//! Ctrl-C: the first one stops the reply cleanly, the second one the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use futures::StreamExt;
use futures::channel::mpsc;

/// What a shell expects of a process that was interrupted.
pub const INTERRUPTED: u8 = 130;

/// Hears of Ctrl-C.
pub struct Interrupts {
    pressed: mpsc::Receiver<()>,
    /// Whether it was pressed once already.
    was_pressed: Arc<AtomicBool>,
}

impl Interrupts {
    /// Takes over Ctrl-C; once per process.
    pub fn listen() -> Result<Self> {
        let (sender, receiver) = mpsc::channel(1);
        let sender = Mutex::new(sender);
        let was_pressed = Arc::new(AtomicBool::new(false));
        let is_second = was_pressed.clone();
        ctrlc::set_handler(move || {
            if is_second.swap(true, Ordering::SeqCst) {
                std::process::exit(INTERRUPTED.into());
            }
            if let Ok(mut sender) = sender.lock() {
                // Full means that one is waiting already.
                let _ = sender.try_send(());
            }
        })
        .context("cannot listen for Ctrl-C")?;
        Ok(Self { pressed: receiver, was_pressed })
    }

    /// What was pressed so far is over: the next one counts as the first.
    pub fn forget(&mut self) {
        while self.pressed.try_recv().is_ok() {}
        self.was_pressed.store(false, Ordering::SeqCst);
    }

    /// Resolves at the first Ctrl-C.
    pub async fn next(&mut self) {
        if self.pressed.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
