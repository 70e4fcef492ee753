//! The session of a reply: each stage, and any order of events.

use fanlight_messages::TensorType;
use fanlight_messages::control::ControlBlock;
use fanlight_messages::device::{AdapterFacts, AdapterKind, Purpose, WindowReport};
use fanlight_messages::error::SourceError;
use fanlight_messages::protocol::memory::MemoryKey;
use fanlight_models::gguf::{HeaderReader, HeaderStep};
use fanlight_models::text::Tokenizer;
use fanlight_tests::synth::{Architecture, tiny};
use proptest::prelude::*;

use super::*;
use crate::engine::prompt::PreparedReply;
use crate::engine::text::Continues;

const PROMPT: [u32; 40] = [7; 40];
const LIMIT: u32 = 9;

fn tokenizer() -> Rc<Tokenizer> {
    let bytes = tiny(Architecture::Llama, TensorType::Q4_0, 7).build().unwrap().to_bytes();
    let mut reader = HeaderReader::new(bytes.len() as u64);
    loop {
        let range = reader.wanted_range();
        match reader.feed(&bytes[range.start as usize..range.end as usize]).unwrap() {
            HeaderStep::More(more) => reader = more,
            HeaderStep::Done(header) => return Tokenizer::from_metadata(&header.metadata).unwrap().into(),
        }
    }
}

fn session(tokenizer: &Rc<Tokenizer>, is_lost: bool) -> (Session, Option<Effect>) {
    let setup = RequestSetup { context_len: 256, token_limit: LIMIT, ..RequestSetup::default() };
    let prepared = PreparedReply {
        warnings: Vec::new(),
        tokenizer: tokenizer.clone(),
        prompt: PROMPT.into(),
        base: 0,
        setup,
        chunk_tokens: 64,
        continues: Continues::Plain,
        memory_key: MemoryKey::default(),
    };
    Session::begin(ReplyCore::new(&prepared, &[]), prepared.run(), is_lost)
}

fn lost() -> Input {
    Input::RunOver(Err(DeviceError::Lost { reason: String::new() }.into()))
}

fn restored() -> Input {
    let adapter = AdapterFacts {
        name: String::new(),
        backend: String::new(),
        driver: String::new(),
        kind: AdapterKind::Gpu,
        binding_bytes_max: 0,
        has_packed_dot: false,
        threads: 0,
    };
    Input::Restored(Ok(ModelRestored { same_adapter: true, adapter, quarantined: None }))
}

fn over() -> Input {
    Input::RunOver(Ok(RunOver::default()))
}

/// A batch of the prompt, or with `tokens` its last one or a window, after so many `committed` positions.
fn told(batch: u32, tokens: u32, committed: u32, end: u32) -> Input {
    let control = ControlBlock { committed, end, ..ControlBlock::default() };
    let ids = vec![65; tokens as usize];
    let report = WindowReport { control, hashes: ids.clone(), tokens: ids, steps: vec![], dispatches: 1 };
    Input::Told(if batch > 0 {
        RunEvent::PromptEvaluated { tokens: batch, report, elapsed_us: 1 }
    } else {
        RunEvent::WindowCompleted { steps: tokens, report, elapsed_us: 1 }
    })
}

fn begun(effects: &[Effect]) -> Option<&NextRun> {
    effects.iter().find_map(|effect| match effect {
        Effect::Begin(next) => Some(next),
        _ => None,
    })
}

#[test]
fn a_loss_in_the_prompt_begins_again_with_half_the_batch_and_later_with_what_was_said() {
    let mut journal = Journal::default();
    let (mut session, first) = session(&tokenizer(), false);
    assert!(matches!(first, Some(Effect::Begin(NextRun { base: 0, chunk_tokens: 64, .. }))));
    session.step(told(24, 0, 24, 0), &mut journal);
    assert_eq!(
        (session.step(lost(), &mut journal), session.stage()),
        (vec![Effect::Lose], &Stage::Restoring)
    );
    assert!(journal.is_empty());
    let effects = session.step(restored(), &mut journal);
    assert!(matches!(&effects[0], Effect::Notify(GenerationEvent::Resumed { .. })));
    let next = begun(&effects).unwrap();
    assert_eq!((next.base, next.chunk_tokens, next.prompt.len()), (0, 12, 40));
    session.step(told(40, 1, 40, 0), &mut journal);
    session.step(told(0, 3, 43, 0), &mut journal);
    session.step(lost(), &mut journal);
    let effects = session.step(restored(), &mut journal);
    let next = begun(&effects).unwrap();
    assert_eq!((next.prompt.len(), next.setup.token_limit, next.chunk_tokens), (44, LIMIT - 4, 12));
}

#[test]
fn a_device_lost_before_the_reply_is_brought_back_without_a_word() {
    let mut journal = Journal::default();
    let (mut session, first) = session(&tokenizer(), true);
    assert_eq!((first, session.stage()), (None, &Stage::Restoring));
    let effects = session.step(restored(), &mut journal);
    assert_eq!(effects.len(), 1);
    assert!(begun(&effects).is_some() && *session.stage() == Stage::Running);
}

