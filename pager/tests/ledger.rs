//! The ledger against a plain list of who holds what.

use fanlight_messages::plan::BufferOwner;
use fanlight_pager::{Ledger, LedgerError};
use proptest::prelude::*;

#[test]
fn refusals_leave_the_ledger_as_it_was() {
    let mut ledger = Ledger::new(100);
    ledger.enter(BufferOwner::Tokens, 60).unwrap();
    let before = ledger.clone();
    let over = ledger.enter(BufferOwner::Params, 41).unwrap_err();
    let expected = LedgerError::OverBudget {
        owner: BufferOwner::Params,
        wanted_bytes: 41,
        used_bytes: 60,
        budget_bytes: 100,
    };
    assert_eq!(over, expected);
    assert!(matches!(ledger.enter(BufferOwner::Tokens, 0), Err(LedgerError::Entered { .. })));
    assert!(matches!(ledger.release(BufferOwner::Params), Err(LedgerError::NotEntered { .. })));
    assert!(matches!(ledger.enter(BufferOwner::Params, u64::MAX), Err(LedgerError::OverBudget { .. })));
    assert_eq!(ledger, before);
}

proptest! {
    #[test]
    fn agrees_with_a_list(
        budget in 0..5_000u64,
        steps in prop::collection::vec((0..6u32, 0..2_000u64, any::<bool>()), 0..200),
    ) {
        let mut ledger = Ledger::new(budget);
        let mut list: Vec<(u32, u64)> = Vec::new();
        let mut peak = 0;
        for (slot, bytes, enters) in steps {
            let owner = BufferOwner::Readback(slot);
            let held = list.iter().position(|(s, _)| *s == slot);
            let used: u64 = list.iter().map(|(_, b)| b).sum();
            if enters {
                let expected = held.is_none() && used + bytes <= budget;
                prop_assert_eq!(ledger.enter(owner, bytes).is_ok(), expected);
                if expected { list.push((slot, bytes)); }
            } else {
                let released = ledger.release(owner).ok();
                prop_assert_eq!(released, held.map(|index| list.remove(index).1));
            }
            let used: u64 = list.iter().map(|(_, b)| b).sum();
            peak = peak.max(used);
            prop_assert_eq!((ledger.used_bytes(), ledger.peak_bytes()), (used, peak));
            prop_assert!(ledger.used_bytes() <= budget);
            prop_assert_eq!(ledger.entries().map(|(_, b)| b).sum::<u64>(), used);
        }
    }
}
