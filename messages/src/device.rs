//! What the engine and a device say to each other about an adapter, a request and a finished submission.

use std::fmt;
use std::rc::Rc;

use crate::control::{ControlBlock, StepRecord};
use crate::draft::Width;
use crate::sampling::Sampling;

/// What is known of the machine that runs a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterFacts {
    /// Name that the driver gives.
    pub name: String,
    /// `vulkan`, `metal`, `dx12`, `webgpu` …
    pub backend: String,
    /// Driver and version, as far as the platform tells.
    pub driver: String,
    /// What computes.
    pub kind: AdapterKind,
    /// Largest storage binding in bytes.
    pub binding_bytes_max: u64,
    /// True when four-way int8 dot products are an instruction.
    pub has_packed_dot: bool,
}

/// What computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdapterKind {
    /// A GPU.
    Gpu,
    /// A driver that runs the GPU's kernels on the processor: for tests, and much too slow for people.
    SoftwareGpu,
    /// The processor, with kernels of its own.
    Cpu,
}

impl AdapterKind {
    /// True where a processor stands in for a GPU: a pipeline takes seconds to compile, a token a tenth of one.
    pub fn is_software(self) -> bool {
        self == Self::SoftwareGpu
    }
}

/// Pipelines that this device must not use: what they compute is not, in every bit, what plain decoding
/// computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// What they were to be used for.
    pub purpose: Purpose,
    /// Which comparison failed, and its first difference.
    pub evidence: String,
}

/// What pipelines beside those of plain decoding are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Prompt batches. Without them prompts are evaluated token by token.
    Prompts,
    /// Steps that verify a tree of so many nodes. Without them steps are narrower.
    Tree(u32),
}

impl fmt::Display for Quarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.purpose {
            Purpose::Prompts => write!(f, "prompts are read token by token, which is slow: ")?,
            Purpose::Tree(nodes) => write!(f, "steps of {nodes} nodes and more are not used: ")?,
        }
        write!(f, "this gpu gives other bits for them than for single tokens ({}); ", self.evidence)?;
        f.write_str("replies are right, and another driver may make them faster")
    }
}

/// How far pipelines are that steps of a width need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preparation {
    /// More are to be compiled.
    Going,
    /// All exist and agree with plain decoding.
    Done,
    /// They differ from plain decoding: the width cannot be used.
    Refused(Quarantined),
}

/// What the control block of a request starts with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestSetup {
    /// Ids that end the reply, at most [`END_IDS_MAX`](crate::control::END_IDS_MAX).
    pub end_ids: Vec<u32>,
    /// Positions the request may use.
    pub context_len: u32,
    /// Tokens it may emit, at least 1.
    pub token_limit: u32,
    /// Whether every chosen logits row is folded into the hash.
    pub hash_logits: bool,
    /// Where the hash starts: 0, or what it was when an interrupted reply goes on.
    pub hash: u32,
    /// Replies that drafts may be made from, newest last, a
    /// [`SEPARATOR`](crate::draft::SEPARATOR) behind each. They never change what is decoded.
    pub memory: Rc<[u32]>,
    /// How tokens are chosen.
    pub sampling: Rc<Sampling>,
    /// Position of the reply's first token: what lies before is its prompt, also when an interrupted reply
    /// goes on.
    pub generated_from: u32,
}

/// What a pass evaluates whose weights stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassWork<'a> {
    /// Prompt tokens at positions `base..`; with `choose` the last one picks the first token of the reply.
    Prompt {
        /// First position.
        base: u32,
        /// The tokens.
        tokens: &'a [u32],
        /// Whether a token is chosen.
        choose: bool,
    },
    /// A decode step of a prepared width.
    Step(Width),
}

/// A finished submission: a prompt batch or a window of steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowReport {
    /// The control block after it.
    pub control: ControlBlock,
    /// Tokens emitted since the report before; an end token is never among them.
    pub tokens: Vec<u32>,
    /// The hash after each of those tokens; meaningful when the request hashes logits.
    pub hashes: Vec<u32>,
    /// The live steps since the report before.
    pub steps: Vec<StepRecord>,
    /// Dispatches it took.
    pub dispatches: u32,
}
