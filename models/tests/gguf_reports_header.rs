//! Public failure reports about GGUF headers, one test per case, named by its id.

#[path = "common/decoders.rs"]
mod decoders;
#[path = "common/gguf_writer.rs"]
mod gguf_writer;

use decoders::tiny;
use fanlight_models::gguf::limits::{FETCH_BYTES_MAX, HEADER_BYTES_MAX};
use fanlight_models::gguf::{GgufError, HeaderReader, HeaderStep, MetadataError, MetadataValue};
use gguf_writer::*;

fn tiny_writer() -> GgufWriter {
    tiny("llama").writer()
}

fn one_tensor(dims: &[u64], type_id: u32) -> GgufWriter {
    let mut w = GgufWriter::default();
    w.tensor("t", dims, type_id);
    w.tensors[0].data = vec![0; 4];
    w
}

/// The error of reading `writer` as a sparse file so long that length alone refuses nothing.
fn refuse_in_long_file(writer: &GgufWriter) -> GgufError {
    let mut head = writer.header_bytes();
    head.resize(4096, 0);
    read_sparse(&head, 1 << 60).expect_err("refused")
}

#[test]
fn a01_products_that_wrap_are_refused_by_name() {
    for dims in [vec![(1 << 62) + 1], vec![1 << 32, 1 << 32], vec![1 << 21, 1 << 21, 1 << 21, 2]] {
        let error = refuse_in_long_file(&one_tensor(&dims, 0));
        assert_eq!(error, GgufError::SizeOverflow { tensor: "t".into(), dims });
    }
    // Wraps 32 bits only: 2^32 + 4 bytes.
    let w = one_tensor(&[(1 << 30) + 1], 0);
    let error = read(&w.file()).expect_err("refused");
    assert!(
        matches!(&error, GgufError::BeyondFile { tensor, bytes: 4_294_967_300, .. } if tensor == "t"),
        "{error}"
    );
    // The data start or the offset can wrap the end of the range.
    let mut w = one_tensor(&[1], 0);
    w.tensors[0].offset = Some(u64::MAX - 31);
    assert!(matches!(refuse_in_long_file(&w), GgufError::BeyondFile { .. }));
}

#[test]
fn a02_tensors_beyond_the_file_are_refused() {
    let w = tiny_writer();
    let mut file = w.file();
    assert!(read(&file).is_ok());
    file.truncate(file.len() - 10);
    let last = String::from_utf8(w.tensors.last().expect("tensors").name.clone()).expect("text");
    let error = read(&file).expect_err("cut");
    assert!(matches!(&error, GgufError::BeyondFile { tensor, .. } if *tensor == last), "{error}");

    let mut w = tiny_writer();
    w.tensor_mut("blk.0.attn_norm.weight").offset = Some(w.file_bytes().next_multiple_of(32) + 32);
    let error = read(&w.file()).expect_err("offset beyond");
    assert!(
        matches!(&error, GgufError::BeyondFile { tensor, .. } if tensor == "blk.0.attn_norm.weight"),
        "{error}"
    );
}

