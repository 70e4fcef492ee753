//! Models larger than their budget: equal replies, a ledger that the device agrees with, and faults in the
//! middle of passes.

use std::cell::Cell;
use std::rc::Rc;

use fanlight_actors::kit::Latch;
use fanlight_actors::pager::{InspectRequest, inspect};
use fanlight_actors::source::{ByteSource, NamedSource};
use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::error::{GenerateError, LoadError, SourceError};
use fanlight_messages::plan::{Budget, GpuPlan, KvFormat};
use fanlight_messages::protocol::engine::*;

use crate::device::{Fault, yield_now};
use crate::rig::{CONTEXT_LEN, Ended, Rig, collect, load_request, model_file, request, sources, with_engine};

pub const PAGE_BYTES: u64 = 4 << 20;

async fn plan(budget: Option<u64>) -> Result<GpuPlan, LoadError> {
    let budget = budget.map(|bytes| Budget { bytes, page_bytes: PAGE_BYTES });
    let request =
        InspectRequest { context_len: Some(CONTEXT_LEN), batch_tokens: 64, kv_format: KvFormat::F16, budget };
    let inspection = inspect(sources(model_file().to_bytes(), u64::MAX), request).await.unwrap();
    inspection.planned.map(|(_, plan)| plan)
}

/// The least budget that the model runs under, found by trying, and what it takes with all weights resident.
pub async fn bounds() -> (u64, u64) {
    let resident = plan(None).await.unwrap().total_bytes();
    let (mut too_small, mut enough) = (0, resident);
    while enough - too_small > 1 {
        let middle = too_small.midpoint(enough);
        match plan(Some(middle)).await {
            Ok(_) => enough = middle,
            Err(_) => too_small = middle,
        }
    }
    (enough, resident)
}

pub async fn load_within(rig: &Rig, bytes: u64) -> Result<ModelLoaded, LoadError> {
    let budget = Some(Budget { bytes, page_bytes: PAGE_BYTES });
    let files = sources(model_file().to_bytes(), u64::MAX);
    let request = Load { budget, cache_bytes: 1 << 14, ..load_request() };
    rig.handle.load(request, files, Latch::new(LoadProgress::default())).await
}

fn ids(len: u32) -> Vec<u32> {
    (0..len).map(|i| (i * 29 + 3) % 250).collect()
}

#[test]
fn replies_are_the_same_under_every_budget_and_the_device_agrees_with_the_ledger() {
    with_engine(1, async |rig, _| {
        let (least, resident) = bounds().await;
        rig.handle.unload().await.unwrap();
        for fraction in 0..=4 {
            let budget = least + (resident - least) * fraction / 4;
            rig.device.state.borrow_mut().held_bytes_max = 0;
            let loaded = load_within(&rig, budget).await.unwrap();
            assert_eq!(loaded.plan.stream.is_none(), fraction == 4);
            let fixed = [Width::Off, Width::Nodes(8)].map(WidthPolicy::Fixed);
            for width in [fixed[0], fixed[1], WidthPolicy::Auto { max: 32 }] {
                for len in [70, 150, 151] {
                    let request = Generate { width, ..request(&ids(len), 40) };
                    rig.check_reply(request).await;
                }
            }
            let held = rig.device.state.borrow().held_bytes_max;
            assert_eq!((held, loaded.gpu_bytes), (loaded.plan.total_bytes(), held));
            assert!(held <= budget, "{held} bytes under a budget of {budget}");
            let passes = rig.handle.snapshot(0).await.unwrap().kept.passes;
            assert_eq!(passes.count > 0, passes.read_bytes > 0);
        }
        let error = load_within(&rig, least - 1).await.unwrap_err();
        assert_eq!(error, LoadError::OverBudget { wanted_bytes: least, budget_bytes: least - 1 });
    });
}

#[test]
fn a_device_that_refuses_gets_a_smaller_plan_and_is_remembered() {
    with_engine(2, async |rig, _| {
        let (least, resident) = bounds().await;
        rig.device.state.borrow_mut().memory_bytes = least.midpoint(resident);
        for _ in 0..2 {
            let loaded = rig.load().await.unwrap();
            assert!(loaded.was_reduced && loaded.gpu_bytes <= least.midpoint(resident));
            rig.check_reply(request(&ids(20), 9)).await;
            // The second load does not try again what was refused.
            rig.device.state.borrow_mut().memory_bytes = u64::MAX;
        }
        rig.device.state.borrow_mut().memory_bytes = least / 2;
        let error = rig.load().await.unwrap_err();
        assert!(matches!(error, LoadError::OverBudget { .. } | LoadError::Device(_)), "{error}");
    });
}

