//! Looking rows up by their primary keys: by a hint, or else in the index.
//!
//! A row that the open transaction has inserted or deleted has no hint, so one that is found by a
//! hint needs no look at the writes to the index that are not in place yet.

use super::TableState;
use crate::index::OrderedIndex;
use pmem::{Arena, Memory};
use storage::Result;
use storage::log::WriteSet;
use storage::record::{KeyBuf, key_hash};

/// Keys that are looked up at once.
pub(super) const TOGETHER: usize = 16;

impl<I> TableState<I> {
    /// The tuple with this primary key, with all of its writes in place. If the transaction
    /// `learns`, one that the index has found gets a hint.
    #[inline]
    pub(super) fn locate<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        key: &[u64],
        learns: bool,
    ) -> Result<Option<u64>>
    where
        I: OrderedIndex<M, W>,
    {
        let hash = key_hash(key);
        let tuple = match self.hinted(arena, hash, key) {
            Some(tuple) => tuple,
            None => match self.search(arena, writes, hash, key, learns)? {
                Some(tuple) => tuple,
                None => return Ok(None),
            },
        };
        writes.visible(arena, tuple)?;
        debug_assert!(
            !writes.is_touched(tuple),
            "a row is found whose writes are not in place"
        );
        Ok(Some(tuple))
    }

    /// The tuple with this primary key that a hint names.
    #[inline]
    fn hinted<M: Memory>(&self, arena: &Arena<M>, hash: u64, key: &[u64]) -> Option<u64> {
        self.hints.candidates(hash).find(|&tuple| {
            self.tuples.prefetch(arena, tuple);
            self.tuples.has_key(arena, tuple, &self.table.primary, key)
        })
    }

    fn search<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        hash: u64,
        key: &[u64],
        learns: bool,
    ) -> Result<Option<u64>>
    where
        I: OrderedIndex<M, W>,
    {
        writes.visible(arena, self.primary.identity())?;
        let found = self.primary.get(arena, key)?;
        if let Some(tuple) = found.filter(|_| learns) {
            self.hint::<M, W>(arena, hash, tuple);
        }
        Ok(found)
    }

    /// As [`TableState::locate`], for several keys; their tuples are prefetched.
    pub(super) fn locate_many<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        keys: &[KeyBuf],
        found: &mut [Option<u64>; TOGETHER],
        learns: bool,
    ) -> Result<()>
    where
        I: OrderedIndex<M, W>,
    {
        debug_assert!(keys.len() <= TOGETHER, "each key has a place for its tuple");
        let mut hashes = [0; TOGETHER];
        for (key, hash) in keys.iter().zip(&mut hashes) {
            *hash = key_hash(key);
            self.hints.prefetch(*hash);
        }
        for hash in &hashes[..keys.len()] {
            self.prefetch(arena, *hash);
        }
        let (mut rest, mut places) = (Vec::new(), Vec::new());
        for (place, key) in keys.iter().enumerate() {
            found[place] = self.hinted(arena, hashes[place], key);
            if found[place].is_none() {
                rest.push(&**key);
                places.push(place);
            }
        }
        if !rest.is_empty() {
            writes.visible(arena, self.primary.identity())?;
            let mut values = [None; TOGETHER];
            self.primary
                .get_many(arena, &rest, &mut values[..rest.len()])?;
            for (place, value) in places.into_iter().zip(values) {
                found[place] = value;
                if let Some(tuple) = value {
                    self.tuples.prefetch(arena, tuple);
                    if learns {
                        self.hint::<M, W>(arena, hashes[place], tuple);
                    }
                }
            }
        }
        for tuple in found.iter().flatten() {
            writes.visible(arena, *tuple)?;
        }
        Ok(())
    }

    /// Asks for the rows that the hints of a hash name.
    #[inline]
    pub(super) fn prefetch<M: Memory>(&self, arena: &Arena<M>, hash: u64) {
        for tuple in self.hints.candidates(hash) {
            self.tuples.prefetch(arena, tuple);
        }
    }

    /// Notes where a row lies that is committed.
    #[inline]
    pub(super) fn hint<M: Memory, W>(&mut self, arena: &Arena<M>, hash: u64, tuple: u64)
    where
        I: OrderedIndex<M, W>,
    {
        let primary = &self.primary;
        let estimate = || primary.estimate(arena).unwrap_or(0);
        self.hints.insert(hash, tuple, arena.pool_bytes(), estimate);
    }

    /// Notes each hint that names no row; `found` are the keys and tuples of all rows.
    pub(super) fn check_hints(&self, found: &[(KeyBuf, u64)], damage: &mut Vec<String>) {
        let mut tuples: Vec<u64> = found.iter().map(|(_, tuple)| *tuple).collect();
        tuples.sort_unstable();
        let wrong = |tuple: &u64| tuples.binary_search(tuple).is_err();
        damage.extend(self.hints.blocks().filter(wrong).map(|tuple| {
            format!("a hint in memory names offset {tuple}, where none of its rows lies")
        }));
    }
}
