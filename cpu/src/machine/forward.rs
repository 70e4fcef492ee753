//! A pass: the ops of a program over the rows of a batch. Each op is cut into pieces that the team shares; a
//! piece writes its own part of the output, and which member does it changes nothing.

use std::mem::take;
use std::sync::atomic::{AtomicU32, Ordering};

use fanlight_compute::activate::{Activate, Gate};
use fanlight_compute::attend::Attend;
use fanlight_compute::heads::{Heads, Rotation};
use fanlight_compute::normalize::Normalize;
use fanlight_compute::product::{Input, Multiply};
use fanlight_compute::quantise::BLOCK_LEN;
use fanlight_compute::simd::{Kernel, Simd};
use fanlight_compute::team::{Claim, Cut, Grid};
use fanlight_compute::tiles::{LANES, Panel, Tiles, panels};
use fanlight_compute::weights::weight_row;
use fanlight_compute::{cache, quantise};
use fanlight_messages::program::{ActivationId, GateFunction, MatrixId, Op, ValueId};

use super::{Activation, Batch, Machine, shape_of};

/// Weights that a piece of a product reads at least: some microseconds of work.
const PIECE_BYTES_MIN: usize = 16 << 10;
/// Weights that a piece reads at most, so that the next tile finds them in a core's own cache.
const PIECE_BYTES_MAX: usize = 256 << 10;
/// Pieces of a product for each member: whoever is late leaves its share to the others.
const PIECES_PER_MEMBER: usize = 4;
/// Blocks times rows of a piece of the gate.
const GATE_BLOCKS: usize = 64;

/// A product and where its output goes.
#[derive(Debug, Clone, Copy)]
struct Product {
    matrix: MatrixId,
    output: ValueId,
    /// First element written.
    offset: usize,
}

impl Machine {
    /// Evaluates the body of the program.
    pub(super) fn forward(&mut self, batch: &Batch) {
        let program = self.program.clone();
        for op in &program.body {
            self.op(op, batch);
        }
    }

    /// Multiplies every row by the head.
    pub(super) fn head_of_all(&mut self, batch: &Batch) {
        let (product, input) = self.head();
        let activation = take(&mut self.activations[input.index()]);
        self.multiply(product, &activation, batch.tiles());
        self.activations[input.index()] = activation;
    }

    /// Multiplies the last row by the head.
    pub(super) fn head_of_last(&mut self, batch: &Batch) {
        let (product, input) = self.head();
        let (tiles, mut last) = (batch.tiles(), take(&mut self.last));
        let (tile, place) = tiles.place(batch.tokens.len() - 1);
        let from = &self.activations[input.index()];
        let start = tile * tiles.room;
        let blocks = from.blocks[start * (from.columns / BLOCK_LEN)..].iter();
        for (to, from) in last.blocks.iter_mut().zip(blocks.skip(place).step_by(tiles.room)) {
            *to = *from;
        }
        let values = from.values.get(start * from.columns..).unwrap_or_default().iter();
        for (to, from) in last.values.iter_mut().zip(values.skip(place).step_by(tiles.room)) {
            *to = *from;
        }
        self.multiply(product, &last, Tiles::new(1));
        self.last = last;
    }

    fn head(&self) -> (Product, ActivationId) {
        match self.program.head {
            Op::Multiply { matrix, input, output, output_offset } => {
                (Product { matrix, output, offset: output_offset as usize }, input)
            }
            _ => unreachable!("the pager refuses a program whose head is no product"),
        }
    }

    fn op(&mut self, op: &Op, batch: &Batch) {
        let tiles = batch.tiles();
        match op {
            Op::Embed { table, scale, output } => self.embed(*table, *scale, *output, batch),
            Op::Normalize { .. } => self.normalize(op, tiles),
            Op::Multiply { matrix, input, output, output_offset } => {
                let activation = take(&mut self.activations[input.index()]);
                let product = Product { matrix: *matrix, output: *output, offset: *output_offset as usize };
                self.multiply(product, &activation, tiles);
                self.activations[input.index()] = activation;
            }
            Op::Heads { layer, .. } => {
                self.heads(op, batch);
                self.store(*layer as usize, batch);
            }
            Op::Attend { .. } => self.attend(op, batch),
            Op::Activate { input, function, output } => self.activate(*input, *function, *output, tiles),
        }
    }

    fn embed(&mut self, table: MatrixId, scale: f32, output: ValueId, batch: &Batch) {
        let tiles = batch.tiles();
        let matrix = self.matrices[table.index()].view();
        let out = &mut self.values[output.index()];
        let section = panels(matrix.columns) * tiles.room;
        let grid = Grid::new(&self.team, out, Cut::whole(section));
        self.team.run(tiles.count(), &|claim| {
            let tile = claim.index();
            let out = claim.one(&grid);
            let mut row = vec![0.0; matrix.columns];
            for place in 0..tiles.live(tile) {
                let token = batch.tokens[tile * tiles.room + place] as usize;
                weight_row(&matrix, token, scale, &mut row);
                for (panel, x) in out.iter_mut().skip(place).step_by(tiles.room).zip(row.chunks(LANES)) {
                    panel[..x.len()].copy_from_slice(x);
                }
            }
        });
    }

