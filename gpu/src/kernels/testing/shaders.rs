//! Every tested variant renders, parses and validates, stays within WebGPU's default limits and uses nothing
//! optional; its record has the layout that the shader compiler sees.

use std::collections::HashSet;

use crate::kernels::Kernel;
use crate::shader::Access;

#[test]
fn every_variant_validates_within_default_limits() {
    let mut seen = HashSet::new();
    for (kernel, _) in Kernel::all() {
        let shader = kernel.shader().unwrap_or_else(|error| panic!("{kernel:?}: {error}"));
        let storage = shader.bindings.iter().filter(|b| b.access != Access::Uniform).count();
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

#[test]
fn records_have_the_layout_that_shaders_read() {
    let mut seen = HashSet::new();
    for (kernel, (wanted, size)) in Kernel::all() {
        let shader = kernel.shader().unwrap_or_else(|error| panic!("{kernel:?}: {error}"));
        if !seen.insert(shader.wgsl.clone()) {
            continue;
        }
        let module = naga::front::wgsl::parse_str(&shader.wgsl).expect("validated above");
        let mut uniforms =
            module.global_variables.iter().filter(|(_, v)| v.space == naga::AddressSpace::Uniform);
        let (_, uniform) = uniforms.next().unwrap_or_else(|| panic!("{}: no parameters", shader.label));
        assert_eq!(uniform.name.as_deref(), Some("params"), "{}", shader.label);
        let naga::TypeInner::Struct { members, span } = &module.types[uniform.ty].inner else {
            panic!("{}: the parameters are no struct", shader.label);
        };
        let bytes = |ty| module.types[ty].inner.size(module.to_ctx()) as usize;
        let declared: Vec<_> = members
            .iter()
            .map(|m| (m.name.as_deref().unwrap_or_default(), m.offset as usize, bytes(m.ty)))
            .collect();
        assert_eq!((declared.as_slice(), *span as usize), (wanted, size), "{}", shader.label);
    }
}
