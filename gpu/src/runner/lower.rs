//! Program ops → bind groups and the kernels that serve each batch shape. All of it happens once, at load;
//! nothing is compiled for it.

use fanlight_messages::layout::{ResidentFormat, SlabLayout};
use fanlight_messages::plan::{BUCKET_MAX, BufferOwner, CHUNK_LEN, GpuPlan, PageRange, TREE_ROWS};
use fanlight_messages::program::{
    ActivationId, MatrixId, NormSpan, Op, Program, RopePairing, ValueId, VectorId,
};

use super::buffers::{Buffers, HeadGroup, PagePlace};
use super::params::{ParamWriter, Recorded};
use crate::device::{Device, GpuError};
use crate::kernels::attention::Form;
use crate::kernels::{Kernel, activate, attention, embed, fold, gemm, heads, matrix, normalize, product};
use crate::pipelines::Pipelines;
use crate::shader::{Declared, Input, Quantised, Record, Slice, Vectors};

/// A dispatch whose grid follows the batch.
#[derive(Debug)]
pub(super) struct Bind {
    pub(super) kernel: Kernel,
    pub(super) group: wgpu::BindGroup,
}

/// One page of a matrix product; the same bind group serves every token count.
#[derive(Debug)]
pub(super) struct MultiplyPage {
    pub(super) format: ResidentFormat,
    pub(super) layout: SlabLayout,
    pub(super) rows: u64,
    pub(super) group: wgpu::BindGroup,
    /// Its place in the order of a pass, when it streams.
    pub(super) streamed: Option<u32>,
}

/// Attention of one layer.
#[derive(Debug)]
pub(super) struct Attend {
    pub(super) heads_per_kv: u32,
    pub(super) head_len: u32,
    /// For one token.
    pub(super) plain: AttendTile,
    /// For prompts.
    pub(super) prompt: AttendTile,
    /// For draft trees, a tile of nodes each.
    pub(super) tree: Vec<AttendTile>,
}

/// Attention dispatches that share one set of partials.
#[derive(Debug)]
pub(super) struct AttendTile {
    /// KV heads and bind group of each head group.
    pub(super) groups: Vec<(u32, wgpu::BindGroup)>,
    pub(super) fold: Bind,
}

/// Head dispatches of one layer: workgroups along x and bind group of each head group.
#[derive(Debug)]
pub(super) struct Heads {
    /// Rows follow each other.
    pub(super) chain: Vec<(u32, Bind)>,
    /// Rows are nodes of a draft tree.
    pub(super) tree: Vec<(u32, Bind)>,
}

/// A lowered op.
#[derive(Debug)]
pub(super) enum Lowered {
    /// A page each.
    Embed(Vec<Bind>),
    Normalize(Bind),
    Multiply(Vec<MultiplyPage>),
    Heads(Heads),
    Attend(Attend),
    Activate(activate::Variant, Bind),
}

/// What lowering needs at hand.
pub(super) struct Lowering<'a> {
    pub(super) device: &'a Device,
    pub(super) program: &'a Program,
    pub(super) plan: &'a GpuPlan,
    pub(super) buffers: &'a Buffers,
    pub(super) pipelines: &'a Pipelines,
    pub(super) params: ParamWriter,
}

impl<'a> Lowering<'a> {
    pub(super) fn op(&mut self, op: &Op) -> Result<Lowered, GpuError> {
        match op {
            Op::Embed { table, scale, output } => self.embed(*table, *scale, *output),
            Op::Normalize { .. } => self.normalize(op),
            Op::Multiply { matrix, input, output, output_offset } => {
                let pages = self.multiply(*matrix, *input, *output, *output_offset, false)?;
                Ok(Lowered::Multiply(pages))
            }
            Op::Heads { .. } => self.heads(op),
            Op::Attend { .. } => self.attend(op),
            Op::Activate { input, bias, gated, function, output } => {
                let layout = self.activation_layout(*output);
                let variant = activate::Variant::new(layout, *function, *gated, self.keeps_values(*output));
                let params = activate::Params {
                    len: layout.blocks * 32,
                    bias_offset: bias.map_or(0, |v| self.vector_offset(v)),
                    has_bias: u32::from(bias.is_some()),
                };
                let bindings = activate::Bindings {
                    rows: self.buffers.of(*input)?,
                    vectors: self.buffers.of(())?,
                    output: self.quantised(*output)?,
                    control: self.buffers.of(())?,
                };
                Ok(Lowered::Activate(variant, self.bind(variant, &params, &bindings)?))
            }
        }
    }

