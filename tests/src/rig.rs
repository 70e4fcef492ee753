//! A model on the device without actors: what kernel-level tests and measurements drive by hand.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::rc::Rc;

use fanlight_actors::kit::Latch;
use fanlight_actors::pager::{OpenedModel, OwnDevice, Placed, open_model, place_model};
use fanlight_actors::source::{ByteSource, MemorySource, NamedSource};
use fanlight_gpu::{Device, GpuBackend, Runner};
use fanlight_messages::backend::BackendModel;
use fanlight_messages::control::StepRecord;
use fanlight_messages::device::{Preparation, RequestSetup, WindowReport};
use fanlight_messages::draft::{SEPARATOR, Width};
use fanlight_messages::error::{LoadError, SourceError};
use fanlight_messages::plan::{KvFormat, PlanRequest};
use fanlight_messages::program::Program;
use fanlight_messages::protocol::engine::LoadProgress;
use fanlight_models::gguf::ModelFile;
use futures::FutureExt;
use futures::executor::block_on;

/// A model file in memory.
pub fn in_memory(bytes: impl Into<Rc<[u8]>>) -> NamedSource {
    NamedSource::new("model.gguf", MemorySource::new(bytes))
}

/// A model file on disk, read where it stands: a test has nothing else to do.
pub fn on_disk(file: File) -> NamedSource {
    NamedSource::new("model.gguf", DiskSource(RefCell::new(file)))
}

struct DiskSource(RefCell<File>);

impl ByteSource for DiskSource {
    fn len(&self) -> u64 {
        self.0.borrow_mut().seek(SeekFrom::End(0)).unwrap_or(0)
    }

    async fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SourceError> {
        let mut file = self.0.borrow_mut();
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(buffer));
        let bytes = buffer.len() as u64;
        read.map_err(|error| SourceError::Failed { offset, bytes, reason: error.to_string() })
    }
}

/// The headers of a model in one file, and its program.
///
/// # Errors
/// What the source or the header says.
pub fn open(source: NamedSource) -> Result<OpenedModel, LoadError> {
    open_model(vec![source]).now_or_never().expect("sources of this file are ready at once")
}

/// How to run a model.
#[derive(Debug, Clone, Copy)]
pub struct RigOptions {
    /// Positions.
    pub context_len: u32,
    /// Prompt tokens per batch.
    pub batch_tokens: u32,
    /// Logits rows kept.
    pub logits_rows: u32,
    /// Cache format.
    pub kv_format: KvFormat,
    /// Largest binding to pretend.
    pub binding_bytes_max: u64,
}

impl Default for RigOptions {
    fn default() -> Self {
        Self {
            context_len: 512,
            batch_tokens: 512,
            logits_rows: 32,
            kv_format: KvFormat::F16,
            binding_bytes_max: 128 << 20,
        }
    }
}

/// A loaded model.
pub struct Rig {
    /// The runner.
    pub runner: Runner,
    /// Its program.
    pub program: Rc<Program>,
    /// Its file's metadata and tensors.
    pub file: ModelFile,
}

/// One of the ways to the same tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// Position from which the prompt is evaluated: the cache holds what lies before.
    pub base: u32,
    /// Prompt tokens per batch.
    pub chunk: usize,
    /// Steps per window.
    pub steps: u32,
    /// Nodes per step.
    pub width: Width,
    /// Submissions that a batch or a single step is split into.
    pub parts: u32,
}

impl Default for Way {
    fn default() -> Self {
        Self { base: 0, chunk: 512, steps: 1, width: Width::Off, parts: 1 }
    }
}

/// Tokens and hash of a greedy run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GreedyRun {
    /// Chosen ids, no end token.
    pub ids: Vec<u32>,
    /// The hash after each of them.
    pub hashes: Vec<u32>,
    /// Hash over the logits rows.
    pub hash: u32,
    /// The last report's control word.
    pub end: u32,
    /// Live steps it took.
    pub steps: Vec<StepRecord>,
}

impl GreedyRun {
    /// What every way must agree on: ids, the hash after each, the last hash and the end.
    pub fn bits(&self) -> (&[u32], &[u32], u32, u32) {
        (&self.ids, &self.hashes, self.hash, self.end)
    }
}

