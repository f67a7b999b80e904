//! Common part of this room's tests: temporary databases in shared memory, and the list of methods.
//!
//! A directory is removed when its guard is dropped, also when a test fails. Every test names its
//! own directory, so tests run in parallel.

use indelible::{DataType, Database, LogKind, Method, MethodOption, Options, Partitioning, Table};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Whether tests take their long settings, as `.ci/run` wants it.
#[allow(dead_code, reason = "each test file uses a part of this module")]
pub(crate) fn is_long() -> bool {
    std::env::var_os("LONG_TESTS").is_some()
}

/// Methods whose data survives a reopening.
#[allow(dead_code, reason = "each test file uses a part of this module")]
pub(crate) fn durable_methods() -> Vec<Method> {
    Method::distinct()
        .filter(|method| method.is_durable())
        .collect()
}

/// All methods. One that cannot be created fails its tests.
#[allow(dead_code, reason = "each test file uses a part of this module")]
pub(crate) fn methods() -> Vec<Method> {
    Method::distinct().collect()
}

/// Options of a database that is small from the beginning, because a test would spend most of its
/// time on the first touch of memory that it does not use.
#[allow(dead_code, reason = "each test file uses a part of this module")]
pub(crate) fn small_options(method: Method) -> Options {
    const BYTES: u64 = 1 << 20;
    let of_method = [
        MethodOption::BufferBytes(BYTES),
        MethodOption::RingBytes(BYTES),
        MethodOption::AreaBytes(BYTES),
    ];
    Options::new().fitting(method, of_method).pool_bytes(BYTES)
}

/// A directory that is removed with everything in it.
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// A path in shared memory where there is some, without anything at it yet.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() {
            shared.to_owned()
        } else {
            std::env::temp_dir()
        };
        let path = parent.join(format!("indelible-test-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Options for a database whose files are short, and whose log has several of them.
#[allow(dead_code, reason = "each test file uses a part of this module")]
pub(crate) fn small(method: Method, partitions: u32) -> Options {
    let options = Options::new().method(method).partitions(partitions);
    let Some(axes) = method.axes() else {
        return match method {
            Method::Log | Method::NvmLog => options.memtable_bytes(16 << 10),
            Method::Inp => options.checkpoint_log_bytes(64 << 10),
            _ if method.has_frames() => options.pool_bytes(1 << 20).ring_bytes(1 << 20),
            _ => options.pool_bytes(1 << 20),
        };
    };
    let mut options = options.checkpoint_log_bytes(64 << 10);
    if !matches!(axes.log, LogKind::Central | LogKind::Decentralized) {
        options = options.ring_bytes(256 << 10);
    }
    if axes.log == LogKind::Distributed {
        options = options.rings(2);
    }
    if axes.guard.has_slots() {
        options = options.area_bytes(256 << 10);
    }
    options
}

/// `id int64, name varchar(40), amount int64 NULL`, index `by_name`, partitioned by modulo.
#[allow(dead_code, reason = "each test file uses a part of this module")]
pub(crate) fn people(db: &Database) -> Table {
    db.create_table("people")
        .column("id", DataType::Int64)
        .column("name", DataType::Varchar { max: 40 })
        .nullable_column("amount", DataType::Int64)
        .primary_key(["id"])
        .index("by_name", ["name"])
        .partitioning(Partitioning::Modulo)
        .create()
        .unwrap()
}
