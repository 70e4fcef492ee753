//! Plans under a budget: never above it, and no byte streams that could have stayed.

use fanlight_messages::TensorType;
use fanlight_messages::limits::{PAGE_BYTES_MIN, RING_SLOTS};
use fanlight_messages::plan::{Budget, BufferOwner, GpuPlan, KvFormat, PlanRequest};
use fanlight_messages::program::{
    ActivationId, ActivationSpec, AttentionShape, MatrixId, MatrixPart, MatrixSpec, Op, Program, ValueId,
    ValueSpec,
};
use fanlight_pager::{PlanError, plan_minimum, plan_resident, plan_within};
use proptest::prelude::*;

/// Layers of one matrix each, an embedding table, and a head of its own unless it is tied to the table.
fn program(layers: &[(TensorType, u64, u32)], vocabulary: u64, is_tied: bool) -> Program {
    let matrix = |tensor_type, rows, columns| MatrixSpec {
        name: "m".into(),
        tensor_type,
        rows,
        columns,
        parts: vec![MatrixPart { tensor: "m".into(), first_row: 0, rows }],
    };
    let mut matrices = vec![matrix(TensorType::Q8_0, vocabulary, 256)];
    matrices.extend(layers.iter().map(|(tensor_type, rows, columns)| matrix(*tensor_type, *rows, *columns)));
    let multiply =
        |matrix| Op::Multiply { matrix, input: ActivationId(0), output: ValueId(1), output_offset: 0 };
    let mut body = vec![Op::Embed { table: MatrixId(0), scale: 1.0, output: ValueId(0) }];
    body.extend((1..=layers.len() as u32).map(|index| multiply(MatrixId(index))));
    let head = if is_tied { MatrixId(0) } else { MatrixId(matrices.len() as u32) };
    if !is_tied {
        matrices.push(matrix(TensorType::Q6K, vocabulary, 256));
    }
    Program {
        values: vec![ValueSpec { name: "residual", len: 256 }, ValueSpec { name: "logits", len: 1000 }],
        activations: vec![ActivationSpec { name: "normed", columns: 256, keeps_values: false }],
        matrices,
        vectors: vec![],
        ropes: vec![],
        layers: vec![AttentionShape { query_heads: 4, kv_heads: 2, head_len: 16 }],
        body,
        head: multiply(head),
        logits_scale: 1.0,
        logits_soft_cap: None,
        vocabulary_len: 1000,
        context_len_max: 2048,
    }
}

fn request() -> PlanRequest {
    PlanRequest {
        context_len: 512,
        batch_tokens: 32,
        logits_rows: 32,
        kv_format: KvFormat::F16,
        binding_bytes_max: 128 << 20,
    }
}

fn resident_pages(plan: &GpuPlan) -> Vec<u64> {
    let stays = |owner| matches!(owner, BufferOwner::Page { .. });
    plan.buffers.iter().filter(|buffer| stays(buffer.owner)).map(|buffer| buffer.bytes).collect()
}

#[test]
fn a_budget_that_holds_everything_streams_nothing_and_one_that_holds_too_little_says_how_much() {
    let program = program(&[(TensorType::Q4_0, 4096, 4096); 4], 2000, false);
    let resident = plan_resident(&program, request()).unwrap();
    let within = |bytes| plan_within(&program, request(), Budget { bytes, page_bytes: PAGE_BYTES_MIN });
    assert_eq!(within(resident.total_bytes()).unwrap(), resident);
    let least = plan_minimum(&program, request(), PAGE_BYTES_MIN).unwrap();
    assert_eq!(within(least).unwrap().total_bytes(), least);
    let error = within(least - 3).unwrap_err();
    assert_eq!(error, PlanError::Budget { wanted_bytes: least, budget_bytes: least - 3 });
    assert!(error.to_string().starts_with("3 bytes are missing"), "{error}");
}

