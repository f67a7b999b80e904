//! Rows as a caller writes them: a [`Row`], a tuple of values, or a slice of values.
//!
//! Values are in the order of the columns, one for each; `None` is NULL. A [`Row`] is lent as it is
//! and costs nothing; the others fill a new row.

use crate::error::{Error, Result};
use crate::key::IntoColumn;
use crate::table::Table;
use storage::record::{Row, Value};

/// A value that can be inserted as a row.
pub trait IntoRow {
    /// Lends the row.
    fn lend_row<R>(&self, table: &Table, borrow: impl FnOnce(&Row) -> Result<R>) -> Result<R>;
}

impl IntoRow for Row {
    #[inline]
    fn lend_row<R>(&self, _: &Table, borrow: impl FnOnce(&Row) -> Result<R>) -> Result<R> {
        borrow(self)
    }
}

impl IntoRow for &Row {
    #[inline]
    fn lend_row<R>(&self, _: &Table, borrow: impl FnOnce(&Row) -> Result<R>) -> Result<R> {
        borrow(self)
    }
}

impl IntoRow for &[Value] {
    fn lend_row<R>(&self, table: &Table, borrow: impl FnOnce(&Row) -> Result<R>) -> Result<R> {
        check_count(table, self.len())?;
        let mut row = table.row();
        for (column, value) in self.iter().enumerate() {
            row.set(column, value.as_ref())?;
        }
        borrow(&row)
    }
}

impl IntoRow for Vec<Value> {
    fn lend_row<R>(&self, table: &Table, borrow: impl FnOnce(&Row) -> Result<R>) -> Result<R> {
        self.as_slice().lend_row(table, borrow)
    }
}

impl IntoRow for &Vec<Value> {
    fn lend_row<R>(&self, table: &Table, borrow: impl FnOnce(&Row) -> Result<R>) -> Result<R> {
        self.as_slice().lend_row(table, borrow)
    }
}

macro_rules! row_tuples {
    ($($count:literal: $($name:ident $at:tt),+;)*) => {$(
        impl<$($name: IntoColumn),+> IntoRow for ($($name,)+) {
            fn lend_row<Out>(
                &self,
                table: &Table,
                borrow: impl FnOnce(&Row) -> Result<Out>,
            ) -> Result<Out> {
                check_count(table, $count)?;
                let mut row = table.row();
                $(row.set($at, self.$at.column())?;)+
                borrow(&row)
            }
        }
    )*};
}

row_tuples! {
    1: A 0;
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
    5: A 0, B 1, C 2, D 3, E 4;
    6: A 0, B 1, C 2, D 3, E 4, F 5;
    7: A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
    9: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8;
    10: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9;
}

fn check_count(table: &Table, found: usize) -> Result<()> {
    let expected = table.entry.shape.def.columns.len();
    if found == expected {
        return Ok(());
    }
    Err(Error::Definition {
        name: table.name().to_owned(),
        problem: format!("a row has {expected} columns, {found} values were given"),
    })
}
