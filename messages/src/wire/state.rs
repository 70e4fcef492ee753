//! The adapter, the model, the controller and the actors as they leave the engine.

use serde::Serialize;
use tsify::Tsify;

use super::nodes;
use crate::device::{AdapterFacts, Purpose, Quarantined};
use crate::plan::BUFFER_CLASSES;
use crate::protocol::controller::{ControllerSnapshot, CostsSnapshot, MatchSnapshot};
use crate::protocol::telemetry::{ActorState, LaneState, ModelFacts, Pages};

/// What computes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct AdapterWire {
    /// Name that the driver or browser gives.
    pub name: String,
    /// `vulkan`, `metal`, `dx12`, `webgpu` …
    pub backend: String,
    /// Driver and version, as far as the platform tells.
    pub driver: String,
    /// True when a processor computes in place of a GPU.
    pub is_software: bool,
    /// Largest storage binding, bytes.
    pub binding_bytes_max: u64,
    /// True when four-way int8 dot products are an instruction.
    pub has_packed_dot: bool,
}

impl From<&AdapterFacts> for AdapterWire {
    fn from(facts: &AdapterFacts) -> Self {
        let AdapterFacts { name, backend, driver, kind, binding_bytes_max, has_packed_dot } = facts.clone();
        Self { name, backend, driver, is_software: kind.is_software(), binding_bytes_max, has_packed_dot }
    }
}

/// Pipelines that must not be used: what they compute is not, in every bit, what plain decoding computes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
pub struct QuarantinedWire {
    /// Nodes of the steps that do without them; 0 where they are those of prompts.
    pub nodes: u32,
    /// Which comparison failed, and its first difference.
    pub evidence: String,
}

impl From<&Quarantined> for QuarantinedWire {
    fn from(found: &Quarantined) -> Self {
        let nodes = match found.purpose {
            Purpose::Prompts => 0,
            Purpose::Tree(nodes) => nodes,
        };
        Self { nodes, evidence: found.evidence.clone() }
    }
}

/// The loaded model and where its bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct ModelWire {
    /// `general.name` of the file, or empty.
    pub name: String,
    /// Tokens of the context.
    pub context_len: u32,
    /// Prompt tokens per batch.
    pub batch_tokens: u32,
    /// What it may take on the device; absent for as much as the device gives.
    #[tsify(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_bytes: Option<u64>,
    /// Bytes of host memory that may keep pages between passes.
    pub cache_bytes: u64,
    /// Bytes on the device by what they hold.
    pub ledger: LedgerWire,
    /// Pages that stay on the device.
    pub resident: PagesWire,
    /// Pages that stream, as they lie on the device while they are there.
    pub streaming: PagesWire,
    /// Places that they stream through.
    pub slots: PagesWire,
    /// Bytes of the files that a pass reads.
    pub pass_bytes: u64,
    /// The weights in the order of the model, in parts of equally many pages: thousandths of the bytes of
    /// each that stay on the device.
    pub map: Vec<u16>,
}

impl From<&ModelFacts> for ModelWire {
    fn from(facts: &ModelFacts) -> Self {
        Self {
            name: facts.name.clone(),
            context_len: facts.context_len,
            batch_tokens: facts.batch_tokens,
            budget_bytes: facts.budget_bytes,
            cache_bytes: facts.cache_bytes,
            ledger: facts.ledger.into(),
            resident: facts.resident.into(),
            streaming: facts.streaming.into(),
            slots: facts.slots.into(),
            pass_bytes: facts.pass_bytes,
            map: facts.map.clone(),
        }
    }
}

/// Bytes on the device by what they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct LedgerWire {
    /// Weights that stay there.
    pub weights: u64,
    /// What weights stream through.
    pub streaming: u64,
    /// Constant vectors and rotary tables.
    pub constants: u64,
    /// Keys and values.
    pub cache: u64,
    /// What a pass computes with.
    pub scratch: u64,
    /// Session memory, the context's tokens and the draft tree.
    pub drafting: u64,
    /// What bytes pass on their way to the device and back.
    pub transfer: u64,
    /// All of it.
    pub total: u64,
}

