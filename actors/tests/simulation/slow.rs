//! A device on which a step takes longer than a watchdog waits: what is submitted is split.

use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::limits::{COMPILE_SHARE, SUBMISSION_US_MAX};
use fanlight_messages::protocol::engine::{Generate, GenerationEvent};

use crate::device::{COMPILE_US, Fault, settle};
use crate::rig::{Rig, load_request, request, with_engine};

fn ids() -> Vec<u32> {
    (0..100).map(|i| i % 12).collect()
}

/// The first batch and step are split on suspicion, everything else by what was measured.
#[test]
fn no_submission_keeps_a_slow_device_beyond_the_cap() {
    for (seed, width) in (0..).zip([Width::Off, Width::Nodes(2), Width::Nodes(8)]) {
        with_engine(seed, |rig, _| async move {
            let (prompt_token_us, step_us) = (19_000, 900_000);
            {
                let mut state = rig.device.state.borrow_mut();
                (state.prompt_token_us, state.step_us) = (prompt_token_us, step_us);
                state.part_us.clear();
            }
            let width = WidthPolicy::Fixed(width);
            let asked = Generate { width, window_steps: Some(4), ..request(&ids(), 20) };
            rig.check_reply(asked.clone()).await;
            let parts = std::mem::take(&mut rig.device.state.borrow_mut().part_us);
            assert!(prompt_token_us * u64::from(load_request().batch_tokens) > SUBMISSION_US_MAX);
            // The steps that were submitted before the first was measured may take longer.
            let late = parts.iter().filter(|us| **us > SUBMISSION_US_MAX).count();
            assert!(late <= 2, "{parts:?}");
            // Afterwards it is known.
            rig.check_reply(Generate { reuse_prefix: false, ..asked }).await;
            let parts = std::mem::take(&mut rig.device.state.borrow_mut().part_us);
            assert!(parts.iter().all(|us| *us <= SUBMISSION_US_MAX), "{parts:?}");
        });
    }
}

#[test]
fn a_frame_budget_splits_steps_that_are_longer() {
    with_engine(4, |rig, _| async move {
        rig.device.state.borrow_mut().step_us = 20_000;
        let asked = Generate { frame_budget_ms: Some(8), ..request(&ids(), 12) };
        rig.check_reply(asked.clone()).await;
        rig.device.state.borrow_mut().part_us.clear();
        rig.check_reply(Generate { reuse_prefix: false, ..asked }).await;
        let parts = std::mem::take(&mut rig.device.state.borrow_mut().part_us);
        assert!(parts.iter().all(|us| *us <= 8_000), "{parts:?}");
        assert!(parts.iter().any(|us| *us > 4_000), "no more parts than are needed: {parts:?}");
    });
}

/// Whatever widths the controller would like to try: a first reply gives a tenth of its time for compiling
/// them.
#[test]
fn compiling_takes_a_share_of_the_first_reply_and_the_rest_comes_behind_it() {
    with_engine(5, |rig, _| async move {
        rig.device.state.borrow_mut().is_gpu = true;
        rig.load().await.unwrap();
        let compiled = |rig: &Rig| rig.device.state.borrow().pipelines.values().sum::<u32>();
        let asked = Generate { width: WidthPolicy::Auto { max: 32 }, ..request(&ids()[..40], 80) };
        let began_us = rig.device.now_us();
        rig.check_reply(asked.clone()).await;
        let elapsed_us = rig.device.now_us() - began_us;
        let within = u64::from(compiled(&rig));
        assert!(within > 0, "widths are tried");
        // The one that reached the share, and one more whose turn it was.
        assert!((within - 1) * COMPILE_US <= elapsed_us / COMPILE_SHARE, "{within} in {elapsed_us} us");
        settle().await;
        assert!(u64::from(compiled(&rig)) > within, "the rest is compiled while nobody asks for anything");
        rig.check_reply(asked).await;
    });
}

