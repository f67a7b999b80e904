//! A join that keeps the right rows and reads all of them for each left row.
//!
//! Rows that find no room in memory are kept in a file.

use super::{Left, Output};
use crate::error::Result;
use crate::plan::Join;
use crate::run::{Operator, Row, Run, is_true, store};
use crate::sink::Batch;
use sql_rows::{SegmentCache, Store};
use std::sync::Arc;

pub(super) struct AgainRun {
    plan: Arc<Join>,
    left: Left,
    output: Output,
    right: Box<dyn Operator>,
    kept: Option<Store>,
    place: SegmentCache,
    /// The right row that is next for the current left one.
    next: u64,
    /// The right rows that have found a partner, where it matters.
    matched: Vec<bool>,
    /// The right row that is next, when rows without partners are handed over at the end.
    unmatched: Option<u64>,
    pair: Row,
}

impl AgainRun {
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
            kept: None,
            place: SegmentCache::default(),
            next: 0,
            matched: Vec::new(),
            unmatched: None,
            pair: Row::new(),
        }
    }

    fn keep(&mut self, run: &mut Run<'_>) -> Result<Store> {
        let kept = store(&mut *self.right, run)?;
        if self.plan.kind.keeps_right() {
            self.matched = vec![false; kept.len() as usize];
        }
        Ok(kept)
    }

    /// Hands over pairs of the current left row; true if the batch is full.
    fn pairs(&mut self, kept: &Store, run: &mut Run<'_>, out: &mut Batch) -> Result<bool> {
        self.pair.clear();
        self.pair
            .extend_from_slice(self.left.row().unwrap_or_default());
        let width = self.pair.len();
        while let Some(partner) = kept.get(self.next, &mut self.place)? {
            self.next += 1;
            if self.next.is_multiple_of(1024) {
                run.check()?;
            }
            self.pair.truncate(width);
            self.pair.extend_from_slice(partner);
            if let Some(condition) = &self.plan.condition
                && !is_true(condition, &self.pair, run)?
            {
                continue;
            }
            self.left.is_matched = true;
            if let Some(matched) = self.matched.get_mut(self.next as usize - 1) {
                *matched = true;
            }
            if self.plan.kind.ends_at_first() {
                return Ok(false);
            }
            let (left, right) = self.pair.split_at(width);
            self.output.push(Some(left), Some(right), out);
            if out.is_full() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Hands over right rows that found no partner.
    fn rest(&mut self, kept: &Store, out: &mut Batch) -> Result<()> {
        let at = self.unmatched.get_or_insert(0);
        while let Some(matched) = self.matched.get(*at as usize)
            && !out.is_full()
        {
            if !matched && let Some(row) = kept.get(*at, &mut self.place)? {
                self.output.push(None, Some(row), out);
            }
            *at += 1;
        }
        Ok(())
    }

    fn fill(&mut self, kept: &Store, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        while self.unmatched.is_none() {
            if !self.left.fill(run)? {
                break;
            }
            if self.pairs(kept, run, out)? {
                return Ok(());
            }
            let row = self.left.row().unwrap_or_default();
            self.output.end_of_row(row, self.left.is_matched, out);
            self.left.advance();
            self.next = 0;
            if out.is_full() {
                return Ok(());
            }
        }
        self.rest(kept, out)
    }
}

impl Operator for AgainRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        out.reset(self.output.width());
        self.left.batch.want(out.room());
        let kept = match self.kept.take() {
            Some(kept) => kept,
            None => self.keep(run)?,
        };
        let filled = self.fill(&kept, run, out);
        self.kept = Some(kept);
        filled
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.kept = None;
        self.place = SegmentCache::default();
        self.next = 0;
        self.matched.clear();
        self.unmatched = None;
        self.left.restart(run)?;
        self.right.restart(run)
    }
}
