//! The GPU memory plan as data: every buffer the engine will create, to the byte, before anything is created.
//!
//! The pager computes it, hosts print it, the GPU obeys it.

use crate::program::{ActivationId, MatrixId, RopeId, ValueId};

/// Format of the key/value cache. The token stream is reproducible per format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KvFormat {
    /// int8 with an f32 scale per 32 elements: the processor's default. A GPU has no such cache.
    Q8,
    /// Half precision, a GPU's default; values are clamped to ±65,504.
    F16,
    /// Single precision.
    F32,
}

impl KvFormat {
    /// Bytes per element; of Q8 without the scales.
    pub fn element_bytes(self) -> u64 {
        match self {
            Self::Q8 => 1,
            Self::F16 => 2,
            Self::F32 => 4,
        }
    }
}

/// A plane of a quantised activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ActivationPlane {
    /// int8 codes, 32 bytes a block.
    Codes,
    /// f32 scale and two 16-bit half sums, 8 bytes a block.
    Meta,
    /// The f32 elements, 128 bytes a block, where a float matrix reads them.
    Values,
}

/// What a buffer is for. One owner, one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BufferOwner {
    /// A row range of a weight matrix, repacked.
    Page {
        /// Which matrix.
        matrix: MatrixId,
        /// Page number in row order.
        page: u32,
    },
    /// All constant vectors.
    Vectors,
    /// A rotary table.
    Rope(RopeId),
    /// Keys of a layer's head group.
    Keys {
        /// Layer.
        layer: u32,
        /// Group of KV heads.
        group: u32,
    },
    /// Values of a layer's head group.
    Values {
        /// Layer.
        layer: u32,
        /// Group of KV heads.
        group: u32,
    },
    /// An f32 row per batch token.
    Value(ValueId),
    /// A plane of a quantised row per batch token.
    Activation(ActivationId, ActivationPlane),
    /// Partial attention results (m, l, o) of the split kernel.
    AttentionPartials,
    /// Token ids of the batch.
    Tokens,
    /// Control block, end ids, token ring, hash.
    Control,
    /// Per-slice maxima and hashes of the logits rows.
    ChoicePartials,
    /// Parameters of the choice.
    Sampling,
    /// The cuts of top-k and top-p and how far they are found.
    Selection,
    /// Session memory and the context's tokens, which drafts are made from.
    History,
    /// Matches of the context's end in the history.
    Matches,
    /// The draft tree, what came of the last one, and what was learned from it.
    Draft,
    /// The ancestors of every node of the tree.
    Ancestors,
    /// A bit per row, raised by a kernel that meets a NaN or an infinity.
    Faults,
    /// Sizes and offsets that kernels read.
    Params,
    /// File bytes on their way to the repack kernel.
    Landing,
    /// Host-visible staging for uploads.
    Staging,
    /// Host-visible copies of the control block and ring.
    Readback(u32),
    /// A place of the ring that pages stream through.
    Slot(u32),
    /// Rows of the embedding table that a batch needs, where the table itself is not on the device.
    Gathered,
    /// The numbers 0, 1, 2 …: where the row of each batch token lies among the gathered ones.
    GatheredIndex,
}

impl BufferOwner {
    /// What kind of thing it holds.
    pub fn class(self) -> BufferClass {
        match self {
            Self::Page { .. } => BufferClass::Weights,
            Self::Slot(_) | Self::Gathered | Self::GatheredIndex => BufferClass::Streaming,
            Self::Vectors | Self::Rope(_) => BufferClass::Constants,
            Self::Keys { .. } | Self::Values { .. } => BufferClass::Cache,
            Self::History | Self::Matches | Self::Draft | Self::Ancestors => BufferClass::Drafting,
            Self::Landing | Self::Staging | Self::Readback(_) => BufferClass::Transfer,
            Self::Value(_)
            | Self::Activation(..)
            | Self::AttentionPartials
            | Self::Tokens
            | Self::Control
            | Self::ChoicePartials
            | Self::Sampling
            | Self::Selection
            | Self::Faults
            | Self::Params => BufferClass::Scratch,
        }
    }
}

/// Kinds of buffers, by what they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferClass {
    /// Weights that stay on the device.
    Weights,
    /// What weights stream through.
    Streaming,
    /// Constant vectors and rotary tables.
    Constants,
    /// Keys and values.
    Cache,
    /// What a pass computes with and leaves behind.
    Scratch,
    /// Session memory, the context's tokens and the draft tree.
    Drafting,
    /// What bytes pass on their way to the device and back.
    Transfer,
}

/// All of them, in the order of a ledger.
pub const BUFFER_CLASSES: [BufferClass; 7] = [
    BufferClass::Weights,
    BufferClass::Streaming,
    BufferClass::Constants,
    BufferClass::Cache,
    BufferClass::Scratch,
    BufferClass::Drafting,
    BufferClass::Transfer,
];

/// One buffer to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferPlan {
    /// What it is for.
    pub owner: BufferOwner,
    /// Exact size.
    pub bytes: u64,
}

