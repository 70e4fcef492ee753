//! Lane kernels of every token count and the GEMM against the lane kernel of one token.

use fanlight_messages::TensorType;
use fanlight_messages::layout::{BLOCK_LEN, PagePlanes, PlaneRange, ResidentFormat, SlabLayout};
use fanlight_messages::limits::CHECK_TOKENS;

use super::blocks::random_blocks;
use super::cover::Comparison;
use super::{MatrixCase, Verdict, first_difference};
use crate::device::GpuError;
use crate::kernels::{Kernel, gemm, matrix, product, repack};
use crate::lab::{Lab, LabBuffer, LabInput, LabPlanes, Noise};

/// Rows: two tiles of every tuning and a tail. Rows know nothing of each other, so that fewer prove as much
/// where memory is short.
const ROWS_MAX: u64 = 70;
/// Tokens: the largest bucket and a GEMM tail.
const TOKENS: u32 = CHECK_TOKENS;
/// The token whose activations are zeros; every lane kernel and the GEMM meet it.
const ZERO_TOKEN: u32 = 1;
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
    /// The lane kernel of so many tokens.
    pub(super) fn lane(case: MatrixCase, tokens: u32, packed_dot: bool) -> Self {
        Self { case, form: Form::Lane(tokens), packed_dot }
    }

    /// The prompt kernel.
    pub(super) fn gemm(case: MatrixCase, packed_dot: bool) -> Self {
        Self { case, form: Form::Gemm, packed_dot }
    }

    fn layout(&self) -> SlabLayout {
        SlabLayout::for_columns(self.case.1)
    }

    fn format(&self) -> ResidentFormat {
        ResidentFormat::of(self.case.0)
    }

    fn variant(&self, tokens: u32, packed_dot: bool) -> matrix::Variant {
        matrix::Variant::tuned(self.format(), self.layout(), tokens, packed_dot)
    }

    /// The lane kernel of one token.
    fn plain(&self) -> matrix::Variant {
        self.variant(1, self.packed_dot)
    }

    /// The kernel to be proved, and the tokens it is given.
    fn kernel(&self) -> (product::Variant, u32) {
        let lane = |tokens, packed_dot| (product::Variant::Lane(self.variant(tokens, packed_dot)), tokens);
        match self.form {
            Form::Lane(tokens) => lane(tokens, self.packed_dot),
            Form::Shift(tokens) => lane(tokens, false),
            Form::Gemm => {
                let (format, layout) = (self.format(), self.layout());
                let variant = gemm::Variant { format, layout, packed_dot: self.packed_dot };
                (product::Variant::Gemm(variant), TOKENS)
            }
        }
    }

    fn verdict(&self, expected: &[u32], got: &[u32], rows: u64) -> Verdict {
        let (tensor_type, columns) = self.case;
        let what = match self.form {
            Form::Lane(tokens) => format!("lane ×{tokens}"),
            Form::Shift(tokens) => format!("lane ×{tokens} by shift and mask"),
            Form::Gemm => "gemm".into(),
        };
        Verdict {
            name: format!("{tensor_type} {columns} columns, {what} = lane ×1"),
            difference: first_difference(&expected[..got.len().min(expected.len())], got, rows as usize),
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
        vec![repack.into(), self.plain().into(), self.kernel().0.into()]
    }
}

/// Compares these pairs, which are of one case.
pub(super) async fn compare(lab: &Lab, pairs: &[Pair]) -> Result<Vec<Verdict>, GpuError> {
    let Some(first) = pairs.first() else { return Ok(Vec::new()) };
    let (tensor_type, layout) = (first.case.0, first.layout());
    let mut noise = Noise::new(u64::from(layout.blocks) << 8 | u64::from(tensor_type.ggml_id()));
    let rows = rows_within(lab.bytes_left(), tensor_type, layout);
    let planes = repack_random(lab, tensor_type, layout, rows, &mut noise).await?;
    let inputs = random_inputs(lab, tensor_type.is_float(), layout, &mut noise).await?;
    let bench = Bench { lab, rows, planes, inputs, control: lab.words(&control(0)).await? };
    let expected = bench.plain(first.plain()).await?;
    let mut verdicts = Vec::new();
    for pair in pairs {
        let (variant, tokens) = pair.kernel();
        let got = bench.product(variant, tokens).await?;
        verdicts.push(pair.verdict(&expected, &got, rows));
    }
    Ok(verdicts)
}

/// Rows whose file bytes, those as the queue keeps them, and planes take a quarter of the memory at most.
fn rows_within(bytes: u64, tensor_type: TensorType, layout: SlabLayout) -> u64 {
    let columns = layout.blocks * BLOCK_LEN;
    let file_bytes = tensor_type.row_bytes(u64::from(columns)).unwrap_or(0);
    let resident_bytes = PagePlanes::new(ResidentFormat::of(tensor_type), 1, columns).total_bytes;
    (bytes / 4 / (2 * file_bytes + 2 * resident_bytes).max(1)).clamp(1, ROWS_MAX)
}

