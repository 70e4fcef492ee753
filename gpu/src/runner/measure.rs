//! Wall time of the runner's own submissions: what `bench` reports and what a controller will calibrate with.

use std::collections::VecDeque;

use fanlight_messages::device::{PassWork, RequestSetup};
use fanlight_messages::draft::{ANCESTOR_STRIDE, DEPTH_MAX, MEMORY_TOKENS, NODES_MAX, Width};
use fanlight_messages::plan::BufferOwner;
use web_time::Instant;

use super::encode::{Batch, Recorder, Rows, visit};
use super::lower::{Lowered, Product};
use super::step::{Search, StepKernels};
use super::{GpuError, Runner};
use crate::kernels::{Kernel, matrix};
use crate::shader::Form;

/// Time of a step of N nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepTime {
    /// Nodes.
    pub tokens: u32,
    /// Milliseconds per step: body, head on every node, choice.
    pub ms: f64,
    /// Dispatches per step.
    pub dispatches: u32,
}

/// Time of plain decoding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecodeTime {
    /// Steps per window.
    pub steps: u32,
    /// Windows in flight; 1 with one step is decoding with a readback per token.
    pub in_flight: u32,
    /// Milliseconds per token, host work and readback included.
    pub ms_per_token: f64,
    /// Dispatches per step.
    pub dispatches: u32,
}

/// A pipeline's share of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineTime {
    /// Which kernel, in which variant.
    pub name: String,
    /// Milliseconds of its dispatches in one step, with nothing else on the device.
    pub ms: f64,
    /// Its dispatches in one step.
    pub dispatches: u32,
}

/// Tokens decoded per figure.
const DECODE_TOKENS: u32 = 96;

/// Repeats by which a pipeline's own time is told from that of its submission.
const REPEATS: u32 = 8;
/// Submissions timed per figure; the median is reported.
const SAMPLES: usize = 7;
/// Submissions timed for what a reply's choices cost: it is done between replies, so that few must do.
const CHOICE_SAMPLES: usize = 3;
/// Seconds of work before a prompt is timed.
const WARM_UP_S: f64 = 0.5;
/// Milliseconds a timed submission should last, so that its own cost vanishes.
const SUBMISSION_MS: f64 = 20.0;
/// Steps of one submission at most: what a watchdog allows on a slow device.
const STEPS_MAX: u32 = 64;

impl Runner {
    /// Times steps of each bucket up to `tokens_max` at cache length `base`, warm, as medians. The cache rows
    /// behind `base` are overwritten and no token is emitted.
    pub async fn time_steps(&mut self, base: u32, tokens_max: u32) -> Result<Vec<StepTime>, GpuError> {
        let limit = tokens_max.min(self.plan.request.logits_rows);
        let mut times = Vec::new();
        for tokens in matrix::BUCKETS.into_iter().filter(|b| *b <= limit) {
            let batch = self.step_batch(base, tokens)?;
            self.compile_step(batch).await?;
            // Warm-up, and how many steps fill a submission.
            let (first, dispatches) = self.time_submission(batch, base, 1).await?;
            let (second, _) = self.time_submission(batch, base, 1).await?;
            let steps = (SUBMISSION_MS / first.min(second).max(0.01)).clamp(2.0, f64::from(STEPS_MAX)) as u32;
            let mut samples = Vec::new();
            for _ in 0..SAMPLES {
                // The difference of a long and a short submission leaves out what a submission itself costs.
                let (long, _) = self.time_submission(batch, base, 1 + steps).await?;
                let (short, _) = self.time_submission(batch, base, 1).await?;
                samples.push((long - short) / f64::from(steps));
            }
            times.push(StepTime { tokens, ms: median(samples), dispatches });
        }
        Ok(times)
    }

