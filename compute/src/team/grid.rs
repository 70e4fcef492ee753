//! Memory that the pieces of a run share, each its own part.
#![allow(unsafe_code, reason = "disjoint parts of a slice, by claims that exist once")]

use std::marker::PhantomData;
use std::ops::Range;

use super::Team;

/// The right to do a piece of a run. A run makes one for each piece, and it is spent where it is used.
#[derive(Debug)]
pub struct Claim<'run> {
    index: usize,
    member: usize,
    team: usize,
    run: PhantomData<&'run ()>,
}

/// How a slice is cut: into sections, one after the other, of each of which `len` elements from `offset` on
/// are cut into parts, the last of them perhaps shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Elements from one section to the next.
    pub section: usize,
    /// Where the parts of a section begin.
    pub offset: usize,
    /// Elements that its parts have together.
    pub len: usize,
    /// Elements of a part.
    pub part: usize,
    /// The first parts of all sections come first, then the second ones; else section by section.
    pub by_part: bool,
    /// Sections; only asked for where `by_part` is set.
    pub sections: usize,
}

impl Cut {
    /// Sections of `section` elements, one part each.
    pub fn whole(section: usize) -> Self {
        Self { section, offset: 0, len: section, part: section, by_part: false, sections: 1 }
    }

    /// Parts of a section.
    pub fn parts(&self) -> usize {
        self.len.div_ceil(self.part.max(1)).max(1)
    }

    /// Where part `index` is.
    fn range(&self, index: usize) -> Range<usize> {
        let (section, part) = if self.by_part {
            (index % self.sections, index / self.sections)
        } else {
            (index / self.parts(), index % self.parts())
        };
        let start = section * self.section + self.offset;
        let from = (part * self.part).min(self.len);
        start + from..start + (from + self.part).min(self.len)
    }
}

/// A slice cut into parts. Piece i of a run has part i.
#[derive(Debug)]
pub struct Grid<'a, T> {
    data: *mut T,
    len: usize,
    cut: Cut,
    team: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: a grid gives out parts only against claims, each of which exists once in a run; a part moves to the
// member that holds the claim, so T must be Send.
unsafe impl<T: Send> Sync for Grid<'_, T> {}

impl<'a, T> Grid<'a, T> {
    /// Cuts `data`.
    ///
    /// # Panics
    /// When the parts of a section would reach into the next one.
    pub fn new(team: &Team, data: &'a mut [T], cut: Cut) -> Self {
        assert!(cut.offset + cut.len <= cut.section, "parts of two sections would overlap");
        let (data, len) = (data.as_mut_ptr(), data.len());
        Self { data, len, cut, team: std::ptr::from_ref(team).addr(), borrow: PhantomData }
    }

    /// Where part `index` is; empty beyond the end.
    fn range(&self, index: usize) -> Range<usize> {
        let range = self.cut.range(index);
        range.start.min(self.len)..range.end.min(self.len)
    }

    /// The part of piece `index`.
    ///
    /// # Safety
    /// No other reference to this part may exist while this one does.
    unsafe fn part<'run>(&self, index: usize, team: usize) -> &'run mut [T] {
        assert!(self.team == team, "the grid was made for another team");
        let range = self.range(index);
        // SAFETY: the range lies in the slice, which is borrowed for the grid's life; runs end before it.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(range.start), range.len()) }
    }
}

impl<'run> Claim<'run> {
    /// Only a team makes claims, one for each piece of a run.
    pub(super) fn new(index: usize, member: usize, team: usize) -> Self {
        Self { index, member, team, run: PhantomData }
    }

    /// Which piece.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Who does it, below [`Team::members`].
    pub fn member(&self) -> usize {
        self.member
    }

    /// The piece's part.
    pub fn one<T: Send>(self, grid: &Grid<'_, T>) -> &'run mut [T] {
        // SAFETY: parts of different claims are disjoint, this claim is spent, a team has one run at a time,
        // and the reference cannot outlive it, since `'run` is any lifetime to the piece.
        unsafe { grid.part(self.index, self.team) }
    }

    /// The piece's parts of two grids. Two grids never share memory, since each borrows its own.
    pub fn two<A: Send, B: Send>(
        self,
        first: &Grid<'_, A>,
        second: &Grid<'_, B>,
    ) -> (&'run mut [A], &'run mut [B]) {
        assert!(first.data.addr() != second.data.addr() || first.len == 0, "two different grids");
        // SAFETY: as in `one`, for each of two different grids.
        unsafe { (first.part(self.index, self.team), second.part(self.index, self.team)) }
    }

    /// The piece's parts of three grids.
    pub fn three<A: Send, B: Send, C: Send>(
        self,
        first: &Grid<'_, A>,
        second: &Grid<'_, B>,
        third: &Grid<'_, C>,
    ) -> (&'run mut [A], &'run mut [B], &'run mut [C]) {
        let differs = |a: usize, b: usize, len: usize| a != b || len == 0;
        let addresses = [first.data.addr(), second.data.addr(), third.data.addr()];
        assert!(differs(addresses[0], addresses[1], first.len), "three different grids");
        assert!(differs(addresses[0], addresses[2], third.len), "three different grids");
        assert!(differs(addresses[1], addresses[2], third.len), "three different grids");
        let (index, team) = (self.index, self.team);
        // SAFETY: as in `one`, for each of three different grids.
        unsafe { (first.part(index, team), second.part(index, team), third.part(index, team)) }
    }

    /// The piece's part of one grid, and the member's own of another.
    pub fn with_scratch<A: Send, B: Send>(
        self,
        grid: &Grid<'_, A>,
        scratch: &Grid<'_, B>,
    ) -> (&'run mut [A], &'run mut [B]) {
        assert!(grid.data.addr() != scratch.data.addr() || grid.len == 0, "two different grids");
        // SAFETY: as in `one`; a member does one piece at a time.
        unsafe { (grid.part(self.index, self.team), scratch.part(self.member, self.team)) }
    }
}
