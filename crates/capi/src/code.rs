//! The codes that calls return, and the types of values.
//!
//! Numbers are SQLite's where the meaning is the same, so that a program that prints them stays
//! understood. The SQLSTATE of an error says more than its code.

use std::ffi::c_int;

/// The call did what it should.
pub const INDELIBLE_OK: c_int = 0;
/// The call failed; indelible_error says why.
pub const INDELIBLE_ERROR: c_int = 1;
/// Run the transaction again: another one came first, or it was part of a deadlock. Of a call that
/// closes a handle: others have to be closed before.
pub const INDELIBLE_BUSY: c_int = 5;
/// The statement was interrupted.
pub const INDELIBLE_INTERRUPT: c_int = 9;
/// A text or bytes that are longer than INDELIBLE_VALUE_BYTES_MAX.
pub const INDELIBLE_TOOBIG: c_int = 18;
/// The value has another type than the call returns.
pub const INDELIBLE_MISMATCH: c_int = 20;
/// A handle that is closed, NULL, in use by another thread or from before a fork; a NULL pointer.
pub const INDELIBLE_MISUSE: c_int = 21;
/// There is no parameter or column of that number.
pub const INDELIBLE_RANGE: c_int = 25;
/// indelible_step has a row.
pub const INDELIBLE_ROW: c_int = 100;
/// indelible_step has no more rows: the statement is done.
pub const INDELIBLE_DONE: c_int = 101;

/// The most bytes of a value that can be bound: 1 GiB.
pub const INDELIBLE_VALUE_BYTES_MAX: i64 = 1 << 30;

/// No value.
pub const INDELIBLE_NULL: c_int = 0;
/// indelible_column_i64: smallint, integer, bigint, numbers of the catalogue.
pub const INDELIBLE_INTEGER: c_int = 1;
/// indelible_column_f64: real, double precision.
pub const INDELIBLE_FLOAT: c_int = 2;
/// indelible_column_text: all texts, and types without one of their own.
pub const INDELIBLE_TEXT: c_int = 3;
/// indelible_column_bytes: bytea.
pub const INDELIBLE_BYTES: c_int = 4;
/// indelible_column_i64 returns 0 or 1.
pub const INDELIBLE_BOOLEAN: c_int = 5;
/// indelible_column_text: numeric.
pub const INDELIBLE_DECIMAL: c_int = 6;
/// indelible_column_timestamp: both timestamps.
pub const INDELIBLE_TIMESTAMP: c_int = 7;
/// indelible_column_uuid: uuid.
pub const INDELIBLE_UUID: c_int = 8;
