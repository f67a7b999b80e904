//! Lines of durable memory that a transaction touches: the list of those to flush, and a quick
//! check whether one has pending changes.
//!
//! A transaction asks for the pending form of a word far more often than it has one.
//! [`PendingLines`] is a filter over lines: a line that was added is always found, another one
//! seldom, and then the list of changes is searched without success.

use super::nv_record::LINE;

const WORDS: usize = 16;

/// A filter of lines.
#[derive(Debug, Default)]
pub(super) struct PendingLines {
    words: [u64; WORDS],
    is_used: bool,
}

impl PendingLines {
    /// Adds the lines of a range.
    #[inline]
    pub(super) fn add(&mut self, offset: u64, bytes: usize) {
        self.is_used = true;
        let mut line = offset / LINE as u64;
        while line * (LINE as u64) < offset + bytes as u64 {
            let (word, bit) = Self::place(line);
            self.words[word] |= bit;
            line += 1;
        }
        debug_assert!(self.may_have(offset), "a line that was added is found");
    }

    /// False if the line that `offset` lies in was not added.
    #[inline]
    pub(super) fn may_have(&self, offset: u64) -> bool {
        let (word, bit) = Self::place(offset / LINE as u64);
        self.words[word] & bit != 0
    }

    pub(super) fn clear(&mut self) {
        if self.is_used {
            *self = Self::default();
        }
    }

    #[inline]
    fn place(line: u64) -> (usize, u64) {
        let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        ((hash >> 6) as usize, 1 << (hash & 63))
    }
}

/// Adds the lines of a range to `lines` unless they are there.
pub(super) fn push_lines(lines: &mut Vec<u64>, offset: u64, bytes: usize) {
    let mut line = offset & !(LINE as u64 - 1);
    while line < offset + bytes as u64 {
        // The lists are short (a drain has at most a few hundred lines), and the newest lines are
        // the likeliest twins.
        if lines.last() != Some(&line) {
            let newest = lines.last_chunk::<16>().map_or(&lines[..], |newest| newest);
            if newest.iter().filter(|&&known| known == line).count() == 0 {
                lines.push(line);
            }
        }
        line += LINE as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_added_is_found_and_few_others_are() {
        let mut pending = PendingLines::default();
        for change in 0..40_u64 {
            pending.add(change * 4096 + 60, 8);
        }
        for change in 0..40_u64 {
            assert!(pending.may_have(change * 4096 + 8));
            assert!(pending.may_have(change * 4096 + 64));
        }
        let wrong = (0..1000_u64)
            .filter(|line| pending.may_have((1 << 30) + line * 64))
            .count();
        assert!(wrong < 200, "{wrong} of 1000");
        pending.clear();
        assert!(!pending.may_have(64));
    }
}
