//! No thread: a job is done when it is asked for.

use std::cell::RefCell;

use futures::channel::oneshot;

use super::Answer;
use crate::machine::Machine;

/// The machine itself.
#[derive(Debug)]
pub(crate) struct Driver {
    machine: RefCell<Machine>,
}

impl Driver {
    /// Makes the machine.
    ///
    /// # Errors
    /// As making it.
    pub(crate) fn start(
        make: impl FnOnce() -> std::io::Result<Machine>,
    ) -> std::io::Result<(Self, Answer<std::io::Result<()>>)> {
        let (made, answer) = oneshot::channel();
        let driver = Self { machine: RefCell::new(make()?) };
        drop(made.send(Ok(())));
        Ok((driver, answer))
    }

    /// Does a job.
    pub(crate) fn ask<T>(&self, job: impl FnOnce(&mut Machine) -> T) -> Answer<T> {
        let (done, answer) = oneshot::channel();
        drop(done.send(job(&mut self.machine.borrow_mut())));
        answer
    }
}
