//! Results of statements: columns, batches of rows, the sink that takes them, and command tags.
//!
//! A sink is called once for the columns of a result and then once a batch, so it may be a `dyn`
//! without a cost for each row. It says after each batch whether it wants more; a portal that is
//! told to stop keeps its place.

use crate::error::SqlError;
use crate::state::Notice;
use crate::types::{Context, Datum};
use sql_rows::{BATCH_ROWS, Columns};
use std::fmt;

pub use sql_plan::plan::OutputColumn;

/// Rows of one width, one after the other.
#[derive(Clone, Debug)]
pub struct Batch {
    width: usize,
    rows: usize,
    /// The rows that its reader wants, at most.
    room: usize,
    cells: Vec<Datum>,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Batch {
    /// An empty batch of rows of `width` values.
    pub fn new(width: usize) -> Self {
        Self {
            width,
            rows: 0,
            room: BATCH_ROWS,
            cells: Vec::new(),
        }
    }

    /// Values of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Whether an operator has to hand the batch over before it adds another row.
    pub fn is_full(&self) -> bool {
        self.rows >= self.room
    }

    /// Wants so many rows at most from now on, and at least one: more need not be computed.
    pub(crate) fn want(&mut self, rows: u64) {
        self.room = rows.clamp(1, BATCH_ROWS as u64) as usize;
    }

    /// The rows that its reader wants.
    pub(crate) fn room(&self) -> u64 {
        self.room as u64
    }

    /// The values of a row.
    pub fn row(&self, at: usize) -> &[Datum] {
        &self.cells[at * self.width..][..self.width]
    }

    /// The rows in their order.
    pub fn rows(&self) -> impl Iterator<Item = &[Datum]> {
        (0..self.rows).map(|at| self.row(at))
    }

    /// Removes all rows, and lets the batch have rows of another width.
    pub fn reset(&mut self, width: usize) {
        self.width = width;
        self.rows = 0;
        self.cells.clear();
    }

    /// Adds a row of the batch's width.
    pub fn push(&mut self, row: impl IntoIterator<Item = Datum>) {
        self.cells.extend(row);
        self.rows += 1;
        debug_assert_eq!(
            self.cells.len(),
            self.rows * self.width,
            "a row has the width"
        );
    }

    /// Adds a row whose values `fill` adds. After an error the batch is of no use.
    pub(crate) fn push_with(
        &mut self,
        fill: impl FnOnce(&mut Vec<Datum>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        fill(&mut self.cells)?;
        self.rows += 1;
        debug_assert_eq!(
            self.cells.len(),
            self.rows * self.width,
            "a row has the width"
        );
        Ok(())
    }

    /// Moves some values of a row out of it.
    pub(crate) fn take(&mut self, at: usize, columns: &[usize]) -> impl Iterator<Item = Datum> {
        let row = &mut self.cells[at * self.width..][..self.width];
        columns
            .iter()
            .map(|&column| std::mem::replace(&mut row[column], Datum::Null))
    }

    /// The rows, owned.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Vec<Datum>> + '_ {
        let width = self.width;
        let rows = std::mem::take(&mut self.rows);
        let mut cells = self.cells.drain(..);
        (0..rows).map(move |_| cells.by_ref().take(width).collect())
    }
}

/// The answer of a sink to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It takes more.
    More,
    /// It wants no more now.
    Full,
}

/// Receiver of the results of statements.
pub trait RowSink {
    /// The columns of a result whose rows follow. Called once for each statement that returns rows.
    fn describe(&mut self, columns: &[OutputColumn]) -> Result<(), SqlError>;

    /// The next result is of a cursor that was declared as binary. Called before it is described.
    fn begin_binary(&mut self) {}

    /// The next rows; `context` is that in which their values print.
    fn rows(&mut self, batch: &Batch, context: &Context<'_>) -> Result<Flow, SqlError>;

    /// Whether it would rather have rows column by column, in [`RowSink::columns`]. Statements that
    /// make only rows hand over rows all the same.
    fn takes_columns(&self) -> bool {
        false
    }

    /// The next rows, column by column; for a sink that [takes](RowSink::takes_columns) them.
    fn columns(&mut self, columns: &Columns, context: &Context<'_>) -> Result<Flow, SqlError> {
        let mut batch = Batch::new(columns.columns().len());
        for at in 0..columns.len() {
            batch.push(columns.columns().iter().map(|column| column.get(at)));
        }
        self.rows(&batch, context)
    }

    /// A statement of [`Session::simple`](crate::Session::simple) is complete.
    fn complete(&mut self, completion: &Completion) -> Result<(), SqlError> {
        let _ = completion;
        Ok(())
    }

    /// Something to know about a statement that succeeds; before its end.
    fn notice(&mut self, notice: &Notice) -> Result<(), SqlError> {
        let _ = notice;
        Ok(())
    }

    /// A COPY begins: its data follow, or are asked for.
    fn copy_begins(&mut self, copy: &CopyShape) -> Result<(), SqlError> {
        let _ = copy;
        Ok(())
    }

    /// Bytes of `COPY TO STDOUT`, in their order.
    fn copy_out(&mut self, data: &[u8]) -> Result<(), SqlError> {
        let _ = data;
        Ok(())
    }

    /// Appends the next bytes for `COPY FROM STDIN`; false at their end.
    fn copy_in(&mut self, data: &mut Vec<u8>) -> Result<bool, SqlError> {
        let _ = data;
        Ok(false)
    }
}

/// Direction and form of the data of a COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyShape {
    /// Whether the client sends the data.
    pub is_from_client: bool,
    /// Whether they are in the binary form.
    pub is_binary: bool,
    /// Whether they are in the encoding that the statement names, which is not the client's.
    pub has_encoding: bool,
    /// Columns of a row.
    pub columns: usize,
}

/// The end of a statement: its command tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The command, as in `SELECT` or `CREATE TABLE`.
    pub command: &'static str,
    /// Rows that it returned or changed, where the tag has their number.
    pub rows: Option<u64>,
    /// Whether it has stopped because the sink wanted no more, or the limit of rows was reached.
    pub is_suspended: bool,
}

impl Completion {
    /// The end of a command whose tag has no number.
    pub fn new(command: &'static str) -> Self {
        Self {
            command,
            rows: None,
            is_suspended: false,
        }
    }

    /// The end of a command that has returned or changed rows.
    pub fn with_rows(command: &'static str, rows: u64) -> Self {
        Self {
            command,
            rows: Some(rows),
            is_suspended: false,
        }
    }
}

impl fmt::Display for Completion {
    /// The tag as `PostgreSQL` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rows {
            None => f.write_str(self.command),
            // The 0 was the number of a row, when rows had numbers.
            Some(rows) if self.command == "INSERT" => write!(f, "INSERT 0 {rows}"),
            Some(rows) => write!(f, "{} {rows}", self.command),
        }
    }
}
