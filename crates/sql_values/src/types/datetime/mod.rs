//! Dates, times and zones.
//!
//! Days and microseconds count from 2000-01-01, as on the wire. The calendar is the Gregorian one
//! throughout, from 4714-11-24 BC to the year 294276, or 5874897 for dates.

pub mod arithmetic;
pub mod calendar;
pub mod convert;
pub mod fields;
pub mod parse;
pub mod print;
pub mod tokens;
pub mod zone;

pub use zone::{abbreviations, find as find_zone};
