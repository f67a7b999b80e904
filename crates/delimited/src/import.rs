//! The reading half of `import`: the names of the columns, the types of their values, and rows.
//!
//! Bad rows are counted and the first of them reported, so that a file can be corrected in one go;
//! the caller, who has the transaction, decides about the good ones. Bad rows can be written out as
//! they are in the file. The progress is reported in bytes of the file, now and then.
//!
//! A first line that ends with a separator means that all lines do, as in the files of TPC
//! benchmarks: there is no column after it.

use crate::infer::{Guess, null_word};
use crate::records::{Dialect, Record, RecordError, Records, Shape};
use crate::source::{Passes, Source};
use anyhow::{Context, Result, anyhow, bail};
use indelible::{Column, DataType, Row, Table, Transaction, Value};
use std::io::{self, Write};
use std::path::Path;

/// Bad rows that are reported one by one.
const REPORTED_MAX: usize = 20;
/// Characters of a bad value that are reported.
const REPORTED_CHARACTERS_MAX: usize = 300;
/// Rows between two reports of the progress.
const PROGRESS_ROWS: u64 = 1024;

/// Where the names of the columns come from.
#[derive(Clone, Debug)]
pub enum Names {
    /// The first line of the file.
    FirstLine,
    /// The caller; every line of the file is a row.
    Given(Vec<String>),
    /// Nowhere: every line of the file is a row, and its columns are `column1` and so on.
    Numbered,
}

/// How a file is to be read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// How its text is to be understood.
    pub dialect: Dialect,
    /// Where the names of the columns come from.
    pub names: Names,
    /// Fields outside quotes that are NULL, besides the empty one. The empty text among them means
    /// that `""` is NULL too.
    pub nulls: Vec<String>,
}

/// A file that is imported.
pub struct Input {
    name: String,
    records: Records<Source>,
    record: Record,
    reading: Reading,
    columns: Vec<String>,
    /// The line with the names, as it is in the file.
    header: Vec<u8>,
    shape: Shape,
    separator_hint: Option<String>,
}

