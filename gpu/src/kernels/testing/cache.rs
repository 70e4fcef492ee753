//! A key/value cache as its layout is drawn in the heads kernel, element by element.
//!
//! ```text
//! keys    [kv_head][chunk of 64 rows][group of 16 bytes of a row][64 rows]
//! values  [kv_head][row][head_len]
//! ```

use fanlight_messages::plan::KvFormat;
use half::f16;

use super::SENTINEL;

/// The shape of a cache buffer.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernels) struct Cache {
    pub(in crate::kernels) heads: usize,
    pub(in crate::kernels) head_len: usize,
    /// Multiple of 64, the tree rows at its end included.
    pub(in crate::kernels) rows: usize,
    pub(in crate::kernels) format: KvFormat,
}

/// Keys or values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::kernels) enum Side {
    Keys,
    Values,
}

impl Cache {
    /// Words of either buffer.
    pub(in crate::kernels) fn words(self) -> usize {
        self.heads * self.rows * self.head_len * self.element_bytes() / 4
    }

    fn element_bytes(self) -> usize {
        if self.format == KvFormat::F16 { 2 } else { 4 }
    }

    /// Byte offset of an element.
    fn byte(self, side: Side, head: usize, row: usize, element: usize) -> usize {
        let row_bytes = self.head_len * self.element_bytes();
        let byte = element * self.element_bytes();
        match side {
            Side::Values => (head * self.rows + row) * row_bytes + byte,
            Side::Keys => {
                let chunk = head * self.rows / 64 + row / 64;
                chunk * 64 * row_bytes + (byte / 16) * 64 * 16 + (row % 64) * 16 + byte % 16
            }
        }
    }

    /// Word of an element.
    pub(in crate::kernels) fn word(self, side: Side, head: usize, row: usize, element: usize) -> usize {
        self.byte(side, head, row, element) / 4
    }

    /// Bits of an element as f32.
    pub(in crate::kernels) fn read(
        self,
        words: &[u32],
        side: Side,
        head: usize,
        row: usize,
        e: usize,
    ) -> u32 {
        let byte = self.byte(side, head, row, e);
        match self.format {
            KvFormat::F32 => words[byte / 4],
            KvFormat::Q8 => unreachable!("the plan of a GPU has no q8 cache"),
            KvFormat::F16 => f16::from_bits((words[byte / 4] >> (8 * (byte % 4))) as u16).to_f32().to_bits(),
        }
    }

    /// Stores an element.
    pub(in crate::kernels) fn write(
        self,
        words: &mut [u32],
        side: Side,
        (head, row, e): (usize, usize, usize),
        value: f32,
    ) {
        let byte = self.byte(side, head, row, e);
        let word = &mut words[byte / 4];
        match self.format {
            KvFormat::F32 => *word = value.to_bits(),
            KvFormat::Q8 => unreachable!("the plan of a GPU has no q8 cache"),
            KvFormat::F16 => {
                let shift = 8 * (byte % 4);
                *word = (*word & !(0xffff << shift)) | (u32::from(f16::from_f32(value).to_bits()) << shift);
            }
        }
    }

    /// What the format makes of a value.
    pub(in crate::kernels) fn rounded(self, value: f32) -> f32 {
        if self.format == KvFormat::F16 { f16::from_f32(value).to_f32() } else { value }
    }

    /// Both buffers, never written.
    pub(in crate::kernels) fn empty(self) -> Vec<u32> {
        vec![SENTINEL; self.words()]
    }
}

#[test]
fn every_element_has_a_place_of_its_own() {
    for format in [KvFormat::F16, KvFormat::F32] {
        let cache = Cache { heads: 2, head_len: 24, rows: 128, format };
        for side in [Side::Keys, Side::Values] {
            let mut places: Vec<usize> =
                (0..2 * 128 * 24).map(|i| cache.byte(side, i / (128 * 24), i / 24 % 128, i % 24)).collect();
            places.sort_unstable();
            let wanted: Vec<usize> = (0..2 * 128 * 24).map(|i| i * cache.element_bytes()).collect();
            assert_eq!(places, wanted, "{format:?} {side:?}");
        }
    }
}
