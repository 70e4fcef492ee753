//! Real models against llama.cpp's f32 runs: log-probabilities, perplexity, layers, greedy ids.
//!
//! SmolLM2 runs always; Gemma 3 270M and Qwen2.5 0.5B under `make test-models` (`FANLIGHT_MODELS_ALL=1`).

use std::fs::File;

use fanlight_gpu::{AdapterPreference, Device};
use fanlight_messages::device::RequestSetup;
use fanlight_tests::goldens;
use fanlight_tests::reference::log_softmax;
use fanlight_tests::rig::{Rig, RigOptions, Way, on_disk};
use futures::executor::block_on;
use serde_json::Value;

const SMOLLM2: &str = "smollm2-135m-instruct-q4_1";
const GEMMA: &str = "gemma-3-270m-q4_k_m";
const QWEN: &str = "qwen2.5-coder-0.5b-instruct-q4_k_m";
/// Margins below this are decided by rounding: llama.cpp's own quantised runs part from f32 at up to 0.26.
const SURE_MARGIN: f64 = 0.3;
/// Largest distance of the perplexity from that of exact arithmetic, as a part of it.
const PERPLEXITY_OFF_MAX: f64 = 0.005;
/// Tokens whose perplexity is always checked. Single log-probabilities are off by 0.09, and evenly so: the
/// mean of 256 or more has been within the bound at every length, and a software adapter takes a quarter of
/// a second for each.
const PERPLEXITY_TOKENS: usize = 384;

/// `context_len` also decides which of the golden's prompts take part: the longest has about 1,050 tokens.
fn load(model: &str, context_len: u32) -> Rig {
    let device =
        block_on(Device::open(AdapterPreference::HighPerformance)).expect("a GPU adapter is required");
    let file = File::open(goldens::model_path(&format!("{model}.gguf")))
        .expect("run `make fetch` (SmolLM2) or `make test-models` to fetch the models");
    let options = RigOptions { batch_tokens: 32, logits_rows: 32, context_len, ..RigOptions::default() };
    Rig::load(&device, on_disk(file), options).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
}

/// The golden's prompts that fit the context with a reply.
fn prompts<'a>(rig: &Rig, golden: &'a Value) -> Vec<&'a Value> {
    let context = rig.runner.plan().request.context_len as usize;
    let all = golden["prompts"].as_array().unwrap();
    all.iter().filter(|p| p["prompt_ids"].as_array().unwrap().len() + 64 < context).collect()
}

/// Log-probability of each next prompt token.
fn log_probabilities(rig: &mut Rig, prompt: &[u32]) -> Vec<f64> {
    let mut all = Vec::new();
    let vocabulary = rig.program.vocabulary_len as usize;
    for (batch, tokens) in prompt.chunks(32).enumerate() {
        let logits = block_on(rig.runner.score((batch * 32) as u32, tokens)).unwrap();
        for (row, logits) in logits.chunks(vocabulary).enumerate() {
            if let Some(next) = prompt.get(batch * 32 + row + 1) {
                let logits: Vec<f64> = logits.iter().map(|x| f64::from(*x)).collect();
                all.push(log_softmax(&logits)[*next as usize]);
            }
        }
    }
    all
}

fn perplexity(log_probabilities: &[f64]) -> f64 {
    (-log_probabilities.iter().sum::<f64>() / log_probabilities.len() as f64).exp()
}

/// How far the perplexity of `got` is from that of `wanted`, as a part of it.
fn perplexity_off(got: &[f64], wanted: &[f64]) -> f64 {
    assert_eq!(got.len(), wanted.len());
    perplexity(got) / perplexity(wanted) - 1.0
}

/// The golden's text called "long": the beginning of "In the Year 2889", which The Forum printed in 1889
/// under the name of Jules Verne; in the public domain.
fn long_text(golden: &Value) -> &Value {
    let prompts = golden["prompts"].as_array().unwrap();
    prompts.iter().find(|p| p["name"] == "long").expect("the golden has a long text")
}

/// Perplexity of the first `tokens` tokens against llama.cpp's on the exactly dequantised weights.
fn check_perplexity(rig: &mut Rig, golden: &Value, tokens: usize) {
    let text = long_text(golden);
    let ids = ids(&text["prompt_ids"]);
    let ids = &ids[..tokens.min(ids.len())];
    let got = log_probabilities(rig, ids);
    let stored = |run: &str| numbers(&text[run]["prompt_logprobs"])[..got.len()].to_vec();
    let (exact, quantised) = (stored("f32"), stored("native_avx2"));
    let off = perplexity_off(&got, &exact);
    println!(
        "perplexity of {} tokens {:.4}: {:+.3} % of the exact run, {:+.3} % of llama.cpp's quantised run",
        ids.len(),
        perplexity(&got),
        100.0 * off,
        100.0 * perplexity_off(&got, &quantised)
    );
    assert!(off.abs() <= PERPLEXITY_OFF_MAX, "{off} of {}, the exact run's", perplexity(&exact));
}

