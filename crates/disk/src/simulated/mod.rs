//! A model of files under power cuts and failing devices, for crash tests.
//!
//! A [`SimulatedDirectory`] belongs to a
//! [`SimulatedWorld`](pmem::device::simulated::SimulatedWorld): one power cut hits its memories and
//! these files, and images hold both. The rules:
//!
//! 1. Each unsynced write survives wholly, in part (any of its 512-byte sectors) or not at all, and
//!    so does each change of a file's length, in any combination.
//! 2. A write that grows the file may leave the new length without the data; the gap reads as
//!    zeros.
//! 3. Creations, renames and removals survive each on its own until the directory is synced; a
//!    rename is one step.
//! 4. The death of a process loses nothing: the next one reads every write, and unsynced writes may
//!    still be lost with the power until they are synced.
//! 5. A failed sync decides: each unsynced write is durable or lost for ever, while reads still see
//!    all of them.

mod content;
mod directory;
mod disk;
mod fault;
mod operation;
mod watch;

pub use directory::{SimulatedDirectory, SimulatedFile};
pub use fault::{Call, Effect, Fault, Repeat};
