//! The work of an operator, for `EXPLAIN ANALYZE`.
//!
//! An operator adds to its counters while it runs. All runs of it share them, so the work that is
//! shown is an average over them.

use sql_rows::{Method, Usage};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The work of an operator, over all its runs.
#[derive(Debug, Default)]
pub struct Counters {
    rows: AtomicU64,
    loops: AtomicU64,
    first_ns: AtomicU64,
    total_ns: AtomicU64,
    report: Mutex<Option<Report>>,
}

/// The memory and the files of an operator.
#[derive(Clone, Copy, Debug)]
pub enum Report {
    /// The method of a sort, and the memory or file space that it took.
    Sort(Usage),
    /// The table of a join.
    Hash {
        /// Buckets of the hash table.
        buckets: usize,
        /// Batches that the rows were split into, 1 if all fitted into memory.
        batches: usize,
        /// The most memory that it took.
        memory_bytes: u64,
    },
    /// A table of groups or of rows.
    Groups {
        /// Batches that the rows were split into, 1 if all fitted into memory.
        batches: usize,
        /// The most memory that it took.
        memory_bytes: u64,
        /// Bytes of its files.
        disk_bytes: u64,
    },
}

/// Bytes as they are shown.
fn kilobytes(bytes: u64) -> u64 {
    bytes.div_ceil(1024)
}

impl Report {
    /// The report as PostgreSQL shows it in a text: the name of its line, and the rest of it.
    pub fn line(self) -> (&'static str, String) {
        match self {
            Self::Sort(usage) => {
                let (method, space) = sort_words(usage.method);
                let text = format!("{method}  {space}: {}kB", kilobytes(usage.bytes));
                ("Sort Method", text)
            }
            Self::Hash {
                buckets,
                batches,
                memory_bytes,
            } => {
                let memory = kilobytes(memory_bytes);
                let text = format!("{buckets}  Batches: {batches}  Memory Usage: {memory}kB");
                ("Buckets", text)
            }
            Self::Groups {
                batches,
                memory_bytes,
                disk_bytes,
            } => {
                let disk = match kilobytes(disk_bytes) {
                    0 => String::new(),
                    disk => format!("  Disk Usage: {disk}kB"),
                };
                let memory = kilobytes(memory_bytes);
                (
                    "Batches",
                    format!("{batches}  Memory Usage: {memory}kB{disk}"),
                )
            }
        }
    }

    /// The members of the report in JSON.
    pub fn members(self) -> Vec<(&'static str, String)> {
        let number = |bytes: u64| kilobytes(bytes).to_string();
        match self {
            Self::Sort(usage) => {
                let (method, space) = sort_words(usage.method);
                vec![
                    ("Sort Method", format!("\"{method}\"")),
                    ("Sort Space Used", number(usage.bytes)),
                    ("Sort Space Type", format!("\"{space}\"")),
                ]
            }
            Self::Hash {
                buckets,
                batches,
                memory_bytes,
            } => vec![
                ("Hash Buckets", buckets.to_string()),
                ("Hash Batches", batches.to_string()),
                ("Peak Memory Usage", number(memory_bytes)),
            ],
            Self::Groups {
                batches,
                memory_bytes,
                disk_bytes,
            } => vec![
                ("HashAgg Batches", batches.to_string()),
                ("Peak Memory Usage", number(memory_bytes)),
                ("Disk Usage", number(disk_bytes)),
            ],
        }
    }
}

/// PostgreSQL's words for a sort: its method, and the place of its rows.
fn sort_words(method: Method) -> (&'static str, &'static str) {
    match method {
        Method::Memory => ("quicksort", "Memory"),
        Method::First => ("top-N heapsort", "Memory"),
        Method::Merge => ("external merge", "Disk"),
    }
}

/// The work of an operator, on average of its runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Rows that it gave.
    pub rows: f64,
    /// How often it was run; the other fields are of one run on average.
    pub loops: u64,
    /// Milliseconds until the first rows.
    pub first_ms: f64,
    /// Milliseconds until the last row.
    pub total_ms: f64,
}

impl Counters {
    /// A run begins.
    pub fn begin(&self) {
        self.loops.fetch_add(1, Ordering::Relaxed);
    }

    /// Rows have come, the first ones of a run or others.
    pub fn add(&self, rows: usize, took: Duration, is_first: bool) {
        let nanos = took.as_nanos() as u64;
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        self.total_ns.fetch_add(nanos, Ordering::Relaxed);
        if is_first {
            self.first_ns.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    /// Notes the report of a run that ends.
    pub fn note(&self, report: Report) {
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    /// The report of the last run.
    pub fn report(&self) -> Option<Report> {
        *self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The work so far; none if the operator has not run.
    pub fn work(&self) -> Option<Work> {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let loops = self.loops.load(Ordering::Relaxed);
        let each = loops as f64;
        (loops > 0).then(|| Work {
            rows: get(&self.rows) / each,
            loops,
            first_ms: get(&self.first_ns) / each / 1e6,
            total_ms: get(&self.total_ns) / each / 1e6,
        })
    }
}
