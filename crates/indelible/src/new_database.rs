//! A database that is made under a temporary name and gets its own when it is complete.
//!
//! It is made next to its final place, so that only a rename remains. Until then its drop removes
//! it, with what is in the directories of its log and its archive, and so does
//! [`undo_pending`](crate::undo_pending) when a signal ends the process. Only a process that is
//! killed leaves a directory `NAME.unfinished-NUMBER`, which may be removed.

use crate::error::{Error, Result};
use crate::links;
use crate::options::Options;
use crate::platform::{
    io_error, is_empty_directory, make_directory, remove_files, remove_own_files, sync_parent,
};
use disk::Pending;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Attempts to remove a directory to which another thread still adds files.
const REMOVALS_MAX: u32 = 100;

/// A directory beside the final place of a new database.
#[derive(Debug)]
pub struct NewDatabase {
    path: PathBuf,
    scratch: ScratchDirectory,
}

impl NewDatabase {
    /// Makes an empty directory, in which a database with these options is created next.
    ///
    /// # Errors
    /// There is something at `path` that an empty directory could not replace.
    pub fn begin(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let path = path.as_ref();
        // An archive that was there before belongs to another database.
        let is_new = |archive: &&Path| !archive.exists() || is_empty_directory(archive);
        let archive = options.archive_path().filter(is_new);
        Ok(Self {
            path: path.to_owned(),
            scratch: ScratchDirectory::make(path, "unfinished", archive)?,
        })
    }

    /// The directory under its temporary name.
    pub fn temporary(&self) -> &Path {
        &self.scratch.path
    }

    /// Gives the database, which is complete and closed, its name, durably.
    pub fn finish(self) -> Result<()> {
        let (path, temporary) = (&self.path, &self.scratch.path);
        check_free(path)?;
        self.scratch.pending.finish(|| {
            // commit point: the database is there from here on, whole. An empty directory at its
            // place gives way.
            fs::rename(temporary, path).map_err(|source| io_error("create", path, source))
        })?;
        sync_parent(path)?;
        // The next opening notes it as well.
        let _ = links::note_all(path);
        Ok(())
    }
}

/// A directory of this process, which is removed on drop.
#[derive(Debug)]
pub(crate) struct ScratchDirectory {
    pub(crate) path: PathBuf,
    pending: Pending,
}

impl ScratchDirectory {
    /// Makes one beside `path`, named after it and after its purpose. It is removed together with
    /// the files of a database in `archive`. Fails at once if no database can be made at `path`.
    pub(crate) fn make(path: &Path, purpose: &str, archive: Option<&Path>) -> Result<Self> {
        check_free(path)?;
        let (parent, name) = split(path)?;
        make_directory(parent)?;
        let process = std::process::id();
        let mut number = 0;
        let path = loop {
            let path = match number {
                0 => parent.join(format!("{name}.{purpose}-{process}")),
                _ => parent.join(format!("{name}.{purpose}-{process}-{number}")),
            };
            match fs::create_dir(&path) {
                Ok(()) => break path,
                // Of another thread, or of a process that was killed and had the same number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(source) => return Err(io_error("create", &path, source)),
            }
        };
        let (directory, archive) = (path.clone(), archive.map(Path::to_owned));
        let pending = Pending::new(move || remove(&directory, archive.as_deref()));
        Ok(Self { path, pending })
    }
}

/// Removes an unfinished database. The work on it has failed already, so files that cannot be
/// removed are the smaller problem.
fn remove(path: &Path, archive: Option<&Path>) {
    for _ in 0..REMOVALS_MAX {
        let _ = remove_files(path, false);
        if let Some(archive) = archive {
            let _ = remove_own_files(archive);
        }
        if !path.exists() {
            break;
        }
    }
}

/// Fails unless a directory can be renamed to `path`.
fn check_free(path: &Path) -> Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(io_error("look for", path, source)),
        Ok(found) => found,
    };
    let fixed = |kind, remedy| {
        Err(Error::FixedPlace {
            path: path.to_owned(),
            kind,
            remedy,
        })
    };
    if found.is_symlink() {
        return fixed("a symbolic link", "give the path where it leads");
    }
    if !is_empty_directory(path) {
        return Err(Error::Occupied {
            path: path.to_owned(),
        });
    }
    let (parent, _) = split(path)?;
    let parent = fs::metadata(parent).map_err(|source| io_error("look for", parent, source))?;
    if parent.dev() == found.dev() {
        Ok(())
    } else {
        fixed("a mounted volume", "give a new name inside it")
    }
}

/// The directory and the name of a path.
fn split(path: &Path) -> Result<(&Path, &str)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A volume and a link cannot be replaced by a directory, which was found out at the end of all
    /// work.
    #[test]
    fn a_place_that_cannot_be_taken_is_refused_at_once() {
        let volume = Path::new("/dev/shm");
        if !volume.is_dir() {
            eprintln!("there is no volume to test with");
            return;
        }
        let directory = std::env::temp_dir().join(format!("indelible-new-{}", std::process::id()));
        fs::create_dir_all(directory.join("empty")).unwrap();
        let link = directory.join("link");
        std::os::unix::fs::symlink(directory.join("empty"), &link).unwrap();
        let refused = |path: &Path| check_free(path).unwrap_err();
        assert!(matches!(refused(&link), Error::FixedPlace { .. }));
        if is_empty_directory(volume) {
            assert!(matches!(refused(volume), Error::FixedPlace { .. }));
        }
        check_free(&directory.join("empty")).unwrap();
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_name_of_a_killed_process_is_passed_over() {
        let path = std::env::temp_dir().join(format!("indelible-left-{}", std::process::id()));
        let options = Options::new();
        let first = NewDatabase::begin(&path, &options).unwrap();
        let second = NewDatabase::begin(&path, &options).unwrap();
        assert_ne!(first.temporary(), second.temporary());
        let left = [first.temporary().to_owned(), second.temporary().to_owned()];
        drop((first, second));
        assert!(left.iter().all(|path| !path.exists()));
    }
}
