//! What lies on the GPU: the byte-exact memory plan, the ledger that enforces it and the table that shows it.
//!
//! Pure arithmetic over a `Program`: no file is read, nothing is allocated and nothing waits here.

mod error;
mod ledger;
mod pages;
mod resident;
mod stretches;
mod table;
mod uploads;

pub use error::{LedgerError, PlanError};
pub use ledger::Ledger;
pub use resident::plan_resident;
pub use stretches::{Stretch, join_uploads};
pub use table::PlanTable;
pub use uploads::{Upload, UploadTarget, plan_uploads};
