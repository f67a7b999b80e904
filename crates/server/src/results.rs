//! Results of statements, written as messages as they come.
//!
//! A value is written straight into the buffer of answers: integers and texts without a detour,
//! all others by the printers of their types. When there is much of it, it is sent; nothing of the
//! database is held meanwhile but the statement's own locks.

use crate::encoding::{self, utf8};
use crate::link::{Broken, Link};
use crate::message::answers::{Severity, patch_length};
use crate::message::{Format, Formats, Request};
use sql::types::{Context, Datum, Kind, binary_io, text_io};
use sql::{
    Batch, Completion, CopyShape, Encoding, Flow, Notice, OutputColumn, RowSink, SqlError, SqlState,
};

/// The protocol by which a statement came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// A text; its results have a description of their columns, and an end each.
    Simple,
    /// A portal, which is described and ended by messages of their own.
    Extended,
}

/// Receiver of the results of a message.
pub(crate) struct Results<'a> {
    link: &'a mut Link,
    protocol: Protocol,
    formats: &'a Formats,
    /// Kind and format of each column.
    columns: Vec<(Kind, Format)>,
    scratch: String,
    /// Whether any statement has ended.
    pub(crate) has_ended: bool,
    /// A COPY that sends data, whose end the client has not been told.
    is_copying_out: bool,
    /// The encoding to and from which the data of a COPY are converted; none is UTF-8.
    copy_encoding: Option<&'static Encoding>,
    /// Whether the next result is of a binary cursor.
    is_binary: bool,
    /// Least weight of notices that the client wants.
    /// The failure of the connection, which ends the statement.
    pub(crate) broken: Option<Broken>,
    body: Vec<u8>,
}

/// Most bytes of a message that has a row: those of the largest value. Clients read its length as
/// a number with a sign.
const ROW_BYTES_MAX: usize = 0x3fff_ffff;

fn check_length(bytes: usize) -> Result<(), SqlError> {
    if bytes <= ROW_BYTES_MAX {
        return Ok(());
    }
    let state = SqlState::PROGRAM_LIMIT_EXCEEDED;
    let detail = format!("A row has at most {ROW_BYTES_MAX} bytes in a message.");
    Err(SqlError::new(state, "out of memory").detail(detail))
}

impl<'a> Results<'a> {
    pub(crate) fn new(link: &'a mut Link, protocol: Protocol, formats: &'a Formats) -> Self {
        Self {
            link,
            protocol,
            formats,
            columns: Vec::new(),
            scratch: String::new(),
            has_ended: false,
            is_copying_out: false,
            copy_encoding: None,
            is_binary: false,
            broken: None,
            body: Vec::new(),
        }
    }

    /// Sets the columns of rows that come from a portal which was begun before.
    pub(crate) fn set_columns(&mut self, columns: &[OutputColumn]) {
        self.set_columns_in(columns, self.formats);
    }

    fn set_columns_in(&mut self, columns: &[OutputColumn], formats: &Formats) {
        let column = |(at, column): (usize, &OutputColumn)| (column.data_type.kind, formats.of(at));
        self.columns = columns.iter().enumerate().map(column).collect();
    }

    /// Ends the data of a COPY, if there are any.
    pub(crate) fn end_copy(&mut self) {
        if std::mem::take(&mut self.is_copying_out) {
            self.link.answers.copy_done();
        }
    }

    /// Appends a row; if it fails, nothing.
    fn row(&mut self, row: &[Datum], context: &Context<'_>) -> Result<(), SqlError> {
        let before = self.link.answers.bytes.len();
        let done = self.print_row(row, context);
        if done.is_err() {
            self.link.answers.bytes.truncate(before);
        }
        done
    }

    fn print_row(&mut self, row: &[Datum], context: &Context<'_>) -> Result<(), SqlError> {
        let encoding = self.link.answers.encoding;
        let out = &mut self.link.answers.bytes;
        out.push(b'D');
        let start = out.len();
        out.extend([0; 4]);
        out.extend((row.len() as u16).to_be_bytes());
        for (value, (kind, format)) in row.iter().zip(&self.columns) {
            if matches!(value, Datum::Null) {
                out.extend((-1_i32).to_be_bytes());
                continue;
            }
            let at = out.len();
            out.extend([0; 4]);
            match (format, value, encoding) {
                (Format::Binary, value, None) => binary_io::print(out, value, *kind, context)?,
                (Format::Binary, value, Some(encoding)) => {
                    encoding::print_binary(out, (value, *kind), encoding, context)?;
                }
                (Format::Text, Datum::Text(text) | Datum::Bpchar(text), encoding) => {
                    encoding::print_text(out, text, encoding)?;
                }
                (Format::Text, value, encoding) => {
                    self.scratch.clear();
                    text_io::print_into(&mut self.scratch, value, *kind, context)?;
                    encoding::print_text(out, &self.scratch, encoding)?;
                }
            }
            patch_length(out, at, 4);
            check_length(out.len() - start)?;
        }
        patch_length(out, start, 0);
        Ok(())
    }

