//! A matrix and its inputs on the GPU and in f64: what the tests of the lane kernel and of the GEMM run on.

use fanlight_messages::TensorType;
use fanlight_messages::layout::{ResidentFormat, SlabLayout};

use super::file::random_weights;
use super::quantised::{Activation, value_plane};
use super::{Place, SENTINEL, Wanted, control};
use crate::kernels::repack::twin::{self, Weight};
use crate::kernels::{matrix, product};
use crate::lab::{Lab, LabInput, LabPlanes, Noise};

/// Elements before and behind the matrix's part of an output row.
const OFFSET: usize = 3;
const MARGIN: usize = 8;

/// A matrix, its input rows, and both as buffers.
pub(in crate::kernels) struct Product {
    pub(in crate::kernels) tensor_type: TensorType,
    pub(in crate::kernels) layout: SlabLayout,
    pub(in crate::kernels) rows: usize,
    weights: Vec<Weight>,
    inputs: Vec<Vec<f64>>,
    planes: LabPlanes,
    input: LabInput,
}

/// One dispatch.
pub(in crate::kernels) struct Dispatch<'a> {
    pub(in crate::kernels) case: &'a str,
    pub(in crate::kernels) variant: product::Variant,
    pub(in crate::kernels) groups: [u32; 3],
    /// The control block's live rows.
    pub(in crate::kernels) live: usize,
    /// Input row of each output row that is written; the kernel is told `last_only` when it is the last live
    /// one.
    pub(in crate::kernels) written: std::ops::Range<usize>,
    pub(in crate::kernels) last_only: bool,
}

/// Random rows: codes over the whole range, scales of different sizes, one block in eight all zero (amax 0).
pub(in crate::kernels) fn random_activation(columns: usize, noise: &mut Noise) -> Activation {
    let mut row = Activation::default();
    for _ in 0..columns / 32 {
        let is_zero = noise.bits() & 7 == 0;
        row.scales.push(if is_zero { 0.0 } else { noise.unit().abs() * 0.02 + 1e-6 });
        row.codes.extend((0..32).map(|_| if is_zero { 0 } else { (noise.bits() % 255) as u8 as i8 }));
    }
    // -128 is never a code.
    row.codes.iter_mut().for_each(|code| *code = (*code).max(-127));
    row
}

impl Product {
    /// Random weights and `tokens` random input rows.
    pub(in crate::kernels) async fn random(
        lab: &Lab,
        tensor_type: TensorType,
        columns: u32,
        rows: usize,
        tokens: usize,
    ) -> Self {
        let mut noise = Noise::new(u64::from(tensor_type.ggml_id()) << 32 | u64::from(columns));
        let bytes = random_weights(tensor_type, rows * columns as usize, &mut noise);
        let inputs: Vec<_> = (0..tokens).map(|_| random_activation(columns as usize, &mut noise)).collect();
        Self::new(lab, tensor_type, &bytes, rows, &inputs).await
    }

    /// Weights in file format and quantised input rows; a float matrix reads their products with the scales,
    /// which are exact in f32 or rounded once to it.
    pub(in crate::kernels) async fn new(
        lab: &Lab,
        tensor_type: TensorType,
        bytes: &[u8],
        rows: usize,
        inputs: &[Activation],
    ) -> Self {
        let columns = inputs[0].codes.len();
        let layout = SlabLayout::for_columns(columns as u32);
        let planes = twin::repack(tensor_type, bytes, rows, columns as u32).upload(lab).await;
        let mut elements: Vec<Vec<f64>> =
            inputs.iter().map(|row| (0..columns).map(|e| row.element(e)).collect()).collect();
        let input = if tensor_type.is_float() {
            let rounded: Vec<Vec<f32>> =
                elements.iter().map(|row| row.iter().map(|x| *x as f32).collect()).collect();
            let plane: Vec<u32> = rounded.iter().flat_map(|row| value_plane(layout, row)).collect();
            elements = rounded.iter().map(|row| row.iter().map(|x| f64::from(*x)).collect()).collect();
            LabInput::Elements(lab.words(&plane).await.expect("a buffer"))
        } else {
            let rows: Vec<_> = inputs.iter().map(|row| row.planes(layout)).collect();
            let codes: Vec<u32> = rows.iter().flat_map(|p| p.codes.clone()).collect();
            let meta: Vec<u32> = rows.iter().flat_map(|p| p.meta.clone()).collect();
            let codes = lab.words(&codes).await.expect("a buffer");
            LabInput::Codes(codes, lab.words(&meta).await.expect("a buffer"))
        };
        let weights = twin::weights(tensor_type, bytes);
        Self { tensor_type, layout, rows, weights, inputs: elements, planes, input }
    }

