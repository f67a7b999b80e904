//! The sides of a join, as its conditions read them.
//!
//! Columns of the left side come first in the row of a join, so their number tells them from those
//! of the right side.

use super::expression::Expr;

/// The inputs whose columns a condition reads.
pub(super) enum Side {
    Left,
    Right,
    Both,
}

/// The side that a condition over both rows reads.
pub(super) fn side(condition: &Expr, width: usize) -> Side {
    let (mut left, mut right) = (false, false);
    condition.columns(&mut |at| {
        left |= at < width;
        right |= at >= width;
    });
    match (left, right) {
        (true, false) => Side::Left,
        (false, true) => Side::Right,
        // One without columns may fail for a row that the other side does not have.
        _ => Side::Both,
    }
}

/// A condition over both rows as one of the right row, which alone it reads.
pub(super) fn shifted(mut condition: Expr, width: usize) -> Expr {
    condition.shift(width, -(width as isize));
    condition
}

/// A condition where another outer row lies nearer than those that it reads.
pub(super) fn deeper(mut condition: Expr) -> Expr {
    let walked = condition.walk(0, &mut |part, depth| {
        deepen_part(part, depth);
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
    condition
}

/// As [`deeper`], of a part that a walk visits.
pub(super) fn deepen_part(part: &mut Expr, depth: usize) {
    if let Expr::Outer(level, ..) = part
        && *level > depth
    {
        *level += 1;
    }
}
