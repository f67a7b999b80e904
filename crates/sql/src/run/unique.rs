//! Rows that are met for the first time, for `DISTINCT` and `UNION`.
//!
//! Rows that were met are kept in a table. When it is full, rows that are not in it are divided
//! among files by their hashes. Each file is then read with a table of its own, and divided again
//! if that is full, too.

use super::{Row, Run};
use crate::error::Result;
use crate::plan::Report;
use crate::sink::Batch;
use crate::types::Datum;
use sql_rows::{Blocks, BuildRowHasher, Chain, Partitions, Reader, Share, bytes_of};
use std::collections::HashSet;

pub(super) struct Unique {
    share: Share,
    seen: HashSet<Row, BuildRowHasher>,
    files: Overflow,
    /// The file that is being read.
    current: Option<(Chain, Reader)>,
}

/// Rows that have found no room in a table, by the hashes of their keys.
pub(super) struct Overflow {
    blocks: Blocks,
    /// The files of this round, once there are some.
    parts: Option<Partitions>,
    level: u32,
    /// Files of this round and of earlier ones that are to be read, with their levels.
    waiting: Vec<(u32, Chain)>,
    /// Rounds that there are, the first one included.
    rounds: usize,
}

impl Overflow {
    pub(super) fn new(share: &Share) -> Self {
        Self {
            blocks: share.blocks(),
            parts: None,
            level: 0,
            waiting: Vec::new(),
            rounds: 1,
        }
    }

    /// Whether rows may get places in the table: with the first row in a file the table has all of
    /// its keys, as a key whose rows lie in a file would be met again there.
    pub(super) fn has_room(&self, share: &mut Share, bytes: u64) -> bool {
        self.parts.is_none() && share.try_take(bytes)
    }

    /// Adds a row to the file of its key.
    pub(super) fn push(&mut self, share: &Share, key: &[Datum], row: &[Datum]) -> Result<()> {
        let parts = self
            .parts
            .get_or_insert_with(|| Partitions::new(&self.blocks, share, self.level));
        parts.push(key, row)
    }

    /// Ends a round; the rows of the next one, if there is one.
    pub(super) fn next_round(&mut self) -> Result<Option<Chain>> {
        if let Some(parts) = self.parts.take() {
            let parts = parts.into_chains()?.into_iter();
            let parts = parts.filter(|part| part.rows() > 0);
            let level = self.level + 1;
            let before = self.waiting.len();
            self.waiting.extend(parts.map(|part| (level, part)));
            self.rounds += self.waiting.len() - before;
        }
        let Some((level, chain)) = self.waiting.pop() else {
            return Ok(None);
        };
        self.level = level;
        Ok(Some(chain))
    }

    pub(super) fn report(&self, share: &Share) -> Report {
        Report::Groups {
            batches: self.rounds,
            memory_bytes: share.peak_bytes(),
            disk_bytes: self.blocks.bytes(),
        }
    }
}

impl Unique {
    pub(super) fn new(run: &mut Run<'_>) -> Self {
        let share = run.state.memory.share();
        Self {
            files: Overflow::new(&share),
            share,
            seen: HashSet::default(),
            current: None,
        }
    }

    /// Adds the row to the batch if it is met for the first time; rows without room come later.
    pub(super) fn add(&mut self, row: &[Datum], out: &mut Batch) -> Result<()> {
        if self.seen.contains(row) {
            return Ok(());
        }
        let bytes = bytes_of(row);
        if !self.files.has_room(&mut self.share, bytes) {
            if !self.seen.is_empty() {
                return self.files.push(&self.share, row, row);
            }
            self.share.force(bytes);
        }
        self.seen.insert(row.to_vec());
        out.push(row.iter().cloned());
        Ok(())
    }

    /// Adds rows of files, after the last row has come; none if there are no more.
    pub(super) fn rest(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        while out.is_empty() {
            run.check()?;
            let Some((mut chain, mut reader)) = self.current.take() else {
                self.seen.clear();
                self.share.clear();
                match self.files.next_round()? {
                    None => return Ok(()),
                    Some(chain) => self.current = Some((chain, Reader::default())),
                }
                continue;
            };
            let mut read = 0;
            while !out.is_full()
                && read < sql_rows::BATCH_ROWS
                && let Some(row) = chain.take(&mut reader)?
            {
                read += 1;
                self.add(&row, out)?;
            }
            if read > 0 {
                self.current = Some((chain, reader));
            }
        }
        Ok(())
    }

    pub(super) fn report(&self) -> Report {
        self.files.report(&self.share)
    }
}
