//! The events of a reply, and what turns them into a response.

use serde_json::Value;

use crate::error::ApiError;

/// What a reply consists of, in any dialect. The last event is `Ended` or `Failed`.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyEvent {
    /// The request is good and has a place in the queue.
    Admitted {
        /// Tokens of all its prompts.
        prompt_tokens: u32,
    },
    /// Its turn has come.
    Begun {
        /// Prompt tokens that the cache holds already.
        cached_tokens: u32,
    },
    /// One of its replies goes on.
    Part {
        /// Which, from 0.
        index: u32,
        /// With what.
        part: ReplyPart,
    },
    /// One of its replies is complete.
    ReplyEnded {
        /// Which, from 0.
        index: u32,
        /// Why.
        ending: Ending,
    },
    /// All are complete.
    Ended(Usage),
    /// It broke off.
    Failed(ApiError),
}

/// A stretch of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyPart {
    /// What the model thinks.
    Reasoning(String),
    /// What it answers.
    Content(String),
    /// It calls a function: the name, and an id without the prefix that dialects put before it.
    CallBegin {
        /// The id: letters and digits.
        id: String,
        /// The function.
        name: String,
    },
    /// A piece of the call's arguments, which is JSON when it is whole.
    CallArguments(String),
    /// The call is whole.
    CallEnd,
}

/// Why a reply ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The model ended it.
    Stop,
    /// One of the texts did that were to end it.
    StopText(String),
    /// It has as many tokens as asked for.
    Length,
    /// The context is full.
    ContextFull,
    /// It calls functions.
    ToolCalls,
}

/// What a request took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the prompts.
    pub prompt_tokens: u32,
    /// Of these, those that the cache held.
    pub cached_tokens: u32,
    /// Tokens of the replies.
    pub completion_tokens: u32,
    /// Of these, those of thoughts.
    pub reasoning_tokens: u32,
    /// Microseconds of prompts.
    pub prompt_us: u64,
    /// Microseconds of replies.
    pub completion_us: u64,
    /// Microseconds since the request came.
    pub total_us: u64,
}

/// What a response says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyFacts {
    /// 32 letters and digits that no other response has.
    pub id: String,
    /// Seconds since 1970.
    pub created: u64,
    /// Name of the model.
    pub model: String,
}

/// How a response is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// One JSON value.
    Json,
    /// Server-sent events.
    Events,
    /// JSON lines.
    Lines,
}

impl Framing {
    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Events => "text/event-stream; charset=utf-8",
            Self::Lines => "application/x-ndjson",
        }
    }
}

/// Turns events of a reply into the bytes of a stream.
pub trait ReplyWriter: Send {
    /// Adds what an event says.
    fn write(&mut self, event: &ReplyEvent, out: &mut Vec<u8>);

    /// Adds what tells a client that waits that the server is still at work.
    fn keep_alive(&mut self, out: &mut Vec<u8>);

    /// How the bytes are framed.
    fn framing(&self) -> Framing;
}

/// The response of a dialect to one request.
pub trait ReplyForm: Send {
    /// What writes it as a stream.
    fn stream(&self, facts: ReplyFacts) -> Box<dyn ReplyWriter>;

    /// It as one value, when the reply is over.
    fn whole(&self, facts: &ReplyFacts, collected: &Collected) -> Value;
}

/// A call as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectedCall {
    /// Its id, without a prefix.
    pub id: String,
    /// The function.
    pub name: String,
    /// JSON as text, unless the model wrote something else.
    pub arguments: String,
}

impl CollectedCall {
    /// The arguments as an object, where they are one.
    pub fn object(&self) -> Value {
        match serde_json::from_str(&self.arguments) {
            Ok(object @ Value::Object(_)) => object,
            _ => Value::Object(serde_json::Map::new()),
        }
    }
}

/// A stretch of a whole reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectedPart {
    /// Thoughts.
    Reasoning(String),
    /// The answer.
    Content(String),
    /// A call that is whole.
    Call(CollectedCall),
}

/// One whole reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CollectedReply {
    /// Its parts; neighbours are of different kinds.
    pub parts: Vec<CollectedPart>,
    /// Why it ended; `None` before.
    pub ending: Option<Ending>,
    /// A call that goes on.
    open_call: Option<CollectedCall>,
}

impl CollectedReply {
    /// The answer.
    pub fn content(&self) -> String {
        let text = |part: &CollectedPart| match part {
            CollectedPart::Content(text) => Some(text.clone()),
            _ => None,
        };
        self.parts.iter().filter_map(text).collect()
    }

    /// The thoughts.
    pub fn reasoning(&self) -> String {
        let text = |part: &CollectedPart| match part {
            CollectedPart::Reasoning(text) => Some(text.clone()),
            _ => None,
        };
        self.parts.iter().filter_map(text).collect()
    }

    /// The calls that are whole: what a limit cut off is no call.
    pub fn calls(&self) -> impl Iterator<Item = &CollectedCall> {
        self.parts.iter().filter_map(|part| match part {
            CollectedPart::Call(call) => Some(call),
            _ => None,
        })
    }

    fn take(&mut self, part: &ReplyPart) {
        match part {
            ReplyPart::Reasoning(more) => match self.parts.last_mut() {
                Some(CollectedPart::Reasoning(text)) => text.push_str(more),
                _ => self.parts.push(CollectedPart::Reasoning(more.clone())),
            },
            ReplyPart::Content(more) => match self.parts.last_mut() {
                Some(CollectedPart::Content(text)) => text.push_str(more),
                _ => self.parts.push(CollectedPart::Content(more.clone())),
            },
            ReplyPart::CallBegin { id, name } => {
                let (id, name) = (id.clone(), name.clone());
                self.open_call = Some(CollectedCall { id, name, arguments: String::new() });
            }
            ReplyPart::CallArguments(more) => {
                if let Some(call) = &mut self.open_call {
                    call.arguments.push_str(more);
                }
            }
            ReplyPart::CallEnd => self.parts.extend(self.open_call.take().map(CollectedPart::Call)),
        }
    }
}

/// The events of a request, put together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Collected {
    /// Its replies.
    pub replies: Vec<CollectedReply>,
    /// What it took.
    pub usage: Usage,
}

impl Collected {
    /// Adds an event; an error ends the collection.
    pub fn take(&mut self, event: &ReplyEvent) -> Result<(), ApiError> {
        match event {
            ReplyEvent::Admitted { .. } | ReplyEvent::Begun { .. } => {}
            ReplyEvent::Part { index, part } => self.reply(*index).take(part),
            ReplyEvent::ReplyEnded { index, ending } => self.reply(*index).ending = Some(ending.clone()),
            ReplyEvent::Ended(usage) => self.usage = *usage,
            ReplyEvent::Failed(error) => return Err(error.clone()),
        }
        Ok(())
    }

    fn reply(&mut self, index: u32) -> &mut CollectedReply {
        let index = index as usize;
        if self.replies.len() <= index {
            self.replies.resize_with(index + 1, CollectedReply::default);
        }
        &mut self.replies[index]
    }
}

/// An event of a stream that has only data.
pub(crate) fn data_event(value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("data: {value}\n\n").as_bytes());
}

/// An event of a stream with its name.
pub(crate) fn named_event(name: &str, value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("event: {name}\ndata: {value}\n\n").as_bytes());
}
