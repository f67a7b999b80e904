//! The native device: mapped memory, the processor's instructions, nothing added.
//!
//! The instructions of a flush and a fence are chosen once, when a memory is opened, from the
//! medium that was found and the options that were given ([`Promise`]). The hot verbs are a range
//! check, a counter and a branch on that choice, inlined into the engine. Invariants:
//!
//! 1. [`Memory::domain`] never reports more than medium and instructions give together
//!    (docs/medium.md, section 2).
//! 2. After a failed sync the handle is poisoned: no later fence or growth succeeds (M14).
//! 3. No store goes to a memory that was opened for reading: `writable_bytes` is zero there.

use super::arch::{self, Instructions};
use super::map::{Mapping, Medium, PageSize, RESERVED_BYTES, refused};
use super::{
    Access, Counters, Domain, LINE_BYTES, Memory, MemorySource, Part, Primitive, Site, View,
};
use crate::error::{PmemError, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use std::sync::{Arc, OnceLock};

/// With caches inside the power-fail domain, shorter data is stored like any other: a streaming
/// store makes the next fence wait for the medium, and pays only where it saves the cache many
/// lines.
const FLUSH_FREE_STREAM_BYTES_MIN: usize = 512;

/// Mapped memory, owned by one thread at a time.
#[derive(Debug)]
pub struct NativeMemory {
    base: NonNull<u8>,
    bytes: u64,
    writable_bytes: u64,
    route: Route,
    instructions: Instructions,
    part: Cell<Part>,
    tallies: [Tally; Part::ALL.len()],
    fences: u64,
    dirty: Span,
    domain: Domain,
    poisoned: bool,
    mapping: Mapping,
}

// SAFETY: `base` points into `mapping`, which moves along and may be used by any thread; the rest
// is plain data.
unsafe impl Send for NativeMemory {}

/// How flush, fence and stream work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// Nothing, and nothing is counted: the memory is lost at restart.
    Volatile,
    /// Compiler order only.
    Process,
    /// Notes pages; the fence syncs them.
    File,
    /// The fence waits for streaming stores.
    FlushFree,
    /// Writes lines back; the fence waits.
    Lines,
}

impl From<Primitive> for Route {
    fn from(primitive: Primitive) -> Self {
        match primitive {
            Primitive::Process => Self::Process,
            Primitive::File => Self::File,
            Primitive::Flush => Self::Lines,
            Primitive::FlushFree => Self::FlushFree,
        }
    }
}

/// Counts of one part of the database.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    lines_flushed: u64,
    bytes_streamed: u64,
    bytes_stored: u64,
}

/// The bytes noted since the last fence of the `file` route: from the first to the last of them.
/// One sync of the whole span costs one journal commit; one a range would cost one each.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: u64,
    end: u64,
}

impl Span {
    const EMPTY: Self = Self {
        first: u64::MAX,
        end: 0,
    };

    fn add(&mut self, offset: u64, bytes: usize) {
        self.first = self.first.min(offset);
        self.end = self.end.max(offset + bytes as u64);
    }
}

impl NativeMemory {
    /// Memory of this process, lost at restart. Flushes and fences do nothing there.
    pub fn volatile(bytes: u64, pages: PageSize) -> Result<Self> {
        Self::volatile_within(RESERVED_BYTES, bytes, pages)
    }

    /// As [`NativeMemory::volatile`], for memory that does not grow.
    pub(crate) fn volatile_fixed(bytes: u64, pages: PageSize) -> Result<Self> {
        Self::volatile_within(bytes, bytes, pages)
    }

    fn volatile_within(reserved_bytes: u64, bytes: u64, pages: PageSize) -> Result<Self> {
        let mapping = Mapping::anonymous(bytes, pages, reserved_bytes)?;
        Ok(Self::over(mapping, Route::Volatile, Domain::Process))
    }

    /// Gives shared memory its pages now; otherwise a thread does it.
    pub(super) fn make_ready(&self) {
        self.mapping.make_ready();
    }

