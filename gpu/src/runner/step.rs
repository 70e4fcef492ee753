//! What a step does besides the forward pass: draft before it, commit after it; how tokens are chosen is in
//! `choice.rs`.

use fanlight_messages::device::RequestSetup;
use fanlight_messages::draft::{
    EVIDENCES, MEMORY_TOKENS, NODES_MAX, ORDERS, RELIABILITIES, RELIABILITY_WORD, SEPARATOR, VISITED_WORD,
    WIDTHS, memory_words,
};
use fanlight_messages::plan::BufferOwner;
use fanlight_messages::program::{Program, ValueId};
use fanlight_messages::sampling::Sampling;

use super::buffers::Buffers;
use super::choice::Choice;
use super::encode::Recorder;
use super::lower::{Bind, Lowering};
use super::params::Recorded;
use crate::device::{Device, GpuError};
use crate::kernels::{Kernel, accept, choose, draft, logits, scan};
use crate::shader::Form;

/// The kernels around the forward pass, bound.
#[derive(Debug)]
pub(super) struct StepKernels {
    /// Where the model scales or caps its logits.
    finish: Option<Bind>,
    choice: Choice,
    vocabulary_len: u32,
    /// By form.
    accept: [Bind; 3],
    /// By width, as [`WIDTHS`].
    drafts: Vec<Drafting>,
}

#[derive(Debug)]
struct Drafting {
    record: Recorded<scan::Params>,
    scan: Bind,
    draft: Bind,
}

impl Drafting {
    fn bind(lowering: &mut Lowering<'_>, width: u32) -> Result<Self, GpuError> {
        let buffers = lowering.buffers;
        let record = lowering.record(&scan::Params { first: MEMORY_TOKENS, width })?;
        let scan =
            scan::Bindings { history: buffers.of(())?, matches: buffers.of(())?, control: buffers.of(())? };
        let draft = draft::Bindings {
            matches: buffers.of(())?,
            tokens: buffers.of(())?,
            draft: buffers.of(())?,
            history: buffers.of(())?,
            ancestors: buffers.of(())?,
            control: buffers.of(())?,
        };
        Ok(Self {
            record,
            scan: lowering.bind_at(scan::Variant, record, &scan)?,
            draft: lowering.bind_at(draft::Variant, record, &draft)?,
        })
    }

    fn scan(&self, recorder: &mut Recorder, search: Search) -> Result<(), GpuError> {
        recorder.dispatch(self.scan.kernel, &self.scan.group, scan::groups(search.first, search.last))
    }

    fn tree(&self, recorder: &mut Recorder) -> Result<(), GpuError> {
        recorder.dispatch(self.draft.kernel, &self.draft.group, [1, 1, 1])
    }
}

impl StepKernels {
    /// Those of every step and of a prompt's end.
    pub(super) const ALWAYS: [Kernel; 2] = [Kernel::Choose(choose::Variant), Kernel::Accept(accept::Variant)];
    /// Those that a step with drafts needs beside them.
    pub(super) const DRAFTING: [Kernel; 2] = [Kernel::Scan(scan::Variant), Kernel::Draft(draft::Variant)];

    /// Those that a request's sampling needs beside them.
    pub(super) fn sampling_kernels(sampling: &Sampling) -> Vec<Kernel> {
        Choice::kernels(sampling)
    }

    pub(super) fn bind(lowering: &mut Lowering<'_>, logits: ValueId) -> Result<Self, GpuError> {
        let finish = bind_finish(lowering, logits)?;
        let choice = Choice::bind(lowering, logits)?;
        let accept = [
            bind_accept(lowering, Form::Prompt)?,
            bind_accept(lowering, Form::Plain)?,
            bind_accept(lowering, Form::Tree)?,
        ];
        let drafts = WIDTHS.into_iter().map(|width| Drafting::bind(lowering, width));
        let drafts = drafts.collect::<Result<_, _>>()?;
        Ok(Self { finish, choice, vocabulary_len: lowering.program.vocabulary_len, accept, drafts })
    }

    /// The kernel that finishes logits, where the model has use for it.
    pub(super) fn finishing(&self) -> Option<Kernel> {
        self.finish.as_ref().map(|bind| bind.kernel)
    }

    /// Scales and caps what the head gave.
    pub(super) fn finish(&self, recorder: &mut Recorder, rows: u32) -> Result<(), GpuError> {
        let Some(bind) = &self.finish else { return Ok(()) };
        recorder.dispatch(bind.kernel, &bind.group, logits::grid(self.vocabulary_len, rows))
    }

    /// Drafts a tree below the last token.
    pub(super) fn draft(&self, recorder: &mut Recorder, width: u32, search: Search) -> Result<(), GpuError> {
        let drafting = WIDTHS.iter().position(|w| *w == width).and_then(|at| self.drafts.get(at));
        let drafting = drafting.ok_or_else(|| wrong_width(width))?;
        drafting.scan(recorder, search)?;
        drafting.tree(recorder)
    }