#[test]
fn a03_lengths_are_bounded_before_anything_is_allocated() {
    let entry = |payload: Vec<u8>, value_type: u32| {
        let mut w = GgufWriter::default();
        w.set("k", value_type, payload);
        w.header_bytes()
    };
    let long = (1u64 << 63).to_le_bytes().to_vec();
    let string_45 = entry(long.clone(), value_type::STRING);
    let array_49 = entry([4u32.to_le_bytes().to_vec(), long.clone()].concat(), value_type::ARRAY);
    assert_eq!((string_45.len(), array_49.len()), (45, 49));
    let string_32 = entry(u64::from(u32::MAX).to_le_bytes().to_vec(), value_type::STRING);
    for file in [&string_45, &array_49, &string_32] {
        assert!(matches!(read(file), Err(GgufError::Truncated { .. })));
        // The same claim inside a file that is long enough meets the caps, and no bigger range is asked for.
        let mut head = file.clone();
        head.resize(1 << 20, 0);
        let reader = HeaderReader::new(u64::MAX);
        assert!(matches!(reader.feed(&head), Err(GgufError::OverLimit { .. } | GgufError::Truncated { .. })));
    }
    for (tensors, entries) in [(1u64 << 63, 0), (0, 1u64 << 63)] {
        let w =
            GgufWriter { tensor_count: Some(tensors), entry_count: Some(entries), ..GgufWriter::default() };
        assert!(matches!(read(&w.header_bytes()), Err(GgufError::Truncated { .. })));
    }
    let w = GgufWriter { tensor_count: Some(1 << 40), ..GgufWriter::default() };
    assert!(matches!(refuse_in_long_file(&w), GgufError::OverLimit { limit: 65_536, .. }));
}

#[test]
fn a03_requests_stay_bounded_however_long_the_header_claims_to_be() {
    // Array after array of zeros: every claim is allowed alone, the header as a whole is not.
    let mut entry = string(b"k");
    entry.extend(value_type::ARRAY.to_le_bytes());
    entry.extend(0u32.to_le_bytes());
    entry.extend((1u64 << 20).to_le_bytes());
    let mut reader = HeaderReader::new(1 << 40);
    let mut produced = [b"GGUF".to_vec(), 3u32.to_le_bytes().to_vec(), vec![0; 8]].concat();
    produced.extend(10_000u64.to_le_bytes());
    for number in 0u64..70 {
        entry[8] = b'0' + number as u8;
        produced.extend(&entry);
        produced.resize(produced.len() + (1 << 20), 0);
    }
    let error = loop {
        let range = reader.wanted_range();
        assert!(range.end - range.start <= FETCH_BYTES_MAX && range.end <= HEADER_BYTES_MAX);
        match reader.feed(&produced[range.start as usize..range.end as usize]) {
            Ok(HeaderStep::More(next)) => reader = next,
            Ok(HeaderStep::Done(_)) => panic!("there is no end"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, GgufError::OverLimit { limit: HEADER_BYTES_MAX, .. }), "{error}");
}

#[test]
fn a04_dimension_counts_are_one_to_four() {
    for count in [0u32, 5, 9, u32::MAX] {
        let mut w = one_tensor(&vec![1; count.min(9) as usize], 0);
        w.tensors[0].data.clear();
        let mut bytes = w.header_bytes();
        let at = bytes.len() - 8 - 4 - 8 * count.min(9) as usize - 4;
        bytes[at..at + 4].copy_from_slice(&count.to_le_bytes());
        bytes.resize(4096, 0);
        let error = read(&bytes).expect_err("refused");
        assert_eq!(error, GgufError::DimensionCount { tensor: "t".into(), count, limit: 4 });
    }
    for count in 1..=4 {
        let header = read(&one_tensor(&vec![1; count], 0).file()).expect("good");
        assert_eq!(header.tensors[0].dims.len(), count);
    }
}

#[test]
fn a05_alignment_is_a_power_of_two_up_to_a_cap() {
    for alignment in [0u32, 3, 33, 1 << 30] {
        let mut w = tiny_writer();
        w.set_u32("general.alignment", alignment);
        assert_eq!(read(&w.file()).expect_err("refused"), GgufError::Alignment { alignment, limit: 65_536 });
    }
    let mut w = tiny_writer();
    w.set_str("general.alignment", "32");
    assert!(matches!(read(&w.file()), Err(GgufError::Metadata(MetadataError::WrongType { .. }))));
    w.set("general.alignment", value_type::I32, (-32i32).to_le_bytes().to_vec());
    assert!(matches!(
        read(&w.file()),
        Err(GgufError::Metadata(MetadataError::OutOfRange { value: -32, .. }))
    ));
}

#[test]
fn a06_alignment_of_any_power_of_two_moves_the_data() {
    for (alignment, start) in [(16u32, 240u64), (64, 256)] {
        let mut w = GgufWriter { alignment: alignment.into(), ..GgufWriter::default() };
        w.set_u32("general.alignment", alignment).set_str("p", "");
        for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
            w.tensor(name, &[4], 0);
            w.tensors[index].data = (index as f32).to_le_bytes().repeat(4);
        }
        let pad = 240 - w.header_bytes().len();
        w.set_str("p", &"x".repeat(pad));
        let file = w.file();
        let header = read(&file).expect("good");
        assert_eq!((w.header_bytes().len(), header.data_start), (240, start));
        for (index, tensor) in header.tensors.iter().enumerate() {
            assert_eq!(tensor.offset, start + index as u64 * u64::from(alignment));
            let at = tensor.offset as usize;
            assert_eq!(file[at..at + 16], (index as f32).to_le_bytes().repeat(4));
        }
    }
    let mut w = one_tensor(&[1], 0);
    w.tensors[0].offset = Some(16);
    assert!(matches!(read(&w.file()), Err(GgufError::Misaligned { offset: 16, alignment: 32, .. })));
}

