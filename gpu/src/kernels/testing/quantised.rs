//! What a quantised activation must be: int8 codes, one scale per 32 elements and sums of both halves, in
//! slab order.

use fanlight_messages::layout::SlabLayout;

use super::{Mismatch, Place, ROUNDING, SENTINEL, Sum, Wanted};
use crate::lab::{Lab, LabBuffer};
use crate::shader::Quantised;

/// An element before quantisation and how far the kernel's own may be from it.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernels) struct Element {
    pub(in crate::kernels) value: f64,
    pub(in crate::kernels) bound: f64,
}

impl Element {
    /// Within `roundings` roundings of a sum's magnitude.
    pub(in crate::kernels) fn of(sum: Sum, roundings: f64) -> Self {
        Self { value: sum.value, bound: roundings * ROUNDING * sum.magnitude + FLUSHED }
    }
}

/// Below the smallest normal f32 a device may flush to zero.
const FLUSHED: f64 = f32::MIN_POSITIVE as f64;

/// The planes that a kernel wrote, `[row][position]`.
#[derive(Debug, Clone)]
pub(in crate::kernels) struct Planes {
    /// Eight words a block.
    pub(in crate::kernels) codes: Vec<u32>,
    /// Two words a block: scale, packed half sums.
    pub(in crate::kernels) meta: Vec<u32>,
    /// 32 floats a block, where the variant keeps them.
    pub(in crate::kernels) values: Option<Vec<u32>>,
}

/// Relative error allowed to `amax / 127` and its reciprocal: a multiplication by a rounded constant and a
/// division that Vulkan lets be 2.5 units off.
const SCALE_ERROR: f64 = 4.0 / 8_388_608.0;
/// Below this a block counts as zero: the kernel's constant is 1e-30.
const ZERO_BELOW: f64 = 0.9e-30;

/// Where block `block` of a row is stored: slabs of neighbouring blocks, the lanes interleaved.
pub(in crate::kernels) fn position(layout: SlabLayout, block: usize) -> usize {
    let (slab, index) = (block / layout.blocks_per_slab as usize, block % layout.blocks_per_slab as usize);
    index * layout.slabs as usize + slab
}

/// Compares every block of every row; a row of `None` must be untouched.
pub(in crate::kernels) fn compare(
    place: Place,
    layout: SlabLayout,
    rows: &[Option<Vec<Element>>],
    got: &Planes,
) -> Result<(), Mismatch> {
    let padded = layout.padded_blocks() as usize;
    let named = |what, row_len| Place { what, row_len: padded * row_len, ..place };
    let (mut codes, mut meta, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for (n, row) in rows.iter().enumerate() {
        for at in 0..padded {
            let block =
                (at % layout.slabs as usize) * layout.blocks_per_slab as usize + at / layout.slabs as usize;
            assert!(position(layout, block) == at, "the layout is its own inverse");
            let stored = n * padded + at;
            let block = Block {
                codes: &got.codes[stored * 8..][..8],
                meta: &got.meta[stored * 2..][..2],
                wanted: row.as_ref().map(|row| row.get(block * 32..block * 32 + 32).unwrap_or(&[])),
            };
            codes.extend(block.wanted_codes());
            meta.extend(block.wanted_meta());
            values.extend(block.wanted_values());
        }
    }
    named("codes", 8).compare(&codes, &got.codes)?;
    named("scales and sums", 2).compare(&meta, &got.meta)?;
    match &got.values {
        Some(got) => named("elements", 32).compare(&values, got),
        None => Ok(()),
    }
}

/// The output buffers of a kernel that quantises.
pub(in crate::kernels) struct Outputs {
    layout: SlabLayout,
    rows: usize,
    keeps_values: bool,
    buffers: [LabBuffer; 4],
}

impl Outputs {
    /// Sentinels, and a fault flag that is down.
    pub(in crate::kernels) async fn new(
        lab: &Lab,
        layout: SlabLayout,
        rows: usize,
        keeps_values: bool,
    ) -> Self {
        let blocks = rows * layout.padded_blocks() as usize;
        let words = |len: usize| vec![SENTINEL; len];
        let buffers = [
            lab.words(&words(blocks * 8)).await.expect("a buffer"),
            lab.words(&words(blocks * 2)).await.expect("a buffer"),
            lab.words(&words(blocks * 32)).await.expect("a buffer"),
            lab.zeros(1).await.expect("a buffer"),
        ];
        Self { layout, rows, keeps_values, buffers }
    }

    /// As a kernel binds them.
    pub(in crate::kernels) fn bindings(&self) -> Quantised<'_> {
        let [codes, meta, values, faults] = &self.buffers;
        Quantised {
            out_codes: codes.slice(),
            out_meta: meta.slice(),
            out_values: self.keeps_values.then(|| values.slice()),
            faults: faults.slice(),
        }
    }

    /// The planes and the fault flag.
    pub(in crate::kernels) async fn read(&self, lab: &Lab) -> (Planes, u32) {
        let blocks = self.rows * self.layout.padded_blocks() as usize;
        let [codes, meta, values, faults] = &self.buffers;
        let codes = lab.read(codes, blocks * 8).await.expect("a readback");
        let meta = lab.read(meta, blocks * 2).await.expect("a readback");
        let values = lab.read(values, blocks * 32).await.expect("a readback");
        let faults = lab.read(faults, 1).await.expect("a readback");
        (Planes { codes, meta, values: self.keeps_values.then_some(values) }, faults[0])
    }
}

