//! How bytes get mapped: DAX files, ordinary files, shared memory, anonymous memory; and which
//! medium that is.
//!
//! A mapping reserves a long range of addresses without access and maps its file over the front of
//! it, so that growth never moves the base (M9 of docs/medium.md). Invariants:
//!
//! 1. Every mapped byte is allocated on the filesystem, and the file's length is durable, before it
//!    is mapped (M11).
//! 2. The file is locked by this open file description from before the first access until the drop:
//!    exclusively for writing, shared for reading (M13).
//! 3. A failed growth leaves the mapping as it was.
//!
//! ```text
//! base                 bytes     mapped_bytes                     reserved_bytes
//!  |<------ file ------->|...page..|<------- no access -------------->|
//! ```

use super::touch::{self, PIECE_BYTES};
use super::{Access, Domain, LINE_BYTES, View};
use crate::error::{PmemError, Result};
use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags};
use std::ffi::{OsStr, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Addresses reserved for one memory unless the options say otherwise: it may grow up to here while
/// open.
pub(super) const RESERVED_BYTES: u64 = 256 << 30;
/// Addresses that all memories of the process share. It has 128 TiB on the smallest machines; the
/// heap, threads and files need the rest.
const ADDRESS_BYTES: u64 = 112 << 40;
/// A memory reserves at most this part of the addresses that are left, so that there are always
/// some.
const SHARE: u64 = 256;
/// The base is a multiple of this, so that huge pages fit.
const BASE_ALIGN_BYTES: u64 = PIECE_BYTES;
/// The shortest file that can be opened.
const FILE_BYTES_MIN: u64 = 4096;
/// One write of zeros, where the filesystem cannot allocate.
const ZEROS_BYTES: usize = 1 << 20;

const TMPFS_MAGIC: u64 = 0x0102_1994;
const RAMFS_MAGIC: u64 = 0x8584_58f6;
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

/// The medium of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Private memory of this process, lost with it.
    Anonymous,
    /// A file in memory: tmpfs, ramfs, hugetlbfs.
    SharedMemory,
    /// A file of an ordinary filesystem.
    OrdinaryFile,
    /// A file on persistent memory, mapped without a page cache.
    PersistentMemory,
}

impl Medium {
    /// The name used in messages and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous memory",
            Self::SharedMemory => "shared memory",
            Self::OrdinaryFile => "an ordinary file",
            Self::PersistentMemory => "persistent memory (DAX)",
        }
    }

    /// The strongest domain that this medium gives without being asked.
    pub fn domain(self) -> Domain {
        match self {
            Self::Anonymous | Self::SharedMemory => Domain::Process,
            Self::OrdinaryFile => Domain::File,
            Self::PersistentMemory => Domain::Flush,
        }
    }
}

/// The pages of a volatile memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageSize {
    /// The kernel's default: mostly 4 KiB. A dependent miss then also misses the translation cache.
    #[default]
    Base,
    /// Asks for transparent huge pages: fewer translation misses, memory taken 2 MiB at a time.
    Huge,
}

/// A reserved range of addresses with something mapped at its front.
#[derive(Debug)]
pub(crate) struct Mapping {
    range: Arc<Reserved>,
    bytes: u64,
    mapped_bytes: u64,
    page_bytes: u64,
    backing: Backing,
}

/// The mapping at the front of the range.
#[derive(Clone, Debug)]
enum Backing {
    Anonymous { pages: PageSize },
    File(Arc<BackingFile>),
}

/// Bytes of all ranges that are reserved.
static RESERVED: AtomicU64 = AtomicU64::new(0);

/// A range of addresses, with the mappings in it; unmapped when the memory and all views of it are
/// gone.
#[derive(Debug)]
struct Reserved {
    base: NonNull<u8>,
    bytes: u64,
}

// SAFETY: an address is not tied to a thread; what is done through it is up to the holders.
unsafe impl Send for Reserved {}
// SAFETY: as above; the value itself never changes.
unsafe impl Sync for Reserved {}

