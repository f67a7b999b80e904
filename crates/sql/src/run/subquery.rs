//! Queries inside expressions.
//!
//! A query that reads no row of the queries around it runs once. One that does runs again for each
//! row, which lies on top of the outer rows meanwhile.

use super::evaluate::all;
use super::key_set::compared;
use super::{Operator, Run, build, collect, evaluate, let_go, store};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Expr, RowTest, Subquery, SubqueryTest};
use crate::sink::Batch;
use crate::types::Datum;
use crate::types::aggregate::array_of;
use sql_rows::{KeySet, SegmentCache, Store};
use std::sync::Arc;

/// A query's operators and results, kept for its next use.
#[derive(Default)]
pub(crate) struct Slot {
    operator: Option<Box<dyn Operator>>,
    /// The result of one that reads no outer rows.
    result: Option<Datum>,
    rows: Option<Arc<Store>>,
    keys: Keys,
}

/// A query's rows, for a test of equality.
#[derive(Clone, Default)]
enum Keys {
    #[default]
    NotCollected,
    /// The test is another one, or they do not fit into memory.
    None,
    All(Arc<KeyTest>),
}

struct KeyTest {
    /// Over the values that stand before the query.
    own: Vec<Expr>,
    rows: KeySet,
}

/// The slot of a query, by its place in the plan, which stays where it is while it runs.
fn slot<'s>(number: usize, run: &'s mut Run<'_>) -> &'s mut Slot {
    run.state.subqueries.entry(number).or_default()
}

/// The value of a query inside an expression over a row.
pub(super) fn value(subquery: &Arc<Subquery>, row: &[Datum], run: &mut Run<'_>) -> Result<Datum> {
    let number = Arc::as_ptr(subquery).addr();
    run.state.subqueries.entry(number).or_default();
    match &subquery.test {
        SubqueryTest::Any(test) => return quantified(subquery, test, false, row, run),
        SubqueryTest::All(test) => return quantified(subquery, test, true, row, run),
        _ => {}
    }
    if let Some(result) = &run.state.subqueries[&number].result {
        return Ok(result.clone());
    }
    let result = with_operator(subquery, row, run, |operator, run| match &subquery.test {
        SubqueryTest::Exists => {
            let mut batch = Batch::default();
            batch.want(1);
            operator.next(run, &mut batch)?;
            Ok(Datum::Bool(!batch.is_empty()))
        }
        SubqueryTest::Array(kind) => {
            let rows = collect(operator, run)?;
            let_go(&rows, run);
            let elements = rows.into_iter().filter_map(|row| row.into_iter().next());
            array_of(*kind, elements)
        }
        _ => only_value(operator, run),
    })?;
    if !subquery.is_correlated {
        slot(number, run).result = Some(result.clone());
    }
    Ok(result)
}

/// The value of the only row.
fn only_value(operator: &mut dyn Operator, run: &mut Run<'_>) -> Result<Datum> {
    let mut batch = Batch::default();
    batch.want(2);
    operator.next(run, &mut batch)?;
    let Some(first) = batch.rows().next().map(<[Datum]>::to_vec) else {
        return Ok(Datum::Null);
    };
    let is_only = batch.len() == 1 && {
        operator.next(run, &mut batch)?;
        batch.is_empty()
    };
    if !is_only {
        return Err(SqlError::new(
            SqlState::CARDINALITY_VIOLATION,
            "more than one row returned by a subquery used as an expression",
        ));
    }
    Ok(first.into_iter().next().unwrap_or(Datum::Null))
}

/// Runs a query's operators for a row.
fn with_operator<R>(
    subquery: &Arc<Subquery>,
    row: &[Datum],
    run: &mut Run<'_>,
    body: impl FnOnce(&mut dyn Operator, &mut Run<'_>) -> Result<R>,
) -> Result<R> {
    run.state.outer.push(row.to_vec());
    let number = Arc::as_ptr(subquery).addr();
    let kept = slot(number, run).operator.take();
    let result = match kept {
        Some(mut operator) => operator.restart(run).map(|()| operator),
        None => Ok(build(&subquery.node)),
    }
    .and_then(|mut operator| {
        let result = body(&mut *operator, run);
        slot(number, run).operator = Some(operator);
        result
    });
    run.state.outer.pop();
    result
}

/// `ANY` or `ALL` over the rows of a query.
fn quantified(
    subquery: &Arc<Subquery>,
    test: &RowTest,
    is_all: bool,
    row: &[Datum],
    run: &mut Run<'_>,
) -> Result<Datum> {
    let number = Arc::as_ptr(subquery).addr();
    let kept = slot(number, run).rows.clone();
    let rows = match kept {
        Some(rows) => rows,
        None => {
            let rows = Arc::new(with_operator(subquery, row, run, store)?);
            if !subquery.is_correlated {
                slot(number, run).rows = Some(Arc::clone(&rows));
            }
            rows
        }
    };
    let mut pair = all(&test.left, row, run)?;
    if !subquery.is_correlated
        && let Keys::All(keys) = keys_of(number, (test, is_all), &rows, run)?
    {
        let own = all(&keys.own, &pair, run)?;
        return Ok(keys.rows.test(&own, is_all));
    }
    let (width, mut unknown) = (pair.len(), false);
    let (mut at, mut place) = (0_u64, SegmentCache::default());
    while let Some(inner) = rows.get(at, &mut place)? {
        at += 1;
        if at.is_multiple_of(1024) {
            run.check()?;
        }
        pair.truncate(width);
        pair.extend(inner.iter().cloned());
        match evaluate(&test.condition, &pair, run)? {
            Datum::Null => unknown = true,
            Datum::Bool(is_true) if is_true != is_all => return Ok(Datum::Bool(!is_all)),
            _ => {}
        }
    }
    Ok(if unknown {
        Datum::Null
    } else {
        Datum::Bool(is_all)
    })
}

/// The keys of a query's rows, which are collected for the first test.
fn keys_of(
    number: usize,
    (test, is_all): (&RowTest, bool),
    rows: &Store,
    run: &mut Run<'_>,
) -> Result<Keys> {
    if matches!(slot(number, run).keys, Keys::NotCollected) {
        let keys = match compared(&test.condition, is_all, test.left.len()) {
            Some(pairs) => collect_keys(&pairs, test.left.len(), rows, run)?,
            None => None,
        };
        slot(number, run).keys = keys.map_or(Keys::None, |keys| Keys::All(Arc::new(keys)));
    }
    Ok(slot(number, run).keys.clone())
}

/// The keys of rows; none if there is no room for all of them.
fn collect_keys(
    pairs: &[(&Expr, &Expr)],
    width: usize,
    rows: &Store,
    run: &mut Run<'_>,
) -> Result<Option<KeyTest>> {
    let (own, mut theirs): (Vec<Expr>, Vec<Expr>) = pairs
        .iter()
        .map(|&(own, theirs)| (own.clone(), theirs.clone()))
        .unzip();
    for value in &mut theirs {
        value.shift(width, -(width as isize));
    }
    let mut keys = KeySet::new(run.state.memory.share());
    let (mut at, mut place) = (0_u64, SegmentCache::default());
    while let Some(row) = rows.get(at, &mut place)? {
        at += 1;
        if at.is_multiple_of(1024) {
            run.check()?;
        }
        if !keys.insert(all(&theirs, row, run)?) {
            return Ok(None);
        }
    }
    Ok(Some(KeyTest { own, rows: keys }))
}
