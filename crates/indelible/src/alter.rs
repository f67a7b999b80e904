//! Changes of a table's columns, by a rewrite of all rows into a new table.
//!
//! A definition that has rows never changes, on any method, so a change makes a new table under a
//! new number, fills it, and drops the old one. The new table's definition says which table it
//! *replaces*: while partition 0 has that one, the new one does not count, and the next opening
//! drops it. So the drop of the old table from partition 0 is the commit point, and a crash before
//! or after it leaves one whole table. All partitions are held meanwhile.

use crate::database::Database;
use crate::definitions::{drop_copies, drop_elsewhere, leave, make, number};
use crate::error::{Error, Result};
use crate::options::random_identity;
use crate::scan::{key_after, whole_table};
use crate::session::Session;
use crate::table::Table;
use std::ops::ControlFlow;
use storage::engine::{Durability, ScanRange};
use storage::record::{
    Column, DataType, KeyBuf, KeyRule, ParseError, RecordError, Row, TableDef, Value,
};

/// Rows, and about their bytes, that are copied in one transaction.
const BATCH_ROWS: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// A column of the new table, and the source of its values.
struct NewColumn {
    column: Column,
    source: Source,
}

enum Source {
    /// The old table's column at this position.
    Old(usize),
    /// One value for all rows.
    Value(Value),
}

/// Changes of a table, which [`TableChange::apply`] makes together; see [`Database::alter_table`].
#[must_use]
pub struct TableChange<'db> {
    database: &'db Database,
    table: Table,
    name: String,
    columns: Vec<NewColumn>,
    /// The first mistake, reported when the changes are to be made.
    mistake: Option<Error>,
}

impl TableChange<'_> {
    /// Gives the table another name.
    pub fn rename(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Adds a column, after the others, that has this value in all rows that are there.
    pub fn add_column(mut self, column: Column, value: impl Into<Value>) -> Self {
        let source = Source::Value(value.into());
        self.columns.push(NewColumn { column, source });
        self
    }

    /// Drops a column, which no index and not the primary key may have.
    pub fn drop_column(self, name: &str) -> Self {
        self.with_column(name, |columns, at| {
            columns.remove(at);
        })
    }

    /// Gives a column another name.
    pub fn rename_column(self, name: &str, new: &str) -> Self {
        self.with_column(name, |columns, at| {
            new.clone_into(&mut columns[at].column.name);
        })
    }

    /// Gives a column another type. Values that are not of the new type are converted by way of
    /// their text; one that is no value of it fails the change.
    pub fn change_type(self, name: &str, data_type: DataType) -> Self {
        self.with_column(name, |columns, at| columns[at].column.data_type = data_type)
    }

    /// Lets a column be NULL, or no longer: then a row that has NULL there fails the change.
    pub fn set_nullable(self, name: &str, nullable: bool) -> Self {
        self.with_column(name, |columns, at| columns[at].column.nullable = nullable)
    }

    fn with_column(mut self, name: &str, change: impl FnOnce(&mut Vec<NewColumn>, usize)) -> Self {
        let mut columns = self.columns.iter();
        match columns.position(|column| column.column.name == name) {
            Some(at) => change(&mut self.columns, at),
            None => {
                self.mistake.get_or_insert_with(|| Error::NoSuchColumn {
                    table: self.table.name().to_owned(),
                    column: name.to_owned(),
                });
            }
        }
        self
    }

    /// Makes the changes; durable when it returns. The handle of the old table, and those of its
    /// indexes, are no longer valid.
    ///
    /// # Errors
    /// A row that does not fit the new definition, or any error of a definition. Then the table is
    /// as it was.
    pub fn apply(mut self) -> Result<Table> {
        if let Some(mistake) = self.mistake.take() {
            return Err(mistake);
        }
        let mut def = self.table.definition();
        let new_position = |old: usize| -> Result<usize> {
            let is_it = |column: &NewColumn| matches!(column.source, Source::Old(at) if at == old);
            self.columns.iter().position(is_it).ok_or_else(|| {
                let column = &self.table.entry.shape.def.columns[old].name;
                Error::Definition {
                    name: self.table.name().to_owned(),
                    problem: format!(
                        "column `{column}` is in a key; drop the index first, or keep the column"
                    ),
                }
            })
        };
        let keys = def.indexes.iter_mut().map(|index| &mut index.columns);
        for key in keys.chain([&mut def.primary_key]) {
            for position in key {
                *position = new_position(*position)?;
            }
        }
        def.name = self.name;
        def.columns = self.columns.iter().map(|new| new.column.clone()).collect();
        let columns = &self.columns;
        self.database.rewrite_table(&self.table, def, |old, row| {
            for (at, new) in columns.iter().enumerate() {
                match &new.source {
                    Source::Value(value) => row.set(at, value)?,
                    Source::Old(from) => {
                        let value = old.get(*from);
                        match row.set(at, value) {
                            Err(RecordError::WrongType { .. }) => {
                                let text = value.to_string();
                                let value = Value::parse(new.column.data_type, &text);
                                row.set(at, &value.map_err(|error| misfit(&self.table, &error))?)?;
                            }
                            set => set?,
                        }
                    }
                }
            }
            Ok(())
        })
    }
}

fn misfit(table: &Table, error: &ParseError) -> Error {
    Error::Definition {
        name: table.name().to_owned(),
        problem: format!("{error}; change the value, or choose another type"),
    }
}

