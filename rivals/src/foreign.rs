//! Calls that have no safe wrapper: opening an LMDB environment, and telling SQLite not to count
//! its memory.
//!
//! Everything else goes through the safe interfaces of the crates, so that this file is all there
//! is to review (libpmemobj, a feature, has a file of its own).

#![allow(unsafe_code, reason = "two calls into C, each argued for below")]

use anyhow::{Result, bail};
use heed::{Env, EnvFlags, EnvOpenOptions};
use rusqlite::ffi;
use std::path::Path;
use std::sync::Once;

/// Opens the LMDB environment in a directory of this process's own.
pub(crate) fn open_lmdb(directory: &Path, map_bytes: usize, flags: EnvFlags) -> Result<Env> {
    let mut options = EnvOpenOptions::new();
    options.map_size(map_bytes);
    // SAFETY: the flags are WRITE_MAP, NO_MEM_INIT and NO_SYNC only. The first lets a stray store
    // of this process damage the file, and there is no other unsafe code that could make one; the
    // second leaves unused bytes of pages undefined, which nobody reads; the third is taken in
    // shared memory only, where a sync does nothing.
    unsafe { options.flags(flags) };
    // SAFETY: the directory is a scratch directory that no other process opens or changes.
    Ok(unsafe { options.open(directory) }?)
}

/// Turns off SQLite's memory statistics, which cost a lock at each allocation. To be called before
/// SQLite is used.
pub(crate) fn without_sqlite_memory_statistics() -> Result<()> {
    static ONCE: Once = Once::new();
    let mut answer = ffi::SQLITE_OK;
    ONCE.call_once(|| {
        let off: std::ffi::c_int = 0;
        // SAFETY: SQLITE_CONFIG_MEMSTATUS takes one int. No other thread is in SQLite: this is the
        // only way to it in this program (`Sqlite::create` comes first), and `Once` keeps others
        // waiting.
        answer = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, off) };
    });
    if answer != ffi::SQLITE_OK {
        bail!("SQLite does not turn its memory statistics off (code {answer})");
    }
    Ok(())
}
