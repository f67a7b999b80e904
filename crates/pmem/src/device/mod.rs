//! The memory device: every load, store, flush and fence of the database goes through [`Memory`].
//!
//! One engine source is compiled for three devices: *native* (mapped memory, nothing added),
//! *emulated* (chosen latencies, full counting) and *simulated* (a model of the CPU cache that
//! hands back every state a power cut may leave). The choice is a type parameter, so the native
//! build pays nothing for the other two. The promise of each operation is in docs/medium.md.

pub mod emulated;
pub mod simulated;

pub(crate) mod arch;
mod either;
mod map;
mod native;
mod report;
mod shutdown;
mod touch;
mod view;

pub use either::Either;
pub use map::{Medium, PageSize};
pub use native::{NativeMemory, NativeOptions, NativeSource};
pub use report::{Costs, DeviceReport};
pub use shutdown::shut_down_file_system;
pub use view::View;

use crate::error::Result;
use std::fmt;
use std::ops::AddAssign;
use std::ptr::NonNull;

/// Bytes of a cache line: the unit in which the medium takes write-backs.
pub const LINE_BYTES: u64 = 64;

/// One device that holds a pool, owned by one thread at a time.
///
/// Offsets are bytes from the start of the mapping. Every operation panics if its range leaves
/// `0..self.bytes()`: callers check offsets that come from the medium before they use them (see
/// `Arena`).
///
/// # Safety
/// `base()..base() + bytes()` must be mapped and readable for the life of `self`. `base()` must be
/// aligned to a page and must not change (growth maps after the end). Nobody else may change those
/// bytes.
pub unsafe trait Memory: Send + Sized + 'static {
    /// Start of the mapping.
    fn base(&self) -> NonNull<u8>;

    /// Bytes that are mapped and may be used. A multiple of the line size.
    fn bytes(&self) -> u64;

    /// Makes the mapping at least `bytes` long without moving it. The space is allocated on the
    /// filesystem before it is mapped, so a full device is an error here and never a signal later.
    /// New bytes have any content.
    fn grow(&mut self, bytes: u64) -> Result<()>;

    /// Accounts for a load of `bytes` at `offset`; the caller then reads the mapping. One call is
    /// one accessed range: it costs one latency plus its bandwidth.
    fn load(&self, offset: u64, bytes: usize);

    /// Accounts for the loads of ranges, one after the other: [`Memory::load`] of each
    /// `(offset, bytes)`.
    fn load_each(&self, ranges: &mut dyn Iterator<Item = (u64, usize)>) {
        ranges.for_each(|(offset, bytes)| self.load(offset, bytes));
    }

    /// Whether [`Memory::load`] has any effect. If not, a caller may omit the calls.
    fn counts_loads(&self) -> bool {
        true
    }

    /// Asks for the lines of a range ahead of their use, so that their misses overlap.
    fn prefetch(&self, offset: u64, bytes: usize);

    /// Ordinary stores of any length. Only whole aligned words are failure-atomic, and the pieces
    /// have no order.
    fn store(&mut self, offset: u64, data: &[u8]);

    /// One failure-atomic store of an aligned 8-byte word. Stores to one line persist in program
    /// order.
    fn store_word(&mut self, offset: u64, value: u64);

    /// Stores that bypass the cache. They have no order, and are durable after the next fence
    /// without a flush. `offset` and the length are multiples of 8.
    fn stream(&mut self, offset: u64, data: &[u8], site: &'static Site);

    /// Stores one line around the cache, in a single transfer where the processor can. As with
    /// [`Memory::stream`] it is durable after the next fence and may tear at words. `offset` is a
    /// multiple of the line size.
    fn store_line(&mut self, offset: u64, line: &[u8; 64], site: &'static Site) {
        self.stream(offset, line, site);
    }

    /// Whether [`Memory::store_line`] is a single transfer here. Where it is, and the platform has
    /// [`PowerFailAtomicity::Line`], the line survives whole or not at all.
    fn stores_lines_at_once(&self) -> bool {
        false
    }

    /// Starts the write-back of every line that the range touches. Certain only after the next
    /// fence.
    fn flush(&mut self, offset: u64, bytes: usize, site: &'static Site);

    /// Waits until all flushes and streaming stores of this handle are durable. In the `file`
    /// domain this is where the file is synced, which can fail; after a failure the handle is
    /// poisoned.
    fn fence(&mut self, site: &'static Site) -> Result<()>;

    /// Says to which part of the database the following accesses belong. Free on the native device.
    fn enter(&self, part: Part);

    /// Counts since the device was opened.
    fn counters(&self) -> Counters;

    /// The persistence domain of the medium.
    fn domain(&self) -> Domain;

    /// Another handle of the bytes that are mapped now, for another thread, with flushes and fences
    /// of its own. A device without one refuses.
    ///
    /// # Safety
    /// Handles do not know of each other. Nobody may store through one to bytes that are
    /// referenced, or stored to through another one, at the same time. No line may have unfenced
    /// stores of two handles. Only the first handle may grow the memory.
    unsafe fn share(&self) -> Result<Self> {
        let text = "this memory has one owner".to_owned();
        Err(crate::PmemError::Unsupported(text))
    }

    /// Another handle of the bytes that are mapped now, which only flushes and fences, for another
    /// thread. It panics at a store. A device without one refuses.
    fn share_for_flushes(&self) -> Result<Self> {
        let text = "this memory is flushed by its owner only".to_owned();
        Err(crate::PmemError::Unsupported(text))
    }

    /// A read-only view of the bytes that are mapped now, for another thread. Its reads are neither
    /// counted nor delayed. A device without views refuses.
    fn view(&self) -> Result<View> {
        let text = "this memory cannot be read beside its owner".to_owned();
        Err(crate::PmemError::Unsupported(text))
    }
}

/// Makes and opens the memories of one database: a directory, or a simulated world.
pub trait MemorySource: 'static {
    /// The device.
    type Memory: Memory;

    /// Makes a new durable memory of `bytes` under `name`. Its content is arbitrary. Fails if the
    /// name exists.
    fn create(&self, name: &str, bytes: u64) -> Result<Self::Memory>;

    /// Opens an existing durable memory in its whole length.
    fn open(&self, name: &str, access: Access) -> Result<Self::Memory>;

    /// Removes a durable memory that nobody has open.
    fn remove(&self, name: &str) -> Result<()>;

    /// A memory that is lost at restart, of `bytes` at first.
    fn volatile(&self, bytes: u64) -> Result<Self::Memory>;
}

/// Whether a memory is opened for changing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only: the mapping is not writable and no store is made.
    Read,
    /// Reads and writes, exclusively.
    Write,
}

