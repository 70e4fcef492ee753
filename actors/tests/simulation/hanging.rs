//! Reads that never end: whoever waits for them can leave, and what is on the device is left alone.

use std::cell::Cell;
use std::rc::Rc;

use fanlight_actors::kit::Latch;
use fanlight_actors::source::{ByteSource, NamedSource};
use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::error::{LoadError, SourceError};
use fanlight_messages::protocol::engine::*;

use crate::device::{PIPELINES, settle, yield_now};
use crate::rig::{Rig, collect, load_request, model_file, request, with_engine};
use crate::streaming::{DetachableSource, bounds, load_within};

/// A file whose reads hang from a certain one on.
struct HangingSource {
    bytes: Rc<[u8]>,
    reads_left: Rc<Cell<usize>>,
}

impl ByteSource for HangingSource {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
    async fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SourceError> {
        match self.reads_left.get().checked_sub(1) {
            None => std::future::pending().await,
            Some(left) => self.reads_left.set(left),
        }
        yield_now().await;
        buffer.copy_from_slice(&self.bytes[offset as usize..][..buffer.len()]);
        Ok(())
    }
}

fn progress() -> Latch<LoadProgress> {
    Latch::new(LoadProgress::default())
}

#[test]
fn e26_a_load_whose_reads_hang_can_be_cancelled() {
    for reads in 0..4 {
        with_engine(reads as u64, |rig, _| async move {
            let source = HangingSource {
                bytes: model_file().to_bytes().into(),
                reads_left: Rc::new(Cell::new(reads)),
            };
            let load =
                rig.handle.load(load_request(), vec![NamedSource::new("hangs.gguf", source)], progress());
            let cancel = async {
                settle().await;
                rig.handle.cancel().await
            };
            let (loaded, cancelled) = futures::join!(load, cancel);
            // The file has a header and weights that are read in one stretch.
            assert_eq!(loaded.is_err(), reads < 2, "{loaded:?}");
            cancelled.unwrap();
            rig.load().await.unwrap();
            rig.check_reply(request(&[1, 2], 9)).await;
        });
    }
}

async fn with_detachable(rig: &Rig) -> Rc<Cell<bool>> {
    let is_there = Rc::new(Cell::new(true));
    let source = DetachableSource { bytes: model_file().to_bytes().into(), is_there: is_there.clone() };
    let files = vec![NamedSource::new("disk.gguf", source)];
    rig.handle.load(load_request(), files, progress()).await.unwrap();
    is_there
}

#[test]
fn e26_a_budget_whose_header_cannot_be_read_leaves_the_model_as_it_was() {
    with_engine(1, |rig, _| async move {
        let is_there = with_detachable(&rig).await;
        let ids: Vec<u32> = (0..60).collect();
        let reply = rig.check_reply(request(&ids, 9)).await;
        is_there.set(false);
        let set = rig.handle.set_budget(SetBudget { budget: None, batch_tokens: 64 }, progress()).await;
        assert!(matches!(set, Err(LoadError::Source { .. })), "{set:?}");
        // What the cache holds is there as well.
        let longer = [&ids[..], &reply.ids, &[7]].concat();
        let mut generation = rig.handle.generate(request(&longer, 9)).await.unwrap();
        assert_eq!(generation.started.reused_tokens as usize, ids.len() + reply.ids.len() - 1);
        assert_eq!(collect(&mut generation).await.ids, rig.reference(&longer, 9).0);
    });
}

#[test]
fn e26_a_budget_that_is_cancelled_while_it_plans_leaves_the_model_as_it_was() {
    with_engine(2, |rig, _| async move {
        let reads_left = Rc::new(Cell::new(usize::MAX));
        let source = HangingSource { bytes: model_file().to_bytes().into(), reads_left: reads_left.clone() };
        let files = vec![NamedSource::new("hangs.gguf", source)];
        rig.handle.load(load_request(), files, progress()).await.unwrap();
        reads_left.set(0);
        let set = rig.handle.set_budget(SetBudget { budget: None, batch_tokens: 64 }, progress());
        let cancel = async {
            settle().await;
            rig.handle.cancel().await
        };
        let (set, cancelled) = futures::join!(set, cancel);
        assert_eq!(set.err(), Some(LoadError::Cancelled));
        cancelled.unwrap();
        rig.check_reply(request(&[1, 2], 9)).await;
    });
}

#[test]
fn e26_a_streamed_reply_hears_a_stop_between_two_pipelines() {
    with_engine(3, |rig, _| async move {
        let (least, _) = bounds().await;
        load_within(&rig, least).await.unwrap();
        rig.device.state.borrow_mut().compile_turns = 10;
        let width = WidthPolicy::Fixed(Width::Nodes(8));
        let mut generation =
            rig.handle.generate(Generate { width, ..request(&[1, 2, 3], 30) }).await.unwrap();
        let compiled = |rig: &Rig| rig.device.state.borrow().pipelines.values().sum::<u32>();
        while compiled(&rig) == 0 {
            yield_now().await;
        }
        rig.handle.cancel().await.unwrap();
        assert!(compiled(&rig) < PIPELINES, "{} pipelines", compiled(&rig));
        assert_eq!(collect(&mut generation).await.reason(), FinishReason::Cancelled);
        rig.check_reply(request(&[1, 2, 3], 9)).await;
    });
}
