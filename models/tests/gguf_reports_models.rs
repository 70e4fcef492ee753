//! Public failure reports about what a file's metadata and tensors mean, one test per case, named by its id.

#[path = "common/decoders.rs"]
mod decoders;
#[path = "common/gguf_writer.rs"]
mod gguf_writer;

use decoders::*;
use fanlight_messages::TensorType;
use fanlight_messages::program::{Op, Program};
use fanlight_models::arch::{ArchError, ModelSummary, SmallTensors, model_spec, program};
use fanlight_models::gguf::{GgufHeader, ModelFile, ShardError, shard_names};
use gguf_writer::{GgufWriter, read};

/// The tiny model in three files, as (name, header).
fn three_shards(name: impl Fn(u32) -> String) -> Vec<(String, GgufHeader)> {
    let whole = tiny("llama").writer();
    let total = whole.tensors.len() as u32;
    let cuts = [0, 5, 12, whole.tensors.len()];
    let shards = (0..3usize).map(|number| {
        let mut w = if number == 0 { whole.clone() } else { GgufWriter::default() };
        w.tensors = whole.tensors[cuts[number]..cuts[number + 1]].to_vec();
        w.set_u32("split.no", number as u32).set_u32("split.count", 3).set_u32("split.tensors.count", total);
        (name(number as u32 + 1), read(&w.file()).expect("good"))
    });
    shards.collect()
}

fn usual_name(part: u32) -> String {
    format!("t-{part:05}-of-00003.gguf")
}

#[test]
fn a12_shards_in_any_order_make_one_model() {
    let shards = three_shards(usual_name);
    let order = |order: [usize; 3]| order.map(|index| shards[index].clone()).to_vec();
    let model = ModelFile::from_shards(order([2, 0, 1])).expect("a model");
    assert_eq!(model, ModelFile::from_shards(order([0, 1, 2])).expect("a model"));
    let names: Vec<_> = model.shards.iter().map(|shard| shard.name.clone()).collect();
    assert_eq!(names, [usual_name(1), usual_name(2), usual_name(3)]);
    for (part, (_, header)) in shards.iter().enumerate() {
        for tensor in &header.tensors {
            let found = model.tensor(&tensor.name).expect("every tensor");
            assert_eq!((found.shard as usize, &found.info), (part, tensor));
        }
    }
    let spec = model_spec(&model).expect("a whole model");
    assert_eq!(spec, spec_of(&tiny("llama").writer()).expect("the unsplit model"));
}

#[test]
fn a12_the_missing_shard_is_named() {
    let styles: [fn(u32) -> String; 2] = [usual_name, |part| format!("t.shard-{part:05}-of-00003")];
    for style in styles {
        for missing in 0..3usize {
            let mut shards = three_shards(style);
            shards.remove(missing);
            shards.reverse();
            let part = missing as u32 + 1;
            let error = ModelFile::from_shards(shards).expect_err("incomplete");
            assert_eq!(error, ShardError::Missing { file: style(part), part, count: 3 });
        }
    }
    let alone = three_shards(usual_name).remove(0);
    assert!(matches!(ModelFile::from_shards(vec![alone]), Err(ShardError::Missing { part: 2, .. })));
}

#[test]
fn a12_shards_of_different_models_are_refused() {
    let shards = three_shards(usual_name);
    let refuse = |files: Vec<_>| ModelFile::from_shards(files).expect_err("refused");
    let twice = vec![shards[0].clone(), shards[1].clone(), shards[1].clone()];
    assert!(matches!(refuse(twice), ShardError::Repeated { part: 2, .. }));
    let whole = read(&tiny("llama").writer().file()).expect("good");
    let mixed = vec![shards[0].clone(), ("whole.gguf".to_owned(), whole)];
    assert_eq!(refuse(mixed), ShardError::NotAPart { file: "whole.gguf".to_owned() });
    assert_eq!(refuse(Vec::new()), ShardError::NoFile);

    let mut w = GgufWriter::default();
    w.set_u32("split.no", 1).set_u32("split.count", 4);
    let other = ("other.gguf".to_owned(), read(&w.file()).expect("good"));
    let mismatch = refuse(vec![shards[0].clone(), other]);
    assert_eq!(mismatch, ShardError::CountMismatch { file: "other.gguf".to_owned(), wanted: 3, found: 4 });
    w.set_u32("split.no", 4);
    let beyond = refuse(vec![("other.gguf".to_owned(), read(&w.file()).expect("good"))]);
    assert!(matches!(beyond, ShardError::PartOutOfRange { part: 5, count: 4, .. }));

    let mut short = shards.clone();
    short[2].1.tensors.pop();
    let total = tiny("llama").writer().tensors.len();
    assert_eq!(refuse(short), ShardError::TensorCount { wanted: total as u32, found: total as u64 - 1 });
}

