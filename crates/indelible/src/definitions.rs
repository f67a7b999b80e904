//! Creation and dropping of tables and indexes.
//!
//! Partition 0 is the catalogue: a table exists if and only if partition 0 has it. Creation goes
//! from the last partition down to 0, so its last step is the commit point; a drop goes from 0 up,
//! so its first step is. The next opening drops the remains of an interrupted one in other
//! partitions. All partitions are held during a definition, so no transaction sees half of it, and
//! no two are made at the same time.

use crate::commit_table::FIRST_IDENTIFIER;
use crate::core::Core;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::operations::columns_text;
use crate::options::random_identity;
use crate::session::Session;
use crate::table::{Table, TableEntry};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::StorageError;
use storage::engine::{Direction, ScanRange};
use storage::record::{
    Column, DataType, IndexDef, IndexId, KeyBuf, KeyEncoder, KeyRule, Owner, Partitioner,
    Partitioning, Row, TableDef, TableId, ValueRef,
};
use storage::table::Table as Shape;

/// The definition of a new table, column by column; made by [`Database::create_table`].
#[must_use]
pub struct TableBuilder<'db> {
    database: &'db Database,
    def: TableDef,
    primary_key: Vec<String>,
    indexes: Vec<(String, Vec<String>, bool)>,
}

impl TableBuilder<'_> {
    /// Adds a column that must have a value.
    pub fn column(mut self, name: &str, data_type: DataType) -> Self {
        self.def.columns.push(Column::new(name, data_type));
        self
    }

    /// Adds a column that may be NULL.
    pub fn nullable_column(mut self, name: &str, data_type: DataType) -> Self {
        self.def
            .columns
            .push(Column::new(name, data_type).nullable());
        self
    }

    /// Names the columns of the primary key. Default: the first column.
    pub fn primary_key<'c>(mut self, columns: impl IntoIterator<Item = &'c str>) -> Self {
        self.primary_key = columns.into_iter().map(str::to_owned).collect();
        self
    }

    /// Adds a secondary index.
    pub fn index<'c>(self, name: &str, columns: impl IntoIterator<Item = &'c str>) -> Self {
        self.any_index(name, columns, false)
    }

    /// Adds a secondary index that holds each key once. In a database of several partitions, an
    /// index whose columns do not include the first primary key column makes every insert search
    /// all partitions.
    pub fn unique_index<'c>(self, name: &str, columns: impl IntoIterator<Item = &'c str>) -> Self {
        self.any_index(name, columns, true)
    }

    fn any_index<'c>(
        mut self,
        name: &str,
        columns: impl IntoIterator<Item = &'c str>,
        unique: bool,
    ) -> Self {
        let columns = columns.into_iter().map(str::to_owned).collect();
        self.indexes.push((name.to_owned(), columns, unique));
        self
    }

    /// The rule by which rows go to partitions. Default: by hash of the first primary key column.
    pub fn partitioning(mut self, partitioning: Partitioning) -> Self {
        self.def.partitioning = partitioning;
        self
    }

    /// Gives the table [exact](KeyRule::Exact) keys.
    pub fn exact_keys(mut self) -> Self {
        self.def.keys = KeyRule::Exact;
        self
    }

    /// The layer that keeps the table's constraints. Default: [`Owner::Typed`].
    pub fn owner(mut self, owner: Owner) -> Self {
        self.def.owner = owner;
        self
    }

    /// Creates the table; durable when it returns.
    pub fn create(mut self) -> Result<Table> {
        if !self.primary_key.is_empty() {
            self.def.primary_key = positions(&self.def, &self.primary_key)?;
        }
        for (id, (name, columns, unique)) in (1..).zip(std::mem::take(&mut self.indexes)) {
            let columns = positions(&self.def, &columns)?;
            self.def.indexes.push(IndexDef {
                id: IndexId(id),
                name,
                columns,
                unique,
            });
        }
        self.database.create_table_from(self.def)
    }
}

