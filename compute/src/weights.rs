//! Weights as they stay in memory (`messages/src/row_groups.rs` draws the groups).

mod embed;
mod part;
mod repack;

pub use embed::weight_row;
pub use fanlight_messages::row_groups::{BlockFormat, Float, Format, SuperFormat};
pub use repack::repack_rows;

/// A matrix, or some groups of one.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    /// Its form.
    pub format: Format,
    /// Elements of a row.
    pub columns: usize,
    /// Blocks of a slab: sums run inside a slab, then over slabs.
    pub slab_blocks: usize,
    /// Groups, in order.
    pub bytes: &'a [u8],
}

impl Matrix<'_> {
    /// One group.
    #[inline(always)]
    pub fn group(&self, index: usize) -> &[u8] {
        let bytes = self.format.group_bytes(self.columns);
        &self.bytes[index * bytes..][..bytes]
    }
}
