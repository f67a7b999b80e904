//! Making a new database that appears under its name only when it is complete.
//!
//! It is made next to its final place, filled, closed, opened again as any program would, and read
//! back. Then the directory is renamed. A failure leaves nothing, neither there nor in directories
//! of its log and archive. A killed process leaves a directory `NAME.unfinished-NUMBER`, which may
//! be removed.

use super::content::Totals;
use super::copy::{CopyStage, CopyWatch, Nowhere};
use super::load::Loader;
use super::source;
use crate::database::Database;
use crate::descriptor::Descriptor;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::platform::{is_empty_directory, remove_files, remove_own_files, sync_parent};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
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
    check_free(path)?;
    let temporary = beside(path)?;
    let mut unfinished = Unfinished::new(&temporary, options.archive_path());
    let database = Database::create(&temporary, &options)?;
    let method = database.method();
    let filled = fill(&mut Loader::new(&database), watch)?;
    database.close()?;
    let database = Database::open(&temporary)?;
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
    check_free(path)?;
    // commit point: the database is there from here on, whole. An empty directory at its place
    // gives way.
    fs::rename(&temporary, path).map_err(|source| io_error("create", path, source))?;
    unfinished.has_its_name = true;
    sync_parent(path)?;
    Ok((method, found))
}

/// Fails unless a database can be made at `path`.
fn check_free(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(_) if is_empty_directory(path) => Ok(()),
        Ok(_) => Err(Error::Occupied {
            path: path.to_owned(),
        }),
        Err(source) => Err(io_error("look for", path, source)),
    }
}

/// A name in the same directory, so that only a rename remains.
fn beside(path: &Path) -> Result<PathBuf> {
    let (parent, name) = split(path)?;
    let temporary = parent.join(format!("{name}.unfinished-{}", std::process::id()));
    if fs::symlink_metadata(&temporary).is_ok() {
        return Err(Error::Occupied { path: temporary });
    }
    Ok(temporary)
}

/// The directory and the name of a path.
pub(super) fn split(path: &Path) -> Result<(&Path, &str)> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match path.file_name().and_then(OsStr::to_str) {
        Some(name) => Ok((parent, name)),
        None => Err(Error::option(
            "path",
            format!("{} does not end with a name in UTF-8", path.display()),
            "give a path that ends with the new name",
        )),
    }
}

/// The error for a backup file that is there already.
pub(super) fn exists(name: &str) -> Error {
    let source = io::ErrorKind::AlreadyExists.into();
    io_error("create", Path::new(name), source)
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

/// A directory that is removed unless it has got its final name.
struct Unfinished {
    path: PathBuf,
    /// An archive of the log that was begun with it; one that was there before belongs to another
    /// database.
    archive: Option<PathBuf>,
    has_its_name: bool,
}

impl Unfinished {
    fn new(path: &Path, archive: Option<&Path>) -> Self {
        let is_new = |archive: &&Path| !archive.exists() || is_empty_directory(archive);
        Self {
            path: path.to_owned(),
            archive: archive.filter(is_new).map(Path::to_owned),
            has_its_name: false,
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.has_its_name {
            return;
        }
        // The copy has failed already; files that cannot be removed are the smaller problem.
        let _ = remove_files(&self.path, false);
        if let Some(archive) = &self.archive {
            let _ = remove_own_files(archive);
        }
    }
}
