//! What the loaded model must not use on this device, and how its replies do without.

use fanlight_messages::device::{Purpose, Quarantined};
use fanlight_messages::draft::{NODES_MAX, WidthPolicy};

/// What was found not to agree with plain decoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Quarantine {
    has_prompts: bool,
    nodes_max: u32,
}

impl Quarantine {
    /// Of a model that was just placed.
    pub(super) fn new(prompts: Option<&Quarantined>) -> Self {
        let mut quarantine = Self { has_prompts: false, nodes_max: NODES_MAX };
        prompts.into_iter().for_each(|found| quarantine.add(found));
        quarantine
    }

    /// Something more was found.
    pub(super) fn add(&mut self, found: &Quarantined) {
        match found.purpose {
            Purpose::Prompts => self.has_prompts = true,
            // Widths share kernels: where one is wrong, wider ones are not trusted either.
            Purpose::Tree(nodes) => self.nodes_max = self.nodes_max.min(nodes / 2),
        }
    }

    /// Tokens per prompt batch, where so many were asked for.
    pub(super) fn chunk_tokens(&self, wanted: u32) -> u32 {
        if self.has_prompts { 1 } else { wanted }
    }

    /// How widths are decided, where this was asked for.
    pub(super) fn width(&self, wanted: WidthPolicy) -> WidthPolicy {
        wanted.within(self.nodes_max)
    }
}

#[cfg(test)]
mod tests {
    use fanlight_messages::draft::Width;

    use super::*;

    fn found(purpose: Purpose) -> Quarantined {
        Quarantined { purpose, evidence: String::new() }
    }

    #[test]
    fn without_findings_everything_is_as_asked_for() {
        let quarantine = Quarantine::new(None);
        for width in [
            WidthPolicy::Auto { max: 32 },
            WidthPolicy::Fixed(Width::Nodes(32)),
            WidthPolicy::Fixed(Width::Off),
        ] {
            assert_eq!((quarantine.width(width), quarantine.chunk_tokens(7)), (width, 7));
        }
    }

    #[test]
    fn the_narrowest_finding_counts_and_prompts_go_token_by_token() {
        let mut quarantine = Quarantine::new(Some(&found(Purpose::Prompts)));
        quarantine.add(&found(Purpose::Tree(8)));
        quarantine.add(&found(Purpose::Tree(16)));
        assert_eq!(quarantine.chunk_tokens(512), 1);
        assert_eq!(quarantine.width(WidthPolicy::Auto { max: 32 }), WidthPolicy::Auto { max: 4 });
        let fixed = |nodes| quarantine.width(WidthPolicy::Fixed(Width::Nodes(nodes)));
        assert_eq!(fixed(4), WidthPolicy::Fixed(Width::Nodes(4)));
        assert_eq!(fixed(8), WidthPolicy::Fixed(Width::Off));
        quarantine.add(&found(Purpose::Tree(1)));
        let widths: Vec<_> = quarantine.width(WidthPolicy::Auto { max: 32 }).widths().collect();
        assert_eq!(widths, [Width::Off]);
    }
}
