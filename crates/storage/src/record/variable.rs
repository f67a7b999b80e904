//! Blocks for contents that do not lie in the tuple.
//!
//! Such a block is a header and the content. Its checksum covers the length as well, so that a
//! damaged length is noticed before foreign bytes are taken for content.
//!
//! | field | bytes | meaning |
//! |---|---|---|
//! | length | 4 | bytes of content, little-endian |
//! | checksum | 4 | crc32c of the length's four bytes and the content |
//! | content | length | |

/// Bytes of the header.
pub const HEADER_BYTES: usize = 8;

/// Bytes of the block for a content.
pub fn block_bytes(content_bytes: usize) -> usize {
    HEADER_BYTES + content_bytes
}

/// The header of the block for this content, of at most 16 MiB.
pub fn header(content: &[u8]) -> [u8; HEADER_BYTES] {
    let length = (content.len() as u32).to_le_bytes();
    let checksum = checksum(length, content).to_le_bytes();
    let mut bytes = [0; HEADER_BYTES];
    bytes[..4].copy_from_slice(&length);
    bytes[4..].copy_from_slice(&checksum);
    bytes
}

/// Makes the block for this content in `image`.
pub fn image(content: &[u8], image: &mut Vec<u8>) {
    image.clear();
    image.extend_from_slice(&header(content));
    image.extend_from_slice(content);
}

/// The content's length that a header states; it is not checked yet.
#[inline]
pub fn content_bytes(header: [u8; HEADER_BYTES]) -> usize {
    u64::from_le_bytes(header) as u32 as usize
}

/// Whether this is the content that the header was made for.
pub fn is_intact(header: [u8; HEADER_BYTES], content: &[u8]) -> bool {
    let [a, b, c, d, checksum_bytes @ ..] = header;
    let length = [a, b, c, d];
    content_bytes(header) == content.len()
        && u32::from_le_bytes(checksum_bytes) == checksum(length, content)
}

fn checksum(length: [u8; 4], content: &[u8]) -> u32 {
    let of_length = match LENGTH_CHECKSUMS.get(u32::from_le_bytes(length) as usize) {
        Some(&known) => known,
        None => crc32c::crc32c(&length),
    };
    crc32c::crc32c_append(of_length, content)
}

/// The crc32c of each short length, which would take as long as that of a short content.
static LENGTH_CHECKSUMS: [u32; 512] = {
    let mut all = [0; 512];
    let mut length = 0;
    while length < all.len() {
        // The bit-reversed Castagnoli polynomial, over 32 bits.
        let mut rest = !(length as u32);
        let mut bit = 0;
        while bit < 32 {
            rest = (rest >> 1) ^ if rest & 1 == 1 { 0x82F6_3B78 } else { 0 };
            bit += 1;
        }
        all[length] = !rest;
        length += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_checksums_are_those_of_the_library() {
        for (length, known) in (0_u32..).zip(LENGTH_CHECKSUMS) {
            assert_eq!(known, crc32c::crc32c(&length.to_le_bytes()), "{length}");
        }
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let content = b"a content of some bytes".to_vec();
        let block: Vec<u8> = header(&content).into_iter().chain(content).collect();
        let intact = |block: &[u8]| {
            let (header, content) = block.split_first_chunk::<HEADER_BYTES>().unwrap();
            is_intact(*header, content)
        };
        assert!(intact(&block));
        for bit in 0..block.len() * 8 {
            let mut damaged = block.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!intact(&damaged), "bit {bit}");
        }
    }
}
