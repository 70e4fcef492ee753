//! A weight's way: file bytes → landing buffer → repack kernel → resident planes.

use std::collections::VecDeque;
use std::ops::Range;

use fanlight_messages::layout::SlabLayout;
use fanlight_messages::plan::{BufferOwner, GpuPlan};
use fanlight_messages::program::{MatrixId, MatrixSpec, Program};
use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::buffers::{Buffers, PagePlace};
use super::params::Recorded;
use crate::device::{Device, GpuError};
use crate::kernels::{Kernel, repack};
use crate::pipelines::Pipelines;

/// Uploads that may be under way, however small: enough that none waits for a small one before it, few enough
/// that their callbacks are nothing.
const UPLOADS_IN_FLIGHT: usize = 64;

/// An upload whose bytes the queue may still hold.
struct InFlight {
    bytes: u64,
    finished: LocalBoxFuture<'static, Result<(), GpuError>>,
}

/// Uploads not known to have finished. The queue keeps their bytes, which the plan counts as staging.
pub(super) struct Uploads {
    in_flight: VecDeque<InFlight>,
    record: Recorded<repack::Params>,
}

impl std::fmt::Debug for Uploads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uploads").field("in_flight", &self.in_flight.len()).finish_non_exhaustive()
    }
}

/// What an upload needs at hand.
#[derive(Clone, Copy)]
pub(super) struct UploadTarget<'a> {
    pub(super) device: &'a Device,
    pub(super) program: &'a Program,
    pub(super) plan: &'a GpuPlan,
    pub(super) buffers: &'a Buffers,
    pub(super) pipelines: &'a Pipelines,
}

impl Uploads {
    /// `record` is the one that repack dispatches share.
    pub(super) fn new(record: Recorded<repack::Params>) -> Self {
        Self { in_flight: VecDeque::new(), record }
    }

    /// Waits until everything uploaded so far is in place.
    pub(super) async fn finish(&mut self) -> Result<(), GpuError> {
        while let Some(oldest) = self.in_flight.pop_front() {
            oldest.finished.await?;
        }
        Ok(())
    }

    /// Waits until the queue has room for `bytes` in `staging_bytes`: at most until it holds nothing.
    async fn make_room(&mut self, bytes: u64, staging_bytes: u64) -> Result<(), GpuError> {
        let held = |uploads: &Self| uploads.in_flight.iter().map(|upload| upload.bytes).sum::<u64>();
        while self.in_flight.len() >= UPLOADS_IN_FLIGHT || held(self) + bytes > staging_bytes {
            let Some(oldest) = self.in_flight.pop_front() else { break };
            oldest.finished.await?;
        }
        Ok(())
    }

    /// Uploads whole rows of a matrix in file format, at most a landing buffer of them, to its pages.
    pub(super) async fn rows(
        &mut self,
        target: UploadTarget<'_>,
        matrix: MatrixId,
        first_row: u64,
        bytes: &[u8],
    ) -> Result<(), GpuError> {
        let pages = target.plan.pages.iter().filter(|page| page.matrix == matrix);
        let places = pages.map(PagePlace::from).collect();
        self.rows_to(target, matrix, places, first_row, bytes).await
    }

    /// Uploads rows of the embedding table, in the order of a batch.
    pub(super) async fn gathered(
        &mut self,
        target: UploadTarget<'_>,
        table: MatrixId,
        bytes: &[u8],
    ) -> Result<(), GpuError> {
        let rows = u64::from(target.plan.batch_rows);
        let place = PagePlace { owner: BufferOwner::Gathered, first_row: 0, rows };
        let spec = &target.program.matrices[table.index()];
        let row_bytes = spec.tensor_type.row_bytes(u64::from(spec.columns)).unwrap_or(0).max(1);
        let landing_bytes = target.plan.bytes_of(BufferOwner::Landing).unwrap_or(0);
        let rows_max = (landing_bytes.saturating_sub(4) / row_bytes).max(1);
        let mut first_row = 0;
        for piece in bytes.chunks((rows_max * row_bytes) as usize) {
            self.rows_to(target, table, vec![place], first_row, piece).await?;
            first_row += rows_max;
        }
        Ok(())
    }

