//! The operating system's files: buffered or direct, synced only when asked.
//!
//! A thin layer over `pread`, `pwrite` and `fdatasync` that keeps the promises M15 to M18 of
//! docs/medium.md. Interrupted and short calls are continued, a full device is distinguished from
//! other failures, and after a failed sync the handle refuses every later write (M14): the kernel
//! may have dropped the dirty pages and would report success next time.
//!
//! Direct transfers go in whole blocks of [`BLOCK_BYTES`], through an aligned buffer unless the
//! caller's is one. A write that does not end at a block boundary at the end of the file is padded
//! with zeros, and the length is set back at once. A list of writes goes to several threads
//! (`io_threads`).
//!
//! A directory opened for reading changes nothing on the medium: files are opened without the right
//! to write, no name and no byte changes, and nothing is synced.

use crate::blocks::{BLOCK_BYTES, Blocks, are_whole, is_aligned};
use crate::io_threads::IoThreads;
use crate::rename::rename_new;
use crate::{Directory, DiskCounters, DiskError, File, Result};
use pmem::{Access, Site};
use rustix::fs::{Advice, AtFlags, Dir, FallocateFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::io::{self, ErrorKind};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Files belong to their user alone.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// How bytes travel between a file and the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoMode {
    /// Through the page cache: reads of recent data cost no device access.
    #[default]
    Buffered,
    /// Past the page cache (`O_DIRECT`): one copy less in memory, each call waits for the device.
    /// Some filesystems refuse it. A write reads the uncovered part of its first and last block of
    /// 4096 bytes and writes that too, so handles of one file that write at the same time must not
    /// have a block in common.
    Direct,
}

/// A directory of the operating system. It stays the one that was opened: files of another one that
/// gets its path are never touched.
#[derive(Debug)]
pub struct NativeDirectory {
    path: PathBuf,
    handle: fs::File,
    mode: IoMode,
    /// Files that are direct in any case.
    is_direct: fn(&str) -> bool,
    access: Access,
    shared: Arc<Shared>,
    poisoned: AtomicBool,
}

/// Shared state of a directory and all its files.
#[derive(Debug, Default)]
struct Shared {
    tallies: Tallies,
    io_threads: IoThreads,
}

/// Counts of a directory and all its files, which may be on several threads.
#[derive(Debug, Default)]
struct Tallies {
    reads: AtomicU64,
    writes: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    syncs: AtomicU64,
}

impl NativeDirectory {
    /// An existing directory, whose files are all read and written in the same mode.
    pub fn open(path: impl Into<PathBuf>, mode: IoMode) -> Result<Self> {
        Self::open_for(Access::Write, path, mode)
    }

    /// As [`NativeDirectory::open`]. With [`Access::Read`] the directory and its files need no
    /// right to write; every change is refused with [`DiskError::ReadOnly`], and a sync does
    /// nothing.
    pub fn open_for(access: Access, path: impl Into<PathBuf>, mode: IoMode) -> Result<Self> {
        let path = path.into();
        let failed = |error| io_error("open directory", &path, error);
        let handle = fs::File::open(&path).map_err(failed)?;
        if !handle.metadata().map_err(failed)?.is_dir() {
            return Err(failed(ErrorKind::NotADirectory.into()));
        }
        // A name that a process gave before it died is readable, and may be lost with the power.
        // Recovery, which continues from it and removes older files, must find it durable.
        if access == Access::Write {
            handle
                .sync_all()
                .map_err(|error| io_error("sync", &path, error))?;
        }
        let poisoned = AtomicBool::new(false);
        Ok(Self {
            path,
            handle,
            mode,
            is_direct: |_| false,
            access,
            shared: Arc::default(),
            poisoned,
        })
    }

