//! `import --from sqlite`: the tables of a file of SQLite, all or none of their rows.
//!
//! The program `sqlite3` reads the file; no code of SQLite is linked. The tables are made by SQL in
//! one transaction, so their keys, unique constraints and defaults are kept from then on. Rows go
//! through COPY. Bad values are reported with table, row and column as those of a CSV file are.

mod program;
mod schema;
mod unkept;
mod value;

use crate::args::{ImportArgs, TextArgs};
use crate::failure::Usage;
use crate::output::{Cell, Format, Listing, note, thousands};
use crate::progress;
use crate::sql::literal;
use anyhow::{Context, Result, anyhow, bail};
use client::{Answers, Client, LocalClient, Report, Sink};
use indelible::{Database, Options};
use indicatif::ProgressBar;
use program::Program;
use schema::{Schema, SourceColumn, SourceTable, own_name};
use std::io;
use std::path::Path;
use value::{ColumnType, SqliteValue};

/// Bytes of rows that are handed over at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Bad rows that are reported one by one.
const REPORTED_MAX: u64 = 20;

/// Runs the command.
pub(crate) fn run(args: &ImportArgs, format: Format) -> Result<()> {
    let [kind, file] = args.from.as_slice() else {
        return Err(Usage::error("--from takes a format and a file"));
    };
    if kind.as_os_str() != "sqlite" {
        return Err(Usage::error(format!(
            "--from {} is unknown; the only format is sqlite, and CSV files need no --from",
            kind.display()
        )));
    }
    if args.text != TextArgs::default() {
        return Err(Usage::error(
            "options about the text of a CSV file do not go with --from sqlite",
        ));
    }
    program::check(file)?;
    let mut schema = Schema::read(file)?;
    choose(&mut schema, &args.tables, file)?;
    give_types(&mut schema, args.types.as_deref())?;
    schema.complete(file)?;
    let mut options = Options::new();
    if let Some(bytes) = args.transaction_memory_max {
        options = options.transaction_memory_max(bytes);
    }
    let mut client = LocalClient::open(Database::open_with(&args.path, &options)?)?;
    let bar = progress::spinner("reading");
    let imported = import(&mut client, &schema, args, file, &bar);
    bar.finish_and_clear();
    let imported = imported?;
    let mut listing = Listing::new(["table", "rows", "skipped"]);
    for table in imported {
        listing.push(vec![
            table.name.into(),
            Cell::Whole(table.rows),
            Cell::Whole(table.skipped),
        ]);
    }
    listing.print(format)
}

/// Keeps the tables that the user has named.
fn choose(schema: &mut Schema, names: &[String], file: &Path) -> Result<()> {
    if schema.tables.is_empty() {
        bail!("{} has no tables", file.display());
    }
    let all: Vec<String> = schema
        .tables
        .iter()
        .map(|table| table.name.clone())
        .collect();
    for name in names {
        if !all.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            return Err(Usage::error(format!(
                "{} has no table `{name}`; it has {}",
                file.display(),
                all.join(", ")
            )));
        }
    }
    if !names.is_empty() {
        let is_named = |own: &String| names.iter().any(|name| own.eq_ignore_ascii_case(name));
        schema.tables.retain(|table| is_named(&table.name));
        schema.left.clear();
    }
    Ok(())
}

/// Gives columns the types that the user has named, `table.column:type,...`.
fn give_types(schema: &mut Schema, given: Option<&str>) -> Result<()> {
    for entry in given.map(entries).unwrap_or_default() {
        let parts = entry.split_once(':').and_then(|(column, data_type)| {
            let (table, column) = column.trim().split_once('.')?;
            Some((table, column, data_type.trim()))
        });
        let Some((table, column, data_type)) = parts else {
            return Err(Usage::error(format!(
                "--types has `{entry}`; write table.column:type"
            )));
        };
        let tables = schema.tables.iter_mut();
        let mut columns = tables
            .filter(|own| own.name.eq_ignore_ascii_case(table))
            .flat_map(|own| &mut own.columns);
        let Some(found) = columns.find(|own| own.name.eq_ignore_ascii_case(column)) else {
            return Err(Usage::error(format!(
                "--types names {table}.{column}, which is no column of an imported table"
            )));
        };
        found.column_type = Some(ColumnType::Given(data_type.to_owned()));
    }
    Ok(())
}

