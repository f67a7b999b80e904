//! The write set: what a transaction will change, in ordinary memory until it commits.
//!
//! A log of changes in their order; a long one has a map from each row to its newest. Going back to
//! a mark cuts the log, so it cannot fail and touches nothing that others see. The log is applied
//! as it is: each of its prefixes is free of duplicates, which no other order promises (two rows
//! may swap a unique key over a third value).
//!
//! Invariants:
//! 1. Each row in it is locked, for a change of its content at least, and each unique key that it
//!    takes or frees is locked too.
//! 2. `before` of a row's first change is the newest committed row. Where the set is *unseen*, its
//!    first change is an insertion, and the commit finds out whether there was a row.

use super::by_index::ByIndex;
use super::change::{Change, Version};
use super::pool::Pool;
use super::recent::Recent;
use crate::error::Result;
use crate::table::Index;
use std::collections::{BTreeMap, btree_map};
use std::sync::atomic::Ordering;
use storage::lock::LockSavepoint;
use storage::record::{IndexId, KeyBuf, TableId};

/// A moment of a transaction to which it can
/// [roll back](crate::Connection::roll_back_to).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementSavepoint {
    /// The transaction, in the order of its connection.
    pub(super) transaction: u64,
    /// The write set's length, and the number of the last change before the mark.
    length: usize,
    pub(super) number: u64,
    /// The number of the last unique key that was noted.
    noted: u64,
    pub(super) locks: LockSavepoint,
    /// The number of advisory locks that the transaction had taken.
    pub(super) advisory: usize,
}

struct Entry {
    change: Change,
    /// The row's change before this one.
    previous: Option<usize>,
    /// Counts the changes of the transaction, those that were rolled back included.
    number: u64,
}

/// Longest log that is searched from its end. Maps for so few changes would only be filled.
const SEARCHED_MAX: usize = 16;
/// Longest log that is read whole where it is read by a secondary index.
const READ_WHOLE_MAX: usize = 64;
/// Longest log whose memory is kept for the next transaction.
const KEPT_MAX: usize = 1024;

/// The newest change of each changed row of a table.
#[derive(Default)]
struct Newest {
    /// First changes of rows, as far as their keys ascended; a map of them would take longer than
    /// all else where many rows are inserted.
    ascending: Vec<usize>,
    /// All others, which count before those.
    map: BTreeMap<KeyBuf, usize>,
}

impl Newest {
    fn is_empty(&self) -> bool {
        self.ascending.is_empty() && self.map.is_empty()
    }

    fn find(&self, log: &[Entry], key: &KeyBuf) -> Option<usize> {
        if let Some(at) = self.map.get(key) {
            return Some(*at);
        }
        let key_of = |at: &usize| &log[*at].change.key;
        if self.ascending.last().is_none_or(|last| key_of(last) < key) {
            return None;
        }
        let found = self.ascending.binary_search_by_key(&key, key_of);
        found.ok().map(|place| self.ascending[place])
    }

    /// Notes that a change is the newest one of its row.
    fn note(&mut self, log: &[Entry], at: usize) {
        let key = &log[at].change.key;
        let last = self.ascending.last();
        if last.is_none_or(|last| log[*last].change.key < *key) && !self.map.contains_key(key) {
            self.ascending.push(at);
        } else {
            self.map.insert(key.clone(), at);
        }
    }

    /// Visits the newest changes of rows, those of a range of keys if one is given.
    fn visit(
        &self,
        log: &[Entry],
        keys: Option<(&KeyBuf, &KeyBuf)>,
        mut visit: impl FnMut(&KeyBuf, usize),
    ) {
        let key_of = |at: &usize| &log[*at].change.key;
        let mut ascending = &self.ascending[..];
        if let Some((low, high)) = keys {
            let start = ascending.partition_point(|at| key_of(at) < low);
            let end = ascending.partition_point(|at| key_of(at) <= high);
            ascending = ascending.get(start..end).unwrap_or(&[]);
        }
        for at in ascending {
            let key = key_of(at);
            if self.map.is_empty() || !self.map.contains_key(key) {
                visit(key, *at);
            }
        }
        match keys {
            Some((low, high)) if low <= high => {
                let mut rows = self.map.range(low..=high);
                rows.by_ref().for_each(|(key, at)| visit(key, *at));
            }
            Some(_) => {}
            None => self.map.iter().for_each(|(key, at)| visit(key, *at)),
        }
    }
}

