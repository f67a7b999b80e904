//! Scratch databases: directories of one command's own that are gone when it ends, however it ends.
//!
//! A directory is removed when its handle is dropped, and by the signal handler when the user
//! presses Ctrl-C. Only SIGKILL leaves one; the next command that makes one removes those whose
//! process is gone.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const PREFIX: &str = "indelible-scratch-";
/// Shared memory: the fastest medium that every Linux machine has.
const SHARED_MEMORY: &str = "/dev/shm";

/// Directories to remove when a signal ends the process.
static OPEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory that is removed with its content on drop, together with the directories of the log
/// and of the log's archive if these are elsewhere.
pub(crate) struct Scratch {
    path: PathBuf,
    log: Option<Box<Self>>,
    archive: Option<Box<Self>>,
}

impl Scratch {
    /// A new empty directory in shared memory, or where that is missing in the directory for
    /// temporary files.
    pub(crate) fn new() -> Result<Self> {
        Self::in_directory(&Self::root())
    }

    /// A new empty directory under `parent`, which is made if it is missing.
    pub(crate) fn in_directory(parent: &Path) -> Result<Self> {
        fs::create_dir_all(parent)
            .with_context(|| format!("cannot make the directory {}", parent.display()))?;
        remove_abandoned(parent);
        let process = std::process::id();
        for number in 0..u32::MAX {
            let path = parent.join(format!("{PREFIX}{process}-{number}"));
            match fs::create_dir(&path) {
                Ok(()) => {
                    OPEN.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(path.clone());
                    return Ok(Self {
                        path,
                        log: None,
                        archive: None,
                    });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let problem =
                        format!("cannot make a scratch directory in {}", parent.display());
                    return Err(anyhow::Error::new(error).context(problem));
                }
            }
        }
        unreachable!("a process does not make four billion scratch directories")
    }

    /// Directory for scratch databases unless the user names another.
    pub(crate) fn root() -> PathBuf {
        let shared = Path::new(SHARED_MEMORY);
        if shared.is_dir() {
            shared.to_owned()
        } else {
            std::env::temp_dir()
        }
    }

    /// Adds a new empty directory under `parent` for the log.
    pub(crate) fn with_log(mut self, parent: &Path) -> Result<Self> {
        self.log = Some(Box::new(Self::in_directory(parent)?));
        Ok(self)
    }

    /// Adds a new empty directory under `parent` for the archive of the log.
    pub(crate) fn with_archive(mut self, parent: &Path) -> Result<Self> {
        self.archive = Some(Box::new(Self::in_directory(parent)?));
        Ok(self)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory for the log, if there is one.
    pub(crate) fn log_path(&self) -> Option<&Path> {
        self.log.as_ref().map(|log| log.path())
    }

    /// The directory for the archive of the log, if there is one.
    pub(crate) fn archive_path(&self) -> Option<&Path> {
        self.archive.as_ref().map(|archive| archive.path())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and the next command tries again.
        let _ = fs::remove_dir_all(&self.path);
        OPEN.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|path| path != &self.path);
    }
}

/// Removes all scratch directories, and files and databases that are not complete, when the process
/// is interrupted, then ends it with the exit code of the signal. Ctrl-C first stops a statement of
/// SQL, if one runs.
pub(crate) fn remove_on_interrupt() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    // Without a handler the command still works; an interrupt then leaves a directory for the next
    // command.
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]) else {
        return;
    };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGINT && crate::sql::cancel_statement() {
                continue;
            }
            indelible::undo_pending();
            for path in OPEN.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                let _ = fs::remove_dir_all(path);
            }
            std::process::exit(128 + signal);
        }
    });
}

/// Removes the directories of killed processes.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        let process = rest
            .split('-')
            .next()
            .and_then(|process| process.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_directory_goes_with_its_handle() {
        let parent = Scratch::new().unwrap();
        let abandoned = parent.path().join(format!("{PREFIX}4294967294-0"));
        fs::create_dir(&abandoned).unwrap();
        let path = {
            let scratch = Scratch::in_directory(parent.path()).unwrap();
            fs::write(scratch.path().join("file"), "x").unwrap();
            scratch.path().to_owned()
        };
        assert!(!path.exists() && !abandoned.exists());
    }
}
