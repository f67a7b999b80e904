//! Errors of statements, as PostgreSQL reports them.
//!
//! Every failure of this room is a [`SqlError`]: five characters of state, a message, and the
//! fields that clients show or match. Errors of the database below are translated by
//! [`From<indelible::Error>`]; a test walks all their variants, so that a new one gets a state.

use indelible::{Error, PmemError, RecordError, SchemaError, StorageError};
use std::fmt::{self, Display};

/// The result of a fallible operation of this room.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

/// The five characters that tell a program the kind of an error.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SqlState(pub &'static str);

macro_rules! states {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl SqlState {
            $($(#[$doc])* pub const $name: SqlState = SqlState($code);)*
        }
    };
}

states! {
    /// A statement succeeded.
    SUCCESSFUL_COMPLETION = "00000";
    /// Something to know about a statement that goes on.
    WARNING = "01000";
    /// The connection ends, and whether its transaction committed is not known.
    TRANSACTION_RESOLUTION_UNKNOWN = "08007";
    /// A message that does not follow the protocol.
    PROTOCOL_VIOLATION = "08P01";
    /// A feature that is not there.
    FEATURE_NOT_SUPPORTED = "0A000";
    /// A subquery that may give one row gave more.
    CARDINALITY_VIOLATION = "21000";
    /// A character string is too long for its type.
    STRING_DATA_RIGHT_TRUNCATION = "22001";
    /// A number is outside the range of its type.
    NUMERIC_VALUE_OUT_OF_RANGE = "22003";
    /// NULL where a value is needed.
    NULL_VALUE_NOT_ALLOWED = "22004";
    /// A text that is no date or time.
    INVALID_DATETIME_FORMAT = "22007";
    /// A date or time outside the range of its type.
    DATETIME_FIELD_OVERFLOW = "22008";
    /// A time zone that does not exist.
    INVALID_TIME_ZONE_DISPLACEMENT_VALUE = "22009";
    /// A length that is negative.
    SUBSTRING_ERROR = "22011";
    /// Division by zero.
    DIVISION_BY_ZERO = "22012";
    /// A frame offset that is negative.
    INVALID_PRECEDING_OR_FOLLOWING_SIZE = "22013";
    /// An argument of `ntile` that is not positive.
    INVALID_ARGUMENT_FOR_NTILE = "22014";
    /// An interval outside its range.
    INTERVAL_FIELD_OVERFLOW = "22015";
    /// An argument of `nth_value` that is not positive.
    INVALID_ARGUMENT_FOR_NTH_VALUE = "22016";
    /// A text that a cast cannot read.
    INVALID_CHARACTER_VALUE_FOR_CAST = "22018";
    /// A logarithm of zero or less.
    INVALID_ARGUMENT_FOR_LOG = "2201E";
    /// A power that has no value.
    INVALID_ARGUMENT_FOR_POWER_FUNCTION = "2201F";
    /// Arguments of `width_bucket` that make no buckets.
    INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION = "2201G";
    /// A negative LIMIT.
    INVALID_ROW_COUNT_IN_LIMIT_CLAUSE = "2201W";
    /// A negative OFFSET.
    INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE = "2201X";
    /// A regular expression that cannot be read.
    INVALID_REGULAR_EXPRESSION = "2201B";
    /// An escape that is longer than a character.
    INVALID_ESCAPE_CHARACTER = "22019";
    /// An escape at the end of a pattern.
    INVALID_ESCAPE_SEQUENCE = "22025";
    /// Text that is not in the encoding of the database.
    CHARACTER_NOT_IN_REPERTOIRE = "22021";
    /// An argument that a function cannot take.
    INVALID_PARAMETER_VALUE = "22023";
    /// A subscript or shape that an array cannot have.
    ARRAY_SUBSCRIPT_ERROR = "2202E";
    /// A text that is no value of the type.
    INVALID_TEXT_REPRESENTATION = "22P02";
    /// Bytes that are no value of the type.
    INVALID_BINARY_REPRESENTATION = "22P03";
    /// COPY data that cannot be read.
    BAD_COPY_FILE_FORMAT = "22P04";
    /// A character that cannot be converted.
    UNTRANSLATABLE_CHARACTER = "22P05";
    /// A use of an escape that is not standard.
    NONSTANDARD_USE_OF_ESCAPE_CHARACTER = "22P06";
    /// A key that stands twice in an object.
    DUPLICATE_JSON_OBJECT_KEY_VALUE = "22030";
    /// A value that is no JSON.
    INVALID_JSON_TEXT = "22032";
    /// A sequence has no more values.
    SEQUENCE_GENERATOR_LIMIT_EXCEEDED = "2200H";
    /// NULL in a column that must have a value.
    NOT_NULL_VIOLATION = "23502";
    /// A foreign key without its row.
    FOREIGN_KEY_VIOLATION = "23503";
    /// A key that is there already.
    UNIQUE_VIOLATION = "23505";
    /// A row that breaks a CHECK.
    CHECK_VIOLATION = "23514";
    /// Cursor not at a row, or not one of a table's rows.
    INVALID_CURSOR_STATE = "24000";
    /// A transaction is open already.
    ACTIVE_SQL_TRANSACTION = "25001";
    /// A write in a transaction that only reads.
    READ_ONLY_SQL_TRANSACTION = "25006";
    /// No transaction is open.
    NO_ACTIVE_SQL_TRANSACTION = "25P01";
    /// A statement in a transaction that has failed.
    IN_FAILED_SQL_TRANSACTION = "25P02";
    /// A transaction that did nothing for too long.
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03";
    /// No prepared statement has the name.
    INVALID_SQL_STATEMENT_NAME = "26000";
    /// The role may not connect.
    INVALID_AUTHORIZATION_SPECIFICATION = "28000";
    /// The password is wrong.
    INVALID_PASSWORD = "28P01";
    /// Other objects need the one that was to be dropped.
    DEPENDENT_OBJECTS_STILL_EXIST = "2BP01";
    /// No cursor has the name.
    INVALID_CURSOR_NAME = "34000";
    /// No savepoint has the name.
    INVALID_SAVEPOINT_SPECIFICATION = "3B001";
    /// No schema has the name.
    INVALID_SCHEMA_NAME = "3F000";
    /// Run the transaction again: another one came first.
    SERIALIZATION_FAILURE = "40001";
    /// Run the transaction again: it was part of a deadlock.
    DEADLOCK_DETECTED = "40P01";
    /// A statement that the grammar does not have.
    SYNTAX_ERROR = "42601";
    /// A name that cannot be used.
    INVALID_NAME = "42602";
    /// The user may not do this.
    INSUFFICIENT_PRIVILEGE = "42501";
    /// A value that cannot be converted.
    CANNOT_COERCE = "42846";
    /// A column that is neither grouped nor aggregated.
    GROUPING_ERROR = "42803";
    /// Function whose body does not give what it is to return.
    INVALID_FUNCTION_DEFINITION = "42P13";
    /// A window function where there can be none.
    WINDOWING_ERROR = "42P20";
    /// A type that does not fit.
    DATATYPE_MISMATCH = "42804";
    /// A type that cannot be determined.
    INDETERMINATE_DATATYPE = "42P18";
    /// An object of another kind than the statement needs.
    WRONG_OBJECT_TYPE = "42809";
    /// An expression that cannot stand there.
    INVALID_COLUMN_REFERENCE = "42P10";
    /// A value for a column that is always generated.
    GENERATED_ALWAYS = "428C9";
    /// A name that is used twice.
    DUPLICATE_COLUMN = "42701";
    /// A column name that several tables have.
    AMBIGUOUS_COLUMN = "42702";
    /// No column has the name.
    UNDEFINED_COLUMN = "42703";
    /// No object has the name.
    UNDEFINED_OBJECT = "42704";
    /// An object has the name already.
    DUPLICATE_OBJECT = "42710";
    /// Two tables of one name in FROM.
    DUPLICATE_ALIAS = "42712";
    /// A function has the name and arguments already.
    DUPLICATE_FUNCTION = "42723";
    /// Several functions fit equally well.
    AMBIGUOUS_FUNCTION = "42725";
    /// No function or operator fits.
    UNDEFINED_FUNCTION = "42883";
    /// No table has the name.
    UNDEFINED_TABLE = "42P01";
    /// No parameter has the number.
    UNDEFINED_PARAMETER = "42P02";
    /// A cursor has the name already.
    DUPLICATE_CURSOR = "42P03";
    /// A prepared statement has the name already.
    DUPLICATE_PREPARED_STATEMENT = "42P05";
    /// A schema has the name already.
    DUPLICATE_SCHEMA = "42P06";
    /// A table has the name already.
    DUPLICATE_TABLE = "42P07";
    /// A parameter whose type is used in two ways.
    AMBIGUOUS_PARAMETER = "42P08";
    /// A name of several tables.
    AMBIGUOUS_ALIAS = "42P09";
    /// Columns that do not match the reference.
    INVALID_FOREIGN_KEY = "42830";
    /// A recursive query of a form that cannot run.
    INVALID_RECURSION = "42P19";
    /// A definition of a column or table that cannot be.
    INVALID_TABLE_DEFINITION = "42P16";
    /// A definition of an object that cannot be.
    INVALID_OBJECT_DEFINITION = "42P17";
    /// A default that does not fit.
    INVALID_COLUMN_DEFINITION = "42611";
    /// Collations that contradict each other.
    INDETERMINATE_COLLATION = "42P22";
    /// A view's CHECK OPTION is broken.
    WITH_CHECK_OPTION_VIOLATION = "44000";
    /// The medium is full.
    DISK_FULL = "53100";
    /// Memory that may be used is used up.
    OUT_OF_MEMORY = "53200";
    /// More connections than the database allows.
    TOO_MANY_CONNECTIONS = "53300";
    /// A limit that the configuration sets.
    CONFIGURATION_LIMIT_EXCEEDED = "53400";
    /// A limit of the program.
    PROGRAM_LIMIT_EXCEEDED = "54000";
    /// A statement that is nested too deeply.
    STATEMENT_TOO_COMPLEX = "54001";
    /// More columns than a table or a result may have.
    TOO_MANY_COLUMNS = "54011";
    /// More arguments than a function may have.
    TOO_MANY_ARGUMENTS = "54023";
    /// The object is not in the state that the statement needs.
    OBJECT_NOT_IN_PREREQUISITE_STATE = "55000";
    /// Somebody else uses the object.
    OBJECT_IN_USE = "55006";
    /// A setting that cannot be changed now.
    CANT_CHANGE_RUNTIME_PARAM = "55P02";
    /// A lock that is not free.
    LOCK_NOT_AVAILABLE = "55P03";
    /// A value of an enum that was added in this transaction.
    UNSAFE_NEW_ENUM_VALUE_USAGE = "55P04";
    /// The statement was cancelled.
    QUERY_CANCELED = "57014";
    /// The connection was ended by somebody else.
    ADMIN_SHUTDOWN = "57P01";
    /// The connection ended because of a fault of the program.
    CRASH_SHUTDOWN = "57P02";
    /// The database does not answer now.
    CANNOT_CONNECT_NOW = "57P03";
    /// A session that did nothing for too long.
    IDLE_SESSION_TIMEOUT = "57P05";
    /// A file or device failed.
    IO_ERROR = "58030";
    /// A file is missing.
    UNDEFINED_FILE = "58P01";
    /// The snapshot of the transaction is gone.
    SNAPSHOT_TOO_OLD = "72000";
    /// An invariant of the program is broken.
    INTERNAL_ERROR = "XX000";
    /// Stored data is damaged.
    DATA_CORRUPTED = "XX001";
}

impl Display for SqlState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

/// The failure of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// The kind, for programs.
    pub state: SqlState,
    /// A line for people.
    pub message: String,
    /// More about the circumstances.
    pub detail: Option<String>,
    /// A remedy.
    pub hint: Option<String>,
    /// The place in the text of the statement, in characters from 1.
    pub position: Option<usize>,
    /// The objects that the error is about, and its routine.
    pub names: Option<Box<ErrorNames>>,
}

