//! The collation of columns: `C` where they come from an expression that has it.
//!
//! A scope gives such a column `COLLATE "C"` again, so that functions of letters above a query see
//! what those inside of it do. Names need nothing: their type says it.

use super::expression::Expr;
use super::node::Node;

impl Node {
    /// Whether the collation of a column is `C`, although it is no name.
    pub fn has_c_collation(&self, at: usize) -> bool {
        match self {
            Self::Values(values) => {
                let mut values = values.rows.iter().filter_map(|row| row.get(at));
                values.any(Expr::has_c_collation)
            }
            Self::Project(project) => {
                let expression = project.expressions.get(at);
                expression.is_some_and(|one| over(one, &project.input))
            }
            Self::Join(join) => match at.checked_sub(join.left.width()) {
                Some(at) => join.right.has_c_collation(at),
                None => join.left.has_c_collation(at),
            },
            Self::Aggregate(aggregate) => {
                let key = aggregate.keys.get(at);
                key.is_some_and(|one| over(one, &aggregate.input))
            }
            Self::SetOperation(operation) => {
                operation.left.has_c_collation(at) || operation.right.has_c_collation(at)
            }
            Self::Filter(node) => node.input.has_c_collation(at),
            Self::Window(node) => node.input.has_c_collation(at),
            Self::Sort(node) => node.input.has_c_collation(at),
            Self::Limit(node) => node.input.has_c_collation(at),
            Self::Distinct(node) => node.input.has_c_collation(at),
            Self::Lock(node) => node.input.has_c_collation(at),
            Self::Counted(node) => node.input.has_c_collation(at),
            Self::Shared(shared) => shared.node.has_c_collation(at),
            Self::Recursive(recursive) => recursive.start.has_c_collation(at),
            Self::Modify(modify) => {
                let returned = modify.returning.as_ref().and_then(|list| list.get(at));
                returned.is_some_and(Expr::has_c_collation)
            }
            Self::Scan(_) | Self::System(_) | Self::Functions(_) | Self::Working(_) => false,
        }
    }
}

/// Whether the collation of an expression over the rows of a node is `C`.
fn over(expression: &Expr, input: &Node) -> bool {
    match expression {
        Expr::Column(at, _) => input.has_c_collation(*at),
        Expr::Cast(inner, ..) if !expression.has_c_collation() => over(inner, input),
        other => other.has_c_collation(),
    }
}
