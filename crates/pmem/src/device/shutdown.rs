//! Shutting a file system down under the programs that use it, which is how crash tests cut its
//! power.
//!
//! The request is ext4's and xfs's own: everything that has not reached the device by then is lost,
//! as in a power cut, and every later call fails. The file system works again after it was
//! unmounted and mounted, which replays its journal. It takes the rights of the administrator, and
//! hits everything on that file system.

use crate::error::{PmemError, Result};
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use std::fs::File;
use std::path::Path;

/// `_IOR('X', 125, __u32)`, the same for ext4, xfs and f2fs.
const SHUTDOWN: Opcode = opcode::read::<u32>(b'X', 125);
/// Not even the journal is flushed.
const NO_LOG_FLUSH: u32 = 2;

/// Cuts the power of the file system that holds `directory`. Fails where the file system has no
/// such request or the caller no right to it.
pub fn shut_down_file_system(directory: &Path) -> Result<()> {
    let failed = |source: std::io::Error| PmemError::Io {
        action: "shut down the file system of",
        path: directory.to_owned(),
        source,
    };
    let directory = File::open(directory).map_err(failed)?;
    // SAFETY: the kernel reads one 32-bit number through the pointer that the setter passes.
    let request = unsafe { Setter::<SHUTDOWN, u32>::new(NO_LOG_FLUSH) };
    // SAFETY: the request neither writes to this process's memory nor invalidates anything that
    // Rust relies on.
    let answer = unsafe { ioctl(&directory, request) };
    answer.map_err(|error| failed(error.into()))
}
