//! Where the files of an input lie while a target has them: in DRAM, or in a scratch directory.
//!
//! [`MemoryFiles`] is a directory without an operating system, so that the readers of logs and
//! checkpoints can be run hundred thousand times a second. [`Scratch`] is a real one, in shared
//! memory where there is some, for whole databases and for engines, whose memories are mapped
//! files.

use crate::input::Input;
use disk::{Directory, DiskCounters, DiskError, File, IoMode, NativeDirectory};
use pmem::{NativeOptions, NativeSource, Site};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use storage::Platform;

/// Longest file in DRAM: the device is full then.
const FILE_BYTES_MAX: u64 = 64 << 20;

type Contents = Arc<Mutex<Vec<u8>>>;

/// A directory in DRAM.
#[derive(Clone, Default)]
pub struct MemoryFiles {
    files: Arc<Mutex<BTreeMap<String, Contents>>>,
}

/// A file in DRAM.
pub struct MemoryFile {
    bytes: Contents,
}

impl MemoryFiles {
    /// The pieces of an input as files.
    pub fn of(input: &Input) -> Self {
        let files = Self::default();
        for part in &input.parts {
            let bytes = Arc::new(Mutex::new(part.bytes.clone()));
            files.with(|files| files.insert(part.name.clone(), bytes));
        }
        files
    }

    /// All files.
    pub fn input(&self) -> Input {
        let of = |(name, bytes): (&String, &Contents)| (name.clone(), lock(bytes).clone());
        self.with(|files| Input::new(files.iter().map(of)))
    }

    fn with<R>(&self, run: impl FnOnce(&mut BTreeMap<String, Contents>) -> R) -> R {
        run(&mut lock(&self.files))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(action: &'static str, name: &str, kind: ErrorKind) -> DiskError {
    DiskError::Io {
        action,
        path: name.into(),
        source: kind.into(),
    }
}

impl Directory for MemoryFiles {
    type File = MemoryFile;

    fn create(&self, name: &str) -> disk::Result<MemoryFile> {
        let bytes = Contents::default();
        let old = self.with(|files| files.insert(name.to_owned(), Arc::clone(&bytes)));
        match old {
            Some(_) => Err(refused("create", name, ErrorKind::AlreadyExists)),
            None => Ok(MemoryFile { bytes }),
        }
    }

    fn open(&self, name: &str) -> disk::Result<MemoryFile> {
        let found = self.with(|files| files.get(name).cloned());
        let bytes = found.ok_or_else(|| refused("open", name, ErrorKind::NotFound))?;
        Ok(MemoryFile { bytes })
    }

    fn list(&self) -> disk::Result<Vec<String>> {
        Ok(self.with(|files| files.keys().cloned().collect()))
    }

    fn exists(&self, name: &str) -> disk::Result<bool> {
        Ok(self.with(|files| files.contains_key(name)))
    }

    fn remove(&self, name: &str) -> disk::Result<()> {
        let old = self.with(|files| files.remove(name));
        old.map(drop)
            .ok_or_else(|| refused("remove", name, ErrorKind::NotFound))
    }

    fn rename(&self, from: &str, to: &str) -> disk::Result<()> {
        self.with(|files| {
            let bytes = files.remove(from);
            let bytes = bytes.ok_or_else(|| refused("rename", from, ErrorKind::NotFound))?;
            files.insert(to.to_owned(), bytes);
            Ok(())
        })
    }

    fn sync(&self, _: &'static Site) -> disk::Result<()> {
        Ok(())
    }

    fn counters(&self) -> DiskCounters {
        DiskCounters::default()
    }
}

impl File for MemoryFile {
    fn reader(&self) -> disk::Result<Self> {
        let bytes = Arc::clone(&self.bytes);
        Ok(Self { bytes })
    }

    fn bytes(&self) -> disk::Result<u64> {
        Ok(lock(&self.bytes).len() as u64)
    }

    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> disk::Result<()> {
        let bytes = lock(&self.bytes);
        let end = (offset as usize).checked_add(out.len());
        let found = end.and_then(|end| bytes.get(offset as usize..end));
        let found = found.ok_or_else(|| refused("read", "a file", ErrorKind::UnexpectedEof))?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> disk::Result<()> {
        let mut bytes = lock(&self.bytes);
        let end = offset as usize + data.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(data);
        Ok(())
    }

    fn set_bytes(&mut self, length: u64) -> disk::Result<()> {
        if length > FILE_BYTES_MAX {
            // Where other files are sparse, these take memory.
            return Err(DiskError::OutOfSpace {
                path: "a file".into(),
                bytes: length,
            });
        }
        lock(&self.bytes).resize(length as usize, 0);
        Ok(())
    }

    fn sync(&mut self, _: &'static Site) -> disk::Result<()> {
        Ok(())
    }
}

/// A directory that is emptied for each input, and removed when it is dropped.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// A directory of this process.
    pub fn new(name: &str) -> std::io::Result<Self> {
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() {
            shared.to_owned()
        } else {
            std::env::temp_dir()
        };
        let path = parent.join(format!("indelible-fuzz-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path)?;
        Ok(Self { path })
    }

    /// A directory with the pieces of an input as files. A name that would lead out of it is left
    /// out.
    pub fn of(input: &Input) -> std::io::Result<Self> {
        let scratch = Self::new("input")?;
        for part in &input.parts {
            if !part.name.contains('/') && !part.name.is_empty() {
                std::fs::write(scratch.path.join(&part.name), &part.bytes)?;
            }
        }
        Ok(scratch)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its files, as a process that dies now would leave them.
    pub fn input(&self) -> std::io::Result<Input> {
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(&self.path)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            files.insert(name.into_owned(), std::fs::read(&path)?);
        }
        Ok(Input::new(files))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The devices of an engine whose files lie in a directory.
pub struct ScratchPlatform(pub PathBuf);

impl Platform for ScratchPlatform {
    type Memories = NativeSource;
    type Files = NativeDirectory;

    fn memories(&self, _partition: u32) -> NativeSource {
        NativeSource::new(&self.0, NativeOptions::default())
    }

    fn files(&self, _partition: u32) -> disk::Result<NativeDirectory> {
        NativeDirectory::open(&self.0, IoMode::Buffered)
    }
}
