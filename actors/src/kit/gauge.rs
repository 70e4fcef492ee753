//! What telemetry sees of an actor without asking it: how full its mailbox is, and what last failed in it.

use std::cell::{Cell, RefCell};
use std::fmt::{Display, Write};
use std::rc::Rc;

use fanlight_messages::limits::ERROR_CHARS;
use fanlight_messages::protocol::Lane;
use fanlight_messages::protocol::telemetry::{ActorState, LaneState};

use super::mailbox::Capacities;
use super::queue::Counts;

/// A view of an actor; clones see the same one.
#[derive(Debug, Clone)]
pub struct Gauge(Rc<Seen>);

#[derive(Debug)]
struct Seen {
    name: &'static str,
    control: SeenLane,
    inbox: SeenLane,
    last_error: RefCell<String>,
}

#[derive(Debug)]
struct SeenLane {
    capacity: usize,
    counts: Rc<Counts>,
    drops: Cell<u64>,
}

impl SeenLane {
    fn new(capacity: usize, counts: Rc<Counts>) -> Self {
        Self { capacity, counts, drops: Cell::new(0) }
    }

    fn state(&self) -> LaneState {
        LaneState {
            capacity: self.capacity as u64,
            depth: self.counts.depth.get() as u64,
            depth_max: self.counts.depth_max.get() as u64,
            waits: self.counts.waits.get(),
            drops: self.drops.get(),
        }
    }
}

impl Gauge {
    pub(super) fn new(name: &'static str, capacities: Capacities, counts: [Rc<Counts>; 2]) -> Self {
        let [control, inbox] = counts;
        let control = SeenLane::new(capacities.control, control);
        let inbox = SeenLane::new(capacities.inbox, inbox);
        Self(Rc::new(Seen { name, control, inbox, last_error: RefCell::default() }))
    }

    /// The actor's name.
    pub(super) fn name(&self) -> &'static str {
        self.0.name
    }

    /// The actor as it stands.
    pub fn state(&self) -> ActorState {
        ActorState {
            name: self.0.name,
            control: self.0.control.state(),
            inbox: self.0.inbox.state(),
            last_error: self.0.last_error.borrow().clone(),
        }
    }

    /// A message was dropped.
    pub(super) fn drop_one(&self, lane: Lane) {
        let lane = match lane {
            Lane::Control => &self.0.control,
            Lane::Inbox => &self.0.inbox,
        };
        lane.drops.set(lane.drops.get() + 1);
    }

    /// Something failed.
    pub(super) fn fail(&self, error: &dyn Display) {
        let mut cut = Cut { text: String::new(), chars_left: ERROR_CHARS };
        // It ends early where the text is longer than what is kept.
        let _ = write!(cut, "{error}");
        *self.0.last_error.borrow_mut() = cut.text;
    }
}

/// Takes so many characters of a text and no more.
struct Cut {
    text: String,
    chars_left: usize,
}

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for character in text.chars() {
            self.chars_left = self.chars_left.checked_sub(1).ok_or(std::fmt::Error)?;
            self.text.push(character);
        }
        Ok(())
    }
}
