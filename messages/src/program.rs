//! The seam between models and the machines that run them: a `Program` is a printable list of typed ops over
//! named values and weight matrices.
//!
//! `models` writes one from a file's header; the GPU, the kernels' CPU twins and the tests' reference
//! interpret it. Every quantity per token is one row; a batch is a number of rows.

use crate::TensorType;

macro_rules! index_newtype {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
        impl $name {
            /// As an index into the program's list.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}
index_newtype!(
    /// A row of f32 per token: `Program::values`.
    ValueId
);
index_newtype!(
    /// A row that a matrix kernel consumes: `Program::activations`.
    ActivationId
);
index_newtype!(
    /// A weight matrix: `Program::matrices`.
    MatrixId
);
index_newtype!(
    /// A vector of f32 constants (norm weights, biases): `Program::vectors`.
    VectorId
);
index_newtype!(
    /// A rotary position table: `Program::ropes`.
    RopeId
);

/// An f32 row per token.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueSpec {
    /// What it is, for people: `residual`, `qkv`, `gate_up` …
    pub name: &'static str,
    /// Elements per token.
    pub len: u32,
}

/// A row per token in the form that matrix kernels read: int8 codes with one scale per 32 elements, in slab
/// order.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivationSpec {
    /// What it is, for people.
    pub name: &'static str,
    /// Elements per token; a multiple of 32.
    pub columns: u32,
    /// True when a float matrix reads it, so that the f32 elements are kept beside the codes.
    pub keeps_values: bool,
}

/// Rows of tensors of one type and width, stacked into one matrix (`q|k|v`, `gate|up`).
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixSpec {
    /// What it is, for people: `blk.0.qkv`.
    pub name: String,
    /// Format of every part.
    pub tensor_type: TensorType,
    /// Rows of all parts together (output elements).
    pub rows: u64,
    /// Columns (input elements), a multiple of 32.
    pub columns: u32,
    /// Where the rows come from, in row order.
    pub parts: Vec<MatrixPart>,
}

/// Rows of one tensor in a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixPart {
    /// Name in the file.
    pub tensor: String,
    /// The first row of the tensor that is used: files may keep `q|k|v` in one.
    pub first_row: u64,
    /// How many follow.
    pub rows: u64,
}

/// f32 constants, in file order of their parts.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorSpec {
    /// What it is, for people: `blk.0.attn_norm`.
    pub name: String,
    /// Tensors whose elements are concatenated (F32, F16 or BF16 in the file); lengths in elements.
    pub parts: Vec<VectorPart>,
}

/// A piece of a constant vector.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorPart {
    /// Name in the file; `None` means `len` zeros (a missing bias beside present ones).
    pub tensor: Option<String>,
    /// Elements.
    pub len: u32,
}

impl VectorSpec {
    /// Elements of all parts.
    pub fn len(&self) -> u32 {
        self.parts.iter().map(|p| p.len).sum()
    }
    /// True when it has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Which elements of a head rotate together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopePairing {
    /// Elements `2i` and `2i + 1` (llama files).
    Adjacent,
    /// Elements `i` and `i + dimensions / 2` (qwen, gemma).
    Halves,
}

/// A rotary position table: the angle of pair `i` at position `p` is `p * inverse_frequencies[i]`, and both
/// cosine and sine are multiplied by `magnitude`. All scaling rules are already applied.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeSpec {
    /// One per rotated pair, radians per position.
    pub inverse_frequencies: Vec<f64>,
    /// Other frequencies for contexts beyond the one that the model was first trained with.
    pub long: Option<LongRope>,
    /// YaRN's attention factor; 1 otherwise.
    pub magnitude: f64,
    /// Which elements form a pair.
    pub pairing: RopePairing,
    /// What queries are multiplied by at a position, beside rotating them.
    pub query_factor: Option<QueryFactor>,
}

/// Frequencies of a model that has a second set of them (phi3).
#[derive(Debug, Clone, PartialEq)]
pub struct LongRope {
    /// They apply when the context that is asked for is longer than this.
    pub beyond: u32,
    /// One per rotated pair, radians per position.
    pub inverse_frequencies: Vec<f64>,
}

/// A query at position `p` is multiplied by `1 + gain · ln(⌊p / period⌋ + 1)` (mistral3).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueryFactor {
    /// How fast it grows.
    pub gain: f64,
    /// Positions that share a factor; at least 1.
    pub period: u32,
}

impl QueryFactor {
    /// The factor of a position; `ln` is the caller's, so that all platforms use the same one.
    pub fn at(self, position: u32, ln: impl Fn(f64) -> f64) -> f64 {
        1.0 + self.gain * ln(f64::from(position / self.period.max(1)) + 1.0)
    }
}

impl RopeSpec {
    /// The frequencies for a context of this length.
    pub fn frequencies(&self, context_len: u32) -> &[f64] {
        match &self.long {
            Some(long) if context_len > long.beyond => &long.inverse_frequencies,
            _ => &self.inverse_frequencies,
        }
    }

    /// Entries of a position in a table of (cosine, sine): one per pair, then the query factor where there is
    /// one.
    pub fn row_len(&self) -> u32 {
        self.inverse_frequencies.len() as u32 + u32::from(self.query_factor.is_some())
    }
}

