//! Rows of tables: all of them, ranges of an index, and single keys.
//!
//! A scan reads batches of the table below and turns them into values; only the columns that the
//! plan needs are looked at. Keys are computed when the first row is wanted, so a restart reads
//! others if the outer rows have changed.

use super::storage::{key_value, key_values, read_columns};
use super::{Operator, Run, evaluate, is_true};
use crate::error::Result;
use crate::plan::{Access, Bound, Expr, KeyRange, Nulls, Scan, Source, Way};
use crate::sink::Batch;
use crate::types::function::like::{after_all, beginning};
use crate::types::{Datum, Kind, Type, storage};
use indelible::{Direction, Prefix, Row, Value};
use sql_rows::Columns;
use std::collections::BTreeSet;
use std::ops::Bound as End;
use std::sync::Arc;

pub(super) struct ScanRun {
    plan: Arc<Scan>,
    reading: Reading,
    /// Of several ways, the one under way.
    way: usize,
    /// A range that is read after the one under way: rows with NULL, or those without.
    later: Option<Ends>,
    rows: Vec<Row>,
    next: usize,
    /// The plan's condition. What the rows do not change in it is computed when many are read.
    condition: Option<Expr>,
    /// The columns that the condition reads, and the others that are needed.
    tested: Vec<usize>,
    others: Vec<usize>,
    /// The columns that are handed over.
    columns: Vec<usize>,
    /// The values of the row that is read.
    values: Vec<Datum>,
}

/// The rest of what is to be read.
enum Reading {
    NotBegun,
    Range(indelible::Scan),
    Keys(std::collections::btree_set::IntoIter<Vec<Value>>),
    Over,
}

impl ScanRun {
    pub(super) fn new(plan: &Arc<Scan>) -> Self {
        Self::with_columns(plan, (0..plan.source.width()).collect())
    }

    /// A scan that hands over different columns only.
    pub(super) fn with_columns(plan: &Arc<Scan>, columns: Vec<usize>) -> Self {
        let mut is_tested = vec![false; plan.source.width()];
        if let Some(condition) = &plan.condition {
            condition.columns(&mut |at| is_tested[at] = true);
        }
        for way in ways(&plan.access) {
            way.condition.columns(&mut |at| is_tested[at] = true);
        }
        let needed = (0..is_tested.len()).filter(|&at| plan.needed[at]);
        let (tested, others) = needed.partition(|&at| is_tested[at]);
        Self {
            plan: Arc::clone(plan),
            reading: Reading::NotBegun,
            way: 0,
            later: None,
            rows: Vec::new(),
            next: 0,
            condition: plan.condition.clone(),
            tested,
            others,
            columns,
            values: vec![Datum::Null; plan.source.width()],
        }
    }

    fn begin(&mut self, run: &mut Run<'_>) -> Result<Reading> {
        let plan = Arc::clone(&self.plan);
        let source = &plan.source;
        Ok(match access_of(&plan, self.way) {
            Access::AnyOf(_) => Reading::Over,
            Access::All { backward } => {
                let direction = direction(*backward);
                let scan = run.connection.scan(&source.table, .., direction)?;
                Reading::Range(as_begun(scan, run)?)
            }
            Access::Range(range) => {
                let values = end_values(range, run)?;
                if range.prefix.is_empty() && is_open(&values) && range.pattern.is_some() {
                    // Rows by an index cost more than all rows.
                    let scan = run.connection.scan(&source.table, .., Direction::Forward)?;
                    return Ok(Reading::Range(as_begun(scan, run)?));
                }
                let mut all = bounds(source, range, values, run)?.into_iter();
                match all.next() {
                    None => Reading::Over,
                    Some(bounds) => {
                        self.later = all.next();
                        Reading::Range(scan_range(source, range, bounds, run)?)
                    }
                }
            }
            Access::Keys { index, keys } => {
                let columns = key_types(source, index.as_deref());
                let mut all = BTreeSet::new();
                for key in keys {
                    let mut values = Vec::with_capacity(key.len());
                    for expression in key {
                        values.push(evaluate(expression, &[], run)?);
                    }
                    if let Some(key) = key_values(&values, &columns, run) {
                        all.insert(key);
                    }
                }
                Reading::Keys(all.into_iter())
            }
            Access::Elements {
                index,
                prefix,
                array,
            } => {
                let columns = key_types(source, index.as_deref());
                let mut key = Vec::with_capacity(prefix.len() + 1);
                for expression in prefix {
                    key.push(evaluate(expression, &[], run)?);
                }
                let mut all = BTreeSet::new();
                if let Datum::Array(array) = evaluate(array, &[], run)? {
                    for element in &array.elements {
                        key.truncate(prefix.len());
                        key.push(element.clone());
                        all.extend(key_values(&key, &columns, run));
                    }
                }
                Reading::Keys(all.into_iter())
            }
        })
    }

