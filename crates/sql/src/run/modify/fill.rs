//! New rows that go to the table below many at a time.
//!
//! Rows of a table that nobody else knows, which the transaction has made or emptied, go past the
//! write set in transactions of the engine: a load takes no memory for its rows then, and no locks.
//! If anything goes wrong there the transaction fails as a whole and drops the table below, since
//! it has no savepoint that is younger than the table. All others go through the write set.

use super::insert::new_row;
use super::noted::{Pending, note_keys, note_parents};
use super::rules::{check, of_row, store, store_row};
use crate::error::Result;
use crate::plan::{Change, Expr, Insert, Modify, Node, Target};
use crate::run::storage::read_row;
use crate::run::{Row, Run};
use crate::types::Datum;

/// Rows that are collected: few enough that they stay in the cache nearest to the processor.
const ROWS: usize = 256;

/// Rows of a statement on their way to the table below.
pub(super) struct Fill {
    /// Rows below, whose memory is used again, and how many are waiting.
    stored: Vec<indelible::Row>,
    waiting: usize,
    /// Whether nobody else knows the table.
    is_new: bool,
    /// Whether rows have gone past the write set.
    is_direct: bool,
}

impl Fill {
    /// For a statement whose rows can go together; none for all others.
    pub(super) fn begin(plan: &Modify, run: &Run<'_>) -> Option<Self> {
        Self::is_possible(plan).then(|| Self {
            stored: Vec::new(),
            waiting: 0,
            // The other parts of the statement do not see its rows.
            is_new: run.state.changed.is_none() && is_new(plan, run),
            is_direct: false,
        })
    }

    /// Whether a statement is one that inserts rows, and neither reads the table nor asks what
    /// became of each row.
    pub(super) fn is_possible(plan: &Modify) -> bool {
        let Change::Insert(insert) = &plan.change else {
            return false;
        };
        insert.conflict.is_none()
            && insert.router.is_none()
            && plan.returning.is_none()
            && !plan.input.reads(plan.table.source.table.id())
    }

    /// Adds the row of an input row.
    pub(super) fn add(
        &mut self,
        (table, insert): (&Target, &Insert),
        input: &[Datum],
        pending: &mut Pending,
        run: &mut Run<'_>,
    ) -> Result<()> {
        let row = self.or_earlier(new_row(table, insert, input, run), table, run)?;
        let stored = store_row(table, &row, &run.environment.context(), self.next(table));
        self.or_earlier(stored, table, run)?;
        note_parents(table, &row, None, pending);
        note_keys(table, &row, None, pending);
        self.added(table, run)
    }

    /// Adds a row whose columns are values at these places.
    pub(super) fn add_values(
        &mut self,
        table: &Target,
        (places, values): (&[usize], &[Datum]),
        run: &mut Run<'_>,
    ) -> Result<()> {
        self.next(table);
        for (at, place) in places.iter().enumerate() {
            let value = &values[*place];
            let set = if value.is_null() && table.columns[at].not_null {
                let row: Row = places.iter().map(|place| values[*place].clone()).collect();
                check(table, &row, run)
            } else {
                store(table, (at, value), run, |value| {
                    self.stored[self.waiting].set(at, value)
                })
            };
            self.or_earlier(set, table, run)?;
        }
        self.added(table, run)
    }

    /// Inserts the rows that are left. A statement of few rows goes through the write set in any
    /// case, which costs no transaction of the engine.
    pub(super) fn end(&mut self, table: &Target, run: &mut Run<'_>) -> Result<()> {
        let rows = &self.stored[..self.waiting];
        let below = &table.source.table;
        let inserted = if self.is_direct {
            run.connection.fill(below, rows)
        } else {
            run.connection.insert_all(below, rows)
        };
        let Err((count, error)) = inserted else {
            self.waiting = 0;
            return Ok(());
        };
        let mut row = Row::new();
        if let Some(stored) = rows.get(count) {
            let context = run.environment.context();
            read_row(&table.source, stored, None, &context, &mut row)?;
        }
        Err(of_row(table, error, &row, run))
    }

    /// The next row below, with no value.
    fn next(&mut self, table: &Target) -> &mut indelible::Row {
        match self.stored.get_mut(self.waiting) {
            Some(used) => used.clear(),
            None => self.stored.push(table.source.table.row()),
        }
        &mut self.stored[self.waiting]
    }

    fn added(&mut self, table: &Target, run: &mut Run<'_>) -> Result<()> {
        self.waiting += 1;
        if self.waiting < ROWS {
            return Ok(());
        }
        self.is_direct |= self.is_new;
        self.end(table, run)?;
        run.check()
    }

    /// The result of a step, or the error of a row before it.
    fn or_earlier<T>(&mut self, step: Result<T>, table: &Target, run: &mut Run<'_>) -> Result<T> {
        if step.is_err() {
            self.end(table, run)?;
        }
        step
    }
}

fn is_new(plan: &Modify, run: &Run<'_>) -> bool {
    let id = plan.table.source.table.id();
    run.environment.host.new_tables.contains(&id)
}

/// The parameter that each column gets, where rows are nothing but values of parameters.
pub(super) fn parameters(plan: &Modify) -> Option<Vec<usize>> {
    let (Change::Insert(insert), Node::Values(input)) = (&plan.change, &plan.input) else {
        return None;
    };
    let ([written], table) = (&input.rows[..], &plan.table) else {
        return None;
    };
    let is_plain = table.checks.is_empty()
        && table.views.is_empty()
        && table.generated.is_empty()
        && table.parents.is_empty()
        && !table.keys.iter().any(|(_, key)| key.is_looked_after())
        && table.within.is_empty()
        && !table.source.has_row_number()
        && table.columns.len() == insert.values.len()
        && table
            .columns
            .iter()
            .all(|column| column.domain_checks.is_empty());
    let parameter = |value: &Expr| match value {
        Expr::Parameter(number, _) => Some(*number),
        Expr::Column(at, _) => match written.get(*at)? {
            Expr::Parameter(number, _) => Some(*number),
            _ => None,
        },
        _ => None,
    };
    let values = insert.values.iter().filter(|_| is_plain);
    let places: Option<Vec<_>> = values.map(parameter).collect();
    places.filter(|places| !places.is_empty())
}
