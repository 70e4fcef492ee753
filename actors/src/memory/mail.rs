//! What the memory is asked and told.

use fanlight_messages::protocol::memory::{ForgetMemory, LearnOutput, RecallMemory, ResetConversation};

use crate::kit::mail;

mail! {
    /// What the memory is asked and told.
    pub enum MemoryMail {
        asked {
            /// See [`RecallMemory`].
            Recall(RecallMemory),
            /// See [`LearnOutput`].
            Learn(LearnOutput),
            /// See [`ForgetMemory`].
            Forget(ForgetMemory),
        }
        told {
            /// See [`ResetConversation`].
            Reset(ResetConversation) in Inbox,
        }
    }
}