impl Planes {
    /// Panics unless every block of every row is as wanted; a row of `None` must be untouched.
    pub(in crate::kernels) fn assert(&self, place: Place, layout: SlabLayout, rows: &[Option<Vec<Element>>]) {
        if let Err(mismatch) = compare(place, layout, rows, self) {
            panic!("{mismatch}");
        }
    }

    /// Panics unless all is as it was.
    pub(in crate::kernels) fn assert_untouched(&self, place: Place) {
        Place { what: "codes", row_len: self.codes.len(), ..place }.assert_untouched(&self.codes);
        Place { what: "meta", row_len: self.meta.len(), ..place }.assert_untouched(&self.meta);
        if let Some(values) = &self.values {
            Place { what: "elements", row_len: values.len(), ..place }.assert_untouched(values);
        }
    }

    /// Panics unless every row but one has the bits of another run.
    pub(in crate::kernels) fn assert_same_beside(
        &self,
        place: Place,
        layout: SlabLayout,
        row: usize,
        other: &Self,
    ) {
        let padded = layout.padded_blocks() as usize;
        Place { what: "codes", row_len: padded * 8, ..place }.assert_same_beside(
            row,
            &other.codes,
            &self.codes,
        );
        Place { what: "meta", row_len: padded * 2, ..place }.assert_same_beside(row, &other.meta, &self.meta);
        if let (Some(values), Some(other)) = (&self.values, &other.values) {
            Place { what: "elements", row_len: padded * 32, ..place }.assert_same_beside(row, other, values);
        }
    }
}

/// One block: what came, and what is wanted (`None` untouched, empty for padding).
struct Block<'a> {
    codes: &'a [u32],
    meta: &'a [u32],
    wanted: Option<&'a [Element]>,
}

impl Block<'_> {
    /// The scale that was stored: the codes are judged by it once it is judged itself.
    fn scale(&self) -> f64 {
        f64::from(f32::from_bits(self.meta[0]))
    }

    fn code(&self, element: usize) -> i8 {
        (self.codes[element / 4] >> (8 * (element % 4))) as u8 as i8
    }

    /// The stored codes where each is within half a step of its element, else bits that cannot match.
    fn wanted_codes(&self) -> Vec<Wanted> {
        let Some(elements) = self.wanted else { return vec![Wanted::Untouched; 8] };
        if elements.is_empty() {
            return vec![Wanted::Bits(0); 8];
        }
        let right = |e: usize| {
            let (element, code, scale) = (elements[e], f64::from(self.code(e)), self.scale());
            let slack = element.bound + element.value.abs() * SCALE_ERROR;
            code.abs() <= 127.0 && (code * scale - element.value).abs() <= 0.5 * scale + slack
        };
        let best = |e: usize| {
            let scale = self.scale();
            let code =
                if scale > 0.0 { (elements[e].value / scale).round().clamp(-127.0, 127.0) } else { 0.0 };
            u32::from(code as i8 as u8) << (8 * (e % 4))
        };
        (0..8)
            .map(|word| {
                let elements = 4 * word..4 * word + 4;
                if elements.clone().all(right) && self.scale().is_finite() {
                    Wanted::Bits(self.codes[word])
                } else {
                    let best = elements.map(best).fold(0, |a, b| a | b);
                    // The nearest codes may be what came when only the scale is wrong: that fails by itself.
                    Wanted::Bits(best)
                }
            })
            .collect()
    }

    fn wanted_meta(&self) -> [Wanted; 2] {
        let Some(elements) = self.wanted else { return [Wanted::Untouched; 2] };
        let half = |start: usize| (start..start + 16).map(|e| i32::from(self.code(e))).sum::<i32>() as u32;
        let sums = Wanted::Bits((half(0) & 0xffff) | (half(16) << 16));
        let amax = elements.iter().map(|e| e.value.abs()).fold(0.0, f64::max);
        let bound = elements.iter().map(|e| e.bound).fold(0.0, f64::max);
        if amax + bound < ZERO_BELOW {
            return [Wanted::Bits(0), sums];
        }
        let scale = amax / 127.0;
        [Wanted::Near { value: scale, bound: scale * SCALE_ERROR + bound / 127.0 }, sums]
    }

    fn wanted_values(&self) -> Vec<Wanted> {
        match self.wanted {
            None => vec![Wanted::Untouched; 32],
            Some([]) => vec![Wanted::Near { value: 0.0, bound: 0.0 }; 32],
            Some(elements) => {
                elements.iter().map(|e| Wanted::Near { value: e.value, bound: e.bound }).collect()
            }
        }
    }
}