    /// Times plain decoding from cache length `base` on, in windows of `steps` with `in_flight` submitted
    /// ahead of the one being read: the median of windows after a warm-up.
    pub async fn time_decode(
        &mut self,
        base: u32,
        steps: u32,
        in_flight: u32,
    ) -> Result<DecodeTime, GpuError> {
        self.start_request(&self.endless())?;
        let control = self.buffers.get(BufferOwner::Control)?;
        self.device.queue().write_buffer(control, 0, bytemuck::cast_slice(&[base, 1]));
        self.committed.reset(base);
        let room =
            (self.plan.request.context_len - base.min(self.plan.request.context_len)).saturating_sub(1);
        let windows = DECODE_TOKENS.min(room) / steps;
        let (mut pending, mut marks, mut dispatches) = (VecDeque::new(), Vec::new(), 0);
        for _ in 0..windows {
            pending.push_back(self.submit_window(steps, Width::Off, 1)?);
            if pending.len() as u32 == in_flight
                && let Some(oldest) = pending.pop_front()
            {
                dispatches = oldest.await?.dispatches / steps;
                marks.push(Instant::now());
            }
        }
        for rest in pending {
            rest.await?;
        }
        let intervals: Vec<f64> = marks.windows(2).map(|m| (m[1] - m[0]).as_secs_f64() * 1e3).collect();
        // The first windows warm the device up.
        let warm = intervals.len() / 4;
        let ms = median(intervals.into_iter().skip(warm).collect());
        Ok(DecodeTime { steps, in_flight, ms_per_token: ms / f64::from(steps), dispatches })
    }

