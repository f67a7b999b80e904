//! A join by a table of the right rows.
//!
//! If the right rows do not fit into memory, the rows of both inputs are divided among files by the
//! hashes of their keys, and each pair of files is joined on its own:
//!
//! - A right file that fits is read into the table, and its left file looks for partners there.
//! - One that does not is divided again together with its left file, by other bits of the hash.
//! - Rows of one key stay together however often they are divided. A right file with hardly any
//!   other rows is read in pieces, and its left file once for each; notes on the left rows say
//!   which of them have found a partner in an earlier piece.
//!
//! Rows in files have the values of their keys after their own, so that keys are computed once.

use super::{Left, Output};
use crate::error::Result;
use crate::plan::{Expr, Join, JoinKind, JoinMethod, Report};
use crate::run::{Operator, Row, Run, evaluate, is_true};
use crate::sink::Batch;
use crate::types::Datum;
use sql_rows::{BATCH_ROWS, Blocks, Chain, LEVELS_MAX, NO_ROW, Partitions, Reader, RowTable};
use std::sync::Arc;

pub(super) struct HashRun {
    plan: Arc<Join>,
    left: Left,
    output: Output,
    right: Box<dyn Operator>,
    phase: Phase,
    table: Option<RowTable>,
    /// The right rows of the table that have found a partner, where it matters.
    matched: Vec<bool>,
    /// The right row that is next for the current left one, which has this key.
    candidate: Candidate,
    key: Row,
    pair: Row,
    files: Option<Files>,
    /// Whether the table stays for the next run, once that is known.
    is_fixed: Option<bool>,
    /// The memory of the largest table.
    memory_bytes: u64,
}

#[derive(Clone, Copy)]
enum Phase {
    NotBegun,
    /// Left rows look for partners.
    Probe,
    /// Right rows without partners are handed over, from this one on.
    Rest(usize),
    Over,
}

#[derive(Clone, Copy)]
enum Candidate {
    NotLookedUp,
    Row(u32),
}

/// The inputs as files.
struct Files {
    blocks: Blocks,
    waiting: Vec<Pair>,
    /// The pair that is being joined.
    current: Option<Pair>,
    pairs: usize,
}

/// Right and left rows whose keys have the same part of their hash.
struct Pair {
    level: u32,
    /// Whether nearly all right rows have one key, so that dividing them is of no use.
    is_skewed: bool,
    right: Chain,
    right_reader: Reader,
    /// The right row that begins the next piece.
    pending: Option<Row>,
    left: Chain,
    left_reader: Reader,
    /// Whether each left row has found a partner in an earlier piece; empty if there is none.
    left_matched: Vec<bool>,
    /// The number of the first left row in the batch.
    left_at: usize,
}

impl Pair {
    /// Whether all right rows have been read.
    fn is_last_piece(&self) -> bool {
        self.pending.is_none()
    }
}

impl HashRun {
    pub(super) fn new(
        plan: &Arc<Join>,
        left: Left,
        right: Box<dyn Operator>,
        output: Output,
    ) -> Self {
        Self {
            plan: Arc::clone(plan),
            left,
            output,
            right,
            phase: Phase::NotBegun,
            table: None,
            matched: Vec::new(),
            candidate: Candidate::NotLookedUp,
            key: Row::new(),
            pair: Row::new(),
            files: None,
            is_fixed: None,
            memory_bytes: 0,
        }
    }

    /// Whether the table is that of the next run as well: rounds of a recursive query and rows
    /// around the join change nothing about its rows.
    fn is_kept(&mut self) -> bool {
        let plan = &self.plan;
        let keys = match &plan.method {
            JoinMethod::Hash { right, .. } => right.as_slice(),
            _ => return false,
        };
        let is_fixed = |key: &Expr| {
            !key.any(|part, _| matches!(part, Expr::Outer(..) | Expr::Subquery(_)))
                && !key.has_volatile()
        };
        *self
            .is_fixed
            .get_or_insert_with(|| plan.right.is_fixed() && keys.iter().all(is_fixed))
    }

    fn keys(&self) -> (&[Expr], &[Expr]) {
        match &self.plan.method {
            JoinMethod::Hash { left, right, .. } => (left, right),
            _ => (&[], &[]),
        }
    }