/// A row of int8 codes with a scale per block, as matrix kernels read it.
#[derive(Debug, Clone, Default)]
pub(in crate::kernels) struct Activation {
    /// In plain element order.
    pub(in crate::kernels) codes: Vec<i8>,
    /// Per block.
    pub(in crate::kernels) scales: Vec<f32>,
}

impl Activation {
    /// Element `e` as a number.
    pub(in crate::kernels) fn element(&self, e: usize) -> f64 {
        f64::from(self.codes[e]) * f64::from(self.scales[e / 32])
    }

    /// The codes and meta planes of a row, padding zero.
    pub(in crate::kernels) fn planes(&self, layout: SlabLayout) -> Planes {
        let padded = layout.padded_blocks() as usize;
        let (mut codes, mut meta) = (vec![0; padded * 8], vec![0; padded * 2]);
        for block in 0..layout.blocks as usize {
            let at = position(layout, block);
            let bytes = &self.codes[block * 32..][..32];
            for (e, code) in bytes.iter().enumerate() {
                codes[at * 8 + e / 4] |= u32::from(*code as u8) << (8 * (e % 4));
            }
            let sum = |half: &[i8]| half.iter().map(|q| i32::from(*q)).sum::<i32>() as u32;
            meta[at * 2] = self.scales[block].to_bits();
            meta[at * 2 + 1] = (sum(&bytes[..16]) & 0xffff) | (sum(&bytes[16..]) << 16);
        }
        Planes { codes, meta, values: None }
    }
}

/// f32 elements of a row in slab order, padding zero.
pub(in crate::kernels) fn value_plane(layout: SlabLayout, row: &[f32]) -> Vec<u32> {
    let mut plane = vec![0; layout.padded_blocks() as usize * 32];
    for (e, value) in row.iter().enumerate() {
        plane[position(layout, e / 32) * 32 + e % 32] = value.to_bits();
    }
    plane
}

#[test]
fn a_wrong_code_scale_or_sum_is_found() {
    // 67 blocks: two per slab and one of padding.
    let layout = SlabLayout::for_columns(2144);
    let row = Activation {
        codes: (0..2144).map(|e| if e % 32 == 0 { 127 } else { ((e * 37) % 255) as u8 as i8 }).collect(),
        scales: (0..67).map(|b| 0.001 * (b + 1) as f32).collect(),
    };
    let row = Activation { codes: row.codes.iter().map(|q| (*q).max(-127)).collect(), ..row };
    let elements = (0..2144).map(|e| Element { value: row.element(e), bound: 0.0 }).collect();
    let good = row.planes(layout);
    let place = Place { kernel: "normalize", case: "harness", what: "", row_len: 1 };
    let rows = [Some(elements)];
    compare(place, layout, &rows, &good).expect("exact planes pass");
    let corrupt = |change: fn(&mut Planes)| {
        let mut planes = good.clone();
        change(&mut planes);
        compare(place, layout, &rows, &planes).expect_err("a corrupted plane fails").to_string()
    };
    assert!(corrupt(|p| p.codes[9] ^= 0x0200).contains("codes: 1 of"), "a code two steps off");
    assert!(corrupt(|p| p.meta[4] += 64).contains("scales and sums"), "a scale 64 units off");
    assert!(corrupt(|p| p.meta[5] += 1).contains("element 5"), "a sum one off");
    let padding = position(layout, 67);
    assert!(padding == 67, "the last block stored is padding");
    assert!(corrupt(|p| p.codes[67 * 8] = 1).contains("element 536"), "a code in the padding");
    assert!(corrupt(|p| p.meta[0] = SENTINEL).contains("wrong"), "a block never written");
}
