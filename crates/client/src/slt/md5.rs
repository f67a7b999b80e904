//! MD5 (RFC 1321), by which files of tests name long results.
//!
//! It tells results apart and protects nothing.

const SHIFTS: [[u32; 4]; 4] = [
    [7, 12, 17, 22],
    [5, 9, 14, 20],
    [4, 11, 16, 23],
    [6, 10, 15, 21],
];

/// The digest in hexadecimal digits.
pub(super) fn md5(data: &[u8]) -> String {
    #[expect(clippy::cast_sign_loss, reason = "an absolute value")]
    let constants: [u32; 64] =
        std::array::from_fn(|at| (((at + 1) as f64).sin().abs() * 4_294_967_296.0) as u32);
    let mut padded = data.to_vec();
    padded.push(0x80);
    padded.resize((data.len() + 9).next_multiple_of(64) - 8, 0);
    padded.extend((data.len() as u64).wrapping_mul(8).to_le_bytes());
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let (blocks, _) = padded.as_chunks::<64>();
    for block in blocks {
        let (words, _) = block.as_chunks::<4>();
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64 {
            let (mix, word) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), 5 * step + 1),
                2 => (b ^ c ^ d, 3 * step + 5),
                _ => (c ^ (b | !d), 7 * step),
            };
            let sum = a
                .wrapping_add(mix)
                .wrapping_add(constants[step])
                .wrapping_add(u32::from_le_bytes(words[word % 16]));
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(SHIFTS[step / 16][step % 4]));
        }
        for (old, new) in state.iter_mut().zip([a, b, c, d]) {
            *old = old.wrapping_add(new);
        }
    }
    let words = state.map(|word| format!("{:08x}", word.swap_bytes()));
    words.concat()
}

#[cfg(test)]
mod tests {
    use super::md5;

    /// The texts of the RFC's appendix, and lengths around the end of a block.
    #[test]
    fn digests_are_those_of_the_standard() {
        assert_eq!(md5(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(md5(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        let digits = "1234567890".repeat(8);
        assert_eq!(md5(digits.as_bytes()), "57edf4a22be3c955ac49da2e2107b67a");
        assert_eq!(md5(&[b'a'; 56]), "3b0c8ac703f828b04c6c197006d17218");
        assert_eq!(md5(&[b'a'; 64]), "014842d480b571495a4a0363793f7367");
    }
}
