//! The plan against sizes worked out by hand, and its invariants over random shapes.

use fanlight_messages::TensorType;
use fanlight_messages::layout::{PagePlanes, ResidentFormat};
use fanlight_messages::plan::{BufferOwner, KvFormat, PlanRequest};
use fanlight_messages::program::{
    ActivationId, ActivationSpec, AttentionShape, MatrixId, MatrixPart, MatrixSpec, Op, Program, RopePairing,
    RopeSpec, ValueId, ValueSpec, VectorId, VectorPart, VectorSpec,
};
use fanlight_pager::{PlanError, PlanTable, plan_resident};
use proptest::prelude::*;

fn matrix(name: &str, tensor_type: TensorType, rows: u64, columns: u32) -> MatrixSpec {
    let parts = vec![MatrixPart { tensor: name.into(), first_row: 0, rows }];
    MatrixSpec { name: name.into(), tensor_type, rows, columns, parts }
}

/// One layer of width 64: 4 query heads, 2 KV heads of 16, vocabulary 1,000.
fn program() -> Program {
    let vector = |name: &str, len| VectorSpec {
        name: name.into(),
        parts: vec![VectorPart { tensor: Some(name.into()), len }],
    };
    let (residual, logits) = (ValueId(0), ValueId(1));
    Program {
        values: vec![
            ValueSpec { name: "residual", len: 64 },
            ValueSpec { name: "logits", len: 1000 },
            ValueSpec { name: "qkv", len: 128 },
        ],
        activations: vec![ActivationSpec { name: "normed", columns: 64, keeps_values: true }],
        matrices: vec![matrix("embed", TensorType::Q8_0, 1000, 64), matrix("qkv", TensorType::Q4_1, 128, 64)],
        vectors: vec![vector("norm", 63), vector("bias", 128)],
        ropes: vec![RopeSpec {
            inverse_frequencies: vec![1.0; 8],
            long: None,
            magnitude: 1.0,
            pairing: RopePairing::Adjacent,
            query_factor: None,
        }],
        layers: vec![AttentionShape { query_heads: 4, kv_heads: 2, head_len: 16 }],
        body: vec![
            Op::Embed { table: MatrixId(0), scale: 1.0, output: residual },
            Op::Normalize {
                residual,
                delta: None,
                delta_bias: None,
                post_norm: None,
                delta_scale: 1.0,
                weight: Some(VectorId(0)),
                epsilon: 1e-5,
                output: ActivationId(0),
            },
        ],
        head: Op::Multiply { matrix: MatrixId(0), input: ActivationId(0), output: logits, output_offset: 0 },
        logits_scale: 1.0,
        logits_soft_cap: None,
        vocabulary_len: 1000,
        context_len_max: 2048,
    }
}

fn request() -> PlanRequest {
    PlanRequest {
        context_len: 250,
        batch_tokens: 33,
        logits_rows: 2,
        kv_format: KvFormat::F16,
        binding_bytes_max: 1 << 30,
    }
}

#[test]
fn sizes_worked_out_by_hand() {
    let program = program();
    let plan = plan_resident(&program, request()).unwrap();
    assert_eq!((plan.cache_rows, plan.batch_rows, plan.partial_rows), (256, 64, 32));
    assert_eq!(plan.kv_group_heads, [2]);
    assert_eq!(plan.vector_offsets, [0, 64]);
    assert_eq!(plan.request.binding_bytes_max, 128 << 20);
    let bytes = |owner| plan.bytes_of(owner).unwrap();
    // Q8_0: 2 blocks a row, 32 B of codes and 4 B of scale each; 64,000 and 8,000 rounded up to 256.
    assert_eq!(bytes(BufferOwner::Page { matrix: MatrixId(0), page: 0 }), 64_000 + 8_000 + 192);
    // Q4_1: 16 B of codes and 8 B of scale and minimum for each of 256 blocks.
    assert_eq!(bytes(BufferOwner::Page { matrix: MatrixId(1), page: 0 }), 4_096 + 2_048);
    assert_eq!(bytes(BufferOwner::Vectors), (64 + 128) * 4);
    assert_eq!(bytes(BufferOwner::Rope(fanlight_messages::program::RopeId(0))), 256 * 8 * 8);
    assert_eq!(bytes(BufferOwner::Keys { layer: 0, group: 0 }), 2 * (256 + 64) * 16 * 2);
    assert_eq!(bytes(BufferOwner::Value(ValueId(0))), 64 * 64 * 4);
    assert_eq!(bytes(BufferOwner::Value(ValueId(1))), 2 * 1000 * 4);
    assert_eq!(bytes(BufferOwner::AttentionPartials), 32 * 4 * 4 * 18 * 4);
    assert_eq!(bytes(BufferOwner::ChoicePartials), 2 * 64 * 16);
    // 80 words of control block and end ids, two rings of 128, 16 step records of three.
    assert_eq!(bytes(BufferOwner::Readback(2)), (80 + 2 * 128 + 16 * 3) * 4);
    // 32,768 tokens of memory and the context.
    assert_eq!(bytes(BufferOwner::History), (32_768 + 256) * 4);
    assert_eq!(plan.bytes_of(BufferOwner::Readback(3)), None);
    let table = PlanTable { program: &program, plan: &plan };
    assert_eq!(table.lines().iter().map(|line| line.2).sum::<u64>(), plan.total_bytes());
    // Landing holds the largest upload and a word: 1,000 rows of two 34-byte blocks.
    assert_eq!(bytes(BufferOwner::Landing), 68_000 + 4);
    // Comparing pipelines takes more than that: 8 MiB and, twice, 45 tokens of two 40-byte blocks.
    assert_eq!(bytes(BufferOwner::Staging), (8 << 20) + 2 * 45 * 2 * 40);
}

