//! The reference forward pass against stored runs of llama.cpp on exactly dequantised weights.

use fanlight_tests::goldens;
use fanlight_tests::reference::{Reference, log_softmax};
use serde_json::Value as Json;

fn numbers(json: &Json) -> Vec<f64> {
    json.as_array().expect("a list").iter().map(|v| v.as_f64().expect("a number")).collect()
}

fn ids(json: &Json) -> Vec<u32> {
    json.as_array().expect("a list").iter().map(|v| v.as_u64().expect("an id") as u32).collect()
}

fn prompt<'a>(golden: &'a Json, name: &str) -> &'a Json {
    let prompts = golden["prompts"].as_array().expect("prompts");
    prompts.iter().find(|p| p["name"] == name).unwrap_or_else(|| panic!("no prompt {name}"))
}

fn farthest(found: &[f64], wanted: &[f64]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    found.iter().zip(wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// The stored sums are f32 on another machine: a hundredth of a logit is far below any modelling mistake.
const TOLERANCE: f64 = 1e-2;

fn check(model: &str, name: &str) {
    let golden = goldens::load(&format!("generate.{model}.json")).expect("stored run");
    let prompt = prompt(&golden, name);
    let stored = &prompt["f32"];
    let path = goldens::model_path(golden["model"].as_str().expect("file name"));
    let mut model =
        Reference::open(&path).unwrap_or_else(|e| panic!("{}: {e}; run `make setup`", path.display()));
    let tokens = ids(&prompt["prompt_ids"]);
    let output = model.forward(&tokens).expect("forward");

    let stride = stored["last_logits_stride"].as_u64().expect("stride") as usize;
    let sample: Vec<f64> = output.logits[tokens.len() - 1].iter().step_by(stride).take(64).copied().collect();
    assert!(farthest(&sample, &numbers(&stored["last_logits_sample"])) < TOLERANCE, "logits");

    let logprobs: Vec<f64> =
        (1..tokens.len()).map(|i| log_softmax(&output.logits[i - 1])[tokens[i] as usize]).collect();
    assert!(farthest(&logprobs, &numbers(&stored["prompt_logprobs"])) < TOLERANCE, "log-probabilities");

    let mut layers_checked = 0;
    for activation in stored["activations"].as_array().into_iter().flatten() {
        let layer =
            activation["name"].as_str().and_then(|n| n.strip_prefix("l_out-")).and_then(|n| n.parse().ok());
        let Some(layer): Option<usize> = layer else { continue };
        let head = numbers(&activation["head"]);
        // llama.cpp keeps only the last token's row after the last layer, and the first 16 elements of a row.
        let row = output.layer_outputs[layer].last().expect("a row");
        let scale = head.iter().fold(1.0, |m: f64, v| m.max(v.abs()));
        assert!(farthest(&row[..head.len()], &head) < TOLERANCE * scale, "layer {layer}");
        layers_checked += 1;
    }
    assert!(name != "capital" || layers_checked > 0, "no layer was checked");
}

#[test]
fn smollm2_agrees_with_the_stored_run() {
    check("smollm2-135m-instruct-q4_1", "capital");
}

#[test]
fn larger_models_agree_with_their_stored_runs() {
    if goldens::all_models_wanted() {
        check("gemma-3-270m-q4_k_m", "capital");
        check("qwen2.5-coder-0.5b-instruct-q4_k_m", "capital");
    }
}

#[test]
fn smollm2_generates_the_stored_ids_while_the_choice_is_clear() {
    let golden = goldens::load("generate.smollm2-135m-instruct-q4_1.json").expect("stored run");
    let prompt = prompt(&golden, "capital");
    let path = goldens::model_path(golden["model"].as_str().expect("file name"));
    let mut model =
        Reference::open(&path).unwrap_or_else(|e| panic!("{}: {e}; run `make setup`", path.display()));
    let wanted = ids(&prompt["f32"]["output_ids"]);
    let clear = prompt["f32"]["steps"].as_array().expect("steps").iter();
    let clear = clear.take_while(|s| s["margin"].as_f64().expect("margin") > TOLERANCE).count().min(8);
    let found = model.greedy(&ids(&prompt["prompt_ids"]), &[0, 2, 4], clear).expect("greedy");
    let found: Vec<u32> = found.iter().map(|(id, _)| *id).collect();
    assert!(clear >= 8, "only {clear} clear steps");
    assert_eq!(found, wanted[..clear]);
}
