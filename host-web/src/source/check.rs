//! Compares whole files with the hashes that the page expects of them.

use fanlight_actors::source::NamedSource;
use fanlight_messages::error::LoadError;
use sha2::{Digest, Sha256};

/// Bytes read at once: as large as the chunks of stored files, so that none is read twice.
const PIECE_BYTES: u64 = 4 << 20;

/// Reads every file once and compares its SHA-256; `told` hears how many bytes of how many were read.
///
/// # Errors
/// [`LoadError::Source`] when a file cannot be read or is another one than was expected, and when the number
/// of hashes is not that of the files.
pub async fn check_hashes(
    sources: &[NamedSource],
    wanted: &[String],
    told: impl Fn(u64, u64),
) -> Result<(), LoadError> {
    let total = sources.iter().map(NamedSource::len).sum();
    if wanted.len() != sources.len() {
        let reason = format!("{} hashes were given for {} files: give one each", wanted.len(), sources.len());
        let file = sources.first().map(|source| source.name.clone()).unwrap_or_default();
        return Err(LoadError::Header { file, reason });
    }
    let mut done = 0;
    let mut piece = Vec::new();
    for (source, wanted) in sources.iter().zip(wanted) {
        let mut hash = Sha256::new();
        let mut at = 0;
        while at < source.len() {
            piece.resize(PIECE_BYTES.min(source.len() - at) as usize, 0);
            let read = source.read_at(at, &mut piece).await;
            read.map_err(|error| LoadError::Source { file: source.name.clone(), error })?;
            hash.update(&piece);
            at += piece.len() as u64;
            done += piece.len() as u64;
            told(done, total);
        }
        let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if !found.eq_ignore_ascii_case(wanted) {
            let reason = format!("its sha-256 is {found}, {wanted} was expected: fetch the right file again");
            return Err(LoadError::Header { file: source.name.clone(), reason });
        }
    }
    Ok(())
}
