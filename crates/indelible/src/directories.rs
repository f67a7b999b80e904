//! Directories of the operating system: made durably, synced, looked into.
//!
//! The name of a new directory is durable once its parent is synced, so each parent that was made
//! on the way is synced too. Errors name the path and the action.

use crate::error::{Error, Result};
use std::fs::{self, File};
use std::path::Path;

/// Makes the directory of a new database durably, if it does not exist.
pub(crate) fn make_directory(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => Err(Error::NotADatabase {
            path: path.to_owned(),
            reason: "it is a file; a database is a directory, so choose another path".into(),
        }),
        Ok(_) => Ok(()),
        Err(_) => {
            let missing = path.ancestors().take_while(|path| {
                let is_named = !path.as_os_str().is_empty();
                is_named && !path.exists()
            });
            let missing: Vec<&Path> = missing.collect();
            fs::create_dir_all(path).map_err(|source| io_error("create", path, source))?;
            missing.into_iter().try_for_each(sync_parent)
        }
    }
}

/// Makes the name of a new directory durable.
pub(crate) fn sync_parent(path: &Path) -> Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let synced = File::open(parent).and_then(|parent| parent.sync_all());
    synced.map_err(|source| io_error("sync", parent, source))
}

pub(crate) fn io_error(action: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

/// Whether a path is a directory without files.
pub(crate) fn is_empty_directory(path: &Path) -> bool {
    has_at_most(path, 0)
}

pub(crate) fn has_at_most(path: &Path, entries: usize) -> bool {
    fs::read_dir(path).is_ok_and(|found| found.count() <= entries)
}
