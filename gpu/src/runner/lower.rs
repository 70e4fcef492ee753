//! Program ops → bind groups and the kernels that serve each batch shape. All of it happens once, at load;
//! nothing is compiled for it.

use fanlight_messages::layout::{PagePlanes, PlaneRange, ResidentFormat, SlabLayout};
use fanlight_messages::plan::{
    ActivationPlane, BUCKET_MAX, BufferOwner, CHUNK_LEN, GpuPlan, PageRange, TREE_ROWS,
};
use fanlight_messages::program::{
    ActivationId, MatrixId, MatrixSpec, NormSpan, Op, Program, RopePairing, ValueId, VectorId,
};

use super::buffers::Buffers;
use super::params::{self, ParamWriter};
use super::pipelines::{Bound, Pipelines};
use crate::device::{Device, GpuError};
use crate::kernels::attention::Form;
use crate::kernels::{Kernel, activate, attention, embed, fold, gemm, heads, matrix, normalize};

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
                self.multiply(*matrix, *input, *output, *output_offset, false)
            }
            Op::Heads { .. } => self.heads(op),
            Op::Attend { .. } => self.attend(op),
            Op::Activate { input, bias, gated, function, output } => {
                let layout = self.activation_layout(*output);
                let variant = activate::Variant::new(layout, *function, *gated, self.keeps_values(*output));
                let record = activate::Params {
                    len: layout.blocks * 32,
                    bias_offset: bias.map_or(0, |v| self.vector_offset(v)),
                    has_bias: u32::from(bias.is_some()),
                };
                let bound = vec![
                    Bound::whole(0, self.buffers.get(BufferOwner::Value(*input))?),
                    Bound::whole(1, self.buffers.get(BufferOwner::Vectors)?),
                ];
                let bind = self.bind(Kernel::Activate(variant), record, bound, Some(*output))?;
                Ok(Lowered::Activate(variant, bind))
            }
        }
    }

    /// The head, on the last live row only (a prompt batch then computes one row of logits) or on every row.
    pub(super) fn head(&mut self, last_only: bool) -> Result<Vec<MultiplyPage>, GpuError> {
        let Op::Multiply { matrix, input, output, output_offset } = &self.program.head else {
            return Err(GpuError::MissingBuffer { owner: "a head that is a matrix product".into() });
        };
        match self.multiply(*matrix, *input, *output, *output_offset, last_only)? {
            Lowered::Multiply(pages) => Ok(pages),
            _ => Err(GpuError::MissingBuffer { owner: "the head's pages".into() }),
        }
    }

    /// Writes a parameter record and gives its offset.
    pub(super) fn record<T: bytemuck::Pod>(&mut self, record: &T) -> Result<u64, GpuError> {
        self.params.write(self.device, self.buffers, record)
    }

    /// Binds a new record, the control block, the faults and the output activation beside `bound`.
    pub(super) fn bind<T: bytemuck::Pod>(
        &mut self,
        kernel: Kernel,
        record: T,
        bound: Vec<Bound<'a>>,
        output: Option<ActivationId>,
    ) -> Result<Bind, GpuError> {
        let offset = self.record(&record)?;
        self.bind_at(kernel, offset, bound, output)
    }

    /// The same with a record that is there already.
    pub(super) fn bind_at(
        &self,
        kernel: Kernel,
        offset: u64,
        mut bound: Vec<Bound<'a>>,
        output: Option<ActivationId>,
    ) -> Result<Bind, GpuError> {
        let buffers = self.buffers;
        bound.push(params::bound(buffers, offset)?);
        bound.push(Bound::whole(7, buffers.get(BufferOwner::Control)?));
        if let Some(output) = output {
            bound
                .push(Bound::whole(3, buffers.get(BufferOwner::Activation(output, ActivationPlane::Codes))?));
            bound.push(Bound::whole(4, buffers.get(BufferOwner::Activation(output, ActivationPlane::Meta))?));
            if self.keeps_values(output) {
                let values = BufferOwner::Activation(output, ActivationPlane::Values);
                bound.push(Bound::whole(5, buffers.get(values)?));
            }
            bound.push(Bound::whole(6, buffers.get(BufferOwner::Faults)?));
        }
        let interface = self.pipelines.interface(kernel)?;
        Ok(Bind { kernel, group: interface.bind(self.device, &bound) })
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
        let kernel = Kernel::Embed(embed::Variant { format, layout, packed_dot });
        let gathers = self.plan.stream.as_ref().is_some_and(|stream| stream.gathers == Some(table));
        let (sources, tokens) = if gathers {
            // The rows that a batch needs lie in its order.
            let rows = u64::from(self.plan.batch_rows);
            (vec![PagePlace { owner: BufferOwner::Gathered, first_row: 0, rows }], BufferOwner::GatheredIndex)
        } else {
            (self.pages(table).iter().map(PagePlace::from).collect(), BufferOwner::Tokens)
        };
        let mut binds = Vec::new();
        for source in sources {
            let record = embed::Params {
                first_row: source.first_row as u32,
                rows: source.rows as u32,
                output_len: self.value_len(output),
                blocks: layout.blocks,
                scale,
            };
            let mut bound = page_planes(self.buffers, spec, source)?;
            bound.push(Bound::whole(4, self.buffers.get(tokens)?));
            bound.push(Bound::whole(6, self.buffers.get(BufferOwner::Value(output))?));
            binds.push(self.bind(kernel, record, bound, None)?);
        }
        Ok(Lowered::Embed(binds))
    }

    fn normalize(&mut self, op: &Op) -> Result<Lowered, GpuError> {
        let Op::Normalize { residual, delta, delta_bias, post_norm, delta_scale, weight, epsilon, output } =
            op
        else {
            return Err(GpuError::MissingBuffer { owner: "a normalise op".into() });
        };
        let layout = self.activation_layout(*output);
        let kernel =
            Kernel::Normalize(normalize::Variant { layout, keeps_values: self.keeps_values(*output) });
        let len = self.value_len(*residual);
        let flag = |on: bool, bit: u32| if on { bit } else { 0 };
        let flags = flag(delta.is_some(), normalize::HAS_DELTA)
            | flag(post_norm.is_some(), normalize::POST_NORM)
            | flag(delta_bias.is_some(), normalize::DELTA_BIAS)
            | flag(weight.is_none(), normalize::PLAIN);
        let offset = |vector: Option<VectorId>| vector.map_or(0, |v| self.vector_offset(v));
        let record = normalize::Params {
            len,
            weight_offset: offset(*weight),
            post_norm_offset: offset(*post_norm),
            delta_bias_offset: offset(*delta_bias),
            flags,
            epsilon: *epsilon,
            inverse_len: 1.0 / len as f32,
            delta_scale: *delta_scale,
        };
        let vectors = self.buffers.get(BufferOwner::Vectors)?;
        let bound = vec![
            Bound::whole(0, self.buffers.get(BufferOwner::Value(*residual))?),
            // Without a delta any readable buffer will do: the flag keeps the kernel from reading it.
            Bound::whole(1, delta.map_or(Ok(vectors), |d| self.buffers.get(BufferOwner::Value(d)))?),
            Bound::whole(2, vectors),
        ];
        Ok(Lowered::Normalize(self.bind(kernel, record, bound, Some(*output))?))
    }

    fn multiply(
        &mut self,
        id: MatrixId,
        input: ActivationId,
        output: ValueId,
        output_offset: u32,
        last_only: bool,
    ) -> Result<Lowered, GpuError> {
        let spec = &self.program.matrices[id.index()];
        let (format, layout) = (ResidentFormat::of(spec.tensor_type), SlabLayout::for_columns(spec.columns));
        let packed_dot = self.device.facts().has_packed_dot;
        let any = Kernel::Matrix(matrix::Variant::tuned(format, layout, 1, packed_dot));
        let mut pages = Vec::new();
        for page in self.pages(id) {
            let record = matrix::Params {
                rows: page.rows as u32,
                output_len: self.value_len(output),
                output_offset: output_offset + page.first_row as u32,
                last_only: u32::from(last_only),
            };
            let mut bound = page_planes(self.buffers, spec, (&page).into())?;
            if spec.tensor_type.is_float() {
                let values = BufferOwner::Activation(input, ActivationPlane::Values);
                bound.push(Bound::whole(4, self.buffers.get(values)?));
            } else {
                let plane = |plane| self.buffers.get(BufferOwner::Activation(input, plane));
                bound.push(Bound::whole(4, plane(ActivationPlane::Codes)?));
                bound.push(Bound::whole(5, plane(ActivationPlane::Meta)?));
            }
            bound.push(Bound::whole(6, self.buffers.get(BufferOwner::Value(output))?));
            let bind = self.bind(any, record, bound, None)?;
            let streamed = self.place_in_pass(&page);
            pages.push(MultiplyPage { format, layout, rows: page.rows, group: bind.group, streamed });
        }
        Ok(Lowered::Multiply(pages))
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
            return Err(GpuError::MissingBuffer { owner: "a heads op".into() });
        };
        let shape = self.program.layers[*layer as usize];
        let group_heads = self.plan.kv_group_heads[*layer as usize];
        let vectors = self.buffers.get(BufferOwner::Vectors)?;
        let spec = rope.map(|rope| &self.program.ropes[rope.index()]);
        let pairing = spec.map(|spec| spec.pairing);
        let has_factor = spec.is_some_and(|spec| spec.query_factor.is_some());
        let kv_format = self.plan.request.kv_format;
        let variant = heads::Variant { head_len: shape.head_len, kv_format, tree: false };
        let mut binds = Heads { chain: Vec::new(), tree: Vec::new() };
        for group in 0..shape.kv_heads / group_heads {
            let flag = |on: bool, bit: u32| if on { bit } else { 0 };
            let record = heads::Params {
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
            let at = *layer;
            let mut bound = vec![
                Bound::whole(0, self.buffers.get(BufferOwner::Value(*input))?),
                // Without a table any readable buffer will do: no pair is rotated.
                Bound::whole(1, rope.map_or(Ok(vectors), |r| self.buffers.get(BufferOwner::Rope(r)))?),
                Bound::whole(2, vectors),
                Bound::whole(3, self.buffers.get(BufferOwner::Value(*output))?),
                Bound::whole(4, self.buffers.get(BufferOwner::Keys { layer: at, group })?),
                Bound::whole(5, self.buffers.get(BufferOwner::Values { layer: at, group })?),
            ];
            let groups_x = if group == 0 { shape.query_heads } else { 0 } + 2 * group_heads;
            let offset = self.record(&record)?;
            let chain = self.bind_at(Kernel::Heads(variant), offset, bound.clone(), None)?;
            binds.chain.push((groups_x, chain));
            let kernel = Kernel::Heads(heads::Variant { tree: true, ..variant });
            bound.push(Bound::whole(6, self.buffers.get(BufferOwner::Ancestors)?));
            binds.tree.push((groups_x, self.bind_at(kernel, offset, bound, None)?));
        }
        Ok(Lowered::Heads(binds))
    }

    fn attend(&mut self, op: &Op) -> Result<Lowered, GpuError> {
        let Op::Attend { layer, .. } = op else {
            return Err(GpuError::MissingBuffer { owner: "an attention op".into() });
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
            return Err(GpuError::MissingBuffer { owner: "an attention op".into() });
        };
        let shape = self.program.layers[*layer as usize];
        let group_heads = self.plan.kv_group_heads[*layer as usize];
        // Any attention kernel of this shape and form has the layout that all of them share.
        let any = Kernel::Attention(attention::Variant {
            head_len: shape.head_len,
            kv_format: self.plan.request.kv_format,
            form,
            queries: 1,
        });
        let partials = self.buffers.get(BufferOwner::AttentionPartials)?;
        let ancestors = self.buffers.get(BufferOwner::Ancestors)?;
        let mut groups = Vec::new();
        for group in 0..shape.kv_heads / group_heads {
            let record = attention::Params {
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
            let bound = vec![
                Bound::whole(0, self.buffers.get(BufferOwner::Value(*query))?),
                Bound::whole(1, self.buffers.get(BufferOwner::Keys { layer: *layer, group })?),
                Bound::whole(2, self.buffers.get(BufferOwner::Values { layer: *layer, group })?),
                Bound::whole(3, ancestors),
                Bound::whole(4, partials),
            ];
            groups.push((group_heads, self.bind(any, record, bound, None)?.group));
        }
        let record = fold::Params {
            len: shape.query_len(),
            query_heads: shape.query_heads,
            head_len: shape.head_len,
            window: window.unwrap_or(0),
            chunk_count,
            first_node,
        };
        let fold = Kernel::Fold(fold::Variant {
            layout: self.activation_layout(*output),
            tree: form == Form::Tree,
            keeps_values: self.keeps_values(*output),
        });
        let bound = vec![Bound::whole(0, partials), Bound::whole(1, ancestors)];
        let fold = self.bind(fold, record, bound, Some(*output))?;
        Ok(AttendTile { groups, fold })
    }
}