#[test]
fn a12_names_of_all_shards_follow_from_one() {
    let wanted = Some(vec![usual_name(1), usual_name(2), usual_name(3)]);
    assert_eq!(shard_names("t-00002-of-00003.gguf"), wanted);
    assert_eq!(shard_names("t.gguf"), None);
    assert_eq!(shard_names("t-00001-of-00000.gguf"), None);
    assert_eq!(shard_names("\u{1F600}-00001-of-99999.gguf"), None);
}

#[test]
fn a07_a_tensor_in_two_shards_is_refused() {
    let mut shards = three_shards(usual_name);
    let repeated = shards[0].1.tensors[1].clone();
    let tensor = repeated.name.clone();
    shards[2].1.tensors.push(repeated);
    let error = ModelFile::from_shards(shards).expect_err("refused");
    assert_eq!(error, ShardError::RepeatedTensor { tensor, first: usual_name(1), second: usual_name(3) });
}

#[test]
fn a14_each_tensor_has_its_own_type() {
    let shape = Decoder { width: 256, type_of: |_, _| Q4_0, ..tiny("llama") };
    let shape = Decoder { head_len: 64, ..shape };
    let mut w = shape.writer();
    w.set_u32("general.file_type", 2);
    w.tensor_mut("blk.0.ffn_down.weight").type_id = Q4_1;
    w.tensor_mut("token_embd.weight").type_id = Q6_K;
    w.tensor_mut("blk.1.attn_norm.weight").type_id = F16;
    let program = program_of(&w);
    let type_of = |name: &str| program.matrices.iter().find(|m| m.name == name).map(|m| m.tensor_type);
    assert_eq!(type_of("blk.0.ffn_down"), Some(TensorType::Q4_1));
    assert_eq!(type_of("blk.1.ffn_down"), Some(TensorType::Q4_0));
    assert_eq!(type_of("token_embd"), Some(TensorType::Q6K));
    let norm = program.vectors.iter().find(|v| v.name == "blk.1.attn_norm").expect("present");
    assert_eq!(norm.parts[0].tensor.as_deref(), Some("blk.1.attn_norm.weight"));
    // A quantised norm has no reader.
    let mut w = shape.writer();
    w.tensor_mut("blk.1.attn_norm.weight").type_id = Q8_0;
    let error = spec_of(&w).expect_err("refused");
    let (tensor, tensor_type) = ("blk.1.attn_norm.weight".to_owned(), TensorType::Q8_0);
    assert_eq!(error, ArchError::VectorType { tensor, tensor_type });
}

#[test]
fn a15_key_value_heads_may_differ_by_layer() {
    let mut w = Decoder { layers: 4, ..tiny("llama") }.writer();
    for layer in [1, 3] {
        for name in ["attn_k", "attn_v"] {
            w.tensor_mut(&format!("blk.{layer}.{name}.weight")).dims = vec![64, 16];
        }
    }
    let key = "llama.attention.head_count_kv";
    w.set_u32s(key, &[2, 1, 2, 1]);
    let program = program_of(&w);
    assert_eq!(program.layers.iter().map(|l| l.kv_heads).collect::<Vec<_>>(), [2, 1, 2, 1]);
    // Rows of different length are different values, each with the length its layer fills.
    for op in &program.body {
        if let Op::Heads { layer, input, .. } = op {
            let shape = program.layers[*layer as usize];
            assert_eq!(program.values[input.index()].len, shape.qkv_len());
        }
    }
    let summary = ModelSummary::new(&model_of(&w)).expect("a summary");
    assert_eq!(summary.kv_heads, [2, 1, 2, 1]);
    w.set_u32s(key, &[2, 1, 2]);
    assert_eq!(
        spec_of(&w).expect_err("refused"),
        ArchError::ListLength { key: key.into(), found: 3, wanted: 4 }
    );
    w.set_u32s(key, &[2, 1, 0, 1]);
    let error = spec_of(&w).expect_err("refused");
    assert!(
        matches!(&error, ArchError::HyperParameter { wanted, .. } if wanted.contains("layer 2")),
        "{error}"
    );
}

#[test]
fn a15_all_88_entries_of_a_list_are_kept() {
    let mut counts = vec![4u32; 88];
    (0..88).step_by(4).for_each(|layer| counts[layer] = 0);
    counts[87] = 3;
    let mut w = GgufWriter::default();
    w.set_str("general.architecture", "hybrid").set_u32("hybrid.block_count", 88);
    w.set_u32s("hybrid.attention.head_count_kv", &counts);
    let model = model_of(&w);
    assert_eq!(ModelSummary::new(&model).expect("a summary").kv_heads, counts);
    let error = model_spec(&model).expect_err("refused");
    assert!(
        matches!(&error, ArchError::UnknownArchitecture { architecture, .. } if architecture == "hybrid")
    );
}

