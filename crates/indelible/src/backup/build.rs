//! Making a new database that appears under its name only when it is complete.
//!
//! It is made next to its final place, filled, closed, opened again as any program would, and read
//! back. Then the directory is renamed. A failure leaves nothing, neither there nor in directories
//! of its log and archive ([`NewDatabase`]).

use super::content::Totals;
use super::copy::{CopyStage, CopyWatch, Nowhere};
use super::load::Loader;
use super::source;
use crate::database::Database;
use crate::descriptor::Descriptor;
use crate::error::{Error, Result};
use crate::new_database::NewDatabase;
use crate::options::Options;
use crate::platform::io_error;
use std::io;
use std::path::Path;
use storage::engine::Method;

/// Makes a database at `path` and fills it with `fill`; returns its method and its content.
pub(super) fn build(
    path: &Path,
    recorded: &Descriptor,
    options: &Options,
    watch: CopyWatch<'_>,
    fill: impl FnOnce(&mut Loader<'_>, CopyWatch<'_>) -> Result<Totals>,
) -> Result<(Method, Totals)> {
    let options = options.for_copy(recorded);
    if options.explicit_method() == Some(Method::Volatile) {
        return Err(Error::option(
            "method",
            "`volatile` keeps nothing, so a copy would be gone at once",
            "choose a method that is durable",
        ));
    }
    options.check()?;
    let new = NewDatabase::begin(path, &options)?;
    let database = Database::create(new.temporary(), &options)?;
    let method = database.method();
    let filled = fill(&mut Loader::new(&database), watch)?;
    database.close()?;
    let database = Database::open(new.temporary())?;
    let (found, _) = source::read(&database, CopyStage::Check, &mut Nowhere, watch)?;
    database.close()?;
    if found != filled {
        return Err(Error::CopyDiffers {
            detail: format!(
                "{} rows of {} tables were written with the checksum {:#018x}, {} rows of {} tables \
                 with {:#018x} were read back",
                filled.rows, filled.tables, filled.sum, found.rows, found.tables, found.sum
            ),
        });
    }
    new.finish()?;
    Ok((method, found))
}

/// The error for a backup file that is there already.
pub(super) fn exists(name: &str) -> Error {
    let source = io::ErrorKind::AlreadyExists.into();
    io_error("create", Path::new(name), source)
}