    fn durable(mapping: Mapping, path: &Path, options: NativeOptions) -> Result<Self> {
        let promise = Promise::make(mapping.medium(), path, options)?;
        Ok(Self::over(
            mapping,
            promise.primitive.into(),
            promise.domain,
        ))
    }

    fn over(mapping: Mapping, route: Route, domain: Domain) -> Self {
        let bytes = mapping.bytes();
        Self {
            base: mapping.base(),
            bytes,
            writable_bytes: if mapping.access() == Access::Write {
                bytes
            } else {
                0
            },
            route,
            instructions: Instructions::detect(),
            part: Cell::default(),
            tallies: Default::default(),
            fences: 0,
            dirty: Span::EMPTY,
            domain,
            poisoned: false,
            mapping,
        }
    }

    /// Whether stores are allowed. A store through a handle opened for reading panics.
    pub fn access(&self) -> Access {
        self.mapping.access()
    }

    /// The medium of this memory.
    pub fn medium(&self) -> Medium {
        self.mapping.medium()
    }

    /// The address of a range that may be read.
    #[inline]
    fn readable(&self, offset: u64, bytes: usize) -> *mut u8 {
        if bytes as u64 > self.bytes || offset > self.bytes - bytes as u64 {
            self.out_of_range(offset, bytes);
        }
        self.base.as_ptr().wrapping_add(offset as usize)
    }

    /// The address of a range that may be stored to.
    #[inline]
    fn writable(&mut self, offset: u64, bytes: usize) -> *mut u8 {
        if bytes as u64 > self.writable_bytes || offset > self.writable_bytes - bytes as u64 {
            self.out_of_range(offset, bytes);
        }
        self.base.as_ptr().wrapping_add(offset as usize)
    }

    #[cold]
    #[inline(never)]
    fn out_of_range(&self, offset: u64, bytes: usize) -> ! {
        assert!(
            self.writable_bytes > 0,
            "a store of {bytes} bytes at offset {offset} of a memory that is open for reading only"
        );
        panic!(
            "an access of {bytes} bytes at offset {offset} leaves a memory of {} bytes",
            self.bytes
        );
    }

    #[inline]
    fn tally(&mut self) -> &mut Tally {
        &mut self.tallies[self.part.get() as usize]
    }

    /// Copies into the cache and counts.
    #[inline]
    fn copy(&mut self, offset: u64, data: &[u8]) {
        let target = self.writable(offset, data.len());
        // SAFETY: the target was checked to be mapped and writable; `data` cannot lie there, since
        // nobody holds a reference into a memory that is borrowed mutably here.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), target, data.len()) };
    }

    #[cold]
    #[inline(never)]
    fn sync_span(&mut self) -> Result<()> {
        if self.poisoned {
            return Err(PmemError::Poisoned);
        }
        let Span { first, end } = std::mem::replace(&mut self.dirty, Span::EMPTY);
        if first < end {
            self.mapping
                .sync(first, end)
                .inspect_err(|_| self.poisoned = true)?;
        }
        Ok(())
    }
}

// SAFETY: the mapping is readable for the life of `self`, page aligned, never moved, and kept from
// others by its lock.
unsafe impl Memory for NativeMemory {
    #[inline]
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    #[inline]
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn grow(&mut self, bytes: u64) -> Result<()> {
        if self.poisoned {
            return Err(PmemError::Poisoned);
        }
        let answer = self.mapping.grow(bytes);
        // A sync that failed inside may have lost data of others; the other failures change
        // nothing.
        self.poisoned = matches!(answer, Err(PmemError::Io { action: "sync", .. }));
        answer?;
        self.bytes = self.mapping.bytes();
        if self.access() == Access::Write {
            self.writable_bytes = self.bytes;
        }
        Ok(())
    }

    #[inline]
    fn load(&self, offset: u64, bytes: usize) {
        debug_assert!(
            offset <= self.bytes && bytes as u64 <= self.bytes - offset,
            "a load of {bytes} bytes at offset {offset} leaves a memory of {} bytes",
            self.bytes
        );
    }