#[test]
fn a_cancel_is_heard_in_the_middle_of_a_pass_and_the_next_reply_is_right() {
    with_engine(3, async |rig, _| {
        let (least, _) = bounds().await;
        load_within(&rig, least).await.unwrap();
        for turns in (0..160).step_by(3) {
            let mut generation = rig.handle.generate(request(&ids(130), 30)).await.unwrap();
            for _ in 0..turns {
                yield_now().await;
            }
            rig.handle.cancel().await.unwrap();
            let ended = collect(&mut generation).await;
            let (wanted, _) = rig.reference(&ids(130), 30);
            assert_eq!(ended.reason(), FinishReason::Cancelled);
            assert!(wanted.starts_with(&ended.ids));
            rig.check_reply(request(&ids(131), 5)).await;
        }
    });
}

#[test]
fn a_device_lost_between_pages_resumes_and_a_refusal_ends_the_reply() {
    with_engine(4, async |rig, _| {
        let (least, _) = bounds().await;
        load_within(&rig, least).await.unwrap();
        for lost in 0..6 {
            let next = rig.device.state.borrow().submissions;
            rig.device.state.borrow_mut().faults.insert(next + lost, Fault::Lose);
            rig.check_reply(Generate { reuse_prefix: false, ..request(&ids(70), 6) }).await;
        }
        assert!(rig.device.state.borrow().reopened > 0);
        let next = rig.device.state.borrow().submissions;
        rig.device.state.borrow_mut().faults.insert(next + 1, Fault::Refuse);
        let ended = rig.reply(Generate { reuse_prefix: false, ..request(&ids(70), 6) }).await;
        assert!(matches!(ended.result, Err(GenerateError::Device(_))));
        rig.check_reply(request(&ids(70), 6)).await;
    });
}

/// A file that can be taken away.
pub struct DetachableSource {
    pub bytes: Rc<[u8]>,
    pub is_there: Rc<Cell<bool>>,
}

impl ByteSource for DetachableSource {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
    async fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SourceError> {
        yield_now().await;
        if !self.is_there.get() {
            let (bytes, reason) = (buffer.len() as u64, "no such device".into());
            return Err(SourceError::Failed { offset, bytes, reason });
        }
        buffer.copy_from_slice(&self.bytes[offset as usize..][..buffer.len()]);
        Ok(())
    }
}

#[test]
fn a_disk_that_is_detached_ends_the_reply_and_serves_again_when_it_is_back() {
    with_engine(5, async |rig, _| {
        let (least, _) = bounds().await;
        let is_there = Rc::new(Cell::new(true));
        let source = DetachableSource { bytes: model_file().to_bytes().into(), is_there: is_there.clone() };
        let budget = Some(Budget { bytes: least, page_bytes: PAGE_BYTES });
        let files = vec![NamedSource::new("disk.gguf", source)];
        let load = Load { budget, ..load_request() };
        rig.handle.load(load, files, Latch::new(LoadProgress::default())).await.unwrap();
        for events in 1..6 {
            let mut generation = rig.handle.generate(request(&ids(70), 12)).await.unwrap();
            for _ in 0..events {
                generation.events.next().await.unwrap();
            }
            is_there.set(false);
            let ended = collect(&mut generation).await;
            let Err(GenerateError::Source { file, error }) = ended.result else { panic!("{ended:?}") };
            assert_eq!((file.as_str(), matches!(error, SourceError::Failed { .. })), ("disk.gguf", true));
            is_there.set(true);
            rig.check_reply(request(&ids(70), 4)).await;
        }
        rig.load().await.unwrap();
        rig.check_reply(request(&ids(70), 4)).await;
    });
}

#[test]
fn another_budget_takes_effect_on_the_model_that_is_loaded() {
    with_engine(7, async |rig, _| {
        let (least, resident) = bounds().await;
        let progress = || Latch::new(LoadProgress::default());
        for bytes in [Some(least), Some(least.midpoint(resident)), None, Some(least)] {
            let budget = bytes.map(|bytes| Budget { bytes, page_bytes: PAGE_BYTES });
            let set =
                rig.handle.set_budget(SetBudget { budget, batch_tokens: 64 }, progress()).await.unwrap();
            assert_eq!(set.plan.stream.is_some(), bytes.is_some());
            assert!(bytes.is_none_or(|bytes| set.gpu_bytes <= bytes));
            assert_eq!(rig.device.state.borrow().held_bytes, set.gpu_bytes);
            rig.check_reply(request(&ids(70), 12)).await;
            // Too little changes nothing.
            let budget = Some(Budget { bytes: least - 1, page_bytes: PAGE_BYTES });
            let error = rig.handle.set_budget(SetBudget { budget, batch_tokens: 64 }, progress()).await;
            assert!(matches!(error, Err(LoadError::OverBudget { .. })), "{error:?}");
            rig.check_reply(request(&ids(71), 12)).await;
        }
        rig.handle.unload().await.unwrap();
        let none = rig.handle.set_budget(SetBudget { budget: None, batch_tokens: 64 }, progress()).await;
        assert!(matches!(none, Err(LoadError::Model { .. })));
    });
}

