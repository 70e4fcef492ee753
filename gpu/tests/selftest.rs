//! The proof that comes first: every pair of pipelines agrees in every bit on this machine's adapter.

use fanlight_gpu::selftest::{Scope, SelfTestPlan, run};
use fanlight_gpu::{AdapterPreference, Device};
use futures::executor::block_on;

#[test]
fn every_pipeline_pair_is_bit_equal() {
    let device =
        block_on(Device::open(AdapterPreference::HighPerformance)).expect("a GPU adapter is required");
    let verdicts = block_on(run(&device, &SelfTestPlan::everything(Scope::Whole), |_, _| ()))
        .expect("the self-test runs");
    assert!(verdicts.len() > 250, "only {} pairs were compared", verdicts.len());
    let failed: Vec<_> = verdicts.iter().filter(|v| v.difference.is_some()).collect();
    assert!(failed.is_empty(), "{} of {} pairs differ: {failed:#?}", failed.len(), verdicts.len());
}