fn head_matrix(program: &Program) -> usize {
    let Op::Multiply { matrix, .. } = &program.head else { panic!("the head multiplies") };
    matrix.index()
}

#[test]
fn a16_a_tied_head_is_the_embedding_itself() {
    let untied = program_of(&tiny("llama").writer());
    let tied = program_of(&Decoder { tied: true, ..tiny("llama") }.writer());
    assert_eq!(untied.matrices[head_matrix(&untied)].name, "output");
    assert_eq!(tied.matrices[head_matrix(&tied)].name, "token_embd");
    let Some(Op::Embed { table, .. }) = tied.body.first() else { panic!("the body embeds first") };
    assert_eq!(table.index(), head_matrix(&tied));
    assert_eq!(tied.matrices.len() + 1, untied.matrices.len());
}

#[test]
fn a17_prediction_blocks_are_no_layers() {
    let trunk = tiny("llama").writer();
    let mut w = Decoder { layers: 3, ..tiny("llama") }.writer();
    w.set_u32("llama.nextn_predict_layers", 1);
    w.tensor("blk.2.nextn.eh_proj.weight", &[128, 64], F32);
    w.tensor("blk.2.unknown_a.weight", &[64], F32).tensor("blk.2.unknown_b.weight", &[64, 3], F32);
    assert_eq!(spec_of(&w).expect("good"), spec_of(&trunk).expect("good"));
    assert_eq!(program_of(&w), program_of(&trunk));
    let (summary, of_trunk) = (
        ModelSummary::new(&model_of(&w)).expect("a summary"),
        ModelSummary::new(&model_of(&trunk)).expect("a summary"),
    );
    assert_eq!((summary.parameters, summary.layers), (of_trunk.parameters, Some(2)));
    assert_eq!(summary.skipped_tensors, 9 + 3);
    // Without the key the block is a layer, and its extra tensors have no reader.
    w.remove("llama.nextn_predict_layers");
    assert!(matches!(spec_of(&w), Err(ArchError::UnusedTensor { .. })));
    for layer in 0..2 {
        w.tensor(&format!("blk.{layer}.nextn.eh_proj.weight"), &[128, 64], F32);
    }
    w.set_u32("llama.nextn_predict_layers", 3);
    assert!(matches!(spec_of(&w), Err(ArchError::HyperParameter { .. })));
}

#[test]
fn n03_a_counted_block_without_prediction_tensors_runs() {
    let plain = tiny("llama").writer();
    let mut w = tiny("llama").writer();
    w.set_u32("llama.nextn_predict_layers", 1);
    assert_eq!(spec_of(&w).expect("good"), spec_of(&plain).expect("good"));
    assert_eq!(ModelSummary::new(&model_of(&w)).expect("a summary").layers, Some(2));
}

#[test]
fn a18_frequency_divisors_are_used() {
    let plain = program_of(&tiny("llama").writer());
    let mut w = tiny("llama").writer();
    w.tensor("rope_freqs.weight", &[8], F32);
    let spec = spec_of(&w).expect("good");
    let wanted: Vec<_> = spec.small_tensors().iter().map(|part| (part.tensor.clone(), part.len)).collect();
    assert_eq!(wanted, [(Some("rope_freqs.weight".to_owned()), 8)]);
    let with = |value: f32, len: usize| {
        program(&spec, &SmallTensors::from([("rope_freqs.weight".to_owned(), vec![value; len])]))
    };
    assert_eq!(with(1.0, 8).expect("good"), plain);
    let divided = with(8.0, 8).expect("good");
    for (a, b) in divided.ropes[0].inverse_frequencies.iter().zip(&plain.ropes[0].inverse_frequencies) {
        assert_eq!(*a, b / 8.0);
    }
    assert!(matches!(program(&spec, &SmallTensors::new()), Err(ArchError::SmallTensorUnread { .. })));
    for (value, len) in [(1.0, 7), (0.0, 8), (f32::NAN, 8), (f32::INFINITY, 8), (-1.0, 8)] {
        assert!(matches!(with(value, len), Err(ArchError::SmallTensorValues { .. })));
    }
    // The wrong length in the file.
    w.tensor_mut("rope_freqs.weight").dims = vec![9];
    assert!(matches!(spec_of(&w), Err(ArchError::Shape { .. })));
}

