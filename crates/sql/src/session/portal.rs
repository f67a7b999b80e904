//! Portals after their first run, and their end.
//!
//! A portal with rows answers without any when all of them were handed over; one without rows
//! cannot run again. The rows of `FETCH`, `SHOW`, `EXPLAIN` and `EXECUTE` are kept if they are
//! asked for in parts. Cursors of `DECLARE` are portals too, with names of the same space.

use super::Session;
use super::cursor::{Steps, no_cursor, only_forward};
use super::extended::ends_transaction;
use crate::error::{Result, SqlError, SqlState};
use crate::sink::{Batch, Completion, Flow, OutputColumn, RowSink};
use crate::state::{Block, Held, Notice, Portal, Progress};
use crate::types::Context;
use sql_parse::Parsed;
use sql_rows::{SegmentCache, Store};
use std::sync::Arc;

impl Progress {
    /// That of a portal that has run to its end.
    pub(crate) fn after(completion: &Completion, has_rows: bool) -> Self {
        if !has_rows {
            return Self::Done;
        }
        Self::Over(Completion {
            rows: completion.rows.map(|_| 0),
            ..completion.clone()
        })
    }
}

impl Portal {
    /// Rows that its plan has handed over, if it has one that has begun.
    pub(crate) fn rows_of_plan(&self) -> Option<u64> {
        match &self.progress {
            Progress::Running(running) => Some(running.rows),
            _ => None,
        }
    }

    /// Lets go of a plan or of rows that have come to their end, and of values.
    pub(crate) fn end_plan(&mut self, completion: &Result<Completion>) {
        let has_rows = match &self.progress {
            Progress::Running(running) => running.plan.columns.is_some(),
            Progress::Held(_) => true,
            Progress::Bound | Progress::Over(_) | Progress::Done => false,
        };
        let is_begun = matches!(self.progress, Progress::Running(_) | Progress::Held(_));
        match completion {
            Ok(completion) if completion.is_suspended => return,
            Ok(completion) if is_begun => self.progress = Progress::after(completion, has_rows),
            Ok(_) => {}
            Err(_) => self.progress = Progress::Done,
        }
        self.values.clear();
    }
}

impl Session {
    /// Whether a portal or a cursor has this name.
    pub fn has_portal(&self, name: &str) -> bool {
        self.portals.contains_key(name) || self.cursors.contains_key(name)
    }

    /// Whether a portal that has run stays: the end of a transaction ends its portals. Where there
    /// is none, one that has come to its end stays until the client has sent all.
    pub(super) fn is_portal_alive(&self, portal: &Portal) -> bool {
        let is_over = matches!(portal.progress, Progress::Over(_));
        match &portal.parsed {
            None => true,
            Some(parsed) => {
                !ends_transaction(parsed) && (is_over || self.transaction.block != Block::Idle)
            }
        }
    }

    /// Runs a portal on that has run before.
    pub(super) fn run_portal_on(
        &mut self,
        name: &str,
        portal: &mut Portal,
        rows_max: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        match &mut portal.progress {
            Progress::Running(running) => self.run_on(running, rows_max, sink),
            Progress::Held(held) => self.hand_over_held(held, rows_max, sink),
            Progress::Over(completion) => Ok(completion.clone()),
            Progress::Bound | Progress::Done => {
                let message = format!("portal \"{name}\" cannot be run");
                let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
                Err(SqlError::new(state, message))
            }
        }
    }

    /// Runs the statement of a portal that has no plan; it keeps the rows if not all of them are
    /// asked for.
    pub(super) fn run_without_plan(
        &mut self,
        portal: &mut Portal,
        parsed: &Parsed,
        rows_max: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        self.outer = (portal.declared.clone(), portal.values.clone());
        let completion = self.run_outer(portal, parsed, rows_max, sink);
        self.outer = Default::default();
        completion
    }

    fn run_outer(
        &mut self,
        portal: &mut Portal,
        parsed: &Parsed,
        rows_max: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        let Some(columns) = self.columns_of(parsed)? else {
            portal.progress = Progress::Done;
            return self.execute(parsed, sink);
        };
        if rows_max == 0 {
            let completion = self.execute(parsed, sink)?;
            portal.progress = Progress::after(&completion, true);
            return Ok(completion);
        }
        let mut kept = Kept {
            rows: Store::new(self.environment.host.memory(1).share()),
            below: sink,
        };
        let completion = self.execute(parsed, &mut kept)?;
        let mut held = Held {
            rows: kept.rows,
            columns,
            place_of_rows: SegmentCache::default(),
            next: 0,
            completion,
        };
        sink.describe(&held.columns)?;
        let completion = self.hand_over_held(&mut held, rows_max, sink)?;
        portal.progress = Progress::Held(Box::new(held));
        Ok(completion)
    }

    /// Runs a portal on for `FETCH` and `MOVE`; the rows that have come.
    pub(super) fn fetch_from_portal(
        &mut self,
        name: &str,
        steps: &Steps,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        let mut portal = self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
        let fetched = match steps {
            Steps::Forward(count) => self.fetch_bound(name, &mut portal, *count, sink),
            _ => Err(only_forward()),
        };
        self.portals.insert(name.to_owned(), portal);
        fetched
    }

