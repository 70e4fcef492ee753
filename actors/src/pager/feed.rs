//! Brings a run the pages that its passes stream: reads ahead in their order, and hands over as slots free
//! up.

use std::cell::RefCell;
use std::rc::Rc;

use futures::future::{Either, pending, select, try_join};
use futures::{StreamExt, pin_mut};

use fanlight_messages::bytes::SharedBytes;
use fanlight_messages::error::{GenerateError, SourceError};
use fanlight_messages::limits::DEMANDS;
use fanlight_messages::plan::GpuPlan;
use fanlight_messages::protocol::submitter::*;
use fanlight_messages::protocol::telemetry::RecordSample;
use fanlight_pager::{RowPlaces, Upload, UploadTarget};

use super::ahead::read_ahead;
use super::cache::{HostCache, reserve};
use super::mail::PagerLinks;
use crate::kit::{StreamReceiver, StreamSender, stream};
use crate::source::NamedSource;
use crate::submitter::SubmitterMail;

/// What streams of a placed model.
pub(super) struct Streamed {
    /// The uploads of a pass.
    uploads: Vec<Upload>,
    /// The first upload of each page.
    page_starts: Vec<usize>,
    /// How many come before those of the head.
    body_len: usize,
    /// Where the embedding rows lie that are gathered.
    rows: Option<RowPlaces>,
    cache: RefCell<HostCache>,
    /// Buffers to read into, at most as many as reads are in flight.
    spare: RefCell<Vec<Vec<u8>>>,
}

impl Streamed {
    pub(super) fn new(
        plan: &GpuPlan,
        uploads: Vec<Upload>,
        rows: Option<RowPlaces>,
        cache_bytes: u64,
    ) -> Self {
        let starts_page = |upload: &Upload| match upload.target {
            UploadTarget::Rows { matrix, first_row } => {
                plan.pages.iter().any(|page| page.matrix == matrix && page.first_row == first_row)
            }
            UploadTarget::Elements { .. } => false,
        };
        let page_starts: Vec<usize> =
            (0..uploads.len()).filter(|index| starts_page(&uploads[*index])).collect();
        let cache = RefCell::new(HostCache::new(cache_bytes));
        let body_pages = plan.stream.as_ref().map_or(0, |stream| stream.body_pages as usize);
        let body_len = page_starts.get(body_pages).copied().unwrap_or(uploads.len());
        Self { uploads, page_starts, body_len, rows, cache, spare: RefCell::default() }
    }

    /// Runs a request; returns when it is over.
    pub(super) async fn run(
        &self,
        begin: BeginDecode,
        events: StreamSender<RunEvent>,
        sources: &[NamedSource],
        links: &PagerLinks,
    ) -> Result<RunOver, GenerateError> {
        let (run, headless) = (begin.run, begin.headless_batches());
        let (place, mut demands) = stream(DEMANDS);
        let wrap = |asked| SubmitterMail::Begin(asked, events, Some(place));
        let answer = links.submitter.start(begin, wrap).await?;
        let feed = Feed { streamed: self, run, headless, sources, links };
        let over = answer.wait();
        let fed = feed.serve(&mut demands);
        pin_mut!(over, fed);
        match select(over, fed).await {
            Either::Left((result, _)) => Ok(result??),
            Either::Right((Ok(()), over)) => Ok(over.await??),
            Either::Right((Err(error), over)) => {
                // Without its pages the run cannot go on; it ends where it is.
                links.submitter.ask(EndDecode { run }).await?;
                over.await??;
                Err(error)
            }
        }
    }
}

/// What one run is fed with.
struct Feed<'a> {
    streamed: &'a Streamed,
    run: RunId,
    /// Passes at the beginning that do without the head.
    headless: usize,
    sources: &'a [NamedSource],
    links: &'a PagerLinks,
}