    /// Reads the right input into the table, or both inputs into files.
    fn begin(&mut self, run: &mut Run<'_>) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let (width, keys) = (plan.right.width(), self.keys().1.len());
        let mut table = RowTable::new(run.state.memory.share(), width, keys);
        let mut files: Option<(Blocks, Partitions)> = None;
        let (mut batch, mut row_and_key) = (Batch::default(), Row::new());
        loop {
            self.right.next(run, &mut batch)?;
            if batch.is_empty() {
                break;
            }
            run.check()?;
            for row in batch.rows() {
                row_and_key.clear();
                row_and_key.extend_from_slice(row);
                add_key(self.keys().1, row, &mut row_and_key, run)?;
                let key = &row_and_key[width..];
                if key.iter().any(Datum::is_null) && !plan.kind.keeps_right() {
                    continue;
                }
                if files.is_none() {
                    if table.push(row, key) {
                        continue;
                    }
                    let blocks = table.share().blocks();
                    let parts = divided(&blocks, &mut table, 0)?;
                    files = Some((blocks, parts));
                }
                if let Some((_, parts)) = &mut files {
                    parts.push(key, &row_and_key)?;
                }
            }
        }
        self.table = Some(table);
        match files {
            Some((blocks, parts)) => self.divide_left(blocks, parts, run),
            None => {
                self.link();
                self.phase = Phase::Probe;
                let is_empty = self.table.as_ref().is_none_or(RowTable::is_empty);
                if is_empty && !plan.kind.keeps_left() {
                    self.phase = Phase::Over;
                }
                Ok(())
            }
        }
    }

    /// Reads the left input into files, too.
    fn divide_left(&mut self, blocks: Blocks, right: Partitions, run: &mut Run<'_>) -> Result<()> {
        let right = right.into_chains()?;
        let Some(table) = &self.table else {
            return Ok(());
        };
        let mut left = Partitions::new(&blocks, table.share(), 0);
        let (width, mut row_and_key) = (self.plan.left.width(), Row::new());
        while self.left.fill(run)? {
            for row in self.left.batch.rows() {
                row_and_key.clear();
                row_and_key.extend_from_slice(row);
                add_key(self.keys().0, row, &mut row_and_key, run)?;
                let key = &row_and_key[width..];
                if self.plan.kind.keeps_left() || !key.iter().any(Datum::is_null) {
                    left.push(key, &row_and_key)?;
                }
            }
            self.left.clear();
        }
        let mut files = Files {
            blocks,
            waiting: Vec::new(),
            current: None,
            pairs: 0,
        };
        files.add(1, right, left.into_chains()?, self.plan.kind);
        self.files = Some(files);
        self.next_piece(run)
    }

    fn link(&mut self) {
        let Some(table) = &mut self.table else {
            return;
        };
        table.link();
        self.memory_bytes = self.memory_bytes.max(table.share().peak_bytes());
        self.matched.clear();
        if self.plan.kind.keeps_right() {
            self.matched.resize(table.len(), false);
        }
    }

    /// Reads the next piece of the current right file, or the next one, into the table.
    fn next_piece(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.phase = Phase::Over;
        let (Some(files), Some(table)) = (&mut self.files, &mut self.table) else {
            return Ok(());
        };
        self.left.clear();
        loop {
            table.clear();
            run.check()?;
            let pair = files.current.take().filter(|pair| !pair.is_last_piece());
            let Some(mut pair) = pair.or_else(|| files.waiting.pop()) else {
                return Ok(());
            };
            pair.left_reader = Reader::default();
            pair.left_at = 0;
            let width = self.plan.right.width();
            let mut read = 0_u64;
            let mut next = pair.pending.take();
            while next.is_some() || read == 0 {
                if let Some(row) = next.take() {
                    let (own, key) = row.split_at(width);
                    if !table.push(own, key) {
                        pair.pending = Some(row);
                        break;
                    }
                }
                read += 1;
                if read.is_multiple_of(BATCH_ROWS as u64) {
                    run.check()?;
                }
                next = pair.right.take(&mut pair.right_reader)?;
            }
            if pair.pending.is_some() && !pair.is_skewed && pair.level < LEVELS_MAX {
                files.divide(pair, table, self.plan.kind, run)?;
                continue;
            }
            if !pair.is_last_piece() && pair.left_matched.is_empty() {
                pair.left_matched = vec![false; pair.left.rows() as usize];
            }
            files.current = Some(pair);
            break;
        }
        self.link();
        self.phase = Phase::Probe;
        Ok(())
    }

