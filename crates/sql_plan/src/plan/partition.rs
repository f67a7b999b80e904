//! The keys that partitions take.
//!
//! A partition takes some values of one column, or a range of keys, or the rest. No two partitions
//! of a table take the same key, which definitions check with [`Takes::overlaps`].

use super::partition_hash::{HashClass, hash_of};
use crate::types::Datum;
use std::cmp::Ordering;
use std::sync::Arc;

/// The keys that a partition takes.
#[derive(Clone, Debug)]
pub enum Takes {
    /// Those that no other partition takes.
    Rest,
    /// Keys of one column, equal to one of these.
    Among(Vec<Datum>),
    /// From the first end up to the second, which it does not take.
    Between(Vec<Edge>, Vec<Edge>),
    /// Keys whose hash has this remainder.
    Remainder(Share),
}

/// The keys whose hash, divided by a modulus, has a remainder.
#[derive(Clone, Debug)]
pub struct Share {
    /// The divisor.
    pub modulus: u64,
    /// The remainder of their hashes.
    pub remainder: u64,
    /// The types of the keys.
    pub classes: Arc<[HashClass]>,
}

impl Share {
    /// Whether it has keys; none if they are of other types.
    fn has(&self, keys: &[Datum]) -> Option<bool> {
        let hash = hash_of(keys, &self.classes)?;
        Some(hash % self.modulus == self.remainder)
    }
}

/// A partition on a level of those above it.
#[derive(Clone, Debug)]
pub struct PartitionKeys {
    /// The columns of its rows that are the keys; none for an expression.
    pub columns: Vec<Option<usize>>,
    /// The keys that it takes.
    pub takes: Takes,
    /// Those that others take, if it takes the rest.
    pub others: Vec<Takes>,
}

/// A key of an end of a range.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edge {
    /// Before all keys.
    Min,
    /// At this key.
    At(Datum),
    /// After all keys, NULL included.
    Max,
}

impl PartitionKeys {
    /// Whether it may take these keys.
    pub(super) fn has(&self, keys: &[Datum]) -> bool {
        match &self.takes {
            Takes::Rest => !self.others.iter().any(|other| other.has(keys)),
            Takes::Remainder(share) => share.has(keys) != Some(false),
            takes => takes.has(keys),
        }
    }
}

impl Takes {
    /// Whether it takes these keys; the rest does only if nobody else does.
    pub(super) fn has(&self, keys: &[Datum]) -> bool {
        match self {
            Self::Rest => false,
            Self::Among(values) => keys.first().is_some_and(|key| values.contains(key)),
            Self::Between(from, to) => {
                let is_before = |end: &[Edge]| order(keys, end) == Ordering::Less;
                !keys.iter().any(Datum::is_null) && !is_before(from) && is_before(to)
            }
            Self::Remainder(share) => share.has(keys) == Some(true),
        }
    }

    /// Whether some keys are taken by both.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Rest, Self::Rest) => true,
            (Self::Among(one), Self::Among(other)) => one.iter().any(|key| other.contains(key)),
            (Self::Between(from, to), Self::Between(other_from, other_to)) => {
                compare(from, other_to).is_lt() && compare(other_from, to).is_lt()
            }
            // One modulus is a multiple of the other.
            (Self::Remainder(one), Self::Remainder(other)) => {
                let least = one.modulus.min(other.modulus);
                one.remainder % least == other.remainder % least
            }
            _ => false,
        }
    }

    /// Whether it takes nothing.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Between(from, to) if compare(from, to).is_ge())
    }
}

/// The order of keys and an end.
fn order(keys: &[Datum], end: &[Edge]) -> Ordering {
    for (key, edge) in keys.iter().zip(end) {
        let order = match edge {
            Edge::Min => Ordering::Greater,
            Edge::Max => Ordering::Less,
            Edge::At(value) => key.cmp(value),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// The order of two ends. What follows an infinite key does not count.
fn compare(one: &[Edge], other: &[Edge]) -> Ordering {
    for (one, other) in one.iter().zip(other) {
        match one.cmp(other) {
            Ordering::Equal if matches!(one, Edge::At(_)) => {}
            order => return order,
        }
    }
    Ordering::Equal
}
