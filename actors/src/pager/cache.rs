//! Pages that host memory keeps between passes.

use std::collections::HashMap;
use std::rc::Rc;

/// A fixed set of uploads: the first that fit. A pass reads all of them in a circle, and of a circle that
/// does not fit, whatever replaces the oldest keeps nothing that is wanted next.
#[derive(Debug, Default)]
pub(super) struct HostCache {
    budget_bytes: u64,
    kept_bytes: u64,
    kept: HashMap<usize, Rc<Vec<u8>>>,
}

impl HostCache {
    pub(super) fn new(budget_bytes: u64) -> Self {
        Self { budget_bytes, ..Self::default() }
    }

    /// The bytes of upload `index` of a pass.
    pub(super) fn get(&self, index: usize) -> Option<Rc<Vec<u8>>> {
        self.kept.get(&index).cloned()
    }

    /// Bytes that it keeps.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Keeps them if there is room, and memory for a buffer of their size in their place, which is returned.
    /// Where `reserve` is refused that memory, nothing more is kept from then on.
    pub(super) fn offer(
        &mut self,
        index: usize,
        bytes: &Rc<Vec<u8>>,
        reserve: impl FnOnce(usize) -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        // What a buffer holds beyond its length is memory too.
        let size = bytes.capacity() as u64;
        if size > self.budget_bytes - self.kept_bytes || self.kept.contains_key(&index) {
            return None;
        }
        let Some(buffer) = reserve(bytes.capacity()) else {
            self.budget_bytes = self.kept_bytes;
            return None;
        };
        self.kept_bytes += size;
        self.kept.insert(index, bytes.clone());
        Some(buffer)
    }
}

/// An empty buffer of this capacity, unless the memory is refused.
pub(super) fn reserve(bytes: usize) -> Option<Vec<u8>> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(bytes).ok()?;
    Some(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_fit_stay() {
        let mut cache = HostCache::new(10);
        let bytes = |len: usize| Rc::new(vec![len as u8; len]);
        for (index, len) in [(0, 6), (1, 5), (2, 4), (2, 4), (3, 1)] {
            cache.offer(index, &bytes(len), reserve);
        }
        assert_eq!((cache.get(0), cache.get(1), cache.get(2)), (Some(bytes(6)), None, Some(bytes(4))));
        assert_eq!((cache.get(3), cache.kept_bytes()), (None, 10));
    }

    #[test]
    fn it_ends_where_memory_is_refused() {
        let mut cache = HostCache::new(10);
        let bytes = Rc::new(vec![0; 3]);
        assert_eq!(cache.offer(0, &bytes, reserve).map(|buffer| buffer.capacity()), Some(3));
        assert_eq!(cache.offer(1, &bytes, |_| None), None);
        assert_eq!(cache.offer(2, &bytes, reserve), None, "what was refused once is not asked for again");
        assert_eq!((cache.get(0).is_some(), cache.kept_bytes()), (true, 3));
        assert_eq!(reserve(usize::MAX), None);
    }
}
