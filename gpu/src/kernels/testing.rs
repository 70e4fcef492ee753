//! What the kernel tests share: the lab, control blocks, and comparison of an answer with what a twin wants.

pub(super) mod cache;
pub(super) mod file;
pub(super) mod product;
pub(super) mod quantised;
mod shaders;

use std::fmt::Write as _;

use fanlight_messages::control::{CONTROL_BYTES, END_IDS_MAX, END_IDS_WORD};

use crate::device::{AdapterPreference, Device};
use crate::kernels::Kernel;
use crate::lab::Lab;
use crate::shader::{Declared, Member, Record};

pub(super) use futures::executor::block_on;

/// Relative rounding error of one f32 operation.
pub(super) const ROUNDING: f64 = 1.0 / 16_777_216.0;
/// What output buffers hold before a kernel runs: a NaN, so that an element left out can pass no bound.
pub(super) const SENTINEL: u32 = 0x7FC0_DEAD;

/// Members of a record, and its size.
pub(super) type Layout = (&'static [Member], usize);

/// The tested variants of a kernel and their record.
pub(super) fn declared<V: Declared + Into<Kernel>>() -> impl Iterator<Item = (Kernel, Layout)> {
    let layout = (V::Params::MEMBERS, size_of::<V::Params>());
    V::all().into_iter().map(move |variant| (variant.into(), layout))
}

/// A lab on the machine's adapter, one per test. A machine without an adapter fails the test: nothing may be
/// skipped.
pub(super) fn lab() -> Lab {
    let device =
        block_on(Device::open(AdapterPreference::HighPerformance)).expect("a GPU adapter is required");
    Lab::new(&device)
}

/// The packed-dot variants that this device can run.
pub(super) fn dot_variants(lab: &Lab) -> &'static [bool] {
    if lab.device().facts().has_packed_dot { &[true, false] } else { &[false] }
}

/// A control buffer with `committed` positions and `live` rows; no end ids.
pub(super) fn control(committed: u32, live: u32) -> Vec<u32> {
    let mut words = vec![0; (CONTROL_BYTES / 4) as usize];
    words[..3].copy_from_slice(&[committed, live, 32_768]);
    words[END_IDS_WORD as usize..][..END_IDS_MAX as usize].fill(u32::MAX);
    words
}

/// The same after the end of the generation: every kernel must leave its outputs as they are.
pub(super) fn ended(committed: u32, live: u32) -> Vec<u32> {
    let mut words = control(committed, live);
    words[3] = 1;
    words
}

/// What a twin wants of one word.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wanted {
    /// An f32 at most `bound` away from `value`.
    Near { value: f64, bound: f64 },
    /// Exactly these bits.
    Bits(u32),
    /// What was there before.
    Untouched,
    /// No promise is made.
    Anything,
}

impl Wanted {
    fn is_met_by(self, word: u32) -> bool {
        match self {
            // NaN compares false, so it meets no bound; a bound that is not finite would let everything pass.
            Self::Near { value, bound } => {
                bound.is_finite() && (f64::from(f32::from_bits(word)) - value).abs() <= bound
            }
            Self::Bits(bits) => bits == word,
            Self::Untouched => word == SENTINEL,
            Self::Anything => true,
        }
    }
}

/// What is compared, for the message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) kernel: &'a str,
    pub(super) case: &'a str,
    /// The buffer.
    pub(super) what: &'a str,
    /// Words of a row of it.
    pub(super) row_len: usize,
}

/// An answer that is not what the twin wants.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{kernel}, {case}, {what}: {wrong} of {total} elements are wrong:{first}")]
pub(super) struct Mismatch {
    kernel: String,
    case: String,
    what: String,
    wrong: usize,
    total: usize,
    first: String,
}

/// Elements named in a message.
const NAMED_MAX: usize = 4;

