//! Targets of assignments: columns, and parts of columns that are arrays.
//!
//! A part is assigned by a function of the whole array, so several assignments to one column are
//! functions of each other.

use super::table::BoundTable;
use super::{Binder, ident_text};
use crate::catalog::Column;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Expr;
use crate::types::{Datum, Kind, Type};
use sql_parse::{mark_of, parse_expression};
use sqlparser::ast::{self, AccessExpr, ObjectNamePart, Subscript};

/// The target of an assignment: the position of the column, and the subscripts of its part.
#[derive(Clone, Debug)]
pub(super) struct AssignTarget {
    pub(super) at: usize,
    pub(super) subscripts: Vec<Subscript>,
}

impl AssignTarget {
    /// A whole column.
    pub(super) fn whole(at: usize) -> Self {
        Self {
            at,
            subscripts: Vec::new(),
        }
    }

    fn is_slice(&self) -> bool {
        let mut subscripts = self.subscripts.iter();
        subscripts.any(|one| matches!(one, Subscript::Slice { .. }))
    }

    /// Fails if the target is a part of a column, which has no default.
    pub(super) fn check_default(&self) -> Result<()> {
        if self.subscripts.is_empty() {
            return Ok(());
        }
        let message = "cannot set an array element to DEFAULT";
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    }

    /// The type of the values that it takes.
    pub(super) fn data_type(&self, column: &Column) -> Result<Type> {
        let data_type = column.data_type;
        if self.subscripts.is_empty() {
            return Ok(data_type);
        }
        if data_type.kind == Kind::Jsonb {
            return Ok(data_type);
        }
        if !data_type.kind.is_array() {
            let message = format!(
                "cannot subscript type {} because it does not support subscripting",
                data_type.kind
            );
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let element = data_type.kind.element().unwrap_or(Kind::Text);
        let kind = if self.is_slice() {
            data_type.kind
        } else {
            element
        };
        Ok(Type { kind, ..data_type })
    }
}

impl Binder<'_> {
    /// The target of a name, which may be marked as one with subscripts.
    pub(super) fn assign_target(
        &self,
        table: &BoundTable,
        name: &ast::ObjectName,
    ) -> Result<AssignTarget> {
        let Some(ObjectNamePart::Identifier(first)) = name.0.first() else {
            return Err(SqlError::new(SqlState::INVALID_NAME, "invalid name"));
        };
        if let Some(text) = mark_of(first) {
            return self.part_target(table, text);
        }
        let column = ident_text(first);
        let at = self.column_to_assign(table, &column)?;
        if let Some(field) = name.0.get(1) {
            let kind = self.type_name(table.body().columns[at].data_type.kind);
            let message = format!(
                "cannot assign to field \"{field}\" of column \"{column}\" because its type {kind} is not a composite type"
            );
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        Ok(AssignTarget::whole(at))
    }

    fn part_target(&self, table: &BoundTable, text: &str) -> Result<AssignTarget> {
        let unsupported = || {
            let instead = "Assign the whole column.";
            SqlError::unsupported(format!("an assignment to {text}"), instead)
        };
        let ast::Expr::CompoundFieldAccess { root, access_chain } = parse_expression(text)? else {
            return Err(unsupported());
        };
        let ast::Expr::Identifier(column) = &*root else {
            return Err(unsupported());
        };
        let subscripts = access_chain.into_iter().map(|access| match access {
            AccessExpr::Subscript(subscript) => Ok(subscript),
            AccessExpr::Dot(_) => Err(unsupported()),
        });
        Ok(AssignTarget {
            at: self.column_to_assign(table, &ident_text(column))?,
            subscripts: subscripts.collect::<Result<_>>()?,
        })
    }

    fn column_to_assign(&self, table: &BoundTable, name: &str) -> Result<usize> {
        table.place_of(name)?.ok_or_else(|| {
            let table = &table.named().name;
            let message = format!("column \"{name}\" of relation \"{table}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })
    }

    /// A value for a target.
    pub(super) fn assign_to(
        &mut self,
        target: &AssignTarget,
        column: &Column,
        value: Expr,
    ) -> Result<Expr> {
        let data_type = target.data_type(column)?;
        if target.subscripts.is_empty() {
            return self.assign(value, data_type, &column.name);
        }
        let kind = value.kind();
        self.assign(value, data_type, &column.name).map_err(|error| {
            if error.state != SqlState::DATATYPE_MISMATCH {
                return error;
            }
            let message = format!(
                "subscripted assignment to \"{}\" requires type {} but expression is of type {}",
                column.name,
                self.type_name(data_type.kind),
                self.type_name(kind)
            );
            SqlError { message, ..error }
        })
    }

    /// The value of a column after a target in it has got its value, over the one before it.
    pub(super) fn with_target(
        &mut self,
        before: Expr,
        target: &AssignTarget,
        value: Expr,
    ) -> Result<Expr> {
        if target.subscripts.is_empty() {
            return Ok(value);
        }
        if before.kind() == Kind::Jsonb {
            let (path, is_number) = self.json_path(&target.subscripts)?;
            let arguments = vec![before, value, path, Expr::boolean(is_number)];
            return self.call("jsonb_assign", arguments);
        }
        let is_slice = target.is_slice();
        let int4 = Kind::Int4.plain();
        let mut ends = Vec::new();
        for subscript in &target.subscripts {
            let pair = match subscript {
                Subscript::Index { index } if is_slice => (None, Some(index)),
                Subscript::Index { index } => (Some(index), None),
                Subscript::Slice {
                    lower_bound,
                    upper_bound,
                    ..
                } => (lower_bound.as_ref(), upper_bound.as_ref()),
            };
            let is_index = matches!(subscript, Subscript::Index { .. });
            for (end, wanted) in [(pair.0, true), (pair.1, is_slice)] {
                if !wanted {
                    continue;
                }
                ends.push(match end {
                    Some(end) => {
                        let end = self.expression(end)?;
                        self.assign(end, int4, "subscript")?
                    }
                    None if is_index => Expr::Constant(Datum::Int4(1), int4),
                    None => Expr::null(int4),
                });
            }
        }
        let ends = Expr::Array(ends, Kind::Array(&Kind::Int4).plain());
        let name = if is_slice {
            "array_assign_slice"
        } else {
            "array_assign"
        };
        self.call(name, vec![before, value, ends])
    }
}

/// Whether a value is the word `DEFAULT`.
pub(super) fn is_default(tree: &ast::Expr) -> bool {
    matches!(tree, ast::Expr::Identifier(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"))
}
