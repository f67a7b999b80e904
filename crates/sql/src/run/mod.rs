//! Running plans: operators that hand each other batches of rows.
//!
//! An operator is asked for its next batch until that is empty; it may be restarted then, or
//! earlier, for other rows of the queries around it. Operators own what they keep between batches
//! and share the plan, so a portal can hold one while its client thinks. Everything else, the
//! connection above all, is lent to them for a call by [`Run`].

mod aggregate;

mod compare;
mod counted;
mod cte;
mod distinct;
mod evaluate;
mod filter;
mod frame;
mod functions;
mod incremental;
mod join;
mod key_set;
mod limit;
mod lock;
mod modify;
mod numbered;
mod point;
mod quantified;
mod scan;
mod set_operation;
mod sort;
mod storage;
mod subquery;
mod system;
mod unique;
mod values;
mod window;
mod window_rows;

pub(crate) use evaluate::{evaluate, is_true};
pub(crate) use lock::written_anew;
pub(crate) use modify::{Feed, look_again, settle_late};
pub(crate) use point::PointMemory;

use crate::error::Result;
use crate::plan::{Node, Report};
use crate::sink::Batch;
use crate::state::Environment;
use crate::types::{Datum, Kind};
use indelible::{Connection, StatementSavepoint};
use sql_rows::Columns;
pub(crate) use sql_rows::Row;
use sql_rows::{Memory, Store, bytes_of};
use std::collections::HashSet;
use std::sync::Arc;

/// Everything that operators need from outside, for one call.
pub(crate) struct Run<'r> {
    pub(crate) connection: &'r mut Connection,
    pub(crate) environment: &'r mut Environment,
    pub(crate) state: &'r mut State,
}

impl Run<'_> {
    /// Fails if the statement is to end.
    pub(crate) fn check(&self) -> Result<()> {
        if self.environment.interrupt.is_raised() {
            return Err(self.environment.host.peer.stopped());
        }
        self.environment.host.check_deadline()
    }
}

/// The state of one run of a statement that its operators share.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) parameters: Vec<Datum>,
    /// The beginning of the statement: its reads see none of its own changes.
    pub(crate) begun: Option<StatementSavepoint>,
    /// Whether its transaction reads one snapshot, so that a statement does not see what others
    /// commit before it.
    pub(crate) is_of_snapshot: bool,
    /// Rows of the queries around the one that is running, the next one last.
    pub(crate) outer: Vec<Row>,
    subqueries: std::collections::HashMap<usize, subquery::Slot>,
    lists: quantified::Lists,
    /// Values that expressions read several times, by their numbers.
    values: std::collections::HashMap<usize, Datum>,
    shared: Vec<Option<cte::SharedRows>>,
    working: Vec<Arc<Vec<Row>>>,
    /// Rows of relations of the system, by their numbers.
    system: std::collections::HashMap<u32, system::Made>,
    /// Rows that a statement with changes in WITH has changed, as tables and keys: each is changed
    /// once. None in other statements.
    pub(crate) changed: Option<HashSet<(u32, Row)>>,
    /// References and keys that are looked at when all changes of the statement are done. None in
    /// a statement with one change, which does that itself.
    pub(crate) late: Option<modify::Late>,
    /// How many rows the statement has changed.
    pub(crate) processed: u64,
    pub(crate) memory: Memory,
}

impl State {
    /// The state of a run that begins.
    pub(crate) fn new(memory: Memory) -> Self {
        Self {
            memory,
            ..Self::default()
        }
    }

    /// Makes it that of another run of a point plan, which has the same memory; false if the last
    /// run has left something.
    pub(crate) fn restart(&mut self, limit_bytes: u64, operators: usize) -> bool {
        self.processed = 0;
        self.lists.clear();
        self.outer.is_empty()
            && self.subqueries.is_empty()
            && self.shared.is_empty()
            && self.working.is_empty()
            && self.system.is_empty()
            && self.changed.is_none()
            && self.late.is_none()
            && self.memory.renew(limit_bytes, operators)
    }
}