#[test]
fn a07_names_and_keys_are_unique() {
    let mut w = tiny_writer();
    w.tensor("blk.0.attn_norm.weight", &[64], 0);
    let error = read(&w.file()).expect_err("refused");
    assert_eq!(error, GgufError::DuplicateTensor { tensor: "blk.0.attn_norm.weight".into() });
    let mut w = tiny_writer();
    w.entries.push(w.entries[2].clone());
    let error = read(&w.file()).expect_err("refused");
    assert_eq!(error, GgufError::DuplicateKey { key: "llama.embedding_length".into() });
}

#[test]
fn a08_long_names_are_kept_whole_or_refused() {
    for len in [63usize, 64, 256] {
        let mut w = GgufWriter::default();
        let name = |last: &str| "n".repeat(len - 1) + last;
        w.tensor(&name("a"), &[1], 0).tensor(&name("b"), &[1], 0);
        let header = read(&w.file()).expect("good");
        assert_eq!([&header.tensors[0].name, &header.tensors[1].name], [&name("a"), &name("b")]);
    }
    let mut w = GgufWriter::default();
    w.tensor(&"n".repeat(10_000), &[1], 0);
    assert!(matches!(read(&w.file()), Err(GgufError::OverLimit { wanted: 10_000, limit: 256, .. })));
    let mut w = GgufWriter::default();
    w.tensor("", &[1], 0);
    assert_eq!(read(&w.file()), Err(GgufError::EmptyTensorName { index: 0 }));
}

#[test]
fn a09_big_endian_files_are_named() {
    let mut file = tiny_writer().file();
    file[4..8].copy_from_slice(&3u32.to_be_bytes());
    file[8..16].reverse();
    file[16..24].reverse();
    assert_eq!(read(&file), Err(GgufError::BigEndian));
    let mut file = tiny_writer().file();
    file[..4].copy_from_slice(b"FUGG");
    assert_eq!(read(&file), Err(GgufError::BigEndian));
}

#[test]
fn a10_versions_two_and_three_load_and_others_are_named() {
    let three = read(&tiny_writer().file()).expect("version 3");
    let two = read(&GgufWriter { version: 2, ..tiny_writer() }.file()).expect("version 2");
    assert_eq!((two.version, three.version), (2, 3));
    assert_eq!((&two.tensors, &two.metadata), (&three.tensors, &three.metadata));
    for version in [0u32, 1, 4, 0xFFFF_FFFF] {
        let error = read(&GgufWriter { version, ..tiny_writer() }.file()).expect_err("refused");
        assert_eq!(error, GgufError::UnsupportedVersion { version });
        assert!(error.to_string().contains(&version.to_string()));
    }
    // Version 1 had 32-bit counts and lengths.
    let mut one = [b"GGUF".to_vec(), 1u32.to_le_bytes().to_vec()].concat();
    one.extend([0u32.to_le_bytes(), 1u32.to_le_bytes(), 1u32.to_le_bytes()].concat());
    one.extend([b"k".to_vec(), 4u32.to_le_bytes().to_vec(), 7u32.to_le_bytes().to_vec()].concat());
    assert_eq!(read(&one), Err(GgufError::UnsupportedVersion { version: 1 }));
}

