//! Sets of rows that `IN` looks its value up in, in place of a comparison with each of them.
//!
//! Rows without NULL are found by their hash. One with NULL is equal to none, but it is unknown
//! whether it is where all other values are equal.

use crate::budget::{Share, bytes_of};
use crate::hash::BuildRowHasher;
use sql_values::types::Datum;
use std::collections::HashSet;

/// Different rows.
pub struct KeySet {
    whole: HashSet<Vec<Datum>, BuildRowHasher>,
    /// Those with NULL.
    partial: HashSet<Vec<Datum>, BuildRowHasher>,
    /// The memory of the rows.
    share: Share,
}

impl KeySet {
    /// A set without rows.
    pub fn new(share: Share) -> Self {
        Self {
            whole: HashSet::default(),
            partial: HashSet::default(),
            share,
        }
    }

    /// Adds a row; false if there is no room for it.
    pub fn insert(&mut self, row: Vec<Datum>) -> bool {
        let rows = if row.iter().any(Datum::is_null) {
            &mut self.partial
        } else {
            &mut self.whole
        };
        if rows.contains(&row) {
            return true;
        }
        let has_room = self.share.try_take(bytes_of(&row));
        if has_room {
            rows.insert(row);
        }
        has_room
    }

    /// Whether a row is equal to one of them for `ANY` with `=`, and different from all of them for
    /// `ALL` with `<>`.
    pub fn test(&self, row: &[Datum], is_all: bool) -> Datum {
        let has_null = row.iter().any(Datum::is_null);
        if !has_null && self.whole.contains(row) {
            return Datum::Bool(!is_all);
        }
        let may_be_equal = |other: &Vec<Datum>| {
            let mut pairs = row.iter().zip(other);
            pairs.all(|(one, other)| one.is_null() || other.is_null() || one == other)
        };
        let is_unknown = self.partial.iter().any(may_be_equal)
            || has_null && self.whole.iter().any(may_be_equal);
        if is_unknown {
            Datum::Null
        } else {
            Datum::Bool(is_all)
        }
    }
}
