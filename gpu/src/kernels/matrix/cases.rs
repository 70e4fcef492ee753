//! The lane kernel against the plain product: every type, every bucket, padded rows, both dot products, huge
//! grids.

use fanlight_messages::TensorType;
use fanlight_messages::layout::{ResidentFormat, SlabLayout};

use super::{BUCKETS, Variant};
use crate::kernels::product;
use crate::kernels::repack::{self, cases::known_products};
use crate::kernels::testing::product::{Dispatch, Product};
use crate::kernels::testing::quantised::Activation;
use crate::kernels::testing::{Place, ROUNDING, Wanted, block_on, control, dot_variants, lab};
use crate::lab::Lab;
use crate::shader::grid;

/// Two tiles of rows and a tail at every tuning used here.
const ROWS: usize = 70;

async fn check(lab: &Lab, product: &Product, case: &str, variant: Variant) {
    let tokens = variant.tokens as usize;
    let dispatch = Dispatch {
        case,
        variant: product::Variant::Lane(variant),
        groups: variant.groups(product.rows as u64),
        live: tokens,
        written: 0..tokens,
        last_only: false,
    };
    product.check(lab, dispatch).await;
}

#[test]
fn every_type_multiplies_with_both_dot_products() {
    let lab = &lab();
    for tensor_type in TensorType::ALL {
        let columns = if tensor_type.block_len() == 256 { 512 } else { 288 };
        let product = block_on(Product::random(lab, tensor_type, columns, ROWS, 4));
        let variants = if tensor_type.is_float() { &[true][..] } else { dot_variants(lab) };
        for packed in variants {
            let case = format!("{columns} columns ×4, packed dot {packed}");
            block_on(check(lab, &product, &case, product.lane(4, *packed)));
        }
    }
}

#[test]
fn every_bucket_and_the_last_row_alone_multiply() {
    let lab = &lab();
    let product = block_on(Product::random(lab, TensorType::Q4K, 512, ROWS, 32));
    let packed = dot_variants(lab)[0];
    for tokens in BUCKETS {
        block_on(check(lab, &product, &format!("×{tokens}"), product.lane(tokens, packed)));
    }
    // The head of a prompt batch reads the last live row and writes the first row of logits.
    for live in [1, 7, 32] {
        let variant = product.lane(1, packed);
        let dispatch = Dispatch {
            case: &format!("last of {live} rows"),
            variant: product::Variant::Lane(variant),
            groups: variant.groups(ROWS as u64),
            live,
            written: live - 1..live,
            last_only: true,
        };
        block_on(product.check(lab, dispatch));
    }
}

/// 2,144 columns: 67 blocks in 34 slabs of two. 17,152 columns: 536 blocks in 60 slabs of nine. 4,864
/// columns: no padding, but four blocks a slab, which a thread requests together.
#[test]
fn padded_and_long_rows_multiply() {
    let lab = &lab();
    let cases = [
        (TensorType::Q4_0, 2144),
        (TensorType::Q5_1, 2144),
        (TensorType::Q8_0, 2144),
        (TensorType::F16, 2144),
        (TensorType::Q4_0, 4864),
        (TensorType::Q5_0, 4864),
        (TensorType::Q2K, 17_152),
        (TensorType::Q3K, 17_152),
        (TensorType::Q4K, 17_152),
        (TensorType::Q5K, 17_152),
        (TensorType::Q6K, 17_152),
    ];
    for (tensor_type, columns) in cases {
        let product = block_on(Product::random(lab, tensor_type, columns, 7, 1));
        let variant = product.lane(1, dot_variants(lab)[0]);
        block_on(check(lab, &product, &format!("{columns} columns ×1"), variant));
    }
}

/// Report D10: known answers of the formats' authors.
#[test]
fn known_rows_give_known_products() {
    let lab = &lab();
    for (tensor_type, bytes, input, product) in known_products() {
        let variants = if tensor_type.is_float() { &[true][..] } else { dot_variants(lab) };
        let row = Activation { codes: input.to_vec(), scales: vec![1.0; 8] };
        let fixture = block_on(Product::new(lab, tensor_type, &bytes, 1, &[row]));
        let weights = repack::twin::weights(tensor_type, &bytes);
        for packed in variants {
            let variant = fixture.lane(1, *packed);
            let case = format!("known row, packed dot {packed}");
            let dispatch = Dispatch {
                case: &case,
                variant: product::Variant::Lane(variant),
                groups: variant.groups(1),
                live: 1,
                written: 0..1,
                last_only: false,
            };
            let got = block_on(fixture.run(lab, &dispatch, &control(0, 1)));
            // The bound of `Product::check` for eight blocks in eight slabs, 32 products each for floats.
            let size: f64 = (0..256).map(|e| weights[e].magnitude * f64::from(input[e]).abs()).sum();
            let roundings = if tensor_type.is_float() { 44.0 } else { 13.0 };
            let wanted = Wanted::Near { value: product, bound: roundings * ROUNDING * size };
            let name = format!("{tensor_type} {case}");
            Place { kernel: "matrix", case: &name, what: "output", row_len: 1 }.assert(&[wanted], &got[3..4]);
        }
    }
}

