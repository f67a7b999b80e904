//! Scratch databases: directories of one command's own that are gone when it ends, however it ends.
//!
//! A directory is removed when its handle is dropped, and by the signal handler when the user
//! presses Ctrl-C. Only SIGKILL leaves one; the next command that makes one removes those whose
//! process is gone. That is told by a lock, which the kernel gives up with the process: numbers of
//! processes repeat, and mean nothing to a process of another container with the same directory.
//!
//! The lock is one of the directory. The content is in a directory in it, because a database locks
//! the directory that it is in.
//!
//! Processes that work in a scratch directory end with this one ([`Ending`]).

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const PREFIX: &str = "indelible-scratch-";
/// The directory in a scratch directory that has its content.
const CONTENT: &str = "content";
/// Shared memory: the fastest medium that every Linux machine has.
const SHARED_MEMORY: &str = "/dev/shm";

/// Directories to remove when a signal ends the process.
static OPEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Processes to end then.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Signal that has asked for the end of work that looks for it ([`Held`]).
static ASKED: AtomicI32 = AtomicI32::new(NOT_HELD);
/// Values of it: no work looks for signals, or none has come.
const NOT_HELD: i32 = -1;
const NOT_ASKED: i32 = 0;

/// Work that cleans up before a signal ends the process. As long as this lives the first signal
/// only asks for that, and the next one ends the process as ever.
pub(crate) struct Held(&'static AtomicI32);

impl Held {
    pub(crate) fn new() -> Self {
        ASKED.store(NOT_ASKED, Ordering::SeqCst);
        Self(&ASKED)
    }

    /// Fails if a signal has come.
    pub(crate) fn check(&self) -> Result<()> {
        anyhow::ensure!(self.0.load(Ordering::SeqCst) <= NOT_ASKED, "interrupted");
        Ok(())
    }

    /// Ends the process if a signal has come.
    pub(crate) fn end_if_asked(&self) {
        let signal = self.0.load(Ordering::SeqCst);
        if signal > NOT_ASKED {
            end(signal);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.store(NOT_HELD, Ordering::SeqCst);
    }
}

fn lock<T>(list: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that a signal to this one ends as well, until this is dropped. Other ends of this
/// process leave it to the owner of the child.
pub(crate) struct Ending(u32);

impl Ending {
    /// That of a process that was just started.
    pub(crate) fn of(child: &Child) -> Self {
        lock(&RUNNING).push(child.id());
        Self(child.id())
    }

    /// Waits for its end. A signal meanwhile does not meet another process with its number.
    pub(crate) fn wait(&self, child: &mut Child) {
        let mut running = lock(&RUNNING);
        running.retain(|number| *number != self.0);
        let _ = child.wait();
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        lock(&RUNNING).retain(|number| *number != self.0);
    }
}

/// A directory that is removed with its content on drop, together with the directories of the log
/// and of the log's archive if these are elsewhere.
pub(crate) struct Scratch {
    outer: PathBuf,
    /// Locked while it is in use.
    _lock: File,
    content: PathBuf,
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
            match Self::make(path) {
                Ok(Some(made)) => return Ok(made),
                Ok(None) => {}
                Err(error) => {
                    let problem =
                        format!("cannot make a scratch directory in {}", parent.display());
                    return Err(anyhow::Error::new(error).context(problem));
                }
            }
        }
        unreachable!("a process does not make four billion scratch directories")
    }

    /// A scratch directory with this name; none if another process has it.
    fn make(outer: PathBuf) -> io::Result<Option<Self>> {
        match fs::create_dir(&outer) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            made => made?,
        }
        // Until it is locked another process may take it for an abandoned one, and remove it.
        let lock = match File::open(&outer) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Ok(None);
        }
        let content = outer.join(CONTENT);
        match fs::create_dir(&content) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            made => made?,
        }
        self::lock(&OPEN).push(outer.clone());
        Ok(Some(Self {
            outer,
            _lock: lock,
            content,
            log: None,
            archive: None,
        }))
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
        &self.content
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
        let _ = fs::remove_dir_all(&self.outer);
        lock(&OPEN).retain(|path| path != &self.outer);
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
            let asked =
                ASKED.compare_exchange(NOT_ASKED, signal, Ordering::SeqCst, Ordering::SeqCst);
            if asked.is_err() {
                end(signal);
            }
        }
    });
}

/// Ends the process with the exit code of a signal.
fn end(signal: i32) -> ! {
    indelible::undo_pending();
    // Nobody starts or waits for a process from here on.
    let running = lock(&RUNNING);
    for process in running.iter().filter_map(|number| process(*number)) {
        let _ = kill_process(process, Signal::KILL);
    }
    for path in lock(&OPEN).iter() {
        let _ = fs::remove_dir_all(path);
    }
    std::process::exit(128 + signal);
}

fn process(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

/// Removes the directories of processes that are gone.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        // Earlier builds have no content directory and no lock, only the number of their process.
        let is_earlier = !entry.path().join(CONTENT).exists();
        let number = rest.split('-').next().unwrap_or_default();
        if is_earlier && Path::new("/proc").join(number).exists() {
            continue;
        }
        let Ok(directory) = File::open(entry.path()) else {
            continue;
        };
        // Held until the directory is gone, so that nobody takes it meanwhile.
        if directory.try_lock().is_ok() {
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
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    /// A benchmark in a container deleted the database of one outside, whose number no process had
    /// there; and a directory stayed for ever if its number was that of another process.
    #[test]
    fn a_directory_in_use_stays_whatever_its_number_is() {
        let parent = Scratch::new().unwrap();
        let own = format!("{PREFIX}4294967294-7");
        let held = Scratch::make(parent.path().join(own)).unwrap().unwrap();
        fs::write(held.path().join("file"), "x").unwrap();
        let running = format!("{PREFIX}{}-9", std::process::id());
        let running = parent.path().join(running);
        fs::create_dir_all(running.join(CONTENT)).unwrap();
        let earlier = format!("{PREFIX}{}-8", std::process::id());
        let earlier = parent.path().join(earlier);
        fs::create_dir(&earlier).unwrap();
        let other = Scratch::in_directory(parent.path()).unwrap();
        assert!(held.path().join("file").exists() && other.path().exists());
        assert!(!running.exists(), "nobody holds it");
        assert!(earlier.exists(), "an earlier build has no lock");
    }

    #[test]
    fn a_database_may_lie_in_a_scratch_directory_itself() {
        let scratch = Scratch::new().unwrap();
        let options = indelible::Options::new();
        let made = indelible::Database::create(scratch.path(), &options);
        made.unwrap().close().unwrap();
    }
}