#[test]
fn tables_that_only_embed_are_gathered_and_tied_ones_stream_as_heads() {
    for is_tied in [false, true] {
        let program = program(&[(TensorType::Q4_0, 4096, 1024); 3], 5000, is_tied);
        let least = plan_minimum(&program, request(), PAGE_BYTES_MIN).unwrap();
        let plan =
            plan_within(&program, request(), Budget { bytes: least, page_bytes: PAGE_BYTES_MIN }).unwrap();
        let stream = plan.stream.as_ref().unwrap();
        assert_eq!(stream.gathers, Some(MatrixId(0)));
        let order: Vec<u32> = stream.pages.iter().map(|index| plan.pages[*index as usize].matrix.0).collect();
        assert_eq!(order, if is_tied { [1, 2, 3, 0] } else { [1, 2, 3, 4] });
        assert_eq!(stream.body_pages, 3);
        assert!(is_tied || plan.pages.iter().all(|page| page.matrix != MatrixId(0)));
        let bytes = |rows: u64, row_bytes: u64| rows * row_bytes;
        let head = if is_tied { bytes(5000, 8 * 34) } else { bytes(5000, 210) };
        assert_eq!(stream.pass_bytes, 3 * bytes(4096, 32 * 18) + head);
    }
}

proptest! {
    #[test]
    fn no_plan_exceeds_its_budget_and_less_than_a_page_is_left_over(
        layers in prop::collection::vec((0..14usize, 1..6000u64, 1..9u32), 1..12),
        vocabulary in 1000..30_000u64, is_tied: bool, per_mille in 0..1001u64, page_mib in 4..65u64,
    ) {
        let layers: Vec<_> = layers.into_iter()
            .map(|(index, rows, supers)| (TensorType::ALL[index], rows, supers * 256)).collect();
        let program = program(&layers, vocabulary, is_tied);
        let page_bytes = page_mib << 20;
        let least = plan_minimum(&program, request(), page_bytes).unwrap();
        let resident = plan_resident(&program, request()).unwrap().total_bytes();
        let bytes = least + resident.saturating_sub(least) * per_mille / 1000;
        let plan = plan_within(&program, request(), Budget { bytes, page_bytes }).unwrap();
        prop_assert!(plan.total_bytes() <= bytes);
        let mut owners: Vec<_> = plan.buffers.iter().map(|b| b.owner).collect();
        owners.sort();
        owners.dedup();
        prop_assert_eq!(owners.len(), plan.buffers.len());
        let Some(stream) = &plan.stream else { return Ok(()) };
        prop_assert!(stream.slot_bytes <= page_bytes);
        // What streams is not smaller than what stays, and the next page would not have fitted.
        let streamed: Vec<u64> = stream.pages.iter().map(|index| {
            let page = &plan.pages[*index as usize];
            prop_assert!(page.slot.is_some_and(|slot| slot < RING_SLOTS));
            let spec = &program.matrices[page.matrix.index()];
            let format = fanlight_messages::layout::ResidentFormat::of(spec.tensor_type);
            Ok(fanlight_messages::layout::PagePlanes::new(format, page.rows, spec.columns).total_bytes)
        }).collect::<Result<_, _>>()?;
        let Some(smallest) = streamed.iter().min().copied() else {
            // Only the table is missing, whose rows are gathered.
            prop_assert!(!is_tied && stream.gathers.is_some());
            return Ok(());
        };
        prop_assert!(resident_pages(&plan).iter().all(|stays| *stays <= smallest));
        let slots = u64::from(RING_SLOTS.min(streamed.len() as u32));
        // The least was reckoned with the largest page in every slot.
        let unused_slots = (u64::from(RING_SLOTS) - slots + 2) * page_bytes;
        prop_assert!(bytes - plan.total_bytes() < smallest + unused_slots);
        let is_slot = |owner| matches!(owner, BufferOwner::Slot(_));
        prop_assert_eq!(plan.bytes_where(is_slot), slots * stream.slot_bytes);
    }
}
