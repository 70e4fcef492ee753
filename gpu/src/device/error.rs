//! What can go wrong between us and the GPU.

use fanlight_messages::error::DeviceError;
use fanlight_messages::plan::BufferOwner;

/// Failures of the device or of what we ask of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// No adapter answers.
    #[error(
        "no GPU adapter with WebGPU support was found ({reason}); install a Vulkan, Metal or DX12 driver, \
         or use a browser with WebGPU"
    )]
    NoAdapter {
        /// What the system said.
        reason: String,
    },
    /// The adapter gives no device.
    #[error("the adapter {adapter} gave no device: {reason}")]
    NoDevice {
        /// Its name.
        adapter: String,
        /// What the system said.
        reason: String,
    },
    /// An allocation was refused.
    #[error("the device refused {wanted_bytes} bytes for {owner} while holding {held_bytes}: {reason}")]
    OutOfMemory {
        /// What it was for.
        owner: String,
        /// Bytes asked for.
        wanted_bytes: u64,
        /// Bytes already held by the engine.
        held_bytes: u64,
        /// What the device said.
        reason: String,
    },
    /// A shader or pipeline was refused.
    #[error("the device refused kernel {kernel}: {reason}")]
    Kernel {
        /// Its name.
        kernel: String,
        /// What the compiler said.
        reason: String,
    },
    /// Validation failed: a bug of ours or a limit we did not respect.
    #[error("the device refused a command: {reason}")]
    Validation {
        /// What the device said.
        reason: String,
    },
    /// The device is gone.
    #[error("the GPU device was lost ({reason})")]
    Lost {
        /// What the system said.
        reason: String,
    },
    /// The plan and the program do not belong together.
    #[error("the plan has no buffer for {owner:?}")]
    MissingBuffer {
        /// What is missing.
        owner: BufferOwner,
    },
    /// What only a mistake in the engine can bring about.
    #[error("the engine contradicts itself: {0}; please report it")]
    Bug(&'static str),
    /// A request that needs all weights at once, of a model that streams them.
    #[error("{wanted} needs all weights on the device, and this model streams them: choose a larger budget")]
    Streams {
        /// What was asked for.
        wanted: &'static str,
    },
    /// An upload does not fit its matrix or the landing buffer.
    #[error("upload to {matrix}: {wanted}")]
    Upload {
        /// Matrix or vector name.
        matrix: String,
        /// What was wanted and what was there.
        wanted: String,
    },
    /// More tokens than the buffers hold.
    #[error("a batch of {wanted} tokens was asked for, the plan holds {limit}")]
    BatchTooLarge {
        /// Tokens asked for.
        wanted: usize,
        /// Tokens planned.
        limit: usize,
    },
    /// Every readback slot is in use: more windows in flight than planned.
    #[error("all {slots} readback slots are in flight; await a window before submitting another")]
    NoReadbackSlot {
        /// Slots that exist.
        slots: usize,
    },
    /// A kernel gives wrong or unequal results on this device.
    #[error("kernel {kernel} failed its self-test on this device: {reason}")]
    SelfTest {
        /// Its name.
        kernel: String,
        /// What differed.
        reason: String,
    },
}

/// What goes wrong leaves this room with what was being done.
pub(crate) trait During<T> {
    /// Sorts the error by what a host can do about it.
    fn during(self, phase: &str) -> Result<T, DeviceError>;
}

impl<T> During<T> for Result<T, GpuError> {
    fn during(self, phase: &str) -> Result<T, DeviceError> {
        self.map_err(|error| match error {
            GpuError::NoAdapter { .. } | GpuError::NoDevice { .. } => {
                DeviceError::Unavailable { reason: error.to_string() }
            }
            GpuError::Lost { reason } => DeviceError::Lost { reason },
            GpuError::OutOfMemory { .. } => DeviceError::OutOfMemory { phase: format!("{phase}: {error}") },
            other => DeviceError::Refused { phase: phase.to_owned(), reason: other.to_string() },
        })
    }
}
