//! The thread that a machine computes on, so that the engine hears of a cancel while a step runs. In a page
//! there is none: what is asked is done where it is asked, between two turns of the event loop.

#[cfg(target_arch = "wasm32")]
mod inline;
#[cfg(not(target_arch = "wasm32"))]
mod thread;

#[cfg(target_arch = "wasm32")]
pub(crate) use inline::Driver;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use thread::Driver;

use futures::channel::oneshot;

/// The answer to a job; the machine ended without one when it resolves to an error.
pub(crate) type Answer<T> = oneshot::Receiver<T>;

/// Threads that help by default: the cores, but no more than share a step's pieces well.
#[cfg(not(target_arch = "wasm32"))]
pub fn threads_default() -> usize {
    /// Beyond it memory is the limit on every machine that was measured.
    const THREADS_MAX: usize = 16;
    std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)
}

/// A module without shared memory has one thread.
#[cfg(target_arch = "wasm32")]
pub fn threads_default() -> usize {
    1
}