impl Reserved {
    fn new(base: NonNull<u8>, bytes: u64) -> Self {
        RESERVED.fetch_add(bytes, Ordering::Relaxed);
        Self { base, bytes }
    }

    fn at(&self, offset: u64) -> *mut c_void {
        self.base.as_ptr().wrapping_add(offset as usize).cast()
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let start = self.base.as_ptr().cast();
        // SAFETY: the range was reserved for this value, whose last holder is going away, and no
        // reference outlives that one.
        let unmapped = unsafe { rustix::mm::munmap(start, self.bytes as usize) };
        debug_assert!(
            unmapped.is_ok(),
            "a range that was reserved can be unmapped"
        );
        RESERVED.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A locked file, for the life of all that map it.
#[derive(Debug)]
struct BackingFile {
    descriptor: OwnedFd,
    path: PathBuf,
    access: Access,
    medium: Medium,
}

// SAFETY: the range belongs to this value alone, and mapping, syncing and unmapping may be done by
// any thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Makes a file of at least `bytes` with mode 0600, locks, allocates and maps it. A failure
    /// leaves no file. The file lies in the directory `at`; its path is for messages.
    pub(crate) fn create(
        at: BorrowedFd<'_>,
        path: &Path,
        bytes: u64,
        reserved_bytes: u64,
    ) -> Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let descriptor = rustix::fs::openat(at, name(path), flags, Mode::RUSR | Mode::WUSR)
            .map_err(|e| refused("create", path, e))?;
        Self::fill_new_file(at, descriptor, path, bytes, reserved_bytes).inspect_err(|_| {
            // The first error is the one to report; a file that cannot be removed now is found by
            // the next create.
            let _ = rustix::fs::unlinkat(at, name(path), AtFlags::empty());
        })
    }

    fn fill_new_file(
        at: BorrowedFd<'_>,
        descriptor: OwnedFd,
        path: &Path,
        bytes: u64,
        reserved_bytes: u64,
    ) -> Result<Self> {
        lock(&descriptor, path, Access::Write)?;
        let (in_memory, page_bytes) = filesystem(&descriptor, path)?;
        let bytes = bytes.max(FILE_BYTES_MIN).next_multiple_of(page_bytes);
        allocate(&descriptor, path, 0, bytes)?;
        if !in_memory {
            sync_file(&descriptor, path)?;
            sync_parent(at, path)?;
        }
        let file = BackingFile {
            descriptor,
            path: path.to_owned(),
            access: Access::Write,
            medium: Medium::SharedMemory,
        };
        let mapping = Self::over_file(file, bytes, reserved_bytes, (in_memory, page_bytes))?;
        if in_memory && bytes >= PIECE_BYTES {
            mapping.touch_ahead(0);
        }
        Ok(mapping)
    }

    /// Locks and maps the whole of an existing file.
    pub(crate) fn open(
        at: BorrowedFd<'_>,
        path: &Path,
        access: Access,
        reserved_bytes: u64,
    ) -> Result<Self> {
        // A pipe would block an open for reading; it is refused below instead.
        let flags = OFlags::CLOEXEC
            | OFlags::NONBLOCK
            | match access {
                Access::Read => OFlags::RDONLY,
                Access::Write => OFlags::RDWR,
            };
        let descriptor = rustix::fs::openat(at, name(path), flags, Mode::empty())
            .map_err(|e| refused("open", path, e))?;
        lock(&descriptor, path, access)?;
        let (in_memory, page_bytes) = filesystem(&descriptor, path)?;
        let bytes = checked_length(&descriptor, path)?;
        let allocated_bytes = allocated_bytes(&descriptor, path)?;
        match access {
            Access::Write => {
                if allocated_bytes < bytes {
                    fill_holes(&descriptor, path, bytes)?;
                }
                // Stores that a dead process never fenced are readable, and recovery continues from
                // them. They are made durable first.
                if !in_memory {
                    sync_file(&descriptor, path)?;
                }
            }
            // A read of a hole takes a page of a tmpfs, and kills where none is left.
            Access::Read if in_memory && allocated_bytes < bytes => {
                return Err(PmemError::Holes {
                    path: path.to_owned(),
                });
            }
            Access::Read => {}
        }
        let file = BackingFile {
            descriptor,
            path: path.to_owned(),
            access,
            medium: Medium::SharedMemory,
        };
        Self::over_file(file, bytes, reserved_bytes, (in_memory, page_bytes))
    }