impl Database {
    /// Begins the definition of a new table.
    pub fn create_table(&self, name: &str) -> TableBuilder<'_> {
        let mut def = TableDef::new(TableId(0), name, Vec::new(), vec![0]);
        def.keys = self.core.keys;
        TableBuilder {
            database: self,
            def,
            primary_key: Vec::new(),
            indexes: Vec::new(),
        }
    }

    /// Creates a table from a definition, whose table number is ignored, as are numbers of indexes
    /// from 16 on, the key of the hash in its keys and the table that it replaces; durable when it
    /// returns.
    pub fn create_table_from(&self, mut def: TableDef) -> Result<Table> {
        if let KeyRule::Truncated { hash_key } = &mut def.keys {
            *hash_key = random_identity();
        }
        // A definition from elsewhere names a table there.
        def.replaces = None;
        def.validate()?;
        let mut session = self.hold_all()?;
        if self.table(&def.name).is_ok() {
            return Err(Error::TableExists { table: def.name });
        }
        number(&mut def, &self.core)?;
        let table = make(&mut session, &def)?;
        self.core.tables().insert(def.name, table.clone());
        Ok(table)
    }

    /// Drops a table with its rows and indexes; durable when it returns.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let session = self.hold_all()?;
        let table = self.table(name)?;
        self.drop_held(session, &table)
    }

    /// As [`Database::drop_table`], unless another table has the name of this one by now.
    pub(crate) fn drop_this(&self, table: &Table) -> Result<()> {
        let session = self.hold_all()?;
        table.check(self.core.serial)?;
        self.drop_held(session, table)
    }

    pub(crate) fn drop_held(&self, mut session: Session<'_>, table: &Table) -> Result<()> {
        self.core.shared.prepared.check_unused(table)?;
        drop_copies(&mut session, table)?;
        leave(&mut session, table)?;
        self.core.tables().remove(table.name());
        drop_elsewhere(&mut session, table.entry.id);
        drop(session);
        // The table is gone; statistics of another number count for nothing.
        let _ = self.forget_statistics(table.name());
        Ok(())
    }

    /// Builds a secondary index over the rows that are there; durable when it returns. With
    /// `Uniqueness::Unique` it fails if two rows have the same key. Rows that connections have
    /// changed and not committed are looked at when they commit.
    pub fn create_index<'c>(
        &self,
        table: &Table,
        name: &str,
        columns: impl IntoIterator<Item = &'c str>,
        uniqueness: Uniqueness,
    ) -> Result<()> {
        let core = &*self.core;
        let mut session = self.hold_all()?;
        let entry = table.check(core.serial)?;
        core.shared.prepared.check_unused(table)?;
        let mut def = entry.current().def.clone();
        if def.index(name).is_some() {
            let table = def.name;
            return Err(Error::IndexExists {
                table,
                index: name.to_owned(),
            });
        }
        let names: Vec<String> = columns.into_iter().map(str::to_owned).collect();
        let mut id = IndexId(core.commits.next_identifiers(1)?);
        // Databases made before tables were numbered by `number` may have an index whose number is
        // used twice.
        while def.index_by_id(id).is_some() {
            id = IndexId(core.commits.next_identifiers(1)?);
        }
        let index = IndexDef {
            id,
            name: name.to_owned(),
            columns: positions(&def, &names)?,
            unique: uniqueness == Uniqueness::Unique,
        };
        def.indexes.push(index.clone());
        def.validate()?;
        if index.unique && core.descriptor.partitions > 1 && !entry.replicated {
            check_no_duplicates(&mut session, &def, &index)?;
        }
        for partition in (0..core.descriptor.partitions).rev() {
            // commit point: partition 0, which comes last, makes the index exist.
            let built = session.define(partition, |engine| engine.create_index(entry.id, &index));
            if let Err(error) = built {
                for partition in made_for_nothing(&error, partition, core.descriptor.partitions) {
                    let _ =
                        session.define(partition, |engine| engine.drop_index(entry.id, index.id));
                }
                return Err(error);
            }
        }
        entry.set_current(
            shape_of(&mut session, entry.id)?,
            core.descriptor.partitions,
        );
        if index.unique {
            core.shared.note_unique_made(entry);
        }
        Ok(())
    }

    /// Drops a secondary index; durable when it returns.
    pub fn drop_index(&self, table: &Table, name: &str) -> Result<()> {
        let core = &*self.core;
        let mut session = self.hold_all()?;
        let entry = table.check(core.serial)?;
        core.shared.prepared.check_unused(table)?;
        let shape = entry.current();
        let Some(index) = shape.def.index(name) else {
            let table = table.name().to_owned();
            return Err(Error::NoSuchIndex {
                table,
                index: name.to_owned(),
            });
        };
        for partition in 0..core.descriptor.partitions {
            // commit point: without it in partition 0, which comes first, the index is gone.
            let dropped = session.define(partition, |engine| engine.drop_index(entry.id, index.id));
            // The next opening drops it elsewhere if that fails now.
            if partition == 0 {
                dropped.map_err(|error| error.of_drop(core.descriptor.method))?;
                entry.set_current(
                    shape_of(&mut session, entry.id)?,
                    core.descriptor.partitions,
                );
            }
        }
        Ok(())
    }

    /// Holds every partition, with no transaction open in any.
    pub(crate) fn hold_all(&self) -> Result<Session<'_>> {
        if self.core.is_read_only() {
            return Err(Error::ReadOnly);
        }
        self.hold_all_to_look()
    }

    /// As [`Database::hold_all`], for operations that change no data.
    pub(crate) fn hold_all_to_look(&self) -> Result<Session<'_>> {
        Session::hold_all(&self.core, self.core.lock_policy)
    }

    /// Holds one slot of every partition, while other slots may be in use.
    pub(crate) fn hold_each(&self) -> Result<Session<'_>> {
        let mut session = Session::new(&self.core, self.core.lock_policy)?;
        session.declare_all()?;
        Ok(session)
    }
}

