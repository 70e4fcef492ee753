//! What makes completions of GPU work arrive: natively a thread that waits for one submission at a time, in the page
//! the event loop.

#[cfg(not(target_arch = "wasm32"))]
mod imp {
    use std::sync::mpsc;

    /// Wakes the futures of finished submissions. Its thread ends when the last clone is dropped.
    #[derive(Clone, Debug)]
    pub struct Driver(mpsc::Sender<wgpu::SubmissionIndex>);

    impl Driver {
        /// Starts the waiting thread.
        pub fn new(device: &wgpu::Device) -> std::io::Result<Self> {
            let (sender, submissions) = mpsc::channel::<wgpu::SubmissionIndex>();
            let device = device.clone();
            std::thread::Builder::new().name("gpu-wait".into()).spawn(move || {
                while let Ok(index) = submissions.recv() {
                    let wait = wgpu::PollType::Wait { submission_index: Some(index), timeout: None };
                    if let Err(error) = device.poll(wait) {
                        // The device is lost: its callbacks have fired and every waiter hears of it.
                        tracing::warn!(%error, "waiting for the GPU failed");
                    }
                }
            })?;
            Ok(Self(sender))
        }
        /// Callbacks registered so far for work up to `index` will be called.
        pub fn kick(&self, index: wgpu::SubmissionIndex) {
            // The thread outlives every driver; a send fails only while the process is being torn down.
            let _ = self.0.send(index);
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