/// Report D06: a driver that computes packed dot products wrongly. One word of a Q8_0 block at a time, so
/// that each output is one dot product of four signed bytes.
#[test]
fn packed_dot_products_of_extreme_bytes_are_exact() {
    let lab = &lab();
    let words: [([u8; 4], [i8; 4], f32); 4] = [
        ([0x80; 4], [0x7f; 4], -65_024.0),
        ([0xff; 4], [-1; 4], 4.0),
        ([0x80, 0x7f, 0x80, 0x7f], [-127, -127, 127, 127], 127.0 * (128.0 - 127.0 - 128.0 + 127.0)),
        ([1, 2, 3, 4], [-1, 10, -100, 127], -1.0 + 20.0 - 300.0 + 508.0),
    ];
    for packed in dot_variants(lab) {
        for (weights, input, wanted) in words {
            // Row r holds the word at position r of its only block, the input holds it at all eight.
            let mut bytes = Vec::new();
            for row in 0..8 {
                let mut block = [0u8; 34];
                block[..2].copy_from_slice(&half::f16::ONE.to_le_bytes());
                block[2 + 4 * row..6 + 4 * row].copy_from_slice(&weights);
                bytes.extend(block);
            }
            let row = Activation { codes: input.repeat(8), scales: vec![1.0] };
            let product = block_on(Product::new(lab, TensorType::Q8_0, &bytes, 8, &[row]));
            let variant = product.lane(1, *packed);
            let dispatch = Dispatch {
                case: "D06",
                variant: product::Variant::Lane(variant),
                groups: variant.groups(8),
                live: 1,
                written: 0..1,
                last_only: false,
            };
            let got = block_on(product.run(lab, &dispatch, &control(0, 1)));
            let case = format!("{weights:02x?} · {input:?}, packed dot {packed}");
            Place { kernel: "matrix", case: &case, what: "dot products", row_len: 8 }
                .assert(&[Wanted::Bits(wanted.to_bits()); 8], &got[3..11]);
        }
    }
}

/// Beyond 65,535 workgroups the grid has a second dimension: one row a workgroup, 131,075 rows, three grid
/// rows.
#[test]
fn d02_rows_beyond_one_grid_dimension_multiply() {
    let lab = &lab();
    let rows = 131_075;
    let product = block_on(Product::random(lab, TensorType::Q4_0, 32, rows, 1));
    let layout = SlabLayout::for_columns(32);
    let variant = Variant { rows: 1, row_groups: 1, ..product.lane(1, dot_variants(lab)[0]) };
    assert_eq!(variant.format, ResidentFormat::Q4_0);
    assert_eq!(layout.slabs, 1);
    assert_eq!(variant.groups(rows as u64), [65_535, 3, 1]);
    // Every row is compared; 65,534, 65,535, 131,069, 131,070 and the last are where a wrong stride shows.
    block_on(check(lab, &product, "131,075 rows", variant));
}

#[test]
fn grids_cover_every_group_within_limits() {
    for groups in [0, 1, 65_534, 65_535, 65_536, 131_070, 131_071, 4_000_000_000] {
        let [x, y] = grid(groups);
        assert!(x <= 65_535 && y <= 65_535, "{groups}: {x}×{y}");
        assert!(u64::from(x) * u64::from(y) >= groups.max(1), "{groups}: {x}×{y}");
    }
}

/// A NaN or infinite scale in one row of a batch stays in that row.
#[test]
fn a_broken_row_leaves_the_others_alone() {
    let lab = &lab();
    let mut noise = crate::lab::Noise::new(5);
    let bytes = crate::kernels::testing::file::random_weights(TensorType::Q4_0, ROWS * 288, &mut noise);
    for broken in [f32::NAN, f32::INFINITY] {
        let mut rows: Vec<_> =
            (0..4).map(|_| crate::kernels::testing::product::random_activation(288, &mut noise)).collect();
        rows[1].scales[4] = broken;
        rows[1].codes[4 * 32] = 1;
        let product = block_on(Product::new(lab, TensorType::Q4_0, &bytes, ROWS, &rows));
        block_on(check(lab, &product, "one broken row", product.lane(4, dot_variants(lab)[0])));
    }
}
