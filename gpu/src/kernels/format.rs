//! Which template and constants belong to a resident weight format.

use fanlight_messages::layout::{ResidentFormat, SlabLayout};
use minijinja::{Value, context};

/// Template name of a format's `load_weights` and `accumulate`.
pub(super) fn template(format: ResidentFormat) -> &'static str {
    match format {
        ResidentFormat::F32 | ResidentFormat::F16 | ResidentFormat::Bf16 => "float",
        ResidentFormat::Q4_0 | ResidentFormat::Q5_0 => "nibble_scale",
        ResidentFormat::Q4_1 | ResidentFormat::Q5_1 => "nibble_scale_min",
        ResidentFormat::Q8_0 => "int8_scale",
        ResidentFormat::Q2K => "half_scale_min",
        ResidentFormat::Q3K | ResidentFormat::Q6K => "half_scale",
        ResidentFormat::Q4K | ResidentFormat::Q5K => "super_scale_min",
    }
}

/// True when the format multiplies f32 elements instead of int8 codes.
pub(super) fn is_float(format: ResidentFormat) -> bool {
    matches!(format, ResidentFormat::F32 | ResidentFormat::F16 | ResidentFormat::Bf16)
}

/// Templates of a weight format and the block type it multiplies.
pub(super) fn weight_parts(format: ResidentFormat) -> Vec<&'static str> {
    if is_float(format) {
        vec!["control", "values_input", template(format)]
    } else {
        vec!["control", "integer", "codes_input", template(format)]
    }
}

/// Template that loads the activation blocks of a format.
pub(super) fn input_loader(format: ResidentFormat) -> &'static str {
    if is_float(format) { "input_values" } else { "input_codes" }
}

/// Template variables of a format.
pub(super) fn context(format: ResidentFormat) -> Value {
    let (high, zero) = match format {
        ResidentFormat::Q4_0 => (0, 8),
        ResidentFormat::Q5_0 => (1, 16),
        ResidentFormat::Q5_1 | ResidentFormat::Q5K => (1, 0),
        ResidentFormat::Q3K => (0, 4),
        ResidentFormat::Q6K => (2, 32),
        _ => (0, 0),
    };
    let float = match format {
        ResidentFormat::F32 => "f32",
        ResidentFormat::F16 => "f16",
        ResidentFormat::Bf16 => "bf16",
        _ => "",
    };
    context! { high, zero, float }
}

/// Pipeline constants of a row layout.
pub(super) fn slab_constants(layout: SlabLayout) -> Vec<(&'static str, f64)> {
    vec![("SLABS", f64::from(layout.slabs)), ("BLOCKS_PER_SLAB", f64::from(layout.blocks_per_slab))]
}

/// The same and the superblocks of a row, for kernels that read weights.
pub(super) fn weight_constants(format: ResidentFormat, layout: SlabLayout) -> Vec<(&'static str, f64)> {
    let mut constants = slab_constants(layout);
    if format.widths().super_bytes > 0 {
        constants.push(("SUPERS", f64::from(layout.blocks.div_ceil(8))));
    }
    constants
}
