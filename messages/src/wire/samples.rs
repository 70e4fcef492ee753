//! Samples as they leave the engine.

use serde::Serialize;
use tsify::Tsify;

use super::nodes;
use crate::protocol::telemetry::{Gap, Phases, Piece, PieceKind, RecordSample, Reply};

/// One sample of the trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SampleWire {
    /// A prompt batch or a window.
    Piece {
        /// Which of them.
        what: PieceKindWire,
        /// Nodes of a window's steps; 0 is plain decoding.
        width: u32,
        /// Steps of a window, 0 of a prompt batch.
        steps: u32,
        /// Those that did something.
        live_steps: u32,
        /// Tokens of the batch, or tokens that the window emitted.
        tokens: u32,
        /// Tokens per second that were expected of it; 0 where that was not known.
        expected_tokens_per_s: u32,
        /// When it was submitted.
        submitted_us: u64,
        /// When the device began with it.
        began_us: u64,
        /// When the host heard that it was complete.
        completed_us: u64,
        /// Why nothing was in flight before it.
        gap: GapWire,
        /// Where weights stream: how long, within it, a page was waited for.
        #[tsify(optional)]
        #[serde(skip_serializing_if = "Option::is_none")]
        starved_us: Option<u64>,
    },
    /// A stretch of the weights was uploaded.
    Upload {
        /// When.
        at_us: u64,
        /// Bytes in file format.
        bytes: u64,
        /// Microseconds from read to upload.
        elapsed_us: u64,
    },
    /// The pages of a pass were read.
    PassRead {
        /// When.
        at_us: u64,
        /// Bytes from the source.
        read_bytes: u64,
        /// Bytes that host memory had kept.
        cached_bytes: u64,
        /// Bytes that host memory keeps now.
        kept_bytes: u64,
        /// Microseconds for which pages waited for a free slot.
        waited_us: u64,
    },
    /// The first token of a reply was shown.
    FirstToken {
        /// Where the time went.
        phases: PhasesWire,
    },
    /// A reply ended.
    Reply {
        /// When.
        at_us: u64,
        /// Tokens of it.
        tokens: u32,
        /// Microseconds from the request to the first token; absent when none was shown.
        #[tsify(optional)]
        #[serde(skip_serializing_if = "Option::is_none")]
        first_token_us: Option<u64>,
        /// Microseconds from the request to the end.
        elapsed_us: u64,
        /// Tokens that session memory brought to draft from.
        memory_tokens: u32,
        /// Drafted tokens that were accepted.
        accepted_tokens: u32,
    },
}

impl SampleWire {
    /// A sample that arrived at `at_us`.
    pub fn new(at_us: u64, sample: RecordSample) -> Self {
        match sample {
            RecordSample::Piece(piece) => piece.into(),
            RecordSample::Upload { bytes, elapsed_us } => Self::Upload { at_us, bytes, elapsed_us },
            RecordSample::PassRead { read_bytes, cached_bytes, kept_bytes, waited_us } => {
                Self::PassRead { at_us, read_bytes, cached_bytes, kept_bytes, waited_us }
            }
            RecordSample::FirstToken(phases) => Self::FirstToken { phases: phases.into() },
            RecordSample::Reply(reply) => {
                let Reply { tokens, first_token_us, elapsed_us, memory_tokens, accepted_tokens } = reply;
                Self::Reply { at_us, tokens, first_token_us, elapsed_us, memory_tokens, accepted_tokens }
            }
        }
    }
}

impl From<Piece> for SampleWire {
    fn from(piece: Piece) -> Self {
        Self::Piece {
            what: piece.kind.into(),
            width: nodes(piece.width),
            steps: piece.steps,
            live_steps: piece.live_steps,
            tokens: piece.tokens,
            expected_tokens_per_s: piece.expected_tokens_per_s,
            submitted_us: piece.submitted_us,
            began_us: piece.began_us,
            completed_us: piece.completed_us,
            gap: piece.gap.into(),
            starved_us: piece.starved_us,
        }
    }
}

/// What a piece of a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub enum PieceKindWire {
    /// A prompt batch.
    Prompt,
    /// A window of steps.
    Window,
    /// It measures what windows cost, and nobody sees its tokens.
    Measurement,
}

impl From<PieceKind> for PieceKindWire {
    fn from(kind: PieceKind) -> Self {
        match kind {
            PieceKind::Prompt => Self::Prompt,
            PieceKind::Window => Self::Window,
            PieceKind::Measurement => Self::Measurement,
        }
    }
}

/// Microseconds for which nothing was in flight, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct GapWire {
    /// Nobody had asked for anything.
    pub idle_us: u64,
    /// The prompt was made into tokens and memory recalled.
    pub prepare_us: u64,
    /// Pipelines were compiled.
    pub compile_us: u64,
    /// The host read what came and recorded what follows.
    pub host_us: u64,
    /// The reader of the reply had not read what was there.
    pub consumer_us: u64,
    /// The frame budget left the rest of a frame to others.
    pub rest_us: u64,
}

impl From<Gap> for GapWire {
    fn from(gap: Gap) -> Self {
        let Gap { idle_us, prepare_us, compile_us, host_us, consumer_us, rest_us } = gap;
        Self { idle_us, prepare_us, compile_us, host_us, consumer_us, rest_us }
    }
}

/// Where the time from the request to the first token went, microseconds of wall time; the phases follow each
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct PhasesWire {
    /// When the first token was shown.
    pub shown_at_us: u64,
    /// From the request, as the host dates it, until the engine heard it.
    pub queue_us: u64,
    /// The chat template and the tokenizer.
    pub tokenise_us: u64,
    /// Recalling session memory, and bringing back a device that had been lost.
    pub recall_us: u64,
    /// Until the device began: compiling pipelines, writing the control block.
    pub compile_us: u64,
    /// Prompt batches.
    pub prefill_us: u64,
    /// Text, and handing it over.
    pub show_us: u64,
    /// The sum.
    pub total_us: u64,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Those of them that the cache held.
    pub reused_tokens: u32,
}

impl From<Phases> for PhasesWire {
    fn from(phases: Phases) -> Self {
        Self {
            shown_at_us: phases.shown_at_us,
            queue_us: phases.queue_us,
            tokenise_us: phases.tokenise_us,
            recall_us: phases.recall_us,
            compile_us: phases.compile_us,
            prefill_us: phases.prefill_us,
            show_us: phases.show_us,
            total_us: phases.total_us(),
            prompt_tokens: phases.prompt_tokens,
            reused_tokens: phases.reused_tokens,
        }
    }
}
