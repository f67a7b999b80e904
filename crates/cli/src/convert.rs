//! `convert`: a copy of a database with another method or other options.
//!
//! The library does the work (`Database::convert`), and compares the counts and the content of both
//! before it reports success; this module has the progress and the report. The old database stays
//! as it is.

use crate::args::ConvertArgs;
use crate::backup::{add_report, show};
use crate::output::{Facts, Format};
use crate::progress;
use crate::reading;
use anyhow::{Context, Result};

/// Runs the command.
pub(crate) fn run(args: &ConvertArgs, format: Format) -> Result<()> {
    let options = args.database.options(Some(args.method));
    options.check()?;
    let database = reading::open(&args.path)?;
    let bar = progress::spinner("converting");
    let report = database.convert(&args.new, &options, &mut |progress| show(&bar, progress));
    bar.finish_and_clear();
    let report = report.with_context(|| {
        format!(
            "cannot convert {} to {}",
            args.path.display(),
            args.new.display()
        )
    })?;
    let mut facts = Facts::default();
    facts.add("database", args.new.display().to_string());
    facts.add("from", args.path.display().to_string());
    facts.add("from method", database.method().name());
    add_report(&mut facts, &report, format);
    database.close()?;
    facts.print(format)
}
