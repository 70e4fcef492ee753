//! Which weights stay on the device and which stream through it, under a budget.

use std::collections::BTreeSet;

use fanlight_messages::limits::{PAGE_BYTES_MIN, RING_SLOTS};
use fanlight_messages::plan::{Budget, GpuPlan, PageRange, PlanRequest, StreamPlan};
use fanlight_messages::program::{MatrixId, Op, Program};

use crate::PlanError;
use crate::frame::{Weights, plan_frame};
use crate::pages::{plan_pages, repacked_bytes};

/// Plans every buffer for running `program` with all weights resident.
///
/// # Errors
/// A [`PlanError`] that names what does not fit; no input panics or allocates without bound.
pub fn plan_resident(program: &Program, request: PlanRequest) -> Result<GpuPlan, PlanError> {
    let frame = plan_frame(program, request)?;
    let pages = plan_pages(&program.matrices, frame.request.binding_bytes_max)?;
    frame.with_weights(program, Weights { pages, stream: None })
}

/// Plans `program` within a budget: with all weights resident where that fits, otherwise with as few bytes
/// streamed per pass as the budget allows.
///
/// # Errors
/// [`PlanError::Budget`] when the budget does not hold the least that a pass needs; else as
/// [`plan_resident`].
pub fn plan_within(program: &Program, request: PlanRequest, budget: Budget) -> Result<GpuPlan, PlanError> {
    let resident = plan_resident(program, request)?;
    if resident.total_bytes() <= budget.bytes {
        return Ok(resident);
    }
    let streamed = Streamed::new(program, request, budget.page_bytes)?;
    let least = streamed.plan(program, request, &BTreeSet::new())?;
    let (wanted_bytes, budget_bytes) = (least.total_bytes(), budget.bytes);
    let Some(spare_bytes) = budget_bytes.checked_sub(wanted_bytes) else {
        return Err(PlanError::Budget { wanted_bytes, budget_bytes });
    };
    streamed.plan(program, request, &streamed.residents(spare_bytes))
}

/// The smallest budget that `program` runs under with pages of at most `page_bytes`.
///
/// # Errors
/// As [`plan_resident`].
pub fn plan_minimum(program: &Program, request: PlanRequest, page_bytes: u64) -> Result<u64, PlanError> {
    let streamed = Streamed::new(program, request, page_bytes)?;
    Ok(streamed.plan(program, request, &BTreeSet::new())?.total_bytes())
}

/// The pages of a model, cut small enough to stream.
struct Streamed {
    pages: Vec<PageRange>,
    /// Repacked bytes of each.
    bytes: Vec<u64>,
    /// Indices of those that a pass multiplies with, in its order, and how many come before the head's.
    order: Vec<usize>,
    body_len: usize,
    table: Option<MatrixId>,
}

impl Streamed {
    fn new(program: &Program, request: PlanRequest, page_bytes: u64) -> Result<Self, PlanError> {
        let page_bytes = page_bytes.max(PAGE_BYTES_MIN).min(request.binding_bytes_max);
        let pages = plan_pages(&program.matrices, page_bytes)?;
        let size = |page: &PageRange| repacked_bytes(&program.matrices[page.matrix.index()], page.rows);
        let bytes = pages.iter().map(size).collect();
        let mut order = Vec::with_capacity(pages.len());
        let mut body_len = 0;
        for op in program.body.iter().chain([&program.head]) {
            body_len = order.len();
            if let Op::Multiply { matrix, .. } = op {
                order.extend((0..pages.len()).filter(|index| pages[*index].matrix == *matrix));
            }
        }
        let table = program.body.iter().find_map(|op| match op {
            Op::Embed { table, .. } => Some(*table),
            _ => None,
        });
        Ok(Self { pages, bytes, order, body_len, table })
    }

    /// The pages that stay: a pass streams what they do not hold, so the more bytes the better. Small ones
    /// first, which leaves less than one page of the spare bytes unused and spares the most reads.
    fn residents(&self, spare_bytes: u64) -> BTreeSet<usize> {
        let mut by_size = self.order.clone();
        by_size.sort_by_key(|index| self.bytes[*index]);
        let mut left = spare_bytes;
        let mut residents = BTreeSet::new();
        for index in by_size {
            match left.checked_sub(self.bytes[index]) {
                Some(rest) => left = rest,
                None => break,
            }
            residents.insert(index);
        }
        residents
    }

    fn plan(
        &self,
        program: &Program,
        request: PlanRequest,
        residents: &BTreeSet<usize>,
    ) -> Result<GpuPlan, PlanError> {
        let frame = plan_frame(program, request)?;
        let streamed: Vec<usize> = self.order.iter().copied().filter(|i| !residents.contains(i)).collect();
        let slots = RING_SLOTS.min(streamed.len() as u32);
        let table_stays = self.table.is_none_or(|table| {
            let mut of_table = (0..self.pages.len()).filter(|index| self.pages[*index].matrix == table);
            of_table.all(|index| residents.contains(&index))
        });
        let gathers = if table_stays { None } else { self.table };
        let in_body = self.order.iter().take(self.body_len);
        let mut stream = StreamPlan {
            pages: Vec::with_capacity(streamed.len()),
            body_pages: in_body.filter(|index| !residents.contains(index)).count() as u32,
            slots,
            slot_bytes: streamed.iter().map(|index| self.bytes[*index]).max().unwrap_or(0),
            pass_bytes: 0,
            gathers,
        };
        let mut slot_of = vec![None; self.pages.len()];
        for (k, index) in (0u32..).zip(&streamed) {
            slot_of[*index] = Some(k % slots);
        }
        let mut pages = Vec::with_capacity(self.pages.len());
        let mut places = vec![None; self.pages.len()];
        for (index, (page, slot)) in self.pages.iter().zip(slot_of).enumerate() {
            // A table that nothing multiplies with is not on the device at all.
            if slot.is_some() || residents.contains(&index) {
                places[index] = Some(pages.len() as u32);
                pages.push(PageRange { slot, ..*page });
            }
        }
        for index in streamed {
            let page = &self.pages[index];
            let spec = &program.matrices[page.matrix.index()];
            let row_bytes = spec.tensor_type.row_bytes(u64::from(spec.columns)).unwrap_or(0);
            stream.pass_bytes += page.rows * row_bytes;
            stream.pages.extend(places[index]);
        }
        // With smaller uploads everything may fit after all.
        let streams = !stream.pages.is_empty() || stream.gathers.is_some();
        frame.with_weights(program, Weights { pages, stream: streams.then_some(stream) })
    }
}
