//! Synthetic models: every architecture and weight type can be written, read back and run, always the same.

use fanlight_messages::TensorType;
use fanlight_tests::gguf::{GgufReader, Value};
use fanlight_tests::reference::{Reference, ReferenceError, Roundings};
use fanlight_tests::synth::shape::PUBLISHED;
use fanlight_tests::synth::{Architecture, RopeRule, Shape, Vocabulary, WeightTypes, stream, tiny};
use sha2::{Digest, Sha256};

const TOKENS: [u32; 12] = [40, 300, 71, 72, 301, 12, 99, 300, 71, 5, 280, 310];

fn exact(bytes: Vec<u8>) -> Reference {
    Reference::from_bytes(bytes, Roundings::default()).expect("a model")
}

fn deviation(row: &[f64]) -> f64 {
    let mean = row.iter().sum::<f64>() / row.len() as f64;
    (row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64).sqrt()
}

fn farthest(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn every_architecture_and_type_runs_with_well_spread_logits() {
    for architecture in Architecture::ALL {
        for tensor_type in TensorType::ALL {
            let bytes = tiny(architecture, tensor_type, 7).build().expect("a file").to_bytes();
            let logits = exact(bytes).forward(&TOKENS).expect("forward").logits;
            for row in logits {
                let spread = deviation(&row);
                assert!(
                    (1.5..8.0).contains(&spread),
                    "{architecture:?} {tensor_type}: logits spread {spread}"
                );
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let bytes = |seed| tiny(Architecture::Qwen2, TensorType::Q4K, seed).build().expect("a file").to_bytes();
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
    // Fixed for good: stored results of other tests depend on it.
    let digest: String = Sha256::digest(bytes(1)).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(digest, "4bcdd78a38df6d757e2786336ce4830128ceab7fcfc08d4128cc9cd08012200b");
}

#[test]
fn tokens_in_pieces_give_the_logits_of_the_whole() {
    for architecture in Architecture::ALL {
        let bytes = tiny(architecture, TensorType::Q8_0, 3).build().expect("a file").to_bytes();
        let whole = exact(bytes.clone()).forward(&TOKENS).expect("forward").logits;
        let mut model = exact(bytes);
        let mut pieces = model.forward(&TOKENS[..5]).expect("forward").logits;
        model.forward(&[1, 2, 3]).expect("forward");
        model.truncate(5);
        pieces.extend(model.forward(&TOKENS[5..]).expect("forward").logits);
        assert_eq!(whole, pieces);
    }
}

#[test]
fn windows_bound_what_gemma_sees() {
    let mut spec = tiny(Architecture::Gemma3, TensorType::F32, 3);
    let mut logits = |window| {
        spec.shape.window = Some(window);
        exact(spec.build().expect("a file").to_bytes()).forward(&TOKENS).expect("forward").logits
    };
    let (narrow, fitting, wide) = (logits(4), logits(12), logits(4000));
    assert_eq!(fitting, wide, "a window as long as the text hides nothing");
    assert_eq!(narrow[3], wide[3], "the fourth position still sees all four");
    assert!(farthest(&narrow[4], &wide[4]) > 1e-3, "the fifth no longer sees the first");
}

#[test]
fn imitated_roundings_stay_close_to_exact_arithmetic() {
    let bytes = tiny(Architecture::Llama, TensorType::Q8_0, 3).build().expect("a file").to_bytes();
    let whole = exact(bytes.clone()).forward(&TOKENS).expect("forward").logits;
    for roundings in [
        Roundings { int8_activations: true, ..Roundings::default() },
        Roundings { f16_kv: true, ..Roundings::default() },
    ] {
        let rounded = Reference::from_bytes(bytes.clone(), roundings).expect("a model");
        let rounded = { rounded }.forward(&TOKENS).expect("forward").logits;
        let distance = whole.iter().zip(&rounded).map(|(a, b)| farthest(a, b)).fold(0.0, f64::max);
        assert!(distance > 0.0 && distance < 0.5, "{roundings:?}: {distance}");
    }
}

#[test]
fn rope_rules_change_frequencies_as_published() {
    let frequencies = |rule| {
        let mut spec = tiny(Architecture::Llama, TensorType::F32, 3);
        spec.shape.rope_rule = rule;
        let model = exact(spec.build().expect("a file").to_bytes());
        model.config().ropes[0].clone()
    };
    let plain = frequencies(RopeRule::Plain).frequencies;
    let ratio = |rule| -> Vec<f64> {
        plain.iter().zip(frequencies(rule).frequencies).map(|(plain, scaled)| plain / scaled).collect()
    };
    assert!(ratio(RopeRule::Linear(4.0)).iter().all(|r| (r - 4.0).abs() < 1e-12));
    // 16 elements, base 10,000, 512 positions: pair i makes 512 / (2π · 10^(i/2)) turns: 81.5, 25.8, 8.1,
    // 2.6, 0.8 …
    let yarn = RopeRule::Yarn { factor: 4.0, original_context: 512 };
    assert!((frequencies(yarn).magnitude - (1.0 + 0.1 * 4.0_f64.ln())).abs() < 1e-12);
    // The ramp goes from the pair of 32 turns (0.81, floored to 0) to that of one turn (3.82, ceiled to 4).
    for (pair, r) in ratio(yarn).iter().enumerate() {
        let kept = 1.0 - (pair as f64 / 4.0).min(1.0);
        assert!((r - 1.0 / (kept + (1.0 - kept) / 4.0)).abs() < 1e-9, "pair {pair}: {r}");
    }
    let llama3 = ratio(RopeRule::Llama3 { factor: 8.0 });
    assert!((llama3[0] - 1.0).abs() < 1e-6, "short waves are kept: {llama3:?}");
    assert!(llama3.iter().all(|r| (1.0..=8.0 + 1e-6).contains(r)), "{llama3:?}");
}

#[test]
fn a_file_with_more_than_the_reference_reads_is_refused() {
    let mut file = tiny(Architecture::Llama, TensorType::F32, 3).build().expect("a file");
    let mut extra = file.tensors[0].clone();
    extra.0.name = "blk.0.attn_sinks.weight".to_owned();
    file.push(extra.0, extra.1).expect("fits");
    let error = Reference::from_bytes(file.to_bytes(), Roundings::default()).err().expect("refused");
    assert!(matches!(error, ReferenceError::UnusedTensor(name) if name == "blk.0.attn_sinks.weight"));
}

#[test]
fn metadata_of_every_type_reads_back_equal() {
    let mut file = tiny(Architecture::Llama, TensorType::F32, 3).build().expect("a file");
    let values = [
        Value::U8(200),
        Value::I8(-100),
        Value::U16(60_000),
        Value::I16(-30_000),
        Value::U32(4_000_000_000),
        Value::I32(-2_000_000_000),
        Value::F32(1.5),
        Value::Bool(true),
        Value::String(vec![0xFF, 0, 0x41]),
        Value::Array { element_type: 9, elements: vec![Value::i32s(&[1, -2]), Value::strings(["a", ""])] },
        Value::Array { element_type: 0, elements: Vec::new() },
        Value::U64(u64::MAX),
        Value::I64(i64::MIN),
        Value::F64(-0.1),
    ];
    for (i, value) in values.iter().enumerate() {
        file.set(format!("test.{i}"), value.clone());
    }
    file.set("general.alignment", 64_u32);
    let mut read = GgufReader::from_bytes(file.to_bytes()).expect("a file");
    assert_eq!(read.metadata, file.metadata);
    for (plan, data) in &file.tensors {
        let entry = read.tensor(&plan.name).expect("tensor").clone();
        assert_eq!(entry.file_offset % 64, 0);
        assert_eq!(&read.read_rows(&entry, 0, entry.rows).expect("rows"), data);
    }
}

#[test]
fn published_shapes_have_their_published_sizes() {
    // Weights in millions, from the model cards.
    let millions = [134.5, 494.0, 1543.7, 596.0, 1235.8, 8030.3, 27_009.3];
    for (name, wanted) in PUBLISHED.into_iter().zip(millions) {
        let shape = Shape::published(name).expect("a shape");
        let vocabulary = Vocabulary::new(shape.vocabulary);
        let slots = fanlight_tests::synth::tensors::tensors(
            &shape,
            vocabulary.len(),
            WeightTypes::PublishedMix(TensorType::Q4K),
        )
        .expect("types fit");
        let found: u64 = slots.iter().map(|s| s.plan.dims.iter().product::<u64>()).sum();
        assert!((found as f64 / 1e6 / wanted - 1.0).abs() < 0.002, "{name}: {found} weights");
    }
}

#[test]
fn streamed_weights_have_the_wanted_spread() {
    let mut shape = Shape::published("smollm2-135m").expect("a shape");
    shape.layers = 2;
    for types in [
        WeightTypes::Published(TensorType::Q4_0),
        WeightTypes::PublishedMix(TensorType::Q4K),
        WeightTypes::Published(TensorType::F16),
    ] {
        let mut bytes = Vec::new();
        let size_bytes = stream::write_model(&mut bytes, &shape, types, "random", 1, None).expect("written");
        assert_eq!(size_bytes, bytes.len() as u64);
        let mut model = exact(bytes);
        let row = model.forward(&[1, 500, 20_000]).expect("forward").logits.remove(2);
        let spread = deviation(&row);
        assert!((2.0..6.0).contains(&spread), "{types:?}: logits spread {spread}");
    }
}

#[test]
fn a_cycle_is_what_the_reference_says_next() {
    for architecture in [Architecture::Gemma3, Architecture::Llama] {
        let shape = Shape { layers: 2, ..tiny(architecture, TensorType::Q4K, 1).shape };
        let types = WeightTypes::PublishedMix(TensorType::Q4K);
        let mut bytes = Vec::new();
        stream::write_model(&mut bytes, &shape, types, "cycle", 1, Some(5)).expect("written");
        let tokens = [10, 11, 12, 13, 14, 10, 200, 57];
        let logits = exact(bytes).forward(&tokens).expect("forward").logits;
        let best = |row: &Vec<f64>| (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap_or(0);
        let next: Vec<usize> = logits.iter().map(best).collect();
        assert_eq!(next, [11, 12, 13, 14, 10, 11, 201, 58], "{architecture:?}");
    }
}
