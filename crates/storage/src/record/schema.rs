//! Tables: their columns, keys, indexes and partitioning.
//!
//! A [`TableDef`] is plain data that anybody may build; [`TableDef::validate`] says whether a table
//! can be made of it, and everything below (layouts, keys) assumes that it has passed. Columns are
//! named by position; positions never change while a table lives. Its stable binary form is in
//! `codec`.

use super::error::SchemaError;
use super::key_shape::{KeyShape, MAX_KEY_WORDS};
use super::types::DataType;
use super::value::Value;
use std::collections::HashSet;
use std::fmt::{self, Arguments};

/// The most columns of a table.
pub(crate) const COLUMNS_MAX: usize = 1024;
/// Most columns that are searched linearly for a name.
const FEW_COLUMNS: usize = 16;
/// The most bytes of a name.
pub(crate) const NAME_BYTES_MAX: usize = 63;

/// The number of a table, unique in its database and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

/// The number of an index, unique in its table; 0 is the primary key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexId(pub u32);

impl IndexId {
    /// The primary key's number.
    pub const PRIMARY: Self = Self(0);
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for IndexId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, 1 to 63 bytes, unique in the table.
    pub name: String,
    /// Type of its values.
    pub data_type: DataType,
    /// Whether it may be NULL.
    pub nullable: bool,
}

impl Column {
    /// A column that must have a value.
    pub fn new(name: impl Into<String>, data_type: DataType) -> Self {
        Self {
            name: name.into(),
            data_type,
            nullable: false,
        }
    }

    /// The same column, but it may be NULL.
    #[must_use]
    pub fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }
}

/// A secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDef {
    /// Its number, not 0.
    pub id: IndexId,
    /// Its name, 1 to 63 bytes, unique in the table.
    pub name: String,
    /// Positions of the indexed columns, most significant first.
    pub columns: Vec<usize>,
    /// Whether two rows may not have the same values; rows with a NULL among them are exempt, as in
    /// SQL.
    pub unique: bool,
}

/// The mapping of a table's rows to partitions, by the first column of the primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partitioning {
    /// A hash of the value: even for any values, but a range of keys lies in all partitions.
    Hash,
    /// The integer modulo the number of partitions: neighbours are dealt out in turn.
    Modulo,
    /// Every partition has all rows: reads are local everywhere, a write goes to all.
    Replicated,
    /// Ranges of values; ascending. A value belongs to the last range that starts at or below it,
    /// and those below all starts to the first.
    Ranges(Vec<RangeStart>),
}

/// Begin of a range of key values, and the partition that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeStart {
    /// The least value of the range.
    pub from: Value,
    /// The partition, from 0.
    pub partition: u32,
}

/// The part of a long content that its key has. The rule of a table never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRule {
    /// All of it: rows come in exact order, and a table whose keys could need over 256 bytes, or a
    /// row with a content beyond its room, is refused.
    Exact,
    /// All of it up to 64 bytes (48 in keys of more than two long columns, down to 32 where those
    /// have no room). A longer content is represented by its first bytes and a hash of all of it:
    /// keys are as unique as contents, but long contents that begin alike are out of order.
    Truncated {
        /// The key of the hash, secret so that nobody can make contents with the same hash.
        hash_key: u128,
    },
}

/// The layer that keeps the constraints of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The engine's own are all: types, NOT NULL and unique keys.
    Typed,
    /// SQL, whose checks, defaults and references the typed interface does not know.
    Sql,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDef {
    /// Its number.
    pub id: TableId,
    /// Its name, 1 to 63 bytes.
    pub name: String,
    /// Its columns, at most 1024.
    pub columns: Vec<Column>,
    /// Positions of the primary key's columns, most significant first; none may be nullable.
    pub primary_key: Vec<usize>,
    /// Its secondary indexes.
    pub indexes: Vec<IndexDef>,
    /// Mapping of its rows to partitions.
    pub partitioning: Partitioning,
    /// The part of long contents in its keys.
    pub keys: KeyRule,
    /// The layer that keeps its constraints.
    pub owner: Owner,
    /// The table that this one replaces: it counts from when that one is dropped.
    pub replaces: Option<TableId>,
}

impl TableDef {
    /// A table without secondary indexes, partitioned by hash, with exact keys.
    pub fn new(
        id: TableId,
        name: impl Into<String>,
        columns: Vec<Column>,
        primary_key: Vec<usize>,
    ) -> Self {
        Self {
            id,
            name: name.into(),
            columns,
            primary_key,
            indexes: Vec::new(),
            partitioning: Partitioning::Hash,
            keys: KeyRule::Exact,
            owner: Owner::Typed,
            replaces: None,
        }
    }

