//! Execution of the statements, and of the transactions that they make.
//!
//! An event is one transaction, or each of its statements is. A statement whose row is not there
//! changes nothing, as in SQL. Sorting and the removal of duplicates are done here, as the database
//! of sysbench would do it for `ORDER BY` and `DISTINCT`.

use super::digits::{C_GROUPS, length};
use super::list::{Action, NewIds, Statement};
use super::schema::{Key, SbTest, Tables, column};
use super::{Scope, Sysbench};
use crate::columns::{integer, text};
use crate::script::{RoutedScript, Script};
use indelible::{Changes, Direction, Error, Result, Row, Transaction};
use std::hint::black_box;
use std::ops::ControlFlow;

/// Bytes of a `c`.
const C_BYTES: usize = length(C_GROUPS);

/// The failure of an insert that is a transaction of its own: another thread has deleted the same
/// row and was first to insert it again.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("another thread has put the row back already")]
struct PutBack;

/// Whether an error is a failure that belongs to the workload.
pub fn is_rollback(error: &Error) -> bool {
    matches!(error, Error::Rejected(reason) if reason.is::<PutBack>())
}

/// Result of the last statement that reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Rows read.
    pub rows: u64,
    /// The sum of `k` that was asked for.
    pub sum: i64,
    /// The values of `c` that were asked for in order.
    pub sorted: Vec<[u8; C_BYTES]>,
}

/// Runs the transactions of one list, one after the other.
pub struct Runner<'w> {
    tables: &'w Tables,
    statements: &'w [Statement],
    each: usize,
    scope: Scope,
    seed: u64,
    partition: u32,
    region: Option<i16>,
    range_size: u32,
    position: u64,
    ids: NewIds,
    rooms: Vec<Room>,
    answer: Answer,
    text: String,
}

/// Room for a row of a table and for its changes, used again by each statement.
struct Room {
    row: Row,
    k: Changes,
    c: Changes,
}

impl<'w> Runner<'w> {
    pub(super) fn new(
        workload: &'w Sysbench,
        tables: &'w Tables,
        list: u32,
        position: u64,
    ) -> Self {
        let options = workload.options();
        let partition = list % options.partitions;
        let statements = workload.list(list);
        let each = options.statements_each();
        let ids = NewIds::new(options, list).after(statements, position * each as u64);
        let room = |SbTest { table, .. }: &SbTest| Room {
            row: table.row(),
            k: table.changes(),
            c: table.changes(),
        };
        Self {
            tables,
            statements,
            each,
            scope: options.scope,
            seed: options.seed,
            partition,
            region: options.region(partition),
            range_size: options.range_size,
            position,
            ids,
            rooms: tables.0.iter().map(room).collect(),
            answer: Answer::default(),
            text: String::new(),
        }
    }

