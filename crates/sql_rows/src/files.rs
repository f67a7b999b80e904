//! Temporary files: blocks of one size, in files without names.
//!
//! The directory is that of the environment's `TMPDIR`, or `/tmp`. A file is opened when its first
//! block is written and removed from its directory at once. Its blocks are given out one by one and
//! come back when they have been read, so that merging and dividing again need no more room than
//! the rows themselves.

use sql_values::error::{Result, SqlError, SqlState};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 8192;

/// Bytes of a session's temporary files, and their limit.
#[derive(Debug)]
pub struct Files {
    /// `u64::MAX` is no limit.
    limit_bytes: AtomicU64,
    used_bytes: AtomicU64,
    directory: PathBuf,
}

impl Default for Files {
    fn default() -> Self {
        Self::within(std::env::temp_dir())
    }
}

impl Files {
    /// Files in a directory.
    pub fn within(directory: PathBuf) -> Self {
        Self {
            limit_bytes: AtomicU64::new(u64::MAX),
            used_bytes: AtomicU64::new(0),
            directory,
        }
    }

    /// Sets the most bytes that all files together may have.
    pub fn set_limit(&self, bytes: Option<u64>) {
        let bytes = bytes.unwrap_or(u64::MAX);
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of all files.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> Result<()> {
        let limit = self.limit_bytes.load(Ordering::Relaxed);
        let used = self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        if used.saturating_add(bytes) <= limit {
            return Ok(());
        }
        self.release(bytes);
        let message = format!(
            "temporary file size exceeds temp_file_limit ({}kB)",
            limit / 1024
        );
        Err(
            SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message).hint(
                "Raise `temp_file_limit` or `work_mem`, or let the statement keep fewer rows.",
            ),
        )
    }

    fn release(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    #[cold]
    fn failure(&self, action: &str, error: &io::Error) -> SqlError {
        let is_full = matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        );
        let state = if is_full {
            SqlState::DISK_FULL
        } else {
            SqlState::IO_ERROR
        };
        let directory = self.directory.display();
        let message = format!("could not {action} a temporary file in {directory}: {error}");
        SqlError::new(state, message).hint(
            "Make room there, name another directory in the variable TMPDIR of the process, or \
             raise `work_mem`.",
        )
    }
}

/// A file that several chains of rows share.
#[derive(Clone, Debug)]
pub struct Blocks {
    files: Arc<Files>,
    file: Arc<Mutex<BlockFile>>,
}

#[derive(Debug)]
struct BlockFile {
    files: Arc<Files>,
    file: Option<File>,
    /// Blocks that the file has.
    count: u32,
    free: Vec<u32>,
}

impl Blocks {
    pub(crate) fn new(files: &Arc<Files>) -> Self {
        Self {
            files: Arc::clone(files),
            file: Arc::new(Mutex::new(BlockFile {
                files: Arc::clone(files),
                file: None,
                count: 0,
                free: Vec::new(),
            })),
        }
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        u64::from(self.lock().count) * BLOCK_BYTES as u64
    }

    /// Writes a block; its number. A shorter one is the last of its chain.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<u32> {
        let mut file = self.lock();
        let number = file.allot()?;
        let handle = if let Some(handle) = &file.file {
            handle
        } else {
            let made = nameless(&self.files.directory);
            let made = made.map_err(|error| self.files.failure("create", &error))?;
            file.file.insert(made)
        };
        let written = handle.write_all_at(bytes, offset(number));
        if let Err(error) = written {
            file.free.push(number);
            return Err(self.files.failure("write to", &error));
        }
        Ok(number)
    }

    /// Appends the first bytes of a block to others.
    pub(crate) fn read(&self, number: u32, bytes: usize, out: &mut Vec<u8>) -> Result<()> {
        let file = self.lock();
        let Some(handle) = &file.file else {
            return Err(SqlError::internal("a block that was never written"));
        };
        let start = out.len();
        out.resize(start + bytes, 0);
        handle
            .read_exact_at(&mut out[start..], offset(number))
            .map_err(|error| self.files.failure("read", &error))
    }

    /// Lets a block be used again.
    pub(crate) fn release(&self, number: u32) {
        self.lock().free.push(number);
    }

    fn lock(&self) -> MutexGuard<'_, BlockFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlockFile {
    fn allot(&mut self) -> Result<u32> {
        if let Some(number) = self.free.pop() {
            return Ok(number);
        }
        self.files.take(BLOCK_BYTES as u64)?;
        self.count += 1;
        Ok(self.count - 1)
    }
}

impl Drop for BlockFile {
    fn drop(&mut self) {
        self.files
            .release(u64::from(self.count) * BLOCK_BYTES as u64);
    }
}

fn offset(number: u32) -> u64 {
    u64::from(number) * BLOCK_BYTES as u64
}

/// A new file that is removed from its directory at once.
fn nameless(directory: &Path) -> io::Result<File> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("indelible-sql-{}-{number}", std::process::id());
        let path = directory.join(name);
        let made = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => {
                let file = made?;
                fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_used_again_and_count_against_the_limit() {
        let files = Arc::new(Files::default());
        files.set_limit(Some(2 * BLOCK_BYTES as u64));
        let blocks = Blocks::new(&files);
        let full = [7; BLOCK_BYTES];
        let (first, second) = (blocks.write(&full).unwrap(), blocks.write(&[8]).unwrap());
        let refused = blocks.write(&full).unwrap_err();
        assert_eq!(refused.state, SqlState::CONFIGURATION_LIMIT_EXCEEDED);
        assert_eq!(
            refused.message,
            "temporary file size exceeds temp_file_limit (16kB)"
        );
        let mut read = Vec::new();
        blocks.read(second, 1, &mut read).unwrap();
        blocks.read(first, BLOCK_BYTES, &mut read).unwrap();
        assert_eq!((read[0], &read[1..]), (8, &full[..]));
        blocks.release(first);
        assert_eq!(blocks.write(&[9]).unwrap(), first);
        assert_eq!(files.used_bytes(), blocks.bytes());
        drop(blocks);
        assert_eq!(files.used_bytes(), 0);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let files = Arc::new(Files::within(PathBuf::from("/nowhere")));
        let refused = Blocks::new(&files).write(&[1]).unwrap_err();
        assert_eq!(refused.state, SqlState::IO_ERROR);
        let begin = "could not create a temporary file in /nowhere: ";
        assert!(refused.message.starts_with(begin), "{}", refused.message);
    }
}
