//! Lane kernels of every token count and the GEMM against the lane kernel of one token.

use fanlight_messages::TensorType;
use fanlight_messages::layout::{PagePlanes, ResidentFormat, SlabLayout};

use super::blocks::random_blocks;
use super::{Verdict, first_difference};
use crate::device::GpuError;
use crate::kernels::{Kernel, gemm, matrix, repack};
use crate::lab::{Lab, LabBuffer, Noise};

/// Rows: two tiles of every tuning and a tail.
const ROWS: u64 = 70;
/// Tokens: the largest bucket and a GEMM tail.
const TOKENS: u32 = 45;

/// Compares all pairs for one weight type and width.
pub(super) async fn compare(
    lab: &Lab,
    tensor_type: TensorType,
    layout: SlabLayout,
) -> Result<Vec<Verdict>, GpuError> {
    let format = ResidentFormat::of(tensor_type);
    let packed_dot = lab.device().facts().has_packed_dot;
    let mut noise = Noise::new(u64::from(layout.blocks) << 8 | u64::from(tensor_type.ggml_id()));
    let planes = repack_random(lab, tensor_type, layout, &mut noise).await?;
    let inputs = random_inputs(lab, tensor_type.is_float(), layout, &mut noise).await?;
    let one = Kernel::Matrix(matrix::Variant::tuned(format, layout, 1, packed_dot));
    let mut expected = Vec::new();
    for token in 0..TOKENS {
        // `last_only` reads the last live token: one token at a time.
        let groups = matrix::Variant::tuned(format, layout, 1, packed_dot).groups(ROWS);
        expected.extend(product(lab, one, &planes, &inputs, (token + 1, 1), groups).await?);
    }
    let mut verdicts = Vec::new();
    let mut buckets: Vec<_> = matrix::BUCKETS[1..]
        .iter()
        .map(|b| (matrix::Variant::tuned(format, layout, *b, packed_dot), *b))
        .collect();
    if packed_dot {
        // The shift-and-mask variant must give the same integers.
        buckets.push((matrix::Variant::tuned(format, layout, 4, false), 4));
    }
    for (variant, tokens) in buckets {
        let got =
            product(lab, Kernel::Matrix(variant), &planes, &inputs, (tokens, tokens), variant.groups(ROWS))
                .await?;
        verdicts.push(verdict(tensor_type, layout, &format!("lane ×{tokens}"), &expected, &got));
    }
    let variant = gemm::Variant { format, layout, packed_dot };
    let got =
        product(lab, Kernel::Gemm(variant), &planes, &inputs, (TOKENS, TOKENS), variant.groups(ROWS, TOKENS))
            .await?;
    verdicts.push(verdict(tensor_type, layout, "gemm", &expected, &got));
    Ok(verdicts)
}

fn verdict(
    tensor_type: TensorType,
    layout: SlabLayout,
    what: &str,
    expected: &[u32],
    got: &[u32],
) -> Verdict {
    Verdict {
        name: format!("{tensor_type} {} columns, {what} = lane ×1", layout.blocks * 32),
        difference: first_difference(&expected[..got.len().min(expected.len())], got, ROWS as usize),
    }
}

/// Random rows through the repack kernel: the planes at bindings 0..4.
async fn repack_random(
    lab: &Lab,
    tensor_type: TensorType,
    layout: SlabLayout,
    noise: &mut Noise,
) -> Result<Vec<(u32, LabBuffer)>, GpuError> {
    let columns = layout.blocks * 32;
    let blocks = ROWS * u64::from(columns) / tensor_type.block_len();
    let mut bytes = random_blocks(tensor_type, blocks as usize, noise);
    bytes.resize(bytes.len().next_multiple_of(4) + 4, 0);
    let landing = lab.words(&bytemuck::pod_collect_to_vec::<u8, u32>(&bytes)).await?;
    let sizes = PagePlanes::new(ResidentFormat::of(tensor_type), ROWS, columns);
    let mut planes = Vec::new();
    for (number, range) in (0u32..).zip([sizes.codes, sizes.high, sizes.scales, sizes.supers]) {
        if range.len_bytes > 0 {
            planes.push((number, lab.zeros(range.len_bytes as usize / 4).await?));
        }
    }
    let variant = repack::Variant { tensor_type, layout };
    let params = repack::Params {
        rows: ROWS as u32,
        landing_row: 0,
        first_row: 0,
        row_bytes: tensor_type.row_bytes(u64::from(columns)).unwrap_or(0) as u32,
        blocks: layout.blocks,
    };
    let mut bindings: Vec<(u32, &LabBuffer)> = planes.iter().map(|(number, b)| (number + 1, b)).collect();
    bindings.push((0, &landing));
    lab.run(Kernel::Repack(variant), &bindings, params, variant.groups(ROWS)).await?;
    Ok(planes)
}

/// Random activations in slab order, padding zero: the buffers at bindings 4 and 5.
async fn random_inputs(
    lab: &Lab,
    is_float: bool,
    layout: SlabLayout,
    noise: &mut Noise,
) -> Result<Vec<(u32, LabBuffer)>, GpuError> {
    let padded = layout.padded_blocks();
    let (mut codes, mut meta, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TOKENS {
        for position in 0..padded {
            let block = (position % layout.slabs) * layout.blocks_per_slab + position / layout.slabs;
            let live = block < layout.blocks;
            let q: Vec<i8> =
                (0..32).map(|_| if live { (noise.bits() % 255) as u8 as i8 } else { 0 }).collect();
            let sum = |half: &[i8]| half.iter().map(|q| i32::from(*q)).sum::<i32>() as u32;
            codes.extend(bytemuck::cast_slice::<i8, u8>(&q));
            let dx = if live { noise.unit().abs() * 0.02 } else { 0.0 };
            meta.push(dx.to_bits());
            meta.push((sum(&q[..16]) & 0xffff) | (sum(&q[16..]) << 16));
            values.extend((0..32).map(|_| if live { noise.unit() } else { 0.0 }));
        }
    }
    if is_float {
        return Ok(vec![(4, lab.floats(&values).await?)]);
    }
    let codes = lab.words(&bytemuck::pod_collect_to_vec::<u8, u32>(&codes)).await?;
    Ok(vec![(4, codes), (5, lab.words(&meta).await?)])
}

/// `[tokens, ROWS]` bits; `live` in the control block, `tokens` rows read.
async fn product(
    lab: &Lab,
    kernel: Kernel,
    planes: &[(u32, LabBuffer)],
    inputs: &[(u32, LabBuffer)],
    (live, tokens): (u32, u32),
    groups: [u32; 3],
) -> Result<Vec<u32>, GpuError> {
    let output = lab.zeros((tokens as usize) * ROWS as usize).await?;
    let control = lab.words(&[0, live, 4096, 0, 0, 0, 0, 0, 0]).await?;
    let params = matrix::Params {
        rows: ROWS as u32,
        output_len: ROWS as u32,
        output_offset: 0,
        last_only: u32::from(tokens == 1),
    };
    let mut bindings: Vec<(u32, &LabBuffer)> = planes.iter().chain(inputs).map(|(n, b)| (*n, b)).collect();
    bindings.extend([(6, &output), (7, &control)]);
    lab.run(kernel, &bindings, params, groups).await?;
    lab.read(&output, tokens as usize * ROWS as usize).await
}
