//! Published drafters that ours is compared with.

mod prompt_lookup;
mod suffix_tree;

pub use prompt_lookup::PromptLookup;
pub use suffix_tree::SuffixTree;