/// A unique key that is noted.
struct NotedKey {
    /// Counts the keys that were noted, those that are forgotten included.
    number: u64,
    /// The changes that take or free it, by their places in the log. Where one has failed or was
    /// rolled back, another change may be there.
    change: usize,
    more: Vec<usize>,
}

impl NotedKey {
    fn changes(&self) -> impl Iterator<Item = usize> {
        [self.change].into_iter().chain(self.more.iter().copied())
    }
}

/// Changes of one transaction; used again by the next one.
#[derive(Default)]
pub(super) struct WriteSet {
    log: Vec<Entry>,
    /// The newest changes of rows, once the log has become too long to be searched.
    newest: Option<BTreeMap<TableId, Newest>>,
    /// Changes in the order of secondary indexes by which they were read.
    by_index: Vec<ByIndex>,
    /// Unique keys that the transaction has locked, or that are those of its changes: rows of the
    /// set have got no others. Some may be here that are neither any more.
    unique_keys: BTreeMap<(TableId, IndexId, KeyBuf), NotedKey>,
    noted: u64,
    /// Unique indexes of which all changes have their keys above. They stay known after a rollback,
    /// which leaves some of these changes.
    unique_indexes: Vec<(TableId, IndexId)>,
    number: u64,
    bytes: u64,
    /// How many unique indexes had been made when the transaction came to its first change, or had
    /// locked the keys of all its changes.
    unique_made: u64,
    /// Whether nobody has looked for the row that is inserted by the first change.
    is_unseen: bool,
    pub(super) pool: Pool,
}

impl WriteSet {
    /// Leaves the rows to those who lock them next.
    pub(super) fn note_committed(&mut self, recent: &Recent) {
        for Entry { change, .. } in &self.log {
            if let Some(row) = recent.note(change) {
                self.pool.keep_row(row);
            }
        }
    }

    /// Forgets everything, and keeps the memory of the last changes.
    pub(super) fn clear(&mut self) {
        for entry in self.log.drain(..) {
            self.pool.keep(entry.change);
        }
        if self.log.capacity() > KEPT_MAX {
            self.log = Vec::new();
        }
        self.newest = None;
        self.by_index.clear();
        self.unique_keys.clear();
        self.unique_indexes.clear();
        self.noted = 0;
        self.number = 0;
        self.bytes = 0;
        self.is_unseen = false;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.by_index.iter().map(ByIndex::bytes).sum::<u64>()
    }

    /// Whether a change is older than a unique index of its table, of so many that were made.
    pub(super) fn may_have_late_keys(&self, unique_made: u64) -> bool {
        let is_late = |change: &Change| self.is_late(change);
        self.unique_made != unique_made && self.changes().any(is_late)
    }

    /// Whether a change may be older than a unique index of its table.
    pub(super) fn is_late(&self, change: &Change) -> bool {
        change.table.entry.unique_made.load(Ordering::Acquire) > self.unique_made
    }

    /// All changes have locked their keys in so many unique indexes.
    pub(super) fn set_unique_made(&mut self, unique_made: u64) {
        self.unique_made = unique_made;
    }

    /// Nobody has looked for the row that is inserted by the first change.
    pub(super) fn set_unseen(&mut self) {
        assert_eq!(self.log.len(), 1, "it is the first change");
        self.is_unseen = true;
    }

    /// Whether the key of the first change, an insertion, may be taken.
    pub(super) fn is_unseen(&self) -> bool {
        self.is_unseen
    }