/// Parts between commas that are in no brackets.
fn entries(text: &str) -> Vec<String> {
    let (mut entries, mut depth) = (vec![String::new()], 0_u32);
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match (letter, entries.last_mut()) {
            (',', _) if depth == 0 => entries.push(String::new()),
            (letter, Some(last)) => last.push(letter),
            (_, None) => {}
        }
    }
    entries
}

/// A table that was imported.
struct ImportedTable {
    name: String,
    rows: u64,
    skipped: u64,
}

/// Imports the tables in one transaction.
fn import(
    client: &mut dyn Client,
    schema: &Schema,
    args: &ImportArgs,
    file: &Path,
    bar: &ProgressBar,
) -> Result<Vec<ImportedTable>> {
    let version = "SELECT 'i' || schema_version FROM pragma_schema_version".to_owned();
    let queries = std::iter::once(version).chain(schema.numbers_query());
    let queries = queries.chain(schema.tables.iter().map(SourceTable::rows_query));
    let mut program = Program::run(file, &queries.collect::<Vec<_>>())?;
    if program.rows()?.concat().concat() != schema.version {
        bail!(
            "the definitions of {} changed during the import; try again",
            file.display()
        );
    }
    let numbers = match schema.numbers_query() {
        Some(_) => program.rows()?,
        None => Vec::new(),
    };
    execute(client, "BEGIN")?;
    let mut left = schema.left.clone();
    let mut imported = Vec::new();
    let mut reported = 0;
    for table in &schema.tables {
        progress::tell(bar, &format!("importing {}", table.name));
        execute(client, &table.definition(&mut left))
            .with_context(|| format!("cannot make table {}", table.name))?;
        let (rows, skipped) = copy(client, table, (&mut program, file), &mut reported)?;
        imported.push(ImportedTable {
            name: table.name.clone(),
            rows,
            skipped,
        });
    }
    program.end()?;
    let bad: u64 = imported.iter().map(|table| table.skipped).sum();
    if bad > reported {
        let more = thousands(bad - reported);
        note(&format!("{}: {more} more rows like these", file.display()));
    }
    let good: u64 = imported.iter().map(|table| table.rows).sum();
    if bad > 0 && (good == 0 || !args.skip_bad_rows) {
        execute(client, "ROLLBACK")?;
        let all = thousands(bad + good);
        bail!(
            "nothing was imported, because {} of {all} rows in {} cannot be; correct them, give \
             the column another type with --types table.column:type, or import the others with \
             --skip-bad-rows",
            thousands(bad),
            file.display()
        );
    }
    finish(client, schema, &numbers, &mut left)?;
    execute(client, "COMMIT")?;
    for one in left {
        note(&format!("left out: {one}"));
    }
    Ok(imported)
}

/// Adds everything that needs the rows: indexes, the next numbers of rows, and foreign keys.
/// `numbers` has tables, each with the greatest number that it has had.
fn finish(
    client: &mut dyn Client,
    schema: &Schema,
    numbers: &[Vec<String>],
    left: &mut Vec<String>,
) -> Result<()> {
    for table in &schema.tables {
        for index in table.index_definitions() {
            execute(client, &index)?;
        }
        if let Some(column) = table.number_column() {
            let known = numbers.iter().filter(|row| row[0] == table.name);
            let known = known.filter_map(|row| row[1].parse::<i64>().ok()).max();
            execute(client, &count_on(table, column, known.unwrap_or(0)))?;
        }
    }
    // SQLite does not keep them unless it is told to, so rows may break them.
    for table in &schema.tables {
        for (words, statement) in table.reference_definitions() {
            execute(client, "SAVEPOINT reference")?;
            let answers = client.ask(&statement)?;
            match answers.failure {
                None => {
                    execute(client, "RELEASE reference")?;
                }
                Some(report) => {
                    execute(client, "ROLLBACK TO reference")?;
                    left.push(format!("{words} ({})", report.message));
                }
            }
        }
    }
    Ok(())
}

/// The statement by which a column counts on after its greatest number, and after the one that its
/// table has had.
fn count_on(table: &SourceTable, column: &SourceColumn, known: i64) -> String {
    let (from, name) = (own_name(&table.name), own_name(&column.name));
    let (table, column) = (literal(&from), literal(&column.name));
    let last = format!("greatest(max({name}), {known})");
    format!(
        "SELECT setval(pg_get_serial_sequence({table}, {column}), {last}) FROM {from} HAVING {last} > 0"
    )
}