#[test]
fn a11_truncation_anywhere_is_an_error() {
    let w = tiny_writer();
    let (file, header_len) = (w.file(), w.header_bytes().len());
    for cut in 0..header_len {
        let error = read(&file[..cut]).expect_err("cut");
        let expected = matches!(error, GgufError::Truncated { .. })
            || (cut == 0 && error == GgufError::SourceEnded { read_bytes: 0, file_bytes: 0 });
        assert!(expected, "{cut}: {error}");
        assert!(error.to_string().contains("truncated header"));
    }
    for cut in [header_len, header_len + 1, file.len() - 1] {
        assert!(matches!(read(&file[..cut]), Err(GgufError::BeyondFile { .. })));
    }
    assert!(matches!(read(b"<!DO"), Err(GgufError::NotGguf { found: [b'<', b'!', b'D', b'O'] })));
}

#[test]
fn a11_a_source_that_runs_dry_ends_the_reader() {
    let mut w = tiny_writer();
    w.set_str("general.description", &"d".repeat(3 << 20));
    let file = w.file();
    assert!(read(&file).is_ok());
    let error = read_sparse(&file[..2 << 20], file.len() as u64).expect_err("dry");
    assert_eq!(error, GgufError::SourceEnded { read_bytes: 2 << 20, file_bytes: file.len() as u64 });
    // And one that gives more than it was asked for is wrong too.
    let error = HeaderReader::new(100).feed(&file[..101]).expect_err("surplus");
    assert_eq!(error, GgufError::SurplusBytes { read_bytes: 101, wanted_bytes: 100 });
}

#[test]
fn a13_unknown_types_are_named_with_their_tensor() {
    let names = [(36u32, "IQ4_NL_4_4"), (39, "MXFP4"), (40, "NVFP4"), (139, "unknown type 139")];
    for (id, name) in names {
        let mut w = tiny_writer();
        w.tensor_mut("blk.1.ffn_up.weight").type_id = id;
        let error = read(&w.file()).expect_err("refused");
        assert_eq!(error, GgufError::UnsupportedType { tensor: "blk.1.ffn_up.weight".into(), id });
        let text = error.to_string();
        assert!(text.contains("tensor blk.1.ffn_up.weight is of") && text.contains(name), "{text}");
        assert!(text.contains("Q4_K_M") && text.contains("IQ4_NL"), "what to use instead: {text}");
    }
}

#[test]
fn l12_a_tokenizer_in_another_format_is_no_damage() {
    let mut w = tiny_writer();
    let large = "x".repeat(5 << 20);
    w.set_str("tokenizer.huggingface.json", &large);
    let header = read(&w.file()).expect("good");
    let kept = header.metadata.get_bytes("tokenizer.huggingface.json").unwrap().unwrap();
    assert!(kept.len() < 100, "it is not kept");
    let mut w = tiny_writer();
    w.set_str("tokenizer.chat_template", &large);
    assert!(matches!(read(&w.file()), Err(GgufError::OverLimit { .. })));
}

