//! Which widths a run may use by now: those whose pipelines exist and agree with plain decoding.

use fanlight_messages::backend::BackendModel;
use fanlight_messages::device::{Preparation, Quarantined};
use fanlight_messages::draft::Width;
use fanlight_messages::error::DeviceError;
use fanlight_messages::limits::COMPILE_SHARE;

use crate::kit::Clock;

/// The widths of a run.
pub(super) struct Widths {
    ready: Vec<Width>,
    /// The one whose pipelines are being compiled.
    awaited: Option<Width>,
    last: Width,
    refused: Vec<(Width, Quarantined)>,
    /// When the run first wanted a width that was not ready, and what compiling has cost it since.
    wanted_us: Option<u64>,
    spent_us: u64,
}

impl Widths {
    /// Plain decoding is always ready.
    pub(super) fn new() -> Self {
        Self {
            ready: vec![Width::Off],
            awaited: None,
            last: Width::Off,
            refused: Vec::new(),
            wanted_us: None,
            spent_us: 0,
        }
    }

    /// Whether nothing remains to be done before this width is used, or known not to be.
    pub(super) fn is_settled(&self, width: Width) -> bool {
        self.ready.contains(&width) || self.refused.iter().any(|(refused, _)| *refused == width)
    }

    /// What the run found.
    pub(super) fn quarantined(self) -> Vec<Quarantined> {
        self.refused.into_iter().map(|(_, found)| found).collect()
    }

    /// Compiles one pipeline of a width, or finds out that there is none left; true when one was compiled.
    pub(super) async fn advance<M: BackendModel>(
        &mut self,
        model: &mut M,
        width: Width,
    ) -> Result<bool, DeviceError> {
        match model.prepare_next(width).await? {
            Preparation::Going => return Ok(true),
            Preparation::Done => self.ready.push(width),
            Preparation::Refused(found) => self.refused.push((width, found)),
        }
        Ok(false)
    }

    /// The planned width or, where that is refused, a plain step; all its pipelines are compiled first where
    /// that is new, and true says that some were.
    pub(super) async fn whole<M: BackendModel>(
        &mut self,
        model: &mut M,
        planned: Width,
    ) -> Result<(Width, bool), DeviceError> {
        let mut has_compiled = false;
        while !self.is_settled(planned) {
            has_compiled |= self.advance(model, planned).await?;
        }
        Ok((self.allowed(planned), has_compiled))
    }

    /// The width of the next window: the planned one where it is ready, plain where it is refused. Else the
    /// last one again, and one of the missing pipelines is compiled while the device has windows to work on;
    /// true says that it was. Compiling takes [`COMPILE_SHARE`] of the run's time at most: what is missing
    /// then comes between replies.
    pub(super) async fn next<M: BackendModel>(
        &mut self,
        model: &mut M,
        planned: Width,
        clock: &Clock,
    ) -> Result<(Width, bool), DeviceError> {
        if !self.is_settled(planned) {
            self.awaited.get_or_insert(planned);
        }
        let mut has_compiled = false;
        if let Some(width) = self.awaited {
            let now_us = clock.now_us();
            let waited_us = now_us.saturating_sub(*self.wanted_us.get_or_insert(now_us));
            if self.spent_us.saturating_mul(COMPILE_SHARE) <= waited_us {
                has_compiled = self.advance(model, width).await?;
                self.spent_us += clock.now_us().saturating_sub(now_us);
                self.awaited = has_compiled.then_some(width);
            }
        }
        if self.is_settled(planned) {
            self.last = self.allowed(planned);
        }
        Ok((self.last, has_compiled))
    }

    fn allowed(&self, width: Width) -> Width {
        if self.ready.contains(&width) { width } else { Width::Off }
    }
}
