//! Running point plans: keys and values go from the statement to the table below, and columns from
//! there to the result, through memory that the session keeps. So a statement allocates at its
//! first run, and later only for texts and other long values that it returns.
//!
//! They run with read committed only. A row is read without a snapshot then, since a statement that
//! reads one row sees one moment anyway. A change with conditions beside the key, or inside of a
//! block, looks at the row before it locks it: it must not wait for a row that it leaves alone, or
//! keep the key of one that is not there.

use super::lock::moved_elsewhere;
use super::modify::rules;
use super::storage::read_row;
use super::{Row, Run, State, evaluate, is_true};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{
    Expr, PointChange, PointInsert, PointPlan, PointRow, PointSelect, Source, Target,
};
use crate::sink::Batch;
use crate::state::Environment;
use crate::types::{Datum, storage};
use indelible::{Changes, Found, KEY_COLUMNS_MAX, Moved, RowKey, RowLock, TableId, ValueRef, Wait};
use std::collections::BTreeMap;

/// Tables whose memory is kept.
const TABLES_MAX: usize = 64;

/// Memory of a session's point plans.
#[derive(Default)]
pub(crate) struct PointMemory {
    pub(crate) parameters: Row,
    /// The state of the last run, whose memory the next one uses.
    pub(crate) state: Option<Box<State>>,
    /// Whether the transaction is the next run alone, and commits after it.
    pub(crate) is_last: bool,
    tables: BTreeMap<TableId, TableMemory>,
    work: Work,
}

/// A row of a table, and changes of it.
struct TableMemory {
    row: indelible::Row,
    changes: Changes,
}

/// Values of one statement.
#[derive(Default)]
struct Work {
    key: Row,
    /// The row of the table.
    values: Row,
    /// The row that is written down, or the new values of columns.
    given: Row,
    out: Batch,
}

impl PointMemory {
    /// Runs a plan, and returns how many rows it has changed or found, and those that it returns.
    pub(crate) fn run(
        &mut self,
        plan: &PointPlan,
        is_in_block: bool,
        run: &mut Run<'_>,
    ) -> Result<(u64, &Batch)> {
        let source = match plan {
            PointPlan::Select(select) => &select.row.source,
            PointPlan::Insert(insert) => &insert.table.source,
            PointPlan::Change(change) => &change.table.source,
        };
        if self.tables.len() >= TABLES_MAX {
            self.tables.clear();
        }
        let (table, is_last) = (&source.table, self.is_last);
        let memory = self.tables.entry(table.id());
        let memory = memory.or_insert_with(|| TableMemory {
            row: table.row(),
            changes: table.changes(),
        });
        let mut one = PointRun {
            row: &mut memory.row,
            changes: &mut memory.changes,
            work: &mut self.work,
        };
        let rows = match plan {
            PointPlan::Select(select) => one.select(select, run),
            PointPlan::Insert(plan) => one.insert(plan, is_last, run),
            PointPlan::Change(plan) => one.change(plan, is_in_block, run).map(u64::from),
        };
        Ok((rows?, &self.work.out))
    }

    /// The error of the commit after a plan that was the last one of its transaction: an insertion
    /// may meet a row of its key only then.
    pub(crate) fn of_commit(
        &self,
        plan: &PointPlan,
        error: SqlError,
        environment: &Environment,
    ) -> SqlError {
        let found = match plan {
            PointPlan::Insert(plan) if error.state == SqlState::UNIQUE_VIOLATION => {
                rules::duplicate_primary(&plan.table, &self.work.values, environment)
            }
            _ => None,
        };
        found.unwrap_or(error)
    }
}

/// One run of a plan.
struct PointRun<'m> {
    row: &'m mut indelible::Row,
    changes: &'m mut Changes,
    work: &'m mut Work,
}

