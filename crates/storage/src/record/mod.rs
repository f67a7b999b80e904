//! Records: what a table's rows are, and what their bytes look like.
//!
//! A [`TableDef`] says which columns a table has; a [`TupleLayout`] gives each column its place in
//! the tuple; a [`Row`] is a buffer in exactly that format, so that reading a tuple is one copy. A
//! [`KeyEncoder`] turns key columns into words whose integer order is the order of the values.
//!
//! | module | job |
//! |---|---|
//! | `types` | data types and their SQL names |
//! | `schema`, `codec` | tables, columns, indexes; their checks and their stable binary form |
//! | `value`, `text` | owned and borrowed values; reading and printing them |
//! | `decimal`, `calendar` | exact decimals; dates and timestamps |
//! | `key`, `key_word` | memcomparable keys |
//! | `partition` | which partition a row belongs to |
//! | `layout`, `row`, `changes` | the tuple format, rows and updates in it |
//! | `variable` | blocks for long contents |
//! | `checksum` | the linear checksum of tuples and nodes |

mod calendar;
mod changes;
pub mod checksum;
mod codec;
mod decimal;
mod error;
mod key;
mod key_shape;
mod key_word;
mod layout;
mod partition;
mod row;
mod schema;
#[cfg(test)]
mod tests;
mod text;
mod types;
mod value;
pub mod variable;

pub use calendar::{Date, Timestamp};
pub use changes::{Changes, NullChange, Patch};
pub use codec::{DecodeError, Reader, decode_value, encode_value};
pub use decimal::Decimal;
pub use error::{RecordError, Result, SchemaError};
pub use key::{KeyBuf, KeyEncoder, key_hash};
pub use key_shape::{KeyShape, MAX_KEY_WORDS};
pub use layout::{Field, LayoutKind, Place, TupleLayout};
pub use partition::{Partitioner, Placement};
pub use row::Row;
pub use schema::{
    Column, IndexDef, IndexId, KeyRule, Owner, Partitioning, RangeStart, TableDef, TableId,
};
pub use text::ParseError;
pub use types::{DataType, TypeNameError};
pub use value::{AsValue, Uuid, Value, ValueRef};
