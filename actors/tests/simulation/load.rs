//! Loading: every row arrives once, a few reads are under way, and a load that fails leaves nothing.

use std::cell::RefCell;
use std::rc::Rc;

use fanlight_actors::kit::Latch;
use fanlight_actors::source::{ByteSource, NamedSource};
use fanlight_messages::error::{DeviceError, LoadError, SourceError};
use fanlight_messages::limits::READS_IN_FLIGHT;
use fanlight_messages::plan::Budget;
use fanlight_messages::protocol::engine::{Load, LoadPhase, LoadProgress};
use fanlight_tests::gguf::Value;

use crate::device::PaperBackend;
use crate::rig::{MemorySource, load_request, model_file, request, sources, with_engine};

/// Where tensors begin in [`parted_file`]: the widest alignment, and no tensor is half as long.
const WIDE: u64 = 64 << 10;

/// The model file with its tensors so far apart that each is read by itself.
fn parted_file() -> Vec<u8> {
    let mut file = model_file().clone();
    file.set("general.alignment", Value::U32(WIDE as u32));
    file.to_bytes()
}

/// Where a read began, its bytes, and the uploads that the device had by then.
type Read = (u64, usize, usize);

/// A source that writes down what is read of it while a load is under way.
struct WatchedSource {
    source: MemorySource,
    device: PaperBackend,
    reads: Rc<RefCell<Vec<Read>>>,
}

impl ByteSource for WatchedSource {
    fn len(&self) -> u64 {
        self.source.len()
    }
    async fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SourceError> {
        let uploads = self.device.uploads();
        self.reads.borrow_mut().push((offset, buffer.len(), uploads));
        self.source.read_at(offset, buffer).await
    }
}

/// The reads of weights in a load of this file.
async fn watched_load(rig: &crate::rig::Rig, bytes: Vec<u8>) -> Vec<Read> {
    let reads = Rc::default();
    rig.handle.unload().await.unwrap();
    rig.device.forget_uploads();
    let source = MemorySource { bytes: bytes.into(), fails_from: u64::MAX };
    let watched = WatchedSource { source, device: rig.device.clone(), reads: Rc::clone(&reads) };
    let files = vec![NamedSource::new("tiny.gguf", watched)];
    rig.handle.load(load_request(), files, Latch::new(LoadProgress::default())).await.unwrap();
    // The header is read from the start of the file.
    reads.take().into_iter().filter(|(offset, ..)| *offset > 0).collect()
}

#[test]
fn neighbours_are_read_at_once() {
    with_engine(4, |rig, _| async move {
        let bytes = model_file().to_bytes();
        let len = bytes.len() as u64;
        let reads = watched_load(&rig, bytes).await;
        let [(offset, bytes, _)] = reads[..] else { panic!("{} reads", reads.len()) };
        let padding = len - offset - bytes as u64;
        assert!(padding < 32, "all weights up to the padding of the last, {padding} bytes left");
    });
}

#[test]
fn a_few_reads_are_under_way_and_no_more() {
    for seed in 0..20 {
        with_engine(seed, |rig, _| async move {
            let reads = watched_load(&rig, parted_file()).await;
            assert_eq!(reads.len(), model_file().tensors.len(), "a read per tensor");
            assert_eq!(rig.device.uploads(), reads.len());
            let under_way = reads.iter().enumerate().map(|(begun, (.., uploads))| begun + 1 - uploads);
            let under_way: Vec<usize> = under_way.collect();
            // Those that are under way, and the one that is uploaded.
            let (first, rest) = under_way.split_at(READS_IN_FLIGHT);
            assert!(first.iter().copied().eq(1..=READS_IN_FLIGHT), "{under_way:?}");
            assert!(rest.iter().all(|reads| *reads == READS_IN_FLIGHT + 1), "{under_way:?}");
            rig.check_reply(request(&[1, 2], 20)).await;
        });
    }
}

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
        let parted = parted_file();
        let of_parted = (0..parted.len() as u64).step_by(WIDE as usize).map(|from| (&parted, from));
        let of_whole = [0, 10, whole / 2, whole - 1].map(|from| (&bytes, from));
        for (bytes, fails_from) in of_whole.into_iter().chain(of_parted) {
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
        rig.device.state.borrow_mut().memory_bytes = 1000;
        let full = DeviceError::OutOfMemory { phase: "creating buffers".into() };
        assert_eq!(rig.load().await.err(), Some(LoadError::Device(full)));
        rig.device.state.borrow_mut().memory_bytes = u64::MAX;
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
        let budget = Some(Budget { bytes: 1000, page_bytes: 1 << 24 });
        let error = try_load(Load { budget, ..load_request() }).await;
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