/// Whether an index holds each key once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uniqueness {
    /// Any number of rows may have the same key.
    Repeating,
    /// Each key belongs to one row; rows with a NULL in the key are exempt.
    Unique,
}

/// The partitions whose part of a definition is taken back at once because partition `failed` could
/// not make its own. None if the failure leaves unknown whether that part is durable: the others
/// may then be needed, and the next opening decides. It also drops the parts that cannot be dropped
/// now.
fn made_for_nothing(error: &Error, failed: u32, partitions: u32) -> std::ops::Range<u32> {
    if error.is_statement_error() {
        failed + 1..partitions
    } else {
        partitions..partitions
    }
}

/// Makes a table in all partitions; durable when it returns. It is not in the catalogue yet.
pub(crate) fn make(session: &mut Session<'_>, def: &TableDef) -> Result<Table> {
    let core = session.core;
    let partitions = core.descriptor.partitions;
    // Checked before anything is stored: a range may name a partition that does not exist.
    Partitioner::new(def, partitions)?;
    for partition in (0..partitions).rev() {
        // commit point: partition 0, which comes last, makes the table exist, unless it replaces
        // another one.
        let created = session.define(partition, |engine| engine.create_table(def));
        if let Err(error) = created {
            for partition in made_for_nothing(&error, partition, partitions) {
                let _ = session.define(partition, |engine| engine.drop_table(def.id));
            }
            return Err(error);
        }
    }
    let shape = shape_of(session, def.id)?;
    let entry = TableEntry::new(core.serial, shape, partitions)?;
    entry.count.begin();
    Ok(Table { entry })
}

/// Drops a table from partition 0; durable when it returns. The others still have it.
pub(crate) fn leave(session: &mut Session<'_>, table: &Table) -> Result<()> {
    let method = session.core.descriptor.method;
    // commit point: without it in partition 0 the table is gone, and one that replaces it is there.
    session
        .define(0, |engine| engine.drop_table(table.entry.id))
        .map_err(|error| error.of_drop(method))?;
    table.entry.dropped.store(true, Ordering::Release);
    Ok(())
}

/// Drops the copies of a table that rewrites have left unfinished: without the table they would
/// take its place.
pub(crate) fn drop_copies(session: &mut Session<'_>, table: &Table) -> Result<()> {
    let id = table.entry.id;
    let is_copy = |def: &TableDef| def.replaces == Some(id) && id < def.id;
    let tables = session.idle_engine(0)?.tables();
    let copies: Vec<TableId> = tables
        .iter()
        .filter(|table| is_copy(&table.def))
        .map(|table| table.def.id)
        .collect();
    let method = session.core.descriptor.method;
    for copy in copies {
        session
            .define(0, |engine| engine.drop_table(copy))
            .map_err(|error| error.of_drop(method))?;
        drop_elsewhere(session, copy);
    }
    Ok(())
}

