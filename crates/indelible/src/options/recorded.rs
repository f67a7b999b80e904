//! Options and the descriptor.
//!
//! A new database stores a part of its options. An opening must agree with them where it asks for
//! anything, and takes from them what it does not ask for.

use super::{Choice, MethodOption, Mode, Options};
use crate::descriptor::Descriptor;
use crate::error::{Error, Result};
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::SystemTime;
use storage::engine::{EngineOptions, FenceOrder, Guard, LogKind, Method};
use storage::record::LayoutKind;

/// Bytes of a buffer pool unless an option says otherwise.
pub const BUFFER_BYTES: u64 = 128 << 20;
/// Size of an area for copies of pages unless an option says otherwise: that of the doublewrite
/// buffer of `InnoDB`.
pub const AREA_BYTES: u64 = 2 << 20;
/// The same for methods whose pages stay there: half of a buffer pool.
pub const CACHE_BYTES: u64 = 64 << 20;
/// Room of a session for log records: a checkpoint each hundred thousand small transactions.
const RING_BYTES: u64 = 64 << 20;
/// The same for each of the rings that sessions share.
const SHARED_RING_BYTES: u64 = 16 << 20;
/// Room for the changes of a batch: some hundred pages.
const BATCH_BYTES: u64 = 4 << 20;
/// The log of `nvwal`.
const DIFFERENCES_BYTES: u64 = 16 << 20;
/// The journal of `slot-header-journal`: a small memory before block storage.
const JOURNAL_BYTES: u64 = 1 << 20;

impl Options {
    /// The descriptor of a new database with these options. `auto` means `nvm-inp`.
    pub(crate) fn descriptor(&self) -> Descriptor {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let (database_id, created_s) = match self.identity {
            Some(identity) => (identity, 0),
            None => (random_identity(), now.map_or(0, |since| since.as_secs())),
        };
        let method = self.explicit_method().unwrap_or(Method::NvmInp);
        let mut descriptor = Descriptor {
            database_id,
            method,
            partitions: self.partitions.unwrap_or(1),
            layout: self.layout.unwrap_or(LayoutKind::Together),
            node_bytes: self
                .node_bytes
                .unwrap_or_else(|| method.node_bytes_default()),
            domain: self.domain,
            fences: FenceOrder::default(),
            created_s,
            memtable_bytes: None,
        };
        for option in &self.of_method {
            match *option {
                MethodOption::Fences(order) => descriptor.fences = order,
                MethodOption::MemtableBytes(bytes) => descriptor.memtable_bytes = Some(bytes),
                _ => {}
            }
        }
        descriptor
    }

    /// These options for a copy of a database: those that are not given stay as recorded. Node
    /// sizes, fences and MemTables mean something only to the method that they were chosen for.
    pub(crate) fn for_copy(&self, recorded: &Descriptor) -> Self {
        let mut options = self.clone();
        options.mode = Mode::ReadWrite;
        options.identity = None;
        options.method = options.method.or(Some(recorded.method.into()));
        options.partitions = options.partitions.or(Some(recorded.partitions));
        options.layout = options.layout.or(Some(recorded.layout));
        options.domain = options.domain.or(recorded.domain);
        if options.explicit_method() == Some(recorded.method) {
            options.node_bytes = options.node_bytes.or(Some(recorded.node_bytes));
            let kept = [
                Some(MethodOption::Fences(recorded.fences)),
                recorded.memtable_bytes.map(MethodOption::MemtableBytes),
            ];
            let asked = std::mem::take(&mut options.of_method);
            let kept = kept.into_iter().flatten();
            options = kept.chain(asked).fold(options, Self::with);
        }
        options
    }

    /// Fails if these options ask for something else than is recorded, or if the recorded method
    /// does not take one of them.
    pub(crate) fn check_against(&self, recorded: &Descriptor) -> Result<()> {
        if let Some(Choice::Explicit(method)) = self.method {
            same("method", &method, &recorded.method)?;
        }
        if let Some(partitions) = self.partitions {
            same("partitions", &partitions, &recorded.partitions)?;
        }
        if let Some(layout) = self.layout {
            same("layout", &Shown(layout), &Shown(recorded.layout))?;
        }
        if let Some(bytes) = self.node_bytes {
            same("node_bytes", &bytes, &recorded.node_bytes)?;
        }
        for option in &self.of_method {
            if let MethodOption::Fences(order) = *option {
                same("fences", &Shown(order), &Shown(recorded.fences))?;
            }
        }
        self.check_method(recorded.method, recorded.node_bytes)
    }

    /// Options of the engines of a database with these options and this descriptor.
    pub(crate) fn engine(&self, recorded: &Descriptor) -> EngineOptions {
        let default = EngineOptions::default();
        let axes = recorded.method.axes();
        let mut engine = EngineOptions {
            partition: 0,
            access: self.mode.access(),
            database_id: recorded.database_id,
            layout: recorded.layout,
            node_bytes: recorded.node_bytes,
            page_bytes: recorded.node_bytes,
            fences: recorded.fences,
            pool_bytes: self.pool_bytes.unwrap_or(default.pool_bytes),
            group_transactions_max: self
                .group_transactions_max
                .unwrap_or(default.group_transactions_max),
            group_wait_us_max: self.group_wait_us_max.unwrap_or(default.group_wait_us_max),
            checkpoint_log_bytes: self
                .checkpoint_log_bytes
                .unwrap_or(default.checkpoint_log_bytes),
            memtable_bytes: recorded.memtable_bytes.unwrap_or(default.memtable_bytes),
            buffer_bytes: BUFFER_BYTES,
            ring_bytes: match axes.map(|axes| axes.log) {
                Some(LogKind::Distributed) => SHARED_RING_BYTES,
                Some(LogKind::Volatile) => BATCH_BYTES,
                Some(_) => RING_BYTES,
                None if recorded.method == Method::SlotHeaderJournal => JOURNAL_BYTES,
                None => DIFFERENCES_BYTES,
            },
            area_bytes: match axes.map(|axes| axes.guard) {
                Some(Guard::NvPageCache) => CACHE_BYTES,
                _ => AREA_BYTES,
            },
            ..default
        };
        for option in &self.of_method {
            option.apply(&mut engine);
        }
        engine
    }
}

/// The standard library seeds its hashers from the operating system's random source.
pub(crate) fn random_identity() -> u128 {
    let word = || RandomState::new().build_hasher().finish();
    u128::from(word()) << 64 | u128::from(word())
}

/// Shows an enum without a display text by its name.
#[derive(PartialEq)]
struct Shown<T>(T);

impl<T: fmt::Debug> fmt::Display for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", format!("{:?}", self.0).to_lowercase())
    }
}

fn same<T: PartialEq + fmt::Display>(option: &'static str, asked: &T, recorded: &T) -> Result<()> {
    if asked == recorded {
        return Ok(());
    }
    Err(Error::option(
        option,
        format!("the database was created with `{recorded}`, and `{asked}` was asked for"),
        "leave the option out, or convert the database into a new one",
    ))
}
