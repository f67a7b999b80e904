//! Rows of a window in the order of its partitions and inside of these.
//!
//! Each has the values of the partition's and the order's keys after it. The rows are sorted,
//! unless an index has them in the order.

use super::evaluate::all;
use super::{Operator, Row, Run, build, evaluate};
use crate::error::Result;
use crate::plan::Window;
use crate::sink::Batch;
use sql_rows::{Order, Sorted, Sorter};
use std::sync::Arc;

pub(super) struct WindowRows {
    plan: Arc<Window>,
    input: Box<dyn Operator>,
    /// The first rows that are wanted.
    wanted: usize,
    source: Source,
}

enum Source {
    NotBegun,
    Sorted(Sorted),
    /// They come so; a batch of them, and the next one.
    Ordered(Batch, usize),
    Over,
}

impl WindowRows {
    pub(super) fn new(plan: &Arc<Window>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: build(&plan.input),
            wanted: usize::MAX,
            source: Source::NotBegun,
        }
    }

    /// Wants only as many rows, the first ones; before the first one is read.
    pub(super) fn want(&mut self, rows: usize) {
        self.wanted = rows;
    }

    /// Wants no more rows.
    pub(super) fn end(&mut self) {
        self.source = Source::Over;
    }

    /// Whether the next row needs others to be read.
    pub(super) fn has_to_read(&self) -> bool {
        matches!(&self.source, Source::Ordered(batch, at) if *at == batch.len())
    }

    pub(super) fn next_row(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        loop {
            match &mut self.source {
                Source::NotBegun => {
                    self.source = match self.plan.is_ordered {
                        true => Source::Ordered(Batch::default(), 0),
                        false => Source::Sorted(self.sort(run)?),
                    };
                }
                Source::Over => return Ok(None),
                Source::Sorted(sorted) => return sorted.next_row(),
                Source::Ordered(batch, at) if *at < batch.len() => {
                    *at += 1;
                    return keyed(&self.plan, batch.row(*at - 1).to_vec(), run).map(Some);
                }
                Source::Ordered(batch, at) => {
                    *at = 0;
                    self.input.next(run, batch)?;
                    run.check()?;
                    if batch.is_empty() {
                        self.source = Source::Over;
                    }
                }
            }
        }
    }

    fn sort(&mut self, run: &mut Run<'_>) -> Result<Sorted> {
        let plan = &self.plan;
        let first = plan.input.width();
        let order_at = first + plan.partition.len();
        let partition = (first..order_at).map(Order::ascending);
        let keys = plan.order.iter().zip(order_at..);
        let keys = keys.map(|(key, column)| Order {
            column,
            descends: key.descends,
            nulls_first: key.nulls_first,
        });
        let order = partition.chain(keys).collect();
        let mut sorter = Sorter::new(order, run.state.memory.share()).first(self.wanted);
        let mut batch = Batch::default();
        loop {
            self.input.next(run, &mut batch)?;
            if batch.is_empty() {
                return sorter.finish(&mut || run.check());
            }
            run.check()?;
            for row in batch.drain() {
                sorter.push(keyed(plan, row, run)?)?;
            }
        }
    }

    pub(super) fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.wanted = usize::MAX;
        self.source = Source::NotBegun;
        self.input.restart(run)
    }
}

/// A row with the values of its keys.
fn keyed(plan: &Window, mut row: Row, run: &mut Run<'_>) -> Result<Row> {
    let mut values = all(&plan.partition, &row, run)?;
    for key in &plan.order {
        values.push(evaluate(&key.expression, &row, run)?);
    }
    row.append(&mut values);
    Ok(row)
}
