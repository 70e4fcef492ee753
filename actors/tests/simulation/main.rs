//! The whole engine on a device of paper: seeded, deterministic, with a virtual clock and injected faults.

mod busy;
mod calibrate;
mod calls;
mod cancel;
mod device;
mod faults;
mod hanging;
mod load;
mod quarantine;
mod reply;
mod rig;
mod ring;
mod slow;
mod stages;
mod state;
mod streaming;
mod submitter;
mod telemetry;
