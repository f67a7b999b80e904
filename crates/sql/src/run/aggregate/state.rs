//! An aggregate over the rows of one group.
//!
//! Arguments that have an order, or of which equal ones count once, are sorted first; the sort may
//! use files. They are handed to the aggregate when all of them have come.

use crate::error::Result;
use crate::plan::{AggregateCall, Expr};
use crate::run::compare::keys_of;
use crate::run::evaluate::with_types;
use crate::run::{Row, Run, evaluate, is_true};
use crate::types::Datum;
use crate::types::aggregate::Accumulator;
use sql_rows::{Order, Sorter};

pub(super) struct State {
    accumulator: Box<dyn Accumulator>,
    sorter: Option<Sorter>,
}

impl State {
    fn new(call: &AggregateCall, run: &mut Run<'_>) -> Self {
        let is_sorted = call.is_distinct || !call.order.is_empty();
        Self {
            accumulator: (call.function.aggregate.start)(),
            sorter: is_sorted.then(|| Sorter::new(order_of(call).into(), run.state.memory.share())),
        }
    }

    /// The states of a group's aggregates.
    pub(super) fn all(calls: &[AggregateCall], run: &mut Run<'_>) -> Vec<Self> {
        calls.iter().map(|call| Self::new(call, run)).collect()
    }

    /// Takes a row of the group. The arguments are computed in a place that the caller lends.
    pub(super) fn add(
        &mut self,
        call: &AggregateCall,
        row: &[Datum],
        arguments: &mut Row,
        run: &mut Run<'_>,
    ) -> Result<()> {
        if let Some(filter) = &call.filter
            && !is_true(filter, row, run)?
        {
            return Ok(());
        }
        // The value of a column is taken where it stands.
        if let ([Expr::Column(at, _)], None) = (&call.arguments[..], &self.sorter)
            && let Some(value) = row.get(*at)
        {
            if call.function.function.is_strict && value.is_null() {
                return Ok(());
            }
            return self.take(call, std::slice::from_ref(value), run);
        }
        arguments.clear();
        for argument in &call.arguments {
            arguments.push(evaluate(argument, row, run)?);
        }
        if call.function.function.is_strict && arguments.iter().any(Datum::is_null) {
            return Ok(());
        }
        match &mut self.sorter {
            None => self.take(call, arguments, run),
            Some(sorter) => {
                let mut kept = keys_of(&call.order, row, run)?;
                kept.append(arguments);
                sorter.push(kept)
            }
        }
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

    fn finish(mut self, call: &AggregateCall, run: &mut Run<'_>) -> Result<Datum> {
        if let Some(sorter) = self.sorter.take() {
            let mut sorted = sorter.finish(&mut || run.check())?;
            let (keys, mut last, mut taken) = (call.order.len(), None::<Row>, 0_u64);
            while let Some(row) = sorted.next_row()? {
                taken += 1;
                if taken.is_multiple_of(1024) {
                    run.check()?;
                }
                let is_same = |last: &Row| last[keys..] == row[keys..];
                if call.is_distinct && last.as_ref().is_some_and(is_same) {
                    continue;
                }
                self.take(call, &row[keys..], run)?;
                last = Some(row);
            }
        }
        with_types(
            &call.function.argument_types,
            call.data_type,
            run,
            |context| self.accumulator.value(context),
        )
    }
}

/// Adds the values of a group's aggregates to its key.
pub(super) fn finish(
    mut row: Row,
    states: impl IntoIterator<Item = State>,
    calls: &[AggregateCall],
    run: &mut Run<'_>,
) -> Result<Row> {
    for (state, call) in states.into_iter().zip(calls) {
        row.push(state.finish(call, run)?);
    }
    Ok(row)
}

/// The order of arguments after the keys of their order: equal ones stand together.
fn order_of(call: &AggregateCall) -> Vec<Order> {
    let keys = call.order.iter().enumerate();
    let mut order: Vec<Order> = keys
        .map(|(column, key)| Order {
            column,
            descends: key.descends,
            nulls_first: key.nulls_first,
        })
        .collect();
    if call.is_distinct {
        let first = order.len();
        order.extend((first..first + call.arguments.len()).map(Order::ascending));
    }
    order
}
