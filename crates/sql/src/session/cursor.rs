//! Cursors and prepared statements of the language: `DECLARE`, `FETCH`, `MOVE`, `CLOSE`, `PREPARE`,
//! `EXECUTE`, `DEALLOCATE`.
//!
//! A cursor reads its query as rows are asked for. It keeps those that have come, so that it can go
//! back, unless it is declared with `NO SCROLL`.

use super::Session;
use super::control::needs_block;
use crate::catalog::Oid;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Plan;
use crate::run::{Row, Run, evaluate};
use crate::sink::{Batch, Completion, OutputColumn, RowSink};
use crate::state::{Prepared, Progress, Running, ShownCursor, ShownStatement};
use crate::types::Datum;
use sql_bind::{Binder, Tracked, not_updatable, type_named};
use sql_parse::{LineIndex, Parsed, ident_text, object_name};
use sql_rows::{SegmentCache, Store};
use sqlparser::ast::{
    CloseCursor, Declare, DeclareType, Expr, FetchDirection, Ident, SetExpr, Statement,
    ValueWithSpan,
};
use std::sync::Arc;

/// The end of a cursor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    /// With its transaction.
    Transaction,
    /// With the session, once its transaction has committed.
    Held,
    /// With the session: all of its rows have come.
    Kept,
}

/// A cursor.
pub(crate) struct Cursor {
    running: Running,
    life: Life,
    /// The level of the transaction that has declared it: it goes with that savepoint.
    level: usize,
    /// Rows that have come, after those that were not kept because it cannot go back.
    rows: Store,
    place_of_rows: SegmentCache,
    not_kept: u64,
    can_go_back: bool,
    is_over: bool,
    /// The row that it is at, from 1; 0 is before the first one.
    place: u64,
    /// Rows that have come.
    read: u64,
    /// The last row that the statement which runs may want.
    goal: u64,
    /// Tables whose keys end its rows.
    tracked: Vec<Tracked>,
    /// The row that it is at, if it is at one.
    current: Option<Row>,
}

impl Cursor {
    /// The columns for the client of the row that it is at from now on.
    fn shown(&mut self, row: Option<Row>, width: usize) -> impl Iterator<Item = Datum> + use<> {
        if !self.tracked.is_empty() {
            self.current.clone_from(&row);
        }
        row.into_iter().flatten().take(width)
    }
}

impl Session {
    /// The key of the row of a table that a cursor is at.
    pub(super) fn cursor_row(&self, name: &str, (table, shown): (Oid, &str)) -> Result<Row> {
        let cursor = self.cursors.get(name).ok_or_else(|| no_cursor(name))?;
        let wrong = |message| Err(SqlError::new(SqlState::INVALID_CURSOR_STATE, message));
        if cursor.life == Life::Kept {
            return wrong(format!(
                "cursor \"{name}\" is held from a previous transaction"
            ));
        }
        let mut own = cursor.tracked.iter().filter(|own| own.table == table);
        let (first, second) = (own.next(), own.next());
        let Some(tracked) = first else {
            return Err(match cursor.tracked.first() {
                Some(other) if other.is_locked => {
                    let message = format!(
                        "cursor \"{name}\" does not have a FOR UPDATE/SHARE reference to table \"{shown}\""
                    );
                    SqlError::new(SqlState::INVALID_CURSOR_STATE, message)
                }
                _ => not_updatable(name, shown),
            });
        };
        if second.is_some() {
            return wrong(format!(
                "cursor \"{name}\" has multiple FOR UPDATE/SHARE references to table \"{shown}\""
            ));
        }
        match &cursor.current {
            Some(row) => Ok(row[tracked.start..tracked.start + tracked.count].to_vec()),
            None => wrong(format!("cursor \"{name}\" is not positioned on a row")),
        }
    }

