//! Prepared statements and portals: the parts of the extended protocol.
//!
//! A prepared statement is parsed once, and planned again when the catalogue or the settings have
//! changed. A portal is a prepared statement with values; it may stop after some rows, keeps its
//! place, and ends with its transaction (see `portal`).

use super::Session;
use super::explain::explain_columns;
use super::settings::{asked_name, shown_columns};
use crate::define::{executed, query_of_table, table_of_select};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Plan, PointPlan};
use crate::sink::{Completion, OutputColumn, RowSink};
use crate::state::{Block, Planned, Portal, Prepared, Progress, TransactionStatus, check_promised};
use crate::types::{Datum, Type};
use sql_parse::{Copied, Own, Parsed, ident_text, object_name, parse};
use sqlparser::ast::{Declare, Statement};
use std::sync::Arc;
use std::time::Instant;

/// Values of the parameters of a statement, in their order; of the types that
/// [`Session::describe_statement`] says.
pub type Parameters = [Datum];

impl Session {
    /// Prepares a statement. The name `""` is taken by the next one without a name.
    ///
    /// # Errors
    ///
    /// Those of its syntax; a name that is taken; several statements in one text.
    pub fn prepare(&mut self, name: &str, text: &str, declared: &[Option<Type>]) -> Result<()> {
        self.guarded(|session| {
            if !name.is_empty() && session.prepared.contains(name) {
                let message = format!("prepared statement \"{name}\" already exists");
                return Err(SqlError::new(
                    SqlState::DUPLICATE_PREPARED_STATEMENT,
                    message,
                ));
            }
            session.prepared.check_room(name)?;
            let mut parsed = parse(text)?;
            if parsed.len() > 1 {
                let message = "cannot insert multiple commands into a prepared statement";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            let prepared = Prepared::new(parsed.pop(), declared);
            session.prepared.insert(name, prepared);
            Ok(())
        })
    }

    /// Gives a prepared statement its values, as a portal. The name `""` is taken by the next one.
    ///
    /// # Errors
    ///
    /// Names that do not exist or are taken; a wrong number of values.
    pub fn bind(&mut self, portal: &str, statement: &str, values: &Parameters) -> Result<()> {
        self.guarded(|session| {
            let prepared = session
                .prepared
                .get(statement)
                .ok_or_else(|| no_statement(statement))?;
            if !portal.is_empty() && session.has_portal(portal) {
                let message = format!("cursor \"{portal}\" already exists");
                return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
            }
            let mut bound = match session.portals.remove(portal) {
                Some(unnamed) => unnamed,
                None => std::mem::take(&mut session.spare_portal),
            };
            bound.rebind(statement, prepared, values);
            bound.level = session.transaction.level();
            session.portals.insert(portal.to_owned(), bound);
            Ok(())
        })
    }

    /// Runs a portal on, until the sink is full or `rows_max` rows have come, if that is not 0.
    ///
    /// # Errors
    ///
    /// Those of the statement; a portal that does not exist.
    pub fn execute_portal(
        &mut self,
        portal: &str,
        rows_max: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        let Some(mut bound) = self.portals.remove(portal) else {
            if self.has_portal(portal) {
                return self.execute_cursor(portal, rows_max, sink);
            }
            self.fail();
            return Err(no_portal(portal));
        };
        let text = bound.parsed.as_ref().map(|parsed| parsed.text.clone());
        let is_continued = !matches!(bound.progress, Progress::Bound);
        if is_continued {
            self.go_on_with_text(text.as_deref().unwrap_or_default())?;
        } else {
            self.begin_text(text.as_deref().unwrap_or_default())?;
        }
        let watch = self.watch();
        let before = bound.rows_of_plan();
        let is_deep = bound.parsed.as_ref().is_some_and(|parsed| parsed.is_deep);
        let mut completion = self.with_stack(is_deep, sink, |session, sink| {
            session.run_portal(portal, &mut bound, rows_max, sink)
        });
        if completion.as_ref().is_ok_and(|done| done.is_suspended) {
            self.pause_text();
        } else {
            self.end_text();
        }
        let counted = bound.parsed.as_ref();
        let counted = counted.and_then(|parsed| self.counted_as(parsed));
        if let (Ok(completion), Some(text)) = (&completion, &counted) {
            // Changes are made before the first row of `RETURNING`.
            let rows = match completion.rows.unwrap_or(0) {
                _ if before.is_some() && completion.command != "SELECT" => 0,
                rows => rows.saturating_sub(before.unwrap_or(0)),
            };
            self.note(text, rows, is_continued, watch);
        }
        if let (Ok(completion), Some(before)) = (&mut completion, before) {
            // The tag has the rows of this call, not those of the calls before it.
            completion.rows = bound.rows_of_plan().map(|rows| rows - before);
        }
        bound.end_plan(&completion);
        if completion.is_ok() && self.is_portal_alive(&bound) {
            self.portals.insert(portal.to_owned(), bound);
        } else {
            self.spare_portal = bound;
        }
        completion
    }

    fn run_portal(
        &mut self,
        name: &str,
        portal: &mut Portal,
        rows_max: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        let Some(parsed) = portal.parsed.clone() else {
            return Ok(Completion::new(""));
        };
        if !matches!(portal.progress, Progress::Bound) {
            return self.guarded(|session| {
                session.attempt(|session| session.run_portal_on(name, portal, rows_max, sink))
            });
        }
        self.is_alone = false;
        self.is_together = false;
        if rows_max == 0
            && let Some(plan) = self.promised_plan(&portal.statement)
            && is_of(portal, self.prepared.get(&portal.statement))
            && let Some(point) = self.point_alone(&plan)
            && let Some(completion) =
                self.run_point_alone(&plan, point, &mut portal.values, sink)?
        {
            portal.progress = Progress::after(&completion, true);
            return Ok(completion);
        }
        self.guarded(|session| {
            if let Some(completion) = session.control(&parsed)? {
                portal.progress = Progress::Done;
                return Ok(completion);
            }
            session.attempt(|session| {
                let Some(plan) = session.plan_locked(portal, &parsed)? else {
                    return session.run_without_plan(portal, &parsed, rows_max, sink);
                };
                if let Some(columns) = &plan.columns {
                    sink.describe(columns)?;
                }
                if let Some(point) = session.point_of(&plan).filter(|_| rows_max == 0) {
                    let mut values = std::mem::take(&mut session.point.parameters);
                    values.clear();
                    values.append(&mut portal.values);
                    let completion = session.run_point(&plan, point, values, sink)?;
                    portal.progress = Progress::after(&completion, plan.columns.is_some());
                    return Ok(completion);
                }
                let mut running = session.begin_plan(&plan, portal.values.clone())?;
                let completion = session.run_on(&mut running, rows_max, sink)?;
                portal.progress = Progress::Running(Box::new(running));
                Ok(completion)
            })
        })
    }

    /// As [`Session::plan_portal`], with the locks of the tables that it changes.
    pub(super) fn plan_locked(
        &mut self,
        portal: &Portal,
        parsed: &Parsed,
    ) -> Result<Option<Arc<Plan>>> {
        let Some(mut plan) = self.plan_portal(portal, parsed)? else {
            return Ok(None);
        };
        while self.lock_used(&plan)? {
            plan = self.plan_portal(portal, parsed)?.unwrap_or(plan);
        }
        Ok(Some(plan))
    }

    /// The plan of a portal's statement, whose name may be that of another one by now.
    fn plan_portal(&mut self, portal: &Portal, parsed: &Parsed) -> Result<Option<Arc<Plan>>> {
        if is_of(portal, self.prepared.get(&portal.statement)) {
            return self.plan_prepared(&portal.statement);
        }
        if table_of_select(&parsed.statement).is_some() {
            return Ok(None);
        }
        let plan = self.plan(parsed, &portal.declared)?;
        if let Some(plan) = &plan {
            check_promised(portal.promised.as_deref(), plan)?;
        }
        Ok(plan)
    }

    /// Runs a prepared statement by its point plan, and ends what it began: as [`Session::bind`],
    /// [`Session::execute_portal`] and [`Session::sync`] do one after the other, without a portal.
    /// None, and nothing is done, if they have to be called, because the statement has no such
    /// plan, or not yet. Otherwise the values are taken.
    ///
    /// # Errors
    ///
    /// Those of the statement and of the commit.
    pub fn execute_point(
        &mut self,
        statement: &str,
        values: &mut Vec<Datum>,
        sink: &mut dyn RowSink,
    ) -> Result<Option<Completion>> {
        // It comes back, so that no reference is counted for it.
        let Some(mut prepared) = self.prepared.take(statement) else {
            return Ok(None);
        };
        let done = self.run_prepared_point(&mut prepared, values, sink);
        self.prepared.put_back(statement, prepared);
        done
    }

    fn run_prepared_point(
        &mut self,
        prepared: &mut Prepared,
        values: &mut Vec<Datum>,
        sink: &mut dyn RowSink,
    ) -> Result<Option<Completion>> {
        let (Some(parsed), Some(planned)) = (&prepared.parsed, &prepared.planned) else {
            return Ok(None);
        };
        let Some(point) = planned.plan.point.as_ref().filter(|_| !parsed.is_deep) else {
            return Ok(None);
        };
        self.begin_text(&parsed.text)?;
        self.is_alone = false;
        let watch = self.watch();
        let done = if self.alone(planned).is_some() {
            self.run_point_alone(&planned.plan, point, values, sink)
        } else {
            self.point.is_last = self.transaction.block == Block::Idle;
            let run = |session: &mut Self| session.run_planned(planned, values, sink);
            let done = self.guarded(|session| session.attempt(run));
            self.point.is_last = false;
            match done {
                Ok(Some(_)) => self.end_point(point).and(done),
                _ => done,
            }
        };
        if let Ok(Some(completion)) = &done {
            let took = self.count_prepared(prepared, completion.rows, &watch);
            // One look at the clock less.
            self.end_text_at(self.environment.begins_at() + took.as_micros() as i64);
        } else {
            self.end_text();
        }
        done
    }

    /// Commits after a point plan, unless a block goes on.
    fn end_point(&mut self, point: &PointPlan) -> Result<()> {
        self.end_implicit()
            .map_err(|error| self.point.of_commit(point, error, &self.environment))
    }

    /// Runs a prepared statement by its point plan once for each row of values, in the open block
    /// and without the rows that it returns; the sum of its counts. The values of one row come
    /// after those of another. None, and nothing is done, if [`Session::execute_point`] has to be
    /// called for each, because the statement has no such plan, or no block is open. Otherwise the
    /// values are taken. If a row fails none is changed, and the block has failed.
    ///
    /// # Errors
    ///
    /// That of the first row that fails.
    pub fn execute_points(
        &mut self,
        statement: &str,
        values: &mut Vec<Datum>,
    ) -> Result<Option<u64>> {
        if self.status() != TransactionStatus::Open {
            return Ok(None);
        }
        let prepared = self.prepared.get(statement);
        let parsed = prepared.and_then(|prepared| prepared.parsed.as_ref());
        let Some(parsed) = parsed.filter(|parsed| !parsed.is_deep) else {
            return Ok(None);
        };
        let text = Arc::clone(&parsed.text);
        self.begin_text(&text)?;
        self.is_alone = false;
        let run = |session: &mut Self| session.run_prepared_rows(statement, values);
        let done = self.guarded(|session| session.attempt(run));
        self.end_text();
        done
    }

    /// Runs a prepared statement for rows of values, if it has a point plan that can run in the
    /// transaction.
    fn run_prepared_rows(
        &mut self,
        statement: &str,
        values: &mut Vec<Datum>,
    ) -> Result<Option<u64>> {
        let Some(mut plan) = self.plan_prepared(statement)? else {
            return Ok(None);
        };
        while self.lock_used(&plan)? {
            plan = self.plan_prepared(statement)?.unwrap_or(plan);
        }
        let Some(point) = self.point_of(&plan) else {
            return Ok(None);
        };
        self.run_points(&plan, point, values).map(Some)
    }

    /// The point plan, if it is of this moment and needs no transaction.
    fn alone<'p>(&mut self, planned: &'p Planned) -> Option<&'p PointPlan> {
        self.refresh_catalog();
        let is_newest = planned.versions == self.versions();
        self.point_alone(&planned.plan).filter(|_| is_newest)
    }

    /// Runs a point plan, if it is of this moment and can run in the transaction.
    fn run_planned(
        &mut self,
        planned: &Planned,
        values: &mut Vec<Datum>,
        sink: &mut dyn RowSink,
    ) -> Result<Option<Completion>> {
        let plan = &planned.plan;
        if planned.versions != self.versions() || self.lock_used(plan)? {
            return Ok(None);
        }
        let Some(point) = self.point_of(plan) else {
            return Ok(None);
        };
        if let Some(columns) = &plan.columns {
            sink.describe(columns)?;
        }
        let mut parameters = std::mem::take(&mut self.point.parameters);
        parameters.clear();
        parameters.append(values);
        self.run_point(plan, point, parameters, sink).map(Some)
    }

    /// The parameters of a prepared statement and the columns of its result.
    ///
    /// # Errors
    ///
    /// Those of planning it; a statement that does not exist.
    pub fn describe_statement(&mut self, statement: &str) -> Result<Described> {
        if let Some(plan) = self.promised_plan(statement) {
            return Ok(Described {
                plan: Some(plan),
                ..Described::default()
            });
        }
        let Some(prepared) = self.prepared.get(statement) else {
            self.fail();
            return Err(no_statement(statement));
        };
        let parsed = prepared.parsed.clone();
        let Some(parsed) = parsed.filter(|parsed| !ends_transaction(parsed)) else {
            return Ok(Described::default());
        };
        self.with_stack(
            parsed.is_deep,
            &mut super::execute::Nowhere,
            |session, _| {
                session.guarded(|session| {
                    session.attempt(|session| {
                        if let Some(inner) = inner_statement(&parsed)? {
                            let types = session.declared(statement);
                            let plan = session.plan(&inner, &types)?;
                            let prepared = session.prepared.get_mut(statement);
                            if let Some((prepared, plan)) = prepared.zip(plan.as_ref()) {
                                prepared.fix_parameters(plan);
                            }
                            return Ok(Described {
                                plan,
                                columns: session.columns_of(&parsed)?,
                                hides_columns: true,
                            });
                        }
                        let plan = session.plan_prepared(statement)?;
                        let columns = match &plan {
                            Some(plan) => {
                                if let Some(prepared) = session.prepared.get_mut(statement) {
                                    prepared.promise(plan);
                                }
                                None
                            }
                            None => session.columns_of(&parsed)?,
                        };
                        Ok(Described {
                            plan,
                            columns,
                            hides_columns: false,
                        })
                    })
                })
            },
        )
    }

    /// The plan of a query inside a statement, and the values of the statement's parameters.
    ///
    /// # Errors
    ///
    /// Those of planning it; more parameters than values.
    pub(crate) fn plan_with_values(
        &self,
        inner: &Parsed,
    ) -> Result<Option<(Arc<Plan>, Vec<Datum>)>> {
        let (types, values) = &self.outer;
        let Some(plan) = self.plan(inner, types)? else {
            return Ok(None);
        };
        self.check_values(&plan)?;
        Ok(Some((plan, values.clone())))
    }

    /// Fails if a plan has parameters that the statement around it has no values for.
    pub(super) fn check_values(&self, plan: &Plan) -> Result<()> {
        let given = self.outer.1.len();
        if plan.parameters.len() <= given {
            return Ok(());
        }
        let message = format!("there is no parameter ${}", given + 1);
        Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, message))
    }

    /// The plan of a prepared statement, if it was described before and is of this moment: what it
    /// is needs no transaction then.
    fn promised_plan(&mut self, statement: &str) -> Option<Arc<Plan>> {
        if self.transaction.block == Block::Failed {
            return None;
        }
        self.refresh_catalog();
        let prepared = self.prepared.get(statement)?;
        let planned = prepared.planned.as_ref()?;
        let is_told = prepared.promised.is_some() || planned.plan.columns.is_none();
        let is_newest = planned.versions == self.versions();
        (is_told && is_newest).then(|| Arc::clone(&planned.plan))
    }

    /// The types that were declared for the parameters of a prepared statement.
    fn declared(&self, statement: &str) -> Vec<Option<Type>> {
        let prepared = self.prepared.get(statement);
        prepared.map_or_else(Vec::new, |prepared| prepared.declared.clone())
    }

    /// The columns of the result of a statement that has no plan.
    pub(super) fn columns_of(&mut self, parsed: &Parsed) -> Result<Option<Vec<OutputColumn>>> {
        Ok(match &*parsed.statement {
            Statement::Fetch { .. } if parsed.is_move => None,
            Statement::ShowVariable { variable } => Some(shown_columns(&asked_name(variable))),
            Statement::Fetch { name, .. } => self.cursor_columns(&ident_text(name))?,
            Statement::Execute {
                name: Some(name), ..
            } => {
                let (_, name) = object_name(name)?;
                let plan = self.plan_prepared(&name)?;
                plan.and_then(|plan| plan.columns.clone())
            }
            other => explain_columns(other),
        })
    }

    /// The plan of a prepared statement, made again if the catalogue or the settings have changed.
    pub(super) fn plan_prepared(&mut self, statement: &str) -> Result<Option<Arc<Plan>>> {
        let versions = self.versions();
        let prepared = self
            .prepared
            .get(statement)
            .ok_or_else(|| no_statement(statement))?;
        if let Some(planned) = &prepared.planned
            && planned.versions == versions
        {
            return Ok(Some(Arc::clone(&planned.plan)));
        }
        // `SELECT INTO` is a definition.
        let parsed = prepared.parsed.clone();
        let Some(parsed) = parsed.filter(|parsed| table_of_select(&parsed.statement).is_none())
        else {
            return Ok(None);
        };
        let declared = prepared.declared.clone();
        let Some(plan) = self.plan(&parsed, &declared)? else {
            return Ok(None);
        };
        if let Some(prepared) = self.prepared.get_mut(statement) {
            check_promised(prepared.promised.as_deref(), &plan)?;
            prepared.fix_parameters(&plan);
            if !plan.is_momentary {
                prepared.planned = Some(Planned {
                    plan: Arc::clone(&plan),
                    versions,
                });
            }
        }
        Ok(Some(plan))
    }

    /// Forgets a prepared statement, if there is one.
    pub fn close_statement(&mut self, name: &str) {
        self.prepared.remove(name);
    }

    /// Whether a statement is prepared.
    pub fn is_prepared(&self, name: &str) -> bool {
        self.prepared.contains(name)
    }

    /// A number that changes when `DEALLOCATE` or `DISCARD` has forgotten prepared statements.
    pub fn deallocations(&self) -> u64 {
        self.prepared.deallocations()
    }

    /// Ends what was sent together: commits the implicit transaction.
    ///
    /// # Errors
    ///
    /// Those of the commit.
    pub fn sync(&mut self) -> Result<()> {
        let begun = Instant::now();
        let ended = self.end_implicit();
        if self.transaction.block == Block::Idle {
            self.drop_portals();
        }
        self.count_noted(begun.elapsed());
        self.end_text();
        ended
    }
}

