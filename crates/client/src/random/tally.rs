//! Counts of the constructs and types that occurred.
//!
//! Everything that the generator knows is in the count from the beginning, so that a construct
//! which never occurs shows as a zero.

use std::collections::BTreeMap;

/// How often each construct and type occurred.
#[derive(Clone, Debug)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// A count that knows these names.
    pub(super) fn of(known: impl Iterator<Item = &'static str>) -> Self {
        Self(known.map(|name| (name, 0)).collect())
    }

    pub(super) fn count(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }

    /// Names and counts, in the order of the names.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().map(|(name, count)| (*name, *count))
    }
}
