//! The embedding of every type against the plain one: pages, padding, dead rows.

use fanlight_messages::TensorType;
use fanlight_messages::layout::{ResidentFormat, SlabLayout};

use super::{Bindings, Params, Variant, twin};
use crate::kernels::repack;
use crate::kernels::testing::file::random_weights;
use crate::kernels::testing::{Place, SENTINEL, Wanted, block_on, control, dot_variants, ended, lab};
use crate::lab::{Lab, Noise};

/// The page holds rows 100..108 of the table.
const FIRST_ROW: u32 = 100;
const ROWS: usize = 8;
/// The first and last row of the page, neighbours outside it, a repeated row, ids far outside; the last is
/// not live.
const TOKENS: [u32; 9] = [100, 107, 99, 108, 103, 103, 0, u32::MAX, 105];
const LIVE: u32 = 8;
/// √896, as gemma-like models scale their embeddings.
const SCALE: f32 = 29.933_259;

async fn check(lab: &Lab, tensor_type: TensorType, columns: u32, packed_dot: bool) {
    let len = columns as usize;
    let layout = SlabLayout::for_columns(columns);
    let mut noise = Noise::new(u64::from(columns) << 8 | u64::from(tensor_type.ggml_id()));
    let bytes = random_weights(tensor_type, ROWS * len, &mut noise);
    let table = repack::twin::weights(tensor_type, &bytes);
    let planes = repack::twin::repack(tensor_type, &bytes, ROWS, columns);
    let planes = planes.upload(lab).await;
    let tokens = lab.words(&TOKENS).await.expect("a buffer");
    let wanted: Vec<Wanted> = TOKENS
        .iter()
        .enumerate()
        .flat_map(|(n, token)| {
            let is_here = (n as u32) < LIVE && (FIRST_ROW..FIRST_ROW + ROWS as u32).contains(token);
            if !is_here {
                return vec![Wanted::Untouched; len];
            }
            // Three roundings in the weight (scale, product, offset), one in the scaling.
            let row = twin::row(&table, len, (token - FIRST_ROW) as usize, SCALE);
            row.into_iter().map(|sum| sum.near(4.0, 1e-30)).collect()
        })
        .collect();
    let params = Params {
        first_row: FIRST_ROW,
        rows: ROWS as u32,
        output_len: columns,
        blocks: layout.blocks,
        scale: SCALE,
    };
    let variant = Variant { format: ResidentFormat::of(tensor_type), layout, packed_dot };
    let case = format!("{tensor_type} {columns} columns");
    let place = Place { kernel: "embed", case: &case, what: "rows", row_len: len };
    for (words, is_running) in [(control(40, LIVE), true), (ended(40, LIVE), false)] {
        let control = lab.words(&words).await.expect("a buffer");
        let output = lab.words(&vec![SENTINEL; len * TOKENS.len()]).await.expect("a buffer");
        let bindings = Bindings {
            table: planes.bindings(),
            tokens: tokens.slice(),
            output: output.slice(),
            control: control.slice(),
        };
        lab.run(variant, &bindings, params, Variant::groups(TOKENS.len() as u32)).await.expect("a run");
        let got = lab.read(&output, len * TOKENS.len()).await.expect("a readback");
        if is_running {
            place.assert(&wanted, &got);
        } else {
            Place { what: "rows after the end", ..place }.assert_untouched(&got);
        }
    }
}

#[test]
fn every_type_embeds() {
    let lab = &lab();
    for tensor_type in TensorType::ALL {
        let columns = if tensor_type.block_len() == 256 { 512 } else { 288 };
        block_on(check(lab, tensor_type, columns, dot_variants(lab)[0]));
    }
}

#[test]
fn padded_rows_embed() {
    let lab = &lab();
    for (tensor_type, columns) in [
        (TensorType::Q8_0, 2144),
        (TensorType::Bf16, 2144),
        (TensorType::Q4K, 17_152),
        (TensorType::Q6K, 17_152),
    ] {
        block_on(check(lab, tensor_type, columns, false));
    }
}
