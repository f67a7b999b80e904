//! Results as streams of Arrow's C stream interface.
//!
//! A stream is a structure of the caller with four functions. It keeps its connection alive, counts
//! as one of its statements, and pulls rows from it a batch at a time; another statement of the
//! connection reads the rest into memory first, as for any result.
//!
//! Invariants: memory of a schema or an array is freed by its `release`, once, which also releases
//! those children that nobody has moved out; no panic leaves one of the functions.

mod column;
mod ffi;

use crate::code::INDELIBLE_OK;
use crate::edge::out;
use crate::failure::Failure;
use crate::handle::{Connection, indelible_statement};
use crate::statement::{Statement, with};
use client::ResultId;
use column::Column;
pub use ffi::ArrowArrayStream;
use sql::types::Context;
use sql::{Batch, Flow, OutputColumn, RowSink, SqlError};
use std::ffi::{CString, c_int};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Rows of a batch, at most about.
const BATCH_ROWS: usize = 1 << 16;
/// Bytes of texts in a batch, at most about: offsets have 31 bits.
const TEXT_BYTES_MAX: usize = 1 << 28;

/// Runs a statement, which must not be running, with its bound values, and makes its rows a stream
/// of Arrow's C stream interface in *stream, which is not released before. Its columns have the
/// formats that docs/c.md lists. The program releases the stream, and until then the connection
/// cannot be closed. The statement is free again at once.
///
/// The functions of the stream are for one thread at a time, as the connection is. They return 0,
/// or EIO with a text that begins with the SQLSTATE.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_arrow_stream(
    statement: *mut indelible_statement,
    stream: *mut ArrowArrayStream,
) -> c_int {
    with(statement, |statement| {
        let stream = out(stream, "stream")?;
        stream.set(ffi::stream(Reader::run(statement)?));
        Ok(INDELIBLE_OK)
    })
}

/// The rows of a result, as they are read.
struct Reader {
    connection: Arc<Connection>,
    names: Vec<(String, CString)>,
    first: Option<Batch>,
    rest: Option<ResultId>,
    gather: Gather,
}

impl Reader {
    fn run(statement: &mut Statement) -> Result<Self, Failure> {
        let (connection, done) = statement.run_whole()?;
        let columns = done.columns.as_deref().unwrap_or_default();
        let named = |column: &OutputColumn| {
            let name = CString::new(column.name.as_str()).unwrap_or_default();
            (column::format(column.data_type), name)
        };
        connection.statements.fetch_add(1, Ordering::AcqRel);
        Ok(Self {
            names: columns.iter().map(named).collect(),
            gather: Gather::new(columns),
            first: Some(done.rows).filter(|_| !columns.is_empty()),
            rest: done.result,
            connection,
        })
    }

    /// The columns of the next batch, with the number of their rows; none at the end. After an
    /// error there are none.
    fn next(&mut self) -> Result<Option<(Vec<Column>, usize)>, Failure> {
        let filled = self.fill();
        if filled.is_err() {
            self.gather.take();
            self.gather.take_later();
        }
        filled?;
        Ok(self.gather.take())
    }

    /// Gathers rows until there are enough for a batch, or no more.
    fn fill(&mut self) -> Result<(), Failure> {
        let gather = &mut self.gather;
        let mut client = self.connection.client()?;
        let first = self.first.take();
        if let Some(rows) = first.or_else(|| gather.take_later()) {
            gather.rows(&rows, &client.session().context())?;
        }
        while let Some(rest) = self.rest
            && gather.flow() == Flow::More
        {
            // It has no more if it fails.
            self.rest = None;
            let has_more = client.pull(rest, gather)?;
            self.rest = has_more.then_some(rest);
        }
        Ok(())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(rest) = self.rest
            && let Ok(mut client) = self.connection.client()
        {
            // An error of the end of a result that nobody reads is nobody's.
            let _ = client.close(rest);
        }
        self.connection.statements.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Gathers rows until there are enough for a batch.
struct Gather {
    columns: Vec<Column>,
    rows: usize,
    text_bytes: usize,
    /// Rows that have come and are for the next batch.
    later: Batch,
}

impl Gather {
    fn new(columns: &[OutputColumn]) -> Self {
        let columns = columns.iter().map(|column| Column::new(column.data_type));
        Self {
            columns: columns.collect(),
            rows: 0,
            text_bytes: 0,
            later: Batch::default(),
        }
    }

    /// The rows that were for the next batch, which is this one.
    fn take_later(&mut self) -> Option<Batch> {
        Some(std::mem::take(&mut self.later)).filter(|later| !later.is_empty())
    }

    /// Adds rows one by one, until the batch has enough of them; the others are for the next one.
    fn add_some(&mut self, batch: &Batch, context: &Context<'_>) -> Result<(), SqlError> {
        for row in batch.rows() {
            if self.flow() == Flow::Full {
                if self.later.is_empty() {
                    self.later.reset(batch.width());
                }
                self.later.push(row.iter().cloned());
                continue;
            }
            for (column, value) in self.columns.iter_mut().zip(row) {
                self.text_bytes += column.push(value, context)?;
            }
            self.rows += 1;
        }
        Ok(())
    }

    fn flow(&self) -> Flow {
        if self.rows >= BATCH_ROWS || self.text_bytes >= TEXT_BYTES_MAX {
            Flow::Full
        } else {
            Flow::More
        }
    }

    fn take(&mut self) -> Option<(Vec<Column>, usize)> {
        let rows = std::mem::take(&mut self.rows);
        self.text_bytes = 0;
        let columns = self.columns.iter_mut().map(Column::take);
        (rows > 0).then(|| (columns.collect(), rows))
    }
}

impl RowSink for Gather {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, context: &Context<'_>) -> Result<Flow, SqlError> {
        let columns = self.columns.iter().enumerate();
        let weights = columns.map(|(at, column)| {
            let weights = batch.rows().map(|row| column.weight(&row[at]));
            weights.sum::<usize>()
        });
        if weights.sum::<usize>().saturating_add(self.text_bytes) > TEXT_BYTES_MAX {
            self.add_some(batch, context)?;
            return Ok(self.flow());
        }
        for (at, column) in self.columns.iter_mut().enumerate() {
            for row in batch.rows() {
                self.text_bytes += column.push(&row[at], context)?;
            }
        }
        self.rows += batch.len();
        Ok(self.flow())
    }
}
