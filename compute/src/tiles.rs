//! How the rows of a batch are laid out.

pub use fanlight_messages::row_groups::TILE_ROWS;

/// Elements of a panel, and rows of a group of weights.
pub const LANES: usize = fanlight_messages::row_groups::GROUP_ROWS;
/// Sixteen elements of a row.
pub type Panel = [f32; LANES];

/// The tiles of a batch: all have the same room, the last one fewer live rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiles {
    /// Rows of the batch.
    pub rows: usize,
    /// Rows that a tile has room for: 1, 2, 4 or 8.
    pub room: usize,
}

impl Tiles {
    /// For a batch of `rows`, at least one.
    pub fn new(rows: usize) -> Self {
        Self { rows, room: rows.next_power_of_two().min(TILE_ROWS) }
    }

    /// How many.
    pub fn count(self) -> usize {
        self.rows.div_ceil(self.room)
    }

    /// Live rows of a tile.
    pub fn live(self, tile: usize) -> usize {
        self.room.min(self.rows - tile * self.room)
    }

    /// Tile of a row, and its place there.
    pub fn place(self, row: usize) -> (usize, usize) {
        (row / self.room, row % self.room)
    }

    /// Elements of a buffer of `len` elements for each row and tile.
    pub fn total(self, len: usize) -> usize {
        self.count() * self.room * len
    }

    /// Where panel `panel` of `row` is among the panels of values of `len` elements.
    pub fn panel(self, row: usize, panel: usize, len: usize) -> usize {
        let (tile, place) = self.place(row);
        (tile * panels(len) + panel) * self.room + place
    }
}

/// Panels of a row of `len` elements.
pub fn panels(len: usize) -> usize {
    len.div_ceil(LANES)
}
