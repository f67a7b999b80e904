//! Batches column by column, for sinks that build columns themselves.
//!
//! A column whose values are all of one plain type is an array of them. The first NULL, or value of
//! another type, makes it a list of values of any type, so a column says of itself what it holds.

use sql_values::types::{Datum, Kind};

/// Most rows of a batch.
pub const BATCH_ROWS: usize = 1024;

/// The values of a column of a batch.
#[derive(Clone, Debug)]
pub enum ColumnValues {
    /// `integer`, without NULL.
    Int4(Vec<i32>),
    /// `bigint`, without NULL.
    Int8(Vec<i64>),
    /// `double precision`, without NULL.
    Float8(Vec<f64>),
    /// Anything.
    Other(Vec<Datum>),
}

impl ColumnValues {
    /// An empty column for values of a kind.
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Int4 => Self::Int4(Vec::new()),
            Kind::Int8 => Self::Int8(Vec::new()),
            Kind::Float8 => Self::Float8(Vec::new()),
            _ => Self::Other(Vec::new()),
        }
    }

    /// Removes all values, and keeps the memory if the kind stays.
    fn reset(&mut self, kind: Kind) {
        match (&mut *self, kind) {
            (Self::Int4(values), Kind::Int4) => values.clear(),
            (Self::Int8(values), Kind::Int8) => values.clear(),
            (Self::Float8(values), Kind::Float8) => values.clear(),
            _ => *self = Self::new(kind),
        }
    }

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Int4(values) => values.len(),
            Self::Int8(values) => values.len(),
            Self::Float8(values) => values.len(),
            Self::Other(values) => values.len(),
        }
    }

    /// Whether there are no values.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a row.
    #[inline]
    pub fn get(&self, at: usize) -> Datum {
        match self {
            Self::Int4(values) => Datum::Int4(values[at]),
            Self::Int8(values) => Datum::Int8(values[at]),
            Self::Float8(values) => Datum::Float8(values[at]),
            Self::Other(values) => values[at].clone(),
        }
    }

    /// Adds a value.
    #[inline]
    pub fn push(&mut self, value: Datum) {
        match (&mut *self, value) {
            (Self::Int4(values), Datum::Int4(value)) => values.push(value),
            (Self::Int8(values), Datum::Int8(value)) => values.push(value),
            (Self::Float8(values), Datum::Float8(value)) => values.push(value),
            (Self::Other(values), value) => values.push(value),
            (_, value) => {
                let mut values: Vec<Datum> = (0..self.len()).map(|at| self.get(at)).collect();
                values.push(value);
                *self = Self::Other(values);
            }
        }
    }
}

/// Rows of one width, column by column.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    rows: usize,
    columns: Vec<ColumnValues>,
}

impl Columns {
    /// Number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The columns in their order; each has a value for each row.
    #[inline]
    pub fn columns(&self) -> &[ColumnValues] {
        &self.columns
    }

    /// Whether an operator has to hand the batch over before it adds another row.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS
    }

    /// A column, which has no values then until the next reset.
    #[inline]
    pub fn take(&mut self, at: usize) -> ColumnValues {
        std::mem::replace(&mut self.columns[at], ColumnValues::Other(Vec::new()))
    }

    /// Removes all rows, and has columns for values of these kinds from now on.
    pub fn reset(&mut self, kinds: impl IntoIterator<Item = Kind>) {
        self.rows = 0;
        let mut width = 0;
        for kind in kinds {
            match self.columns.get_mut(width) {
                Some(column) => column.reset(kind),
                None => self.columns.push(ColumnValues::new(kind)),
            }
            width += 1;
        }
        self.columns.truncate(width);
    }

    /// Adds a row whose values `fill` adds, one to each column.
    pub fn push_with<E>(
        &mut self,
        fill: impl FnOnce(&mut [ColumnValues]) -> Result<(), E>,
    ) -> Result<(), E> {
        fill(&mut self.columns)?;
        self.rows += 1;
        debug_assert!(
            self.columns.iter().all(|column| column.len() == self.rows),
            "each column has a value for each row"
        );
        Ok(())
    }

    /// Adds a row of the width.
    pub fn push(&mut self, row: impl IntoIterator<Item = Datum>) {
        let mut count = 0;
        for (column, value) in self.columns.iter_mut().zip(row) {
            column.push(value);
            count += 1;
        }
        self.rows += 1;
        debug_assert_eq!(count, self.columns.len(), "a row has the width");
    }

    /// Adds values of the only column, until the batch is full or there are no more.
    pub fn fill_only<E>(
        &mut self,
        values: &mut dyn Iterator<Item = Result<Datum, E>>,
    ) -> Result<(), E> {
        let room = BATCH_ROWS.saturating_sub(self.rows);
        let Some(column) = self.columns.first_mut() else {
            return Ok(());
        };
        for value in values.take(room) {
            column.push(value?);
        }
        self.rows = column.len();
        Ok(())
    }

    /// Replaces all columns by others, which have a value for each of so many rows.
    pub fn replace(&mut self, rows: usize, columns: impl Iterator<Item = ColumnValues>) {
        self.columns.clear();
        self.columns.extend(columns);
        self.rows = rows;
    }

    /// Puts the values of a row into `row`.
    pub fn read_row(&self, at: usize, row: &mut Vec<Datum>) {
        row.clear();
        row.extend(self.columns.iter().map(|column| column.get(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_makes_a_column_a_list_of_values_until_the_reset() {
        let mut columns = Columns::default();
        columns.reset([Kind::Int8, Kind::Text]);
        columns.push([Datum::Int8(1), Datum::text("one")]);
        assert!(matches!(&columns.columns()[0], ColumnValues::Int8(values) if *values == [1]));
        columns.push([Datum::Null, Datum::Null]);
        columns.push([Datum::Int8(3), Datum::text("three")]);
        assert!(matches!(&columns.columns()[0], ColumnValues::Other(values) if values.len() == 3));
        let mut row = Vec::new();
        columns.read_row(1, &mut row);
        assert!(row.iter().all(Datum::is_null));
        columns.read_row(2, &mut row);
        assert_eq!(row, [Datum::Int8(3), Datum::text("three")]);
        columns.reset([Kind::Int8]);
        assert!(columns.is_empty());
        assert!(matches!(&columns.columns(), [ColumnValues::Int8(values)] if values.is_empty()));
    }
}
