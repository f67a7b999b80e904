//! `LIMIT`, `OFFSET` and `FETCH`: the numbers are computed when the first row is wanted.
//!
//! No row is asked for after the last one that is wanted, so operators below may stop in the
//! middle of their work.

use super::compare::keys_of;
use super::{Operator, Row, Run, build, evaluate};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Expr, Limit};
use crate::sink::Batch;
use crate::types::Datum;
use std::sync::Arc;

pub(super) struct LimitRun {
    plan: Arc<Limit>,
    input: Box<dyn Operator>,
    /// Rows to skip and rows to hand over, once they are known; `None` is no limit.
    left: Option<(u64, Option<u64>)>,
    /// The keys of the last row, if rows with the same ones come too.
    last: Option<Row>,
    batch: Batch,
}

impl LimitRun {
    pub(super) fn new(plan: &Arc<Limit>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: build(&plan.input),
            left: None,
            last: None,
            batch: Batch::default(),
        }
    }

    fn begin(&self, run: &mut Run<'_>) -> Result<(u64, Option<u64>)> {
        let state = SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE;
        let skip = row_count(self.plan.offset.as_ref(), (state, "OFFSET"), run)?;
        let state = SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE;
        let wanted = row_count(self.plan.count.as_ref(), (state, "LIMIT"), run)?;
        Ok((skip.unwrap_or(0), wanted))
    }

    /// Hands over rows that equal the last one, after the limit.
    fn ties(&mut self, from: usize, run: &mut Run<'_>, out: &mut Batch) -> Result<bool> {
        let (Some(keys), Some(last)) = (&self.plan.ties, &self.last) else {
            return Ok(false);
        };
        for at in from..self.batch.len() {
            let row = self.batch.row(at);
            if keys_of(keys, row, run)? != *last {
                return Ok(false);
            }
            out.push(row.iter().cloned());
        }
        Ok(true)
    }
}

/// The value of a limit or offset.
pub(super) fn row_count(
    expression: Option<&Expr>,
    (state, clause): (SqlState, &str),
    run: &mut Run<'_>,
) -> Result<Option<u64>> {
    let Some(expression) = expression else {
        return Ok(None);
    };
    match evaluate(expression, &[], run)? {
        Datum::Null => Ok(None),
        number => u64::try_from(number.int()?)
            .map(Some)
            .map_err(|_| SqlError::new(state, format!("{clause} must not be negative"))),
    }
}

impl Operator for LimitRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        if self.left.is_none() {
            self.left = Some(self.begin(run)?);
        }
        out.reset(self.plan.input.width());
        while out.is_empty() {
            let Some((skip, wanted)) = &mut self.left else {
                return Ok(());
            };
            if *wanted == Some(0) && self.last.is_none() {
                return Ok(());
            }
            let wanted_now = match (*wanted, &self.plan.ties) {
                (Some(wanted), None) => wanted.min(out.room()).saturating_add(*skip),
                _ => u64::MAX,
            };
            self.batch.want(wanted_now);
            self.input.next(run, &mut self.batch)?;
            if self.batch.is_empty() {
                *wanted = Some(0);
                self.last = None;
                return Ok(());
            }
            let first = (*skip).min(self.batch.len() as u64) as usize;
            *skip -= first as u64;
            let rest = (self.batch.len() - first) as u64;
            let taken = wanted.map_or(rest, |wanted| wanted.min(rest)) as usize;
            if let Some(wanted) = wanted {
                *wanted -= taken as u64;
            }
            for at in first..first + taken {
                out.push(self.batch.row(at).iter().cloned());
            }
            let is_over = *wanted == Some(0);
            if let Some(keys) = &self.plan.ties
                && is_over
            {
                if taken > 0 {
                    let last = self.batch.row(first + taken - 1);
                    self.last = Some(keys_of(keys, last, run)?);
                }
                if !self.ties(first + taken, run, out)? {
                    self.last = None;
                }
            }
        }
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.left = None;
        self.last = None;
        self.input.restart(run)
    }
}
