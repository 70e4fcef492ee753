//! What is measured between requests: it is heard of, it stops for mail, and no reply can tell.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use fanlight_actors::costs::{CostStore, Recalled};
use fanlight_messages::draft::WidthPolicy;
use fanlight_messages::error::{CostRecordError, CostStoreError};
use fanlight_messages::limits::CALIBRATION_US_MAX;
use fanlight_messages::protocol::engine::{Generate, GenerationEvent, ModelLoaded};
use fanlight_messages::sampling::{Sampling, SamplingOptions};

use crate::device::{CHOICE_NS, Fault, settle};
use crate::rig::{Rig, collect, request, with_engine};

const AUTO: WidthPolicy = WidthPolicy::Auto { max: 32 };
const PROMPT: [u32; 5] = [5, 6, 7, 8, 9];

fn auto(ids: &[u32], token_limit: u32) -> Generate {
    Generate { width: AUTO, ..request(ids, token_limit) }
}

/// Loads the model again, on a device that is no processor.
async fn on_gpu(rig: &Rig) -> ModelLoaded {
    rig.device.state.borrow_mut().is_gpu = true;
    rig.load().await.unwrap()
}

async fn measured(rig: &Rig) -> usize {
    let costs = rig.handle.controller_snapshot().await.unwrap().online;
    costs.tree_us.iter().filter(|us| **us > 0).count()
}

#[test]
fn all_widths_are_measured_while_nobody_asks() {
    with_engine(1, |rig, _| async move {
        on_gpu(&rig).await;
        let reply = rig.check_reply(auto(&PROMPT, 3)).await;
        assert!(measured(&rig).await < 6, "a short reply measures little");
        settle().await;
        assert_eq!(measured(&rig).await, 6);
        let before = rig.device.state.borrow().submissions;
        settle().await;
        assert_eq!(rig.device.state.borrow().submissions, before, "nothing is left to measure");
        // The conversation goes on from the cache, with what it must be.
        let longer = [&PROMPT[..], &reply.ids, &[1, 2]].concat();
        let mut generation = rig.handle.generate(auto(&longer, 60)).await.unwrap();
        assert_eq!(generation.started.reused_tokens as usize, PROMPT.len() + reply.ids.len() - 1);
        assert_eq!(collect(&mut generation).await.ids, rig.reference(&longer, 60).0);
    });
}

#[test]
fn nothing_is_measured_under_a_fixed_width_or_on_a_processor() {
    for (is_gpu, width) in [(true, WidthPolicy::default()), (false, AUTO)] {
        with_engine(2, |rig, _| async move {
            rig.device.state.borrow_mut().is_gpu = is_gpu;
            rig.load().await.unwrap();
            rig.check_reply(Generate { width, ..request(&PROMPT, 3) }).await;
            let before = rig.device.state.borrow().submissions;
            settle().await;
            assert_eq!(rig.device.state.borrow().submissions, before);
        });
    }
}

#[test]
fn what_choosing_a_token_takes_is_measured_once_for_each_way_of_it() {
    with_engine(3, |rig, _| async move {
        let drawn = SamplingOptions { temperature: 1.0, ..SamplingOptions::default() };
        let drawn = Rc::new(Sampling::new(drawn).unwrap());
        let warmer = SamplingOptions { temperature: 2.0, seed: 9, ..drawn.options().clone() };
        let warmer = Rc::new(Sampling::new(warmer).unwrap());
        let state = &rig.device.state;
        let choice_ns = async |sampling: &Rc<Sampling>| {
            let asked = Generate { sampling: sampling.clone(), ..request(&PROMPT, 3) };
            let reply = collect(&mut rig.handle.generate(asked).await.unwrap()).await;
            settle().await;
            reply.result.unwrap().stats.choice_ns
        };
        rig.load().await.unwrap();
        for (sampling, wanted, timed) in [
            (&Rc::default(), None, 1),
            (&Rc::default(), Some(CHOICE_NS), 1),
            (&drawn, None, 2),
            // The same kernels, with other numbers in them.
            (&warmer, Some(CHOICE_NS), 2),
            (&Rc::default(), Some(CHOICE_NS), 2),
        ] {
            assert_eq!(choice_ns(sampling).await, wanted, "{sampling:?}");
            assert_eq!(state.borrow().choices_timed, timed, "{sampling:?}");
        }
        // Another model has other rows.
        rig.load().await.unwrap();
        assert_eq!(choice_ns(&Rc::default()).await, None);
    });
}

#[test]
fn a_device_that_is_lost_while_a_choice_is_measured_is_there_for_the_next_reply() {
    with_engine(4, |rig, _| async move {
        rig.load().await.unwrap();
        rig.device.state.borrow_mut().is_choice_lost = true;
        rig.check_reply(request(&PROMPT, 3)).await;
        settle().await;
        assert_eq!(rig.device.state.borrow().models, 0, "what is on it is not trusted");
        rig.device.state.borrow_mut().is_choice_lost = false;
        rig.check_reply(request(&PROMPT, 5)).await;
        assert_eq!(rig.device.state.borrow().reopened, 1);
    });
}

