//! Queries of `WITH`: computed once for all uses, as far as rows are wanted, or round by round.
//!
//! A recursive query runs its first part, then its second one again and again over the rows that
//! the round before has added, until a round adds none. Without `ALL` a row is added once. Rows are
//! handed over as they come, so a query without an end serves a limit.

use super::{Operator, Row, Run, build, let_go};
use crate::error::Result;
use crate::plan::{Recursive, Shared, Working};
use crate::sink::Batch;
use sql_rows::{BuildRowHasher, SegmentCache, Store};
use std::collections::HashSet;
use std::sync::Arc;

/// Rows that have come of a query that several parts of a plan read.
pub(super) struct SharedRows {
    rows: Store,
    /// The query, while more rows may come.
    source: Option<Box<dyn Operator>>,
}

pub(super) struct SharedRun {
    plan: Arc<Shared>,
    next: u64,
    place: SegmentCache,
}

impl SharedRun {
    pub(super) fn new(plan: &Arc<Shared>) -> Self {
        Self {
            plan: Arc::clone(plan),
            next: 0,
            place: SegmentCache::default(),
        }
    }

    /// Adds the next rows of the query to those that have come; false if there are no more.
    fn read_on(&self, run: &mut Run<'_>) -> Result<bool> {
        let number = self.plan.number;
        let (all, memory) = (&mut run.state.shared, &mut run.state.memory);
        if all.len() <= number {
            all.resize_with(number + 1, || None);
        }
        let known = all[number].get_or_insert_with(|| SharedRows {
            rows: Store::new(memory.share()),
            source: Some(build(&self.plan.node)),
        });
        let Some(mut source) = known.source.take() else {
            return Ok(false);
        };
        let mut batch = Batch::default();
        source.next(run, &mut batch)?;
        run.check()?;
        let has_more = !batch.is_empty();
        if let Some(Some(known)) = run.state.shared.get_mut(number) {
            batch.drain().try_for_each(|row| known.rows.push(row))?;
            known.source = has_more.then_some(source);
        }
        Ok(has_more)
    }
}

impl Operator for SharedRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        loop {
            out.reset(self.plan.width);
            if let Some(Some(known)) = run.state.shared.get(self.plan.number) {
                while !out.is_full()
                    && let Some(row) = known.rows.get(self.next, &mut self.place)?
                {
                    self.next += 1;
                    out.push(row.iter().cloned());
                }
            }
            if !out.is_empty() || !self.read_on(run)? {
                return Ok(());
            }
        }
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
    seen: HashSet<Row, BuildRowHasher>,
    /// Rows of the last round; none in the first one.
    working: Option<Arc<Vec<Row>>>,
    /// Rows of this round so far.
    adding: Vec<Row>,
}

impl RecursiveRun {
    pub(super) fn new(plan: &Arc<Recursive>) -> Self {
        Self {
            plan: Arc::clone(plan),
            start: build(&plan.start),
            step: build(&plan.step),
            seen: HashSet::default(),
            working: None,
            adding: Vec::new(),
        }
    }

    /// The next rows of this round, repeated ones included.
    fn read_on(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        let Some(working) = &self.working else {
            return self.start.next(run, out);
        };
        // Another run of the same query may have had its turn since.
        let number = self.plan.number;
        let all = &mut run.state.working;
        if all.len() <= number {
            all.resize_with(number + 1, Arc::default);
        }
        let others = std::mem::replace(&mut all[number], Arc::clone(working));
        let read = self.step.next(run, out);
        run.state.working[number] = others;
        read
    }

    /// Begins the next round; false if the last one has added nothing.
    fn next_round(&mut self, run: &mut Run<'_>) -> Result<bool> {
        let rows = Arc::new(std::mem::take(&mut self.adding));
        let is_over = rows.is_empty();
        let before = self.working.replace(rows);
        if let Some(rows) = before {
            let_go(&rows, run);
        }
        if !is_over {
            self.step.restart(run)?;
        }
        Ok(!is_over)
    }
}

impl Operator for RecursiveRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        let mut batch = Batch::default();
        out.reset(self.plan.width);
        while out.is_empty() {
            run.check()?;
            self.read_on(run, &mut batch)?;
            if batch.is_empty() {
                if !self.next_round(run)? {
                    return Ok(());
                }
                continue;
            }
            for row in batch.drain() {
                if !self.plan.all {
                    if self.seen.contains(&row) {
                        continue;
                    }
                    run.state.memory.take(&row)?;
                    self.seen.insert(row.clone());
                }
                run.state.memory.take(&row)?;
                out.push(row.iter().cloned());
                self.adding.push(row);
            }
        }
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.working = None;
        self.adding.clear();
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
        out.reset(self.plan.types.len());
        let rows = run.state.working.get(self.plan.number);
        while !out.is_full()
            && let Some(row) = rows.and_then(|rows| rows.get(self.next))
        {
            self.next += 1;
            out.push(row.iter().cloned());
        }
        Ok(())
    }

    fn restart(&mut self, _: &mut Run<'_>) -> Result<()> {
        self.next = 0;
        Ok(())
    }
}
