//! `import`: a CSV file into a table, all rows or none.
//!
//! A new table takes two passes over the file: the first checks its form and infers the types, the second inserts. All rows go in
//! by one transaction. Bad rows are reported by line and column, several at a time, so that a file is mended in one go;
//! unless the user asks for the good rows only, one bad row means that nothing is imported, and a table that was made
//! for the import is dropped again.

use crate::args::ImportArgs;
use crate::columns;
use crate::failure::Usage;
use crate::output::{Cell, Facts, Format, note, thousands};
use crate::progress;
use anyhow::{Context, Result, bail};
use delimited::{Input, Inserted, Problems};
use indelible::{Column, Database, Table};
use indicatif::ProgressBar;
use std::fs::File;
use std::path::Path;
use std::time::Instant;

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
    let (mut input, bar) = open(args)?;
    bar.set_message("looking at types");
    let header = input.header(&args.file)?;
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
    let guesses = input.guess(header.len(), &mut |bytes| bar.set_position(bytes))?;
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

/// Inserts every row in one transaction; returns how many, and how many were skipped.
fn insert_all(database: &Database, table: &Table, args: &ImportArgs) -> Result<(u64, u64)> {
    let (mut input, bar) = open(args)?;
    bar.set_message("importing");
    let header = input.header(&args.file)?;
    let targets = targets(table, &header)?;
    let mut transaction = database.begin()?;
    let mut progress = |bytes| bar.set_position(bytes);
    let inserted = input.insert(&mut transaction, table, &targets, &mut progress)?;
    bar.finish_and_clear();
    let Inserted { rows, problems } = inserted;
    let file = args.file.display();
    report(&problems, &file.to_string());
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

/// The table's column of each field. Columns that the file has not must be allowed to be NULL.
fn targets(table: &Table, header: &[String]) -> Result<Vec<usize>> {
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
    Ok(targets)
}

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
    let input = Input::new(input, args.separator);
    Ok((input, progress::bytes("reading", bytes)))
}
