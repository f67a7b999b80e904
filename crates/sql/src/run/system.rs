//! Rows of relations of the system.
//!
//! They are made once in a statement, and so is the table of hashes of each column by which rows
//! are looked up, however often the relation is read.

use super::{Operator, Row, Run, evaluate, is_true};
use crate::catalog::system::{Sources, rows};
use crate::error::{Result, SqlError};
use crate::plan::System;
use crate::sink::Batch;
use crate::types::Datum;
use sql_bind::system::{self, Relation};
use std::collections::HashMap;
use std::sync::Arc;

/// Rows of a relation, and their places by the values of columns.
#[derive(Default)]
pub(super) struct Made {
    rows: Arc<Vec<Row>>,
    places: HashMap<usize, Arc<HashMap<Datum, Vec<usize>>>>,
}

pub(super) struct SystemRun {
    plan: Arc<System>,
    rows: Option<Arc<Vec<Row>>>,
    /// The places of the rows that are wanted; all of them if there is no key.
    wanted: Option<Vec<usize>>,
    next: usize,
}

impl SystemRun {
    pub(super) fn new(plan: &Arc<System>) -> Self {
        Self {
            plan: Arc::clone(plan),
            rows: None,
            wanted: None,
            next: 0,
        }
    }

    fn begin(&mut self, run: &mut Run<'_>) -> Result<Arc<Vec<Row>>> {
        let relation = system::by_oid(self.plan.relation);
        let relation =
            relation.ok_or_else(|| SqlError::internal("a relation of the system has gone"))?;
        let rows = made(relation, run)?;
        if let Some((column, value)) = &self.plan.key {
            let value = evaluate(value, &[], run)?;
            let places = places(relation, *column, run);
            let found = places.get(&value).filter(|_| !value.is_null());
            self.wanted = Some(found.cloned().unwrap_or_default());
        }
        Ok(rows)
    }
}

/// The rows of a relation.
fn made(relation: &'static Relation, run: &mut Run<'_>) -> Result<Arc<Vec<Row>>> {
    if let Some(made) = run.state.system.get(&relation.oid) {
        return Ok(Arc::clone(&made.rows));
    }
    let environment = &*run.environment;
    let sources = Sources {
        names: &environment.names,
        session: &environment.host,
        context: environment.context(),
        relations: system::all(),
    };
    let rows = Arc::new(rows(relation, &sources)?);
    let made = Made {
        rows: Arc::clone(&rows),
        places: HashMap::new(),
    };
    run.state.system.insert(relation.oid, made);
    Ok(rows)
}

/// The places of a relation's rows by the values of a column.
fn places(
    relation: &Relation,
    column: usize,
    run: &mut Run<'_>,
) -> Arc<HashMap<Datum, Vec<usize>>> {
    let made = run.state.system.entry(relation.oid).or_default();
    let Made { rows, places } = made;
    let places = places.entry(column).or_insert_with(|| {
        let mut places: HashMap<Datum, Vec<usize>> = HashMap::new();
        for (at, row) in rows.iter().enumerate() {
            places.entry(row[column].clone()).or_default().push(at);
        }
        Arc::new(places)
    });
    Arc::clone(places)
}

impl Operator for SystemRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        let rows = match self.rows.take() {
            Some(rows) => rows,
            None => self.begin(run)?,
        };
        out.reset(self.plan.columns.len());
        while !out.is_full() {
            let at = match &self.wanted {
                Some(wanted) => wanted.get(self.next).copied(),
                None => Some(self.next),
            };
            let Some(row) = at.and_then(|at| rows.get(at)) else {
                break;
            };
            self.next += 1;
            let is_wanted = match &self.plan.condition {
                Some(condition) => is_true(condition, row, run)?,
                None => true,
            };
            if is_wanted {
                out.push(row.iter().cloned());
            }
        }
        self.rows = Some(rows);
        Ok(())
    }

    fn restart(&mut self, _: &mut Run<'_>) -> Result<()> {
        self.rows = None;
        self.wanted = None;
        self.next = 0;
        Ok(())
    }
}
