//! Bytes of a buffer on their way to the host.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::channel::oneshot;

use super::{Device, GpuError};

/// Resolves to the words of a buffer whose map was requested. Whoever drops it, at any time, leaves the
/// buffer unmapped, so that it can be copied to again.
pub(crate) struct Readback {
    device: Device,
    buffer: wgpu::Buffer,
    mapped: oneshot::Receiver<Result<(), wgpu::BufferAsyncError>>,
    /// The map was requested and not taken back.
    is_mapping: bool,
}

impl Readback {
    /// Maps `buffer` once everything submitted up to `index` has finished.
    pub(super) fn start(device: &Device, buffer: &wgpu::Buffer, index: wgpu::SubmissionIndex) -> Self {
        let (sender, mapped) = oneshot::channel();
        buffer.map_async(wgpu::MapMode::Read, .., move |result| {
            // A reader that left wants no words.
            let _ = sender.send(result);
        });
        device.driver.kick(index);
        Self { device: device.clone(), buffer: buffer.clone(), mapped, is_mapping: true }
    }

    fn words(&mut self) -> Result<Vec<u32>, GpuError> {
        let lost = |reason: String| GpuError::Lost { reason };
        let view = self.buffer.get_mapped_range(..).map_err(|error| lost(error.to_string()))?;
        Ok(bytemuck::pod_collect_to_vec(&view))
    }
}

impl Future for Readback {
    type Output = Result<Vec<u32>, GpuError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let lost = |reason: String| GpuError::Lost { reason };
        let mapped = match ready!(self.mapped.poll_unpin(context)) {
            Ok(mapped) => mapped.map_err(|error| lost(error.to_string())),
            Err(oneshot::Canceled) => Err(lost("the map was dropped".into())),
        };
        self.is_mapping = mapped.is_ok();
        // Why the device is gone says more than that a map failed.
        self.device.health()?;
        mapped?;
        let words = self.words();
        self.buffer.unmap();
        self.is_mapping = false;
        Poll::Ready(words)
    }
}

impl Drop for Readback {
    fn drop(&mut self) {
        // A map that failed left nothing to take back.
        let has_failed = matches!(self.mapped.try_recv(), Ok(Some(Err(_))));
        if self.is_mapping && !has_failed {
            self.buffer.unmap();
        }
    }
}
