//! Links between the directories of a database: that of its log, that of its archive, and back.
//!
//! [`LOG`] and [`ARCHIVE`] in the database's directory lead to the other two, if it has them. A
//! copy of the database's directory has the same links, so it would write into the log of the
//! original. Therefore each of the two directories has a file [`OWNER`] with the path of the
//! database that it belongs to. It is no link, so that copies which follow links come to an end.
//!
//! Invariants:
//! 1. A directory whose [`OWNER`] names another database, whose own link leads back, is not used
//!    for writing.
//! 2. An owner that is not there, or whose link leads elsewhere, counts for nothing: it was moved,
//!    or the directory was copied. The next opening for writing notes the new one.

use crate::directories::{io_error, make_directory, sync_parent};
use crate::error::{Error, Result};
use crate::options::Options;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// The link to the directory of the log.
pub(crate) const LOG: &str = "log";
/// The link to the archive of the log.
pub(crate) const ARCHIVE: &str = "archive";
/// The file in each of both with the path of the database.
const OWNER: &str = "indelible.owner";

/// Makes the links that `options` ask for in a directory that has nothing but such links. Returns
/// those that it has made.
pub(crate) fn make_missing(path: &Path, options: &Options) -> Result<Vec<PathBuf>> {
    let mut made = Vec::new();
    if !has_only_links(path) {
        return Ok(made);
    }
    let is_missing = |link: &str| fs::symlink_metadata(path.join(link)).is_err();
    if let Some(log) = options.log_path().filter(|_| is_missing(LOG)) {
        made.push(make_log(path, log)?);
    }
    if let Some(archive) = options.archive_path().filter(|_| is_missing(ARCHIVE)) {
        let archive = make_archive(path, archive).inspect_err(|_| {
            for link in &made {
                // The first error is the one to report.
                let _ = fs::remove_file(link);
            }
        });
        made.push(archive?);
    }
    Ok(made)
}

fn has_only_links(path: &Path) -> bool {
    let is_link = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| {
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            is_link && (entry.file_name() == LOG || entry.file_name() == ARCHIVE)
        })
    };
    fs::read_dir(path).is_ok_and(|mut entries| entries.all(is_link))
}

/// Gives the log of a new database a directory of its own, which is made if it does not exist, and
/// a link to it.
fn make_log(path: &Path, log: &Path) -> Result<PathBuf> {
    make_directory(log)?;
    if is_same(path, log) {
        return Err(Error::option(
            "log_directory",
            format!("{} is the directory of the database itself", log.display()),
            "give another directory, or leave the option out",
        ));
    }
    if is_same(&path.join(ARCHIVE), log) {
        return Err(Error::option(
            "log_directory",
            format!("{} is the directory of the archive", log.display()),
            "give each a directory of its own",
        ));
    }
    make(path, LOG, log)
}

/// Gives the log of a database an archive in a directory, which is made if it does not exist, and a
/// link to it.
pub(crate) fn make_archive(path: &Path, archive: &Path) -> Result<PathBuf> {
    make_directory(archive)?;
    let of = |directory: &str| {
        format!(
            "{} is the directory of the {directory} itself",
            archive.display()
        )
    };
    let problem = match () {
        () if is_same(path, archive) => of("database"),
        () if is_same(&path.join(LOG), archive) => of("log"),
        () => return make(path, ARCHIVE, archive),
    };
    Err(Error::option(
        "archive",
        problem,
        "give another directory, better on another disk, or leave the option out",
    ))
}

/// Makes a link, durably.
fn make(path: &Path, name: &str, other: &Path) -> Result<PathBuf> {
    let target = fs::canonicalize(other).map_err(|source| io_error("find", other, source))?;
    let link = path.join(name);
    symlink(&target, &link).map_err(|source| io_error("create", &link, source))?;
    sync_parent(&link)?;
    Ok(link)
}

/// The directory of the log of a database, if the log has its own.
pub(crate) fn log_directory(path: &Path) -> Result<Option<PathBuf>> {
    let link = path.join(LOG);
    linked(&link).map_err(|path| Error::MissingLog { path, link })
}

/// The directory of the archive of a database's log, if there is one.
pub(crate) fn archive_directory(path: &Path) -> Result<Option<PathBuf>> {
    let link = path.join(ARCHIVE);
    linked(&link).map_err(|path| Error::MissingArchive { path, link })
}

/// Target of a link, if there is a link; the error is the target that does not exist.
fn linked(link: &Path) -> std::result::Result<Option<PathBuf>, PathBuf> {
    match target_of(link) {
        Some(target) if link.is_dir() => Ok(Some(target)),
        Some(target) => Err(target),
        None => Ok(None),
    }
}

/// Target of a link, if there is a link. A relative one begins at the directory of the link. A copy
/// that has followed the link has a directory with a note of the owner in its place.
pub(crate) fn target_of(link: &Path) -> Option<PathBuf> {
    match fs::read_link(link) {
        Ok(target) => Some(link.parent().unwrap_or(Path::new(".")).join(target)),
        Err(_) if link.join(OWNER).is_file() => Some(link.to_owned()),
        Err(_) => None,
    }
}

/// Whether two paths lead to one directory.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let inode = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((inode(one), inode(other)), (Ok(one), Ok(other)) if one == other)
}

/// Fails if a directory, to which the link `name` of the database in `path` leads, belongs to
/// another database.
pub(crate) fn check_owner(path: &Path, name: &'static str, other: &Path) -> Result<()> {
    match owner_of(other) {
        Some(owner) if !is_same(&owner, path) && is_same(&owner.join(name), other) => {
            Err(Error::LogOfAnother {
                path: other.into(),
                owner: owner.into(),
                link: path.join(name).into(),
            })
        }
        _ => Ok(()),
    }
}

/// The database that a directory belongs to, if that was noted.
pub(crate) fn owner_of(other: &Path) -> Option<PathBuf> {
    let text = fs::read(other.join(OWNER)).ok()?;
    Some(PathBuf::from(OsString::from_vec(text)))
}

/// Notes in a directory which database it belongs to.
pub(crate) fn note_owner(path: &Path, other: &Path) -> Result<()> {
    let path = fs::canonicalize(path).map_err(|source| io_error("find", path, source))?;
    if owner_of(other).as_ref() == Some(&path) {
        return Ok(());
    }
    let note = other.join(OWNER);
    // A note that a crash loses is written again by the next opening.
    match fs::write(&note, path.as_os_str().as_bytes()) {
        // An archive may be out of reach for as long as nothing is put there.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            Ok(())
        }
        written => written.map_err(|source| io_error("write", &note, source)),
    }
}

/// Notes in the directories to which the links of a database lead that they belong to it.
pub(crate) fn note_all(path: &Path) -> Result<()> {
    for link in [LOG, ARCHIVE] {
        if let Some(other) = target_of(&path.join(link)) {
            note_owner(path, &other)?;
        }
    }
    Ok(())
}

/// Removes the note of a database that is removed.
pub(crate) fn forget_owner(path: &Path, other: &Path) -> io::Result<()> {
    match owner_of(other) {
        Some(owner) if is_same(&owner, path) => fs::remove_file(other.join(OWNER)),
        _ => Ok(()),
    }
}
