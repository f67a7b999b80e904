//! Memory of a statement: every operator that keeps rows takes their bytes from one budget.
//!
//! A quarter of `work_mem` is reserved, in equal parts for all operators that may keep rows, so
//! that none of them starves; the rest goes to the first that ask. An operator whose request is
//! refused writes its rows to a file and gives their bytes back. Then it may always keep one row
//! more, with [`Share::force`], because otherwise it could not go on.

use crate::Row;
use crate::files::{Blocks, Files};
use sql_values::error::{Result, SqlError, SqlState};
use sql_values::types::Datum;
use sql_values::types::json::Json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// `work_mem` where no setting is known.
const DEFAULT_BYTES: u64 = 64 << 20;

/// Bytes that a statement may keep, and the files for the rest.
#[derive(Debug)]
pub struct Memory {
    limit_bytes: u64,
    operators: u64,
    /// Those of the session; none where there is no session.
    files: Option<Arc<Files>>,
    /// Made with the first share: most statements keep no rows, and cost no allocation here.
    pool: Option<Arc<Pool>>,
    /// Bytes of everything that cannot go to files.
    fixed: Option<Share>,
}

#[derive(Debug)]
struct Pool {
    limit_bytes: u64,
    /// Bytes that each share has for itself.
    reserve_bytes: u64,
    /// Bytes that anyone may take.
    free_bytes: u64,
    taken_bytes: AtomicU64,
    files: Arc<Files>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            limit_bytes: DEFAULT_BYTES,
            operators: 1,
            files: None,
            pool: None,
            fixed: None,
        }
    }
}

impl Memory {
    /// The memory of a statement with so many operators that may keep rows.
    pub fn new(limit_bytes: u64, operators: usize, files: Arc<Files>) -> Self {
        Self {
            limit_bytes,
            operators: operators as u64,
            files: Some(files),
            pool: None,
            fixed: None,
        }
    }

    /// Makes it that of another statement of the session; false if nobody can, because the last one
    /// has taken some of it.
    pub fn renew(&mut self, limit_bytes: u64, operators: usize) -> bool {
        self.limit_bytes = limit_bytes;
        self.operators = operators as u64;
        self.pool.is_none()
    }

    /// The part of an operator that begins.
    pub fn share(&mut self) -> Share {
        let pool = self.pool.get_or_insert_with(|| {
            let reserved = self.limit_bytes / 4;
            Arc::new(Pool {
                limit_bytes: self.limit_bytes,
                reserve_bytes: reserved / (self.operators + 1),
                free_bytes: self.limit_bytes - reserved,
                taken_bytes: AtomicU64::new(0),
                files: self.files.clone().unwrap_or_default(),
            })
        });
        Share {
            pool: Arc::clone(pool),
            bytes: 0,
            peak_bytes: 0,
        }
    }

    /// Takes the bytes of a row that can only be kept in memory; fails if they are used up.
    pub fn take(&mut self, row: &[Datum]) -> Result<()> {
        let mut fixed = self.fixed.take().unwrap_or_else(|| self.share());
        let has_room = fixed.try_take(bytes_of(row));
        let taken = if has_room {
            Ok(())
        } else {
            Err(fixed.used_up())
        };
        self.fixed = Some(fixed);
        taken
    }

    /// Gives bytes back that [`take`](Self::take) has taken.
    pub fn release(&mut self, bytes: u64) {
        if let Some(fixed) = &mut self.fixed {
            fixed.release(bytes);
        }
    }
}

/// Bytes that an operator keeps.
#[derive(Debug)]
pub struct Share {
    pool: Arc<Pool>,
    bytes: u64,
    peak_bytes: u64,
}