    /// Whether a cursor or portal that is not at its end reads a table.
    pub(crate) fn has_open_reader_of(&self, oid: Oid) -> bool {
        let cursors = self.cursors.values();
        let cursors = cursors.filter(|cursor| cursor.life != Life::Kept && !cursor.is_over);
        let portals = self.portals.values();
        let portals = portals.filter_map(|portal| match &portal.progress {
            Progress::Running(running) => Some(&**running),
            _ => None,
        });
        let mut running = cursors.map(|cursor| &cursor.running).chain(portals);
        running.any(|running| running.plan.tables.iter().any(|used| used.oid == oid))
    }

    /// Runs a statement about cursors or prepared statements; none if it is another one.
    pub(super) fn cursor_statement(
        &mut self,
        parsed: &Parsed,
        sink: &mut dyn RowSink,
    ) -> Result<Option<Completion>> {
        let completion = match &*parsed.statement {
            Statement::Declare { stmts, .. } => self.declare(parsed, stmts)?,
            Statement::Fetch {
                name, direction, ..
            } if parsed.is_move => {
                let name = ident_text(name);
                let moved = self.fetch(&name, direction, &mut super::execute::Nowhere)?;
                Completion {
                    command: "MOVE",
                    ..moved
                }
            }
            Statement::Fetch {
                name, direction, ..
            } => self.fetch(&ident_text(name), direction, sink)?,
            Statement::Close { cursor } => self.close(cursor)?,
            Statement::Prepare {
                name,
                data_types,
                statement,
            } => {
                let names = &self.environment.names;
                let types = data_types
                    .iter()
                    .map(|name| Ok(Some(type_named(names, name)?.data_type.kind.plain())));
                let types = types.collect::<Result<Vec<_>>>()?;
                let inner = Parsed {
                    statement: Arc::new((**statement).clone()),
                    ..parsed.clone()
                };
                self.prepare_parsed(&ident_text(name), inner, &types)?
            }
            Statement::Execute {
                name: Some(name),
                parameters,
                ..
            } => {
                let (_, name) = object_name(name)?;
                self.execute_prepared(&name, parameters, sink)?
            }
            Statement::Deallocate { name, .. } => self.deallocate(name)?,
            _ => return Ok(None),
        };
        Ok(Some(completion))
    }

