//! Costs as bytes, for a host to keep: a second visit starts with what the first one measured.
//!
//! ```text
//!   0   8  "FLCOSTS" and a zero
//!   8   4  version of this format
//!  12   8  FNV-1a of the key: adapter, model and build
//!  20  36  nine f32, microseconds of a step, 0 where it was not measured: plain in windows of 1, 2 and 4
//!          steps, overhead included; of 1, 2, 4, 8, 16 and 32 nodes, overhead excluded
//!  56   8  FNV-1a of all before
//! ```
//!
//! Integers and floats are little-endian.

use fanlight_messages::error::CostRecordError;

use crate::cost::COSTS;

const MAGIC: [u8; 8] = *b"FLCOSTS\0";
/// Goes up with every change of the layout or of what is measured.
const VERSION: u32 = 1;
const HEAD: usize = 20;
const BYTES: usize = HEAD + 4 * COSTS + 8;
/// A step takes less than this, microseconds: a watchdog would have ended it.
const STEP_US_MAX: f32 = 1e8;

/// FNV-1a of 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// A short name for what is kept under `key`: 16 hexadecimal digits, fit for a file.
pub fn record_name(key: &str) -> String {
    format!("{:016x}", fnv(key.as_bytes()))
}

/// Writes costs that were measured for `key`; 0 stands for a cost that was not.
pub(crate) fn write(key: &str, costs: [f64; COSTS]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&fnv(key.as_bytes()).to_le_bytes());
    costs.into_iter().for_each(|us| bytes.extend_from_slice(&(us as f32).to_le_bytes()));
    bytes.extend_from_slice(&fnv(&bytes).to_le_bytes());
    bytes
}

/// Reads costs that were written for `key`.
///
/// # Errors
/// When they are of another format, damaged, or of another device, model or build.
pub(crate) fn read(key: &str, bytes: &[u8]) -> Result<[f64; COSTS], CostRecordError> {
    let corrupt = |reason| CostRecordError::Corrupt { reason };
    if !bytes.starts_with(&MAGIC) {
        return Err(corrupt("it does not begin as a record of costs does"));
    }
    let version = bytes.get(8..12).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes);
    match version {
        Some(VERSION) => {}
        Some(found) => return Err(CostRecordError::Version { found, wanted: VERSION }),
        None => return Err(corrupt("it ends before its version")),
    }
    let word =
        |at: usize| bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map(u64::from_le_bytes);
    if bytes.len() != BYTES || word(BYTES - 8) != Some(fnv(&bytes[..BYTES - 8])) {
        return Err(corrupt("its checksum is wrong"));
    }
    if word(12) != Some(fnv(key.as_bytes())) {
        return Err(CostRecordError::Foreign);
    }
    let mut costs = [0.0; COSTS];
    for (us, word) in costs.iter_mut().zip(bytes[HEAD..BYTES - 8].chunks_exact(4)) {
        let value = f32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        if !(0.0..STEP_US_MAX).contains(&value) {
            return Err(corrupt("it holds a time that is none"));
        }
        *us = f64::from(value);
    }
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COST: [f64; COSTS] = [1.5, 0.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(read("key", &write("key", COST)), Ok(COST));
        assert_eq!(read("other", &write("key", COST)), Err(CostRecordError::Foreign));
    }

    #[test]
    fn every_bit_counts() {
        let whole = write("key", COST);
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(read("key", &bytes).is_err(), "bit {bit}");
        }
        for len in 0..whole.len() {
            assert!(read("key", &whole[..len]).is_err(), "{len} bytes");
        }
        assert!(read("key", &[&whole[..], &[0]].concat()).is_err());
    }

    #[test]
    fn an_older_format_is_named() {
        let mut bytes = write("key", COST);
        bytes[8] = 0;
        assert_eq!(read("key", &bytes), Err(CostRecordError::Version { found: 0, wanted: VERSION }));
    }

    #[test]
    fn a_time_that_is_none_is_refused_whatever_the_checksum_says() {
        for us in [-1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(read("key", &write("key", [us; COSTS])).is_err(), "{us}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(read("key", &bytes).is_err());
        }
    }
}
