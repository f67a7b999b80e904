//! The write set: what a transaction will change, in ordinary memory until it commits.
//!
//! A log of changes in their order, and for each row its newest one. Going back to a mark cuts the
//! log, so it cannot fail and touches nothing that others see. The log is applied as it is: each of
//! its prefixes is free of duplicates, which no other order promises (two rows may swap a unique
//! key over a third value).
//!
//! Invariants:
//! 1. Each row in it is locked, for a change of its content at least, and each unique key that it
//!    takes or frees is locked too.
//! 2. `before` of a row's first change is the newest committed row.

use super::change::{Change, Version};
use std::collections::{BTreeMap, BTreeSet};
use storage::record::{IndexId, KeyBuf, TableId};

/// A moment of a transaction to which it can
/// [roll back](crate::Connection::roll_back_to).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementMark {
    /// The transaction, in the order of its connection.
    pub(super) transaction: u64,
    /// The write set's length, and the number of the last change before the mark.
    length: usize,
    number: u64,
}

struct Entry {
    change: Change,
    /// The row's change before this one.
    previous: Option<usize>,
    /// Counts the changes of the transaction, those that were rolled back included.
    number: u64,
}

/// Changes of one transaction.
#[derive(Default)]
pub(super) struct WriteSet {
    log: Vec<Entry>,
    newest: BTreeMap<TableId, BTreeMap<KeyBuf, usize>>,
    /// Unique keys that the transaction has locked: rows of the set have got no others.
    unique_keys: BTreeSet<(TableId, IndexId, KeyBuf)>,
    number: u64,
    bytes: u64,
}

impl WriteSet {
    pub(super) fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The changes, in their order.
    pub(super) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.log.iter().map(|entry| &entry.change)
    }

    pub(super) fn push(&mut self, change: Change) {
        self.number += 1;
        self.bytes += change.bytes();
        let newest = self.newest.entry(change.table.id()).or_default();
        let previous = newest.insert(change.key.clone(), self.log.len());
        self.log.push(Entry {
            change,
            previous,
            number: self.number,
        });
    }

    /// This moment.
    pub(super) fn mark(&self, transaction: u64) -> StatementMark {
        StatementMark {
            transaction,
            length: self.log.len(),
            number: self.number,
        }
    }

    /// Forgets the changes since a mark; false, and nothing is forgotten, if the transaction has
    /// rolled back to an earlier one since.
    pub(super) fn roll_back_to(&mut self, mark: StatementMark) -> bool {
        let last = mark.length.checked_sub(1).map(|at| self.log.get(at));
        // The last change before the mark is still there, or there was none that stayed.
        let is_there =
            last.is_none_or(|entry| entry.is_some_and(|entry| entry.number <= mark.number));
        if !is_there {
            return false;
        }
        while self.log.len() > mark.length
            && let Some(Entry {
                change, previous, ..
            }) = self.log.pop()
        {
            self.bytes -= change.bytes();
            let Some(rows) = self.newest.get_mut(&change.table.id()) else {
                continue;
            };
            match previous {
                Some(previous) => rows.insert(change.key, previous),
                None => rows.remove(&change.key),
            };
        }
        true
    }

    /// The number of the newest change, for reads that are to see no later one.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether no row of the table has changed.
    pub(super) fn is_empty_in(&self, table: TableId) -> bool {
        self.newest.get(&table).is_none_or(BTreeMap::is_empty)
    }

    /// The row after the changes up to a number, if one of them has changed it.
    pub(super) fn version(&self, table: TableId, key: &KeyBuf, number: u64) -> Option<&Version> {
        self.version_at(*self.newest.get(&table)?.get(key)?, number)
    }

    fn version_at(&self, newest: usize, number: u64) -> Option<&Version> {
        let mut entry = &self.log[newest];
        while entry.number > number {
            entry = &self.log[entry.previous?];
        }
        Some(&entry.change.after)
    }

    /// Visits the rows of a table that were changed up to a number; only those with primary keys in
    /// a range, if one is given.
    pub(super) fn visit(
        &self,
        table: TableId,
        keys: Option<(&KeyBuf, &KeyBuf)>,
        number: u64,
        visit: &mut dyn FnMut(&KeyBuf, &Version),
    ) {
        let Some(rows) = self.newest.get(&table) else {
            return;
        };
        let visit = |(key, newest): (&KeyBuf, &usize)| {
            if let Some(version) = self.version_at(*newest, number) {
                visit(key, version);
            }
        };
        match keys {
            Some((low, high)) => rows.range(low..=high).for_each(visit),
            None => rows.iter().for_each(visit),
        }
    }

    /// Whether a row of the set may have got this unique key.
    pub(super) fn may_have(&self, table: TableId, index: IndexId, key: &KeyBuf) -> bool {
        self.unique_keys.contains(&(table, index, key.clone()))
    }

    /// Notes that the transaction has locked a unique key.
    pub(super) fn note_unique(&mut self, table: TableId, index: IndexId, key: KeyBuf) {
        self.unique_keys.insert((table, index, key));
    }
}