impl PointRun<'_> {
    fn select(&mut self, plan: &PointSelect, run: &mut Run<'_>) -> Result<u64> {
        self.work.out.reset(plan.output.len());
        if self.find(&plan.row, run)? {
            self.project(&plan.output, run)?;
        }
        Ok(self.work.out.len() as u64)
    }

    /// Reads the row that the statement means; false if there is none.
    fn find(&mut self, plan: &PointRow, run: &mut Run<'_>) -> Result<bool> {
        let (table, row) = (&plan.source.table, &mut *self.row);
        let found = with_key(plan, &mut self.work.key, run, |key, run| {
            if run.state.begun.is_some() {
                return Ok(run.connection.get_only(table, key, row)?);
            }
            // Without a transaction: what it shows must be as durable as its commit would make it.
            let durability = run.environment.host.variables.modes().durability;
            Ok(run.connection.get_alone(table, key, row, durability)?)
        })?;
        Ok(found == Some(true) && self.is_meant(plan, run)?)
    }

    /// Whether the row that was read passes the condition; its values are there then.
    fn is_meant(&mut self, plan: &PointRow, run: &mut Run<'_>) -> Result<bool> {
        self.load(&plan.source, Some(&plan.needed), run)?;
        match &plan.condition {
            Some(condition) => is_true(condition, &self.work.values, run),
            None => Ok(true),
        }
    }

    fn load(&mut self, source: &Source, needed: Option<&[bool]>, run: &Run<'_>) -> Result<()> {
        let context = run.environment.context();
        self.work.values.clear();
        read_row(source, self.row, needed, &context, &mut self.work.values)
    }

    /// Adds the results of the row.
    fn project(&mut self, output: &[Expr], run: &mut Run<'_>) -> Result<()> {
        let work = &mut *self.work;
        work.given.clear();
        for expression in output {
            work.given.push(evaluate(expression, &work.values, run)?);
        }
        work.out.push(work.given.drain(..));
        Ok(())
    }

    fn insert(&mut self, plan: &PointInsert, is_last: bool, run: &mut Run<'_>) -> Result<u64> {
        let table = &*plan.table;
        let is_last = is_last && plan.rows.rows.len() == 1;
        let returned = plan.returning.as_ref().map_or(0, Vec::len);
        self.work.out.reset(returned);
        for row in &plan.rows.rows {
            let work = &mut *self.work;
            work.given.clear();
            for expression in row {
                work.given.push(evaluate(expression, &[], run)?);
            }
            work.values.clear();
            for expression in &plan.values {
                work.values.push(evaluate(expression, &work.given, run)?);
            }
            rules::generate(table, &mut work.values, run)?;
            rules::check(table, &work.values, run)?;
            if table.source.has_row_number() {
                let sql = &run.environment.host.sql;
                let number = sql.next_row_number(&table.source.table)?;
                work.values.push(Datum::Int8(number));
            }
            self.row.clear();
            for (at, value) in work.values.iter().enumerate() {
                rules::store(table, (at, value), run, |value| self.row.set(at, value))?;
            }
            let below = &table.source.table;
            let inserted = if is_last {
                run.connection.insert_last(below, &*self.row)
            } else {
                run.connection.insert(below, &*self.row)
            };
            inserted.map_err(|error| rules::of_row(table, error, &work.values, run))?;
            if let Some(returning) = &plan.returning {
                self.project(returning, run)?;
            }
        }
        Ok(plan.rows.rows.len() as u64)
    }

    /// Changes the row that the statement means; false if there is none.
    fn change(&mut self, plan: &PointChange, is_in_block: bool, run: &mut Run<'_>) -> Result<bool> {
        let table = &*plan.table;
        let returned = plan.returning.as_ref().map_or(0, Vec::len);
        self.work.out.reset(returned);
        let is_partition = !table.within.is_empty();
        if is_partition {
            // From here on it is known whether others move the row.
            run.connection.take_snapshot()?;
        }
        let looks_first = is_in_block || plan.row.condition.is_some() || !plan.keys.is_empty();
        if looks_first && !self.find(&plan.row, run)? {
            return Ok(false);
        }
        let (wait, strength) = (run.environment.wait(), self.strength_of(plan, run)?);
        let (below, row) = (&table.source.table, &mut *self.row);
        let key = with_key(&plan.row, &mut self.work.key, run, |key, run| {
            Ok(run.connection.row_key(below, key)?)
        })?;
        let Some(key) = key else { return Ok(false) };
        // A row that others have inserted, and not committed, is not there: nobody waits for it.
        let first = if looks_first { wait } else { Wait::Never };
        let connection = &mut *run.connection;
        let mut found = connection.get_locked_at(below, &key, strength, first, row)?;
        if found == Found::Busy && !looks_first {
            if !self.find(&plan.row, run)? {
                return Ok(false);
            }
            let (connection, row) = (&mut *run.connection, &mut *self.row);
            found = connection.get_locked_at(below, &key, strength, wait, row)?;
        }
        if found == Found::No
            && is_partition
            && run.connection.moved_at(below, &key)? == Some(Moved::Elsewhere)
        {
            return Err(moved_elsewhere());
        }
        if found != Found::Yes || !self.is_meant(&plan.row, run)? {
            return Ok(false);
        }
        match &plan.set {
            Some(set) => self.update(plan, &key, set, run)?,
            None => {
                let deleted = run.connection.delete_at(below, &key);
                deleted.map_err(|error| rules::named(table, error.into()))?;
            }
        }
        if let Some(returning) = &plan.returning {
            self.project(returning, run)?;
        }
        Ok(true)
    }

    /// The lock of a row that was looked at if its unique keys are set: others may refer to one
    /// that keeps them.
    fn strength_of(&self, plan: &PointChange, run: &mut Run<'_>) -> Result<RowLock> {
        for (at, value) in plan.set.iter().flatten() {
            if plan.keys.contains(at)
                && !evaluate(value, &[], run)?.is_identical(&self.work.values[*at])
            {
                return Ok(RowLock::Update);
            }
        }
        Ok(match plan.set {
            Some(_) => RowLock::NoKeyUpdate,
            None => RowLock::Update,
        })
    }

    /// Sets columns of the row that is locked.
    fn update(
        &mut self,
        plan: &PointChange,
        key: &RowKey,
        set: &[(usize, Expr)],
        run: &mut Run<'_>,
    ) -> Result<()> {
        let table = &*plan.table;
        let work = &mut *self.work;
        work.given.clear();
        for (_, value) in set {
            work.given.push(evaluate(value, &work.values, run)?);
        }
        for ((at, _), value) in set.iter().zip(work.given.drain(..)) {
            work.values[*at] = value;
        }
        if breaks_rule(table, set, &work.values, run)? {
            return rules::check(table, &self.whole_row(table, set, run)?, run);
        }
        self.changes.clear();
        for (at, _) in set {
            let value = &work.values[*at];
            rules::store(table, (*at, value), run, |value| {
                self.changes.set(*at, value)
            })?;
        }
        let below = &table.source.table;
        let updated = run.connection.update_at(below, key, &*self.changes);
        if let Err(error) = updated {
            let row = self.whole_row(table, set, run)?;
            return Err(rules::of_row(table, error, &row, run));
        }
        Ok(())
    }

    /// The row with the columns that are set, for an error that shows it.
    fn whole_row(&mut self, table: &Target, set: &[(usize, Expr)], run: &Run<'_>) -> Result<Row> {
        let changed = self.work.values.clone();
        self.load(&table.source, None, run)?;
        let mut row = self.work.values.clone();
        for (at, _) in set {
            row[*at].clone_from(&changed[*at]);
        }
        Ok(row)
    }
}