#[test]
fn a_budget_waits_for_the_pass_and_for_a_lost_device() {
    let tokenizer = tokenizer();
    for is_lost in [false, true] {
        let mut journal = Journal::default();
        let (mut session, _) = session(&tokenizer, false);
        session.step(told(40, 1, 40, 0), &mut journal);
        assert_eq!(session.step(Input::Budget, &mut journal), [Effect::Pause]);
        assert_eq!(session.stage(), &Stage::Pausing);
        if is_lost {
            session.step(lost(), &mut journal);
            assert!(begun(&session.step(restored(), &mut journal)).is_none());
        } else {
            assert!(session.step(over(), &mut journal).is_empty());
        }
        assert_eq!(session.stage(), &Stage::Budgeting);
        let effects = session.step(Input::Budgeted(true), &mut journal);
        assert_eq!(begun(&effects).unwrap().prompt.len(), 41);
        assert_eq!(session.stage(), &Stage::Running);
        session.step(over(), &mut journal);
        assert_eq!(session.stage(), &Stage::Over(Ok(())), "it is not changed twice");
    }
}

#[test]
fn each_failure_ends_the_reply_in_its_way() {
    let tokenizer = tokenizer();
    let refused = DeviceError::Refused { phase: String::new(), reason: String::new() };
    let source = GenerateError::Source {
        file: String::new(),
        error: SourceError::Short { offset: 0, bytes: 1, len: 0 },
    };
    for (error, effects) in [(refused.into(), vec![Effect::Lose]), (source, vec![])] {
        let (mut session, _) = session(&tokenizer, false);
        let got = session.step(Input::RunOver(Err(error.clone())), &mut Journal::default());
        assert_eq!((got, session.stage()), (effects, &Stage::Over(Err(error))));
    }
    let (mut session, _) = session(&tokenizer, false);
    let found = vec![Quarantined { purpose: Purpose::Tree(8), evidence: String::new() }];
    let effects =
        session.step(Input::RunOver(Ok(RunOver { quarantined: found.clone() })), &mut Journal::default());
    assert_eq!((effects, session.quarantined()), (vec![Effect::Quarantine(found.clone())], &found[..]));
}

/// What may happen in a stage; what cannot is left out, as the shell does.
fn input_in(stage: &Stage, choice: u32, committed: &mut u32) -> Option<Input> {
    let running = |committed: &mut u32| {
        let batch = if *committed < 40 { 8 } else { 0 };
        *committed += if batch > 0 { 8 } else { 1 };
        let chooses = u32::from(*committed >= 40);
        told(batch, chooses, *committed, 0)
    };
    Some(match (stage, choice) {
        (Stage::Running, 5) => Input::Budget,
        (Stage::Running | Stage::Pausing, 6) => Input::Stop,
        (Stage::Running | Stage::Pausing | Stage::Ending, 0..=3) => running(committed),
        (Stage::Running | Stage::Pausing | Stage::Ending, 4) => lost(),
        (Stage::Pausing | Stage::Ending, 5) => over(),
        (Stage::Running | Stage::Pausing, _) => return None,
        (Stage::Ending, _) => over(),
        (Stage::Restoring, 0..=4) => restored(),
        (Stage::Restoring, 5) => Input::Restored(Err(GenerateError::NoModel)),
        (Stage::Budgeting, 0..=4) => Input::Budgeted(true),
        (Stage::Budgeting, 5) => Input::Budgeted(false),
        (Stage::Restoring | Stage::Budgeting, _) => Input::Stop,
        (Stage::Over(_), _) => return None,
    })
}

proptest! {
    /// Whatever happens in whatever order: a run is begun only where none goes on, ended and paused once at
    /// most, and never after a stop; the reply is resumed three times at most and ends with one last event.
    #[test]
    fn in_any_order_a_session_keeps_its_promises(choices in prop::collection::vec(0..8u32, 1..60)) {
        thread_local!(static TOKENIZER: Rc<Tokenizer> = tokenizer());
        let mut journal = Journal::default();
        let (mut session, first) = TOKENIZER.with(|tokenizer| session(tokenizer, false));
        let mut committed = 0;
        let (mut is_running, mut is_ended, mut is_stopped, mut resumes) = (first.is_some(), false, false, 0);
        for choice in choices {
            let Some(input) = input_in(session.stage(), choice, &mut committed) else { continue };
            is_stopped |= matches!(input, Input::Stop);
            is_running &= !matches!(input, Input::RunOver(_));
            for effect in session.step(input, &mut journal) {
                match effect {
                    Effect::Begin(next) => {
                        prop_assert!(!is_running && !is_stopped);
                        prop_assert!(next.base < next.prompt.len());
                        (is_running, is_ended, committed) = (true, false, next.base as u32);
                    }
                    Effect::End => {
                        prop_assert!(is_running && !is_ended);
                        is_ended = true;
                    }
                    Effect::Pause => prop_assert!(is_running && !is_ended),
                    Effect::Notify(_) => resumes += 1,
                    Effect::Lose => prop_assert!(!is_running && journal.is_empty()),
                    Effect::Show(_) => prop_assert!(!is_stopped, "nothing is shown after a stop"),
                    Effect::Quarantine(_) => {}
                }
            }
            let runs = matches!(session.stage(), Stage::Running | Stage::Pausing | Stage::Ending);
            prop_assert_eq!(is_running, runs);
        }
        prop_assert!(resumes <= RESUMES_MAX);
        let last = session.finish(&mut journal);
        prop_assert!(matches!(last, GenerationEvent::Finished(_) | GenerationEvent::Failed(_)));
    }
}