    fn fetch_bound(
        &mut self,
        name: &str,
        portal: &mut Portal,
        count: u64,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        if matches!(portal.progress, Progress::Bound)
            && let Some(parsed) = portal.parsed.clone()
            && let Some(plan) = self.plan_locked(portal, &parsed)?
            && plan.columns.is_some()
        {
            let running = self.begin_plan(&plan, portal.values.clone())?;
            portal.progress = Progress::Running(Box::new(running));
        }
        if let Some(columns) = self.portal_columns(portal)? {
            sink.describe(&columns)?;
        }
        let before = portal.rows_of_plan().unwrap_or(0);
        // All of them, for the portal.
        let rows_max = if count == u64::MAX { 0 } else { count };
        let completion = self.run_portal_on(name, portal, rows_max, sink);
        let rows = portal.rows_of_plan().map(|rows| rows - before);
        portal.end_plan(&completion);
        Ok(rows.or(completion?.rows).unwrap_or(0))
    }

    /// The columns of a portal's rows.
    pub(super) fn portal_columns(&self, portal: &Portal) -> Result<Option<Vec<OutputColumn>>> {
        let plan = match &portal.progress {
            Progress::Running(running) => Some(Arc::clone(&running.plan)),
            Progress::Held(held) => return Ok(Some(held.columns.clone())),
            Progress::Bound | Progress::Over(_) => match &portal.parsed {
                Some(parsed) => self.plan(parsed, &portal.declared)?,
                None => None,
            },
            Progress::Done => None,
        };
        Ok(plan.and_then(|plan| plan.columns.clone()))
    }

    /// Hands over the next rows of those that a portal has kept.
    fn hand_over_held(
        &self,
        held: &mut Held,
        rows_max: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        let left = held.rows.len() - held.next;
        let count = if rows_max == 0 {
            left
        } else {
            left.min(rows_max)
        };
        let mut batch = Batch::new(held.columns.len());
        for number in held.next..held.next + count {
            if let Some(row) = held.rows.get(number, &mut held.place_of_rows)? {
                batch.push(row.iter().cloned());
            }
            if batch.is_full() {
                sink.rows(&batch, &self.environment.context())?;
                batch.reset(held.columns.len());
            }
        }
        if !batch.is_empty() {
            sink.rows(&batch, &self.environment.context())?;
        }
        held.next += count;
        Ok(Completion {
            command: held.completion.command,
            rows: held.completion.rows.map(|_| count),
            is_suspended: count == rows_max && rows_max > 0,
        })
    }

    /// Runs a cursor of `DECLARE` on, as its portal.
    pub(super) fn execute_cursor(
        &mut self,
        name: &str,
        rows_max: u64,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        let shown = self.environment.host.cursors.get(name);
        let text = shown.map(|shown| shown.statement.clone());
        self.begin_text(text.as_deref().unwrap_or_default())?;
        let count = if rows_max == 0 { u64::MAX } else { rows_max };
        let fetched =
            self.guarded(|session| session.attempt(|session| session.fetch_on(name, count, sink)));
        self.end_text();
        let rows = fetched?;
        Ok(Completion {
            is_suspended: rows == rows_max && rows_max > 0,
            ..Completion::with_rows("SELECT", rows)
        })
    }

    /// Ends a portal or a cursor, if there is one.
    pub fn close_portal(&mut self, name: &str) {
        self.portals.remove(name);
        self.cursors.remove(name);
        self.environment.host.cursors.remove(name);
    }

    /// Ends the portals and cursors that were made since a level of the transaction has begun.
    pub(super) fn undo_portals(&mut self, level: usize) {
        self.portals.retain(|_, portal| portal.level < level);
        self.undo_cursors(level);
    }

    /// Makes the portals and cursors of higher levels of the transaction those of this one.
    pub(super) fn release_portals(&mut self, level: usize) {
        for portal in self.portals.values_mut() {
            portal.level = portal.level.min(level);
        }
        self.release_cursors(level);
    }

    /// Ends all portals, and the cursors that end with their transaction.
    pub(super) fn close_portals(&mut self) {
        self.drop_portals();
        self.close_cursors();
    }

    /// Ends all portals.
    pub(super) fn drop_portals(&mut self) {
        if self.portals.is_empty() {
            return;
        }
        self.spare_unnamed_portal();
        self.portals.clear();
    }

    /// Ends the portal without a name; the next one has its memory.
    pub(super) fn spare_unnamed_portal(&mut self) {
        if let Some(mut unnamed) = self.portals.remove("") {
            unnamed.progress = Progress::Bound;
            self.spare_portal = unnamed;
        }
    }
}

/// Keeps rows, and passes everything else on.
struct Kept<'a> {
    rows: Store,
    below: &'a mut dyn RowSink,
}

impl RowSink for Kept<'_> {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<()> {
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, _: &Context<'_>) -> Result<Flow> {
        for row in batch.rows() {
            self.rows.push(row.to_vec())?;
        }
        Ok(Flow::More)
    }

    fn notice(&mut self, notice: &Notice) -> Result<()> {
        self.below.notice(notice)
    }
}
