//! The `Params` of every shader as naga lays them out, against the Rust structs that are written into them.

use fanlight_messages::TensorType;
use fanlight_messages::layout::{ResidentFormat, SlabLayout};
use fanlight_messages::plan::KvFormat;

use crate::kernels::{
    Binding, Kernel, accept, activate, adjust, attention, choose, embed, fold, gemm, heads, logits, matrix,
    normalize, repack, sample, scan, weigh,
};

/// A member: name, offset and size in bytes.
type Member = (String, usize, usize);

/// Members of a Rust struct. The pattern names every field, so that one left out does not compile.
macro_rules! members {
    ($type:path { $($field:ident),* $(,)? }) => {{
        use $type as Record;
        let Record { $($field),* } = bytemuck::Zeroable::zeroed();
        let members: Vec<Member> = vec![
            $((stringify!($field).to_owned(), std::mem::offset_of!(Record, $field), size_of_val(&$field))),*
        ];
        (members, size_of::<Record>())
    }};
}

/// The uniform at binding 8 of a shader.
fn declared(kernel: Kernel) -> Option<(Vec<Member>, usize)> {
    let shader = kernel.shader().unwrap_or_else(|error| panic!("{kernel:?}: {error}"));
    let module = naga::front::wgsl::parse_str(&shader.wgsl)
        .unwrap_or_else(|error| panic!("{}: {}", shader.label, error.emit_to_string(&shader.wgsl)));
    let uniform = module.global_variables.iter().find(|(_, v)| v.space == naga::AddressSpace::Uniform);
    let Some((_, uniform)) = uniform else {
        assert!(!shader.bindings.iter().any(|b| matches!(b, Binding::Uniform(_))), "{}", shader.label);
        return None;
    };
    let number = uniform.binding.as_ref().map(|b| b.binding);
    assert_eq!(number, Some(8), "{}: parameters are bound at 8", shader.label);
    let naga::TypeInner::Struct { members, span } = &module.types[uniform.ty].inner else {
        panic!("{}: the parameters are no struct", shader.label);
    };
    let size = |ty| module.types[ty].inner.size(module.to_ctx()) as usize;
    let members =
        members.iter().map(|m| (m.name.clone().unwrap_or_default(), m.offset as usize, size(m.ty))).collect();
    Some((members, *span as usize))
}

/// What surrounds the forward pass.
fn of_steps() -> Vec<(Kernel, (Vec<Member>, usize))> {
    vec![
        (Kernel::Logits, members!(logits::Params { len, scale, soft_cap })),
        (Kernel::Choose, members!(choose::Params { len, hash })),
        (Kernel::Adjust, members!(adjust::Params { len, hash, form })),
        (Kernel::Weigh, members!(weigh::Params { len, pass_index, stage, level })),
        (Kernel::Sample, members!(sample::Params { len, form, passes, stage })),
        (Kernel::Accept, members!(accept::Params { form })),
        (Kernel::Scan, members!(scan::Params { first, width })),
        (Kernel::Draft, members!(scan::Params { first, width })),
    ]
}

#[test]
fn rust_records_lie_as_the_shaders_read_them() {
    let layout = SlabLayout::for_columns(512);
    let mut wanted = Vec::new();
    let (matrix_record, embed_record) = (
        members!(matrix::Params { rows, output_len, output_offset, last_only }),
        members!(embed::Params { first_row, rows, output_len, blocks, scale }),
    );
    let repack_record = members!(repack::Params { rows, landing_row, first_row, row_bytes, blocks });
    for tensor_type in TensorType::ALL {
        let format = ResidentFormat::of(tensor_type);
        let lane = matrix::Variant::tuned(format, layout, 4, true);
        wanted.push((Kernel::Matrix(lane), matrix_record.clone()));
        wanted
            .push((Kernel::Gemm(gemm::Variant { format, layout, packed_dot: false }), matrix_record.clone()));
        wanted
            .push((Kernel::Embed(embed::Variant { format, layout, packed_dot: true }), embed_record.clone()));
        wanted.push((Kernel::Repack(repack::Variant { tensor_type, layout }), repack_record.clone()));
    }
    let record = members!(normalize::Params {
        len,
        weight_offset,
        post_norm_offset,
        delta_bias_offset,
        flags,
        epsilon,
        inverse_len,
        delta_scale
    });
    wanted.push((Kernel::Normalize(normalize::Variant { layout, keeps_values: true }), record));
    for kv_format in [KvFormat::F16, KvFormat::F32] {
        let record = members!(heads::Params {
            query_heads,
            kv_heads,
            group_first,
            group_heads,
            input_len,
            bias_offset,
            query_norm_offset,
            key_norm_offset,
            flags,
            pairs,
            cache_rows,
            epsilon,
            query_scale
        });
        for tree in [false, true] {
            let variant = heads::Variant { head_len: 64, kv_format, tree };
            wanted.push((Kernel::Heads(variant), record.clone()));
        }
        for form in [attention::Form::Split, attention::Form::Tree, attention::Form::Tiled] {
            let record = members!(attention::Params {
                query_heads,
                kv_heads,
                group_first,
                heads_per_kv,
                cache_rows,
                window,
                chunk_count,
                first_node,
                soft_cap
            });
            let variant = attention::Variant { head_len: 64, kv_format, form, queries: 3 };
            wanted.push((Kernel::Attention(variant), record));
        }
    }
    for flag in [true, false] {
        let record = members!(fold::Params { len, query_heads, head_len, window, chunk_count, first_node });
        wanted.push((Kernel::Fold(fold::Variant { layout, tree: flag, keeps_values: flag }), record));
        let variant = activate::Variant { layout, gelu: flag, gated: flag, keeps_values: flag };
        let record = members!(activate::Params { len, bias_offset, has_bias });
        wanted.push((Kernel::Activate(variant), record));
    }
    wanted.extend(of_steps());
    for (kernel, wanted) in wanted {
        let declared = declared(kernel).unwrap_or_else(|| panic!("{kernel:?} has no parameters"));
        assert_eq!(declared, wanted, "{kernel:?}: naga's layout against the Rust struct");
    }
}
