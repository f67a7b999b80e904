//! `dump` and `load`: a whole database as one text file.
//!
//! The file is CSV (see the room `delimited`), so any text may be in it. The first field of a
//! record is its kind:
//!
//! | record | meaning |
//! |---|---|
//! | `indelible-dump,1` | first record: format version |
//! | `table,NAME` | a table begins |
//! | `column,NAME,TYPE` or `column,NAME,TYPE,null` | a column, in the second form nullable |
//! | `primary-key,NAME,…` | columns of the primary key |
//! | `partitioning,hash`, `modulo` or `replicated` | which partition a row belongs to |
//! | `partitioning,ranges,FROM,PARTITION,…` | the same, by ranges |
//! | `index,NAME,COLUMN,…` or `unique-index,NAME,COLUMN,…` | a secondary index |
//! | `row,VALUE,…` | a row; an empty field is NULL, `""` the empty text |
//! | `end,ROWS` | the table ends; the number of its rows |
//! | `end-of-dump,TABLES` | last record; a file without it is cut off |
//!
//! A dump shows one moment. `load` builds the database next to its final place and renames it when
//! it is complete, so an interrupted load leaves nothing under the name.

use crate::args::{DumpArgs, LoadArgs};
use crate::create;
use crate::files::{self, InputFile, OutputFile};
use crate::output::{Cell, Facts, Format, counted};
use crate::progress;
use crate::reading;
use crate::tables::is_of_sql;
use anyhow::{Context, Result, bail};
use delimited::{DUMP_VERSION, Loader};
use indelible::{Database, NewDatabase, Partitioning, Table, TransactionOptions};
use std::fs;
use std::io::Write;

/// Runs `dump`.
pub(crate) fn dump(args: &DumpArgs, format: Format) -> Result<()> {
    files::refuse_inside(&args.file, &args.path)?;
    if args.sql {
        return dump_sql(args, format);
    }
    let database = reading::open(&args.path)?;
    if let Some(table) = database.tables().iter().find(|table| is_of_sql(table)) {
        let name = Some(table.name()).filter(|name| !name.starts_with('#'));
        let name = name.map_or_else(String::new, |name| format!(" `{name}`"));
        bail!(
            "table{name} was made by SQL, whose definitions such a dump does not have; use `indelible dump --sql`, \
             or `indelible backup` for a copy of everything"
        );
    }
    database.check_rows()?;
    let mut out = OutputFile::create(&args.file, files::existing(args.force))?;
    let bar = progress::spinner("dumping");
    record(&mut out, &["indelible-dump", DUMP_VERSION])?;
    let (tables, mut all_rows) = (database.tables(), 0);
    // One transaction over everything, so that the dump shows one moment.
    let all: Vec<u32> = (0..database.partitions()).collect();
    let mut transaction = database.begin_with(&TransactionOptions::new().partitions(all))?;
    for table in &tables {
        progress::tell(&bar, &format!("dumping {}", table.name()));
        write_definition(&mut out, table)?;
        let written = delimited::write_rows(&mut out, &mut transaction, table, "row,", &mut |_| ());
        let rows = written??;
        all_rows += rows;
        record(&mut out, &["end", &rows.to_string()])?;
    }
    transaction.commit()?;
    record(&mut out, &["end-of-dump", &tables.len().to_string()])?;
    bar.finish_and_clear();
    out.finish()?;
    let (count, file) = (tables.len() as u64, args.file.display());
    let mut facts = Facts::default();
    facts.add("file", file.to_string());
    facts.add("tables", Cell::Whole(count));
    facts.add("rows", Cell::Whole(all_rows));
    let (tables, rows) = (
        counted(count, "table", "tables"),
        counted(all_rows, "row", "rows"),
    );
    let sentence = format!("dumped {tables} with {rows} to {file}");
    facts.print_beside(&args.file, &sentence, format)
}

/// Writes a script of SQL.
fn dump_sql(args: &DumpArgs, format: Format) -> Result<()> {
    let mut out = OutputFile::create(&args.file, files::existing(args.force))?;
    let dumped = crate::sql::dump(&args.path, &mut out)?;
    let count = dumped.tables;
    out.finish()?;
    let file = args.file.display();
    let mut facts = Facts::default();
    facts.add("file", file.to_string());
    facts.add("tables", Cell::Whole(count));
    let sentence = format!("dumped {} to {file}", counted(count, "table", "tables"));
    facts.print_beside(&args.file, &sentence, format)?;
    dumped.check()
}

fn record(out: &mut impl Write, fields: &[&str]) -> Result<()> {
    delimited::write_record(out, fields.iter().map(|field| Some(*field)), b',')?;
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

/// Runs `load`.
pub(crate) fn load(args: &LoadArgs, format: Format) -> Result<()> {
    let occupied = fs::read_dir(&args.path).is_ok_and(|mut entries| entries.next().is_some());
    if occupied || args.path.is_file() {
        bail!(
            "{} exists already and is not empty; load into a new directory",
            args.path.display()
        );
    }
    let file = InputFile::open(&args.file)?;
    let bar = progress::bytes("loading", file.length);
    let loaded: Result<(u64, u64)> = (|| {
        let options = create::options(&args.database)?;
        let new = NewDatabase::begin(&args.path, &options)?;
        let database = Database::create(new.temporary(), &options)?;
        let mut input =
            Loader::new(file.bytes).with_context(|| format!("cannot read {}", file.name))?;
        let loaded = input.load(&database, &mut |bytes| bar.set_position(bytes));
        let counts = loaded.with_context(|| match input.line() {
            0 => file.name.clone(),
            line => format!("{}, line {line}", file.name),
        })?;
        database.close()?;
        new.finish()?;
        Ok(counts)
    })();
    bar.finish_and_clear();
    let (tables, rows) = loaded?;
    let mut facts = Facts::default();
    facts.add("database", args.path.display().to_string());
    facts.add("tables", Cell::Whole(tables));
    facts.add("rows", Cell::Whole(rows));
    facts.print(format)
}
