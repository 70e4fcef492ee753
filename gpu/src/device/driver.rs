//! What makes completions of GPU work arrive: natively a thread that waits for one submission at a time, in
//! the page the event loop.

#[cfg(not(target_arch = "wasm32"))]
mod imp {
    use std::rc::Rc;
    use std::sync::mpsc;

    /// Wakes the futures of finished submissions. Dropping the last clone ends its thread and waits for it: a
    /// thread that still holds the device while the process tears down crashes some drivers.
    #[derive(Clone, Debug)]
    pub struct Driver(Rc<Waiter>);

    /// Submissions that may wait to be waited for: a dozen repacks of two uploads and three windows, with
    /// room. A sender that finds it full blocks until the GPU has finished one.
    const SUBMISSIONS_WAITED: usize = 64;

    #[derive(Debug)]
    struct Waiter {
        submissions: Option<mpsc::SyncSender<wgpu::SubmissionIndex>>,
        thread: Option<std::thread::JoinHandle<()>>,
    }

    impl Drop for Waiter {
        fn drop(&mut self) {
            self.submissions = None;
            if let Some(thread) = self.thread.take() {
                // It only waits for submissions already made; a panic there has been reported by the panic
                // hook.
                let _ = thread.join();
            }
        }
    }

    impl Driver {
        /// Starts the waiting thread.
        pub fn new(device: &wgpu::Device) -> std::io::Result<Self> {
            let (sender, submissions) = mpsc::sync_channel(SUBMISSIONS_WAITED);
            let device = device.clone();
            let thread = std::thread::Builder::new().name("gpu-wait".into()).spawn(move || {
                while let Ok(index) = submissions.recv() {
                    let wait = wgpu::PollType::Wait { submission_index: Some(index), timeout: None };
                    if let Err(error) = device.poll(wait) {
                        // The device is lost: its callbacks have fired and every waiter hears of it.
                        tracing::warn!(%error, "waiting for the GPU failed");
                    }
                }
            })?;
            Ok(Self(Rc::new(Waiter { submissions: Some(sender), thread: Some(thread) })))
        }
        /// Callbacks registered so far for work up to `index` will be called.
        pub fn kick(&self, index: wgpu::SubmissionIndex) {
            if let Some(submissions) = &self.0.submissions {
                // The thread outlives every driver; a send cannot fail before the drop above.
                let _ = submissions.send(index);
            }
        }
    }
}

#[cfg(target_arch = "wasm32")]
mod imp {
    /// The event loop calls back by itself.
    #[derive(Clone, Debug)]
    pub struct Driver;

    impl Driver {
        /// Nothing to start.
        pub fn new(_: &wgpu::Device) -> std::io::Result<Self> {
            Ok(Self)
        }
        /// Nothing to do.
        pub fn kick(&self, _: wgpu::SubmissionIndex) {}
    }
}

pub use imp::Driver;
