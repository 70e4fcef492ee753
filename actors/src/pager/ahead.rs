//! Reads ahead of what is uploaded: a few are under way at any time.

use std::collections::VecDeque;
use std::future::Future;

use futures::future::maybe_done;
use futures::{Stream, poll, stream};

use fanlight_messages::limits::READS_IN_FLIGHT;

/// The results of `reads` in their order. `READS_IN_FLIGHT` of them are begun before the first is waited for,
/// and another one before each result is handed out: while the consumer works, the disk or the network does
/// too. Reads go on without being polled, once they have begun. (`StreamExt::buffered` begins none while
/// results of others wait to be handed out.)
pub(super) fn read_ahead<F: Future>(reads: impl Iterator<Item = F>) -> impl Stream<Item = F::Output> {
    stream::unfold((reads, VecDeque::new()), |(mut reads, mut under_way)| async move {
        let mut begin = async |under_way: &mut VecDeque<_>| {
            while under_way.len() < READS_IN_FLIGHT
                && let Some(read) = reads.next()
            {
                let mut read = Box::pin(maybe_done(read));
                // It begins when it is polled; whether it is over already is asked below.
                let _ = poll!(read.as_mut());
                under_way.push_back(read);
            }
        };
        begin(&mut under_way).await;
        let mut oldest = under_way.pop_front()?;
        oldest.as_mut().await;
        begin(&mut under_way).await;
        let result = oldest.as_mut().take_output()?;
        Some((result, (reads, under_way)))
    })
}
