//! Digests: MD5 (RFC 1321) and the SHA-2 family (FIPS 180-4).
//!
//! They are here for `md5()` and `sha256()` and their like, whose results people compare with
//! those of other databases. MD5 is our own code, as nothing rests on it.

use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

/// Hexadecimal digits of bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        })
}

/// MD5.
pub(crate) fn md5(message: &[u8]) -> [u8; 16] {
    const SHIFTS: [[u32; 4]; 4] = [
        [7, 12, 17, 22],
        [5, 9, 14, 20],
        [4, 11, 16, 23],
        [6, 10, 15, 21],
    ];
    let bits = (message.len() as u64).wrapping_mul(8);
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    // The padding: a bit, zeros, and the length in bits.
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend(bits.to_le_bytes());
    for block in padded.chunks_exact(64) {
        let word = |place: usize| {
            let bytes = &block[place * 4..place * 4 + 4];
            u32::from_le_bytes(bytes.try_into().expect("four bytes"))
        };
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64_usize {
            let round = step / 16;
            let (mixed, place) = match round {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), (7 * step) % 16),
            };
            // The constants are the sines of the steps.
            let constant = ((step as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32;
            let sum = a
                .wrapping_add(mixed)
                .wrapping_add(constant)
                .wrapping_add(word(place));
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(SHIFTS[round][step % 4]));
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d]) {
            *sum = sum.wrapping_add(part);
        }
    }
    let mut out = [0; 16];
    for (bytes, word) in out.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// SHA-224.
pub(crate) fn sha224(message: &[u8]) -> Vec<u8> {
    Sha224::digest(message).to_vec()
}

/// SHA-256.
pub(crate) fn sha256(message: &[u8]) -> Vec<u8> {
    Sha256::digest(message).to_vec()
}

/// SHA-384.
pub(crate) fn sha384(message: &[u8]) -> Vec<u8> {
    Sha384::digest(message).to_vec()
}

/// SHA-512.
pub(crate) fn sha512(message: &[u8]) -> Vec<u8> {
    Sha512::digest(message).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digests are those that PostgreSQL 15 computes.
    #[test]
    fn digests_of_known_messages() {
        assert_eq!(hex(&md5(b"")), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(&md5(b"abc")), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(
            hex(&sha224(b"abc")),
            "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"
        );
        assert_eq!(
            hex(&sha256(b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            hex(&sha384(b"abc"))[..32],
            *"cb00753f45a35e8bb5a03d699ac65007"
        );
        assert_eq!(
            hex(&sha512(b"abc"))[..32],
            *"ddaf35a193617abacc417349ae204131"
        );
    }
}
