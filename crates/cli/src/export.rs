//! `export`: a table as CSV that imports to the same rows.
//!
//! Rows come in the order of the primary key, as of one moment. NULL is an empty field and the
//! empty text is `""`; numbers print so that they read back as the same number.

use crate::args::ExportArgs;
use crate::files::{self, OutputFile};
use crate::output::{Cell, Facts, Format, counted};
use crate::progress;
use crate::reading;
use crate::tables;
use anyhow::Result;

/// Runs the command.
pub(crate) fn run(args: &ExportArgs, format: Format) -> Result<()> {
    files::refuse_inside(&args.file, &args.path)?;
    let database = reading::open(&args.path)?;
    let table = tables::find_rows(&database, &args.table, "`\\copy TABLE to FILE csv header`")?;
    let mut out = OutputFile::create(&args.file, files::existing(args.force))?;
    let bar = progress::spinner(format!("exporting {}", args.table));
    let names: Vec<String> = table
        .definition()
        .columns
        .into_iter()
        .map(|column| column.name)
        .collect();
    delimited::write_header(&mut out, &names)?;
    // A reader that conflicts runs again, and written rows cannot be taken back: so this
    // transaction is begun by hand.
    let mut transaction = database.begin()?;
    let mut progress =
        |rows| progress::tell(&bar, &format!("exporting {}: {rows} rows", args.table));
    let written = delimited::write_rows(&mut out, &mut transaction, &table, "", &mut progress)?;
    transaction.commit()?;
    let rows = written?;
    bar.finish_and_clear();
    out.finish()?;
    let mut facts = Facts::default();
    facts.add("table", args.table.as_str());
    facts.add("file", args.file.display().to_string());
    facts.add("rows", Cell::Whole(rows));
    let (rows, file) = (counted(rows, "row", "rows"), args.file.display());
    let sentence = format!("exported {rows} of table {} to {file}", args.table);
    facts.print_beside(&args.file, &sentence, format)
}