impl Feed<'_> {
    /// Serves until the run is over; `Err` when bytes cannot be read.
    async fn serve(&self, demands: &mut StreamReceiver<Demand>) -> Result<(), GenerateError> {
        let Some(Demand::Pages { from }) = demands.next().await else { return Ok(()) };
        try_join(self.pages(from), self.rows(demands)).await.map(|_| ())
    }

    /// Pages in the order of passes, from `from` on.
    async fn pages(&self, from: usize) -> Result<(), GenerateError> {
        let uploads = &self.streamed.uploads;
        let Some(first) = self.streamed.page_starts.get(from) else { return pending().await };
        let end = |pass: usize| if pass < self.headless { self.streamed.body_len } else { uploads.len() };
        let order = (0..).flat_map(|pass| if pass == 0 { *first..end(pass) } else { 0..end(pass) });
        let reads = read_ahead(order.map(|index| async move { (index, self.read(index).await) }));
        pin_mut!(reads);
        let mut pass = PassRead::default();
        while let Some((index, read)) = reads.next().await {
            let (bytes, was_kept) = read?;
            pass.count(bytes.len() as u64, was_kept);
            pass.waited_us += self.hand_over(index, bytes).await?;
            if index + 1 == uploads.len() {
                let kept_bytes = self.streamed.cache.borrow().kept_bytes();
                self.links.telemetry.record(std::mem::take(&mut pass).sample(kept_bytes));
            }
        }
        Ok(())
    }

    /// Sends an upload once there is a slot for it; returns the microseconds that it waited.
    async fn hand_over(&self, index: usize, bytes: Rc<Vec<u8>>) -> Result<u64, GenerateError> {
        let upload = &self.streamed.uploads[index];
        let UploadTarget::Rows { matrix, first_row } = upload.target else { return Ok(0) };
        let since_us = self.links.clock.now_us();
        let rows = UploadMatrix { matrix, first_row, bytes: SharedBytes::whole(bytes.clone()) };
        self.links.submitter.ask(StreamRows { run: self.run, rows }).await??;
        // Unless the cache keeps them, the bytes are ours alone again.
        if let Ok(buffer) = Rc::try_unwrap(bytes) {
            self.streamed.spare.borrow_mut().push(buffer);
        }
        Ok(self.links.clock.now_us().saturating_sub(since_us))
    }

    /// The bytes of an upload, and whether host memory had kept them.
    async fn read(&self, index: usize) -> Result<(Rc<Vec<u8>>, bool), GenerateError> {
        if let Some(bytes) = self.streamed.cache.borrow().get(index) {
            return Ok((bytes, true));
        }
        let upload = &self.streamed.uploads[index];
        let mut buffer = self.streamed.spare.borrow_mut().pop().unwrap_or_default();
        // At most `LANDING_BYTES`: uploads are cut to less.
        buffer.resize(upload.bytes as usize, 0);
        let bytes = Rc::new(self.read_from(upload.shard, upload.offset, buffer).await?);
        if let Some(buffer) = self.streamed.cache.borrow_mut().offer(index, &bytes, reserve) {
            self.streamed.spare.borrow_mut().push(buffer);
        }
        Ok((bytes, false))
    }

    async fn read_from(&self, shard: u32, offset: u64, buffer: Vec<u8>) -> Result<Vec<u8>, GenerateError> {
        let Some(source) = self.sources.get(shard as usize) else {
            let error = SourceError::Short { offset, bytes: buffer.len() as u64, len: 0 };
            return Err(GenerateError::Source { file: format!("part {}", shard + 1), error });
        };
        let read = source.read_into(offset, buffer).await;
        read.map_err(|error| GenerateError::Source { file: source.name.clone(), error })
    }

    /// Embedding rows, for every pass that wants some.
    async fn rows(&self, demands: &mut StreamReceiver<Demand>) -> Result<(), GenerateError> {
        while let Some(demand) = demands.next().await {
            let (Demand::Rows(tokens), Some(places)) = (demand, &self.streamed.rows) else { continue };
            let mut bytes = Vec::with_capacity(tokens.len() * places.row_bytes as usize);
            // Places of a tree that hold no node may name any token; what is gathered for them is not read.
            let found = tokens.iter().map(|token| places.of(u64::from(*token)).or(places.of(0)));
            let reads =
                read_ahead(found.flatten().map(|(shard, offset)| {
                    self.read_from(shard, offset, vec![0; places.row_bytes as usize])
                }));
            pin_mut!(reads);
            while let Some(row) = reads.next().await {
                bytes.extend_from_slice(&row?);
            }
            let bytes = SharedBytes::whole(Rc::new(bytes));
            self.links.submitter.ask(GatherRows { run: self.run, bytes }).await??;
        }
        Ok(())
    }
}

/// What a pass read.
#[derive(Debug, Default)]
struct PassRead {
    read_bytes: u64,
    cached_bytes: u64,
    waited_us: u64,
}

impl PassRead {
    fn count(&mut self, bytes: u64, was_kept: bool) {
        *(if was_kept { &mut self.cached_bytes } else { &mut self.read_bytes }) += bytes;
    }

    fn sample(self, kept_bytes: u64) -> RecordSample {
        let Self { read_bytes, cached_bytes, waited_us } = self;
        RecordSample::PassRead { read_bytes, cached_bytes, kept_bytes, waited_us }
    }
}
