//! Windows: partitions, orders and frames.
//!
//! A window without a frame reaches from the start of its partition to the last peer of the row.
//! The end of a range with an offset is an expression over the row.

use super::{Binder, ident_text};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Expr, Frame, FrameEnd, FrameUnit, SortKey};
use crate::types::Kind;
use sqlparser::ast::{
    NamedWindowDefinition, NamedWindowExpr, WindowFrame, WindowFrameBound, WindowFrameUnits,
    WindowSpec, WindowType,
};

type BoundWindow = (Vec<Expr>, Vec<SortKey>, Frame);

impl Binder<'_> {
    /// Keeps the definitions of `WINDOW` for the calls that name them.
    pub(super) fn name_windows(&mut self, definitions: &[NamedWindowDefinition]) -> Result<()> {
        for NamedWindowDefinition(name, definition) in definitions {
            let spec = match definition {
                NamedWindowExpr::WindowSpec(spec) => spec.clone(),
                NamedWindowExpr::NamedWindow(other) => self.named_window(&ident_text(other))?,
            };
            let name = ident_text(name);
            let named = &mut self.scope().named_windows;
            if named.iter().any(|(known, _)| *known == name) {
                let message = format!("window \"{name}\" is already defined");
                return Err(SqlError::new(SqlState::WINDOWING_ERROR, message));
            }
            named.push((name, spec));
        }
        Ok(())
    }

    fn named_window(&mut self, name: &str) -> Result<WindowSpec> {
        let mut named = self.scope().named_windows.iter();
        let found = named.find(|(known, _)| known == name);
        found.map(|(_, spec)| spec.clone()).ok_or_else(|| {
            let message = format!("window \"{name}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })
    }

    /// The window of a call.
    pub(super) fn window(&mut self, over: &WindowType) -> Result<BoundWindow> {
        let spec = match over {
            WindowType::NamedWindow(name) => self.named_window(&ident_text(name))?,
            WindowType::WindowSpec(spec) => self.completed(spec)?,
        };
        let mut partition = Vec::new();
        for tree in &spec.partition_by {
            let key = self.expression(tree)?;
            partition.push(self.settle(key)?);
        }
        let order = self.sort_keys(&spec.order_by)?;
        let frame = match &spec.window_frame {
            Some(frame) => self.frame(frame, &order)?,
            None => Frame {
                unit: FrameUnit::Range,
                start: FrameEnd::UnboundedPreceding,
                end: FrameEnd::CurrentRow,
            },
        };
        Ok((partition, order, frame))
    }

    /// A window that builds on a named one.
    fn completed(&mut self, spec: &WindowSpec) -> Result<WindowSpec> {
        let Some(name) = &spec.window_name else {
            return Ok(spec.clone());
        };
        let base = self.named_window(&ident_text(name))?;
        let refuse = |problem: &str| {
            let message = format!(
                "cannot override {problem} clause of window \"{}\"",
                ident_text(name)
            );
            Err(SqlError::new(SqlState::WINDOWING_ERROR, message))
        };
        if !spec.partition_by.is_empty() {
            return refuse("PARTITION BY");
        }
        if !spec.order_by.is_empty() && !base.order_by.is_empty() {
            return refuse("ORDER BY");
        }
        Ok(WindowSpec {
            window_name: None,
            partition_by: base.partition_by,
            order_by: if spec.order_by.is_empty() {
                base.order_by
            } else {
                spec.order_by.clone()
            },
            window_frame: spec.window_frame.clone(),
        })
    }

    fn frame(&mut self, frame: &WindowFrame, order: &[SortKey]) -> Result<Frame> {
        let unit = match frame.units {
            WindowFrameUnits::Rows => FrameUnit::Rows,
            WindowFrameUnits::Range => FrameUnit::Range,
            WindowFrameUnits::Groups => FrameUnit::Groups,
        };
        let start = self.frame_end(&frame.start_bound, (unit, order), true)?;
        let end = match &frame.end_bound {
            Some(end) => self.frame_end(end, (unit, order), false)?,
            None => FrameEnd::CurrentRow,
        };
        let problem = match (&start, &end) {
            (FrameEnd::UnboundedFollowing, _) => "frame start cannot be UNBOUNDED FOLLOWING",
            (_, FrameEnd::UnboundedPreceding) => "frame end cannot be UNBOUNDED PRECEDING",
            (FrameEnd::CurrentRow, FrameEnd::Preceding(_)) => {
                "frame starting from current row cannot have preceding rows"
            }
            (FrameEnd::Following(_), FrameEnd::CurrentRow | FrameEnd::Preceding(_)) => {
                "frame starting from following row cannot end with current row"
            }
            _ => return Ok(Frame { unit, start, end }),
        };
        Err(SqlError::new(SqlState::WINDOWING_ERROR, problem))
    }

    fn frame_end(
        &mut self,
        bound: &WindowFrameBound,
        (unit, order): (FrameUnit, &[SortKey]),
        is_start: bool,
    ) -> Result<FrameEnd> {
        let _ = is_start;
        let (offset, is_preceding) = match bound {
            WindowFrameBound::CurrentRow => return Ok(FrameEnd::CurrentRow),
            WindowFrameBound::Preceding(None) => return Ok(FrameEnd::UnboundedPreceding),
            WindowFrameBound::Following(None) => return Ok(FrameEnd::UnboundedFollowing),
            WindowFrameBound::Preceding(Some(offset)) => (offset, true),
            WindowFrameBound::Following(Some(offset)) => (offset, false),
        };
        let offset = self.expression(offset)?;
        let offset = match unit {
            FrameUnit::Rows | FrameUnit::Groups => self.coerce(offset, Kind::Int8.plain())?,
            FrameUnit::Range => {
                let [key] = order else {
                    let message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
                    return Err(SqlError::new(SqlState::WINDOWING_ERROR, message));
                };
                self.range_end(key, offset, is_preceding)?
            }
        };
        Ok(if is_preceding {
            FrameEnd::Preceding(offset)
        } else {
            FrameEnd::Following(offset)
        })
    }

    /// The value of the key at the end of a range, over the row.
    fn range_end(&mut self, key: &SortKey, offset: Expr, is_preceding: bool) -> Result<Expr> {
        let name = if is_preceding == key.descends {
            "+"
        } else {
            "-"
        };
        let kind = key.expression.kind();
        let moved = self.operator(name, vec![key.expression.clone(), offset])?;
        if moved.kind() == kind {
            return Ok(moved);
        }
        self.cast_to(moved, kind.plain())
    }
}
