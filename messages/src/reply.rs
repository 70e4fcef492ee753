//! What a reply is made of.

/// A stretch of a reply, by what it is for. A reply begins with at most one run of reasoning; the answer
/// follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyPart {
    /// What the model thought before it answered.
    Reasoning(String),
    /// What it answers.
    Content(String),
    /// A function that it calls, where it was offered some. Content may come before calls and between them.
    Call(CallPart),
}

/// A stretch of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallPart {
    /// It begins.
    Begin {
        /// Name of the function, which is one of those that were offered.
        name: String,
    },
    /// A piece of its arguments, which are JSON when they are whole.
    Arguments(String),
    /// It is whole. A reply may end before.
    End,
}

impl ReplyPart {
    /// Appends a part to others; a part of the same kind as the last one is joined with it.
    pub fn append(parts: &mut Vec<Self>, part: Self) {
        match (parts.last_mut(), part) {
            (Some(Self::Reasoning(text)), Self::Reasoning(more)) => text.push_str(&more),
            (Some(Self::Content(text)), Self::Content(more)) => text.push_str(&more),
            (Some(Self::Call(CallPart::Arguments(text))), Self::Call(CallPart::Arguments(more))) => {
                text.push_str(&more);
            }
            (_, part) => parts.push(part),
        }
    }

    /// The text of all content among the parts.
    pub fn content_of(parts: &[Self]) -> String {
        parts
            .iter()
            .filter_map(|part| if let Self::Content(text) = part { Some(&**text) } else { None })
            .collect()
    }

    /// The text of all reasoning among the parts.
    pub fn reasoning_of(parts: &[Self]) -> String {
        parts
            .iter()
            .filter_map(|part| if let Self::Reasoning(text) = part { Some(&**text) } else { None })
            .collect()
    }
}

/// Whether a model that can think before it answers is asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Think {
    /// It answers at once, where its template has that choice.
    #[default]
    Off,
    /// It thinks first.
    On,
    /// Nothing is said: the template's own default applies.
    Template,
}
