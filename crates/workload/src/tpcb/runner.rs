//! The transaction of clause 1.2: an amount is booked on an account, its teller and its branch, and
//! noted in the history.
//!
//! It reads its three rows, to change them, before it writes anything: a method that collects
//! writes until commit then writes them out once. Over a connection, whose writes wait anyway, each
//! row is one statement, as in `UPDATE account SET balance = balance + 7`. The answer to the
//! terminal is the account's new balance.

use super::schema::{account, branch, history, history_filler, teller};
use super::{Input, Tables, Tpcb};
use crate::columns::integer;
use crate::script::{InteractiveScript, RoutedScript, Script};
use crate::standard::missing;
use indelible::{
    Changes, Connection, Database, Direction, Error, Found, IntoKey, Prefix, Result, Row, RowLock,
    Table, Timestamp, Transaction, Wait,
};
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::time::Duration;

/// The time of the first transaction: 2026-01-01. Each later one is a millisecond after the one
/// before it in its list.
const BEGUN_AT: Timestamp = Timestamp(1_767_225_600_000_000);

/// Longest wait of a connection for a row that others have locked.
const WAIT: Wait = Wait::Limit(Duration::from_secs(10));

/// Runs the transactions of one list, one after the other.
pub struct Runner<'w> {
    tables: &'w Tables,
    inputs: &'w [Input],
    partitions: u32,
    position: u64,
    balance: i64,
    /// The last number in `history` of each branch of the partition. Threads that share branches
    /// count in steps, each from its own start.
    last_numbers: Vec<(i32, i64)>,
    step: i64,
    account: Account,
    teller: Account,
    branch: Account,
    history: Row,
}

/// Room for a row with a balance, used again by each transaction.
struct Account {
    row: Row,
    changes: Changes,
    column: usize,
}

impl Account {
    fn new(table: &Table, column: usize) -> Self {
        Self {
            row: table.row(),
            changes: table.changes(),
            column,
        }
    }

