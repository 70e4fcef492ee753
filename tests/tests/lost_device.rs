//! A real device that goes away in the middle of a reply: the reply goes on with equal ids, text and hash.

use std::rc::Rc;

use fanlight_actors::engine::{EngineHandle, start_engine};
use fanlight_actors::kit::{Clock, Latch, World};
use fanlight_actors::source::{MemorySource, NamedSource};
use fanlight_gpu::{AdapterPreference, GpuBackend};
use fanlight_messages::TensorType;
use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::protocol::engine::*;
use fanlight_tests::synth::{Architecture, tiny};

/// What a reply was, and how often it was resumed.
#[derive(Debug, PartialEq)]
struct Heard {
    ids: Vec<u32>,
    text: String,
    hash: Option<u32>,
    resumes: u32,
}

/// Generates a reply and destroys the device after each of the given numbers of token events.
async fn reply(handle: &EngineHandle, device: &GpuBackend, width: Width, losses: &[u32]) -> Heard {
    let ids: Vec<u32> = (0..70).map(|i| (i * 29 + 3) % 250).collect();
    let request = Generate {
        width: WidthPolicy::Fixed(width),
        window_steps: Some(1),
        hash_logits: true,
        reuse_prefix: false,
        ..Generate::new(Prompt::Ids(ids.into()), 40)
    };
    let mut generation = handle.generate(request).await.unwrap();
    let mut heard = Heard { ids: Vec::new(), text: String::new(), hash: None, resumes: 0 };
    let mut events = 0;
    while let Some(event) = generation.events.next().await {
        match event {
            GenerationEvent::Prefilled { .. } | GenerationEvent::Advanced { .. } => {}
            GenerationEvent::Tokens { ids, text } => {
                heard.ids.extend(ids);
                heard.text += &text;
                events += 1;
                if losses.contains(&events) {
                    device.device().destroy();
                }
            }
            GenerationEvent::Resumed { same_adapter, .. } => {
                assert!(same_adapter);
                heard.resumes += 1;
            }
            GenerationEvent::Finished(finished) => {
                heard.text += &finished.text;
                heard.hash = finished.logits_hash;
            }
            GenerationEvent::Failed(error) => panic!("{error}"),
        }
    }
    heard
}

#[test]
fn a_reply_survives_the_loss_of_its_device() {
    World::run(|world, _| async move {
        let bytes: Rc<[u8]> =
            tiny(Architecture::Llama, TensorType::Q4_0, 7).build().unwrap().to_bytes().into();
        let backend =
            GpuBackend::open(AdapterPreference::HighPerformance).await.expect("a GPU adapter is required");
        let handle = start_engine(&world, backend.clone(), Clock::real());
        let load = Load { context_len: Some(256), batch_tokens: 64, ..Load::default() };
        let sources = vec![NamedSource::new("tiny.gguf", MemorySource::new(bytes))];
        handle.load(load, sources, Latch::new(LoadProgress::default())).await.unwrap();
        for width in [Width::Off, Width::Nodes(4)] {
            let whole = reply(&handle, &backend, width, &[]).await;
            assert_eq!((whole.ids.len(), whole.resumes), (40, 0));
            for losses in [&[1][..], &[4], &[2, 7]] {
                let resumed = reply(&handle, &backend, width, losses).await;
                assert_eq!(resumed.resumes as usize, losses.len(), "{width:?}, {losses:?}");
                assert_eq!(
                    resumed,
                    Heard { resumes: resumed.resumes, ..reply(&handle, &backend, width, &[]).await }
                );
                assert_eq!((&resumed.ids, resumed.hash), (&whole.ids, whole.hash));
            }
        }
    });
}