    /// The same with files of these names in [`IoMode::Direct`].
    #[must_use]
    pub fn with_direct(self, is_direct: fn(&str) -> bool) -> Self {
        Self { is_direct, ..self }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file of this directory, for messages. A name that would lead out of it is
    /// refused.
    fn file_path(&self, name: &str) -> Result<PathBuf> {
        let mut components = Path::new(name).components();
        if let (Some(Component::Normal(_)), None) = (components.next(), components.next()) {
            return Ok(self.path.join(name));
        }
        let reason = io::Error::new(ErrorKind::InvalidInput, "a plain file name is wanted");
        Err(io_error("use the name", Path::new(name), reason))
    }

    fn file(&self, action: &'static str, name: &str, flags: OFlags) -> Result<NativeFile> {
        let path = self.file_path(name)?;
        let mode = if (self.is_direct)(name) {
            IoMode::Direct
        } else {
            self.mode
        };
        let direct = match mode {
            IoMode::Buffered => OFlags::empty(),
            IoMode::Direct => OFlags::DIRECT,
        };
        let access = match self.access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
        };
        let flags = flags | direct | access | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.handle, name, flags, FILE_MODE);
        let opened = opened.map(fs::File::from).map_err(io::Error::from);
        let file = opened.map_err(|error| match (mode, error.kind()) {
            (IoMode::Direct, ErrorKind::InvalidInput) => {
                let reason = "this filesystem refuses direct I/O; use buffered I/O";
                io_error(
                    action,
                    &path,
                    io::Error::new(ErrorKind::Unsupported, reason),
                )
            }
            _ => io_error(action, &path, error),
        })?;
        Ok(NativeFile {
            file: Arc::new(file),
            path,
            mode,
            access: self.access,
            buffer: Blocks::default(),
            shared: Arc::clone(&self.shared),
            poisoned: false,
        })
    }

    fn check(&self) -> Result<()> {
        if self.access == Access::Read {
            return Err(DiskError::ReadOnly {
                path: self.path.clone(),
            });
        }
        if self.poisoned.load(Ordering::Relaxed) {
            return Err(DiskError::Poisoned {
                path: self.path.clone(),
            });
        }
        Ok(())
    }
}

impl Directory for NativeDirectory {
    type File = NativeFile;

    fn create(&self, name: &str) -> Result<NativeFile> {
        self.check()?;
        self.file("create", name, OFlags::CREATE | OFlags::EXCL)
    }

    fn open(&self, name: &str) -> Result<NativeFile> {
        self.file("open", name, OFlags::empty())
    }

    fn list(&self) -> Result<Vec<String>> {
        let failed = |error: Errno| io_error("list", &self.path, error.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    let found = rustix::fs::statat(&self.handle, entry.file_name(), flags);
                    FileType::from_raw_mode(found.map_err(failed)?.st_mode)
                }
                kind => kind,
            };
            // A name that is not UTF-8 is none of ours.
            if let (FileType::RegularFile, Ok(name)) = (kind, entry.file_name().to_str()) {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        let path = self.file_path(name)?;
        match rustix::fs::statat(&self.handle, name, AtFlags::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(io_error("look for", &path, error.into())),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.check()?;
        let path = self.file_path(name)?;
        rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())
            .map_err(|error| io_error("remove", &path, error.into()))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.check()?;
        let (path, _) = (self.file_path(from)?, self.file_path(to)?);
        rustix::fs::renameat(&self.handle, from, &self.handle, to)
            .map_err(|error| io_error("rename", &path, error.into()))
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        self.check()?;
        let (path, _) = (self.file_path(from)?, self.file_path(to)?);
        rename_new(self.handle.as_fd(), from.as_ref(), to.as_ref())
            .map_err(|error| io_error("rename to a new name", &path, error.into()))
    }

    fn sync(&self, _site: &'static Site) -> Result<()> {
        if self.access == Access::Read {
            return Ok(());
        }
        self.check()?;
        self.shared.tallies.syncs.fetch_add(1, Ordering::Relaxed);
        self.handle.sync_all().map_err(|error| {
            self.poisoned.store(true, Ordering::Relaxed);
            io_error("sync", &self.path, error)
        })
    }