/// Lowered, raised and lowered too far, at every moment of a reply: what the budget allows holds from the
/// next pass on, and the reply is the same.
#[test]
fn another_budget_in_the_middle_of_a_reply_takes_effect_after_the_pass() {
    for (seed, width) in (0..18).zip([Width::Off, Width::Nodes(4)].into_iter().cycle()) {
        with_engine(seed, async move |rig, _| {
            let (least, resident) = bounds().await;
            load_within(&rig, resident).await.unwrap();
            let asked = Generate { width: WidthPolicy::Fixed(width), ..request(&ids(5), 24) };
            let whole = rig.check_reply(asked.clone()).await;
            let mut generation =
                rig.handle.generate(Generate { reuse_prefix: false, ..asked }).await.unwrap();
            for _ in 0..seed * 9 {
                yield_now().await;
            }
            for bytes in [Some(least), Some(least - 1), Some(least.midpoint(resident)), None] {
                let budget = bytes.map(|bytes| Budget { bytes, page_bytes: PAGE_BYTES });
                let request = SetBudget { budget, batch_tokens: 64 };
                // Nobody reads the reply meanwhile.
                match rig.handle.set_budget(request, Latch::new(LoadProgress::default())).await {
                    Ok(set) => {
                        assert!(bytes.is_none_or(|bytes| set.gpu_bytes <= bytes));
                        assert_eq!(rig.device.state.borrow().held_bytes, set.gpu_bytes);
                    }
                    // The reply is not read, and has no place for more.
                    Err(LoadError::Busy) => {}
                    Err(error) => {
                        assert_eq!(bytes, Some(least - 1), "{error}");
                        assert!(matches!(error, LoadError::OverBudget { .. }), "{error}");
                    }
                }
            }
            let ended = collect(&mut generation).await;
            assert_eq!((&ended.ids, &ended.text), (&whole.ids, &whole.text));
            let hash = |ended: &Ended| ended.result.as_ref().unwrap().logits_hash;
            assert_eq!(hash(&ended), hash(&whole));
            rig.check_reply(request(&ids(70), 12)).await;
        });
    }
}

/// A lowered budget costs a reply no token that a pass under way would have brought.
#[test]
fn a_pass_is_finished_before_a_budget_takes_effect() {
    with_engine(3, async |rig, _| {
        let (least, resident) = bounds().await;
        load_within(&rig, least).await.unwrap();
        let mut generation = rig.handle.generate(request(&ids(5), 40)).await.unwrap();
        let passes = |rig: &Rig| rig.device.state.borrow().submissions;
        while passes(&rig) < 8 {
            generation.events.next().await.unwrap();
        }
        // The next one has begun.
        for _ in 0..3 {
            yield_now().await;
        }
        let before = passes(&rig);
        let budget = Some(Budget { bytes: least.midpoint(resident), page_bytes: PAGE_BYTES });
        let request = SetBudget { budget, batch_tokens: 64 };
        rig.handle.set_budget(request, Latch::new(LoadProgress::default())).await.unwrap();
        assert_eq!(passes(&rig), before + 1, "the pass that was under way, and no other");
        assert_eq!(rig.device.state.borrow().in_flight, 0);
        rig.handle.cancel().await.unwrap();
    });
}

#[test]
fn loading_generating_and_unloading_leaves_the_device_empty_each_time() {
    with_engine(6, async |rig, _| {
        let (least, _) = bounds().await;
        rig.handle.unload().await.unwrap();
        for _ in 0..200 {
            load_within(&rig, least).await.unwrap();
            rig.check_reply(request(&ids(9), 3)).await;
            rig.handle.unload().await.unwrap();
            let state = rig.device.state.borrow();
            assert_eq!((state.models, state.held_bytes, state.in_flight), (0, 0, 0));
        }
        rig.load().await.unwrap();
    });
}