    fn counts_loads(&self) -> bool {
        false
    }

    #[inline]
    fn prefetch(&self, offset: u64, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let start = self.readable(offset, bytes);
        let first = start.wrapping_sub(start.addr() % LINE_BYTES as usize);
        let span_bytes = start.addr() - first.addr() + bytes;
        for step in (0..span_bytes).step_by(LINE_BYTES as usize) {
            arch::prefetch(first.wrapping_add(step));
        }
    }

    #[inline]
    fn store(&mut self, offset: u64, data: &[u8]) {
        self.copy(offset, data);
        self.tally().bytes_stored += data.len() as u64;
    }

    #[inline]
    #[expect(
        clippy::cast_ptr_alignment,
        reason = "checked on the next line; the base is a page"
    )]
    fn store_word(&mut self, offset: u64, value: u64) {
        let target = self.writable(offset, 8).cast::<u64>();
        if !offset.is_multiple_of(8) {
            misaligned(offset, "a word");
        }
        // SAFETY: checked to be mapped, writable and aligned; `&mut self` keeps other accesses out.
        let word = unsafe { AtomicU64::from_ptr(target) };
        // M2: neither the compiler nor the processor may swap this with its neighbours of the same
        // line.
        arch::order_words();
        word.store(value, Ordering::Relaxed);
        arch::order_words();
        self.tally().bytes_stored += 8;
    }

    #[inline]
    fn stream(&mut self, offset: u64, data: &[u8], _site: &'static Site) {
        if !(offset | data.len() as u64).is_multiple_of(8) {
            misaligned(offset | data.len() as u64, "whole words");
        }
        match self.route {
            Route::FlushFree if data.len() < FLUSH_FREE_STREAM_BYTES_MIN => self.copy(offset, data),
            Route::Lines | Route::FlushFree => {
                let target = self.writable(offset, data.len());
                // SAFETY: checked above to be mapped, writable and made of words; `data` cannot lie
                // there.
                unsafe { self.instructions.stream(target, data) };
            }
            Route::Volatile | Route::Process => self.copy(offset, data),
            Route::File => {
                self.copy(offset, data);
                self.dirty.add(offset, data.len());
            }
        }
        let tally = self.tally();
        tally.bytes_stored += data.len() as u64;
        tally.bytes_streamed += data.len() as u64;
    }

    #[inline]
    fn store_line(&mut self, offset: u64, line: &[u8; 64], site: &'static Site) {
        if !offset.is_multiple_of(LINE_BYTES) {
            misaligned(offset, "a line");
        }
        if !matches!(self.route, Route::Lines | Route::FlushFree) {
            return self.stream(offset, line, site);
        }
        let target = self.writable(offset, line.len());
        // SAFETY: checked above to be a mapped and writable line; `line` cannot lie there.
        unsafe { self.instructions.store_line(target, line) };
        let tally = self.tally();
        tally.bytes_stored += LINE_BYTES;
        tally.bytes_streamed += LINE_BYTES;
    }

    fn stores_lines_at_once(&self) -> bool {
        matches!(self.route, Route::Lines | Route::FlushFree)
            && self.instructions.direct_line_name().is_some()
    }

    #[inline]
    fn flush(&mut self, offset: u64, bytes: usize, _site: &'static Site) {
        if self.route == Route::Volatile || bytes == 0 {
            return;
        }
        self.readable(offset, bytes);
        let first = offset & !(LINE_BYTES - 1);
        let last = (offset + bytes as u64 - 1) & !(LINE_BYTES - 1);
        let lines = (last - first) / LINE_BYTES + 1;
        self.tally().lines_flushed += lines;
        if self.route == Route::Lines {
            let is_writable = last + LINE_BYTES <= self.writable_bytes;
            let rewrites = is_writable && self.instructions.rewrites(lines);
            let range = offset..offset + bytes as u64;
            for number in 0..lines {
                let offset = (first + number * LINE_BYTES) as usize;
                let address = self.base.as_ptr().wrapping_add(offset);
                // Only lines inside of the range: the bytes around it belong to others, who may be
                // reading them.
                let (start, end) = (offset as u64, offset as u64 + LINE_BYTES);
                if rewrites && start >= range.start && end <= range.end {
                    // SAFETY: the line was checked to be mapped and writable, and only this handle
                    // stores to it.
                    let line = unsafe { address.cast::<[u8; LINE_BYTES as usize]>().read() };
                    // SAFETY: as above; the copy lies elsewhere.
                    unsafe { self.instructions.stream(address, &line) };
                } else {
                    // SAFETY: the line overlaps the range that was checked to be mapped.
                    unsafe { self.instructions.write_back(address) };
                }
            }
        } else if self.route == Route::File {
            self.dirty.add(offset, bytes);
        }
    }

    #[inline]
    fn fence(&mut self, _site: &'static Site) -> Result<()> {
        compiler_fence(Ordering::SeqCst);
        if self.route == Route::Volatile {
            return Ok(());
        }
        self.fences += 1;
        if matches!(self.route, Route::Lines | Route::FlushFree) {
            arch::store_fence();
        }
        if self.route == Route::File || self.poisoned {
            return self.sync_span();
        }
        Ok(())
    }

    #[inline]
    fn enter(&self, part: Part) {
        self.part.set(part);
    }

    fn counters(&self) -> Counters {
        let mut counters = Counters {
            fences: self.fences,
            ..Counters::default()
        };
        for (row, tally) in counters.parts.iter_mut().zip(&self.tallies) {
            row.lines_flushed = tally.lines_flushed;
            row.bytes_streamed = tally.bytes_streamed;
            row.bytes_stored = tally.bytes_stored;
        }
        counters
    }

    fn domain(&self) -> Domain {
        self.domain
    }

    unsafe fn share(&self) -> Result<Self> {
        let mut handle = Self::over(self.mapping.share(), self.route, self.domain);
        handle.poisoned = self.poisoned;
        Ok(handle)
    }

    fn share_for_flushes(&self) -> Result<Self> {
        let mut handle = Self::over(self.mapping.share(), self.route, self.domain);
        handle.poisoned = self.poisoned;
        // Then a flush does not write lines again either, which their owner may be storing to.
        handle.writable_bytes = 0;
        Ok(handle)
    }

    fn view(&self) -> Result<View> {
        Ok(self.mapping.view())
    }
}

