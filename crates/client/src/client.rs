//! The trait of clients, and the answers that they give.
//!
//! One call runs one text, which may have several statements. Each statement ends with `done`, or
//! the whole call with an error; rows come one at a time between `columns` and `done`. A sink whose
//! output fails ends the call, and the client stays usable.

use std::io;
use thiserror::Error;

/// Something that runs SQL.
pub trait Client {
    /// Runs the statements of a text.
    fn run(&mut self, text: &str, sink: &mut dyn Sink) -> Result<(), Error>;
    /// Whether a transaction is open.
    fn status(&self) -> Status;
    /// A way to stop the running statement from another thread.
    fn cancel(&self) -> Box<dyn Cancel>;
    /// Cost of the last commit on the medium, where that is known.
    fn cost(&self) -> Option<String> {
        None
    }
    /// One more client of the same database.
    fn another(&self) -> Result<Box<dyn Client>, Error>;

    /// Runs a text and keeps its answers in memory, the failure included.
    fn ask(&mut self, text: &str) -> Result<Answers, Error> {
        let mut answers = Answers::default();
        match self.run(text, &mut answers) {
            Err(Error::Statement(report)) => answers.failure = Some(*report),
            other => other?,
        }
        Ok(answers)
    }
}

/// Stops a running statement.
pub trait Cancel: Send + Sync {
    /// Asks for it; the statement ends with an error soon after.
    fn cancel(&self);
}

/// Receives the answers to statements, and ignores those that it has no function for.
pub trait Sink {
    /// A statement will have rows with these columns.
    fn columns(&mut self, _columns: &[Column]) -> io::Result<()> {
        Ok(())
    }
    /// One row; NULL is `None`.
    fn row(&mut self, _values: &[Option<&str>]) -> io::Result<()> {
        Ok(())
    }
    /// A statement has ended. The tag is that of the protocol, such as `INSERT 0 1`.
    fn done(&mut self, _tag: &str) -> io::Result<()> {
        Ok(())
    }
    /// A warning or a note of the database.
    fn notice(&mut self, _notice: &Report) {}
    /// Data of `COPY ... TO STDOUT`.
    fn copy_out(&mut self, _data: &[u8]) -> io::Result<()> {
        Ok(())
    }
    /// The next data for `COPY ... FROM STDIN`; `None` at their end.
    fn copy_in(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

/// Whether a session has a transaction open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// None is open.
    Idle,
    /// One is open.
    Open,
    /// One is open and has failed: only its end is accepted.
    Failed,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The number of its type in PostgreSQL's catalogue.
    pub type_oid: u32,
}

impl Column {
    /// Whether the values are numbers, which stand on the right of a column.
    pub fn is_number(&self) -> bool {
        matches!(self.type_oid, 20 | 21 | 23 | 26 | 700 | 701 | 790 | 1700)
    }

    /// Whether the values are `t` and `f`.
    pub fn is_bool(&self) -> bool {
        self.type_oid == 16
    }
}

/// How serious a report is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Severity {
    /// The statement failed.
    #[default]
    Error,
    /// Everything else, by its name: `WARNING`, `NOTICE`, `INFO`, `FATAL`.
    Other(String),
}

/// An error or a notice of the database, with the fields of PostgreSQL's protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How serious it is.
    pub severity: Severity,
    /// The SQLSTATE, five characters.
    pub state: String,
    /// One sentence.
    pub message: String,
    /// More about the cause.
    pub detail: Option<String>,
    /// A remedy.
    pub hint: Option<String>,
    /// The place in the data of a COPY, or in another text than the statement's.
    pub context: Option<String>,
    /// The character of the text that is meant, from 1.
    pub position: Option<usize>,
}

impl Report {
    /// An error without details.
    pub fn error(state: &str, message: impl Into<String>) -> Self {
        Self {
            state: state.to_owned(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// `ERROR`, `WARNING` and so on.
    pub fn severity(&self) -> &str {
        match &self.severity {
            Severity::Error => "ERROR",
            Severity::Other(name) => name,
        }
    }
}

/// A call that did not succeed.
#[derive(Debug, Error)]
pub enum Error {
    /// A statement failed; the client goes on.
    #[error("{}", .0.message)]
    Statement(Box<Report>),
    /// There is no client any more.
    #[error("{0}")]
    Lost(String),
    /// The sink could not take the answer.
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// The answer to one statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Columns of its rows; none if it has no rows.
    pub columns: Vec<Column>,
    /// The rows; NULL is `None`.
    pub rows: Vec<Vec<Option<String>>>,
    /// The tag of the statement, such as `SELECT 2`.
    pub tag: String,
    /// Data that COPY sent.
    pub copied: Vec<u8>,
}

impl Answer {
    /// The number at the end of the tag: rows that were changed or found.
    pub fn count(&self) -> Option<u64> {
        self.tag.rsplit(' ').next()?.parse().ok()
    }
}

/// The answers to the statements of a text.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// One for each statement that ended.
    pub answers: Vec<Answer>,
    /// The error that ended the text.
    pub failure: Option<Report>,
    /// Warnings and notes.
    pub notices: Vec<Report>,
    /// Data that `COPY ... FROM STDIN` will read.
    pub input: Option<Vec<u8>>,
    pub(crate) open: Answer,
}

impl Answers {
    /// Answers of statements that read these data.
    pub fn with_input(input: Vec<u8>) -> Self {
        Self {
            input: Some(input),
            ..Self::default()
        }
    }

    /// The last answer that has columns, or else the last one.
    pub fn last(&self) -> Option<&Answer> {
        let with_columns = self
            .answers
            .iter()
            .rfind(|answer| !answer.columns.is_empty());
        with_columns.or(self.answers.last())
    }
}

impl Sink for Answers {
    fn columns(&mut self, columns: &[Column]) -> io::Result<()> {
        self.open.columns = columns.to_vec();
        Ok(())
    }

    fn row(&mut self, values: &[Option<&str>]) -> io::Result<()> {
        let row = values.iter().map(|value| value.map(str::to_owned));
        self.open.rows.push(row.collect());
        Ok(())
    }

    fn done(&mut self, tag: &str) -> io::Result<()> {
        tag.clone_into(&mut self.open.tag);
        self.answers.push(std::mem::take(&mut self.open));
        Ok(())
    }

    fn notice(&mut self, notice: &Report) {
        self.notices.push(notice.clone());
    }

    fn copy_out(&mut self, data: &[u8]) -> io::Result<()> {
        self.open.copied.extend_from_slice(data);
        Ok(())
    }

    fn copy_in(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.input.take())
    }
}
