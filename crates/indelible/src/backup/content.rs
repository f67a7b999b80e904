//! Row counts and content checksums.
//!
//! A table's sum is the sum of its rows' hashes, so it depends on the rows and not on their order,
//! which differs with the number of partitions. Whole images are hashed, so values that changed
//! places between rows change the sum. It guards against mistakes and damage, not against forgers.

use storage::record::{IndexId, KeyRule, Partitioning, TableDef, TableId};

/// Odd, with bits all over: the golden ratio.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Content of a table, as counts and sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// Rows.
    pub(super) rows: u64,
    /// Sum of the rows' hashes.
    pub(super) sum: u64,
}

impl Content {
    /// Adds a row.
    pub(super) fn add(&mut self, image: &[u8]) {
        self.rows += 1;
        self.sum = self.sum.wrapping_add(hash(image));
    }
}

/// Content of a database, as counts and sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) tables: u64,
    pub(super) indexes: u64,
    pub(super) rows: u64,
    /// In copies of pages.
    pub(super) pages: u64,
    pub(super) sum: u64,
    /// Bytes of the rows' images, or of the pages.
    pub(super) plain_bytes: u64,
}

impl Totals {
    /// Adds a page.
    pub(super) fn add_page(&mut self, entry: &[u8]) {
        self.pages += 1;
        self.sum = self.sum.wrapping_add(hash(entry));
        self.plain_bytes += entry.len() as u64;
    }

    /// Adds a complete table.
    pub(super) fn add(&mut self, def: &TableDef, content: Content) {
        self.tables += 1;
        self.indexes += def.indexes.len() as u64;
        self.rows += content.rows;
        let table = hash(&describe(def)) ^ content.sum.wrapping_mul(MULTIPLIER);
        self.sum = self.sum.wrapping_add(mix(table ^ content.rows));
    }
}

/// The part of a definition that is the same in every copy: without the numbers, the key of
/// the hash in its keys, and the rule of partitioning, which depends on the number of partitions.
fn describe(def: &TableDef) -> Vec<u8> {
    let mut common = def.clone();
    common.id = TableId(0);
    common.partitioning = Partitioning::Hash;
    common.replaces = None;
    if let KeyRule::Truncated { hash_key } = &mut common.keys {
        *hash_key = 0;
    }
    for index in &mut common.indexes {
        index.id = IndexId(0);
    }
    common.encode()
}

/// A hash of bytes, eight at a time.
fn hash(bytes: &[u8]) -> u64 {
    let mut state = bytes.len() as u64;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    for word in words.iter().chain([&last]) {
        state = (state.rotate_left(23) ^ u64::from_le_bytes(*word)).wrapping_mul(MULTIPLIER);
    }
    mix(state)
}

/// Mixes the bits, so that each affects all others.
fn mix(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(rows: &[&[u8]]) -> Content {
        let mut content = Content::default();
        for row in rows {
            content.add(row);
        }
        content
    }

    #[test]
    fn the_order_of_rows_does_not_matter_and_everything_else_does() {
        let whole = content(&[b"one row", b"another row of more bytes"]);
        assert_eq!(whole, content(&[b"another row of more bytes", b"one row"]));
        for other in [
            content(&[b"one row"]),
            content(&[b"one row", b"another row of more bytez"]),
            content(&[b"one row\0", b"another row of more bytes"]),
            content(&[b"another", b"one row row of more bytes"]),
        ] {
            assert_ne!(whole, other);
        }
    }
}
