//! The ring of slots that pages stream through: which page is wanted next, which are there, which is used next.
//!
//! The queue runs in order, so a slot is free again as soon as the work that reads it has been *submitted*.

use fanlight_messages::plan::{GpuPlan, PageRange};
use fanlight_messages::program::MatrixId;

/// State of the ring. Pages are numbered in the order of a pass and come in that order, over and over; those of
/// the head are left out where a pass does without.
#[derive(Debug, Default)]
pub(super) struct Ring {
    pages: Vec<PageRange>,
    /// The first page of the head.
    head: usize,
    /// Slots that hold a page which has not been used.
    is_held: Vec<bool>,
    /// The page that arrives, and how many of its rows are there.
    arriving: usize,
    arrived_rows: u64,
    /// The page that a pass uses next.
    next: usize,
    /// Whole pages from `next` on that are there.
    ready: usize,
}

impl Ring {
    /// The empty ring of a plan.
    pub(super) fn new(plan: &GpuPlan) -> Self {
        let Some(stream) = &plan.stream else { return Self::default() };
        let pages = stream.pages.iter().filter_map(|index| plan.pages.get(*index as usize));
        Self {
            pages: pages.copied().collect(),
            head: stream.body_pages as usize,
            is_held: vec![false; stream.slots as usize],
            ..Self::default()
        }
    }

    /// A request begins, and its first pass with the first page. What the ring holds of it stays, unless the
    /// pass before broke off, or pages of the head are there that the first pass may do without.
    pub(super) fn restart(&mut self) {
        if self.next != 0 || self.ready > self.head {
            (self.next, self.arriving, self.ready) = (0, 0, 0);
            self.is_held.fill(false);
        }
        self.arrived_rows = 0;
    }

    /// The page that arrives next.
    pub(super) fn arriving(&self) -> usize {
        self.arriving
    }

    fn slot(&self, page: usize) -> usize {
        self.pages.get(page).and_then(|page| page.slot).unwrap_or(0) as usize
    }

    /// The page that rows belong to: the one that arrives, or the first one where the head is left out.
    fn page_of(&self, matrix: MatrixId, first_row: u64) -> Option<usize> {
        let starts_at = |page: usize, row: u64| {
            self.pages.get(page).is_some_and(|p| p.matrix == matrix && p.first_row + row == first_row)
        };
        if starts_at(self.arriving, self.arrived_rows) {
            return Some(self.arriving);
        }
        (self.arriving == self.head && self.arrived_rows == 0 && starts_at(0, 0)).then_some(0)
    }

    /// Whether these are rows that may come next, and their slot is free.
    pub(super) fn has_room(&self, matrix: MatrixId, first_row: u64) -> bool {
        let Some(page) = self.page_of(matrix, first_row) else { return false };
        self.ready < self.pages.len() && self.is_held.get(self.slot(page)).is_some_and(|is_held| !is_held)
    }

    /// Rows are on their way to their slot, which [had room](Self::has_room); false when they are too many.
    pub(super) fn arrive(&mut self, matrix: MatrixId, first_row: u64, rows: u64) -> bool {
        let Some(page) = self.page_of(matrix, first_row) else { return false };
        self.arriving = page;
        self.arrived_rows += rows;
        let page_rows = self.pages[page].rows;
        if page_rows == self.arrived_rows {
            let slot = self.slot(page);
            self.is_held[slot] = true;
            self.ready += 1;
            self.arrived_rows = 0;
            self.arriving = (page + 1) % self.pages.len();
        }
        self.arrived_rows < page_rows
    }

    /// Uses a page if it is there: its slot is free once the work that reads it is submitted, which is before
    /// anything that is uploaded from now on.
    pub(super) fn take(&mut self, page: u32) -> bool {
        let page = page as usize;
        if self.ready == 0 || page != self.next {
            return false;
        }
        let slot = self.slot(page);
        self.is_held[slot] = false;
        self.ready -= 1;
        self.next = (self.next + 1) % self.pages.len();
        true
    }

    /// A pass is over, with or without the head.
    pub(super) fn end_pass(&mut self) {
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(pages: u32, slots: u32) -> Ring {
        let page = |page: u32| PageRange {
            matrix: MatrixId(page),
            page: 0,
            first_row: 4,
            rows: 8,
            slot: Some(page % slots),
        };
        Ring {
            pages: (0..pages).map(page).collect(),
            head: pages as usize - 1,
            is_held: vec![false; slots as usize],
            ..Ring::default()
        }
    }

    /// Loads a page when it has room.
    fn load(ring: &mut Ring, page: u32) -> bool {
        let has_room = ring.has_room(MatrixId(page), 4);
        if has_room {
            assert!(ring.arrive(MatrixId(page), 4, 3));
            assert!(!ring.has_room(MatrixId(page), 4), "the same rows again");
            assert!(ring.has_room(MatrixId(page), 7), "the rest of the page");
            ring.arrive(MatrixId(page), 7, 5);
        }
        has_room
    }

    #[test]
    fn pages_come_and_go_in_order_over_any_number_of_passes_with_and_without_the_head() {
        for (pages, slots) in [(1, 1), (2, 2), (3, 2), (4, 2), (7, 3)] {
            let mut ring = ring(pages, slots);
            let ends = [pages - 1, pages - 1, pages, pages, pages];
            let mut order = ends.iter().flat_map(|end| 0..*end).peekable();
            for end in ends {
                for page in 0..end {
                    while let Some(coming) = order.next_if(|coming| load(&mut ring, *coming)) {
                        assert!(coming < pages);
                    }
                    assert!(pages == 1 || !ring.take((page + 1) % pages), "out of order");
                    assert!(ring.take(page), "{pages} pages, {slots} slots: page {page}");
                }
                ring.end_pass();
            }
        }
    }

    #[test]
    fn a_slot_is_not_overwritten_before_its_page_is_used() {
        let mut ring = ring(3, 2);
        assert!(load(&mut ring, 0) && load(&mut ring, 1) && !load(&mut ring, 2));
        assert!(ring.take(0) && load(&mut ring, 2), "page 2 in the place of page 0");
        assert!(ring.take(1) && !load(&mut ring, 0), "page 0 shares its slot with page 2, which is unused");
        assert!(ring.take(2) && load(&mut ring, 0));
    }

    #[test]
    fn a_pass_that_broke_off_starts_over_and_a_whole_one_keeps_what_was_read_ahead() {
        let mut ring = ring(4, 2);
        assert!(load(&mut ring, 0) && load(&mut ring, 1) && ring.take(0));
        ring.restart();
        assert_eq!((ring.arriving(), ring.take(0)), (0, false));
        for page in 0..4 {
            assert!(load(&mut ring, page) && ring.take(page));
        }
        ring.end_pass();
        assert!(load(&mut ring, 0) && load(&mut ring, 1));
        ring.restart();
        assert_eq!((ring.arriving(), ring.take(0), ring.take(1)), (2, true, true));
    }

    #[test]
    fn a_head_that_was_read_ahead_is_let_go_when_a_request_begins() {
        let mut ring = ring(2, 2);
        assert!(load(&mut ring, 0) && load(&mut ring, 1));
        ring.restart();
        assert_eq!((ring.arriving(), ring.take(0)), (0, false));
    }
}
