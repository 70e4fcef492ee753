//! The whole engine on a device of paper: seeded, deterministic, with a virtual clock and injected faults.

mod busy;
mod calibrate;
mod cancel;
mod device;
mod faults;
mod load;
mod quarantine;
mod reply;
mod rig;
mod ring;
mod slow;
mod state;
mod streaming;
mod submitter;
mod telemetry;
