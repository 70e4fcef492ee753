//! A ring of fixed capacity that overwrites its oldest samples, for the last minutes of a sensor.

use std::fmt;

/// Why a ring could not be made or read.
#[derive(Debug, PartialEq, Eq)]
pub enum RingError {
    /// A ring must hold something.
    ZeroCapacity,
    /// The sample asked for is older than what is kept, or not written yet.
    OutOfRange { wanted: u64, oldest: u64, newest: u64 },
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroCapacity => write!(f, "the capacity must be at least 1"),
            Self::OutOfRange { wanted, oldest, newest } => {
                write!(f, "sample {wanted} is not kept; samples {oldest} to {newest} are")
            }
        }
    }
}

impl std::error::Error for RingError {}

/// One reading of a sensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Milliseconds since the device started.
    pub time_ms: u64,
    /// Degrees Celsius.
    pub value: f32,
}

/// The newest samples, in the order they came. Sample numbers count from 0 and are never reused.
#[derive(Debug)]
pub struct Ring {
    samples: Vec<Sample>,
    capacity: usize,
    written: u64,
}

impl Ring {
    /// An empty ring for `capacity` samples.
    pub fn new(capacity: usize) -> Result<Self, RingError> {
        if capacity == 0 {
            return Err(RingError::ZeroCapacity);
        }
        Ok(Self { samples: Vec::with_capacity(capacity), capacity, written: 0 })
    }

    /// Number of samples kept.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// True when nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Adds a sample, over the oldest one if the ring is full. Returns its number.
    pub fn push(&mut self, sample: Sample) -> u64 {
        let number = self.written;
        if self.samples.len() < self.capacity {
            self.samples.push(sample);
        } else {
            let slot = (number % self.capacity as u64) as usize;
            self.samples[slot] = sample;
        }
        self.written += 1;
        number
    }

    /// Number of the oldest sample kept.
    pub fn oldest(&self) -> u64 {
        self.written - self.samples.len() as u64
    }

    /// The sample with that number.
    pub fn get(&self, number: u64) -> Result<Sample, RingError> {
        if number < self.oldest() || number >= self.written {
            let newest = self.written.saturating_sub(1);
            return Err(RingError::OutOfRange { wanted: number, oldest: self.oldest(), newest });
        }
        Ok(self.samples[(number % self.capacity as u64) as usize])
    }

    /// All samples kept, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Sample> + '_ {
        (self.oldest()..self.written).map(|number| {
            self.samples[(number % self.capacity as u64) as usize]
        })
    }

    /// Mean value of the samples not older than `span_ms` before the newest one; `None` when the ring is
    /// empty.
    pub fn mean_of_last(&self, span_ms: u64) -> Option<f32> {
