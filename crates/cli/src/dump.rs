//! `dump` and `load`: a whole database as one text file.
//!
//! The file is CSV (see [`crate::csv`]), so any text may stand in it. The first field of a record says what it is:
//!
//! | record | meaning |
//! |---|---|
//! | `indelible-dump,1` | first record: format version |
//! | `table,NAME` | a table begins |
//! | `column,NAME,TYPE` or `column,NAME,TYPE,null` | a column, which may be NULL in the second form |
//! | `primary-key,NAME,…` | columns of the primary key |
//! | `partitioning,hash`, `modulo` or `replicated` | which partition a row belongs to |
//! | `partitioning,ranges,FROM,PARTITION,…` | the same, by ranges |
//! | `index,NAME,COLUMN,…` or `unique-index,NAME,COLUMN,…` | a secondary index |
//! | `row,VALUE,…` | a row; an empty field is NULL, `""` the empty text |
//! | `end,ROWS` | the table ends; the number of its rows |
//! | `end-of-dump,TABLES` | last record; a file without it is cut off |
//!
//! A dump shows one moment. `load` builds the database beside its place and renames it when it is complete, so an interrupted
//! load leaves nothing under the name.

use crate::args::{DumpArgs, LoadArgs};
use crate::create;
use crate::csv::{self, CsvReader, Field, Record};
use crate::export::write_row;
use crate::files::{Existing, OutputFile};
use crate::output::{Cell, Facts, Format, thousands};
use crate::progress;
use anyhow::{Context, Result, anyhow, bail};
use indelible::{
    Column, DataType, Database, Direction, Durability, Partitioning, RangeStart, Row, Table,
    Transaction, TransactionOptions, Uniqueness, Value,
};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;

const VERSION: &str = "1";
/// Rows that are loaded in one transaction.
const LOAD_BATCH: u64 = 1000;

/// Runs `dump`.
pub(crate) fn dump(args: &DumpArgs) -> Result<()> {
    let database = Database::open(&args.path)?;
    let mut out = OutputFile::create(&args.file, Existing::from_force(args.force))?;
    let bar = progress::spinner("dumping");
    record(&mut out, &["indelible-dump", VERSION])?;
    let tables = database.tables();
    // One transaction over everything, so that the dump shows one moment.
    let all: Vec<u32> = (0..database.partitions()).collect();
    let mut transaction = database.begin_with(&TransactionOptions::new().partitions(all))?;
    for table in &tables {
        bar.set_message(format!("dumping {}", table.name()));
        write_definition(&mut out, table)?;
        let rows = write_rows(&mut out, &mut transaction, table)
            .with_context(|| format!("cannot write {}", args.file.display()))?;
        record(&mut out, &["end", &rows.to_string()])?;
    }
    transaction.commit()?;
    record(&mut out, &["end-of-dump", &tables.len().to_string()])?;
    bar.finish_and_clear();
    out.finish()
}

fn record(out: &mut impl Write, fields: &[&str]) -> Result<()> {
    csv::write_record(out, fields.iter().map(|field| Some(*field)), b',')?;
    Ok(())
}

fn write_definition(out: &mut impl Write, table: &Table) -> Result<()> {
    let def = table.definition();
    let names = |positions: &[usize]| -> Vec<String> {
        positions
            .iter()
            .map(|at| def.columns[*at].name.clone())
            .collect()
    };
    record(out, &["table", &def.name])?;
    for column in &def.columns {
        let data_type = column.data_type.to_string();
        let mut fields = vec!["column", &column.name, &data_type];
        if column.nullable {
            fields.push("null");
        }
        record(out, &fields)?;
    }
    let list = |out: &mut _, first: &[&str], rest: &[String]| {
        let fields: Vec<&str> = first
            .iter()
            .copied()
            .chain(rest.iter().map(String::as_str))
            .collect();
        record(out, &fields)
    };
    list(out, &["primary-key"], &names(&def.primary_key))?;
    match &def.partitioning {
        Partitioning::Hash => record(out, &["partitioning", "hash"])?,
        Partitioning::Modulo => record(out, &["partitioning", "modulo"])?,
        Partitioning::Replicated => record(out, &["partitioning", "replicated"])?,
        Partitioning::Ranges(starts) => {
            let pairs = starts
                .iter()
                .flat_map(|s| [s.from.to_string(), s.partition.to_string()]);
            list(out, &["partitioning", "ranges"], &pairs.collect::<Vec<_>>())?;
        }
    }
    for index in &def.indexes {
        let kind = if index.unique {
            "unique-index"
        } else {
            "index"
        };
        list(out, &[kind, &index.name], &names(&index.columns))?;
    }
    Ok(())
}

