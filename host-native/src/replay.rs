//! `fanlight replay`: what each drafter would have been worth on recorded replies.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use fanlight_drafter::baseline::{PromptLookup, SuffixTree};
use fanlight_drafter::{Drafter, Mixing, Recording, Reliabilities, Replay, replay};

use crate::options::ReplayOptions;
use crate::report::{print_json, print_text};

/// Largest file of recordings: a thousand replies to prompts that fill half the longest context.
const RECORDINGS_BYTES_MAX: u64 = 128 << 20;
/// Seed of the random order: any will do, this one is the one that was reported.
const ORDER_SEED: u64 = 7;

/// Runs the command.
pub fn run(options: &ReplayOptions) -> Result<ExitCode> {
    let path = options.file.display();
    let bytes = std::fs::metadata(&options.file).with_context(|| path.to_string())?.len();
    ensure!(
        bytes <= RECORDINGS_BYTES_MAX,
        "{path} has {bytes} bytes, at most {RECORDINGS_BYTES_MAX} are read"
    );
    let text = std::fs::read_to_string(&options.file).with_context(|| path.to_string())?;
    let recordings = Recording::read_all(&text).with_context(|| path.to_string())?;
    let chosen: Vec<&Recording> =
        recordings.iter().filter(|r| options.split.as_ref().is_none_or(|split| r.split == *split)).collect();
    if chosen.is_empty() {
        let split = options.split.as_ref().map(|split| format!(" of the split {split}")).unwrap_or_default();
        bail!("{path} holds no recording{split}");
    }
    let shuffled = shuffled(&chosen);
    for (order, recordings) in [("task order", &chosen), ("random order", &shuffled)] {
        for with_memory in [false, true] {
            for mut drafter in drafters() {
                let shares = replay(recordings, drafter.as_mut(), options.width, with_memory);
                print_shares(order, with_memory, drafter.name(), recordings, &shares, options.json);
                if options.learned && drafter.name() == Mixing::LEARNED && order == "task order" {
                    print_reliabilities(drafter.as_ref());
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn drafters() -> Vec<Box<dyn Drafter>> {
    let mixing = |learns| Mixing { reliabilities: Reliabilities::default(), learns };
    vec![Box::new(PromptLookup), Box::new(SuffixTree), Box::new(mixing(false)), Box::new(mixing(true))]
}

/// The same recordings in an order that has nothing to do with their tasks (Fisher and Yates).
fn shuffled<'a>(recordings: &[&'a Recording]) -> Vec<&'a Recording> {
    let mut order = recordings.to_vec();
    let mut state = ORDER_SEED;
    for last in (1..order.len()).rev() {
        // A step of a linear congruential generator (Knuth's constants); its high bits are the good ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, (state >> 33) as usize % (last + 1));
    }
    order
}

fn print_shares(
    order: &str,
    with_memory: bool,
    drafter: &str,
    recordings: &[&Recording],
    shares: &[Replay],
    is_json: bool,
) {
    let mut by_class: BTreeMap<&str, Replay> = BTreeMap::new();
    let mut all = Replay::default();
    for (recording, share) in recordings.iter().zip(shares) {
        *by_class.entry(&recording.class).or_default() += *share;
        all += *share;
    }
    let memory = if with_memory { "memory" } else { "no memory" };
    if is_json {
        let classes: BTreeMap<&str, f64> = by_class.iter().map(|(c, r)| (*c, r.tokens_per_step())).collect();
        print_json(&json!({
            "order": order,
            "memory": with_memory,
            "drafter": drafter,
            "tokens_per_step": all.tokens_per_step(),
            "by_class": classes,
        }));
        return;
    }
    let classes: Vec<String> =
        by_class.iter().map(|(class, replay)| format!("{class} {:.2}", replay.tokens_per_step())).collect();
    print_text(&format!(
        "{order:<13} {memory:<10} {drafter:<16} {:>5.2}   {}\n",
        all.tokens_per_step(),
        classes.join("  "),
    ));
}

/// Where learning has brought the reliabilities: what new defaults are chosen from.
fn print_reliabilities(drafter: &dyn Drafter) {
    for row in drafter.reliabilities().into_iter().flat_map(|r| r.0) {
        print_text(&format!("    {row:?},\n"));
    }
}
