//! Products of every weight type on every instruction set: equal bits, and close to what an independent
//! decoder of the file formats says.

use fanlight_compute::product::{Input, Multiply};
use fanlight_compute::quantise::{BLOCK_LEN, Block, quantise};
use fanlight_compute::simd::{Kernel, Level, Simd, unpack_codes};
use fanlight_compute::tiles::{LANES, Panel, Tiles};
use fanlight_compute::weights::{Format, Matrix, repack_rows, weight_row};
use fanlight_messages::TensorType;
use fanlight_messages::layout::SlabLayout;
use fanlight_tests::blocks::{decode_row, encode_row};

/// A fixed sequence of numbers in -1..1.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }
}

struct Quantise<'a>(&'a [f32; BLOCK_LEN], &'a mut Block);

impl Kernel for Quantise<'_> {
    type Output = ();
    fn run<S: Simd>(self, simd: S) {
        assert!(quantise(simd, self.0, self.1));
    }
}

/// A matrix in file format and in groups, and some input rows.
struct Case {
    tensor_type: TensorType,
    rows: usize,
    columns: usize,
    file: Vec<u8>,
    groups: Vec<u8>,
    inputs: Vec<Vec<f32>>,
}

impl Case {
    fn new(tensor_type: TensorType, rows: usize, columns: usize, inputs: usize) -> Self {
        let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ tensor_type.ggml_id() as u64);
        let mut file = Vec::new();
        for row in 0..rows {
            // Rows of very different sizes, one of them with subnormal scales.
            let size = [1.0, 0.01, 30.0, 1e-5][row % 4];
            let weights: Vec<f32> = (0..columns).map(|_| random.next() * size).collect();
            file.extend(encode_row(tensor_type, &weights).unwrap());
        }
        let inputs = (0..inputs).map(|_| (0..columns).map(|_| random.next() * 3.0).collect()).collect();
        let bytes = Format::of(tensor_type).matrix_bytes(rows as u64, columns as u32) as usize;
        // What was there before must not show through.
        let mut groups = vec![0; bytes];
        let row_bytes = file.len() / rows;
        for first in (0..rows).step_by(5) {
            let some = &file[first * row_bytes..(first + 5).min(rows) * row_bytes];
            repack_rows(tensor_type, columns, first, some, &mut groups);
            repack_rows(tensor_type, columns, first, some, &mut groups);
        }
        Self { tensor_type, rows, columns, file, groups, inputs }
    }

    fn matrix(&self) -> Matrix<'_> {
        Matrix {
            format: Format::of(self.tensor_type),
            columns: self.columns,
            slab_blocks: SlabLayout::for_columns(self.columns as u32).blocks_per_slab as usize,
            bytes: &self.groups,
        }
    }

    /// Inputs as a level quantises them: `[tile][block][room]`.
    fn blocks(&self, level: Level) -> Vec<Block> {
        let (tiles, blocks) = (Tiles::new(self.inputs.len()), self.columns / BLOCK_LEN);
        let mut out = vec![Block::ZERO; tiles.total(blocks)];
        for (row, input) in self.inputs.iter().enumerate() {
            let (tile, place) = tiles.place(row);
            for (block, x) in input.as_chunks::<BLOCK_LEN>().0.iter().enumerate() {
                level.run(Quantise(x, &mut out[(tile * blocks + block) * tiles.room + place]));
            }
        }
        out
    }

    /// Every output, `[input][row]`.
    fn run(&self, level: Level) -> Vec<Vec<f32>> {
        let tiles = Tiles::new(self.inputs.len());
        let blocks = self.blocks(level);
        let groups = self.rows.div_ceil(LANES);
        let mut values = vec![f32::NAN; tiles.total(self.columns)];
        for (row, input) in self.inputs.iter().enumerate() {
            let (tile, place) = tiles.place(row);
            for (e, x) in input.iter().enumerate() {
                values[(tile * self.columns + e) * tiles.room + place] = *x;
            }
        }
        let mut out = vec![vec![0.0; self.rows]; self.inputs.len()];
        for tile in 0..tiles.count() {
            let len = tiles.room * self.columns;
            let input = Input {
                blocks: &blocks[tile * len / BLOCK_LEN..][..len / BLOCK_LEN],
                values: &values[tile * len..][..len],
                room: tiles.room,
                live: tiles.live(tile),
            };
            let mut panels: Vec<Panel> = vec![[f32::NAN; LANES]; groups * tiles.room];
            // In two parts, as two members of a team would.
            let (first, second) = panels.split_at_mut(groups / 2 * tiles.room);
            for (first_group, out) in [(0, first), (groups / 2, second)] {
                level.run(Multiply { matrix: self.matrix(), first_group, input, out });
            }
            for place in 0..tiles.live(tile) {
                for row in 0..self.rows {
                    let panel = &panels[row / LANES * tiles.room + place];
                    out[tile * tiles.room + place][row] = panel[row % LANES];
                }
            }
        }
        out
    }

    fn bits(&self, level: Level) -> Vec<Vec<u32>> {
        self.run(level).iter().map(|row| row.iter().map(|x| x.to_bits()).collect()).collect()
    }

    /// Products of decoded weights with what the input is after rounding, and a bound of the sum's error.
    fn wanted(&self) -> Vec<Vec<(f64, f64)>> {
        let row_bytes = self.file.len() / self.rows;
        let weights: Vec<Vec<f32>> =
            self.file.chunks_exact(row_bytes).map(|row| decode_row(self.tensor_type, row).unwrap()).collect();
        let blocks = self.blocks(Level::Portable(fanlight_compute::simd::Portable));
        let (tiles, per_row) = (Tiles::new(self.inputs.len()), self.columns / BLOCK_LEN);
        let rounded = |input: usize, e: usize| {
            let (tile, place) = tiles.place(input);
            let block = &blocks[(tile * per_row + e / BLOCK_LEN) * tiles.room + place];
            let code = unpack_codes(&block.codes, e % BLOCK_LEN / 4)[e % 4];
            f64::from(code) * f64::from(block.scale)
        };
        (0..self.inputs.len())
            .map(|input| {
                weights
                    .iter()
                    .map(|row| {
                        let x = |e: usize| match self.tensor_type.is_float() {
                            true => f64::from(self.inputs[input][e]),
                            false => rounded(input, e),
                        };
                        let terms = row.iter().enumerate().map(|(e, w)| f64::from(*w) * x(e));
                        let size =
                            |e: usize, w: f32| f64::from(w.abs()).max(2e-2 * row_max(row)) * x(e).abs();
                        let sizes: f64 = row.iter().enumerate().map(|(e, w)| size(e, *w)).sum();
                        (terms.sum(), sizes)
                    })
                    .collect()
            })
            .collect()
    }
}

