//! The pager: reads model files, plans memory, brings weights to the device.

mod ahead;
mod cache;
mod feed;
mod inspect;
mod open;
mod place;
mod refusals;
mod shell;

pub use inspect::{InspectRequest, Inspection, inspect};
pub use open::{model_program, read_header};
pub use shell::{PagerLinks, PagerMail, pager};
