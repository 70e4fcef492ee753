//! The block formats against gguf-py: random blocks bit for bit, rows of real files by hash, encoders by
//! distance.

use fanlight_messages::TensorType;
use fanlight_tests::blocks::{BlockError, decode_row, encode_row};
use fanlight_tests::gguf::GgufReader;
use fanlight_tests::goldens;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

fn type_named(name: &str) -> TensorType {
    TensorType::ALL.into_iter().find(|t| t.name() == name).unwrap_or_else(|| panic!("no tensor type {name}"))
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).expect("hex digits")).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn le_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn text<'a>(json: &'a Json, key: &str) -> &'a str {
    json[key].as_str().unwrap_or_else(|| panic!("no text under {key}"))
}

/// Blocks that decode to other bits than stored.
fn wrong_blocks(tensor_type: TensorType, blocks: &[Json], flip: u8) -> usize {
    let is_wrong = |block: &&Json| {
        let mut raw = unhex(text(block, "hex"));
        raw[0] ^= flip;
        le_bytes(&decode_row(tensor_type, &raw).expect("whole blocks")) != unhex(text(block, "f32le_hex"))
    };
    blocks.iter().filter(is_wrong).count()
}

#[test]
fn random_blocks_of_every_type_decode_to_the_same_bits() {
    let golden = goldens::load("blocks.json").expect("stored blocks");
    let types = golden["types"].as_object().expect("types");
    assert_eq!(types.len() + 1, TensorType::ALL.len(), "every type but F32 has blocks");
    for (name, blocks) in types {
        let blocks = blocks.as_array().expect("blocks");
        assert_eq!(wrong_blocks(type_named(name), blocks, 0), 0, "{name}");
        assert_eq!(
            wrong_blocks(type_named(name), blocks, 1),
            blocks.len(),
            "{name}: a flipped bit must show"
        );
    }
}

#[test]
fn first_blocks_of_real_rows_decode_to_the_stored_floats() {
    let mut checked = 0;
    for model in [
        "smollm2-135m-instruct-q4_1",
        "gemma-3-270m-q4_k_m",
        "qwen2.5-coder-0.5b-instruct-q4_k_m",
        "qwen2.5-coder-1.5b-instruct-q4_k_m",
    ] {
        let golden = goldens::load(&format!("dequant.{model}.json")).expect("stored rows");
        for tensor in golden["tensors"].as_array().expect("tensors") {
            for row in tensor["rows"].as_array().expect("rows") {
                let Some(block) = row["first_block_hex"].as_str() else { continue };
                let found = decode_row(type_named(text(tensor, "type")), &unhex(block)).expect("a block");
                let wanted: Vec<f32> = row["first16"]
                    .as_array()
                    .expect("floats")
                    .iter()
                    .map(|v| v.as_f64().expect("float") as f32)
                    .collect();
                assert_eq!(found[..16], wanted[..], "{model} {} row {}", tensor["tensor"], row["row"]);
                checked += 1;
            }
        }
    }
    assert!(checked > 50, "only {checked} blocks were there to check");
}

/// Whole rows of a real file: raw bytes, floats and a dot product.
fn check_rows(model: &str) {
    let golden = goldens::load(&format!("dequant.{model}.json")).expect("stored rows");
    let path = goldens::model_path(text(&golden, "model"));
    let mut file =
        GgufReader::open(&path).unwrap_or_else(|e| panic!("{}: {e}; run `make setup`", path.display()));
    for tensor in golden["tensors"].as_array().expect("tensors") {
        let entry = file.tensor(text(tensor, "tensor")).expect("tensor of the file").clone();
        assert_eq!(entry.file_offset, tensor["file_offset"].as_u64().expect("offset"));
        for row in tensor["rows"].as_array().expect("rows") {
            let bytes = file.read_rows(&entry, row["row"].as_u64().expect("row"), 1).expect("row bytes");
            assert_eq!(hex(&Sha256::digest(&bytes)), text(row, "raw_sha256"));
            let floats = decode_row(entry.tensor_type, &bytes).expect("whole blocks");
            assert_eq!(hex(&Sha256::digest(le_bytes(&floats))), text(row, "f32le_sha256"), "{}", entry.name);
            let dot: f64 = floats
                .iter()
                .enumerate()
                .map(|(i, &w)| f64::from(w) * (((i * 37) % 101) as f64 - 50.0) / 50.0)
                .sum();
            assert!((dot - row["dot_f64"].as_f64().expect("dot")).abs() < 1e-9, "{}", entry.name);
        }
    }
}

#[test]
fn rows_of_smollm2_have_the_stored_hashes() {
    check_rows("smollm2-135m-instruct-q4_1");
}

#[test]
fn rows_of_larger_models_have_the_stored_hashes() {
    if goldens::all_models_wanted() {
        check_rows("gemma-3-270m-q4_k_m");
        check_rows("qwen2.5-coder-0.5b-instruct-q4_k_m");
    }
}

/// Largest acceptable distance of an encoded element, as a part of the row's peak.
fn tolerance(tensor_type: TensorType) -> f32 {
    match tensor_type {
        TensorType::F32 => 0.0,
        TensorType::F16 => 0.0005,
        TensorType::Bf16 | TensorType::Q8_0 => 0.005,
        TensorType::Q6K => 0.03,
        TensorType::Q5_0 | TensorType::Q5_1 | TensorType::Q5K => 0.065,
        TensorType::Q4_0 | TensorType::Q4_1 | TensorType::Q4K => 0.13,
        TensorType::Iq4Nl => 0.15,
        TensorType::Q3K => 0.27,
        TensorType::Q2K => 0.4,
    }
}

fn wave(len: usize, phase: f32) -> Vec<f32> {
    (0..len).map(|i| ((i * i) as f32 * 0.37 + phase).sin() * 0.8 - 0.1).collect()
}

#[test]
fn encoded_rows_decode_close_to_what_they_were() {
    for tensor_type in TensorType::ALL {
        for phase in 0..20 {
            let row = wave(512, phase as f32);
            let bytes = encode_row(tensor_type, &row).expect("whole blocks");
            assert_eq!(bytes.len() as u64, tensor_type.row_bytes(512).expect("whole blocks"));
            let seen = decode_row(tensor_type, &bytes).expect("whole blocks");
            let farthest = row.iter().zip(&seen).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(farthest <= tolerance(tensor_type), "{tensor_type}: off by {farthest}");
        }
    }
}

#[test]
fn empty_and_constant_blocks_survive() {
    for tensor_type in TensorType::ALL {
        for value in [0.0, 0.5, -0.5] {
            let bytes = encode_row(tensor_type, &[value; 256]).expect("whole blocks");
            let seen = decode_row(tensor_type, &bytes).expect("whole blocks");
            assert!(seen.iter().all(|v| (v - value).abs() < 0.01), "{tensor_type} {value}: {}", seen[0]);
        }
    }
}

#[test]
fn partial_blocks_are_refused() {
    let tensor_type = TensorType::Q4_0;
    assert_eq!(encode_row(tensor_type, &[0.0; 31]), Err(BlockError::PartialRow { len: 31, tensor_type }));
    assert_eq!(decode_row(tensor_type, &[0; 17]), Err(BlockError::PartialBytes { len: 17, tensor_type }));
}
