//! The submitter: sole owner of the device; prompt batches and windows, two in flight, or passes one by one
//! where weights stream.

mod core;
mod gap;
mod mail;
mod pace;
mod prompt_pace;
mod run;
mod shell;
mod streamed;
mod widths;

pub use core::{Done, RunCore, Submission};
pub use gap::Gaps;
pub use mail::{SubmitterLinks, SubmitterMail};
pub use shell::submitter;