/// The objects that an error is about, where they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorNames {
    /// The schema of the table or type.
    pub schema: Option<String>,
    /// The table.
    pub table: Option<String>,
    /// The column.
    pub column: Option<String>,
    /// The type.
    pub data_type: Option<String>,
    /// The constraint.
    pub constraint: Option<String>,
    /// The place in the data of a COPY, or in another text than the statement's.
    pub context: Option<String>,
    /// The function of PostgreSQL's source that reports the error, where clients look at it.
    pub routine: Option<&'static str>,
}

impl SqlError {
    /// An error of the given kind.
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        Self {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            names: None,
        }
    }

    /// A broken invariant of the program.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(SqlState::INTERNAL_ERROR, message)
    }

    /// A feature that is not there; `instead` names what to use.
    pub fn unsupported(feature: impl Display, instead: impl Into<String>) -> Self {
        let message = format!("{feature} is not supported");
        Self::new(SqlState::FEATURE_NOT_SUPPORTED, message).hint(instead)
    }

    /// The error with a detail.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The error with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The error with a place in the statement, unless it has one.
    #[must_use]
    pub fn at(mut self, position: Option<usize>) -> Self {
        self.position = self.position.or(position);
        self
    }

    /// The error with names changed by `fill`.
    #[must_use]
    pub fn named(mut self, fill: impl FnOnce(&mut ErrorNames)) -> Self {
        fill(self.names.get_or_insert_default());
        self
    }
}

