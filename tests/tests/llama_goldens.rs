//! Logits of llama.cpp (its published library for processors) on tiny random models of each architecture:
//! what the f64 reference and the engine must give for the same file.
//!
//! `tests/goldens/make_arch.py` made the stored values from files that `synth-gguf` writes.

use fanlight_gpu::{AdapterPreference, Device};
use fanlight_messages::TensorType;
use fanlight_messages::plan::KvFormat;
use fanlight_messages::program::{NormSpan, Op, Program, RopeId};
use fanlight_tests::goldens;
use fanlight_tests::reference::{Reference, Roundings};
use fanlight_tests::rig::{Rig, RigOptions, in_memory};
use fanlight_tests::synth::{Architecture, TinyModel, tiny};
use futures::executor::block_on;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// How far a logit may be off: both sides compute in f32.
const TOLERANCE: f64 = 1e-3;
/// Of two logits that differ by less either may be the largest.
const MARGIN: f64 = 1e-2;
/// llama.cpp's processors take GELU from a table of halves, which alone moves logits by more than the
/// tolerance: the reference imitates the table, and the engine is compared with the reference without it.
const WITH_TABLES: [&str; 3] = ["gemma", "gemma2", "gemma3"];
/// Tokens of a batch.
const BATCH: usize = 16;

/// A stored result.
struct Golden {
    name: String,
    bytes: Vec<u8>,
    context: usize,
    tokens: Vec<u32>,
    /// Row number of the first stored row; those behind it follow.
    first_row: usize,
    rows: Vec<Vec<f64>>,
    /// Likeliest token and its lead, of every row.
    best: Vec<(u32, f64)>,
}

