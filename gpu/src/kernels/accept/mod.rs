//! Commits a step in the control buffer.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod twin;

use super::source::{RenderError, Shader, render};
use fanlight_messages::control::{END_IDS_WORD, RING_LEN, RING_WORD};
use minijinja::context;

pub(super) fn shader() -> Result<Shader, RenderError> {
    render(
        "accept".into(),
        &["accept"],
        context! {
            end_ids_word => END_IDS_WORD, ring_word => RING_WORD, ring_len => RING_LEN,
        },
        Vec::new(),
    )
}