    /// The head, on the last live row only (a prompt batch then computes one row of logits) or on every row.
    pub(super) fn head(&mut self, last_only: bool) -> Result<Vec<MultiplyPage>, GpuError> {
        let Op::Multiply { matrix, input, output, output_offset } = &self.program.head else {
            return Err(GpuError::Bug("the head of the program is no matrix product"));
        };
        self.multiply(*matrix, *input, *output, *output_offset, last_only)
    }

    /// Binds a kernel with a new record.
    pub(super) fn bind<V: Declared + Into<Kernel>>(
        &mut self,
        variant: V,
        params: &V::Params,
        bindings: &V::Bindings<'_>,
    ) -> Result<Bind, GpuError> {
        let record = self.record(params)?;
        self.bind_at(variant, record, bindings)
    }

    /// Writes a record that several binds share, or that is written anew for each request.
    pub(super) fn record<P: Record>(&mut self, params: &P) -> Result<Recorded<P>, GpuError> {
        self.params.write(self.device, self.buffers, params)
    }

    /// Binds a kernel with a record that is there already.
    pub(super) fn bind_at<V: Declared + Into<Kernel>>(
        &self,
        variant: V,
        record: Recorded<V::Params>,
        bindings: &V::Bindings<'_>,
    ) -> Result<Bind, GpuError> {
        let kernel = variant.into();
        let params = self.buffers.record(record)?;
        let group = self.pipelines.interface(kernel)?.bind(self.device, bindings, params)?;
        Ok(Bind { kernel, group })
    }

