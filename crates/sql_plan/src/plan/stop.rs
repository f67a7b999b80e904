//! Windows whose functions number the rows of each partition, and those of which only the first
//! rows are wanted: `rank() OVER (ORDER BY a) <= 3`.
//!
//! The numbers grow inside of a partition, so a condition that leaves out one of them leaves out
//! all rows after it. Without partitions they need not be read. The condition stays where it is.

use super::access::comparison;
use super::expression::Expr;
use super::node::{OverWindow, Stop, Window};
use crate::types::Kind;
use crate::types::window::WindowFunction;

impl Window {
    /// Whether all of its functions number the rows, so that none sees a row after its own.
    pub fn is_numbered(&self) -> bool {
        self.calls.iter().all(|call| {
            matches!(
                call.function,
                OverWindow::Function(
                    WindowFunction::RowNumber | WindowFunction::Rank | WindowFunction::DenseRank
                )
            )
        })
    }
}

/// The end of the rows of a partition that conditions over the rows of a window leave.
pub(super) fn stop_of(window: &Window, conditions: &[Expr]) -> Option<Stop> {
    if !window.is_numbered() {
        return None;
    }
    let width = window.input.width();
    let type_of = |at: usize| {
        let call = at.checked_sub(width).and_then(|at| window.calls.get(at));
        call.map_or(Kind::Unknown.plain(), |call| call.data_type)
    };
    let mut plain = conditions.iter().filter(|one| !Expr::has_query(one));
    plain.find_map(|condition| {
        let (at, name, value) = comparison(&type_of, condition)?;
        let call = at.checked_sub(width)?;
        matches!(name, "<" | "<=" | "=").then(|| Stop {
            call,
            last: value.clone(),
        })
    })
}
