//! A bounded queue on one thread: a place is reserved before an item exists, so that whoever produces
//! expensive items can wait for room first. Both mailbox lanes and event streams are made of it.
//!
//! Dropping the receiver closes the queue and drops what is in it, so that a question behind the one that
//! ended an actor is answered with [`Gone`](super::Gone).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The reader of a stream dropped its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody reads the stream any more")]
pub struct Closed;

struct State<T> {
    items: VecDeque<T>,
    reserved: usize,
    capacity: usize,
    counts: Rc<Counts>,
    senders: usize,
    receiver_alive: bool,
    receiver: Option<Waker>,
    waiting: Vec<Waker>,
}

/// What telemetry reads of a queue, while it is used and after.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Items that wait to be read, and most of them at once.
    pub depth: Cell<usize>,
    pub depth_max: Cell<usize>,
    /// Senders that had to wait for room.
    pub waits: Cell<u64>,
}

impl<T> State<T> {
    fn push(&mut self, item: T) {
        self.items.push_back(item);
        self.counts.depth.set(self.items.len());
        self.counts.depth_max.set(self.counts.depth_max.get().max(self.items.len()));
    }
    fn pop(&mut self) -> Option<T> {
        let item = self.items.pop_front();
        self.counts.depth.set(self.items.len());
        item
    }
    fn wait(wakers: &mut Vec<Waker>, context: &Context<'_>) {
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
    }
    fn poll_reserve(&mut self, context: &Context<'_>) -> Poll<Result<(), Closed>> {
        if !self.receiver_alive {
            return Poll::Ready(Err(Closed));
        }
        if self.items.len() + self.reserved < self.capacity {
            self.reserved += 1;
            return Poll::Ready(Ok(()));
        }
        Self::wait(&mut self.waiting, context);
        Poll::Pending
    }
    fn poll_closed(&mut self, context: &Context<'_>) -> Poll<()> {
        if !self.receiver_alive {
            return Poll::Ready(());
        }
        Self::wait(&mut self.waiting, context);
        Poll::Pending
    }
    fn poll_next(&mut self, context: &Context<'_>) -> Poll<Option<T>> {
        if let Some(item) = self.pop() {
            return Poll::Ready(Some(item));
        }
        // A reserved place may still be filled after its sender is gone.
        if self.senders == 0 && self.reserved == 0 {
            return Poll::Ready(None);
        }
        self.receiver = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Wakes after the borrow ended: a waker may run code that comes back to the queue.
fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

fn wake_receiver<T>(state: &RefCell<State<T>>) {
    let waker = state.borrow_mut().receiver.take();
    wake_all(waker);
}

fn wake_senders<T>(state: &RefCell<State<T>>) {
    let wakers = std::mem::take(&mut state.borrow_mut().waiting);
    wake_all(wakers);
}

/// A queue of at most `capacity` items, reserved places included.
pub fn stream<T>(capacity: usize) -> (StreamSender<T>, StreamReceiver<T>) {
    let state = Rc::new(RefCell::new(State {
        items: VecDeque::new(),
        reserved: 0,
        capacity,
        counts: Rc::default(),
        senders: 1,
        receiver_alive: true,
        receiver: None,
        waiting: Vec::new(),
    }));
    (StreamSender(state.clone()), StreamReceiver(state))
}

/// The writing end.
pub struct StreamSender<T>(Rc<RefCell<State<T>>>);

impl<T> StreamSender<T> {
    /// Waits for room.
    ///
    /// # Errors
    /// [`Closed`] when the reader dropped its end.
    pub async fn reserve(&self) -> Result<Permit<T>, Closed> {
        let mut has_waited = false;
        poll_fn(|context| {
            let mut state = self.0.borrow_mut();
            let polled = state.poll_reserve(context);
            if polled.is_pending() && !std::mem::replace(&mut has_waited, true) {
                state.counts.waits.set(state.counts.waits.get() + 1);
            }
            polled
        })
        .await?;
        Ok(Permit(Some(self.0.clone())))
    }

    /// A place if there is one now; `None` when the queue is full or the reader is gone.
    pub fn try_reserve(&self) -> Option<Permit<T>> {
        let mut state = self.0.borrow_mut();
        if !state.receiver_alive || state.items.len() + state.reserved >= state.capacity {
            return None;
        }
        state.reserved += 1;
        Some(Permit(Some(self.0.clone())))
    }

    /// Waits for room and sends.
    ///
    /// # Errors
    /// [`Closed`] when the reader dropped its end.
    pub async fn send(&self, item: T) -> Result<(), Closed> {
        self.reserve().await?.send(item);
        Ok(())
    }

    /// What is counted of it.
    pub(super) fn counts(&self) -> Rc<Counts> {
        self.0.borrow().counts.clone()
    }

    /// Resolves when the reader drops its end.
    pub async fn closed(&self) {
        poll_fn(|context| self.0.borrow_mut().poll_closed(context)).await;
    }

    /// True once the reader dropped its end.
    pub fn is_closed(&self) -> bool {
        !self.0.borrow().receiver_alive
    }
}

impl<T> Clone for StreamSender<T> {
    fn clone(&self) -> Self {
        self.0.borrow_mut().senders += 1;
        Self(self.0.clone())
    }
}

impl<T> Drop for StreamSender<T> {
    fn drop(&mut self) {
        self.0.borrow_mut().senders -= 1;
        wake_receiver(&self.0);
    }
}

/// A reserved place. Dropping it gives the place back.
pub struct Permit<T>(Option<Rc<RefCell<State<T>>>>);

impl<T> Permit<T> {
    /// Fills the place; an item for a reader that is gone is dropped.
    pub fn send(mut self, item: T) {
        let Some(state) = self.0.take() else { return };
        let refused = {
            let mut state = state.borrow_mut();
            state.reserved -= 1;
            if state.receiver_alive {
                state.push(item);
                None
            } else {
                Some(item)
            }
        };
        drop(refused);
        wake_receiver(&state);
    }
}

impl<T> Drop for Permit<T> {
    fn drop(&mut self) {
        if let Some(state) = self.0.take() {
            state.borrow_mut().reserved -= 1;
            wake_senders(&state);
            wake_receiver(&state);
        }
    }
}

/// The reading end.
pub struct StreamReceiver<T>(Rc<RefCell<State<T>>>);

impl<T> StreamReceiver<T> {
    /// The next item; `None` when every sender is gone and nothing is left.
    pub async fn next(&mut self) -> Option<T> {
        let item = poll_fn(|context| self.0.borrow_mut().poll_next(context)).await;
        wake_senders(&self.0);
        item
    }

    /// The next item if there is one now.
    pub fn try_next(&mut self) -> Option<T> {
        let item = self.0.borrow_mut().pop();
        wake_senders(&self.0);
        item
    }

    /// Items that wait to be read.
    pub fn len(&self) -> usize {
        self.0.borrow().items.len()
    }

    /// True when no item waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Drop for StreamReceiver<T> {
    fn drop(&mut self) {
        let items = {
            let mut state = self.0.borrow_mut();
            state.receiver_alive = false;
            state.counts.depth.set(0);
            std::mem::take(&mut state.items)
        };
        drop(items);
        wake_senders(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::{LocalPool, block_on};
    use futures::task::LocalSpawnExt;
    use futures::{FutureExt, pin_mut};

    use super::*;

    #[test]
    fn a_reserved_place_counts_and_comes_back_when_dropped() {
        let (sender, mut receiver) = stream::<u32>(2);
        let first = sender.try_reserve().unwrap();
        let second = sender.try_reserve().unwrap();
        assert!(sender.try_reserve().is_none());
        drop(first);
        let third = sender.try_reserve().unwrap();
        second.send(2);
        third.send(3);
        assert!(sender.try_reserve().is_none());
        assert_eq!(block_on(receiver.next()), Some(2));
        assert!(sender.try_reserve().is_some());
    }

    #[test]
    fn the_last_item_arrives_after_its_sender_is_gone() {
        let (sender, mut receiver) = stream::<u32>(1);
        let permit = sender.try_reserve().unwrap();
        drop(sender);
        assert!(receiver.next().now_or_never().is_none());
        permit.send(7);
        assert_eq!(block_on(receiver.next()), Some(7));
        assert_eq!(block_on(receiver.next()), None);
    }

    #[test]
    fn dropping_the_reader_wakes_whoever_waits_and_drops_the_items() {
        let (sender, receiver) = stream::<Rc<()>>(1);
        let item = Rc::new(());
        sender.try_reserve().unwrap().send(item.clone());
        let mut pool = LocalPool::new();
        let waiting = sender.clone();
        let ended = Rc::new(RefCell::new(None));
        let seen = ended.clone();
        pool.spawner()
            .spawn_local(async move {
                *seen.borrow_mut() = Some(waiting.reserve().await.err());
            })
            .unwrap();
        pool.run_until_stalled();
        assert!(ended.borrow().is_none());
        drop(receiver);
        pool.run_until_stalled();
        assert_eq!(*ended.borrow(), Some(Some(Closed)));
        assert_eq!(Rc::strong_count(&item), 1);
        block_on(sender.closed());
    }

    #[test]
    fn a_waiting_sender_that_gives_up_takes_no_place() {
        let (sender, mut receiver) = stream::<u32>(1);
        sender.try_reserve().unwrap().send(1);
        {
            let waiting = sender.reserve();
            pin_mut!(waiting);
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        assert_eq!(receiver.try_next(), Some(1));
        assert!(sender.try_reserve().is_some());
    }
}
