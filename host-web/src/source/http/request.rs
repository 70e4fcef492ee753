//! One request for one range, and its answer. Dropping either aborts it.

use std::future::Future;
use std::ops::Range;
use std::rc::Rc;

use futures::future::{Either, select};
use futures::pin_mut;
use js_sys::{Reflect, Uint8Array};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortController, Headers, ReadableStreamDefaultReader, RequestCache, RequestInit, Response};

use fanlight_actors::kit::Latch;

use super::answer::Head;
use super::error::HttpError;
use super::retry::STALL_MS;
use crate::error::text_of;
use crate::source::timer::{scope, sleep};

/// Where to ask, and who may break it off.
#[derive(Clone)]
pub(super) struct Target {
    /// The address that was given: redirections are followed anew every time, so that signed ones stay fresh.
    pub url: String,
    /// Headers of the page's, sent beside the range.
    pub headers: Rc<[(String, String)]>,
    /// Its host, for messages.
    pub host: String,
    /// Set once when the load is cancelled.
    pub stop: Latch<bool>,
}

/// Aborts when dropped.
struct Abort(AbortController);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why something awaited did not come.
enum Interrupted {
    Failed(String),
    Stopped,
}

impl Target {
    /// Awaits a promise for as long as the network may be silent.
    async fn patiently(
        &self,
        promised: impl Future<Output = Result<JsValue, JsValue>>,
    ) -> Result<JsValue, Interrupted> {
        let (silence, stop) = (sleep(STALL_MS), self.stop.changed(0));
        pin_mut!(promised, silence, stop);
        match select(promised, select(silence, stop)).await {
            Either::Left((result, _)) => result.map_err(|error| Interrupted::Failed(text_of(&error))),
            Either::Right((Either::Left(_), _)) => {
                Err(Interrupted::Failed(format!("no byte for {} s", STALL_MS / 1000)))
            }
            Either::Right((Either::Right(_), _)) => Err(Interrupted::Stopped),
        }
    }

    /// Waits between two tries.
    pub async fn pause(&self, delay_ms: u32) -> Result<(), HttpError> {
        let (delay, stop) = (sleep(delay_ms), self.stop.changed(0));
        pin_mut!(delay, stop);
        match select(delay, stop).await {
            Either::Left(_) => Ok(()),
            Either::Right(_) => Err(HttpError::Cancelled),
        }
    }

    fn unusable_header(&self, name: &str, error: &JsValue) -> HttpError {
        HttpError::Header { name: name.to_owned(), reason: text_of(error) }
    }

    fn network(&self, interrupted: Interrupted) -> HttpError {
        match interrupted {
            Interrupted::Failed(reason) => HttpError::Network { host: self.host.clone(), reason },
            Interrupted::Stopped => HttpError::Cancelled,
        }
    }

    /// Asks for a range; resolves when the head of the answer is there.
    pub async fn ask(&self, range: &Range<u64>) -> Result<Answer, HttpError> {
        let refused = |error: JsValue| self.network(Interrupted::Failed(text_of(&error)));
        let abort = Abort(AbortController::new().map_err(refused)?);
        let headers = Headers::new().map_err(refused)?;
        let value = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
        for (name, value) in self.headers.iter() {
            headers.set(name, value).map_err(|error| self.unusable_header(name, &error))?;
        }
        headers.set("Range", &value).map_err(refused)?;
        let init = RequestInit::new();
        init.set_headers(&headers);
        init.set_signal(Some(&abort.0.signal()));
        // A model in the browser's cache of pages would push everything else out of it.
        init.set_cache(RequestCache::NoStore);
        let fetched = JsFuture::from(scope().fetch_with_str_and_init(&self.url, &init));
        let response = self.patiently(fetched).await.map_err(|interrupted| self.network(interrupted))?;
        Ok(Answer { response: response.unchecked_into(), _abort: abort, target: self.clone() })
    }
}

/// An answer whose body has not been read.
pub(super) struct Answer {
    response: Response,
    _abort: Abort,
    target: Target,
}

impl Answer {
    /// Its head.
    pub fn head(&self) -> Head {
        let headers = self.response.headers();
        let header = |name: &str| headers.get(name).ok().flatten();
        Head {
            status: self.response.status(),
            status_text: self.response.status_text(),
            content_range: header("content-range"),
            content_encoding: header("content-encoding"),
            etag: header("etag"),
            retry_after: header("retry-after"),
        }
    }

    /// Copies the body into `buffer`, which must be exactly as long. `received` counts what has arrived,
    /// also when the body breaks off.
    pub async fn read_into(&self, buffer: &mut [u8], received: &mut usize) -> Result<(), HttpError> {
        let (host, wanted) = (&self.target.host, buffer.len());
        let broken = |received: usize, reason: String| HttpError::Broken {
            host: host.clone(),
            received_bytes: received as u64,
            wanted_bytes: wanted as u64,
            reason,
        };
        let Some(body) = self.response.body() else { return Err(broken(0, "it has no body".into())) };
        let reader: ReadableStreamDefaultReader = body.get_reader().unchecked_into();
        loop {
            let read = self.target.patiently(JsFuture::from(reader.read())).await;
            let read = read.map_err(|interrupted| match interrupted {
                Interrupted::Failed(reason) => broken(*received, reason),
                Interrupted::Stopped => HttpError::Cancelled,
            })?;
            // A read of a stream resolves to { done, value }; value is a Uint8Array unless it is done.
            let chunk = Reflect::get(&read, &"value".into()).unwrap_or_default();
            let Some(chunk) = chunk.dyn_ref::<Uint8Array>() else { break };
            let (start, end) = (*received, *received + chunk.length() as usize);
            let Some(place) = buffer.get_mut(start..end) else {
                return Err(HttpError::TooLong { host: host.clone(), wanted_bytes: wanted as u64 });
            };
            chunk.copy_to(place);
            *received = end;
        }
        if *received < wanted {
            return Err(broken(*received, "it ended early".into()));
        }
        Ok(())
    }
}