/// The parameters of a prepared statement and the columns of its result. It shares the plan.
#[derive(Clone, Default)]
pub struct Described {
    plan: Option<Arc<Plan>>,
    /// Of a statement without a plan.
    columns: Option<Vec<OutputColumn>>,
    /// Whether the plan is of a query inside the statement, whose columns are not its result.
    hides_columns: bool,
}

impl Described {
    /// Types of the parameters, in their order.
    pub fn parameters(&self) -> &[Type] {
        self.plan.as_ref().map_or(&[], |plan| &plan.parameters)
    }

    /// Columns of the result; none if it has no result.
    pub fn columns(&self) -> Option<&[OutputColumn]> {
        match &self.plan {
            Some(plan) if !self.hides_columns => plan.columns.as_deref(),
            _ => self.columns.as_deref(),
        }
    }
}

/// Whether a portal is of this prepared statement, and not of an earlier one with its name.
fn is_of(portal: &Portal, prepared: Option<&Prepared>) -> bool {
    let own = prepared.and_then(|prepared| prepared.parsed.as_ref());
    let bound = portal.parsed.as_ref();
    own.zip(bound)
        .is_some_and(|(own, bound)| Arc::ptr_eq(&own.statement, &bound.statement))
}

/// The query or change inside a statement, if its parameters are those of the statement.
fn inner_statement(parsed: &Parsed) -> Result<Option<Parsed>> {
    let of_cursor = |declared: &[Declare]| {
        let query = declared
            .first()
            .and_then(|one| one.for_query.as_ref().map(Copied::copied));
        query.map(Statement::Query)
    };
    let inner = match &*parsed.statement {
        Statement::Declare { stmts, .. } => of_cursor(stmts),
        Statement::Explain { statement, .. } => match &**statement {
            Statement::Declare { stmts, .. } => of_cursor(stmts),
            Statement::Execute { .. } => None,
            other => Some(other.copied()),
        },
        Statement::CreateTable(create) => create
            .query
            .as_ref()
            .map(|query| Statement::Query(query.copied())),
        statement => query_of_table(statement).map(Statement::Query),
    };
    let inner = inner.filter(|_| parsed.own.is_none());
    Ok(match inner {
        Some(Statement::Query(query)) if executed(&query)?.is_some() => None,
        inner => inner.map(|statement| Parsed {
            statement: Arc::new(statement),
            ..parsed.clone()
        }),
    })
}

/// Whether a statement is answered in a block that has failed.
pub(super) fn ends_transaction(parsed: &Parsed) -> bool {
    let is_end = |statement: &Statement| {
        matches!(
            statement,
            Statement::Commit { .. } | Statement::Rollback { .. }
        )
    };
    is_end(&parsed.statement) || matches!(parsed.own.as_deref(), Some(Own::TwoPhase { .. }))
}

fn no_statement(name: &str) -> SqlError {
    let message = format!("prepared statement \"{name}\" does not exist");
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
}

fn no_portal(name: &str) -> SqlError {
    let message = format!("portal \"{name}\" does not exist");
    SqlError::new(SqlState::INVALID_CURSOR_NAME, message)
}
