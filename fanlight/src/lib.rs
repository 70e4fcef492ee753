//! What hosts open: the machine's GPU or its processor, behind one back end.

mod device;

pub use device::{AnyBackend, AnyModel, DeviceChoice, OpenedDevice};
pub use fanlight_cpu::threads_default;