impl Database {
    /// Begins changes of a table's columns. They rewrite all rows: the table has another number
    /// afterwards, and its rows are where their new values put them. Others wait meanwhile.
    ///
    /// ```
    /// # use indelible::{Column, DataType, Database, Options};
    /// # fn main() -> indelible::Result<()> {
    /// # let directory =
    /// #     std::env::temp_dir().join(format!("indelible-alter-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&directory);
    /// # let db = Database::create(&directory, &Options::new())?;
    /// # let people = db
    /// #     .create_table("people")
    /// #     .column("id", DataType::Int32)
    /// #     .column("name", DataType::Text)
    /// #     .primary_key(["id"])
    /// #     .create()?;
    /// db.transaction(|t| t.insert(&people, (1_i32, "Ada")))?;
    /// let people = db
    ///     .alter_table(&people)
    ///     .change_type("id", DataType::Int64)
    ///     .add_column(Column::new("city", DataType::Text), "London")
    ///     .apply()?;
    /// let ada = db.read(|r| r.get(&people, 1_i64))?;
    /// assert_eq!(ada.unwrap().get(2).as_str(), Some("London"));
    /// # drop((people, db));
    /// # let _ = std::fs::remove_dir_all(&directory);
    /// # Ok(())
    /// # }
    /// ```
    pub fn alter_table(&self, table: &Table) -> TableChange<'_> {
        let columns = table.entry.shape.def.columns.iter().enumerate();
        let columns = columns.map(|(at, column)| NewColumn {
            column: column.clone(),
            source: Source::Old(at),
        });
        TableChange {
            database: self,
            table: table.clone(),
            name: table.name().to_owned(),
            columns: columns.collect(),
            mistake: None,
        }
    }

    /// Replaces a table by a new one of another definition, whose rows `convert` makes of the old
    /// ones; durable when it returns. Number, numbers of indexes and key of the hash in `def` are
    /// ignored.
    ///
    /// # Errors
    /// As [`TableChange::apply`]; errors of `convert`.
    pub fn rewrite_table(
        &self,
        table: &Table,
        mut def: TableDef,
        mut convert: impl FnMut(&Row, &mut Row) -> Result<()>,
    ) -> Result<Table> {
        if let KeyRule::Truncated { hash_key } = &mut def.keys {
            *hash_key = random_identity();
        }
        def.replaces = Some(table.id());
        def.validate()?;
        let core = &*self.core;
        let mut session = self.hold_all()?;
        table.check(core.serial)?;
        core.shared.prepared.check_unused(table)?;
        if def.name != table.name() && self.table(&def.name).is_ok() {
            return Err(Error::TableExists { table: def.name });
        }
        number(&mut def, core)?;
        drop_copies(&mut session, table)?;
        let new = make(&mut session, &def)?;
        let copied = copy(&mut session, table, &new, &mut convert).and_then(|()| session.force());
        let is_copied = copied.is_ok();
        let replaced = copied.and_then(|()| leave(&mut session, table));
        if let Err(error) = replaced {
            session.abort();
            // If the old table may be gone, the next opening decides.
            if !is_copied || error.is_statement_error() {
                // A copy that stays is dropped before the table that it replaces.
                let _ = drop_copies(&mut session, table);
            }
            return Err(error);
        }
        let mut tables = core.tables();
        tables.remove(table.name());
        tables.insert(def.name, new.clone());
        drop(tables);
        drop_elsewhere(&mut session, table.entry.id);
        drop(session);
        // The new table is there; statistics of the old number count for nothing.
        let _ = self.forget_statistics(table.name());
        Ok(new)
    }
}

/// Copies all rows, in transactions of a batch each, or of fewer rows where the log has less room.
fn copy(
    session: &mut Session<'_>,
    old: &Table,
    new: &Table,
    convert: &mut impl FnMut(&Row, &mut Row) -> Result<()>,
) -> Result<()> {
    session.unchecked = true;
    // A batch is small, whatever a transaction may hold.
    session.memory_max = u64::MAX;
    let entry = &old.entry;
    // Every partition has all rows of a replicated table.
    let partitions = if entry.replicated {
        1
    } else {
        session.core.descriptor.partitions
    };
    let mut rows_max = BATCH_ROWS;
    for partition in 0..partitions {
        let mut range = whole_table(entry)?;
        loop {
            let rows = batch(session, partition, &range)?;
            let Some(last) = rows.last() else {
                session.commit(Durability::None)?;
                break;
            };
            let converted = rows.iter().map(|old| {
                let mut row = new.row();
                convert(old, &mut row).map(|()| row)
            });
            let converted = converted.collect::<Result<Vec<_>>>()?;
            let mut left = &*converted;
            while !left.is_empty() {
                let (first, others) = left.split_at(left.len().min(rows_max));
                match insert_all(session, new, first) {
                    Ok(()) => left = others,
                    Err(error) if error.is_out_of_space() && first.len() > 1 => {
                        session.abort();
                        rows_max = first.len() / 2;
                    }
                    Err(error) => return Err(error),
                }
            }
            let mut key = KeyBuf::new();
            entry.shape.primary.encode_row(last, &mut key)?;
            match key_after(&key) {
                Some(next) => range.low = next,
                None => break,
            }
        }
    }
    Ok(())
}

fn insert_all(session: &mut Session<'_>, table: &Table, rows: &[Row]) -> Result<()> {
    rows.iter().try_for_each(|row| session.insert(table, row))?;
    session.commit(Durability::None)?;
    Ok(())
}

/// The first rows of a range in a partition; none if there are no more.
fn batch(session: &mut Session<'_>, partition: u32, range: &ScanRange) -> Result<Vec<Row>> {
    let (mut rows, mut bytes) = (Vec::new(), 0);
    session.engine(partition)?.scan(range, &mut |row| {
        bytes += row.bytes();
        rows.push(row.clone());
        if rows.len() < BATCH_ROWS && bytes < BATCH_BYTES {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    Ok(rows)
}
