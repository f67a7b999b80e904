//! PostgreSQL's hash of bytes: Bob Jenkins's `lookup3`, with a seed.
//!
//! Without a seed (0), its lower half is the hash of 32 bits that the functions without one give.

/// Three words that are mixed.
struct Words(u32, u32, u32);

impl Words {
    fn begin(length: usize, seed: u64) -> Self {
        let start = 0x9e37_79b9_u32
            .wrapping_add(length as u32)
            .wrapping_add(3_923_095);
        let mut words = Self(start, start, start);
        if seed != 0 {
            words.0 = words.0.wrapping_add((seed >> 32) as u32);
            words.1 = words.1.wrapping_add(seed as u32);
            words.mix();
        }
        words
    }

    fn mix(&mut self) {
        let Self(mut a, mut b, mut c) = *self;
        for (left, right, last) in [(4, 6, 8), (16, 19, 4)] {
            a = a.wrapping_sub(c) ^ c.rotate_left(left);
            c = c.wrapping_add(b);
            b = b.wrapping_sub(a) ^ a.rotate_left(right);
            a = a.wrapping_add(c);
            c = c.wrapping_sub(b) ^ b.rotate_left(last);
            b = b.wrapping_add(a);
        }
        *self = Self(a, b, c);
    }

    fn end(self) -> u64 {
        let Self(mut a, mut b, mut c) = self;
        c = (c ^ b).wrapping_sub(b.rotate_left(14));
        a = (a ^ c).wrapping_sub(c.rotate_left(11));
        b = (b ^ a).wrapping_sub(a.rotate_left(25));
        c = (c ^ b).wrapping_sub(b.rotate_left(16));
        a = (a ^ c).wrapping_sub(c.rotate_left(4));
        b = (b ^ a).wrapping_sub(a.rotate_left(14));
        c = (c ^ b).wrapping_sub(b.rotate_left(24));
        (u64::from(b) << 32) | u64::from(c)
    }
}

/// The hash of a number of 32 bits.
pub fn of_word(word: u32, seed: u64) -> u64 {
    let mut words = Words::begin(4, seed);
    words.0 = words.0.wrapping_add(word);
    words.end()
}

/// The hash of bytes.
pub fn of_bytes(bytes: &[u8], seed: u64) -> u64 {
    let mut words = Words::begin(bytes.len(), seed);
    let mut blocks = bytes.chunks_exact(12);
    let word = |bytes: &[u8]| {
        let mut whole = [0; 4];
        whole[..bytes.len()].copy_from_slice(bytes);
        u32::from_le_bytes(whole)
    };
    let add = |words: &mut Words, bytes: &[u8], shift: u32| {
        words.0 = words.0.wrapping_add(word(&bytes[..bytes.len().min(4)]));
        words.1 = words
            .1
            .wrapping_add(word(bytes.get(4..bytes.len().min(8)).unwrap_or_default()));
        let last = word(bytes.get(8..).unwrap_or_default());
        words.2 = words.2.wrapping_add(last << shift);
    };
    for block in &mut blocks {
        add(&mut words, block, 0);
        words.mix();
    }
    // The lowest byte of the last word is that of the length.
    add(&mut words, blocks.remainder(), 8);
    words.end()
}
