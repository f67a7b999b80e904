//! `ORDER BY`: by columns of the result, or by expressions.
//!
//! A number or a name means a column of the result, as in PostgreSQL; everything else is an
//! expression over the rows.

use super::{Binder, ident_text};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Expr, OutputColumn, SortKey};
use crate::types::Kind;
use sqlparser::ast::{self, OrderByOptions, OrderBySort, Spanned, Value};

/// An operator that types may lack.
pub(super) const EQUALITY: &str = "an equality operator";

impl Binder<'_> {
    /// Fails if values of these types cannot be compared with each other. Texts of the catalogue
    /// may do what earlier builds have taken.
    pub(super) fn compared(
        &self,
        kinds: impl IntoIterator<Item = Kind>,
        operator: &str,
    ) -> Result<()> {
        let Some(kind) = kinds.into_iter().find(|kind| is_unordered(*kind)) else {
            return Ok(());
        };
        if self.is_of_catalogue() {
            return Ok(());
        }
        let message = format!("could not identify {operator} for type {kind}");
        Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
    }

    /// Keys that are expressions over the row.
    pub(super) fn sort_keys(&mut self, order: &[ast::OrderByExpr]) -> Result<Vec<SortKey>> {
        let mut keys = Vec::with_capacity(order.len());
        for key in order {
            let expression = self.expression(&key.expr)?;
            let expression = self.settle(expression)?;
            keys.push(sort_key(expression, &key.options)?);
        }
        Ok(keys)
    }

    /// The column of a result that a key means by its number or its name. Several columns of the
    /// name have to be the same.
    pub(super) fn output_column(
        &self,
        tree: &ast::Expr,
        columns: &[OutputColumn],
        is_same: impl Fn(usize, usize) -> bool,
    ) -> Result<Option<usize>> {
        match tree {
            ast::Expr::Value(value) => match &value.value {
                Value::Number(text, _) => {
                    let at = text
                        .parse::<usize>()
                        .ok()
                        .and_then(|number| number.checked_sub(1));
                    let at = at.filter(|at| *at < columns.len()).ok_or_else(|| {
                        let message = format!("ORDER BY position {text} is not in select list");
                        let error = SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
                        self.at(value.span, error)
                    })?;
                    Ok(Some(at))
                }
                Value::SingleQuotedString(_) | Value::Null | Value::Boolean(_) => {
                    let message = "non-integer constant in ORDER BY";
                    Err(self.at(value.span, SqlError::new(SqlState::SYNTAX_ERROR, message)))
                }
                _ => Ok(None),
            },
            ast::Expr::Identifier(name) => {
                let name = ident_text(name);
                let mut named = (0..columns.len()).filter(|at| columns[*at].name == name);
                let first = named.next();
                if first.is_some_and(|first| named.any(|other| !is_same(first, other))) {
                    let message = format!("ORDER BY \"{name}\" is ambiguous");
                    let error = SqlError::new(SqlState::AMBIGUOUS_COLUMN, message);
                    return Err(self.at(tree.span(), error));
                }
                Ok(first)
            }
            _ => Ok(None),
        }
    }
}

/// Whether values of a type are neither equal nor in an order.
fn is_unordered(kind: Kind) -> bool {
    let lacks = |kind: Kind| kind == Kind::Json || kind.is_geometric();
    lacks(kind) || kind.element().is_some_and(lacks)
}

/// A key with its direction; NULLs come last, or first if it descends.
pub(super) fn sort_key(expression: Expr, options: &OrderByOptions) -> Result<SortKey> {
    let descends = match &options.sort {
        None | Some(OrderBySort::Asc) => false,
        Some(OrderBySort::Desc) => true,
        Some(OrderBySort::Using(name)) => match name.to_string().as_str() {
            "<" => false,
            ">" => true,
            other => {
                let message = format!("operator {other} is not a valid ordering operator");
                let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
                return Err(error.hint("Use < or >, or ASC or DESC."));
            }
        },
    };
    let kind = expression.kind();
    if is_unordered(kind) {
        return Err(crate::types::geometry::no_order(kind));
    }
    Ok(SortKey {
        expression,
        descends,
        nulls_first: options.nulls_first.unwrap_or(descends),
    })
}