/// The mean distance from the f32 run may be half as large again as that of llama.cpp's quantised run.
fn check_log_probabilities(rig: &mut Rig, golden: &Value) {
    let (mut ours, mut theirs, mut count) = (0.0, 0.0, 0);
    for prompt in prompts(rig, golden) {
        let got = log_probabilities(rig, &ids(&prompt["prompt_ids"]));
        let wanted = numbers(&prompt["f32"]["prompt_logprobs"]);
        let native = numbers(&prompt["native_avx2"]["prompt_logprobs"]);
        assert_eq!(got.len(), wanted.len());
        for position in 1..wanted.len() {
            ours += (got[position] - wanted[position]).abs();
            theirs += (native[position] - wanted[position]).abs();
            count += 1;
        }
    }
    println!(
        "{count} log-probabilities: ours {:.4}, llama.cpp quantised {:.4}",
        ours / f64::from(count),
        theirs / f64::from(count)
    );
    assert!(
        ours <= 1.5 * theirs,
        "mean distance {} of {count}, at most 1.5 × {}",
        ours / f64::from(count),
        theirs / f64::from(count)
    );
}

/// The stored sixteen first elements of the residual stream behind each layer.
fn check_layers(rig: &mut Rig, golden: &Value) {
    let prompt = &golden["prompts"][0];
    assert_eq!(prompt["name"], "capital");
    let rows = block_on(rig.runner.trace_residual(0, &ids(&prompt["prompt_ids"]))).unwrap();
    let mut compared = 0;
    for activation in prompt["f32"]["activations"].as_array().unwrap() {
        let Some(layer) = activation["name"].as_str().unwrap().strip_prefix("l_out-") else { continue };
        // Two norms a layer: the second one after layer `l` is that of the next layer's attention.
        let row = &rows[2 * (layer.parse::<usize>().unwrap() + 1)];
        let wanted = numbers(&activation["head"]);
        let norm = activation["l2"].as_f64().unwrap() / (activation["n"].as_f64().unwrap()).sqrt();
        let distance = wanted.iter().zip(row).map(|(w, g)| (w - f64::from(*g)).powi(2)).sum::<f64>()
            / wanted.len() as f64;
        println!("layer {layer}: {:.3} of the row's rms", distance.sqrt() / norm);
        // int8 activations against f32 ones: noise of a few percent that grows with depth.
        assert!(distance.sqrt() < 0.25 * norm, "layer {layer}: {} against an rms of {norm}", distance.sqrt());
        compared += 1;
    }
    assert!(compared >= 10, "only {compared} layers were compared");
}

/// Greedy ids equal the f32 run's up to the first step that rounding decides.
fn check_greedy(rig: &mut Rig, golden: &Value, prompts_max: usize, tokens_max: usize) {
    let mut compared = 0;
    for prompt in prompts(rig, golden).into_iter().take(prompts_max) {
        let margins: Vec<f64> = prompt["f32"]["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["margin"].as_f64().unwrap())
            .collect();
        let sure = margins.iter().position(|m| *m < SURE_MARGIN).unwrap_or(margins.len()).min(tokens_max);
        let wanted = &ids(&prompt["f32"]["output_ids"])[..sure];
        if sure == 0 {
            continue;
        }
        let setup =
            RequestSetup { context_len: u32::MAX, token_limit: sure as u32, ..RequestSetup::default() };
        let run = rig
            .greedy(&ids(&prompt["prompt_ids"]), Way { chunk: 32, steps: 4, ..Way::default() }, &setup)
            .unwrap();
        assert_eq!(run.ids, wanted, "prompt {}", prompt["name"]);
        compared += sure;
    }
    assert!(compared > 0, "no step was sure enough to compare");
    println!("{compared} greedy ids equal");
}

#[test]
fn smollm2_agrees_with_llama_cpp() {
    let golden = goldens::load(&format!("generate.{SMOLLM2}.json")).unwrap();
    let mut rig = load(SMOLLM2, 256);
    check_layers(&mut rig, &golden);
    check_log_probabilities(&mut rig, &golden);
    check_greedy(&mut rig, &golden, 3, 12);
}

#[test]
fn smollm2_perplexity_is_that_of_exact_arithmetic() {
    let golden = goldens::load(&format!("generate.{SMOLLM2}.json")).unwrap();
    let all = long_text(&golden)["prompt_ids"].as_array().unwrap().len();
    let tokens = if goldens::all_models_wanted() { all } else { PERPLEXITY_TOKENS };
    check_perplexity(&mut load(SMOLLM2, tokens as u32), &golden, tokens);
}

/// Every hundredth token half as likely is more than the bound allows.
#[test]
fn a_spoiled_perplexity_shows() {
    let golden = goldens::load(&format!("generate.{SMOLLM2}.json")).unwrap();
    let wanted = numbers(&long_text(&golden)["f32"]["prompt_logprobs"]);
    let mut spoiled = wanted.clone();
    spoiled.iter_mut().step_by(100).for_each(|log_probability| *log_probability -= 2f64.ln());
    assert_eq!(perplexity_off(&wanted, &wanted), 0.0);
    assert!(perplexity_off(&spoiled, &wanted) > PERPLEXITY_OFF_MAX);
}

#[test]
fn larger_models_agree_with_llama_cpp() {
    if !goldens::all_models_wanted() {
        return;
    }
    for model in [GEMMA, QWEN] {
        let golden = goldens::load(&format!("generate.{model}.json")).unwrap();
        let mut rig = load(model, 2048);
        check_layers(&mut rig, &golden);
        check_log_probabilities(&mut rig, &golden);
        check_greedy(&mut rig, &golden, usize::MAX, 32);
    }
}
