//! `fanlight bench --suite`: the same prompts decoded in every way, one after the other, on a warm device.
//! All ways must give the same ids and the same hash of logits.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use fanlight_actors::engine::EngineHandle;
use fanlight_messages::draft::{NODES_MAX, WIDTHS, Width, WidthPolicy};
use fanlight_messages::protocol::engine::*;
use fanlight_messages::reply::Think;

use crate::options::{BenchOptions, Way, Window};
use crate::report::{print_json, print_text};
use crate::run::chat_prompt;

/// Largest suite file: a thousand prompts of the longest message that fits any context.
const SUITE_BYTES_MAX: u64 = 64 << 20;

/// A prompt of a suite: one JSON object per line.
struct SuitePrompt {
    id: String,
    class: String,
    split: String,
    message: String,
}

/// What a way took over all prompts.
#[derive(Debug, Clone, Copy, Default)]
struct WayTotals {
    tokens: u64,
    steps: u64,
    us: u64,
    accepted: [u64; 9],
}

fn read_suite(path: &Path) -> Result<Vec<SuitePrompt>> {
    let bytes = fs::metadata(path).with_context(|| path.display().to_string())?.len();
    ensure!(
        bytes <= SUITE_BYTES_MAX,
        "{} has {bytes} bytes, at most {SUITE_BYTES_MAX} are read",
        path.display()
    );
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            let value: Value =
                serde_json::from_str(line).with_context(|| format!("{}, line {number}", path.display()))?;
            let field = |name: &str| -> Result<String> {
                let text = value[name].as_str();
                let text =
                    text.with_context(|| format!("{}, line {number}: no \"{name}\"", path.display()))?;
                Ok(text.to_owned())
            };
            Ok(SuitePrompt {
                id: field("id")?,
                class: field("class")?,
                split: field("split")?,
                message: field("message")?,
            })
        })
        .collect()
}

/// The ways of a suite when none is named: a readback per token, plain windows, every width, auto.
fn all_ways() -> Vec<Way> {
    let way = |width, steps, in_flight| Way { width, steps: Window(steps), in_flight };
    let plain = |steps, in_flight| way(WidthPolicy::default(), Some(steps), in_flight);
    let mut ways = vec![plain(1, 1), plain(1, 2), plain(2, 2), plain(4, 2)];
    let fixed = |nodes| WidthPolicy::Fixed(Width::Nodes(nodes));
    ways.extend(WIDTHS.into_iter().skip(1).map(|nodes| way(fixed(nodes), Some(2), 2)));
    ways.push(way(WidthPolicy::Auto { max: NODES_MAX }, None, 2));
    ways
}

/// Runs every prompt in every way and prints a line per way.
pub async fn measure_suite(handle: &EngineHandle, options: &BenchOptions, path: &Path) -> Result<()> {
    let prompts = read_suite(path)?;
    ensure!(!prompts.is_empty(), "{} holds no prompt", path.display());
    let ways = if options.ways.is_empty() { all_ways() } else { options.ways.clone() };
    let mut totals = vec![WayTotals::default(); ways.len()];
    let mut recordings = String::new();
    for (number, prompt) in prompts.iter().enumerate() {
        let mut first: Option<Reply> = None;
        // The first run of all is a warm-up: pipelines are compiled and the device clocks up.
        let warm_up = if number == 0 { ways.len() } else { 0 };
        for (index, way) in ways.iter().cycle().take(ways.len() + warm_up).enumerate() {
            let reply = reply(handle, options, prompt, *way).await?;
            if index >= warm_up {
                totals[index % ways.len()].add(&reply.finished.stats);
            }
            match &first {
                None => first = Some(reply),
                Some(first) => compare(prompt, *way, first, &reply)?,
            }
        }
        if let Some(first) = first {
            recordings += &format!("{}\n", recording(prompt, &first));
        }
    }
    if let Some(record) = &options.record {
        fs::write(record, recordings).with_context(|| record.display().to_string())?;
    }
    print_totals(&ways, &totals, prompts.len(), options.json);
    Ok(())
}

