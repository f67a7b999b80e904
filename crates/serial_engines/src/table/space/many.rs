//! Insertion of many rows at once: their tuples, then the entries of one index after the other; and
//! the entries of a new index.
//!
//! Each index gets its entries in the order of their keys, so a tree goes to each leaf once. The
//! rows get no hints: whoever reads one first makes it.

use super::TableState;
use crate::index::{OrderedIndex, sort_entries};
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

    /// Fills a new secondary index from the tuples of all rows. In the order of the keys its nodes
    /// are made whole, so that few changes wait in the write set: an entry at a time would drain it
    /// again and again.
    pub(super) fn fill_index<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        number: usize,
        tuples: &[u64],
    ) -> Result<()>
    where
        I: OrderedIndex<M, W>,
    {
        let encoder = &self.table.secondary[number];
        let words = encoder.shape().words;
        let mut entries = Vec::with_capacity(tuples.len() * (words + 1));
        let mut key = KeyBuf::new();
        for &tuple in tuples {
            self.tuples.read(arena, tuple, &mut self.row)?;
            encoder.encode_row(&self.row, &mut key)?;
            entries.extend_from_slice(&key);
            entries.push(tuple);
        }
        sort_entries(&mut entries, words);
        let index = &mut self.secondary[number];
        let Some(taken) = index.fill(arena, writes, words, &entries)? else {
            return Ok(());
        };
        let tuple = entries[taken * (words + 1) + words];
        self.tuples.read(arena, tuple, &mut self.row)?;
        Err(self.table.duplicate(Some(number), &self.row))
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
        sort_entries(&mut entries, words);
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
