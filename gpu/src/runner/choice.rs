//! How a step chooses its tokens: the largest logit, or bias and penalties, cuts and a draw before that.

use std::collections::HashMap;
use std::rc::Rc;

use fanlight_messages::device::RequestSetup;
use fanlight_messages::plan::BufferOwner;
use fanlight_messages::program::ValueId;
use fanlight_messages::sampling::{SELECTION_PASSES_MAX, Sampling};

use super::buffers::Buffers;
use super::encode::Recorder;
use super::lower::{Bind, Lowering};
use super::params;
use super::pipelines::{Bound, Pipeline};
use crate::device::{Device, GpuError};
use crate::kernels::accept::Form;
use crate::kernels::{Kernel, adjust, choose, sample, weigh};

/// A kernel that some requests need: where its parameters lie, which a request writes, and its bind groups
/// once it has been needed.
#[derive(Debug)]
struct OnDemand {
    kernel: Kernel,
    records: Vec<u64>,
    groups: Vec<wgpu::BindGroup>,
}

impl OnDemand {
    fn new<T: bytemuck::Pod>(
        lowering: &mut Lowering<'_>,
        kernel: Kernel,
        records: impl IntoIterator<Item = T>,
    ) -> Result<Self, GpuError> {
        let records = records.into_iter().map(|record| lowering.record(&record)).collect::<Result<_, _>>()?;
        Ok(Self { kernel, records, groups: Vec::new() })
    }

    fn dispatch(&self, recorder: &mut Recorder, at: usize, grid: [u32; 3]) -> Result<(), GpuError> {
        let unprepared = || GpuError::Kernel {
            kernel: format!("{:?}", self.kernel),
            reason: "used before it was bound".into(),
        };
        recorder.dispatch(self.kernel, self.groups.get(at).ok_or_else(unprepared)?, grid)
    }

    /// Writes the parameters of its bind groups in order.
    fn write<T: bytemuck::Pod>(&self, queue: &wgpu::Queue, params: &wgpu::Buffer, records: &[T]) {
        for (at, record) in self.records.iter().zip(records) {
            queue.write_buffer(params, *at, bytemuck::bytes_of(record));
        }
    }
}

/// The kernels between the logits and the commit.
#[derive(Debug)]
pub(super) struct Choice {
    logits: ValueId,
    largest: Bind,
    largest_record: u64,
    /// By form.
    adjust: OnDemand,
    /// By pass.
    weigh: OnDemand,
    /// By form.
    sample: OnDemand,
    /// What the request needs.
    plan: Plan,
}

/// Which kernels run.
#[derive(Debug, Clone, Copy, Default)]
struct Plan {
    adjusts: bool,
    passes: usize,
    draws: bool,
    /// Logits of a row.
    len: u32,
}

impl Choice {
    /// The kernels that a request needs beside the choice of the largest logit.
    pub(super) fn kernels(sampling: &Sampling) -> Vec<Kernel> {
        // Whether top-k cuts depends on the vocabulary; one pipeline more does no harm.
        let cuts = sampling.top_p().is_some() || sampling.top_k(u32::MAX).is_some();
        let wanted = [
            (sampling.adjusts(), Kernel::Adjust),
            (cuts, Kernel::Weigh),
            (sampling.is_drawn(), Kernel::Sample),
        ];
        wanted.into_iter().filter_map(|(is_wanted, kernel)| is_wanted.then_some(kernel)).collect()
    }

    /// Places the parameters of every kernel, and binds the one that every request may need.
    pub(super) async fn bind(lowering: &mut Lowering<'_>, logits: ValueId) -> Result<Self, GpuError> {
        let buffers = lowering.buffers;
        let len = lowering.program.vocabulary_len;
        let largest_record = lowering.record(&choose::Params { len, hash: 0 })?;
        let bound = bound(buffers, logits)?;
        let largest = lowering.bind_at(Kernel::Choose, largest_record, bound, None).await?;
        let forms = Form::ALL.map(|form| form as u32);
        let records = forms.map(|form| adjust::Params { len, hash: 0, form });
        let adjust = OnDemand::new(lowering, Kernel::Adjust, records)?;
        let records =
            (0..SELECTION_PASSES_MAX).map(|pass_index| weigh::Params { len, pass_index, stage: 0, level: 0 });
        let weigh = OnDemand::new(lowering, Kernel::Weigh, records)?;
        let records = forms.map(|form| sample::Params { len, form, passes: 0, stage: 0 });
        let sample = OnDemand::new(lowering, Kernel::Sample, records)?;
        Ok(Self {
            logits,
            largest,
            largest_record,
            adjust,
            weigh,
            sample,
            plan: Plan { len, ..Plan::default() },
        })
    }