    /// Times a prompt batch of `tokens` tokens at position 0: milliseconds, the median of several.
    pub async fn time_prefill(&mut self, tokens: u32) -> Result<f64, GpuError> {
        let ids: Vec<u32> = (0..tokens).map(|i| i % self.program.vocabulary_len).collect();
        let mut samples = Vec::new();
        let begin = Instant::now();
        // A cold device misleads by a factor of three and more.
        while samples.len() < 2 * SAMPLES
            || (begin.elapsed().as_secs_f64() < WARM_UP_S && samples.len() < 200)
        {
            self.start_request(&self.endless())?;
            let start = Instant::now();
            self.submit_pass(PassWork::Prompt { base: 0, tokens: &ids, choose: true }, 1)?.await?;
            samples.push(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(median(samples.split_off(samples.len() - SAMPLES)))
    }

    /// Times each pipeline of a step by itself, its dispatches of all layers in one submission. Nothing
    /// overlaps, so the sum is above a step's time.
    pub async fn time_pipelines(&mut self, base: u32, tokens: u32) -> Result<Vec<PipelineTime>, GpuError> {
        let batch = self.step_batch(base, tokens)?;
        self.compile_step(batch).await?;
        let mut kinds: Vec<(String, Kernel, Option<u64>)> = Vec::new();
        for op in &self.body {
            let rows =
                if let Lowered::Multiply(pages) = op { pages.first().map(|page| page.rows) } else { None };
            visit(op, batch, &mut |kernel, _, _| {
                if !kinds.iter().any(|(_, k, r)| *k == kernel && *r == rows) {
                    let label = kernel.shader().map(|shader| shader.label).unwrap_or_default();
                    kinds.push((
                        rows.map_or(label.clone(), |rows| format!("{label}, {rows} rows")),
                        kernel,
                        rows,
                    ));
                }
            });
        }
        let mut times = Vec::new();
        for (name, kernel, rows) in kinds {
            let (ms, dispatches) = self.time_kernel(batch, base, kernel, rows).await?;
            times.push(PipelineTime { name, ms, dispatches });
        }
        Ok(times)
    }

    async fn time_kernel(
        &mut self,
        batch: Batch,
        base: u32,
        wanted: Kernel,
        rows: Option<u64>,
    ) -> Result<(f64, u32), GpuError> {
        let only_wanted = |runner: &Self, recorder: &mut Recorder| {
            let mut failed = Ok(());
            for op in &runner.body {
                if let (Lowered::Multiply(pages), Some(rows)) = (op, rows)
                    && pages.first().is_none_or(|page| page.rows != rows)
                {
                    continue;
                }
                visit(op, batch, &mut |kernel, group, grid| {
                    if kernel == wanted && failed.is_ok() {
                        failed = recorder.dispatch(kernel, group, grid);
                    }
                });
            }
            failed
        };
        self.time_alone(base, batch.tokens, SAMPLES, only_wanted).await
    }

    /// Times what `record` dispatches, with nothing else on the device: the median of so many samples in
    /// milliseconds, each the difference of many repeats and one, and the dispatches.
    async fn time_alone(
        &self,
        base: u32,
        live: u32,
        samples: usize,
        record: impl Fn(&Self, &mut Recorder) -> Result<(), GpuError>,
    ) -> Result<(f64, u32), GpuError> {
        let (mut times, mut dispatches) = (Vec::new(), 0);
        for repeats in [1, 1 + REPEATS].repeat(samples) {
            self.write_step(base, live)?;
            let start = Instant::now();
            let report = self
                .submit(None, |runner, recorder| (0..repeats).try_for_each(|_| record(runner, recorder)))?;
            dispatches = report.await?.dispatches / repeats;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let differences = times.chunks(2).map(|pair| (pair[1] - pair[0]) / f64::from(REPEATS)).collect();
        Ok((median(differences), dispatches))
    }

    /// Times the drafting kernels with `base` tokens of text before them: milliseconds of the scan and of the
    /// tree.
    pub async fn time_drafting(&mut self, base: u32) -> Result<(f64, f64), GpuError> {
        self.compile_width(Width::Nodes(NODES_MAX)).await?;
        // Phrases that return, as in text: every match length occurs.
        let text: Vec<u32> = (0..=base).map(|i| (i / 40 * 7 + i % 40 * (i / 400 % 3 + 1)) % 997).collect();
        let history = self.buffers.get(BufferOwner::History)?;
        let offset = 4 * u64::from(MEMORY_TOKENS);
        self.device.queue().write_buffer(history, offset, bytemuck::cast_slice(&text));
        let search = Search { first: MEMORY_TOKENS, last: base };
        self.write_step(base, 1)?;
        self.submit(None, |runner, recorder| runner.step.draft(recorder, NODES_MAX, search))?.await?;
        let mut times = [0.0; 2];
        for (time, kernel) in times.iter_mut().zip(StepKernels::DRAFTING) {
            let part =
                |runner: &Self, recorder: &mut Recorder| runner.step.draft_part(recorder, kernel, search);
            (*time, _) = self.time_alone(base, 1, SAMPLES, part).await?;
        }
        Ok((times[0], times[1]))
    }

    /// Times choosing a token in the way of the last request, at the end of what the cache holds: nanoseconds
    /// for a row.
    pub(super) async fn choice_ns(&mut self) -> Result<u64, GpuError> {
        self.flush()?;
        let base = self.committed.get().min(self.plan.request.context_len.saturating_sub(1));
        let choose = |runner: &Self, recorder: &mut Recorder| runner.step.choose(recorder, Form::Plain, 1);
        let (ms, _) = self.time_alone(base, 1, CHOICE_SAMPLES, choose).await?;
        // The device may have gone to sleep between two of them: a short time can come out below nothing.
        Ok((ms * 1e6).max(0.0) as u64)
    }

    /// A control block at `base` with `live` rows, running.
    fn write_step(&self, base: u32, live: u32) -> Result<(), GpuError> {
        let control = self.buffers.get(BufferOwner::Control)?;
        let words = [base, live, self.plan.request.context_len, 0];
        self.device.queue().write_buffer(control, 0, bytemuck::cast_slice(&words));
        Ok(())
    }

    /// A request that only the context ends.
    fn endless(&self) -> RequestSetup {
        RequestSetup {
            context_len: self.plan.request.context_len,
            token_limit: u32::MAX,
            ..RequestSetup::default()
        }
    }

    /// A plain step, or a tree step whose nodes form a chain with a fan at its deepest end.
    fn step_batch(&self, base: u32, tokens: u32) -> Result<Batch, GpuError> {
        let mut words = vec![0u32; (NODES_MAX * ANCESTOR_STRIDE) as usize];
        for (node, row) in (0u32..).zip(words.chunks_exact_mut(ANCESTOR_STRIDE as usize)) {
            let depth = node.min(DEPTH_MAX);
            row.iter_mut().zip(0..depth).for_each(|(to, ancestor)| *to = ancestor);
            row[depth as usize] = node;
            row[ANCESTOR_STRIDE as usize - 1] = depth;
        }
        let ancestors = self.buffers.get(BufferOwner::Ancestors)?;
        self.device.queue().write_buffer(ancestors, 0, bytemuck::cast_slice(&words));
        let rows = if tokens == 1 { Rows::Plain } else { Rows::Tree };
        Ok(self.batch(tokens, Product::Lane(tokens), rows, base + Width::Nodes(tokens).tokens_max()))
    }

    async fn time_submission(&mut self, batch: Batch, base: u32, steps: u32) -> Result<(f64, u32), GpuError> {
        self.write_step(base, batch.tokens)?;
        let start = Instant::now();
        let report = self.submit(None, |runner, recorder| {
            for _ in 0..steps {
                runner.forward(recorder, batch)?;
                recorder.multiply(&runner.head_all, batch.product, batch)?;
                runner.step.choose_largest(recorder, batch.tokens)?;
            }
            Ok(())
        })?;
        let report = report.await?;
        Ok((start.elapsed().as_secs_f64() * 1e3, report.dispatches))
    }
}

/// The middle of the samples.
fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(0.0)
}
