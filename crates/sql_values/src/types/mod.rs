//! Types, values, and everything that is computed with them.
//!
//! | module | job |
//! |---|---|
//! | `kind`, `datum` | types and values |
//! | `numeric`, `interval`, `datetime`, `json`, `array`, `geometry` | values of several parts |
//! | `text_io`, `array_text`, `float_io`, `binary_io` | the two forms on the wire |
//! | `storage` | values in columns of the database |
//! | `cast`, `overload`, `operator` | conversions, and the choice between overloads |
//! | `signature` | descriptions of functions, of all sorts |
//! | `function`, `aggregate`, `window` | functions |
//! | `in_range` | distances between values, for frames of windows |
//! | `size` | the most bytes of a value |
//! | `context`, `random` | the surroundings of a call |

#![allow(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "lengths and places fit all integers here, and bits are moved between types of one width"
)]
#![allow(
    clippy::match_same_arms,
    reason = "tables of types and fields keep a line for each rule"
)]

pub mod aggregate;
pub mod array;
mod array_text;
pub mod binary_io;
pub mod cast;
pub mod context;
pub mod datetime;
pub mod datum;
mod float_io;
pub mod function;
pub mod geometry;
pub mod hash;
pub mod in_range;
pub mod interval;
pub mod json;
pub mod kind;
pub mod numeric;
pub mod operator;
pub mod overload;
pub mod random;
mod signature;
pub mod size;
pub mod storage;
pub mod text_io;
pub mod window;

pub use context::{CallContext, Context, Host, Names, NoHost, NoNames, Settings};
pub use datum::{Datum, EnumLabel, Record, RecordShape, Timetz};
pub use interval::Interval;
pub use kind::{Category, Kind, Type};
pub use numeric::Numeric;