    /// Removes a file that nobody has open.
    pub(crate) fn remove(at: BorrowedFd<'_>, path: &Path) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let descriptor = rustix::fs::openat(at, name(path), flags, Mode::empty())
            .map_err(|e| refused("open", path, e))?;
        lock(&descriptor, path, Access::Write)?;
        rustix::fs::unlinkat(at, name(path), AtFlags::empty())
            .map_err(|e| refused("remove", path, e))?;
        sync_parent(at, path)
    }

    /// Maps memory that belongs to this process alone and may grow up to `reserved_bytes`. It is
    /// taken when touched.
    pub(crate) fn anonymous(bytes: u64, pages: PageSize, reserved_bytes: u64) -> Result<Self> {
        let page_bytes = rustix::param::page_size() as u64;
        let path = Path::new("anonymous memory");
        let range = reserve(bytes, BASE_ALIGN_BYTES, reserved_bytes, path)?;
        let backing = Backing::Anonymous { pages };
        let mut mapping = Self {
            range,
            bytes: 0,
            mapped_bytes: 0,
            page_bytes,
            backing,
        };
        mapping.extend_to(bytes.max(1).next_multiple_of(page_bytes))?;
        Ok(mapping)
    }

    /// Maps a locked file. Which medium it is on turns out here.
    fn over_file(
        mut file: BackingFile,
        bytes: u64,
        reserved_bytes: u64,
        (in_memory, page_bytes): (bool, u64),
    ) -> Result<Self> {
        let align_bytes = page_bytes.max(BASE_ALIGN_BYTES);
        let wanted = reserved_bytes.max(bytes.saturating_mul(2));
        let range = reserve(bytes, align_bytes, wanted, &file.path)?;
        // Tried first; whether the kernel accepts it is how persistent memory is known.
        if !in_memory {
            file.medium = Medium::PersistentMemory;
        }
        let backing = Backing::File(Arc::new(file));
        let mut mapping = Self {
            range,
            bytes: 0,
            mapped_bytes: 0,
            page_bytes,
            backing,
        };
        if let Err(error) = mapping.extend_to(bytes) {
            if in_memory {
                return Err(error);
            }
            if let Backing::File(file) = &mut mapping.backing
                && let Some(file) = Arc::get_mut(file)
            {
                file.medium = Medium::OrdinaryFile;
            }
            mapping.extend_to(bytes)?;
        }
        Ok(mapping)
    }

