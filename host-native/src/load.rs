//! A load under a progress bar, and a pass that takes long.

use futures::future::{Either, select};
use futures::pin_mut;
use indicatif::{ProgressBar, ProgressStyle};

use fanlight_actors::kit::Latch;
use fanlight_messages::protocol::engine::{LoadPhase, LoadProgress};

use crate::stop::Interrupts;

/// Awaits a load under a progress bar; `None` when it was interrupted.
pub async fn with_progress<T>(
    loading: impl Future<Output = T>,
    progress: &Latch<LoadProgress>,
    interrupts: &mut Interrupts,
    is_quiet: bool,
) -> Option<T> {
    let bar = if is_quiet { ProgressBar::hidden() } else { ProgressBar::new(0) };
    pin_mut!(loading);
    let mut version = 0;
    let loaded = loop {
        let changed = progress.changed(version);
        let interrupted = interrupts.next();
        pin_mut!(changed, interrupted);
        match select(loading.as_mut(), select(changed, interrupted)).await {
            Either::Left((loaded, _)) => break Some(loaded),
            Either::Right((Either::Left((now, _)), _)) => {
                version = progress.version();
                show(&bar, now);
            }
            // Dropping the future abandons the load.
            Either::Right((Either::Right(_), _)) => break None,
        }
    };
    bar.finish_and_clear();
    loaded
}

fn show(bar: &ProgressBar, progress: LoadProgress) {
    let template = match progress.phase {
        LoadPhase::Header => "reading the header",
        LoadPhase::Weights => "{bar:32} {bytes}/{total_bytes} {bytes_per_sec}",
        LoadPhase::Pipelines => "{bar:32} {pos}/{len} pipelines",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_length(progress.total);
    bar.set_position(progress.done);
}

/// How far a prompt or a pass whose weights stream is: life while the first token takes seconds.
#[derive(Default)]
pub struct PassBar(Option<ProgressBar>);

impl PassBar {
    /// Shows it.
    pub fn show(&mut self, unit: &'static str, done: u32, total: u32) {
        let bar = self.0.get_or_insert_with(|| {
            let bar = ProgressBar::new(u64::from(total));
            if let Ok(style) = ProgressStyle::with_template("{msg} {pos} of {len}") {
                bar.set_style(style);
            }
            bar
        });
        bar.set_message(unit);
        bar.set_length(u64::from(total));
        bar.set_position(u64::from(done));
    }

    /// Makes room for text.
    pub fn clear(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}
