//! One statement: a plan that runs, or a change of the session or the catalogue.
//!
//! A plan runs batch by batch into the sink. All other statements change the session or the
//! catalogue, and answer with a command tag.

use super::Session;
use crate::catalog::Oid;
use crate::define;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Modify, Node, Plan, PointPlan};
use crate::run::{Feed, Row, Run, State, build, collect, settle_late};
use crate::sink::{Batch, Completion, Flow, OutputColumn, RowSink};
use crate::state::{Block, Running};
use crate::types::{Context, Datum, Type};
use indelible::{CommitReport, Isolation, KeptMoment};
use sql_bind::Binder;
use sql_parse::{LineIndex, Parsed};
use sqlparser::ast::Statement;
use std::collections::HashSet;
use std::sync::Arc;

impl Session {
    /// Runs a statement in the open transaction.
    pub(super) fn execute(
        &mut self,
        parsed: &Parsed,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        if let Some(completion) = define::select_into(self, parsed)? {
            return Ok(completion);
        }
        match &*parsed.statement {
            Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Merge(_) => {
                let no_plan = || SqlError::internal("a statement with a plan");
                let mut plan = self.plan(parsed, &[])?.ok_or_else(no_plan)?;
                while self.lock_used(&plan)? {
                    plan = self.plan(parsed, &[])?.ok_or_else(no_plan)?;
                }
                if !plan.parameters.is_empty() {
                    let message = "there is no parameter $1";
                    return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, message));
                }
                if let Some(columns) = &plan.columns {
                    sink.describe(columns)?;
                }
                if let Some(point) = self.point_of(&plan) {
                    return self.run_point(&plan, point, Vec::new(), sink);
                }
                let mut running = self.begin_plan(&plan, Vec::new())?;
                self.run_on(&mut running, 0, sink)
            }
            statement @ (Statement::Set(_)
            | Statement::ShowVariable { .. }
            | Statement::Reset(_)) => {
                self.set_deferrable(parsed)?;
                self.setting_statement(statement, sink)
            }
            Statement::Declare { .. }
            | Statement::Fetch { .. }
            | Statement::Close { .. }
            | Statement::Prepare { .. }
            | Statement::Execute { .. }
            | Statement::Deallocate { .. } => {
                let completion = self.cursor_statement(parsed, sink)?;
                completion
                    .ok_or_else(|| SqlError::unsupported("this EXECUTE", "Name the statement."))
            }
            statement @ Statement::Explain { .. } => self.explain(parsed, statement, sink),
            statement @ Statement::Copy { .. } => self.copy(parsed, statement, sink),
            statement => match define::run(self, parsed, statement)? {
                Some(completion) => Ok(completion),
                None => Err(SqlError::unsupported(
                    command_name(statement),
                    "See `docs/sql.md` for the statements that there are.",
                )),
            },
        }
    }

    /// Versions of the catalogue, of the settings and of the statistics: plans made under others
    /// are made again.
    pub(super) fn versions(&self) -> (u64, u64, u64) {
        (
            self.catalog().version,
            self.environment.host.variables.version,
            self.sql.analyzed(),
        )
    }

    /// The plan of a statement; none if it is none that reads or changes rows.
    pub(crate) fn plan(
        &self,
        parsed: &Parsed,
        declared: &[Option<Type>],
    ) -> Result<Option<Arc<Plan>>> {
        self.plan_with(parsed, |binder| binder.declare(declared))
    }

    /// The plan of a statement of the catalogue.
    pub(crate) fn plan_stored(&self, parsed: &Parsed) -> Result<Option<Arc<Plan>>> {
        self.plan_with(parsed, |binder| {
            binder.read_stored();
        })
    }

    /// The plan of a statement, by a binder that is prepared for it.
    fn plan_with(
        &self,
        parsed: &Parsed,
        prepare: impl FnOnce(&mut Binder<'_>),
    ) -> Result<Option<Arc<Plan>>> {
        let environment = &self.environment;
        let (database, places) = (self.sql.database(), &*parsed.places);
        let mut binder = Binder::new(&environment.names, database, environment.context(), places);
        prepare(&mut binder);
        let cursors = |cursor: &str, table: Oid, name: &str| self.cursor_row(cursor, (table, name));
        binder.with_cursors(&cursors);
        let Some(mut plan) = binder.statement(&parsed.statement)? else {
            return Ok(None);
        };
        plan.improve();
        Ok(Some(Arc::new(plan)))
    }

    /// The point plan of a plan, if it has one that can run in the transaction.
    pub(super) fn point_of<'p>(&self, plan: &'p Plan) -> Option<&'p PointPlan> {
        let is_newest = self.transaction.isolation == Isolation::ReadCommitted;
        plan.point.as_ref().filter(|_| is_newest)
    }

    /// Runs a point plan with values for its parameters, whose memory goes back to the session.
    pub(super) fn run_point(
        &mut self,
        plan: &Plan,
        point: &PointPlan,
        values: Row,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        check_count(plan, &values)?;
        let mut state = self.begin_point(plan)?;
        state.parameters = values;
        let rows = self.answer_point(point, None, &mut state, sink)?;
        self.point.parameters = std::mem::take(&mut state.parameters);
        self.point.state = Some(state);
        Ok(Completion::with_rows(plan.command, rows))
    }

    /// Runs a point plan in a state, and hands over its rows, described if their columns are given;
    /// how many it has changed or found.
    fn answer_point(
        &mut self,
        point: &PointPlan,
        columns: Option<&[OutputColumn]>,
        state: &mut State,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        let is_in_block = self.transaction.is_block();
        let mut run = Run {
            connection: &mut self.connection,
            environment: &mut self.environment,
            state,
        };
        let (rows, out) = self.point.run(point, is_in_block, &mut run)?;
        if let Some(columns) = columns {
            sink.describe(columns)?;
        }
        if !out.is_empty() {
            sink.rows(out, &self.environment.context())?;
        }
        Ok(rows)
    }

    /// The point plan of a statement that stands alone and needs no transaction.
    pub(super) fn point_alone<'p>(&self, plan: &'p Plan) -> Option<&'p PointPlan> {
        let isolation = self.environment.host.variables.modes().isolation;
        let is_alone = self.transaction.block == Block::Idle;
        let point = plan.point.as_ref().filter(|point| point.is_plain());
        point
            .filter(|_| is_alone && isolation == Isolation::ReadCommitted && self.nobody_excludes())
    }

    /// Runs such a plan. The values are taken. None, and nothing is done, if its table has been
    /// replaced meanwhile.
    pub(super) fn run_point_alone(
        &mut self,
        plan: &Plan,
        point: &PointPlan,
        values: &mut Row,
        sink: &mut dyn RowSink,
    ) -> Result<Option<Completion>> {
        // An error ends it as that of an implicit transaction.
        self.transaction.block = Block::Implicit;
        let done = self.guarded(|session| session.read_alone(plan, point, values, sink));
        self.transaction.block = Block::Idle;
        done
    }

    fn read_alone(
        &mut self,
        plan: &Plan,
        point: &PointPlan,
        values: &mut Row,
        sink: &mut dyn RowSink,
    ) -> Result<Option<Completion>> {
        check_count(plan, values)?;
        self.environment.begin_transaction();
        self.environment.host.begin_statement();
        let mut state = self.point_state(plan);
        state.begun = None;
        std::mem::swap(&mut state.parameters, values);
        let answered = self.answer_point(point, plan.columns.as_deref(), &mut state, sink);
        std::mem::swap(&mut state.parameters, values);
        let rows = match answered {
            Err(error) if error.state == SqlState::UNDEFINED_TABLE => {
                let version = self.catalog().version;
                self.refresh_catalog();
                return match version == self.catalog().version {
                    true => Err(error),
                    false => Ok(None),
                };
            }
            answered => answered?,
        };
        values.clear();
        self.point.state = Some(state);
        let report = CommitReport::default();
        self.environment.host.peer.counts.committed(&report);
        self.last_commit = Some(report);
        Ok(Some(Completion::with_rows(plan.command, rows)))
    }

    /// Runs a point plan for rows of values, which have as many values as there are parameters; the
    /// sum of its counts.
    pub(super) fn run_points(
        &mut self,
        plan: &Plan,
        point: &PointPlan,
        values: &mut Vec<Datum>,
    ) -> Result<u64> {
        let width = plan.parameters.len().max(1);
        let is_in_block = self.transaction.is_block();
        let mut state = self.begin_run(plan)?;
        if let Node::Modify(modify) = &plan.root
            && Feed::is_possible(modify)
            && values.len().is_multiple_of(width)
        {
            return self.feed(modify, &mut state, values, width);
        }
        state.parameters = std::mem::take(&mut self.point.parameters);
        let (mut count, mut values) = (0, values.drain(..));
        while values.len() > 0 {
            state.parameters.clear();
            state.parameters.extend(values.by_ref().take(width));
            check_count(plan, &state.parameters)?;
            state.begun = Some(self.connection.mark()?);
            let mut run = Run {
                connection: &mut self.connection,
                environment: &mut self.environment,
                state: &mut state,
            };
            let (rows, _) = self.point.run(point, is_in_block, &mut run)?;
            run.check()?;
            count += rows;
        }
        self.point.parameters = state.parameters;
        Ok(count)
    }

    /// Inserts rows of values together; their number.
    fn feed(
        &mut self,
        modify: &Arc<Modify>,
        state: &mut State,
        values: &mut Vec<Datum>,
        width: usize,
    ) -> Result<u64> {
        let mut run = self.run(state);
        let mut feed = Feed::begin(modify, &mut run);
        feed.rows(values, width, &mut run)?;
        feed.end(&mut run)?;
        Ok(run.state.processed)
    }

    /// A plan that is ready to run with values for its parameters.
    pub(super) fn begin_plan(&mut self, plan: &Arc<Plan>, values: Vec<Datum>) -> Result<Running> {
        check_count(plan, &values)?;
        let mut state = self.begin_run(plan)?;
        state.parameters = values;
        state.changed = (!plan.before.is_empty()).then(HashSet::new);
        let is_one_change = plan.before.is_empty() && matches!(plan.root, Node::Modify(_));
        state.late = (plan.writes && !is_one_change).then(Vec::new);
        for change in &plan.before {
            build(change).next(&mut self.run(&mut state), &mut Batch::default())?;
        }
        state.processed = 0;
        Ok(Running::new(plan, state))
    }

    /// The state of a run that begins; its parameters have no values yet.
    pub(super) fn begin_run(&mut self, plan: &Plan) -> Result<State> {
        self.begin_reading(plan)?;
        let mut state = State::new(self.environment.host.memory(plan.keepers));
        self.begin_state(&mut state)?;
        Ok(state)
    }

    /// As [`Session::begin_run`], for a point plan, in the memory of the last one.
    fn begin_point(&mut self, plan: &Plan) -> Result<Box<State>> {
        self.begin_reading(plan)?;
        let mut state = self.point_state(plan);
        self.begin_state(&mut state)?;
        Ok(state)
    }

    /// The state of the last run of a point plan, or a new one.
    fn point_state(&mut self, plan: &Plan) -> Box<State> {
        let host = &self.environment.host;
        let limit_bytes = host.variables.modes().work_mem;
        let spare = &mut self.point.state;
        let spare = spare.take_if(|state| state.restart(limit_bytes, plan.keepers));
        spare.unwrap_or_else(|| Box::new(State::new(host.memory(plan.keepers))))
    }

    /// The statement begins at this moment.
    fn begin_state(&mut self, state: &mut State) -> Result<()> {
        state.begun = Some(self.connection.mark()?);
        state.is_of_snapshot = self.transaction.isolation != Isolation::ReadCommitted;
        Ok(())
    }

    /// The transaction is about to read, and to change rows if the plan does.
    fn begin_reading(&mut self, plan: &Plan) -> Result<()> {
        let is_refused = plan.writes && self.transaction.access == indelible::Mode::ReadOnly;
        if is_refused && !self.changes_temporary_only(plan) {
            let message = format!("cannot execute {} in a read-only transaction", plan.command);
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        if self.transaction.access == indelible::Mode::ReadOnly && locks_rows(&plan.root) {
            let message = "cannot execute SELECT FOR UPDATE in a read-only transaction";
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        // At READ COMMITTED a statement sees what is committed when it first reads. One with
        // changes in WITH may wait before that.
        let is_of_snapshot = self.transaction.isolation != Isolation::ReadCommitted;
        if !plan.before.is_empty() || (is_of_snapshot && !self.transaction.has_read) {
            self.connection.take_snapshot()?;
        }
        self.transaction.has_read = true;
        self.connection.set_wait(self.environment.wait());
        Ok(())
    }

    /// The session, lent to the operators of a plan.
    pub(super) fn run<'r>(&'r mut self, state: &'r mut State) -> Run<'r> {
        Run {
            connection: &mut self.connection,
            environment: &mut self.environment,
            state,
        }
    }

    /// All rows of a plan that changes nothing.
    pub(crate) fn rows_of(&mut self, root: &Node) -> Result<Vec<Row>> {
        let mut state = State::new(self.environment.host.memory(1));
        collect(&mut *build(root), &mut self.run(&mut state))
    }

    /// Inserts the rows of a query into a table of a transaction that defines; the number of rows.
    pub(crate) fn fill(
        &mut self,
        table: u32,
        (plan, values): (&Arc<Plan>, Vec<Datum>),
    ) -> Result<u64> {
        self.lock_used(plan)?;
        self.fill_rows(table, plan.root.clone(), (&plan.parameters, values))
    }

    /// Inserts rows into a table; the number of rows.
    pub(crate) fn fill_nodes(&mut self, table: u32, rows: Node) -> Result<u64> {
        self.fill_rows(table, rows, (&[], Vec::new()))
    }

    fn fill_rows(
        &mut self,
        table: u32,
        rows: Node,
        (parameters, values): (&[Type], Vec<Datum>),
    ) -> Result<u64> {
        let modify = {
            let places = LineIndex::default();
            let environment = &self.environment;
            let database = self.sql.database();
            let mut binder =
                Binder::new(&environment.names, database, environment.context(), &places);
            binder.insert_all(table, rows)?
        };
        let filling = Arc::new(Plan {
            before: Vec::new(),
            root: modify,
            point: None,
            columns: None,
            parameters: parameters.to_vec(),
            command: "INSERT",
            writes: true,
            tables: Vec::new(),
            keepers: 1,
            is_momentary: false,
        });
        let mut running = self.begin_plan(&filling, values)?;
        let completion = self.run_on(&mut running, 0, &mut Nowhere)?;
        Ok(completion.rows.unwrap_or(0))
    }

    /// Runs a plan on: to its end, until the sink is full, or for some rows if that is not 0.
    pub(super) fn run_on(
        &mut self,
        running: &mut Running,
        rows_max: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        let mut left = if rows_max == 0 { u64::MAX } else { rows_max };
        let has_columns = rows_max == 0
            && sink.takes_columns()
            && running.state.late.is_none()
            && running.root.has_columns();
        let is_suspended = loop {
            if left == 0 {
                break true;
            }
            if has_columns && running.next >= running.batch.len() {
                match self.run_columns(running, sink)? {
                    Some(Flow::More) => continue,
                    flow => break flow.is_some(),
                }
            }
            if running.next >= running.batch.len() {
                self.advance(running, left)?;
                // All changes are done before the first row.
                if let Some(late) = running.state.late.take() {
                    settle_late(late, &mut self.run(&mut running.state))?;
                }
                if running.batch.is_empty() {
                    break false;
                }
            }
            let rest = (running.batch.len() - running.next) as u64;
            let taken = rest.min(left) as usize;
            let flow = if taken == running.batch.len() {
                sink.rows(&running.batch, &self.environment.context())?
            } else {
                let mut part = Batch::new(running.batch.width());
                for at in running.next..running.next + taken {
                    part.push(running.batch.row(at).iter().cloned());
                }
                sink.rows(&part, &self.environment.context())?
            };
            running.next += taken;
            running.rows += taken as u64;
            left -= taken as u64;
            if flow == Flow::Full {
                break true;
            }
        };
        if is_suspended && running.moment.is_none() {
            running.moment = self.own_moment()?;
        }
        let rows = if running.plan.command == "SELECT" {
            running.rows
        } else {
            running.state.processed
        };
        let completion = Completion::with_rows(running.plan.command, rows);
        Ok(Completion {
            is_suspended,
            ..completion
        })
    }
}

impl Session {
    /// Replaces the batch of a plan that runs by its next rows, of which so many are wanted.
    pub(super) fn advance(&mut self, running: &mut Running, wanted: u64) -> Result<()> {
        self.swap_moment(running)?;
        running.batch.want(wanted);
        let mut run = self.run(&mut running.state);
        let read = running.root.next(&mut run, &mut running.batch);
        let read = read.and_then(|()| run.check());
        running.next = 0;
        self.swap_moment(running)?;
        read
    }

    /// Lets a plan that has stopped read its own moment, or the statement its own again.
    fn swap_moment(&mut self, running: &mut Running) -> Result<()> {
        match &mut running.moment {
            Some(moment) => Ok(self.connection.swap_moment(moment)?),
            None => Ok(()),
        }
    }

    /// The moment of the statement, for what goes on in later ones; none if all of them read one.
    pub(super) fn own_moment(&mut self) -> Result<Option<KeptMoment>> {
        if self.transaction.isolation != Isolation::ReadCommitted {
            return Ok(None);
        }
        Ok(Some(self.connection.keep_moment()?))
    }

    /// Hands the next batch over column by column; none if there is none.
    fn run_columns(
        &mut self,
        running: &mut Running,
        sink: &mut dyn RowSink,
    ) -> Result<Option<Flow>> {
        self.swap_moment(running)?;
        let mut run = self.run(&mut running.state);
        let read = running.root.next_columns(&mut run, &mut running.columns);
        let read = read.and_then(|()| run.check());
        self.swap_moment(running)?;
        read?;
        if running.columns.is_empty() {
            return Ok(None);
        }
        running.rows += running.columns.len() as u64;
        let context = self.environment.context();
        sink.columns(&running.columns, &context).map(Some)
    }
}

/// Fails if a plan has not as many parameters as there are values.
fn check_count(plan: &Plan, values: &[Datum]) -> Result<()> {
    if values.len() == plan.parameters.len() {
        return Ok(());
    }
    let message = format!(
        "bind message supplies {} parameters, but the statement requires {}",
        values.len(),
        plan.parameters.len()
    );
    Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message))
}

/// A sink for results that nobody wants.
pub(super) struct Nowhere;

impl RowSink for Nowhere {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<()> {
        Ok(())
    }

    fn rows(&mut self, _: &Batch, _: &Context<'_>) -> Result<Flow> {
        Ok(Flow::More)
    }
}

/// The first words of a statement.
fn command_name(statement: &Statement) -> String {
    let text = statement.to_string();
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    words.join(" ")
}

/// Whether a query locks its rows.
fn locks_rows(node: &Node) -> bool {
    match node {
        Node::Lock(_) => true,
        Node::Project(plan) => locks_rows(&plan.input),
        Node::Sort(plan) => locks_rows(&plan.input),
        Node::Limit(plan) => locks_rows(&plan.input),
        Node::Filter(plan) => locks_rows(&plan.input),
        _ => false,
    }
}