    fn normalize(&mut self, op: &Op, tiles: Tiles) {
        let Op::Normalize { residual, delta, post_norm, weight, epsilon, output } = op else { return };
        let weight = &self.vectors[weight.index()];
        let post_norm = post_norm.map(|norm| &self.vectors[norm.index()][..]);
        let mut stream = take(&mut self.values[residual.index()]);
        let mut activation = take(&mut self.activations[output.index()]);
        let section = panels(weight.len()) * tiles.room;
        let delta = delta.map(|delta| &self.values[delta.index()]);
        {
            let residual = Grid::new(&self.team, &mut stream, Cut::whole(section));
            let blocks = weight.len() / BLOCK_LEN * tiles.room;
            let out = Grid::new(&self.team, &mut activation.blocks, Cut::whole(blocks));
            let values = Grid::new(&self.team, &mut activation.values, Cut::whole(blocks * BLOCK_LEN));
            self.team.run(tiles.count(), &|claim| {
                let tile = claim.index();
                let (residual, out, values) = claim.three(&residual, &out, &values);
                let faults = self.level.run(Normalize {
                    residual,
                    delta: delta.map(|delta| &delta[tile * section..][..section]),
                    post_norm,
                    weight,
                    epsilon: *epsilon,
                    room: tiles.room,
                    live: tiles.live(tile),
                    out,
                    values,
                });
                fault(&self.faults, tiles, tile, faults);
            });
        }
        self.values[residual.index()] = stream;
        self.activations[output.index()] = activation;
    }

    fn multiply(&mut self, product: Product, input: &Activation, tiles: Tiles) {
        let Product { matrix, output, offset } = product;
        let value_len = self.program.values[output.index()].len as usize;
        let rows = self.matrices[matrix.index()].rows;
        // A matrix whose rows begin or end inside a panel that others write too goes through a copy.
        let is_shared =
            !offset.is_multiple_of(LANES) || (!rows.is_multiple_of(LANES) && offset + rows < value_len);
        let mut out = take(&mut self.values[output.index()]);
        if is_shared {
            let mut own = vec![[0.0; LANES]; panels(rows) * tiles.count() * tiles.room];
            self.products(matrix, input, tiles, &mut own, 0, panels(rows));
            shift(&own, &mut out, tiles, offset, rows, value_len);
        } else {
            self.products(matrix, input, tiles, &mut out, offset / LANES, panels(value_len));
        }
        self.values[output.index()] = out;
    }

