//! Groups and their aggregates, in a table of hashes.
//!
//! Groups come in the order of their first rows. Without keys there is one group, also of no rows.

use super::compare::{compare, keys_of};
use super::evaluate::{all, with_types};
use super::{Kept, Operator, Row, Run, build, is_true};
use crate::error::Result;
use crate::plan::{Aggregate, AggregateCall};
use crate::sink::Batch;
use crate::types::Datum;
use crate::types::aggregate::Accumulator;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(super) struct AggregateRun {
    plan: Arc<Aggregate>,
    input: Box<dyn Operator>,
    groups: Option<Kept>,
}

/// An aggregate over the rows of a group.
pub(super) struct State {
    accumulator: Box<dyn Accumulator>,
    /// Arguments that were seen, if each counts once.
    seen: Option<HashSet<Row>>,
    /// Keys and arguments of rows, if they have an order.
    ordered: Vec<(Row, Row)>,
}

impl State {
    pub(super) fn new(call: &AggregateCall) -> Self {
        Self {
            accumulator: (call.function.aggregate.start)(),
            seen: call.is_distinct.then(HashSet::new),
            ordered: Vec::new(),
        }
    }

    /// Takes a row of the group.
    pub(super) fn add(
        &mut self,
        call: &AggregateCall,
        row: &[Datum],
        run: &mut Run<'_>,
    ) -> Result<()> {
        if let Some(filter) = &call.filter
            && !is_true(filter, row, run)?
        {
            return Ok(());
        }
        let arguments = all(&call.arguments, row, run)?;
        if call.function.function.is_strict && arguments.iter().any(Datum::is_null) {
            return Ok(());
        }
        if let Some(seen) = &mut self.seen {
            if seen.contains(&arguments) {
                return Ok(());
            }
            run.state.budget.take(&arguments)?;
            seen.insert(arguments.clone());
        }
        if call.order.is_empty() {
            return self.take(call, &arguments, run);
        }
        let keys = keys_of(&call.order, row, run)?;
        run.state.budget.take(&keys)?;
        run.state.budget.take(&arguments)?;
        self.ordered.push((keys, arguments));
        Ok(())
    }

    fn take(&mut self, call: &AggregateCall, arguments: &[Datum], run: &mut Run<'_>) -> Result<()> {
        let accumulator = &mut self.accumulator;
        with_types(
            &call.function.argument_types,
            call.data_type,
            run,
            |context| accumulator.add(context, arguments),
        )
    }

    /// The value of all rows of the group.
    pub(super) fn finish(mut self, call: &AggregateCall, run: &mut Run<'_>) -> Result<Datum> {
        let mut ordered = std::mem::take(&mut self.ordered);
        ordered.sort_by(|one, other| compare(&call.order, &one.0, &other.0));
        for (_, arguments) in ordered {
            self.take(call, &arguments, run)?;
        }
        with_types(
            &call.function.argument_types,
            call.data_type,
            run,
            |context| self.accumulator.value(context),
        )
    }
}

impl AggregateRun {
    pub(super) fn new(plan: &Arc<Aggregate>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: build(&plan.input),
            groups: None,
        }
    }

    fn group(&mut self, run: &mut Run<'_>) -> Result<Kept> {
        let plan = Arc::clone(&self.plan);
        let start = || plan.calls.iter().map(State::new).collect::<Vec<_>>();
        let mut places: HashMap<Row, usize> = HashMap::new();
        let mut groups: Vec<(Row, Vec<State>)> = Vec::new();
        if plan.keys.is_empty() {
            groups.push((Row::new(), start()));
            places.insert(Row::new(), 0);
        }
        let mut batch = Batch::default();
        loop {
            self.input.next(run, &mut batch)?;
            if batch.is_empty() {
                break;
            }
            run.check()?;
            for row in batch.rows() {
                let key = all(&plan.keys, row, run)?;
                let place = match places.get(&key) {
                    Some(place) => *place,
                    None => {
                        run.state.budget.take(&key)?;
                        run.state.budget.take(&key)?;
                        groups.push((key.clone(), start()));
                        places.insert(key, groups.len() - 1);
                        groups.len() - 1
                    }
                };
                for (state, call) in groups[place].1.iter_mut().zip(&plan.calls) {
                    state.add(call, row, run)?;
                }
            }
        }
        drop(places);
        let mut rows = Vec::with_capacity(groups.len());
        for (mut row, states) in groups {
            for (state, call) in states.into_iter().zip(&plan.calls) {
                row.push(state.finish(call, run)?);
            }
            rows.push(row);
        }
        Ok(Kept::new(rows))
    }
}

impl Operator for AggregateRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        if self.groups.is_none() {
            self.groups = Some(self.group(run)?);
        }
        if let Some(groups) = &mut self.groups {
            groups.next(self.plan.keys.len() + self.plan.calls.len(), out);
        }
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.groups = None;
        self.input.restart(run)
    }
}
