//! Files that commands write: standard output, or a file that appears under its name only when it is complete.
//!
//! A file is written beside its place under a temporary name, synced, and renamed. So an interrupted command leaves
//! what was there before, and an existing file is never overwritten unless the user says so.

use crate::failure::Usage;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Where a command's output goes.
pub(crate) enum OutputFile {
    Standard(BufWriter<io::StdoutLock<'static>>),
    Named {
        out: BufWriter<File>,
        temporary: Temporary,
        path: PathBuf,
    },
}

/// A file that is removed unless it was renamed.
pub(crate) struct Temporary(Option<PathBuf>);

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The command has failed already; a file that cannot be removed is the smaller problem.
            let _ = fs::remove_file(path);
        }
    }
}

/// What to do with a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    Refuse,
    Replace,
}

impl Existing {
    /// The meaning of `--force`.
    pub(crate) fn from_force(force: bool) -> Self {
        if force { Self::Replace } else { Self::Refuse }
    }
}

impl OutputFile {
    /// Opens `path` for writing; `-` is standard output.
    pub(crate) fn create(path: &Path, existing: Existing) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Standard(crate::output::stdout()));
        }
        if existing == Existing::Refuse && path.exists() {
            return Err(Usage::error(format!(
                "{} exists already; choose another name, or overwrite it with --force",
                path.display()
            )));
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".partial-{}", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = File::create(&temporary)
            .with_context(|| format!("cannot create {}", path.display()))?;
        let out = BufWriter::with_capacity(1 << 18, file);
        Ok(Self::Named {
            out,
            temporary: Temporary(Some(temporary)),
            path: path.to_owned(),
        })
    }

    /// Completes the output: from here on the file has its name.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Self::Standard(mut out) => out.flush()?,
            Self::Named {
                out,
                mut temporary,
                path,
            } => {
                let problem = || format!("cannot write {}", path.display());
                let file = out.into_inner().map_err(io::IntoInnerError::into_error);
                file.and_then(|file| file.sync_all())
                    .with_context(problem)?;
                if let Some(name) = &temporary.0 {
                    fs::rename(name, &path).with_context(problem)?;
                }
                temporary.0 = None;
            }
        }
        Ok(())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(out) => out.write(bytes),
            Self::Named { out, .. } => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(out) => out.flush(),
            Self::Named { out, .. } => out.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_file_appears_complete_or_not_at_all() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().join("out.csv");
        let mut unfinished = OutputFile::create(&path, Existing::Refuse).unwrap();
        unfinished.write_all(b"half").unwrap();
        drop(unfinished);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        let mut finished = OutputFile::create(&path, Existing::Refuse).unwrap();
        finished.write_all(b"whole").unwrap();
        finished.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert!(OutputFile::create(&path, Existing::Refuse).is_err());
        assert!(OutputFile::create(&path, Existing::Replace).is_ok());
    }
}
