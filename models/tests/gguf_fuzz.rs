//! Random mutations and truncations of good headers: an answer every time, and memory within bounds.
//!
//! The only test of its file, because it measures the memory of the process.

#[path = "common/decoders.rs"]
mod decoders;
#[path = "common/gguf_writer.rs"]
mod gguf_writer;

use decoders::tiny;
use fanlight_models::arch::{ModelSummary, SmallTensors, model_spec, program};
use fanlight_models::gguf::limits::ARRAY_LEN_MAX;
use fanlight_models::gguf::{Metadata, MetadataArray, MetadataValue, ModelFile};
use gguf_writer::{GgufWriter, array, read, string, value_type};

/// Marsaglia's xorshift, so that runs repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

fn seed_writer(arch: &'static str) -> GgufWriter {
    let mut w = tiny(arch).writer();
    w.set_strs("tokenizer.ggml.tokens", &[b"token".as_slice(); 16]);
    w.set_u32s("general.numbers", &[1, 2, 3]);
    let inner = array(value_type::U8, &[vec![1], vec![2]]);
    w.set("general.nested", value_type::ARRAY, array(value_type::ARRAY, &[inner.clone(), inner]));
    w.set("general.bytes", value_type::STRING, string(&[0xFF; 40]));
    w.set_bool("general.flag", true);
    w
}

fn mutate(file: &mut Vec<u8>, header_len: usize, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(header_len);
        match random.below(4) {
            0 => file[at] = random.next() as u8,
            1 => file[at] ^= 1 << random.below(8),
            // Lengths and counts are 64-bit words: overwrite one with a boundary value.
            2 => {
                let edges = [
                    0,
                    1,
                    u64::from(u32::MAX),
                    1 << 32,
                    1 << 62,
                    i64::MAX as u64,
                    u64::MAX,
                    header_len as u64,
                ];
                let end = (at + 8).min(file.len());
                let word = edges[random.below(edges.len())].to_le_bytes();
                file[at..end].copy_from_slice(&word[..end - at]);
            }
            _ => file.truncate(at.max(1)),
        }
        if file.len() < header_len {
            break;
        }
    }
}

/// Bytes that a value keeps on the heap, lower bound.
fn value_bytes(value: &MetadataValue) -> usize {
    fn array_bytes(array: &MetadataArray) -> usize {
        match array {
            MetadataArray::String(list) => list.iter().map(|s| s.capacity() + 24).sum(),
            MetadataArray::Array(list) => list.iter().map(|a| array_bytes(a) + 32).sum(),
            other => other.len(),
        }
    }
    match value {
        MetadataValue::String(bytes) => bytes.capacity(),
        MetadataValue::Array(array) => array_bytes(array),
        _ => 0,
    }
}

fn metadata_bytes(metadata: &Metadata) -> usize {
    metadata.entries().iter().map(|(key, value)| key.len() + value_bytes(value)).sum()
}

/// Growth allowed while thousands of files of about 30 KiB are read. A claimed array of 2^22 strings,
/// allocated in good faith, would take 96 MiB: the test was seen to fail with a reader that does so.
const GROWTH_KIB_MAX: u64 = 32 << 10;

/// Highest virtual size of this process in KiB, where the system tells.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmPeak:")?.split_whitespace().next()?.parse().ok())
}

#[test]
fn mutated_files_get_an_answer_in_bounded_memory() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut good, mut programs) = (0, 0);
    let peak_before = peak_kib();
    for arch in ["llama", "qwen2", "qwen3", "gemma3"] {
        let writer = seed_writer(arch);
        let (seed, header_len) = (writer.file(), writer.header_bytes().len());
        // Every place where a length can stand gets one that the caps allow and the file does not hold.
        for at in 0..header_len - 8 {
            let mut file = seed.clone();
            file[at..at + 8].copy_from_slice(&ARRAY_LEN_MAX.to_le_bytes());
            let _ = read(&file);
        }
        for _ in 0..4_000 {
            let mut file = seed.clone();
            mutate(&mut file, header_len, &mut random);
            let Ok(header) = read(&file) else { continue };
            good += 1;
            assert!(metadata_bytes(&header.metadata) <= 8 * file.len());
            assert!(header.tensors.iter().all(|t| t.offset + t.bytes <= file.len() as u64));
            let Ok(model) = ModelFile::from_shards(vec![("t.gguf".to_owned(), header)]) else { continue };
            let _ = ModelSummary::new(&model).map(|summary| summary.to_string());
            let Ok(spec) = model_spec(&model) else { continue };
            programs += usize::from(program(&spec, &SmallTensors::new()).is_ok());
        }
    }
    // The mutations are mild enough that all three outcomes occur.
    assert!(good > 100 && programs > 10 && programs < good, "{good} headers, {programs} programs");
    if let (Some(before), Some(after)) = (peak_before, peak_kib()) {
        assert!(after - before < GROWTH_KIB_MAX, "grew by {} KiB", after - before);
    }
}
