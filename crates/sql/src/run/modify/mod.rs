//! Changes of tables: rows are checked, changed, and kept for `RETURNING`.
//!
//! | module | job |
//! |---|---|
//! | `insert` | new rows, and conflicts with those that are there |
//! | `fill` | new rows, many at a time |
//! | `merge` | rows that meet others, and rows that do not |
//! | `change`, `row` | updates and deletions, of statements and of a row |
//! | `route` | the way to partitions |
//! | `rules` | NOT NULL, checks, generated columns, names in errors |
//! | `noted`, `reference` | foreign keys and their actions |
//! | `key` | unique keys that are checked later |
//!
//! All rows are changed before the first result goes out: a client that reads half of them has
//! changed all. References are looked at when all rows have been changed, those of all changes of a
//! statement, as it may insert a row and the one that it refers to.

mod change;
mod fill;
mod insert;
mod key;
mod key_rows;
mod merge;
mod noted;
mod reference;
mod route;
mod row;
pub(super) mod rules;

use super::{Operator, Run, build};
use crate::error::Result;
use crate::plan::{Change, Modify};
use crate::sink::Batch;
use crate::types::Datum;
use fill::Fill;
pub(super) use noted::Late;
use noted::Noted;
pub(crate) use reference::{look_again, settle_late};
use sql_rows::{SegmentCache, Store};
use std::sync::Arc;

/// References of rows of COPY that are looked at together.
const REFERENCES_KEPT: usize = 1024;

/// Keys of new rows that are looked at together.
const KEYS_KEPT: usize = 1024;

pub(super) struct ModifyRun {
    plan: Arc<Modify>,
    input: Box<dyn Operator>,
    /// Rows for the client, once all have been changed, and the next of them.
    results: Option<Store>,
    next: u64,
    place: SegmentCache,
}

impl ModifyRun {
    pub(super) fn new(plan: &Arc<Modify>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: build(&plan.input),
            results: None,
            next: 0,
            place: SegmentCache::default(),
        }
    }

    /// Changes a row for each of the input's.
    fn change_batches(&mut self, changing: &mut Changing, run: &mut Run<'_>) -> Result<()> {
        let mut batch = Batch::default();
        loop {
            self.input.next(run, &mut batch)?;
            if batch.is_empty() {
                return Ok(());
            }
            run.check()?;
            for row in batch.rows() {
                changing.change(&self.plan, row, run)?;
            }
        }
    }
}

/// A statement that changes rows, so far.
struct Changing {
    noted: Noted,
    /// New rows that go to the table together.
    fill: Option<Fill>,
    results: Store,
}

impl Changing {
    fn begin(plan: &Modify, run: &mut Run<'_>) -> Self {
        Self {
            noted: Noted::default(),
            fill: Fill::begin(plan, run),
            results: Store::new(run.state.memory.share()),
        }
    }

    fn change(&mut self, plan: &Modify, row: &[Datum], run: &mut Run<'_>) -> Result<()> {
        let table = &plan.table;
        let noted = &mut self.noted;
        let changed = match &plan.change {
            Change::Insert(insert) => match &mut self.fill {
                Some(fill) => {
                    run.state.processed += 1;
                    let pending = &mut noted.pending;
                    fill.add((table, insert), row, pending, run)?;
                    // No row goes before the end, so what is violated now is violated then.
                    if pending.keys.len() >= KEYS_KEPT {
                        fill.end(table, run)?;
                        key::settle(table, std::mem::take(&mut pending.keys), run)?;
                    }
                    return Ok(());
                }
                None => insert::insert(table, insert, row, noted, run)?,
            },
            Change::Update {
                set,
                recheck,
                moves,
            } => {
                let change = (set.as_slice(), recheck.as_ref(), moves.as_ref());
                change::update(table, change, row, noted, run)?
            }
            Change::Delete { recheck } => change::delete(table, recheck.as_ref(), row, noted, run)?,
            Change::Merge(merge) => merge::merge(table, merge, row, noted, run)?.then(Vec::new),
        };
        let Some(changed) = changed else {
            return Ok(());
        };
        run.state.processed += 1;
        if let Some(returning) = &plan.returning {
            let result = super::evaluate::all(returning, &changed, run)?;
            self.results.push(result)?;
        }
        Ok(())
    }