    /// Binds what a request needs, where that is new; its pipelines are there.
    pub(super) fn prepare(
        &mut self,
        device: &Device,
        buffers: &Buffers,
        pipelines: &HashMap<Kernel, Rc<Pipeline>>,
        sampling: &Sampling,
    ) -> Result<(), GpuError> {
        let wanted = Self::kernels(sampling);
        for kernel in [&mut self.adjust, &mut self.weigh, &mut self.sample] {
            if !kernel.groups.is_empty() || !wanted.contains(&kernel.kernel) {
                continue;
            }
            let Some(pipeline) = pipelines.get(&kernel.kernel) else { continue };
            let mut bound = bound(buffers, self.logits)?;
            bound.push(Bound::whole(7, buffers.get(BufferOwner::Control)?));
            for record in &kernel.records {
                let own = [params::bound(buffers, *record)?];
                kernel.groups.push(pipeline.bind(device, &[&bound[..], &own].concat()));
            }
        }
        Ok(())
    }

    /// Chooses a token for each row.
    pub(super) fn record(&self, recorder: &mut Recorder, form: Form, rows: u32) -> Result<(), GpuError> {
        let Plan { adjusts, passes, draws, len } = self.plan;
        match adjusts {
            true => self.adjust.dispatch(recorder, form as usize, choose::grid(len, rows))?,
            false => self.largest(recorder, rows)?,
        }
        let grid = weigh::grid(len, rows);
        (0..passes).try_for_each(|pass| self.weigh.dispatch(recorder, pass, grid))?;
        if draws { self.sample.dispatch(recorder, form as usize, grid) } else { Ok(()) }
    }

    /// Chooses the largest logit of each row.
    pub(super) fn largest(&self, recorder: &mut Recorder, rows: u32) -> Result<(), GpuError> {
        recorder.dispatch(Kernel::Choose, &self.largest.group, choose::grid(self.plan.len, rows))
    }

    /// Writes what a request decides.
    pub(super) fn configure(
        &mut self,
        device: &Device,
        buffers: &Buffers,
        setup: &RequestSetup,
        len: u32,
    ) -> Result<(), GpuError> {
        let sampling = &setup.sampling;
        let passes = weigh::passes(sampling, len);
        let plan =
            Plan { adjusts: sampling.adjusts(), passes: passes.len(), draws: sampling.is_drawn(), len };
        self.plan = plan;
        let (queue, params) = (device.queue(), buffers.get(BufferOwner::Params)?);
        let hash = u32::from(setup.hash_logits);
        queue.write_buffer(params, self.largest_record, bytemuck::bytes_of(&choose::Params { len, hash }));
        if !plan.adjusts && !plan.draws {
            return Ok(());
        }
        let words = sampling.words(setup.generated_from);
        queue.write_buffer(buffers.get(BufferOwner::Sampling)?, 0, bytemuck::cast_slice(&words));
        let forms = Form::ALL.map(|form| form as u32);
        self.adjust.write(queue, params, &forms.map(|form| adjust::Params { len, hash, form }));
        self.weigh.write(queue, params, &passes);
        let (stage, count) = (passes.last().map_or(0, |pass| pass.stage), passes.len() as u32);
        self.sample.write(
            queue,
            params,
            &forms.map(|form| sample::Params { len, form, passes: count, stage }),
        );
        Ok(())
    }
}

/// What the kernels read and write beside the control block and their parameters.
fn bound(buffers: &Buffers, logits: ValueId) -> Result<Vec<Bound<'_>>, GpuError> {
    let owners = [
        BufferOwner::Value(logits),
        BufferOwner::ChoicePartials,
        BufferOwner::Tokens,
        BufferOwner::History,
        BufferOwner::Ancestors,
        BufferOwner::Selection,
        BufferOwner::Sampling,
    ];
    (0..).zip(owners).map(|(number, owner)| Ok(Bound::whole(number, buffers.get(owner)?))).collect()
}