/// The longest aligned store that a power cut leaves whole or not at all. No program can measure
/// it; a person who knows the platform has to state it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PowerFailAtomicity {
    /// 8 bytes, as everywhere.
    #[default]
    Word,
    /// 64 bytes: a line that one instruction stores ([`Memory::store_line`]) does not tear. Data
    /// that relies on this is lost on a medium where it does not hold.
    Line,
}

impl PowerFailAtomicity {
    /// Its bytes.
    pub fn bytes(self) -> u32 {
        match self {
            Self::Word => 8,
            Self::Line => 64,
        }
    }
}

/// The persistence domain that the medium really gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Domain {
    /// Shared or anonymous memory: survives the death of the process.
    Process,
    /// Any ordinary file: survives power loss after msync of the dirty range (slow and correct).
    File,
    /// DAX-mapped persistent memory: survives power loss after flush and fence.
    Flush,
    /// eADR, CXL with global persistent flush, battery-backed DRAM: survives power loss after a
    /// fence.
    FlushFree,
}

impl Domain {
    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::File => "file",
            Self::Flush => "flush",
            Self::FlushFree => "flush-free",
        }
    }

    /// The event that the data survives, in two words.
    pub fn survives(self) -> &'static str {
        match self {
            Self::Process => "process death",
            Self::File | Self::Flush | Self::FlushFree => "power loss",
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which instructions a flush and a fence issue. Normally the domain decides; a benchmark may ask
/// for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Primitive {
    /// Compiler ordering only.
    Process,
    /// msync of the flushed pages.
    File,
    /// Cache-line write-back and store fence.
    Flush,
    /// Store fence only.
    FlushFree,
}

