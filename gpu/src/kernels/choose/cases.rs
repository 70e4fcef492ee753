//! The choice over rows of up to 262,144 logits: maxima at every kind of place, ties, hashes. All of it is
//! exact.

use super::{Bindings, Params, SLICES, Variant, grid, twin};
use crate::kernels::testing::{Place, SENTINEL, Wanted, block_on, control, ended, lab};
use crate::lab::{Lab, Noise};

/// The largest published vocabulary.
const VOCABULARY: usize = 262_144;

/// What the partials of these rows must be: four words a slice.
fn wanted(rows: &[Vec<f32>], hash: bool) -> Vec<Wanted> {
    let slices = rows.iter().flat_map(|row| twin::slices(row, hash));
    slices
        .flat_map(|slice| match slice.best {
            Some((value, id)) => [value.to_bits(), id, slice.hash, value.to_bits()].map(Wanted::Bits),
            // No value is below that of a slice without ids.
            None => [f32::MIN.to_bits(), u32::MAX, 0, f32::MIN.to_bits()].map(Wanted::Bits),
        })
        .collect()
}

/// What a run leaves in the partials, and the fault bits.
async fn run(lab: &Lab, rows: &[Vec<f32>], hash: bool, control: &[u32]) -> (Vec<u32>, u32) {
    let logits = lab.floats(&rows.concat()).await.expect("a buffer");
    let control = lab.words(control).await.expect("a buffer");
    let len = rows.len() * SLICES as usize * 4;
    let partials = lab.words(&vec![SENTINEL; len]).await.expect("a buffer");
    let params = Params { len: rows[0].len() as u32, hash: u32::from(hash) };
    let faults = lab.words(&[0]).await.expect("a buffer");
    let bindings = Bindings {
        logits: logits.slice(),
        partials: partials.slice(),
        control: control.slice(),
        faults: faults.slice(),
    };
    lab.run(Variant, &bindings, params, grid(params.len, rows.len() as u32)).await.expect("a run");
    let faults = lab.read(&faults, 1).await.expect("a readback");
    (lab.read(&partials, len).await.expect("a readback"), faults[0])
}

fn check(lab: &Lab, case: &str, rows: &[Vec<f32>]) {
    let place = Place { kernel: "choose", case, what: "partials", row_len: SLICES as usize * 4 };
    for hash in [true, false] {
        let live = rows.len() as u32;
        let (partials, faults) = block_on(run(lab, rows, hash, &control(9, live)));
        place.assert(&wanted(rows, hash), &partials);
        assert_eq!(faults, 0, "{case}");
    }
}

/// Noise below 1 with the maximum 5 at the given ids.
fn peaked(len: usize, ids: &[usize], seed: u64) -> Vec<f32> {
    let mut row = Noise::new(seed).units(len);
    ids.iter().for_each(|id| row[*id] = 5.0);
    row
}

#[test]
fn the_largest_vocabulary_has_its_maximum_found_anywhere() {
    let lab = &lab();
    let (last, slice) = (VOCABULARY - 1, VOCABULARY / SLICES as usize);
    let cases: [(&str, &[usize]); 8] = [
        ("first id", &[0]),
        ("last id", &[last]),
        ("first and last tie", &[0, last]),
        ("tie across slices", &[slice * 3 - 1, slice * 3]),
        ("tie of two threads of a slice", &[slice + 300, slice + 44 + 256 * 3]),
        ("tie of one thread with itself", &[slice * 5 + 7, slice * 5 + 7 + 256]),
        ("end of a slice", &[slice - 1]),
        ("begin of a slice", &[slice * 63]),
    ];
    for (case, ids) in cases {
        let rows = [peaked(VOCABULARY, ids, 1), peaked(VOCABULARY, &[77_777], 2)];
        check(lab, case, &rows);
        let best = twin::slices(&rows[0], false).into_iter().filter_map(|s| s.best);
        let first = best.reduce(|a, b| if b.0 > a.0 { b } else { a });
        assert_eq!(first, Some((5.0, ids[0] as u32)), "{case}: the lowest id wins");
    }
    check(lab, "all equal", &[vec![-3.5; VOCABULARY]]);
}

#[test]
fn odd_lengths_and_hard_values_are_chosen_from() {
    let lab = &lab();
    for len in [1, 2, 63, 64, 65, 127, 129, 16_385, 151_936] {
        check(lab, &format!("{len} logits"), &[peaked(len, &[len / 2], 3), peaked(len, &[len - 1], 4)]);
    }
    let mut noise = Noise::new(6);
    let negative: Vec<f32> = noise.units(5000).iter().map(|x| -1e30 * (x.abs() + 0.1)).collect();
    check(lab, "all far below zero", &[negative]);
    let mut zeros = vec![0.0; 5000];
    zeros[..2500].fill(-0.0);
    check(lab, "zeros of both signs tie", &[zeros]);
    let mut tiny: Vec<f32> = noise.units(5000).iter().map(|x| x * 1e-3).collect();
    tiny[1234] = 1.000_000_1;
    tiny[1233] = 1.0;
    check(lab, "neighbours one unit apart", &[tiny]);
}

#[test]
fn nothing_is_chosen_after_the_end() {
    let lab = &lab();
    let (got, _) = block_on(run(lab, &[peaked(1000, &[3], 1)], true, &ended(9, 1)));
    Place { kernel: "choose", case: "after the end", what: "partials", row_len: 256 }.assert_untouched(&got);
}

#[test]
fn rows_that_are_not_live_are_left_alone() {
    let lab = &lab();
    let rows = [peaked(1000, &[3], 1), peaked(1000, &[4], 2), peaked(1000, &[5], 3)];
    let (got, _) = block_on(run(lab, &rows, true, &control(9, 2)));
    let place = Place { kernel: "choose", case: "two of three rows live", what: "partials", row_len: 256 };
    place.assert(&wanted(&rows[..2], true), &got[..512]);
    place.assert_untouched(&got[512..]);
}

#[test]
fn a_logit_that_is_no_number_raises_the_bit_of_its_row() {
    let lab = &lab();
    for (id, value) in [(0, f32::NAN), (1023, f32::INFINITY), (2999, f32::NEG_INFINITY), (777, -f32::NAN)] {
        let mut rows = vec![peaked(3000, &[3], 1); 4];
        rows[2][id] = value;
        let faults = |live| block_on(run(lab, &rows, true, &control(9, live))).1;
        assert_eq!(faults(4), 1 << 2, "{value} at {id}");
        assert_eq!(faults(2), 0, "the row is not live");
    }
}
