//! `fanlight run`: loads a model, streams one reply, says how fast it was.

use std::process::ExitCode;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use futures::future::{Either, select};
use futures::pin_mut;

use fanlight_actors::costs::Recalled;
use fanlight_actors::engine::{EngineHandle, Generation, start_engine_with};
use fanlight_actors::kit::{Clock, Latch, World};
use fanlight_gpu::{AdapterPreference, GpuBackend};
use fanlight_messages::device::AdapterKind;
use fanlight_messages::draft::WidthPolicy;
use fanlight_messages::protocol::engine::*;
use fanlight_messages::protocol::memory::MemoryScope;
use fanlight_messages::sampling::Sampling;

use crate::cache::CacheFolder;
use crate::files::open_model;
use crate::load::{PassBar, with_progress};
use crate::memory::MemoryFile;
use crate::observe::Observer;
use crate::options::{RunOptions, Switch};
use crate::report;
use crate::stop::{INTERRUPTED, Interrupts};

/// Runs the command.
pub fn run(options: &RunOptions) -> Result<ExitCode> {
    let sampling = Rc::new(options.sampling.sampling()?);
    World::run(|world, _| async move {
        let mut interrupts = Interrupts::listen()?;
        let sources = open_model(&options.model, options.budget.reads())?;
        let backend = GpuBackend::open(AdapterPreference::HighPerformance).await?;
        let storage = MemoryFile::new(options.memory.as_deref());
        let handle = start_engine_with(&world, backend, Clock::real(), storage);
        if options.forget_memory {
            handle.forget_memory().await?;
        }
        let request = Load {
            context_len: options.context,
            batch_tokens: options.budget.batch_tokens(options.chunk),
            kv_format: options.kv.into(),
            budget: options.budget.budget(),
            cache_bytes: options.cache_mib.saturating_mul(1 << 20),
        };
        let progress = Latch::new(LoadProgress::default());
        let loading = handle.load(request, sources, progress.clone());
        let Some(loaded) = with_progress(loading, &progress, &mut interrupts, options.json).await else {
            return Ok(ExitCode::from(INTERRUPTED));
        };
        let loaded = loaded.with_context(|| options.model.display().to_string())?;
        report::quarantined(&loaded.quarantined);
        if options.json {
            report::print_json(&report::loaded_line(&loaded));
        } else if let Some(line) = report::streams_line(&loaded) {
            eprintln!("{line}");
        }
        let request = generate_request(options, sampling.clone(), loaded.adapter.kind);
        // Costs matter where something is chosen by them.
        let is_auto = matches!(request.width, WidthPolicy::Auto { .. });
        let cache = is_auto.then(|| CacheFolder::find(options.cache.as_deref())).flatten();
        if let Some(cache) = &cache {
            match handle.recall_costs(cache, &loaded).await {
                Ok(Recalled::Refused(refused)) => eprintln!("fanlight: {refused}"),
                Ok(_) => {}
                Err(error) => eprintln!("fanlight: {error}"),
            }
        }
        let generation = handle.generate(request).await?;
        report::memory_fault(&generation.started.memory_fault);
        let mut observer = Observer::new(options.observe);
        let look =
            Look { is_json: options.json, seed: sampling.is_drawn().then_some(sampling.options().seed) };
        let streaming = stream_reply(generation, &handle, &loaded, &mut interrupts, look, &mut observer);
        let outcome = streaming.await;
        observer.look(&handle, true).await?;
        if let Some(cache) = &cache
            && let Err(error) = handle.keep_costs(cache, &loaded).await
        {
            eprintln!("fanlight: {error}");
        }
        handle.unload().await?;
        outcome
    })
}

fn generate_request(options: &RunOptions, sampling: Rc<Sampling>, adapter: AdapterKind) -> Generate {
    let prompt = if options.raw {
        Prompt::Raw(options.prompt.clone())
    } else {
        chat_prompt(&options.prompt, options.think == Switch::On)
    };
    Generate {
        window_steps: options.window.0,
        width: options.width.unwrap_or_else(|| WidthPolicy::for_adapter(adapter)),
        frame_budget_ms: options.frame_budget,
        stop: options.stop.clone(),
        hash_logits: options.json,
        sampling,
        memory: if options.memory.is_some() { MemoryScope::Origin } else { MemoryScope::Off },
        ..Generate::new(prompt, options.token_limit)
    }
}

/// A conversation of one message.
pub fn chat_prompt(message: &str, think: bool) -> Prompt {
    let turns = vec![ChatTurn { role: ChatRole::User, content: message.to_owned() }];
    Prompt::Chat { turns, think, now: utc_now() }
}

/// How a reply is printed.
#[derive(Debug, Clone, Copy)]
struct Look {
    is_json: bool,
    /// With which another run would draw the same tokens.
    seed: Option<u64>,
}

