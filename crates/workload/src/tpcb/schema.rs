//! The four tables of clause 3.2 and their initial rows.
//!
//! Tellers and accounts are numbered over all branches; their keys begin with the branch, because
//! it decides the partition. `history` has no key in the specification; here it is a number that
//! counts up in each branch. Balances have eight bytes, so ten digits and a sign fit. Fillers make
//! rows as long as clause 3.2 wants them: 100 bytes, and 50 in `history`. All balances begin at 0.

use super::TpcbOptions;
use crate::loader::{BATCH_ROWS, Loaded, in_batches};
use indelible::{DataType, Database, Durability, Partitioning, Result, Table};

/// Columns of `branch`.
pub(super) mod branch {
    pub(in crate::tpcb) const ID: usize = 0;
    pub(in crate::tpcb) const BALANCE: usize = 1;
    pub(in crate::tpcb) const FILLER: usize = 2;
}

/// Columns of `teller`.
pub(super) mod teller {
    pub(in crate::tpcb) const BRANCH: usize = 0;
    pub(in crate::tpcb) const ID: usize = 1;
    pub(in crate::tpcb) const BALANCE: usize = 2;
    pub(in crate::tpcb) const FILLER: usize = 3;
}

/// Columns of `account`.
pub(super) mod account {
    pub(in crate::tpcb) const BRANCH: usize = 0;
    pub(in crate::tpcb) const ID: usize = 1;
    pub(in crate::tpcb) const BALANCE: usize = 2;
    pub(in crate::tpcb) const FILLER: usize = 3;
}

/// Columns of `history`.
pub(super) mod history {
    pub(in crate::tpcb) const BRANCH: usize = 0;
    pub(in crate::tpcb) const NUMBER: usize = 1;
    pub(in crate::tpcb) const TELLER: usize = 2;
    pub(in crate::tpcb) const ACCOUNT_BRANCH: usize = 3;
    pub(in crate::tpcb) const ACCOUNT: usize = 4;
    pub(in crate::tpcb) const DELTA: usize = 5;
    pub(in crate::tpcb) const TIME: usize = 6;
    pub(in crate::tpcb) const FILLER: usize = 7;
}

/// Bytes that fill a row of `branch` up to 100.
const BRANCH_FILLER: u32 = 88;
/// Bytes that fill rows of `teller` and `account` up to 100.
const ROW_FILLER: u32 = 84;
/// Bytes that fill a row of `history` up to 50.
const HISTORY_FILLER: u32 = 6;
/// The text of fillers.
const FILLING: &str =
    "----------------------------------------------------------------------------------------";

/// The filler of a `history` row.
pub(super) fn history_filler() -> &'static str {
    filler(HISTORY_FILLER)
}

fn filler(bytes: u32) -> &'static str {
    &FILLING[..bytes as usize]
}

/// The tables of an open database.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are those of the specification")]
pub struct Tables {
    pub branch: Table,
    pub teller: Table,
    pub account: Table,
    pub history: Table,
}

impl Tables {
    /// Creates the tables, which must not exist.
    pub fn create(database: &Database) -> Result<Self> {
        let char = |length| DataType::Char { length };
        database
            .create_table("branch")
            .column("b_id", DataType::Int32)
            .column("b_balance", DataType::Int64)
            .column("b_filler", char(BRANCH_FILLER))
            .primary_key(["b_id"])
            .partitioning(Partitioning::Modulo)
            .create()?;
        for (table, prefix) in [("teller", "t"), ("account", "a")] {
            let [branch, id] = ["b_id", "id"].map(|name| format!("{prefix}_{name}"));
            database
                .create_table(table)
                .column(&branch, DataType::Int32)
                .column(&id, DataType::Int32)
                .column(&format!("{prefix}_balance"), DataType::Int64)
                .column(&format!("{prefix}_filler"), char(ROW_FILLER))
                .primary_key([branch.as_str(), id.as_str()])
                .partitioning(Partitioning::Modulo)
                .create()?;
        }
        database
            .create_table("history")
            .column("h_b_id", DataType::Int32)
            .column("h_number", DataType::Int64)
            .column("h_t_id", DataType::Int32)
            .column("h_a_b_id", DataType::Int32)
            .column("h_a_id", DataType::Int32)
            .column("h_delta", DataType::Int64)
            .column("h_time", DataType::Timestamp)
            .column("h_filler", char(HISTORY_FILLER))
            .primary_key(["h_b_id", "h_number"])
            .partitioning(Partitioning::Modulo)
            .create()?;
        Self::open(database)
    }

    /// The tables of a database that has them.
    pub fn open(database: &Database) -> Result<Self> {
        Ok(Self {
            branch: database.table("branch")?,
            teller: database.table("teller")?,
            account: database.table("account")?,
            history: database.table("history")?,
        })
    }

    /// Loads the branches of a partition.
    pub(super) fn load(
        &self,
        database: &Database,
        options: &TpcbOptions,
        partition: u32,
        loaded: Loaded<'_>,
    ) -> Result<()> {
        let mut worker = database.worker(&[partition], Durability::Group)?;
        let (mut branch, mut teller, mut account) =
            (self.branch.row(), self.teller.row(), self.account.row());
        branch.set(branch::FILLER, filler(BRANCH_FILLER))?;
        branch.set(branch::BALANCE, 0_i64)?;
        teller.set(teller::FILLER, filler(ROW_FILLER))?;
        teller.set(teller::BALANCE, 0_i64)?;
        account.set(account::FILLER, filler(ROW_FILLER))?;
        account.set(account::BALANCE, 0_i64)?;
        for number in options.branches_of(partition) {
            branch.set(branch::ID, number)?;
            teller.set(teller::BRANCH, number)?;
            account.set(account::BRANCH, number)?;
            in_batches(&mut worker, 0..1, 1, loaded, |transaction, _| {
                transaction.insert(&self.branch, &branch)?;
                for id in TpcbOptions::tellers_of(number) {
                    teller.set(teller::ID, id)?;
                    transaction.insert(&self.teller, &teller)?;
                }
                Ok(1 + TpcbOptions::tellers_of(number).count() as u64)
            })?;
            let accounts = options.accounts_of(number);
            in_batches(
                &mut worker,
                accounts,
                BATCH_ROWS,
                loaded,
                |transaction, id| {
                    account.set(account::ID, id)?;
                    transaction.insert(&self.account, &account)?;
                    Ok(1)
                },
            )?;
        }
        worker.close()
    }
}
