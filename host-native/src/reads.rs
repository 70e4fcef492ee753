//! Reads that wait for a thread, in order. Those whose asker has left are skipped, and take no place from
//! others.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use futures::channel::oneshot;

/// A read on its way to a thread.
pub struct ReadJob {
    pub offset: u64,
    pub buffer: Vec<u8>,
    pub done: oneshot::Sender<std::io::Result<Vec<u8>>>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<ReadJob>,
    is_closed: bool,
}

/// The queue of a file.
pub struct ReadQueue {
    state: Mutex<State>,
    arrived: Condvar,
    capacity: usize,
}

impl ReadQueue {
    pub fn new(capacity: usize) -> Self {
        Self { state: Mutex::default(), arrived: Condvar::new(), capacity }
    }

    /// A panic of another thread leaves whole jobs behind.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a read; false when so many are waited for that it finds no place.
    pub fn push(&self, job: ReadJob) -> bool {
        let mut state = self.lock();
        state.jobs.retain(|job| !job.done.is_canceled());
        let has_place = state.jobs.len() < self.capacity;
        if has_place {
            state.jobs.push_back(job);
            self.arrived.notify_one();
        }
        has_place
    }

    /// The next read that somebody waits for, as soon as there is one; `None` once the queue is closed.
    pub fn next(&self) -> Option<ReadJob> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            match state.jobs.pop_front() {
                Some(job) if job.done.is_canceled() => {}
                Some(job) => return Some(job),
                None => state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Ends the threads that wait.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e26_abandoned_reads_take_no_place_and_are_not_served() {
        let queue = ReadQueue::new(2);
        let push = |offset| {
            let (done, read) = oneshot::channel();
            (queue.push(ReadJob { offset, buffer: Vec::new(), done }), read)
        };
        let (_, first) = push(1);
        let (_, second) = push(2);
        assert!(!push(3).0, "both places are taken");
        drop(first);
        let (has_place, third) = push(4);
        assert!(has_place);
        drop(second);
        assert_eq!(queue.next().map(|job| job.offset), Some(4));
        drop(third);
        queue.close();
        assert!(queue.next().is_none());
    }
}
