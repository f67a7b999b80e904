//! The way of a row to its partition.
//!
//! A partitioned table is a level: keys over the row, and for each partition the keys that it
//! takes. A partition may be a level itself, so a row goes down from level to level to a leaf.

use super::expression::Expr;
use super::modify::{Conflict, Target};
use crate::catalog::Oid;
use crate::types::Datum;
use std::cmp::Ordering;
use std::sync::Arc;

/// A partitioned table.
#[derive(Clone, Debug)]
pub struct Level {
    /// The name of the table.
    pub table: String,
    /// Expressions over the row, and how they are written.
    pub keys: Vec<(Expr, String)>,
    /// Its partitions.
    pub arms: Vec<Arm>,
}

/// A partition of a level.
#[derive(Clone, Debug)]
pub struct Arm {
    /// The partition.
    pub table: Oid,
    /// The keys of its rows.
    pub takes: Takes,
    /// The level or leaf that the partition is.
    pub next: Next,
}

/// The keys that a partition takes.
#[derive(Clone, Debug)]
pub enum Takes {
    /// Those that no other partition takes.
    Rest,
    /// Keys of one column, equal to one of these.
    Among(Vec<Datum>),
    /// From the first end up to the second, which it does not take.
    Between(Vec<Edge>, Vec<Edge>),
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

/// The place that follows an arm.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// Nobody asks for it.
    Unknown,
    /// The level with this position in the router.
    Level(usize),
    /// The leaf with this position in the router.
    Leaf(usize),
}

/// All levels below a partitioned table, and the tables at their ends.
#[derive(Clone, Debug)]
pub struct Router {
    /// The first is the table itself. Keys are over rows of it.
    pub levels: Vec<Level>,
    /// The tables that have rows.
    pub leaves: Vec<Leaf>,
    /// The partitions that the table itself is, over rows of it.
    pub within: Vec<(Level, usize)>,
}

/// A partition that has rows.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// The partition, with the rules for its rows.
    pub target: Arc<Target>,
    /// For each of its columns the one of the table above.
    pub columns: Vec<usize>,
    /// The remedy for a key of its rows that is there already.
    pub conflict: Option<Conflict>,
}

impl Level {
    /// The arm that takes a row with these keys.
    pub fn arm(&self, keys: &[Datum]) -> Option<usize> {
        let takes = |arm: &Arm| arm.takes.has(keys);
        let found = self.arms.iter().position(takes);
        found.or_else(|| self.rest())
    }

    /// The arm of the rows that no other takes.
    pub fn rest(&self) -> Option<usize> {
        let is_rest = |arm: &Arm| matches!(arm.takes, Takes::Rest);
        self.arms.iter().position(is_rest)
    }
}

impl Takes {
    fn has(&self, keys: &[Datum]) -> bool {
        match self {
            Self::Rest => false,
            Self::Among(values) => keys.first().is_some_and(|key| values.contains(key)),
            Self::Between(from, to) => {
                let is_before = |end: &[Edge]| order(keys, end) == Ordering::Less;
                !keys.iter().any(Datum::is_null) && !is_before(from) && is_before(to)
            }
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

impl Leaf {
    /// Its row of a row of the table above.
    pub fn row_of(&self, row: &[Datum]) -> Vec<Datum> {
        let mut own: Vec<Datum> = self.columns.iter().map(|&at| row[at].clone()).collect();
        // Those of indexes are computed.
        own.resize(self.target.columns.len(), Datum::Null);
        own
    }

    /// The row of the table above, of `width` columns, with the number of this table after it.
    pub fn row_above(&self, own: &[Datum], width: usize) -> Vec<Datum> {
        let mut row = vec![Datum::Null; width];
        for (value, &at) in own.iter().zip(&self.columns) {
            row[at] = value.clone();
        }
        row.push(Datum::Oid(self.target.source.oid));
        row
    }
}