/// Prints a reply as it comes.
async fn stream_reply(
    mut generation: Generation,
    handle: &EngineHandle,
    loaded: &ModelLoaded,
    interrupts: &mut Interrupts,
    look: Look,
    observer: &mut Observer,
) -> Result<ExitCode> {
    let is_json = look.is_json;
    let (mut ids, mut text) = (Vec::new(), String::new());
    let mut was_interrupted = false;
    let mut pass = PassBar::default();
    loop {
        let event = generation.events.next();
        let interrupted = interrupts.next();
        pin_mut!(event, interrupted);
        let event = match select(event, interrupted).await {
            Either::Left((event, _)) => event.context("the engine ended in the middle of the reply")?,
            Either::Right(_) => {
                was_interrupted = true;
                handle.cancel().await?;
                continue;
            }
        };
        observer.look(handle, false).await?;
        let is_read = match event {
            GenerationEvent::Prefilled { done, total } if is_json => {
                report::print_json(&serde_json::json!({ "prefilled": done, "of": total }))
            }
            GenerationEvent::Prefilled { .. } => true,
            GenerationEvent::Advanced { done, total } if is_json => {
                report::print_json(&serde_json::json!({ "pass": done, "of": total }))
            }
            GenerationEvent::Advanced { done, total } => {
                pass.show(done, total);
                true
            }
            GenerationEvent::Tokens { ids: new, text: more } => {
                pass.clear();
                text.push_str(&more);
                let is_read = if is_json {
                    report::print_json(&serde_json::json!({ "text": more, "ids": new }))
                } else {
                    report::print_text(&more)
                };
                ids.extend(new);
                is_read
            }
            GenerationEvent::Resumed { same_adapter, adapter } => {
                let note = if same_adapter { "" } else { "; on another adapter the text may differ" };
                eprintln!("fanlight: the gpu was lost and is back: {}{note}", report::adapter_text(&adapter));
                true
            }
            GenerationEvent::Finished(finished) => {
                pass.clear();
                text.push_str(&finished.text);
                print_end(&generation.started, &finished, (&ids, &text), loaded, look);
                return Ok(if was_interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS });
            }
            GenerationEvent::Failed(error) => return Err(error.into()),
        };
        if !is_read {
            // The reader of the pipe has left: so does the reply.
            handle.cancel().await?;
        }
    }
}

/// The end of a reply of `ids` and `text`.
fn print_end(
    started: &GenerationStarted,
    finished: &ReplyFinished,
    (ids, text): (&[u32], &str),
    loaded: &ModelLoaded,
    Look { is_json, seed }: Look,
) {
    report::memory_fault(&finished.memory_fault);
    report::quarantined(&finished.quarantined);
    if is_json {
        let mut line = report::finished_line(&started.prompt_ids, ids, text, finished, loaded);
        line["seed"] = seed.into();
        line["memory_tokens"] = started.memory_tokens.into();
        report::print_json(&line);
    } else {
        report::print_text(&finished.text);
        report::print_text("\n");
        let seed = seed.map_or(String::new(), |seed| format!(", seed {seed}"));
        eprintln!("{}{seed}", report::speed_line(finished, started.reused_tokens, loaded));
    }
}

/// The time for templates that print a date, in UTC: the standard library knows no time zone.
fn utc_now() -> WallTime {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    wall_time(since_epoch.as_secs())
}

/// Seconds since 1970 as a date, by counting 400-year eras of days that start in March.
fn wall_time(seconds: u64) -> WallTime {
    let (days, second_of_day) = ((seconds / 86_400) as i64, seconds % 86_400);
    let from_march_0 = days + 719_468;
    let (era, day_of_era) = (from_march_0.div_euclid(146_097), from_march_0.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    WallTime {
        year: (era * 400 + year_of_era + i64::from(month <= 2)) as i32,
        month: month as u8,
        day: (day_of_year - (153 * march_month + 2) / 5 + 1) as u8,
        hour: (second_of_day / 3_600) as u8,
        minute: (second_of_day / 60 % 60) as u8,
        second: (second_of_day % 60) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let date = |seconds| {
            let time = wall_time(seconds);
            (time.year, time.month, time.day, time.hour, time.minute, time.second)
        };
        assert_eq!(date(0), (1970, 1, 1, 0, 0, 0));
        assert_eq!(date(951_782_399), (2000, 2, 28, 23, 59, 59));
        assert_eq!(date(951_782_400), (2000, 2, 29, 0, 0, 0));
        assert_eq!(date(1_000_000_000), (2001, 9, 9, 1, 46, 40));
        assert_eq!(date(4_107_542_400), (2100, 3, 1, 0, 0, 0));
    }
}