    fn counters(&self) -> DiskCounters {
        let of = |tally: &AtomicU64| tally.load(Ordering::Relaxed);
        DiskCounters {
            reads: of(&self.shared.tallies.reads),
            writes: of(&self.shared.tallies.writes),
            bytes_read: of(&self.shared.tallies.bytes_read),
            bytes_written: of(&self.shared.tallies.bytes_written),
            syncs: of(&self.shared.tallies.syncs),
        }
    }
}

/// An open file of the operating system.
#[derive(Debug)]
pub struct NativeFile {
    file: Arc<fs::File>,
    path: PathBuf,
    mode: IoMode,
    access: Access,
    buffer: Blocks,
    shared: Arc<Shared>,
    poisoned: bool,
}

impl NativeFile {
    fn check(&self) -> Result<()> {
        if self.access == Access::Read {
            return Err(DiskError::ReadOnly {
                path: self.path.clone(),
            });
        }
        if self.poisoned {
            return Err(DiskError::Poisoned {
                path: self.path.clone(),
            });
        }
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Reads the blocks around a range and copies the range out.
    fn read_direct(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = end_of(offset, out.len())?;
        if is_aligned(offset, out) {
            let filled = read_up_to(&self.file, offset, out)?;
            let is_full = filled == out.len();
            return is_full.then_some(()).ok_or(ErrorKind::UnexpectedEof.into());
        }
        let first = offset - offset % BLOCK_BYTES;
        let blocks = self
            .buffer
            .sized((end.next_multiple_of(BLOCK_BYTES) - first) as usize);
        let filled = read_up_to(&self.file, first, blocks)? as u64;
        if first + filled < end {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let start = (offset - first) as usize;
        out.copy_from_slice(&blocks[start..start + out.len()]);
        Ok(())
    }

    /// Writes the blocks around a range; the uncovered parts are read first.
    fn write_direct(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = end_of(offset, data.len())?;
        if is_aligned(offset, data) {
            return self.file.write_all_at(data, offset);
        }
        if are_whole(offset, data) {
            self.buffer.fill_with(data);
            return self.file.write_all_at(self.buffer.bytes(), offset);
        }
        let length = self.length()?;
        let first = offset - offset % BLOCK_BYTES;
        let blocks_end = end.next_multiple_of(BLOCK_BYTES);
        let blocks = self.buffer.sized((blocks_end - first) as usize);
        blocks.fill(0);
        if first < offset || end < blocks_end.min(length) {
            read_up_to(&self.file, first, blocks)?;
        }
        let start = (offset - first) as usize;
        blocks[start..start + data.len()].copy_from_slice(data);
        if let Err(error) = self.file.write_all_at(blocks, first) {
            // A part of the padding may have been written; the write's own error is the one to
            // report.
            let _ = self.file.set_len(length);
            return Err(error);
        }
        if blocks_end > end.max(length) {
            self.file.set_len(end.max(length))?;
        }
        Ok(())
    }
}

impl File for NativeFile {
    fn reader(&self) -> Result<Self> {
        Ok(Self {
            file: Arc::clone(&self.file),
            path: self.path.clone(),
            mode: self.mode,
            access: Access::Read,
            buffer: Blocks::default(),
            shared: Arc::clone(&self.shared),
            poisoned: false,
        })
    }

    fn bytes(&self) -> Result<u64> {
        self.length()
            .map_err(|e| io_error("inspect", &self.path, e))
    }

    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.shared.tallies.reads.fetch_add(1, Ordering::Relaxed);
        self.shared
            .tallies
            .bytes_read
            .fetch_add(out.len() as u64, Ordering::Relaxed);
        let answer = match self.mode {
            IoMode::Buffered => self.file.read_exact_at(out, offset),
            IoMode::Direct => self.read_direct(offset, out),
        };
        answer.map_err(|e| io_error("read", &self.path, e))
    }

    fn will_read(&self, offset: u64, bytes: u64) {
        // Direct transfers do not use pages that the page cache would read ahead.
        if let (IoMode::Buffered, Some(bytes)) = (self.mode, NonZeroU64::new(bytes)) {
            let _ = rustix::fs::fadvise(&self.file, offset, Some(bytes), Advice::WillNeed);
        }
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.check()?;
        if data.is_empty() {
            return Ok(());
        }
        self.shared.tallies.writes.fetch_add(1, Ordering::Relaxed);
        self.shared
            .tallies
            .bytes_written
            .fetch_add(data.len() as u64, Ordering::Relaxed);
        let answer = match self.mode {
            IoMode::Buffered => self.file.write_all_at(data, offset),
            IoMode::Direct => self.write_direct(offset, data),
        };
        answer.map_err(|e| write_error("write", &self.path, data.len() as u64, e))
    }

    fn write_each(&mut self, writes: &[(u64, &[u8])]) -> Result<()> {
        let are_blocks = writes.iter().all(|(offset, data)| are_whole(*offset, data));
        if self.mode == IoMode::Buffered || writes.len() < 2 || !are_blocks {
            return writes
                .iter()
                .try_for_each(|(offset, data)| self.write_at(*offset, data));
        }
        self.check()?;
        let bytes = writes.iter().map(|(_, data)| data.len() as u64).sum();
        let tallies = &self.shared.tallies;
        let count = writes.len() as u64;
        tallies.writes.fetch_add(count, Ordering::Relaxed);
        tallies.bytes_written.fetch_add(bytes, Ordering::Relaxed);
        let answer = self.shared.io_threads.write_all(&self.file, writes);
        answer.map_err(|e| write_error("write", &self.path, bytes, e))
    }

    fn is_direct(&self) -> bool {
        self.mode == IoMode::Direct
    }

    fn set_bytes(&mut self, bytes: u64) -> Result<()> {
        self.check()?;
        let found = self.bytes()?;
        if bytes > found {
            // Space for the new bytes is taken now, so that filling them cannot meet a full disk.
            match allocate(&self.file, found, bytes) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                Ok(()) => return Ok(()),
                Err(error) => {
                    return Err(write_error(
                        "extend",
                        &self.path,
                        bytes - found,
                        error.into(),
                    ));
                }
            }
        }
        self.file
            .set_len(bytes)
            .map_err(|e| write_error("set the length of", &self.path, bytes, e))
    }

