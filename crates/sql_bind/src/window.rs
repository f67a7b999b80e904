//! Windows: partitions, orders and frames.
//!
//! A window without a frame reaches from the start of its partition to the last peer of the row.
//! The offset of a range has the type of distances between the values of the key.

use super::order::EQUALITY;
use super::{Binder, ident_text};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Excluded, Expr, Frame, FrameEnd, FrameUnit, SortKey};
use crate::types::cast::{CastContext, can_coerce};
use crate::types::{Kind, in_range};
use sql_parse::{Copied, EXCLUDE, mark_of};
use sqlparser::ast::{
    Expr as Tree, NamedWindowDefinition, NamedWindowExpr, WindowFrame, WindowFrameBound,
    WindowFrameUnits, WindowSpec, WindowType,
};

type BoundWindow = (Vec<Expr>, Vec<SortKey>, Frame);

impl Binder<'_> {
    /// Keeps the definitions of `WINDOW` for the calls that name them.
    pub(super) fn name_windows(&mut self, definitions: &[NamedWindowDefinition]) -> Result<()> {
        for NamedWindowDefinition(name, definition) in definitions {
            let spec = match definition {
                NamedWindowExpr::WindowSpec(spec) => self.completed(spec)?,
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
        found.map(|(_, spec)| spec.copied()).ok_or_else(|| {
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
        let (mut partition, mut excluded) = (Vec::new(), Excluded::Nothing);
        for tree in &spec.partition_by {
            if let Some(rows) = excluded_by(tree) {
                excluded = rows;
                continue;
            }
            let key = self.expression(tree)?;
            let key = self.settle(key)?;
            self.compared([key.kind()], EQUALITY)?;
            partition.push(key);
        }
        let order = self.sort_keys(&spec.order_by)?;
        let frame = match &spec.window_frame {
            Some(frame) => self.frame(frame, &order, excluded)?,
            None => Frame {
                unit: FrameUnit::Range,
                start: FrameEnd::UnboundedPreceding,
                end: FrameEnd::CurrentRow,
                excluded,
            },
        };
        Ok((partition, order, frame))
    }

    /// A window that builds on a named one.
    fn completed(&mut self, spec: &WindowSpec) -> Result<WindowSpec> {
        let Some(name) = &spec.window_name else {
            return Ok(spec.copied());
        };
        let base = self.named_window(&ident_text(name))?;
        let refuse = |problem: &str| {
            let message = format!(
                "cannot override {problem} clause of window \"{}\"",
                ident_text(name)
            );
            Err(SqlError::new(SqlState::WINDOWING_ERROR, message))
        };
        let is_key = |tree: &Tree| excluded_by(tree).is_none();
        if spec.partition_by.iter().any(is_key) {
            return refuse("PARTITION BY");
        }
        if !spec.order_by.is_empty() && !base.order_by.is_empty() {
            return refuse("ORDER BY");
        }
        if base.window_frame.is_some() {
            let name = ident_text(name);
            let message = format!("cannot copy window \"{name}\" because it has a frame clause");
            let is_alone = spec.order_by.is_empty() && spec.window_frame.is_none();
            let hint = "Omit the parentheses in this OVER clause.";
            let error = SqlError::new(SqlState::WINDOWING_ERROR, message);
            return Err(if is_alone { error.hint(hint) } else { error });
        }
        let marks = spec.partition_by.iter().map(Copied::copied);
        Ok(WindowSpec {
            window_name: None,
            partition_by: base.partition_by.into_iter().chain(marks).collect(),
            order_by: if spec.order_by.is_empty() {
                base.order_by
            } else {
                spec.order_by.copied()
            },
            window_frame: spec.window_frame.as_ref().map(Copied::copied),
        })
    }

    fn frame(
        &mut self,
        frame: &WindowFrame,
        order: &[SortKey],
        excluded: Excluded,
    ) -> Result<Frame> {
        let unit = match frame.units {
            WindowFrameUnits::Rows => FrameUnit::Rows,
            WindowFrameUnits::Range => FrameUnit::Range,
            WindowFrameUnits::Groups => FrameUnit::Groups,
        };
        if unit == FrameUnit::Groups && order.is_empty() {
            let message = "GROUPS mode requires an ORDER BY clause";
            return Err(SqlError::new(SqlState::WINDOWING_ERROR, message));
        }
        let start = self.frame_end(&frame.start_bound, (unit, order))?;
        let end = match &frame.end_bound {
            Some(end) => self.frame_end(end, (unit, order))?,
            None => FrameEnd::CurrentRow,
        };
        let problem = match (&start, &end) {
            (FrameEnd::UnboundedFollowing, _) => "frame start cannot be UNBOUNDED FOLLOWING",
            (_, FrameEnd::UnboundedPreceding) => "frame end cannot be UNBOUNDED PRECEDING",
            (FrameEnd::CurrentRow, FrameEnd::Preceding(_)) => {
                "frame starting from current row cannot have preceding rows"
            }
            (FrameEnd::Following(_), FrameEnd::Preceding(_)) => {
                "frame starting from following row cannot have preceding rows"
            }
            (FrameEnd::Following(_), FrameEnd::CurrentRow) => {
                "frame starting from following row cannot end with current row"
            }
            _ => {
                return Ok(Frame {
                    unit,
                    start,
                    end,
                    excluded,
                });
            }
        };
        Err(SqlError::new(SqlState::WINDOWING_ERROR, problem))
    }

    fn frame_end(
        &mut self,
        bound: &WindowFrameBound,
        (unit, order): (FrameUnit, &[SortKey]),
    ) -> Result<FrameEnd> {
        let (offset, is_preceding) = match bound {
            WindowFrameBound::CurrentRow => return Ok(FrameEnd::CurrentRow),
            WindowFrameBound::Preceding(None) => return Ok(FrameEnd::UnboundedPreceding),
            WindowFrameBound::Following(None) => return Ok(FrameEnd::UnboundedFollowing),
            WindowFrameBound::Preceding(Some(offset)) => (offset, true),
            WindowFrameBound::Following(Some(offset)) => (offset, false),
        };
        let offset = self.expression(offset)?;
        let kind = offset.kind();
        let (clause, wanted) = match unit {
            FrameUnit::Rows => ("ROWS", Kind::Int8),
            FrameUnit::Groups => ("GROUPS", Kind::Int8),
            FrameUnit::Range => ("RANGE", self.range_offset(order, kind)?),
        };
        if !can_coerce(kind, wanted, CastContext::Assignment) {
            let kind = self.type_name(kind);
            let message = format!("argument of {clause} must be type bigint, not type {kind}");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let offset = self.cast_to(offset, wanted.plain())?;
        if offset.reads_row() {
            let message = format!("argument of {clause} must not contain variables");
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        Ok(if is_preceding {
            FrameEnd::Preceding(offset)
        } else {
            FrameEnd::Following(offset)
        })
    }

    /// The kind of an offset of `RANGE`: its own if the key has such distances, or the only one.
    fn range_offset(&self, order: &[SortKey], kind: Kind) -> Result<Kind> {
        let [key] = order else {
            let message =
                "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(SqlError::new(SqlState::WINDOWING_ERROR, message));
        };
        let key = key.expression.kind();
        let given = if kind == Kind::Unknown { key } else { kind };
        let kinds = in_range::offset_kinds(key).iter().copied();
        let fits = |to: &Kind| can_coerce(kind, *to, CastContext::Implicit);
        let kinds: Vec<Kind> = kinds.filter(fits).collect();
        let is_known = !in_range::offset_kinds(key).is_empty();
        let (key, offset) = (self.type_name(key), self.type_name(kind));
        let (problem, hint) = match kinds.as_slice() {
            [only] => return Ok(*only),
            kinds if kinds.contains(&given) => return Ok(given),
            [] if !is_known => (format!("is not supported for column type {key}"), None),
            [] => (
                format!("is not supported for column type {key} and offset type {offset}"),
                Some("Cast the offset value to an appropriate type."),
            ),
            _ => (
                format!(
                    "has multiple interpretations for column type {key} and offset type {offset}"
                ),
                Some("Cast the offset value to the exact intended type."),
            ),
        };
        let message = format!("RANGE with offset PRECEDING/FOLLOWING {problem}");
        let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
        Err(match hint {
            Some(hint) => error.hint(hint),
            None => error,
        })
    }
}

/// The rows that a window leaves out, if a key of the partition stands for `EXCLUDE`.
fn excluded_by(tree: &Tree) -> Option<Excluded> {
    let Tree::Identifier(name) = tree else {
        return None;
    };
    Some(match mark_of(name)?.strip_prefix(EXCLUDE)? {
        "CURRENT" => Excluded::CurrentRow,
        "GROUP" => Excluded::Group,
        "TIES" => Excluded::Ties,
        _ => Excluded::Nothing,
    })
}