    /// Where a quantised row goes.
    fn quantised(&self, output: ActivationId) -> Result<Quantised<'a>, GpuError> {
        let values = self.keeps_values(output).then(|| self.buffers.of(output)).transpose()?;
        Ok(Quantised {
            out_codes: self.buffers.of(output)?,
            out_meta: self.buffers.of(output)?,
            out_values: values,
            faults: self.buffers.of(())?,
        })
    }

    fn activation_layout(&self, id: ActivationId) -> SlabLayout {
        SlabLayout::for_columns(self.program.activations[id.index()].columns)
    }

    fn keeps_values(&self, id: ActivationId) -> bool {
        self.program.activations[id.index()].keeps_values
    }

    fn value_len(&self, id: ValueId) -> u32 {
        self.program.values[id.index()].len
    }

    fn vector_offset(&self, id: VectorId) -> u32 {
        self.plan.vector_offsets.get(id.index()).copied().unwrap_or(0)
    }

    fn pages(&self, matrix: MatrixId) -> Vec<PageRange> {
        self.plan.pages.iter().filter(|p| p.matrix == matrix).copied().collect()
    }

    /// Where a page comes in the order of a pass, when it streams.
    fn place_in_pass(&self, page: &PageRange) -> Option<u32> {
        let order = &self.plan.stream.as_ref()?.pages;
        let place = order.iter().position(|index| self.plan.pages.get(*index as usize) == Some(page))?;
        Some(place as u32)
    }

    fn embed(&mut self, table: MatrixId, scale: f32, output: ValueId) -> Result<Lowered, GpuError> {
        let spec = &self.program.matrices[table.index()];
        let (format, layout) = (ResidentFormat::of(spec.tensor_type), SlabLayout::for_columns(spec.columns));
        let packed_dot = self.device.facts().has_packed_dot;
        let variant = embed::Variant { format, layout, packed_dot };
        let gathers = self.plan.stream.as_ref().is_some_and(|stream| stream.gathers == Some(table));
        let (places, tokens) = if gathers {
            // The rows that a batch needs are in its order.
            let rows = u64::from(self.plan.batch_rows);
            let index = Slice::whole(self.buffers.get(BufferOwner::GatheredIndex)?);
            (vec![PagePlace { owner: BufferOwner::Gathered, first_row: 0, rows }], index)
        } else {
            (self.pages(table).iter().map(PagePlace::from).collect(), self.buffers.of(())?)
        };
        let mut binds = Vec::new();
        for place in places {
            let params = embed::Params {
                first_row: place.first_row as u32,
                rows: place.rows as u32,
                output_len: self.value_len(output),
                blocks: layout.blocks,
                scale,
            };
            let bindings = embed::Bindings {
                table: self.buffers.planes(spec, place)?,
                tokens,
                output: self.buffers.of(output)?,
                control: self.buffers.of(())?,
            };
            binds.push(self.bind(variant, &params, &bindings)?);
        }
        Ok(Lowered::Embed(binds))
    }

    fn normalize(&mut self, op: &Op) -> Result<Lowered, GpuError> {
        let Op::Normalize { residual, delta, delta_bias, post_norm, delta_scale, weight, epsilon, output } =
            op
        else {
            return Err(GpuError::Bug("a normalise op was expected"));
        };
        let layout = self.activation_layout(*output);
        let variant = normalize::Variant { layout, keeps_values: self.keeps_values(*output) };
        let len = self.value_len(*residual);
        let flag = |on: bool, bit: u32| if on { bit } else { 0 };
        let flags = flag(delta.is_some(), normalize::HAS_DELTA)
            | flag(post_norm.is_some(), normalize::POST_NORM)
            | flag(delta_bias.is_some(), normalize::DELTA_BIAS)
            | flag(weight.is_none(), normalize::PLAIN);
        let offset = |vector: Option<VectorId>| vector.map_or(0, |v| self.vector_offset(v));
        let params = normalize::Params {
            len,
            weight_offset: offset(*weight),
            post_norm_offset: offset(*post_norm),
            delta_bias_offset: offset(*delta_bias),
            flags,
            epsilon: *epsilon,
            inverse_len: 1.0 / len as f32,
            delta_scale: *delta_scale,
        };
        let vectors: Slice<'_, Vectors> = self.buffers.of(())?;
        let bindings = normalize::Bindings {
            residual: self.buffers.of(*residual)?,
            // Without a delta the flag keeps the kernel from reading it.
            delta: delta.map_or(Ok(vectors.stand_in()), |delta| self.buffers.of(delta))?,
            vectors,
            output: self.quantised(*output)?,
            control: self.buffers.of(())?,
        };
        Ok(Lowered::Normalize(self.bind(variant, &params, &bindings)?))
    }

    fn multiply(
        &mut self,
        id: MatrixId,
        input: ActivationId,
        output: ValueId,
        output_offset: u32,
        last_only: bool,
    ) -> Result<Vec<MultiplyPage>, GpuError> {
        let spec = &self.program.matrices[id.index()];
        let (format, layout) = (ResidentFormat::of(spec.tensor_type), SlabLayout::for_columns(spec.columns));
        let packed_dot = self.device.facts().has_packed_dot;
        let any = matrix::Variant::tuned(format, layout, 1, packed_dot);
        let mut pages = Vec::new();
        for page in self.pages(id) {
            let params = product::Params {
                rows: page.rows as u32,
                output_len: self.value_len(output),
                output_offset: output_offset + page.first_row as u32,
                last_only: u32::from(last_only),
            };
            let bindings = product::Bindings {
                weights: self.buffers.planes(spec, (&page).into())?,
                input: match spec.tensor_type.is_float() {
                    true => Input::Elements(self.buffers.of(input)?),
                    false => Input::Codes(self.buffers.of(input)?, self.buffers.of(input)?),
                },
                output: self.buffers.of(output)?,
                control: self.buffers.of(())?,
            };
            let Bind { group, .. } = self.bind(any, &params, &bindings)?;
            let streamed = self.place_in_pass(&page);
            pages.push(MultiplyPage { format, layout, rows: page.rows, group, streamed });
        }
        Ok(pages)
    }

    fn heads(&mut self, op: &Op) -> Result<Lowered, GpuError> {
        let Op::Heads {
            layer,
            input,
            bias,
            query_norm,
            key_norm,
            norm_span,
            epsilon,
            rope,
            query_scale,
            output,
        } = op
        else {
            return Err(GpuError::Bug("a heads op was expected"));
        };
        let shape = self.program.layers[*layer as usize];
        let group_heads = self.plan.kv_group_heads[*layer as usize];
        let vectors: Slice<'_, Vectors> = self.buffers.of(())?;
        let spec = rope.map(|rope| &self.program.ropes[rope.index()]);
        let pairing = spec.map(|spec| spec.pairing);
        let has_factor = spec.is_some_and(|spec| spec.query_factor.is_some());
        let kv_format = self.plan.request.kv_format;
        let variant = heads::Variant { head_len: shape.head_len, kv_format, tree: false };
        let mut binds = Heads { chain: Vec::new(), tree: Vec::new() };
        for group in 0..shape.kv_heads / group_heads {
            let flag = |on: bool, bit: u32| if on { bit } else { 0 };
            let params = heads::Params {
                query_heads: shape.query_heads,
                kv_heads: shape.kv_heads,
                group_first: group * group_heads,
                group_heads,
                input_len: self.value_len(*input),
                bias_offset: bias.map_or(0, |v| self.vector_offset(v)),
                query_norm_offset: query_norm.map_or(0, |v| self.vector_offset(v)),
                key_norm_offset: key_norm.map_or(0, |v| self.vector_offset(v)),
                flags: flag(bias.is_some(), heads::BIAS)
                    | flag(query_norm.is_some(), heads::QUERY_NORM)
                    | flag(key_norm.is_some(), heads::KEY_NORM)
                    | flag(pairing == Some(RopePairing::Adjacent), heads::ADJACENT)
                    | flag(group == 0, heads::WRITES_QUERIES)
                    | flag(*norm_span == NormSpan::Row, heads::ROW_NORM)
                    | flag(has_factor, heads::QUERY_FACTOR),
                pairs: spec.map_or(0, |spec| spec.inverse_frequencies.len() as u32),
                cache_rows: self.plan.cache_rows + TREE_ROWS,
                epsilon: *epsilon,
                query_scale: query_scale * std::f32::consts::LOG2_E,
            };
            let at = HeadGroup { layer: *layer, group };
            let bindings = heads::Bindings {
                input: self.buffers.of(*input)?,
                // Without a table no pair is rotated.
                rope: rope.map_or(Ok(vectors.stand_in()), |rope| self.buffers.of(rope))?,
                vectors,
                query: self.buffers.of(*output)?,
                keys: self.buffers.of(at)?,
                values: self.buffers.of(at)?,
                ancestors: None,
                control: self.buffers.of(())?,
            };
            let groups_x = if group == 0 { shape.query_heads } else { 0 } + 2 * group_heads;
            let record = self.record(&params)?;
            binds.chain.push((groups_x, self.bind_at(variant, record, &bindings)?));
            let variant = heads::Variant { tree: true, ..variant };
            let bindings = heads::Bindings { ancestors: Some(self.buffers.of(())?), ..bindings };
            binds.tree.push((groups_x, self.bind_at(variant, record, &bindings)?));
        }
        Ok(Lowered::Heads(binds))
    }

    fn attend(&mut self, op: &Op) -> Result<Lowered, GpuError> {
        let Op::Attend { layer, .. } = op else {
            return Err(GpuError::Bug("an attention op was expected"));
        };
        let shape = self.program.layers[*layer as usize];
        let chunks = self.plan.cache_rows / CHUNK_LEN;
        let plain = self.attend_tile(op, Form::Split, 0, chunks)?;
        let prompt = self.attend_tile(op, Form::Tiled, 0, 1)?;
        let mut tree = Vec::new();
        for tile in 0..BUCKET_MAX / self.plan.partial_rows {
            tree.push(self.attend_tile(op, Form::Tree, tile * self.plan.partial_rows, chunks)?);
        }
        let heads_per_kv = shape.query_heads / shape.kv_heads;
        Ok(Lowered::Attend(Attend { heads_per_kv, head_len: shape.head_len, plain, prompt, tree }))
    }

    fn attend_tile(
        &mut self,
        op: &Op,
        form: Form,
        first_node: u32,
        chunk_count: u32,
    ) -> Result<AttendTile, GpuError> {
        let Op::Attend { layer, query, window, soft_cap, output } = op else {
            return Err(GpuError::Bug("an attention op was expected"));
        };
        let shape = self.program.layers[*layer as usize];
        let group_heads = self.plan.kv_group_heads[*layer as usize];
        // Any attention kernel of this shape and form has the layout that all of them share.
        let any = attention::Variant {
            head_len: shape.head_len,
            kv_format: self.plan.request.kv_format,
            form,
            queries: 1,
        };
        let is_tree = form == Form::Tree;
        let ancestors = is_tree.then(|| self.buffers.of(())).transpose()?;
        let mut groups = Vec::new();
        for group in 0..shape.kv_heads / group_heads {
            let params = attention::Params {
                query_heads: shape.query_heads,
                kv_heads: group_heads,
                group_first: group * group_heads,
                heads_per_kv: shape.query_heads / shape.kv_heads,
                cache_rows: self.plan.cache_rows + TREE_ROWS,
                window: window.unwrap_or(0),
                chunk_count,
                first_node,
                soft_cap: soft_cap.unwrap_or(0.0) * std::f32::consts::LOG2_E,
            };
            let at = HeadGroup { layer: *layer, group };
            let bindings = attention::Bindings {
                query: self.buffers.of(*query)?,
                keys: self.buffers.of(at)?,
                values: self.buffers.of(at)?,
                ancestors,
                partials: self.buffers.of(())?,
                control: self.buffers.of(())?,
            };
            groups.push((group_heads, self.bind(any, &params, &bindings)?.group));
        }
        let params = fold::Params {
            len: shape.query_len(),
            query_heads: shape.query_heads,
            head_len: shape.head_len,
            window: window.unwrap_or(0),
            chunk_count,
            first_node,
        };
        let variant = fold::Variant {
            layout: self.activation_layout(*output),
            tree: is_tree,
            keeps_values: self.keeps_values(*output),
        };
        let bindings = fold::Bindings {
            partials: self.buffers.of(())?,
            ancestors,
            output: self.quantised(*output)?,
            control: self.buffers.of(())?,
        };
        Ok(AttendTile { groups, fold: self.bind(variant, &params, &bindings)? })
    }
}