    async fn rows_to(
        &mut self,
        target: UploadTarget<'_>,
        matrix: MatrixId,
        places: Vec<PagePlace>,
        first_row: u64,
        bytes: &[u8],
    ) -> Result<(), GpuError> {
        let spec = &target.program.matrices[matrix.index()];
        let row_bytes = spec.tensor_type.row_bytes(u64::from(spec.columns)).unwrap_or(0);
        let end = places.iter().map(|place| place.first_row + place.rows).max().unwrap_or(0);
        let rows = check(spec, row_bytes, first_row..end, bytes, target.buffers)?;
        let len = bytes.len() as u64;
        self.make_room(len, target.plan.bytes_of(BufferOwner::Staging).unwrap_or(0)).await?;
        write_padded(target.device, target.buffers.get(BufferOwner::Landing)?, bytes);
        let mut last = None;
        for place in places {
            let start = first_row.max(place.first_row);
            let end = (first_row + rows).min(place.first_row + place.rows);
            if start < end {
                let params = repack::Params {
                    rows: (end - start) as u32,
                    landing_row: (start - first_row) as u32,
                    first_row: (start - place.first_row) as u32,
                    row_bytes: row_bytes as u32,
                    blocks: SlabLayout::for_columns(spec.columns).blocks,
                };
                last = Some(self.repack(&target, spec, place, params).await?);
            }
        }
        if let Some(index) = last {
            let finished = target.device.finished(index).boxed_local();
            self.in_flight.push_back(InFlight { bytes: len, finished });
        }
        Ok(())
    }

    async fn repack(
        &self,
        target: &UploadTarget<'_>,
        spec: &MatrixSpec,
        place: PagePlace,
        params: repack::Params,
    ) -> Result<wgpu::SubmissionIndex, GpuError> {
        let layout = SlabLayout::for_columns(spec.columns);
        let variant = repack::Variant { tensor_type: spec.tensor_type, layout };
        let kernel = Kernel::from(variant);
        let pipeline = target.pipelines.get(kernel).await?;
        self.record.write(target.device, target.buffers, &params)?;
        let bindings =
            repack::Bindings { landing: target.buffers.of(())?, page: target.buffers.planes(spec, place)? };
        let record = target.buffers.record(self.record)?;
        let group = target.pipelines.interface(kernel)?.bind(target.device, &bindings, record)?;
        let mut encoder = target
            .device
            .raw()
            .create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("repack") });
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            let [x, y, z] = variant.groups(u64::from(params.rows));
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(x, y, z);
        }
        Ok(target.device.submit(encoder.finish()))
    }
}

fn check(
    spec: &MatrixSpec,
    row_bytes: u64,
    free: Range<u64>,
    bytes: &[u8],
    buffers: &Buffers,
) -> Result<u64, GpuError> {
    let failed = |wanted: String| GpuError::Upload { matrix: spec.name.clone(), wanted };
    let len = bytes.len() as u64;
    if row_bytes == 0 || len == 0 || !len.is_multiple_of(row_bytes) {
        return Err(failed(format!("whole rows of {row_bytes} bytes, got {len} bytes")));
    }
    let landing = buffers.get(BufferOwner::Landing)?.size();
    // One spare word: the repack kernels read unaligned words in pairs.
    if len + 4 > landing {
        return Err(failed(format!("at most {} bytes at once, got {len}", landing - 4)));
    }
    let rows = len / row_bytes;
    if free.start.checked_add(rows).is_none_or(|end| end > free.end) {
        return Err(failed(format!("at most rows {free:?}, got {rows}")));
    }
    Ok(rows)
}

/// Queue writes are multiples of four bytes; the last few go separately, padded.
fn write_padded(device: &Device, buffer: &wgpu::Buffer, bytes: &[u8]) {
    let whole = bytes.len() & !3;
    device.queue().write_buffer(buffer, 0, &bytes[..whole]);
    if whole < bytes.len() {
        let mut last = [0u8; 4];
        last[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
        device.queue().write_buffer(buffer, whole as u64, &last);
    }
}
