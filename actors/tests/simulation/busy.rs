//! E09: one thing at a time; whoever comes meanwhile hears so at once, and nobody's tokens mix.

use fanlight_actors::kit::Latch;
use fanlight_messages::error::{GenerateError, LoadError};
use fanlight_messages::protocol::engine::{FinishReason, LoadProgress};

use crate::device::yield_now;
use crate::rig::{collect, load_request, model_file, request, sources, with_engine};

#[test]
fn e09_a_second_request_hears_busy_and_the_first_goes_on() {
    for seed in 0..20 {
        with_engine(seed, |rig, _| async move {
            let ids: Vec<u32> = (0..120).map(|i| (i + seed as u32) % 256).collect();
            let mut generation = rig.handle.generate(request(&ids, 60)).await.unwrap();
            for _ in 0..seed {
                yield_now().await;
            }
            let second = rig.handle.generate(request(&[1], 5)).await.err();
            assert_eq!(second, Some(GenerateError::Busy));
            assert_eq!(rig.handle.reset().await, Err(GenerateError::Busy));
            // What needs no device is answered at any time.
            assert!(rig.handle.detokenize(vec![1]).await.is_ok());
            let files = sources(model_file().to_bytes(), u64::MAX);
            let load = rig.handle.load(load_request(), files, Latch::new(LoadProgress::default())).await;
            assert_eq!(load.err(), Some(LoadError::Busy));
            assert_eq!(collect(&mut generation).await.ids, rig.reference(&ids, 60).0);
            rig.check_reply(request(&[1], 5)).await;
        });
    }
}

#[test]
fn e09_an_unload_during_a_reply_ends_it_first() {
    with_engine(2, |rig, _| async move {
        let mut generation = rig.handle.generate(request(&[1, 2], 100)).await.unwrap();
        rig.handle.unload().await.unwrap();
        assert_eq!(collect(&mut generation).await.reason(), FinishReason::Cancelled);
        assert_eq!(rig.device.state.borrow().models, 0);
        let refused = rig.handle.generate(request(&[1], 5)).await.err();
        assert_eq!(refused, Some(GenerateError::NoModel));
        rig.load().await.unwrap();
        rig.check_reply(request(&[1, 2], 20)).await;
    });
}

#[test]
fn e09_requests_during_a_load_hear_busy_and_a_cancel_abandons_it() {
    for seed in 0..30u32 {
        with_engine(u64::from(seed), |rig, _| async move {
            let files = sources(model_file().to_bytes(), u64::MAX);
            let progress = Latch::new(LoadProgress::default());
            let load = rig.handle.load(load_request(), files, progress);
            let meanwhile = async {
                for _ in 0..seed {
                    yield_now().await;
                }
                let busy = rig.handle.generate(request(&[1], 5)).await.err();
                rig.handle.cancel().await.unwrap();
                busy
            };
            let (loaded, busy) = futures::join!(load, meanwhile);
            assert!(matches!(busy, None | Some(GenerateError::Busy)), "{busy:?}");
            if loaded.is_err() {
                assert_eq!(loaded.err(), Some(LoadError::Cancelled));
                assert_eq!(rig.device.state.borrow().models, 0);
                rig.load().await.unwrap();
            }
            rig.check_reply(request(&[4, 5], 20)).await;
        });
    }
}

#[test]
fn hosts_that_leave_in_the_middle_end_the_engine() {
    for seed in 0..10 {
        with_engine(seed, |rig, _| async move {
            let mut generation = rig.handle.generate(request(&[1, 2], 100)).await.unwrap();
            for _ in 0..seed {
                yield_now().await;
            }
            drop(rig.handle);
            // The reply is told its end, and `with_engine` waits for the end of all actors.
            collect(&mut generation).await;
        });
    }
}