/// Which kernel multiplies a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Product {
    /// The lane kernel of this bucket.
    Lane(u32),
    /// The prompt kernel.
    Gemm,
}

/// Prompt batches up to this long run on one lane kernel, longer ones on the GEMM: two pipelines for all of
/// them, since every pipeline costs compilation time on the visitor's first visit.
pub(super) const PROMPT_BUCKET: u32 = 8;

impl Product {
    /// For a prompt batch.
    pub(super) fn for_prompt(tokens: u32) -> Self {
        match tokens {
            1 => Self::Lane(1),
            2..=PROMPT_BUCKET => Self::Lane(PROMPT_BUCKET),
            _ => Self::Gemm,
        }
    }

    /// Its kernel and grid for a page and `tokens` live rows.
    pub(super) fn kernel(self, page: &MultiplyPage, tokens: u32, packed_dot: bool) -> (Kernel, [u32; 3]) {
        let MultiplyPage { format, layout, rows, .. } = *page;
        let variant = match self {
            Self::Lane(bucket) => {
                product::Variant::Lane(matrix::Variant::tuned(format, layout, bucket, packed_dot))
            }
            Self::Gemm => product::Variant::Gemm(gemm::Variant { format, layout, packed_dot }),
        };
        (variant.into(), variant.groups(rows, tokens))
    }
}
