//! Joins: by a table of hashes, by reading the right input again, or by running it again.
//!
//! | module | job |
//! |---|---|
//! | `hash` | the right rows in a table, or both inputs divided among files by their hashes |
//! | `again` | the right rows kept and read for each left row |
//! | `lateral` | the right input run for each left row |
//!
//! All of them hold the left input's batch and look for partners of one of its rows at a time.

mod again;
mod hash;
mod lateral;

use super::{Operator, Run, build};
use crate::error::Result;
use crate::plan::{Join, JoinKind, JoinMethod};
use crate::sink::Batch;
use crate::types::Datum;
use std::sync::Arc;

/// The operator of a join, which hands over all columns if none are named.
pub(super) fn build_join(plan: &Arc<Join>, columns: Option<Vec<usize>>) -> Box<dyn Operator> {
    let left = Left::new(build(&plan.left));
    let right = build(&plan.right);
    let output = Output::new(plan, columns);
    match plan.method {
        JoinMethod::Lateral => Box::new(lateral::LateralRun::new(plan, left, right, output)),
        JoinMethod::Hash { .. } => Box::new(hash::HashRun::new(plan, left, right, output)),
        JoinMethod::Loop => Box::new(again::AgainRun::new(plan, left, right, output)),
    }
}

/// The columns that a join hands over.
struct Output {
    kind: JoinKind,
    /// Columns of a left row.
    left: usize,
    /// Positions in a left row followed by a right one.
    columns: Vec<usize>,
}

impl Output {
    fn new(plan: &Join, columns: Option<Vec<usize>>) -> Self {
        let left = plan.left.width();
        let width = match plan.kind {
            JoinKind::Semi | JoinKind::Anti => left,
            _ => left + plan.right.width(),
        };
        Self {
            kind: plan.kind,
            left,
            columns: columns.unwrap_or_else(|| (0..width).collect()),
        }
    }

    /// Columns of a row that is handed over.
    fn width(&self) -> usize {
        self.columns.len()
    }

    /// Hands over a pair; a row that is not there has NULLs.
    fn push(&self, left: Option<&[Datum]>, right: Option<&[Datum]>, out: &mut Batch) {
        out.push(self.columns.iter().map(|&at| {
            let value = match at.checked_sub(self.left) {
                Some(at) => right.and_then(|row| row.get(at)),
                None => left.and_then(|row| row.get(at)),
            };
            value.cloned().unwrap_or(Datum::Null)
        }));
    }

    /// Hands over a left row if its kind of join wants it, after all its partners.
    fn end_of_row(&self, row: &[Datum], is_matched: bool, out: &mut Batch) {
        let is_wanted = match self.kind {
            JoinKind::Left | JoinKind::Full | JoinKind::Anti => !is_matched,
            JoinKind::Semi => is_matched,
            JoinKind::Inner | JoinKind::Right => false,
        };
        if is_wanted {
            self.push(Some(row), None, out);
        }
    }
}

/// The left input: a batch, and the row of it that looks for partners.
struct Left {
    input: Box<dyn Operator>,
    batch: Batch,
    at: usize,
    /// Whether the current row has found a partner.
    is_matched: bool,
}

impl Left {
    fn new(input: Box<dyn Operator>) -> Self {
        Self {
            input,
            batch: Batch::default(),
            at: 0,
            is_matched: false,
        }
    }

    fn row(&self) -> Option<&[Datum]> {
        (self.at < self.batch.len()).then(|| self.batch.row(self.at))
    }

    /// Makes sure that there is a current row; false if there are no more.
    fn fill(&mut self, run: &mut Run<'_>) -> Result<bool> {
        if self.at < self.batch.len() {
            return Ok(true);
        }
        run.check()?;
        self.at = 0;
        self.input.next(run, &mut self.batch)?;
        Ok(!self.batch.is_empty())
    }

    fn advance(&mut self) {
        self.at += 1;
        self.is_matched = false;
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.clear();
        self.input.restart(run)
    }

    fn clear(&mut self) {
        self.batch.reset(0);
        self.at = 0;
        self.is_matched = false;
    }
}
