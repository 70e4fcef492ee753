//! Writes a synthetic GGUF file: `synth-gguf --shape qwen2.5-0.5b --type q4_0 --out FILE`.

use anyhow::{Context, bail};
use clap::Parser;
use fanlight_messages::TensorType;
use fanlight_tests::synth::shape::PUBLISHED;
use fanlight_tests::synth::{Architecture, Shape, WeightTypes, stream, tiny};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

/// Random weights in the shape of a real model, for loading and speed; the text it writes means nothing.
#[derive(Parser)]
struct Arguments {
    /// smollm2-135m, qwen2.5-0.5b, qwen2.5-1.5b, qwen3-0.6b, llama-3.2-1b, llama-3.1-8b, gemma3-27b, or
    /// tiny-ARCHITECTURE
    #[arg(long)]
    shape: String,
    /// A type such as q4_0, q8_0, q6_k, f16 (head and odd rows as published files have them), or a mix:
    /// q4_k_m, q5_k_m. Tiny models have every matrix in the one type.
    #[arg(long = "type", default_value = "q4_k_m")]
    weight_type: String,
    /// File to write.
    #[arg(long)]
    out: PathBuf,
    /// Of the weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// As many layers instead of the shape's own.
    #[arg(long)]
    layers: Option<u32>,
    /// Positions that windowed layers of a tiny model see, instead of the shape's own.
    #[arg(long)]
    window: Option<u32>,
    /// Let the text be a cycle of so many tokens, at the full cost of every step; the head is then not tied.
    #[arg(long, value_name = "TOKENS")]
    cycle: Option<u32>,
}

fn type_named(name: &str) -> Option<TensorType> {
    TensorType::ALL.into_iter().find(|t| t.name().eq_ignore_ascii_case(name))
}

fn weight_types(name: &str) -> anyhow::Result<WeightTypes> {
    let known = || TensorType::ALL.map(|t| t.name().to_ascii_lowercase()).join(", ");
    if let Some(base) = name.to_ascii_lowercase().strip_suffix("_m").and_then(type_named) {
        return Ok(WeightTypes::PublishedMix(base));
    }
    let found = type_named(name)
        .with_context(|| format!("no weight type {name}; known: {}, q4_k_m, q5_k_m", known()))?;
    Ok(WeightTypes::Published(found))
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let types = weight_types(&arguments.weight_type)?;
    let started = Instant::now();
    let create =
        || File::create(&arguments.out).with_context(|| format!("cannot write {}", arguments.out.display()));
    let size_bytes = if let Some(name) = arguments.shape.strip_prefix("tiny-") {
        let architecture = Architecture::ALL.into_iter().find(|a| a.name() == name);
        let architecture = architecture.with_context(|| format!("no architecture {name}"))?;
        let WeightTypes::Published(tensor_type) = types else {
            bail!("tiny models take one type, not a mix")
        };
        let mut model = tiny(architecture, tensor_type, arguments.seed);
        model.shape.layers = arguments.layers.unwrap_or(model.shape.layers);
        model.shape.window = arguments.window.or(model.shape.window);
        let bytes = model.build()?.to_bytes();
        create()?.write_all(&bytes)?;
        bytes.len() as u64
    } else {
        let mut shape = Shape::published(&arguments.shape)
            .with_context(|| format!("no shape {}; known: {}", arguments.shape, PUBLISHED.join(", ")))?;
        shape.layers = arguments.layers.unwrap_or(shape.layers);
        let mut out = BufWriter::with_capacity(1 << 20, create()?);
        let name = format!("random {} {}", arguments.shape, arguments.weight_type);
        let size_bytes =
            stream::write_model(&mut out, &shape, types, &name, arguments.seed, arguments.cycle)?;
        out.flush()?;
        size_bytes
    };
    let seconds = started.elapsed().as_secs_f64();
    let megabytes = size_bytes as f64 / 1e6;
    println!(
        "{}: {megabytes:.0} MB in {seconds:.1} s ({:.0} MB/s)",
        arguments.out.display(),
        megabytes / seconds
    );
    Ok(())
}
