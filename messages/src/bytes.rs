//! A part of a buffer that several messages share.

use std::ops::{Deref, Range};
use std::rc::Rc;

/// Some bytes of a shared buffer; clones share it too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedBytes {
    whole: Rc<Vec<u8>>,
    range: Range<usize>,
}

impl SharedBytes {
    /// All bytes of a buffer.
    pub fn whole(whole: Rc<Vec<u8>>) -> Self {
        let range = 0..whole.len();
        Self { whole, range }
    }

    /// The bytes of `whole` in `range`; `None` when they are not all there.
    pub fn new(whole: Rc<Vec<u8>>, range: Range<usize>) -> Option<Self> {
        whole.get(range.clone())?;
        Some(Self { whole, range })
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.whole[self.range.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_what_it_says_or_none() {
        let whole = Rc::new(vec![1, 2, 3]);
        assert_eq!(SharedBytes::whole(whole.clone())[..], [1, 2, 3]);
        let part = |range| SharedBytes::new(whole.clone(), range);
        assert_eq!(part(1..3).as_deref(), Some(&[2, 3][..]));
        assert_eq!(part(3..3).as_deref(), Some(&[][..]));
        assert_eq!(part(2..4), None);
        let backwards = Range { start: 2, end: 1 };
        assert_eq!(part(backwards), None);
    }
}
