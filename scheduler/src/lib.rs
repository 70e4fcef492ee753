//! What to submit next: how many steps a window has and how wide they are, from what windows cost and what
//! drafts were worth. Pure; time comes in as a number.

mod acceptance;
mod controller;
mod cost;
mod history;
mod purse;
mod record;

pub use controller::Controller;
pub use record::record_name;
