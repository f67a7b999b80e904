//! Files that commands and backups write: complete under their name or not there, and never in
//! place of something that is no file.
//!
//! | at the path stands | how it is written |
//! |---|---|
//! | nothing | under a temporary name beside it, which is synced and renamed |
//! | a regular file | the same, if replacing is allowed; mode and owner stay as they were |
//! | a symbolic link | as its target, which need not exist yet; the link stays |
//! | a pipe, a socket, a character device | in place, without permission: nothing there is lost |
//! | a block device | in place, if replacing is allowed |
//! | a directory | not at all |
//!
//! So a full disk, an error or a kill in the middle leaves a regular file as it was. The price: the
//! directory of the file must be writable, and a file with several hard links is replaced under
//! this name only; the others keep the old content. Access control lists and extended attributes
//! are not carried over.

use crate::pending::Pending;
use crate::rename::rename_new;
use pmem::{Site, site};
use rustix::fs::{CWD, OFlags};
use rustix::io::Errno;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Symbolic links that are followed one after the other, as many as the system follows.
const LINKS_MAX: u32 = 40;
/// The mode of a file that is to replace another one, until it has the mode of that.
const PRIVATE: u32 = 0o600;

/// Treatment of a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Existing {
    /// Fail.
    #[default]
    Refuse,
    /// Replace it, once the new one is complete.
    Replace,
}

/// A file that is being written. Unless [`OutputFile::finish`] succeeds, a file that was at its
/// path is as it was.
#[derive(Debug)]
pub struct OutputFile {
    sink: Sink,
    /// How it gets its name, unless it is written in place.
    unnamed: Option<Unnamed>,
}

#[derive(Debug)]
enum Sink {
    File(File),
    Socket(UnixStream),
}

/// A complete or unfinished file under its temporary name, which is removed on drop, and when a
/// signal ends the process.
#[derive(Debug)]
struct Unnamed {
    temporary: PathBuf,
    path: PathBuf,
    /// The mode of the file to replace.
    mode: Option<Permissions>,
    /// Removes it.
    pending: Pending,
}

impl OutputFile {
    /// Begins to write at `path`. A new file gets `mode`, less the process's mask. Errors do not
    /// name the path.
    pub fn create(path: &Path, existing: Existing, mode: u32) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(found) if found.is_file() => {
                if existing == Existing::Refuse {
                    return Err(exists());
                }
                Self::beside(fs::canonicalize(path)?, Some(&found), mode)
            }
            Ok(found) => Self::in_place(path, &found, existing),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Self::beside(end_of_links(path)?, None, mode)
            }
            Err(error) => Err(error),
        }
    }

    /// A file that gets the name `path` when it is complete.
    fn beside(path: PathBuf, old: Option<&Metadata>, mode: u32) -> io::Result<Self> {
        let Some(name) = path.file_name().filter(|_| !ends_as_directory(&path)) else {
            return Err(directory());
        };
        let mut options = OpenOptions::new();
        let options =
            options
                .write(true)
                .create_new(true)
                .mode(if old.is_some() { PRIVATE } else { mode });
        let mut number = 0;
        let (file, temporary) = loop {
            let mut temporary = name.to_owned();
            temporary.push(format!(".partial-{}", std::process::id()));
            if number > 0 {
                temporary.push(format!("-{number}"));
            }
            let temporary = path.with_file_name(temporary);
            match options.open(&temporary) {
                Ok(file) => break (file, temporary),
                // Of another thread, or of a process that was killed and had the same number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(no_room_beside(&path, error)),
            }
        };
        let unfinished = temporary.clone();
        let unnamed = Unnamed {
            // The writing has failed then; a file that cannot be removed is the smaller problem.
            pending: Pending::new(move || drop(fs::remove_file(&unfinished))),
            temporary,
            path,
            mode: old.map(Metadata::permissions),
        };
        if let Some(old) = old {
            keep_owner(&file, old)?;
        }
        Ok(Self {
            sink: Sink::File(file),
            unnamed: Some(unnamed),
        })
    }

    /// Opens a path that is no regular file; it takes bytes as they come.
    fn in_place(path: &Path, found: &Metadata, existing: Existing) -> io::Result<Self> {
        let kind = found.file_type();
        if kind.is_dir() {
            return Err(directory());
        }
        if kind.is_block_device() && existing == Existing::Refuse {
            return Err(exists());
        }
        let sink = if kind.is_socket() {
            Sink::Socket(UnixStream::connect(path)?)
        } else {
            // A terminal does not become the controlling one. Opening a pipe waits for its reader.
            let flags = OFlags::NOCTTY.bits().cast_signed();
            Sink::File(
                OpenOptions::new()
                    .write(true)
                    .custom_flags(flags)
                    .open(path)?,
            )
        };
        Ok(Self {
            sink,
            unnamed: None,
        })
    }

    /// Completes the file: when this returns `Ok`, it is durable under its name. The caller has
    /// flushed its buffers.
    pub fn finish(self) -> io::Result<()> {
        match (&self.sink, self.unnamed) {
            (Sink::File(file), Some(unnamed)) => unnamed.take_name(file),
            (Sink::File(file), None) => sync(file, site!("output.in-place")),
            (Sink::Socket(_), _) => Ok(()),
        }
    }
}

impl Unnamed {
    fn take_name(self, file: &File) -> io::Result<()> {
        if let Some(mode) = &self.mode {
            file.set_permissions(mode.clone())?;
        }
        sync(file, site!("output.bytes"))?;
        let (from, to) = (&self.temporary, &self.path);
        self.pending.finish(|| match self.mode {
            Some(_) => fs::rename(from, to),
            // A file that came meanwhile may not be replaced.
            None => rename_new(CWD, from, to).map_err(|error| match error {
                Errno::EXIST => exists(),
                _ => error.into(),
            }),
        })?;
        // commit point: what has the name now is whole; the sync makes the name durable.
        sync(&File::open(parent(&self.path))?, site!("output.name"))
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::File(file) => file.write(bytes),
            Sink::Socket(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Gives a new file the owner and the group of the one that it is to replace.
fn keep_owner(file: &File, old: &Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    if (new.uid(), new.gid()) == (old.uid(), old.gid()) {
        return Ok(());
    }
    fchown(file, Some(old.uid()), Some(old.gid())).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!(
                "it belongs to user {} and group {}, and this user cannot give a new file to them ({error}); \
                 remove it first, or choose another name",
                old.uid(),
                old.gid()
            ),
        )
    })
}

/// The path where links lead that end in nothing.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(target) => path = parent(&path).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other(
        "too many symbolic links lead from one to the next",
    ))
}

/// Makes a file durable where that is possible: pipes and terminals keep nothing.
fn sync(file: &File, _site: &'static Site) -> io::Result<()> {
    match file.sync_all() {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::InvalidInput | ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        answer => answer,
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Whether a path is written as one of a directory, which its parts do not show.
fn ends_as_directory(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

fn exists() -> io::Error {
    io::Error::new(ErrorKind::AlreadyExists, "it exists already")
}

fn directory() -> io::Error {
    io::Error::new(
        ErrorKind::IsADirectory,
        "it is a directory; give the name of a file",
    )
}

/// Says that it is the directory that is missing or refuses.
fn no_room_beside(path: &Path, error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => io::Error::new(
            error.kind(),
            format!(
                "a new file is made in {} first, which cannot be done there ({error}); choose another place",
                parent(path).display()
            ),
        ),
        _ => error,
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
