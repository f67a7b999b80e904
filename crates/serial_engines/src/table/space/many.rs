//! Insertion of many rows at once: their tuples, then the entries of one index after the other.
//!
//! Each index gets its entries in the order of their keys, so a tree goes to each leaf once. The
//! rows get no hints: whoever reads one first makes it.

use super::TableState;
use crate::index::OrderedIndex;
use pmem::{Arena, Memory};
use storage::Result;
use storage::log::WriteSet;
use storage::record::{KeyBuf, Row};

impl<I> TableState<I> {
    pub(super) fn insert_many<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        rows: &[&Row],
    ) -> Result<()>
    where
        I: OrderedIndex<M, W>,
    {
        let mut tuples = Vec::with_capacity(rows.len());
        self.tuples.insert_many(arena, writes, rows, &mut tuples)?;
        self.add_entries(arena, writes, None, (rows, &tuples))?;
        let secondary = 0..self.secondary.len();
        secondary
            .into_iter()
            .try_for_each(|number| self.add_entries(arena, writes, Some(number), (rows, &tuples)))
    }

    /// Adds the entries of new rows to an index.
    fn add_entries<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        number: Option<usize>,
        (rows, tuples): (&[&Row], &[u64]),
    ) -> Result<()>
    where
        I: OrderedIndex<M, W>,
    {
        let encoder = self.table.encoder(number);
        let words = encoder.shape().words;
        let mut entries = Vec::with_capacity(rows.len() * (words + 1));
        let mut key = KeyBuf::new();
        for (row, tuple) in rows.iter().zip(tuples) {
            encoder.encode_row(row, &mut key)?;
            debug_assert_eq!(key.len(), words, "keys of an index have one length");
            entries.extend_from_slice(&key);
            entries.push(*tuple);
        }
        sort(&mut entries, words);
        let index = match number {
            None => &mut self.primary,
            Some(number) => &mut self.secondary[number],
        };
        let Some(taken) = index.insert_many(arena, writes, words, &entries)? else {
            return Ok(());
        };
        let tuple = entries.get(taken * (words + 1) + words);
        let at = tuples.iter().position(|own| Some(own) == tuple);
        Err(self.table.duplicate(number, rows[at.unwrap_or(0)]))
    }
}

/// Brings entries into the order of their keys.
fn sort(entries: &mut Vec<u64>, words: usize) {
    let mut list: Vec<&[u64]> = entries.chunks_exact(words + 1).collect();
    if list.is_sorted_by(|one, other| one[..words] <= other[..words]) {
        return;
    }
    list.sort_unstable_by(|one, other| one[..words].cmp(&other[..words]));
    *entries = list.concat();
}
