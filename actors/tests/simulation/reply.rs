//! Replies: ids, text, limits, reuse of the cache.

use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::error::GenerateError;
use fanlight_messages::protocol::engine::{FinishReason, Generate, Prompt, TokenizeInput};

use crate::rig::{CONTEXT_LEN, request, with_engine};

fn prompt(len: u32, salt: u32) -> Vec<u32> {
    (0..len).map(|position| (position * 7 + salt * 13) % 256).collect()
}

#[test]
fn ids_depend_on_nothing_but_the_prompt() {
    for seed in 0..12 {
        with_engine(seed, |rig, _| async move {
            rig.device.state.borrow_mut().end_per_mille = 15;
            for (salt, len) in [1, 2, 63, 64, 65, 150].into_iter().enumerate() {
                let ids = prompt(len, salt as u32);
                let mut ends = Vec::new();
                for (window_steps, chunk_tokens, reuse_prefix, width, windows_in_flight) in [
                    (1, None, false, Width::Off, 2),
                    (2, Some(1), false, Width::Nodes(8), 2),
                    (4, Some(7), true, Width::Off, 1),
                    (4, Some(64), false, Width::Nodes(32), 2),
                    (1, None, true, Width::Nodes(2), 1),
                ] {
                    let width = WidthPolicy::Fixed(width);
                    let request = Generate {
                        window_steps: Some(window_steps),
                        chunk_tokens,
                        reuse_prefix,
                        width,
                        windows_in_flight,
                        ..request(&ids, 90)
                    };
                    let ended = rig.check_reply(request).await;
                    ends.push((ended.ids, ended.result.unwrap().logits_hash));
                }
                rig.device.state.borrow_mut().widths.clear();
                for max in [1, 4, 32] {
                    let request = Generate { width: WidthPolicy::Auto { max }, ..request(&ids, 90) };
                    let ended = rig.check_reply(request).await;
                    ends.push((ended.ids, ended.result.unwrap().logits_hash));
                    let widest = rig.device.state.borrow_mut().widths.drain(..).map(Width::rows).max();
                    assert!(widest.is_some_and(|rows| rows <= max && (rows > 1 || max == 1)), "{widest:?}");
                }
                assert!(ends.windows(2).all(|pair| pair[0] == pair[1]));
            }
            assert_eq!(rig.device.state.borrow().in_flight_max, 2, "two submissions are in flight");
        });
    }
}

#[test]
fn text_is_that_of_the_ids() {
    with_engine(3, |rig, _| async move {
        let ended = rig.check_reply(request(&prompt(20, 5), 64)).await;
        // The first 256 ids of this vocabulary are the bytes themselves.
        let bytes: Vec<u8> = ended.ids.iter().map(|id| *id as u8).collect();
        assert_eq!(ended.text, String::from_utf8_lossy(&bytes));
    });
}

#[test]
fn f07_the_context_is_a_boundary_and_a_longer_prompt_is_refused() {
    with_engine(4, |rig, _| async move {
        for (len, tokens) in [(CONTEXT_LEN - 1, 2), (CONTEXT_LEN, 1), (CONTEXT_LEN - 6, 7)] {
            let ended = rig.check_reply(request(&prompt(len, 1), 100)).await;
            assert_eq!((ended.ids.len(), ended.reason()), (tokens, FinishReason::Length));
        }
        for len in [CONTEXT_LEN + 1, 1_000] {
            let refused = rig.handle.generate(request(&prompt(len, 1), 100)).await.err();
            let (prompt_tokens, context_len) = (u64::from(len), CONTEXT_LEN);
            assert_eq!(refused, Some(GenerateError::PromptTooLong { prompt_tokens, context_len }));
        }
        for wanted in [0, 32_769, u32::MAX] {
            let refused = rig.handle.generate(request(&[1], wanted)).await.err();
            assert_eq!(refused, Some(GenerateError::TokenLimit { wanted, min: 1, max: 32_768 }));
        }
        assert_eq!(rig.check_reply(request(&prompt(60, 2), 1)).await.ids.len(), 1);
    });
}

