//! `tables`, `indexes` and `describe`: shows the tables of a database, and creates and drops them.
//!
//! Definitions are durable when the command returns.

use crate::args::{
    CreateIndexArgs, CreateTableArgs, IndexArgs, IndexesCommand, PartitioningName, TableArgs,
    TablesCommand,
};
use crate::columns;
use crate::output::{Cell, Facts, Format, Listing, counted, empty_line, thousands};
use crate::reading;
use anyhow::{Result, bail};
use indelible::{Database, IndexDef, KeyRule, Owner, Partitioning, Table, TableDef, Uniqueness};

/// Runs `tables`.
pub(crate) fn run_tables(command: &TablesCommand, format: Format) -> Result<()> {
    match command {
        TablesCommand::List(args) => list_tables(&reading::open(&args.path)?, format),
        TablesCommand::Create(args) => create_table(args, format),
        TablesCommand::Drop(args) => drop_table(args, format),
    }
}

/// Runs `indexes`.
pub(crate) fn run_indexes(command: &IndexesCommand, format: Format) -> Result<()> {
    match command {
        IndexesCommand::List(args) => list_indexes(args, format),
        IndexesCommand::Create(args) => create_index(args, format),
        IndexesCommand::Drop(args) => drop_index(args, format),
    }
}

/// The table of this name. The error names those that exist.
pub(crate) fn find(database: &Database, name: &str) -> Result<Table> {
    match database.table(name) {
        Err(indelible::Error::NoSuchTable { .. }) => {
            let tables = database.tables();
            // A table that SQL has rewritten has a name of its own for it.
            let hidden = |table: &&Table| table.name().starts_with('#') && is_of_sql(table);
            let has_hidden = tables.iter().any(|table| hidden(&table));
            let names = tables.iter().filter(|table| !hidden(table));
            let names: Vec<String> = names.map(|table| format!("`{}`", table.name())).collect();
            let more = if has_hidden {
                "; those of SQL are listed by `\\dt` in `indelible sql`"
            } else {
                ""
            };
            match names.as_slice() {
                [] if has_hidden => bail!("there is no table `{name}` here{more}"),
                [] => bail!("there is no table `{name}`; the database has no tables yet"),
                names => bail!(
                    "there is no table `{name}`; the tables are {}{more}",
                    names.join(", ")
                ),
            }
        }
        found => Ok(found?),
    }
}

/// Whether SQL keeps the definition of a table. Its columns here are not those that SQL shows.
pub(crate) fn is_of_sql(table: &Table) -> bool {
    table.definition().owner == Owner::Sql
}

/// The table of this name, to read or write its rows as the typed interface has them.
pub(crate) fn find_rows(database: &Database, name: &str, instead: &str) -> Result<Table> {
    let table = find(database, name)?;
    if is_of_sql(&table) {
        bail!(
            "table `{name}` was made by SQL, and its values have their meaning there only; use {instead} in `indelible sql`"
        );
    }
    Ok(table)
}

/// The table of this name, to change its definition here. The catalogue of SQL names its tables and
/// their indexes, and would name them still.
fn find_typed(database: &Database, name: &str, instead: &str) -> Result<Table> {
    let table = find(database, name)?;
    if table.definition().owner == Owner::Sql {
        bail!(
            "table `{name}` was made by SQL, whose catalogue names it; use {instead} in `indelible sql`"
        );
    }
    Ok(table)
}

/// Prints the columns of a table, and to people its indexes and its size as well.
pub(crate) fn describe(args: &TableArgs, format: Format) -> Result<()> {
    let database = reading::open(&args.path)?;
    let table = find(&database, &args.table)?;
    let def = table.definition();
    if format == Format::Text {
        let mut facts = Facts::default();
        facts.add("table", def.name.as_str());
        facts.add(
            "rows",
            thousands(database.read(|reader| reader.count(&table, ..))?),
        );
        facts.add("primary key", names(&def, &def.primary_key));
        facts.add("partitioning", partitioning_name(&def));
        let keys = match def.keys {
            KeyRule::Exact => "exact",
            KeyRule::Truncated { .. } => "long contents are truncated",
        };
        facts.add("keys", keys);
        if def.owner == Owner::Sql {
            facts.add("constraints", "kept by SQL");
        }
        facts.print(format)?;
        empty_line()?;
    }
    let mut listing = Listing::new(["column", "type", "nullable", "primary_key", "indexes"]);
    for (at, column) in def.columns.iter().enumerate() {
        let in_key = def.primary_key.iter().position(|key| *key == at);
        let in_index = |index: &&IndexDef| index.columns.contains(&at);
        let indexes = def.indexes.iter().filter(in_index);
        let indexes: Vec<&str> = indexes.map(|index| index.name.as_str()).collect();
        listing.push(vec![
            column.name.as_str().into(),
            column.data_type.to_string().into(),
            Cell::Flag(column.nullable),
            in_key.map_or("".into(), |at| Cell::Whole(at as u64 + 1)),
            indexes.join(", ").into(),
        ]);
    }
    listing.print(format)?;
    if format == Format::Text && !def.indexes.is_empty() {
        empty_line()?;
        indexes_of(&def).print(format)?;
    }
    Ok(())
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
        listing.push(vec![
            def.name.as_str().into(),
            Cell::Whole(rows),
            columns.join(", ").into(),
            names(&def, &def.primary_key).into(),
            indexes.join(", ").into(),
            partitioning_name(&def).into(),
        ]);
    }
    listing.print(format)
}