    /// Start of the range, the same for the life of the mapping.
    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.range.base
    }

    /// A read-only view of the bytes that are mapped now.
    pub(crate) fn view(&self) -> View {
        View::new(self.range.base, self.bytes, Arc::clone(&self.range) as _)
    }

    /// The same range of the same file, as far as it is mapped now. Only one of them may grow.
    pub(crate) fn share(&self) -> Self {
        Self {
            range: Arc::clone(&self.range),
            backing: self.backing.clone(),
            ..*self
        }
    }

    /// Usable bytes: the length of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The medium of the file.
    pub(crate) fn medium(&self) -> Medium {
        match &self.backing {
            Backing::Anonymous { .. } => Medium::Anonymous,
            Backing::File(file) => file.medium,
        }
    }

    /// How it was opened. Anonymous memory is always writable.
    pub(crate) fn access(&self) -> Access {
        match &self.backing {
            Backing::Anonymous { .. } => Access::Write,
            Backing::File(file) => file.access,
        }
    }

    /// Allocates and maps up to at least `bytes`. `Err(OutOfSpace)` and `Err(ReadOnly)` leave
    /// everything as it was; after any other error it is unknown whether the new length is durable.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let limit = || PmemError::OutOfSpace {
            wanted_bytes: bytes - self.bytes,
            limit: format!(
                "and {} bytes of addresses were kept when the pool was opened; \
                 reopen it to grow further",
                self.range.bytes
            ),
        };
        let mut bytes = bytes
            .checked_next_multiple_of(self.page_bytes)
            .ok_or_else(limit)?;
        if bytes > self.range.bytes {
            return Err(limit());
        }
        if let Backing::File(file) = &self.backing {
            if file.access == Access::Read {
                return Err(PmemError::ReadOnly);
            }
            let allocate = |end| allocate(&file.descriptor, &file.path, self.bytes, end);
            let in_memory = file.medium == Medium::SharedMemory;
            let whole = bytes.next_multiple_of(PIECE_BYTES).min(self.range.bytes);
            // The next growth begins with a huge page then.
            if in_memory && bytes - self.bytes >= PIECE_BYTES && allocate(whole).is_ok() {
                bytes = whole;
            } else {
                allocate(bytes)?;
            }
            if !in_memory {
                sync_file(&file.descriptor, &file.path)?;
            }
        }
        let grown_from = self.mapped_bytes;
        self.extend_to(bytes)?;
        if self.medium() == Medium::SharedMemory {
            self.touch_ahead(grown_from);
        }
        Ok(())
    }

    /// Prepares new shared memory from `first` on for stores. The first piece gets a huge page at
    /// once, because it is stored to next; a thread prepares the others ahead of the stores to
    /// them. Without such a thread the first store does it. An ordinary file is left alone: its
    /// pages would be written back without need.
    fn touch_ahead(&self, first: u64) {
        let end = self.mapped_bytes;
        let next = first.next_multiple_of(PIECE_BYTES).min(end);
        let ready = match end - next {
            PIECE_BYTES.. => next + PIECE_BYTES,
            _ => next,
        };
        if ready > next {
            // SAFETY: the range is mapped by this value, for writing.
            unsafe { touch::make_ready(self.address(next), PIECE_BYTES as usize) };
        }
        let range = Arc::downgrade(&self.range);
        let touch = move || {
            let rest = touch::pieces(first, next).chain(touch::pieces(ready, end));
            for (from, to) in rest {
                let Some(range) = range.upgrade() else {
                    return;
                };
                // SAFETY: the range stays as it is as long as it is held.
                if !unsafe { touch::make_ready(range.at(from), (to - from) as usize) } {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("indelible-touch".into());
        let _ = thread.spawn(touch);
    }

    /// Makes all of shared memory ready, and returns when it is.
    pub(super) fn make_ready(&self) {
        if self.medium() == Medium::SharedMemory && self.access() == Access::Write {
            for (from, to) in touch::pieces(0, self.mapped_bytes) {
                // SAFETY: the range is mapped by this value, for writing.
                unsafe { touch::make_ready(self.address(from), (to - from) as usize) };
            }
        }
    }

    /// Writes the dirty pages between two offsets to the medium and waits.
    pub(crate) fn sync(&self, first: u64, end: u64) -> Result<()> {
        let first = first - first % self.page_bytes;
        let address = self.address(first);
        // SAFETY: the range is mapped by this value; a sync changes no byte of it.
        let answer =
            unsafe { rustix::mm::msync(address, (end - first) as usize, MsyncFlags::SYNC) };
        answer.map_err(|e| self.refused("sync", e))
    }

    /// Maps the backing from the first page that is not mapped yet up to `bytes`.
    fn extend_to(&mut self, bytes: u64) -> Result<()> {
        let mapped_bytes = bytes.next_multiple_of(self.page_bytes);
        let length = (mapped_bytes - self.mapped_bytes) as usize;
        if length > 0 {
            let address = self.address(self.mapped_bytes);
            let answer = match &self.backing {
                Backing::Anonymous { pages } => map_anonymous(address, length, *pages),
                Backing::File(file) => map_file(file, address, length, self.mapped_bytes),
            };
            answer.map_err(|e| self.refused("map", e))?;
        }
        self.mapped_bytes = mapped_bytes;
        self.bytes = bytes;
        Ok(())
    }

    fn address(&self, offset: u64) -> *mut c_void {
        self.range.at(offset)
    }

    fn refused(&self, action: &'static str, errno: Errno) -> PmemError {
        match &self.backing {
            Backing::Anonymous { .. } => refused(action, Path::new("anonymous memory"), errno),
            Backing::File(file) => refused(action, &file.path, errno),
        }
    }
}

impl Drop for BackingFile {
    fn drop(&mut self) {
        // Closing would do, unless a child process that was just forked still holds a copy of the
        // descriptor.
        let _ = rustix::fs::flock(&self.descriptor, FlockOperation::Unlock);
    }
}

/// Reserves a range of addresses, `align_bytes` aligned: `wanted` bytes, or fewer where the process
/// has many memories or the system does not allow that, but at least `bytes`.
fn reserve(bytes: u64, align_bytes: u64, wanted: u64, path: &Path) -> Result<Arc<Reserved>> {
    let least = bytes.max(1).next_multiple_of(align_bytes);
    let share = ADDRESS_BYTES.saturating_sub(RESERVED.load(Ordering::Relaxed)) / SHARE;
    let wanted = wanted.min(share.max(bytes.saturating_mul(2)));
    let mut length = wanted.next_multiple_of(align_bytes).max(least);
    loop {
        match reserve_exactly(length, align_bytes) {
            Ok(base) => return Ok(Arc::new(Reserved::new(base, length))),
            Err(errno) if length == least => {
                return Err(refused("reserve addresses for", path, errno));
            }
            // A limit on address space (ulimit -v) or a small virtual address size: take less.
            Err(_) => length = (length / 2).next_multiple_of(align_bytes).max(least),
        }
    }
}

fn reserve_exactly(length: u64, align_bytes: u64) -> Result<NonNull<u8>, Errno> {
    let padded = length.checked_add(align_bytes).ok_or(Errno::NOMEM)? as usize;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let start = unsafe {
        rustix::mm::mmap_anonymous(std::ptr::null_mut(), padded, ProtFlags::empty(), flags)
    }?;
    let skip = start.addr().next_multiple_of(align_bytes as usize) - start.addr();
    let base = start.wrapping_byte_add(skip);
    let rest = align_bytes as usize - skip;
    if skip > 0 {
        // SAFETY: these pages were reserved three lines above and nobody knows them.
        unsafe { rustix::mm::munmap(start, skip) }?;
    }
    if rest > 0 {
        // SAFETY: as above.
        unsafe { rustix::mm::munmap(base.wrapping_byte_add(length as usize), rest) }?;
    }
    NonNull::new(base.cast()).ok_or(Errno::NOMEM)
}

/// `address..address + length` must lie in a reserved range whose bytes there nobody uses: callers
/// are in this file.
fn map_anonymous(address: *mut c_void, length: usize, pages: PageSize) -> Result<(), Errno> {
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    // SAFETY: the range is reserved by the caller's mapping and has no access yet, so nothing is
    // replaced.
    unsafe {
        rustix::mm::mmap_anonymous(address, length, ProtFlags::READ | ProtFlags::WRITE, flags)
    }?;
    if pages == PageSize::Huge {
        // Advice: a kernel without huge pages refuses it and the memory works all the same.
        // SAFETY: the range was just mapped; the advice changes no byte.
        let _ = unsafe { rustix::mm::madvise(address, length, Advice::LinuxHugepage) };
    }
    Ok(())
}

/// As [`map_anonymous`], from `offset` of the file.
fn map_file(
    file: &BackingFile,
    address: *mut c_void,
    length: usize,
    offset: u64,
) -> Result<(), Errno> {
    let sharing = match file.medium {
        Medium::PersistentMemory => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
        _ => MapFlags::SHARED,
    };
    let protection = match file.access {
        Access::Read => ProtFlags::READ,
        Access::Write => ProtFlags::READ | ProtFlags::WRITE,
    };
    let flags = sharing | MapFlags::FIXED;
    // SAFETY: the range is reserved by the caller's mapping and has no access yet, so nothing is
    // replaced.
    unsafe { rustix::mm::mmap(address, length, protection, flags, &file.descriptor, offset) }?;
    Ok(())
}

/// Locks the open file, without waiting, and checks that it still has a name. The lock has any
/// number of readers, or one writer.
fn lock(descriptor: &OwnedFd, path: &Path, access: Access) -> Result<()> {
    let operation = match access {
        Access::Read => FlockOperation::NonBlockingLockShared,
        Access::Write => FlockOperation::NonBlockingLockExclusive,
    };
    match rustix::fs::flock(descriptor, operation) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(PmemError::InUse {
                path: path.to_owned(),
            });
        }
        Err(errno) => return Err(refused("lock", path, errno)),
    }
    // Between open and lock its owner may have removed it.
    let stat = rustix::fs::fstat(descriptor).map_err(|e| refused("inspect", path, e))?;
    if stat.st_nlink == 0 {
        Err(refused("open", path, Errno::NOENT))
    } else {
        Ok(())
    }
}

