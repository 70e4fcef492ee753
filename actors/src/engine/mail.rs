//! What hosts ask of the engine, and whom it asks and tells.

use fanlight_messages::protocol::engine::*;
use fanlight_messages::protocol::memory::ForgetMemory;

use crate::controller::ControllerMail;
use crate::kit::{Addr, Clock, Latch, StreamSender, mail};
use crate::memory::MemoryMail;
use crate::pager::PagerMail;
use crate::source::NamedSource;
use crate::submitter::SubmitterMail;
use crate::telemetry::TelemetryLink;

mail! {
    /// What hosts ask.
    pub enum EngineMail {
        asked {
            /// See [`Cancel`].
            Cancel(Cancel),
            /// See [`Reset`].
            Reset(Reset),
            /// See [`ForgetMemory`].
            Forget(ForgetMemory),
            /// See [`Unload`].
            Unload(Unload),
            /// See [`Tokenize`].
            Tokenize(Tokenize),
            /// See [`Detokenize`].
            Detokenize(Detokenize),
        }
        asked_with {
            /// See [`Load`]; beside it the files, and where progress is latched.
            Load(Load, Vec<NamedSource>, Latch<LoadProgress>),
            /// See [`SetBudget`]; beside it, where progress is latched.
            Budget(SetBudget, Latch<LoadProgress>),
            /// See [`Generate`]; beside it, where its events go, and when it was asked.
            Generate(Generate, StreamSender<GenerationEvent>, u64),
        }
    }
}

/// Whom the engine asks and tells.
#[derive(Clone)]
pub struct EngineLinks {
    /// Files and memory.
    pub pager: Addr<PagerMail>,
    /// The device.
    pub submitter: Addr<SubmitterMail>,
    /// The plan of windows.
    pub controller: Addr<ControllerMail>,
    /// Earlier replies.
    pub memory: Addr<MemoryMail>,
    /// Samples; droppable.
    pub telemetry: TelemetryLink,
    /// Time.
    pub clock: Clock,
}
