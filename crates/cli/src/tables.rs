//! `tables` and `indexes`: what a database's tables look like, and the making and dropping of them.
//!
//! Definitions are durable when the command returns.

use crate::args::{
    CreateIndexArgs, CreateTableArgs, IndexArgs, IndexesCommand, PartitioningName, TableArgs,
    TablesCommand,
};
use crate::columns;
use crate::output::{Cell, Format, Listing};
use anyhow::Result;
use indelible::{Database, Partitioning, TableDef, Uniqueness};

/// Runs `tables`.
pub(crate) fn run_tables(command: &TablesCommand, format: Format) -> Result<()> {
    match command {
        TablesCommand::List(args) => list_tables(&Database::open(&args.path)?, format),
        TablesCommand::Create(args) => create_table(args),
        TablesCommand::Drop(args) => {
            let database = Database::open(&args.path)?;
            database.drop_table(&args.table)?;
            Ok(database.close()?)
        }
    }
}

/// Runs `indexes`.
pub(crate) fn run_indexes(command: &IndexesCommand, format: Format) -> Result<()> {
    match command {
        IndexesCommand::List(args) => list_indexes(args, format),
        IndexesCommand::Create(args) => create_index(args),
        IndexesCommand::Drop(IndexArgs { path, table, index }) => {
            let database = Database::open(path)?;
            database.drop_index(&database.table(table)?, index)?;
            Ok(database.close()?)
        }
    }
}

/// Prints every table with its columns, key and indexes.
pub(crate) fn list_tables(database: &Database, format: Format) -> Result<()> {
    let mut listing = Listing::new([
        "table",
        "rows",
        "columns",
        "primary_key",
        "indexes",
        "partitioning",
    ]);
    for table in database.tables() {
        let def = table.definition();
        let columns: Vec<String> = def.columns.iter().map(columns::print).collect();
        let indexes: Vec<&str> = def
            .indexes
            .iter()
            .map(|index| index.name.as_str())
            .collect();
        let rows = database.read(|reader| reader.count(&table, ..))?;
        let partitioning = match def.partitioning {
            Partitioning::Hash => "hash",
            Partitioning::Modulo => "modulo",
            Partitioning::Replicated => "replicated",
            Partitioning::Ranges(_) => "ranges",
        };
        listing.push(vec![
            def.name.as_str().into(),
            Cell::Whole(rows),
            columns.join(", ").into(),
            names(&def, &def.primary_key).into(),
            indexes.join(", ").into(),
            partitioning.into(),
        ]);
    }
    listing.print(format)
}

fn names(def: &TableDef, positions: &[usize]) -> String {
    let names: Vec<&str> = positions
        .iter()
        .map(|at| def.columns[*at].name.as_str())
        .collect();
    names.join(", ")
}

fn create_table(args: &CreateTableArgs) -> Result<()> {
    let columns = columns::parse(&args.columns)?;
    columns::positions(&columns, &args.primary_key)?;
    let database = Database::open(&args.path)?;
    let mut builder = database.create_table(&args.table);
    for column in &columns {
        builder = if column.nullable {
            builder.nullable_column(&column.name, column.data_type)
        } else {
            builder.column(&column.name, column.data_type)
        };
    }
    let partitioning = match args.partitioning {
        PartitioningName::Hash => Partitioning::Hash,
        PartitioningName::Modulo => Partitioning::Modulo,
        PartitioningName::Replicated => Partitioning::Replicated,
    };
    let key = args.primary_key.iter().map(String::as_str);
    builder
        .primary_key(key)
        .partitioning(partitioning)
        .create()?;
    Ok(database.close()?)
}

fn list_indexes(args: &TableArgs, format: Format) -> Result<()> {
    let database = Database::open(&args.path)?;
    let def = database.table(&args.table)?.definition();
    let mut listing = Listing::new(["index", "columns", "unique"]);
    for index in &def.indexes {
        let columns = names(&def, &index.columns);
        listing.push(vec![
            index.name.as_str().into(),
            columns.into(),
            Cell::Flag(index.unique),
        ]);
    }
    listing.print(format)
}

fn create_index(args: &CreateIndexArgs) -> Result<()> {
    let database = Database::open(&args.path)?;
    let table = database.table(&args.table)?;
    let uniqueness = if args.unique {
        Uniqueness::Unique
    } else {
        Uniqueness::Repeating
    };
    let columns = args.columns.iter().map(String::as_str);
    database.create_index(&table, &args.index, columns, uniqueness)?;
    Ok(database.close()?)
}
