//! Rotary tables: cosine and sine per position and pair, and the factor of queries, computed in f64 by `libm`
//! so that native and page agree.

use fanlight_messages::program::RopeSpec;

/// `[rows, pairs]` of (cos, sin), both times the magnitude, rounded to f32, for a context of `context_len`;
/// where there is a query factor, it ends each row.
pub(super) fn table(spec: &RopeSpec, context_len: u32, first_row: u32, rows: u32) -> Vec<[f32; 2]> {
    let mut table = Vec::with_capacity(rows as usize * spec.row_len() as usize);
    for position in first_row..first_row + rows {
        for inverse_frequency in spec.frequencies(context_len) {
            let angle = f64::from(position) * inverse_frequency;
            let (sin, cos) = libm::sincos(angle);
            table.push([(cos * spec.magnitude) as f32, (sin * spec.magnitude) as f32]);
        }
        if let Some(factor) = spec.query_factor {
            table.push([factor.at(position, libm::log) as f32, 0.0]);
        }
    }
    table
}