impl Place<'_> {
    /// Compares word by word.
    pub(super) fn compare(self, wanted: &[Wanted], got: &[u32]) -> Result<(), Mismatch> {
        let failed = |wrong, first| {
            let own = |text: &str| text.to_owned();
            let (kernel, case, what) = (own(self.kernel), own(self.case), own(self.what));
            Err(Mismatch { kernel, case, what, wrong, total: wanted.len(), first })
        };
        if wanted.len() != got.len() {
            return failed(wanted.len(), format!(" {} words came", got.len()));
        }
        let wrong: Vec<usize> = (0..got.len()).filter(|at| !wanted[*at].is_met_by(got[*at])).collect();
        let mut first = String::new();
        for at in wrong.iter().take(NAMED_MAX) {
            let (row, element) = (at / self.row_len, at % self.row_len);
            let (wanted, word) = (wanted[*at], got[*at]);
            let float = f32::from_bits(word);
            let _ =
                write!(first, " [row {row} element {element}: wanted {wanted:?}, got {float:e} = {word:#x}]");
        }
        if wrong.is_empty() { Ok(()) } else { failed(wrong.len(), first) }
    }

    /// Like [`compare`](Self::compare), and panics with the message.
    pub(super) fn assert(self, wanted: &[Wanted], got: &[u32]) {
        if let Err(mismatch) = self.compare(wanted, got) {
            panic!("{mismatch}");
        }
    }

    /// The whole buffer is as it was.
    pub(super) fn assert_untouched(self, got: &[u32]) {
        self.assert(&vec![Wanted::Untouched; got.len()], got);
    }

    /// Every row but one has the bits of another run.
    pub(super) fn assert_same_beside(self, row: usize, other: &[u32], got: &[u32]) {
        let wanted: Vec<Wanted> = other
            .iter()
            .enumerate()
            .map(|(at, word)| if at / self.row_len == row { Wanted::Anything } else { Wanted::Bits(*word) })
            .collect();
        self.assert(&wanted, got);
    }
}

/// A value and the sum of the magnitudes that rounding errors are relative to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Sum {
    pub(super) value: f64,
    pub(super) magnitude: f64,
}

impl Sum {
    /// Adds a term that is itself a sum of terms of total size `magnitude`.
    pub(super) fn add(&mut self, value: f64, magnitude: f64) {
        self.value += value;
        self.magnitude += magnitude;
    }

    /// Within `roundings` roundings of the magnitude; `floor` covers results that flush to zero.
    pub(super) fn near(self, roundings: f64, floor: f64) -> Wanted {
        Wanted::Near { value: self.value, bound: roundings * ROUNDING * self.magnitude + floor }
    }
}

const PLACE: Place<'static> = Place { kernel: "matrix", case: "Q4_0", what: "output", row_len: 3 };

#[test]
fn a_corrupted_element_is_found_and_named() {
    let wanted: Vec<Wanted> =
        (0..6).map(|i| Wanted::Near { value: f64::from(i) * 0.5, bound: 1e-6 }).collect();
    let mut got: Vec<u32> = (0..6).map(|i| (i as f32 * 0.5).to_bits()).collect();
    PLACE.compare(&wanted, &got).expect("equal answers pass");
    got[4] = (2.0f32 + 2e-6).to_bits();
    let text = PLACE.compare(&wanted, &got).expect_err("a wrong element fails").to_string();
    for part in ["matrix, Q4_0, output", "1 of 6", "row 1 element 1", "value: 2.0"] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
}

#[test]
fn nan_short_answers_and_endless_bounds_fail() {
    let wanted = [Wanted::Near { value: 0.0, bound: 1.0 }];
    assert!(PLACE.compare(&wanted, &[f32::NAN.to_bits()]).is_err());
    assert!(PLACE.compare(&wanted, &[SENTINEL]).is_err());
    assert!(PLACE.compare(&wanted, &[]).is_err());
    for bound in [f64::INFINITY, f64::NAN] {
        assert!(PLACE.compare(&[Wanted::Near { value: 0.0, bound }], &[0]).is_err());
    }
    assert!(PLACE.compare(&[Wanted::Untouched], &[0]).is_err());
    assert!(PLACE.compare(&[Wanted::Bits(0)], &[0x8000_0000]).is_err());
}
