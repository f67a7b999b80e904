//! Objects that a statement drops, while it does.
//!
//! One is dropped for another, so views that read each other would have no end without the set.

use crate::catalog::Oid;
use std::collections::BTreeSet;

/// Objects that are being dropped.
#[derive(Default)]
pub(crate) struct Drops {
    /// Those that go, so that they keep nothing else.
    pub(crate) going: BTreeSet<Oid>,
    /// The number of levels. Above none, objects go whoever owns them.
    pub(crate) depth: usize,
}