    /// Products to panels `first..` of tiles of `section` panels.
    fn products(
        &self,
        matrix: MatrixId,
        input: &Activation,
        tiles: Tiles,
        out: &mut [Panel],
        first: usize,
        section: usize,
    ) {
        let (level, matrix) = (self.level, self.matrices[matrix.index()].view());
        let (room, bytes) = (tiles.room, matrix.bytes.len());
        let groups = bytes / matrix.format.group_bytes(matrix.columns);
        let parts = (bytes / PIECE_BYTES_MIN).clamp(1, PIECES_PER_MEMBER * self.team.members());
        let parts = if tiles.count() > 1 { parts.max(bytes.div_ceil(PIECE_BYTES_MAX)) } else { parts };
        let part_groups = groups.div_ceil(parts.min(groups));
        let cut = Cut {
            section: section * room,
            offset: first * room,
            len: groups * room,
            part: part_groups * room,
            by_part: true,
            sections: tiles.count(),
        };
        let grid = Grid::new(&self.team, out, cut);
        let block_section = input.columns / BLOCK_LEN * room;
        self.team.run(cut.parts() * tiles.count(), &|claim: Claim<'_>| {
            let (tile, part) = (claim.index() % tiles.count(), claim.index() / tiles.count());
            let values = input.values.get(tile * input.columns * room..).unwrap_or_default();
            let input = Input {
                blocks: &input.blocks[tile * block_section..][..block_section],
                values: &values[..values.len().min(input.columns * room)],
                room,
                live: tiles.live(tile),
            };
            let out = claim.one(&grid);
            level.run(Multiply { matrix, first_group: part * part_groups, input, out });
        });
    }

    fn heads(&mut self, op: &Op, batch: &Batch) {
        let Op::Heads { layer, input, bias, query_norm, key_norm, epsilon, rope, query_scale, output: _ } =
            op
        else {
            return;
        };
        let vector =
            |id: &Option<fanlight_messages::program::VectorId>| id.map(|id| &self.vectors[id.index()][..]);
        let (bias, query_norm, key_norm) = (vector(bias), vector(query_norm), vector(key_norm));
        let (tiles, shape) = (batch.tiles(), shape_of(self.program.layers[*layer as usize]));
        let rope = &self.ropes[rope.index()];
        let qkv = &self.values[input.index()];
        let section = panels(self.program.values[input.index()].len as usize) * tiles.room;
        let query_scale = (f64::from(*query_scale) * std::f64::consts::LOG2_E) as f32;
        let mut heads = take(&mut self.heads);
        {
            let grid = Grid::new(&self.team, &mut heads, Cut::whole(shape.len() * tiles.room));
            self.team.run(tiles.count(), &|claim| {
                let tile = claim.index();
                let out = claim.one(&grid);
                for row in 0..tiles.live(tile) {
                    let position = batch.sights[tile * tiles.room + row].position();
                    let rotation = Rotation { turns: rope.at(position), is_adjacent: rope.is_adjacent };
                    let input = &qkv[tile * section..][..section];
                    let out = &mut *out;
                    self.level.run(Heads {
                        input,
                        room: tiles.room,
                        row,
                        shape,
                        bias,
                        query_norm,
                        key_norm,
                        epsilon: *epsilon,
                        query_scale,
                        rotation,
                        out,
                    });
                }
            });
        }
        self.heads = heads;
    }

    /// Writes the batch's keys and values to the cache, one head after the other.
    fn store(&mut self, layer: usize, batch: &Batch) {
        let (tiles, shape) = (batch.tiles(), shape_of(self.program.layers[layer]));
        let mut bytes = take(&mut self.caches[layer].bytes);
        let cache = self.caches[layer].shape;
        {
            let grid = Grid::new(&self.team, &mut bytes, Cut::whole(cache.bytes()));
            self.team.run(shape.kv_heads, &|claim| {
                let kv_head = claim.index();
                let head = claim.one(&grid);
                for tile in 0..tiles.count() {
                    let unit = (tile * shape.kv_heads + kv_head) * tiles.room * shape.unit_len();
                    let first = tile * tiles.room;
                    let faults = self.level.run(Store {
                        cache,
                        head: &mut *head,
                        units: &self.heads[unit..][..tiles.room * shape.unit_len()],
                        unit_len: shape.unit_len(),
                        rows: &batch.cache_rows[first..first + tiles.live(tile)],
                    });
                    fault(&self.faults, tiles, tile, faults);
                }
            });
        }
        self.caches[layer].bytes = bytes;
    }

    fn attend(&mut self, op: &Op, batch: &Batch) {
        let Op::Attend { layer, query: _, window, soft_cap, output } = op else { return };
        let (tiles, shape) = (batch.tiles(), shape_of(self.program.layers[*layer as usize]));
        let cache = &self.caches[*layer as usize];
        let out_len = shape.group * shape.head_len;
        let (mut attention, mut scratch) = (take(&mut self.attention), take(&mut self.scratch));
        {
            let part = tiles.room * out_len;
            let grid = Grid::new(&self.team, &mut attention, Cut::whole(part));
            let scratch = Grid::new(&self.team, &mut scratch, Cut::whole(1));
            self.team.run(tiles.count() * shape.kv_heads, &|claim| {
                let (tile, kv_head) = (claim.index() / shape.kv_heads, claim.index() % shape.kv_heads);
                let (out, scratch) = claim.with_scratch(&grid, &scratch);
                let unit = (tile * shape.kv_heads + kv_head) * tiles.room * shape.unit_len();
                let first = tile * tiles.room;
                self.level.run(Attend {
                    cache: cache.shape,
                    head: &cache.bytes[kv_head * cache.shape.bytes()..][..cache.shape.bytes()],
                    nodes_at: cache.nodes_at,
                    heads: &self.heads[unit..][..tiles.room * shape.unit_len()],
                    unit_len: shape.unit_len(),
                    group: shape.group,
                    sights: &batch.sights[first..first + tiles.live(tile)],
                    window: window.map(|window| window as usize),
                    soft_cap: soft_cap.map(|cap| cap * std::f32::consts::LOG2_E),
                    scratch: &mut scratch[0],
                    out,
                });
            });
        }
        (self.attention, self.scratch) = (attention, scratch);
        self.quantise_attention(*output, tiles, shape.kv_heads, out_len);
    }

    /// Attention output from heads to blocks.
    fn quantise_attention(&mut self, output: ActivationId, tiles: Tiles, kv_heads: usize, out_len: usize) {
        let mut activation = take(&mut self.activations[output.index()]);
        let (columns, room) = (activation.columns, tiles.room);
        {
            let section = columns / BLOCK_LEN * room;
            let out = Grid::new(&self.team, &mut activation.blocks, Cut::whole(section));
            let values = Grid::new(&self.team, &mut activation.values, Cut::whole(columns * room));
            self.team.run(tiles.count(), &|claim| {
                let tile = claim.index();
                let (blocks, values) = claim.two(&out, &values);
                let len = kv_heads * room * out_len;
                let from = &self.attention[tile * len..][..len];
                let live = tiles.live(tile);
                let faults = self.level.run(Gather { from, room, live, out_len, columns, blocks, values });
                fault(&self.faults, tiles, tile, faults);
            });
        }
        self.activations[output.index()] = activation;
    }

    fn activate(&mut self, input: ValueId, function: GateFunction, output: ActivationId, tiles: Tiles) {
        let gate = match function {
            GateFunction::Silu => Gate::Silu,
            GateFunction::GeluTanh => Gate::GeluTanh,
        };
        let mut activation = take(&mut self.activations[output.index()]);
        let (blocks, room) = (activation.columns / BLOCK_LEN, tiles.room);
        {
            let section = panels(self.program.values[input.index()].len as usize) * room;
            let part = (GATE_BLOCKS / room).clamp(1, blocks);
            let parts = blocks.div_ceil(part);
            let cut = |scale: usize| Cut { part: part * room * scale, ..Cut::whole(blocks * room * scale) };
            let out = Grid::new(&self.team, &mut activation.blocks, cut(1));
            let values = Grid::new(&self.team, &mut activation.values, cut(BLOCK_LEN));
            let gate_up = &self.values[input.index()];
            self.team.run(parts * tiles.count(), &|claim| {
                let (tile, first) = (claim.index() / parts, claim.index() % parts * part);
                let (out, values) = claim.two(&out, &values);
                let faults = self.level.run(Activate {
                    input: &gate_up[tile * section..][..section],
                    panels: blocks * 2,
                    gate,
                    first_block: first,
                    room,
                    live: tiles.live(tile),
                    out,
                    values,
                });
                fault(&self.faults, tiles, tile, faults);
            });
        }
        self.activations[output.index()] = activation;
    }
}

