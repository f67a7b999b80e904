//! An operator that counts the rows, runs and time of another one, for `EXPLAIN ANALYZE`.
//!
//! A run begins with the first batch that is asked for, so an operator that nobody asks has none.

use super::{Operator, Run, build};
use crate::error::Result;
use crate::plan::Counted;
use crate::sink::Batch;
use std::sync::Arc;
use std::time::Instant;

pub(super) struct CountedRun {
    plan: Arc<Counted>,
    input: Box<dyn Operator>,
    has_begun: bool,
}

impl CountedRun {
    pub(super) fn new(plan: &Arc<Counted>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: build(&plan.input),
            has_begun: false,
        }
    }
}

impl CountedRun {
    /// Notes the memory and the files of the run that ends.
    fn note(&self) {
        if let Some(report) = self.input.report() {
            self.plan.counters.note(report);
        }
    }
}

impl Drop for CountedRun {
    fn drop(&mut self) {
        self.note();
    }
}

impl Operator for CountedRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        let counters = &self.plan.counters;
        let is_first = !self.has_begun;
        if is_first {
            self.has_begun = true;
            counters.begin();
        }
        let start = Instant::now();
        let result = self.input.next(run, out);
        counters.add(out.len(), start.elapsed(), is_first);
        result
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.has_begun = false;
        self.note();
        self.input.restart(run)
    }
}