#[test]
fn bad_requests_are_refused_and_the_next_one_is_served() {
    with_engine(5, |rig, _| async move {
        let good = request(&[1, 2, 3], 5);
        let bad = [
            Generate { prompt: Prompt::Ids([].into()), ..good.clone() },
            Generate { prompt: Prompt::Ids([1, 100_000].into()), ..good.clone() },
            Generate { prompt: Prompt::Raw(String::new()), ..good.clone() },
            Generate { prompt: Prompt::Raw("x".repeat((1 << 20) + 1)), ..good.clone() },
            Generate { window_steps: Some(3), ..good.clone() },
            Generate { window_steps: Some(0), ..good.clone() },
            Generate { window_steps: Some(8), ..good.clone() },
            Generate { width: WidthPolicy::Fixed(Width::Nodes(3)), ..good.clone() },
            Generate { width: WidthPolicy::Fixed(Width::Nodes(64)), ..good.clone() },
            Generate { width: WidthPolicy::Auto { max: 0 }, ..good.clone() },
            Generate { width: WidthPolicy::Auto { max: 12 }, ..good.clone() },
            Generate { frame_budget_ms: Some(0), ..good.clone() },
            Generate { windows_in_flight: 0, ..good.clone() },
            Generate { windows_in_flight: 3, ..good.clone() },
            Generate { stop: vec![String::new()], ..good.clone() },
            Generate { stop: vec!["x".repeat(1025)], ..good.clone() },
            Generate { stop: vec!["x".into(); 17], ..good.clone() },
            Generate { chunk_tokens: Some(0), ..good.clone() },
            Generate { chunk_tokens: Some(65), ..good.clone() },
        ];
        for request in bad {
            let refused = rig.handle.generate(request.clone()).await.err();
            assert!(refused.is_some(), "{request:?}");
            rig.check_reply(good.clone()).await;
        }
    });
}

#[test]
fn a_frame_budget_leaves_the_device_to_others_between_windows() {
    with_engine(7, |rig, _| async move {
        let ids = prompt(20, 3);
        let mut spent_us = Vec::new();
        for frame_budget_ms in [None, Some(8)] {
            let started_us = rig.device.now_us();
            let window_steps = Some(2);
            rig.check_reply(Generate { frame_budget_ms, window_steps, ..request(&ids, 60) }).await;
            spent_us.push(rig.device.now_us() - started_us);
        }
        // Eight of 16.7 milliseconds are used.
        let longer = spent_us[1] as f64 / spent_us[0] as f64;
        assert!((1.8..2.2).contains(&longer), "{spent_us:?}");
        // A cancel is heard in a gap, and so is a reader that leaves.
        for turns in 0..12 {
            let request = Generate { frame_budget_ms: Some(1), ..request(&ids, 200) };
            let generation = rig.handle.generate(request).await.unwrap();
            for _ in 0..40 + turns {
                crate::device::yield_now().await;
            }
            if turns % 2 == 0 {
                rig.handle.cancel().await.unwrap();
            }
            drop(generation);
            crate::device::settle().await;
            rig.check_reply(Generate { frame_budget_ms: Some(1), ..crate::rig::request(&ids, 9) }).await;
        }
    });
}

#[test]
fn f05_a_reused_prefix_gives_what_a_cold_run_gives() {
    with_engine(6, |rig, _| async move {
        let (x, y) = ([prompt(70, 1), vec![9]].concat(), [prompt(70, 1), vec![8, 8]].concat());
        let mut edited = prompt(70, 1);
        edited[40] = 255;
        let runs = [&x, &x, &x, &x, &y, &x, &edited, &prompt(12, 1), &x].map(|ids| ids.to_vec());
        for ids in &runs {
            let wanted = rig.reference(ids, 20).0;
            let mut generation = rig.handle.generate(request(ids, 20)).await.unwrap();
            let reused = generation.started.reused_tokens;
            assert!(reused < ids.len() as u32, "the last token is evaluated again");
            assert_eq!(crate::rig::collect(&mut generation).await.ids, wanted);
        }
        // A conversation that goes on where the reply ended is not evaluated twice.
        let reply = rig.check_reply(request(&x, 20)).await.ids;
        let longer = [x.clone(), reply, vec![3, 4]].concat();
        let mut generation = rig.handle.generate(request(&longer, 20)).await.unwrap();
        assert_eq!(generation.started.reused_tokens as usize, x.len() + 19);
        assert_eq!(crate::rig::collect(&mut generation).await.ids, rig.reference(&longer, 20).0);
        rig.handle.reset().await.unwrap();
        let mut generation = rig.handle.generate(request(&longer, 1)).await.unwrap();
        assert_eq!(generation.started.reused_tokens, 0);
        crate::rig::collect(&mut generation).await;
    });
}

