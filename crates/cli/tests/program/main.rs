//! Tests of the built program, in one binary so that it is linked once.
//!
//! | module | goal |
//! |---|---|
//! | `advise` | the recommendation follows what was counted |
//! | `browser` | pages of reports, looked at in a real browser |
//! | `btree` | `bench btree-insert`: orders, mixes, and what it refuses |
//! | `copy` | backup, restore and conversion |
//! | `data` | what goes in comes out the same |
//! | `files` | files that are written, the standard streams, pipes |
//! | `limits` | limits of the operating system |
//! | `read_only` | reading without the right to write |
//! | `bad_input` | each mistake gets a clear sentence and the right exit code |
//! | `import` | files as people have them |
//! | `join` | `bench join`: rows, the grid, and what it refuses |
//! | `lab` | experiments at the smallest setting, killed and resumed |
//! | `measure` | the measuring commands run end to end |
//! | `tpcc` | TPC-C from the command line |
//! | `recovery` | the opening after a kill with a long log |
//! | `repair` | lost and damaged files: no advice that loses more, and what can be rebuilt |
//! | `shell` | what is typed, pasted and read into the shell of SQL is run once, as it was meant |
//! | `shown` | what people read is short, safe and helpful |
//! | `sqlite` | tables of a file of SQLite |
//! | `standard` | TPC-B and TATP from the command line, and the standard benchmarks killed |
//! | `sysbench` | the OLTP scripts of sysbench from the command line |

#![expect(clippy::unwrap_used, reason = "a test ends at what it cannot do")]

mod advise;
mod bad_input;
mod browser;
mod btree;
mod common;
mod copy;
mod data;
mod files;
mod import;
mod join;
mod lab;
mod limits;
mod measure;
mod read_only;
mod recovery;
mod repair;
mod shell;
mod shown;
mod sql;
mod sqlite;
mod standard;
mod sysbench;
mod tpcc;