    /// The position of the column with this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The secondary index with this name.
    pub fn index(&self, name: &str) -> Option<&IndexDef> {
        self.indexes.iter().find(|index| index.name == name)
    }

    /// The secondary index with this number.
    pub fn index_by_id(&self, id: IndexId) -> Option<&IndexDef> {
        self.indexes.iter().find(|index| index.id == id)
    }

    /// Whether a table can be made of this; otherwise the first thing that is wrong with it.
    pub fn validate(&self) -> Result<(), SchemaError> {
        check_name("table", &self.name)?;
        self.check_columns()?;
        self.check_key(&self.primary_key, format_args!("the primary key"))?;
        if let Some(column) = self
            .primary_key
            .iter()
            .map(|at| &self.columns[*at])
            .find(|column| column.nullable)
        {
            return Err(SchemaError::NullableKeyColumn {
                table: self.name.clone(),
                column: column.name.clone(),
            });
        }
        self.check_shape(
            KeyShape::encoded_bytes(self, &self.primary_key),
            format_args!("the primary key"),
        )?;
        for (position, index) in self.indexes.iter().enumerate() {
            self.check_index(index, &self.indexes[..position])?;
        }
        self.check_partitioning()
    }

    fn check_columns(&self) -> Result<(), SchemaError> {
        let table = || self.name.clone();
        if self.columns.is_empty() {
            return Err(SchemaError::NoColumns { table: table() });
        }
        if self.columns.len() > COLUMNS_MAX {
            return Err(SchemaError::TooManyColumns {
                table: table(),
                limit: COLUMNS_MAX,
                found: self.columns.len(),
            });
        }
        // Among a few names one is found sooner by looking at them all than in a set.
        let mut names = (self.columns.len() > FEW_COLUMNS).then(HashSet::new);
        for (position, column) in self.columns.iter().enumerate() {
            check_name("column", &column.name)?;
            let mut earlier = self.columns[..position].iter();
            let is_new = match &mut names {
                Some(names) => names.insert(column.name.as_str()),
                None => earlier.all(|earlier| earlier.name != column.name),
            };
            if !is_new {
                return Err(self.duplicate("columns called", &column.name));
            }
            column
                .data_type
                .check()
                .map_err(|reason| SchemaError::BadType {
                    table: table(),
                    column: column.name.clone(),
                    data_type: column.data_type,
                    reason,
                })?;
        }
        Ok(())
    }

    fn check_index(&self, index: &IndexDef, earlier: &[IndexDef]) -> Result<(), SchemaError> {
        check_name("index", &index.name)?;
        if index.id == IndexId::PRIMARY {
            return Err(SchemaError::ReservedIndexId {
                table: self.name.clone(),
                index: index.name.clone(),
            });
        }
        if earlier.iter().any(|other| other.name == index.name) {
            return Err(self.duplicate("indexes called", &index.name));
        }
        if earlier.iter().any(|other| other.id == index.id) {
            return Err(self.duplicate("indexes with number", &index.id.to_string()));
        }
        self.check_key(&index.columns, format_args!("index `{}`", index.name))?;
        let bytes = KeyShape::secondary_bytes(self, index);
        self.check_shape(bytes, format_args!("index `{}`", index.name))
    }

    fn check_key(&self, key: &[usize], index: Arguments<'_>) -> Result<(), SchemaError> {
        let names = || (self.name.clone(), index.to_string());
        if key.is_empty() {
            let (table, index) = names();
            return Err(SchemaError::EmptyKey { table, index });
        }
        for (place, position) in key.iter().enumerate() {
            let Some(column) = self.columns.get(*position) else {
                let (table, index) = names();
                let (position, columns) = (*position, self.columns.len());
                return Err(SchemaError::UnknownKeyColumn {
                    table,
                    index,
                    position,
                    columns,
                });
            };
            if key[..place].contains(position) {
                let (table, index) = names();
                let column = column.name.clone();
                return Err(SchemaError::RepeatedKeyColumn {
                    table,
                    index,
                    column,
                });
            }
        }
        Ok(())
    }

    fn check_shape(&self, found_bytes: usize, index: Arguments<'_>) -> Result<(), SchemaError> {
        let limit_bytes = MAX_KEY_WORDS * 8;
        if found_bytes <= limit_bytes {
            return Ok(());
        }
        let (table, index) = (self.name.clone(), index.to_string());
        Err(SchemaError::KeyTooLong {
            table,
            index,
            limit_bytes,
            found_bytes,
        })
    }