impl Display for SqlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for SqlError {}

impl From<Error> for SqlError {
    fn from(error: Error) -> Self {
        let state = state_of(&error);
        let result = Self::new(state, error.to_string());
        match error {
            Error::DuplicateKey(duplicate) => {
                duplicate_key(duplicate.table, duplicate.index, &duplicate.key)
            }
            Error::Record(error) => of_record(*error, result),
            Error::Storage(StorageError::Deadlock { .. }) => {
                Self::new(state, "deadlock detected").detail(result.message)
            }
            Error::Storage(StorageError::LockTimeout { .. }) => {
                Self::new(state, "canceling statement due to lock timeout")
            }
            Error::Storage(StorageError::Interrupted) => {
                Self::new(state, "canceling statement due to user request")
            }
            Error::Storage(StorageError::LocksExhausted { .. }) => {
                result.hint("You might need to increase max_locks.")
            }
            Error::ReadOnly => Self::new(
                state,
                "cannot execute a writing statement in a read-only transaction",
            ),
            Error::Doomed => Self::new(
                state,
                "current transaction is aborted, commands ignored until end of transaction block",
            ),
            _ => of_prepared(&error, state).unwrap_or(result),
        }
    }
}

/// PostgreSQL's errors of prepared transactions.
fn of_prepared(error: &Error, state: SqlState) -> Option<SqlError> {
    let message = match error {
        Error::TooManyPrepared { prepared_max: 0 } => {
            let message = "prepared transactions are disabled";
            let hint = "Set max_prepared_transactions to a nonzero value.";
            return Some(SqlError::new(state, message).hint(hint));
        }
        Error::TooManyPrepared { prepared_max } => {
            let message = "maximum number of prepared transactions reached";
            let hint = format!("Increase max_prepared_transactions (currently {prepared_max}).");
            return Some(SqlError::new(state, message).hint(hint));
        }
        Error::PreparedExists { name } => {
            format!("transaction identifier \"{name}\" is already in use")
        }
        Error::NoSuchPrepared { name } => {
            format!("prepared transaction with identifier \"{name}\" does not exist")
        }
        Error::PreparedBusy { name } => {
            format!("prepared transaction with identifier \"{name}\" is busy")
        }
        _ => return None,
    };
    Some(SqlError::new(state, message))
}