    /// The statements of the next transaction.
    #[inline]
    pub fn statements(&self) -> &'w [Statement] {
        let transactions = (self.statements.len() / self.each) as u64;
        let at = (self.position % transactions) as usize * self.each;
        &self.statements[at..at + self.each]
    }

    /// Result of the last statement that reads.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Runs a statement.
    fn run(&mut self, transaction: &mut Transaction<'_>, statement: Statement) -> Result<()> {
        let key = self.key(statement.id)?;
        let at = usize::from(statement.table);
        let (table, room) = (&self.tables.0[at].table, &mut self.rooms[at]);
        match statement.action {
            Action::PointSelect => {
                let is_there = transaction.get_into(table, key, &mut room.row)?;
                self.answer.rows = is_there.into();
                black_box(text(&room.row, column::C));
                Ok(())
            }
            Action::SimpleRange => self.range(transaction, statement, |_, row| {
                black_box(text(row, column::C));
            }),
            Action::SumRange => {
                self.answer.sum = 0;
                self.range(transaction, statement, |answer, row| {
                    answer.sum += integer(row, column::K);
                })
            }
            Action::OrderRange => self.sorted_range(transaction, statement),
            Action::DistinctRange => {
                self.sorted_range(transaction, statement)?;
                self.answer.sorted.dedup();
                Ok(())
            }
            Action::UpdateIndex => {
                if transaction.get_into_for_update(table, key, &mut room.row)? {
                    room.k.clear();
                    let k = integer(&room.row, column::K) as i32;
                    room.k.set(column::K, k.wrapping_add(1))?;
                    transaction.update(table, key, &room.k)?;
                }
                Ok(())
            }
            Action::UpdateNonIndex => {
                statement.texts(self.seed).c(&mut self.text);
                room.c.clear();
                room.c.set(column::C, self.text.as_str())?;
                transaction.update(table, key, &room.c).map(drop)
            }
            Action::Delete => transaction.delete(table, key).map(drop),
            Action::Insert | Action::Append => self.insert(transaction, statement),
        }
    }

    fn key(&self, id: u32) -> Result<Key> {
        let id =
            i32::try_from(id).map_err(|_| Error::rejected("the ids of a table are used up"))?;
        Ok(Key(self.region, id))
    }

    /// Visits the rows of a range of ids.
    fn range(
        &mut self,
        transaction: &mut Transaction<'_>,
        statement: Statement,
        mut visit: impl FnMut(&mut Answer, &Row),
    ) -> Result<()> {
        let first = self.key(statement.id)?;
        let last = self.key(statement.id.saturating_add(self.range_size - 1))?;
        let table = &self.tables.0[usize::from(statement.table)].table;
        let answer = &mut self.answer;
        answer.rows = 0;
        transaction.scan(table, first..=last, Direction::Forward, |row| {
            answer.rows += 1;
            visit(answer, row);
            ControlFlow::Continue(())
        })
    }

    fn sorted_range(
        &mut self,
        transaction: &mut Transaction<'_>,
        statement: Statement,
    ) -> Result<()> {
        self.answer.sorted.clear();
        self.range(transaction, statement, |answer, row| {
            let mut c = [0; C_BYTES];
            for (to, from) in c.iter_mut().zip(text(row, column::C).bytes()) {
                *to = from;
            }
            answer.sorted.push(c);
        })?;
        self.answer.sorted.sort_unstable();
        black_box(&self.answer.sorted);
        Ok(())
    }

    fn insert(&mut self, transaction: &mut Transaction<'_>, statement: Statement) -> Result<()> {
        let Key(region, id) = self.key(self.ids.id(statement))?;
        let at = usize::from(statement.table);
        let row = &mut self.rooms[at].row;
        let mut texts = statement.texts(self.seed);
        row.set(column::ID, id)?;
        row.set(column::K, statement.k.cast_signed())?;
        texts.c(&mut self.text);
        row.set(column::C, self.text.as_str())?;
        texts.pad(&mut self.text);
        row.set(column::PAD, self.text.as_str())?;
        if let Some(region) = region {
            row.set(column::REGION, region)?;
        }
        match transaction.insert(&self.tables.0[at].table, &*row) {
            Err(Error::DuplicateKey { .. }) if self.scope == Scope::Statement => {
                Err(Error::rejected(PutBack))
            }
            inserted => inserted,
        }
    }
}

impl Script for Runner<'_> {
    /// Statements are reported apart where each is a transaction; otherwise there is one kind, the
    /// first.
    const KINDS: usize = Action::ALL.len();

    #[inline]
    fn position(&self) -> u64 {
        self.position
    }

    #[inline]
    fn kind(&self) -> usize {
        match self.scope {
            Scope::Event => 0,
            Scope::Statement => self.statements()[0].action as usize,
        }
    }

    fn step(&mut self, transaction: &mut Transaction<'_>) -> Result<()> {
        for statement in self.statements() {
            self.run(transaction, *statement)?;
        }
        Ok(())
    }

    #[inline]
    fn next(&mut self) {
        for statement in self.statements() {
            self.ids.pass(*statement);
        }
        self.position += 1;
    }

    fn is_rollback(error: &Error) -> bool {
        is_rollback(error)
    }
}

impl RoutedScript for Runner<'_> {
    #[inline]
    fn partitions(&self, partitions: &mut Vec<u32>) {
        partitions.clear();
        partitions.push(self.partition);
    }
}
