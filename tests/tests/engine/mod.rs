//! The whole engine on the GPU with a model file in memory.

use std::rc::Rc;

use fanlight_actors::engine::{EngineHandle, start_engine};
use fanlight_actors::kit::{Clock, Latch, World};
use fanlight_actors::source::{MemorySource, NamedSource};
use fanlight_gpu::{AdapterPreference, GpuBackend};
use fanlight_messages::protocol::engine::*;

/// An engine on the GPU that must be there.
pub async fn engine(world: &World) -> EngineHandle {
    let backend = GpuBackend::open(AdapterPreference::HighPerformance).await;
    start_engine(world, backend.expect("a GPU adapter is required"), Clock::real())
}

/// Loads a file.
pub async fn load(handle: &EngineHandle, bytes: &Rc<[u8]>, request: Load) -> ModelLoaded {
    let sources = vec![NamedSource::new("model.gguf", MemorySource::new(bytes.clone()))];
    handle.load(request, sources, Latch::new(LoadProgress::default())).await.expect("the model loads")
}

/// Ids of a reply, and how it ended.
pub async fn reply(handle: &EngineHandle, request: Generate) -> (Vec<u32>, ReplyFinished) {
    let mut generation = handle.generate(request).await.expect("the reply starts");
    let mut ids = Vec::new();
    while let Some(event) = generation.events.next().await {
        match event {
            GenerationEvent::Tokens { ids: new, .. } => ids.extend(new),
            GenerationEvent::Finished(finished) => return (ids, finished),
            GenerationEvent::Failed(error) => panic!("{error}"),
            GenerationEvent::Prefilled { .. }
            | GenerationEvent::Advanced { .. }
            | GenerationEvent::Resumed { .. } => {}
        }
    }
    panic!("a reply ends with its last event");
}
