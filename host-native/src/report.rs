//! What is printed: JSON lines, and an honest line about speed.

use std::io::Write;

use serde_json::{Value, json};

use fanlight_messages::device::{AdapterFacts, Quarantined};
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::protocol::engine::{DraftStats, FinishReason, ModelLoaded, ReplyFinished};
use fanlight_messages::protocol::memory::StoreFault;

/// Prints a line of JSON; false when nobody reads any more.
pub fn print_json(value: &Value) -> bool {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}").and_then(|()| out.flush()).is_ok()
}

/// Prints text as it comes; false when nobody reads any more.
pub fn print_text(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// The line that ends a failed run.
pub fn error_line(error: &anyhow::Error) -> Value {
    json!({ "error": format!("{error:#}") })
}

/// The line after a load.
pub fn loaded_line(loaded: &ModelLoaded) -> Value {
    json!({
        "loaded": loaded.name,
        "context": loaded.context_len,
        "gpu_bytes": loaded.gpu_bytes,
        "read_bytes": loaded.read_bytes,
        "streams": stream_json(&loaded.plan),
        "was_reduced": loaded.was_reduced,
        "quarantined": loaded.quarantined.as_ref().map(ToString::to_string),
        "adapter": adapter_json(&loaded.adapter),
    })
}

/// What streams, for people; `None` when everything is on the GPU.
pub fn streams_line(loaded: &ModelLoaded) -> Option<String> {
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
    text: &str,
    finished: &ReplyFinished,
    loaded: &ModelLoaded,
) -> Value {
    let stats = &finished.stats;
    json!({
        "finish": finish_name(finished.reason),
        "prompt_ids": prompt_ids,
        "output_ids": output_ids,
        "text": text,
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

/// Speed for people: what was measured, over how many tokens, on what.
pub fn speed_line(finished: &ReplyFinished, reused_tokens: u32, loaded: &ModelLoaded) -> String {
    let stats = &finished.stats;
    let speed = |tokens: u32, us: u64| {
        ratio(f64::from(tokens), us as f64 / 1e6).map_or("-".into(), |speed| format!("{speed:.1}"))
    };
    let steps = match ratio(f64::from(stats.decode_tokens), f64::from(stats.steps)) {
        Some(per_step) if stats.drafting.verified > 0 => format!(", {per_step:.2} tokens/step"),
        _ => String::new(),
    };
    let reused = if reused_tokens > 0 { format!(", {reused_tokens} reused") } else { String::new() };
    format!(
        "prefill {} tok/s ({} tokens{reused}), decode {} tok/s ({} tokens{steps}), {}",
        speed(stats.prefill_tokens, stats.prefill_us),
        stats.prefill_tokens,
        speed(stats.decode_tokens, stats.decode_us),
        stats.decode_tokens,
        adapter_text(&loaded.adapter),
    )
}

/// An adapter for people.
pub fn adapter_text(facts: &AdapterFacts) -> String {
    let software = if facts.kind.is_software() { ", SOFTWARE: a processor computes, not a GPU" } else { "" };
    let driver = if facts.driver.is_empty() { String::new() } else { format!(", {}", facts.driver) };
    format!("{} ({}{driver}{software})", facts.name, facts.backend)
}
