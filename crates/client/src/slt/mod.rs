//! Files of tests in the format of sqllogictest, and the runner that takes them to a client.
//!
//! A file is a list of records: a statement that must succeed, fail or change a number of rows, or
//! a query with its rows. [`parse`](parse::parse) reads a file, [`Runner`] runs it in a schema of
//! its own, which is empty at first and dropped afterwards. A record is named by file and line, the
//! line being that of its `statement` or `query`.
//!
//! Both forms of results are understood: one value a line, with numbers printed by the letters of
//! the query as `SQLite`'s collection has it, and one row a line, as its successors have it.

mod md5;
mod parse;
mod result;
mod run;
mod skip;

pub use parse::{BadFile, Expected, Kind, Record, Sort, parse};
pub use run::{Failed, FileReport, Runner};
pub use skip::{BadList, SkipList};
