//! Rows that functions make for relations of the system.
//!
//! A function that makes rows names the columns that it fills. All others have the value that
//! `relations.txt` gives them, or NULL.

use crate::catalog::Oid;
use crate::error::Result;
use crate::state::{HostState, SessionNames};
use crate::types::array::Array;
use crate::types::{Context, Datum, Kind};
use sql_bind::system::Relation;
use std::sync::Arc;

/// Numbers of the catalogues that objects are in.
pub(super) const CLASS: Oid = 1259;
pub(super) const TYPE: Oid = 1247;
pub(super) const NAMESPACE: Oid = 2615;
pub(super) const AUTHID: Oid = 1260;
pub(super) const DATABASES: Oid = 1262;
pub(super) const PROC: Oid = 1255;
pub(super) const REWRITE: Oid = 2618;
pub(super) const CONSTRAINT: Oid = 2606;
pub(super) const DEFAULT: Oid = 2604;

/// Everything that rows are made of.
pub(crate) struct Sources<'s> {
    pub(crate) names: &'s SessionNames,
    pub(crate) session: &'s HostState,
    pub(crate) context: Context<'s>,
    /// All relations of the system.
    pub(crate) relations: &'static [Relation],
    /// The table or view that rows are wanted about, if it is one; relations of the system are
    /// none.
    pub(crate) only: Option<Oid>,
}

/// Rows of a relation, as they are made.
pub(crate) struct Rows<'r> {
    relation: &'r Relation,
    /// Positions of the columns that the last row has named.
    named: Vec<usize>,
    made: Vec<Vec<Datum>>,
}

impl<'r> Rows<'r> {
    /// No rows yet of a relation.
    pub(super) fn new(relation: &'r Relation) -> Self {
        Self {
            relation,
            named: Vec::new(),
            made: Vec::new(),
        }
    }

    /// The rows that were made.
    pub(super) fn into_made(self) -> Vec<Vec<Datum>> {
        self.made
    }

    /// Adds a row with values for the columns that are named.
    pub(crate) fn push<const N: usize>(&mut self, values: [(&'static str, Datum); N]) {
        let columns = &self.relation.columns;
        let mut row: Vec<Datum> = columns.iter().map(|column| column.value.clone()).collect();
        for (at, (name, value)) in values.into_iter().enumerate() {
            // Rows of one loop name the same columns in the same order.
            let known = self.named.get(at).copied();
            let place = known.filter(|place| columns[*place].name == name);
            let place = place.or_else(|| columns.iter().position(|column| column.name == name));
            let Some(place) = place else {
                debug_assert!(false, "{} has no column {name}", self.relation.name);
                continue;
            };
            self.named.truncate(at);
            if self.named.len() == at {
                self.named.push(place);
            }
            row[place] = value;
        }
        self.made.push(row);
    }
}

/// A relation of `pg_catalog` by its name, and the function that makes its rows.
pub(super) type Maker = (&'static str, fn(&Sources<'_>, &mut Rows<'_>) -> Result<()>);

/// The number of a column's default: defaults have no numbers of their own.
pub(super) fn default_oid(relation: Oid, at: usize) -> Oid {
    relation.wrapping_add((at as Oid + 1) << 22)
}

/// The number of a condition of a domain, which has none of its own.
pub(super) fn domain_check_oid(domain: Oid, at: usize) -> Oid {
    domain.wrapping_add((at as Oid + 1) << 22)
}

/// A text, or a name.
pub(super) fn text(text: impl AsRef<str>) -> Datum {
    Datum::text(text.as_ref())
}

/// A small integer.
pub(super) fn small(number: usize) -> Datum {
    Datum::Int2(number as i16)
}

/// A truth value.
pub(super) fn flag(flag: bool) -> Datum {
    Datum::Bool(flag)
}

/// An array.
pub(super) fn array(kind: Kind, elements: impl IntoIterator<Item = Datum>) -> Datum {
    Datum::Array(Arc::new(Array::new(kind, elements.into_iter().collect())))
}

/// An `int2vector` or an `oidvector`, whose first subscript is 0.
pub(super) fn vector(kind: Kind, elements: impl IntoIterator<Item = Datum>) -> Datum {
    let elements = elements.into_iter().collect();
    Datum::Array(Arc::new(Array::from_lower(kind, 0, elements)))
}