/// Whether the filesystem lies in memory, and the unit in which it is mapped, in bytes.
fn filesystem(descriptor: &OwnedFd, path: &Path) -> Result<(bool, u64)> {
    let stat = rustix::fs::fstatfs(descriptor).map_err(|e| refused("inspect", path, e))?;
    // Some kernels extend the sign of magic numbers, which have 32 bits.
    let magic = stat.f_type.cast_unsigned() & 0xffff_ffff;
    let page_bytes = rustix::param::page_size() as u64;
    Ok(match magic {
        HUGETLBFS_MAGIC => (true, page_bytes.max(stat.f_bsize.cast_unsigned())),
        TMPFS_MAGIC | RAMFS_MAGIC => (true, page_bytes),
        _ => (false, page_bytes),
    })
}

/// The length of a regular file that can be a pool.
fn checked_length(descriptor: &OwnedFd, path: &Path) -> Result<u64> {
    let stat = rustix::fs::fstat(descriptor).map_err(|e| refused("inspect", path, e))?;
    if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(foreign(
            path,
            "not a regular file; give the path of a pool file".to_owned(),
        ));
    }
    let bytes = u64::try_from(stat.st_size).unwrap_or(0);
    if bytes == 0 {
        return Err(foreign(
            path,
            "the file is empty, and the program leaves none so; put the right file back, or restore \
             the database from a backup"
                .to_owned(),
        ));
    }
    if bytes < FILE_BYTES_MIN || bytes % LINE_BYTES != 0 {
        return Err(foreign(
            path,
            format!(
                "a length of {bytes} bytes is not that of a pool \
                 (at least {FILE_BYTES_MIN}, in multiples of \
            {LINE_BYTES}); it was cut short or is no pool: restore a backup"
            ),
        ));
    }
    Ok(bytes)
}

