//! A device of paper: a cache of token ids, a token function that reads all of it, completions after a seeded
//! number of polls, a virtual clock, and faults at chosen submissions.
//!
//! Because the next token depends on every id in the cache, an engine that believes the wrong thing of the
//! cache gives other tokens than [`reference`].

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

pub use fanlight_actors::kit::yield_now;
use fanlight_messages::backend::{Backend, BackendModel};
use fanlight_messages::control::{ControlBlock, StepRecord};
use fanlight_messages::device::{
    AdapterFacts, AdapterKind, Preparation, Purpose, Quarantined, RequestSetup, WindowReport,
};
use fanlight_messages::draft::{ORDERS, WIDTHS, Width};
use fanlight_messages::error::DeviceError;
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::program::{MatrixId, Program, VectorId};
use fanlight_messages::sampling::Sampling;
use fanlight_tests::synth::random::Random;

use crate::ring::PaperRing;
pub use crate::state::{CHOICE_NS, DeviceState, Fault, PIPELINES};

/// Microseconds that compiling a pipeline takes.
pub const COMPILE_US: u64 = 700;

/// The device.
#[derive(Clone)]
pub struct PaperBackend {
    pub state: Rc<RefCell<DeviceState>>,
    random: Rc<RefCell<Random>>,
    pub clock_us: Rc<Cell<u64>>,
}

impl PaperBackend {
    pub fn new(seed: u64, clock_us: Rc<Cell<u64>>) -> Self {
        let random = Rc::new(RefCell::new(Random::new(seed, 0)));
        Self { state: Rc::default(), random, clock_us }
    }

    /// The virtual time, microseconds.
    pub fn now_us(&self) -> u64 {
        self.clock_us.get()
    }

    /// Uploads that have arrived, to different places.
    pub fn uploads(&self) -> usize {
        let state = self.state.borrow();
        state.matrices.len() + state.vectors.len()
    }

    /// Forgets the uploads so far.
    pub fn forget_uploads(&self) {
        let mut state = self.state.borrow_mut();
        state.matrices.clear();
        state.pipelines.clear();
        state.vectors.clear();
    }
}

/// The id that follows `context`, drawn from all of it.
pub fn next_token(context: &[u32], end_per_mille: u64, end_id: u32) -> u32 {
    let mix = |hash: u64, id: &u32| {
        (hash ^ u64::from(*id)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) ^ 0x1234_5678
    };
    let hash = context.iter().fold(context.len() as u64, mix);
    if hash % 1000 < end_per_mille { end_id } else { (hash >> 32) as u32 % 256 }
}

/// What a reply must be: ids without the end token, and whether the model ended it.
pub fn reference(
    prompt: &[u32],
    context_len: usize,
    token_limit: usize,
    end_per_mille: u64,
    end_id: u32,
) -> (Vec<u32>, bool) {
    let mut ids = prompt.to_vec();
    while ids.len() - prompt.len() < token_limit && ids.len() <= context_len {
        let token = next_token(&ids, end_per_mille, end_id);
        if token == end_id {
            return (ids.split_off(prompt.len()), true);
        }
        ids.push(token);
    }
    (ids.split_off(prompt.len()), false)
}

impl Backend for PaperBackend {
    type Model = PaperModel;

    fn facts(&self) -> AdapterFacts {
        let other = &self.state.borrow().other_name;
        AdapterFacts {
            name: if other.is_empty() { "paper".into() } else { other.clone() },
            backend: "simulation".into(),
            driver: String::new(),
            kind: if self.state.borrow().is_gpu { AdapterKind::Gpu } else { AdapterKind::SoftwareGpu },
            binding_bytes_max: 128 << 20,
            has_packed_dot: false,
        }
    }

    async fn reopen(&self) -> Result<(), DeviceError> {
        yield_now().await;
        let mut state = self.state.borrow_mut();
        if state.is_gone {
            return Err(DeviceError::Unavailable { reason: "by the test".into() });
        }
        state.reopened += 1;
        Ok(())
    }

    async fn create(&self, program: Rc<Program>, plan: Rc<GpuPlan>) -> Result<PaperModel, DeviceError> {
        let mut state = self.state.borrow_mut();
        let wanted_bytes = plan.total_bytes();
        if wanted_bytes > state.memory_bytes {
            return Err(DeviceError::OutOfMemory { phase: "creating buffers".into() });
        }
        state.held_bytes += wanted_bytes;
        state.held_bytes_max = state.held_bytes_max.max(state.held_bytes);
        state.models += 1;
        state.models_max = state.models_max.max(state.models);
        state.matrices.clear();
        state.vectors.clear();
        Ok(PaperModel {
            backend: self.clone(),
            cache: vec![u32::MAX; plan.cache_rows as usize],
            ring: PaperRing::new(program, &plan),
            bytes: wanted_bytes,
            setup: None,
            control: ControlBlock::default(),
            last: u32::MAX,
            unreported: Vec::new(),
            hashes: Vec::new(),
            steps: Vec::new(),
        })
    }
}

