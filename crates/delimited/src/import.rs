//! The reading half of `import`: the names of the columns, the types of their values, and rows.
//!
//! Bad rows are counted and the first of them told, so that a file is mended in one go; what becomes of the others the caller says, who
//! has the transaction. Its progress is told in bytes of the file, now and then.

use crate::infer::Guess;
use crate::records::{CsvError, CsvReader, Field, Record};
use anyhow::{Result, anyhow, bail};
use indelible::{Column, DataType, Row, Table, Transaction, Value};
use std::io::{BufReader, Read};
use std::path::Path;

/// Bad rows that are reported one by one.
const REPORTED_MAX: usize = 20;
/// Rows between two reports of the progress.
const PROGRESS_ROWS: u64 = 1024;
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 18;

/// A file that is imported.
pub struct Input {
    reader: CsvReader<BufReader<Box<dyn Read>>>,
}

impl Input {
    /// Reads a file whose fields are separated by this byte.
    pub fn new(file: Box<dyn Read>, separator: u8) -> Self {
        let file = BufReader::with_capacity(BUFFER_BYTES, file);
        Self {
            reader: CsvReader::new(file, separator),
        }
    }

    /// The column names in the first record. The name of the file is for errors.
    pub fn header(&mut self, file: &Path) -> Result<Vec<String>> {
        let file = file.display();
        let mut record = Record::default();
        match self.reader.read(&mut record) {
            Ok(true) => {}
            Ok(false) => bail!("{file} is empty; the first line must name the columns"),
            Err(error) => bail!("{file}, {error}"),
        }
        let names: Vec<String> = record
            .fields
            .into_iter()
            .map(|field| field.text.trim().to_owned())
            .collect();
        if names.iter().any(String::is_empty) {
            bail!("{file}, line 1: a column has no name; the first line must name the columns");
        }
        for (at, name) in names.iter().enumerate() {
            if names[..at].contains(name) {
                bail!("{file}, line 1: column `{name}` is named twice; give each its own name");
            }
        }
        Ok(names)
    }

    /// Looks at every value behind the header. Malformed rows are left to the second pass, which reports them.
    pub fn guess(&mut self, columns: usize, progress: &mut dyn FnMut(u64)) -> Result<Vec<Guess>> {
        let mut guesses = vec![Guess::new(); columns];
        let mut record = Record::default();
        let mut rows = 0_u64;
        loop {
            match self.reader.read(&mut record) {
                Ok(false) | Err(CsvError::Lost { .. }) => return Ok(guesses),
                Ok(true) if record.fields.len() == columns => {
                    for (guess, field) in guesses.iter_mut().zip(&record.fields) {
                        guess.see((!field.is_null()).then_some(&field.text));
                    }
                }
                // The second pass reports these.
                Ok(true) | Err(CsvError::Malformed { .. }) => {}
                Err(CsvError::Io(error)) => return Err(error.into()),
            }
            rows += 1;
            if rows.is_multiple_of(PROGRESS_ROWS) {
                progress(self.reader.bytes());
            }
        }
    }

    /// Inserts every row behind the header; `targets` are the table's columns of the fields.
    pub fn insert(
        &mut self,
        transaction: &mut Transaction<'_>,
        table: &Table,
        targets: &[usize],
        progress: &mut dyn FnMut(u64),
    ) -> Result<Inserted> {
        let mut filler = Filler {
            table,
            targets,
            columns: table.definition().columns,
            row: table.row(),
        };
        let mut record = Record::default();
        let (mut rows, mut problems) = (0_u64, Problems::default());
        loop {
            match self.reader.read(&mut record) {
                Ok(false) => break,
                Ok(true) => match filler.insert(transaction, &record) {
                    Ok(()) => rows += 1,
                    Err(problem) => problems.add(problem)?,
                },
                Err(CsvError::Io(error)) => return Err(error.into()),
                Err(error @ CsvError::Lost { .. }) => {
                    problems.add(Problem::Row(error.to_string()))?;
                    break;
                }
                Err(error) => problems.add(Problem::Row(error.to_string()))?,
            }
            if (rows + problems.count).is_multiple_of(PROGRESS_ROWS) {
                progress(self.reader.bytes());
            }
        }
        Ok(Inserted { rows, problems })
    }
}

/// What an import has done.
#[derive(Debug)]
pub struct Inserted {
    /// Rows that are in.
    pub rows: u64,
    /// Those that are not.
    pub problems: Problems,
}

/// What is wrong with one row, or with everything.
enum Problem {
    Row(String),
    /// The import cannot go on.
    Fatal(anyhow::Error),
}

/// Bad rows of a file.
#[derive(Debug, Default)]
pub struct Problems {
    /// How many.
    pub count: u64,
    /// What is wrong with some of them.
    pub first: Vec<String>,
}

impl Problems {
    fn add(&mut self, problem: Problem) -> Result<()> {
        match problem {
            Problem::Fatal(error) => return Err(error),
            Problem::Row(text) => {
                self.count += 1;
                if self.first.len() < REPORTED_MAX {
                    self.first.push(text);
                }
            }
        }
        Ok(())
    }
}

/// Turns records into rows of a table.
struct Filler<'t> {
    table: &'t Table,
    /// The table's column of each field.
    targets: &'t [usize],
    columns: Vec<Column>,
    row: Row,
}

impl Filler<'_> {
    fn insert(
        &mut self,
        transaction: &mut Transaction<'_>,
        record: &Record,
    ) -> Result<(), Problem> {
        let line = record.line;
        if record.fields.len() != self.targets.len() {
            return Err(Problem::Row(format!(
                "line {line}: {} fields, but the header has {}",
                record.fields.len(),
                self.targets.len()
            )));
        }
        self.row.clear();
        for (field, target) in record.fields.iter().zip(self.targets) {
            let column = &self.columns[*target];
            set(&mut self.row, *target, column.data_type, field).map_err(|error| {
                Problem::Row(format!("line {line}, column `{}`: {error}", column.name))
            })?;
        }
        transaction
            .insert(self.table, &self.row)
            .map_err(|error| match error {
                indelible::Error::DuplicateKey { .. }
                | indelible::Error::Record(_)
                | indelible::Error::Key { .. } => Problem::Row(format!("line {line}: {error}")),
                other => Problem::Fatal(anyhow!(other).context(format!("line {line}"))),
            })
    }
}

fn set(row: &mut Row, column: usize, data_type: DataType, field: &Field) -> Result<()> {
    if field.is_null() {
        return Ok(row.set(column, &Value::Null)?);
    }
    let value = Value::parse(data_type, &field.text)?;
    Ok(row.set(column, &value)?)
}