    /// One of the two drafting kernels alone, for measuring.
    pub(super) fn draft_part(
        &self,
        recorder: &mut Recorder,
        kernel: Kernel,
        search: Search,
    ) -> Result<(), GpuError> {
        let widest = self.drafts.last().ok_or_else(|| wrong_width(0))?;
        match kernel {
            Kernel::Scan(_) => widest.scan(recorder, search),
            _ => widest.tree(recorder),
        }
    }

    /// Finishes the logits, chooses a token for each row and commits.
    pub(super) fn commit(&self, recorder: &mut Recorder, form: Form, rows: u32) -> Result<(), GpuError> {
        self.finish(recorder, rows)?;
        self.choose(recorder, form, rows)?;
        let accept = &self.accept[form as usize];
        recorder.dispatch(accept.kernel, &accept.group, [1, 1, 1])
    }

    /// Chooses a token for each row.
    pub(super) fn choose(&self, recorder: &mut Recorder, form: Form, rows: u32) -> Result<(), GpuError> {
        self.choice.record(recorder, form, rows)
    }

    /// Takes the largest logits whatever the request says, for measuring.
    pub(super) fn choose_largest(&self, recorder: &mut Recorder, rows: u32) -> Result<(), GpuError> {
        self.choice.largest(recorder, rows)
    }

    /// Writes what a request decides: how tokens are chosen, whether logits are hashed, and from where
    /// history is searched.
    pub(super) fn configure(
        &mut self,
        device: &Device,
        buffers: &Buffers,
        setup: &RequestSetup,
        first: u32,
    ) -> Result<(), GpuError> {
        self.choice.configure(device, buffers, setup, self.vocabulary_len)?;
        for (drafting, width) in self.drafts.iter().zip(WIDTHS) {
            drafting.record.write(device, buffers, &scan::Params { first, width })?;
        }
        // What the last request's walk saw says nothing about this one's tree.
        let draft = buffers.get(BufferOwner::Draft)?;
        device.queue().write_buffer(draft, 4 * u64::from(VISITED_WORD), &[0; 4]);
        Ok(())
    }
}

fn bind_finish(lowering: &mut Lowering<'_>, logits: ValueId) -> Result<Option<Bind>, GpuError> {
    let Program { logits_scale: scale, logits_soft_cap, vocabulary_len: len, .. } = *lowering.program;
    if scale == 1.0 && logits_soft_cap.is_none() {
        return Ok(None);
    }
    let params = logits::Params { len, scale, soft_cap: logits_soft_cap.unwrap_or(0.0) };
    let buffers = lowering.buffers;
    let bindings = logits::Bindings { logits: buffers.of(logits)?, control: buffers.of(())? };
    lowering.bind(logits::Variant, &params, &bindings).map(Some)
}

fn bind_accept(lowering: &mut Lowering<'_>, form: Form) -> Result<Bind, GpuError> {
    let buffers = lowering.buffers;
    let bindings = accept::Bindings {
        partials: buffers.of(())?,
        tokens: buffers.of(())?,
        draft: buffers.of(())?,
        history: buffers.of(())?,
        ancestors: buffers.of(())?,
        faults: buffers.of(())?,
        control: buffers.of(())?,
    };
    lowering.bind(accept::Variant, &accept::Params { form: form as u32 }, &bindings)
}

/// Where a draft's matches are searched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search {
    /// First index of the history.
    pub(super) first: u32,
    /// An upper bound of the last token's position.
    pub(super) last: u32,
}

/// Writes the session memory below the context and gives the first index that is searched.
pub(super) fn write_memory(device: &Device, buffers: &Buffers, memory: &[u32]) -> Result<u32, GpuError> {
    let words = memory_words(memory);
    if words == [SEPARATOR] {
        return Ok(MEMORY_TOKENS);
    }
    let first = MEMORY_TOKENS - words.len() as u32;
    let history = buffers.get(BufferOwner::History)?;
    device.queue().write_buffer(history, 4 * u64::from(first), bytemuck::cast_slice(&words));
    Ok(first)
}

/// Writes where learning starts.
pub(super) fn write_reliabilities(device: &Device, buffers: &Buffers) -> Result<(), GpuError> {
    const WORDS: usize = (ORDERS * EVIDENCES) as usize;
    let words: [u32; WORDS] =
        std::array::from_fn(|i| RELIABILITIES[i / EVIDENCES as usize][i % EVIDENCES as usize]);
    let draft = buffers.get(BufferOwner::Draft)?;
    device.queue().write_buffer(draft, 4 * u64::from(RELIABILITY_WORD), bytemuck::cast_slice(&words));
    Ok(())
}

/// A width that is none of the buckets.
pub(super) fn wrong_width(wanted: u32) -> GpuError {
    GpuError::BatchTooLarge { wanted: wanted as usize, limit: NODES_MAX as usize }
}
