//! `UNION`, `INTERSECT` and `EXCEPT`, with and without `ALL`.
//!
//! `UNION ALL` passes its inputs on one after the other, or merges them if both are in an order.
//! `UNION` passes on only rows that it meets for the first time. The others sort both inputs and
//! count equal rows.

use super::compare::{compare, keys_of};
use super::unique::Unique;
use super::{Operator, Row, Run, build};
use crate::error::Result;
use crate::plan::{Node, Report, SetKind, SetOperation, SortKey};
use crate::sink::Batch;
use sql_rows::{Order, Sorted, Sorter};
use std::sync::Arc;

/// The operator of a set operation.
pub(super) fn build_operation(plan: &Arc<SetOperation>) -> Box<dyn Operator> {
    if let Some(order) = &plan.order {
        return Box::new(Merged::new(plan, order));
    }
    let inputs = [build(&plan.left), build(&plan.right)];
    let plan = Arc::clone(plan);
    if plan.kind == SetKind::Union {
        return Box::new(Union {
            width: plan.left.width(),
            plan,
            inputs,
            at: 0,
            unique: None,
            batch: Batch::default(),
        });
    }
    Box::new(Comparison {
        plan,
        inputs,
        sides: None,
        copies: None,
    })
}

struct Union {
    plan: Arc<SetOperation>,
    /// Columns of its rows: the plan of many inputs is as deep as they are many.
    width: usize,
    inputs: [Box<dyn Operator>; 2],
    at: usize,
    /// The rows handed over, unless all are.
    unique: Option<Unique>,
    batch: Batch,
}

impl Operator for Union {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        out.reset(self.width);
        while let Some(input) = self.inputs.get_mut(self.at) {
            run.check()?;
            if self.plan.all {
                input.next(run, out)?;
                if !out.is_empty() {
                    return Ok(());
                }
                self.at += 1;
                continue;
            }
            input.next(run, &mut self.batch)?;
            if self.batch.is_empty() {
                self.at += 1;
                continue;
            }
            let unique = self.unique.get_or_insert_with(|| Unique::new(run));
            for row in self.batch.rows() {
                unique.add(row, out)?;
            }
            if !out.is_empty() {
                return Ok(());
            }
        }
        match &mut self.unique {
            Some(unique) => unique.rest(run, out),
            None => Ok(()),
        }
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.at = 0;
        self.unique = None;
        self.inputs
            .iter_mut()
            .try_for_each(|input| input.restart(run))
    }

    fn report(&self) -> Option<Report> {
        self.unique.as_ref().map(Unique::report)
    }
}

/// `UNION ALL` of inputs in an order, which its rows keep.
struct Merged {
    width: usize,
    order: Vec<SortKey>,
    inputs: Vec<Input>,
    /// The keys of the next row of each input, the least ones last. Nothing before the first row.
    heads: Option<Vec<(Row, usize)>>,
}

/// An input with rows of it, and the next one of these.
struct Input {
    rows: Box<dyn Operator>,
    batch: Batch,
    at: usize,
}

impl Merged {
    fn new(plan: &SetOperation, order: &[SortKey]) -> Self {
        let mut inputs = Vec::new();
        add_inputs(plan, &mut inputs);
        Self {
            width: plan.left.width(),
            order: order.to_vec(),
            inputs,
            heads: None,
        }
    }

