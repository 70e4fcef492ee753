//! Which template and constants belong to a resident weight format.

use fanlight_messages::layout::{ResidentFormat, SlabLayout};
use minijinja::{Value, context};

/// Template of a format's `load_weights` and `accumulate`.
fn template(format: ResidentFormat) -> &'static str {
    match format {
        ResidentFormat::F32 | ResidentFormat::F16 | ResidentFormat::Bf16 => "formats/float.wgsl.j2",
        ResidentFormat::Q4_0 | ResidentFormat::Q5_0 => "formats/nibble_scale.wgsl.j2",
        ResidentFormat::Q4_1 | ResidentFormat::Q5_1 => "formats/nibble_scale_min.wgsl.j2",
        ResidentFormat::Q8_0 => "formats/int8_scale.wgsl",
        ResidentFormat::Q2K => "formats/half_scale_min.wgsl",
        ResidentFormat::Q3K | ResidentFormat::Q6K => "formats/half_scale.wgsl.j2",
        ResidentFormat::Q4K | ResidentFormat::Q5K => "formats/super_scale_min.wgsl.j2",
    }
}

/// True when the format multiplies f32 elements instead of int8 codes.
pub(crate) fn is_float(format: ResidentFormat) -> bool {
    matches!(format, ResidentFormat::F32 | ResidentFormat::F16 | ResidentFormat::Bf16)
}

/// Template variables of a format.
pub(crate) fn context(format: ResidentFormat) -> Value {
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
    context! { format_file => template(format), is_float => is_float(format), high, zero, float }
}

/// Pipeline constants of a row layout.
pub(crate) fn slab_constants(layout: SlabLayout) -> Vec<(&'static str, f64)> {
    vec![("SLABS", f64::from(layout.slabs)), ("BLOCKS_PER_SLAB", f64::from(layout.blocks_per_slab))]
}

/// The same and the superblocks of a row, for kernels that read weights.
pub(crate) fn weight_constants(format: ResidentFormat, layout: SlabLayout) -> Vec<(&'static str, f64)> {
    let mut constants = slab_constants(layout);
    if format.widths().super_bytes > 0 {
        constants.push(("SUPERS", f64::from(layout.blocks.div_ceil(8))));
    }
    constants
}

/// Layouts that shader tests render: one block to many, with padding and with long slabs.
#[cfg(test)]
pub(crate) fn tested_layouts() -> [SlabLayout; 6] {
    [32, 256, 576, 896, 4864, 14336].map(SlabLayout::for_columns)
}

/// Every format at these layouts, with and without the packed dot product.
#[cfg(test)]
pub(crate) fn tested() -> Vec<(ResidentFormat, SlabLayout, bool)> {
    let mut formats = fanlight_messages::TensorType::ALL.map(ResidentFormat::of).to_vec();
    formats.dedup();
    let of = |format| {
        let layouts = tested_layouts().into_iter();
        layouts.flat_map(move |layout| [true, false].map(|packed_dot| (format, layout, packed_dot)))
    };
    formats.into_iter().flat_map(of).collect()
}

/// Head lengths of published models and some that are not, in both cache formats.
#[cfg(test)]
pub(crate) fn tested_heads() -> Vec<(u32, fanlight_messages::plan::KvFormat)> {
    use fanlight_messages::plan::KvFormat;
    let of = |head_len| [KvFormat::F16, KvFormat::F32].map(|format| (head_len, format));
    [8, 16, 32, 64, 72, 80, 96, 128, 256].into_iter().flat_map(of).collect()
}
