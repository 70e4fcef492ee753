//! Rows of ordinary, huge, tiny and broken logits, with and without scale and cap.

use super::{Bindings, Params, Variant, grid, twin};
use crate::kernels::testing::{Place, Wanted, block_on, control, ended, lab};
use crate::lab::{Lab, Noise};

/// More than one workgroup, and no multiple of it.
const LEN: usize = 300;
/// Rows, the last of which is not live.
const ROWS: usize = 3;
const LIVE: u32 = 2;

fn logits() -> Vec<f32> {
    let mut logits = Noise::new(5).units(ROWS * LEN);
    logits.iter_mut().enumerate().for_each(|(i, x)| *x *= [1.0, 40.0, 1e5, 1e-6][i % 4]);
    logits[..6].copy_from_slice(&[0.0, -0.0, 30.0, -30.0, f32::MAX, f32::MIN]);
    logits
}

fn run(lab: &Lab, logits: &[f32], scale: f32, soft_cap: f32, control: &[u32]) -> Vec<u32> {
    block_on(async {
        let rows = lab.floats(logits).await.expect("a buffer");
        let control = lab.words(control).await.expect("a buffer");
        let params = Params { len: LEN as u32, scale, soft_cap };
        let bindings = Bindings { logits: rows.slice(), control: control.slice() };
        lab.run(Variant, &bindings, params, grid(LEN as u32, ROWS as u32)).await.expect("a run");
        lab.read(&rows, logits.len()).await.expect("a readback")
    })
}

#[test]
fn n01_logits_are_scaled_and_capped() {
    let lab = &lab();
    let logits = logits();
    for (scale, cap) in [(1.0, 30.0), (1.0, 1e-4), (0.125, 0.0), (1.0 / 3.0, 50.0)] {
        let name = format!("scale {scale}, cap {cap}");
        let place = Place { kernel: "logits", case: &name, what: "logits", row_len: LEN };
        let same = |x: &f32| Wanted::Bits(x.to_bits());
        let live = LIVE as usize * LEN;
        let wanted: Vec<Wanted> = logits[..live]
            .iter()
            .map(|x| twin::capped(*x, scale, cap))
            .chain(logits[live..].iter().map(same))
            .collect();
        place.assert(&wanted, &run(lab, &logits, scale, cap, &control(3, LIVE)));
        let untouched: Vec<Wanted> = logits.iter().map(same).collect();
        place.assert(&untouched, &run(lab, &logits, scale, cap, &ended(3, LIVE)));
    }
}

/// A cap must not make a number of what is none.
#[test]
fn a_broken_logit_stays_broken() {
    let lab = &lab();
    for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut logits = logits();
        logits[LEN + 7] = broken;
        let words = run(lab, &logits, 1.0, 30.0, &control(3, LIVE));
        assert!(!f32::from_bits(words[LEN + 7]).is_finite(), "{broken}");
    }
}
