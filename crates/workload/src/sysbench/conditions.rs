//! The conditions of a database at rest, and the words of all rows.
//!
//! | number | condition |
//! |---|---|
//! | 1 | every loaded id has a row, unless the script deletes; others follow them, if it inserts |
//! | 2 | the index of `k` has each row once, in the order of `k` and `id`, and with the row's `k` |
//! | 3 | `c` is ten groups of eleven digits |
//! | 4 | `pad` is five groups of eleven digits |
//! | 5 | `k` is at least 1 |
//!
//! sysbench checks nothing; these conditions are ours. The comparison of the rows' words checks
//! that they are those of the lists.

use super::SysbenchOptions;
use super::digits::{C_GROUPS, PAD_GROUPS, are_groups, digest};
use super::list::Action;
use super::schema::{Everything, SbTest, Tables, column};
use super::state::{Rows, Words};
use crate::columns::{integer, text};
use crate::conditions::Findings;
use crate::loader::read_each;
use crate::random::mix;
use crate::standard::WorkloadError;
use indelible::{Database, Direction, Result, Row, Transaction};
use std::ops::ControlFlow;

/// Result of the check.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Rows read, and the violations. One is no error of the check.
    pub findings: Findings,
    /// The tables of each partition.
    pub(super) partitions: Vec<Vec<Rows>>,
}

impl Checked {
    /// Itself, or the violations as an error if there are any.
    pub fn into_result(self) -> Result<Self, WorkloadError> {
        self.findings.check()?;
        Ok(self)
    }
}

/// Checks all conditions, one thread a partition.
pub(super) fn check_consistency(
    options: &SysbenchOptions,
    database: &Database,
) -> Result<Checked, WorkloadError> {
    let tables = Tables::open(database)?;
    let parts = read_each(database, |transaction, partition| {
        let mut reading = Reading {
            options,
            partition,
            findings: Findings::default(),
        };
        let mut rows = Vec::new();
        for (number, table) in (0..).zip(&tables.0) {
            rows.push(reading.table(transaction, number, table)?);
        }
        Ok((reading.findings, rows))
    })?;
    let mut checked = Checked::default();
    for (findings, rows) in parts {
        checked.findings.add(findings);
        checked.partitions.push(rows);
    }
    Ok(checked)
}

/// Reads one partition.
struct Reading<'r> {
    options: &'r SysbenchOptions,
    partition: u32,
    findings: Findings,
}

/// Rows and their `k`, in any order.
#[derive(Default)]
struct Sum {
    rows: i64,
    digest: u64,
}

impl Sum {
    fn add(&mut self, row: &Row) {
        let (id, k) = (integer(row, column::ID), integer(row, column::K));
        self.rows += 1;
        self.digest = self
            .digest
            .wrapping_add(mix((id << 32 ^ k).cast_unsigned()));
    }
}

impl Reading<'_> {
    fn table(
        &mut self,
        transaction: &mut Transaction<'_>,
        number: u16,
        table: &SbTest,
    ) -> Result<Rows> {
        let mut rows = Rows::new(self.options, self.partition);
        let mut sum = Sum::default();
        let all = Everything(self.options.region(self.partition));
        transaction.scan(&table.table, all, Direction::Forward, |row| {
            sum.add(row);
            self.row(number, row, &mut rows);
            ControlFlow::Continue(())
        })?;
        self.ids(number, &rows);
        self.index(transaction, (number, table), &sum)?;
        Ok(rows)
    }

    fn row(&mut self, number: u16, row: &Row, rows: &mut Rows) {
        self.findings.rows += 1;
        let (id, k) = (integer(row, column::ID), integer(row, column::K));
        let (c, pad) = (text(row, column::C), text(row, column::PAD));
        let place = || format!("row {id} of sbtest{}", number + 1);
        let findings = &mut self.findings;
        findings.expect(3, place, 1, are_groups(c, C_GROUPS).into());
        findings.expect(4, place, 1, are_groups(pad, PAD_GROUPS).into());
        findings.expect(5, place, k.max(1), k);
        let words = Words {
            k: k as i32,
            c: digest(c),
            pad: digest(pad),
        };
        // Ids are those of the key, so a negative one has nowhere to be.
        let is_id = u32::try_from(id).map(|id| rows.set(id, Some(words)));
        findings.expect(1, place, 1, is_id.is_ok().into());
    }

    fn ids(&mut self, number: u16, rows: &Rows) {
        let place = |id| move || format!("row {id} of sbtest{}", number + 1);
        if self.options.keeps_rows() {
            for id in rows.missing() {
                self.findings.expect(1, place(id), 1, 0);
            }
        }
        let adds = self.options.script.actions().contains(&Action::Append);
        for id in rows.added() {
            let is_allowed = adds && id > self.options.rows;
            self.findings.expect(1, place(id), is_allowed.into(), 1);
        }
    }

    fn index(
        &mut self,
        transaction: &mut Transaction<'_>,
        (number, table): (u16, &SbTest),
        rows: &Sum,
    ) -> Result<()> {
        let (mut found, mut last) = (Sum::default(), (i64::MIN, 0));
        let all = Everything(self.options.region(self.partition));
        transaction.scan_index(&table.by_k, all, Direction::Forward, |row| {
            found.add(row);
            let now = (integer(row, column::K), integer(row, column::ID));
            let place = || format!("row {} in the index of sbtest{}", now.1, number + 1);
            self.findings.expect(2, place, 1, (now > last).into());
            last = now;
            ControlFlow::Continue(())
        })?;
        let place = || format!("the index of sbtest{}", number + 1);
        self.findings.expect(2, place, rows.rows, found.rows);
        let [rows, found] = [rows.digest, found.digest].map(u64::cast_signed);
        self.findings.expect(2, place, rows, found);
        Ok(())
    }
}
