//! The body of a streamed reply: its events in the words of a dialect, and signs of life while none come.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};

use fanlight_dialects::{ApiError, ReplyEvent, ReplyWriter};

/// Silence before the first sign of life: below what the most impatient client bears.
const FIRST: Duration = Duration::from_secs(5);
/// Silence before another.
const NEXT: Duration = Duration::from_secs(10);

/// A reply that is streamed. Dropping it gives the reply up.
pub struct ReplyBody {
    events: mpsc::Receiver<ReplyEvent>,
    writer: Box<dyn ReplyWriter>,
    silence: Pin<Box<Sleep>>,
    /// Until the next sign of life.
    pause: Duration,
    /// What is to be sent before any event.
    first: Vec<u8>,
    is_over: bool,
}

impl ReplyBody {
    /// The body of a reply that was admitted: `first`, and what its events say.
    pub fn new(events: mpsc::Receiver<ReplyEvent>, writer: Box<dyn ReplyWriter>, first: Vec<u8>) -> Self {
        Self { events, writer, silence: Box::pin(sleep(FIRST)), pause: FIRST, first, is_over: false }
    }

    /// The bytes of the events that are there, possibly none.
    fn poll_events(&mut self, context: &mut Context<'_>) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.first);
        while !self.is_over {
            let event = match self.events.poll_recv(context) {
                Poll::Pending => break,
                Poll::Ready(Some(event)) => event,
                // The engine's thread has ended in the middle of it.
                Poll::Ready(None) => {
                    ReplyEvent::Failed(ApiError::Internal { reason: "the server is stopping".into() })
                }
            };
            self.is_over = matches!(event, ReplyEvent::Ended(_) | ReplyEvent::Failed(_));
            self.writer.write(&event, &mut out);
        }
        out
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let mut out = self.poll_events(context);
        if out.is_empty() && !self.is_over {
            match self.silence.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => self.writer.keep_alive(&mut out),
            }
            self.pause = NEXT;
        } else {
            self.pause = FIRST;
        }
        if out.is_empty() && self.is_over {
            return Poll::Ready(None);
        }
        let pause = self.pause;
        self.silence.as_mut().reset(Instant::now() + pause);
        Poll::Ready(Some(Ok(Frame::data(out.into()))))
    }
}
