//! `fanlight run --observe`: what telemetry keeps, a JSON line every now and then while a reply is generated.

use std::time::{Duration, Instant};

use anyhow::Result;

use fanlight_actors::engine::EngineHandle;
use fanlight_messages::wire::SnapshotWire;
use serde_json::json;

/// Between two lines: ten a second are as many as a person or a panel follows.
const INTERVAL: Duration = Duration::from_millis(100);

/// Prints snapshots to the standard error output, which leaves the reply alone on the standard one.
pub struct Observer {
    is_on: bool,
    last: Option<Instant>,
    /// The samples that no line has shown yet begin here.
    after: u64,
}

impl Observer {
    /// One that prints, or one that does nothing.
    pub fn new(is_on: bool) -> Self {
        Self { is_on, last: None, after: 0 }
    }

    /// Prints a snapshot when the last one is old enough, or `now` whatever its age.
    pub async fn look(&mut self, handle: &EngineHandle, now: bool) -> Result<()> {
        if !self.is_on || (!now && self.last.is_some_and(|last| last.elapsed() < INTERVAL)) {
            return Ok(());
        }
        self.last = Some(Instant::now());
        // Of the samples only what is new: a line is read beside those before it.
        let snapshot = SnapshotWire::from(&handle.snapshot(self.after).await?);
        self.after = snapshot.next;
        eprintln!("{}", json!({ "observed": snapshot }));
        Ok(())
    }
}
