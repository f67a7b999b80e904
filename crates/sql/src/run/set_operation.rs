//! `UNION`, `INTERSECT` and `EXCEPT`, with and without `ALL`.
//!
//! `UNION ALL` passes its inputs on one after the other, and `UNION` only rows that it meets for
//! the first time. The others sort both inputs and count equal rows.

use super::unique::Unique;
use super::{Operator, Row, Run, build};
use crate::error::Result;
use crate::plan::{Report, SetKind, SetOperation};
use crate::sink::Batch;
use sql_rows::{Order, Sorted, Sorter};
use std::sync::Arc;

/// The operator of a set operation.
pub(super) fn build_operation(plan: &Arc<SetOperation>) -> Box<dyn Operator> {
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