    /// Makes sure that there is a current left row; false if there are no more for this table.
    fn fill_left(&mut self, run: &mut Run<'_>) -> Result<bool> {
        let Some(pair) = self.files.as_mut().and_then(|files| files.current.as_mut()) else {
            return self.left.fill(run);
        };
        let left = &mut self.left;
        if left.at >= left.batch.len() {
            run.check()?;
            pair.left_at += left.batch.len();
            left.at = 0;
            let keys = match &self.plan.method {
                JoinMethod::Hash { left, .. } => left.len(),
                _ => 0,
            };
            left.batch.reset(self.plan.left.width() + keys);
            while !left.batch.is_full() {
                let row = match pair.is_last_piece() {
                    true => pair.left.take(&mut pair.left_reader)?,
                    false => pair.left.read(&mut pair.left_reader)?,
                };
                match row {
                    Some(row) => left.batch.push(row),
                    None => break,
                }
            }
        }
        let noted = pair.left_matched.get(pair.left_at + left.at);
        left.is_matched |= noted.is_some_and(|noted| *noted);
        Ok(left.at < left.batch.len())
    }

    /// The key of the current left row, and the first row of the table that has it.
    fn look_up(&mut self, run: &mut Run<'_>) -> Result<u32> {
        let Some(table) = &self.table else {
            return Ok(NO_ROW);
        };
        let row = self.left.row().unwrap_or_default();
        self.key.clear();
        if self.files.is_some() {
            self.key.extend_from_slice(&row[self.output.left..]);
        } else if let JoinMethod::Hash { left, .. } = &self.plan.method {
            add_key(left, row, &mut self.key, run)?;
        }
        // A partner that was found says all there is to know.
        if self.left.is_matched && self.plan.kind.ends_at_first() {
            return Ok(NO_ROW);
        }
        let found = table.first(&self.key);
        if found != NO_ROW && self.plan.condition.is_some() {
            self.pair.clear();
            self.pair.extend_from_slice(&row[..self.output.left]);
        }
        Ok(found)
    }

    /// Hands over pairs of the current left row; true if the batch is full.
    fn pairs(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<bool> {
        let mut at = match self.candidate {
            Candidate::Row(at) => at,
            Candidate::NotLookedUp => self.look_up(run)?,
        };
        let Some(table) = &self.table else {
            return Ok(false);
        };
        let mut tried = 0_u32;
        while at != NO_ROW {
            tried += 1;
            if tried.is_multiple_of(BATCH_ROWS as u32) {
                run.check()?;
            }
            let partner = table.row(at as usize);
            let place = at as usize;
            at = table.after(at, &self.key);
            if let Some(condition) = &self.plan.condition {
                self.pair.truncate(self.output.left);
                self.pair.extend_from_slice(partner);
                if !is_true(condition, &self.pair, run)? {
                    continue;
                }
            }
            self.left.is_matched = true;
            if let Some(matched) = self.matched.get_mut(place) {
                *matched = true;
            }
            if self.plan.kind.ends_at_first() {
                break;
            }
            self.output.push(self.left.row(), Some(partner), out);
            if out.is_full() {
                self.candidate = Candidate::Row(at);
                return Ok(true);
            }
        }
        self.candidate = Candidate::NotLookedUp;
        Ok(false)
    }

    /// Ends the current left row: it is handed over, or noted for the next piece.
    fn end_of_left(&mut self, out: &mut Batch) {
        let is_matched = self.left.is_matched;
        let current = self.files.as_mut().and_then(|files| files.current.as_mut());
        let is_last = current.as_ref().is_none_or(|pair| pair.is_last_piece());
        if is_last {
            let row = self.left.row().unwrap_or_default();
            self.output.end_of_row(row, is_matched, out);
        } else if let Some(pair) = current {
            let place = pair.left_at + self.left.at;
            if let Some(noted) = pair.left_matched.get_mut(place) {
                *noted = is_matched;
            }
        }
        self.left.advance();
    }

    /// Hands over right rows of the table that found no partner, from a place on; the next place.
    fn rest(&self, mut at: usize, out: &mut Batch) -> usize {
        let Some(table) = &self.table else {
            return at;
        };
        while let Some(matched) = self.matched.get(at)
            && !out.is_full()
        {
            if !matched {
                self.output.push(None, Some(table.row(at)), out);
            }
            at += 1;
        }
        at
    }
}

impl Files {
    /// Adds pairs of files that may have pairs of rows.
    fn add(&mut self, level: u32, right: Vec<Chain>, left: Vec<Chain>, kind: JoinKind) {
        let all: u64 = right.iter().map(Chain::rows).sum();
        for (right, left) in right.into_iter().zip(left) {
            let (has_right, has_left) = (right.rows() > 0, left.rows() > 0);
            let is_useful =
                (has_right && (has_left || kind.keeps_right())) || (has_left && kind.keeps_left());
            if !is_useful {
                continue;
            }
            self.pairs += 1;
            self.waiting.push(Pair {
                level,
                is_skewed: right.rows() * 10 > all * 9,
                right,
                right_reader: Reader::default(),
                pending: None,
                left,
                left_reader: Reader::default(),
                left_matched: Vec::new(),
                left_at: 0,
            });
        }
    }

