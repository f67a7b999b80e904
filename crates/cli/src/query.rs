//! `get` and `scan`: rows by key, and rows in the order of a key.
//!
//! Keys are written as the texts of their columns; fewer texts than columns are a prefix. Rows
//! print with the names of their columns.

use crate::args::{GetArgs, ScanArgs};
use crate::columns;
use crate::failure::Usage;
use crate::output::{Format, Listing, Rows, note, row_cells, stdout};
use crate::reading;
use crate::tables;
use anyhow::{Result, bail};
use indelible::{Direction, Row, Table, TableDef, Value};
use std::ops::{Bound, ControlFlow};

/// Runs `get`.
pub(crate) fn get(args: &GetArgs, format: Format) -> Result<()> {
    let database = reading::open(&args.path)?;
    let table = tables::find_rows(&database, &args.table, "SELECT")?;
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
    let mut listing = Listing::new(names(&table));
    listing.push(row_cells(&row, format));
    listing.print(format)
}

/// Runs `scan`.
pub(crate) fn scan(args: &ScanArgs, format: Format) -> Result<()> {
    let database = reading::open(&args.path)?;
    let table = tables::find_rows(&database, &args.table, "SELECT")?;
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
    let mut rows = Rows::new(stdout(), names(&table), format)?;
    let (mut printed, mut more, mut failure) = (0_u64, false, None);
    let visit = |row: &Row| {
        more = printed >= args.limit;
        if more {
            return ControlFlow::Break(());
        }
        printed += 1;
        match rows.push(&row_cells(row, format)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    // A reader that conflicts runs again, and printed rows cannot be taken back: so this
    // transaction is begun by hand.
    let mut transaction = database.begin()?;
    match &args.index {
        None => transaction.scan(&table, bounds, direction, visit)?,
        Some(name) => transaction.scan_index(&table.index(name)?, bounds, direction, visit)?,
    }
    transaction.commit()?;
    if let Some(error) = failure {
        return Err(error);
    }
    rows.finish()?;
    if more {
        note("there are more rows; raise --limit, or use `indelible export` for all");
    }
    Ok(())
}

/// The names of the columns of a table.
fn names(table: &Table) -> Vec<String> {
    let columns = table.definition().columns.into_iter();
    columns.map(|column| column.name).collect()
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