/// The largest difference of two lists of rows.
fn distance(found: &[Vec<f64>], wanted: &[Vec<f64>]) -> f64 {
    let pairs = found.iter().flatten().zip(wanted.iter().flatten());
    pairs.map(|(found, wanted)| (found - wanted).abs()).fold(0.0, f64::max)
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

impl Golden {
    fn load(name: &str, model: &TinyModel) -> Self {
        let stored = goldens::load(&format!("arch/{name}.json")).unwrap();
        let bytes = model.build().unwrap().to_bytes();
        let digest: String = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(digest, stored["sha256"].as_str().unwrap(), "{name}: the file that llama.cpp was given");
        let ids = |value: &Value| floats(value).into_iter().map(|id| id as u32).collect::<Vec<_>>();
        Self {
            name: name.to_owned(),
            bytes,
            context: stored["context"].as_u64().unwrap() as usize,
            tokens: ids(&stored["tokens"]),
            first_row: stored["first_row"].as_u64().unwrap() as usize,
            rows: stored["logits"].as_array().unwrap().iter().map(floats).collect(),
            best: ids(&stored["best"]).into_iter().zip(floats(&stored["leads"])).collect(),
        }
    }

    /// The farthest stored logit; ids are compared in all rows.
    fn farthest(&self, who: &str, rows: &[Vec<f64>]) -> f64 {
        for (row, (wanted, lead)) in rows.iter().zip(&self.best) {
            let largest = (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap() as u32;
            assert!(*lead < MARGIN || largest == *wanted, "{} by {who}: {largest} for {wanted}", self.name);
        }
        distance(&rows[self.first_row..], &self.rows)
    }

    fn has_table(&self) -> bool {
        WITH_TABLES.contains(&self.name.as_str())
    }

    fn by_reference(&self, f16_gelu: bool) -> Vec<Vec<f64>> {
        let roundings = Roundings { f16_gelu, ..Roundings::default() };
        let reference = Reference::from_bytes(self.bytes.clone(), roundings).unwrap();
        reference.for_context(self.context).forward(&self.tokens).unwrap().logits
    }

    fn by_engine(&self, device: &Device, change: impl FnOnce(&mut Program)) -> Vec<Vec<f64>> {
        let options = RigOptions {
            context_len: self.context as u32,
            batch_tokens: BATCH as u32,
            logits_rows: BATCH as u32,
            kv_format: KvFormat::F32,
            ..RigOptions::default()
        };
        let mut rig = Rig::load_changed(device, in_memory(self.bytes.clone()), options, change).unwrap();
        let mut rows = Vec::new();
        for (batch, tokens) in self.tokens.chunks(BATCH).enumerate() {
            let logits = block_on(rig.runner.score((batch * BATCH) as u32, tokens)).unwrap();
            let logits: Vec<f64> = logits.into_iter().map(f64::from).collect();
            rows.extend(logits.chunks(logits.len() / tokens.len()).map(<[f64]>::to_vec));
        }
        rows
    }
}

/// Every golden: its name and its model.
fn all() -> Vec<Golden> {
    let model = |architecture| tiny(architecture, TensorType::F32, 7);
    let mut goldens: Vec<Golden> =
        Architecture::ALL.into_iter().map(|a| Golden::load(a.name(), &model(a))).collect();
    // The same file in a context beyond the one that its first divisors are for.
    goldens.push(Golden::load("phi3-long", &model(Architecture::Phi3)));
    // As many layers as the only model of this family that has windows.
    let mut windowed = model(Architecture::Exaone4);
    (windowed.shape.layers, windowed.shape.window) = (64, Some(24));
    goldens.push(Golden::load("exaone4-windows", &windowed));
    goldens
}

fn golden(name: &str) -> Golden {
    all().into_iter().find(|golden| golden.name == name).unwrap()
}

fn device() -> Device {
    block_on(Device::open(AdapterPreference::HighPerformance))
        .expect("a GPU adapter is required by this test")
}

#[test]
fn the_reference_gives_what_llama_cpp_gives() {
    for golden in all() {
        let rows = golden.by_reference(golden.has_table());
        let farthest = golden.farthest("the reference", &rows);
        println!("{}: {farthest:.1e}", golden.name);
        assert!(farthest < TOLERANCE, "{}: {farthest}", golden.name);
    }
}

#[test]
fn the_engine_gives_what_llama_cpp_gives() {
    let device = device();
    for golden in all() {
        let rows = golden.by_engine(&device, |_| ());
        let mut farthest = golden.farthest("the engine", &rows);
        if golden.has_table() {
            farthest = distance(&rows, &golden.by_reference(false));
        }
        println!("{}: {farthest:.1e}", golden.name);
        assert!(farthest < TOLERANCE, "{}: {farthest}", golden.name);
    }
}

/// The logits with a wrong value are far from llama.cpp's, ids apart.
fn assert_seen(device: &Device, name: &str, field: &str, change: impl FnOnce(&mut Program)) {
    let golden = golden(name);
    let rows = golden.by_engine(device, change);
    let farthest = distance(&rows[golden.first_row..], &golden.rows);
    assert!(farthest > 20.0 * TOLERANCE, "{name} with a wrong {field}: {farthest}");
}

type Change = fn(&mut Op);

/// A wrong value of each field of an op: golden, field, change.
const WRONG: [(&str, &str, Change); 10] = [
    ("gemma2", "soft cap of scores", |op| {
        if let Op::Attend { soft_cap, .. } = op {
            *soft_cap = None;
        }
    }),
    ("gemma2", "window", |op| {
        if let Op::Attend { window, .. } = op {
            *window = None;
        }
    }),
    ("granite", "scale of deltas", |op| {
        if let Op::Normalize { delta_scale, .. } = op {
            *delta_scale = 1.0;
        }
    }),
    ("granite", "bias of deltas", |op| {
        if let Op::Normalize { delta_bias, .. } = op {
            *delta_bias = None;
        }
    }),
    ("granite", "bias of gate and up", |op| {
        if let Op::Activate { bias, .. } = op {
            *bias = None;
        }
    }),
    ("smollm3", "layer without positions", rotate),
    ("exaone4-windows", "layer without positions", rotate),
    ("olmo2", "table of windowed layers", rotate),
    ("olmo2", "norm before the blocks", |op| {
        if let Op::Normalize { weight, post_norm: Some(other), .. } = op {
            *weight = Some(*other);
        }
    }),
    ("olmo2", "span of norms", |op| {
        if let Op::Heads { norm_span, .. } = op {
            *norm_span = NormSpan::Head;
        }
    }),
];

fn rotate(op: &mut Op) {
    if let Op::Heads { rope, .. } = op {
        *rope = Some(RopeId(0));
    }
}

/// Up rows in place of gate rows, and the other way round.
fn swap_gate_and_up(program: &mut Program) {
    for matrix in program.matrices.iter_mut().filter(|matrix| matrix.name.ends_with("gate_up")) {
        let rows = matrix.parts[0].rows;
        (matrix.parts[0].first_row, matrix.parts[1].first_row) = (rows, 0);
    }
}

/// Each field that an architecture brought is read: another value gives other logits.
#[test]
fn a_wrong_value_of_every_field_is_seen() {
    let device = &device();
    assert_seen(device, "phi3", "first row of a part", swap_gate_and_up);
    assert_seen(device, "phi3-long", "long rope", |program| program.ropes[0].long = None);
    assert_seen(device, "mistral3", "query factor", |program| program.ropes[0].query_factor = None);
    assert_seen(device, "gemma2", "soft cap of logits", |program| program.logits_soft_cap = None);
    assert_seen(device, "granite", "scale of logits", |program| program.logits_scale = 1.0);
    for (name, field, change) in WRONG {
        assert_seen(device, name, field, |program| program.body.iter_mut().for_each(change));
    }
}
