//! Groups whose rows come one after the other, as an index has them.
//!
//! A group is handed over when the next one begins, so a reader of the first groups reads no more
//! rows than theirs.

use super::state::{self, State};
use crate::error::Result;
use crate::plan::Aggregate;
use crate::run::evaluate::all;
use crate::run::{Operator, Row, Run};
use crate::sink::Batch;

#[derive(Default)]
pub(super) struct OrderedGroups {
    /// The group whose rows come, and its aggregates.
    current: Option<(Row, Vec<State>)>,
    /// Rows of the input, and the next one of them.
    batch: Batch,
    at: usize,
    arguments: Row,
}

impl OrderedGroups {
    pub(super) fn next(
        &mut self,
        plan: &Aggregate,
        input: &mut dyn Operator,
        run: &mut Run<'_>,
        out: &mut Batch,
    ) -> Result<()> {
        while !out.is_full() {
            if self.at == self.batch.len() {
                // A reader of the groups that are there may want no more.
                if !out.is_empty() {
                    return Ok(());
                }
                input.next(run, &mut self.batch)?;
                run.check()?;
                self.at = 0;
                if self.batch.is_empty() {
                    if let Some((key, states)) = self.current.take() {
                        out.push(state::finish(key, states, &plan.calls, run)?);
                    }
                    return Ok(());
                }
            }
            let row = self.batch.row(self.at);
            let key = all(&plan.keys, row, run)?;
            if let Some((key, states)) = self.current.take_if(|(current, _)| *current != key) {
                out.push(state::finish(key, states, &plan.calls, run)?);
            }
            let (_, states) = self
                .current
                .get_or_insert_with(|| (key, State::all(&plan.calls, run)));
            for (state, call) in states.iter_mut().zip(&plan.calls) {
                state.add(call, row, &mut self.arguments, run)?;
            }
            self.at += 1;
        }
        Ok(())
    }
}