impl Rig {
    /// Loads a model onto a device.
    pub fn load(device: &Device, source: NamedSource, options: RigOptions) -> anyhow::Result<Self> {
        let opened = open(source)?;
        let (program, file) = (opened.program.clone(), opened.file.clone());
        let request = PlanRequest {
            context_len: options.context_len.min(program.context_len_max),
            batch_tokens: options.batch_tokens,
            logits_rows: options.logits_rows,
            kv_format: options.kv_format,
            binding_bytes_max: options.binding_bytes_max,
        };
        let placement = opened.placement(fanlight_pager::plan_resident(&program, request)?)?;
        let backend = GpuBackend::from(device.clone());
        let (mut site, progress) = (OwnDevice::new(&backend), Latch::new(LoadProgress::default()));
        let Placed { quarantined, .. } = block_on(place_model(&mut site, &placement, &progress, || false))?;
        anyhow::ensure!(quarantined.is_none(), "prompts differ from plain decoding: {quarantined:?}");
        Ok(Self { runner: site.into_model()?, program, file })
    }

    /// Compiles what steps of a width need and compares it with plain decoding.
    pub fn prepare(&mut self, width: Width) -> anyhow::Result<()> {
        loop {
            match block_on(self.runner.prepare_next(width))? {
                Preparation::Going => {}
                Preparation::Done => return Ok(()),
                Preparation::Refused(found) => anyhow::bail!("{width:?} differs: {found:?}"),
            }
        }
    }

    /// Greedy decoding: prompt in batches, then windows, two in flight.
    pub fn greedy(&mut self, prompt: &[u32], way: Way, setup: &RequestSetup) -> anyhow::Result<GreedyRun> {
        self.prepare(way.width)?;
        block_on(self.runner.prepare_sampling(&setup.sampling))?;
        self.runner.begin(setup)?;
        let mut run = GreedyRun { ids: Vec::new(), hashes: Vec::new(), hash: 0, end: 0, steps: Vec::new() };
        let mut at = way.base;
        let fresh = &prompt[way.base as usize..];
        let chunks: Vec<_> = fresh.chunks(way.chunk).collect();
        for (index, tokens) in chunks.iter().enumerate() {
            let report = block_on(self.runner.prefill(at, tokens, index + 1 == chunks.len(), way.parts)?)?;
            at += tokens.len() as u32;
            run.take(report);
        }
        let mut in_flight = VecDeque::new();
        while run.end == 0 || !in_flight.is_empty() {
            while run.end == 0 && in_flight.len() < 2 {
                in_flight.push_back(self.runner.window(way.steps, way.width, way.parts)?);
            }
            if let Some(report) = in_flight.pop_front() {
                run.take(block_on(report)?);
            }
        }
        Ok(run)
    }
}

impl GreedyRun {
    fn take(&mut self, report: WindowReport) {
        self.ids.extend(report.tokens);
        self.hashes.extend(report.hashes);
        self.steps.extend(report.steps);
        (self.hash, self.end) = (report.control.hash, report.control.end);
    }
}

/// A memory whose every match is followed by the true continuation, at most `right` tokens long, and then by
/// tokens that the model did not choose. `usize::MAX` is always right, 0 always wrong: there only single
/// tokens are matched, since longer contexts tell the reply to matches that begin inside them.
pub fn memory_right_for(prompt: &[u32], reply: &[u32], right: usize) -> Rc<[u32]> {
    let all: Vec<u32> = prompt.iter().chain(reply).copied().collect();
    let matched = if right == 0 { 1 } else { 8 };
    let mut memory = Vec::new();
    for at in prompt.len()..all.len() {
        memory.extend_from_slice(&all[at.saturating_sub(matched)..at]);
        let known = &all[at..all.len().min(at.saturating_add(right))];
        memory.extend_from_slice(known);
        let next = all.get(at + known.len()).copied().unwrap_or(0);
        memory.extend([(next + 1) % 250, (next + 2) % 250, (next + 1) % 250]);
        memory.push(SEPARATOR);
    }
    memory.into()
}
