//! Errors of schemas, values, rows and keys.
//!
//! All of these are mistakes of the statement, not of the medium: the operation had no effect, and
//! the transaction may go on with another value. The one exception is [`RecordError::Damaged`],
//! which reports an impossible content of the medium.

use super::DataType;

/// The result of an operation on rows and keys.
pub type Result<T, E = RecordError> = std::result::Result<T, E>;

/// Why a value, row or key does not fit its table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A value of another type. Convert it first.
    #[error("column `{table}.{column}` is {expected} and cannot hold a value of type {found}")]
    WrongType {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The column's type.
        expected: DataType,
        /// The type of the value given.
        found: &'static str,
    },
    /// NULL, or nothing, for a column that must have a value.
    #[error("column `{table}.{column}` must not be NULL")]
    NotNull {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// More bytes than the column may hold.
    #[error(
        "a value of {found_bytes} bytes is too long for column `{table}.{column}`, whose limit is {limit_bytes} bytes"
    )]
    TooLong {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The most bytes that the column holds.
        limit_bytes: u64,
        /// The bytes of the value given.
        found_bytes: u64,
    },
    /// The right kind of number, but the type cannot express it exactly.
    #[error("{found} cannot be stored exactly in column `{table}.{column}` of type {expected}")]
    OutOfRange {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The column's type.
        expected: DataType,
        /// The value given.
        found: String,
    },
    /// The value takes more room than keys have for this column. Shorten it, or index another
    /// column.
    #[error(
        "the value of column `{table}.{column}` takes {found_bytes} bytes in a key, whose limit is {limit_bytes} bytes"
    )]
    KeyTooLong {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The room of this column in a key, in encoded bytes.
        limit_bytes: u64,
        /// The encoded bytes of the value given.
        found_bytes: u64,
    },
    /// A key was given with too few or too many column values.
    #[error("a key of table `{table}` has {expected} columns here, {found} were given")]
    KeyColumns {
        /// The table.
        table: String,
        /// How many columns the key has.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// The table has no column with this position.
    #[error("table `{table}` has no column at position {position}")]
    NoSuchColumn {
        /// The table.
        table: String,
        /// The position asked for, from 0.
        position: usize,
    },
    /// All contents together are more than a row can address.
    #[error(
        "a row of table `{table}` would take {found_bytes} bytes; the limit is {limit_bytes} bytes"
    )]
    RowTooLong {
        /// The table.
        table: String,
        /// The most bytes of a row.
        limit_bytes: u64,
        /// The bytes wanted.
        found_bytes: u64,
    },
    /// Bytes read from the medium are no tuple or key of this table. Stop and restore from a
    /// backup.
    #[error("damaged data of table `{table}`, column `{column}`: {detail}")]
    Damaged {
        /// The table.
        table: String,
        /// The column, or `key`.
        column: String,
        /// Expected and found.
        detail: String,
    },
}

impl RecordError {
    /// Whether the medium is at fault, not the statement.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}

/// Why a table cannot be defined like this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A name is empty, or longer than 63 bytes.
    #[error("{what} name `{name}` must have 1 to {limit_bytes} bytes; it has {found_bytes}", found_bytes = name.len())]
    BadName {
        /// `table`, `column` or `index`.
        what: &'static str,
        /// The name.
        name: String,
        /// The most bytes of a name.
        limit_bytes: usize,
    },
    /// A table without columns.
    #[error("table `{table}` needs at least one column")]
    NoColumns {
        /// The table.
        table: String,
    },
    /// More columns than a table may have.
    #[error("table `{table}` has {found} columns; the limit is {limit}")]
    TooManyColumns {
        /// The table.
        table: String,
        /// The most columns of a table.
        limit: usize,
        /// The columns given.
        found: usize,
    },
    /// Two columns or two indexes of one name or number.
    #[error("table `{table}` has two {what} `{name}`")]
    Duplicate {
        /// The table.
        table: String,
        /// `columns called`, `indexes called`, `indexes with number`.
        what: &'static str,
        /// The name or number.
        name: String,
    },
    /// The parameters of a column's type make no sense.
    #[error("column `{table}.{column}` of type {data_type}: {reason}")]
    BadType {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The type.
        data_type: DataType,
        /// Which parameter, and its limits.
        reason: String,
    },
    /// A key without columns.
    #[error("{index} of table `{table}` needs at least one column")]
    EmptyKey {
        /// The table.
        table: String,
        /// `the primary key`, or the index and its name.
        index: String,
    },
    /// A key names a column that does not exist.
    #[error("{index} of table `{table}` names column {position}, but the table has {columns}")]
    UnknownKeyColumn {
        /// The table.
        table: String,
        /// `the primary key`, or the index and its name.
        index: String,
        /// The position, from 0.
        position: usize,
        /// How many columns there are.
        columns: usize,
    },
    /// A key names a column twice.
    #[error("{index} of table `{table}` names column `{column}` twice")]
    RepeatedKeyColumn {
        /// The table.
        table: String,
        /// `the primary key`, or the index and its name.
        index: String,
        /// The column.
        column: String,
    },
    /// A primary key column that may be NULL.
    #[error("column `{table}.{column}` is in the primary key and must not be nullable")]
    NullableKeyColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// The columns of a key may need more bytes than a key has.
    #[error(
        "{index} of table `{table}` may need {found_bytes} bytes; the limit is {limit_bytes}: use fewer or shorter columns"
    )]
    KeyTooLong {
        /// The table.
        table: String,
        /// `the primary key`, or the index and its name.
        index: String,
        /// The most bytes of an encoded key.
        limit_bytes: usize,
        /// The bytes that the declared types may need.
        found_bytes: usize,
    },
    /// An index with the number 0, which is the primary key's.
    #[error("index `{index}` of table `{table}` has number 0, which belongs to the primary key")]
    ReservedIndexId {
        /// The table.
        table: String,
        /// The index.
        index: String,
    },
    /// The way of partitioning does not suit the first key column.
    #[error("table `{table}` cannot be partitioned like this: {reason}")]
    BadPartitioning {
        /// The table.
        table: String,
        /// The reason.
        reason: String,
    },
}