#[test]
fn a19_the_head_length_comes_from_the_file() {
    let shape = Decoder { head_len: 32, key_length: true, ..tiny("qwen3") };
    let program = program_of(&shape.writer());
    assert!(program.layers.iter().all(|layer| layer.head_len == 32 && layer.query_len() == 128));
    let output = program.matrices.iter().find(|m| m.name == "blk.0.attn_output").expect("present");
    assert_eq!((output.columns, output.rows), (128, 64));
    // Without the keys, 64 / 4 = 16 contradicts the tensors.
    assert!(matches!(
        spec_of(&Decoder { key_length: false, ..shape.clone() }.writer()),
        Err(ArchError::Shape { .. })
    ));
    let mut w = shape.writer();
    w.set_u32("qwen3.attention.value_length", 16);
    assert!(matches!(spec_of(&w), Err(ArchError::HyperParameter { .. })));
}

#[test]
fn a21_siblings_are_neither_read_nor_counted() {
    let plain = tiny("llama").writer();
    let mut w = plain.clone();
    for name in ["v.blk.0.attn_q.weight", "v.blk.0.ln1.bias", "mm.0.weight", "mtp.y", "mtp.layers.0.z"] {
        w.tensor(name, &[3, 5], F32);
    }
    w.set_u32s("llama.rope.dimension_sections", &[1, 2, 3]);
    assert_eq!(program_of(&w), program_of(&plain));
    let (with, without) = (
        ModelSummary::new(&model_of(&w)).expect("a summary"),
        ModelSummary::new(&model_of(&plain)).expect("a summary"),
    );
    assert_eq!((with.parameters, with.weight_bytes), (without.parameters, without.weight_bytes));
    assert_eq!((with.types, with.skipped_tensors), (without.types, 5));
}

/// The error of a tiny llama whose integer `key` is `value`.
fn with_u32(key: &str, value: u32) -> ArchError {
    let mut w = tiny("llama").writer();
    w.set_u32(&format!("llama.{key}"), value);
    spec_of(&w).expect_err(key)
}

#[test]
fn a23_hyper_parameters_are_range_checked() {
    for (key, values) in [
        ("attention.head_count", &[0, 3, 1 << 31][..]),
        ("attention.head_count_kv", &[0, 3, 1 << 31]),
        ("block_count", &[0, 1 << 31, u32::MAX]),
        ("embedding_length", &[0, 1 << 31]),
        ("feed_forward_length", &[0, 1 << 31]),
        ("context_length", &[0, u32::MAX]),
        ("vocab_size", &[0, 15, 17]),
        ("attention.key_length", &[0, 12, 264]),
        ("rope.dimension_count", &[0, 7, 18]),
    ] {
        for value in values {
            let error = with_u32(key, *value);
            assert!(matches!(error, ArchError::HyperParameter { .. }), "{key} = {value}: {error}");
            assert!(error.to_string().contains(key), "{key} = {value}: {error}");
        }
    }
    // In range, but not what the tensors have.
    for (key, value) in
        [("embedding_length", 96), ("feed_forward_length", 64), ("attention.head_count_kv", 4)]
    {
        assert!(matches!(with_u32(key, value), ArchError::Shape { .. }), "{key}");
    }
    assert!(matches!(with_u32("block_count", 3), ArchError::MissingTensor { .. }));
    assert!(matches!(with_u32("block_count", 1), ArchError::BeyondLayers { layers: 1, .. }));
    for epsilon in [0.0, -1e-5, 1.0, f32::NAN, f32::INFINITY] {
        let mut w = tiny("llama").writer();
        w.set_f32("llama.attention.layer_norm_rms_epsilon", epsilon);
        assert!(matches!(spec_of(&w), Err(ArchError::HyperParameter { .. })), "{epsilon}");
    }
    let mut w = tiny("llama").writer();
    w.set_strs("tokenizer.ggml.tokens", &[b"a".as_slice(); 15]);
    assert!(matches!(spec_of(&w), Err(ArchError::HyperParameter { .. })));
}

#[test]
fn a23_rows_that_no_kernel_can_read_are_refused_by_name() {
    let odd = Decoder { width: 72, head_len: 24, type_of: |_, _| F32, key_length: true, ..tiny("llama") };
    let error = spec_of(&odd.writer()).expect_err("refused");
    assert_eq!(error, ArchError::Columns { tensor: "token_embd.weight".into(), columns: 72 });
    // The width is no whole number of blocks.
    let file = Decoder { type_of: |_, _| Q8_0, ..odd }.writer().file();
    let error = read(&file).expect_err("refused");
    assert!(error.to_string().contains("token_embd.weight"), "{error}");
}
