//! `import`: a CSV file into a table, all rows or none.
//!
//! A new table takes two passes over the file: the first checks its form and infers the types, the second inserts. All rows go in
//! by one transaction. Bad rows are reported by line and column, several at a time, so that a file is mended in one go;
//! unless the user asks for the good rows only, one bad row means that nothing is imported, and a table that was made
//! for the import is dropped again.

use crate::args::ImportArgs;
use crate::columns;
use crate::csv::{CsvError, CsvReader, Field, Record};
use crate::failure::Usage;
use crate::infer::Guess;
use crate::output::{Cell, Facts, Format, thousands};
use crate::progress;
use anyhow::{Context, Result, anyhow, bail};
use indelible::{Column, DataType, Database, Row, Table, Transaction, Value};
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Instant;

/// Bad rows that are reported one by one.
const REPORTED_MAX: usize = 20;
/// Rows between two looks at the progress bar.
const PROGRESS_ROWS: u64 = 1024;

/// What an import did.
#[derive(Debug)]
pub(crate) struct Imported {
    pub(crate) rows: u64,
    pub(crate) skipped: u64,
    /// Whether the table was made for it.
    pub(crate) created: bool,
    pub(crate) seconds: f64,
}

/// Runs the command.
pub(crate) fn run(args: &ImportArgs, format: Format) -> Result<()> {
    let database = Database::open(&args.path)?;
    let imported = import(&database, args)?;
    let mut facts = Facts::default();
    facts.add("table", args.table.as_str());
    facts.add("created", Cell::Flag(imported.created));
    facts.add("rows", Cell::Whole(imported.rows));
    facts.add("skipped", Cell::Whole(imported.skipped));
    facts.add("seconds", Cell::number(imported.seconds, 3));
    let def = database.table(&args.table)?.definition();
    let columns: Vec<String> = def.columns.iter().map(columns::print).collect();
    facts.add("columns", columns.join(","));
    database.close()?;
    facts.print(format)
}

