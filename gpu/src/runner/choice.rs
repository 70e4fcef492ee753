//! How a step chooses its tokens: the largest logit, or bias and penalties, cuts and a draw before that.

use fanlight_messages::device::RequestSetup;
use fanlight_messages::plan::BufferOwner;
use fanlight_messages::program::ValueId;
use fanlight_messages::sampling::{SELECTION_PASSES_MAX, Sampling};

use super::buffers::Buffers;
use super::encode::Recorder;
use super::lower::Lowering;
use super::pipelines::Bound;
use crate::device::{Device, GpuError};
use crate::kernels::accept::Form;
use crate::kernels::{Kernel, adjust, choose, sample, weigh};

/// A kernel whose parameters a request writes: where they lie, and what is bound with each.
#[derive(Debug)]
struct PerRequest {
    kernel: Kernel,
    records: Vec<u64>,
    groups: Vec<wgpu::BindGroup>,
}

impl PerRequest {
    fn bind<'a, T: bytemuck::Pod>(
        lowering: &mut Lowering<'a>,
        kernel: Kernel,
        records: impl IntoIterator<Item = T>,
        bound: &[Bound<'a>],
    ) -> Result<Self, GpuError> {
        let mut per_request = Self { kernel, records: Vec::new(), groups: Vec::new() };
        for record in records {
            let at = lowering.record(&record)?;
            per_request.records.push(at);
            per_request.groups.push(lowering.bind_at(kernel, at, bound.to_vec(), None)?.group);
        }
        Ok(per_request)
    }

    fn dispatch(&self, recorder: &mut Recorder, at: usize, grid: [u32; 3]) -> Result<(), GpuError> {
        recorder.dispatch(self.kernel, &self.groups[at], grid)
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
    /// One record.
    largest: PerRequest,
    /// By form.
    adjust: PerRequest,
    /// By pass.
    weigh: PerRequest,
    /// By form.
    sample: PerRequest,
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

    /// Binds all of them.
    pub(super) fn bind(lowering: &mut Lowering<'_>, logits: ValueId) -> Result<Self, GpuError> {
        let (len, bound) = (lowering.program.vocabulary_len, bound(lowering.buffers, logits)?);
        let largest = [choose::Params { len, hash: 0 }];
        let forms = Form::ALL.map(|form| form as u32);
        let adjust = forms.map(|form| adjust::Params { len, hash: 0, form });
        let weigh =
            (0..SELECTION_PASSES_MAX).map(|pass_index| weigh::Params { len, pass_index, stage: 0, level: 0 });
        let sample = forms.map(|form| sample::Params { len, form, passes: 0, stage: 0 });
        Ok(Self {
            largest: PerRequest::bind(lowering, Kernel::Choose, largest, &bound)?,
            adjust: PerRequest::bind(lowering, Kernel::Adjust, adjust, &bound)?,
            weigh: PerRequest::bind(lowering, Kernel::Weigh, weigh, &bound)?,
            sample: PerRequest::bind(lowering, Kernel::Sample, sample, &bound)?,
            plan: Plan { len, ..Plan::default() },
        })
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
        self.largest.dispatch(recorder, 0, choose::grid(self.plan.len, rows))
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
        self.largest.write(queue, params, &[choose::Params { len, hash }]);
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
        BufferOwner::Faults,
    ];
    let numbers = (0..=6).chain([9]);
    numbers.zip(owners).map(|(number, owner)| Ok(Bound::whole(number, buffers.get(owner)?))).collect()
}
