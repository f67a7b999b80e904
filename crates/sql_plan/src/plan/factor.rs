//! Conditions of several parts, and the parts that hold in each branch of an `OR`.
//!
//! ```text
//! (a AND b) OR (a AND c)          -> a AND (b OR c)
//! (l = 1 AND r = 2) OR (l = 3 AND r = 4)  implies  l = 1 OR l = 3
//! ```
//!
//! Both are true in the logic of three values, so an equality of a join in each branch makes a join
//! by hash, and each input is read only as far as a branch wants it.

use super::expression::Expr;
use crate::types::Datum;

impl Expr {
    /// Both conditions.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let mut parts = self.conjuncts();
        parts.extend(other.conjuncts());
        Self::all(parts)
    }

    /// All of several conditions.
    pub fn all(mut parts: Vec<Self>) -> Self {
        match parts.len() {
            0 => Self::boolean(true),
            1 => parts.remove(0),
            _ => Self::And(parts),
        }
    }

    /// The conditions of which all must be true.
    pub fn conjuncts(self) -> Vec<Self> {
        match self {
            Self::And(parts) => parts.into_iter().flat_map(Self::conjuncts).collect(),
            Self::Or(parts) => factored(parts),
            Self::Constant(Datum::Bool(true), _) => Vec::new(),
            other => vec![other],
        }
    }
}

/// The conditions of an `OR`: the parts that all branches have, and the rest.
fn factored(parts: Vec<Expr>) -> Vec<Expr> {
    let branches = parts.iter().cloned().map(Expr::conjuncts);
    let mut branches: Vec<Vec<Expr>> = branches.collect();
    let has = |branch: &[Expr], part: &Expr| branch.iter().any(|one| one.is_same(part));
    let is_common = |part: &&Expr| {
        !Expr::has_volatile(part)
            && !Expr::has_query(part)
            && branches.iter().all(|branch| has(branch, part))
    };
    let first = branches.first().into_iter().flatten();
    let mut common: Vec<Expr> = first.filter(is_common).cloned().collect();
    if common.is_empty() {
        return vec![Expr::Or(parts)];
    }
    for branch in &mut branches {
        branch.retain(|part| !has(&common, part));
    }
    // Nothing is left of a branch that the common parts say all of.
    if !branches.iter().any(Vec::is_empty) {
        common.push(Expr::Or(branches.into_iter().map(Expr::all).collect()));
    }
    common
}

/// A condition on one input that follows from an `OR` on both, if there is one.
pub(super) fn implied(
    condition: &Expr,
    is_of_input: impl Fn(&Expr) -> bool,
) -> impl Iterator<Item = Expr> {
    let branches = match condition {
        Expr::Or(parts) => parts.as_slice(),
        _ => &[],
    };
    let of_input = branches.iter().map(|branch| {
        let parts = branch.clone().conjuncts().into_iter();
        let parts: Vec<Expr> = parts
            .filter(|part| is_of_input(part) && !Expr::has_volatile(part) && !Expr::has_query(part))
            .collect();
        (!parts.is_empty()).then(|| Expr::all(parts))
    });
    let of_input: Option<Vec<Expr>> = of_input.collect();
    let of_input = of_input.filter(|branches| !branches.is_empty());
    of_input.map(Expr::Or).into_iter()
}