/// A row range of a matrix that is one buffer and one dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRange {
    /// Which matrix.
    pub matrix: MatrixId,
    /// Page number in row order.
    pub page: u32,
    /// First row.
    pub first_row: u64,
    /// Rows.
    pub rows: u64,
    /// Where it streams through; `None` when it stays on the device.
    pub slot: Option<u32>,
}

impl PageRange {
    /// The buffer that holds it.
    pub fn owner(&self) -> BufferOwner {
        let Self { matrix, page, .. } = *self;
        self.slot.map_or(BufferOwner::Page { matrix, page }, BufferOwner::Slot)
    }
}

/// What the user and the adapter ask of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanRequest {
    /// Positions of the cache; rounded up to whole chunks of [`CHUNK_LEN`].
    pub context_len: u32,
    /// Prompt tokens per batch, 1..=512.
    pub batch_tokens: u32,
    /// Rows of logits kept, at least the widest decode bucket in use.
    pub logits_rows: u32,
    /// Cache format.
    pub kv_format: KvFormat,
    /// The adapter's largest storage binding, at most [`BINDING_BYTES_MAX`] is used.
    pub binding_bytes_max: u64,
}

/// Positions per attention chunk: part of the fold order, so the same for every device and batch.
pub const CHUNK_LEN: u32 = 64;
/// Extra cache rows behind the context: two alternating regions of 32 tree nodes.
pub const TREE_ROWS: u32 = 64;
/// Nothing needs a binding larger than WebGPU's default limit.
pub const BINDING_BYTES_MAX: u64 = 128 << 20;
/// The widest decode bucket.
pub const BUCKET_MAX: u32 = 32;
/// Largest prompt batch.
pub const BATCH_TOKENS_MAX: u32 = 512;

/// How a model runs whose weights do not all stay on the device. A pass brings every page of `pages` through
/// the ring once, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPlan {
    /// Indices into [`GpuPlan::pages`], in the order of a pass. The `k`-th goes through slot `k % slots`.
    pub pages: Vec<u32>,
    /// How many of them come before those of the head, which a prompt batch that chooses no token does
    /// without.
    pub body_pages: u32,
    /// Places of the ring.
    pub slots: u32,
    /// Bytes of one.
    pub slot_bytes: u64,
    /// Bytes of the file that a pass reads.
    pub pass_bytes: u64,
    /// The embedding table, when its rows are read from the file as batches need them.
    pub gathers: Option<MatrixId>,
}

/// Budgets by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preset {
    /// 512 MiB.
    Lite,
    /// 2 GiB.
    Saver,
    /// 6 GiB.
    Fast,
}

impl Preset {
    /// What it allows.
    pub fn budget(self) -> Budget {
        let (mib, page_mib) = match self {
            Self::Lite => (512, 16),
            Self::Saver => (2048, 16),
            Self::Fast => (6144, 64),
        };
        Budget { bytes: mib << 20, page_bytes: page_mib << 20 }
    }

    /// Prompt tokens per batch: the wider, the more tokens share a pass, and the more scratch it takes.
    pub fn batch_tokens(self) -> u32 {
        match self {
            Self::Lite => 8,
            Self::Saver => 32,
            Self::Fast => 128,
        }
    }
}

/// What a plan may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Most bytes on the device, everything counted that the engine allocates there.
    pub bytes: u64,
    /// Most bytes of a page that streams, repacked.
    pub page_bytes: u64,
}

/// Every buffer of a loaded model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuPlan {
    /// The request it answers, with what had to be changed (batch lowered to fit a binding).
    pub request: PlanRequest,
    /// Positions of the cache, a multiple of [`CHUNK_LEN`].
    pub cache_rows: u32,
    /// Rows of every value and activation buffer: the batch, at least [`BUCKET_MAX`], a multiple of 32.
    pub batch_rows: u32,
    /// Query rows that one split-attention dispatch may write partials for, 1..=32, a power of two.
    pub partial_rows: u32,
    /// KV heads per head group, by layer.
    pub kv_group_heads: Vec<u32>,
    /// Pages in matrix order.
    pub pages: Vec<PageRange>,
    /// Every buffer; none is empty.
    pub buffers: Vec<BufferPlan>,
    /// First element of each constant vector in the vectors buffer, a multiple of 4.
    pub vector_offsets: Vec<u32>,
    /// What streams; `None` when all weights stay on the device.
    pub stream: Option<StreamPlan>,
}

impl GpuPlan {
    /// Bytes of all buffers.
    pub fn total_bytes(&self) -> u64 {
        self.buffers.iter().map(|b| b.bytes).sum()
    }
    /// Bytes of the buffers that `select` picks.
    pub fn bytes_where(&self, select: impl Fn(BufferOwner) -> bool) -> u64 {
        self.buffers.iter().filter(|b| select(b.owner)).map(|b| b.bytes).sum()
    }
    /// Size of one buffer.
    pub fn bytes_of(&self, owner: BufferOwner) -> Option<u64> {
        self.buffers.iter().find(|b| b.owner == owner).map(|b| b.bytes)
    }
}
