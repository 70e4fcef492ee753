//! `fanlight run`: loads a model, streams one reply, says how fast it was.

use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context, Result};

use fanlight_actors::costs::Recalled;
use fanlight_actors::engine::{EngineHandle, start_engine_with};
use fanlight_actors::kit::{Clock, Latch, World};
use fanlight_gpu::{AdapterPreference, GpuBackend};
use fanlight_messages::device::AdapterKind;
use fanlight_messages::draft::WidthPolicy;
use fanlight_messages::protocol::engine::*;
use fanlight_messages::protocol::memory::MemoryScope;
use fanlight_messages::reply::Think;

use crate::cache::CacheFolder;
use crate::files::open_model;
use crate::input;
use crate::load::with_progress;
use crate::memory::{self, MemoryFile};
use crate::observe::Observer;
use crate::options::RunOptions;
use crate::reply::{Look, Printer, stream_reply};
use crate::report;
use crate::stop::{INTERRUPTED, Interrupts};

/// Runs the command.
pub fn run(options: &RunOptions) -> Result<ExitCode> {
    let sampling = Rc::new(options.sampling.sampling()?);
    let message = input::message(options)?;
    options.memory.as_deref().map_or(Ok(()), memory::check)?;
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
        let started = Instant::now();
        let progress = Latch::new(LoadProgress::default());
        let loading = handle.load(request, sources, progress.clone());
        let Some(loaded) = with_progress(loading, &progress, &mut interrupts, options.json).await else {
            return Ok(ExitCode::from(INTERRUPTED));
        };
        let loaded = loaded.with_context(|| options.model.display().to_string())?;
        let load = started.elapsed();
        report::quarantined(&loaded.quarantined);
        report::warnings(&loaded.warnings);
        report::loaded(&loaded, options.json);
        let token_limit = options.token_limit.unwrap_or(loaded.context_len);
        let request = Generate {
            sampling: sampling.clone(),
            ..generate_request(options, message, token_limit, loaded.adapter.kind)
        };
        // Costs matter where something is chosen by them.
        let is_auto = matches!(request.width, WidthPolicy::Auto { .. });
        let cache = is_auto.then(|| CacheFolder::find(options.cache.as_deref())).flatten();
        if let Some(cache) = &cache {
            recall_costs(&handle, cache, &loaded).await;
        }
        let generation = handle.generate(request).await?;
        report::memory_fault(&generation.started.memory_fault);
        report::warnings(&generation.started.warnings);
        let mut observer = Observer::new(options.observe);
        let look = Look {
            is_json: options.json,
            shows_thinking: options.show_thinking,
            seed: sampling.is_drawn().then_some(sampling.options().seed),
            token_limit,
            load,
        };
        let printer = Printer::new(look, &loaded);
        let outcome = stream_reply(generation, &handle, printer, &mut interrupts, &mut observer).await;
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

/// Starts with what earlier runs have measured of this model; without it everything is measured again.
async fn recall_costs(handle: &EngineHandle, cache: &CacheFolder, loaded: &ModelLoaded) {
    match handle.recall_costs(cache, loaded).await {
        Ok(Recalled::Refused(refused)) => eprintln!("fanlight: {refused}"),
        Ok(_) => {}
        Err(error) => eprintln!("fanlight: {error}"),
    }
}

fn generate_request(
    options: &RunOptions,
    message: String,
    token_limit: u32,
    adapter: AdapterKind,
) -> Generate {
    let prompt = match options.raw {
        true => Prompt::Raw(message),
        false => chat_prompt(options.system.as_deref(), &message, options.think.into()),
    };
    Generate {
        window_steps: options.window.0,
        width: options.width.unwrap_or_else(|| WidthPolicy::for_adapter(adapter)),
        frame_budget_ms: options.frame_budget,
        stop: options.stop.clone(),
        hash_logits: options.json,
        memory: if options.memory.is_some() { MemoryScope::Origin } else { MemoryScope::Off },
        ..Generate::new(prompt, token_limit)
    }
}

/// A conversation of one message, and instructions before it where there are any.
pub fn chat_prompt(system: Option<&str>, message: &str, think: Think) -> Prompt {
    let turn = |role, content: &str| ChatTurn { role, content: content.to_owned() };
    let system = system.map(|text| turn(ChatRole::System, text));
    let turns = system.into_iter().chain([turn(ChatRole::User, message)]).collect();
    Prompt::Chat { turns, think, now: local_time() }
}

/// The time for templates that print a date, where this machine is.
fn local_time() -> WallTime {
    let now = jiff::Zoned::now();
    WallTime {
        year: now.year().into(),
        month: now.month().unsigned_abs(),
        day: now.day().unsigned_abs(),
        hour: now.hour().unsigned_abs(),
        minute: now.minute().unsigned_abs(),
        second: now.second().unsigned_abs(),
    }
}
