//! Bytes of a key, packed into big-endian words.
//!
//! A key is a string of bytes whose order is the order of its values; eight of them make a word,
//! the first being the most significant, so that comparing words as integers compares the bytes.
//! Bytes that are missing in the last words are filled up with zeros (keys, lower bounds) or ones
//! (upper bounds). No byte is staged elsewhere: words are built in a register.
//!
//! UTF-8 has no byte above 244, so the bytes of a text are written plus one, and 0 ends it: the end
//! sorts before anything else and no encoding is a prefix of another. In exact keys bytes 0 and 1
//! become 1 1 and 1 2 instead, and the others are as they are. Bytes are written in groups of
//! eight, zero padded, each followed by how many of them count (0 to 8), or 9 where another group
//! follows: this bounds the size for any content, where escapes would double it.

/// Content bytes in a group of a `bytes` column.
const GROUP_BYTES: usize = 8;
/// Says that another group follows.
const GROUP_FOLLOWS: u8 = 9;
/// One in each byte of a word.
const EACH_BYTE: u64 = 0x0101_0101_0101_0101;

/// Encoded bytes of a `bytes` column with this many bytes.
pub(super) fn grouped_bytes(content_bytes: usize) -> usize {
    content_bytes.div_ceil(GROUP_BYTES).max(1) * (GROUP_BYTES + 1)
}

/// Content bytes of the whole groups that fit in so many encoded bytes.
pub(super) fn whole_groups(encoded_bytes: usize) -> usize {
    encoded_bytes / (GROUP_BYTES + 1) * GROUP_BYTES
}

/// Encoded bytes of a text in an exact key.
pub(super) fn escaped_bytes(content: &[u8]) -> usize {
    content.len() + content.iter().filter(|byte| **byte < 2).count() + 1
}

/// Writes bytes into words.
pub(super) struct WordWriter<'k> {
    words: &'k mut [u64],
    next: usize,
    /// The last bytes written, right aligned; the rest is zero.
    pending: u64,
    /// Number of bytes in `pending`, 0 to 7.
    pending_bytes: u32,
}

impl<'k> WordWriter<'k> {
    pub(super) fn new(words: &'k mut [u64]) -> Self {
        Self {
            words,
            next: 0,
            pending: 0,
            pending_bytes: 0,
        }
    }

    /// Writes the low `bytes` bytes (1 to 8) of `value`; the bits above them are zero.
    #[inline]
    pub(super) fn put(&mut self, value: u64, bytes: u32) {
        let free = 8 - self.pending_bytes;
        if bytes < free {
            self.pending = self.pending << (8 * bytes) | value;
            self.pending_bytes += bytes;
            return;
        }
        let rest = bytes - free;
        self.push(self.pending.checked_shl(8 * free).unwrap_or(0) | value >> (8 * rest));
        self.pending = value & ((1 << (8 * rest)) - 1);
        self.pending_bytes = rest;
    }

