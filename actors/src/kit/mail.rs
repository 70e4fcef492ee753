//! Declares what an actor's mailbox holds.

/// Declares an enum of mail: `asked` are questions, `asked_with` questions with things beside the message,
/// and `told` is what wants no answer, with its lane. A question queues in the lane that its request names.
macro_rules! mail {
    (
        $(#[$meta:meta])*
        pub enum $mail:ident {
            asked { $($(#[$asked_meta:meta])* $asked:ident($request:ty)),* $(,)? }
            $(asked_with {
                $($(#[$with_meta:meta])* $with:ident($with_request:ty, $($beside:ty),+)),* $(,)?
            })?
            $(told { $($(#[$told_meta:meta])* $told:ident($message:ty) in $lane:ident),* $(,)? })?
        }
    ) => {
        $(#[$meta])*
        pub enum $mail {
            $($(#[$asked_meta])* $asked($crate::kit::Asked<$request>),)*
            $($($(#[$with_meta])* $with($crate::kit::Asked<$with_request>, $($beside),+),)*)?
            $($($(#[$told_meta])* $told($message),)*)?
        }

        impl $crate::kit::Mail for $mail {
            fn lane(&self) -> fanlight_messages::protocol::Lane {
                use fanlight_messages::protocol::Request;
                match self {
                    $(Self::$asked(..) => <$request as Request>::LANE,)*
                    $($(Self::$with(..) => <$with_request as Request>::LANE,)*)?
                    $($(Self::$told(..) => fanlight_messages::protocol::Lane::$lane,)*)?
                }
            }
        }

        $(impl From<$crate::kit::Asked<$request>> for $mail {
            fn from(asked: $crate::kit::Asked<$request>) -> Self {
                Self::$asked(asked)
            }
        })*
    };
}

pub(crate) use mail;