    fn sync(&mut self, _site: &'static Site) -> Result<()> {
        if self.access == Access::Read {
            return Ok(());
        }
        self.check()?;
        self.shared.tallies.syncs.fetch_add(1, Ordering::Relaxed);
        // `fdatasync` writes the length too where it is needed to read the bytes back.
        self.file.sync_data().map_err(|error| {
            self.poisoned = true;
            io_error("sync", &self.path, error)
        })
    }
}

/// Reads until `out` is full or the file ends, and says how much that was. An unaligned rest can
/// only be the file's end.
fn read_up_to(file: &fs::File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < out.len() {
        match file.read_at(&mut out[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => {
                filled += count;
                if !(count as u64).is_multiple_of(BLOCK_BYTES) {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The end of a range, which must leave room for rounding up.
fn end_of(offset: u64, length: usize) -> io::Result<u64> {
    let end = offset
        .checked_add(length as u64)
        .filter(|&end| end < i64::MAX as u64 - BLOCK_BYTES);
    end.ok_or_else(|| ErrorKind::InvalidInput.into())
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> DiskError {
    DiskError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

fn write_error(action: &'static str, path: &Path, bytes: u64, error: io::Error) -> DiskError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            DiskError::OutOfSpace {
                path: path.to_owned(),
                bytes,
            }
        }
        _ => io_error(action, path, error),
    }
}

/// Allocates a range after the end, which then reads as zeros.
fn allocate(file: &fs::File, from: u64, to: u64) -> Result<(), Errno> {
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), from, to - from) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
