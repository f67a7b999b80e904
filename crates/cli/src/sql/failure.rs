//! Failures of the files that commands of the shell read and write.
//!
//! The type of an error tells it from one of standard output, which ends the shell, however deep it
//! is in the chain of causes.

use std::fmt;
use std::io::{self, BufRead, Read, Write};

/// A file could not be read or written.
#[derive(Clone, Debug)]
pub(super) struct FileFailure {
    pub(super) sentence: String,
    pub(super) is_output: bool,
}

impl fmt::Display for FileFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for FileFailure {}

/// The failure of a file in an error.
pub(super) fn failure_of(error: &anyhow::Error) -> Option<&FileFailure> {
    let mut causes = error.chain();
    causes.find_map(|cause| cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref())
}

/// A file with its name in errors.
pub(super) struct NamedFile<F> {
    pub(super) file: F,
    pub(super) name: String,
}

impl<F> NamedFile<F> {
    fn cannot(&self, verb: &str, error: &io::Error) -> io::Error {
        let sentence = format!("cannot {verb} {}: {error}", self.name);
        let is_output = verb == "write";
        io::Error::other(FileFailure {
            sentence,
            is_output,
        })
    }
}

impl<F: Write> Write for NamedFile<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        written.map_err(|error| self.cannot("write", &error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.flush();
        flushed.map_err(|error| self.cannot("write", &error))
    }
}

impl<F: Read> Read for NamedFile<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(bytes);
        read.map_err(|error| self.cannot("read", &error))
    }
}

impl<F: BufRead> NamedFile<F> {
    /// The next line with its end; `None` after the last one.
    pub(super) fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let read = self.file.read_until(b'\n', &mut line);
        read.map_err(|error| self.cannot("read", &error))?;
        Ok(Some(line).filter(|line| !line.is_empty()))
    }
}
