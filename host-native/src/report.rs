//! What is printed: JSON lines, and an honest line about speed.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};

use serde_json::{Value, json};

use fanlight_messages::device::{AdapterFacts, Quarantined};
use fanlight_messages::error::GenerateError;
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::protocol::engine::{DraftStats, FinishReason, ModelLoaded, ReplyFinished};
use fanlight_messages::protocol::memory::StoreFault;
use fanlight_messages::reply::ReplyPart;
use fanlight_messages::warning::Warning;

use crate::terminal;

/// The first failure to write the answer that is not a reader who has left.
static WRITE_FAULT: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints a line of JSON; false when nobody reads any more.
pub fn print_json(value: &Value) -> bool {
    print_text(&format!("{value}\n"))
}

/// Prints text as it comes; false when nobody reads any more.
pub fn print_text(text: &str) -> bool {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => true,
        Err(error) => {
            // A reader that has seen enough is no failure.
            if error.kind() != io::ErrorKind::BrokenPipe
                && let Ok(mut fault) = WRITE_FAULT.lock()
            {
                fault.get_or_insert(error);
            }
            false
        }
    }
}

/// Fails when something that was printed did not arrive, which no other error would tell.
pub fn check_output(code: ExitCode) -> Result<ExitCode> {
    match WRITE_FAULT.lock().ok().and_then(|mut fault| fault.take()) {
        Some(error) => Err(error).context("cannot write the output"),
        None => Ok(code),
    }
}

/// Which option helps against a failure.
pub fn hint(error: &anyhow::Error) -> Option<&'static str> {
    match error.downcast_ref()? {
        GenerateError::PromptTooLong { .. } => Some("--context N loads a longer context"),
        GenerateError::Template { .. } => Some("--raw continues the text without a chat template"),
        _ => None,
    }
}

/// Says on the standard error output what a person should know about a model or a conversation.
pub fn warnings(warnings: &[Warning]) {
    for warning in warnings {
        // A conversation fails without a template and says why; a text does not need one.
        if !matches!(warning, Warning::NoChatTemplate | Warning::ChatTemplateUnusable { .. }) {
            eprintln!("fanlight: warning: {}", terminal::plain(&warning.to_string()));
        }
    }
}

/// Warnings as JSON.
pub fn warnings_json(warnings: &[Warning]) -> Value {
    warnings.iter().map(|warning| json!({ "code": warning.code(), "message": warning.to_string() })).collect()
}

/// The line that ends a failed run.
pub fn error_line(error: &anyhow::Error) -> Value {
    json!({ "error": format!("{error:#}") })
}

/// The line after a load.
fn loaded_line(loaded: &ModelLoaded) -> Value {
    json!({
        "loaded": loaded.name,
        "context": loaded.context_len,
        "gpu_bytes": loaded.gpu_bytes,
        "read_bytes": loaded.read_bytes,
        "streams": stream_json(&loaded.plan),
        "was_reduced": loaded.was_reduced,
        "quarantined": loaded.quarantined.as_ref().map(ToString::to_string),
        "adapter": adapter_json(&loaded.adapter),
        "warnings": warnings_json(&loaded.warnings),
    })
}

/// Says what was loaded, and on what where that is no GPU.
pub fn loaded(loaded: &ModelLoaded, is_json: bool) {
    if is_json {
        print_json(&loaded_line(loaded));
        return;
    }
    streams_line(loaded).into_iter().for_each(|line| eprintln!("{line}"));
    if loaded.adapter.kind.is_software() {
        eprintln!("{}", adapter_text(&loaded.adapter));
    }
}

/// What streams, for people; `None` when everything is on the GPU.
fn streams_line(loaded: &ModelLoaded) -> Option<String> {
    let stream = loaded.plan.stream.as_ref()?;
    let why = if loaded.was_reduced { "the gpu refused more; " } else { "" };
    let mib = |bytes: u64| bytes >> 20;
    Some(format!(
        "{why}{} MiB on the gpu, {} MiB of the file in {} pages stream through it for every pass",
        mib(loaded.gpu_bytes),
        mib(stream.pass_bytes),
        stream.pages.len(),
    ))
}

fn stream_json(plan: &GpuPlan) -> Value {
    plan.stream.as_ref().map_or(Value::Null, |stream| {
        json!({
            "pages": stream.pages.len(),
            "slots": stream.slots,
            "slot_bytes": stream.slot_bytes,
            "pass_bytes": stream.pass_bytes,
            "gathers_embeddings": stream.gathers.is_some(),
        })
    })
}

/// An adapter as JSON.
pub fn adapter_json(facts: &AdapterFacts) -> Value {
    json!({
        "name": facts.name,
        "backend": facts.backend,
        "driver": facts.driver,
        "software": facts.kind.is_software(),
    })
}

