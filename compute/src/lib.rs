//! The kernels of the processor back end: weights in groups of sixteen rows, products with int8 codes, the
//! key/value cache, attention, and the choice of a token. `docs/semantics.md`, "On a processor", is the
//! arithmetic; it gives the same bits on every instruction set, thread count and batch.
//!
//! Rows of a batch form *tiles* of up to eight, so that a piece of work reads and writes contiguous memory:
//!
//! ```text
//! values       [tile][panel of 16 elements][row of the tile][16]
//! activations  [tile][block of 32 elements][row of the tile]
//! ```

pub mod activate;
pub mod attend;
pub mod cache;
pub mod choice;
pub mod heads;
pub mod math;
pub mod normalize;
pub mod product;
pub mod quantise;
pub mod simd;
pub mod team;
pub mod tiles;
pub mod weights;

pub use simd::{Kernel, Level, Simd};
