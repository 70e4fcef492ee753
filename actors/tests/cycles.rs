//! Models that are loaded, used and let go of, over and over, in a process of their own: what the process
//! holds does not grow.

use fanlight_actors::kit::Latch;
use fanlight_messages::plan::Budget;
use fanlight_messages::protocol::engine::{Load, LoadProgress};

#[allow(dead_code, reason = "the simulation uses all of it")]
#[path = "simulation/device.rs"]
mod device;
#[allow(dead_code, reason = "the simulation uses all of it")]
#[path = "simulation/rig.rs"]
mod rig;
#[allow(dead_code, reason = "the simulation uses all of it")]
#[path = "simulation/ring.rs"]
mod ring;
#[allow(dead_code, reason = "the simulation uses all of it")]
#[path = "simulation/state.rs"]
mod state;

use rig::{load_request, model_file, request, sources, with_engine};

/// A little more than the model's least budget.
const BUDGET_BYTES: u64 = 10_700_000;

/// Bytes of the process that are in memory. Linux tells.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of resident memory");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kibibytes");
    kib << 10
}

#[test]
fn memory_does_not_grow_from_the_fiftieth_cycle_to_the_two_hundredth() {
    with_engine(1, async |rig, _| {
        rig.handle.unload().await.unwrap();
        let mut after_50 = 0;
        for cycle in 1..=200 {
            // Resident and streamed in turn.
            let budget = (cycle % 2 == 0).then_some(Budget { bytes: BUDGET_BYTES, page_bytes: 4 << 20 });
            let load = Load { budget, ..load_request() };
            let files = sources(model_file().to_bytes(), u64::MAX);
            let progress = Latch::new(LoadProgress::default());
            let loaded = rig.handle.load(load, files, progress).await.unwrap();
            assert_eq!(loaded.plan.stream.is_some(), budget.is_some());
            rig.check_reply(request(&[1, 2, 3], 4)).await;
            rig.handle.unload().await.unwrap();
            assert_eq!(rig.device.state.borrow().held_bytes, 0);
            if cycle == 50 {
                after_50 = resident_bytes();
            }
        }
        let grown = resident_bytes().saturating_sub(after_50);
        assert!(grown <= 2 << 20, "{grown} bytes more than after 50 cycles");
        // Memory that is held shows.
        let held = vec![1u8; 8 << 20];
        assert!(resident_bytes() >= after_50 + (6 << 20), "{} bytes held", held.len());
        rig.load().await.unwrap();
    });
}