/// A part of a running plan.
pub(crate) trait Operator: Send {
    /// Replaces the rows of `out` by the next ones; no rows mean that there are no more.
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()>;

    /// Whether it makes its rows column by column as well, at less cost.
    fn has_columns(&self) -> bool {
        false
    }

    /// As [`Operator::next`], column by column. Calls of both may follow each other.
    fn next_columns(&mut self, run: &mut Run<'_>, out: &mut Columns) -> Result<()> {
        let mut batch = Batch::default();
        self.next(run, &mut batch)?;
        out.reset(std::iter::repeat_n(Kind::Record, batch.width()));
        for row in batch.rows() {
            out.push(row.iter().cloned());
        }
        Ok(())
    }

    /// Begins again from the first row.
    fn restart(&mut self, run: &mut Run<'_>) -> Result<()>;

    /// The memory and the files of its last run, where there is something to tell.
    fn report(&self) -> Option<Report> {
        None
    }
}

/// The operators of a plan.
pub(crate) fn build(node: &Node) -> Box<dyn Operator> {
    match node {
        Node::Values(plan) => Box::new(values::ValuesRun::new(plan)),
        Node::Scan(plan) => Box::new(scan::ScanRun::new(plan)),
        Node::System(plan) => Box::new(system::SystemRun::new(plan)),
        Node::Functions(plan) => Box::new(functions::FunctionsRun::new(plan)),
        Node::Filter(plan) => Box::new(filter::FilterRun::new(plan)),
        Node::Project(plan) => filter::project(plan),
        Node::Join(plan) => join::build_join(plan, None),
        Node::Aggregate(plan) => Box::new(aggregate::AggregateRun::new(plan)),
        Node::Window(plan) if plan.is_numbered() => Box::new(numbered::NumberedRun::new(plan)),
        Node::Window(plan) => Box::new(window::WindowRun::new(plan)),
        Node::Sort(plan) if plan.presorted.is_some() => {
            Box::new(incremental::IncrementalRun::new(plan))
        }
        Node::Sort(plan) => Box::new(sort::SortRun::new(plan)),
        Node::Limit(plan) => Box::new(limit::LimitRun::new(plan)),
        Node::Distinct(plan) => Box::new(distinct::DistinctRun::new(plan)),
        Node::SetOperation(plan) => set_operation::build_operation(plan),
        Node::Shared(plan) => Box::new(cte::SharedRun::new(plan)),
        Node::Recursive(plan) => Box::new(cte::RecursiveRun::new(plan)),
        Node::Working(plan) => Box::new(cte::WorkingRun::new(plan)),
        Node::Lock(plan) => Box::new(lock::LockRun::new(plan)),
        Node::Modify(plan) => Box::new(modify::ModifyRun::new(plan)),
        Node::Counted(plan) => Box::new(counted::CountedRun::new(plan)),
    }
}

/// All rows of an operator, in memory; [`let_go`] gives it back.
pub(crate) fn collect(operator: &mut dyn Operator, run: &mut Run<'_>) -> Result<Vec<Row>> {
    let (mut rows, mut batch) = (Vec::new(), Batch::default());
    loop {
        operator.next(run, &mut batch)?;
        if batch.is_empty() {
            return Ok(rows);
        }
        run.check()?;
        for row in batch.drain() {
            run.state.memory.take(&row)?;
            rows.push(row);
        }
    }
}

/// All rows of an operator, in a file as far as there is no room in memory.
pub(crate) fn store(operator: &mut dyn Operator, run: &mut Run<'_>) -> Result<Store> {
    let (mut rows, mut batch) = (Store::new(run.state.memory.share()), Batch::default());
    loop {
        operator.next(run, &mut batch)?;
        if batch.is_empty() {
            return Ok(rows);
        }
        run.check()?;
        batch.drain().try_for_each(|row| rows.push(row))?;
    }
}

/// Gives the memory of rows back that were collected.
pub(crate) fn let_go(rows: &[Row], run: &mut Run<'_>) {
    let bytes = rows.iter().map(|row| bytes_of(row)).sum();
    run.state.memory.release(bytes);
}
