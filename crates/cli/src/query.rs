//! `get` and `scan`: rows by key, and rows in the order of a key.
//!
//! Keys are written as the texts of their columns; fewer texts than columns are a prefix. Rows print with
//! the names of their columns.

use crate::args::{GetArgs, ScanArgs};
use crate::columns;
use crate::failure::Usage;
use crate::output::{Format, Listing, value_cell};
use anyhow::{Result, bail};
use indelible::{Database, Direction, Row, Table, TableDef, Value};
use std::ops::{Bound, ControlFlow};

/// Runs `get`.
pub(crate) fn get(args: &GetArgs, format: Format) -> Result<()> {
    let database = Database::open(&args.path)?;
    let table = database.table(&args.table)?;
    let def = table.definition();
    let key = columns::key(&def, &def.primary_key, &args.key)?;
    if key.len() < def.primary_key.len() {
        return Err(Usage::error(format!(
            "the primary key of table `{}` has {} columns; give a value for each, or use `scan --prefix`",
            def.name,
            def.primary_key.len()
        )));
    }
    let Some(row) = database.read(|reader| reader.get(&table, &key))? else {
        bail!(
            "table `{}` has no row with key {}",
            def.name,
            args.key.join(", ")
        );
    };
    let mut listing = listing(&table);
    listing.push(row.values().map(value_cell).collect());
    listing.print(format)
}

/// Runs `scan`.
pub(crate) fn scan(args: &ScanArgs, format: Format) -> Result<()> {
    let database = Database::open(&args.path)?;
    let table = database.table(&args.table)?;
    let def = table.definition();
    let key_columns = match &args.index {
        None => def.primary_key.clone(),
        Some(name) => {
            // The database's own error names the table and the index.
            table.index(name)?;
            def.index(name)
                .map(|index| index.columns.clone())
                .unwrap_or_default()
        }
    };
    let bounds = bounds(args, &def, &key_columns)?;
    let direction = if args.backward {
        Direction::Backward
    } else {
        Direction::Forward
    };
    let mut rows: Vec<Row> = Vec::new();
    let mut more = false;
    database.read(|reader| {
        rows.clear();
        let visit = |row: &Row| {
            more = rows.len() as u64 >= args.limit;
            if more {
                return ControlFlow::Break(());
            }
            rows.push(row.clone());
            ControlFlow::Continue(())
        };
        match &args.index {
            None => reader.scan(&table, bounds.clone(), direction, visit),
            Some(name) => reader.scan_index(&table.index(name)?, bounds.clone(), direction, visit),
        }
    })?;
    let mut listing = listing(&table);
    for row in &rows {
        listing.push(row.values().map(value_cell).collect());
    }
    listing.print(format)?;
    if more {
        eprintln!("there are more rows; raise --limit, or use `indelible export` for all");
    }
    Ok(())
}

fn listing(table: &Table) -> Listing {
    Listing::new(
        table
            .definition()
            .columns
            .into_iter()
            .map(|column| column.name),
    )
}

type Bounds = (Bound<Vec<Value>>, Bound<Vec<Value>>);

fn bounds(args: &ScanArgs, def: &TableDef, key_columns: &[usize]) -> Result<Bounds> {
    let read = |texts: &[String]| -> Result<Bound<Vec<Value>>> {
        if texts.is_empty() {
            return Ok(Bound::Unbounded);
        }
        Ok(Bound::Included(columns::key(def, key_columns, texts)?))
    };
    if args.prefix.is_empty() {
        Ok((read(&args.from)?, read(&args.to)?))
    } else {
        Ok((read(&args.prefix)?, read(&args.prefix)?))
    }
}