#[test]
fn mail_ends_a_measurement_at_once_wherever_it_is() {
    for turns in 0..60 {
        with_engine(turns, |rig, _| async move {
            on_gpu(&rig).await;
            let reply = rig.check_reply(auto(&PROMPT, 3)).await;
            for _ in 0..turns {
                crate::device::yield_now().await;
            }
            let before = rig.device.state.borrow().submissions;
            if turns % 2 == 0 {
                rig.handle.cancel().await.unwrap();
                let after = rig.device.state.borrow().submissions;
                assert!(after - before <= 2, "{} submissions after a cancel", after - before);
            }
            let longer = [&PROMPT[..], &reply.ids, &[1, 2]].concat();
            let mut generation = rig.handle.generate(auto(&longer, 40)).await.unwrap();
            assert_eq!(generation.started.reused_tokens as usize, PROMPT.len() + reply.ids.len() - 1);
            assert_eq!(collect(&mut generation).await.ids, rig.reference(&longer, 40).0);
        });
    }
}

#[test]
fn a_device_lost_while_measuring_is_back_for_the_next_reply() {
    for after in 0..6 {
        with_engine(after, |rig, _| async move {
            on_gpu(&rig).await;
            let reply = rig.check_reply(auto(&PROMPT, 3)).await;
            let at = rig.device.state.borrow().submissions + after;
            rig.device.state.borrow_mut().faults.insert(at, Fault::Lose);
            settle().await;
            let longer = [&PROMPT[..], &reply.ids, &[1, 2]].concat();
            rig.check_reply(auto(&longer, 40)).await;
            assert_eq!(rig.device.state.borrow().reopened, 1);
        });
    }
}

#[test]
fn measuring_takes_no_more_than_it_may() {
    with_engine(3, |rig, _| async move {
        on_gpu(&rig).await;
        rig.device.state.borrow_mut().step_us = 400_000;
        let started_us = rig.device.now_us();
        let mut generation = rig.handle.generate(auto(&PROMPT, 1)).await.unwrap();
        while let Some(event) = generation.events.next().await {
            assert!(!matches!(event, GenerationEvent::Failed(_)), "{event:?}");
        }
        settle().await;
        // The last measurement begins before the limit: its windows and those in flight, of four steps at
        // most.
        let most_us = CALIBRATION_US_MAX + 5 * 4 * 400_000 + 100_000;
        let spent_us = rig.device.now_us() - started_us;
        assert!((CALIBRATION_US_MAX..most_us).contains(&spent_us), "{spent_us}");
    });
}

/// A store in memory that may be broken.
#[derive(Default)]
struct Kept {
    records: RefCell<BTreeMap<String, Vec<u8>>>,
    is_broken: bool,
}

impl CostStore for Kept {
    async fn read(&self, key: &str) -> Result<Option<Vec<u8>>, CostStoreError> {
        if self.is_broken {
            return Err(CostStoreError::Store { reason: "by the test".into() });
        }
        Ok(self.records.borrow().get(key).cloned())
    }

    async fn write(&self, key: &str, record: &[u8]) -> Result<(), CostStoreError> {
        if self.is_broken {
            return Err(CostStoreError::Store { reason: "by the test".into() });
        }
        self.records.borrow_mut().insert(key.into(), record.into());
        Ok(())
    }
}

#[test]
fn costs_are_kept_from_visit_to_visit_and_refused_when_damaged() {
    with_engine(4, |rig, _| async move {
        let loaded = on_gpu(&rig).await;
        let store = Kept::default();
        rig.handle.keep_costs(&store, &loaded).await.unwrap();
        assert_eq!(rig.handle.recall_costs(&store, &loaded).await, Ok(Recalled::Nothing), "nothing is known");
        rig.check_reply(auto(&PROMPT, 3)).await;
        settle().await;
        rig.handle.keep_costs(&store, &loaded).await.unwrap();
        let before = rig.handle.controller_snapshot().await.unwrap().online;

        let loaded = rig.load().await.unwrap();
        assert_eq!(measured(&rig).await, 0, "a load forgets");
        assert_eq!(rig.handle.recall_costs(&store, &loaded).await, Ok(Recalled::Costs));
        assert_eq!(rig.handle.controller_snapshot().await.unwrap().online, before);
        rig.device.state.borrow_mut().widths.clear();
        rig.check_reply(auto(&PROMPT, 60)).await;
        assert!(rig.device.state.borrow().widths.iter().any(|width| width.rows() > 1));

        for record in store.records.borrow_mut().values_mut() {
            *record.last_mut().unwrap() ^= 1;
        }
        let loaded = rig.load().await.unwrap();
        let recalled = rig.handle.recall_costs(&store, &loaded).await;
        assert!(matches!(recalled, Ok(Recalled::Refused(CostRecordError::Corrupt { .. }))), "{recalled:?}");
        assert_eq!(measured(&rig).await, 0);
        rig.check_reply(auto(&PROMPT, 3)).await;
        settle().await;
        rig.handle.keep_costs(&store, &loaded).await.unwrap();
        assert_eq!(rig.handle.recall_costs(&store, &loaded).await, Ok(Recalled::Costs), "it was replaced");

        let broken = Kept { is_broken: true, ..store };
        assert!(matches!(rig.handle.recall_costs(&broken, &loaded).await, Err(CostStoreError::Store { .. })));
        assert!(matches!(rig.handle.keep_costs(&broken, &loaded).await, Err(CostStoreError::Store { .. })));
    });
}
