//! Conversions that the context of an expression asks for.
//!
//! A literal without a type is read as a value of the wanted one when the statement is bound,
//! unless its text means another value each time. A parameter without a type gets the wanted one.

use super::Binder;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Expr;
use crate::types::cast::{self, CastContext};
use crate::types::overload::common_kind;
use crate::types::{Datum, Kind, Type, text_io};
use std::sync::Arc;

impl Binder<'_> {
    /// The expression as a value of a type, where that needs no word from the statement.
    pub(super) fn coerce(&mut self, expression: Expr, target: Type) -> Result<Expr> {
        self.convert(expression, target, CastContext::Implicit)
    }

    /// The expression as a value for a column.
    pub(super) fn assign(&mut self, expression: Expr, target: Type, column: &str) -> Result<Expr> {
        let kind = expression.kind();
        if !cast::can_coerce(kind, target.kind, CastContext::Assignment) {
            let message = format!(
                "column \"{column}\" is of type {} but expression is of type {}",
                self.type_name(target.kind),
                self.type_name(kind)
            );
            let hint = "You will need to rewrite or cast the expression.";
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).hint(hint));
        }
        self.convert(expression, target, CastContext::Assignment)
    }

    /// The expression as a subscript: any number that a column of integers takes is one.
    pub(super) fn subscript(&mut self, expression: Expr) -> Result<Expr> {
        let int4 = Kind::Int4.plain();
        if !cast::can_coerce(expression.kind(), int4.kind, CastContext::Assignment) {
            let message = "array subscript must have type integer";
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        self.convert(expression, int4, CastContext::Assignment)
    }

    /// The expression as a value of a type, as `CAST` asks for.
    pub(super) fn cast_to(&mut self, expression: Expr, target: Type) -> Result<Expr> {
        self.convert(expression, target, CastContext::Explicit)
    }

    /// A row whose parts are values of the fields of a type.
    fn row_as(&mut self, parts: Vec<Expr>, oid: u32, how: CastContext) -> Result<Expr> {
        let shape = self.context.names.row_shape(oid);
        let shape = shape.ok_or_else(|| SqlError::internal("a type of rows has fields"))?;
        if parts.len() != shape.types.len() {
            let name = self.type_name(Kind::Composite(oid));
            return Err(cast::wrong_width(&name, parts.len(), shape.types.len()));
        }
        let pairs = parts.into_iter().zip(&shape.types);
        let parts = pairs.map(|(part, to)| self.convert(part, *to, how));
        Ok(Expr::Row(parts.collect::<Result<_>>()?, shape))
    }

    /// A row that may be missing as one of a type.
    fn optional_row(&mut self, row: Expr, target: Type, how: CastContext) -> Result<Expr> {
        let Expr::Case(mut arms, row) = row else {
            return Ok(row);
        };
        for (_, missing) in &mut arms {
            *missing = Expr::null(target);
        }
        let row = self.convert(*row, target, how)?;
        Ok(Expr::Case(arms, Box::new(row)))
    }

    fn convert(&mut self, expression: Expr, target: Type, how: CastContext) -> Result<Expr> {
        let from = expression.kind();
        let value = self.one_converted(expression, target, how)?;
        match value {
            // Others are made of parts that were converted, or are NULL.
            Expr::Cast(..)
            | Expr::Parameter(..)
            | Expr::Constant(Datum::Record(_) | Datum::Array(_), _)
                if from != target.kind =>
            {
                self.with_checked_fields(value)
            }
            value => Ok(value),
        }
    }

    fn one_converted(&mut self, expression: Expr, target: Type, how: CastContext) -> Result<Expr> {
        let from = expression.data_type();
        if from.kind == target.kind && (target.modifier < 0 || target.modifier == from.modifier) {
            return Ok(expression);
        }
        let expression = match (expression, target.kind) {
            (Expr::Row(parts, _), Kind::Composite(oid)) => self.row_as(parts, oid, how)?,
            (row @ Expr::Case(..), Kind::Composite(_)) if row.fields().is_some() => {
                return self.optional_row(row, target, how);
            }
            (expression, _) => expression,
        };
        match expression {
            Expr::Parameter(
                number,
                Type {
                    kind: Kind::Unknown,
                    ..
                },
            ) => {
                return Ok(self.parameter_of(number, target, how));
            }
            Expr::Constant(Datum::Null, _) => return Ok(Expr::null(target)),
            Expr::Constant(Datum::Text(text), data_type) if data_type.kind == Kind::Unknown => {
                return self.literal_of(&text, target, how);
            }
            // A literal with a collation.
            Expr::Cast(literal, data_type, _) if data_type.kind == Kind::Unknown => {
                let value = self.convert(*literal, target, how)?;
                let is_text = matches!(value.kind(), Kind::Text | Kind::Varchar);
                return Ok(if is_text { value.collated() } else { value });
            }
            Expr::Array(elements, _) if target.kind.is_array() => {
                let element = target.kind.element().unwrap_or(Kind::Text);
                let is_nested = elements.iter().any(|one| one.kind().is_array());
                let kind = if is_nested { target.kind } else { element };
                let element = Type {
                    kind,
                    modifier: target.modifier,
                };
                let elements = elements.into_iter();
                let elements = elements.map(|one| self.convert(one, element, how));
                return Ok(Expr::Array(elements.collect::<Result<_>>()?, target));
            }
            _ => {}
        }
        if !cast::can_coerce(from.kind, target.kind, how) {
            let message = format!(
                "cannot cast type {} to {}",
                self.type_name(from.kind),
                self.type_name(target.kind)
            );
            return Err(SqlError::new(SqlState::CANNOT_COERCE, message));
        }
        let is_any = target.kind.is_polymorphic() || target.kind == Kind::Any;
        if is_any {
            return Ok(expression);
        }
        Ok(Expr::Cast(Box::new(expression), target, how))
    }

    /// A parameter without a type becomes one of the wanted kind.
    fn parameter_of(&mut self, number: usize, target: Type, how: CastContext) -> Expr {
        let kind = match target.kind {
            kind if kind.is_polymorphic() || kind == Kind::Any => Kind::Text,
            kind => kind,
        };
        if let Some(parameter) = self.type_lifted(number, Type { kind, ..target }, how) {
            return parameter;
        }
        let slot = &mut self.parameters[number];
        let known = *slot.get_or_insert(kind.plain());
        let parameter = Expr::Parameter(number, known);
        if known.kind == target.kind && target.modifier < 0 {
            return parameter;
        }
        Expr::Cast(Box::new(parameter), target, how)
    }

    /// A literal without a type as a value of the wanted one.
    fn literal_of(&self, text: &Arc<str>, target: Type, how: CastContext) -> Result<Expr> {
        let kind = match target.kind {
            kind if kind.is_polymorphic() || kind == Kind::Any => Kind::Text,
            kind => kind,
        };
        let target = Type { kind, ..target };
        if depends_on_moment(kind, text) {
            let literal = Expr::Constant(Datum::Text(Arc::clone(text)), Kind::Unknown.plain());
            return Ok(Expr::Cast(Box::new(literal), target, how));
        }
        let value = match kind {
            // The fields of an interval say what a number without a unit counts.
            Kind::Interval => text_io::parse_as(target, text, &self.context)?,
            _ => cast::apply_modifier(text_io::parse(kind, text, &self.context)?, target, how)?,
        };
        self.note_value(text, &value, kind);
        Ok(Expr::Constant(value, target))
    }

    /// Expressions as values of the one kind to which all of them convert.
    pub(super) fn unify(&mut self, construct: &str, parts: Vec<Expr>) -> Result<(Vec<Expr>, Type)> {
        let kinds: Vec<Kind> = parts.iter().map(Expr::kind).collect();
        let kind = common_kind(construct, &kinds)?;
        let mut modifiers = parts.iter().filter(|part| part.kind() == kind);
        let first = modifiers
            .next()
            .map_or(-1, |part| part.data_type().modifier);
        let is_common = parts
            .iter()
            .all(|part| part.kind() == kind && part.data_type().modifier == first);
        let modifier = if is_common { first } else { -1 };
        let target = Type { kind, modifier };
        let parts = parts.into_iter().map(|part| self.coerce(part, target));
        Ok((parts.collect::<Result<_>>()?, target))
    }

    /// A literal or parameter that nothing gives a type becomes text.
    pub(super) fn settle(&mut self, expression: Expr) -> Result<Expr> {
        if expression.kind() == Kind::Unknown {
            return self.coerce(expression, Kind::Text.plain());
        }
        Ok(expression)
    }

    /// The name of a type, also of one that users have defined.
    pub(super) fn type_name(&self, kind: Kind) -> String {
        let of_user = self.context.names.type_name(kind);
        of_user.unwrap_or_else(|| kind.name())
    }
}

/// Whether a text of a date or time means another moment each time it is read.
fn depends_on_moment(kind: Kind, text: &str) -> bool {
    use Kind::{Date, Time, Timestamp, Timestamptz, Timetz};
    if !matches!(kind, Date | Time | Timestamp | Timestamptz | Timetz) {
        return false;
    }
    let text = text.to_lowercase();
    ["now", "today", "tomorrow", "yesterday"]
        .iter()
        .any(|word| text.contains(word))
}
