//! Loading: every row arrives once, and a load that fails leaves nothing.

use fanlight_actors::kit::Latch;
use fanlight_messages::error::{DeviceError, LoadError};
use fanlight_messages::protocol::engine::{Load, LoadPhase, LoadProgress};

use crate::rig::{load_request, model_file, request, sources, with_engine};

#[test]
fn every_byte_of_every_tensor_arrives_once() {
    with_engine(0, |rig, _| async move {
        let file = model_file();
        let state = rig.device.state.borrow();
        let mut sent: Vec<&[u8]> = state.matrices.values().map(|bytes| &bytes[..]).collect();
        let floats: Vec<Vec<u8>> = state
            .vectors
            .values()
            .map(|values| values.iter().flat_map(|value| value.to_le_bytes()).collect())
            .collect();
        sent.extend(floats.iter().map(|bytes| &bytes[..]));
        let mut wanted: Vec<&[u8]> = Vec::new();
        let stacked = |name: &str| {
            ["attn_q.", "attn_k.", "attn_v.", "ffn_gate.", "ffn_up."].iter().any(|part| name.contains(part))
        };
        wanted.extend(file.tensors.iter().map(|(_, data)| &data[..]));
        sent.sort();
        wanted.sort();
        assert_eq!(sent, wanted);
        assert!(file.tensors.iter().any(|(plan, _)| stacked(&plan.name)), "stacked matrices are covered");
    });
}

#[test]
fn a_failed_load_leaves_nothing_and_the_next_one_works() {
    with_engine(1, |rig, _| async move {
        let bytes = model_file().to_bytes();
        let whole = bytes.len() as u64;
        for fails_from in [0, 10, whole / 2, whole - 1] {
            let latch = Latch::new(LoadProgress::default());
            let loaded = rig.handle.load(load_request(), sources(bytes.clone(), fails_from), latch).await;
            assert!(matches!(loaded, Err(LoadError::Source { .. })), "{loaded:?}");
            assert_eq!(rig.device.state.borrow().models, 0);
        }
        for len in [0, 3, 24, 1000, bytes.len() - 1] {
            let latch = Latch::new(LoadProgress::default());
            let loaded = rig.handle.load(load_request(), sources(bytes[..len].to_vec(), whole), latch).await;
            assert!(matches!(loaded, Err(LoadError::Header { .. })), "{len}: {loaded:?}");
        }
        rig.device.state.borrow_mut().is_full = true;
        let full = DeviceError::OutOfMemory { phase: "creating buffers".into() };
        assert_eq!(rig.load().await.err(), Some(LoadError::Device(full)));
        rig.device.state.borrow_mut().is_full = false;
        rig.load().await.unwrap();
        assert_eq!(rig.device.state.borrow().models_max, 1, "two models were never there at once");
        rig.check_reply(request(&[1, 2], 20)).await;
    });
}

#[test]
fn options_outside_their_range_are_refused_with_it() {
    with_engine(2, |rig, _| async move {
        let try_load = async |request: Load| {
            let files = sources(model_file().to_bytes(), u64::MAX);
            let loaded = rig.handle.load(request, files, Latch::new(LoadProgress::default())).await;
            loaded.expect_err("the option is refused")
        };
        for wanted in [0, 255, 4097, u32::MAX] {
            let error = try_load(Load { context_len: Some(wanted), ..load_request() }).await;
            let (min, max) = (256, 4096);
            assert_eq!(error, LoadError::Option { option: "context", wanted: wanted.into(), min, max });
        }
        for wanted in [0, 513] {
            let error = try_load(Load { batch_tokens: wanted, ..load_request() }).await;
            assert!(matches!(error, LoadError::Option { option: "prompt batch", .. }));
        }
        let error = try_load(Load { budget_bytes: Some(1000), ..load_request() }).await;
        assert!(matches!(error, LoadError::OverBudget { budget_bytes: 1000, .. }));
        assert_eq!(rig.device.state.borrow().models, 0, "nothing was created beyond the budget");
    });
}

#[test]
fn progress_is_latched() {
    with_engine(3, |rig, _| async move {
        let latch = Latch::new(LoadProgress::default());
        let files = sources(model_file().to_bytes(), u64::MAX);
        let loaded = rig.handle.load(load_request(), files, latch.clone()).await.unwrap();
        let pipelines = LoadProgress { phase: LoadPhase::Pipelines, done: 3, total: 3 };
        assert_eq!(latch.get(), pipelines);
        assert!(latch.version() > 10, "each piece was told");
        let data: usize = model_file().tensors.iter().map(|(_, data)| data.len()).sum();
        assert_eq!(loaded.read_bytes, data as u64);
        assert_eq!((loaded.context_len, loaded.name.as_str()), (256, "tiny llama"));
    });
}