impl From<[u64; BUFFER_CLASSES.len()]> for LedgerWire {
    /// From the order of [`BUFFER_CLASSES`].
    fn from(bytes: [u64; BUFFER_CLASSES.len()]) -> Self {
        let [weights, streaming, constants, cache, scratch, drafting, transfer] = bytes;
        let total = bytes.iter().sum();
        Self { weights, streaming, constants, cache, scratch, drafting, transfer, total }
    }
}

/// So many pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tsify)]
pub struct PagesWire {
    /// Pages.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl From<Pages> for PagesWire {
    fn from(Pages { count, bytes }: Pages) -> Self {
        Self { count, bytes }
    }
}

/// What the controller knows and does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct ControllerWire {
    /// Costs as the request found them.
    pub measured: CostsWire,
    /// Costs as they are now.
    pub online: CostsWire,
    /// Windows so far: plain ones, then of 1, 2, 4, 8, 16 and 32 nodes.
    pub windows_by_width: [u64; 7],
    /// The last changes of width.
    pub widths: Vec<WidthWire>,
    /// Drafts that could be judged, by length of the longest match, 0 to 8.
    pub acceptance: [MatchWire; 9],
    /// Windows that were probes.
    pub probes: u64,
    /// What they lost against plain decoding, microseconds; negative where they gained.
    pub probe_loss_us: i64,
}

/// A change of width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tsify)]
pub struct WidthWire {
    /// Tokens emitted before it.
    pub token: u64,
    /// Nodes of a step from then on; 0 is plain decoding.
    pub width: u32,
}

/// Drafts of one match length that could be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct MatchWire {
    /// Steps.
    pub steps: u64,
    /// Nodes that were looked at, each as far as it was promised, in thousandths.
    pub promised_milli: u64,
    /// Nodes that were right.
    pub right: u64,
}

impl From<MatchSnapshot> for MatchWire {
    fn from(MatchSnapshot { steps, promised_milli, right }: MatchSnapshot) -> Self {
        Self { steps, promised_milli, right }
    }
}

/// Microseconds of a step, 0 where it was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct CostsWire {
    /// A plain step in windows of 1, 2 and 4 steps.
    pub plain_us: [u64; 3],
    /// A step of 1, 2, 4, 8, 16 and 32 nodes, without the window's own cost.
    pub tree_us: [u64; 6],
}

impl From<CostsSnapshot> for CostsWire {
    fn from(CostsSnapshot { plain_us, tree_us }: CostsSnapshot) -> Self {
        Self { plain_us, tree_us }
    }
}

impl From<&ControllerSnapshot> for ControllerWire {
    fn from(snapshot: &ControllerSnapshot) -> Self {
        let width = |(token, width): &(u64, _)| WidthWire { token: *token, width: nodes(*width) };
        Self {
            measured: snapshot.measured.into(),
            online: snapshot.online.into(),
            windows_by_width: snapshot.windows_by_width,
            widths: snapshot.widths.iter().map(width).collect(),
            acceptance: snapshot.acceptance.map(Into::into),
            probes: snapshot.probes,
            probe_loss_us: snapshot.probe_loss_us,
        }
    }
}

/// An actor as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct ActorWire {
    /// Which.
    pub name: String,
    /// Its control lane.
    pub control: LaneWire,
    /// Its inbox.
    pub inbox: LaneWire,
    /// The last thing that failed in it, or empty. It may name a file.
    pub last_error: String,
}

impl From<&ActorState> for ActorWire {
    fn from(state: &ActorState) -> Self {
        Self {
            name: state.name.to_owned(),
            control: state.control.into(),
            inbox: state.inbox.into(),
            last_error: state.last_error.clone(),
        }
    }
}

/// A lane of a mailbox as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct LaneWire {
    /// Places.
    pub capacity: u64,
    /// Messages that wait to be read.
    pub depth: u64,
    /// Most of them at once.
    pub depth_max: u64,
    /// Senders that had to wait for a place.
    pub waits: u64,
    /// Messages that found no place and were dropped.
    pub drops: u64,
}

impl From<LaneState> for LaneWire {
    fn from(LaneState { capacity, depth, depth_max, waits, drops }: LaneState) -> Self {
        Self { capacity, depth, depth_max, waits, drops }
    }
}