fn write_rows(out: &mut impl Write, reader: &mut Transaction<'_>, table: &Table) -> Result<u64> {
    let (mut rows, mut failure) = (0, None);
    reader.scan(table, .., Direction::Forward, |row| {
        let written = out
            .write_all(b"row,")
            .and_then(|()| write_row(out, row))
            .and_then(|()| out.write_all(b"\n"));
        rows += 1;
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    match failure {
        None => Ok(rows),
        Some(error) => Err(error.into()),
    }
}

/// Runs `load`.
pub(crate) fn load(args: &LoadArgs, format: Format) -> Result<()> {
    let occupied = fs::read_dir(&args.path).is_ok_and(|mut entries| entries.next().is_some());
    if occupied || args.path.is_file() {
        bail!(
            "{} exists already and is not empty; load into a new directory",
            args.path.display()
        );
    }
    let file = File::open(&args.file)
        .with_context(|| format!("cannot read the dump {}", args.file.display()))?;
    let bar = progress::bytes(
        "loading",
        file.metadata().map_or(0, |metadata| metadata.len()),
    );
    let mut name = args.path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".loading-{}", std::process::id()));
    let temporary = args.path.with_file_name(name);
    let loaded: Result<(u64, u64)> = (|| {
        let database = create::create(&temporary, &args.database)?;
        let mut input = Loader::new(BufReader::with_capacity(1 << 18, file));
        let counts = input
            .load(&database, |bytes| bar.set_position(bytes))
            .with_context(|| format!("{}, line {}", args.file.display(), input.record.line))?;
        database.close()?;
        // An empty directory may stand there already.
        let _ = fs::remove_dir(&args.path);
        fs::rename(&temporary, &args.path)
            .with_context(|| format!("cannot create {}", args.path.display()))?;
        Ok(counts)
    })();
    bar.finish_and_clear();
    if loaded.is_err() {
        let _ = Database::remove(&temporary);
    }
    let (tables, rows) = loaded?;
    let mut facts = Facts::default();
    facts.add("database", args.path.display().to_string());
    facts.add("tables", Cell::Whole(tables));
    facts.add("rows", Cell::Whole(rows));
    facts.print(format)
}

/// Reads a dump record by record.
struct Loader<R> {
    reader: CsvReader<R>,
    record: Record,
}

/// An index to be built when the rows are there.
struct PendingIndex {
    name: String,
    columns: Vec<String>,
    uniqueness: Uniqueness,
}

/// A table's definition as far as it has been read.
#[derive(Default)]
struct Definition {
    columns: Vec<Column>,
    primary_key: Vec<String>,
    partitioning: Vec<Field>,
    indexes: Vec<PendingIndex>,
}

impl<R: BufRead> Loader<R> {
    fn new(input: R) -> Self {
        Self {
            reader: CsvReader::new(input, b','),
            record: Record::default(),
        }
    }

    /// Loads everything; returns the numbers of tables and rows.
    fn load(&mut self, database: &Database, mut progress: impl FnMut(u64)) -> Result<(u64, u64)> {
        self.next()?;
        if self.keyword() != "indelible-dump" {
            bail!("this is no dump of a database; give a file that `indelible dump` wrote");
        }
        if self.text(1)? != VERSION {
            bail!(
                "the dump has format {}, this program reads format {VERSION}; use a newer program",
                self.text(1)?
            );
        }
        let (mut tables, mut rows) = (0, 0);
        loop {
            self.next()?;
            match self.keyword() {
                "table" => {
                    rows += self.load_table(database, &mut progress)?;
                    tables += 1;
                }
                "end-of-dump" => {
                    self.expect_count(tables, "tables")?;
                    return Ok((tables, rows));
                }
                other => bail!("`{other}` is not expected here; the dump is damaged"),
            }
        }
    }

    fn load_table(&mut self, database: &Database, progress: &mut impl FnMut(u64)) -> Result<u64> {
        let name = self.text(1)?.to_owned();
        let mut def = Definition::default();
        loop {
            self.next()?;
            match self.keyword() {
                "column" => def.columns.push(self.column()?),
                "primary-key" => def.primary_key = self.texts(1)?,
                "partitioning" => def.partitioning = self.record.fields[1..].to_vec(),
                kind @ ("index" | "unique-index") => {
                    let unique = kind == "unique-index";
                    def.indexes.push(PendingIndex {
                        uniqueness: if unique {
                            Uniqueness::Unique
                        } else {
                            Uniqueness::Repeating
                        },
                        name: self.text(1)?.to_owned(),
                        columns: self.texts(2)?,
                    });
                }
                "row" | "end" => break,
                other => bail!("`{other}` is not expected here; the dump is damaged"),
            }
        }
        let table = def.create(database, &name)?;
        let rows = self.load_rows(database, &table, progress)?;
        // Over rows that are there an index is built in one go.
        for index in def.indexes {
            let columns = index.columns.iter().map(String::as_str);
            database.create_index(&table, &index.name, columns, index.uniqueness)?;
        }
        Ok(rows)
    }

