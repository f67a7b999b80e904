//! Reads of one row: from the snapshot, or the newest one under a lock.
//!
//! The engine is asked first and the images afterwards, under one hold of the slot. A row under a
//! lock is the newest committed one, because each committer has given its locks back last.

use super::change::{Move, Version};
use super::client::{Connection, Latest};
use super::interval::Interval;
use super::pool::content_of;
use super::row_locks::{RowLock, Wait, is_busy, lock_error, lock_row};
use crate::error::{Error, Result};
use crate::key::IntoKey;
use crate::operations::check_layout;
use crate::session::Session;
use crate::table::Table;
use storage::engine::{Durability, Engine, Isolation};
use storage::record::{KeyBuf, Placement, Row, TableId, ValueRef};

/// Outcome of [`Connection::get_locked`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is no such row. Its key is locked all the same.
    No,
    /// The row is locked, and is the newest one.
    Yes,
    /// Others have locked it, and the call was not to wait.
    Busy,
}

/// The primary key of a row, for several calls that mean the row: encoded, with the partition in
/// which the row is.
#[derive(Clone, Debug)]
pub struct RowKey {
    table: TableId,
    key: KeyBuf,
    partition: u32,
}

impl RowKey {
    /// The encoded key of a row of the table, and the partition in which to read it.
    pub(super) fn of(&self, table: &Table) -> (&KeyBuf, u32) {
        assert_eq!(self.table, table.id(), "a key is used with its table");
        (&self.key, self.partition)
    }
}

/// Where a row was moved that is no longer there, as [`Connection::moved`] tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Moved {
    /// To another primary key: the row there, as the move has left it.
    Within(Row),
    /// To another table ([`Connection::delete_to_move`]).
    Elsewhere,
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "keys are written at the call, so `&` would be noise"
)]
impl Connection {
    /// Copies the row with this primary key into `row`, which comes from [`Table::row`]; false if
    /// there is none. Reads the snapshot and the transaction's own changes, and waits for nobody.
    pub fn get_into(&mut self, table: &Table, key: impl IntoKey, row: &mut Row) -> Result<bool> {
        self.begin_statement()?;
        let (key, partition) = self.locate(table, &key)?;
        check_layout(&table.entry, row.layout())?;
        let id = table.id();
        let open = self.open()?;
        if let Some(own) = open.writes.version(id, &key, open.writes.number()) {
            return Ok(copy(own, row));
        }
        let view = self.view()?;
        self.note_key(table, &key)?;
        self.read_in(partition, |engine| {
            let is_there = engine.get(id, &key, row)?;
            match view.version(id, &key)? {
                Some(image) => Ok(copy(&image, row)),
                None => Ok(is_there),
            }
        })
    }

    /// As [`Connection::get_into`], for a statement that reads nothing else. With read committed it
    /// costs no snapshot then, because one row is of one moment anyway.
    pub fn get_only(&mut self, table: &Table, key: impl IntoKey, row: &mut Row) -> Result<bool> {
        if self.open()?.isolation != Isolation::ReadCommitted {
            return self.get_into(table, key, row);
        }
        self.begin_statement()?;
        let (key, partition) = self.locate(table, &key)?;
        check_layout(&table.entry, row.layout())?;
        let id = table.id();
        let writes = &self.open()?.writes;
        if let Some(own) = writes.version(id, &key, writes.number()) {
            return Ok(copy(own, row));
        }
        self.read_in(partition, |engine| Ok(engine.get(id, &key, row)?))
    }

    /// As [`Connection::get_only`] in a transaction of its own, at read committed, which commits.
    ///
    /// # Errors
    ///
    /// [`Error::TransactionBegun`] if one is open; as [`Connection::commit`].
    pub fn get_alone(
        &mut self,
        table: &Table,
        key: impl IntoKey,
        row: &mut Row,
        durability: Durability,
    ) -> Result<bool> {
        self.check_interrupt()?;
        if self.is_open() {
            return Err(Error::TransactionBegun);
        }
        let (key, partition) = self.locate(table, &key)?;
        check_layout(&table.entry, row.layout())?;
        let mut session = Session::of_connection(self.core(), self.policy())?;
        let is_there = session.engine(partition)?.get(table.id(), &key, row)?;
        session.finish(durability)?;
        Ok(is_there)
    }

