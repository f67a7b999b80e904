//! Dates, times and zones.
//!
//! Days and microseconds count from 2000-01-01, as on the wire. The calendar is the Gregorian one
//! throughout, from 4714-11-24 BC to the year 294276, or 5874897 for dates.

pub(crate) mod arithmetic;
pub(crate) mod calendar;
pub(crate) mod convert;
pub(crate) mod fields;
pub(crate) mod parse;
pub(crate) mod print;
pub(crate) mod tokens;
pub(crate) mod zone;

pub use zone::{abbreviations, find as find_zone};
