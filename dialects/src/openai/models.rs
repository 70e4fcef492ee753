//! `GET /v1/models`: one body that OpenAI's and Anthropic's clients both read.

use serde_json::{Value, json};

use crate::served::{ServedModel, timestamp};

/// The list.
pub fn models(served: &ServedModel) -> Value {
    json!({
        "object": "list",
        "data": [model(served)],
        "has_more": false,
        "first_id": served.id,
        "last_id": served.id,
    })
}

/// The one model.
pub fn model(served: &ServedModel) -> Value {
    json!({
        "id": served.id,
        "object": "model",
        "type": "model",
        "created": served.created,
        "created_at": timestamp(served.created),
        "owned_by": "fanlight",
        "display_name": served.id,
        "lifecycle": "active",
        "max_input_tokens": served.context_len,
        "max_tokens": served.context_len,
        "context_length": served.context_len,
        "meta": {
            "n_ctx": served.context_len,
            "n_vocab": served.vocabulary_len,
            "n_params": served.parameters,
            "size": served.size_bytes,
        },
    })
}
