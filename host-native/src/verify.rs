//! `fanlight verify`: whether this adapter computes the same bits in every pipeline that may compute a token.

use std::process::ExitCode;

use anyhow::{Context, Result};
use futures::executor::block_on;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use fanlight_actors::pager::open_model as read_model;
use fanlight_gpu::selftest::{Scope, Verdict};
use fanlight_gpu::{AdapterPreference, GpuBackend};
use fanlight_messages::backend::Backend;

use crate::files::{Reads, open_model};
use crate::options::VerifyOptions;
use crate::report::{adapter_json, adapter_text, print_json, print_text};

/// Runs the command; fails when anything differs.
pub fn verify(options: &VerifyOptions) -> Result<ExitCode> {
    block_on(async {
        let sources = options.model.as_deref().map(|path| open_model(path, Reads::Cached)).transpose()?;
        let backend = GpuBackend::open(AdapterPreference::HighPerformance).await?;
        let facts = backend.facts();
        if options.json {
            print_json(&json!({ "adapter": adapter_json(&facts) }));
        } else {
            print_text(&format!("{}\n", adapter_text(&facts)));
        }
        let bar = if options.json { ProgressBar::hidden() } else { ProgressBar::new(0) };
        if let Ok(style) = ProgressStyle::with_template("{bar:32} {pos}/{len} shapes, {elapsed}") {
            bar.set_style(style);
        }
        let progress = |done: usize, total: usize| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        };
        let verdicts = match sources {
            Some(sources) => {
                let opened = read_model(sources).await.with_context(|| model_name(options))?;
                backend.verify_program(&opened.program, options.kv.into(), progress).await?
            }
            None => backend.verify(Scope::Whole, progress).await?,
        };
        bar.finish_and_clear();
        let groups = grouped(&verdicts);
        if options.json {
            print_groups_json(&groups)
        } else {
            print_groups(&groups)
        }
        let differ = groups.iter().any(|group| group.differences().next().is_some());
        Ok(if differ { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    })
}

fn model_name(options: &VerifyOptions) -> String {
    options.model.as_deref().map(|model| model.display().to_string()).unwrap_or_default()
}

/// Verdicts on one shape.
#[derive(Debug)]
struct Group<'a> {
    name: &'a str,
    verdicts: Vec<&'a Verdict>,
}

impl<'a> Group<'a> {
    fn differences(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.verdicts.iter().filter_map(|v| Some((v.name.as_str(), v.difference.as_deref()?)))
    }
}

/// A verdict's name begins with its shape: what stands before " at " a cache length or before a comma.
fn shape_name(verdict: &Verdict) -> &str {
    let name = verdict.name.split(',').next().unwrap_or_default();
    name.split(" at ").next().unwrap_or_default()
}

/// Groups verdicts by shape, in the order in which they came.
fn grouped(verdicts: &[Verdict]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group> = Vec::new();
    for verdict in verdicts {
        let name = shape_name(verdict);
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.verdicts.push(verdict),
            None => groups.push(Group { name, verdicts: vec![verdict] }),
        }
    }
    groups
}

fn totals(groups: &[Group]) -> (usize, usize) {
    let compared = groups.iter().map(|group| group.verdicts.len()).sum();
    (compared, groups.iter().map(|group| group.differences().count()).sum())
}

fn print_groups(groups: &[Group]) {
    for group in groups {
        let (compared, differ) = (group.verdicts.len(), group.differences().count());
        let verdict = if differ == 0 { "all equal".into() } else { format!("{differ} DIFFER") };
        print_text(&format!("{:<24} {compared:>4} compared, {verdict}\n", group.name));
        for (name, difference) in group.differences() {
            print_text(&format!("    {name}: {difference}\n"));
        }
    }
    let (compared, differ) = totals(groups);
    print_text(&match differ {
        0 => format!("{compared} comparisons, all equal in every bit\n"),
        _ => format!("{differ} of {compared} comparisons differ: this adapter must not run models\n"),
    });
}

fn print_groups_json(groups: &[Group]) {
    for group in groups {
        let differences = group.differences();
        let differences: Vec<_> =
            differences.map(|(name, text)| json!({ "name": name, "difference": text })).collect();
        print_json(&json!({
            "shape": group.name,
            "compared": group.verdicts.len(),
            "differ": differences.len(),
            "differences": differences,
        }));
    }
    let (compared, differ) = totals(groups);
    print_json(&json!({ "compared": compared, "differ": differ }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_grouped_by_shape_and_differences_counted() {
        let verdict = |name: &str, difference: Option<&str>| Verdict {
            name: name.into(),
            difference: difference.map(str::to_owned),
        };
        let verdicts = [
            verdict("Q4_0 288 columns, lane ×2 = lane ×1", None),
            verdict("Q4_0 288 columns, gemm = lane ×1", Some("3 of 9 differ")),
            verdict("head 64×3 F16 at 5 window None, Tree = plain", None),
            verdict("head 64×3 F16 at 9 window Some(4), Tree = plain", None),
        ];
        let groups = grouped(&verdicts);
        let lines: Vec<_> =
            groups.iter().map(|g| (g.name, g.verdicts.len(), g.differences().count())).collect();
        assert_eq!(lines, [("Q4_0 288 columns", 2, 1), ("head 64×3 F16", 2, 0)]);
        assert_eq!(totals(&groups), (4, 1));
        let found: Vec<_> = groups[0].differences().collect();
        assert_eq!(found, [("Q4_0 288 columns, gemm = lane ×1", "3 of 9 differ")]);
    }
}