/// Rows of a matrix in a buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct PagePlace {
    pub(super) owner: BufferOwner,
    pub(super) first_row: u64,
    pub(super) rows: u64,
}

impl From<&PageRange> for PagePlace {
    fn from(page: &PageRange) -> Self {
        Self { owner: page.owner(), first_row: page.first_row, rows: page.rows }
    }
}

/// The planes of rows of a matrix at their binding numbers.
pub(super) fn page_planes<'a>(
    buffers: &'a Buffers,
    spec: &MatrixSpec,
    place: PagePlace,
) -> Result<Vec<Bound<'a>>, GpuError> {
    let buffer = buffers.get(place.owner)?;
    let planes = PagePlanes::new(ResidentFormat::of(spec.tensor_type), place.rows, spec.columns);
    let all: [PlaneRange; 4] = [planes.codes, planes.high, planes.scales, planes.supers];
    Ok((0u32..)
        .zip(all)
        .filter(|(_, plane)| plane.len_bytes > 0)
        .map(|(number, plane)| Bound::range(number, buffer, plane.offset_bytes, plane.len_bytes))
        .collect())
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
        match self {
            Self::Lane(bucket) => {
                let variant = matrix::Variant::tuned(page.format, page.layout, bucket, packed_dot);
                (Kernel::Matrix(variant), variant.groups(page.rows))
            }
            Self::Gemm => {
                let variant = gemm::Variant { format: page.format, layout: page.layout, packed_dot };
                (Kernel::Gemm(variant), variant.groups(page.rows, tokens))
            }
        }
    }
}
