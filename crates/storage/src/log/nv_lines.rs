//! Lines of durable memory that transactions touch: the lists of those to flush, and a quick check
//! whether one has pending changes.
//!
//! [`LineSet`] has the lines of several transactions, each once. A transaction asks for the pending
//! form of a word far more often than it has one. [`PendingLines`] is a filter over lines: a line
//! that was added is always found, another one seldom, and then the list of changes is searched
//! without success.

use super::nv_record::LINE;

const WORDS: usize = 16;

/// Places of a [`LineSet`], far more than its lines, so that a search is short.
const PLACES: usize = 512;
/// Lines from which a [`LineSet`] is long: one more commit does not fill it.
const LINES_LONG: usize = 128;

/// A set of lines.
#[derive(Debug)]
pub(super) struct LineSet {
    /// Lines in the order of their hashes, 0 where there is none. No line is 0: the pool's header
    /// is there.
    places: Box<[u64; PLACES]>,
    lines: Vec<u64>,
}

impl Default for LineSet {
    fn default() -> Self {
        Self {
            places: Box::new([0; PLACES]),
            lines: Vec::new(),
        }
    }
}

impl LineSet {
    /// Adds the lines of a range.
    #[inline]
    pub(super) fn add(&mut self, offset: u64, bytes: usize) {
        for line in lines_of(offset, bytes) {
            let place = self.place(line);
            if self.places[place] == 0 {
                assert!(self.lines.len() < PLACES / 4 * 3, "a set of lines is full");
                self.places[place] = line;
                self.lines.push(line);
            }
        }
    }

    /// Whether the set has a line of a range.
    #[inline]
    pub(super) fn meets(&self, offset: u64, bytes: usize) -> bool {
        !self.lines.is_empty()
            && lines_of(offset, bytes).any(|line| self.places[self.place(line)] == line)
    }

    /// All lines, in the order in which they were added.
    pub(super) fn lines(&self) -> &[u64] {
        &self.lines
    }

    pub(super) fn is_long(&self) -> bool {
        self.lines.len() >= LINES_LONG
    }

    pub(super) fn clear(&mut self) {
        if !self.lines.is_empty() {
            self.places.fill(0);
            self.lines.clear();
        }
    }

    /// Where a line is, or where it would be.
    #[inline]
    fn place(&self, line: u64) -> usize {
        let hash = (line / LINE as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut place = hash as usize % PLACES;
        while self.places[place] != 0 && self.places[place] != line {
            place = (place + 1) % PLACES;
        }
        place
    }
}

/// Offsets of the lines of a range.
fn lines_of(offset: u64, bytes: usize) -> impl Iterator<Item = u64> {
    let first = offset & !(LINE as u64 - 1);
    (first..offset + bytes as u64).step_by(LINE)
}

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
    fn a_set_has_each_line_once() {
        let mut set = LineSet::default();
        for _ in 0..2 {
            for change in 0..100_u64 {
                set.add(4096 + change * 320 + 60, 8);
            }
        }
        assert_eq!(set.lines().len(), 200);
        assert_eq!(set.lines()[..2], [4096, 4160]);
        assert!(set.is_long());
        assert!(set.meets(4100, 1) && set.meets(4000, 100) && !set.meets(4224, 64));
        set.clear();
        assert!(set.lines().is_empty() && !set.meets(4100, 1) && !set.is_long());
    }

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
