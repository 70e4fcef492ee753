//! `fanlight bench`: what a model takes on this adapter, measured on the engine's own submissions.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use futures::executor::block_on;
use futures::future::{Either, select};
use futures::pin_mut;
use serde_json::{Value, json};

use fanlight_actors::engine::start_engine;
use fanlight_actors::kit::{Clock, Latch, World};
use fanlight_actors::pager::InspectRequest;
use fanlight_gpu::runner::{DecodeTime, PipelineTime, StepTime};
use fanlight_gpu::{AdapterPreference, GpuBackend};
use fanlight_messages::limits::CONTEXT_LEN_MIN;
use fanlight_messages::protocol::engine::{Load, LoadProgress};

use crate::files::{Reads, open_model};
use crate::load::with_progress;
use crate::measured::{MeasuredModel, PhaseTime};
use crate::options::BenchOptions;
use crate::report::{adapter_json, adapter_text, print_json, print_text};
use crate::stop::{INTERRUPTED, Interrupts};
use crate::suite::measure_suite;

/// Tokens of the measured prompt, where context and prompt batch allow it.
const PROMPT_TOKENS: u32 = 512;
/// Cache length at which steps are measured, where the context is at least twice as long.
const BASE: u32 = 512;
/// Tokens of text before the draft whose cost is measured, where the context is at least twice as long.
const DRAFT_BASE: u32 = 4096;
/// (steps per window, windows in flight); the first is decoding with a readback per token.
const DECODING: [(u32, u32); 4] = [(1, 1), (1, 2), (2, 2), (4, 2)];
/// Nodes of the steps whose pipelines are measured one by one: plain decoding, and a step of several nodes.
const PIPELINE_TOKENS: [u32; 2] = [1, 8];

/// Runs the command.
pub fn bench(options: &BenchOptions) -> Result<ExitCode> {
    match &options.suite {
        Some(suite) => bench_suite(options, suite),
        None => bench_model(options),
    }
}

/// Decodes a suite of prompts in every way.
fn bench_suite(options: &BenchOptions, suite: &Path) -> Result<ExitCode> {
    World::run(|world, _| async move {
        let mut interrupts = Interrupts::listen()?;
        let sources = open_model(&options.model, Reads::Cached)?;
        let backend = GpuBackend::open(AdapterPreference::HighPerformance).await?;
        let handle = start_engine(&world, backend, Clock::real());
        let progress = Latch::new(LoadProgress::default());
        let loading = handle.load(load_request(options), sources, progress.clone());
        let Some(loaded) = with_progress(loading, &progress, &mut interrupts, options.json).await else {
            return Ok(ExitCode::from(INTERRUPTED));
        };
        loaded.with_context(|| options.model.display().to_string())?;
        until_interrupted(measure_suite(&handle, options, suite), &mut interrupts).await
    })
}

async fn until_interrupted(
    measuring: impl Future<Output = Result<()>>,
    interrupts: &mut Interrupts,
) -> Result<ExitCode> {
    let interrupted = interrupts.next();
    pin_mut!(measuring, interrupted);
    match select(measuring, interrupted).await {
        Either::Left((measured, _)) => measured.map(|()| ExitCode::SUCCESS),
        Either::Right(_) => Ok(ExitCode::from(INTERRUPTED)),
    }
}

fn load_request(options: &BenchOptions) -> Load {
    Load { context_len: options.context, kv_format: options.kv.into(), ..Load::default() }
}

fn bench_model(options: &BenchOptions) -> Result<ExitCode> {
    block_on(async {
        let sources = open_model(&options.model, Reads::Cached)?;
        let backend = GpuBackend::open(AdapterPreference::HighPerformance).await?;
        let progress = Latch::new(LoadProgress::default());
        let request = InspectRequest {
            context_len: options.context,
            batch_tokens: Load::default().batch_tokens,
            kv_format: options.kv.into(),
            budget: None,
        };
        let loading = MeasuredModel::load(&backend, sources, &request, &progress);
        let mut interrupts = Interrupts::listen()?;
        let Some(model) = with_progress(loading, &progress, &mut interrupts, options.json).await else {
            return Ok(ExitCode::from(INTERRUPTED));
        };
        let mut model = model.with_context(|| options.model.display().to_string())?;
        until_interrupted(measure(&mut model, options.json), &mut interrupts).await
    })
}

