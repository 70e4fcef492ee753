//! The pager: reads model files, plans memory, brings weights to the device.

mod ahead;
mod cache;
mod feed;
mod inspect;
mod open;
mod place;
mod refusals;
mod shell;
mod site;

pub use inspect::{InspectRequest, Inspection, inspect, plan};
pub use open::{OpenedModel, open_model, read_header};
pub use place::{Placed, Placement, Site, place_model};
pub use shell::{PagerLinks, PagerMail, pager};
pub use site::OwnDevice;