    /// Reads the next rows of the table below; false if there are none.
    fn refill(&mut self, run: &mut Run<'_>) -> Result<bool> {
        self.next = 0;
        self.rows.clear();
        loop {
            match &mut self.reading {
                Reading::NotBegun if is_left_out(&self.plan, run) => {
                    self.reading = Reading::Over;
                }
                Reading::NotBegun => {
                    let mut is_never = false;
                    if matches!(self.plan.access, Access::All { .. })
                        && let Some(condition) = &mut self.condition
                    {
                        settle(condition, run);
                        is_never = passes_nothing(condition);
                    }
                    self.reading = if is_never {
                        Reading::Over
                    } else {
                        self.begin(run)?
                    };
                }
                Reading::Over if self.way + 1 < ways(&self.plan.access).len() => {
                    self.way += 1;
                    self.reading = Reading::NotBegun;
                }
                Reading::Over => return Ok(false),
                Reading::Range(scan) => {
                    if scan.next_batch(run.connection, &mut self.rows)? {
                        return Ok(true);
                    }
                    self.reading = match (self.later.take(), access_of(&self.plan, self.way)) {
                        (Some(later), Access::Range(range)) => {
                            Reading::Range(scan_range(&self.plan.source, range, later, run)?)
                        }
                        _ => Reading::Over,
                    };
                }
                Reading::Keys(keys) => match keys.next() {
                    None => self.reading = Reading::Over,
                    Some(key) => {
                        self.rows = find(&self.plan, self.way, &key, run)?;
                        if !self.rows.is_empty() {
                            return Ok(true);
                        }
                    }
                },
            }
        }
    }
}

/// The ways of an access that has several.
fn ways(access: &Access) -> &[Way] {
    match access {
        Access::AnyOf(ways) => ways,
        _ => &[],
    }
}

/// The access, or that of a way.
fn access_of(plan: &Scan, way: usize) -> &Access {
    ways(&plan.access)
        .get(way)
        .map_or(&plan.access, |way| &way.access)
}

