//! A session in this process.
//!
//! Values become texts in the way of the session, batch by batch. Notices come before the end of
//! the statement that they belong to. The database stays open as long as a client of it lives.

use crate::client::{Cancel, Client, Column, Error, Report, Severity, Sink, Status};
use indelible::Database;
use sql::types::{Context, Datum};
use sql::{
    Batch, Completion, Flow, Notice, OutputColumn, RowSink, Session, Sql, SqlError, SqlState,
    TransactionStatus,
};
use std::io;
use std::sync::Arc;

/// A client in this process.
pub struct LocalClient {
    sql: Arc<Sql>,
    session: Session,
}

impl LocalClient {
    /// Opens SQL in a database.
    pub fn open(database: Database) -> Result<Self, Error> {
        Self::connect(&Sql::open(database).map_err(failed)?)
    }

    /// A session of a database that is open.
    pub fn connect(sql: &Arc<Sql>) -> Result<Self, Error> {
        Ok(Self {
            session: sql.connect().map_err(failed)?,
            sql: Arc::clone(sql),
        })
    }
}

impl Client for LocalClient {
    fn run(&mut self, text: &str, sink: &mut dyn Sink) -> Result<(), Error> {
        let mut texts = Texts {
            sink,
            columns: Vec::new(),
            buffer: String::new(),
            ends: Vec::new(),
            failure: None,
        };
        let result = self.session.simple(text, &mut texts);
        let failure = texts.failure.take();
        for notice in self.session.take_notices() {
            sink.notice(&notice_report(&notice));
        }
        match failure {
            Some(error) => Err(Error::Output(error)),
            None => result.map_err(failed),
        }
    }

    fn status(&self) -> Status {
        match self.session.status() {
            TransactionStatus::Idle => Status::Idle,
            TransactionStatus::Open => Status::Open,
            TransactionStatus::Failed => Status::Failed,
        }
    }

    fn cancel(&self) -> Box<dyn Cancel> {
        Box::new(Interrupt(self.session.interrupt()))
    }

    fn cost(&self) -> Option<String> {
        let report = self.session.last_commit()?;
        Some(format!(
            "commit: {} changed, fences={} lines={} stored={} B files={} B",
            report.changes,
            report.fences,
            report.lines_flushed,
            report.bytes_stored,
            report.bytes_written
        ))
    }

    fn another(&self) -> Result<Box<dyn Client>, Error> {
        Ok(Box::new(Self::connect(&self.sql)?))
    }
}

struct Interrupt(indelible::Interrupt);

impl Cancel for Interrupt {
    fn cancel(&self) {
        self.0.raise();
    }
}

fn failed(error: SqlError) -> Error {
    Error::Statement(Box::new(report(error)))
}

fn report(error: SqlError) -> Report {
    Report {
        severity: Severity::Error,
        state: error.state.to_string(),
        message: error.message,
        detail: error.detail,
        hint: error.hint,
        context: error.names.and_then(|names| names.context),
        position: error.position,
    }
}

fn notice_report(notice: &Notice) -> Report {
    let severity = match notice.severity {
        sql::Severity::Notice => "NOTICE",
        sql::Severity::Warning => "WARNING",
    };
    Report {
        severity: Severity::Other(severity.to_owned()),
        ..report(notice.content.clone())
    }
}

/// Makes texts of values.
struct Texts<'a> {
    sink: &'a mut dyn Sink,
    columns: Vec<OutputColumn>,
    /// The texts of a row, one after the other.
    buffer: String,
    /// The end of each of them; NULL has none.
    ends: Vec<Option<usize>>,
    /// The error of the sink, which ends the statement.
    failure: Option<io::Error>,
}

impl Texts<'_> {
    fn passed<T>(&mut self, result: io::Result<T>) -> Result<T, SqlError> {
        result.map_err(|error| {
            let told = SqlError::new(SqlState::IO_ERROR, error.to_string());
            self.failure = Some(error);
            told
        })
    }

    fn row(&mut self, row: &[Datum], context: &Context<'_>) -> Result<(), SqlError> {
        self.buffer.clear();
        self.ends.clear();
        for (value, column) in row.iter().zip(&self.columns) {
            if matches!(value, Datum::Null) {
                self.ends.push(None);
                continue;
            }
            sql::types::text_io::print_into(
                &mut self.buffer,
                value,
                column.data_type.kind,
                context,
            )?;
            self.ends.push(Some(self.buffer.len()));
        }
        let mut start = 0;
        let texts = self.ends.iter().map(|end| {
            let end = (*end)?;
            Some(&self.buffer[std::mem::replace(&mut start, end)..end])
        });
        let texts: Vec<Option<&str>> = texts.collect();
        let sent = self.sink.row(&texts);
        self.passed(sent)
    }
}

impl RowSink for Texts<'_> {
    fn describe(&mut self, columns: &[OutputColumn]) -> Result<(), SqlError> {
        self.columns = columns.to_vec();
        let column = |column: &OutputColumn| Column {
            name: column.name.clone(),
            type_oid: column.data_type.kind.oid(),
        };
        let columns: Vec<Column> = columns.iter().map(column).collect();
        let sent = self.sink.columns(&columns);
        self.passed(sent)
    }

    fn rows(&mut self, batch: &Batch, context: &Context<'_>) -> Result<Flow, SqlError> {
        for row in batch.rows() {
            self.row(row, context)?;
        }
        Ok(Flow::More)
    }

    fn complete(&mut self, completion: &Completion) -> Result<(), SqlError> {
        let sent = self.sink.done(&completion.to_string());
        self.passed(sent)
    }

    fn notice(&mut self, notice: &Notice) -> Result<(), SqlError> {
        self.sink.notice(&notice_report(notice));
        Ok(())
    }

    fn copy_out(&mut self, data: &[u8]) -> Result<(), SqlError> {
        let sent = self.sink.copy_out(data);
        self.passed(sent)
    }

    fn copy_in(&mut self, data: &mut Vec<u8>) -> Result<bool, SqlError> {
        let read = self.sink.copy_in();
        let more = self.passed(read)?;
        data.extend_from_slice(more.as_deref().unwrap_or_default());
        Ok(more.is_some())
    }
}
