//! `create`: a new database, and the options that every command which makes one shares.
//!
//! The database records these options; opening it later needs none.

use crate::args::{CreateArgs, NewDatabaseArgs};
use crate::failure::Usage;
use crate::output::{Cell, Facts, Format};
use anyhow::Result;
use indelible::{Choice, Database, Method, Options};
use std::path::Path;

/// Runs the command.
pub(crate) fn run(args: &CreateArgs, format: Format) -> Result<()> {
    let database = create(&args.path, &args.database)?;
    let mut facts = Facts::default();
    facts.add("database", args.path.display().to_string());
    facts.add("method", database.method().name());
    facts.add("partitions", Cell::Whole(database.partitions().into()));
    facts.add("domain", database.domain().name());
    facts.add("survives", database.survives());
    database.close()?;
    facts.print(format)
}

/// Creates a database with these options.
fn create(path: &Path, args: &NewDatabaseArgs) -> Result<Database> {
    Ok(Database::create(path, &options(args)?)?)
}

/// The options of a new database.
pub(crate) fn options(args: &NewDatabaseArgs) -> Result<Options> {
    let method = args.axes.method()?.map_or(args.method, Choice::Explicit);
    if method == Choice::Explicit(Method::Volatile) {
        return Err(Usage::error(
            "method `volatile` keeps nothing, so the database would be gone at once; choose another method, or measure with \
             `indelible bench`",
        ));
    }
    let mut options = Options::new()
        .method(method)
        .partitions(args.partitions)
        .layout(args.layout.into());
    if let Some(domain) = args.domain {
        options = options.domain(domain.into());
    }
    if let Some(bytes) = args.node_bytes {
        options = options.node_bytes(bytes);
    }
    Ok(args.method_options().fold(options, Options::with))
}
