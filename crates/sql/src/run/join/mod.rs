//! Joins: by a table of hashes, by reading the right input again, or by running it again.
//!
//! | module | job |
//! |---|---|
//! | `hash` | the right rows in a table, or both inputs divided among files by their hashes |
//! | `table` | the table |
//! | `again` | the right rows kept and read for each left row |
//! | `lateral` | the right input run for each left row |
//!
//! All of them hold the left input's batch and look for partners of one of its rows at a time.

mod again;
mod hash;
mod lateral;
mod table;

use super::{Operator, Run, build};
use crate::error::Result;
use crate::plan::{Join, JoinKind, JoinMethod};
use crate::sink::Batch;
use crate::types::Datum;
use std::sync::Arc;

/// The operator of a join.
pub(super) fn build_join(plan: &Arc<Join>) -> Box<dyn Operator> {
    let left = Left::new(build(&plan.left));
    let right = build(&plan.right);
    match plan.method {
        JoinMethod::Lateral => Box::new(lateral::LateralRun::new(plan, left, right)),
        JoinMethod::Hash { .. } => Box::new(hash::HashRun::new(plan, left, right)),
        JoinMethod::Loop => Box::new(again::AgainRun::new(plan, left, right)),
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

/// Hands over a left row if its kind of join wants it, after all its partners.
fn end_of_row(plan: &Join, row: &[Datum], is_matched: bool, out: &mut Batch) {
    match plan.kind {
        JoinKind::Left | JoinKind::Full if !is_matched => {
            let nulls = std::iter::repeat_n(Datum::Null, plan.right.width());
            out.push(row.iter().cloned().chain(nulls));
        }
        JoinKind::Semi if is_matched => out.push(row.iter().cloned()),
        JoinKind::Anti if !is_matched => out.push(row.iter().cloned()),
        _ => {}
    }
}

/// Columns of the rows of a join.
fn width(plan: &Join) -> usize {
    match plan.kind {
        JoinKind::Semi | JoinKind::Anti => plan.left.width(),
        _ => plan.left.width() + plan.right.width(),
    }
}