/// Random rows through the repack kernel.
async fn repack_random(
    lab: &Lab,
    tensor_type: TensorType,
    layout: SlabLayout,
    rows: u64,
    noise: &mut Noise,
) -> Result<LabPlanes, GpuError> {
    let columns = layout.blocks * BLOCK_LEN;
    let blocks = rows * u64::from(columns) / tensor_type.block_len();
    let mut bytes = random_blocks(tensor_type, blocks as usize, noise);
    bytes.resize(bytes.len().next_multiple_of(4) + 4, 0);
    let landing = lab.words(&bytemuck::pod_collect_to_vec::<u8, u32>(&bytes)).await?;
    let sizes = PagePlanes::new(ResidentFormat::of(tensor_type), rows, columns);
    let plane = async |range: PlaneRange| match range.len_bytes {
        0 => Ok(None),
        bytes => lab.zeros(bytes as usize / 4).await.map(Some),
    };
    let planes = LabPlanes {
        codes: lab.zeros(sizes.codes.len_bytes as usize / 4).await?,
        high: plane(sizes.high).await?,
        scales: plane(sizes.scales).await?,
        supers: plane(sizes.supers).await?,
    };
    let variant = repack::Variant { tensor_type, layout };
    let params = repack::Params {
        rows: rows as u32,
        landing_row: 0,
        first_row: 0,
        row_bytes: tensor_type.row_bytes(u64::from(columns)).unwrap_or(0) as u32,
        blocks: layout.blocks,
    };
    let bindings = repack::Bindings { landing: landing.slice(), page: planes.bindings() };
    lab.run(variant, &bindings, params, variant.groups(rows)).await?;
    Ok(planes)
}

/// Random activations in slab order, padding zero.
async fn random_inputs(
    lab: &Lab,
    is_float: bool,
    layout: SlabLayout,
    noise: &mut Noise,
) -> Result<LabInput, GpuError> {
    let padded = layout.padded_blocks();
    let (mut codes, mut meta, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for token in 0..TOKENS {
        for position in 0..padded {
            let block = (position % layout.slabs) * layout.blocks_per_slab + position / layout.slabs;
            // One token is all zeros: what has no magnitude must not differ in its sign.
            let live = block < layout.blocks && token != ZERO_TOKEN;
            if is_float {
                values.extend((0..BLOCK_LEN).map(|_| if live { noise.unit() } else { 0.0 }));
                continue;
            }
            let q: Vec<i8> =
                (0..BLOCK_LEN).map(|_| if live { (noise.bits() % 255) as u8 as i8 } else { 0 }).collect();
            let sum = |half: &[i8]| half.iter().map(|q| i32::from(*q)).sum::<i32>() as u32;
            codes.extend(bytemuck::cast_slice::<i8, u8>(&q));
            let dx = if live { noise.unit().abs() * 0.02 } else { 0.0 };
            meta.push(dx.to_bits());
            meta.push((sum(&q[..16]) & 0xffff) | (sum(&q[16..]) << 16));
        }
    }
    if is_float {
        return Ok(LabInput::Elements(lab.floats(&values).await?));
    }
    let codes = lab.words(&bytemuck::pod_collect_to_vec::<u8, u32>(&codes)).await?;
    Ok(LabInput::Codes(codes, lab.words(&meta).await?))
}

/// A control block with so many live rows.
fn control(live: u32) -> [u32; 9] {
    [0, live, 4096, 0, 0, 0, 0, 0, 0]
}

/// Weights and inputs, laid out.
struct Bench<'a> {
    lab: &'a Lab,
    rows: u64,
    planes: LabPlanes,
    inputs: LabInput,
    control: LabBuffer,
}

impl Bench<'_> {
    /// `[TOKENS, rows]` bits, a token at a time.
    async fn plain(&self, variant: matrix::Variant) -> Result<Vec<u32>, GpuError> {
        let output = self.lab.zeros(TOKENS as usize * self.rows as usize).await?;
        for token in 0..TOKENS {
            // `last_only` reads the last live token.
            let place = matrix::Params { output_offset: token * self.rows as u32, ..self.params(true) };
            self.start(product::Variant::Lane(variant), &output, token + 1, place).await?;
        }
        self.lab.read(&output, TOKENS as usize * self.rows as usize).await
    }

    /// `[tokens, rows]` bits in one dispatch.
    async fn product(&self, variant: product::Variant, tokens: u32) -> Result<Vec<u32>, GpuError> {
        let len = tokens as usize * self.rows as usize;
        let output = self.lab.zeros(len).await?;
        self.start(variant, &output, tokens, self.params(false)).await?;
        self.lab.read(&output, len).await
    }

    fn params(&self, last_only: bool) -> matrix::Params {
        let rows = self.rows as u32;
        matrix::Params { rows, output_len: rows, output_offset: 0, last_only: u32::from(last_only) }
    }

    async fn start(
        &self,
        variant: product::Variant,
        output: &LabBuffer,
        live: u32,
        params: product::Params,
    ) -> Result<(), GpuError> {
        self.lab.write(&self.control, &control(live));
        let bindings = product::Bindings {
            weights: self.planes.bindings(),
            input: self.inputs.bindings(),
            output: output.slice(),
            control: self.control.slice(),
        };
        let groups = variant.groups(self.rows, live);
        self.lab.start(variant, &bindings, params, groups).await.map(|_| ())
    }
}