/// PostgreSQL's message of a key that is there already; the session replaces the names by those
/// of the constraint.
fn duplicate_key(table: String, index: String, key: &str) -> SqlError {
    let constraint = match index.as_str() {
        "primary" => format!("{table}_pkey"),
        _ => index,
    };
    SqlError::new(
        SqlState::UNIQUE_VIOLATION,
        format!("duplicate key value violates unique constraint \"{constraint}\""),
    )
    .detail(format!("Key {key} already exists."))
    .named(|names| {
        names.table = Some(table);
        names.constraint = Some(constraint);
    })
}

fn of_record(error: RecordError, result: SqlError) -> SqlError {
    match error {
        RecordError::NotNull { table, column } => SqlError::new(
            result.state,
            format!(
                "null value in column \"{column}\" of relation \"{table}\" violates not-null constraint"
            ),
        )
        .named(|names| {
            names.table = Some(table);
            names.column = Some(column);
        }),
        RecordError::WrongType { table, column, .. }
        | RecordError::TooLong { table, column, .. }
        | RecordError::OutOfRange { table, column, .. } => result.named(|names| {
            names.table = Some(table);
            names.column = Some(column);
        }),
        _ => result,
    }
}

/// The state of each error of the database. Variants that only an opening or a copy of a database
/// can return stand together at the end.
#[allow(
    clippy::match_same_arms,
    reason = "a test looks whether each variant is named"
)]
fn state_of(error: &Error) -> SqlState {
    match error {
        Error::DuplicateKey(_) => SqlState::UNIQUE_VIOLATION,
        Error::Record(error) => state_of_record(error),
        Error::Schema(error) => state_of_schema(error),
        Error::Storage(error) => state_of_storage(error),
        Error::OutOfSpace { source, .. } => state_of_storage(source),
        Error::NoSuchTable { .. } | Error::TableDropped { .. } => SqlState::UNDEFINED_TABLE,
        Error::TableExists { .. } | Error::IndexExists { .. } => SqlState::DUPLICATE_TABLE,
        Error::NoSuchIndex { .. } => SqlState::UNDEFINED_OBJECT,
        Error::NoSuchColumn { .. } => SqlState::UNDEFINED_COLUMN,
        Error::Definition { .. } => SqlState::INVALID_TABLE_DEFINITION,
        Error::Managed { .. } => SqlState::INSUFFICIENT_PRIVILEGE,
        Error::Conflict { .. } | Error::Serialization { .. } | Error::RowLocked { .. } => {
            SqlState::SERIALIZATION_FAILURE
        }
        Error::SnapshotTooOld { .. } => SqlState::SNAPSHOT_TOO_OLD,
        Error::TooManyPrepared { prepared_max: 0 } | Error::PreparedBusy { .. } => {
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE
        }
        Error::TransactionMemory { .. }
        | Error::TooManyLocks { .. }
        | Error::TooManyPrepared { .. } => SqlState::OUT_OF_MEMORY,
        Error::PreparedExists { .. } => SqlState::DUPLICATE_OBJECT,
        Error::NoSuchPrepared { .. } => SqlState::UNDEFINED_OBJECT,
        Error::PreparedUnusable { .. } => SqlState::DATA_CORRUPTED,
        Error::PreparedInTheWay { .. } => SqlState::OBJECT_IN_USE,
        Error::NotPreparable { .. } => SqlState::FEATURE_NOT_SUPPORTED,
        Error::TooManyConnections { .. } => SqlState::TOO_MANY_CONNECTIONS,
        Error::TransactionOpen | Error::TransactionBegun => SqlState::ACTIVE_SQL_TRANSACTION,
        Error::NoTransaction => SqlState::NO_ACTIVE_SQL_TRANSACTION,
        Error::Doomed => SqlState::IN_FAILED_SQL_TRANSACTION,
        Error::ReadOnly => SqlState::READ_ONLY_SQL_TRANSACTION,
        Error::NoSuchSavepoint => SqlState::INVALID_SAVEPOINT_SPECIFICATION,
        Error::NoSnapshots { .. } => SqlState::FEATURE_NOT_SUPPORTED,
        Error::InUse { .. } | Error::Forked => SqlState::OBJECT_IN_USE,
        Error::Stopped { .. } => SqlState::CANNOT_CONNECT_NOW,
        Error::InDoubt { .. } => SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
        Error::Option { .. } => SqlState::INVALID_PARAMETER_VALUE,
        Error::Limit { .. } => SqlState::PROGRAM_LIMIT_EXCEEDED,
        Error::Io { .. } | Error::Disk(_) | Error::Unmarked { .. } | Error::CopyDiffers { .. } => {
            SqlState::IO_ERROR
        }
        Error::Damaged { .. }
        | Error::DamagedDescriptor { .. }
        | Error::DamagedBackup { .. }
        | Error::DamagedTrace { .. }
        | Error::NoDescriptor { .. }
        | Error::Irreparable { .. } => SqlState::DATA_CORRUPTED,
        Error::Missing { .. } | Error::MissingLog { .. } | Error::MissingArchive { .. } => {
            SqlState::UNDEFINED_FILE
        }
        Error::Occupied { .. }
        | Error::LogOfAnother { .. }
        | Error::FixedPlace { .. }
        | Error::OccupiedLog { .. }
        | Error::NotADatabase { .. }
        | Error::Incomplete { .. }
        | Error::NewerVersion { .. }
        | Error::OtherEndian
        | Error::NotABackup
        | Error::NewerBackup { .. }
        | Error::NotATrace
        | Error::NewerTrace { .. } => SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        // Workers and handles of other databases belong to the typed interface; statements never
        // meet them.
        Error::NotOwned { .. } | Error::ForeignTable { .. } => SqlState::INTERNAL_ERROR,
        // The enum may grow; `Rejected` carries the reason of a closure of this room.
        _ => SqlState::INTERNAL_ERROR,
    }
}

