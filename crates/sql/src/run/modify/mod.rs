//! Changes of tables: rows are checked, changed, and kept for `RETURNING`.
//!
//! | module | job |
//! |---|---|
//! | `insert` | new rows, and conflicts with those that are there |
//! | `change` | updates and deletions |
//! | `rules` | NOT NULL, checks, generated columns, names in errors |
//! | `reference` | foreign keys and their actions |
//!
//! All rows are changed before the first result goes out: a client that reads half of them has
//! changed all. References are looked at when all rows have been changed, as one statement may
//! insert a row and the one that it refers to.

mod change;
mod insert;
mod reference;
mod rules;

use super::{Kept, Operator, Row, Run, build};
use crate::error::Result;
use crate::plan::{Change, Modify};
use crate::sink::Batch;
use std::sync::Arc;

pub(super) struct ModifyRun {
    plan: Arc<Modify>,
    input: Box<dyn Operator>,
    results: Option<Kept>,
}

/// The references that a statement looks at when its rows are changed.
#[derive(Default)]
struct Pending {
    /// Rows whose references must exist, with the positions of the references.
    parents: Vec<(usize, Row)>,
    /// Rows that were deleted or have other keys, before and after.
    children: Vec<(usize, Row, Option<Row>)>,
}

impl ModifyRun {
    pub(super) fn new(plan: &Arc<Modify>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: build(&plan.input),
            results: None,
        }
    }

    fn change_all(&mut self, run: &mut Run<'_>) -> Result<Kept> {
        let plan = Arc::clone(&self.plan);
        let table = &plan.table;
        let mut pending = Pending::default();
        let mut results = Vec::new();
        let mut seen = std::collections::HashSet::new();
        let mut batch = Batch::default();
        loop {
            self.input.next(run, &mut batch)?;
            if batch.is_empty() {
                break;
            }
            run.check()?;
            for row in batch.rows() {
                let changed = match &plan.change {
                    Change::Insert(insert) => {
                        insert::insert(table, insert, row, (&mut pending, &mut seen), run)?
                    }
                    Change::Update { set, recheck } => {
                        let recheck = recheck.as_ref();
                        change::update(table, (set, recheck), row, (&mut pending, &mut seen), run)?
                    }
                    Change::Delete { recheck } => change::delete(
                        table,
                        recheck.as_ref(),
                        row,
                        (&mut pending, &mut seen),
                        run,
                    )?,
                };
                let Some(changed) = changed else { continue };
                run.state.processed += 1;
                if let Some(returning) = &plan.returning {
                    let result = super::evaluate::all(returning, &changed, run)?;
                    run.state.budget.take(&result)?;
                    results.push(result);
                }
            }
        }
        reference::settle(table, pending, run)?;
        Ok(Kept::new(results))
    }
}

impl Operator for ModifyRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        if self.results.is_none() {
            self.results = Some(self.change_all(run)?);
        }
        if let Some(results) = &mut self.results {
            results.next(self.plan.returning.as_ref().map_or(0, Vec::len), out);
        }
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.results = None;
        self.input.restart(run)
    }
}
