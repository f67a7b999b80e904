//! Tables of the database's own: data that belongs to it and is no table of a user.
//!
//! They have fixed numbers below those of other tables, so they are found without a name. One is
//! made when it is first asked for. They are not in [`Database::tables`] nor in the text of a
//! `dump`; backups, conversions and `verify` have them like all others, except that copies leave
//! statistics out. A restored database numbers its other tables anew, so a row here names a table
//! by its name if it is to outlive that.
//!
//! Writes of the typed interface are refused, as in all tables whose constraints SQL keeps.

use crate::commit_table::FIRST_IDENTIFIER;
use crate::core::Core;
use crate::database::Database;
use crate::definitions::{drop_elsewhere, leave, make};
use crate::error::{Error, Result};
use crate::table::Table;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLockWriteGuard};
use storage::record::{Column, DataType, Owner, TableDef, TableId};

/// A name of 63 characters, each of up to four bytes.
const NAME: DataType = DataType::Varchar { max: 63 * 4 };
/// A name in a key.
const KEY_NAME: DataType = DataType::Varchar { max: 200 };

/// A table of the database's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HiddenTable {
    /// Objects of a schema: number, kind, namespace, name, and a body in a format of their own.
    SchemaObjects = 1,
    /// Sequences: number and value, whose meanings SQL knows.
    Sequences = 2,
    /// Statistics of tables: name of the table, position of the column or -1, and a body.
    Statistics = 3,
    /// Prepared transactions: name, number of the part, and their changes and locks.
    Prepared = 4,
    /// Settings: number of their owner or 0, name, value.
    Settings = 5,
}

impl HiddenTable {
    fn id(self) -> TableId {
        TableId(self as u32)
    }

    fn definition(self) -> TableDef {
        let bytes = DataType::Bytes { max: None };
        let (name, columns, key): (_, &[(&str, DataType)], _) = match self {
            Self::SchemaObjects => (
                "schema_object",
                &[
                    ("oid", DataType::Int64),
                    ("kind", DataType::Int16),
                    ("namespace", DataType::Int64),
                    ("name", NAME),
                    ("body", bytes),
                ],
                1,
            ),
            Self::Sequences => (
                "sequence",
                &[("oid", DataType::Int64), ("next", DataType::Int64)],
                1,
            ),
            Self::Statistics => (
                "statistics",
                &[
                    ("table", DataType::Varchar { max: 63 }),
                    ("column", DataType::Int32),
                    ("body", bytes),
                ],
                2,
            ),
            Self::Prepared => (
                "prepared",
                &[
                    ("name", KEY_NAME),
                    ("part", DataType::Int32),
                    ("body", bytes),
                ],
                2,
            ),
            Self::Settings => (
                "setting",
                &[
                    ("owner", DataType::Int64),
                    ("name", KEY_NAME),
                    ("value", DataType::Text),
                ],
                2,
            ),
        };
        let columns = columns
            .iter()
            .map(|&(name, data_type)| Column::new(name, data_type));
        let mut def = TableDef::new(self.id(), name, columns.collect(), (0..key).collect());
        def.owner = Owner::Sql;
        def
    }
}

/// Whether a copy of the database has this table. Statistics name tables by their numbers, which a
/// copy gives anew, and closing the copy would write counts of its own.
pub(crate) fn is_copied(id: TableId) -> bool {
    id != HiddenTable::Statistics.id()
}

/// Whether a table is one of the database's own.
pub(crate) fn is_hidden(id: TableId) -> bool {
    u64::from(id.0) < FIRST_IDENTIFIER
}

impl Core {
    /// A table of the database's own, if it is there.
    pub(crate) fn hidden_table(&self, which: HiddenTable) -> Option<Table> {
        let hidden = self.hidden.read().unwrap_or_else(PoisonError::into_inner);
        hidden.get(&which.id()).cloned()
    }

    /// Whether a hidden table of this number is there.
    pub(crate) fn has_hidden(&self, id: TableId) -> bool {
        let hidden = self.hidden.read().unwrap_or_else(PoisonError::into_inner);
        hidden.contains_key(&id)
    }

    fn hidden_tables(&self) -> RwLockWriteGuard<'_, BTreeMap<TableId, Table>> {
        self.hidden.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Database {
    /// A table of the database's own, which is made if it is not there.
    ///
    /// # Errors
    /// In a database that is open for reading, one that is not there does not exist.
    pub fn hidden_table(&self, which: HiddenTable) -> Result<Table> {
        self.core.check_process()?;
        if let Some(table) = self.core.hidden_table(which) {
            return Ok(table);
        }
        if self.core.is_read_only() {
            let table = which.definition().name;
            return Err(Error::NoSuchTable { table });
        }
        self.create_hidden(&which.definition())
    }

    /// A table of the database's own, if it was made.
    pub fn known_hidden_table(&self, which: HiddenTable) -> Option<Table> {
        self.core.hidden_table(which)
    }

    /// Makes a hidden table, unless it is there.
    pub(crate) fn create_hidden(&self, def: &TableDef) -> Result<Table> {
        let mut session = self.hold_all()?;
        if let Some(table) = self.core.hidden_tables().get(&def.id) {
            return Ok(table.clone());
        }
        let table = make(&mut session, def)?;
        self.core.hidden_tables().insert(def.id, table.clone());
        Ok(table)
    }

    /// Drops a hidden table.
    pub(crate) fn drop_hidden(&self, table: &Table) -> Result<()> {
        let mut session = self.hold_all()?;
        let id = table.entry.id;
        leave(&mut session, table)?;
        self.core.hidden_tables().remove(&id);
        drop_elsewhere(&mut session, id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hidden_table_can_be_made_and_has_a_number_of_its_own() {
        let all = [
            HiddenTable::SchemaObjects,
            HiddenTable::Sequences,
            HiddenTable::Statistics,
            HiddenTable::Prepared,
            HiddenTable::Settings,
        ];
        for (number, table) in (1..).zip(all) {
            let def = table.definition();
            assert_eq!(def.validate(), Ok(()));
            assert_eq!(def.id, TableId(number));
            assert!(is_hidden(def.id));
        }
    }
}
