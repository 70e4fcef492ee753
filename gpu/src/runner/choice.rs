//! How a step chooses its tokens: the largest logit, or bias and penalties, cuts and a draw before that.

use fanlight_messages::device::RequestSetup;
use fanlight_messages::plan::BufferOwner;
use fanlight_messages::program::ValueId;
use fanlight_messages::sampling::{SELECTION_PASSES_MAX, Sampling};

use super::buffers::Buffers;
use super::encode::Recorder;
use super::lower::Lowering;
use super::params::Recorded;
use crate::device::{Device, GpuError};
use crate::kernels::{Kernel, adjust, choose, sample, weigh};
use crate::shader::{Declared, Form};

/// A kernel whose parameters a request writes: its records, and what is bound with each.
#[derive(Debug)]
struct PerRequest<V: Declared> {
    variant: V,
    records: Vec<Recorded<V::Params>>,
    groups: Vec<wgpu::BindGroup>,
}

impl<V: Declared + Into<Kernel>> PerRequest<V> {
    fn bind(
        lowering: &mut Lowering<'_>,
        variant: V,
        count: u32,
        bindings: &V::Bindings<'_>,
    ) -> Result<Self, GpuError> {
        let mut per_request = Self { variant, records: Vec::new(), groups: Vec::new() };
        for _ in 0..count {
            let record = lowering.params.reserve()?;
            per_request.records.push(record);
            per_request.groups.push(lowering.bind_at(variant, record, bindings)?.group);
        }
        Ok(per_request)
    }

    fn dispatch(&self, recorder: &mut Recorder, at: usize, grid: [u32; 3]) -> Result<(), GpuError> {
        recorder.dispatch(self.variant.into(), &self.groups[at], grid)
    }

    /// Writes the parameters of its bind groups in order.
    fn write(&self, device: &Device, buffers: &Buffers, records: &[V::Params]) -> Result<(), GpuError> {
        self.records.iter().zip(records).try_for_each(|(at, record)| at.write(device, buffers, record))
    }
}

/// The kernels between the logits and the commit.
#[derive(Debug)]
pub(super) struct Choice {
    /// One record.
    largest: PerRequest<choose::Variant>,
    /// By form.
    adjust: PerRequest<adjust::Variant>,
    /// By pass.
    weigh: PerRequest<weigh::Variant>,
    /// By form.
    sample: PerRequest<sample::Variant>,
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
            (sampling.adjusts(), adjust::Variant.into()),
            (cuts, weigh::Variant.into()),
            (sampling.is_drawn(), sample::Variant.into()),
        ];
        wanted.into_iter().filter_map(|(is_wanted, kernel)| is_wanted.then_some(kernel)).collect()
    }

    /// Binds all of them; a request writes their records.
    pub(super) fn bind(lowering: &mut Lowering<'_>, logits: ValueId) -> Result<Self, GpuError> {
        let (buffers, len) = (lowering.buffers, lowering.program.vocabulary_len);
        let (logits, forms) = (buffers.of(logits)?, Form::ALL.len() as u32);
        let largest = choose::Bindings {
            logits,
            partials: buffers.of(())?,
            control: buffers.of(())?,
            faults: buffers.of(())?,
        };
        let adjust = adjust::Bindings {
            logits,
            partials: buffers.of(())?,
            tokens: buffers.of(())?,
            history: buffers.of(())?,
            ancestors: buffers.of(())?,
            sampling: buffers.of(())?,
            control: buffers.of(())?,
            faults: buffers.of(())?,
        };
        let weigh = weigh::Bindings {
            logits,
            partials: buffers.of(())?,
            selection: buffers.of(())?,
            sampling: buffers.of(())?,
            control: buffers.of(())?,
        };
        let sample = sample::Bindings {
            logits,
            partials: buffers.of(())?,
            selection: buffers.of(())?,
            ancestors: buffers.of(())?,
            sampling: buffers.of(())?,
            control: buffers.of(())?,
        };
        let largest = PerRequest::bind(lowering, choose::Variant, 1, &largest)?;
        // It is measured without a request as well.
        largest.write(lowering.device, buffers, &[choose::Params { len, hash: 0 }])?;
        Ok(Self {
            largest,
            adjust: PerRequest::bind(lowering, adjust::Variant, forms, &adjust)?,
            weigh: PerRequest::bind(lowering, weigh::Variant, SELECTION_PASSES_MAX, &weigh)?,
            sample: PerRequest::bind(lowering, sample::Variant, forms, &sample)?,
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
        let hash = u32::from(setup.hash_logits);
        self.largest.write(device, buffers, &[choose::Params { len, hash }])?;
        if !plan.adjusts && !plan.draws {
            return Ok(());
        }
        let words = sampling.words(setup.generated_from);
        let target = buffers.get(BufferOwner::Sampling)?;
        device.queue().write_buffer(target, 0, bytemuck::cast_slice(&words));
        let forms = Form::ALL.map(|form| form as u32);
        self.adjust.write(device, buffers, &forms.map(|form| adjust::Params { len, hash, form }))?;
        self.weigh.write(device, buffers, &passes)?;
        let (stage, passes) = (passes.last().map_or(0, |pass| pass.stage), passes.len() as u32);
        self.sample.write(device, buffers, &forms.map(|form| sample::Params { len, form, passes, stage }))
    }
}
