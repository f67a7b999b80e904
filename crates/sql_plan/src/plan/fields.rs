//! Fields of rows that have no type in the catalogue: rows of functions with several columns, and
//! `ROW(...)`.
//!
//! The type `record` does not say them, so a scope looks where a column comes from.

use super::expression::Expr;
use super::node::Node;
use crate::types::{Datum, Kind, RecordShape};
use std::sync::Arc;

impl Expr {
    /// The fields of the row that the expression makes, if it says them itself.
    pub fn fields(&self) -> Option<Arc<RecordShape>> {
        match self {
            Self::Row(_, shape) => Some(Arc::clone(shape)),
            // The row of a table, which an outer join may leave out.
            Self::Case(arms, row) => match (&arms[..], &**row) {
                ([] | [(_, Self::Constant(Datum::Null, _))], Self::Row(_, shape)) => {
                    Some(Arc::clone(shape))
                }
                _ => None,
            },
            Self::Call(call) if self.kind() == Kind::Record => {
                // A row without values tells the fields.
                if let [_, Self::Row(_, shape)] = call.arguments.as_slice() {
                    return Some(Arc::clone(shape));
                }
                let columns = call.function.columns;
                let shape = || RecordShape {
                    names: columns.iter().map(|(name, _)| (*name).into()).collect(),
                    types: columns.iter().map(|(_, kind)| kind.plain()).collect(),
                };
                (!columns.is_empty()).then(|| Arc::new(shape()))
            }
            _ => None,
        }
    }
}

impl Node {
    /// The fields of a column that is a row, as far as its expression is found.
    pub fn fields(&self, at: usize) -> Option<Arc<RecordShape>> {
        match self {
            Self::Project(project) => match project.expressions.get(at)? {
                Expr::Column(at, _) => project.input.fields(*at),
                other => other.fields(),
            },
            Self::Join(join) => match at.checked_sub(join.left.width()) {
                Some(at) => join.right.fields(at),
                None => join.left.fields(at),
            },
            Self::Values(values) => values.rows.first()?.get(at)?.fields(),
            Self::SetOperation(operation) => operation.left.fields(at),
            Self::Filter(node) => node.input.fields(at),
            Self::Window(node) => node.input.fields(at),
            Self::Sort(node) => node.input.fields(at),
            Self::Limit(node) => node.input.fields(at),
            Self::Distinct(node) => node.input.fields(at),
            Self::Lock(node) => node.input.fields(at),
            Self::Counted(node) => node.input.fields(at),
            Self::Shared(shared) => shared.node.fields(at),
            _ => None,
        }
    }
}
