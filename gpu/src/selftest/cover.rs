//! Which comparisons to make where each costs a compilation of seconds: few, but of everything some.

use std::collections::HashSet;
use std::hash::Hash;

use crate::kernels::Kernel;

/// A comparison of two ways to the same numbers.
pub(super) trait Comparison: Clone {
    /// What of it may go wrong by itself: a value of one axis, or of two axes that meet in one shader.
    type Aspect: Eq + Hash;

    /// Everything that this comparison is a proof of.
    fn aspects(&self) -> Vec<Self::Aspect>;
    /// The pipelines that it needs.
    fn pipelines(&self) -> Vec<Kernel>;
}

/// Comparisons out of `all`, in the same order, that have every aspect of `all` between them. Greedy: the one
/// that brings the most new aspects for what it adds to compile and dispatch comes first, of equals the
/// earlier.
pub(super) fn cover<C: Comparison>(all: &[C]) -> Vec<C> {
    let (mut covered, mut compiled) = (HashSet::new(), HashSet::new());
    let mut chosen = vec![false; all.len()];
    loop {
        let worth = all.iter().enumerate().map(|(index, comparison)| {
            let gain = fresh(&comparison.aspects(), &covered);
            // One for its dispatches, so that no comparison is free.
            let cost = 1 + fresh(&comparison.pipelines(), &compiled);
            (index, gain, cost)
        });
        let best = worth.reduce(|best, next| if next.1 * best.2 > best.1 * next.2 { next } else { best });
        let Some((index, gain, _)) = best else { break };
        if gain == 0 {
            break;
        }
        covered.extend(all[index].aspects());
        compiled.extend(all[index].pipelines());
        chosen[index] = true;
    }
    all.iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(comparison, _)| comparison.clone()).collect()
}

/// How many of `these` are not in `known`, equals counted once.
fn fresh<T: Eq + Hash>(these: &[T], known: &HashSet<T>) -> usize {
    let new: HashSet<&T> = these.iter().filter(|this| !known.contains(this)).collect();
    new.len()
}

#[cfg(test)]
mod tests {
    use fanlight_messages::layout::{ResidentFormat, SlabLayout};

    use super::*;
    use crate::kernels::matrix;

    /// A comparison of these aspects that compiles the pipelines of these token counts.
    #[derive(Debug, Clone, PartialEq)]
    struct Toy(Vec<u32>, Vec<u32>);

    impl Comparison for Toy {
        type Aspect = u32;

        fn aspects(&self) -> Vec<u32> {
            self.0.clone()
        }
        fn pipelines(&self) -> Vec<Kernel> {
            let layout = SlabLayout::for_columns(64);
            let kernel = |tokens: &u32| {
                Kernel::Matrix(matrix::Variant::tuned(ResidentFormat::F32, layout, *tokens, false))
            };
            self.1.iter().map(kernel).collect()
        }
    }

    #[test]
    fn what_adds_nothing_is_left_out_and_order_is_kept() {
        let all =
            [Toy(vec![1], vec![1]), Toy(vec![2, 1], vec![1]), Toy(vec![3], vec![1]), Toy(vec![2], vec![1])];
        assert_eq!(cover(&all), [all[1].clone(), all[2].clone()]);
        assert_eq!(cover::<Toy>(&[]), []);
    }

    #[test]
    fn of_equals_the_one_whose_pipelines_are_there_is_chosen() {
        let all = [Toy(vec![1, 2], vec![1]), Toy(vec![3], vec![2, 4]), Toy(vec![3], vec![1])];
        assert_eq!(cover(&all), [all[0].clone(), all[2].clone()]);
    }
}
