//! Groups and their aggregates.
//!
//! | module | job |
//! |---|---|
//! | `state` | an aggregate over the rows of one group |
//! | `hashed` | groups in a table of hashes, with files for those that have no room |
//! | `ordered` | groups one after the other, as their rows come |
//! | `sorted` | groups one after the other, where aggregates keep their rows |
//!
//! Without keys there is one group, also of no rows.

mod hashed;
mod ordered;
mod sorted;
mod state;

use super::{Operator, Run, build};
use crate::error::Result;
use crate::plan::{Aggregate, AggregateCall, Report};
use crate::sink::Batch;
use hashed::HashedGroups;
use ordered::OrderedGroups;
use sorted::SortedGroups;
use state::State;
use std::sync::Arc;

pub(super) struct AggregateRun {
    plan: Arc<Aggregate>,
    input: Box<dyn Operator>,
    groups: Groups,
}

enum Groups {
    NotBegun,
    /// The only one has been handed over.
    Over,
    Hashed(Box<HashedGroups>),
    Ordered(Box<OrderedGroups>),
    Sorted(Box<SortedGroups>),
}

impl AggregateRun {
    pub(super) fn new(plan: &Arc<Aggregate>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: build(&plan.input),
            groups: Groups::NotBegun,
        }
    }

    /// The values of the only group.
    fn whole(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        let calls = &self.plan.calls;
        let mut states = State::all(calls, run);
        let (mut batch, mut arguments) = (Batch::default(), Vec::new());
        loop {
            self.input.next(run, &mut batch)?;
            if batch.is_empty() {
                break;
            }
            run.check()?;
            for row in batch.rows() {
                for (state, call) in states.iter_mut().zip(calls) {
                    state.add(call, row, &mut arguments, run)?;
                }
            }
        }
        out.push(state::finish(Vec::new(), states, calls, run)?);
        Ok(())
    }
}

impl Operator for AggregateRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        out.reset(self.plan.keys.len() + self.plan.calls.len());
        if matches!(self.groups, Groups::NotBegun) {
            if self.plan.keys.is_empty() {
                self.groups = Groups::Over;
                return self.whole(run, out);
            }
            let (plan, input) = (&self.plan, &mut *self.input);
            self.groups = if plan.is_ordered {
                Groups::Ordered(Box::default())
            } else if plan.calls.iter().any(AggregateCall::keeps_rows) {
                Groups::Sorted(Box::new(SortedGroups::new(plan, input, run)?))
            } else {
                Groups::Hashed(Box::new(HashedGroups::new(plan, input, run)?))
            };
        }
        match &mut self.groups {
            Groups::NotBegun | Groups::Over => Ok(()),
            Groups::Hashed(groups) => groups.next(&self.plan, run, out),
            Groups::Ordered(groups) => groups.next(&self.plan, &mut *self.input, run, out),
            Groups::Sorted(groups) => groups.next(&self.plan, run, out),
        }
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.groups = Groups::NotBegun;
        self.input.restart(run)
    }

    fn report(&self) -> Option<Report> {
        match &self.groups {
            Groups::NotBegun | Groups::Over | Groups::Ordered(_) => None,
            Groups::Hashed(groups) => Some(groups.report()),
            Groups::Sorted(groups) => Some(groups.report()),
        }
    }
}