    /// The changes, in their order.
    pub(super) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.log.iter().map(|entry| &entry.change)
    }

    pub(super) fn push(&mut self, change: Change) {
        self.number += 1;
        self.bytes += change.bytes();
        let previous = self.find(change.table.id(), &change.key);
        self.log.push(Entry {
            change,
            previous,
            number: self.number,
        });
        if self.newest.is_some() {
            self.map(self.log.len() - 1);
        } else if self.log.len() > SEARCHED_MAX {
            (0..self.log.len()).for_each(|at| self.map(at));
        }
    }

    /// Notes that a change is the newest one of its row.
    fn map(&mut self, at: usize) {
        let tables = self.newest.get_or_insert_default();
        let rows = tables.entry(self.log[at].change.table.id()).or_default();
        rows.note(&self.log, at);
    }

    /// The newest change of a row.
    fn find(&self, table: TableId, key: &KeyBuf) -> Option<usize> {
        match &self.newest {
            Some(tables) => tables.get(&table)?.find(&self.log, key),
            None => self
                .log
                .iter()
                .rposition(|entry| entry.change.key == *key && entry.change.table.id() == table),
        }
    }

    /// This moment.
    pub(super) fn mark(
        &self,
        transaction: u64,
        locks: LockSavepoint,
        advisory: usize,
    ) -> StatementSavepoint {
        StatementSavepoint {
            transaction,
            length: self.log.len(),
            number: self.number,
            noted: self.noted,
            locks,
            advisory,
        }
    }

    /// Forgets the changes since a mark, and which unique keys were locked since; false, and
    /// nothing is forgotten, if the transaction has rolled back to an earlier one since.
    pub(super) fn roll_back_to(&mut self, mark: StatementSavepoint) -> bool {
        let last = mark.length.checked_sub(1).map(|at| self.log.get(at));
        // The last change before the mark is still there, or there was none that stayed.
        let is_there =
            last.is_none_or(|entry| entry.is_some_and(|entry| entry.number <= mark.number));
        if !is_there {
            return false;
        }
        if self.noted > mark.noted {
            self.unique_keys.retain(|_, key| {
                key.number <= mark.noted || key.changes().any(|change| change < mark.length)
            });
        }
        // A change that is not looked for is the only one.
        self.is_unseen &= mark.length > 0;
        while self.log.len() > mark.length
            && let Some(Entry {
                change, previous, ..
            }) = self.log.pop()
        {
            self.bytes -= change.bytes();
            for changes in &mut self.by_index {
                changes.take_back(self.log.len(), &change);
            }
            let tables = self.newest.as_mut();
            let Some(rows) = tables.and_then(|tables| tables.get_mut(&change.table.id())) else {
                continue;
            };
            if rows.ascending.last() == Some(&self.log.len()) {
                rows.ascending.pop();
                rows.map.remove(&change.key);
                continue;
            }
            match previous {
                Some(previous) => rows.map.insert(change.key, previous),
                None => rows.map.remove(&change.key),
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
        match &self.newest {
            Some(tables) => tables.get(&table).is_none_or(Newest::is_empty),
            None => self
                .log
                .iter()
                .all(|entry| entry.change.table.id() != table),
        }
    }

    /// The row after the changes up to a number, if one of them has changed it.
    pub(super) fn version(&self, table: TableId, key: &KeyBuf, number: u64) -> Option<&Version> {
        self.version_at(self.find(table, key)?, number)
    }

    fn version_at(&self, newest: usize, number: u64) -> Option<&Version> {
        let at = self.place_at(newest, number)?;
        Some(&self.log[at].change.after)
    }

    /// The place of the change of a row that is the newest one up to a number.
    fn place_at(&self, newest: usize, number: u64) -> Option<usize> {
        let mut at = newest;
        while self.log[at].number > number {
            at = self.log[at].previous?;
        }
        Some(at)
    }

    /// Gets ready for visits of changed rows by a secondary index.
    pub(super) fn order_by(&mut self, index: &Index) -> Result<()> {
        let table = index.table.id();
        if self.log.len() <= READ_WHOLE_MAX || self.is_empty_in(table) {
            return Ok(());
        }
        let mut known = self.by_index.iter();
        let known = known.position(|changes| changes.is_of(table, index.id));
        let at = known.unwrap_or_else(|| {
            self.by_index.push(ByIndex::new(index.clone()));
            self.by_index.len() - 1
        });
        let changes = &mut self.by_index[at];
        let new = self.log[changes.known()..].iter();
        new.map(|entry| &entry.change)
            .try_for_each(|change| changes.add(change))
    }

    /// Visits rows of a table that were changed up to a number: all that have a key of a secondary
    /// index in a range, and others.
    pub(super) fn visit_by(
        &self,
        (table, index): (TableId, IndexId),
        (low, high): (&KeyBuf, &KeyBuf),
        number: u64,
        visit: &mut dyn FnMut(&KeyBuf, &Version),
    ) {
        let mut ordered = self.by_index.iter();
        let ordered = ordered
            .find(|changes| changes.is_of(table, index) && changes.known() == self.log.len());
        let Some(ordered) = ordered else {
            self.visit(table, None, number, visit);
            return;
        };
        for at in ordered.range(low, high) {
            let change = &self.log[at].change;
            let newest = self.find(table, &change.key);
            // A later change may have given the row another key.
            if newest.and_then(|newest| self.place_at(newest, number)) == Some(at) {
                visit(&change.key, &change.after);
            }
        }
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
        // The first change has number 1.
        if number == 0 {
            return;
        }
        let mut visit = |key: &KeyBuf, newest: usize| {
            if let Some(version) = self.version_at(newest, number) {
                visit(key, version);
            }
        };
        let Some(tables) = &self.newest else {
            let is_inside = |key: &KeyBuf| keys.is_none_or(|(low, high)| low <= key && key <= high);
            for (at, Entry { change, .. }) in self.log.iter().enumerate() {
                if change.table.id() == table
                    && is_inside(&change.key)
                    && self.find(table, &change.key) == Some(at)
                {
                    visit(&change.key, at);
                }
            }
            return;
        };
        let Some(rows) = tables.get(&table) else {
            return;
        };
        rows.visit(&self.log, keys, visit);
    }

    /// Whether a row of a table with a key in a range has changed.
    pub(super) fn meets(&self, table: TableId, low: &KeyBuf, high: &KeyBuf) -> bool {
        let mut meets = false;
        match &self.newest {
            Some(tables) => {
                if let Some(rows) = tables.get(&table) {
                    rows.visit(&self.log, Some((low, high)), |_, _| meets = true);
                }
            }
            None => self.visit(table, Some((low, high)), self.number, &mut |_, _| {
                meets = true;
            }),
        }
        meets
    }

    /// Whether a row of the set may have got this unique key.
    pub(super) fn may_have(&self, table: TableId, index: IndexId, key: &KeyBuf) -> bool {
        self.unique_keys.contains_key(&(table, index, key.clone()))
    }

    /// Notes that the transaction has locked a unique key, for the change that comes next.
    pub(super) fn note_unique(&mut self, table: TableId, index: IndexId, key: KeyBuf) {
        self.note_unique_of(self.log.len(), (table, index, key));
    }

    fn note_unique_of(&mut self, change: usize, key: (TableId, IndexId, KeyBuf)) {
        let table = key.0;
        match self.unique_keys.entry(key) {
            btree_map::Entry::Vacant(new) => {
                self.noted += 1;
                new.insert(NotedKey {
                    number: self.noted,
                    change,
                    more: Vec::new(),
                });
            }
            btree_map::Entry::Occupied(known) => {
                let known = known.into_mut();
                let last = *known.more.last().unwrap_or(&known.change);
                let row = |at: usize| self.log.get(at).map(|entry| &entry.change);
                // An earlier change of the same row is enough: it stays at least as long.
                let is_of_row = row(last).zip(row(change)).is_some_and(|(one, other)| {
                    last < change && one.table.id() == table && one.key == other.key
                });
                if last != change && !is_of_row {
                    known.more.push(change);
                }
            }
        }
    }

    /// Whether the keys of all changes in a unique index are noted.
    pub(super) fn knows_index(&self, table: TableId, index: IndexId) -> bool {
        self.unique_indexes.contains(&(table, index))
    }

    /// Notes the keys that changes, by their places in the log, have given to rows in a unique
    /// index. There are some where the index is younger than the changes.
    pub(super) fn know_index(
        &mut self,
        (table, index): (TableId, IndexId),
        keys: Vec<(usize, KeyBuf)>,
    ) {
        for (change, key) in keys {
            self.note_unique_of(change, (table, index, key));
        }
        self.unique_indexes.push((table, index));
    }

    /// Visits the newest versions of the rows that may have a unique key: those whose changes have
    /// taken or freed it.
    pub(super) fn visit_unique(
        &self,
        (table, index, key): (TableId, IndexId, KeyBuf),
        visit: &mut dyn FnMut(&KeyBuf, &Version),
    ) {
        let Some(noted) = self.unique_keys.get(&(table, index, key)) else {
            return;
        };
        for at in noted.changes() {
            let change = self.log.get(at).map(|entry| &entry.change);
            if let Some(change) = change.filter(|change| change.table.id() == table)
                && let Some(version) = self.version(table, &change.key, self.number)
            {
                visit(&change.key, version);
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
mod tests {
    use crate::{Connection, DataType, Error, Isolation, Table, Uniqueness};
    use storage::record::IndexId;

    fn knows(one: &mut Connection, table: &Table, index: IndexId) -> bool {
        one.open().unwrap().writes.knows_index(table.id(), index)
    }

    /// Keys that changes had before their index was made are looked for once, not after each
    /// rollback again; and those that are left are right.
    #[test]
    fn keys_of_earlier_changes_outlive_a_rollback() {
        let (db, _) = crate::model::database(1);
        let table = db.create_table("rows");
        let table = table
            .column("id", DataType::Int64)
            .column("code", DataType::Int64)
            .primary_key(["id"])
            .create()
            .unwrap();
        let mut one = db.connect().unwrap();
        one.begin(Isolation::ReadCommitted).unwrap();
        let insert = |one: &mut Connection, id: i64, code: i64| one.insert(&table, (id, code));
        let set = |one: &mut Connection, id: i64, code: i64| {
            let mut changes = table.changes();
            changes.set(1, code).unwrap();
            assert!(one.update(&table, id, &changes).unwrap());
        };
        for id in 0..20 {
            insert(&mut one, id, id).unwrap();
        }
        set(&mut one, 3, 103);
        let middle = one.mark().unwrap();
        set(&mut one, 4, 104);
        set(&mut one, 4, 204);
        insert(&mut one, 30, 30).unwrap();
        db.create_index(&table, "by_code", ["code"], Uniqueness::Unique)
            .unwrap();
        let index = table.index("by_code").unwrap().id;
        let late = one.mark().unwrap();

        let is_taken = |one: &mut Connection, code: i64| {
            let mark = one.mark().unwrap();
            let inserted = insert(one, 50, code);
            one.roll_back_to(mark).unwrap();
            match inserted {
                Ok(()) => false,
                Err(Error::DuplicateKey(_)) => true,
                Err(error) => panic!("{error}"),
            }
        };
        assert!(!knows(&mut one, &table, index));
        for _ in 0..2 {
            for (code, expected) in [(5, true), (3, false), (103, true), (4, false), (104, false)] {
                assert_eq!(is_taken(&mut one, code), expected, "{code}");
                assert!(knows(&mut one, &table, index));
            }
            assert!(is_taken(&mut one, 204) && is_taken(&mut one, 30));
            set(&mut one, 5, 105);
            assert!(is_taken(&mut one, 105) && !is_taken(&mut one, 5));
            one.roll_back_to(late).unwrap();
        }
        // The row has got the key back that it had when nobody looked for it.
        one.roll_back_to(middle).unwrap();
        assert!(knows(&mut one, &table, index));
        let taken = [3, 4, 30, 103, 104, 204].map(|code| is_taken(&mut one, code));
        assert_eq!(taken, [false, true, false, true, false, false]);
    }
}
