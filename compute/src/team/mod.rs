//! A team shares pieces of work: whoever is free claims the next piece, so nobody waits for a thread that
//! holds none. Alone, which is all a page has without shared memory, the pieces are done one by one.

mod grid;
#[cfg(not(target_arch = "wasm32"))]
mod threads;

pub use grid::{Claim, Cut, Grid};

use std::cell::Cell;
use std::marker::PhantomData;

/// Most members: beyond it, sharing a piece of some microseconds costs more than it gains.
pub const MEMBERS_MAX: usize = 64;
/// Most pieces of a run: they are counted in sixteen bits.
pub const PIECES_MAX: usize = u16::MAX as usize;

/// The threads that run the pieces, the owner's among them. Only its owner hands out work.
#[derive(Debug)]
pub struct Team {
    #[cfg(not(target_arch = "wasm32"))]
    threads: Option<threads::Threads>,
    members: usize,
    // A team is used from one thread at a time: grids rely on it.
    owner: PhantomData<Cell<()>>,
}

impl Team {
    /// A team of `members`, the caller included; 1 to [`MEMBERS_MAX`], and 1 where there are no threads.
    ///
    /// # Errors
    /// When the system starts no thread.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new(members: usize) -> std::io::Result<Self> {
        let members = members.clamp(1, MEMBERS_MAX);
        let threads = (members > 1).then(|| threads::Threads::start(members - 1)).transpose()?;
        Ok(Self { threads, members, owner: PhantomData })
    }

    /// A team of one: a module without shared memory has no threads.
    ///
    /// # Errors
    /// None here.
    #[cfg(target_arch = "wasm32")]
    pub fn new(_members: usize) -> std::io::Result<Self> {
        Ok(Self { members: 1, owner: PhantomData })
    }

    /// How many share the work.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Calls `work` once for each of `pieces` pieces, in any order, by any member, and returns when all are
    /// done.
    ///
    /// # Panics
    /// When there are more than [`PIECES_MAX`] pieces, or when `work` panics.
    pub fn run(&self, pieces: usize, work: &(dyn Fn(Claim<'_>) + Sync)) {
        assert!(pieces <= PIECES_MAX, "{pieces} pieces are more than {PIECES_MAX}");
        let team = std::ptr::from_ref(self).addr();
        let call = |index: usize, member: usize| work(Claim::new(index, member, team));
        #[cfg(not(target_arch = "wasm32"))]
        if let Some(threads) = self.threads.as_ref().filter(|_| pieces > 1) {
            threads.run(pieces, &call);
            return;
        }
        for index in 0..pieces {
            call(index, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_piece_is_done_once_and_writes_its_own_part() {
        for members in [1, 2, 3, 8] {
            let team = Team::new(members).unwrap();
            for pieces in [0, 1, 2, 7, 64, 1000] {
                let mut data = vec![0u32; pieces * 3];
                let calls = AtomicUsize::new(0);
                let grid = Grid::new(&team, &mut data, Cut { part: 3, ..Cut::whole(pieces * 3) });
                team.run(pieces, &|claim| {
                    calls.fetch_add(1, Ordering::Relaxed);
                    let index = claim.index() as u32;
                    claim.one(&grid).iter_mut().for_each(|x| *x += index + 1);
                });
                assert_eq!(calls.into_inner(), pieces);
                assert!(data.iter().enumerate().all(|(i, x)| *x == i as u32 / 3 + 1), "{members} {pieces}");
            }
        }
    }

    #[test]
    fn many_runs_follow_each_other_and_scratch_belongs_to_a_member() {
        let team = Team::new(4).unwrap();
        let mut scratch = vec![0u64; team.members()];
        let mut sums = vec![0u64; 16];
        for round in 0..5000u64 {
            let (scratch, sums) =
                (Grid::new(&team, &mut scratch, Cut::whole(1)), Grid::new(&team, &mut sums, Cut::whole(1)));
            team.run(16, &|claim| {
                let index = claim.index() as u64;
                let (sum, scratch) = claim.with_scratch(&sums, &scratch);
                scratch[0] = index;
                sum[0] += scratch[0] + round;
            });
        }
        let wanted = |i: u64| 5000 * i + 4999 * 5000 / 2;
        assert!(sums.iter().zip(0..).all(|(sum, i)| *sum == wanted(i)));
    }

    #[test]
    fn a_slow_member_holds_up_its_own_piece_only() {
        let team = Team::new(2).unwrap();
        let by = [AtomicUsize::new(0), AtomicUsize::new(0)];
        team.run(40, &|claim| {
            // The other member comes to an end only after the owner has done most of the work.
            while claim.member() == 1 && by[0].load(Ordering::Acquire) < 30 {
                std::thread::yield_now();
            }
            by[claim.member()].fetch_add(1, Ordering::AcqRel);
        });
        let [owner, other] = by.map(AtomicUsize::into_inner);
        assert!(owner >= 30 && owner + other == 40, "{owner} {other}");
    }

    #[test]
    #[should_panic(expected = "a piece of work panicked")]
    fn a_panic_of_a_member_reaches_the_owner() {
        let team = Team::new(2).unwrap();
        let has_begun = AtomicUsize::new(0);
        team.run(100, &|claim| {
            has_begun.fetch_or(claim.member(), Ordering::AcqRel);
            assert!(claim.member() == 0, "on purpose");
            while has_begun.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
        });
    }

    #[test]
    #[should_panic(expected = "another team")]
    fn a_grid_belongs_to_its_team() {
        let (team, other) = (Team::new(1).unwrap(), Team::new(1).unwrap());
        let mut data = [0];
        let grid = Grid::new(&other, &mut data, Cut::whole(1));
        team.run(1, &|claim| claim.one(&grid)[0] = 1);
    }
}
