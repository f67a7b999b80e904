//! libpmemobj: transactions with an undo log on persistent memory, in C. Not a database: rows are
//! an array in the pool, so there is no index to search, and each row has one writing thread, so
//! there are no locks. What is measured is the cost of its transaction.
//!
//! Only with the feature `pmemobj`, which needs Debian's package libpmemobj-dev. Outside of
//! persistent memory the library syncs with msync; with the environment variable
//! `PMEM_IS_PMEM_FORCE=1` it issues the instructions of persistent memory, to be compared with
//! `--primitives flush`.

#![allow(unsafe_code, reason = "bindings of a C library, each call argued for")]

use super::RowBuffer;
use crate::kind::{Plan, Rival, RivalStore};
use anyhow::{Context, Result, bail, ensure};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::slice;
use workload::ycsb::{COLUMN_BYTES, Change, Contents, ROW_BYTES, Store};

/// How it is set.
pub(crate) const SETTING: &str = "libpmemobj, undo log of the column in one transaction; rows in an array, no index, no locks; msync, or \
     with PMEM_IS_PMEM_FORCE=1 cache-line flushes";

/// Space of the library beside the rows.
const POOL_BYTES_MIN: u64 = 64 << 20;
const MODE: u32 = 0o600;
/// End of a list of parameters.
const TX_PARAM_NONE: c_int = 0;

#[repr(C)]
struct Pool {
    _opaque: [u8; 0],
}

#[repr(C)]
struct ObjectId {
    pool: u64,
    offset: u64,
}

// SAFETY: the declarations are those of libpmemobj.h, version 1.12.
unsafe extern "C" {
    fn pmemobj_create(
        path: *const c_char,
        layout: *const c_char,
        size: usize,
        mode: u32,
    ) -> *mut Pool;
    fn pmemobj_close(pool: *mut Pool);
    fn pmemobj_root(pool: *mut Pool, size: usize) -> ObjectId;
    fn pmemobj_persist(pool: *mut Pool, address: *const c_void, size: usize);
    fn pmemobj_tx_begin(pool: *mut Pool, jump: *mut c_void, ...) -> c_int;
    fn pmemobj_tx_add_range_direct(address: *const c_void, size: usize) -> c_int;
    fn pmemobj_tx_commit();
    fn pmemobj_tx_end() -> c_int;
    fn pmemobj_errormsg() -> *const c_char;
}

/// A pool whose root is the array of rows.
pub(crate) struct Pmemobj {
    pool: NonNull<Pool>,
    /// First byte of the first row.
    rows: NonNull<u8>,
    count: u64,
    /// Keys that are neighbours here lie so far apart.
    databases: u32,
}

// SAFETY: a pool may be used from any thread; rows are divided among the threads by the workload.
unsafe impl Send for Pmemobj {}
// SAFETY: as above; nothing in this struct changes.
unsafe impl Sync for Pmemobj {}

impl Pmemobj {
    pub(crate) fn create(directory: &Path, plan: Plan) -> Result<Self> {
        let path = directory.join("rows.pmemobj");
        let path = CString::new(path.to_str().context("the path is not UTF-8")?)?;
        let bytes = plan.rows * ROW_BYTES as u64;
        let size = (bytes + bytes / 32 + POOL_BYTES_MIN) as usize;
        // SAFETY: both texts end in zero and live beyond the call.
        let pool = unsafe { pmemobj_create(path.as_ptr(), c"rows".as_ptr(), size, MODE) };
        let Some(pool) = NonNull::new(pool) else {
            bail!("libpmemobj: {}", last_error());
        };
        // SAFETY: the pool is open.
        let root = unsafe { pmemobj_root(pool.as_ptr(), bytes as usize) };
        if root.offset == 0 {
            // SAFETY: the pool is open, and nobody has it.
            unsafe { pmemobj_close(pool.as_ptr()) };
            bail!("libpmemobj: {}", last_error());
        }
        // SAFETY: an object lies within the mapping of its pool, at its offset from the beginning.
        let rows = unsafe { pool.cast::<u8>().add(root.offset as usize) };
        Ok(Self {
            pool,
            rows,
            count: plan.rows,
            databases: plan.databases,
        })
    }