#[test]
fn text_becomes_ids_and_text_again() {
    with_engine(9, |rig, _| async move {
        let text = |text: &str| TokenizeInput::Text {
            text: text.into(),
            recognise_control: false,
            add_begin: false,
        };
        let ids = rig.handle.tokenize(text("the light of the house")).await.unwrap();
        assert!(!ids.is_empty());
        assert_eq!(rig.handle.detokenize(ids.to_vec()).await.unwrap(), "the light of the house");
        let prompt = TokenizeInput::Prompt(Prompt::Ids([1, 2].as_slice().into()));
        assert_eq!(*rig.handle.tokenize(prompt).await.unwrap(), [1, 2]);
        let unknown = rig.handle.detokenize(vec![u32::MAX]).await;
        assert!(matches!(unknown, Err(GenerateError::TokenId { id: u32::MAX, .. })), "{unknown:?}");
        rig.handle.unload().await.unwrap();
        assert_eq!(rig.handle.tokenize(text("x")).await, Err(GenerateError::NoModel));
    });
}

#[test]
fn stats_add_up() {
    with_engine(8, |rig, _| async move {
        let ended = rig.check_reply(request(&prompt(100, 2), 41)).await;
        let stats = ended.result.unwrap().stats;
        assert_eq!((stats.prefill_tokens, stats.prefill_us), (100, 10_000));
        assert_eq!((stats.decode_tokens, stats.steps, stats.submitted_steps), (40, 40, 40));
        assert_eq!(stats.decode_us, 40_000);
        let snapshot = rig.handle.snapshot(0).await.unwrap().kept;
        assert_eq!((snapshot.totals.prompt_tokens, snapshot.totals.tokens), (100, 41));
        assert_eq!(snapshot.window_us.count, u64::from(stats.windows));
    });
}

/// F01: a stop text across tokens and windows is cut exactly, in the stream as in the whole; ids and hash end
/// with the token that completed it; the cache is not confused by what was decoded beyond.
#[test]
fn f01_a_stop_text_ends_the_reply_where_it_begins() {
    for seed in 0..6 {
        with_engine(seed, |rig, _| async move {
            let ids = prompt(30, 7);
            let whole = rig.check_reply(request(&ids, 60)).await;
            for (window_steps, width) in
                [(1, Width::Off), (4, Width::Off), (1, Width::Nodes(8)), (4, Width::Nodes(32))]
            {
                for at in [1, 9, 33] {
                    // Ids below 256 are bytes; an ASCII pair makes a text that is stopped at.
                    let found = (at..59).find(|i| whole.ids[*i] < 128 && whole.ids[*i + 1] < 128);
                    let Some(first) = found else { continue };
                    let text =
                        String::from_utf8(vec![whole.ids[first] as u8, whole.ids[first + 1] as u8]).unwrap();
                    let stop = vec!["never seen".into(), text.clone()];
                    let base = request(&ids, 60);
                    let width = WidthPolicy::Fixed(width);
                    let request = Generate { window_steps: Some(window_steps), width, stop, ..base.clone() };
                    let mut generation = rig.handle.generate(request).await.unwrap();
                    let ended = crate::rig::collect(&mut generation).await;
                    let cut = whole.text.find(&text).expect("the text is in the reply");
                    assert_eq!(ended.text, whole.text[..cut], "{width:?}, windows of {window_steps}");
                    assert_eq!(ended.reason(), FinishReason::Stop);
                    let kept = ended.ids.len();
                    assert_eq!(ended.ids, whole.ids[..kept], "ids end with the one that completed the text");
                    let limited = rig.check_reply(Generate { token_limit: kept as u32, ..base }).await;
                    assert_eq!(ended.result.unwrap().logits_hash, limited.result.unwrap().logits_hash);
                    rig.check_reply(Generate { reuse_prefix: true, ..crate::rig::request(&ids, 60) }).await;
                }
            }
        });
    }
}