impl Share {
    /// Takes bytes, unless they are used up.
    pub fn try_take(&mut self, bytes: u64) -> bool {
        let reserve = self.pool.reserve_bytes;
        let beyond = |bytes: u64| bytes.saturating_sub(reserve);
        let more = beyond(self.bytes + bytes) - beyond(self.bytes);
        let limit = self.pool.free_bytes;
        let has_room = more == 0
            || self
                .pool
                .taken_bytes
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                    (taken + more <= limit).then_some(taken + more)
                })
                .is_ok();
        if has_room {
            self.bytes += bytes;
            self.peak_bytes = self.peak_bytes.max(self.bytes);
        }
        has_room
    }

    /// Takes bytes even if they are used up.
    pub fn force(&mut self, bytes: u64) {
        if !self.try_take(bytes) {
            let beyond = |bytes: u64| bytes.saturating_sub(self.pool.reserve_bytes);
            let more = beyond(self.bytes + bytes) - beyond(self.bytes);
            self.pool.taken_bytes.fetch_add(more, Ordering::Relaxed);
            self.bytes += bytes;
            self.peak_bytes = self.peak_bytes.max(self.bytes);
        }
    }

    /// Gives bytes back.
    pub fn release(&mut self, bytes: u64) {
        let left = self.bytes.saturating_sub(bytes);
        let beyond = |bytes: u64| bytes.saturating_sub(self.pool.reserve_bytes);
        let less = beyond(self.bytes) - beyond(left);
        self.pool.taken_bytes.fetch_sub(less, Ordering::Relaxed);
        self.bytes = left;
    }

    /// Gives all bytes back.
    pub fn clear(&mut self) {
        self.release(self.bytes);
    }

    /// The most bytes that it has had.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// The number of chains that an operator reads or writes at the same time.
    pub fn fan(&self) -> usize {
        let blocks = self.pool.limit_bytes / 4 / crate::files::BLOCK_BYTES as u64;
        blocks.clamp(4, 32) as usize
    }

    /// A file of an operator.
    pub fn blocks(&self) -> Blocks {
        Blocks::new(&self.pool.files)
    }

    /// The error of an operator that cannot write its rows to files.
    pub fn used_up(&self) -> SqlError {
        let limit = self.pool.limit_bytes;
        SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .detail(format!(
                "The statement keeps more than `work_mem` ({limit} bytes) of rows that cannot go \
                 to temporary files."
            ))
            .hint("Raise `work_mem`, or let the statement keep fewer rows.")
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}

/// About the memory of a row.
pub fn bytes_of(row: &[Datum]) -> u64 {
    (size_of::<Row>() + size_of_val(row) + row.iter().map(content_bytes).sum::<usize>()) as u64
}

/// Bytes of a value beside the value itself.
fn content_bytes(value: &Datum) -> usize {
    /// The counters of a shared content.
    const SHARED: usize = 16;
    match value {
        Datum::Text(text) | Datum::Bpchar(text) | Datum::Json(text) => SHARED + text.len(),
        Datum::Bytea(bytes) => SHARED + bytes.len(),
        Datum::Jsonb(json) => SHARED + json_bytes(json),
        Datum::Array(array) => SHARED + bytes_of(&array.elements) as usize,
        Datum::Record(record) => SHARED + bytes_of(&record.fields) as usize,
        Datum::Numeric(number) if number.small().is_none() => 64,
        _ => 0,
    }
}

fn json_bytes(json: &Json) -> usize {
    let content = match json {
        Json::String(text) => text.len(),
        Json::Array(elements) => elements.iter().map(json_bytes).sum(),
        Json::Object(pairs) => {
            let pairs = pairs.iter();
            pairs
                .map(|(key, value)| key.len() + json_bytes(value))
                .sum()
        }
        _ => 0,
    };
    size_of::<Json>() + content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator_has_a_reserve_and_the_first_ones_get_the_rest() {
        let mut memory = Memory::new(1200, 2, Arc::default());
        let (mut first, mut second) = (memory.share(), memory.share());
        assert!(first.try_take(1000), "900 that are free and 100 of its own");
        assert!(!first.try_take(1));
        assert!(second.try_take(100) && !second.try_take(1));
        second.force(50);
        first.clear();
        assert!(second.try_take(850) && !second.try_take(1));
        drop(second);
        assert!(first.try_take(1000));
        assert_eq!(first.peak_bytes(), 1000);
    }

    #[test]
    fn rows_that_cannot_go_to_files_end_the_statement() {
        let mut memory = Memory::new(1000, 0, Arc::default());
        let row = [Datum::text("x".repeat(600))];
        memory.take(&row).unwrap();
        let refused = memory.take(&row).unwrap_err();
        assert_eq!(refused.state, SqlState::OUT_OF_MEMORY);
        memory.release(bytes_of(&row));
        memory.take(&row).unwrap();
    }
}