#[test]
fn refusals_name_both_numbers() {
    let context = PlanRequest { context_len: 2049, ..request() };
    let error = plan_resident(&program(), context).unwrap_err();
    assert_eq!(error, PlanError::Context { wanted: 2049, max: 2048 });
    assert!(error.to_string().contains("2049") && error.to_string().contains("2048"));
    let binding = PlanRequest { binding_bytes_max: 1000, ..request() };
    assert!(matches!(plan_resident(&program(), binding), Err(PlanError::Binding { .. })));
    let mut huge = program();
    huge.matrices[0].rows = u64::MAX;
    assert!(matches!(plan_resident(&huge, request()), Err(PlanError::Pages { .. })));
    huge.matrices[0] = matrix("wide", TensorType::F32, 1, u32::MAX - 31);
    assert!(matches!(plan_resident(&huge, request()), Err(PlanError::Row { .. })));
    let mut heads = program();
    heads.layers[0].kv_heads = u32::MAX;
    assert!(matches!(plan_resident(&heads, request()), Err(PlanError::Program(_))));
    let mut headless = program();
    headless.head = headless.body[0].clone();
    assert!(matches!(plan_resident(&headless, request()), Err(PlanError::Program(_))));
}

#[test]
fn a_wide_row_halves_the_batch() {
    let mut program = program();
    program.values[2].len = 200_000;
    let plan = plan_resident(&program, PlanRequest { batch_tokens: 512, ..request() }).unwrap();
    // 800,000 bytes a row: 256 rows exceed 128 MiB, 128 do not.
    assert_eq!((plan.request.batch_tokens, plan.batch_rows), (128, 128));
}

proptest! {
    #[test]
    fn pages_tile_their_matrix_and_are_as_large_as_they_may_be(
        type_index in 0..14usize, rows in 1..40_000u64, superblocks in 1..24u32, limit_mib in 16..64u64,
    ) {
        let tensor_type = TensorType::ALL[type_index];
        let mut program = program();
        program.matrices[1] = matrix("m", tensor_type, rows, superblocks * 256);

        let request = PlanRequest { binding_bytes_max: limit_mib << 20, ..request() };
        let plan = plan_resident(&program, request).unwrap();
        let pages: Vec<_> = plan.pages.iter().filter(|page| page.matrix == MatrixId(1)).collect();
        let planes = |rows| {
            PagePlanes::new(ResidentFormat::of(tensor_type), rows, superblocks * 256).total_bytes
        };
        let mut next_row = 0;
        for (index, page) in pages.iter().enumerate() {
            prop_assert_eq!((page.first_row, page.page as usize), (next_row, index));
            next_row += page.rows;
            let bytes = plan.bytes_of(BufferOwner::Page { matrix: MatrixId(1), page: page.page });
            prop_assert_eq!(bytes, Some(planes(page.rows)));
            prop_assert!(planes(page.rows) <= request.binding_bytes_max);
        }
        // One page less would not hold the rows, and all are of one size but the last.
        let fewer = pages.len() as u64 - 1;
        prop_assert!(fewer == 0 || planes(rows.div_ceil(fewer)) > request.binding_bytes_max);
        prop_assert!(pages.windows(2).all(|two| two[0].rows >= two[1].rows));
        prop_assert!(pages.iter().rev().skip(1).all(|page| page.rows == pages[0].rows));
        prop_assert_eq!(next_row, rows);
    }

    #[test]
    fn every_buffer_fits_one_binding_and_owners_are_unique(
        context_len in 1..2049u32, batch_tokens in 1..513u32, kv_heads in 1..9u32, limit_mib in 16..129u64,
    ) {
        let mut program = program();
        program.layers[0] = AttentionShape { query_heads: kv_heads * 3, kv_heads, head_len: 256 };
        let request = PlanRequest {
            context_len, batch_tokens, logits_rows: 32, kv_format: KvFormat::F32,
            binding_bytes_max: limit_mib << 20,
        };
        let plan = plan_resident(&program, request).unwrap();
        prop_assert!(plan.buffers.iter().all(|b| b.bytes > 0 && b.bytes <= request.binding_bytes_max));
        let mut owners: Vec<_> = plan.buffers.iter().map(|b| b.owner).collect();
        owners.sort();
        owners.dedup();
        prop_assert_eq!(owners.len(), plan.buffers.len());
        prop_assert!(kv_heads.is_multiple_of(plan.kv_group_heads[0]));
        prop_assert!(plan.cache_rows >= context_len && plan.cache_rows < context_len + 64);
    }
}