fn partitioning_name(def: &TableDef) -> &'static str {
    match def.partitioning {
        Partitioning::Hash => "hash",
        Partitioning::Modulo => "modulo",
        Partitioning::Replicated => "replicated",
        Partitioning::Ranges(_) => "ranges",
    }
}

fn names(def: &TableDef, positions: &[usize]) -> String {
    let names: Vec<&str> = positions
        .iter()
        .map(|at| def.columns[*at].name.as_str())
        .collect();
    names.join(", ")
}

fn create_table(args: &CreateTableArgs, format: Format) -> Result<()> {
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
    if args.exact_keys {
        builder = builder.exact_keys();
    }
    let key = args.primary_key.iter().map(String::as_str);
    builder
        .primary_key(key)
        .partitioning(partitioning)
        .create()?;
    database.close()?;
    let (count, key) = (columns.len() as u64, args.primary_key.join(", "));
    let mut facts = Facts::default();
    facts.add("table", args.table.as_str());
    facts.add("created", Cell::Flag(true));
    facts.add("columns", Cell::Whole(count));
    facts.add("primary key", key.as_str());
    let (table, columns) = (&args.table, counted(count, "column", "columns"));
    let sentence = format!("created table {table}: {columns}, primary key {key}");
    facts.print_as(&sentence, format)
}

fn drop_table(args: &TableArgs, format: Format) -> Result<()> {
    let database = Database::open(&args.path)?;
    let table = find_typed(&database, &args.table, "DROP TABLE")?;
    let indexes = table.definition().indexes.len() as u64;
    let rows = database.read(|reader| reader.count(&table, ..))?;
    database.drop_table(&args.table)?;
    database.close()?;
    let mut facts = Facts::default();
    facts.add("table", args.table.as_str());
    facts.add("dropped", Cell::Flag(true));
    facts.add("rows", Cell::Whole(rows));
    facts.add("indexes", Cell::Whole(indexes));
    let (rows, indexes) = (
        counted(rows, "row", "rows"),
        counted(indexes, "index", "indexes"),
    );
    let sentence = format!("dropped table {} with {rows} and {indexes}", args.table);
    facts.print_as(&sentence, format)
}

fn list_indexes(args: &TableArgs, format: Format) -> Result<()> {
    let database = reading::open(&args.path)?;
    let def = find(&database, &args.table)?.definition();
    indexes_of(&def).print(format)
}

fn indexes_of(def: &TableDef) -> Listing {
    let mut listing = Listing::new(["index", "columns", "unique"]);
    for index in &def.indexes {
        let columns = names(def, &index.columns);
        listing.push(vec![
            index.name.as_str().into(),
            columns.into(),
            Cell::Flag(index.unique),
        ]);
    }
    listing
}

fn create_index(args: &CreateIndexArgs, format: Format) -> Result<()> {
    let database = Database::open(&args.path)?;
    let table = find_typed(&database, &args.table, "CREATE INDEX")?;
    let uniqueness = if args.unique {
        Uniqueness::Unique
    } else {
        Uniqueness::Repeating
    };
    let columns = args.columns.iter().map(String::as_str);
    database.create_index(&table, &args.index, columns, uniqueness)?;
    database.close()?;
    let (index, table, columns) = (&args.index, &args.table, args.columns.join(", "));
    let facts = index_facts(index, table, "created");
    let sentence = format!("created index {index} of table {table} on {columns}");
    facts.print_as(&sentence, format)
}

fn drop_index(args: &IndexArgs, format: Format) -> Result<()> {
    let IndexArgs { path, table, index } = args;
    let database = Database::open(path)?;
    database.drop_index(&find_typed(&database, table, "DROP INDEX")?, index)?;
    database.close()?;
    let facts = index_facts(index, table, "dropped");
    facts.print_as(&format!("dropped index {index} of table {table}"), format)
}

fn index_facts(index: &str, table: &str, done: &str) -> Facts {
    let mut facts = Facts::default();
    facts.add("index", index);
    facts.add("table", table);
    facts.add(done, Cell::Flag(true));
    facts
}
