//! Files of packagers that use other words (breadth, section "Packaging").

#[path = "common/decoders.rs"]
mod decoders;
#[path = "common/gguf_writer.rs"]
mod gguf_writer;

use decoders::*;
use fanlight_models::arch::ArchError;
use fanlight_models::text::Tokenizer;
use gguf_writer::GgufWriter;

/// As Ollama writes gemma3: no epsilon, its own names of the bases, nothing about the stretch of positions.
fn ollama_gemma3(context: u32) -> GgufWriter {
    let mut w = Decoder { layers: 6, context, ..tiny("gemma3") }.writer();
    w.remove("gemma3.attention.layer_norm_rms_epsilon").remove("gemma3.rope.freq_base");
    w.set_u32("gemma3.attention.sliding_window", 32);
    w
}

/// The same in llama.cpp's words.
fn known_gemma3(context: u32) -> GgufWriter {
    let shape = Decoder { layers: 6, context, freq_base: 1e6, epsilon: 1e-6, ..tiny("gemma3") };
    let mut w = shape.writer();
    w.set_u32("gemma3.attention.sliding_window", 32);
    w
}

#[test]
fn n07_ollamas_gemma3_rotates_as_it_was_trained() {
    assert_eq!(program_of(&ollama_gemma3(8192)), program_of(&known_gemma3(8192)));
    let mut named = ollama_gemma3(8192);
    named.set_f32("gemma3.rope.global.freq_base", 5e5).set_f32("gemma3.rope.local.freq_base", 2e4);
    let mut known = known_gemma3(8192);
    known.set_f32("gemma3.rope.freq_base", 5e5).set_f32("gemma3.rope.freq_base_swa", 2e4);
    assert_eq!(program_of(&named), program_of(&known));
    assert_ne!(program_of(&named), program_of(&known_gemma3(8192)));
}

#[test]
fn n07_ollamas_long_gemma3_stretches_by_eight() {
    let mut known = known_gemma3(131_072);
    known.set_str("gemma3.rope.scaling.type", "linear").set_f32("gemma3.rope.scaling.factor", 8.0);
    assert_eq!(program_of(&ollama_gemma3(131_072)), program_of(&known));
    // A file that says its base says its scaling too.
    assert_ne!(program_of(&known_gemma3(131_072)), program_of(&known));
    let mut scaled = ollama_gemma3(131_072);
    scaled.set_str("gemma3.rope.scaling.type", "none");
    assert_ne!(program_of(&scaled), program_of(&known));
}

#[test]
fn n07_both_words_for_one_thing_are_refused() {
    let mut w = known_gemma3(8192);
    w.set_f32("gemma3.rope.global.freq_base", 5e5);
    let error = spec_of(&w).expect_err("refused");
    assert_eq!(error, ArchError::UnknownRopeKey { key: "gemma3.rope.global.freq_base".to_owned() });
}

/// Writes a list of tokens, `t0`, `t1` … but for the first.
fn set_tokens(w: &mut GgufWriter, count: usize, first: &str) {
    let mut tokens: Vec<String> = (0..count).map(|i| format!("t{i}")).collect();
    tokens[0] = first.to_owned();
    let tokens: Vec<&[u8]> = tokens.iter().map(|token| token.as_bytes()).collect();
    w.set_strs("tokenizer.ggml.tokens", &tokens);
}

#[test]
fn n07_tokens_beyond_the_embedding_are_dropped_where_that_is_known() {
    let mut w = ollama_gemma3(8192);
    set_tokens(&mut w, 17, "t0");
    assert_eq!(program_of(&w), program_of(&ollama_gemma3(8192)));
    let model = model_of(&w);
    assert_eq!(model.metadata.get_bytes_array("tokenizer.ggml.tokens").unwrap().unwrap().len(), 16);
    let mut w = tiny("llama").writer();
    set_tokens(&mut w, 17, "t0");
    assert!(matches!(spec_of(&w), Err(ArchError::HyperParameter { .. })));
}

#[test]
fn foreign_names_of_architectures_are_known() {
    for (foreign, known) in [("qwen25vl", "qwen2vl"), ("olmo3", "olmo2")] {
        let shape = Decoder { qkv_bias: known == "qwen2vl", ..tiny(known) };
        let mut w = Decoder { arch: foreign, ..shape.clone() }.writer();
        w.set_str("general.architecture", foreign);
        assert_eq!(program_of(&w), program_of(&shape.writer()), "{foreign}");
    }
    let mut w = tiny("llama").writer();
    w.set_str("general.architecture", "gptoss");
    let error = spec_of(&w).expect_err("refused").to_string();
    assert!(error.contains("architecture gpt-oss is not supported"), "{error}");
}

#[test]
fn mistral3_keys_have_two_names() {
    let with = |keys: [&str; 4]| {
        let mut w = tiny("mistral3").writer();
        w.set_str("mistral3.rope.scaling.type", "yarn").set_f32("mistral3.rope.scaling.factor", 16.0);
        w.set_u32("mistral3.rope.scaling.original_context_length", 32);
        for (key, value) in keys.into_iter().zip([16.0, 2.0, 1.0, 0.1]) {
            w.set_f32(&format!("mistral3.{key}"), value);
        }
        program_of(&w)
    };
    let known = with([
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
        "rope.scaling.yarn_log_multiplier",
        "attention.temperature_scale",
    ]);
    let foreign = [
        "rope.scaling.beta_fast",
        "rope.scaling.beta_slow",
        "rope.scaling.mscale_all_dim",
        "rope.scaling_beta",
    ];
    assert_eq!(with(foreign), known);
    assert_eq!(known.ropes[0].magnitude, 1.0, "a log multiplier of 1 cancels YaRN's");
    let factor = known.ropes[0].query_factor.expect("a query factor");
    assert_eq!((factor.period, factor.at(31, f64::ln)), (32, 1.0));
    assert!((factor.at(32, f64::ln) - (1.0 + f64::from(0.1f32) * 2f64.ln())).abs() < 1e-12);
}

#[test]
fn llama3_files_may_not_name_their_pre_tokenizer() {
    let with = |pre: Option<&str>, first: &str| {
        let mut w = tiny("llama").writer();
        set_tokens(&mut w, 16, first);
        w.set_strs("tokenizer.ggml.merges", &[]);
        w.set_str("tokenizer.ggml.model", "gpt2");
        w.set_u32("tokenizer.ggml.bos_token_id", 0);
        if let Some(pre) = pre {
            w.set_str("tokenizer.ggml.pre", pre);
        }
        Tokenizer::from_metadata(&model_of(&w).metadata).expect("a tokenizer").bos()
    };
    // This rule adds BOS, the nameless one does not.
    for pre in [None, Some("default"), Some("llama-bpe")] {
        assert_eq!(with(pre, "<|begin_of_text|>"), Some(0), "{pre:?}");
    }
    assert_eq!(with(None, "<s>"), None);
    assert_eq!(with(Some("qwen2"), "<|begin_of_text|>"), None);
}
