//! Opening a database for commands that only read.
//!
//! They open it for reading, so the right to read its files is enough, several of them may run at
//! once, and not a byte of it changes. If a crash has left something to finish, the database is
//! opened for writing, which does that; if it cannot be written either, the error says so.

use anyhow::{Result, anyhow};
use indelible::{Database, Error, Mode, Options};
use std::io::ErrorKind;
use std::path::Path;

/// Opens the database in a directory.
pub(crate) fn open(path: &Path) -> Result<Database> {
    let due = match Database::open_with(path, &Options::new().mode(Mode::ReadOnly)) {
        Err(error) if error.needs_writing() => error,
        opened => return Ok(opened?),
    };
    Database::open(path).map_err(|error| {
        if cannot_write(&error) {
            anyhow!(
                "{due}. It cannot be written here ({error}): copy the whole directory to where it can be{}, and open it there",
                linked(path)
            )
        } else {
            error.into()
        }
    })
}

/// The directories that a copy needs as well, since it would have the links of the original.
fn linked(path: &Path) -> String {
    let links = ["log", "archive"].map(|name| path.join(name));
    let links = links.iter().filter_map(|link| {
        let target = std::fs::read_link(link).ok()?;
        let target = path.join(target);
        Some(format!(
            ", with {} as the target of {}",
            target.display(),
            link.display()
        ))
    });
    let links: String = links.collect();
    if links.is_empty() {
        links
    } else {
        format!("{links} (copy these too, and make the links in the copy lead to the copies)")
    }
}

/// Whether the missing right is that to write.
pub(crate) fn cannot_write(error: &Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            let kind = error.kind();
            return matches!(
                kind,
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
            );
        }
        cause = error.source();
    }
    false
}