/// A model on the device of paper.
pub struct PaperModel {
    backend: PaperBackend,
    cache: Vec<u32>,
    /// Where weights stream.
    pub ring: PaperRing,
    /// Bytes of its buffers.
    bytes: u64,
    setup: Option<RequestSetup>,
    control: ControlBlock,
    /// The token chosen last, not yet in the cache.
    last: u32,
    unreported: Vec<u32>,
    hashes: Vec<u32>,
    steps: Vec<StepRecord>,
}

impl Drop for PaperModel {
    fn drop(&mut self) {
        let mut state = self.backend.state.borrow_mut();
        state.models -= 1;
        state.held_bytes -= self.bytes;
    }
}

impl PaperModel {
    /// What the accept kernel does.
    fn accept(&mut self, live: u32, poisoned: bool) {
        let Some(setup) = &self.setup else { return };
        self.control.committed += live;
        self.control.live = 1;
        if poisoned {
            (self.control.poison, self.control.end) = (1, 4);
            return;
        }
        let context = &self.cache[..self.control.committed as usize];
        let end_per_mille = self.backend.state.borrow().end_per_mille;
        let end_id = setup.end_ids.first().copied().unwrap_or(u32::MAX);
        let token = next_token(context, end_per_mille, end_id);
        if setup.hash_logits {
            self.control.hash = self.control.hash.rotate_left(5) ^ token;
        }
        if setup.end_ids.contains(&token) {
            self.control.end = 1;
            return;
        }
        self.last = token;
        self.unreported.push(token);
        self.hashes.push(self.control.hash);
        self.control.ring_head += 1;
        self.control.tokens_left -= 1;
        if self.control.tokens_left == 0 {
            self.control.end = 2;
        } else if self.control.committed >= self.control.context {
            self.control.end = 3;
        }
    }

    /// A step: a drawn number of drafted tokens turns out right.
    fn step(&mut self, width: Width, poisoned: bool) {
        let before = self.control;
        let accepted = match width {
            Width::Off => 0,
            Width::Nodes(_) => self.backend.random.borrow_mut().below(u64::from(width.tokens_max())),
        };
        for _ in 0..=accepted {
            if self.control.end == 0 {
                self.cache[self.control.committed as usize] = self.last;
                self.accept(1, poisoned);
            }
        }
        if before.end == 0 {
            self.steps.push(StepRecord {
                live: width.rows(),
                emitted: self.control.ring_head - before.ring_head,
                accepted: self.control.committed - before.committed - 1,
                // Every draft promises what it is worth on average.
                match_len: if width == Width::Off { 0 } else { ORDERS },
                drafted: width.rows(),
                expected: std::array::from_fn(|at| 32 * (Width::Nodes(WIDTHS[at + 1]).tokens_max() - 1)),
            });
        }
    }

    /// The token chosen last.
    pub fn last_token(&self) -> u32 {
        self.last
    }

    /// A prompt batch.
    pub fn evaluate(
        &mut self,
        base: u32,
        tokens: &[u32],
        choose: bool,
        parts: u32,
    ) -> Result<Pending, DeviceError> {
        let cost_us = {
            let mut state = self.backend.state.borrow_mut();
            let is_wrong = state.wrong.contains(&Purpose::Prompts);
            assert!(!is_wrong || tokens.len() == 1, "a batch of {} tokens would be wrong", tokens.len());
            let cost_us = state.prompt_token_us * tokens.len() as u64;
            state.part_us.push(cost_us / u64::from(parts));
            cost_us
        };
        self.submit(cost_us, false, |model, poisoned| {
            let base_row = base as usize;
            model.cache[base_row..base_row + tokens.len()].copy_from_slice(tokens);
            model.control.committed = base;
            if choose {
                model.accept(tokens.len() as u32, poisoned);
            }
        })
    }

    /// A window.
    pub fn decode(&mut self, steps: u32, width: Width, parts: u32) -> Result<Pending, DeviceError> {
        let step_us = {
            let mut state = self.backend.state.borrow_mut();
            state.widths.push(width);
            let pipelines = state.pipelines.get(&width.rows()).copied().unwrap_or_default();
            assert!(width == Width::Off || pipelines == PIPELINES, "{width:?} was not prepared");
            let is_wrong = width != Width::Off && state.wrong.contains(&Purpose::Tree(width.rows()));
            assert!(!is_wrong, "a step of {width:?} would be wrong");
            let step_us = state.step_us;
            state.part_us.push(if steps == 1 {
                step_us / u64::from(parts)
            } else {
                step_us * u64::from(steps)
            });
            step_us
        };
        self.submit(step_us * u64::from(steps), true, |model, poisoned| {
            for _ in 0..steps {
                model.step(width, poisoned);
            }
        })
    }

