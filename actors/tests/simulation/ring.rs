//! Passes on the device of paper: a slot holds one page at a time, and a page is used once it is whole.

use std::future::Future;
use std::rc::Rc;

use fanlight_messages::backend::StreamedModel;
use fanlight_messages::device::{PassWork, WindowReport};
use fanlight_messages::draft::Width;
use fanlight_messages::error::DeviceError;
use fanlight_messages::plan::{GpuPlan, PageRange};
use fanlight_messages::program::{MatrixId, Program};

use crate::device::{PaperModel, yield_now};

/// What is in the slots.
pub struct PaperRing {
    program: Rc<Program>,
    pages: Vec<PageRange>,
    body_pages: usize,
    slots: Vec<Option<usize>>,
    arriving: usize,
    arrived_rows: u64,
    next: usize,
    gathers: Option<MatrixId>,
    gathered_rows: Option<u64>,
    pass: Option<Work>,
}

enum Work {
    Prompt { base: u32, tokens: Vec<u32>, choose: bool },
    Step(Width),
}

impl PaperRing {
    pub fn new(program: Rc<Program>, plan: &GpuPlan) -> Self {
        let stream = plan.stream.as_ref();
        let pages = stream.iter().flat_map(|stream| &stream.pages).map(|page| plan.pages[*page as usize]);
        Self {
            program,
            pages: pages.collect(),
            body_pages: stream.map_or(0, |stream| stream.body_pages as usize),
            slots: vec![None; stream.map_or(0, |stream| stream.slots as usize)],
            arriving: 0,
            arrived_rows: 0,
            next: 0,
            gathers: stream.and_then(|stream| stream.gathers),
            gathered_rows: None,
            pass: None,
        }
    }

    /// A request begins: what was read ahead stays, unless the pass before broke off.
    pub fn restart(&mut self) {
        let has_head = self.slots.iter().flatten().any(|page| *page >= self.body_pages);
        if self.next != 0 || has_head {
            (self.next, self.arriving) = (0, 0);
            self.slots.fill(None);
        }
        self.arrived_rows = 0;
        self.pass = None;
    }

    fn row_bytes(&self, matrix: MatrixId) -> u64 {
        let spec = &self.program.matrices[matrix.index()];
        spec.tensor_type.row_bytes(u64::from(spec.columns)).unwrap()
    }

    /// The page of rows that arrive: of the one under way, or after the body the first one again.
    fn page_of(&self, matrix: MatrixId, first_row: u64) -> usize {
        let continues = |page: usize, rows: u64| {
            (matrix, first_row) == (self.pages[page].matrix, self.pages[page].first_row + rows)
        };
        if continues(self.arriving, self.arrived_rows) {
            return self.arriving;
        }
        let skips_head = self.arriving == self.body_pages && self.arrived_rows == 0;
        assert!(skips_head && continues(0, 0), "{matrix:?} {first_row} out of order");
        0
    }

    /// Rows that arrive; true when they belong to a page that streams.
    pub fn arrive(&mut self, matrix: MatrixId, first_row: u64, bytes: usize) -> bool {
        let holds = |page: &&PageRange| {
            page.matrix == matrix && (page.first_row..page.first_row + page.rows).contains(&first_row)
        };
        if self.pages.iter().find(holds).is_none() {
            return false;
        }
        self.arriving = self.page_of(matrix, first_row);
        let page = self.pages[self.arriving];
        let slot = page.slot.unwrap() as usize;
        assert_eq!(self.slots[slot], None, "an unused page is overwritten");
        self.arrived_rows += bytes as u64 / self.row_bytes(matrix);
        assert!(self.arrived_rows <= page.rows);
        if self.arrived_rows == page.rows {
            self.slots[slot] = Some(self.arriving);
            self.arriving = (self.arriving + 1) % self.pages.len();
            self.arrived_rows = 0;
        }
        true
    }
}

impl StreamedModel for PaperModel {
    fn arriving_page(&self) -> usize {
        self.ring.arriving
    }

    fn has_room(&self, matrix: MatrixId, first_row: u64) -> bool {
        let page = &self.ring.pages[self.ring.page_of(matrix, first_row)];
        self.ring.slots[page.slot.unwrap() as usize].is_none()
    }

    async fn upload_gathered(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        yield_now().await;
        let table = self.ring.gathers.expect("a plan that gathers");
        self.ring.gathered_rows = Some(bytes.len() as u64 / self.ring.row_bytes(table));
        Ok(())
    }

    fn draft(
        &mut self,
        width: Width,
    ) -> Result<impl Future<Output = Result<Vec<u32>, DeviceError>> + 'static, DeviceError> {
        let tokens = vec![self.last_token(); width.rows() as usize];
        Ok(async move {
            yield_now().await;
            Ok(tokens)
        })
    }

    fn start_pass(&mut self, work: PassWork<'_>) -> Result<(), DeviceError> {
        let (work, rows) = match work {
            PassWork::Prompt { base, tokens, choose } => {
                (Work::Prompt { base, tokens: tokens.to_vec(), choose }, tokens.len() as u64)
            }
            PassWork::Step(width) => (Work::Step(width), u64::from(width.rows())),
        };
        if self.ring.gathers.is_some() {
            assert_eq!(self.ring.gathered_rows.take(), Some(rows), "embedding rows of this pass");
        }
        assert!(self.ring.pass.replace(work).is_none(), "one pass at a time");
        Ok(())
    }

    fn continue_pass(
        &mut self,
    ) -> Result<Option<impl Future<Output = Result<WindowReport, DeviceError>> + 'static>, DeviceError> {
        let needs_head = !matches!(self.ring.pass, Some(Work::Prompt { choose: false, .. }));
        let end = if needs_head { self.ring.pages.len() } else { self.ring.body_pages };
        while self.ring.next < end {
            let page = &self.ring.pages[self.ring.next];
            let slot = &mut self.ring.slots[page.slot.unwrap() as usize];
            if *slot != Some(self.ring.next) {
                return Ok(None);
            }
            *slot = None;
            self.ring.next += 1;
        }
        self.ring.next = 0;
        let work = self.ring.pass.take().expect("a pass that was started");
        Ok(Some(match work {
            Work::Prompt { base, tokens, choose } => self.evaluate(base, &tokens, choose, 1)?,
            Work::Step(width) => self.decode(1, width, 1)?,
        }))
    }
}