    /// The lane kernel at its default tuning.
    pub(in crate::kernels) fn lane(&self, tokens: u32, packed_dot: bool) -> matrix::Variant {
        matrix::Variant::tuned(ResidentFormat::of(self.tensor_type), self.layout, tokens, packed_dot)
    }

    fn output_len(&self) -> usize {
        self.rows + MARGIN
    }

    /// Runs a dispatch with a control buffer; the output begins as sentinels and has a spare row.
    pub(in crate::kernels) async fn run(
        &self,
        lab: &Lab,
        dispatch: &Dispatch<'_>,
        control: &[u32],
    ) -> Vec<u32> {
        let len = self.output_len() * (dispatch.written.len() + 1);
        let output = lab.words(&vec![SENTINEL; len]).await.expect("a buffer");
        let control = lab.words(control).await.expect("a buffer");
        let params = matrix::Params {
            rows: self.rows as u32,
            output_len: self.output_len() as u32,
            output_offset: OFFSET as u32,
            last_only: u32::from(dispatch.last_only),
        };
        let bindings = product::Bindings {
            weights: self.planes.bindings(),
            input: self.input.bindings(),
            output: output.slice(),
            control: control.slice(),
        };
        lab.run(dispatch.variant, &bindings, params, dispatch.groups).await.expect("a run");
        lab.read(&output, len).await.expect("a readback")
    }

    /// Runs a dispatch and compares every word of its output; then again after the end of the generation,
    /// when nothing may be written.
    ///
    /// Bound: a block's integer sum is exact, four roundings bring it into the slab's sum; a slab adds its
    /// blocks one by one, and the total its slabs. Each addition is off by one rounding of at most the sum of
    /// magnitudes. A float block adds 32 products.
    pub(in crate::kernels) async fn check(&self, lab: &Lab, dispatch: Dispatch<'_>) {
        let (per_slab, slabs) = (f64::from(self.layout.blocks_per_slab), f64::from(self.layout.slabs));
        let per_block = if self.tensor_type.is_float() { 32.0 } else { 1.0 };
        let roundings = 4.0 + per_block * per_slab + slabs;
        let mut wanted = vec![Wanted::Untouched; self.output_len() * (dispatch.written.len() + 1)];
        for (row, token) in wanted.chunks_exact_mut(self.output_len()).zip(dispatch.written.clone()) {
            let sums = matrix::twin::product(&self.weights, &self.inputs[token]);
            for (to, sum) in row[OFFSET..].iter_mut().zip(sums) {
                // Nothing here comes near the numbers that a device may flush.
                *to = if sum.value.is_nan() { Wanted::Anything } else { sum.near(roundings, 1e-30) };
            }
        }
        let got = self.run(lab, &dispatch, &control(17, dispatch.live as u32)).await;
        let case = format!("{} {}", self.tensor_type, dispatch.case);
        let kernel = if matches!(dispatch.variant, product::Variant::Gemm(_)) { "gemm" } else { "matrix" };
        let place = Place { kernel, case: &case, what: "output", row_len: self.output_len() };
        place.assert(&wanted, &got);
        let got = self.run(lab, &dispatch, &super::ended(17, dispatch.live as u32)).await;
        Place { what: "output after the end", ..place }.assert_untouched(&got);
    }
}