/// Drops a table that partition 0 does not have any more from the others. It is gone in any case:
/// the next opening drops what cannot be dropped now.
pub(crate) fn drop_elsewhere(session: &mut Session<'_>, id: TableId) {
    for partition in 1..session.core.descriptor.partitions {
        let _ = session.define(partition, |engine| engine.drop_table(id));
    }
}

/// Numbers a new table. Its indexes keep their numbers below those that the commit table hands out.
/// Others get numbers from there, so that a later index never has the number of an earlier one, not
/// even of a dropped one.
pub(crate) fn number(def: &mut TableDef, core: &Core) -> Result<()> {
    let is_common = |index: &IndexDef| u64::from(index.id.0) >= FIRST_IDENTIFIER;
    let common = def.indexes.iter().filter(|index| is_common(index)).count();
    let first = core.commits.next_identifiers(1 + common as u32)?;
    def.id = TableId(first);
    let indexes = def.indexes.iter_mut().filter(|index| is_common(index));
    for (index, id) in indexes.zip(first + 1..) {
        index.id = IndexId(id);
    }
    Ok(())
}

/// Positions of columns by their names.
fn positions(def: &TableDef, names: &[String]) -> Result<Vec<usize>> {
    let position = |name: &String| {
        def.column(name).ok_or_else(|| Error::NoSuchColumn {
            table: def.name.clone(),
            column: name.clone(),
        })
    };
    names.iter().map(position).collect()
}

/// The table as partition 0 has it now.
fn shape_of(session: &mut Session<'_>, id: TableId) -> Result<Arc<Shape>> {
    let tables = session.idle_engine(0)?.tables();
    let shape = tables.into_iter().find(|table| table.def.id == id);
    shape.ok_or_else(|| storage::StorageError::NoSuchTable(id.0).into())
}

/// Each partition's engine checks only its own rows, so a new unique index is checked over all of
/// them here.
fn check_no_duplicates(session: &mut Session<'_>, def: &TableDef, index: &IndexDef) -> Result<()> {
    const NOTHING: &[ValueRef<'_>] = &[];
    let primary = KeyEncoder::primary(def);
    let encoder = KeyEncoder::secondary(def, index);
    let (mut low, mut high) = (KeyBuf::new(), KeyBuf::new());
    primary.lower_bound(NOTHING, &mut low)?;
    primary.upper_bound(NOTHING, &mut high)?;
    let range = ScanRange {
        table: def.id,
        index: None,
        low,
        high,
        direction: Direction::Forward,
    };
    let mut keys: Vec<KeyBuf> = Vec::new();
    let mut key_of = |row: &Row| -> Result<()> {
        if index
            .columns
            .iter()
            .all(|&column| !row.get(column).is_null())
        {
            let mut key = KeyBuf::new();
            encoder.encode_row(row, &mut key)?;
            keys.push(key);
        }
        Ok(())
    };
    visit_everywhere(session, &range, &mut key_of)?;
    keys.sort_unstable();
    let Some(twice) = keys
        .windows(2)
        .find(|pair| pair[0] == pair[1])
        .map(|pair| pair[0].clone())
    else {
        return Ok(());
    };
    let mut text = String::new();
    visit_everywhere(session, &range, &mut |row| {
        let mut key = KeyBuf::new();
        encoder.encode_row(row, &mut key)?;
        if key == twice {
            text = columns_text(row, &index.columns);
        }
        Ok(())
    })?;
    Err(StorageError::duplicate_key(&def.name, &index.name, text).into())
}

fn visit_everywhere(
    session: &mut Session<'_>,
    range: &ScanRange,
    visit: &mut dyn FnMut(&Row) -> Result<()>,
) -> Result<()> {
    for partition in 0..session.core.descriptor.partitions {
        let mut failure = Ok(());
        session.engine(partition)?.scan(range, &mut |row| {
            failure = visit(row);
            if failure.is_err() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        failure?;
    }
    session.abort();
    Ok(())
}