fn row_max(row: &[f32]) -> f64 {
    row.iter().fold(0.0, |max, w| f64::from(w.abs()).max(max))
}

#[test]
fn every_level_and_every_tile_gives_the_same_bits() {
    for tensor_type in TensorType::ALL {
        for inputs in [1, 2, 3, 5, 8, 11] {
            let case = Case::new(tensor_type, 37, 768, inputs);
            let wanted = case.bits(Level::Portable(fanlight_compute::simd::Portable));
            for level in Level::all() {
                assert_eq!(case.bits(level), wanted, "{tensor_type} with {inputs} rows on {level}");
            }
            let mut alone = Case::new(tensor_type, 37, 768, inputs);
            for (row, input) in case.inputs.iter().enumerate() {
                alone.inputs = vec![input.clone()];
                assert_eq!(alone.bits(Level::best())[0], wanted[row], "{tensor_type}: row {row} alone");
            }
        }
    }
}

#[test]
fn products_are_those_of_the_decoded_weights() {
    for tensor_type in TensorType::ALL {
        let case = Case::new(tensor_type, 33, 1280, 3);
        for (row, wanted) in case.run(Level::best()).iter().zip(case.wanted()) {
            for (r, (got, (wanted, size))) in row.iter().zip(wanted).enumerate() {
                let bound = size * 80.0 * f64::from(f32::EPSILON);
                assert!(
                    (f64::from(*got) - wanted).abs() <= bound,
                    "{tensor_type} row {r}: {got} for {wanted}, {bound} allowed"
                );
            }
        }
    }
}

#[test]
fn one_wrong_byte_of_a_weight_is_noticed() {
    for tensor_type in TensorType::ALL {
        let mut case = Case::new(tensor_type, 16, 512, 1);
        let wanted = case.bits(Level::best());
        // The high byte of a float.
        let at = (case.groups.len() / 2) | 3;
        case.groups[at] ^= 0x11;
        assert_ne!(case.bits(Level::best()), wanted, "{tensor_type}");
    }
}

#[test]
fn a_row_of_the_table_is_what_the_file_says() {
    for tensor_type in TensorType::ALL {
        let case = Case::new(tensor_type, 21, 512, 1);
        let row_bytes = case.file.len() / case.rows;
        for (row, bytes) in case.file.chunks_exact(row_bytes).enumerate() {
            let wanted = decode_row(tensor_type, bytes).unwrap();
            let mut got = vec![0.0; 512];
            weight_row(&case.matrix(), row, 2.0, &mut got);
            let largest = row_max(&wanted);
            for (got, wanted) in got.iter().zip(&wanted) {
                let difference = (f64::from(*got) / 2.0 - f64::from(*wanted)).abs();
                assert!(difference <= largest * 1e-6, "{tensor_type} row {row}: {got} for 2 · {wanted}");
            }
        }
    }
}