    /// Counts a submission and prepares its report.
    fn submit(
        &mut self,
        cost_us: u64,
        is_window: bool,
        work: impl FnOnce(&mut Self, bool),
    ) -> Result<Pending, DeviceError> {
        let fault = {
            let mut state = self.backend.state.borrow_mut();
            let number = state.submissions;
            state.submissions += 1;
            state.windows += u64::from(is_window);
            state.faults.get(&number).copied()
        };
        if fault == Some(Fault::Refuse) {
            return Err(DeviceError::Refused { phase: "decoding".into(), reason: "by the test".into() });
        }
        work(self, fault == Some(Fault::Poison));
        let report = match fault {
            Some(Fault::Lose) => Err(DeviceError::Lost { reason: "by the test".into() }),
            _ => Ok(WindowReport {
                control: self.control,
                tokens: std::mem::take(&mut self.unreported),
                hashes: std::mem::take(&mut self.hashes),
                steps: std::mem::take(&mut self.steps),
                dispatches: 10,
            }),
        };
        let mut state = self.backend.state.borrow_mut();
        state.in_flight += 1;
        state.in_flight_max = state.in_flight_max.max(state.in_flight);
        let polls = self.backend.random.borrow_mut().below(6);
        Ok(Pending { polls, cost_us, report: Some(report), backend: self.backend.clone() })
    }
}

/// A submission in flight.
pub struct Pending {
    polls: u64,
    cost_us: u64,
    report: Option<Result<WindowReport, DeviceError>>,
    backend: PaperBackend,
}

impl Future for Pending {
    type Output = Result<WindowReport, DeviceError>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls > 0 {
            self.polls -= 1;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let clock = &self.backend.clock_us;
        clock.set(clock.get() + self.cost_us);
        let report = self.report.take().expect("polled after completion");
        Poll::Ready(report)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.backend.state.borrow_mut().in_flight -= 1;
    }
}

impl BackendModel for PaperModel {
    async fn upload_matrix(
        &mut self,
        matrix: MatrixId,
        first_row: u64,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        yield_now().await;
        if !self.ring.arrive(matrix, first_row, bytes.len()) {
            self.backend.state.borrow_mut().matrices.insert((matrix, first_row), bytes.to_vec());
        }
        Ok(())
    }

    fn upload_vector(
        &mut self,
        vector: VectorId,
        element_offset: u32,
        values: &[f32],
    ) -> Result<(), DeviceError> {
        self.backend.state.borrow_mut().vectors.insert((vector, element_offset), values.to_vec());
        Ok(())
    }

    async fn compile(
        &mut self,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Option<Quarantined>, DeviceError> {
        for done in 1..=3 {
            yield_now().await;
            progress(done, 3);
        }
        Ok(self.backend.state.borrow().quarantined(Purpose::Prompts))
    }

    async fn prepare_next(&mut self, width: Width) -> Result<Preparation, DeviceError> {
        yield_now().await;
        let mut state = self.backend.state.borrow_mut();
        let pipelines = state.pipelines.entry(width.rows()).or_default();
        if width == Width::Off || *pipelines == PIPELINES {
            let found = state.quarantined(Purpose::Tree(width.rows())).filter(|_| width != Width::Off);
            return Ok(found.map_or(Preparation::Done, Preparation::Refused));
        }
        *pipelines += 1;
        drop(state);
        self.backend.clock_us.set(self.backend.clock_us.get() + COMPILE_US);
        Ok(Preparation::Going)
    }

    async fn prepare_sampling(&mut self, _: &Sampling) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn time_choice(&mut self) -> Result<u64, DeviceError> {
        yield_now().await;
        let mut state = self.backend.state.borrow_mut();
        state.choices_timed += 1;
        if state.is_choice_lost {
            return Err(DeviceError::Lost { reason: "by the test".into() });
        }
        Ok(CHOICE_NS)
    }

    fn begin(&mut self, setup: &RequestSetup) -> Result<(), DeviceError> {
        let (context, tokens_left, hash) = (setup.context_len, setup.token_limit, setup.hash);
        self.control = ControlBlock { context, tokens_left, hash, ..ControlBlock::default() };
        self.setup = Some(setup.clone());
        self.ring.restart();
        self.unreported.clear();
        self.hashes.clear();
        self.steps.clear();
        Ok(())
    }

    fn prefill(
        &mut self,
        base: u32,
        tokens: &[u32],
        choose: bool,
        parts: u32,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError> {
        self.evaluate(base, tokens, choose, parts)
    }

    fn window(
        &mut self,
        steps: u32,
        width: Width,
        parts: u32,
    ) -> Result<impl Future<Output = Result<WindowReport, DeviceError>> + 'static, DeviceError> {
        self.decode(steps, width, parts)
    }
}

/// Lets the world run until nothing that could happen by itself is left to happen.
pub async fn settle() {
    for _ in 0..500 {
        yield_now().await;
    }
}
