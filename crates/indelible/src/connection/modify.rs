//! Changes of rows: lock, look, and put into the write set.
//!
//! Each change locks what it touches before it looks, so what it finds stays until the transaction
//! ends: the row, and each unique key that it takes or frees. A change that fails leaves the write
//! set as it was; an insertion whose key is taken keeps no lock either.

use super::change::{Change, Move, Version};
use super::client::Connection;
use super::interval::Interval;
use super::lists;
use super::read::{RowKey, partition_to_read};
use super::row_locks::{RowLock, Wait, is_busy, lock_unique};
use super::unique::{UniqueKey, unique_keys};
use crate::error::{Error, Result};
use crate::key::IntoKey;
use crate::operations::{check_layout, columns_text};
use crate::row_source::IntoRow;
use crate::table::{Index, Table};
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::StorageError;
use storage::engine::{Direction, Isolation, ScanRange};
use storage::record::{Changes, KeyBuf, KeyEncoder, Row};
use storage::table::Table as Shape;

/// The outcome of [`Connection::lock_key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLock {
    /// The transaction has the lock, and had it not before.
    First,
    /// It had it before.
    Again,
    /// Others have it, and the call was not to wait.
    Busy,
}

impl Connection {
    /// Inserts a row. Waits for transactions that have locked its primary key or one of its unique
    /// keys; where a row has the primary key, only for those with a lock of [`RowLock::Update`].
    ///
    /// # Errors
    ///
    /// [`Error::DuplicateKey`] if one of them is taken, below serializable also by a row that the
    /// snapshot does not show; nothing is locked then that was not before. A serializable
    /// transaction may have seen that there is no such row, so it gets [`Error::Serialization`]
    /// then.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "rows are written at the call, so `&` would be noise"
    )]
    pub fn insert(&mut self, table: &Table, row: impl IntoRow) -> Result<()> {
        self.insert_with(table, &row, false)
    }

    /// As [`Connection::insert`], as the last step before the commit, which may be what finds the
    /// key taken. It saves a look at the table where it is the only change.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "rows are written at the call, so `&` would be noise"
    )]
    pub fn insert_last(&mut self, table: &Table, row: impl IntoRow) -> Result<()> {
        self.insert_with(table, &row, true)
    }

    fn insert_with(&mut self, table: &Table, row: &impl IntoRow, is_last: bool) -> Result<()> {
        self.begin_change(table)?;
        row.lend_row(table, |row| {
            check_layout(&table.entry, row.layout())?;
            let pool = &mut self.open()?.writes.pool;
            let (row, ()) = pool.row(table, |copy| copy.clone_from(row));
            if is_last && self.may_insert_unseen(table)? && self.insert_unseen(table, &row)? {
                return Ok(());
            }
            self.insert_row(table, row)
        })
    }

    /// Whether an insertion may be the first to look whether its key is taken, at the commit: it is
    /// the transaction's only change, and only its primary key has to be unique. With many slots a
    /// partition readers need to know before it what the row was.
    fn may_insert_unseen(&mut self, table: &Table) -> Result<bool> {
        if self.core().has_many_slots() || table.entry.with_unique().is_some() {
            return Ok(false);
        }
        let open = self.open()?;
        Ok(open.isolation == Isolation::ReadCommitted && open.writes.is_empty())
    }

    /// Inserts a row for which nobody looks before the commit; false, and nothing is done, if
    /// others have locked its key.
    fn insert_unseen(&mut self, table: &Table, row: &Arc<Row>) -> Result<bool> {
        row.check_complete()?;
        let mut key = KeyBuf::new();
        table.entry.shape.primary.encode_row(row, &mut key)?;
        if !self.try_lock(table, &key)? {
            return Ok(false);
        }
        self.put(table, key, (None, Some(Arc::clone(row))), None)?;
        self.open()?.writes.set_unseen();
        Ok(true)
    }

    fn insert_row(&mut self, table: &Table, row: Arc<Row>) -> Result<()> {
        let before = self.locks().savepoint();
        let inserted = self.insert_locked(table, row);
        if let Err(Error::DuplicateKey(_)) = &inserted {
            // Others may go on with the row that is in the way.
            lists::release_since(self.locks(), before);
        }
        inserted
    }

    fn insert_locked(&mut self, table: &Table, row: Arc<Row>) -> Result<()> {
        let entry = &*table.entry;
        row.check_complete()?;
        let mut key = KeyBuf::new();
        entry.shape.primary.encode_row(&row, &mut key)?;
        let partition = partition_to_read(table, row.get(entry.shape.def.primary_key[0]))?;
        if !self.lock_free_key(table, &key, partition)? {
            self.note_key(table, &key)?;
            let key = columns_text(&row, &entry.shape.def.primary_key);
            return Err(StorageError::duplicate_key(table.name(), "primary", key).into());
        }
        self.take_unique_keys(table, &key, None, &row)?;
        self.put(table, key, (None, Some(row)), None)
    }

    /// Locks a primary key for an insertion; false if a row has it.
    ///
    /// If others have locked the key, a weaker lock is enough for a look at a row that they neither
    /// insert nor delete. It is given back before the wait for a key without a row: two waiters
    /// would keep each other from it.
    fn lock_free_key(&mut self, table: &Table, key: &KeyBuf, partition: u32) -> Result<bool> {
        if !self.try_lock(table, key)? {
            let before = self.locks().savepoint();
            self.lock(table, key, RowLock::KeyShare, self.wait)?;
            if self.newest_for_insert(table, key, partition)? {
                return Ok(false);
            }
            lists::release_since(self.locks(), before);
            self.lock_for_change(table, key, RowLock::Update, self.wait)?;
        }
        Ok(!self.newest_for_insert(table, key, partition)?)
    }

    /// Locks a primary key for an insertion, unless others have locked it.
    fn try_lock(&mut self, table: &Table, key: &KeyBuf) -> Result<bool> {
        match self.lock_for_change(table, key, RowLock::Update, Wait::Never) {
            Err(error) if is_busy(&error) => Ok(false),
            locked => locked.map(|()| true),
        }
    }

    /// Whether a key is taken. A snapshot does not matter: a unique key is unique at all times.
    fn newest_for_insert(&mut self, table: &Table, key: &KeyBuf, partition: u32) -> Result<bool> {
        let id = table.id();
        let open = self.open()?;
        if let Some(own) = open.writes.version(id, key, open.writes.number()) {
            return Ok(own.is_some());
        }
        if let Some(view) = self.strict_view()?
            && view.has_changed(id, key)?
        {
            // Somebody has inserted or deleted the row since the snapshot.
            let is_there = self.read_committed(table, key, partition)?.is_some();
            return if is_there && self.open()?.isolation != Isolation::Serializable {
                Ok(true)
            } else {
                Err(Error::Serialization {
                    reason: "another transaction has changed the row since this one's snapshot",
                })
            };
        }
        let found = self.read_committed(table, key, partition)?;
        Ok(found.is_some())
    }

    /// Changes columns of the newest row with this primary key, which it locks; false if there is
    /// none. A change of the primary key deletes the row and inserts it under its new key.
    ///
    /// # Errors
    ///
    /// [`Error::DuplicateKey`]; [`Error::Serialization`] above read committed, if the row has
    /// changed since the snapshot.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "keys are written at the call, so `&` would be noise"
    )]
    pub fn update(&mut self, table: &Table, key: impl IntoKey, changes: &Changes) -> Result<bool> {
        self.begin_change(table)?;
        let key = self.row_key(table, key)?;
        self.update_row(table, &key, changes)
    }

    /// As [`Connection::update`], with a key of [`Connection::row_key`].
    pub fn update_at(&mut self, table: &Table, key: &RowKey, changes: &Changes) -> Result<bool> {
        self.begin_change(table)?;
        self.update_row(table, key, changes)
    }

    fn update_row(&mut self, table: &Table, key: &RowKey, changes: &Changes) -> Result<bool> {
        let (key, partition) = key.of(table);
        let entry = &*table.entry;
        check_layout(entry, changes.layout())?;
        let names_key = names_key_of(table, changes);
        let strength = if names_key {
            self.strength_for_seen(table, (key, partition), changes)?
        } else {
            RowLock::NoKeyUpdate
        };
        self.lock_to_change(table, key, strength)?;
        self.note_key(table, key)?;
        let Some(before) = self.newest(table, key, partition, strength)? else {
            return Ok(false);
        };
        let pool = &mut self.open()?.writes.pool;
        let (after, applied) = pool.row(table, |after| {
            after.clone_from(&before);
            changes.apply(after)
        });
        applied?;
        let mut difference = pool.changes(table);
        changes.add_news_for(&before, &mut difference);
        if names_key && names_key_of(table, &difference) {
            // Nothing, unless others have changed the row before it was locked.
            self.lock(table, key, RowLock::Update, self.wait)?;
            if entry.changes_primary_key(&difference) {
                self.move_row(table, key.clone(), before, after)?;
                return Ok(true);
            }
            self.take_unique_keys(table, key, Some(&before), &after)?;
        }
        let versions = (Some(before), Some(after));
        self.put(table, key.clone(), versions, Some(difference))?;
        Ok(true)
    }

    /// The lock that an update needs of the row as it is before it is locked: others may refer to
    /// one whose keys get the values that they have.
    fn strength_for_seen(
        &mut self,
        table: &Table,
        (key, partition): (&KeyBuf, u32),
        changes: &Changes,
    ) -> Result<RowLock> {
        let open = self.open()?;
        let own = open.writes.version(table.id(), key, open.writes.number());
        let latest = open.latest.as_ref();
        let latest = latest.filter(|latest| latest.key == *key && latest.table == table.id());
        let seen = match own.or_else(|| latest.map(|latest| &latest.version)) {
            Some(known) => known.clone(),
            None => self.read_committed(table, key, partition)?,
        };
        let Some(seen) = seen else {
            return Ok(RowLock::Update);
        };
        let mut difference = self.open()?.writes.pool.changes(table);
        changes.add_news_for(&seen, &mut difference);
        Ok(if names_key_of(table, &difference) {
            RowLock::Update
        } else {
            RowLock::NoKeyUpdate
        })
    }

    fn move_row(
        &mut self,
        table: &Table,
        key: KeyBuf,
        before: Arc<Row>,
        after: Arc<Row>,
    ) -> Result<()> {
        let mark = self.mark()?;
        self.free_unique_keys(table, &before)?;
        let moved = Move::Within(Arc::clone(&after));
        self.put_moved(table, key, (Some(before), None), None, moved)?;
        let inserted = self.insert_row(table, after);
        if inserted.is_err() {
            self.roll_back_to(mark)?;
        }
        inserted
    }

    /// Deletes the newest row with this primary key, which it locks; false if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Serialization`] above read committed, if the row has changed since the snapshot.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "keys are written at the call, so `&` would be noise"
    )]
    pub fn delete(&mut self, table: &Table, key: impl IntoKey) -> Result<bool> {
        self.begin_change(table)?;
        let key = self.row_key(table, key)?;
        self.delete_row(table, &key, Move::None)
    }

    /// As [`Connection::delete`], with a key of [`Connection::row_key`].
    pub fn delete_at(&mut self, table: &Table, key: &RowKey) -> Result<bool> {
        self.begin_change(table)?;
        self.delete_row(table, key, Move::None)
    }

    /// As [`Connection::delete`], of a row that the caller inserts into another table:
    /// [`Connection::moved`] tells others that it was moved.
    ///
    /// # Errors
    ///
    /// As [`Connection::delete`].
    #[allow(
        clippy::needless_pass_by_value,
        reason = "keys are written at the call, so `&` would be noise"
    )]
    pub fn delete_to_move(&mut self, table: &Table, key: impl IntoKey) -> Result<bool> {
        self.begin_change(table)?;
        let key = self.row_key(table, key)?;
        self.delete_row(table, &key, Move::Elsewhere)
    }

    fn delete_row(&mut self, table: &Table, key: &RowKey, moved: Move) -> Result<bool> {
        let (key, partition) = key.of(table);
        self.lock_to_change(table, key, RowLock::Update)?;
        self.note_key(table, key)?;
        let Some(before) = self.newest(table, key, partition, RowLock::Update)? else {
            return Ok(false);
        };
        self.free_unique_keys(table, &before)?;
        self.put_moved(table, key.clone(), (Some(before), None), None, moved)?;
        Ok(true)
    }

    fn put(
        &mut self,
        table: &Table,
        key: KeyBuf,
        versions: (Version, Version),
        update: Option<Changes>,
    ) -> Result<()> {
        self.put_moved(table, key, versions, update, Move::None)
    }

    fn put_moved(
        &mut self,
        table: &Table,
        key: KeyBuf,
        (before, after): (Version, Version),
        update: Option<Changes>,
        moved: Move,
    ) -> Result<()> {
        let writes = &mut self.open()?.writes;
        let table = writes.pool.table(table);
        writes.push(Change {
            table,
            key,
            before,
            after,
            update,
            moved,
        });
        Ok(())
    }

    /// Locks the unique keys of a row that is going to be deleted, until it is known whether it is.
    fn free_unique_keys(&mut self, table: &Table, row: &Row) -> Result<()> {
        let Some(shape) = table.entry.with_unique() else {
            return Ok(());
        };
        let mut unique = unique_keys(&shape, row)?.into_iter();
        unique.try_for_each(|unique| self.lock_unique_key(table, unique))
    }

    fn lock_unique_key(&mut self, table: &Table, unique: UniqueKey) -> Result<()> {
        let wait = self.wait.limit();
        let locks = self.locks();
        locks.set_wait_limit(wait);
        lock_unique(locks, table.id(), unique.index, &unique.key)?;
        let writes = &mut self.open()?.writes;
        writes.note_unique(table.id(), unique.index, unique.key);
        Ok(())
    }

    /// Locks a key of an index until the transaction ends, whether a row has it or not. Changes of
    /// rows take no such lock, unless the index is unique: it is for rules about keys that the
    /// caller looks after.
    ///
    /// # Errors
    ///
    /// `LockTimeout`, `Deadlock`; [`Error::NoTransaction`].
    #[allow(
        clippy::needless_pass_by_value,
        reason = "keys are written at the call, so `&` would be noise"
    )]
    pub fn lock_key(&mut self, index: &Index, key: impl IntoKey, wait: Wait) -> Result<KeyLock> {
        self.begin_statement()?;
        let table = index.table();
        table.check(self.core().serial)?;
        // The least key that begins with the values: an index that may hold them several times has
        // the primary key after them.
        let mut encoded = KeyBuf::new();
        key.lend(|values| index.encoder().lower_bound(values, &mut encoded))?;
        let locks = self.locks();
        locks.set_wait_limit(wait.limit());
        match lock_unique(locks, table.id(), index.id, &encoded) {
            Err(error) if wait == Wait::Never && is_busy(&error) => return Ok(KeyLock::Busy),
            locked => locked?,
        }
        let writes = &mut self.open()?.writes;
        if writes.may_have(table.id(), index.id, &encoded) {
            return Ok(KeyLock::Again);
        }
        writes.note_unique(table.id(), index.id, encoded);
        Ok(KeyLock::First)
    }

    /// Locks the unique keys that a row frees and takes, and fails if another row has one of the
    /// latter.
    fn take_unique_keys(
        &mut self,
        table: &Table,
        key: &KeyBuf,
        before: Option<&Row>,
        after: &Row,
    ) -> Result<()> {
        let Some(shape) = table.entry.with_unique() else {
            return Ok(());
        };
        let old = match before {
            Some(before) => unique_keys(&shape, before)?,
            None => Vec::new(),
        };
        let new = unique_keys(&shape, after)?;
        let is_kept = |unique: &UniqueKey, others: &[UniqueKey]| {
            let same = |other: &&UniqueKey| other.number == unique.number;
            let other = others.iter().find(same);
            other.is_some_and(|other| other.key == unique.key)
        };
        for unique in &new {
            if !is_kept(unique, &old) {
                self.take_unique_key(table, &shape, key, after, unique)?;
            }
        }
        for unique in old {
            if !is_kept(&unique, &new) {
                self.lock_unique_key(table, unique)?;
            }
        }
        Ok(())
    }

    /// Locks the keys that rows have in a unique index that is younger than their changes, and
    /// fails if other rows have them. To be done before the commit, by which nobody else may take
    /// them.
    pub(super) fn take_late_keys(&mut self) -> Result<()> {
        let unique_made = self.core().shared.unique_made();
        let writes = &self.open()?.writes;
        if !writes.may_have_late_keys(unique_made) {
            return Ok(());
        }
        let newest = writes.changes().filter_map(|change| {
            let row = change.after.as_ref().filter(|_| writes.is_late(change))?;
            let version = writes.version(change.table.id(), &change.key, writes.number())?;
            let is_newest = version.as_ref().is_some_and(|own| Arc::ptr_eq(own, row));
            is_newest.then(|| (change.table.clone(), change.key.clone(), Arc::clone(row)))
        });
        let newest: Vec<_> = newest.collect();
        for (table, key, row) in newest {
            self.take_unique_keys(&table, &key, None, &row)?;
        }
        self.open()?.writes.set_unique_made(unique_made);
        Ok(())
    }

    fn take_unique_key(
        &mut self,
        table: &Table,
        shape: &Shape,
        key: &KeyBuf,
        row: &Row,
        unique: &UniqueKey,
    ) -> Result<()> {
        self.know_index(table, shape, unique.number)?;
        let writes = &self.open()?.writes;
        let may_be_own = writes.may_have(table.id(), unique.index, &unique.key);
        self.lock_unique_key(table, unique.clone())?;
        let is_own =
            may_be_own && self.has_own(table, &shape.secondary[unique.number], unique, key)?;
        if !is_own && !self.is_taken(table, shape, key, unique)? {
            return Ok(());
        }
        let index = &shape.def.indexes[unique.number];
        let read = table.index(&index.name)?;
        self.note_read(|| Interval {
            table: table.clone(),
            index: Some(read),
            low: unique.key.clone(),
            high: unique.key.clone(),
        })?;
        let key = columns_text(row, &index.columns);
        Err(StorageError::duplicate_key(table.name(), &index.name, key).into())
    }

    /// Notes the keys that changes have given to rows in a unique index that was made after them.
    fn know_index(&mut self, table: &Table, shape: &Shape, number: usize) -> Result<()> {
        let writes = &mut self.open()?.writes;
        let index = shape.def.indexes[number].id;
        if writes.knows_index(table.id(), index) {
            return Ok(());
        }
        let mut keys = Vec::new();
        for (at, change) in writes.changes().enumerate() {
            let Some(row) = &change.after else { continue };
            if change.table.id() == table.id() {
                let mut of_row = unique_keys(shape, row)?.into_iter();
                let own = of_row.find(|unique| unique.number == number);
                keys.extend(own.map(|unique| (at, unique.key)));
            }
        }
        writes.know_index((table.id(), index), keys);
        Ok(())
    }

    /// Whether another row of the write set has a unique key that the transaction has locked
    /// before.
    fn has_own(
        &mut self,
        table: &Table,
        encoder: &KeyEncoder,
        unique: &UniqueKey,
        key: &KeyBuf,
    ) -> Result<bool> {
        let writes = &self.open()?.writes;
        let (mut found, mut failure) = (false, Ok(()));
        let mut other = KeyBuf::new();
        let locked = (table.id(), unique.index, unique.key.clone());
        writes.visit_unique(locked, &mut |primary, version| {
            if let Some(row) = version
                && primary != key
            {
                match encoder.encode_row(row, &mut other) {
                    Ok(()) => found |= other == unique.key,
                    Err(error) => failure = Err(error),
                }
            }
        });
        failure?;
        Ok(found)
    }

    /// Whether another committed row has a unique key, and keeps it in the transaction.
    fn is_taken(
        &mut self,
        table: &Table,
        shape: &Shape,
        key: &KeyBuf,
        unique: &UniqueKey,
    ) -> Result<bool> {
        let first = shape.def.primary_key[0];
        let index = &shape.def.indexes[unique.number];
        let is_everywhere = !table.entry.replicated && !index.columns.contains(&first);
        let partitions = if is_everywhere {
            0..self.core().descriptor.partitions
        } else {
            let partition = partition_to_read(table, unique.first.as_ref())?;
            partition..partition + 1
        };
        let range = ScanRange {
            table: table.id(),
            index: Some(unique.index),
            low: unique.key.clone(),
            high: unique.key.clone(),
            direction: Direction::Forward,
        };
        for partition in partitions {
            let mut holders: Vec<KeyBuf> = Vec::new();
            self.read_in(partition, |engine| {
                let mut failure = Ok(());
                engine.scan(&range, &mut |row| {
                    let mut primary = KeyBuf::new();
                    failure = shape.primary.encode_row(row, &mut primary);
                    holders.push(primary);
                    ControlFlow::Continue(())
                })?;
                Ok(failure?)
            })?;
            let writes = &self.open()?.writes;
            for holder in holders.iter().filter(|holder| *holder != key) {
                match writes.version(table.id(), holder, writes.number()) {
                    None => {
                        self.check_seen(table, holder)?;
                        return Ok(true);
                    }
                    // Its own row, which may have kept the key.
                    Some(Some(own)) => {
                        let mut kept = KeyBuf::new();
                        shape.secondary[unique.number].encode_row(own, &mut kept)?;
                        if kept == unique.key {
                            return Ok(true);
                        }
                    }
                    Some(None) => {}
                }
            }
        }
        Ok(false)
    }

    /// Fails if a serializable transaction has met a row that its snapshot does not show as it is.
    fn check_seen(&mut self, table: &Table, key: &KeyBuf) -> Result<()> {
        if self.open()?.isolation == Isolation::Serializable
            && self.view()?.has_changed(table.id(), key)?
        {
            return Err(Error::Serialization {
                reason: "another transaction has taken the key since this one's snapshot",
            });
        }
        Ok(())
    }
}

/// Whether changes set a column of the primary key or of a unique index.
fn names_key_of(table: &Table, changes: &Changes) -> bool {
    let is_unique = |shape: Arc<Shape>| {
        let unique = shape.def.indexes.iter().filter(|index| index.unique);
        let mut columns = unique.flat_map(|index| &index.columns);
        columns.any(|column| changes.columns().any(|changed| changed == *column))
    };
    table.entry.changes_primary_key(changes) || table.entry.with_unique().is_some_and(is_unique)
}
