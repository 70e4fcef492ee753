//! Lane kernels of every token count and the GEMM against the lane kernel of one token.

use fanlight_messages::TensorType;
use fanlight_messages::layout::{BLOCK_LEN, PagePlanes, ResidentFormat, SlabLayout};

use super::blocks::random_blocks;
use super::cover::Comparison;
use super::{MatrixCase, Verdict, first_difference};
use crate::device::GpuError;
use crate::kernels::{Kernel, gemm, matrix, repack};
use crate::lab::{Lab, LabBuffer, Noise};

/// Rows: two tiles of every tuning and a tail.
const ROWS: u64 = 70;
/// Tokens: the largest bucket and a GEMM tail.
const TOKENS: u32 = 45;
/// Most tokens of the lane kernel for which threads keep four rows.
const FEW_TOKENS: u32 = 8;
/// Tokens of the lane kernel that is also compared without the packed dot product.
const SHIFT_TOKENS: u32 = 4;

/// What is compared with the lane kernel of one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Form {
    /// The lane kernel of so many tokens.
    Lane(u32),
    /// The lane kernel of so many tokens by shift and mask, where the device has a packed dot product.
    Shift(u32),
    /// The prompt kernel.
    Gemm,
}

/// One form at one weight type and width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    /// Weight type and columns.
    pub(super) case: MatrixCase,
    form: Form,
    packed_dot: bool,
}

/// What a format's text is built into: compilers treat its unrolled loops differently in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Family {
    /// The lane kernel of 2 to 8 tokens, which keeps several rows in registers.
    Few,
    /// The lane kernel of more.
    Many,
    /// The prompt kernel.
    Gemm,
}

/// See [`Comparison::Aspect`]. A bucket is proved apart for floats and integers, because these read other
/// inputs; of its family each format meets one only, because a format's text knows nothing of token counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Aspect {
    /// A repack template.
    Repack(TensorType),
    /// A format's text in a kernel.
    Format(ResidentFormat, Family),
    /// How a row is cut, in the lane kernel or the GEMM.
    Layout { has_padding: bool, has_long_slabs: bool, has_superblocks: bool, is_gemm: bool },
    /// A token count of the lane kernel, for floats or not.
    Bucket(u32, bool),
    /// Integer products without the packed instruction.
    Shift,
}

/// Every pair of these cases.
pub(super) fn pairs(cases: &[MatrixCase], packed_dot: bool) -> Vec<Pair> {
    let mut all = Vec::new();
    for case in cases {
        let mut forms: Vec<Form> = matrix::BUCKETS[1..].iter().map(|tokens| Form::Lane(*tokens)).collect();
        // Floats are multiplied alike with and without the instruction.
        if packed_dot && !case.0.is_float() {
            forms.push(Form::Shift(SHIFT_TOKENS));
        }
        forms.push(Form::Gemm);
        all.extend(forms.into_iter().map(|form| Pair { case: *case, form, packed_dot }));
    }
    all
}

impl Pair {
    fn layout(&self) -> SlabLayout {
        SlabLayout::for_columns(self.case.1)
    }

    fn format(&self) -> ResidentFormat {
        ResidentFormat::of(self.case.0)
    }

    fn lane(&self, tokens: u32, packed_dot: bool) -> matrix::Variant {
        matrix::Variant::tuned(self.format(), self.layout(), tokens, packed_dot)
    }

    /// The lane kernel of one token.
    fn plain(&self) -> matrix::Variant {
        self.lane(1, self.packed_dot)
    }

    /// The kernel to be proved, its groups, and the tokens it is given.
    fn kernel(&self) -> (Kernel, [u32; 3], u32) {
        let lane = |tokens, packed_dot| {
            let variant = self.lane(tokens, packed_dot);
            (Kernel::Matrix(variant), variant.groups(ROWS), tokens)
        };
        match self.form {
            Form::Lane(tokens) => lane(tokens, self.packed_dot),
            Form::Shift(tokens) => lane(tokens, false),
            Form::Gemm => {
                let (format, layout) = (self.format(), self.layout());
                let variant = gemm::Variant { format, layout, packed_dot: self.packed_dot };
                (Kernel::Gemm(variant), variant.groups(ROWS, TOKENS), TOKENS)
            }
        }
    }

    fn verdict(&self, expected: &[u32], got: &[u32]) -> Verdict {
        let (tensor_type, columns) = self.case;
        let what = match self.form {
            Form::Lane(tokens) => format!("lane ×{tokens}"),
            Form::Shift(tokens) => format!("lane ×{tokens} by shift and mask"),
            Form::Gemm => "gemm".into(),
        };
        Verdict {
            name: format!("{tensor_type} {columns} columns, {what} = lane ×1"),
            difference: first_difference(&expected[..got.len().min(expected.len())], got, ROWS as usize),
        }
    }
}

impl Comparison for Pair {
    type Aspect = Aspect;

    fn aspects(&self) -> Vec<Aspect> {
        let (tensor_type, layout) = (self.case.0, self.layout());
        let family = match self.form {
            Form::Lane(tokens) | Form::Shift(tokens) if tokens <= FEW_TOKENS => Family::Few,
            Form::Lane(_) | Form::Shift(_) => Family::Many,
            Form::Gemm => Family::Gemm,
        };
        let mut aspects = vec![
            Aspect::Repack(tensor_type),
            Aspect::Format(self.format(), family),
            Aspect::Layout {
                has_padding: layout.padded_blocks() > layout.blocks,
                has_long_slabs: layout.blocks_per_slab > 1,
                has_superblocks: tensor_type.block_len() > u64::from(BLOCK_LEN),
                is_gemm: family == Family::Gemm,
            },
        ];
        match self.form {
            Form::Lane(tokens) => aspects.push(Aspect::Bucket(tokens, tensor_type.is_float())),
            Form::Shift(_) => aspects.push(Aspect::Shift),
            Form::Gemm => {}
        }
        aspects
    }

    fn pipelines(&self) -> Vec<Kernel> {
        let repack = repack::Variant { tensor_type: self.case.0, layout: self.layout() };
        vec![Kernel::Repack(repack), Kernel::Matrix(self.plain()), self.kernel().0]
    }
}

/// Compares these pairs, which are of one case.
pub(super) async fn compare(lab: &Lab, pairs: &[Pair]) -> Result<Vec<Verdict>, GpuError> {
    let Some(first) = pairs.first() else { return Ok(Vec::new()) };
    let (tensor_type, layout) = (first.case.0, first.layout());
    let mut noise = Noise::new(u64::from(layout.blocks) << 8 | u64::from(tensor_type.ggml_id()));
    let planes = repack_random(lab, tensor_type, layout, &mut noise).await?;
    let inputs = random_inputs(lab, tensor_type.is_float(), layout, &mut noise).await?;
    let plain = first.plain();
    let mut expected = Vec::new();
    for token in 0..TOKENS {
        // `last_only` reads the last live token: one token at a time.
        let groups = plain.groups(ROWS);
        expected.extend(product(lab, Kernel::Matrix(plain), &planes, &inputs, (token + 1, 1), groups).await?);
    }
    let mut verdicts = Vec::new();
    for pair in pairs {
        let (kernel, groups, tokens) = pair.kernel();
        let got = product(lab, kernel, &planes, &inputs, (tokens, tokens), groups).await?;
        verdicts.push(pair.verdict(&expected, &got));
    }
    Ok(verdicts)
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
