//! Waiting in a worker.

use js_sys::Promise;
use wasm_bindgen::JsCast;
use wasm_bindgen_futures::JsFuture;
use web_sys::WorkerGlobalScope;

/// The worker that this runs in.
pub(super) fn scope() -> WorkerGlobalScope {
    js_sys::global().unchecked_into()
}

/// A timer that is cleared when its waiter leaves, so that unused ones do not pile up.
struct Timer(Option<i32>);

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            scope().clear_timeout_with_handle(id);
        }
    }
}

/// Resolves after `delay_ms` milliseconds.
pub(super) async fn sleep(delay_ms: u32) {
    let mut timer = Timer(None);
    let elapsed = Promise::new(&mut |resolve, _| {
        let delay = i32::try_from(delay_ms).unwrap_or(i32::MAX);
        let set = scope().set_timeout_with_callback_and_timeout_and_arguments_0(&resolve, delay);
        timer.0 = set.ok();
    });
    // A timer that could not be set has passed: waiting is never needed for an answer to be right.
    if timer.0.is_some() {
        let _ = JsFuture::from(elapsed).await;
    }
}