#[cold]
#[inline(never)]
fn misaligned(offset: u64, unit: &str) -> ! {
    panic!("offset {offset} is not that of {unit}");
}

/// Options of native memories.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeOptions {
    /// The domain to promise. `None` takes the strongest that the medium is known to give.
    pub domain: Option<Domain>,
    /// Other instructions than those of the domain, for measurements. If they are too weak for the
    /// medium, the memory reports [`Domain::Process`].
    pub primitive: Option<Primitive>,
    /// The pages of volatile memories.
    pub volatile_pages: PageSize,
    /// Addresses reserved for each memory, up to which it may grow while it is open; by default 256
    /// GiB. A memory that is already half as long gets twice its length. If the system allows less,
    /// the memory gets that.
    pub reserved_bytes: Option<u64>,
}

impl NativeOptions {
    fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes.unwrap_or(RESERVED_BYTES)
    }
}

/// The pools of one database: files of a directory. It stays the one that was used first: files of
/// another one that gets its path are never touched.
#[derive(Clone, Debug)]
pub struct NativeSource {
    directory: PathBuf,
    handle: Arc<OnceLock<OwnedFd>>,
    options: NativeOptions,
}

impl NativeSource {
    /// Memories in `directory`, which must exist when the first one is made or opened.
    pub fn new(directory: impl Into<PathBuf>, options: NativeOptions) -> Self {
        Self {
            directory: directory.into(),
            handle: Arc::default(),
            options,
        }
    }

