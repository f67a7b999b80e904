//! Filters and projections, batch by batch.
//!
//! A projection with functions that give sets makes as many rows of each as its longest set has;
//! shorter ones are filled up with NULL.

use super::functions::{Set, evaluate_set};
use super::join::build_join;
use super::scan::ScanRun;
use super::{Operator, Row, Run, build, evaluate, is_true};
use crate::error::Result;
use crate::plan::{Expr, Filter, Node, Project};
use crate::sink::Batch;
use sql_rows::Columns;
use std::sync::Arc;

pub(super) struct FilterRun {
    plan: Arc<Filter>,
    input: Box<dyn Operator>,
    batch: Batch,
}

impl FilterRun {
    pub(super) fn new(plan: &Arc<Filter>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: build(&plan.input),
            batch: Batch::default(),
        }
    }
}

impl Operator for FilterRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        loop {
            self.batch.want(out.room());
            self.input.next(run, &mut self.batch)?;
            out.reset(self.batch.width());
            if self.batch.is_empty() {
                return Ok(());
            }
            run.check()?;
            for row in self.batch.rows() {
                if is_true(&self.plan.condition, row, run)? {
                    out.push(row.iter().cloned());
                }
            }
            if !out.is_empty() {
                return Ok(());
            }
        }
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.input.restart(run)
    }
}

/// The operator of a projection.
pub(super) fn project(plan: &Arc<Project>) -> Box<dyn Operator> {
    if let Some(columns) = different_columns(&plan.expressions) {
        return match &plan.input {
            Node::Scan(scan) => Box::new(ScanRun::with_columns(scan, columns)),
            Node::Join(join) => build_join(join, Some(columns)),
            input => Box::new(TakeRun {
                input: build(input),
                columns,
                batch: Batch::default(),
                all: Columns::default(),
            }),
        };
    }
    let (plan, input, batch) = (Arc::clone(plan), build(&plan.input), Batch::default());
    if plan.has_sets {
        return Box::new(SetProjectRun {
            plan,
            input,
            batch,
            row: 0,
            sets: Vec::new(),
            step: 0,
        });
    }
    Box::new(ProjectRun {
        plan,
        input,
        batch,
        columns: Columns::default(),
    })
}

/// The columns that expressions are, if they are nothing but columns and each is another one.
fn different_columns(expressions: &[Expr]) -> Option<Vec<usize>> {
    let columns = expressions.iter().map(|expression| match expression {
        Expr::Column(at, _) => Some(*at),
        _ => None,
    });
    let columns: Vec<usize> = columns.collect::<Option<_>>()?;
    let mut sorted = columns.clone();
    sorted.sort_unstable();
    let is_repeated = sorted.windows(2).any(|pair| pair[0] == pair[1]);
    (!is_repeated).then_some(columns)
}

/// A projection to some columns, whose values are moved.
struct TakeRun {
    input: Box<dyn Operator>,
    columns: Vec<usize>,
    batch: Batch,
    all: Columns,
}

impl Operator for TakeRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        self.batch.want(out.room());
        self.input.next(run, &mut self.batch)?;
        out.reset(self.columns.len());
        for at in 0..self.batch.len() {
            out.push(self.batch.take(at, &self.columns));
        }
        Ok(())
    }

    fn has_columns(&self) -> bool {
        self.input.has_columns()
    }

    fn next_columns(&mut self, run: &mut Run<'_>, out: &mut Columns) -> Result<()> {
        self.input.next_columns(run, &mut self.all)?;
        let (rows, all) = (self.all.len(), &mut self.all);
        out.replace(rows, self.columns.iter().map(|&at| all.take(at)));
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.input.restart(run)
    }
}

struct ProjectRun {
    plan: Arc<Project>,
    input: Box<dyn Operator>,
    batch: Batch,
    columns: Columns,
}

impl ProjectRun {
    /// The batch of columns, row by row.
    fn project_rows(&mut self, run: &mut Run<'_>, out: &mut Columns) -> Result<()> {
        let expressions = &self.plan.expressions;
        out.reset(expressions.iter().map(Expr::kind));
        let mut row = Row::new();
        for at in 0..self.columns.len() {
            self.columns.read_row(at, &mut row);
            out.push_with(|columns| -> Result<()> {
                for (expression, column) in expressions.iter().zip(columns) {
                    column.push(evaluate(expression, &row, run)?);
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Operator for ProjectRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        self.batch.want(out.room());
        self.input.next(run, &mut self.batch)?;
        let expressions = &self.plan.expressions;
        out.reset(expressions.len());
        for row in self.batch.rows() {
            out.push_with(|cells| {
                expressions.iter().try_for_each(|expression| {
                    cells.push(evaluate(expression, row, run)?);
                    Ok(())
                })
            })?;
        }
        Ok(())
    }

    fn has_columns(&self) -> bool {
        self.input.has_columns()
    }

    fn next_columns(&mut self, run: &mut Run<'_>, out: &mut Columns) -> Result<()> {
        self.input.next_columns(run, &mut self.columns)?;
        let (input, parameters) = (&self.columns, &run.state.parameters);
        let expressions = self.plan.expressions.iter();
        let made = expressions
            .map(|expression| crate::plan::column_of_rows(expression, input, parameters));
        match made.collect::<Option<Vec<_>>>() {
            Some(columns) => {
                out.replace(input.len(), columns.into_iter());
                Ok(())
            }
            None => self.project_rows(run, out),
        }
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.input.restart(run)
    }
}

/// A projection of which some expressions give sets.
struct SetProjectRun {
    plan: Arc<Project>,
    input: Box<dyn Operator>,
    batch: Batch,
    /// The row of the batch that is next, and the sets of the one before it.
    row: usize,
    sets: Vec<Set>,
    /// Rows made of these sets so far.
    step: usize,
}

impl SetProjectRun {
    /// Adds the rows of the current sets until the batch is full; true if it is.
    fn hand_over(&mut self, out: &mut Batch) -> bool {
        let longest = self.sets.iter().filter_map(Set::rows).max().unwrap_or(0);
        while self.step < longest {
            if out.is_full() {
                return true;
            }
            let step = self.step;
            out.push(self.sets.iter().map(|set| set.value(step)));
            self.step += 1;
        }
        self.sets.clear();
        false
    }
}

impl Operator for SetProjectRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        out.reset(self.plan.expressions.len());
        while !self.hand_over(out) {
            run.check()?;
            if self.row >= self.batch.len() {
                if !out.is_empty() {
                    return Ok(());
                }
                self.batch.want(out.room());
                self.input.next(run, &mut self.batch)?;
                self.row = 0;
                if self.batch.is_empty() {
                    return Ok(());
                }
            }
            let row = self.batch.row(self.row);
            self.row += 1;
            self.step = 0;
            for expression in &self.plan.expressions {
                self.sets.push(evaluate_set(expression, row, run)?);
            }
        }
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.sets.clear();
        self.batch.reset(0);
        self.row = 0;
        self.input.restart(run)
    }
}
