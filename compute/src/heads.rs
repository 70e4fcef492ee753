//! From a q|k|v row to heads: bias, norm, rotation, the scale of queries.

use crate::math::{fold_lanes, rms_scale};
use crate::simd::{Kernel, Simd};
use crate::tiles::{LANES, Panel};

/// Longest head.
pub const HEAD_LEN_MAX: usize = 256;

/// Shape of a layer's heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// KV heads.
    pub kv_heads: usize,
    /// Query heads of each.
    pub group: usize,
    /// Elements of a head, at most [`HEAD_LEN_MAX`].
    pub head_len: usize,
}

impl Shape {
    /// Elements of a KV head with its queries: q heads, key, value.
    pub fn unit_len(self) -> usize {
        (self.group + 2) * self.head_len
    }

    /// Elements of all.
    pub fn len(self) -> usize {
        self.kv_heads * self.unit_len()
    }

    /// True without a head.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// The rotations of one row: (cosine, sine) of each pair.
#[derive(Debug, Clone, Copy)]
pub struct Rotation<'a> {
    /// One for each pair; none leaves the head as it is.
    pub turns: &'a [[f32; 2]],
    /// Pairs are elements 2i and 2i + 1, else i and i + pairs.
    pub is_adjacent: bool,
}

/// The heads of one row of a tile.
#[derive(Debug)]
pub struct Heads<'a> {
    /// q|k|v, `[panel][room]`.
    pub input: &'a [Panel],
    /// Rows that the tile has room for.
    pub room: usize,
    /// Which row.
    pub row: usize,
    /// Shape.
    pub shape: Shape,
    /// q|k|v bias.
    pub bias: Option<&'a [f32]>,
    /// Norm weights of queries.
    pub query_norm: Option<&'a [f32]>,
    /// Norm weights of keys.
    pub key_norm: Option<&'a [f32]>,
    /// Epsilon of both.
    pub epsilon: f32,
    /// Of queries, log2(e) included.
    pub query_scale: f32,
    /// Of the row's position.
    pub rotation: Rotation<'a>,
    /// `[kv head][room][q heads, key, value]`.
    pub out: &'a mut [f32],
}

impl Kernel for Heads<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { shape, room, row, .. } = self;
        let Shape { kv_heads, group, head_len } = shape;
        for kv_head in 0..kv_heads {
            for k in 0..group + 2 {
                // q heads come first in the row, then all keys, then all values.
                let head = match k {
                    k if k < group => kv_head * group + k,
                    k if k == group => kv_heads * group + kv_head,
                    _ => kv_heads * (group + 1) + kv_head,
                };
                let mut x = [0.0; HEAD_LEN_MAX];
                let x = &mut x[..head_len];
                let start = head * head_len;
                for (eight, x) in x.chunks_exact_mut(8).enumerate() {
                    let at = start + eight * 8;
                    let panel = &self.input[at / LANES * room + row];
                    x.copy_from_slice(&panel[at % LANES..][..8]);
                }
                if let Some(bias) = self.bias {
                    for (x, bias) in x.iter_mut().zip(&bias[start..]) {
                        *x += bias;
                    }
                }
                if k <= group {
                    let norm = if k == group { self.key_norm } else { self.query_norm };
                    normalise(x, norm, self.epsilon);
                    rotate(x, self.rotation);
                }
                if k < group {
                    for x in x.iter_mut() {
                        *x *= self.query_scale;
                    }
                }
                let unit = (kv_head * room + row) * shape.unit_len();
                self.out[unit + k * head_len..][..head_len].copy_from_slice(x);
            }
        }
    }
}

#[inline(always)]
fn normalise(x: &mut [f32], norm: Option<&[f32]>, epsilon: f32) {
    let Some(norm) = norm else { return };
    let mut squares = [0.0; LANES];
    for part in x.chunks(LANES) {
        for (square, x) in squares.iter_mut().zip(part) {
            *square += x * x;
        }
    }
    let scale = rms_scale(fold_lanes(squares), x.len(), epsilon);
    for (x, norm) in x.iter_mut().zip(norm) {
        *x = *x * scale * norm;
    }
}

#[inline(always)]
fn rotate(x: &mut [f32], Rotation { turns, is_adjacent }: Rotation<'_>) {
    if is_adjacent {
        for (pair, [cos, sin]) in x.as_chunks_mut::<2>().0.iter_mut().zip(turns) {
            let [a, b] = *pair;
            *pair = [a * cos - b * sin, b * cos + a * sin];
        }
    } else {
        let (first, second) = x.split_at_mut(turns.len());
        for ((a, b), [cos, sin]) in first.iter_mut().zip(second).zip(turns) {
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
    }
}