    /// Writes a text, whose bytes are UTF-8.
    pub(super) fn put_text(&mut self, content: &[u8]) {
        let rest = self.put_shifted_groups(content);
        let last = rest
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(byte + 1));
        self.put(last << 8, rest.len() as u32 + 1);
    }

    /// Writes the bytes of a text, or of the beginning of one, without an end.
    pub(super) fn put_beginning_of_text(&mut self, content: &[u8]) {
        for byte in self.put_shifted_groups(content) {
            self.put(u64::from(byte + 1), 1);
        }
    }

    /// Returns what is left after the last whole group. No byte of UTF-8 is 255, so none carries.
    fn put_shifted_groups<'c>(&mut self, content: &'c [u8]) -> &'c [u8] {
        let (groups, rest) = content.as_chunks::<8>();
        for group in groups {
            self.put(u64::from_be_bytes(*group) + EACH_BYTE, 8);
        }
        rest
    }

    pub(super) fn put_escaped_text(&mut self, content: &[u8]) {
        let (groups, rest) = content.as_chunks::<8>();
        for group in groups {
            let word = u64::from_be_bytes(*group);
            if has_byte_below_two(word) {
                for byte in group {
                    self.put_escaped(*byte);
                }
            } else {
                self.put(word, 8);
            }
        }
        for byte in rest {
            self.put_escaped(*byte);
        }
        self.put(0, 1);
    }

    pub(super) fn put_padded(&mut self, content: &[u8], length: usize, padding: u8) {
        let (groups, rest) = content.as_chunks::<8>();
        for group in groups {
            self.put(u64::from_be_bytes(*group), 8);
        }
        for byte in rest {
            self.put(u64::from(*byte), 1);
        }
        (content.len()..length).for_each(|_| self.put(u64::from(padding), 1));
    }

    pub(super) fn put_bytes(&mut self, content: &[u8]) {
        let mut groups = content.chunks(GROUP_BYTES);
        let last = groups.next_back().unwrap_or(&[]);
        for group in groups {
            self.put_group(group, GROUP_FOLLOWS);
        }
        self.put_group(last, last.len() as u8);
    }

    /// Writes bytes, at least one group of them, without the last byte of the encoding.
    pub(super) fn put_beginning_of_bytes(&mut self, content: &[u8]) {
        let (groups, _) = content.as_chunks::<GROUP_BYTES>();
        for (place, group) in groups.iter().enumerate() {
            if place > 0 {
                self.put(u64::from(GROUP_FOLLOWS), 1);
            }
            self.put(u64::from_be_bytes(*group), 8);
        }
    }

    /// Fills the remaining words up with bytes that are all `fill` (0 or 0xFF).
    pub(super) fn finish(mut self, fill: u8) {
        let filler = u64::from_ne_bytes([fill; 8]);
        if self.pending_bytes > 0 {
            self.push(
                self.pending << (64 - 8 * self.pending_bytes) | filler >> (8 * self.pending_bytes),
            );
        }
        if let Some(rest) = self.words.get_mut(self.next..) {
            rest.fill(filler);
        }
    }

    fn put_escaped(&mut self, byte: u8) {
        if byte < 2 {
            self.put(0x0101 + u64::from(byte), 2);
        } else {
            self.put(u64::from(byte), 1);
        }
    }

    fn put_group(&mut self, group: &[u8], marker: u8) {
        let mut padded = [0; GROUP_BYTES];
        padded[..group.len()].copy_from_slice(group);
        self.put(u64::from_be_bytes(padded), 8);
        self.put(u64::from(marker), 1);
    }

    /// The caller has checked that each column keeps to its room, so the words suffice.
    fn push(&mut self, word: u64) {
        debug_assert!(
            self.next < self.words.len(),
            "columns keep to their room in a key"
        );
        if let Some(place) = self.words.get_mut(self.next) {
            *place = word;
        }
        self.next += 1;
    }
}

/// Whether one of the eight bytes is 0 or 1.
fn has_byte_below_two(word: u64) -> bool {
    word.wrapping_sub(EACH_BYTE * 2) & !word & (EACH_BYTE << 7) != 0
}

/// Reads bytes from words; `None` where the key ends too early or is no encoding.
pub(super) struct WordReader<'k> {
    words: &'k [u64],
    /// Position of the next byte.
    next: usize,
}

impl<'k> WordReader<'k> {
    pub(super) fn new(words: &'k [u64]) -> Self {
        Self { words, next: 0 }
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let word = self.words.get(self.next / 8)?;
        let byte = (word >> (56 - 8 * (self.next % 8))) as u8;
        self.next += 1;
        Some(byte)
    }

    /// The next `bytes` bytes (1 to 8) as a number.
    pub(super) fn take(&mut self, bytes: u32) -> Option<u64> {
        (0..bytes).try_fold(0, |value, _| Some(value << 8 | u64::from(self.byte()?)))
    }

    pub(super) fn text(&mut self) -> Option<Vec<u8>> {
        let mut content = Vec::new();
        loop {
            match self.byte()? {
                0 => return Some(content),
                byte => content.push(byte - 1),
            }
        }
    }

    pub(super) fn escaped_text(&mut self) -> Option<Vec<u8>> {
        let mut content = Vec::new();
        loop {
            match self.byte()? {
                0 => return Some(content),
                1 => content.push(self.byte()?.checked_sub(1).filter(|byte| *byte < 2)?),
                byte => content.push(byte),
            }
        }
    }

    pub(super) fn padded(&mut self, length: usize, padding: u8) -> Option<Vec<u8>> {
        let mut content = (0..length)
            .map(|_| self.byte())
            .collect::<Option<Vec<u8>>>()?;
        while content.last() == Some(&padding) {
            content.pop();
        }
        Some(content)
    }

    pub(super) fn bytes(&mut self) -> Option<Vec<u8>> {
        let mut content = Vec::new();
        loop {
            let group = self.take(8)?.to_be_bytes();
            let marker = self.byte()?;
            if marker == GROUP_FOLLOWS {
                content.extend_from_slice(&group);
                continue;
            }
            let (counted, padding) = group.split_at_checked(usize::from(marker))?;
            content.extend_from_slice(counted);
            return padding.iter().all(|byte| *byte == 0).then_some(content);
        }
    }

    /// Whether all that follows is zero.
    pub(super) fn rest_is_zero(&mut self) -> bool {
        std::iter::from_fn(|| self.byte()).all(|byte| byte == 0)
    }
}