    /// Sends the answers if there are many; a failure ends the statement and the connection.
    fn send_much(&mut self) -> Result<(), SqlError> {
        let sent = self.link.flush_much().map_err(Broken::from);
        self.passed(sent)
    }

    fn passed<T>(&mut self, result: Result<T, Broken>) -> Result<T, SqlError> {
        result.map_err(|broken| {
            let told = SqlError::new(SqlState::IO_ERROR, broken.to_string());
            self.broken = Some(broken);
            told
        })
    }
}

impl RowSink for Results<'_> {
    fn describe(&mut self, columns: &[OutputColumn]) -> Result<(), SqlError> {
        let binary = Formats::new(vec![Format::Binary]);
        let is_binary = std::mem::take(&mut self.is_binary);
        let formats = if is_binary { &binary } else { self.formats };
        self.set_columns_in(columns, formats);
        if self.protocol == Protocol::Simple {
            self.link.answers.columns(columns, formats);
        }
        Ok(())
    }

    /// A client says in its Bind message what it wants, and in a text it cannot.
    fn begin_binary(&mut self) {
        self.is_binary = self.protocol == Protocol::Simple;
    }

    fn rows(&mut self, batch: &Batch, context: &Context<'_>) -> Result<Flow, SqlError> {
        for row in batch.rows() {
            self.row(row, context)?;
            self.send_much()?;
        }
        Ok(Flow::More)
    }

    fn complete(&mut self, completion: &Completion) -> Result<(), SqlError> {
        self.end_copy();
        self.has_ended = true;
        self.link.answers.command_complete(&completion.to_string());
        Ok(())
    }

    fn notice(&mut self, notice: &Notice) -> Result<(), SqlError> {
        let severity = match notice.severity {
            sql::Severity::Warning => Severity::Warning,
            sql::Severity::Notice => Severity::Notice,
        };
        self.link.answers.report(severity, &notice.content);
        Ok(())
    }

    fn copy_begins(&mut self, copy: &CopyShape) -> Result<(), SqlError> {
        let of_client = self.link.answers.encoding;
        self.copy_encoding = of_client.filter(|_| !copy.has_encoding);
        encoding::check_copy(copy, self.copy_encoding)?;
        self.link.answers.copy_begins(copy);
        self.is_copying_out = !copy.is_from_client;
        Ok(())
    }

    fn copy_out(&mut self, data: &[u8]) -> Result<(), SqlError> {
        check_length(data.len())?;
        match self.copy_encoding {
            None => self.link.answers.copy_data(data),
            Some(encoding) => {
                let mut encoded = Vec::with_capacity(data.len());
                encoding.encode(utf8(data)?, &mut encoded)?;
                self.link.answers.copy_data(&encoded);
            }
        }
        self.send_much()
    }

    fn copy_in(&mut self, data: &mut Vec<u8>) -> Result<bool, SqlError> {
        loop {
            let kind = self.link.request(&mut self.body);
            let kind = self.passed(kind)?;
            let request = Request::read(kind, &self.body).map_err(Broken::from);
            // The body is borrowed by the request, so a failure is kept by hand.
            match request {
                Ok(Request::CopyData(bytes)) => {
                    match self.copy_encoding {
                        None => data.extend_from_slice(bytes),
                        Some(encoding) => data.extend(encoding.decode(bytes)?.into_bytes()),
                    }
                    return Ok(true);
                }
                Ok(Request::CopyDone) => return Ok(false),
                Ok(Request::CopyFail(reason)) => {
                    let reason = String::from_utf8_lossy(reason);
                    let message = format!("COPY from stdin failed: {reason}");
                    return Err(SqlError::new(SqlState::QUERY_CANCELED, message));
                }
                // Clients that send many messages at once may send these before the data.
                Ok(Request::Flush | Request::Sync) => {}
                Ok(_) => {
                    let what = crate::message::Malformed::UnknownKind(kind);
                    return self.passed(Err(Broken::Malformed(what)));
                }
                Err(broken) => return self.passed(Err(broken)),
            }
        }
    }
}
