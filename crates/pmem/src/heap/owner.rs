//! Owners of blocks: a block is counted under a part of the database, and has a kind.
//!
//! Both are numbers on the medium. The rooms above choose the kinds, and the heap only compares
//! them.

use crate::device::Part;

/// For whom a block is: a run holds blocks of one owner only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The part of the database it is counted under.
    pub part: Part,
    /// Its kind, a number chosen by the rooms above; checks compare it.
    pub tag: u16,
}
