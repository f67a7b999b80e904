//! This build, for the rows of reports: the commit and the compiler, which the build script found.
//!
//! The facts about the machine are those of the room `measure`. The workspace `rivals` includes
//! this file, as it includes the build script.

pub(crate) use measure::machine::{Machine, available_bytes, is_dirty};
use std::path::Path;

/// The commit that the program was built from; a plus marks uncommitted changes.
pub(crate) const COMMIT: &str = env!("INDELIBLE_COMMIT");
/// The compiler that built it.
const COMPILER: &str = env!("INDELIBLE_COMPILER");

/// The machine at hand, with the file system that `database` lies on, or will lie on.
pub(crate) fn here(database: &Path) -> Machine {
    Machine::here(database, COMPILER)
}