#[test]
fn a20_array_element_types_are_checked() {
    let mut w = tiny_writer();
    let bytes: Vec<_> = (0..16u8).map(|byte| vec![byte]).collect();
    w.set("tokenizer.ggml.scores", value_type::ARRAY, array(value_type::U8, &bytes));
    w.set_strs("tokenizer.ggml.token_type", &[b"1".as_slice(); 16]);
    let metadata = read(&w.file()).expect("good").metadata;
    let error = metadata.get_f32_array("tokenizer.ggml.scores").expect_err("u8");
    assert!(matches!(&error, MetadataError::WrongType { found, .. } if found == "array of u8"), "{error}");
    assert!(metadata.get_u32_array("tokenizer.ggml.token_type").is_err());
    assert_eq!(metadata.get_u32_array("tokenizer.ggml.scores"), Ok(Some((0..16).collect())));
}

#[test]
fn a22_strings_keep_their_bytes() {
    let mut w = tiny_writer();
    let text = "<\u{FF5C}User\u{FF5C}>\u{2581}x";
    w.set_str("tokenizer.chat_template", text);
    w.set("general.name", value_type::STRING, string(&[0xFF, 0xFE]));
    w.set_strs("tokenizer.ggml.tokens", &[text.as_bytes(), &[0xE2]]);
    let metadata = read(&w.file()).expect("good").metadata;
    assert_eq!(metadata.get_text("tokenizer.chat_template").expect("text").as_deref(), Some(text));
    assert_eq!(metadata.get_text("general.name").expect("text").as_deref(), Some("\u{FFFD}\u{FFFD}"));
    let tokens = metadata.get_bytes_array("tokenizer.ggml.tokens").expect("strings").expect("present");
    assert_eq!(tokens, [text.as_bytes().to_vec(), vec![0xE2]]);
}

#[test]
fn a24_padding_after_the_last_tensor_is_optional() {
    let mut w = tiny_writer();
    w.tensor("v.last", &[5], 0);
    let mut file = w.file();
    assert_ne!(file.len() % 32, 0);
    let tight = read(&file).expect("unpadded");
    file.extend([0; 7]);
    assert_eq!(read(&file).expect("seven more").tensors, tight.tensors);
}

#[test]
fn a25_zero_dimensions_and_empty_keys_are_refused_and_empty_values_are_not() {
    let error = read(&one_tensor(&[0, 4], 0).file()).expect_err("refused");
    assert_eq!(error, GgufError::ZeroDimension { tensor: "t".into(), dims: vec![0, 4] });
    let mut w = tiny_writer();
    w.set_u32("", 1);
    assert_eq!(read(&w.file()), Err(GgufError::EmptyKey { index: 9 }));
    let mut w = tiny_writer();
    w.set_str("general.name", "").set_u32s("general.empty", &[]).set_strs("general.tags", &[]);
    let metadata = read(&w.file()).expect("good").metadata;
    assert_eq!(metadata.get("general.name"), Some(&MetadataValue::String(Vec::new())));
    assert_eq!(metadata.get_u32_array("general.empty"), Ok(Some(Vec::new())));
}

#[test]
fn e06_offsets_have_64_bits() {
    let mut w = one_tensor(&[1], 0);
    w.tensors[0].offset = Some(4_294_967_296 + 64);
    let header = read_sparse(&w.header_bytes(), 5 << 30).expect("good");
    assert_eq!(header.tensors[0].offset, header.data_start + 4_294_967_296 + 64);
    assert_eq!((header.file_bytes, header.tensors[0].bytes), (5 << 30, 4));
}

#[test]
fn pieces_of_any_size_give_the_same_header() {
    let mut w = tiny("gemma3").writer();
    w.set_strs("tokenizer.ggml.tokens", &[b"token".as_slice(); 16]);
    let inner = array(value_type::U8, &[vec![1], vec![2]]);
    w.set("general.nested", value_type::ARRAY, array(value_type::ARRAY, &[inner.clone(), inner]));
    let file = w.file();
    let whole = read(&file).expect("good");
    for step in [1, 2, 7, 64, 1_000] {
        assert_eq!(read_in_steps(&file, step).expect("good"), whole);
    }
}
