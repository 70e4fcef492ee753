//! An address as a byte source: every read is a range request whose answer is checked before a byte of it
//! is used.

mod answer;
mod error;
mod request;
mod retry;

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use web_sys::Url;

use fanlight_actors::kit::Latch;
use fanlight_actors::source::{ByteSource, part_names};
use fanlight_messages::error::SourceError;

pub use error::HttpError;

use answer::Pinned;
use request::Target;
use retry::Retry;

use super::by_itself;

use crate::wire_model::Address;

/// A file on a server, of known length and version; clones share it.
#[derive(Clone)]
pub struct HttpSource(Rc<File>);

struct File {
    target: Target,
    pinned: Pinned,
    /// Whether a range of it has been served, so that a refusal is news.
    has_served: Cell<bool>,
}

impl HttpSource {
    /// Asks for the first byte and learns length and version from the answer. `stop` breaks off this and
    /// every read once it is set.
    ///
    /// # Errors
    /// Any [`HttpError`].
    pub async fn open(address: &Address, stop: &Latch<bool>) -> Result<Self, HttpError> {
        let host = web_url(&address.url)?.host();
        let headers = address.headers.as_slice().into();
        let target = Target { url: address.url.clone(), headers, host, stop: stop.clone() };
        let mut retry = Retry::default();
        loop {
            let pinned = first_answer(&target).await;
            match pinned {
                Ok(pinned) => {
                    return Ok(Self(Rc::new(File { target, pinned, has_served: Cell::new(false) })));
                }
                Err(error) => wait_or_give_up(&target, &mut retry, error, false).await?,
            }
        }
    }

    /// The version that the server named.
    pub fn etag(&self) -> Option<&str> {
        self.0.pinned.etag.as_deref()
    }
}

impl File {
    /// Reads one range, asking again from the last byte that arrived when the answer breaks off.
    async fn read_range(&self, offset: u64, buffer: &mut [u8]) -> Result<(), HttpError> {
        let mut retry = Retry::default();
        let mut filled = 0;
        while filled < buffer.len() {
            let mut received = 0;
            let asked = self.ask_for(offset + filled as u64, &mut buffer[filled..], &mut received).await;
            filled += received;
            match asked {
                Ok(()) => self.has_served.set(true),
                Err(error) => {
                    wait_or_give_up(&self.target, &mut retry, error, self.has_served.get()).await?;
                }
            }
        }
        Ok(())
    }

    async fn ask_for(&self, start: u64, rest: &mut [u8], received: &mut usize) -> Result<(), HttpError> {
        let wanted: Range<u64> = start..start + rest.len() as u64;
        let answer = self.target.ask(&wanted).await?;
        answer::next(&self.target.host, &answer.head(), &wanted, &self.pinned)?;
        answer.read_into(rest, received).await
    }
}

async fn first_answer(target: &Target) -> Result<Pinned, HttpError> {
    let answer = target.ask(&(0..1)).await?;
    answer::first(&target.host, &answer.head())
}

/// Waits before the next try; an error that is final, or the last of too many, comes back.
async fn wait_or_give_up(
    target: &Target,
    retry: &mut Retry,
    error: HttpError,
    has_served: bool,
) -> Result<(), HttpError> {
    let Some(delay_ms) = retry.delay_ms(&error, has_served) else { return Err(error) };
    tracing::warn!(%error, delay_ms, "asking again");
    target.pause(delay_ms).await
}

impl ByteSource for HttpSource {
    fn len(&self) -> u64 {
        self.0.pinned.len
    }

    async fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SourceError> {
        let bytes = buffer.len() as u64;
        let read = self.0.read_range(offset, buffer).await;
        read.map_err(|error| SourceError::Failed { offset, bytes, reason: error.to_string() })
    }

    async fn read_into(&self, offset: u64, buffer: Vec<u8>) -> Result<Vec<u8>, SourceError> {
        by_itself(self.clone(), offset, buffer).await
    }
}

/// The address of every file of the model that the file at `address` belongs to, in order, and its name: the
/// parts of a split model lie beside each other.
///
/// # Errors
/// [`HttpError::Address`] when it is none.
pub fn part_addresses(address: &Address) -> Result<Vec<(String, Address)>, HttpError> {
    let url = web_url(&address.url)?;
    let path = url.pathname();
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
    let parts = part_names(name).into_iter().map(|part| {
        url.set_pathname(&format!("{folder}/{part}"));
        (part, Address { url: url.href(), headers: address.headers.clone() })
    });
    Ok(parts.collect())
}

fn web_url(url: &str) -> Result<Url, HttpError> {
    let address = || HttpError::Address { url: url.to_owned() };
    let parsed = Url::new(url).map_err(|_| address())?;
    let is_web = ["http:", "https:"].contains(&parsed.protocol().as_str());
    is_web.then_some(parsed).ok_or_else(address)
}