/// Runs statements that must succeed.
fn execute(client: &mut dyn Client, text: &str) -> Result<Answers> {
    let answers = client.ask(text)?;
    match answers.failure {
        Some(report) => Err(of_report(&report)),
        None => Ok(answers),
    }
}

fn of_report(report: &Report) -> anyhow::Error {
    let more = [&report.detail, &report.hint];
    let more = more.into_iter().flatten();
    let texts = std::iter::once(&report.message).chain(more);
    let texts: Vec<&str> = texts.map(String::as_str).collect();
    anyhow!("{}", texts.join("; "))
}

/// Copies the rows of a table; returns how many, and how many were bad.
fn copy(
    client: &mut dyn Client,
    table: &SourceTable,
    (program, file): (&mut Program, &Path),
    reported: &mut u64,
) -> Result<(u64, u64)> {
    let mut rows = Rows {
        table,
        program,
        file,
        reported,
        good: 0,
        bad: 0,
        is_over: false,
        failure: None,
    };
    let statement = format!("COPY {} FROM STDIN", own_name(&table.name));
    let copied = client.run(&statement, &mut rows);
    if let Some(failure) = rows.failure.take() {
        return Err(failure);
    }
    match copied {
        Ok(()) => Ok((rows.good, rows.bad)),
        Err(client::Error::Statement(report)) => {
            Err(of_report(&report).context(format!("cannot import table {}", table.name)))
        }
        Err(error) => Err(error.into()),
    }
}

/// The rows of a table on their way, as data of COPY.
struct Rows<'a> {
    table: &'a SourceTable,
    program: &'a mut Program,
    file: &'a Path,
    reported: &'a mut u64,
    good: u64,
    bad: u64,
    is_over: bool,
    failure: Option<anyhow::Error>,
}

impl Rows<'_> {
    /// The next rows; none after the last one.
    fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let mut data = String::new();
        while !self.is_over && data.len() < CHUNK_BYTES {
            let length = data.len();
            let Some(fields) = self.program.row()? else {
                self.is_over = true;
                break;
            };
            match write_row(self.table, &fields, &mut data)? {
                None => self.good += 1,
                Some(problem) => {
                    data.truncate(length);
                    self.bad += 1;
                    if *self.reported < REPORTED_MAX {
                        *self.reported += 1;
                        let (file, name) = (self.file.display(), &self.table.name);
                        let row = thousands(self.good + self.bad);
                        note(&format!("{file}, table {name}, row {row}: {problem}"));
                    }
                }
            }
        }
        Ok((!data.is_empty()).then(|| data.into_bytes()))
    }
}

/// Adds a row as a line of COPY; returns its problem, if it has one.
fn write_row(table: &SourceTable, fields: &[&str], out: &mut String) -> Result<Option<String>> {
    if fields.len() != table.columns.len() {
        bail!(
            "sqlite3 printed a row of table {} with other columns",
            table.name
        );
    }
    for (at, (column, field)) in table.columns.iter().zip(fields).enumerate() {
        let value = SqliteValue::read(field);
        let value = value.ok_or_else(|| anyhow!("sqlite3 printed a value that cannot be read"))?;
        let column_type = column.column_type.as_ref().unwrap_or(&ColumnType::Text);
        if at > 0 {
            out.push('\t');
        }
        if value == SqliteValue::Null {
            if table.refuses_null(column) {
                return Ok(Some(format!("column {} is NULL", column.name)));
            }
            out.push_str("\\N");
            continue;
        }
        let Some(text) = column_type.text_of(&value) else {
            let (name, wanted) = (&column.name, column_type.name());
            let found = value.in_words();
            return Ok(Some(format!(
                "column {name} is {found}, which is no {wanted}"
            )));
        };
        for letter in text.chars() {
            match letter {
                '\\' => out.push_str("\\\\"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                letter => out.push(letter),
            }
        }
    }
    out.push('\n');
    Ok(None)
}

impl Sink for Rows<'_> {
    fn copy_in(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.chunk().map_err(|failure| {
            let error = io::Error::other(failure.to_string());
            self.failure = Some(failure);
            error
        })
    }
}
