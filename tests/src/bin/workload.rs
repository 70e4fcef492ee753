//! Prints the workload as a suite: one JSON object per line, as `fanlight bench --suite` reads it.

use std::io::Write;

use fanlight_tests::workload::Workload;
use serde_json::json;

fn main() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for prompt in Workload::load()? {
        let (class, split) = (prompt.class.name(), prompt.split.name());
        writeln!(
            out,
            "{}",
            json!({ "id": prompt.id, "class": class, "split": split, "message": prompt.message })
        )?;
    }
    Ok(())
}