impl WayTotals {
    fn add(&mut self, stats: &ReplyStats) {
        self.tokens += u64::from(stats.decode_tokens);
        self.steps += u64::from(stats.steps);
        self.us += stats.decode_us;
        let depths = self.accepted.iter_mut().zip(stats.drafting.accepted_by_depth);
        depths.for_each(|(sum, steps)| *sum += u64::from(steps));
    }
}

/// A reply as far as ways must agree on it.
struct Reply {
    prompt_ids: Vec<u32>,
    ids: Vec<u32>,
    finished: ReplyFinished,
}

async fn reply(
    handle: &EngineHandle,
    options: &BenchOptions,
    prompt: &SuitePrompt,
    way: Way,
) -> Result<Reply> {
    let request = Generate {
        window_steps: way.steps.0,
        windows_in_flight: way.in_flight,
        width: way.width,
        hash_logits: options.hash,
        ..Generate::new(chat_prompt(None, &prompt.message, Think::Off), options.token_limit)
    };
    let mut generation = handle.generate(request).await.with_context(|| prompt.id.clone())?;
    let mut ids = Vec::new();
    while let Some(event) = generation.events.next().await {
        match event {
            GenerationEvent::Tokens { ids: new, .. } => ids.extend(new),
            GenerationEvent::Prefilled { .. }
            | GenerationEvent::Advanced { .. }
            | GenerationEvent::Resumed { .. } => {}
            GenerationEvent::Failed(error) => return Err(error).with_context(|| prompt.id.clone()),
            GenerationEvent::Finished(finished) => {
                let prompt_ids = generation.started.prompt_ids.to_vec();
                return Ok(Reply { prompt_ids, ids, finished });
            }
        }
    }
    bail!("{}: the engine ended in the middle of the reply", prompt.id)
}

fn compare(prompt: &SuitePrompt, way: Way, first: &Reply, reply: &Reply) -> Result<()> {
    let same = first.ids == reply.ids
        && first.finished.logits_hash == reply.finished.logits_hash
        && first.finished.reason == reply.finished.reason;
    if same {
        return Ok(());
    }
    let alike = first.ids.iter().zip(&reply.ids).take_while(|(a, b)| a == b).count();
    bail!(
        "{}: {way} is not lossless: {alike} tokens agree with the first way, \
         of {} ({:?}, {:?}) and {} ({:?}, {:?})",
        prompt.id,
        first.ids.len(),
        first.finished.reason,
        first.finished.logits_hash,
        reply.ids.len(),
        reply.finished.reason,
        reply.finished.logits_hash,
    )
}

fn recording(prompt: &SuitePrompt, reply: &Reply) -> Value {
    json!({
        "id": prompt.id,
        "class": prompt.class,
        "split": prompt.split,
        "prompt_ids": reply.prompt_ids,
        "output_ids": reply.ids,
    })
}

fn print_totals(ways: &[Way], totals: &[WayTotals], prompts: usize, is_json: bool) {
    let ms = |total: &WayTotals| total.us as f64 / 1e3 / total.tokens.max(1) as f64;
    // Speculation is compared with the plain windows of two steps, or with whatever comes first.
    let is_base =
        |way: &Way| *way == Way { width: WidthPolicy::default(), steps: Window(Some(2)), in_flight: 2 };
    let base = ways.iter().position(is_base).unwrap_or(0);
    let base_ms = totals.get(base).map_or(0.0, ms);
    for (way, total) in ways.iter().zip(totals) {
        let per_step = total.tokens as f64 / total.steps.max(1) as f64;
        let speedup = base_ms / ms(total);
        if is_json {
            print_json(&json!({
                "suite": prompts,
                "way": way.to_string(),
                "tokens": total.tokens,
                "ms_per_token": ms(total),
                "tokens_per_step": per_step,
                "speedup": speedup,
                "steps_by_accepted": total.accepted,
            }));
        } else {
            print_text(&format!(
                "{way:<24} {:>8.3} ms/token  {per_step:>5.2} tokens/step  ×{speedup:.2}\n",
                ms(total),
            ));
        }
    }
}
