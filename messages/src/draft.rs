//! What the drafter, its kernels and the control block agree on: sizes, and the buffers of a draft.
//!
//! ```text
//! History buffer (u32 token ids)
//!   0..MEMORY_TOKENS          session memory, newest last, SEPARATOR between replies and behind the last
//!   MEMORY_TOKENS + p         the token at position p of the context
//!
//! Draft buffer (u32 words)
//!   0            nodes, the root included
//!   1            length of the longest match
//!   2..7         expected accepted nodes, 16.16, of the first 1, 3, 7, 15 and 31 drafted nodes
//!   7            nodes visited by the accept walk; 0 when there is nothing to learn
//!   8..17        choice at each visited node, the root's first
//!   17..26       the visited nodes themselves
//!   26..50       reliabilities, 0.16: [order 1..=8][Evidence]
//!   64..         per node: parent, probability (0.16), and three byte-per-order records of two words each:
//!                matches that passed through it, matches that went on from it, and (first word only) the
//!                orders at which those disagree
//! ```

use crate::control::TOKENS_PER_STEP_MAX;
use crate::device::AdapterKind;

/// Longest suffix of the context that is matched, in tokens: one order each.
pub const ORDERS: u32 = 8;
/// Deepest node of a tree.
pub const DEPTH_MAX: u32 = 8;
/// Nodes of a tree, the root included: the widest decode bucket.
pub const NODES_MAX: u32 = 32;
/// Tokens of session memory that are searched.
pub const MEMORY_TOKENS: u32 = 32_768;
/// Stands between replies in the memory: no vocabulary has this id.
pub const SEPARATOR: u32 = u32::MAX;
/// Positions searched by one workgroup.
pub const SCAN_POSITIONS: u32 = 1024;
/// Matches that one workgroup keeps.
pub const SCAN_KEPT: u32 = 16;
/// Matches that a tree is made from.
pub const MATCHES_MAX: u32 = 64;
/// Kinds of evidence that an order's reliability is learned for: one match, several that agree, several that
/// disagree.
pub const EVIDENCES: u32 = 3;

/// Probability that is left to tokens that no match tells, 0.16: a thousandth.
pub const FLOOR: u32 = 64;
/// An observation moves a reliability by this part (a power of two) of what it was off by.
pub const RATE_SHIFT: u32 = 5;
/// Where learning starts, 0.16, by order and evidence. Learned from the replies of one model to the learning
/// half of the workload; what is learned in use soon replaces it.
pub const RELIABILITIES: [[u32; EVIDENCES as usize]; ORDERS as usize] = [
    [42_326, 61_725, 36_782],
    [17_425, 41_857, 13_354],
    [13_160, 34_147, 9_595],
    [9_584, 28_879, 7_944],
    [10_767, 20_990, 3_943],
    [12_121, 24_338, 12_161],
    [12_040, 25_069, 29_203],
    [15_446, 23_908, 21_625],
];

/// Words per node of the ancestor table: the node at each depth from the root on, itself included, then its
/// own depth.
pub const ANCESTOR_STRIDE: u32 = 33;
/// Bytes of the ancestor table.
pub const ANCESTOR_BYTES: u64 = 4 * (NODES_MAX * ANCESTOR_STRIDE) as u64;
/// Widths of a tree step, the root included: the decode buckets.
pub const WIDTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// The session memory as it lies in the history, right before the context: the newest of its tokens, and a
/// separator behind them so that the context never continues what memory ends with.
pub fn memory_words(memory: &[u32]) -> Vec<u32> {
    let memory = memory.strip_suffix(&[SEPARATOR]).unwrap_or(memory);
    let oldest = memory.len().saturating_sub(MEMORY_TOKENS as usize - 1);
    [&memory[oldest..], &[SEPARATOR]].concat()
}

/// How many nodes a step verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Width {
    /// One token, and nothing is drafted.
    #[default]
    Off,
    /// A draft tree of at most this many nodes, the root included: one of [`WIDTHS`].
    Nodes(u32),
}

impl Width {
    /// Rows of a step.
    pub fn rows(self) -> u32 {
        match self {
            Self::Off => 1,
            Self::Nodes(nodes) => nodes,
        }
    }

    /// Most tokens that a step of this width emits.
    pub fn tokens_max(self) -> u32 {
        self.rows().min(TOKENS_PER_STEP_MAX)
    }
}

/// How the width of a reply's steps is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WidthPolicy {
    /// Every step has this width.
    Fixed(Width),
    /// The controller chooses for every window from what widths cost and what drafts were worth.
    Auto {
        /// The widest step that it may choose: one of [`WIDTHS`].
        max: u32,
    },
}

impl Default for WidthPolicy {
    fn default() -> Self {
        Self::Fixed(Width::Off)
    }
}

impl WidthPolicy {
    /// What hosts ask for when nothing else is said. On a processor that computes in place of a GPU nothing
    /// is drafted: there one pipeline takes as long to compile as many replies take to decode.
    pub fn for_adapter(kind: AdapterKind) -> Self {
        if kind.is_software() { Self::Fixed(Width::Off) } else { Self::Auto { max: NODES_MAX } }
    }

    /// Every width that a step may have.
    pub fn widths(self) -> impl Iterator<Item = Width> {
        let (fixed, max) = match self {
            Self::Fixed(width) => (Some(width), 0),
            Self::Auto { max } => (None, max),
        };
        let chosen = WIDTHS.into_iter().take_while(move |nodes| *nodes <= max).map(Width::Nodes);
        let off = fixed.is_none().then_some(Width::Off);
        fixed.into_iter().chain(off).chain(chosen)
    }

    /// The same among widths of at most `nodes`: what is fixed and wider is plain.
    pub fn within(self, nodes: u32) -> Self {
        match self {
            Self::Fixed(Width::Nodes(wanted)) if wanted > nodes => Self::Fixed(Width::Off),
            Self::Fixed(width) => Self::Fixed(width),
            Self::Auto { max } => Self::Auto { max: max.min(nodes) },
        }
    }

    /// The width that a plan asks for where it is allowed, else the plainest that is.
    pub fn limit(self, wanted: Width) -> Width {
        match self {
            Self::Fixed(width) => width,
            Self::Auto { max } if wanted.rows() <= max => wanted,
            Self::Auto { .. } => Width::Off,
        }
    }
}

/// Word offset of the expected accepted nodes by width.
pub const EXPECTED_WORD: u32 = 2;
/// Word offset of the number of visited nodes.
pub const VISITED_WORD: u32 = 7;
/// Word offset of the choices at visited nodes.
pub const CHOICES_WORD: u32 = 8;
/// Word offset of the visited nodes.
pub const PATH_WORD: u32 = CHOICES_WORD + DEPTH_MAX + 1;
/// Word offset of the reliabilities.
pub const RELIABILITY_WORD: u32 = PATH_WORD + DEPTH_MAX + 1;
/// Word offset of the node records.
pub const NODES_WORD: u32 = 64;
/// Words of a node record.
pub const NODE_WORDS: u32 = 8;
/// Bytes of the draft buffer.
pub const DRAFT_BYTES: u64 = 4 * (NODES_WORD + NODES_MAX * NODE_WORDS) as u64;
/// Workgroups of the widest scan: memory and the longest context.
pub const SCAN_GROUPS_MAX: u32 = (MEMORY_TOKENS + crate::limits::CONTEXT_LEN_MAX) / SCAN_POSITIONS;
/// Bytes of the matches that the scan leaves.
pub const MATCHES_BYTES: u64 = 4 * (SCAN_GROUPS_MAX * SCAN_KEPT) as u64;
