//! What lies on the GPU: the byte-exact memory plan, the ledger that enforces it and the table that shows it.
//!
//! Pure arithmetic over a `Program`: no file is read, nothing is allocated and nothing waits here.

mod error;
mod frame;
mod ledger;
mod pages;
mod processor;
mod residency;
mod stretches;
mod table;
mod uploads;

pub use error::{LedgerError, PlanError};
pub use ledger::Ledger;
pub use processor::plan_processor;
pub use residency::{plan_minimum, plan_resident, plan_within};
pub use stretches::{Stretch, join_uploads};
pub use table::PlanTable;
pub use uploads::{RowPlaces, Upload, UploadTarget, plan_pass, plan_uploads};
