//! A latched state: the last value wins, nobody waits to set it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

struct State<T> {
    value: T,
    version: u64,
    waiting: Vec<Waker>,
}

/// A value that one actor sets and others read; clones share it.
pub struct Latch<T>(Rc<RefCell<State<T>>>);

impl<T> Clone for Latch<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone> Latch<T> {
    /// A latch that holds `value`.
    pub fn new(value: T) -> Self {
        Self(Rc::new(RefCell::new(State { value, version: 0, waiting: Vec::new() })))
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        let wakers = {
            let mut state = self.0.borrow_mut();
            state.value = value;
            state.version += 1;
            std::mem::take(&mut state.waiting)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The value.
    pub fn get(&self) -> T {
        self.0.borrow().value.clone()
    }

    /// How often it was set.
    pub fn version(&self) -> u64 {
        self.0.borrow().version
    }

    /// Resolves to the value once it was set more often than `version` times.
    pub async fn changed(&self, version: u64) -> T {
        poll_fn(|context| {
            let mut state = self.0.borrow_mut();
            if state.version > version {
                return Poll::Ready(state.value.clone());
            }
            if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                state.waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}