    fn declare(&mut self, parsed: &Parsed, declared: &[Declare]) -> Result<Completion> {
        let [
            Declare {
                names,
                binary,
                declare_type: Some(DeclareType::Cursor),
                scroll,
                hold,
                for_query: Some(query),
                ..
            },
        ] = declared
        else {
            return Err(SqlError::unsupported(
                "this DECLARE",
                "Use DECLARE name CURSOR FOR SELECT ...",
            ));
        };
        let name = names.first().map(ident_text).unwrap_or_default();
        let is_held = *hold == Some(true);
        if !is_held && !self.is_in_block() {
            return Err(needs_block("DECLARE CURSOR"));
        }
        if is_held && !query.locks.is_empty() {
            let message = "DECLARE CURSOR WITH HOLD ... FOR UPDATE is not supported";
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            return Err(error.detail("Holdable cursors must be READ ONLY."));
        }
        if self.has_portal(&name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        let query = Statement::Query(query.clone());
        let (mut plan, mut tracked) = self.plan_cursor(parsed, &query)?;
        while self.lock_used(&plan)? {
            (plan, tracked) = self.plan_cursor(parsed, &query)?;
        }
        self.check_values(&plan)?;
        if !plan.before.is_empty() {
            return Err(changes_rows());
        }
        let mut running = self.begin_plan(&plan, self.outer.1.clone())?;
        running.moment = self.own_moment()?;
        let rows = Store::new(running.state.memory.share());
        let lives = [Life::Transaction, Life::Held];
        let cursor = Cursor {
            running,
            life: lives[usize::from(is_held)],
            level: self.transaction.level(),
            rows,
            place_of_rows: SegmentCache::default(),
            not_kept: 0,
            can_go_back: *scroll != Some(false),
            is_over: false,
            place: 0,
            read: 0,
            goal: 0,
            tracked,
            current: None,
        };
        let shown = ShownCursor {
            statement: Arc::clone(&parsed.text),
            is_held,
            is_binary: *binary == Some(true),
            is_scrollable: cursor.can_go_back,
            made_at: self.environment.context().statement_start,
        };
        self.environment.host.cursors.insert(name.clone(), shown);
        self.cursors.insert(name, cursor);
        Ok(Completion::new("DECLARE CURSOR"))
    }

    /// The plan of a cursor, and the tables whose keys are in its rows.
    fn plan_cursor(
        &self,
        parsed: &Parsed,
        statement: &Statement,
    ) -> Result<(Arc<Plan>, Vec<Tracked>)> {
        if let Statement::Query(query) = statement {
            must_read(&query.body)?;
        }
        let environment = &self.environment;
        let (database, places) = (self.sql.database(), &*parsed.places);
        let mut binder = Binder::new(&environment.names, database, environment.context(), places);
        binder.declare(&self.outer.0);
        let bound = binder.cursor(statement)?;
        let (mut plan, tracked) = bound.ok_or_else(|| SqlError::internal("a query has a plan"))?;
        plan.improve();
        Ok((Arc::new(plan), tracked))
    }

    /// The columns of a cursor's rows.
    ///
    /// # Errors
    ///
    /// A cursor that does not exist.
    pub fn cursor_columns(&self, name: &str) -> Result<Option<Vec<OutputColumn>>> {
        if let Some(cursor) = self.cursors.get(name) {
            return Ok(cursor.running.plan.columns.clone());
        }
        let portal = self.portals.get(name).ok_or_else(|| no_cursor(name))?;
        self.portal_columns(portal)
    }

    fn fetch(
        &mut self,
        name: &str,
        direction: &FetchDirection,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        let Some(mut cursor) = self.cursors.remove(name) else {
            let rows = self.fetch_from_portal(name, &steps(direction, 0)?, sink)?;
            return Ok(Completion::with_rows("FETCH", rows));
        };
        let shown = self.environment.host.cursors.get(name);
        if shown.is_some_and(|shown| shown.is_binary) {
            sink.begin_binary();
        }
        let steps = steps(direction, cursor.place);
        let fetched = steps.and_then(|steps| self.fetch_from(&mut cursor, steps, sink));
        self.cursors.insert(name.to_owned(), cursor);
        Ok(Completion::with_rows("FETCH", fetched?))
    }

    /// Hands over the next rows of a cursor, at most so many; their number.
    pub(super) fn fetch_on(
        &mut self,
        name: &str,
        count: u64,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        let mut cursor = self.cursors.remove(name).ok_or_else(|| no_cursor(name))?;
        let fetched = self.fetch_from(&mut cursor, Steps::Forward(count), sink);
        self.cursors.insert(name.to_owned(), cursor);
        fetched
    }

    fn fetch_from(
        &mut self,
        cursor: &mut Cursor,
        steps: Steps,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        if let Some(columns) = &cursor.running.plan.columns {
            sink.describe(columns)?;
        }
        let width = cursor.running.plan.columns.as_ref().map_or(0, Vec::len);
        let mut out = Batch::new(width);
        let mut rows = 0;
        let steps = match steps {
            // The end is known when all rows have come.
            Steps::FromEnd(back) => {
                self.row_at(cursor, u64::MAX)?;
                Steps::To((cursor.read + 1).saturating_sub(back))
            }
            steps => steps,
        };
        match steps {
            Steps::FromEnd(_) => {}
            Steps::Forward(count) => {
                cursor.goal = cursor.place.saturating_add(count);
                for _ in 0..count {
                    let Some(row) = self.row_at(cursor, cursor.place + 1)? else {
                        cursor.place = cursor.read + 1;
                        cursor.current = None;
                        break;
                    };
                    cursor.place += 1;
                    out.push(cursor.shown(Some(row), width));
                    if out.is_full() {
                        rows += self.hand_over(&mut out, width, sink)?;
                    }
                }
            }
            Steps::Backward(count) => {
                if count > 0 && !cursor.can_go_back {
                    return Err(only_forward());
                }
                for _ in 0..count {
                    if cursor.place <= 1 {
                        cursor.place = 0;
                        cursor.current = None;
                        break;
                    }
                    cursor.place -= 1;
                    let row = self.row_at(cursor, cursor.place)?;
                    out.push(cursor.shown(row, width));
                    if out.is_full() {
                        rows += self.hand_over(&mut out, width, sink)?;
                    }
                }
            }
            Steps::To(place) => {
                cursor.goal = place;
                let row = self.row_at(cursor, place)?;
                cursor.place = if row.is_some() {
                    place
                } else {
                    place.min(cursor.read + 1)
                };
                match row {
                    Some(row) => out.push(cursor.shown(Some(row), width)),
                    None => cursor.current = None,
                }
            }
        }
        Ok(rows + self.hand_over(&mut out, width, sink)?)
    }

    /// Hands rows over, and empties their memory; the number of rows.
    fn hand_over(&self, out: &mut Batch, width: usize, sink: &mut dyn RowSink) -> Result<u64> {
        let rows = out.len() as u64;
        if rows > 0 {
            sink.rows(out, &self.environment.context())?;
            out.reset(width);
        }
        Ok(rows)
    }

    /// The row with a number; none if there are not so many.
    fn row_at(&mut self, cursor: &mut Cursor, number: u64) -> Result<Option<Row>> {
        if number == 0 {
            return Ok(None);
        }
        if number <= cursor.read {
            if !cursor.can_go_back && cursor.life != Life::Kept {
                return Err(only_forward());
            }
            let Some(place) = (number - 1).checked_sub(cursor.not_kept) else {
                return Err(only_forward());
            };
            return Ok(cursor.rows.get(place, &mut cursor.place_of_rows)?.cloned());
        }
        while cursor.read < number && !cursor.is_over {
            let running = &mut cursor.running;
            if running.next >= running.batch.len() {
                self.advance(running, cursor.goal.max(number) - cursor.read)?;
                if running.batch.is_empty() {
                    cursor.is_over = true;
                    break;
                }
            }
            let row = running.batch.row(running.next).to_vec();
            running.next += 1;
            cursor.read += 1;
            if cursor.can_go_back {
                cursor.rows.push(row.clone())?;
            }
            if cursor.read == number {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Lets cursors stay that are to stay after the transaction: all of their rows are read now.
    pub(super) fn hold_cursors(&mut self) -> Result<()> {
        let names: Vec<String> = self
            .cursors
            .iter()
            .filter(|(_, cursor)| cursor.life == Life::Held)
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            let Some(mut cursor) = self.cursors.remove(&name) else {
                continue;
            };
            let can_go_back = std::mem::replace(&mut cursor.can_go_back, true);
            if !can_go_back {
                cursor.not_kept = cursor.read;
            }
            self.row_at(&mut cursor, u64::MAX)?;
            cursor.can_go_back = can_go_back;
            cursor.life = Life::Kept;
            cursor.level = 0;
            self.cursors.insert(name, cursor);
        }
        Ok(())
    }

    /// Whether the transaction has a cursor that is to outlive it.
    pub(super) fn has_held_cursors(&self) -> bool {
        self.cursors
            .values()
            .any(|cursor| cursor.life == Life::Held)
    }

    /// Closes all cursors.
    pub(super) fn drop_cursors(&mut self) {
        self.cursors.clear();
        self.environment.host.cursors.clear();
    }

    /// Closes the cursors that end with their transaction.
    pub(super) fn close_cursors(&mut self) {
        self.keep_cursors(|cursor| cursor.life == Life::Kept);
    }

    /// Closes the cursors that were declared since a level of the transaction has begun.
    pub(super) fn undo_cursors(&mut self, level: usize) {
        self.keep_cursors(|cursor| cursor.level < level);
    }

    /// Makes the cursors that were declared since higher levels have begun those of this one.
    pub(super) fn release_cursors(&mut self, level: usize) {
        for cursor in self.cursors.values_mut() {
            cursor.level = cursor.level.min(level);
        }
    }

    fn keep_cursors(&mut self, mut stays: impl FnMut(&Cursor) -> bool) {
        self.cursors.retain(|_, cursor| stays(cursor));
        let cursors = &self.cursors;
        let shown = &mut self.environment.host.cursors;
        shown.retain(|name, _| cursors.contains_key(name));
    }

    fn close(&mut self, cursor: &CloseCursor) -> Result<Completion> {
        match cursor {
            CloseCursor::All => {
                self.drop_cursors();
                self.portals.clear();
                Ok(Completion::new("CLOSE CURSOR ALL"))
            }
            CloseCursor::Specific { name } => {
                let name = ident_text(name);
                if !self.has_portal(&name) {
                    return Err(no_cursor(&name));
                }
                self.close_portal(&name);
                Ok(Completion::new("CLOSE CURSOR"))
            }
        }
    }

    fn prepare_parsed(
        &mut self,
        name: &str,
        parsed: Parsed,
        types: &[Option<crate::types::Type>],
    ) -> Result<Completion> {
        if self.prepared.contains(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                message,
            ));
        }
        self.prepared.check_room(name)?;
        let plan = self.plan(&parsed, types)?;
        let text = Arc::clone(&parsed.text);
        let mut prepared = Prepared::new(Some(parsed), types);
        if let Some(plan) = &plan {
            prepared.fix_parameters(plan);
            prepared.promise(plan);
        }
        let shown = ShownStatement {
            statement: text,
            types: plan.map_or_else(Vec::new, |plan| plan.parameters.clone()),
            made_at: self.environment.context().statement_start,
        };
        let statements = &mut self.environment.host.statements;
        statements.insert(name.to_owned(), shown);
        self.prepared.insert(name, prepared);
        Ok(Completion::new("PREPARE"))
    }

    fn execute_prepared(
        &mut self,
        name: &str,
        arguments: &[Expr],
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        let Some((mut plan, values)) = self.prepared_with_values(name, arguments)? else {
            let parsed = self
                .prepared
                .get(name)
                .and_then(|prepared| prepared.parsed.clone());
            return match parsed {
                Some(parsed) => self.execute(&parsed, sink),
                None => Ok(Completion::new("")),
            };
        };
        while self.lock_used(&plan)? {
            plan = self.plan_prepared(name)?.unwrap_or(plan);
        }
        if let Some(columns) = &plan.columns {
            sink.describe(columns)?;
        }
        if let Some(point) = self.point_of(&plan) {
            return self.run_point(&plan, point, values, sink);
        }
        let mut running = self.begin_plan(&plan, values)?;
        self.run_on(&mut running, 0, sink)
    }

    /// The plan of a prepared query with the values of `EXECUTE`.
    pub(crate) fn prepared_query(
        &mut self,
        name: &str,
        arguments: &[Expr],
    ) -> Result<(Arc<Plan>, Vec<Datum>)> {
        let found = self.prepared_with_values(name, arguments)?;
        found
            .filter(|(plan, _)| plan.command == "SELECT")
            .ok_or_else(|| {
                let message = "prepared statement is not a SELECT";
                SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
            })
    }

    /// The plan of a prepared statement with the values of `EXECUTE`; none if it has no plan.
    pub(super) fn prepared_with_values(
        &mut self,
        name: &str,
        arguments: &[Expr],
    ) -> Result<Option<(Arc<Plan>, Vec<Datum>)>> {
        let Some(plan) = self.plan_prepared(name)? else {
            return Ok(None);
        };
        if arguments.len() != plan.parameters.len() {
            let message = format!("wrong number of parameters for prepared statement \"{name}\"");
            let detail = format!(
                "Expected {} parameters but got {}.",
                plan.parameters.len(),
                arguments.len()
            );
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).detail(detail));
        }
        let bound = {
            let places = LineIndex::default();
            let environment = &self.environment;
            let database = self.sql.database();
            let mut binder =
                Binder::new(&environment.names, database, environment.context(), &places);
            binder.arguments_of_types(arguments, &plan.parameters)?
        };
        let mut state = crate::run::State::default();
        let mut values: Vec<Datum> = Vec::with_capacity(bound.len());
        for expression in &bound {
            let mut run = Run {
                connection: &mut self.connection,
                environment: &mut self.environment,
                state: &mut state,
            };
            values.push(evaluate(expression, &[], &mut run)?);
        }
        Ok(Some((plan, values)))
    }

    fn deallocate(&mut self, name: &Ident) -> Result<Completion> {
        let text = ident_text(name);
        if text == "all" && name.quote_style.is_none() {
            self.prepared.clear_named();
            self.environment.host.statements.clear();
            return Ok(Completion::new("DEALLOCATE ALL"));
        }
        self.environment.host.statements.remove(&text);
        if self.prepared.deallocate(&text) {
            return Ok(Completion::new("DEALLOCATE"));
        }
        let message = format!("prepared statement \"{text}\" does not exist");
        Err(SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message))
    }
}

