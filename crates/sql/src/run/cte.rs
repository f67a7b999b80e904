//! Queries of `WITH`: computed once for all their uses, or round by round.
//!
//! A recursive query runs its first part, then its second one again and again over the rows that
//! the round before has added, until a round adds none. Without `ALL` a row is added once.

use super::{Kept, Operator, Row, Run, build, collect};
use crate::error::Result;
use crate::plan::{Recursive, Shared, Working};
use crate::sink::Batch;
use std::collections::HashSet;
use std::sync::Arc;

pub(super) struct SharedRun {
    plan: Arc<Shared>,
    rows: Option<Arc<Vec<Row>>>,
    next: usize,
}

impl SharedRun {
    pub(super) fn new(plan: &Arc<Shared>) -> Self {
        Self {
            plan: Arc::clone(plan),
            rows: None,
            next: 0,
        }
    }

    /// The rows, from the first use of the query.
    fn rows(&self, run: &mut Run<'_>) -> Result<Arc<Vec<Row>>> {
        let number = self.plan.number;
        if let Some(Some(rows)) = run.state.shared.get(number) {
            return Ok(Arc::clone(rows));
        }
        let rows = Arc::new(collect(&mut *build(&self.plan.node), run)?);
        let shared = &mut run.state.shared;
        if shared.len() <= number {
            shared.resize(number + 1, None);
        }
        shared[number] = Some(Arc::clone(&rows));
        Ok(rows)
    }
}

/// Adds rows to a batch until it is full.
fn hand_over(rows: &[Row], next: &mut usize, width: usize, out: &mut Batch) {
    out.reset(width);
    while let Some(row) = rows.get(*next)
        && !out.is_full()
    {
        *next += 1;
        out.push(row.iter().cloned());
    }
}

impl Operator for SharedRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        let rows = match &self.rows {
            Some(rows) => Arc::clone(rows),
            None => self.rows(run)?,
        };
        hand_over(&rows, &mut self.next, self.plan.width, out);
        self.rows = Some(rows);
        Ok(())
    }

    fn restart(&mut self, _: &mut Run<'_>) -> Result<()> {
        self.next = 0;
        Ok(())
    }
}

pub(super) struct RecursiveRun {
    plan: Arc<Recursive>,
    start: Box<dyn Operator>,
    step: Box<dyn Operator>,
    seen: HashSet<Row>,
    /// Rows of the last round, and those of them that are to be handed over.
    round: Option<(Arc<Vec<Row>>, Kept)>,
}

impl RecursiveRun {
    pub(super) fn new(plan: &Arc<Recursive>) -> Self {
        Self {
            plan: Arc::clone(plan),
            start: build(&plan.start),
            step: build(&plan.step),
            seen: HashSet::new(),
            round: None,
        }
    }

    fn next_round(&mut self, run: &mut Run<'_>) -> Result<()> {
        let earlier = run.state.budget;
        let mut rows = match &self.round {
            None => collect(&mut *self.start, run)?,
            Some((working, _)) => {
                let working = Arc::clone(working);
                let number = self.plan.number;
                let all = &mut run.state.working;
                if all.len() <= number {
                    all.resize_with(number + 1, Arc::default);
                }
                all[number] = working;
                self.step.restart(run)?;
                collect(&mut *self.step, run)?
            }
        };
        if self.plan.all {
            // The rows of the round before are gone once these are handed over.
            run.state.budget.release_to(earlier);
        } else {
            rows.retain(|row| self.seen.insert(row.clone()));
        }
        let rows = Arc::new(rows);
        let kept = Kept::new(Vec::clone(&rows));
        self.round = Some((rows, kept));
        Ok(())
    }
}

impl Operator for RecursiveRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        loop {
            if let Some((rows, kept)) = &mut self.round {
                kept.next(self.plan.width, out);
                if !out.is_empty() || rows.is_empty() {
                    return Ok(());
                }
            }
            run.check()?;
            self.next_round(run)?;
        }
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.round = None;
        self.seen.clear();
        self.start.restart(run)
    }
}

pub(super) struct WorkingRun {
    plan: Arc<Working>,
    next: usize,
}

impl WorkingRun {
    pub(super) fn new(plan: &Arc<Working>) -> Self {
        Self {
            plan: Arc::clone(plan),
            next: 0,
        }
    }
}

impl Operator for WorkingRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        let rows = run.state.working.get(self.plan.number).cloned();
        hand_over(
            &rows.unwrap_or_default(),
            &mut self.next,
            self.plan.width,
            out,
        );
        Ok(())
    }

    fn restart(&mut self, _: &mut Run<'_>) -> Result<()> {
        self.next = 0;
        Ok(())
    }
}
