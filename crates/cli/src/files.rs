//! Files that commands write and read, with `-` for the standard streams.
//!
//! Output goes through [`disk::OutputFile`]: a regular file appears under its name when it is
//! complete, and a pipe, a socket or a device is written as it stands. So an interrupted command
//! leaves the old file, and an existing file is never replaced unless the user says so. If data
//! goes to standard output, reports and progress go to standard error.
//!
//! Input is read once and never sought in, so a pipe will do.

use crate::failure::Usage;
use crate::streams;
use anyhow::{Context, Result, bail};
pub(crate) use indelible::Existing;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 18;
/// Mode of a new file of text: open to everybody, less the bits that the process masks.
const TEXT_MODE: u32 = 0o666;
/// Mode of a new file of a whole database: its user only, as with the files of the database.
const BINARY_MODE: u32 = 0o600;

/// Whether a path stands for a standard stream. The device of standard output is not opened a
/// second time, because that would begin at the start of a file again.
pub(crate) fn is_standard(path: &Path) -> bool {
    path == Path::new("-") || path == Path::new("/dev/stdout")
}

/// The meaning of `--force`.
pub(crate) fn existing(force: bool) -> Existing {
    if force {
        Existing::Replace
    } else {
        Existing::Refuse
    }
}

/// Fails if a file would be one in the directories of a database, where no other files belong: it
/// may be one of the database's own.
pub(crate) fn refuse_inside(file: &Path, database: &Path) -> Result<()> {
    if is_standard(file) {
        return Ok(());
    }
    // A link is followed, and a file that is not there yet has the folder that it will be in.
    let target = std::fs::canonicalize(file).or_else(|_| {
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        std::fs::canonicalize(folder.unwrap_or(Path::new(".")))
    });
    let Ok(target) = target else {
        return Ok(());
    };
    let directories = ["", "log", "archive"].map(|name| database.join(name));
    for directory in directories.iter().filter(|directory| directory.is_dir()) {
        let directory = std::fs::canonicalize(directory)?;
        if target.starts_with(&directory) {
            bail!(
                "{} would be in {}, which belongs to the database; choose a file elsewhere",
                file.display(),
                directory.display()
            );
        }
    }
    Ok(())
}

/// Destination of a command's output.
pub(crate) enum OutputFile {
    Standard(streams::Output),
    Named {
        out: BufWriter<disk::OutputFile>,
        path: PathBuf,
    },
}

impl OutputFile {
    /// Opens `path` for text; `-` is standard output.
    pub(crate) fn create(path: &Path, existing: Existing) -> Result<Self> {
        if is_standard(path) {
            return Ok(Self::Standard(streams::output()));
        }
        Self::named(path, existing, TEXT_MODE)
    }

    /// The same for bytes, which are not for a terminal.
    pub(crate) fn create_binary(path: &Path, existing: Existing) -> Result<Self> {
        if !is_standard(path) {
            return Self::named(path, existing, BINARY_MODE);
        }
        if streams::is_terminal() {
            return Err(Usage::error(
                "standard output is a terminal, which cannot show these bytes; send them to a file or into a pipe",
            ));
        }
        Ok(Self::Standard(streams::output()))
    }

    fn named(path: &Path, existing: Existing, mode: u32) -> Result<Self> {
        let file = disk::OutputFile::create(path, existing, mode).map_err(|error| {
            let path = path.display();
            if error.kind() == ErrorKind::AlreadyExists {
                return Usage::error(format!(
                    "{path} exists already; choose another name, or overwrite it with --force"
                ));
            }
            anyhow::Error::new(error).context(format!("cannot create {path}"))
        })?;
        Ok(Self::Named {
            out: BufWriter::with_capacity(BUFFER_BYTES, file),
            path: path.to_owned(),
        })
    }

    /// Completes the output: from now on the file has its name.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Self::Standard(mut out) => out.flush()?,
            Self::Named { out, path } => {
                let file = out.into_inner().map_err(io::IntoInnerError::into_error);
                let finished = file.and_then(disk::OutputFile::finish);
                finished.map_err(|error| cannot_write(&path, &error))?;
            }
        }
        Ok(())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(out) => out.write(bytes),
            Self::Named { out, path } => {
                out.write(bytes).map_err(|error| cannot_write(path, &error))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(out) => out.flush(),
            Self::Named { out, path } => out.flush().map_err(|error| cannot_write(path, &error)),
        }
    }
}

/// The error with the name of the file, which the code that formats rows does not know.
fn cannot_write(path: &Path, error: &io::Error) -> io::Error {
    let sentence = format!("cannot write {}: {error}", path.display());
    io::Error::new(error.kind(), sentence)
}

/// Input of a command.
pub(crate) struct InputFile {
    pub(crate) bytes: Box<dyn Read>,
    /// Its name in errors.
    pub(crate) name: String,
    /// Its length, or 0 if that is not known.
    pub(crate) length: u64,
}

impl InputFile {
    /// Opens `path` for reading; `-` is standard input.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if is_standard(path) {
            return Ok(Self {
                bytes: Box::new(io::stdin().lock()),
                name: "standard input".to_owned(),
                length: 0,
            });
        }
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
        let found = file
            .metadata()
            .with_context(|| format!("cannot read {name}"))?;
        if found.is_dir() {
            bail!("{name} is a directory; give a file");
        }
        Ok(Self {
            bytes: Box::new(file),
            name,
            length: if found.is_file() { found.len() } else { 0 },
        })
    }
}