fn state_of_record(error: &RecordError) -> SqlState {
    match error {
        RecordError::WrongType { .. } => SqlState::DATATYPE_MISMATCH,
        RecordError::NotNull { .. } => SqlState::NOT_NULL_VIOLATION,
        RecordError::TooLong { .. } => SqlState::STRING_DATA_RIGHT_TRUNCATION,
        RecordError::OutOfRange { .. } => SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        RecordError::KeyTooLong { .. } | RecordError::RowTooLong { .. } => {
            SqlState::PROGRAM_LIMIT_EXCEEDED
        }
        RecordError::KeyColumns { .. } | RecordError::NoSuchColumn { .. } => {
            SqlState::INTERNAL_ERROR
        }
        RecordError::Damaged { .. } => SqlState::DATA_CORRUPTED,
    }
}

fn state_of_schema(error: &SchemaError) -> SqlState {
    match error {
        SchemaError::BadName { .. } => SqlState::INVALID_NAME,
        SchemaError::TooManyColumns { .. } => SqlState::TOO_MANY_COLUMNS,
        SchemaError::KeyTooLong { .. } => SqlState::PROGRAM_LIMIT_EXCEEDED,
        SchemaError::Duplicate { .. } | SchemaError::RepeatedKeyColumn { .. } => {
            SqlState::DUPLICATE_COLUMN
        }
        SchemaError::UnknownKeyColumn { .. } => SqlState::UNDEFINED_COLUMN,
        SchemaError::NoColumns { .. }
        | SchemaError::BadType { .. }
        | SchemaError::EmptyKey { .. }
        | SchemaError::NullableKeyColumn { .. }
        | SchemaError::ReservedIndexId { .. }
        | SchemaError::BadPartitioning { .. } => SqlState::INVALID_TABLE_DEFINITION,
    }
}

