//! Every limit and capacity of the engine, each with its reason. Nothing in Fanlight grows without one of these.

use crate::control::WINDOWS_IN_FLIGHT;

// --- GPU memory -----------------------------------------------------------------------------------------------

/// Bytes of file data that one upload may carry: large enough that the queue's cost per write vanishes, small
/// enough that two of them are noise beside any model.
pub const LANDING_BYTES: u64 = 16 << 20;
/// Bytes of host-visible staging: one landing buffer's worth, filled while the landing buffer is repacked.
pub const STAGING_BYTES: u64 = LANDING_BYTES;
/// Host-visible copies of the control block: one per window in flight and one that the host still reads.
pub const READBACK_SLOTS: u32 = WINDOWS_IN_FLIGHT + 1;
/// Bytes of attention partials the plan aims for; more rows per dispatch than this buys nothing.
pub const PARTIAL_BYTES_TARGET: u64 = 32 << 20;
/// Bytes a kernel's parameter record may take: WebGPU's default `minUniformBufferOffsetAlignment`.
pub const PARAM_RECORD_BYTES: u64 = 256;
/// Workgroups per logits row that find a maximum; each leaves one 16-byte record.
pub const CHOICE_SLICES: u64 = 64;
/// Bytes of one such record: value, index, hash, spare.
pub const CHOICE_RECORD_BYTES: u64 = 16;
/// Pages of one model: at 128 MiB each this is 8 TiB, far beyond any file, so a larger count is a broken header.
pub const PAGES_MAX: u64 = 65_536;
/// Longest context served: beyond it the attention partials no longer fit one default binding.
pub const CONTEXT_LEN_MAX: u32 = 32_768;
/// Heads of a layer, and elements of a head: eight times the largest published model.
pub const HEADS_MAX: u32 = 1024;
