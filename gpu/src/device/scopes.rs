//! Error scopes: what a device has against the commands between push and pop.

use super::GpuError;

/// Scopes of every kind, around commands that may fail. They are declared in the order in which they must be
/// popped, also when they are dropped: the last pushed goes first.
#[derive(Debug)]
pub(crate) struct Scopes {
    validation: wgpu::ErrorScopeGuard,
    internal: wgpu::ErrorScopeGuard,
    memory: wgpu::ErrorScopeGuard,
}

/// What was raised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Raised {
    /// There is no memory left.
    OutOfMemory(String),
    /// A command breaks a rule, or the driver cannot do it.
    Refused(String),
}

impl Scopes {
    /// From here on errors go to [`pop`](Self::pop) and nowhere else.
    pub(crate) fn push(device: &wgpu::Device) -> Self {
        let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let internal = device.push_error_scope(wgpu::ErrorFilter::Internal);
        let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
        Self { validation, internal, memory }
    }

    /// The first error, if there was one.
    pub(crate) async fn pop(self) -> Option<Raised> {
        // All are popped before any is awaited: others may push meanwhile.
        let (validation, internal, memory) = (self.validation.pop(), self.internal.pop(), self.memory.pop());
        let (validation, internal, memory) = (validation.await, internal.await, memory.await);
        let refused = validation.or(internal).map(|error| Raised::Refused(error.to_string()));
        refused.or_else(|| memory.map(|error| Raised::OutOfMemory(error.to_string())))
    }

    /// The same as an error of commands that take no memory worth a smaller plan.
    pub(crate) async fn check(self) -> Result<(), GpuError> {
        match self.pop().await {
            None => Ok(()),
            Some(Raised::OutOfMemory(reason) | Raised::Refused(reason)) => {
                Err(GpuError::Validation { reason })
            }
        }
    }
}
