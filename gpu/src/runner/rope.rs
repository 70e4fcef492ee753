//! Rotary tables: cosine and sine per position and pair, computed in f64 by `libm` so that native and page
//! agree.

use fanlight_messages::program::RopeSpec;

/// `[rows, pairs]` of (cos, sin), both times the magnitude, rounded to f32.
pub(super) fn table(spec: &RopeSpec, first_row: u32, rows: u32) -> Vec<[f32; 2]> {
    let mut table = Vec::with_capacity(rows as usize * spec.inverse_frequencies.len());
    for position in first_row..first_row + rows {
        for inverse_frequency in &spec.inverse_frequencies {
            let angle = f64::from(position) * inverse_frequency;
            let (sin, cos) = libm::sincos(angle);
            table.push([(cos * spec.magnitude) as f32, (sin * spec.magnitude) as f32]);
        }
    }
    table
}
