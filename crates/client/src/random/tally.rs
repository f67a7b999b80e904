//! Counts of the constructs and types that occurred.
//!
//! Everything that the generator knows is in the count from the beginning, so that a construct
//! which never occurs shows as a zero.

use super::{expression, schema, statement};
use std::collections::BTreeMap;

/// How often each construct and type occurred.
#[derive(Clone, Debug)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Default for Tally {
    fn default() -> Self {
        let types = schema::TYPES.iter().map(|data_type| data_type.name);
        let expressions = expression::TEMPLATES
            .iter()
            .map(|template| template.construct);
        let statements = statement::TEMPLATES
            .iter()
            .flat_map(|template| template.constructs);
        let known = types.chain(expressions).chain(statements.copied());
        Self(known.map(|name| (name, 0)).collect())
    }
}

impl Tally {
    pub(super) fn count(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }

    /// Names and counts, in the order of the names.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().map(|(name, count)| (*name, *count))
    }
}
