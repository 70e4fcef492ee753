//! Measures a model file on this machine's adapter without actors: the runner's own figures as JSON lines.

use std::fs::File;

use clap::Parser;
use fanlight_gpu::selftest::{SelfTestPlan, run};
use fanlight_gpu::{AdapterPreference, Device};
use fanlight_tests::rig::{Rig, RigOptions};
use futures::executor::block_on;
use serde_json::json;

#[derive(Parser)]
struct Options {
    /// Model files.
    models: Vec<std::path::PathBuf>,
    /// Run the whole self-test first.
    #[arg(long)]
    verify: bool,
    /// Positions of the cache.
    #[arg(long, default_value_t = 1024)]
    context: u32,
    /// Cache length at which steps are timed.
    #[arg(long, default_value_t = 512)]
    base: u32,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let device = block_on(Device::open(AdapterPreference::HighPerformance))?;
    println!("{}", json!({"adapter": format!("{:?}", device.facts())}));
    if options.verify {
        let start = std::time::Instant::now();
        let verdicts = block_on(run(&device, &SelfTestPlan::everything(), |_, _| ()))?;
        let failed: Vec<_> = verdicts.iter().filter(|v| v.difference.is_some()).collect();
        println!(
            "{}",
            json!({"verify": verdicts.len(), "failed": failed.len(), "seconds": start.elapsed().as_secs_f64(),
                "first": failed.iter().take(12).map(|v| format!("{v:?}")).collect::<Vec<_>>()})
        );
    }
    for model in &options.models {
        let start = std::time::Instant::now();
        let rig_options = RigOptions { context_len: options.context, ..RigOptions::default() };
        let mut rig = Rig::load(&device, &mut File::open(model)?, rig_options)?;
        println!(
            "{}",
            json!({"model": model, "load_s": start.elapsed().as_secs_f64(), "bytes": rig.runner.plan().total_bytes(), "pipelines": rig.runner.pipeline_count()})
        );
        let prefill = block_on(rig.runner.time_prefill(512))?;
        println!("{}", json!({"prefill_512_ms": prefill, "tokens_per_s": 512e3 / prefill}));
        for (steps, in_flight) in [(1, 1), (1, 2), (2, 2), (4, 2)] {
            let time = block_on(rig.runner.time_decode(options.base, steps, in_flight))?;
            println!("{}", json!({"decode": format!("{time:?}")}));
        }
        for tokens in [1, 8] {
            for (kind, ms, dispatches) in block_on(rig.runner.time_pipelines(options.base, tokens))? {
                println!(
                    "{}",
                    json!({"pipeline": kind, "tokens": tokens, "ms": ms, "dispatches": dispatches})
                );
            }
        }
        for step in block_on(rig.runner.time_steps(options.base, 32))? {
            println!("{}", json!({"T": step.tokens, "ms": step.ms, "dispatches": step.dispatches}));
        }
    }
    Ok(())
}