/// Whether a row belongs to a way, and to none before it.
fn is_of_way(ways: &[Way], at: usize, row: &[Datum], run: &mut Run<'_>) -> Result<bool> {
    for (way, before) in ways.iter().take(at + 1).zip(0..) {
        if is_true(&way.condition, row, run)? != (before == at) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn direction(backward: bool) -> Direction {
    match backward {
        true => Direction::Backward,
        false => Direction::Forward,
    }
}

/// A scan of an index, or of the primary key, between two ends.
fn scan_range(
    source: &Source,
    range: &KeyRange,
    ends: Ends,
    run: &mut Run<'_>,
) -> Result<indelible::Scan> {
    let direction = direction(range.backward);
    let scan = match &range.index {
        None => run.connection.scan(&source.table, ends, direction)?,
        Some(name) => {
            let index = source.table.index(name)?;
            run.connection.scan_index(&index, ends, direction)?
        }
    };
    as_begun(scan, run)
}

/// The rows whose key begins with values.
fn find(plan: &Scan, way: usize, key: &[Value], run: &mut Run<'_>) -> Result<Vec<Row>> {
    let source = &plan.source;
    let index = match access_of(plan, way) {
        Access::Keys { index, .. } | Access::Elements { index, .. } => index.as_deref(),
        _ => None,
    };
    let connection = &mut *run.connection;
    let has_changed = |mark| connection.has_changed_since(mark);
    let is_point = index.is_none() && key.len() == source.key.len();
    if is_point && !run.state.begun.is_some_and(has_changed) {
        return Ok(connection.get(&source.table, key)?.into_iter().collect());
    }
    let scan = match index {
        Some(name) => {
            let index = source.table.index(name)?;
            connection.scan_index(&index, Prefix(key), Direction::Forward)?
        }
        None => connection.scan(&source.table, Prefix(key), Direction::Forward)?,
    };
    let mut scan = as_begun(scan, run)?;
    let (mut rows, mut batch) = (Vec::new(), Vec::new());
    while scan.next_batch(run.connection, &mut batch)? {
        rows.append(&mut batch);
    }
    Ok(rows)
}

/// A scan that sees none of the statement's own changes.
fn as_begun(scan: indelible::Scan, run: &Run<'_>) -> Result<indelible::Scan> {
    Ok(match run.state.begun {
        Some(mark) => scan.seeing(mark)?,
        None => scan,
    })
}

/// Types of the columns of a key.
fn key_types(source: &Source, index: Option<&str>) -> Vec<Type> {
    let columns = match index {
        None => source.key.to_vec(),
        Some(name) => {
            let definition = source.table.definition();
            let index = definition.index(name);
            index.map(|index| index.columns.clone()).unwrap_or_default()
        }
    };
    let types = columns.iter().map(|&column| source.column_type(column));
    types.collect()
}

type Ends = (End<Vec<Value>>, End<Vec<Value>>);

/// The values at both ends of a range, and whether they are in it.
type EndValues = [Option<(Datum, bool)>; 2];

fn end_values(range: &KeyRange, run: &mut Run<'_>) -> Result<EndValues> {
    if let Some(pattern) = &range.pattern {
        return Ok(match evaluate(pattern, &[], run)? {
            Datum::Text(pattern) => {
                let beginning = beginning(&pattern);
                let after = after_all(&beginning).map(|text| (Datum::Text(text.into()), false));
                [Some((Datum::Text(beginning.into()), true)), after]
            }
            Datum::Null => [Some((Datum::Null, true)), None],
            _ => [None, None],
        });
    }
    let mut value = |bound: Option<&Bound>| -> Result<Option<(Datum, bool)>> {
        let Some(bound) = bound else { return Ok(None) };
        let value = evaluate(&bound.value, &[], run)?;
        Ok(Some((value, bound.is_included)))
    };
    Ok([value(range.low.as_ref())?, value(range.high.as_ref())?])
}

/// Whether all values are between the ends.
fn is_open(values: &EndValues) -> bool {
    let is_least = |value: &Datum| matches!(value, Datum::Text(text) if text.is_empty());
    let [low, high] = values;
    high.is_none()
        && low
            .as_ref()
            .is_none_or(|(value, is_included)| *is_included && is_least(value))
}

/// The ends of a range, or of its two parts one after the other; none if it is empty because a
/// value is NULL.
fn bounds(
    source: &Source,
    range: &KeyRange,
    [low, high]: EndValues,
    run: &mut Run<'_>,
) -> Result<Vec<Ends>> {
    let types = key_types(source, range.index.as_deref());
    let mut prefix = Vec::with_capacity(range.prefix.len() + 1);
    for expression in &range.prefix {
        prefix.push(evaluate(expression, &[], run)?);
    }
    let Some(prefix) = key_values(&prefix, &types, run) else {
        return Ok(Vec::new());
    };
    let next = types.get(prefix.len());
    let has_end = low.is_some() || high.is_some();
    let may_be_null = next.is_some() && may_be_null(source, range, prefix.len());
    let skips_null = may_be_null && (has_end || range.nulls != Nulls::AsKeys);
    if range.nulls == Nulls::Only && !may_be_null {
        return Ok(Vec::new());
    }
    let open = if prefix.is_empty() {
        End::Unbounded
    } else {
        End::Included(prefix.clone())
    };
    // NULL is the least of all.
    let null: Vec<Value> = prefix.iter().cloned().chain([Value::Null]).collect();
    let open_low = if skips_null {
        End::Excluded(null.clone())
    } else {
        open.clone()
    };
    let end = |value: Option<(Datum, bool)>, open: End<Vec<Value>>| {
        let (Some((mut value, is_included)), Some(next)) = (value, next) else {
            return Some(open);
        };
        // No row lies between both, and the condition looks at the row at the end again.
        let is_cut = !storage::holds(&value, *next);
        if is_cut {
            value = storage::nearest(&value, *next);
        }
        let mut key = prefix.clone();
        key.push(key_value(&value, *next, run)?);
        Some(if is_included || is_cut {
            End::Included(key)
        } else {
            End::Excluded(key)
        })
    };
    let (Some(low), Some(high)) = (end(low, open_low), end(high, open)) else {
        return Ok(Vec::new());
    };
    let values = (low, high);
    let nulls = (End::Included(null.clone()), End::Included(null));
    Ok(match range.nulls {
        Nulls::First if skips_null && !has_end => vec![nulls, values],
        Nulls::Last if skips_null && !has_end => vec![values, nulls],
        Nulls::Only => vec![nulls],
        _ => vec![values],
    })
}

/// Whether a column of the index of a range may be NULL.
fn may_be_null(source: &Source, range: &KeyRange, at: usize) -> bool {
    let definition = source.table.definition();
    let index = range
        .index
        .as_deref()
        .and_then(|name| definition.index(name));
    let column = index.and_then(|index| definition.columns.get(*index.columns.get(at)?));
    column.is_some_and(|column| column.nullable)
}

impl ScanRun {
    /// Reads the values of the next row that passes. False if there is none; or if it would have to
    /// be fetched and there are rows, which go on first, as a reader may want no more.
    fn read(&mut self, run: &mut Run<'_>, has_rows: bool) -> Result<bool> {
        loop {
            let Some(row) = self.rows.get(self.next) else {
                if has_rows || !self.refill(run)? {
                    return Ok(false);
                }
                continue;
            };
            self.next += 1;
            // Most rows that a condition leaves out cost no more than what it reads.
            let values = &mut self.values;
            read_columns(&self.plan.source, row, &self.tested, values, run)?;
            if passes(self.condition.as_ref(), values, run)?
                && is_of_way(ways(&self.plan.access), self.way, values, run)?
            {
                read_columns(&self.plan.source, row, &self.others, values, run)?;
                return Ok(true);
            }
        }
    }

    /// The values that are handed over of the row that was read.
    fn taken(&mut self) -> impl Iterator<Item = Datum> {
        let (columns, values) = (&self.columns, &mut self.values);
        let taken = columns.iter();
        taken.map(|&at| std::mem::replace(&mut values[at], Datum::Null))
    }
}

impl Operator for ScanRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        out.reset(self.columns.len());
        while !out.is_full() && self.read(run, !out.is_empty())? {
            out.push(self.taken());
        }
        Ok(())
    }

    fn has_columns(&self) -> bool {
        true
    }

    fn next_columns(&mut self, run: &mut Run<'_>, out: &mut Columns) -> Result<()> {
        let plan = &self.plan;
        // Columns that nobody needs are NULL.
        out.reset(self.columns.iter().map(|&at| match plan.needed[at] {
            true => plan.source.column_type(at).kind,
            false => Kind::Record,
        }));
        while !out.is_full() && self.read(run, !out.is_empty())? {
            out.push(self.taken());
        }
        Ok(())
    }

    fn restart(&mut self, _: &mut Run<'_>) -> Result<()> {
        self.reading = Reading::NotBegun;
        self.way = 0;
        self.later = None;
        self.rows.clear();
        self.next = 0;
        Ok(())
    }
}

