//! Rows of relations of the system.
//!
//! They are made once in a statement, and so is the table of hashes of each column by which rows
//! are looked up, however often the relation is read. Rows about one table are made alone where
//! that is what is looked up.

use super::{Operator, Row, Run, evaluate, is_true};
use crate::catalog::Body;
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
        let Some((column, value)) = &self.plan.key else {
            return made(relation, run);
        };
        let value = evaluate(value, &[], run)?;
        let of_table = rows_about(relation, *column, &value, run)?;
        let rows = match of_table {
            Some(rows) => {
                let wanted = rows.iter().enumerate();
                let wanted = wanted.filter(|(_, row)| row[*column] == value);
                self.wanted = Some(wanted.map(|(at, _)| at).collect());
                Arc::new(rows)
            }
            None => {
                let rows = made(relation, run)?;
                let places = places(relation, *column, run);
                let found = places.get(&value).filter(|_| !value.is_null());
                self.wanted = Some(found.cloned().unwrap_or_default());
                rows
            }
        };
        Ok(rows)
    }
}

/// Columns with the number of the table or view that a row is about.
const ABOUT: [(&str, &str); 5] = [
    ("pg_attrdef", "adrelid"),
    ("pg_attribute", "attrelid"),
    ("pg_class", "oid"),
    ("pg_constraint", "conrelid"),
    ("pg_index", "indrelid"),
];

/// The rows about a table or view, and maybe others, if they are made for it alone.
fn rows_about(
    relation: &'static Relation,
    column: usize,
    value: &Datum,
    run: &Run<'_>,
) -> Result<Option<Vec<Row>>> {
    let key = (relation.name, relation.columns[column].name);
    let Datum::Oid(oid) = value else {
        return Ok(None);
    };
    let object = run.environment.names.catalog.object(*oid);
    let is_one = object.is_some_and(|one| matches!(one.body, Body::Table(_) | Body::View(_)));
    if !is_one || run.state.system.contains_key(&relation.oid) || !ABOUT.contains(&key) {
        return Ok(None);
    }
    let sources = Sources {
        only: Some(*oid),
        relations: &[],
        ..sources(run)
    };
    rows(relation, &sources).map(Some)
}

fn sources<'r>(run: &'r Run<'_>) -> Sources<'r> {
    let environment = &*run.environment;
    Sources {
        names: &environment.names,
        session: &environment.host,
        context: environment.context(),
        relations: system::all(),
        only: None,
    }
}

/// The rows of a relation.
fn made(relation: &'static Relation, run: &mut Run<'_>) -> Result<Arc<Vec<Row>>> {
    if let Some(made) = run.state.system.get(&relation.oid) {
        return Ok(Arc::clone(&made.rows));
    }
    let rows = Arc::new(rows(relation, &sources(run))?);
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
