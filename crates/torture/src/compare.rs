//! Which of the allowed states an engine holds, found while its rows come by.
//!
//! Nearly every check of a search passes, so no copy of the database is made: each row of a scan is
//! compared with the next row of every state that still fits. States of one history share the rows
//! that no transaction between them has changed, and a shared row is compared once. The comparison
//! covers the order of the keys and the absence of other rows.

use crate::check::Failure;
use crate::model::{Fields, State, index_numbers, table_number};
use std::collections::btree_map::Iter;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::engine::{Direction, Engine, ScanRange};
use storage::record::{KeyBuf, Row, Value, ValueRef};
use storage::table::Table;

/// The first of `allowed` that the engine holds; none if it holds anything else.
pub(crate) fn find_state<'s>(
    engine: &mut dyn Engine,
    allowed: impl Iterator<Item = &'s State>,
) -> Result<Option<usize>, Failure> {
    let mut fitting: Vec<(usize, &State)> = allowed.enumerate().collect();
    engine
        .begin()
        .map_err(|error| Failure::new("begin", error))?;
    let tables = engine.tables();
    fitting.retain(|(_, state)| state.tables.len() == tables.len());
    for table in &tables {
        if fitting.is_empty() {
            break;
        }
        let mut walks = Walk::begin(table, &fitting);
        scan(engine, table, &mut |row| {
            Walk::step(&mut walks, row);
            if walks.is_empty() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        let whole: Vec<usize> = walks.into_iter().filter_map(Walk::end).collect();
        fitting.retain(|(number, _)| whole.contains(number));
    }
    engine
        .abort()
        .map_err(|error| Failure::new("end of reading", error))?;
    Ok(fitting.first().map(|(number, _)| *number))
}

/// Scans a whole table in the order of its primary key.
pub(crate) fn scan(
    engine: &mut dyn Engine,
    table: &Table,
    visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
) -> Result<(), Failure> {
    let (mut low, mut high) = (KeyBuf::new(), KeyBuf::new());
    let bounds = table
        .primary
        .lower_bound::<Value>(&[], &mut low)
        .and_then(|()| table.primary.upper_bound::<Value>(&[], &mut high));
    bounds.map_err(|error| Failure::new("bounds", error))?;
    let range = ScanRange {
        table: table.def.id,
        index: None,
        low,
        high,
        direction: Direction::Forward,
    };
    let scanned = engine.scan(&range, visit);
    scanned.map_err(|error| Failure::new("scan", error))?;
    Ok(())
}

/// A state's rows of one table, as far as they have come by.
struct Walk<'s> {
    number: usize,
    rows: Iter<'s, i64, Arc<Fields>>,
}

impl<'s> Walk<'s> {
    fn begin(table: &Table, states: &[(usize, &'s State)]) -> Vec<Self> {
        let id = table_number(&table.def);
        let indexes = index_numbers(&table.def);
        let walks = states.iter().filter_map(|(number, state)| {
            let contents = state.tables.get(&id.0)?;
            (contents.indexes == indexes).then(|| Self {
                number: *number,
                rows: contents.rows.iter(),
            })
        });
        walks.collect()
    }

    /// Drops the states whose next row is not this one.
    fn step(walks: &mut Vec<Self>, row: &Row) {
        let mut last: Option<(&'s Arc<Fields>, bool)> = None;
        walks.retain_mut(|walk| {
            let Some((_, expected)) = walk.rows.next() else {
                return false;
            };
            let known = last.filter(|(other, _)| Arc::ptr_eq(other, expected));
            let is_equal = known.map_or_else(|| equals(row, expected), |(_, known)| known);
            last = Some((expected, is_equal));
            is_equal
        });
    }

    /// The state's number, if all of its rows have come by.
    fn end(mut self) -> Option<usize> {
        self.rows.next().is_none().then_some(self.number)
    }
}

fn equals(row: &Row, expected: &Fields) -> bool {
    let mut expected = expected.0.iter().map(Value::as_ref);
    row.values().all(|found| expected.next() == Some(found)) && expected.next().is_none()
}

/// The values of a row, as the model has them.
pub(crate) fn fields(row: &Row) -> Arc<Fields> {
    Arc::new(Fields(row.values().map(ValueRef::to_value).collect()))
}
