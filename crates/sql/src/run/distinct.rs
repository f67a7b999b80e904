//! `DISTINCT` and `DISTINCT ON`: the first row of each kind, in the order of the input.
//!
//! Rows or keys that were seen are kept in a table of hashes; a row goes on when it is met for the
//! first time.

use super::{Operator, Row, Run, build, evaluate};
use crate::error::Result;
use crate::plan::Distinct;
use crate::sink::Batch;
use std::collections::HashSet;
use std::sync::Arc;

pub(super) struct DistinctRun {
    plan: Arc<Distinct>,
    input: Box<dyn Operator>,
    seen: HashSet<Row>,
    batch: Batch,
}

impl DistinctRun {
    pub(super) fn new(plan: &Arc<Distinct>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: build(&plan.input),
            seen: HashSet::new(),
            batch: Batch::default(),
        }
    }
}

impl Operator for DistinctRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        out.reset(self.plan.input.width());
        while out.is_empty() {
            self.input.next(run, &mut self.batch)?;
            if self.batch.is_empty() {
                return Ok(());
            }
            run.check()?;
            for row in self.batch.rows() {
                let key: Row = match &self.plan.on {
                    None => row.to_vec(),
                    Some(on) => {
                        let values = on.iter().map(|key| evaluate(key, row, run));
                        values.collect::<Result<_>>()?
                    }
                };
                if self.seen.contains(&key) {
                    continue;
                }
                run.state.budget.take(&key)?;
                self.seen.insert(key);
                out.push(row.iter().cloned());
            }
        }
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.seen.clear();
        self.input.restart(run)
    }
}
