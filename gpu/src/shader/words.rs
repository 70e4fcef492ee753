//! The words of the buffers that kernels and host share, as templates see them: rendered from the definitions
//! in `messages`.

use std::mem::offset_of;

use fanlight_messages::control::{self, ControlBlock, EndReason};
use fanlight_messages::draft;
use fanlight_messages::sampling::{self, SamplingBlock};
use minijinja::{Environment, Value, context};

/// What a step was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Form {
    /// The last batch of a prompt: one row of logits, any fault counts.
    Prompt = 0,
    /// One token.
    Plain = 1,
    /// A draft tree.
    Tree = 2,
}

impl Form {
    /// All of them, in order of their numbers.
    pub const ALL: [Self; 3] = [Self::Prompt, Self::Plain, Self::Tree];
}

/// Word offsets of a struct's fields by name, and the names of its words in order. The pattern names every
/// field: one left out does not compile.
macro_rules! words {
    ($type:ident { $($field:ident),* $(,)? }) => {{
        let $type { $($field),* } = bytemuck::Zeroable::zeroed();
        let mut names = Vec::new();
        $(match size_of_val(&$field) / 4 {
            1 => names.push(stringify!($field).to_owned()),
            words => names.extend((0..words).map(|word| format!("{}_{word}", stringify!($field)))),
        })*
        context! { $($field => offset_of!($type, $field) / 4,)* names }
    }};
}

fn control_words() -> Value {
    let block = words!(ControlBlock {
        committed,
        live,
        context,
        end,
        pending,
        tokens_left,
        poison,
        ring_head,
        hash,
        path,
        steps
    });
    context! {
        end_ids => control::END_IDS_WORD, end_ids_max => control::END_IDS_MAX,
        ring => control::RING_WORD, ring_len => control::RING_LEN, hashes => control::HASHES_WORD,
        records => control::RECORDS_WORD, record_count => control::RECORDS,
        record_words => control::RECORD_WORDS,
        ..block
    }
}

fn draft_words() -> Value {
    context! {
        memory => draft::MEMORY_TOKENS, depth_max => draft::DEPTH_MAX, nodes_max => draft::NODES_MAX,
        orders => draft::ORDERS, separator => draft::SEPARATOR, expected => draft::EXPECTED_WORD,
        visited => draft::VISITED_WORD, choices => draft::CHOICES_WORD, path => draft::PATH_WORD,
        reliabilities => draft::RELIABILITY_WORD, nodes => draft::NODES_WORD,
        node_words => draft::NODE_WORDS, ancestor_stride => draft::ANCESTOR_STRIDE,
        positions => draft::SCAN_POSITIONS, kept => draft::SCAN_KEPT,
        candidates => draft::SCAN_GROUPS_MAX * draft::SCAN_KEPT, branches => draft::MATCHES_MAX,
        rate_shift => draft::RATE_SHIFT, floor => draft::FLOOR,
    }
}

fn sampling_words() -> Value {
    let block = words!(SamplingBlock {
        seed,
        rate,
        scale,
        min_exponent,
        top_p,
        top_k,
        repeat_penalty,
        repeat_window,
        frequency_penalty,
        presence_penalty,
        generated_from,
        biases
    });
    context! {
        bias_ids => sampling::BIAS_WORD,
        bias_values => sampling::BIAS_WORD as usize + sampling::LOGIT_BIASES_MAX,
        ..block
    }
}

fn selection_words() -> Value {
    context! {
        bins => sampling::SELECTION_BINS, row_words => sampling::SELECTION_ROW_WORDS,
        state_words => sampling::SELECTION_STATE_WORDS, histograms => sampling::SELECTION_HISTOGRAMS,
        histogram_word => sampling::SELECTION_HISTOGRAM_WORD,
    }
}

/// Makes them known to every template.
pub(super) fn add_to(environment: &mut Environment<'_>) {
    environment.add_global("control_words", control_words());
    environment.add_global("draft_words", draft_words());
    environment.add_global("sampling_words", sampling_words());
    environment.add_global("selection_words", selection_words());
    environment.add_global(
        "end_reasons",
        context! {
            end_token => EndReason::EndToken as u32, token_limit => EndReason::TokenLimit as u32,
            context_full => EndReason::ContextFull as u32, poisoned => EndReason::Poisoned as u32,
        },
    );
    environment.add_global(
        "forms",
        context! { prompt => Form::Prompt as u32, plain => Form::Plain as u32, tree => Form::Tree as u32 },
    );
}
