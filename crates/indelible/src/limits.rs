//! Limits that the operating system sets a process, and how many partitions fit into them.
//!
//! A partition takes open files and addresses; how many depends on the method, the sessions and
//! other options. So the need is not calculated but observed: the partitions that were made before
//! a limit was met show the need of one, and the error says how many fit. Limited addresses are
//! watched from the beginning, because an allocator ends a process whose heap cannot grow, which
//! would leave half a database.
//!
//! Limits and current use come from `/proc`; where that is not mounted, the system's error is
//! passed on as it is.

use crate::error::{Error, Result};
use std::error::Error as _;
use std::fs;
use std::io;
use std::sync::OnceLock;

/// Addresses that the memories of a database share if nothing limits them: processes have 128 TiB
/// on the smallest machines.
const ADDRESS_BYTES: u64 = 64 << 40;
/// Memories of a partition for whose growth addresses are reserved, at least as many as any method
/// has; rings of sessions come on top, and do not grow.
const MEMORIES: u64 = 4;
/// Most addresses that are reserved for one memory.
const RESERVED_BYTES_MAX: u64 = 256 << 30;
/// Addresses that are left to the heap and to threads.
const HEAP_BYTES: u64 = 64 << 20;
/// Open files that are left to users of the database, and to short needs of an engine.
const FILES_SPARE: u64 = 8;
/// Number of partitions from which on their creation checks that files are left.
const MANY: u64 = 16;
/// `EMFILE`: the process has too many files open.
const TOO_MANY_FILES: i32 = 24;

/// Whether the number of partitions can still be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A database is created.
    Create,
    /// The database exists.
    Open,
}

/// A limit of the system for a process, which a database of many partitions may meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessLimit {
    /// Open files.
    Files,
    /// Addresses, counted in MiB.
    Addresses,
}

impl ProcessLimit {
    /// The limit that an error comes from.
    fn met_by(error: &Error) -> Option<Self> {
        let mut cause = error.source();
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<io::Error>() {
                if error.raw_os_error() == Some(TOO_MANY_FILES) {
                    return Some(Self::Files);
                }
                if error.kind() == io::ErrorKind::OutOfMemory {
                    return Some(Self::Addresses);
                }
            }
            cause = error.source();
        }
        None
    }

    /// The limit of the process, if there is one.
    fn allowed(self) -> Option<u64> {
        let name = match self {
            Self::Files => "Max open files",
            Self::Addresses => "Max address space",
        };
        let limits = fs::read_to_string("/proc/self/limits").ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// The current use of the process.
    fn taken(self) -> Option<u64> {
        match self {
            // One of them is the open directory itself.
            Self::Files => Some(fs::read_dir("/proc/self/fd").ok()?.count() as u64 - 1),
            Self::Addresses => {
                let status = fs::read_to_string("/proc/self/status").ok()?;
                let line = status
                    .lines()
                    .find_map(|line| line.strip_prefix("VmSize:"))?;
                let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
                Some(kib << 10)
            }
        }
    }

    /// The share that is left to others, and the number of parts of the rest of which partitions
    /// take one: as many addresses as they use are reserved for growth.
    fn reserve(self) -> (u64, u64) {
        match self {
            Self::Files => (FILES_SPARE, 1),
            Self::Addresses => (HEAP_BYTES, 2),
        }
    }

    /// The shell's command for it, by which people know it.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Files => "ulimit -n",
            Self::Addresses => "ulimit -v",
        }
    }

    /// The unit in which the error gives it, and its name.
    pub(crate) fn unit(self) -> (u64, &'static str) {
        match self {
            Self::Files => (1, "open files"),
            Self::Addresses => (1 << 20, "MiB of addresses"),
        }
    }
}

/// Limit of the process's addresses, if there is one. It is read once, because the crash search
/// opens a thousand databases a second.
fn address_limit() -> Option<u64> {
    static ALLOWED: OnceLock<Option<u64>> = OnceLock::new();
    *ALLOWED.get_or_init(|| ProcessLimit::Addresses.allowed())
}

/// Addresses to reserve for each memory of a database, so that those of all partitions fit.
pub(crate) fn reserved_bytes(partitions: u32) -> u64 {
    let free = match address_limit() {
        Some(allowed) => allowed.saturating_sub(ProcessLimit::Addresses.taken().unwrap_or(0)) / 2,
        None => ADDRESS_BYTES,
    };
    (free / (MEMORIES * u64::from(partitions) + 1)).min(RESERVED_BYTES_MAX)
}