    /// Where a row lies; `None` beyond the last.
    fn row(&self, key: u32) -> Option<NonNull<u8>> {
        let number = u64::from(key / self.databases);
        // SAFETY: the root has `count` rows.
        (number < self.count).then(|| unsafe { self.rows.add(number as usize * ROW_BYTES) })
    }
}

impl Drop for Pmemobj {
    fn drop(&mut self) {
        // SAFETY: the pool is open; no session outlives the borrow of it.
        unsafe { pmemobj_close(self.pool.as_ptr()) };
    }
}

fn last_error() -> String {
    // SAFETY: returns a text of this thread that ends in zero, or nothing.
    let text = unsafe { pmemobj_errormsg() };
    if text.is_null() {
        return "failed without a message".into();
    }
    // SAFETY: the text stays until the next call into the library from this thread.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

impl Rival for Pmemobj {
    fn store(&self) -> Result<RivalStore<'_>> {
        Ok(Box::new(Session {
            pmemobj: self,
            buffer: RowBuffer::new(),
        }))
    }
}

struct Session<'p> {
    pmemobj: &'p Pmemobj,
    buffer: RowBuffer,
}

impl Session<'_> {
    /// Notes what a column holds and rewrites it, within a transaction.
    fn rewrite(row: NonNull<u8>, column: usize, value: &str) -> Result<()> {
        // SAFETY: a row has all columns.
        let place = unsafe { row.add(column * COLUMN_BYTES) };
        // SAFETY: the range lies in the pool, and this thread is in a transaction.
        let code = unsafe { pmemobj_tx_add_range_direct(place.as_ptr().cast(), COLUMN_BYTES) };
        ensure!(code == 0, "libpmemobj: {}", last_error());
        // SAFETY: no other thread has this row, and no reference to it is alive.
        let place = unsafe { slice::from_raw_parts_mut(place.as_ptr(), COLUMN_BYTES) };
        place.copy_from_slice(value.as_bytes());
        Ok(())
    }
}

impl Store for Session<'_> {
    type Error = anyhow::Error;

    fn load(&mut self, keys: &mut dyn Iterator<Item = u32>, contents: &Contents) -> Result<()> {
        for key in keys {
            let row = self.pmemobj.row(key).context("more keys than rows")?;
            // SAFETY: no other thread has this row, and no reference to it is alive.
            let bytes = unsafe { slice::from_raw_parts_mut(row.as_ptr(), ROW_BYTES) };
            contents.fill(key, bytes);
            let pool = self.pmemobj.pool.as_ptr();
            // SAFETY: the range lies in the pool.
            unsafe { pmemobj_persist(pool, row.as_ptr().cast(), ROW_BYTES) };
        }
        Ok(())
    }

    fn read(&mut self, key: u32) -> Result<bool> {
        let Some(row) = self.pmemobj.row(key) else {
            return Ok(false);
        };
        // SAFETY: no other thread changes this row.
        let bytes = unsafe { slice::from_raw_parts(row.as_ptr(), ROW_BYTES) };
        self.buffer.copy(bytes)?;
        // Letters are not zero, and rows that were never loaded are.
        Ok(bytes[0] != 0)
    }

    fn column(&self, column: usize) -> &[u8] {
        self.buffer.column(column)
    }

    fn update(&mut self, key: u32, change: Change<'_>) -> Result<bool> {
        let Some(row) = self.pmemobj.row(key) else {
            return Ok(false);
        };
        let (pool, jump) = (self.pmemobj.pool.as_ptr(), null_mut::<c_void>());
        // SAFETY: without a jump buffer a failure is returned, and the list of parameters ends at
        // once.
        let code = unsafe { pmemobj_tx_begin(pool, jump, TX_PARAM_NONE) };
        ensure!(code == 0, "libpmemobj: {}", last_error());
        let mut columns = change.columns();
        let written = columns.try_for_each(|(column, value)| Self::rewrite(row, column, value));
        if written.is_ok() {
            // commit point: the undo log is invalidated, durably.
            // SAFETY: this thread is in a transaction that works.
            unsafe { pmemobj_tx_commit() };
        }
        // SAFETY: this thread is in a transaction, committed or aborted by its failure.
        let code = unsafe { pmemobj_tx_end() };
        written?;
        ensure!(code == 0, "libpmemobj: {}", last_error());
        Ok(true)
    }
}