/// Measures and prints each figure as it comes.
async fn measure(model: &mut MeasuredModel, is_json: bool) -> Result<()> {
    let print = |line: Value, text: String| {
        if is_json {
            print_json(&line)
        } else {
            print_text(&text)
        };
    };
    let (line, text) = load_report(model);
    print(line, text);

    let request = model.plan().request;
    let tokens = PROMPT_TOKENS.min(request.batch_tokens).min(request.context_len);
    if request.context_len < CONTEXT_LEN_MIN {
        let wanted = "positions are needed to measure decoding: choose another model";
        bail!("the file promises a context of {}, {CONTEXT_LEN_MIN} {wanted}", request.context_len);
    }
    // The prompt comes first: it leaves real rows in the cache that decoding reads.
    let (line, text) = prefill_report(tokens, model.runner.time_prefill(tokens).await?);
    print(line, text);

    let base = BASE.min(request.context_len / 2);
    let mut best_ms = f64::INFINITY;
    for (steps, in_flight) in DECODING {
        let time = model.runner.time_decode(base, steps, in_flight).await?;
        best_ms = best_ms.min(time.ms_per_token);
        let (line, text) = decode_report(base, &time);
        print(line, text);
    }
    let (line, text) = weights_report(model, best_ms);
    print(line, text);

    let steps = model.runner.time_steps(base, request.logits_rows).await?;
    let one_ms = steps.first().map_or(0.0, |step| step.ms);
    for step in &steps {
        let (line, text) = step_report(base, step, one_ms);
        print(line, text);
    }
    let draft_base = DRAFT_BASE.min(request.context_len / 2);
    let (line, text) = draft_report(draft_base, model.runner.time_drafting(draft_base).await?, best_ms);
    print(line, text);
    for tokens in PIPELINE_TOKENS {
        for pipeline in model.runner.time_pipelines(base, tokens).await? {
            let (line, text) = pipeline_report(base, tokens, &pipeline);
            print(line, text);
        }
    }
    Ok(())
}

/// Bytes per second of `bytes` in `ms` milliseconds.
fn bytes_per_s(bytes: u64, ms: f64) -> f64 {
    bytes as f64 / (ms / 1e3)
}

fn milliseconds(phase: PhaseTime) -> f64 {
    phase.us as f64 / 1e3
}

fn load_report(model: &MeasuredModel) -> (Value, String) {
    let (plan, times) = (model.plan(), &model.times);
    let phases = [
        ("open", times.open),
        ("create", times.create),
        ("upload", times.upload),
        ("compile", times.compile),
    ];
    let total_ms: f64 = phases.iter().map(|(_, phase)| milliseconds(*phase)).sum();
    let pipelines: usize = phases.iter().map(|(_, phase)| phase.pipelines).sum();
    let upload_speed = bytes_per_s(model.read_bytes, milliseconds(times.upload));
    let mut line = json!({
        "loaded": model.name,
        "adapter": adapter_json(&model.adapter),
        "context": plan.request.context_len,
        "gpu_bytes": plan.total_bytes(),
        "read_bytes": model.read_bytes,
        "load_ms": total_ms,
        "upload_bytes_per_s": upload_speed,
        "pipelines": pipelines,
    });
    let mut text = format!(
        "{}, context {}, {:.1} MB on the gpu\n{}\n\nload {total_ms:>10.1} ms, {pipelines} pipelines\n",
        model.name,
        plan.request.context_len,
        plan.total_bytes() as f64 / 1e6,
        adapter_text(&model.adapter),
    );
    for (name, phase) in phases {
        line[format!("{name}_ms")] = milliseconds(phase).into();
        line[format!("{name}_pipelines")] = phase.pipelines.into();
        text += &format!("  {name:<8} {:>10.1} ms, {} pipelines", milliseconds(phase), phase.pipelines);
        if name == "upload" {
            text +=
                &format!(", {:.1} MB read, {:.1} MB/s", model.read_bytes as f64 / 1e6, upload_speed / 1e6);
        }
        text.push('\n');
    }
    (line, text + "\n")
}

