//! Which uploads are read together: a read costs a round trip, and most tensors are small.

use std::ops::Range;

use fanlight_messages::limits::LANDING_BYTES;

use crate::Upload;

/// Bytes between two uploads that are read and thrown away: padding, and small tensors of no use here. A
/// round trip costs more than as many bytes.
const GAP_BYTES_MAX: u64 = 16 << 10;

/// Bytes of one file that are read at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// Which file.
    pub shard: u32,
    /// First byte in it.
    pub offset: u64,
    /// How many, at most [`LANDING_BYTES`]: a few such buffers are noise beside any model.
    pub bytes: u64,
    /// What lies in them, in the order of the file.
    pub uploads: Vec<Upload>,
}

impl Stretch {
    fn new(upload: Upload) -> Self {
        Self { shard: upload.shard, offset: upload.offset, bytes: upload.bytes, uploads: vec![upload] }
    }

    /// Where an upload of this stretch lies in the bytes that are read.
    pub fn range_of(&self, upload: &Upload) -> Range<usize> {
        let start = upload.offset.saturating_sub(self.offset);
        start as usize..start.saturating_add(upload.bytes) as usize
    }

    /// Bytes with `upload` in the stretch; `None` when it is better read by itself.
    fn bytes_with(&self, upload: &Upload) -> Option<u64> {
        let start = upload.offset.checked_sub(self.offset)?;
        let is_near = upload.shard == self.shard && start <= self.bytes.saturating_add(GAP_BYTES_MAX);
        let bytes = start.checked_add(upload.bytes)?.max(self.bytes);
        (is_near && bytes <= LANDING_BYTES).then_some(bytes)
    }
}

/// Joins uploads that are neighbours, in the order of [`plan_uploads`](crate::plan_uploads), into stretches.
/// An upload is never cut.
pub fn join_uploads(uploads: Vec<Upload>) -> Vec<Stretch> {
    let mut stretches: Vec<Stretch> = Vec::new();
    for upload in uploads {
        let last = stretches.last_mut();
        match last.and_then(|last| last.bytes_with(&upload).map(|bytes| (last, bytes))) {
            Some((last, bytes)) => {
                last.bytes = bytes;
                last.uploads.push(upload);
            }
            None => stretches.push(Stretch::new(upload)),
        }
    }
    stretches
}

#[cfg(test)]
mod tests {
    use fanlight_messages::program::MatrixId;

    use super::*;
    use crate::UploadTarget;

    fn upload(shard: u32, offset: u64, bytes: u64) -> Upload {
        Upload { shard, offset, bytes, target: UploadTarget::Rows { matrix: MatrixId(0), first_row: 0 } }
    }

    /// Shard, offset, bytes and count of uploads of each stretch.
    fn joined(uploads: &[(u32, u64, u64)]) -> Vec<(u32, u64, u64, usize)> {
        let uploads = uploads.iter().map(|(shard, offset, bytes)| upload(*shard, *offset, *bytes));
        let stretches = join_uploads(uploads.collect());
        stretches.iter().map(|s| (s.shard, s.offset, s.bytes, s.uploads.len())).collect()
    }

    #[test]
    fn neighbours_are_read_together_up_to_a_landing_buffer() {
        assert_eq!(joined(&[(0, 32, 100), (0, 160, 40)]), [(0, 32, 168, 2)]);
        let third = LANDING_BYTES / 3;
        let all = [0, 1, 2, 3].map(|n| (0, n * third, third));
        assert_eq!(joined(&all), [(0, 0, 3 * third, 3), (0, 3 * third, third, 1)]);
        assert_eq!(joined(&[]), []);
    }

    #[test]
    fn gaps_parts_and_disorder_part_stretches() {
        let gap = GAP_BYTES_MAX;
        assert_eq!(joined(&[(0, 0, 8), (0, 8 + gap, 8)]), [(0, 0, 16 + gap, 2)]);
        assert_eq!(joined(&[(0, 0, 8), (0, 9 + gap, 8)]), [(0, 0, 8, 1), (0, 9 + gap, 8, 1)]);
        assert_eq!(joined(&[(0, 0, 8), (1, 8, 8)]), [(0, 0, 8, 1), (1, 8, 8, 1)]);
        assert_eq!(joined(&[(0, 64, 8), (0, 0, 8)]), [(0, 64, 8, 1), (0, 0, 8, 1)]);
        assert_eq!(joined(&[(0, 0, 8), (0, u64::MAX, 8)]), [(0, 0, 8, 1), (0, u64::MAX, 8, 1)]);
    }

    #[test]
    fn bytes_that_two_uploads_share_are_read_once() {
        let stretches = join_uploads(vec![upload(0, 100, 50), upload(0, 100, 20), upload(0, 140, 30)]);
        let [only] = &stretches[..] else { panic!("{stretches:?}") };
        assert_eq!((only.offset, only.bytes), (100, 70));
        let ranges: Vec<_> = only.uploads.iter().map(|upload| only.range_of(upload)).collect();
        assert_eq!(ranges, [0..50, 0..20, 40..70]);
    }
}