/// Over which elements a query or key norm takes its mean square.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormSpan {
    /// Each head by itself.
    Head,
    /// All heads of a token together, with a weight for each element (olmo2).
    Row,
}

/// Shape of a layer's attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionShape {
    /// Query heads.
    pub query_heads: u32,
    /// Key and value heads; divides `query_heads`.
    pub kv_heads: u32,
    /// Elements per head, a multiple of 8, at most 256.
    pub head_len: u32,
}

impl AttentionShape {
    /// Elements of the q|k|v row.
    pub fn qkv_len(self) -> u32 {
        (self.query_heads + 2 * self.kv_heads) * self.head_len
    }
    /// Elements of the query or attention output row.
    pub fn query_len(self) -> u32 {
        self.query_heads * self.head_len
    }
}

/// Gate function of the feed-forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateFunction {
    /// x · sigmoid(x).
    Silu,
    /// The tanh approximation of GELU.
    GeluTanh,
}

/// One operation on every row of a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// `output = scale * table[token]`.
    Embed {
        /// The embedding table, one row per token id.
        table: MatrixId,
        /// 1, or √width for gemma.
        scale: f32,
        /// The residual stream.
        output: ValueId,
    },
    /// `residual += delta_scale · norm(delta + delta_bias)`, where `norm` is that of `post_norm` or nothing;
    /// `output = quantise(rms_norm(residual) · weight)`.
    Normalize {
        /// The residual stream, read and written.
        residual: ValueId,
        /// What the last block adds.
        delta: Option<ValueId>,
        /// Bias of the matrix that wrote `delta`.
        delta_bias: Option<VectorId>,
        /// Norm weights applied to `delta` before it is added (gemma).
        post_norm: Option<VectorId>,
        /// Multiplies `delta`: 1, or granite's residual scale.
        delta_scale: f32,
        /// Norm weights; `None` only quantises (olmo2 and exaone4 have no norm here).
        weight: Option<VectorId>,
        /// Added to the mean square.
        epsilon: f32,
        /// Where the matrix kernels read it.
        output: ActivationId,
    },
    /// `output[offset .. offset + rows] = matrix · input`.
    Multiply {
        /// The weights.
        matrix: MatrixId,
        /// Its input row.
        input: ActivationId,
        /// Its output row.
        output: ValueId,
        /// First element written.
        output_offset: u32,
    },
    /// Splits `q|k|v`: adds the bias, normalises and rotates each query and key head, scales queries by
    /// `query_scale · log2(e)` and the position's query factor, writes keys and values to the cache of
    /// `layer`.
    Heads {
        /// Which cache.
        layer: u32,
        /// The q|k|v row.
        input: ValueId,
        /// q|k|v bias.
        bias: Option<VectorId>,
        /// Query norm weights: `head_len` elements, or one for each element of all heads.
        query_norm: Option<VectorId>,
        /// Key norm weights, likewise.
        key_norm: Option<VectorId>,
        /// What those norms span.
        norm_span: NormSpan,
        /// Epsilon of those norms.
        epsilon: f32,
        /// Position table; `None` leaves heads as they are (smollm3 in every fourth layer).
        rope: Option<RopeId>,
        /// Usually 1/√head_len.
        query_scale: f32,
        /// The query row.
        output: ValueId,
    },
    /// Softmax attention of the query rows over the cache of `layer`.
    Attend {
        /// Which cache.
        layer: u32,
        /// The query row, already scaled.
        query: ValueId,
        /// Positions seen, the current one included; `None` sees all.
        window: Option<u32>,
        /// `cap · tanh(score / cap)` before the softmax.
        soft_cap: Option<f32>,
        /// The attention output.
        output: ActivationId,
    },
    /// `output = quantise(function(gate) · up)` of a `gate|up` row, or `quantise(function(up))` of an `up` row.
    Activate {
        /// gate|up, each half of it, or up alone.
        input: ValueId,
        /// Added to the row first.
        bias: Option<VectorId>,
        /// Whether the row has a gate.
        gated: bool,
        /// The gate function.
        function: GateFunction,
        /// The feed-forward's inner row.
        output: ActivationId,
    },
}

/// A model as data: everything a machine needs to run it, and nothing about files or text.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// f32 rows.
    pub values: Vec<ValueSpec>,
    /// Rows that matrices read.
    pub activations: Vec<ActivationSpec>,
    /// Weight matrices.
    pub matrices: Vec<MatrixSpec>,
    /// Constant vectors.
    pub vectors: Vec<VectorSpec>,
    /// Position tables.
    pub ropes: Vec<RopeSpec>,
    /// Attention shape of each layer.
    pub layers: Vec<AttentionShape>,
    /// From token ids to the last normalised activation, in order.
    pub body: Vec<Op>,
    /// The language-model head: one `Multiply` of the last activation into the logits row.
    pub head: Op,
    /// Multiplies what the head gives: 1, or granite's.
    pub logits_scale: f32,
    /// Then `cap · tanh(logit / cap)`. Bias, penalties and sampling see what comes of both.
    pub logits_soft_cap: Option<f32>,
    /// Rows of the head that are token ids.
    pub vocabulary_len: u32,
    /// Longest context the file promises.
    pub context_len_max: u32,
}
