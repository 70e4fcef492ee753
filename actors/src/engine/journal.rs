//! Which tokens the cache holds, position by position.

/// The ids whose keys and values are in the cache, from position 0 on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Journal {
    ids: Vec<u32>,
}

impl Journal {
    /// How many leading tokens of `prompt` need not be evaluated again: the common beginning, without the
    /// prompt's last token, whose logits are wanted.
    pub fn reusable_len(&self, prompt: &[u32]) -> usize {
        let common = self.ids.iter().zip(prompt).take_while(|(held, wanted)| held == wanted).count();
        common.min(prompt.len().saturating_sub(1))
    }

    /// Keeps the first `len` ids: what lies behind is about to be overwritten.
    pub fn truncate(&mut self, len: usize) {
        self.ids.truncate(len);
    }

    /// Adds ids that are now in the cache.
    pub fn commit(&mut self, ids: &[u32]) {
        self.ids.extend_from_slice(ids);
    }

    /// Forgets everything: the cache is gone or not to be trusted.
    pub fn clear(&mut self) {
        self.ids = Vec::new();
    }

    /// The ids, from position 0 on.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Tokens in the cache.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True when the cache holds nothing.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_hit_leaves_the_last_token_to_be_evaluated() {
        let mut journal = Journal::default();
        journal.commit(&[1, 2, 3, 4]);
        assert_eq!(journal.reusable_len(&[1, 2, 3, 4]), 3);
        assert_eq!(journal.reusable_len(&[1, 2, 3]), 2);
        assert_eq!(journal.reusable_len(&[1, 2, 3, 4, 5]), 4);
        assert_eq!(journal.reusable_len(&[1, 9, 3]), 1);
        assert_eq!(journal.reusable_len(&[9]), 0);
        assert_eq!(journal.reusable_len(&[]), 0);
    }
}
