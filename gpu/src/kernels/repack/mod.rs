//! File blocks → resident planes, on the GPU: weights never exist twice on the host.

#[cfg(test)]
pub(super) mod cases;
#[cfg(test)]
pub(super) mod twin;

use fanlight_messages::TensorType;
use fanlight_messages::layout::{ResidentFormat, SlabLayout};
use minijinja::{Value, context};

use crate::shader::{
    Declared, Landing, Planes, RenderError, Shader, Slice, bindings, format, grid, record, render, templates,
};

/// One pipeline per file type and width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Type in the file.
    pub tensor_type: TensorType,
    /// Row layout.
    pub layout: SlabLayout,
}

record! {
    /// `Params` of the shader.
    pub struct Params {
        pub rows: u32,
        pub landing_row: u32,
        pub first_row: u32,
        pub row_bytes: u32,
        pub blocks: u32,
    }
}

bindings! {
    /// What the kernel binds.
    pub struct Bindings<'a> {
        /// File bytes.
        pub landing: Slice<'a, Landing>,
        /// Where their rows go.
        pub page: Planes<'a>,
    }
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
            TensorType::F32 => ("float.wgsl.j2", context! { words => 32 }),
            TensorType::F16 | TensorType::Bf16 => ("float.wgsl.j2", context! { words => 16 }),
            TensorType::Q4_0 => ("nibble.wgsl.j2", context! { block_bytes => bytes, codes_at => 2 }),
            TensorType::Q4_1 => {
                ("nibble.wgsl.j2", context! { block_bytes => bytes, codes_at => 4, has_min => true })
            }
            TensorType::Q5_0 => ("nibble.wgsl.j2", context! { block_bytes => bytes, codes_at => 6 }),
            TensorType::Q5_1 => {
                ("nibble.wgsl.j2", context! { block_bytes => bytes, codes_at => 8, has_min => true })
            }
            TensorType::Q8_0 => ("int8.wgsl.j2", context! { block_bytes => bytes, table => false }),
            TensorType::Iq4Nl => ("int8.wgsl.j2", context! { block_bytes => bytes, table => true }),
            TensorType::Q2K => ("q2k.wgsl.j2", context! {}),
            TensorType::Q3K => ("q3k.wgsl.j2", context! {}),
            TensorType::Q4K => ("super_min.wgsl.j2", context! { block_bytes => bytes, codes_at => 16 }),
            TensorType::Q5K => ("super_min.wgsl.j2", context! { block_bytes => bytes, codes_at => 48 }),
            TensorType::Q6K => ("q6k.wgsl.j2", context! {}),
        }
    }
}

impl Declared for Variant {
    type Params = Params;
    type Bindings<'a> = Bindings<'a>;

    fn shader(self) -> Result<Shader, RenderError> {
        let resident = ResidentFormat::of(self.tensor_type);
        let widths = resident.widths();
        let (type_file, variables) = self.type_context();
        render(
            format!("repack {} {}", self.tensor_type, self.layout.blocks * 32),
            templates![
                "repack.wgsl.j2",
                "float.wgsl.j2",
                "int8.wgsl.j2",
                "nibble.wgsl.j2",
                "q2k.wgsl.j2",
                "q3k.wgsl.j2",
                "q6k.wgsl.j2",
                "super_min.wgsl.j2",
            ],
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

    #[cfg(test)]
    fn all() -> Vec<Self> {
        let of = |layout| TensorType::ALL.map(|tensor_type| Self { tensor_type, layout });
        format::tested_layouts().into_iter().flat_map(of).collect()
    }
}