    /// Reads the next row of an input.
    fn advance(
        &mut self,
        at: usize,
        heads: &mut Vec<(Row, usize)>,
        (run, room): (&mut Run<'_>, u64),
    ) -> Result<()> {
        let input = &mut self.inputs[at];
        input.at += 1;
        if input.at >= input.batch.len() {
            input.at = 0;
            input.batch.want(room);
            input.rows.next(run, &mut input.batch)?;
            run.check()?;
            if input.batch.is_empty() {
                return Ok(());
            }
        }
        let keys = keys_of(&self.order, input.batch.row(input.at), run)?;
        let is_later = |(other, _): &(Row, usize)| compare(&self.order, other, &keys).is_gt();
        heads.insert(heads.partition_point(is_later), (keys, at));
        Ok(())
    }
}

/// The inputs of an operation, and of those in it that keep the same order.
fn add_inputs(plan: &SetOperation, inputs: &mut Vec<Input>) {
    for side in [&plan.left, &plan.right] {
        match side {
            Node::SetOperation(inner) if inner.order.is_some() => add_inputs(inner, inputs),
            side => inputs.push(Input {
                rows: build(side),
                batch: Batch::default(),
                at: 0,
            }),
        }
    }
}

impl Operator for Merged {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        out.reset(self.width);
        let room = out.room();
        let mut heads = match self.heads.take() {
            Some(heads) => heads,
            None => {
                let mut heads = Vec::with_capacity(self.inputs.len());
                for at in 0..self.inputs.len() {
                    self.advance(at, &mut heads, (run, room))?;
                }
                heads
            }
        };
        while !out.is_full()
            && let Some((_, at)) = heads.pop()
        {
            let input = &self.inputs[at];
            out.push(input.batch.row(input.at).iter().cloned());
            self.advance(at, &mut heads, (run, room))?;
        }
        self.heads = Some(heads);
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.heads = None;
        for input in &mut self.inputs {
            input.batch.reset(self.width);
            input.at = 0;
            input.rows.restart(run)?;
        }
        Ok(())
    }
}

/// Intersection or difference.
struct Comparison {
    plan: Arc<SetOperation>,
    inputs: [Box<dyn Operator>; 2],
    sides: Option<[Side; 2]>,
    /// A row, and how often it is still to be handed over.
    copies: Option<(Row, u64)>,
}

/// A sorted input, and its next row.
struct Side {
    rows: Sorted,
    next: Option<Row>,
}

impl Side {
    fn new(input: &mut dyn Operator, width: usize, run: &mut Run<'_>) -> Result<Self> {
        let order = (0..width).map(Order::ascending).collect();
        let mut sorter = Sorter::new(order, run.state.memory.share());
        let mut batch = Batch::default();
        loop {
            input.next(run, &mut batch)?;
            if batch.is_empty() {
                break;
            }
            run.check()?;
            batch.drain().try_for_each(|row| sorter.push(row))?;
        }
        let mut rows = sorter.finish(&mut || run.check())?;
        let next = rows.next_row()?;
        Ok(Self { rows, next })
    }

    /// Passes the rows that are less than another one or equal to it, and counts the equal ones.
    fn count(&mut self, row: &Row, run: &Run<'_>) -> Result<u64> {
        let (mut count, mut passed) = (0, 0_u32);
        while let Some(next) = self.next.take_if(|next| *next <= *row) {
            count += u64::from(next == *row);
            passed += 1;
            if passed.is_multiple_of(1024) {
                run.check()?;
            }
            self.next = self.rows.next_row()?;
        }
        Ok(count)
    }
}

impl Comparison {
    /// How often a row is in the result that is so often on the left and on the right.
    fn copies(&self, left: u64, right: u64) -> u64 {
        match (self.plan.kind, self.plan.all) {
            (SetKind::Except, true) => left.saturating_sub(right),
            (SetKind::Except, false) => u64::from(right == 0),
            (_, true) => left.min(right),
            (_, false) => left.min(right).min(1),
        }
    }
}

impl Operator for Comparison {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        let width = self.plan.left.width();
        out.reset(width);
        let mut sides = match self.sides.take() {
            Some(sides) => sides,
            None => {
                let [left, right] = &mut self.inputs;
                let left = Side::new(&mut **left, width, run)?;
                [left, Side::new(&mut **right, width, run)?]
            }
        };
        while !out.is_full() {
            if let Some((row, copies)) = &mut self.copies
                && *copies > 0
            {
                *copies -= 1;
                out.push(row.iter().cloned());
                continue;
            }
            let [left, right] = &mut sides;
            let Some(row) = left.next.clone() else {
                break;
            };
            let (ones, others) = (left.count(&row, run)?, right.count(&row, run)?);
            self.copies = Some((row, self.copies(ones, others)));
        }
        self.sides = Some(sides);
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.sides = None;
        self.copies = None;
        self.inputs
            .iter_mut()
            .try_for_each(|input| input.restart(run))
    }
}
