//! Connections beside those that run the list: one that has written and stays idle, and one that
//! reads for long.
//!
//! Neither changes what the list leaves: the idle one's row is never committed.

use super::schema::{branch, teller};
use super::{BRANCHES_MAX, Tables};
use crate::columns::integer;
use indelible::{Connection, Result};

impl Tables {
    /// Writes a row that no transaction of the list needs, in the connection's open transaction.
    /// `number` tells several idle connections apart.
    pub fn write_aside(&self, connection: &mut Connection, number: u32) -> Result<()> {
        let mut row = self.branch.row();
        row.set(branch::ID, (BRANCHES_MAX + 1 + number).cast_signed())?;
        row.set(branch::BALANCE, 0_i64)?;
        row.set(branch::FILLER, "")?;
        connection.insert(&self.branch, &row)
    }

    /// The sums of the balances of all branches and of all tellers, as the connection's open
    /// transaction sees them. In a snapshot they are equal.
    pub fn balances(&self, connection: &mut Connection) -> Result<(i64, i64)> {
        let branches = connection.collect(&self.branch, ..)?;
        let tellers = connection.collect(&self.teller, ..)?;
        let sum =
            |rows: &[indelible::Row], column| rows.iter().map(|row| integer(row, column)).sum();
        Ok((
            sum(&branches, branch::BALANCE),
            sum(&tellers, teller::BALANCE),
        ))
    }
}
