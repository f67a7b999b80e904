//! The conditions of a database at rest.
//!
//! | number | condition |
//! |---|---|
//! | 1 | the balance of a branch is the sum of its tellers' balances |
//! | 2 | the balance of a branch is the sum of the amounts in its history |
//! | 3 | the balance of a teller is the sum of the amounts in the history with this teller |
//! | 4 | the balance of an account is the sum of its amounts in the history of all branches |
//! | 5 | a branch has ten tellers, and every branch as many accounts as the first |
//! | 6 | the accounts of all branches have as much as the branches together |
//!
//! The check needs nothing but the database, so a crash test can call it after each recovery. It
//! also counts the transactions that the content shows.

use super::schema::{account, branch, history, teller};
use super::{BRANCHES_MAX, TELLERS, Tables};
use crate::columns::integer;
use crate::conditions::Findings;
use crate::loader::read_each;
use crate::standard::WorkloadError;
use indelible::{Database, Direction, Prefix, Result, Row, Table, Transaction};
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

/// Result of the check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Rows read, and the violations. One is no error of the check.
    pub findings: Findings,
    /// The branches by number.
    pub branches: BTreeMap<i32, BranchProgress>,
}

/// Transactions of a branch since loading, as its history shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchProgress {
    /// How many.
    pub transactions: u64,
    /// The sum of their amounts.
    pub amount: i64,
}

impl Checked {
    /// Itself, or the violations as an error if there are any.
    pub fn into_result(self) -> Result<Self, WorkloadError> {
        self.findings.check()?;
        Ok(self)
    }
}

/// Checks all conditions on all branches, one thread a partition. Nobody may write meanwhile. The
/// calling thread must not hold a transaction or a worker. A violation is no error of the check:
/// see [`Checked::into_result`].
pub fn check_consistency(database: &Database) -> Result<Checked, WorkloadError> {
    let tables = Tables::open(database)?;
    let parts = read_each(database, |transaction, partition| {
        Books::read(transaction, &tables, (partition, database.partitions()))
    })?;
    let mut books = Books::default();
    for part in parts {
        books.add(part);
    }
    Ok(books.check())
}

/// Sums over the rows. Customers are served by other branches than their own, perhaps in another
/// partition, so the books are balanced when all are there.
#[derive(Default)]
struct Books {
    rows: u64,
    branches: BTreeMap<i32, Branch>,
    /// Balance and history of each teller and account, by branch and number.
    tellers: HashMap<(i32, i32), Account>,
    accounts: HashMap<(i32, i32), Account>,
}

#[derive(Clone, Copy, Default)]
struct Branch {
    balance: i64,
    tellers: i64,
    tellers_balance: i64,
    accounts: i64,
    accounts_balance: i64,
    progress: BranchProgress,
}

#[derive(Clone, Copy, Default)]
struct Account {
    balance: i64,
    noted: i64,
}

impl Books {
    /// Reads the branches of one partition, table by table in key order.
    fn read(
        transaction: &mut Transaction<'_>,
        tables: &Tables,
        (partition, partitions): (u32, u32),
    ) -> Result<Self> {
        let mut books = Self::default();
        // Branches are numbered from 1 without gaps.
        let first = if partition == 0 {
            partitions
        } else {
            partition
        };
        let mut row = tables.branch.row();
        for number in (first..=BRANCHES_MAX).step_by(partitions as usize) {
            let number = number.cast_signed();
            if !transaction.get_into(&tables.branch, number, &mut row)? {
                break;
            }
            books.rows += 1;
            books.branch(number).balance = integer(&row, branch::BALANCE);
            books.read_branch(transaction, tables, number)?;
        }
        Ok(books)
    }

    /// Reads a branch with its tellers, accounts and history.
    fn read_branch(
        &mut self,
        transaction: &mut Transaction<'_>,
        tables: &Tables,
        number: i32,
    ) -> Result<()> {
        for_each(transaction, &tables.teller, number, |row| {
            self.rows += 1;
            let balance = integer(row, teller::BALANCE);
            let branch = self.branch(number);
            branch.tellers += 1;
            branch.tellers_balance += balance;
            let key = (number, integer(row, teller::ID) as i32);
            self.tellers.entry(key).or_default().balance = balance;
        })?;
        for_each(transaction, &tables.account, number, |row| {
            self.rows += 1;
            let balance = integer(row, account::BALANCE);
            let branch = self.branch(number);
            branch.accounts += 1;
            branch.accounts_balance += balance;
            // One at 0 that the history does not know balances, and most are.
            if balance != 0 {
                let key = (number, integer(row, account::ID) as i32);
                self.accounts.entry(key).or_default().balance = balance;
            }
        })?;
        for_each(transaction, &tables.history, number, |row| {
            self.read_history(row);
        })
    }

    fn read_history(&mut self, row: &Row) {
        self.rows += 1;
        let number = integer(row, history::BRANCH) as i32;
        let delta = integer(row, history::DELTA);
        let progress = &mut self.branch(number).progress;
        progress.transactions += 1;
        progress.amount += delta;
        let teller = (number, integer(row, history::TELLER) as i32);
        self.tellers.entry(teller).or_default().noted += delta;
        let account = (
            integer(row, history::ACCOUNT_BRANCH) as i32,
            integer(row, history::ACCOUNT) as i32,
        );
        self.accounts.entry(account).or_default().noted += delta;
    }

    fn branch(&mut self, number: i32) -> &mut Branch {
        self.branches.entry(number).or_default()
    }

    /// Adds the books of another partition, which has other branches.
    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.branches.extend(other.branches);
        for (sum, part) in [
            (&mut self.tellers, other.tellers),
            (&mut self.accounts, other.accounts),
        ] {
            for (key, of_part) in part {
                let account = sum.entry(key).or_default();
                account.balance += of_part.balance;
                account.noted += of_part.noted;
            }
        }
    }

    fn check(&self) -> Checked {
        let mut findings = Findings {
            rows: self.rows,
            ..Findings::default()
        };
        let first_accounts = self.branches.values().next().map_or(0, |b| b.accounts);
        let (mut branches_balance, mut accounts_balance) = (0, 0);
        for (number, branch) in &self.branches {
            let place = || format!("branch {number}");
            branches_balance += branch.balance;
            accounts_balance += branch.accounts_balance;
            findings.expect(1, place, branch.balance, branch.tellers_balance);
            findings.expect(2, place, branch.balance, branch.progress.amount);
            findings.expect(5, place, TELLERS.into(), branch.tellers);
            findings.expect(5, place, first_accounts, branch.accounts);
        }
        for (condition, what, accounts) in
            [(3, "teller", &self.tellers), (4, "account", &self.accounts)]
        {
            for (key, account) in accounts {
                let place = || format!("{what} {key:?}");
                findings.expect(condition, place, account.noted, account.balance);
            }
        }
        let place = || "all branches".to_owned();
        findings.expect(6, place, branches_balance, accounts_balance);
        Checked {
            findings,
            branches: self
                .branches
                .iter()
                .map(|(number, branch)| (*number, branch.progress))
                .collect(),
        }
    }
}

/// Visits all rows of a branch.
fn for_each(
    transaction: &mut Transaction<'_>,
    table: &Table,
    branch: i32,
    mut visit: impl FnMut(&Row),
) -> Result<()> {
    transaction.scan(table, Prefix(branch), Direction::Forward, |row| {
        visit(row);
        ControlFlow::Continue(())
    })
}
