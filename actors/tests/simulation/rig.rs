//! An engine on the device of paper with a tiny model file in memory.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::OnceLock;

use fanlight_actors::engine::{EngineHandle, Generation, start_engine};
use fanlight_actors::kit::{Clock, Exit, Latch, StreamReceiver, World};
use fanlight_actors::source::{ByteSource, NamedSource};
use fanlight_messages::TensorType;
use fanlight_messages::error::{GenerateError, LoadError, SourceError};
use fanlight_messages::protocol::engine::*;
use fanlight_messages::reply::ReplyPart;
use fanlight_tests::gguf::GgufFile;
use fanlight_tests::synth::{Architecture, tiny};

use crate::device::{PaperBackend, yield_now};

/// Positions of the context in these tests.
pub const CONTEXT_LEN: u32 = 256;

/// Bytes in memory; reading yields, and fails where told.
#[derive(Clone)]
pub struct MemorySource {
    pub bytes: Rc<[u8]>,
    pub fails_from: u64,
}

impl ByteSource for MemorySource {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
    async fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SourceError> {
        yield_now().await;
        let end = offset as usize + buffer.len();
        if end as u64 > self.fails_from {
            let (bytes, reason) = (buffer.len() as u64, "by the test".into());
            return Err(SourceError::Failed { offset, bytes, reason });
        }
        buffer.copy_from_slice(&self.bytes[offset as usize..end]);
        Ok(())
    }
}

/// The model file of these tests.
pub fn model_file() -> &'static GgufFile {
    static FILE: OnceLock<GgufFile> = OnceLock::new();
    FILE.get_or_init(|| tiny(Architecture::Llama, TensorType::Q4_0, 7).build().unwrap())
}

/// A file as sources.
pub fn sources(bytes: Vec<u8>, fails_from: u64) -> Vec<NamedSource> {
    vec![NamedSource::new("tiny.gguf", MemorySource { bytes: bytes.into(), fails_from })]
}

/// What a test holds.
pub struct Rig {
    pub handle: EngineHandle,
    pub device: PaperBackend,
    pub end_id: u32,
}

pub fn load_request() -> Load {
    Load { context_len: Some(CONTEXT_LEN), batch_tokens: 64, ..Load::default() }
}

pub fn request(ids: &[u32], token_limit: u32) -> Generate {
    Generate { hash_logits: true, ..Generate::new(Prompt::Ids(ids.into()), token_limit) }
}

/// How a reply ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    pub ids: Vec<u32>,
    pub text: String,
    pub result: Result<ReplyFinished, GenerateError>,
}

impl Ended {
    pub fn reason(&self) -> FinishReason {
        self.result.as_ref().expect("the reply finished").reason
    }
}

/// Reads a reply to its end.
pub async fn collect(generation: &mut Generation) -> Ended {
    let (mut ids, mut text) = (Vec::new(), String::new());
    loop {
        match generation.events.next().await.expect("a last event always comes") {
            GenerationEvent::Prefilled { .. }
            | GenerationEvent::Advanced { .. }
            | GenerationEvent::Resumed { .. } => {}
            GenerationEvent::Tokens { ids: new, parts } => {
                ids.extend(new);
                text.push_str(&ReplyPart::content_of(&parts));
            }
            GenerationEvent::Finished(finished) => {
                assert!(generation.events.next().await.is_none(), "nothing follows the last event");
                text.push_str(&ReplyPart::content_of(&finished.parts));
                return Ended { ids, text, result: Ok(finished) };
            }
            GenerationEvent::Failed(error) => return Ended { ids, text, result: Err(error) },
        }
    }
}

impl Rig {
    /// An engine without a model.
    pub fn start(world: &World, seed: u64) -> Self {
        let clock_us = Rc::new(Cell::new(0));
        let device = PaperBackend::new(seed, clock_us.clone());
        let handle = start_engine(world, device.clone(), Clock::simulated(clock_us));
        let vocabulary = tiny(Architecture::Llama, TensorType::Q4_0, 7).vocabulary();
        let end_id = vocabulary.id("<|endoftext|>").unwrap();
        Self { handle, device, end_id }
    }

    pub async fn load(&self) -> Result<ModelLoaded, LoadError> {
        let sources = sources(model_file().to_bytes(), u64::MAX);
        self.handle.load(load_request(), sources, Latch::new(LoadProgress::default())).await
    }

    /// A whole reply.
    pub async fn reply(&self, request: Generate) -> Ended {
        let mut generation = self.handle.generate(request).await.expect("the reply starts");
        collect(&mut generation).await
    }

    /// What a reply must be.
    pub fn reference(&self, ids: &[u32], token_limit: u32) -> (Vec<u32>, bool) {
        let end_per_mille = self.device.state.borrow().end_per_mille;
        let (context_len, token_limit) = (CONTEXT_LEN as usize, token_limit as usize);
        crate::device::reference(ids, context_len, token_limit, end_per_mille, self.end_id)
    }

    /// Asserts that a reply is what it must be.
    pub async fn check_reply(&self, request: Generate) -> Ended {
        let Prompt::Ids(ids) = &request.prompt else { panic!("a prompt of ids") };
        let (wanted, is_stop) = self.reference(ids, request.token_limit);
        let ended = self.reply(request.clone()).await;
        assert_eq!(ended.ids, wanted, "{request:?}");
        let reason = if is_stop { FinishReason::Stop } else { FinishReason::Length };
        assert_eq!(ended.reason(), reason);
        ended
    }
}

/// Runs a test on an engine with a loaded model; the engine must end by itself afterwards.
pub fn with_engine<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(Rig, World) -> F) {
    let models = World::run(|world, mut exits: StreamReceiver<Exit>| async move {
        let rig = Rig::start(&world, seed);
        rig.load().await.expect("the model loads");
        let device = rig.device.clone();
        test(rig, world).await;
        let mut ends = Vec::new();
        while ends.len() < 5 {
            let exit = exits.next().await.expect("five actors end");
            exit.result.expect("an actor ends without an error");
            ends.push(exit.name);
        }
        let state = device.state.borrow();
        (state.models, state.in_flight, state.slots_lent)
    });
    assert_eq!(models, (0, 0, 0), "a model, a submission or a readback outlived the engine");
}