impl Input {
    /// Opens a file, `-` for standard input, and reads the names of its columns.
    pub fn open(path: &Path, reading: Reading, passes: Passes) -> Result<Self> {
        let name = if path == Path::new("-") {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        if path.is_dir() {
            bail!("{name} is a directory; give a CSV file");
        }
        let source = Source::open(path, passes).with_context(|| format!("cannot read {name}"))?;
        let mut input = Self {
            name,
            records: Records::new(source, reading.dialect.clone()),
            record: Record::default(),
            reading,
            columns: Vec::new(),
            header: Vec::new(),
            shape: Shape::Any,
            separator_hint: None,
        };
        match input.reading.names.clone() {
            Names::FirstLine => input.read_header()?,
            Names::Given(names) => input.take_names(names)?,
            Names::Numbered => input.number_columns()?,
        }
        input.records.set_shape(input.shape);
        input.separator_hint = input.find_separator_hint();
        Ok(input)
    }

    /// The name of the file, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the file; 0 if unknown.
    pub fn file_bytes(&self) -> u64 {
        self.records.input().file_bytes()
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    fn read_header(&mut self) -> Result<()> {
        let name = &self.name;
        match self.records.read(&mut self.record) {
            Ok(true) => {}
            Ok(false) => {
                bail!("{name} is empty; the first line must name the columns, or give --no-header")
            }
            Err(error) => return Err(self.failure(error)),
        }
        let fields = 0..self.record.len();
        let mut names: Vec<String> = fields
            .map(|at| match self.record.text(at) {
                text if self.record.is_quoted(at) => text.to_owned(),
                text => text.trim().to_owned(),
            })
            .collect();
        let line = self.record.line;
        if names.len() > 1 && self.record.is_null(names.len() - 1) {
            names.pop();
            self.shape = Shape::ColumnsAndSeparator(names.len());
        } else {
            self.shape = Shape::Columns(names.len());
        }
        if names.first().is_some_and(|first| first == "indelible-dump") {
            bail!(
                "{name} is a dump of a whole database; make a database of it with `indelible load`"
            );
        }
        if names.iter().any(|name| name.contains('\0')) {
            bail!(
                "{name}, line {line}: there are zero bytes in the names of the columns; this is no text file"
            );
        }
        for (at, column) in names.iter().enumerate() {
            if column.is_empty() {
                bail!(
                    "{name}, line {line}: column {} of {} has no name; the first line must name the columns, \
                     or give --no-header, with --columns for their names",
                    at + 1,
                    names.len()
                );
            }
            if names[..at].contains(column) {
                bail!(
                    "{name}, line {line}: column `{column}` is named twice; give each its own name"
                );
            }
        }
        self.header = self.records.raw().to_vec();
        self.columns = names;
        Ok(())
    }

    /// Looks at the first row without taking it: the number of its fields, and whether the last one
    /// is empty.
    fn first_row(&mut self) -> Result<Option<(usize, bool)>> {
        self.records.set_shape(Shape::Any);
        let found = match self.records.read(&mut self.record) {
            Ok(true) => {
                let fields = self.record.len();
                Some((fields, self.record.is_null(fields - 1)))
            }
            Ok(false) => return Ok(None),
            Err(RecordError::Malformed { .. }) => None,
            Err(error) => return Err(self.failure(error)),
        };
        self.records.step_back(&self.record);
        Ok(found)
    }

    fn take_names(&mut self, names: Vec<String>) -> Result<()> {
        let first = self.first_row()?;
        self.shape = if first == Some((names.len() + 1, true)) {
            Shape::ColumnsAndSeparator(names.len())
        } else {
            Shape::Columns(names.len())
        };
        if let Some((fields, _)) = first {
            let texts = (0..fields).map(|at| self.record.text(at).trim());
            if texts.eq(names.iter().map(String::as_str)) {
                bail!(
                    "{}, line {}: this line names the columns; leave out --no-header",
                    self.name,
                    self.record.line
                );
            }
        }
        self.columns = names;
        Ok(())
    }

    fn number_columns(&mut self) -> Result<()> {
        let Some((fields, _)) = self.first_row()? else {
            bail!(
                "{} has no first row that tells how many columns there are; name them with --columns",
                self.name
            );
        };
        self.columns = (1..=fields).map(|at| format!("column{at}")).collect();
        self.shape = Shape::Columns(fields);
        Ok(())
    }

    /// The error of the whole file that an error of reading means.
    fn failure(&self, error: RecordError) -> anyhow::Error {
        let name = &self.name;
        match error {
            RecordError::Io(error) => anyhow!(error).context(format!("cannot read {name}")),
            RecordError::Unusable(reason) => anyhow!("cannot read {name}: {reason}"),
            malformed @ RecordError::Malformed { .. } => anyhow!("{name}, {malformed}"),
        }
    }

    /// A sentence about a separator that would fit better, if the first line seems to be one field
    /// only because of that.
    pub fn separator_hint(&self) -> Option<&str> {
        self.separator_hint.as_deref()
    }

    fn find_separator_hint(&self) -> Option<String> {
        let is_header = matches!(self.reading.names, Names::FirstLine);
        let text = match (is_header, self.record.len()) {
            (true, _) if self.columns.len() == 1 => self.columns[0].as_str(),
            (false, 1) => self.record.text(0),
            _ => return None,
        };
        let separator = char::from(self.records.separator());
        let candidates = [('\t', "tab"), (';', "';'"), ('|', "'|'"), (',', "','")];
        let (times, option) = candidates
            .into_iter()
            .filter(|(candidate, _)| *candidate != separator)
            .map(|(candidate, option)| (text.matches(candidate).count(), option))
            .max_by_key(|(times, _)| *times)?;
        let separator = separator.escape_default();
        (times > 0).then(|| {
            format!(
                "the first line has no `{separator}` that separates columns; if they are separated by {}, \
                 add --separator {option}",
                option.replace('\'', "`")
            )
        })
    }

    /// Looks at every row. Malformed ones are left to the second pass, which reports them.
    pub fn guess(&mut self, progress: &mut dyn FnMut(u64)) -> Result<Vec<Guess>> {
        let mut guesses = vec![Guess::new(); self.columns.len()];
        let mut rows = 0_u64;
        loop {
            match self.records.read(&mut self.record) {
                Ok(false) => break,
                Ok(true) => {
                    for (at, guess) in guesses.iter_mut().enumerate() {
                        guess.see(value_text(&self.record, at, &self.reading.nulls));
                    }
                }
                // The second pass reports these.
                Err(RecordError::Malformed { .. }) => {}
                Err(error) => return Err(self.failure(error)),
            }
            rows += 1;
            if rows.is_multiple_of(PROGRESS_ROWS) {
                progress(self.records.input().bytes());
            }
        }
        let is_numbered = matches!(self.reading.names, Names::Numbered);
        if is_numbered && guesses.len() > 1 && guesses.last().is_some_and(Guess::is_empty) {
            guesses.pop();
            self.columns.pop();
            self.shape = Shape::ColumnsAndSeparator(guesses.len());
        }
        Ok(guesses)
    }

    /// Goes back to the first row, for the second pass.
    pub fn restart(&mut self) -> Result<()> {
        self.records.set_shape(Shape::Any);
        let restarted = self.records.restart(Source::rewind);
        let header = restarted.map_err(RecordError::Io).and_then(|()| {
            if matches!(self.reading.names, Names::FirstLine) {
                self.records.read(&mut self.record)?;
            }
            Ok(())
        });
        self.records.set_shape(self.shape);
        header.map_err(|error| self.failure(error))
    }

    /// Inserts every row; `targets` are the table's columns of the fields. Bad rows go to `rejects`
    /// as they are in the file. An error of `progress` ends the work.
    pub fn insert(
        &mut self,
        transaction: &mut Transaction<'_>,
        table: &Table,
        targets: &[usize],
        mut rejects: Option<&mut dyn Write>,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Inserted> {
        let mut filler = Filler {
            table,
            targets,
            columns: table.definition().columns,
            nulls: &self.reading.nulls,
            row: table.row(),
        };
        let (mut rows, mut problems) = (0_u64, Problems::default());
        loop {
            let problem = match self.records.read(&mut self.record) {
                Ok(false) => break,
                Ok(true) => filler.insert(transaction, &self.record).err(),
                Err(malformed @ RecordError::Malformed { .. }) => {
                    Some(Problem::Row(malformed.to_string()))
                }
                Err(error) => return Err(self.failure(error)),
            };
            match problem {
                None => rows += 1,
                Some(Problem::Fatal(error)) => return Err(error),
                Some(Problem::Row(text)) => {
                    if let Some(rejects) = &mut rejects {
                        self.reject(*rejects, problems.count)
                            .context("cannot write the rejected rows")?;
                    }
                    problems.add(&text);
                }
            }
            if (rows + problems.count).is_multiple_of(PROGRESS_ROWS) {
                progress(self.records.input().bytes())?;
            }
        }
        Ok(Inserted { rows, problems })
    }

    /// Writes the newest record as it is in the file. The first one comes after the lines that say
    /// how to read it.
    fn reject(&self, out: &mut dyn Write, rejected: u64) -> io::Result<()> {
        if rejected == 0 {
            out.write_all(self.records.separator_line())?;
            out.write_all(&self.header)?;
        }
        out.write_all(self.records.raw())?;
        // The last line of a file may lack its end.
        match self.records.raw().last() {
            Some(b'\n' | b'\r') => Ok(()),
            _ => out.write_all(&[self.records.line_end()]),
        }
    }
}

/// The text of a field, `None` if it means NULL.
fn value_text<'r>(record: &'r Record, at: usize, nulls: &[String]) -> Option<&'r str> {
    let text = record.text(at);
    let is_null = match (text.is_empty(), record.is_quoted(at)) {
        (true, false) => true,
        (false, true) => false,
        _ => nulls.iter().any(|null| null == text),
    };
    (!is_null).then_some(text)
}

/// Result of an import.
#[derive(Debug)]
pub struct Inserted {
    /// Rows that are in.
    pub rows: u64,
    /// Those that are not.
    pub problems: Problems,
}

/// A problem of one row, or of the whole import.
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
    /// The problems of some of them.
    pub first: Vec<String>,
}