    fn read<K: IntoKey + Debug + Copy>(
        &mut self,
        transaction: &mut Transaction<'_>,
        (table, name): (&Table, &'static str),
        key: K,
    ) -> Result<()> {
        if transaction.get_into_for_update(table, key, &mut self.row)? {
            Ok(())
        } else {
            Err(missing(name, format!("{key:?}")))
        }
    }

    /// Adds to the balance that was read, and returns it.
    fn add<K: IntoKey>(
        &mut self,
        transaction: &mut Transaction<'_>,
        table: &Table,
        key: K,
        delta: i64,
    ) -> Result<i64> {
        let balance = self.change(delta)?;
        transaction.update(table, key, &self.changes)?;
        Ok(balance)
    }

    /// Adds to the newest balance, in one statement, and returns it.
    fn add_over<K: IntoKey + Debug + Copy>(
        &mut self,
        connection: &mut Connection,
        (table, name): (&Table, &'static str),
        key: K,
        delta: i64,
    ) -> Result<i64> {
        connection.statement()?;
        let (strength, row) = (RowLock::NoKeyUpdate, &mut self.row);
        let place = connection.row_key(table, key)?;
        if connection.get_locked_at(table, &place, strength, WAIT, row)? != Found::Yes {
            return Err(missing(name, format!("{key:?}")));
        }
        let balance = self.change(delta)?;
        connection.update_at(table, &place, &self.changes)?;
        Ok(balance)
    }

    /// Makes the changes that add to the balance that was read.
    fn change(&mut self, delta: i64) -> Result<i64> {
        let balance = integer(&self.row, self.column) + delta;
        self.changes.clear();
        self.changes.set(self.column, balance)?;
        Ok(balance)
    }
}

impl<'w> Runner<'w> {
    /// Reads where `history` of the partition's branches ends; the calling thread must not hold a
    /// worker.
    pub(super) fn new(
        workload: &'w Tpcb,
        database: &Database,
        tables: &'w Tables,
        list: u32,
        position: u64,
    ) -> Result<Self> {
        let options = workload.options();
        let (step, own) = (i64::from(options.threads), list / options.partitions);
        let mut last_numbers = Vec::new();
        for number in options.branches_of(list % options.partitions) {
            let mut newest = 0;
            database.read(|reader| {
                let range = Prefix(number);
                reader.scan(&tables.history, range, Direction::Backward, |row| {
                    newest = integer(row, history::NUMBER);
                    ControlFlow::Break(())
                })
            })?;
            last_numbers.push((number, newest / step * step + i64::from(own)));
        }
        let mut history = tables.history.row();
        history.set(history::FILLER, history_filler())?;
        Ok(Self {
            tables,
            inputs: workload.list(list),
            partitions: options.partitions,
            position,
            balance: 0,
            last_numbers,
            step,
            account: Account::new(&tables.account, account::BALANCE),
            teller: Account::new(&tables.teller, teller::BALANCE),
            branch: Account::new(&tables.branch, branch::BALANCE),
            history,
        })
    }

    /// The input of the next transaction.
    #[inline]
    pub fn input(&self) -> Input {
        self.inputs[(self.position % self.inputs.len() as u64) as usize]
    }

    /// The last transaction's output for the terminal: the balance of the account.
    pub fn balance(&self) -> i64 {
        self.balance
    }

    /// The row of `history` that notes the transaction. Numbers of transactions that are undone are
    /// left out.
    fn note(&mut self, input: Input) -> Result<&Row> {
        let of_branch = self
            .last_numbers
            .iter_mut()
            .find(|last| last.0 == input.branch);
        let last = of_branch.expect("inputs name branches of the partition");
        last.1 += self.step;
        let row = &mut self.history;
        row.set(history::BRANCH, input.branch)?;
        row.set(history::NUMBER, last.1)?;
        row.set(history::TELLER, input.teller)?;
        row.set(history::ACCOUNT_BRANCH, input.account_branch)?;
        row.set(history::ACCOUNT, input.account)?;
        row.set(history::DELTA, i64::from(input.delta))?;
        let time = BEGUN_AT.0 + self.position.cast_signed() * 1000;
        row.set(history::TIME, Timestamp(time))?;
        Ok(row)
    }
}

impl Script for Runner<'_> {
    const KINDS: usize = 1;

    #[inline]
    fn position(&self) -> u64 {
        self.position
    }

    #[inline]
    fn kind(&self) -> usize {
        0
    }

    fn step(&mut self, transaction: &mut Transaction<'_>) -> Result<()> {
        let (tables, input) = (self.tables, self.input());
        let delta = i64::from(input.delta);
        let account = (input.account_branch, input.account);
        let teller = (input.branch, input.teller);
        self.account
            .read(transaction, (&tables.account, "account"), account)?;
        self.teller
            .read(transaction, (&tables.teller, "teller"), teller)?;
        self.branch
            .read(transaction, (&tables.branch, "branch"), input.branch)?;
        self.balance = self
            .account
            .add(transaction, &tables.account, account, delta)?;
        self.teller
            .add(transaction, &tables.teller, teller, delta)?;
        self.branch
            .add(transaction, &tables.branch, input.branch, delta)?;
        transaction.insert(&tables.history, self.note(input)?)
    }

    #[inline]
    fn next(&mut self) {
        self.position += 1;
    }

    /// Every transaction succeeds.
    fn is_rollback(_: &Error) -> bool {
        false
    }
}

impl InteractiveScript for Runner<'_> {
    fn step_over(&mut self, connection: &mut Connection) -> Result<()> {
        let (tables, input) = (self.tables, self.input());
        let delta = i64::from(input.delta);
        let account = (input.account_branch, input.account);
        let teller = (input.branch, input.teller);
        let place = (&tables.account, "account");
        self.balance = self.account.add_over(connection, place, account, delta)?;
        let place = (&tables.teller, "teller");
        self.teller.add_over(connection, place, teller, delta)?;
        let (place, branch) = ((&tables.branch, "branch"), input.branch);
        self.branch.add_over(connection, place, branch, delta)?;
        connection.statement()?;
        connection.insert(&tables.history, self.note(input)?)
    }
}

impl RoutedScript for Runner<'_> {
    #[inline]
    fn partitions(&self, partitions: &mut Vec<u32>) {
        let input = self.input();
        partitions.clear();
        for branch in [input.branch, input.account_branch] {
            let partition = branch.cast_unsigned() % self.partitions;
            if !partitions.contains(&partition) {
                partitions.push(partition);
            }
        }
        partitions.sort_unstable();
    }
}