/// Says on the standard error output what the device must not use, where anything is.
pub fn quarantined<'a>(found: impl IntoIterator<Item = &'a Quarantined>) {
    for found in found {
        eprintln!("fanlight: {found}");
    }
}

/// Says on the standard error output what is wrong with a memory file, where anything is.
pub fn memory_fault(fault: &Option<StoreFault>) {
    if let Some(fault) = fault {
        eprintln!("fanlight: {fault}");
    }
}

/// What drafts were worth, named as everything else on the line.
fn drafts_json(stats: &DraftStats) -> Value {
    json!({
        "verified": stats.verified,
        "accepted": stats.accepted,
        "steps_by_accepted": stats.accepted_by_depth,
        "steps_by_match_length": stats.match_len,
    })
}

fn finish_name(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::Cancelled => "cancelled",
    }
}

/// The last line: the whole reply and what it took.
pub fn finished_line(
    prompt_ids: &[u32],
    output_ids: &[u32],
    parts: &[ReplyPart],
    finished: &ReplyFinished,
    loaded: &ModelLoaded,
) -> Value {
    let stats = &finished.stats;
    json!({
        "finish": finish_name(finished.reason),
        "prompt_ids": prompt_ids,
        "output_ids": output_ids,
        "text": ReplyPart::content_of(parts),
        "reasoning": ReplyPart::reasoning_of(parts),
        "logits_hash": finished.logits_hash.map(|hash| format!("{hash:08x}")),
        "stats": {
            "prefill_tokens": stats.prefill_tokens,
            "prefill_ms": milliseconds(stats.prefill_us),
            "decode_tokens": stats.decode_tokens,
            "decode_ms": milliseconds(stats.decode_us),
            "decode_ms_per_token": ratio(milliseconds(stats.decode_us), f64::from(stats.decode_tokens)),
            "tokens_per_step": ratio(f64::from(stats.decode_tokens), f64::from(stats.steps)),
            "steps": stats.steps,
            "drafts": drafts_json(&stats.drafting),
            "ms_per_step": ratio(milliseconds(stats.decode_us), f64::from(stats.steps)),
            "windows": stats.windows,
            "dispatches_per_step": ratio(stats.decode_dispatches as f64, f64::from(stats.submitted_steps)),
            "gpu_peak_bytes": loaded.gpu_bytes,
            "adapter": adapter_json(&loaded.adapter),
        },
    })
}

fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1000.0
}

/// `None` where nothing was measured: a speed of nothing is no speed.
fn ratio(numerator: f64, denominator: f64) -> Option<f64> {
    (denominator > 0.0).then(|| numerator / denominator)
}

/// Speed for people: what was measured, over how many tokens.
pub fn speed_line(finished: &ReplyFinished, reused_tokens: u32, load: Duration) -> String {
    let stats = &finished.stats;
    let speed = |tokens: u32, us: u64| {
        ratio(f64::from(tokens), us as f64 / 1e6).map_or("-".into(), |speed| format!("{speed:.1}"))
    };
    let steps = match ratio(f64::from(stats.decode_tokens), f64::from(stats.steps)) {
        Some(per_step) if stats.drafting.verified > 0 => format!(", {per_step:.2} a step"),
        _ => String::new(),
    };
    let reused = if reused_tokens > 0 { format!(", {reused_tokens} reused") } else { String::new() };
    format!(
        "load {:.1} s | prompt {} tokens{reused}, {}/s | reply {} tokens, {}/s{steps}",
        load.as_secs_f64(),
        stats.prefill_tokens,
        speed(stats.prefill_tokens, stats.prefill_us),
        finished.tokens,
        speed(stats.decode_tokens, stats.decode_us),
    )
}

/// Why a reply ended that the model did not end itself; `None` when it did.
pub fn cut_line(finished: &ReplyFinished, token_limit: u32, context_len: u32) -> Option<String> {
    match finished.reason {
        FinishReason::Stop | FinishReason::Cancelled => None,
        FinishReason::Length if finished.tokens < token_limit => {
            Some(format!("stopped: the context of {context_len} tokens is full (--context N loads more)"))
        }
        FinishReason::Length => {
            Some(format!("stopped at the limit of {token_limit} tokens (-n N allows more)"))
        }
    }
}

/// An adapter for people.
pub fn adapter_text(facts: &AdapterFacts) -> String {
    let software = if facts.kind.is_software() { ", SOFTWARE: a processor computes, not a GPU" } else { "" };
    let driver = if facts.driver.is_empty() { String::new() } else { format!(", {}", facts.driver) };
    format!("{} ({}{driver}{software})", facts.name, facts.backend)
}
