//! Operations of a transaction on rows: find the partition of a key and run the operation there.
//!
//! Point operations go to one partition. A replicated table is read in any partition and written in
//! all of them. A unique index whose columns do not decide the partition is checked in all of them,
//! which locks them all: that is the price of such an index. A statement of several steps that
//! fails after its first one dooms its transaction.

use crate::error::{Error, Result};
use crate::key::IntoKey;
use crate::lock_policy::LockPolicy;
use crate::session::Session;
use crate::table::{Table, TableEntry};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::StorageError;
use storage::engine::{Direction, Engine, Isolation, ScanRange};
use storage::record::{Changes, KeyBuf, Placement, Row, TableId, ValueRef};

impl Session<'_> {
    /// Copies the row with this primary key into `row`; false if there is none.
    #[inline]
    pub(crate) fn get_into(
        &mut self,
        table: &Table,
        key: &impl IntoKey,
        row: &mut Row,
    ) -> Result<bool> {
        self.get_by(table, key, row, |engine, table, key, row| {
            engine.get(table, key, row)
        })
    }

    /// As [`Session::get_into`], for a row that is about to be changed.
    pub(crate) fn get_to_change(
        &mut self,
        table: &Table,
        key: &impl IntoKey,
        row: &mut Row,
    ) -> Result<bool> {
        self.check_writable()?;
        self.get_by(table, key, row, |engine, table, key, row| {
            engine.get_to_change(table, key, row)
        })
    }

    #[inline(always)]
    fn get_by(
        &mut self,
        table: &Table,
        key: &impl IntoKey,
        row: &mut Row,
        get: impl FnOnce(&mut dyn Engine, TableId, &[u64], &mut Row) -> storage::Result<bool>,
    ) -> Result<bool> {
        let entry = table.check(self.core.serial)?;
        check_row(entry, row)?;
        key.lend(|values| {
            let mut encoded = KeyBuf::new();
            entry.shape.primary.encode_values(values, &mut encoded)?;
            let partition = self.partition_to_read(entry, values)?;
            let engine = self.engine(partition)?;
            match get(engine, entry.id, &encoded, row) {
                Ok(found) => {
                    if self.notes.is_some() {
                        self.note_get(entry, &encoded, found.then_some(&*row));
                    }
                    Ok(found)
                }
                Err(error) => Err(self.statement_failed(error)),
            }
        })
    }

    /// Lets the engine of a partition that is held prefetch a row.
    #[inline]
    pub(crate) fn announce(&mut self, table: &Table, key: &impl IntoKey) -> Result<()> {
        let entry = table.check(self.core.serial)?;
        key.lend(|values| {
            let mut encoded = KeyBuf::new();
            entry.shape.primary.encode_values(values, &mut encoded)?;
            let partition = self.partition_to_read(entry, values)?;
            if let Some(engine) = self.held_engine(partition) {
                engine.announce(entry.id, &encoded);
            }
            Ok(())
        })
    }

    /// Looks up several primary keys, those of one partition at once.
    pub(crate) fn get_many<K: IntoKey>(
        &mut self,
        table: &Table,
        keys: &[K],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        let entry = table.check(self.core.serial)?;
        let mut groups: Vec<(u32, Vec<usize>, Vec<KeyBuf>)> = Vec::new();
        for (position, key) in keys.iter().enumerate() {
            let (partition, encoded) = key.lend(|values| {
                let mut encoded = KeyBuf::new();
                entry.shape.primary.encode_values(values, &mut encoded)?;
                Ok::<_, Error>((self.partition_to_read(entry, values)?, encoded))
            })?;
            if let Some(group) = groups.iter_mut().find(|group| group.0 == partition) {
                group.1.push(position);
                group.2.push(encoded);
            } else {
                groups.push((partition, vec![position], vec![encoded]));
            }
        }
        groups.sort_unstable_by_key(|group| group.0);
        for (partition, positions, keys) in &groups {
            let is_recorded = self.notes.is_some();
            let mut rows = Vec::new();
            let mut visit_group = |at: usize, row: Option<&Row>| {
                if is_recorded {
                    rows.push((at, row.cloned()));
                }
                visit(positions[at], row);
            };
            let found = self
                .engine(*partition)?
                .get_many(entry.id, keys, &mut visit_group);
            found.map_err(|error| self.failed(error.into()))?;
            for (at, row) in rows {
                self.note_get(entry, &keys[at], row.as_ref());
            }
        }
        Ok(())
    }

    /// Inserts a row.
    pub(crate) fn insert(&mut self, table: &Table, row: &Row) -> Result<()> {
        self.check_writable()?;
        self.check_memory()?;
        let entry = self.writable(table)?;
        check_row(entry, row)?;
        row.check_complete()?;
        let first = row.get(entry.shape.def.primary_key[0]);
        let inserted = if self.is_beside(entry.place(first)?)? {
            self.insert_beside(table, row)
        } else {
            self.insert_looked_for(entry, row)
        };
        if inserted.is_ok() {
            self.row_changes.add(&table.entry.count, 1);
            if self.notes.is_some() {
                self.note_insert(entry, row);
            }
            if self.savepoints.is_some() {
                self.note_inserted(table, row);
            }
        }
        inserted
    }

    #[cold]
    fn insert_beside(&mut self, table: &Table, row: &Row) -> Result<()> {
        let entry = &*table.entry;
        let primary_key = &entry.shape.def.primary_key;
        let key: Vec<ValueRef<'_>> = primary_key.iter().map(|&column| row.get(column)).collect();
        if self.row_before(table, &key.as_slice())?.is_some() {
            // It fails, and changes nothing.
            return self.insert_placed(entry, row);
        }
        // Its unique keys are locked before they are looked for.
        self.change_beside(table, None, Some(row.clone()), |session| {
            session.insert_looked_for(&table.entry, row)
        })
    }

    /// Inserts a row once its unique keys are looked for in other partitions.
    #[inline]
    fn insert_looked_for(&mut self, entry: &TableEntry, row: &Row) -> Result<()> {
        if self.checks_elsewhere(entry) {
            self.check_unique(entry, row, None)?;
        }
        self.insert_placed(entry, row)
    }

    #[inline]
    fn insert_placed(&mut self, entry: &TableEntry, row: &Row) -> Result<()> {
        let first = row.get(entry.shape.def.primary_key[0]);
        match entry.place(first)? {
            Placement::One(partition) => {
                self.change(partition, |engine| engine.insert(entry.id, row))
            }
            Placement::All => self.everywhere(|session, partition| {
                session.change(partition, |engine| engine.insert(entry.id, row))
            }),
        }
    }

    /// Whether a unique key has to be looked for in other partitions. A connection has done so
    /// under the key's lock.
    #[inline]
    fn checks_elsewhere(&self, entry: &TableEntry) -> bool {
        entry.unique_elsewhere.load(Ordering::Acquire) && !self.is_of_connection
    }

    /// Changes columns of the row with this primary key; false if there is none.
    #[inline]
    pub(crate) fn update(
        &mut self,
        table: &Table,
        key: &impl IntoKey,
        changes: &Changes,
    ) -> Result<bool> {
        self.check_writable()?;
        self.check_memory()?;
        let entry = self.writable(table)?;
        check_layout(entry, changes.layout())?;
        key.lend(|values| {
            let mut encoded = KeyBuf::new();
            entry.shape.primary.encode_values(values, &mut encoded)?;
            if entry.changes_primary_key(changes) {
                return self.move_row(table, values, changes);
            }
            let placement = entry.place(values[0])?;
            let is_beside = self.is_beside(placement)?;
            let before = if is_beside || self.savepoints.is_some() {
                self.row_before(table, &values)?
            } else {
                None
            };
            let run = |session: &mut Self| {
                if session.checks_elsewhere(entry)
                    && !session.check_update(table, values, &encoded, changes)?
                {
                    return Ok(false);
                }
                session.update_placed(entry, placement, &encoded, changes)
            };
            let updated = match &before {
                Some(before) if is_beside => {
                    let mut after = before.clone();
                    changes.apply(&mut after)?;
                    self.change_beside(table, Some(before.clone()), Some(after), run)
                }
                _ => run(self),
            };
            if self.notes.is_some()
                && let Ok(found) = updated
            {
                self.note_update(entry, &encoded, changes, found);
            }
            if self.savepoints.is_some()
                && let (Some(before), Ok(true)) = (before, &updated)
            {
                self.note_changed(table, before);
            }
            updated
        })
    }

    /// Fails if an update would take a unique key that a row of another partition has; false if
    /// there is no row to update.
    #[cold]
    #[inline(never)]
    fn check_update(
        &mut self,
        table: &Table,
        values: &[ValueRef<'_>],
        key: &KeyBuf,
        changes: &Changes,
    ) -> Result<bool> {
        let mut row = table.row();
        if !self.get_to_change(table, &values, &mut row)? {
            return Ok(false);
        }
        changes.apply(&mut row)?;
        self.check_unique(&table.entry, &row, Some(key))?;
        Ok(true)
    }

    #[inline]
    fn update_placed(
        &mut self,
        entry: &TableEntry,
        placement: Placement,
        key: &KeyBuf,
        changes: &Changes,
    ) -> Result<bool> {
        match placement {
            Placement::One(partition) => {
                self.change(partition, |engine| engine.update(entry.id, key, changes))
            }
            Placement::All => self.update_everywhere(entry, key, changes),
        }
    }

    #[cold]
    #[inline(never)]
    fn update_everywhere(
        &mut self,
        entry: &TableEntry,
        key: &KeyBuf,
        changes: &Changes,
    ) -> Result<bool> {
        let mut found = false;
        self.everywhere(|session, partition| {
            found = session.change(partition, |engine| engine.update(entry.id, key, changes))?;
            Ok(())
        })?;
        Ok(found)
    }

    /// An update that changes the primary key: the row is deleted and inserted under its new key.
    #[cold]
    #[inline(never)]
    fn move_row(
        &mut self,
        table: &Table,
        values: &[ValueRef<'_>],
        changes: &Changes,
    ) -> Result<bool> {
        let mut old = table.row();
        if !self.get_to_change(table, &values, &mut old)? {
            return Ok(false);
        }
        let mut new = old.clone();
        changes.apply(&mut new)?;
        if !self.delete(table, &values)? {
            return Ok(false);
        }
        self.without_memory_limit(|session| {
            if let Err(error) = session.insert(table, &new) {
                // The statement must leave no trace; if undoing it fails too, the transaction must
                // not commit.
                if session.insert(table, &old).is_err() {
                    session.doom();
                }
                return Err(error);
            }
            Ok(true)
        })
    }

    /// Inserts the row, or replaces all other values of the row with its primary key. True if it
    /// was inserted.
    pub(crate) fn upsert(&mut self, table: &Table, row: &Row) -> Result<bool> {
        self.check_writable()?;
        let entry = self.writable(table)?;
        check_row(entry, row)?;
        row.check_complete()?;
        let primary_key = &entry.shape.def.primary_key;
        let key: Vec<ValueRef<'_>> = primary_key.iter().map(|&column| row.get(column)).collect();
        let mut changes = table.changes();
        for column in (0..entry.shape.def.columns.len()).filter(|at| !primary_key.contains(at)) {
            changes.set(column, row.get(column))?;
        }
        let found = if changes.is_empty() {
            self.get_into(table, &key.as_slice(), &mut table.row())?
        } else {
            self.update(table, &key.as_slice(), &changes)?
        };
        if found {
            return Ok(false);
        }
        self.insert(table, row)?;
        Ok(true)
    }

    /// Deletes the row with this primary key; false if there is none.
    pub(crate) fn delete(&mut self, table: &Table, key: &impl IntoKey) -> Result<bool> {
        self.check_writable()?;
        self.check_memory()?;
        let entry = self.writable(table)?;
        key.lend(|values| {
            let mut encoded = KeyBuf::new();
            entry.shape.primary.encode_values(values, &mut encoded)?;
            let placement = entry.place(values[0])?;
            let is_beside = self.is_beside(placement)?;
            let before = if is_beside || self.savepoints.is_some() {
                self.row_before(table, &values)?
            } else {
                None
            };
            let run = |session: &mut Self| session.delete_placed(entry, placement, &encoded);
            let deleted = match &before {
                Some(before) if is_beside => {
                    self.change_beside(table, Some(before.clone()), None, run)
                }
                _ => run(self),
            };
            if let Ok(true) = deleted {
                self.row_changes.add(&table.entry.count, -1);
            }
            if self.notes.is_some()
                && let Ok(found) = deleted
            {
                self.note_delete(entry, &encoded, found);
            }
            if self.savepoints.is_some()
                && let (Some(before), Ok(true)) = (before, &deleted)
            {
                self.note_deleted(table, before);
            }
            deleted
        })
    }

    fn delete_placed(
        &mut self,
        entry: &TableEntry,
        placement: Placement,
        key: &KeyBuf,
    ) -> Result<bool> {
        let delete = |engine: &mut dyn Engine| engine.delete(entry.id, key);
        match placement {
            Placement::One(partition) => self.change(partition, delete),
            Placement::All => {
                let mut found = false;
                self.everywhere(|session, partition| {
                    found = session.change(partition, delete)?;
                    Ok(())
                })?;
                Ok(found)
            }
        }
    }

    /// Inserts a row for a connection, which has locked and checked it.
    pub(crate) fn insert_checked(&mut self, table: &Table, row: &Row) -> Result<()> {
        self.insert_placed(&table.entry, row)?;
        self.row_changes.add(&table.entry.count, 1);
        if self.notes.is_some() {
            self.note_insert(&table.entry, row);
        }
        Ok(())
    }

    /// Inserts rows of one table for a connection, as [`Session::insert_checked`].
    pub(crate) fn insert_many_checked(&mut self, table: &Table, rows: &[&Row]) -> Result<()> {
        let entry = &*table.entry;
        if self.core.partitions.len() == 1 {
            self.change(0, |engine| engine.insert_many(entry.id, rows))?;
        } else {
            let mut parts: BTreeMap<u32, Vec<&Row>> = BTreeMap::new();
            for row in rows {
                match entry.place(row.get(entry.shape.def.primary_key[0]))? {
                    Placement::One(partition) => parts.entry(partition).or_default().push(row),
                    Placement::All => self.insert_placed(entry, row)?,
                }
            }
            for (partition, rows) in parts {
                self.change(partition, |engine| engine.insert_many(entry.id, &rows))?;
            }
        }
        self.row_changes
            .add(&entry.count, rows.len().cast_signed() as i64);
        if self.notes.is_some() {
            for row in rows {
                self.note_insert(entry, row);
            }
        }
        Ok(())
    }

    /// Changes a row for a connection, as [`Session::insert_checked`].
    pub(crate) fn update_checked(
        &mut self,
        table: &Table,
        placement: Placement,
        key: &KeyBuf,
        changes: &Changes,
    ) -> Result<bool> {
        let found = self.update_placed(&table.entry, placement, key, changes)?;
        if self.notes.is_some() {
            self.note_update(&table.entry, key, changes, found);
        }
        Ok(found)
    }

    /// Deletes a row for a connection, as [`Session::insert_checked`].
    pub(crate) fn delete_checked(
        &mut self,
        table: &Table,
        placement: Placement,
        key: &KeyBuf,
    ) -> Result<bool> {
        let found = self.delete_placed(&table.entry, placement, key)?;
        if found {
            self.row_changes.add(&table.entry.count, -1);
        }
        if self.notes.is_some() {
            self.note_delete(&table.entry, key, found);
        }
        Ok(found)
    }

    /// The partition in which to read a row of this key.
    #[inline]
    fn partition_to_read(&self, entry: &TableEntry, values: &[ValueRef<'_>]) -> Result<u32> {
        Ok(match entry.place(values[0])? {
            Placement::One(partition) => partition,
            Placement::All => self.any_partition(),
        })
    }

    /// Runs one step of a statement in every partition, in their order.
    fn everywhere(&mut self, mut step: impl FnMut(&mut Self, u32) -> Result<()>) -> Result<()> {
        for partition in 0..self.core.partitions.len() as u32 {
            if let Err(error) = step(self, partition) {
                if partition > 0 {
                    self.doom();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    #[inline]
    fn check_writable(&self) -> Result<()> {
        if self.core.is_read_only() {
            Err(Error::ReadOnly)
        } else {
            Ok(())
        }
    }

    /// The table, if the transaction may write to it.
    #[inline]
    fn writable<'t>(&self, table: &'t Table) -> Result<&'t TableEntry> {
        let entry = table.check(self.core.serial)?;
        if entry.is_managed && !self.unchecked {
            let table = table.name().to_owned();
            return Err(Error::Managed { table });
        }
        Ok(entry)
    }

    /// Fails if another row, in any partition, has the row's key in a unique index whose columns do
    /// not decide the partition. `own` is the primary key of the row that is being changed.
    /// Whatever the isolation, nobody takes the key anywhere before the transaction has ended.
    fn check_unique(&mut self, entry: &TableEntry, row: &Row, own: Option<&KeyBuf>) -> Result<()> {
        let shape = entry.current();
        let first = shape.def.primary_key[0];
        let (mut key, mut primary) = (KeyBuf::new(), KeyBuf::new());
        for (index, encoder) in shape.def.indexes.iter().zip(&shape.secondary) {
            let has_null = index
                .columns
                .iter()
                .any(|&column| row.get(column).is_null());
            if !index.unique || has_null || index.columns.contains(&first) {
                continue;
            }
            encoder.encode_row(row, &mut key)?;
            let range = ScanRange {
                table: entry.id,
                index: Some(index.id),
                low: key.clone(),
                high: key.clone(),
                direction: Direction::Forward,
            };
            for partition in 0..self.core.partitions.len() as u32 {
                let mut taken = Ok(false);
                let scanned = self.scan_for_good(partition, &range, &mut |found| {
                    taken = shape
                        .primary
                        .encode_row(found, &mut primary)
                        .map(|()| own != Some(&primary));
                    ControlFlow::Break(())
                })?;
                scanned.map_err(|error| self.failed(error.into()))?;
                if taken? {
                    let key = columns_text(row, &index.columns);
                    let (table, index) = (&shape.def.name, &index.name);
                    return Err(StorageError::duplicate_key(table, index, key).into());
                }
            }
        }
        Ok(())
    }
}

impl Session<'_> {
    /// Reads a range, and keeps it locked as a serializable transaction does.
    fn scan_for_good(
        &mut self,
        partition: u32,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<storage::Result<()>> {
        let LockPolicy {
            isolation,
            wait_limit,
            ..
        } = self.lock_policy();
        let engine = self.engine(partition)?;
        let isolate = |engine: &mut dyn Engine, isolation| {
            if let Some(sessions) = engine.sessions() {
                sessions.set_isolation(isolation, wait_limit);
            }
        };
        isolate(engine, Isolation::Serializable);
        let scanned = engine.scan(range, visit);
        isolate(engine, isolation);
        Ok(scanned)
    }
}

/// Fails unless the row is of this table.
#[inline]
fn check_row(entry: &TableEntry, row: &Row) -> Result<()> {
    check_layout(entry, row.layout())
}

#[inline]
pub(crate) fn check_layout(
    entry: &TableEntry,
    layout: &Arc<storage::record::TupleLayout>,
) -> Result<()> {
    let expected = &entry.shape.layout;
    if Arc::ptr_eq(layout, expected) || layout == expected {
        return Ok(());
    }
    Err(wrong_layout(entry, layout))
}

#[cold]
#[inline(never)]
fn wrong_layout(entry: &TableEntry, layout: &storage::record::TupleLayout) -> Error {
    Error::Definition {
        name: entry.shape.def.name.clone(),
        problem: format!(
            "the row or changes were made for table `{}`; make them for this table",
            layout.table()
        ),
    }
}

/// Values of some columns, for a message.
pub(crate) fn columns_text(row: &Row, columns: &[usize]) -> String {
    let values: Vec<String> = columns
        .iter()
        .map(|&column| row.get(column).to_string())
        .collect();
    format!("({})", values.join(", "))
}
