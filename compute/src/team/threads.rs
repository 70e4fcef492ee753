//! The other members: threads that spin a while for the next run, then yield, then sleep.
#![allow(unsafe_code, reason = "work that is borrowed is called only while its run lasts")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// A piece of work by its index and the member that does it.
type Work<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// How long a member spins for work: longer than the owner's own pieces between two runs.
const SPIN: Duration = Duration::from_micros(30);
/// How long it yields to other threads before it sleeps: longer than a pause between steps.
const YIELD: Duration = Duration::from_micros(300);
/// Looks at the word between two looks at the clock.
const LOOKS: u32 = 64;

/// What the members share.
#[derive(Debug, Default)]
struct Shared {
    /// run << 32 | pieces << 16 | next piece. All three change together, so that a member who comes late can
    /// never claim a piece of another run than the one it read.
    word: AtomicU64,
    /// Address of the run's `&Work`, valid while a piece of the run can be claimed or is being done.
    work: AtomicPtr<()>,
    done: AtomicUsize,
    has_panicked: AtomicBool,
    sleepers: AtomicUsize,
    is_over: AtomicBool,
}

impl Shared {
    /// Claims and does pieces until none is left; returns the word that said so.
    fn help(&self, member: usize) -> u64 {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let (pieces, next) = (word >> 16 & 0xffff, word & 0xffff);
            if next >= pieces {
                return word;
            }
            let work = self.work.load(Ordering::Relaxed);
            match self.word.compare_exchange_weak(word, word + 1, Ordering::AcqRel, Ordering::Acquire) {
                Err(seen) => word = seen,
                Ok(_) => {
                    let done = Done(self);
                    // SAFETY: the claim succeeded, so the run that `word` names is not over: its owner waits
                    // in `run` for this piece, and the reference lives on its stack until then.
                    let work = unsafe { *work.cast::<&Work<'_>>() };
                    work(next as usize, member);
                    drop(done);
                    word = self.word.load(Ordering::Acquire);
                }
            }
        }
    }

    fn serve(&self, member: usize) {
        let mut idle: Option<Instant> = None;
        let mut seen = self.help(member);
        while !self.is_over.load(Ordering::Acquire) {
            let has_work = (0..LOOKS).any(|_| {
                std::hint::spin_loop();
                self.word.load(Ordering::Acquire) != seen
            });
            if has_work {
                seen = self.help(member);
                idle = None;
                continue;
            }
            let waited = idle.get_or_insert_with(Instant::now).elapsed();
            if waited > YIELD {
                self.sleepers.fetch_add(1, Ordering::SeqCst);
                // Looked at again after the owner could see the sleeper; an early wake-up does no harm.
                if self.word.load(Ordering::SeqCst) == seen && !self.is_over.load(Ordering::SeqCst) {
                    thread::park();
                }
                self.sleepers.fetch_sub(1, Ordering::SeqCst);
                idle = None;
            } else if waited > SPIN {
                thread::yield_now();
            }
        }
    }
}

/// Counts a piece as done, also when it panics.
struct Done<'a>(&'a Shared);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.has_panicked.store(true, Ordering::Relaxed);
        }
        self.0.done.fetch_add(1, Ordering::Release);
    }
}

/// The threads of a team; they end when this is dropped.
#[derive(Debug)]
pub(super) struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
    threads: Vec<Thread>,
}

impl Threads {
    /// Starts `count` threads.
    pub(super) fn start(count: usize) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let mut team = Self { shared: shared.clone(), handles: Vec::new(), threads: Vec::new() };
        for member in 1..=count {
            let shared = shared.clone();
            let name = format!("fanlight-{member}");
            let handle = thread::Builder::new().name(name).spawn(move || shared.serve(member))?;
            team.threads.push(handle.thread().clone());
            team.handles.push(handle);
        }
        Ok(team)
    }

    /// Does all pieces with the members; the caller is member 0.
    pub(super) fn run(&self, pieces: usize, work: &Work<'_>) {
        let shared = &*self.shared;
        shared.done.store(0, Ordering::Relaxed);
        shared.work.store(std::ptr::from_ref(&work).cast_mut().cast(), Ordering::Relaxed);
        let run = (shared.word.load(Ordering::Relaxed) >> 32).wrapping_add(1) & 0xffff_ffff;
        shared.word.store(run << 32 | (pieces as u64) << 16, Ordering::SeqCst);
        if shared.sleepers.load(Ordering::SeqCst) > 0 {
            self.threads.iter().for_each(Thread::unpark);
        }
        // Also when a piece of the owner's panics, nobody may be left at work on the caller's frame.
        let wait = Wait { shared, pieces };
        shared.help(0);
        drop(wait);
        assert!(!shared.has_panicked.swap(false, Ordering::Relaxed), "a piece of work panicked");
    }
}

/// Waits for all pieces of a run.
struct Wait<'a> {
    shared: &'a Shared,
    pieces: usize,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            // What nobody has claimed is not done any more.
            let word = self.shared.word.load(Ordering::Acquire);
            self.cancel(word);
        }
        let mut looks = 0u32;
        while self.shared.done.load(Ordering::Acquire) < self.pieces {
            looks += 1;
            if looks < 4 * LOOKS {
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }
}

impl Wait<'_> {
    fn cancel(&self, mut word: u64) {
        loop {
            let (pieces, next) = (word >> 16 & 0xffff, word & 0xffff);
            if next >= pieces {
                return;
            }
            let ended = word & !0xffff | pieces;
            match self.shared.word.compare_exchange(word, ended, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.shared.done.fetch_add((pieces - next) as usize, Ordering::Release);
                    return;
                }
                Err(seen) => word = seen,
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.threads.iter().for_each(Thread::unpark);
        for handle in self.handles.drain(..) {
            // A member that panicked has told so already.
            drop(handle.join());
        }
    }
}