impl From<Domain> for Primitive {
    fn from(domain: Domain) -> Self {
        match domain {
            Domain::Process => Self::Process,
            Domain::File => Self::File,
            Domain::Flush => Self::Flush,
            Domain::FlushFree => Self::FlushFree,
        }
    }
}

/// The part of the database an access belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Part {
    /// Tuples and their fields.
    Table,
    /// Primary and secondary indexes.
    Index,
    /// Logs.
    Log,
    /// Checkpoints.
    Checkpoint,
    /// Headers, directories, allocator metadata.
    #[default]
    Other,
}

impl Part {
    /// All parts, in the order of [`Counters::parts`].
    pub const ALL: [Self; 5] = [
        Self::Table,
        Self::Index,
        Self::Log,
        Self::Checkpoint,
        Self::Other,
    ];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Index => "index",
            Self::Log => "log",
            Self::Checkpoint => "checkpoint",
            Self::Other => "other",
        }
    }
}

/// Counts of a device. The native device counts flushes, fences and bytes only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// One row a [`Part`], in the order of [`Part::ALL`].
    pub parts: [PartCounters; 5],
    /// Fences issued.
    pub fences: u64,
    /// Accesses that missed the modelled cache one after the other, each of which cost a latency.
    pub serial_misses: u64,
}

/// Counts of one [`Part`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartCounters {
    /// Lines read from the device (misses of the modelled cache).
    pub loads: u64,
    /// Lines written to the device: write-backs, evictions and streamed lines.
    pub stores: u64,
    /// Lines on which a flush was issued.
    pub lines_flushed: u64,
    /// Bytes stored with streaming stores.
    pub bytes_streamed: u64,
    /// Bytes handed to store operations, streamed ones among them.
    pub bytes_stored: u64,
}

impl Counters {
    /// The sum over all parts.
    pub fn total(&self) -> PartCounters {
        let mut sum = PartCounters::default();
        for part in &self.parts {
            sum.loads += part.loads;
            sum.stores += part.stores;
            sum.lines_flushed += part.lines_flushed;
            sum.bytes_streamed += part.bytes_streamed;
            sum.bytes_stored += part.bytes_stored;
        }
        sum
    }
}

impl AddAssign<&Self> for Counters {
    fn add_assign(&mut self, more: &Self) {
        for (sum, more) in self.parts.iter_mut().zip(&more.parts) {
            sum.loads += more.loads;
            sum.stores += more.stores;
            sum.lines_flushed += more.lines_flushed;
            sum.bytes_streamed += more.bytes_streamed;
            sum.bytes_stored += more.bytes_stored;
        }
        self.fences += more.fences;
        self.serial_misses += more.serial_misses;
    }
}

/// A place in the source that issues a flush, a streaming store or a fence. Crash tests switch
/// sites off by name to prove that each one is needed.
#[derive(Debug)]
pub struct Site {
    /// Name of the durable step, unique in the program: `undo.commit-word`.
    pub name: &'static str,
    /// Source file.
    pub file: &'static str,
    /// Source line.
    pub line: u32,
}

/// Names a durable step at the place where it is issued: `arena.fence(site!("undo.commit-fence"))`.
#[macro_export]
macro_rules! site {
    ($name:literal) => {{
        static SITE: $crate::Site = $crate::Site {
            name: $name,
            file: file!(),
            line: line!(),
        };
        &SITE
    }};
}