fn prefill_report(tokens: u32, ms: f64) -> (Value, String) {
    let speed = f64::from(tokens) / (ms / 1e3);
    let line = json!({ "prefill_tokens": tokens, "ms": ms, "tokens_per_s": speed });
    (line, format!("prefill of {tokens} tokens: {ms:.2} ms, {speed:.1} tok/s\n\n"))
}

fn decode_report(base: u32, time: &DecodeTime) -> (Value, String) {
    let DecodeTime { steps, in_flight, ms_per_token, dispatches } = *time;
    let speed = 1e3 / ms_per_token;
    let line = json!({
        "decode_at": base,
        "window": steps,
        "in_flight": in_flight,
        "ms_per_token": ms_per_token,
        "tokens_per_s": speed,
        "dispatches_per_step": dispatches,
    });
    let how = if in_flight == 1 { "readback per token".into() } else { format!("{in_flight} in flight") };
    let text = format!(
        "decode at {base}, window {steps}, {how:<18} {ms_per_token:>8.3} ms/token {speed:>8.1} tok/s, \
         {dispatches} dispatches\n"
    );
    (line, text)
}

/// What decoding one token at a time makes of the memory: a step reads every weight once.
fn weights_report(model: &MeasuredModel, ms: f64) -> (Value, String) {
    let weights = model.step_weights();
    let (gpu, file) = (bytes_per_s(weights.gpu_bytes, ms), bytes_per_s(weights.file_bytes, ms));
    let line = json!({
        "step_weight_bytes": weights.gpu_bytes,
        "step_weight_file_bytes": weights.file_bytes,
        "ms_per_token": ms,
        "bytes_per_s": gpu,
        "file_bytes_per_s": file,
    });
    let text = format!(
        "weights of a step: {:.1} MB on the gpu, {:.2} GB/s; {:.1} MB in the file, {:.2} GB/s\n\n",
        weights.gpu_bytes as f64 / 1e6,
        gpu / 1e9,
        weights.file_bytes as f64 / 1e6,
        file / 1e9,
    );
    (line, text)
}

fn step_report(base: u32, step: &StepTime, one_ms: f64) -> (Value, String) {
    let StepTime { tokens, ms, dispatches } = *step;
    let ratio = ms / one_ms;
    let line = json!({
        "step_at": base,
        "tokens": tokens,
        "ms": ms,
        "ratio_to_one": ratio,
        "dispatches": dispatches,
    });
    (line, format!("step of {tokens:>2} at {base} {ms:>10.3} ms  ×{ratio:<6.2} {dispatches} dispatches\n"))
}

fn draft_report(base: u32, (scan_ms, tree_ms): (f64, f64), step_ms: f64) -> (Value, String) {
    let share = (scan_ms + tree_ms) / step_ms;
    let line = json!({
        "draft_at": base,
        "scan_ms": scan_ms,
        "tree_ms": tree_ms,
        "share_of_plain_step": share,
    });
    let text = format!(
        "draft at {base}: scan {scan_ms:.4} ms, tree {tree_ms:.4} ms, {:.1} % of a plain step\n",
        100.0 * share
    );
    (line, text)
}

fn pipeline_report(base: u32, tokens: u32, time: &PipelineTime) -> (Value, String) {
    let PipelineTime { name, ms, dispatches } = time;
    let line = json!({
        "pipeline": name,
        "step_at": base,
        "tokens": tokens,
        "ms_per_step": ms,
        "dispatches": dispatches,
    });
    (line, format!("{ms:>10.3} ms of a step of {tokens} in {dispatches:>4} dispatches of {name}\n"))
}