    /// Loads rows until the table's end; the first of these records has been read.
    fn load_rows(
        &mut self,
        database: &Database,
        table: &Table,
        progress: &mut impl FnMut(u64),
    ) -> Result<u64> {
        let columns = table.definition().columns;
        let mut row = table.row();
        let mut rows = 0;
        // A load that fails leaves nothing at all, so its transactions need not be durable one by one.
        let options = TransactionOptions::new().durability(Durability::None);
        while self.keyword() == "row" {
            let mut transaction = database.begin_with(&options)?;
            for _ in 0..LOAD_BATCH {
                self.fill(&columns, &mut row)?;
                transaction.insert(table, &row)?;
                rows += 1;
                self.next()?;
                if self.keyword() != "row" {
                    break;
                }
            }
            transaction.commit()?;
            progress(self.reader.bytes());
        }
        if self.keyword() != "end" {
            bail!(
                "`{}` is not expected here; the dump is damaged",
                self.keyword()
            );
        }
        self.expect_count(rows, "rows")?;
        Ok(rows)
    }

    fn fill(&self, columns: &[Column], row: &mut Row) -> Result<()> {
        let fields = &self.record.fields[1..];
        if fields.len() != columns.len() {
            bail!(
                "{} values for {} columns; the dump is damaged",
                fields.len(),
                columns.len()
            );
        }
        row.clear();
        for (at, (field, column)) in fields.iter().zip(columns).enumerate() {
            if field.is_null() {
                row.set(at, &Value::Null)?;
            } else {
                let value = Value::parse(column.data_type, &field.text)
                    .with_context(|| format!("column `{}`", column.name))?;
                row.set(at, &value)?;
            }
        }
        Ok(())
    }

    fn column(&self) -> Result<Column> {
        let column = Column::new(self.text(1)?, self.text(2)?.parse::<DataType>()?);
        let nullable = self
            .record
            .fields
            .get(3)
            .is_some_and(|field| field.text == "null");
        Ok(if nullable { column.nullable() } else { column })
    }

    fn next(&mut self) -> Result<()> {
        match self.reader.read(&mut self.record) {
            Ok(true) => Ok(()),
            Ok(false) => Err(anyhow!("the dump ends too early; it was cut off")),
            Err(error) => Err(anyhow!("{error}")),
        }
    }

    fn keyword(&self) -> &str {
        self.record.fields.first().map_or("", |field| &field.text)
    }

    fn text(&self, at: usize) -> Result<&str> {
        let field = self.record.fields.get(at);
        field.map(|field| field.text.as_str()).with_context(|| {
            format!(
                "a `{}` record has too few fields; the dump is damaged",
                self.keyword()
            )
        })
    }

    fn texts(&self, from: usize) -> Result<Vec<String>> {
        self.text(from)?;
        Ok(self.record.fields[from..]
            .iter()
            .map(|field| field.text.clone())
            .collect())
    }

    fn expect_count(&self, found: u64, what: &str) -> Result<()> {
        let stated = self.text(1)?;
        if stated.parse() == Ok(found) {
            return Ok(());
        }
        bail!(
            "the dump says {stated} {what}, but {} are there; it is damaged",
            thousands(found)
        )
    }
}

impl Definition {
    fn create(&self, database: &Database, name: &str) -> Result<Table> {
        let mut builder = database.create_table(name);
        for column in &self.columns {
            builder = if column.nullable {
                builder.nullable_column(&column.name, column.data_type)
            } else {
                builder.column(&column.name, column.data_type)
            };
        }
        let partitioning = self.partitioning(database.partitions())?;
        let key = self.primary_key.iter().map(String::as_str);
        Ok(builder
            .primary_key(key)
            .partitioning(partitioning)
            .create()?)
    }

    fn partitioning(&self, partitions: u32) -> Result<Partitioning> {
        let texts: Vec<&str> = self
            .partitioning
            .iter()
            .map(|field| field.text.as_str())
            .collect();
        match texts.as_slice() {
            ["hash"] => Ok(Partitioning::Hash),
            ["modulo"] => Ok(Partitioning::Modulo),
            ["replicated"] => Ok(Partitioning::Replicated),
            ["ranges", pairs @ ..] if pairs.len() % 2 == 0 => {
                let first = self.primary_key.first();
                let key = self
                    .columns
                    .iter()
                    .find(|column| Some(&column.name) == first);
                let key = key.context("the primary key comes after the partitioning")?;
                let start = |pair: &[&str]| {
                    let partition: u32 = pair[1].parse()?;
                    Ok(RangeStart {
                        from: Value::parse(key.data_type, pair[0])?,
                        // A database with fewer partitions deals the ranges out in turn.
                        partition: partition % partitions,
                    })
                };
                pairs
                    .chunks(2)
                    .map(start)
                    .collect::<Result<_>>()
                    .map(Partitioning::Ranges)
            }
            other => bail!("`{}` is no way of partitioning", other.join(",")),
        }
    }
}
