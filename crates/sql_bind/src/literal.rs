//! Literals.
//!
//! A text in quotes has no type until its context gives it one; a number is the smallest integer
//! type that has it, or `numeric`.

use super::Binder;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Expr;
use crate::types::{Datum, Kind, Type, text_io};
use sqlparser::ast::{Value, ValueWithSpan};

impl Binder<'_> {
    /// A literal or a parameter.
    pub(super) fn value(&mut self, value: &ValueWithSpan) -> Result<Expr> {
        if let Value::Number(text, _) | Value::SingleQuotedString(text) = &value.value
            && let Some(parameter) = self.lifted(value.span, text, false)
        {
            return Ok(parameter);
        }
        let bound = match &value.value {
            Value::Null => Ok(Expr::null(Kind::Unknown.plain())),
            Value::Boolean(value) => Ok(Expr::boolean(*value)),
            Value::Number(text, _) => self.number(text),
            Value::Placeholder(text) => self.parameter(text),
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text)
            | Value::NationalStringLiteral(text) => Ok(unknown(text)),
            Value::DollarQuotedString(text) => Ok(unknown(&text.value)),
            other => {
                let instead = "Write a text in single quotes and cast it.";
                Err(SqlError::unsupported(
                    format!("the literal {other}"),
                    instead,
                ))
            }
        };
        if let Ok(literal) = &bound {
            self.note_literal(literal, value.span);
        }
        bound.map_err(|error| self.at(value.span, error))
    }

    /// An integer of the smallest type that has it, or a `numeric`.
    fn number(&self, text: &str) -> Result<Expr> {
        let digits = text.replace('_', "");
        let radix = |prefix: &str| {
            let lower = digits.to_lowercase();
            lower.strip_prefix(prefix).map(str::to_owned)
        };
        let integer = if let Some(hex) = radix("0x") {
            i64::from_str_radix(&hex, 16).ok()
        } else if let Some(octal) = radix("0o") {
            i64::from_str_radix(&octal, 8).ok()
        } else if let Some(binary) = radix("0b") {
            i64::from_str_radix(&binary, 2).ok()
        } else {
            digits.parse().ok()
        };
        if let Some(number) = integer {
            return Ok(match i32::try_from(number) {
                Ok(number) => Expr::Constant(Datum::Int4(number), Kind::Int4.plain()),
                Err(_) => Expr::Constant(Datum::Int8(number), Kind::Int8.plain()),
            });
        }
        let value = text_io::parse(Kind::Numeric, &digits, &self.context)?;
        Ok(Expr::Constant(value, Kind::Numeric.plain()))
    }

    /// A parameter: `$1`.
    fn parameter(&mut self, text: &str) -> Result<Expr> {
        let missing = || {
            let message = format!("there is no parameter {text}");
            SqlError::new(SqlState::UNDEFINED_PARAMETER, message)
        };
        let number = text
            .strip_prefix('$')
            .and_then(|number| number.parse::<usize>().ok());
        let number = number
            .filter(|number| (1..=65_535).contains(number))
            .ok_or_else(missing)?;
        if self.routine.is_some() {
            return self.argument_at(number - 1).ok_or_else(missing);
        }
        if !self.takes_parameters {
            return Err(missing());
        }
        if self.parameters.len() < number {
            self.parameters.resize(number, None);
        }
        let known = self.parameters[number - 1];
        let data_type = known.unwrap_or(Type::from(Kind::Unknown));
        self.with_checked_fields(Expr::Parameter(number - 1, data_type))
    }

    /// An argument of the function whose query is bound, by its name.
    pub(super) fn argument(&self, name: &str) -> Option<Expr> {
        let arguments = self.scopes.first()?.columns.iter().take(self.routine?);
        let mut names = arguments.map(|column| column.name.as_str());
        self.argument_at(names.position(|own| own == name)?)
    }

    /// An argument of the function whose query is bound: a column of the outermost scope.
    fn argument_at(&self, at: usize) -> Option<Expr> {
        let columns = &self
            .scopes
            .first()
            .filter(|_| Some(at) < self.routine)?
            .columns;
        let mut value = columns.get(at)?.expression.clone();
        for _ in 1..self.scopes.len() {
            value = value.into_outer();
        }
        Some(value)
    }
}

/// A text whose type the context decides.
pub(super) fn unknown(text: &str) -> Expr {
    Expr::Constant(Datum::text(text), Kind::Unknown.plain())
}