    /// The row with this primary key, as [`Connection::get_into`].
    pub fn get(&mut self, table: &Table, key: impl IntoKey) -> Result<Option<Row>> {
        let mut row = table.row();
        Ok(self.get_into(table, key, &mut row)?.then_some(row))
    }

    /// Locks the row with this primary key until the transaction ends, and copies the newest
    /// committed one, or the transaction's own, into `row`.
    ///
    /// # Errors
    ///
    /// [`Error::Serialization`] above read committed, if the row has changed since the snapshot;
    /// `LockTimeout` if others keep it locked; `Deadlock`.
    pub fn get_locked(
        &mut self,
        table: &Table,
        key: impl IntoKey,
        strength: RowLock,
        wait: Wait,
        row: &mut Row,
    ) -> Result<Found> {
        self.begin_statement()?;
        let key = self.row_key(table, key)?;
        self.get_locked_row(table, &key, (strength, wait), row)
    }

    /// As [`Connection::get_locked`], with a key of [`Connection::row_key`].
    pub fn get_locked_at(
        &mut self,
        table: &Table,
        key: &RowKey,
        strength: RowLock,
        wait: Wait,
        row: &mut Row,
    ) -> Result<Found> {
        self.begin_statement()?;
        table.check(self.core().serial)?;
        self.get_locked_row(table, key, (strength, wait), row)
    }

    fn get_locked_row(
        &mut self,
        table: &Table,
        key: &RowKey,
        (strength, wait): (RowLock, Wait),
        row: &mut Row,
    ) -> Result<Found> {
        let (key, partition) = key.of(table);
        check_layout(&table.entry, row.layout())?;
        match self.lock(table, key, strength, wait) {
            Err(error) if wait == Wait::Never && is_busy(&error) => return Ok(Found::Busy),
            locked => locked?,
        }
        self.note_key(table, key)?;
        let newest = if strength == RowLock::KeyShare {
            self.newest_changing(table, key, partition)?
        } else {
            self.newest(table, key, partition, strength)?
        };
        Ok(if copy(&newest, row) {
            Found::Yes
        } else {
            Found::No
        })
    }

    /// Where another transaction has moved the row that the snapshot shows under this primary key;
    /// none if it was not moved, or the statement has read nothing yet. To be asked for a row that
    /// [`Connection::get_locked`] has not found.
    pub fn moved(&mut self, table: &Table, key: impl IntoKey) -> Result<Option<Moved>> {
        let key = self.row_key(table, key)?;
        self.moved_at(table, &key)
    }

    /// As [`Connection::moved`], with a key of [`Connection::row_key`].
    pub fn moved_at(&mut self, table: &Table, key: &RowKey) -> Result<Option<Moved>> {
        let (key, _) = key.of(table);
        let Some(view) = self.known_view()? else {
            return Ok(None);
        };
        Ok(match view.moved(table.id(), key)? {
            Move::None => None,
            Move::Within(row) => Some(Moved::Within((*row).clone())),
            Move::Elsewhere => Some(Moved::Elsewhere),
        })
    }

    /// A primary key for calls that mean one row, such as [`Connection::get_locked_at`] and then
    /// [`Connection::update_at`]: it is encoded once for all of them.
    ///
    /// # Errors
    ///
    /// If the values are none of the key's types.
    pub fn row_key(&self, table: &Table, key: impl IntoKey) -> Result<RowKey> {
        let (key, partition) = self.locate(table, &key)?;
        Ok(RowKey {
            table: table.id(),
            key,
            partition,
        })
    }

    /// The encoded primary key and the partition in which to read it.
    pub(super) fn locate(&self, table: &Table, key: &impl IntoKey) -> Result<(KeyBuf, u32)> {
        let entry = table.check(self.core().serial)?;
        key.lend(|values| {
            let mut encoded = KeyBuf::new();
            entry.shape.primary.encode_values(values, &mut encoded)?;
            Ok((encoded, partition_to_read(table, values[0])?))
        })
    }

    pub(super) fn lock(
        &mut self,
        table: &Table,
        key: &KeyBuf,
        strength: RowLock,
        wait: Wait,
    ) -> Result<()> {
        let (locks, lists) = self.locks_and_lists();
        locks.set_wait_limit(wait.limit());
        lock_row(locks, lists, (table.id(), key), strength)
    }