    fn check_partitioning(&self) -> Result<(), SchemaError> {
        let bad = |reason: String| {
            Err(SchemaError::BadPartitioning {
                table: self.name.clone(),
                reason,
            })
        };
        let first = &self.columns[self.primary_key[0]];
        match &self.partitioning {
            Partitioning::Hash | Partitioning::Replicated => Ok(()),
            Partitioning::Modulo if first.data_type.is_integer() => Ok(()),
            Partitioning::Modulo => bad(format!(
                "modulo needs an integer, but `{}` is {}",
                first.name, first.data_type
            )),
            Partitioning::Ranges(starts) => {
                if starts.is_empty() {
                    return bad("there must be at least one range".into());
                }
                let misfit = starts.iter().find(|start| {
                    start.from.is_null() || start.from.as_ref().fit(first.data_type).is_err()
                });
                if let Some(start) = misfit {
                    return bad(format!(
                        "`{}` is no value of type {}",
                        start.from, first.data_type
                    ));
                }
                if starts.windows(2).any(|pair| pair[0].from >= pair[1].from) {
                    return bad("the ranges must be in ascending order".into());
                }
                Ok(())
            }
        }
    }

    /// The columns that may be in a key of this secondary index: its own, then those of the primary
    /// key that are not among them.
    pub(crate) fn secondary_columns(&self, index: &IndexDef) -> Vec<usize> {
        let own = index.columns.iter();
        let rest = self
            .primary_key
            .iter()
            .filter(|column| !index.columns.contains(column));
        own.chain(rest).copied().collect()
    }

    fn duplicate(&self, what: &'static str, name: &str) -> SchemaError {
        SchemaError::Duplicate {
            table: self.name.clone(),
            what,
            name: name.to_owned(),
        }
    }
}

fn check_name(what: &'static str, name: &str) -> Result<(), SchemaError> {
    if (1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(SchemaError::BadName {
        what,
        name: name.to_owned(),
        limit_bytes: NAME_BYTES_MAX,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> TableDef {
        let mut table = TableDef::new(
            TableId(3),
            "accounts",
            vec![
                Column::new("id", DataType::Int64),
                Column::new("owner", DataType::Varchar { max: 40 }).nullable(),
            ],
            vec![0],
        );
        table.indexes.push(IndexDef {
            id: IndexId(1),
            name: "by_owner".into(),
            columns: vec![1],
            unique: false,
        });
        table
    }

    fn refused(change: impl FnOnce(&mut TableDef)) -> String {
        let mut table = accounts();
        change(&mut table);
        table.validate().unwrap_err().to_string()
    }

    #[test]
    fn mistakes_are_named() {
        accounts().validate().unwrap();
        assert_eq!(
            refused(|t| t.columns.clear()),
            "table `accounts` needs at least one column"
        );
        assert_eq!(
            refused(|t| t.columns[1].name = "id".into()),
            "table `accounts` has two columns called `id`"
        );
        assert_eq!(
            refused(|t| {
                let many = 0..2 * FEW_COLUMNS;
                let many = many.map(|n| Column::new(format!("c{n}"), DataType::Int64));
                t.columns.extend(many);
                t.columns[40 - FEW_COLUMNS].name = "owner".into();
            }),
            "table `accounts` has two columns called `owner`"
        );
        assert_eq!(
            refused(|t| t.primary_key = vec![1]),
            "column `accounts.owner` is in the primary key and must not be nullable"
        );
        assert_eq!(
            refused(|t| t.primary_key = vec![7]),
            "the primary key of table `accounts` names column 7, but the table has 2"
        );
        assert_eq!(
            refused(|t| t.columns[1].data_type = DataType::Varchar { max: 300 }),
            "index `by_owner` of table `accounts` may need 310 bytes; the limit is 256: use fewer or shorter columns"
        );
        assert!(refused(|t| t.name = String::new()).contains("must have 1 to 63 bytes"));
        assert!(refused(|t| t.indexes[0].id = IndexId(0)).contains("number 0"));
        assert!(refused(|t| t.primary_key = vec![0, 0]).contains("twice"));
        assert!(refused(|t| t.primary_key.clear()).contains("at least one column"));
        assert!(
            refused(|t| t.partitioning = Partitioning::Ranges(vec![]))
                .contains("at least one range")
        );
        assert!(
            refused(|t| t.columns = vec![t.columns[0].clone(); 1025]).contains("limit is 1024")
        );
    }
}