/// Imports a file as the options say.
pub(crate) fn import(database: &Database, args: &ImportArgs) -> Result<Imported> {
    let start = Instant::now();
    let existing = database
        .tables()
        .into_iter()
        .find(|table| table.name() == args.table);
    let created = existing.is_none();
    let table = match existing {
        Some(table) => {
            if args.types.is_some() || !args.primary_key.is_empty() {
                return Err(Usage::error(format!(
                    "table `{}` exists, so its types and key are given; leave out --types and --primary-key",
                    args.table
                )));
            }
            table
        }
        None => create_table(database, args)?,
    };
    let inserted = insert_all(database, &table, args);
    if inserted.is_err() && created {
        // The table is empty; the first error is the one to report.
        let _ = database.drop_table(&args.table);
    }
    let (rows, skipped) = inserted?;
    Ok(Imported {
        rows,
        skipped,
        created,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Reads the file once, and makes a table that holds it.
fn create_table(database: &Database, args: &ImportArgs) -> Result<Table> {
    if args.file == Path::new("-") {
        return Err(Usage::error(format!(
            "table `{}` does not exist, and types cannot be inferred from standard input; \
             create it first with `indelible tables create`, or give a file",
            args.table
        )));
    }
    let (mut reader, bar) = open(args)?;
    bar.set_message("looking at types");
    let header = read_header(&mut reader, &args.file)?;
    let given = match &args.types {
        Some(text) => columns::parse(text)?,
        None => Vec::new(),
    };
    for column in &given {
        if !header.contains(&column.name) {
            return Err(Usage::error(format!(
                "--types names column `{}`, but the file has {}",
                column.name,
                header.join(", ")
            )));
        }
    }
    check_primary_key(args, &header)?;
    let guesses = guess(&mut reader, header.len(), &bar)?;
    let is_key = |name: &String| args.primary_key.contains(name);
    let columns: Vec<Column> = header
        .iter()
        .zip(&guesses)
        .map(|(name, guess)| {
            let data_type = given
                .iter()
                .find(|column| &column.name == name)
                .map_or_else(|| guess.data_type(), |column| column.data_type);
            let column = Column::new(name.as_str(), data_type);
            // A file says nothing about what may be missing later, so only the key must be there.
            if is_key(name) {
                column
            } else {
                column.nullable()
            }
        })
        .collect();
    build(database, &args.table, &columns, &args.primary_key)
}

/// Creates a table of these columns.
pub(crate) fn build(
    database: &Database,
    name: &str,
    columns: &[Column],
    primary_key: &[String],
) -> Result<Table> {
    let mut builder = database.create_table(name);
    for column in columns {
        builder = if column.nullable {
            builder.nullable_column(&column.name, column.data_type)
        } else {
            builder.column(&column.name, column.data_type)
        };
    }
    Ok(builder
        .primary_key(primary_key.iter().map(String::as_str))
        .create()?)
}

fn check_primary_key(args: &ImportArgs, header: &[String]) -> Result<()> {
    let problem = if args.primary_key.is_empty() {
        format!(
            "table `{}` does not exist yet; name the columns of its primary key",
            args.table
        )
    } else if let Some(name) = args.primary_key.iter().find(|name| !header.contains(name)) {
        format!(
            "--primary-key names column `{name}`, which the file does not have; name its columns"
        )
    } else {
        return Ok(());
    };
    let columns = header.join(", ");
    let first = header.first().map_or("", String::as_str);
    Err(Usage::error(format!(
        "{problem}, for example --primary-key {first} (the file has {columns})"
    )))
}

/// Looks at every value of the file. Malformed rows are left to the second pass, which reports them.
fn guess<R: BufRead>(
    reader: &mut CsvReader<R>,
    columns: usize,
    bar: &ProgressBar,
) -> Result<Vec<Guess>> {
    let mut guesses = vec![Guess::new(); columns];
    let mut record = Record::default();
    let mut rows = 0_u64;
    loop {
        match reader.read(&mut record) {
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
            bar.set_position(reader.bytes());
        }
    }
}

/// Inserts every row in one transaction; returns how many, and how many were skipped.
fn insert_all(database: &Database, table: &Table, args: &ImportArgs) -> Result<(u64, u64)> {
    let (mut reader, bar) = open(args)?;
    bar.set_message("importing");
    let header = read_header(&mut reader, &args.file)?;
    let mut filler = Filler::new(table, &header)?;
    let mut transaction = database.begin()?;
    let mut record = Record::default();
    let (mut rows, mut problems) = (0_u64, Problems::default());
    loop {
        match reader.read(&mut record) {
            Ok(false) => break,
            Ok(true) => match filler.insert(&mut transaction, &record) {
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
            bar.set_position(reader.bytes());
        }
    }
    bar.finish_and_clear();
    let file = args.file.display();
    problems.report(&file.to_string());
    if problems.count > 0 && !args.skip_bad_rows {
        transaction.abort();
        bail!(
            "nothing was imported, because {} of {} rows in {file} cannot be; \
             mend them, or import the others with --skip-bad-rows",
            thousands(problems.count),
            thousands(rows + problems.count)
        );
    }
    transaction.commit()?;
    Ok((rows, problems.count))
}

/// What is wrong with one row, or with everything.
enum Problem {
    Row(String),
    /// The import cannot go on.
    Fatal(anyhow::Error),
}

/// Bad rows of a file.
#[derive(Default)]
struct Problems {
    count: u64,
    first: Vec<String>,
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

    fn report(&self, file: &str) {
        for problem in &self.first {
            eprintln!("{file}, {problem}");
        }
        let more = self.count - self.first.len() as u64;
        if more > 0 {
            eprintln!("{file}: {} more rows like these", thousands(more));
        }
    }
}

/// Turns records into rows of a table.
struct Filler<'t> {
    table: &'t Table,
    /// The table's column of each field.
    targets: Vec<usize>,
    columns: Vec<Column>,
    row: Row,
}

impl<'t> Filler<'t> {
    fn new(table: &'t Table, header: &[String]) -> Result<Self> {
        let columns = table.definition().columns;
        let targets = columns::positions(&columns, header)
            .with_context(|| format!("the file does not fit table `{}`", table.name()))?;
        let absent = (0..columns.len()).find(|at| !targets.contains(at) && !columns[*at].nullable);
        if let Some(at) = absent {
            bail!(
                "the file has no column `{}`, which table `{}` needs; add it to the file",
                columns[at].name,
                table.name()
            );
        }
        Ok(Self {
            table,
            targets,
            columns,
            row: table.row(),
        })
    }

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
        for (field, target) in record.fields.iter().zip(&self.targets) {
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

type Input = CsvReader<BufReader<Box<dyn std::io::Read>>>;

/// Opens the file with a progress bar over its bytes.
fn open(args: &ImportArgs) -> Result<(Input, ProgressBar)> {
    let (input, bytes): (Box<dyn std::io::Read>, u64) = if args.file == Path::new("-") {
        (Box::new(std::io::stdin()), 0)
    } else {
        let problem = || format!("cannot read {}", args.file.display());
        let file = File::open(&args.file).with_context(problem)?;
        let metadata = file.metadata().with_context(problem)?;
        if metadata.is_dir() {
            bail!("{} is a directory; give a CSV file", args.file.display());
        }
        (Box::new(file), metadata.len())
    };
    let reader = CsvReader::new(BufReader::with_capacity(1 << 18, input), args.separator);
    Ok((reader, progress::bytes("reading", bytes)))
}

/// The column names in the first record.
fn read_header<R: BufRead>(reader: &mut CsvReader<R>, file: &Path) -> Result<Vec<String>> {
    let file = file.display();
    let mut record = Record::default();
    match reader.read(&mut record) {
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