/// Calls `body` with the key of the row; none if no row can have it.
fn with_key<R>(
    plan: &PointRow,
    values: &mut Row,
    run: &mut Run<'_>,
    body: impl FnOnce(&[ValueRef<'_>], &mut Run<'_>) -> Result<R>,
) -> Result<Option<R>> {
    values.clear();
    for expression in &plan.key {
        values.push(evaluate(expression, &[], run)?);
    }
    let mut key = [ValueRef::Null; KEY_COLUMNS_MAX];
    for ((place, value), &column) in key.iter_mut().zip(&*values).zip(&*plan.source.key) {
        let data_type = plan.source.column_type(column);
        if value.is_null() || !storage::holds(value, data_type) {
            return Ok(None);
        }
        match storage::lend(value, data_type) {
            Ok(Some(lent)) => *place = lent,
            Ok(None) | Err(_) => return Ok(None),
        }
    }
    body(&key[..values.len()], run).map(Some)
}

/// Whether the columns that are set break a rule of the table.
fn breaks_rule(
    table: &Target,
    set: &[(usize, Expr)],
    row: &[Datum],
    run: &mut Run<'_>,
) -> Result<bool> {
    let is_missing = |at: usize| row[at].is_null() && table.columns[at].not_null;
    if set.iter().any(|(at, _)| is_missing(*at)) {
        return Ok(true);
    }
    for (_, condition) in &table.checks {
        if evaluate(condition, row, run)? == Datum::Bool(false) {
            return Ok(true);
        }
    }
    Ok(false)
}
