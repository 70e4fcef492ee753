//! Limits of hyper-parameters, each with its reason. With them, every length below fits 32 bits.

/// Layers. The deepest published decoders have fewer than 200.
pub const LAYERS_MAX: u32 = 1_024;
/// Elements of the residual stream. The widest published decoders have 16,384.
pub const WIDTH_MAX: u32 = 65_536;
/// Query heads of a layer. The widest published decoders have 128.
pub const HEADS_MAX: u32 = 1_024;
/// Elements of a head: what the attention kernels keep in workgroup memory.
pub const HEAD_LEN_MAX: u32 = 256;
/// Head lengths are multiples of this: the attention kernels read two vectors of four at a time.
pub const HEAD_LEN_STEP: u32 = 8;
/// Elements of the feed-forward's inner row. The widest published decoders have 53,248.
pub const FEED_FORWARD_MAX: u32 = 1 << 20;
/// Token ids. The largest published vocabularies have 262,208.
pub const VOCABULARY_MAX: u32 = 1 << 22;
/// Tokens of a promised context; the engine allows far fewer.
pub const CONTEXT_MAX: u32 = 1 << 30;
