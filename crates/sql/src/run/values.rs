//! Rows that are written down: `VALUES`, and the one row of a query without `FROM`.
//!
//! Expressions are computed as their rows are asked for; they see no row of their own.

use super::{Operator, Run, evaluate};
use crate::error::Result;
use crate::plan::Values;
use crate::sink::Batch;
use std::sync::Arc;

pub(super) struct ValuesRun {
    plan: Arc<Values>,
    next: usize,
}

impl ValuesRun {
    pub(super) fn new(plan: &Arc<Values>) -> Self {
        Self {
            plan: Arc::clone(plan),
            next: 0,
        }
    }
}

impl Operator for ValuesRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        out.reset(self.plan.width);
        while let Some(row) = self.plan.rows.get(self.next)
            && !out.is_full()
        {
            self.next += 1;
            let mut values = Vec::with_capacity(row.len());
            for expression in row {
                values.push(evaluate(expression, &[], run)?);
            }
            out.push(values);
        }
        Ok(())
    }

    fn restart(&mut self, _: &mut Run<'_>) -> Result<()> {
        self.next = 0;
        Ok(())
    }
}
