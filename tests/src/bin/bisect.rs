//! Temporary.
use std::fs::File;
use fanlight_gpu::{AdapterPreference, Device};
use fanlight_messages::device::RequestSetup;
use fanlight_messages::draft::Width;
use fanlight_tests::rig::{Rig, RigOptions, Way};
use futures::executor::block_on;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let device = block_on(Device::open(AdapterPreference::HighPerformance))?;
    let options = RigOptions { context_len: 4096, ..RigOptions::default() };
    let mut rig = Rig::load(&device, &mut File::open(&args[1])?, options)?;
    let text = std::fs::read_to_string(&args[2])?;
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line)?;
        let ids = |k: &str| -> Vec<u32> { value[k].as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u32).collect() };
        let prompt = ids("prompt_ids");
        let setup = RequestSetup { context_len: 4096, token_limit: 128, hash_logits: true, ..RequestSetup::default() };
        let plain = rig.greedy(&prompt, Way::default(), &setup)?;
        println!("prompt {} plain {:08x} ids match {}", prompt.len(), plain.hash, plain.ids == ids("output_ids"));
        for round in 0..2 {
            for (width, steps, base) in [(0, 2, 0), (0, 2, prompt.len() as u32 - 1), (8, 2, 0), (16, 1, 0), (16, 1, prompt.len() as u32 - 1), (32, 1, 0), (16, 2, 0)] {
                let w = if width == 0 { Width::Off } else { Width::Nodes(width) };
                let run = rig.greedy(&prompt, Way { width: w, steps, base, ..Way::default() }, &setup)?;
                let at = plain.hashes.iter().zip(&run.hashes).position(|(a, b)| a != b);
                let id_at = plain.ids.iter().zip(&run.ids).position(|(a, b)| a != b);
                println!("round {round} width {width} steps {steps} base {base}: hash differs at {at:?}, ids at {id_at:?}");
                if let Some(at) = at {
                    let mut sum = 1;
                    for (n, step) in run.steps.iter().enumerate() {
                        let next = sum + step.emitted as usize;
                        if next > at { println!("   step {n} from token {sum} (root position {}): {step:?}; before {:?}", prompt.len() + sum - 1, &run.steps[n.saturating_sub(2)..n]); break; }
                        sum = next;
                    }
                }
            }
        }
    }
    Ok(())
}
