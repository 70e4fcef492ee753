//! The telemetry actor: keeps samples, answers with snapshots.

use std::cell::Cell;
use std::rc::Rc;

use fanlight_messages::limits::{SAMPLES, SAMPLES_CONTROL};
use fanlight_messages::protocol::telemetry::{Facts, RecordDrafts, RecordSample, TakeSnapshot};
use fanlight_telemetry::Recorder;

use crate::kit::{Addr, Capacities, Clock, Latch, Mailbox, World, mail};

mail! {
    /// What telemetry is asked and told.
    pub enum TelemetryMail {
        asked {
            /// See [`TakeSnapshot`].
            Snapshot(TakeSnapshot),
        }
        told {
            /// A sample.
            Record(RecordSample) in Inbox,
            /// See [`RecordDrafts`].
            Drafts(RecordDrafts) in Inbox,
        }
    }
}

/// Where samples go: a clone for everyone who measures.
#[derive(Clone)]
pub struct TelemetryLink {
    addr: Addr<TelemetryMail>,
    dropped: Rc<Cell<u64>>,
    facts: Latch<Facts>,
    clock: Clock,
}

impl TelemetryLink {
    /// Starts the actor.
    pub fn start(world: &World, clock: Clock) -> Self {
        let dropped = Rc::new(Cell::new(0));
        let counter = dropped.clone();
        let capacities = Capacities { control: SAMPLES_CONTROL, inbox: SAMPLES };
        let time = clock.clone();
        let addr = world.spawn("telemetry", capacities, |mailbox| telemetry(mailbox, time, counter));
        Self { addr, dropped, facts: Latch::new(Facts::default()), clock }
    }

    /// Records a sample; when the queue is full it is dropped and counted.
    pub fn record(&self, sample: RecordSample) {
        if !self.addr.try_tell(TelemetryMail::Record(sample)) {
            self.dropped.set(self.dropped.get() + 1);
        }
    }

    /// Records what drafts were worth, like [`record`](Self::record).
    pub fn record_drafts(&self, drafts: RecordDrafts) {
        if !self.addr.try_tell(TelemetryMail::Drafts(drafts)) {
            self.dropped.set(self.dropped.get() + 1);
        }
    }

    /// What computes, and what is loaded on it: a state that a full queue does not lose.
    pub fn facts(&self) -> Facts {
        self.facts.get()
    }

    /// Some of that has changed.
    pub fn change_facts(&self, change: impl FnOnce(&mut Facts)) {
        let mut facts = self.facts.get();
        change(&mut facts);
        self.facts.set(facts);
    }

    /// The time that samples are told in.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// For questions.
    pub fn addr(&self) -> &Addr<TelemetryMail> {
        &self.addr
    }
}

async fn telemetry(
    mut mailbox: Mailbox<TelemetryMail>,
    clock: Clock,
    dropped: Rc<Cell<u64>>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut recorder = Recorder::default();
    while let Some(mail) = mailbox.next().await {
        match mail {
            TelemetryMail::Record(sample) => recorder.record(clock.now_us(), sample),
            TelemetryMail::Drafts(RecordDrafts(drafts)) => recorder.record_drafts(&drafts),
            TelemetryMail::Snapshot(asked) => {
                let taken = recorder.snapshot(asked.request, clock.now_us(), dropped.get());
                asked.reply.send(taken);
            }
        }
    }
    Ok(())
}
