//! A model in memory and the request it works on.

mod choose;
mod decode;
mod forward;
mod memory;
mod sample;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use fanlight_compute::Level;
use fanlight_compute::attend::{self, Scratch, Sight};
use fanlight_compute::heads::Shape;
use fanlight_compute::quantise::Block;
use fanlight_compute::team::Team;
use fanlight_compute::tiles::{LANES, Panel, TILE_ROWS, Tiles, panels};
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::program::{AttentionShape, Op, Program, ValueId};
use fanlight_messages::row_groups::{batch_rows, value_rows};

pub(crate) use decode::Setup;

use decode::Request;
use memory::{LayerCache, Matrix, Rope};

/// Everything of a loaded model. It computes on the thread that owns it, with the help of its team.
#[derive(Debug)]
pub(crate) struct Machine {
    program: Arc<Program>,
    level: Level,
    team: Team,
    matrices: Vec<Matrix>,
    vectors: Vec<Vec<f32>>,
    ropes: Vec<Rope>,
    caches: Vec<LayerCache>,
    /// `[tile][panel][room]` each.
    values: Vec<Vec<Panel>>,
    activations: Vec<Activation>,
    /// `[tile][kv head][room][q heads, key, value]`.
    heads: Vec<f32>,
    /// `[tile][kv head][room][q heads]`.
    attention: Vec<f32>,
    scratch: Vec<Scratch>,
    /// The last row's activation when only that row goes through the head.
    last: Activation,
    /// A bit per row of the batch.
    faults: Vec<AtomicU32>,
    request: Request,
}

/// Rows that products read: `[tile][block][room]`, and where a float matrix reads them
/// `[tile][element][room]`.
#[derive(Debug, Clone, Default)]
struct Activation {
    blocks: Vec<Block>,
    values: Vec<f32>,
    columns: usize,
}

impl Activation {
    fn new(columns: u32, keeps_values: bool, rows: usize) -> Self {
        let columns = columns as usize;
        let values = if keeps_values { columns * rows } else { 0 };
        Self { blocks: vec![Block::ZERO; columns / 32 * rows], values: vec![0.0; values], columns }
    }
}

/// What a pass evaluates.
#[derive(Debug, Clone)]
struct Batch {
    tokens: Vec<u32>,
    sights: Vec<Sight>,
    /// Where each row's key and value go.
    cache_rows: Vec<usize>,
}

impl Batch {
    fn tiles(&self) -> Tiles {
        Tiles::new(self.tokens.len())
    }
}

fn shape_of(shape: AttentionShape) -> Shape {
    Shape {
        kv_heads: shape.kv_heads as usize,
        group: (shape.query_heads / shape.kv_heads) as usize,
        head_len: shape.head_len as usize,
    }
}

impl Machine {
    /// Reserves everything that the plan counts.
    pub(crate) fn new(program: Arc<Program>, plan: &GpuPlan, level: Level, team: Team) -> Self {
        let batch_rows = batch_rows(plan);
        let Op::Multiply { input: last, .. } = program.head else {
            unreachable!("the pager refuses a program whose head is no product");
        };
        let values = program.values.iter().enumerate();
        let rows = |index: usize| value_rows(&program, plan, ValueId(index as u32));
        let values = values.map(|(i, v)| vec![[0.0; LANES]; panels(v.len as usize) * rows(i)]).collect();
        let activations = program.activations.iter();
        let activations = activations.map(|a| Activation::new(a.columns, a.keeps_values, batch_rows));
        let last = &program.activations[last.index()];
        let shapes: Vec<Shape> = program.layers.iter().map(|shape| shape_of(*shape)).collect();
        let most = |f: fn(&Shape) -> usize| shapes.iter().map(f).max().unwrap_or(0);
        let heads = vec![0.0; most(|s| s.len()) * batch_rows];
        let attention = vec![0.0; most(|s| s.kv_heads * s.group * s.head_len) * batch_rows];
        let (group, head_len) = (most(|s| s.group), most(|s| s.head_len));
        let scratch = vec![Scratch::new(group * TILE_ROWS, head_len); team.members()];
        Self {
            matrices: program.matrices.iter().map(Matrix::new).collect(),
            vectors: program.vectors.iter().map(|v| vec![0.0; v.len() as usize]).collect(),
            ropes: program.ropes.iter().map(|rope| Rope::new(rope, plan.cache_rows)).collect(),
            caches: shapes.iter().map(|shape| LayerCache::new(*shape, plan)).collect(),
            values,
            activations: activations.collect(),
            heads,
            attention,
            scratch,
            last: Activation::new(last.columns, last.keeps_values, 1),
            faults: (0..batch_rows.div_ceil(32)).map(|_| AtomicU32::new(0)).collect(),
            request: Request::new(plan),
            program,
            level,
            team,
        }
    }
}

/// Nodes of a step and depth of a tree are those of the attention kernel.
const _: () = assert!(
    attend::NODES_MAX == fanlight_messages::draft::NODES_MAX as usize
        && attend::DEPTH_MAX == fanlight_messages::draft::DEPTH_MAX as usize
);
