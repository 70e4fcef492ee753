//! The submitter: sole owner of the device; prompt batches and windows, two in flight.

mod core;
mod run;
mod shell;

pub use core::{Done, RunCore, Submission};
pub use shell::{SubmitterLinks, SubmitterMail, submitter};