fn allocated_bytes(descriptor: &OwnedFd, path: &Path) -> Result<u64> {
    let stat = rustix::fs::fstat(descriptor).map_err(|e| refused("inspect", path, e))?;
    // The kernel counts blocks of 512 bytes, whatever the filesystem's own unit.
    Ok(u64::try_from(stat.st_blocks)
        .unwrap_or(0)
        .saturating_mul(512))
}

/// Allocates `first..end` of a file and makes the file at least `end` long.
fn allocate(descriptor: &OwnedFd, path: &Path, first: u64, end: u64) -> Result<()> {
    match fallocate(descriptor, first, end) {
        Err(Errno::OPNOTSUPP) => write_zeros(descriptor, first, end),
        answer => answer,
    }
    .map_err(|errno| {
        // The allocated part is given back; a second message would add nothing if this fails too.
        let _ = rustix::fs::ftruncate(descriptor, first);
        no_space(path, end - first, errno)
    })
}

/// Allocates the holes of an existing file without changing its content.
fn fill_holes(descriptor: &OwnedFd, path: &Path, bytes: u64) -> Result<()> {
    match fallocate(descriptor, 0, bytes) {
        // Such filesystems compress, or cannot report holes; there is nothing to do.
        Err(Errno::OPNOTSUPP) => Ok(()),
        answer => answer.map_err(|errno| no_space(path, bytes, errno)),
    }
}

