//! A model on the device without actors: what kernel-level tests and measurements drive by hand.

use std::collections::VecDeque;
use std::io::{Read, Seek, SeekFrom};
use std::rc::Rc;

use anyhow::Context;
use fanlight_gpu::{Device, Runner};
use fanlight_messages::control::StepRecord;
use fanlight_messages::device::{RequestSetup, WindowReport};
use fanlight_messages::draft::{SEPARATOR, Width};
use fanlight_messages::plan::{BufferOwner, GpuPlan, KvFormat, PlanRequest};
use fanlight_messages::program::{MatrixId, Program, VectorId};
use fanlight_models::arch::{self, SmallTensors};
use fanlight_models::gguf::{HeaderReader, HeaderStep, ModelFile, ModelTensor};
use futures::executor::block_on;

/// What a file can be: bytes in memory or on disk.
pub trait ModelBytes: Read + Seek {}
impl<T: Read + Seek> ModelBytes for T {}

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

/// The header of a model in one file: metadata and tensor list.
///
/// # Errors
/// What the source or the header reader says.
pub fn read_header(source: &mut dyn ModelBytes) -> anyhow::Result<ModelFile> {
    let len = source.seek(SeekFrom::End(0))?;
    let mut reader = HeaderReader::new(len);
    loop {
        let range = reader.wanted_range();
        let mut bytes = vec![0; (range.end - range.start) as usize];
        source.seek(SeekFrom::Start(range.start))?;
        source.read_exact(&mut bytes)?;
        match reader.feed(&bytes)? {
            HeaderStep::More(next) => reader = next,
            HeaderStep::Done(header) => {
                return Ok(ModelFile::from_shards(vec![("model.gguf".to_owned(), *header)])?);
            }
        }
    }
}

fn read_tensor(source: &mut dyn ModelBytes, tensor: &ModelTensor) -> anyhow::Result<Vec<u8>> {
    let mut bytes = vec![0; tensor.info.bytes as usize];
    source.seek(SeekFrom::Start(tensor.info.offset))?;
    source.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The program of a model file.
pub fn read_program(source: &mut dyn ModelBytes) -> anyhow::Result<(ModelFile, Program)> {
    let file = read_header(source)?;
    let spec = arch::model_spec(&file)?;
    let mut small = SmallTensors::new();
    for part in spec.small_tensors() {
        if let Some(name) = &part.tensor {
            let tensor = file.tensor(name).context("small tensor")?;
            let bytes = read_tensor(source, tensor)?;
            small.insert(name.clone(), bytemuck::pod_collect_to_vec(&bytes));
        }
    }
    let program = arch::program(&spec, &small)?;
    Ok((file, program))
}

impl Rig {
    /// Loads a model onto a device.
    pub fn load(device: &Device, source: &mut dyn ModelBytes, options: RigOptions) -> anyhow::Result<Self> {
        let (file, program) = read_program(source)?;
        let program = Rc::new(program);
        let request = PlanRequest {
            context_len: options.context_len.min(program.context_len_max),
            batch_tokens: options.batch_tokens,
            logits_rows: options.logits_rows,
            kv_format: options.kv_format,
            binding_bytes_max: options.binding_bytes_max,
        };
        let plan: Rc<GpuPlan> = Rc::new(fanlight_pager::plan_resident(&program, request)?);
        let mut runner = block_on(Runner::create(device, program.clone(), plan))?;
        for (index, spec) in (0u32..).zip(&program.matrices) {
            let row_bytes = spec.tensor_type.row_bytes(u64::from(spec.columns)).context("row bytes")?;
            let landing = runner.plan().bytes_of(BufferOwner::Landing).context("landing")?;
            let step = (landing - 4) / row_bytes;
            let mut first = 0;
            for part in &spec.parts {
                let bytes = read_tensor(source, file.tensor(&part.tensor).context("tensor")?)?;
                for rows in bytes.chunks((step * row_bytes) as usize) {
                    block_on(runner.upload_matrix(MatrixId(index), first, rows))?;
                    first += rows.len() as u64 / row_bytes;
                }
            }
        }
        for (index, spec) in (0u32..).zip(&program.vectors) {
            let mut offset = 0;
            for part in &spec.parts {
                let values = match &part.tensor {
                    Some(name) => {
                        let tensor = file.tensor(name).context("vector")?;
                        anyhow::ensure!(tensor.info.bytes == u64::from(part.len) * 4, "{name} is not F32");
                        bytemuck::pod_collect_to_vec(&read_tensor(source, tensor)?)
                    }
                    None => vec![0.0; part.len as usize],
                };
                runner.upload_vector(VectorId(index), offset, &values)?;
                offset += part.len;
            }
        }
        let quarantined = block_on(runner.compile(|_, _| ()))?;
        anyhow::ensure!(quarantined.is_none(), "prompts differ from plain decoding: {quarantined:?}");
        Ok(Self { runner, program, file })
    }

    /// Greedy decoding: prompt in batches, then windows, two in flight.
    pub fn greedy(&mut self, prompt: &[u32], way: Way, setup: &RequestSetup) -> anyhow::Result<GreedyRun> {
        let quarantined = block_on(self.runner.prepare(way.width))?;
        anyhow::ensure!(
            quarantined.is_none(),
            "{:?} differs from plain decoding: {quarantined:?}",
            way.width
        );
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