/// Whether parameters leave the partition out that is read.
fn is_left_out(plan: &Scan, run: &mut Run<'_>) -> bool {
    let Some(partition) = plan.partition.as_ref().filter(|_| !plan.tests.is_empty()) else {
        return false;
    };
    let mut tests = plan.tests.clone();
    for test in &mut tests {
        settle(test, run);
    }
    crate::plan::is_left_out(partition, &tests, &plan.source)
}

/// Computes the parts of a condition that do not depend on the row. One that fails stays as it is:
/// perhaps no row needs it.
fn settle(condition: &mut Expr, run: &mut Run<'_>) {
    let walked = condition.walk(0, &mut |part, depth| {
        let is_computed = matches!(
            part,
            Expr::Call(_) | Expr::Cast(..) | Expr::Parameter(..) | Expr::Array(..)
        );
        if !is_computed || part.any(|part, _| depends(part)) {
            return Ok(depth == 0 && !matches!(part, Expr::Subquery(_)));
        }
        if let Ok(value) = evaluate(part, &[], run) {
            *part = Expr::Constant(value, part.data_type());
        }
        Ok(false)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
}

/// Whether a condition is false or unknown, whatever the row is.
fn passes_nothing(condition: &Expr) -> bool {
    match condition {
        Expr::Constant(value, _) => *value != Datum::Bool(true),
        Expr::And(parts) => parts.iter().any(passes_nothing),
        _ => false,
    }
}

/// Whether a part of an expression may have another value for another row.
fn depends(part: &Expr) -> bool {
    match part {
        Expr::Column(..) | Expr::Outer(..) | Expr::Subquery(_) | Expr::Pending(..) => true,
        Expr::Call(call) => !call.is_stable(),
        _ => false,
    }
}

fn passes(condition: Option<&Expr>, row: &[Datum], run: &mut Run<'_>) -> Result<bool> {
    condition.map_or(Ok(true), |condition| is_true(condition, row, run))
}
