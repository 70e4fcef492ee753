//! Stopping: by a cancel, by a reader that leaves, by a reader that is slow.

use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::protocol::engine::{FinishReason, Generate, GenerationEvent};

use crate::device::{settle, yield_now};
use crate::rig::{collect, request, with_engine};

/// E08: stop when idle, in the prompt, in the reply, twice; the next request works.
#[test]
fn e08_a_cancel_ends_the_reply_and_the_next_one_is_whole() {
    for seed in 0..40 {
        with_engine(seed, |rig, _| async move {
            rig.handle.cancel().await.unwrap();
            let ids: Vec<u32> = (0..200).map(|i| (i * 3 + seed as u32) % 256).collect();
            let mut generation = rig.handle.generate(request(&ids, 50)).await.unwrap();
            // From at once (in the prompt) to late in the reply.
            for _ in 0..seed * 2 {
                yield_now().await;
            }
            let before = rig.device.state.borrow().submissions;
            let (first, second) = futures::join!(rig.handle.cancel(), rig.handle.cancel());
            first.and(second).unwrap();
            assert!(rig.device.state.borrow().submissions <= before + 1, "submitted after the cancel");
            let ended = collect(&mut generation).await;
            let wanted = rig.reference(&ids, 50).0;
            assert!(wanted.starts_with(&ended.ids), "what was shown is a beginning of the reply");
            let finished = ended.result.unwrap();
            assert_eq!(finished.tokens as usize, ended.ids.len());
            assert!(finished.reason == FinishReason::Cancelled || ended.ids.len() == 50);
            // The cache holds more than was shown; reuse must not notice.
            rig.check_reply(request(&ids, 50)).await;
            rig.check_reply(request(&[&ids[..], &wanted[..10], &[77]].concat(), 20)).await;
        });
    }
}

/// E08: the reader leaves the loop.
#[test]
fn e08_a_reader_that_leaves_stops_the_reply() {
    for seed in 0..20 {
        with_engine(seed, |rig, _| async move {
            let ids: Vec<u32> = (0..100).collect();
            let mut generation = rig.handle.generate(request(&ids, 150)).await.unwrap();
            for _ in 0..seed % 5 {
                generation.events.next().await;
            }
            drop(generation);
            settle().await;
            let submissions = rig.device.state.borrow().submissions;
            settle().await;
            let state = rig.device.state.borrow().submissions;
            assert_eq!(state, submissions, "nothing is submitted for nobody");
            assert_eq!(rig.device.state.borrow().in_flight, 0);
            rig.check_reply(request(&ids, 30)).await;
        });
    }
}

#[test]
fn a_reader_that_stops_reading_stops_the_device_and_nothing_is_lost() {
    for seed in 0..20 {
        with_engine(seed, |rig, _| async move {
            let ids: Vec<u32> = (0..10).collect();
            let mut generation = rig.handle.generate(request(&ids, 200)).await.unwrap();
            settle().await;
            let submissions = rig.device.state.borrow().submissions;
            for _ in 0..5 {
                settle().await;
            }
            assert_eq!(rig.device.state.borrow().submissions, submissions, "the stream is full");
            assert_eq!(rig.device.state.borrow().in_flight, 0);
            // Eight events for the reader and three on their way to the engine.
            assert!(submissions <= 8 + 3, "{submissions} submissions ran ahead of the reader");
            // One event read makes room for one.
            assert!(matches!(generation.events.next().await, Some(GenerationEvent::Tokens { .. })));
            settle().await;
            let more = rig.device.state.borrow().submissions - submissions;
            assert!(more <= 1, "{more} submissions for one place");
            let ended = collect(&mut generation).await;
            let wanted = rig.reference(&ids, 200).0;
            assert!(wanted.ends_with(&ended.ids));
            assert_eq!(ended.result.unwrap().tokens, 200);
        });
    }
}

#[test]
fn a_cancel_is_heard_while_the_stream_is_full() {
    with_engine(1, |rig, _| async move {
        let mut generation = rig.handle.generate(request(&[1, 2, 3], 200)).await.unwrap();
        settle().await;
        rig.handle.cancel().await.unwrap();
        assert_eq!(collect(&mut generation).await.reason(), FinishReason::Cancelled);
        rig.check_reply(request(&[1, 2, 3], 10)).await;
    });
}

#[test]
fn a_thousand_starts_and_stops_leave_nothing_behind() {
    with_engine(11, |rig, _| async move {
        for cycle in 0..1000u32 {
            let ids: Vec<u32> = (0..(cycle % 90) + 1).map(|i| (i * cycle) % 256).collect();
            let width = if cycle % 2 == 0 { Width::Nodes(8) } else { Width::Off };
            let request = Generate { width: WidthPolicy::Fixed(width), ..request(&ids, 40) };
            let mut generation = rig.handle.generate(request).await.unwrap();
            for _ in 0..cycle % 11 {
                yield_now().await;
            }
            match cycle % 3 {
                0 => rig.handle.cancel().await.unwrap(),
                1 => drop(generation),
                _ => assert_eq!(collect(&mut generation).await.ids, rig.reference(&ids, 40).0),
            }
            if cycle % 3 == 1 {
                rig.handle.cancel().await.unwrap();
            }
            let state = rig.device.state.borrow();
            assert_eq!((state.models, state.in_flight), (1, 0), "cycle {cycle}");
        }
        let snapshot = rig.handle.snapshot(0).await.unwrap().kept;
        assert!(snapshot.samples.len() <= 1024);
        rig.check_reply(request(&[5, 6], 30)).await;
    });
}
