//! Every kernel variant renders, parses and validates, stays within WebGPU's default limits and uses nothing
//! optional.

use fanlight_gpu::kernels::{
    Binding, Kernel, activate, attention, embed, fold, gemm, heads, matrix, normalize, repack,
};
use fanlight_messages::TensorType;
use fanlight_messages::layout::{ResidentFormat, SlabLayout};
use fanlight_messages::plan::KvFormat;

const WIDTHS: [u32; 6] = [32, 256, 576, 896, 4864, 14336];

fn formats() -> Vec<ResidentFormat> {
    let mut all: Vec<_> = TensorType::ALL.into_iter().map(ResidentFormat::of).collect();
    all.dedup();
    all
}

fn every_variant() -> Vec<Kernel> {
    let mut kernels = vec![
        Kernel::Logits,
        Kernel::Choose,
        Kernel::Adjust,
        Kernel::Weigh,
        Kernel::Sample,
        Kernel::Accept,
        Kernel::Scan,
        Kernel::Draft,
    ];
    for packed_dot in [true, false] {
        for format in formats() {
            for layout in WIDTHS.map(SlabLayout::for_columns) {
                kernels.push(Kernel::Embed(embed::Variant { format, layout, packed_dot }));
                kernels.push(Kernel::Gemm(gemm::Variant { format, layout, packed_dot }));
                for tokens in matrix::BUCKETS {
                    kernels.push(Kernel::Matrix(matrix::Variant::tuned(format, layout, tokens, packed_dot)));
                }
            }
        }
    }
    for layout in WIDTHS.map(SlabLayout::for_columns) {
        for keeps_values in [true, false] {
            kernels.push(Kernel::Normalize(normalize::Variant { layout, keeps_values }));
            for (gelu, gated) in [(true, true), (false, true), (true, false), (false, false)] {
                kernels.push(Kernel::Activate(activate::Variant { layout, gelu, gated, keeps_values }));
            }
            for tree in [true, false] {
                kernels.push(Kernel::Fold(fold::Variant { layout, tree, keeps_values }));
            }
        }
        for tensor_type in TensorType::ALL {
            kernels.push(Kernel::Repack(repack::Variant { tensor_type, layout }));
        }
    }
    for kv_format in [KvFormat::F16, KvFormat::F32] {
        for head_len in [8, 16, 32, 64, 72, 80, 96, 128, 256] {
            for tree in [false, true] {
                kernels.push(Kernel::Heads(heads::Variant { head_len, kv_format, tree }));
            }
            for form in [attention::Form::Split, attention::Form::Tree, attention::Form::Tiled] {
                for queries in [1, 2, 3, 4, 7, 8] {
                    kernels.push(Kernel::Attention(attention::Variant {
                        head_len,
                        kv_format,
                        form,
                        queries,
                    }));
                }
            }
        }
    }
    kernels
}

#[test]
fn every_variant_validates_within_default_limits() {
    let mut seen = std::collections::HashSet::new();
    for kernel in every_variant() {
        let shader = kernel.shader().unwrap_or_else(|error| panic!("{kernel:?}: {error}"));
        let storage = shader.bindings.iter().filter(|b| !matches!(b, Binding::Uniform(_))).count();
        assert!(storage <= 8, "{}: {storage} storage bindings, 8 are guaranteed", shader.label);
        let constant = |name: &str| shader.constants.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        if let (Some(partials), Some(group)) = (constant("PARTIALS"), constant("GROUP")) {
            assert!(partials * 4.0 <= 16384.0, "{}: {partials} floats of workgroup memory", shader.label);
            assert!(group <= 256.0, "{}: {group} invocations", shader.label);
        }
        if !seen.insert(shader.wgsl.clone()) {
            continue;
        }
        let module = naga::front::wgsl::parse_str(&shader.wgsl).unwrap_or_else(|error| {
            panic!("{}: {}\n{}", shader.label, error.emit_to_string(&shader.wgsl), shader.wgsl)
        });
        naga::valid::Validator::new(
            naga::valid::ValidationFlags::all(),
            naga::valid::Capabilities::SHADER_FLOAT16_IN_FLOAT32,
        )
        .validate(&module)
        .unwrap_or_else(|error| panic!("{}: {}", shader.label, error.emit_to_string(&shader.wgsl)));
        let workgroup =
            module.global_variables.iter().filter(|(_, v)| v.space == naga::AddressSpace::WorkGroup);
        let bytes: u32 = workgroup.map(|(_, v)| module.types[v.ty].inner.size(module.to_ctx())).sum();
        assert!(bytes <= 16384, "{}: {bytes} bytes of workgroup memory", shader.label);
        for banned in ["subgroup", "enable f16", "unpack4x", "pack4x", "var<immediate>", "push_constant"] {
            assert!(!shader.wgsl.contains(banned), "{} uses {banned}", shader.label);
        }
    }
}
