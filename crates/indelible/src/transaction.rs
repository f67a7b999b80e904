//! Transactions as a caller sees them.
//!
//! A [`Transaction`] reads and writes; a [`Reader`] has no method that writes. Both hold the
//! partitions that they have touched, or their locks there, until they end. So they read as if they
//! ran alone, unless a weaker isolation was chosen. A transaction that is dropped is undone.
//!
//! A failed statement leaves no trace and the transaction may go on, unless
//! [`Error::advice`](crate::Error::advice) says otherwise; after such an error a commit fails and
//! undoes everything.

use crate::error::Result;
use crate::key::{IntoKey, IntoKeyRange};
use crate::row_source::IntoRow;
use crate::savepoint::Savepoint;
use crate::session::Session;
use crate::table::{Index, Table};
use std::ops::ControlFlow;
use storage::engine::{Direction, Durability};
use storage::record::{Changes, Row};

/// A transaction that reads and writes. Belongs to the thread that began it.
pub struct Transaction<'db> {
    pub(crate) session: Session<'db>,
    pub(crate) durability: Durability,
}

/// A transaction that only reads.
pub struct Reader<'db> {
    pub(crate) session: Session<'db>,
}

macro_rules! reads {
    () => {
        /// The row with this primary key.
        pub fn get(&mut self, table: &Table, key: impl IntoKey) -> Result<Option<Row>> {
            let mut row = table.row();
            Ok(self.session.get_into(table, &key, &mut row)?.then_some(row))
        }

        /// Copies the row with this primary key into `row`, which comes from [`Table::row`]; false
        /// if there is none. Allocates nothing unless the row has long columns for which `row` has
        /// no room yet.
        #[inline]
        pub fn get_into(
            &mut self,
            table: &Table,
            key: impl IntoKey,
            row: &mut Row,
        ) -> Result<bool> {
            self.session.get_into(table, &key, row)
        }

        /// Looks up several primary keys at once, so that their cache misses overlap: calls `visit`
        /// once for each key, with its position in `keys`. Keys of one partition come in their
        /// order.
        pub fn get_many<K: IntoKey>(
            &mut self,
            table: &Table,
            keys: &[K],
            mut visit: impl FnMut(usize, Option<&Row>),
        ) -> Result<()> {
            self.session.get_many(table, keys, &mut visit)
        }

        /// Visits the rows of a range of the primary key in its order, until `visit` breaks.
        ///
        /// Contents of over 64 bytes that begin with the same 47 are in no particular order among
        /// themselves, unless the table has [exact keys](crate::KeyRule::Exact).
        pub fn scan(
            &mut self,
            table: &Table,
            range: impl IntoKeyRange,
            direction: Direction,
            mut visit: impl FnMut(&Row) -> ControlFlow<()>,
        ) -> Result<()> {
            self.session.scan(table, &range, direction, &mut visit)
        }

        /// Visits the rows of a range of a secondary index in its order, until `visit` breaks. Rows
        /// of equal index columns come in the order of their primary keys.
        pub fn scan_index(
            &mut self,
            index: &Index,
            range: impl IntoKeyRange,
            direction: Direction,
            mut visit: impl FnMut(&Row) -> ControlFlow<()>,
        ) -> Result<()> {
            self.session
                .scan_index(index, &range, direction, &mut visit)
        }

        /// The rows of a range of the primary key, smallest key first.
        pub fn collect(&mut self, table: &Table, range: impl IntoKeyRange) -> Result<Vec<Row>> {
            let mut rows = Vec::new();
            self.session
                .scan(table, &range, Direction::Forward, &mut |row| {
                    rows.push(row.clone());
                    ControlFlow::Continue(())
                })?;
            Ok(rows)
        }

        /// The rows whose index columns have these values, or begin with them.
        pub fn find(&mut self, index: &Index, key: impl IntoKey) -> Result<Vec<Row>> {
            let mut rows = Vec::new();
            let range = crate::key::Prefix(key);
            self.session
                .scan_index(index, &range, Direction::Forward, &mut |row| {
                    rows.push(row.clone());
                    ControlFlow::Continue(())
                })?;
            Ok(rows)
        }

        /// Number of rows in a range of the primary key.
        pub fn count(&mut self, table: &Table, range: impl IntoKeyRange) -> Result<u64> {
            let mut rows = 0;
            self.session
                .scan(table, &range, Direction::Forward, &mut |_| {
                    rows += 1;
                    ControlFlow::Continue(())
                })?;
            Ok(rows)
        }
    };
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "keys are written at the call, so `&` would be noise"
)]
impl Reader<'_> {
    reads!();
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "keys and rows are written at the call, so `&` would be noise"
)]
impl Transaction<'_> {
    reads!();

    /// As [`Transaction::get`], for a row that the transaction is about to change. Only one of the
    /// concurrent transactions gets a row in this way at a time, so two that read and then change
    /// it wait for each other instead of causing a deadlock.
    pub fn get_for_update(&mut self, table: &Table, key: impl IntoKey) -> Result<Option<Row>> {
        let mut row = table.row();
        let found = self.get_into_for_update(table, key, &mut row)?;
        Ok(found.then_some(row))
    }

    /// As [`Transaction::get_into`], for a row that the transaction is about to change: see
    /// [`Transaction::get_for_update`].
    #[inline]
    pub fn get_into_for_update(
        &mut self,
        table: &Table,
        key: impl IntoKey,
        row: &mut Row,
    ) -> Result<bool> {
        self.session.get_to_change(table, &key, row)
    }

    /// Inserts a row; `DuplicateKey` if its primary key or a unique index key is taken.
    pub fn insert(&mut self, table: &Table, row: impl IntoRow) -> Result<()> {
        row.lend_row(table, |row| self.session.insert(table, row))
    }

    /// Changes columns of the row with this primary key; false if there is none. A change of the
    /// primary key moves the row, which costs a delete and an insert.
    #[inline]
    pub fn update(&mut self, table: &Table, key: impl IntoKey, changes: &Changes) -> Result<bool> {
        self.session.update(table, &key, changes)
    }

    /// Inserts a row, or replaces all other values of the row with its primary key. True if it was
    /// inserted.
    pub fn upsert(&mut self, table: &Table, row: impl IntoRow) -> Result<bool> {
        row.lend_row(table, |row| self.session.upsert(table, row))
    }

    /// Deletes the row with this primary key; false if there is none.
    #[inline]
    pub fn delete(&mut self, table: &Table, key: impl IntoKey) -> Result<bool> {
        self.session.delete(table, &key)
    }

    /// A moment of the transaction to which it can [go back](Transaction::rollback_to). From the
    /// first one on, each change keeps the old row in DRAM; updates and deletions read it for that.
    ///
    /// ```
    /// # use indelible::{DataType, Database, Options};
    /// # fn main() -> indelible::Result<()> {
    /// # let directory =
    /// #     std::env::temp_dir().join(format!("indelible-savepoint-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&directory);
    /// # let db = Database::create(&directory, &Options::new())?;
    /// # let orders = db
    /// #     .create_table("orders")
    /// #     .column("id", DataType::Int64)
    /// #     .primary_key(["id"])
    /// #     .create()?;
    /// db.transaction(|t| {
    ///     t.insert(&orders, (1_i64,))?;
    ///     let before_the_gift = t.savepoint();
    ///     t.insert(&orders, (2_i64,))?;
    ///     t.rollback_to(&before_the_gift)?;
    ///     t.insert(&orders, (3_i64,))
    /// })?;
    /// assert_eq!(db.read(|r| r.count(&orders, ..))?, 2);
    /// # drop((orders, db));
    /// # let _ = std::fs::remove_dir_all(&directory);
    /// # Ok(())
    /// # }
    /// ```
    pub fn savepoint(&mut self) -> Savepoint {
        self.session.savepoint()
    }

    /// Undoes the changes of the transaction since `savepoint`, which stays; later savepoints are
    /// gone. Locks stay until the transaction ends. If it fails, the transaction cannot commit.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchSavepoint`](crate::Error::NoSuchSavepoint), and then nothing is undone; any
    /// error of a change of rows.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        self.session.rollback_to(savepoint)
    }

    /// Commits, and waits until the transaction may be acknowledged.
    pub fn commit(mut self) -> Result<()> {
        let durability = self.durability;
        self.session.finish(durability)
    }

    /// Undoes everything. Dropping the transaction does the same.
    pub fn abort(self) {
        drop(self);
    }
}
