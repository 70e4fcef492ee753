//! From logits to tokens: the hash and the largest logit of each row, and where the request asks for it bias,
//! penalties and a draw.

use std::time::Duration;

use fanlight_compute::choice::{Choice, Choose};
use fanlight_compute::team::{Cut, Grid};
use fanlight_compute::tiles::{LANES, Panel, Tiles, panels};
use fanlight_compute::{Kernel, Level, Simd};
use fanlight_messages::program::Op;

use web_time::Instant;

use super::Machine;
use super::decode::{Request, View};
use super::sample::{Context, sample};

impl Machine {
    fn chooser(&self) -> Chooser<'_> {
        let Op::Multiply { output, .. } = self.program.head else {
            unreachable!("the pager refuses a program whose head is no product");
        };
        Chooser {
            level: self.level,
            logits: &self.values[output.index()],
            head_len: self.program.values[output.index()].len as usize,
            len: self.program.vocabulary_len as usize,
            soft_cap: self.program.logits_soft_cap,
            request: &self.request,
        }
    }

    /// A row of raw logits.
    pub(super) fn logits_row(&self, tiles: Tiles, row: usize) -> Vec<f32> {
        self.chooser().logits_row(tiles, row)
    }

    /// What each row chooses.
    pub(super) fn choose(&self, tiles: Tiles, views: &[View]) -> Vec<Choice> {
        let mut choices = vec![Choice::default(); views.len()];
        {
            let chooser = self.chooser();
            let grid = Grid::new(&self.team, &mut choices, Cut::whole(1));
            self.team.run(views.len(), &|claim| {
                let row = claim.index();
                claim.one(&grid)[0] = chooser.choose(tiles, row, &views[row]);
            });
        }
        choices
    }

    /// What choosing the token of a row took in the way of the last request.
    pub(crate) fn time_choice(&mut self) -> Duration {
        const TIMES: u32 = 8;
        let position = self.request.history.context().len().saturating_sub(1);
        let view = View { position, path: Vec::new() };
        let started = Instant::now();
        for _ in 0..TIMES {
            std::hint::black_box(self.chooser().choose(Tiles::new(1), 0, &view));
        }
        started.elapsed() / TIMES
    }
}

/// What a choice is made from.
struct Chooser<'a> {
    level: Level,
    logits: &'a [Panel],
    /// Rows of the head, which may be more than the vocabulary's.
    head_len: usize,
    len: usize,
    soft_cap: Option<f32>,
    request: &'a Request,
}

impl Chooser<'_> {
    fn logits_row(&self, tiles: Tiles, row: usize) -> Vec<f32> {
        let panels = (0..panels(self.len)).map(|panel| &self.logits[tiles.panel(row, panel, self.head_len)]);
        let mut row: Vec<f32> = panels.flatten().copied().collect();
        row.truncate(self.len);
        row
    }

    fn choose(&self, tiles: Tiles, row: usize, view: &View) -> Choice {
        let (tile, place) = tiles.place(row);
        let section = panels(self.head_len) * tiles.room;
        let setup = &self.request.setup;
        let choice = self.level.run(Choose {
            logits: &self.logits[tile * section..][..section],
            room: tiles.room,
            row: place,
            len: self.len,
            hashes: setup.hash_logits,
        });
        let sampling = &setup.sampling;
        let changes = sampling.adjusts() || sampling.is_drawn();
        if !changes || !choice.is_finite {
            return choice;
        }
        let mut logits = self.logits_row(tiles, row);
        if let Some(cap) = self.soft_cap {
            self.level.run(SoftCap { logits: &mut logits, cap });
        }
        let known = self.request.history.context();
        // The path's tokens come after the root, which is the last that is known at this step.
        let context = &known[..(view.position + 1 - view.path.len()).min(known.len())];
        let context = Context { tokens: context, path: &view.path, generated_from: setup.generated_from };
        Choice { id: sample(self.level, &mut logits, context, sampling), ..choice }
    }
}

/// `cap · tanh(logit / cap)`.
struct SoftCap<'a> {
    logits: &'a mut [f32],
    cap: f32,
}

impl Kernel for SoftCap<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for part in self.logits.chunks_mut(LANES) {
            let mut lanes = [0.0; LANES];
            lanes[..part.len()].copy_from_slice(part);
            fanlight_compute::math::soft_cap(s, &mut lanes, self.cap);
            part.copy_from_slice(&lanes[..part.len()]);
        }
    }
}
