//! How much to submit at once: the plan of the next windows, from what the last ones cost. Pure; time comes
//! in as a number.

mod average;
mod window;

pub use average::DecayingAverage;
pub use window::WindowPlanner;
