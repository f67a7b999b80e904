//! Fields of rows, and columns of tables that are named with these.
//!
//! Without brackets a name before a field is a table, or an argument of a function. `row.name` is a
//! call of a function where the row has no such field.

use super::{Binder, ident_text};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Expr;
use crate::types::{Kind, RecordShape};
use sqlparser::ast::{AccessExpr, Expr as Tree, Ident, Subscript};
use sqlparser::tokenizer::Span;
use std::sync::Arc;

/// A row, and its fields if it is of no type of the catalogue.
type FoundRow = (Expr, Option<Arc<RecordShape>>);

impl Binder<'_> {
    /// `table.column`, `schema.table.column`, or a field of a column that is a row.
    pub(super) fn compound(&mut self, names: &[Ident]) -> Result<Expr> {
        let texts: Vec<String> = names.iter().map(ident_text).collect();
        let span = Span::union_iter(names.iter().map(|name| name.span));
        match texts.as_slice() {
            // There is one database, whatever its name.
            [schema, table, column] | [_, schema, table, column] => {
                self.column_of((schema, table), column, span)
            }
            [table, column] => {
                if !self.knows_table(table)
                    && let Some(row) = self.row_before_field(table, names[0].span)
                {
                    let (row, fields) = row?;
                    return self.field(row, fields, column);
                }
                let found = self.column(Some(table), column, span);
                self.column_or_function(table, column, found)
            }
            _ => {
                let message = "improper qualified name (too many dotted names)";
                Err(self.at(span, SqlError::new(SqlState::SYNTAX_ERROR, message)))
            }
        }
    }

    /// A row whose field needs no brackets around its name: an argument of a function.
    fn row_before_field(&mut self, name: &str, span: Span) -> Option<Result<FoundRow>> {
        if let Some(argument) = self.argument(name) {
            return Some(Ok((argument, None)));
        }
        // Earlier builds have taken columns too.
        let (found, _) = match self.is_of_catalogue() {
            true => self.find_column(None, name).ok()??,
            false => return None,
        };
        let row = self.column(None, name, span);
        Some(row.map(|row| (row, found.fields)))
    }

    /// A field of a row by its name; `known` are the fields of a row of no type of the catalogue.
    fn field(&mut self, row: Expr, known: Option<Arc<RecordShape>>, name: &str) -> Result<Expr> {
        let shape = match row.kind() {
            Kind::Composite(oid) => self.context.names.row_shape(oid),
            _ => row.fields().or(known),
        };
        let at = shape.as_ref().and_then(|shape| {
            let mut names = shape.names.iter();
            names.position(|field| &**field == name)
        });
        match (shape, at) {
            (Some(shape), Some(at)) => Ok(Expr::Field(Box::new(row), at, shape.types[at])),
            (Some(_), None) => {
                let message = format!("could not identify column \"{name}\" in record data type");
                Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
            }
            (None, _) => {
                let kind = self.type_name(row.kind());
                let message = format!(
                    "column notation .{name} applied to type {kind}, which is not a composite type"
                );
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
        }
    }

    /// The fields of a column that is a row of no type of the catalogue.
    fn fields_of(&self, tree: &Tree) -> Option<Arc<RecordShape>> {
        let (table, name) = match tree {
            Tree::Nested(inner) => return self.fields_of(inner),
            Tree::Identifier(name) => (None, ident_text(name)),
            Tree::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., table, name] => (Some(ident_text(table)), ident_text(name)),
                _ => return None,
            },
            _ => return None,
        };
        let (column, _) = self.find_column(table.as_deref(), &name).ok()??;
        column.fields
    }

    /// Subscripts, slices and fields.
    pub(super) fn access(&mut self, root: &Tree, chain: &[AccessExpr]) -> Result<Expr> {
        // `table.column[1]` comes as a field of the row `table`; a table comes before a column of
        // its name.
        let (mut value, chain) = match (root, chain) {
            (Tree::Identifier(table), [AccessExpr::Dot(Tree::Identifier(column)), rest @ ..])
                if self.knows_table(&ident_text(table)) =>
            {
                (self.compound(&[table.clone(), column.clone()])?, rest)
            }
            _ => (self.expression(root)?, chain),
        };
        let mut known = self.fields_of(root);
        let mut subscripts: Vec<&Subscript> = Vec::new();
        for access in chain {
            match access {
                AccessExpr::Subscript(subscript) => subscripts.push(subscript),
                AccessExpr::Dot(Tree::Identifier(name)) => {
                    value = self.subscripted(value, &std::mem::take(&mut subscripts))?;
                    let (name, row) = (ident_text(name), value.clone());
                    value = match self.field(value, known.take(), &name) {
                        Err(error) if error.state == SqlState::UNDEFINED_COLUMN => {
                            let called = self.function_of_row(row, &name)?;
                            called.ok_or(error)?
                        }
                        found => found?,
                    };
                }
                AccessExpr::Dot(other) => {
                    let instead = "Name the field.";
                    return Err(SqlError::unsupported(format!("the field {other}"), instead));
                }
            }
        }
        self.subscripted(value, &subscripts)
    }
}