/// Calls `make` for each partition in turn. If a limit does not allow all of them, the error names
/// it and says how many fit.
pub(crate) fn for_each_partition<T>(
    partitions: u32,
    purpose: Purpose,
    mut make: impl FnMut(u32) -> Result<T>,
) -> Result<Vec<T>> {
    let allowed = address_limit();
    let base = allowed.and_then(|_| ProcessLimit::Addresses.taken());
    let mut done = Vec::new();
    for partition in 0..partitions {
        let is_met = matches!((allowed, base), (Some(allowed), Some(base))
            if !has_addresses(allowed, base, u64::from(partition)));
        let (limit, error) = if is_met {
            (ProcessLimit::Addresses, None)
        } else {
            match make(partition) {
                Ok(one) => {
                    done.push(one);
                    continue;
                }
                Err(error) => match ProcessLimit::met_by(&error) {
                    Some(limit) => (limit, Some(error)),
                    None => return Err(error),
                },
            }
        };
        let (count, taken) = (done.len() as u64, limit.taken());
        drop((done, make));
        let named = name(limit, partitions, purpose, (count, taken)).or(error);
        return Err(named.expect("addresses are watched only where their limit is known"));
    }
    let count = u64::from(partitions);
    if purpose == Purpose::Open || count < MANY || has_files(count) {
        return Ok(done);
    }
    let taken = ProcessLimit::Files.taken();
    drop((done, make));
    let named = name(ProcessLimit::Files, partitions, purpose, (count, taken));
    Err(named.expect("files are short only where their limit is known"))
}

/// Whether new partitions have files left for short needs, such as writing a checkpoint.
fn has_files(partitions: u64) -> bool {
    match (ProcessLimit::Files.allowed(), ProcessLimit::Files.taken()) {
        (Some(allowed), Some(taken)) => taken + partitions + FILES_SPARE <= allowed,
        _ => true,
    }
}

/// Whether there are addresses for another partition of this size. The first one is tried in any
/// case.
fn has_addresses(allowed: u64, base: u64, made: u64) -> bool {
    let taken = ProcessLimit::Addresses.taken().unwrap_or(base);
    let one = taken.saturating_sub(base).checked_div(made).unwrap_or(0);
    made == 0 || taken + one + HEAP_BYTES <= allowed
}

/// The error for a limit that was met after some partitions had been made, with their use of it;
/// now they are gone again.
fn name(
    limit: ProcessLimit,
    partitions: u32,
    purpose: Purpose,
    (made, taken): (u64, Option<u64>),
) -> Option<Error> {
    let allowed = limit.allowed()?;
    let base = limit.taken()?;
    let free = allowed.saturating_sub(base);
    // If not even the count could be read, all was in use.
    let used = taken.map_or(free, |taken| taken.saturating_sub(base));
    // One more, for its short needs; and if none was made, one takes more than is free.
    let one = used
        .checked_div(made)
        .map_or(free, |one| one + u64::from(!used.is_multiple_of(made)))
        + 1;
    let (spare, parts) = limit.reserve();
    let fitting = (free / parts).saturating_sub(spare) / one;
    let fitting = fitting.min(u64::from(partitions) - 1);
    let needed = base + parts * (spare + one * u64::from(partitions));
    let (unit, _) = limit.unit();
    let command = limit.command();
    let raise = match limit {
        ProcessLimit::Files => format!("{command} {needed}"),
        ProcessLimit::Addresses => format!("{command} {}", needed >> 10),
    };
    let remedy = match (made, purpose, fitting) {
        (0, ..) => {
            let plenty = match limit {
                ProcessLimit::Files => "1024",
                ProcessLimit::Addresses => "unlimited",
            };
            format!("not even one of them fits, so raise it: {command} {plenty}")
        }
        (_, Purpose::Create, 1..) => {
            format!("use fewer partitions, at most {fitting} here, or raise it: {raise}")
        }
        _ => format!("raise it: {raise}"),
    };
    Some(Error::Limit {
        partitions,
        needed: needed.div_ceil(unit),
        allowed: allowed / unit,
        limit,
        remedy,
    })
}
