//! Digests: MD5 (RFC 1321) and the SHA-2 family (FIPS 180-4).
//!
//! They are here for `md5()` and `sha256()` and their like, whose results people compare with
//! those of other databases; nothing rests on them being hard to invert.

use std::sync::LazyLock;

/// Constants of the steps: the cube roots of the first primes.
static STEPS: LazyLock<Vec<u64>> = LazyLock::new(|| (0..80).map(|at| root_bits(at, 3)).collect());

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

/// The message with its padding: a bit, zeros, and the length in bits.
fn padded(message: &[u8], block: usize, length: &[u8]) -> Vec<u8> {
    let mut out = message.to_vec();
    out.push(0x80);
    while !(out.len() + length.len()).is_multiple_of(block) {
        out.push(0);
    }
    out.extend(length);
    out
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
    for block in padded(message, 64, &bits.to_le_bytes()).chunks_exact(64) {
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

/// The first bits of the fractions of the roots of the first primes, of which both families take
/// their constants.
fn root_bits(index: usize, degree: u32) -> u64 {
    let mut primes = (2_u64..).filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0));
    let prime = num_bigint::BigUint::from(primes.nth(index).expect("primes have no end"));
    // 64 bits after the point of the root are the root of the prime moved by as many bits times
    // the degree.
    let root = (prime << (64 * degree as usize)).nth_root(degree);
    let digits = root.to_u64_digits();
    digits.first().copied().unwrap_or(0)
}

/// SHA-256, or SHA-224 with other first values and a shorter result.
#[expect(clippy::many_single_char_names, reason = "the names of the standard")]
fn sha_of_32_bits(message: &[u8], mut state: [u32; 8]) -> Vec<u8> {
    let bits = (message.len() as u64).wrapping_mul(8);
    for block in padded(message, 64, &bits.to_be_bytes()).chunks_exact(64) {
        let mut words: Vec<u32> = block
            .chunks_exact(4)
            .map(|bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")))
            .collect();
        for place in 16..64 {
            let (x, y) = (words[place - 15], words[place - 2]);
            let low = x.rotate_right(7) ^ x.rotate_right(18) ^ (x >> 3);
            let high = y.rotate_right(17) ^ y.rotate_right(19) ^ (y >> 10);
            let sum = words[place - 16].wrapping_add(low);
            words.push(sum.wrapping_add(words[place - 7]).wrapping_add(high));
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        for (word, step) in words.iter().zip(&*STEPS) {
            let high = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let chosen = (e & f) ^ (!e & g);
            let first = h
                .wrapping_add(high)
                .wrapping_add(chosen)
                .wrapping_add((step >> 32) as u32)
                .wrapping_add(*word);
            let low = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let second = low.wrapping_add((a & b) ^ (a & c) ^ (b & c));
            (h, g, f, e) = (g, f, e, d.wrapping_add(first));
            (d, c, b, a) = (c, b, a, first.wrapping_add(second));
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *sum = sum.wrapping_add(part);
        }
    }
    state.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// SHA-512, or SHA-384 with other first values and a shorter result.
#[expect(clippy::many_single_char_names, reason = "the names of the standard")]
fn sha_of_64_bits(message: &[u8], mut state: [u64; 8]) -> Vec<u8> {
    let bits = (message.len() as u128).wrapping_mul(8);
    for block in padded(message, 128, &bits.to_be_bytes()).chunks_exact(128) {
        let mut words: Vec<u64> = block
            .chunks_exact(8)
            .map(|bytes| u64::from_be_bytes(bytes.try_into().expect("eight bytes")))
            .collect();
        for place in 16..80 {
            let (x, y) = (words[place - 15], words[place - 2]);
            let low = x.rotate_right(1) ^ x.rotate_right(8) ^ (x >> 7);
            let high = y.rotate_right(19) ^ y.rotate_right(61) ^ (y >> 6);
            let sum = words[place - 16].wrapping_add(low);
            words.push(sum.wrapping_add(words[place - 7]).wrapping_add(high));
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        for (word, constant) in words.iter().zip(&*STEPS) {
            let high = e.rotate_right(14) ^ e.rotate_right(18) ^ e.rotate_right(41);
            let chosen = (e & f) ^ (!e & g);
            let first = h
                .wrapping_add(high)
                .wrapping_add(chosen)
                .wrapping_add(*constant)
                .wrapping_add(*word);
            let low = a.rotate_right(28) ^ a.rotate_right(34) ^ a.rotate_right(39);
            let second = low.wrapping_add((a & b) ^ (a & c) ^ (b & c));
            (h, g, f, e) = (g, f, e, d.wrapping_add(first));
            (d, c, b, a) = (c, b, a, first.wrapping_add(second));
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *sum = sum.wrapping_add(part);
        }
    }
    state.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// SHA-224.
pub(crate) fn sha224(message: &[u8]) -> Vec<u8> {
    let mut digest = sha_of_32_bits(
        message,
        std::array::from_fn(|at| root_bits(at + 8, 2) as u32),
    );
    digest.truncate(28);
    digest
}

/// SHA-256.
pub fn sha256(message: &[u8]) -> Vec<u8> {
    sha_of_32_bits(
        message,
        std::array::from_fn(|at| (root_bits(at, 2) >> 32) as u32),
    )
}

/// SHA-384.
pub(crate) fn sha384(message: &[u8]) -> Vec<u8> {
    let mut digest = sha_of_64_bits(message, std::array::from_fn(|at| root_bits(at + 8, 2)));
    digest.truncate(48);
    digest
}

/// SHA-512.
pub(crate) fn sha512(message: &[u8]) -> Vec<u8> {
    sha_of_64_bits(message, std::array::from_fn(|at| root_bits(at, 2)))
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