    fn end(mut self, plan: &Modify, run: &mut Run<'_>) -> Result<Store> {
        if let Some(fill) = &mut self.fill {
            fill.end(&plan.table, run)?;
        }
        let own = (Arc::clone(&plan.table), self.noted.pending);
        let all = [own].into_iter().chain(self.noted.routed);
        match &mut run.state.late {
            Some(late) => late.extend(all),
            None => settle_late(all.collect(), run)?,
        }
        Ok(self.results)
    }
}

/// An INSERT whose rows come one after the other, as those of COPY do: each is the values of its
/// parameters.
pub(crate) struct Feed {
    modify: ModifyRun,
    changing: Changing,
    /// Whether a row may refer to one that comes after it.
    refers_to_itself: bool,
}

impl Feed {
    pub(crate) fn begin(plan: &Arc<Modify>, run: &mut Run<'_>) -> Self {
        let table = plan.table.source.table.id();
        let mut parents = plan.table.parents.iter();
        Self {
            modify: ModifyRun::new(plan),
            changing: Changing::begin(plan, run),
            refers_to_itself: parents.any(|parent| {
                let mut others = parent.others.iter();
                others.any(|other| other.source.table.id() == table)
            }),
        }
    }

    /// Whether rows go to the table together.
    pub(crate) fn is_possible(plan: &Modify) -> bool {
        Fill::is_possible(plan)
    }

    /// Takes rows of `width` values each, which is not 0.
    pub(crate) fn rows(
        &mut self,
        values: &mut Vec<Datum>,
        width: usize,
        run: &mut Run<'_>,
    ) -> Result<()> {
        if let (Some(places), Some(fill)) =
            (fill::parameters(&self.modify.plan), &mut self.changing.fill)
        {
            for row in values.chunks_exact(width) {
                fill.add_values(&self.modify.plan.table, (&places, row), run)?;
                run.state.processed += 1;
            }
            values.clear();
            return Ok(());
        }
        let mut values = values.drain(..);
        while values.len() > 0 {
            self.row(values.by_ref().take(width), run)?;
        }
        Ok(())
    }

    pub(crate) fn row(
        &mut self,
        values: impl IntoIterator<Item = Datum>,
        run: &mut Run<'_>,
    ) -> Result<()> {
        run.state.parameters.clear();
        run.state.parameters.extend(values);
        self.modify.input.restart(run)?;
        self.modify.change_batches(&mut self.changing, run)?;
        let pending = &mut self.changing.noted.pending;
        if pending.parents.len() >= REFERENCES_KEPT && !self.refers_to_itself {
            reference::settle(&self.modify.plan.table, std::mem::take(pending), run)?;
        }
        Ok(())
    }

    /// The statement has all of its rows.
    pub(crate) fn end(self, run: &mut Run<'_>) -> Result<()> {
        self.changing.end(&self.modify.plan, run).map(drop)
    }
}

impl Operator for ModifyRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        if self.results.is_none() {
            let plan = Arc::clone(&self.plan);
            let mut changing = Changing::begin(&plan, run);
            self.change_batches(&mut changing, run)?;
            self.results = Some(changing.end(&plan, run)?);
            self.next = 0;
        }
        out.reset(self.plan.returning.as_ref().map_or(0, Vec::len));
        while !out.is_full()
            && let Some(results) = &self.results
            && let Some(row) = results.get(self.next, &mut self.place)?
        {
            self.next += 1;
            out.push(row.iter().cloned());
        }
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.results = None;
        self.input.restart(run)
    }
}
