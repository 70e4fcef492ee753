//! The alphabet in which byte-level vocabularies write bytes as printable characters.
//!
//! The printable bytes of Latin-1 stand for themselves; the others get the code points from U+0100 on, in
//! order.

/// The character that stands for each byte.
pub(super) fn characters() -> [char; 256] {
    let mut next = 0x100_u32;
    std::array::from_fn(|byte| {
        let byte = byte as u8;
        if matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF) {
            return char::from(byte);
        }
        let stand_in = char::from_u32(next).unwrap_or(char::REPLACEMENT_CHARACTER);
        next += 1;
        stand_in
    })
}

/// The bytes a piece stands for; characters outside the alphabet stand for their own UTF-8 bytes.
pub(super) fn decode(piece: &str, characters: &[char; 256]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(piece.len());
    for character in piece.chars() {
        match byte_of(character, characters) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

fn byte_of(character: char, characters: &[char; 256]) -> Option<u8> {
    let code = u32::from(character);
    if code < 0x100 {
        let byte = code as u8;
        return (characters[byte as usize] == character).then_some(byte);
    }
    // Fewer than 256 stand-ins follow U+0100, so a search over the table's stand-ins suffices.
    (code < 0x200).then(|| characters.iter().position(|&c| c == character)).flatten().map(|at| at as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character() {
        let table = characters();
        let distinct: std::collections::BTreeSet<char> = table.iter().copied().collect();
        assert_eq!(distinct.len(), 256);
        for byte in 0..=255_u8 {
            assert_eq!(decode(&table[byte as usize].to_string(), &table), vec![byte]);
        }
        // Spot checks against the published table: space, newline, soft hyphen.
        assert_eq!(table[0x20], 'Ġ');
        assert_eq!(table[0x0A], 'Ċ');
        assert_eq!(table[0xAD], 'Ń');
    }
}