fn state_of_storage(error: &StorageError) -> SqlState {
    match error {
        StorageError::DuplicateKey(_) => SqlState::UNIQUE_VIOLATION,
        StorageError::NoSuchTable(_) => SqlState::UNDEFINED_TABLE,
        StorageError::NoSuchIndex { .. } => SqlState::UNDEFINED_OBJECT,
        StorageError::Record(error) => state_of_record(error),
        StorageError::Schema(error) => state_of_schema(error),
        StorageError::LogFull(_) => SqlState::DISK_FULL,
        StorageError::DamagedFile(_) | StorageError::ForeignFile(_) | StorageError::LostFile(_) => {
            SqlState::DATA_CORRUPTED
        }
        StorageError::Unsupported(_) => SqlState::FEATURE_NOT_SUPPORTED,
        StorageError::Memory(memory) => match **memory {
            PmemError::Corrupted { .. } => SqlState::DATA_CORRUPTED,
            PmemError::InUse { .. } => SqlState::OBJECT_IN_USE,
            PmemError::ReadOnly => SqlState::READ_ONLY_SQL_TRANSACTION,
            _ => device(error),
        },
        StorageError::Disk(_) => device(error),
        StorageError::Poisoned => SqlState::IO_ERROR,
        StorageError::NeedsRecovery(_) | StorageError::Stopped { .. } => {
            SqlState::CANNOT_CONNECT_NOW
        }
        StorageError::Deadlock { .. } => SqlState::DEADLOCK_DETECTED,
        StorageError::LockTimeout { .. } => SqlState::LOCK_NOT_AVAILABLE,
        StorageError::Interrupted => SqlState::QUERY_CANCELED,
        StorageError::LocksExhausted { .. } => SqlState::OUT_OF_MEMORY,
    }
}

