//! What to submit next: how many steps a window has and how wide they are, from what windows cost and what
//! drafts were worth. Pure; time comes in as a number.

mod acceptance;
mod controller;
mod cost;
mod purse;

pub use acceptance::Judged;
pub use controller::Controller;