impl Problems {
    fn add(&mut self, problem: &str) {
        self.count += 1;
        if self.first.len() < REPORTED_MAX {
            let mut text: String = problem.chars().take(REPORTED_CHARACTERS_MAX).collect();
            if text.len() < problem.len() {
                text.push_str(" ...");
            }
            self.first.push(text);
        }
    }
}

/// Turns records into rows of a table.
struct Filler<'t> {
    table: &'t Table,
    /// The table's column of each field.
    targets: &'t [usize],
    columns: Vec<Column>,
    nulls: &'t [String],
    row: Row,
}

impl Filler<'_> {
    fn insert(
        &mut self,
        transaction: &mut Transaction<'_>,
        record: &Record,
    ) -> Result<(), Problem> {
        let line = record.line;
        self.row.clear();
        for (at, target) in self.targets.iter().enumerate() {
            let column = &self.columns[*target];
            let text = value_text(record, at, self.nulls);
            set(&mut self.row, *target, column.data_type, text).map_err(|error| {
                let hint = text.and_then(null_word).map_or_else(String::new, |word| {
                    format!("; if it stands for NULL, add --null '{word}'")
                });
                Problem::Row(format!(
                    "line {line}, column `{}`: {error}{hint}",
                    column.name
                ))
            })?;
        }
        transaction
            .insert(self.table, &self.row)
            .map_err(|error| match error {
                indelible::Error::DuplicateKey(_) | indelible::Error::Record(_) => {
                    Problem::Row(format!("line {line}: {error}"))
                }
                other => Problem::Fatal(anyhow!(other).context(format!("line {line}"))),
            })
    }
}

fn set(row: &mut Row, column: usize, data_type: DataType, text: Option<&str>) -> Result<()> {
    let value = match text {
        None => Value::Null,
        Some(text) if text.contains('\0') => bail!("a zero byte, which texts of SQL cannot have"),
        Some(text) => Value::parse(data_type, text)?,
    };
    Ok(row.set(column, &value)?)
}
