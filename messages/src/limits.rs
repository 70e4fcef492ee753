//! Every limit and capacity of the engine, each with its reason. Nothing in Fanlight grows without one of
//! these.

use crate::control::WINDOWS_IN_FLIGHT;

// --- GPU memory ---

/// Bytes of file data that one upload may carry: large enough that the queue's cost per write vanishes, small
/// enough that those of the reads under way are noise beside any model.
pub const LANDING_BYTES: u64 = 8 << 20;
/// Bytes of one upload: what a landing buffer holds beside a start that is not a multiple of four.
pub const UPLOAD_BYTES_MAX: u64 = LANDING_BYTES - 4;
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
/// Bytes of the fault flag: one word, at the size of the smallest useful allocation.
pub const FAULT_BYTES: u64 = 16;
/// Pages of one model: at 128 MiB each this is 8 TiB, far beyond any file, so a larger count is a broken
/// header.
pub const PAGES_MAX: u64 = 65_536;
/// Places of the ring that pages stream through: one is filled while the device multiplies with the other.
/// The queue runs in order, so more would hold nothing that the host's read-ahead does not.
pub const RING_SLOTS: u32 = 2;
/// Smallest page that streams, unless a matrix is smaller: below it a pass is made of submissions.
pub const PAGE_BYTES_MIN: u64 = 4 << 20;
/// Largest page that streams: a stop waits for the page under way.
pub const PAGE_BYTES_MAX: u64 = 64 << 20;
/// Plans tried in one load, each at least a quarter smaller than what the device refused: from 24 GiB to 1.
pub const PLANS_MAX: u32 = 12;
/// Longest context served: beyond it the attention partials no longer fit one default binding.
pub const CONTEXT_LEN_MAX: u32 = 32_768;
/// Heads of a layer, and elements of a head: eight times the largest published model.
pub const HEADS_MAX: u32 = 1024;

// --- Requests ---

/// Shortest context served: below it a chat template alone may not fit.
pub const CONTEXT_LEN_MIN: u32 = 256;
/// Context when the host names none.
pub const CONTEXT_LEN_DEFAULT: u32 = 4096;
/// Most tokens of a reply: the longest context.
pub const REPLY_TOKENS_MAX: u32 = CONTEXT_LEN_MAX;
/// Stop texts of one request: as many as the widest public interface allows.
pub const STOPS_MAX: usize = 16;
/// Bytes of one stop text: what is held back can never be longer.
pub const STOP_BYTES_MAX: usize = 1024;
/// Characters of one message: 32 for every token of the longest context.
pub const MESSAGE_CHARS_MAX: u64 = 1 << 20;

// --- Queues ---

/// Hosts that are reckoned with: a page, and a panel or relay beside it. More only wait longer.
pub const HOSTS: usize = 2;
/// Requests that wait for the engine: of each host one that is being heard and one behind it.
pub const ENGINE_INBOX: usize = HOSTS + HOSTS;
/// Cancels that wait: one per host; a second of the same host tells nothing new.
pub const ENGINE_CONTROL: usize = HOSTS;
/// Requests to the pager: the engine asks one at a time and may close while one runs.
pub const PAGER_INBOX: usize = 1 + 1;
/// Requests to the submitter: one upload in flight, one behind it or embedding rows, and one run.
pub const SUBMITTER_INBOX: usize = 1 + 1 + 1;
/// Unread demands of a run whose weights stream: its start, and the rows of the step under way.
pub const DEMANDS: usize = 1 + 1;
/// Reads of weights under way: what keeps a fast disk busy, and hides the round trips to a server. Each has a
/// buffer of `LANDING_BYTES`.
pub const READS_IN_FLIGHT: usize = 4;
/// Microseconds between two reports of how far a pass is.
pub const PASS_REPORT_US: u64 = 100_000;
/// Control requests: a pause of the run, its end, and a question for the adapter.
pub const SUBMITTER_CONTROL: usize = 1 + 1 + 1;
/// Unread events of a run: every submission in flight has its place before it is submitted, and one more may
/// wait for the engine.
pub const RUN_EVENTS: usize = WINDOWS_IN_FLIGHT as usize + 1;
/// Unread events of a reply: eight windows of text, and the end, every resume and what a run may still tell
/// when it is paused, whose places are reserved when the reply begins. When it is full, no further window is
/// submitted.
pub const REPLY_EVENTS: usize = 8 + 1 + RESUMES_MAX as usize + RUN_EVENTS;
/// Requests to the memory: the engine asks one at a time, and a reset may follow at once.
pub const MEMORY_INBOX: usize = 1 + 1;
/// Samples that wait for the controller or telemetry; more are dropped and counted.
pub const SAMPLES: usize = 32;
/// Control requests of an actor that only hears samples: a snapshot for each of two hosts.
pub const SAMPLES_CONTROL: usize = HOSTS;
/// Ends of actors that nobody has read: one per actor of an engine.
pub const EXITS: usize = 6;

// --- Compiling and comparing pipelines ---

/// Of the time since a reply first wanted a width that is not compiled, compiling it takes one part in so
/// many: a first reply is at most so much slower than plain decoding.
pub const COMPILE_SHARE: u64 = 10;

/// Tokens with which pipelines are compared before they are used: the widest step, and a tail of a prompt.
pub const CHECK_TOKENS: u32 = 45;
/// Memory for comparing them, beside what the inputs of so many tokens take: the cache of a head, some rows
/// of weights and the results. While pipelines are compared no upload is under way, so that they share the
/// staging of the plan.
pub const CHECK_BYTES: u64 = 8 << 20;

// --- Lost devices ---

/// How long a lost device is waited for, milliseconds: a driver that restarts is back within a few seconds.
pub const REOPEN_MS_MAX: u64 = 10_000;
/// Milliseconds between two tries.
pub const REOPEN_PAUSE_MS: u64 = 250;
/// Times that one reply is resumed: a device that is lost more often is lost by what the reply does.
pub const RESUMES_MAX: u32 = 3;

// --- Telemetry ---

/// Samples that the trace keeps: half a second of the shortest windows, a few minutes of long ones, 200 KiB.
pub const TRACE_SAMPLES: usize = 1024;
/// Parts that a snapshot cuts the weights into to say where they are: what a strip on a screen can show.
pub const PAGE_MAP_CELLS: usize = 128;
/// Characters that are kept of an actor's last error: a sentence, and no file of a hostile host's.
pub const ERROR_CHARS: usize = 256;

/// Changes of width that the controller keeps for telemetry: some tens of replies that settle, 1 KiB.
pub const WIDTH_CHANGES: usize = 64;

// --- Windows ---

/// Predicted GPU time of one submission, microseconds: a tenth of the shortest watchdog in use (2 s), so that
/// even a prediction that is far off does not lose the device.
pub const SUBMISSION_US_MAX: u64 = 200_000;
/// What a prompt token is thought to take before one was measured, microseconds: a large model on a small
/// GPU. A thought that is too slow splits one batch into more submissions than it needs.
pub const PROMPT_TOKEN_US_UNKNOWN: u64 = 20_000;
/// The same for a plain step.
pub const STEP_US_UNKNOWN: u64 = 400_000;
/// A frame of a page that draws sixty times a second, microseconds.
pub const FRAME_US: u64 = 1_000_000 / 60;
/// Time that measuring between requests may take for one loaded model, microseconds; beyond it costs are
/// learned in use.
pub const CALIBRATION_US_MAX: u64 = 2_000_000;
