//! `import`: a CSV file into a table, all rows or none.
//!
//! A new table takes two passes over the file: the first infers the types, the second inserts. One
//! transaction inserts all rows. Bad rows are reported by line and column, several at a time, so
//! that a file can be corrected in one go. Unless the user asks for the good rows only, one bad row
//! means that nothing is imported, and a table that was made for the import is dropped again.
//! Skipped rows can be kept in a file, which is complete before the others are committed.

use crate::args::{ImportArgs, TextArgs};
use crate::columns;
use crate::failure::Usage;
use crate::files::{self, Existing, OutputFile};
use crate::output::{Cell, Facts, Format, note, thousands};
use crate::progress;
use crate::scratch::Held;
use crate::tables;
use anyhow::{Context, Result, bail};
use delimited::{Dialect, Guess, Input, Inserted, Names, Passes, Problems, Reading};
use indelible::{Column, Database, Options, Table};
use indicatif::ProgressBar;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// Result of an import.
#[derive(Debug)]
pub(crate) struct Imported {
    pub(crate) rows: u64,
    pub(crate) skipped: u64,
    /// Whether the import created the table.
    pub(crate) created: bool,
    pub(crate) seconds: f64,
}

/// Runs the command.
pub(crate) fn run(args: &ImportArgs, format: Format) -> Result<()> {
    if !args.from.is_empty() {
        return crate::sqlite::run(args, format);
    }
    let mut options = Options::new();
    if let Some(bytes) = args.transaction_memory_max {
        options = options.transaction_memory_max(bytes);
    }
    let database = Database::open_with(&args.path, &options)?;
    let imported = import(&database, args)?;
    let mut facts = Facts::default();
    facts.add("table", args.table());
    facts.add("created", Cell::Flag(imported.created));
    facts.add("rows", Cell::Whole(imported.rows));
    facts.add("skipped", Cell::Whole(imported.skipped));
    facts.add("seconds", Cell::number(imported.seconds, 3));
    let def = database.table(args.table())?.definition();
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
        .find(|table| table.name() == args.table());
    if existing.as_ref().is_some_and(tables::is_of_sql) {
        tables::find_rows(
            database,
            args.table(),
            "`\\copy TABLE from FILE csv header`",
        )?;
    }
    let created = existing.is_none();
    if let Some(table) = &existing
        && (args.types.is_some() || !args.primary_key.is_empty())
    {
        return Err(Usage::error(format!(
            "table `{}` exists, so its types and key are given; leave out --types and --primary-key{}",
            args.table(),
            hint_of_empty(database, table)?
        )));
    }
    let reading = reading(&args.text, existing.as_ref())?;
    let rejects = rejects(args)?;
    let passes = if created { Passes::Two } else { Passes::One };
    let mut input = Input::open(
        args.file.as_deref().unwrap_or(Path::new("-")),
        reading,
        passes,
    )?;
    let bar = progress::bytes("reading", input.file_bytes());
    let (table, held) = if let Some(table) = existing {
        (table, None)
    } else {
        let columns = columns_of(args, &mut input, &bar)?;
        // The table of an interrupted import goes.
        let held = Held::new();
        let table = build(database, args.table(), &columns, &args.primary_key)?;
        (table, Some(held))
    };
    let inserted = insert_all(
        database,
        &table,
        args,
        &mut input,
        rejects,
        &bar,
        held.as_ref(),
    );
    bar.finish_and_clear();
    if let (Err(_), Some(held)) = (&inserted, &held) {
        // The table is empty; the first error is the one to report.
        let _ = database.drop_table(args.table());
        held.end_if_asked();
    }
    let (rows, skipped) = inserted?;
    Ok(Imported {
        rows,
        skipped,
        created,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Advice on a table without rows.
fn hint_of_empty(database: &Database, table: &Table) -> Result<String> {
    if database.read(|reader| reader.count(table, ..))? > 0 {
        return Ok(String::new());
    }
    let name = table.name();
    Ok(format!(
        "; it has no rows, as a killed import leaves it, and `indelible tables drop` removes `{name}`"
    ))
}

/// The options for reading the file.
fn reading(text: &TextArgs, existing: Option<&Table>) -> Result<Reading> {
    if text.comment.is_some() && text.comment == text.separator {
        return Err(Usage::error(
            "--comment and --separator are the same character; give two different ones",
        ));
    }
    for (at, name) in text.columns.iter().enumerate() {
        if name.is_empty() || text.columns[..at].contains(name) {
            return Err(Usage::error(format!(
                "--columns gives column {} no name of its own; name every column once",
                at + 1
            )));
        }
    }
    let names = match existing {
        _ if !text.no_header => Names::FirstLine,
        _ if !text.columns.is_empty() => Names::Given(text.columns.clone()),
        Some(table) => {
            let columns = table.definition().columns.into_iter();
            Names::Given(columns.map(|column| column.name).collect())
        }
        None => Names::Numbered,
    };
    let mut dialect = Dialect {
        separator: text.separator,
        comment: text.comment,
        ..Dialect::default()
    };
    if let Some(bytes) = text.quoted_bytes {
        dialect.quoted_bytes_max = bytes;
    }
    Ok(Reading {
        dialect,
        names,
        nulls: text.nulls.clone(),
    })
}

/// The file for bad rows.
fn rejects(args: &ImportArgs) -> Result<Option<OutputFile>> {
    let Some(path) = &args.rejects else {
        return Ok(None);
    };
    if path == Path::new("-") {
        return Err(Usage::error(
            "--rejects needs a file, because standard output tells what was imported",
        ));
    }
    files::refuse_inside(path, &args.path)?;
    OutputFile::create(path, Existing::Refuse).map(Some)
}

/// Reads the file once, finds the columns of a table that holds it, and goes back to its first row.
fn columns_of(args: &ImportArgs, input: &mut Input, bar: &ProgressBar) -> Result<Vec<Column>> {
    bar.set_message("looking at types");
    let given = match &args.types {
        Some(text) => columns::parse(text)?,
        None => Vec::new(),
    };
    for column in &given {
        if !input.columns().contains(&column.name) {
            return Err(Usage::error(format!(
                "--types names column `{}`, but the file has {}{}",
                column.name,
                input.columns().join(", "),
                hint(input)
            )));
        }
    }
    check_primary_key(args, input)?;
    let guesses = input.guess(&mut |bytes| bar.set_position(bytes))?;
    let is_key = |name: &String| args.primary_key.contains(name);
    let column = |(name, guess): (&String, &Guess)| {
        let data_type = if let Some(column) = given.iter().find(|column| &column.name == name) {
            column.data_type
        } else {
            tell_null_words(name, guess);
            guess.data_type()
        };
        let column = Column::new(name.as_str(), data_type);
        // A file does not tell which columns may be NULL later, so only the key must not be.
        if is_key(name) {
            column
        } else {
            column.nullable()
        }
    };
    let columns: Vec<Column> = input.columns().iter().zip(&guesses).map(column).collect();
    if let Some(hint) = input.separator_hint() {
        note(&format!("{}: {hint}", input.name()));
    }
    input.restart()?;
    Ok(columns)
}

/// Says why a column of numbers, dates and the like is text.
fn tell_null_words(name: &str, guess: &Guess) {
    if let Some((words, data_type)) = guess.null_hint() {
        let found: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        let options: Vec<String> = words
            .iter()
            .map(|word| format!("--null '{word}'"))
            .collect();
        note(&format!(
            "column `{name}` is text because of {}; if that stands for NULL, {} makes it {data_type}",
            found.join(", "),
            options.join(" ")
        ));
    }
}

/// Advice to add to an error if the separator may be the cause.
fn hint(input: &Input) -> String {
    let hint = input.separator_hint();
    hint.map_or_else(String::new, |hint| format!("; {hint}"))
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

fn check_primary_key(args: &ImportArgs, input: &Input) -> Result<()> {
    let header = input.columns();
    let problem = if args.primary_key.is_empty() {
        format!(
            "table `{}` does not exist yet; name the columns of its primary key",
            args.table()
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
        "{problem}, for example --primary-key {first} (the file has {columns}){}",
        hint(input)
    )))
}

/// Inserts every row in one transaction; returns how many, and how many were skipped.
fn insert_all(
    database: &Database,
    table: &Table,
    args: &ImportArgs,
    input: &mut Input,
    mut rejects: Option<OutputFile>,
    bar: &ProgressBar,
    held: Option<&Held>,
) -> Result<(u64, u64)> {
    bar.set_message("importing");
    let targets = targets(table, input)?;
    let mut transaction = database.begin()?;
    let mut progress = |bytes| {
        bar.set_position(bytes);
        held.map_or(Ok(()), Held::check)
    };
    let lines = rejects.as_mut().map(|out| out as &mut dyn Write);
    let inserted = input.insert(&mut transaction, table, &targets, lines, &mut progress)?;
    bar.finish_and_clear();
    let Inserted { rows, problems } = inserted;
    let file = input.name();
    report(&problems, file);
    // The rejected rows are safe before the others count.
    if let (Some(out), 1..) = (rejects, problems.count) {
        out.finish()?;
    }
    let all = thousands(rows + problems.count);
    let cause = match (problems.count, args.skip_bad_rows) {
        (0, _) => None,
        (_, true) if rows > 0 => None,
        (_, true) => Some(format!("none of {all} rows in {file} can be")),
        (bad, false) => Some(format!(
            "{} of {all} rows in {file} cannot be; correct them, or import the others with --skip-bad-rows",
            thousands(bad)
        )),
    };
    if let Some(cause) = cause {
        transaction.abort();
        bail!("nothing was imported, because {cause}{}", hint(input));
    }
    held.map_or(Ok(()), Held::check)?;
    transaction.commit()?;
    Ok((rows, problems.count))
}

/// Tells the user of them.
fn report(problems: &Problems, file: &str) {
    for problem in &problems.first {
        note(&format!("{file}, {problem}"));
    }
    let more = problems.count - problems.first.len() as u64;
    if more > 0 {
        note(&format!("{file}: {} more rows like these", thousands(more)));
    }
}

/// The table's column of each field. Columns that the file lacks must allow NULL.
fn targets(table: &Table, input: &Input) -> Result<Vec<usize>> {
    let columns = table.definition().columns;
    let targets = columns::positions(&columns, input.columns()).with_context(|| {
        format!(
            "{} does not fit table `{}`{}",
            input.name(),
            table.name(),
            hint(input)
        )
    })?;
    let absent = (0..columns.len()).find(|at| !targets.contains(at) && !columns[*at].nullable);
    if let Some(at) = absent {
        bail!(
            "{} has no column `{}`, which table `{}` needs; add it to the file{}",
            input.name(),
            columns[at].name,
            table.name(),
            hint(input)
        );
    }
    Ok(targets)
}
