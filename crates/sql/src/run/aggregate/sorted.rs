//! Groups one after the other: rows are sorted by their keys first.
//!
//! So only the aggregates of one group keep rows at a time. Rows of a group keep their order.

use super::state::{self, State};
use crate::error::Result;
use crate::plan::{Aggregate, Report};
use crate::run::evaluate::all;
use crate::run::{Operator, Row, Run};
use crate::sink::Batch;
use sql_rows::{Order, Sorted, Sorter};

pub(super) struct SortedGroups {
    sorted: Sorted,
    /// The group whose rows come, and its aggregates.
    current: Option<(Row, Vec<State>)>,
    arguments: Row,
}

impl SortedGroups {
    pub(super) fn new(
        plan: &Aggregate,
        input: &mut dyn Operator,
        run: &mut Run<'_>,
    ) -> Result<Self> {
        let order = (0..plan.keys.len()).map(Order::ascending).collect();
        let mut sorter = Sorter::new(order, run.state.memory.share());
        let mut batch = Batch::default();
        loop {
            input.next(run, &mut batch)?;
            if batch.is_empty() {
                break;
            }
            run.check()?;
            for row in batch.rows() {
                let mut keyed = all(&plan.keys, row, run)?;
                keyed.extend_from_slice(row);
                sorter.push(keyed)?;
            }
        }
        Ok(Self {
            sorted: sorter.finish(&mut || run.check())?,
            current: None,
            arguments: Row::new(),
        })
    }

    pub(super) fn next(
        &mut self,
        plan: &Aggregate,
        run: &mut Run<'_>,
        out: &mut Batch,
    ) -> Result<()> {
        let (keys, calls, mut read) = (plan.keys.len(), &plan.calls, 0_u64);
        while !out.is_full() {
            read += 1;
            if read.is_multiple_of(1024) {
                run.check()?;
            }
            let row = self.sorted.next_row()?;
            let is_same = |(key, _): &mut (Row, Vec<State>)| {
                row.as_ref().is_some_and(|row| row[..keys] == key[..])
            };
            if let Some((key, states)) = self.current.take_if(|current| !is_same(current)) {
                out.push(state::finish(key, states, calls, run)?);
            }
            let Some(row) = row else {
                return Ok(());
            };
            let (_, states) = self
                .current
                .get_or_insert_with(|| (row[..keys].to_vec(), State::all(calls, run)));
            for (state, call) in states.iter_mut().zip(calls) {
                state.add(call, &row[keys..], &mut self.arguments, run)?;
            }
        }
        Ok(())
    }

    pub(super) fn report(&self) -> Report {
        Report::Sort(self.sorted.usage())
    }
}
