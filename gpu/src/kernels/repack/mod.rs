//! File blocks → resident planes, on the GPU: weights never exist twice on the host.

#[cfg(test)]
pub(super) mod cases;
#[cfg(test)]
pub(super) mod twin;

use super::source::{RenderError, Shader, render};
use super::{ResidentFormat, SlabLayout, TensorType, format, grid};
use minijinja::{Value, context};

/// One pipeline per file type and width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Type in the file.
    pub tensor_type: TensorType,
    /// Row layout.
    pub layout: SlabLayout,
}

/// `Params` of the shader.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[allow(missing_docs, reason = "documented in the shader")]
pub struct Params {
    pub rows: u32,
    pub landing_row: u32,
    pub first_row: u32,
    pub row_bytes: u32,
    pub blocks: u32,
}

impl Variant {
    /// Workgroups for `rows` rows.
    pub fn groups(self, rows: u64) -> [u32; 3] {
        let pairs = u64::from(self.layout.padded_blocks().div_ceil(2));
        let [x, y] = grid((rows * pairs).div_ceil(64));
        [x, y, 1]
    }

    /// Template of the file type, and its variables.
    fn type_context(self) -> (&'static str, Value) {
        let bytes = self.tensor_type.block_bytes();
        match self.tensor_type {
            TensorType::F32 => ("repack_float", context! { words => 32 }),
            TensorType::F16 | TensorType::Bf16 => ("repack_float", context! { words => 16 }),
            TensorType::Q4_0 => ("repack_nibble", context! { block_bytes => bytes, codes_at => 2 }),
            TensorType::Q4_1 => {
                ("repack_nibble", context! { block_bytes => bytes, codes_at => 4, has_min => true })
            }
            TensorType::Q5_0 => ("repack_nibble", context! { block_bytes => bytes, codes_at => 6 }),
            TensorType::Q5_1 => {
                ("repack_nibble", context! { block_bytes => bytes, codes_at => 8, has_min => true })
            }
            TensorType::Q8_0 => ("repack_int8", context! { block_bytes => bytes, table => false }),
            TensorType::Iq4Nl => ("repack_int8", context! { block_bytes => bytes, table => true }),
            TensorType::Q2K => ("repack_q2k", context! {}),
            TensorType::Q3K => ("repack_q3k", context! {}),
            TensorType::Q4K => ("repack_super_min", context! { block_bytes => bytes, codes_at => 16 }),
            TensorType::Q5K => ("repack_super_min", context! { block_bytes => bytes, codes_at => 48 }),
            TensorType::Q6K => ("repack_q6k", context! {}),
        }
    }

    pub(super) fn shader(self) -> Result<Shader, RenderError> {
        let resident = ResidentFormat::of(self.tensor_type);
        let widths = resident.widths();
        let (type_file, variables) = self.type_context();
        render(
            format!("repack {} {}", self.tensor_type, self.layout.blocks * 32),
            &["repack"],
            context! {
                type => self.tensor_type.name(), type_file,
                has_high => widths.high_bytes > 0,
                has_scales => widths.scale_bytes > 0,
                has_supers => widths.super_bytes > 0,
                scale_bytes => widths.scale_bytes,
                ..variables
            },
            format::weight_constants(resident, self.layout),
        )
    }
}