/// Raises the fault bits of a tile's rows.
fn fault(faults: &[AtomicU32], tiles: Tiles, tile: usize, bits: u32) {
    if bits != 0 {
        let first = tile * tiles.room;
        // A tile never crosses a word: its room divides 32.
        faults[first / 32].fetch_or(bits << (first % 32), Ordering::Relaxed);
    }
}

/// Copies rows from panels of their own to elements `offset..` of a value.
fn shift(own: &[Panel], out: &mut [Panel], tiles: Tiles, offset: usize, rows: usize, value_len: usize) {
    for tile in 0..tiles.count() {
        for place in 0..tiles.live(tile) {
            for row in 0..rows {
                let from = (tile * panels(rows) + row / LANES) * tiles.room + place;
                let to = offset + row;
                let at = (tile * panels(value_len) + to / LANES) * tiles.room + place;
                out[at][to % LANES] = own[from][row % LANES];
            }
        }
    }
}

/// Keys and values of a tile's rows into the cache of a head.
struct Store<'a> {
    cache: cache::CacheShape,
    head: &'a mut [u8],
    units: &'a [f32],
    unit_len: usize,
    rows: &'a [usize],
}

impl Kernel for Store<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u32 {
        let mut faults = 0;
        for (place, (unit, row)) in self.units.chunks_exact(self.unit_len).zip(self.rows).enumerate() {
            let key_at = self.unit_len - 2 * self.cache.head_len;
            let (key, value) = unit[key_at..].split_at(self.cache.head_len);
            let is_finite = cache::put(s, self.cache, self.head, *row, key, value);
            faults |= u32::from(!is_finite) << place;
        }
        faults
    }
}

/// The attention output of a tile, quantised.
struct Gather<'a> {
    from: &'a [f32],
    room: usize,
    live: usize,
    out_len: usize,
    columns: usize,
    blocks: &'a mut [quantise::Block],
    values: &'a mut [f32],
}

impl Kernel for Gather<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u32 {
        let Self { from, room, live, out_len, columns, blocks, values } = self;
        let mut faults = 0;
        for row in 0..live {
            for block in 0..columns / BLOCK_LEN {
                let mut x = [0.0; BLOCK_LEN];
                for (e, x) in x.iter_mut().enumerate() {
                    let at = block * BLOCK_LEN + e;
                    *x = from[(at / out_len * room + row) * out_len + at % out_len];
                }
                let is_finite = quantise::quantise(s, &x, &mut blocks[block * room + row]);
                faults |= u32::from(!is_finite) << row;
                quantise::keep(values, &x, block, room, row);
            }
        }
        faults
    }
}
