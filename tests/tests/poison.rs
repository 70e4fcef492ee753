//! A file whose weights hold something that is no number: the reply ends with an error, not with garbage, and
//! the next model works.

mod engine;

use std::rc::Rc;

use fanlight_actors::kit::World;
use fanlight_messages::TensorType;
use fanlight_messages::draft::{Width, WidthPolicy};
use fanlight_messages::error::GenerateError;
use fanlight_messages::protocol::engine::{Generate, GenerationEvent, Load, Prompt};
use fanlight_tests::rig::{in_memory, open};
use fanlight_tests::synth::{Architecture, tiny};

use engine::{load, reply};

/// NaN as f16.
const NAN: [u8; 2] = 0x7e00u16.to_le_bytes();

/// The file with the scale of the first block of a tensor's row replaced.
fn spoiled(bytes: &[u8], tensor: &str, row: u64) -> Rc<[u8]> {
    let file = open(in_memory(bytes)).unwrap().file;
    let info = &file.tensor(tensor).unwrap().info;
    let row_bytes = info.tensor_type.row_bytes(info.dims[0]).unwrap();
    let at = (info.offset + row * row_bytes) as usize;
    let mut bytes = bytes.to_vec();
    bytes[at..][..2].copy_from_slice(&NAN);
    bytes.into()
}

#[test]
fn weights_that_are_no_numbers_end_the_reply_with_an_error() {
    World::run(|world, _| async move {
        let good: Rc<[u8]> =
            tiny(Architecture::Llama, TensorType::Q8_0, 5).build().unwrap().to_bytes().into();
        let handle = engine::engine(&world).await;
        let request = |width| Generate {
            width: WidthPolicy::Fixed(width),
            ..Generate::new(Prompt::Ids((1..20).collect()), 6)
        };
        // In the head only logits show it, in a layer the activations do.
        for (tensor, row) in [("output.weight", 200), ("blk.0.ffn_down.weight", 3)] {
            load(&handle, &spoiled(&good, tensor, row), Load::default()).await;
            for width in [Width::Off, Width::Nodes(8)] {
                let mut generation = handle.generate(request(width)).await.expect("the reply starts");
                let mut last = None;
                while let Some(event) = generation.events.next().await {
                    last = Some(event);
                }
                let poisoned = GenerationEvent::Failed(GenerateError::Poisoned { tokens: 0 });
                assert_eq!(last, Some(poisoned), "{tensor}, {width:?}");
            }
        }
        load(&handle, &good, Load::default()).await;
        assert_eq!(reply(&handle, request(Width::Off)).await.0.len(), 6);
    });
}
