//! Functions that give sets of rows: in `FROM`, and in the list of a `SELECT`.
//!
//! Sets are made row by row in `FROM`. In a list they are made whole, because the longest one
//! decides the number of rows.

use super::evaluate::{arguments_of, with_call_context};
use super::{Operator, Row, Run, evaluate};
use crate::error::Result;
use crate::plan::{Call, Expr, Functions};
use crate::sink::Batch;
use crate::types::function::{Body, Rows};
use crate::types::{Datum, Kind};
use sql_rows::Columns;
use std::sync::Arc;

/// The value of an expression that may give a set.
pub(super) enum Set {
    /// A value, the same for each row.
    One(Datum),
    /// Values for as many rows.
    Many(Vec<Datum>),
}

impl Set {
    /// The number of rows of a set.
    pub(super) fn rows(&self) -> Option<usize> {
        match self {
            Self::One(_) => None,
            Self::Many(values) => Some(values.len()),
        }
    }

    /// The value for a row; NULL after the end of a set.
    pub(super) fn value(&self, row: usize) -> Datum {
        match self {
            Self::One(value) => value.clone(),
            Self::Many(values) => values.get(row).cloned().unwrap_or(Datum::Null),
        }
    }
}

/// The value or the set of an expression.
pub(super) fn evaluate_set(expression: &Expr, row: &[Datum], run: &mut Run<'_>) -> Result<Set> {
    match expression {
        Expr::Call(call) if call.function.returns_set() => {
            let mut values = Vec::new();
            for value in rows_of(call, row, run)? {
                if values.len() % 1024 == 1023 {
                    run.check()?;
                }
                let value = value?;
                run.state.memory.take(std::slice::from_ref(&value))?;
                values.push(value);
            }
            Ok(Set::Many(values))
        }
        _ => evaluate(expression, row, run).map(Set::One),
    }
}

/// The rows of a function that gives a set.
fn rows_of(call: &Call, row: &[Datum], run: &mut Run<'_>) -> Result<Rows> {
    let Some(arguments) = arguments_of(call, row, run)? else {
        return Ok(Box::new(std::iter::empty()));
    };
    let body = call.function.body;
    with_call_context(call, run, |context| match body {
        Body::Set(function) => function(context, &arguments),
        Body::HostSet(name) => {
            let rows = context.host.call(&context.context, name, &arguments)?;
            let elements = match rows {
                Datum::Array(array) => array.elements.clone(),
                _ => Vec::new(),
            };
            Ok(Box::new(elements.into_iter().map(Ok)) as Rows)
        }
        _ => Ok(Box::new(std::iter::empty()) as Rows),
    })
}

/// The sources of a row of functions in `FROM`.
enum Source {
    Rows(Rows),
    /// A function of one value gives one row.
    Once(Option<Datum>),
}

impl Source {
    fn next(&mut self) -> Result<Option<Datum>> {
        match self {
            Self::Rows(rows) => rows.next().transpose(),
            Self::Once(value) => Ok(value.take()),
        }
    }
}

pub(super) struct FunctionsRun {
    plan: Arc<Functions>,
    sources: Option<Vec<Source>>,
    ordinal: i64,
}

impl FunctionsRun {
    pub(super) fn new(plan: &Arc<Functions>) -> Self {
        Self {
            plan: Arc::clone(plan),
            sources: None,
            ordinal: 0,
        }
    }

    fn begin(&self, run: &mut Run<'_>) -> Result<Vec<Source>> {
        let calls = self.plan.calls.iter();
        let sources = calls.map(|expression| match expression {
            Expr::Call(call) if call.function.returns_set() => {
                rows_of(call, &[], run).map(Source::Rows)
            }
            _ => evaluate(expression, &[], run).map(|value| Source::Once(Some(value))),
        });
        sources.collect()
    }

    /// Replaces a row by the next one; false if all functions are at their end.
    fn next_row(&mut self, row: &mut Row) -> Result<bool> {
        row.clear();
        let mut has_row = false;
        let sources = self.sources.as_mut().map_or(&mut [][..], Vec::as_mut_slice);
        for (source, width) in sources.iter_mut().zip(&self.plan.widths) {
            match source.next()? {
                None => row.extend(std::iter::repeat_n(Datum::Null, width.unwrap_or(1))),
                Some(value) => {
                    has_row = true;
                    spread(value, *width, row);
                }
            }
        }
        if has_row && self.plan.has_ordinality {
            self.ordinal += 1;
            row.push(Datum::Int8(self.ordinal));
        }
        Ok(has_row)
    }
}

/// Adds a value to a row, or its fields if it has so many columns.
fn spread(value: Datum, width: Option<usize>, row: &mut Vec<Datum>) {
    match (value, width) {
        (value, None) => row.push(value),
        (Datum::Record(record), Some(_)) => row.extend(record.fields.iter().cloned()),
        (_, Some(width)) => row.extend(std::iter::repeat_n(Datum::Null, width)),
    }
}

impl Operator for FunctionsRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        if self.sources.is_none() {
            self.sources = Some(self.begin(run)?);
        }
        out.reset(self.plan.width());
        run.check()?;
        let mut row = Row::new();
        while !out.is_full() && self.next_row(&mut row)? {
            out.push(row.drain(..));
        }
        Ok(())
    }

    fn has_columns(&self) -> bool {
        true
    }

    fn next_columns(&mut self, run: &mut Run<'_>, out: &mut Columns) -> Result<()> {
        if self.sources.is_none() {
            self.sources = Some(self.begin(run)?);
        }
        let plan = Arc::clone(&self.plan);
        let calls = plan.calls.iter().zip(&plan.widths);
        let kinds =
            calls.flat_map(|(call, width)| std::iter::repeat_n(call.kind(), width.unwrap_or(1)));
        out.reset(kinds.chain(plan.has_ordinality.then_some(Kind::Int8)));
        run.check()?;
        if let (Some([Source::Rows(rows)]), [None], false) = (
            self.sources.as_deref_mut(),
            &plan.widths[..],
            plan.has_ordinality,
        ) {
            return out.fill_only(rows);
        }
        let mut row = Row::new();
        while !out.is_full() && self.next_row(&mut row)? {
            out.push(row.drain(..));
        }
        Ok(())
    }

    fn restart(&mut self, _: &mut Run<'_>) -> Result<()> {
        self.sources = None;
        self.ordinal = 0;
        Ok(())
    }
}
