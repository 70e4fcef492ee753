//! Turns of the actors on their one thread.

use std::future::poll_fn;
use std::task::Poll;

/// Lets every other actor that is ready run once.
pub async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