fn device(error: &StorageError) -> SqlState {
    if error.is_out_of_space() {
        SqlState::DISK_FULL
    } else {
        SqlState::IO_ERROR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// The names of the variants of an enum in a source file.
    fn variants<'s>(source: &'s str, name: &str) -> Vec<&'s str> {
        let start = source
            .find(&format!("pub enum {name} {{"))
            .expect("the enum is there");
        let body = &source[start..];
        let body = &body[..body.find("\n}").expect("the enum ends")];
        let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
        let names = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
        names
            .map(|line| line.split(['(', ' ', ',', '{']).next().unwrap_or(line))
            .collect()
    }

    #[test]
    fn every_error_of_the_database_has_a_state() {
        let source = include_str!("../../indelible/src/error.rs");
        let mapping = include_str!("error.rs");
        let mapping = &mapping[..mapping.find("mod tests").expect("this module")];
        let names = variants(source, "Error");
        assert!(names.len() > 50, "{names:?}");
        for name in names {
            // The reason of a closure is no error of the database.
            let is_named = mapping.contains(&format!("Error::{name}"));
            assert!(is_named || name == "Rejected", "Error::{name} has no state");
        }
    }

    #[test]
    fn errors_become_those_of_postgresql() {
        let path = PathBuf::from("/db");
        let cases = [
            (
                StorageError::duplicate_key("t", "primary", "(1)").into(),
                "23505",
                "duplicate key value violates unique constraint \"t_pkey\"",
            ),
            (
                RecordError::NotNull {
                    table: "t".into(),
                    column: "c".into(),
                }
                .into(),
                "23502",
                "null value in column \"c\" of relation \"t\" violates not-null constraint",
            ),
            (
                Error::Storage(StorageError::Deadlock { waited_ms: 5 }),
                "40P01",
                "deadlock detected",
            ),
            (
                Error::Storage(StorageError::Interrupted),
                "57014",
                "canceling statement due to user request",
            ),
            (
                Error::Doomed,
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
            ),
            (
                Error::Storage(StorageError::Poisoned),
                "58030",
                "an earlier durable step of this partition failed; reopen the database",
            ),
        ];
        for (error, state, message) in cases {
            let translated = SqlError::from(error);
            assert_eq!(
                (translated.state.0, translated.message.as_str()),
                (state, message)
            );
        }
        let states = [
            (Error::NoTransaction, "25P01"),
            (Error::InUse { path, holder: None }, "55006"),
            (Error::Stopped { partition: 1 }, "57P03"),
            (Error::InDoubt { cause: "c".into() }, "08007"),
            (Error::Serialization { reason: "r" }, "40001"),
            (Error::SnapshotTooOld { limit_bytes: 1 }, "72000"),
            (Error::rejected("no"), "XX000"),
        ];
        for (error, state) in states {
            assert_eq!(SqlError::from(error).state.0, state);
        }
    }
}