    /// Divides a pair of which the table has the first right rows.
    fn divide(
        &mut self,
        mut pair: Pair,
        table: &mut RowTable,
        kind: JoinKind,
        run: &Run<'_>,
    ) -> Result<()> {
        let level = pair.level;
        let right_keys = table.key(0).len();
        let mut parts = divided(&self.blocks, table, level)?;
        let mut next = pair.pending.take();
        let mut read = 0_u64;
        while let Some(row) = next {
            parts.push(&row[row.len() - right_keys..], &row)?;
            read += 1;
            if read.is_multiple_of(BATCH_ROWS as u64) {
                run.check()?;
            }
            next = pair.right.take(&mut pair.right_reader)?;
        }
        let right = parts.into_chains()?;
        let mut parts = Partitions::new(&self.blocks, table.share(), level);
        while let Some(row) = pair.left.take(&mut pair.left_reader)? {
            parts.push(&row[row.len() - right_keys..], &row)?;
            read += 1;
            if read.is_multiple_of(BATCH_ROWS as u64) {
                run.check()?;
            }
        }
        self.add(level + 1, right, parts.into_chains()?, kind);
        Ok(())
    }
}

/// Moves the rows of a table to files.
fn divided(blocks: &Blocks, table: &mut RowTable, level: u32) -> Result<Partitions> {
    let mut parts = Partitions::new(blocks, table.share(), level);
    let mut row_and_key = Row::new();
    for at in 0..table.len() {
        row_and_key.clear();
        row_and_key.extend_from_slice(table.row(at));
        row_and_key.extend_from_slice(table.key(at));
        parts.push(table.key(at), &row_and_key)?;
    }
    table.clear();
    Ok(parts)
}

/// Adds the values of keys.
fn add_key(keys: &[Expr], row: &[Datum], out: &mut Row, run: &mut Run<'_>) -> Result<()> {
    for key in keys {
        out.push(evaluate(key, row, run)?);
    }
    Ok(())
}

impl Operator for HashRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        out.reset(self.output.width());
        loop {
            match self.phase {
                Phase::NotBegun => self.begin(run)?,
                Phase::Probe => {
                    self.left.batch.want(out.room());
                    while !out.is_full() && self.fill_left(run)? {
                        if self.pairs(run, out)? {
                            return Ok(());
                        }
                        self.end_of_left(out);
                    }
                    if out.is_full() {
                        return Ok(());
                    }
                    self.phase = Phase::Rest(0);
                }
                Phase::Rest(at) => {
                    self.phase = Phase::Rest(self.rest(at, out));
                    if out.is_full() {
                        return Ok(());
                    }
                    self.next_piece(run)?;
                }
                Phase::Over => return Ok(()),
            }
        }
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.candidate = Candidate::NotLookedUp;
        self.left.restart(run)?;
        let has_table = !matches!(self.phase, Phase::NotBegun) && self.files.is_none();
        if has_table && self.is_kept() {
            self.matched.fill(false);
            self.phase = Phase::Probe;
            return Ok(());
        }
        self.phase = Phase::NotBegun;
        self.table = None;
        self.files = None;
        self.right.restart(run)
    }

    fn report(&self) -> Option<Report> {
        let table = self.table.as_ref()?;
        Some(Report::Hash {
            buckets: table.hashes(),
            batches: self.files.as_ref().map_or(1, |files| files.pairs),
            memory_bytes: self.memory_bytes,
        })
    }
}
