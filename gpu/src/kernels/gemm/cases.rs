//! The GEMM against the plain product of `matrix/twin.rs`: the same sums for many tokens.

use fanlight_messages::TensorType;
use fanlight_messages::layout::ResidentFormat;

use super::Variant;
use crate::kernels::product;
use crate::kernels::testing::product::{Dispatch, Product};
use crate::kernels::testing::{block_on, dot_variants, lab};
use crate::lab::Lab;

/// Two tiles of 32 rows and a tail that is no multiple of a thread's four.
const ROWS: usize = 70;
/// A tile of 32 tokens and a tail, likewise.
const TOKENS: usize = 45;

async fn check(lab: &Lab, product: &Product, case: &str, packed_dot: bool, groups: Option<[u32; 3]>) {
    let format = ResidentFormat::of(product.tensor_type);
    let variant = Variant { format, layout: product.layout, packed_dot };
    let dispatch = Dispatch {
        case,
        variant: product::Variant::Gemm(variant),
        groups: groups.unwrap_or_else(|| variant.groups(product.rows as u64, TOKENS as u32)),
        live: TOKENS,
        written: 0..TOKENS,
        last_only: false,
    };
    product.check(lab, dispatch).await;
}

#[test]
fn every_type_multiplies() {
    let lab = &lab();
    for tensor_type in TensorType::ALL {
        let columns = if tensor_type.block_len() == 256 { 512 } else { 288 };
        let product = block_on(Product::random(lab, tensor_type, columns, ROWS, TOKENS));
        block_on(check(lab, &product, &format!("{columns} columns"), dot_variants(lab)[0], None));
    }
}

#[test]
fn padded_rows_square_grids_and_the_plain_dot_product_multiply() {
    let lab = &lab();
    let packed = dot_variants(lab)[0];
    for (tensor_type, columns) in [(TensorType::Q8_0, 2144), (TensorType::Q4K, 17_152)] {
        let product = block_on(Product::random(lab, tensor_type, columns, 5, TOKENS));
        block_on(check(lab, &product, &format!("{columns} columns, padded"), packed, None));
    }
    let product = block_on(Product::random(lab, TensorType::Q6K, 512, ROWS, TOKENS));
    // Rows of the grid's second dimension follow those of the first, as beyond 65,535 groups.
    block_on(check(lab, &product, "grid of 2×2 row tiles", packed, Some([2, 2, 2])));
    block_on(check(lab, &product, "plain dot product", false, None));
}