/// Eight billion weights at thirty thousand million products a second: a quarter of a second for each token.
const SLOW_TOKEN_US: u64 = 8_000_000_000 / 30_000;

fn prompt(len: u32) -> Vec<u32> {
    (0..len).map(|i| (i * 29 + 3) % 250).collect()
}

#[test]
fn e28_a_prompt_is_cut_by_time_and_its_progress_is_told() {
    with_engine(6, |rig, _| async move {
        rig.device.state.borrow_mut().prompt_token_us = SLOW_TOKEN_US;
        let ids = prompt(200);
        let mut generation = rig.handle.generate(request(&ids, 2)).await.unwrap();
        let mut told = Vec::new();
        while let Some(event) = generation.events.next().await {
            if let GenerationEvent::Prefilled { done, total } = event {
                assert_eq!(total, 200);
                told.push(done);
            }
        }
        assert!(told.windows(2).all(|pair| pair[0] < pair[1]) && told.len() > 100, "{told:?}");
        let state = rig.device.state.borrow();
        assert_eq!(state.batches[0], 16, "the pace is unknown");
        assert!(state.part_us.iter().all(|us| *us <= 500_000), "{:?}", state.part_us);
        assert!(state.part_us[1..].iter().all(|us| *us <= SUBMISSION_US_MAX), "{:?}", state.part_us);
    });
}

#[test]
fn e28_a_fast_device_gets_its_prompt_in_long_batches() {
    with_engine(7, |rig, _| async move {
        rig.check_reply(request(&prompt(250), 2)).await;
        assert_eq!(rig.device.state.borrow().batches, [16, 32, 32, 64, 64, 42]);
        rig.check_reply(Generate { reuse_prefix: false, ..request(&prompt(250), 2) }).await;
        assert_eq!(rig.device.state.borrow().batches[6..], [64, 64, 64, 58], "what it knows it keeps");
    });
}

#[test]
fn e28_a_cancel_in_a_prompt_is_answered_when_the_submission_ends() {
    for (token_us, most_us) in [(SLOW_TOKEN_US, 3 * SUBMISSION_US_MAX), (9_000, 2 * SUBMISSION_US_MAX)] {
        // Two batches tell the pace.
        for events in 2..9 {
            with_engine(events, |rig, _| async move {
                rig.device.state.borrow_mut().prompt_token_us = token_us;
                let mut generation = rig.handle.generate(request(&prompt(200), 20)).await.unwrap();
                for _ in 0..events {
                    generation.events.next().await.unwrap();
                }
                let asked_us = rig.device.now_us();
                rig.handle.cancel().await.unwrap();
                let waited_us = rig.device.now_us() - asked_us;
                assert!(waited_us <= most_us, "{waited_us} us after {events} batches");
                rig.check_reply(request(&prompt(20), 4)).await;
            });
        }
    }
}

#[test]
fn e28_after_a_loss_in_a_prompt_batches_are_halved() {
    for after in 0..6 {
        with_engine(after, |rig, _| async move {
            let at = rig.device.state.borrow().submissions + after;
            rig.device.state.borrow_mut().faults.insert(at, Fault::Lose);
            rig.check_reply(request(&prompt(250), 4)).await;
            let batches = rig.device.state.borrow().batches.clone();
            let lost = (after as usize + 1).min(batches.len());
            let resumed = batches[lost..].iter().position(|len| *len <= 8 || *len < batches[0]);
            let reopened = rig.device.state.borrow().reopened;
            assert_eq!(reopened, 1);
            // One more batch may have been in flight; those of the next run are at most half of the longest.
            let longest = *batches[..lost].iter().max().unwrap();
            let rest = &batches[lost + resumed.unwrap_or(1).min(1)..];
            assert!(rest.iter().all(|len| *len <= longest.max(16) / 2), "{batches:?} lost at {after}");
        });
    }
}