    /// The directory, and the path of a file in it.
    fn place(&self, name: &str) -> Result<(BorrowedFd<'_>, PathBuf)> {
        let mut components = Path::new(name).components();
        let (Some(Component::Normal(_)), None) = (components.next(), components.next()) else {
            return Err(refused("use the name", Path::new(name), Errno::INVAL));
        };
        let handle = if let Some(handle) = self.handle.get() {
            handle
        } else {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::open(&self.directory, flags, Mode::empty());
            let opened = opened.map_err(|e| refused("open", &self.directory, e))?;
            self.handle.get_or_init(|| opened)
        };
        Ok((handle.as_fd(), self.directory.join(name)))
    }
}

impl MemorySource for NativeSource {
    type Memory = NativeMemory;

    fn create(&self, name: &str, bytes: u64) -> Result<NativeMemory> {
        let (at, path) = self.place(name)?;
        let mapping = Mapping::create(at, &path, bytes, self.options.reserved_bytes())?;
        NativeMemory::durable(mapping, &path, self.options).inspect_err(|_| {
            // The refusal is the error to report; a file that stays is found by the next create.
            let _ = Mapping::remove(at, &path);
        })
    }

    fn open(&self, name: &str, access: Access) -> Result<NativeMemory> {
        let (at, path) = self.place(name)?;
        let mapping = Mapping::open(at, &path, access, self.options.reserved_bytes())?;
        NativeMemory::durable(mapping, &path, self.options)
    }

    fn remove(&self, name: &str) -> Result<()> {
        let (at, path) = self.place(name)?;
        Mapping::remove(at, &path)
    }

    fn volatile(&self, bytes: u64) -> Result<NativeMemory> {
        let reserved_bytes = self.options.reserved_bytes().max(bytes.saturating_mul(2));
        NativeMemory::volatile_within(reserved_bytes, bytes, self.options.volatile_pages)
    }
}

/// The domain that a memory promises, and the instructions that keep the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Promise {
    domain: Domain,
    primitive: Primitive,
}

impl Promise {
    fn make(medium: Medium, path: &Path, options: NativeOptions) -> Result<Self> {
        let given = medium.domain();
        let asked = options.domain.unwrap_or(given);
        let flush_free = asked == Domain::FlushFree && medium == Medium::PersistentMemory;
        if asked > given && !flush_free {
            return Err(PmemError::Unsupported(format!(
                "{path} lies on {medium}, whose domain is `{given}` (survives {survives}): \
                 it cannot give `{asked}`; {remedy}, or ask for `{given}` or nothing",
                path = path.display(),
                medium = medium.name(),
                survives = given.survives(),
                remedy = match asked {
                    Domain::File => "put the database on an ordinary filesystem",
                    _ => "put the database on a filesystem mounted with DAX on persistent memory",
                },
            )));
        }
        let strongest = asked.max(given);
        let needs_lines = matches!(strongest, Domain::Flush | Domain::FlushFree);
        if needs_lines && !arch::WRITES_BACK {
            return Err(PmemError::Unsupported(format!(
                "{} lies on persistent memory, but no cache write-back is known for this \
                 processor; put the database on an ordinary filesystem",
                path.display()
            )));
        }
        let primitive = options.primitive.unwrap_or(asked.into());
        Ok(Self {
            domain: asked.min(Self::kept_by(primitive, strongest)),
            primitive,
        })
    }

    /// The domain that these instructions give on a medium whose strongest domain is `strongest`.
    fn kept_by(primitive: Primitive, strongest: Domain) -> Domain {
        match (primitive, strongest) {
            (Primitive::File, Domain::File | Domain::Flush | Domain::FlushFree) => Domain::File,
            (Primitive::Flush, Domain::Flush | Domain::FlushFree)
            | (Primitive::FlushFree, Domain::FlushFree) => strongest,
            _ => Domain::Process,
        }
    }
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