/// The way of a cursor.
pub(super) enum Steps {
    Forward(u64),
    Backward(u64),
    /// To the row with this number.
    To(u64),
    /// To the row with this number from the end; the last one is 1.
    FromEnd(u64),
}

fn steps(direction: &FetchDirection, place: u64) -> Result<Steps> {
    let by = |count: i64| match count {
        0 => Steps::To(place),
        1.. => Steps::Forward(count.unsigned_abs()),
        _ => Steps::Backward(count.unsigned_abs()),
    };
    Ok(match direction {
        FetchDirection::Count { limit } => by(number(limit)?),
        FetchDirection::Next => Steps::Forward(1),
        FetchDirection::Prior => Steps::Backward(1),
        FetchDirection::First => Steps::To(1),
        FetchDirection::Last => Steps::FromEnd(1),
        FetchDirection::Absolute { limit } => match number(limit)? {
            place @ 0.. => Steps::To(place.unsigned_abs()),
            back => Steps::FromEnd(back.unsigned_abs()),
        },
        FetchDirection::Relative { limit } => {
            Steps::To(place.saturating_add_signed(number(limit)?))
        }
        FetchDirection::All | FetchDirection::ForwardAll => Steps::Forward(u64::MAX),
        FetchDirection::Forward { limit } => match limit {
            Some(limit) => by(number(limit)?),
            None => Steps::Forward(1),
        },
        FetchDirection::Backward { limit } => match limit {
            Some(limit) => by(-number(limit)?),
            None => Steps::Backward(1),
        },
        FetchDirection::BackwardAll => Steps::Backward(u64::MAX),
    })
}

pub(super) fn only_forward() -> SqlError {
    let message = "cursor can only scan forward";
    let hint = "Declare it with SCROLL option to enable backward scan.";
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).hint(hint)
}

fn number(value: &ValueWithSpan) -> Result<i64> {
    value.value.to_string().parse().map_err(|_| {
        let message = format!("syntax error at or near \"{value}\"");
        SqlError::new(SqlState::SYNTAX_ERROR, message)
    })
}

pub(super) fn no_cursor(name: &str) -> SqlError {
    let message = format!("cursor \"{name}\" does not exist");
    SqlError::new(SqlState::INVALID_CURSOR_NAME, message)
}

/// Fails for a change of rows, which is no query of a cursor.
fn must_read(body: &SetExpr) -> Result<()> {
    let word = match body {
        SetExpr::Insert(_) => "INSERT",
        SetExpr::Update(_) => "UPDATE",
        SetExpr::Delete(_) => "DELETE",
        SetExpr::Merge(_) => "MERGE",
        _ => return Ok(()),
    };
    let message = format!("syntax error at or near \"{word}\"");
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}

/// The error of a cursor whose query changes rows.
fn changes_rows() -> SqlError {
    let message = "DECLARE CURSOR must not contain data-modifying statements in WITH";
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}