    /// As [`Connection::lock`], of a row that is going to change: the table is locked for changes
    /// too, which a row that is locked and stays as it is does not need.
    pub(super) fn lock_for_change(
        &mut self,
        table: &Table,
        key: &KeyBuf,
        strength: RowLock,
        wait: Wait,
    ) -> Result<()> {
        self.intend_change(table, wait)?;
        self.lock(table, key, strength, wait)
    }

    fn intend_change(&mut self, table: &Table, wait: Wait) -> Result<()> {
        let locks = self.locks();
        locks.set_wait_limit(wait.limit());
        locks.intend_change(table.id()).map_err(lock_error)
    }

    /// Locks a row that is going to change, unless the look at it before has done so.
    pub(super) fn lock_to_change(
        &mut self,
        table: &Table,
        key: &KeyBuf,
        strength: RowLock,
    ) -> Result<()> {
        self.intend_change(table, self.wait)?;
        let latest = self.open()?.latest.as_ref();
        let is_locked = latest.is_some_and(|latest| {
            latest.strength >= strength && latest.key == *key && latest.table == table.id()
        });
        if is_locked {
            return Ok(());
        }
        self.lock(table, key, strength, self.wait)
    }

    /// The newest version of a row whose content is locked: the transaction's own, or the committed
    /// one. Fails if it has changed since the snapshot and the isolation forbids that.
    pub(super) fn newest(
        &mut self,
        table: &Table,
        key: &KeyBuf,
        partition: u32,
        strength: RowLock,
    ) -> Result<Version> {
        let id = table.id();
        let open = self.open()?;
        if let Some(own) = open.writes.version(id, key, open.writes.number()) {
            return Ok(own.clone());
        }
        if let Some(latest) = &open.latest
            && latest.key == *key
            && latest.table == id
        {
            return Ok(latest.version.clone());
        }
        self.check_unchanged(table, key)?;
        let shared = &self.core().shared;
        let recent = shared.recent.find(table, key);
        let version =
            if recent.is_some() && !self.core().partitions[partition as usize].is_stopped() {
                self.touch(partition)?;
                recent
            } else {
                self.read_committed(table, key, partition)?
            };
        self.open()?.latest = Some(Latest {
            table: id,
            key: key.clone(),
            version: version.clone(),
            strength,
        });
        Ok(version)
    }

    /// As [`Connection::newest`], of a row whose key alone is locked.
    fn newest_changing(&mut self, table: &Table, key: &KeyBuf, partition: u32) -> Result<Version> {
        let open = self.open()?;
        if let Some(own) = open.writes.version(table.id(), key, open.writes.number()) {
            return Ok(own.clone());
        }
        self.check_unchanged(table, key)?;
        self.read_committed(table, key, partition)
    }

    /// Fails if a row has changed since the snapshot and the isolation forbids that.
    fn check_unchanged(&mut self, table: &Table, key: &KeyBuf) -> Result<()> {
        if let Some(view) = self.strict_view()?
            && view.has_changed(table.id(), key)?
        {
            return Err(Error::Serialization {
                reason: "another transaction has changed the row since this one's snapshot",
            });
        }
        Ok(())
    }

    /// The committed row, whatever the snapshot.
    pub(super) fn read_committed(
        &mut self,
        table: &Table,
        key: &KeyBuf,
        partition: u32,
    ) -> Result<Version> {
        let mut row = self.open()?.writes.pool.any_row(table);
        let content = content_of(&mut row);
        let read = |engine: &mut dyn Engine| Ok(engine.get(table.id(), key, content)?);
        if self.read_in(partition, read)? {
            return Ok(Some(row));
        }
        self.open()?.writes.pool.keep_row(row);
        Ok(None)
    }

    /// Notes that a serializable transaction has read a row, or that there is none.
    pub(super) fn note_key(&mut self, table: &Table, key: &KeyBuf) -> Result<()> {
        self.note_read(|| Interval {
            table: table.clone(),
            index: None,
            low: key.clone(),
            high: key.clone(),
        })?;
        Ok(())
    }
}

/// The partition in which to read rows with this first key column.
pub(super) fn partition_to_read(table: &Table, first: ValueRef<'_>) -> Result<u32> {
    Ok(match table.entry.place(first)? {
        Placement::One(partition) => partition,
        Placement::All => 0,
    })
}

/// Copies a version into a row of the caller's; false if it is no row.
fn copy(version: &Version, row: &mut Row) -> bool {
    if let Some(version) = version {
        row.clone_from(version);
    }
    version.is_some()
}