fn fallocate(descriptor: &OwnedFd, first: u64, end: u64) -> Result<(), Errno> {
    loop {
        match rustix::fs::fallocate(descriptor, FallocateFlags::empty(), first, end - first) {
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
}

/// Where the filesystem cannot allocate, written zeros take the space.
fn write_zeros(descriptor: &OwnedFd, first: u64, end: u64) -> Result<(), Errno> {
    let zeros = vec![0; ZEROS_BYTES];
    let mut offset = first;
    while offset < end {
        let length = (end - offset).min(ZEROS_BYTES as u64) as usize;
        match rustix::io::pwrite(descriptor, &zeros[..length], offset) {
            Ok(written) => offset += written as u64,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn sync_file(descriptor: &OwnedFd, path: &Path) -> Result<()> {
    rustix::fs::fsync(descriptor).map_err(|e| refused("sync", path, e))
}

/// Makes the name of a file of a directory durable.
fn sync_parent(at: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    rustix::fs::fsync(at).map_err(|e| refused("sync", parent, e))
}

/// The name of a file in its directory.
fn name(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

fn no_space(path: &Path, wanted_bytes: u64, errno: Errno) -> PmemError {
    let reason = match errno {
        Errno::NOSPC => "the filesystem has less free; free some space",
        Errno::DQUOT => "the disk quota allows less; free some space or raise the quota",
        Errno::FBIG => {
            "the limit on the length of a file is lower (ulimit -f, or the filesystem's)"
        }
        _ => return refused("allocate", path, errno),
    };
    PmemError::OutOfSpace {
        wanted_bytes,
        limit: format!("but for {} {reason}", path.display()),
    }
}

fn foreign(path: &Path, reason: String) -> PmemError {
    PmemError::Foreign {
        path: path.to_owned(),
        reason,
    }
}

pub(crate) fn refused(action: &'static str, path: &Path, errno: Errno) -> PmemError {
    PmemError::Io {
        action,
        path: path.to_owned(),
        source: errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ranges_are_aligned_and_shrink_to_what_is_allowed() {
        for align_bytes in [4096, BASE_ALIGN_BYTES, 1 << 30] {
            let range = reserve(1, align_bytes, RESERVED_BYTES, Path::new("test")).unwrap();
            assert!((range.base.addr().get() as u64).is_multiple_of(align_bytes));
        }
        let too_long = reserve(1 << 48, BASE_ALIGN_BYTES, 0, Path::new("test"));
        assert!(
            matches!(too_long, Err(PmemError::Io { .. })),
            "longer than all addresses"
        );
    }

    #[test]
    fn zeros_take_the_space_where_it_cannot_be_allocated() {
        let path = std::env::temp_dir().join(format!("pmem-zeros-{}", std::process::id()));
        std::fs::write(&path, [7; 100]).unwrap();
        let file = rustix::fs::open(&path, OFlags::RDWR, Mode::empty()).unwrap();
        let end = 2 * ZEROS_BYTES as u64 + 5;
        write_zeros(&file, 100, end).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(bytes.len() as u64, end);
        assert!(
            bytes[..100].iter().all(|&byte| byte == 7),
            "what was there stays"
        );
        assert!(bytes[100..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn every_limit_on_space_is_told_apart_from_other_failures() {
        let path = Path::new("pool");
        for errno in [Errno::NOSPC, Errno::DQUOT, Errno::FBIG] {
            assert!(matches!(
                no_space(path, 1, errno),
                PmemError::OutOfSpace { .. }
            ));
        }
        assert!(matches!(no_space(path, 1, Errno::IO), PmemError::Io { .. }));
    }
}
