//! A thread of its own.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use futures::channel::oneshot;

use super::Answer;
use crate::machine::Machine;

/// Something to be done by a machine.
type Job = Box<dyn FnOnce(&mut Machine) + Send>;

/// Jobs that may wait: two windows, an upload, and what a request begins with. Uploads wait for room.
const JOBS_MAX: usize = 8;

/// The way to a machine; it ends when this is dropped, after the job under way.
#[derive(Debug)]
pub(crate) struct Driver {
    jobs: SyncSender<Job>,
}

impl Driver {
    /// Starts a thread that makes the machine and computes on it.
    ///
    /// # Errors
    /// When the system starts no thread.
    pub(crate) fn start(
        make: impl FnOnce() -> std::io::Result<Machine> + Send + 'static,
    ) -> std::io::Result<(Self, Answer<std::io::Result<()>>)> {
        let (jobs, inbox) = sync_channel::<Job>(JOBS_MAX);
        let (made, answer) = oneshot::channel();
        thread::Builder::new().name("fanlight-compute".into()).spawn(move || {
            let machine = make();
            let (machine, result) = match machine {
                Ok(machine) => (Some(machine), Ok(())),
                Err(error) => (None, Err(error)),
            };
            let listens = made.send(result).is_ok();
            let Some(mut machine) = machine.filter(|_| listens) else { return };
            for job in inbox {
                job(&mut machine);
            }
        })?;
        Ok((Self { jobs }, answer))
    }

    /// Has a job done after those before it.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Machine) -> T + Send + 'static,
    ) -> Answer<T> {
        let (done, answer) = oneshot::channel();
        let job: Job = Box::new(move |machine| {
            // Whoever asked may have gone: the machine's state follows the order of the jobs all the same.
            drop(done.send(job(machine)));
        });
        // When the thread has ended the answer's sender goes with the job, and the asker hears of it.
        drop(self.jobs.send(job));
        answer
    }
}
