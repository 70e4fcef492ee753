//! A panic is told to the worker's script before it traps: afterwards nothing of the engine runs any more.

use std::cell::RefCell;
use std::panic::PanicHookInfo;

use js_sys::Function;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

thread_local! {
    /// Who hears of a panic. A hook must be `Send`, which a function of the script is not.
    static LISTENER: RefCell<Option<Function>> = const { RefCell::new(None) };
}

fn report(info: &PanicHookInfo<'_>) {
    // Taken out, so that a panic while telling of one cannot come back here.
    let listener =
        LISTENER.with(|place| place.try_borrow_mut().ok().and_then(|mut listener| listener.take()));
    if let Some(listener) = listener {
        // A listener that throws cannot be told of its own failure.
        let _ = listener.call1(&JsValue::NULL, &info.to_string().into());
    }
}

/// Prepares a fresh worker: `on_panic` is called with the text of the first panic, and warnings go to the
/// console.
#[wasm_bindgen(js_name = prepareWorker)]
pub fn prepare_worker(#[wasm_bindgen(unchecked_param_type = "(text: string) => void")] on_panic: Function) {
    LISTENER.with(|place| place.replace(Some(on_panic)));
    std::panic::set_hook(Box::new(report));
    let config = tracing_wasm::WASMLayerConfigBuilder::new()
        .set_max_level(tracing::Level::WARN)
        .set_report_logs_in_timings(false)
        .build();
    tracing_wasm::set_as_global_default_with_config(config);
}
