//! What was measured, bounded: histograms, the last samples and counts of what was dropped. Pure; nothing
//! leaves the device unless a host exports a snapshot.

mod histogram;
mod recorder;
mod trace;

pub use histogram::Histogram;
pub use recorder::Recorder;
pub use trace::TraceRing;
