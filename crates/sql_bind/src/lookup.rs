//! Columns by their names.
//!
//! A name without a table is looked for in the innermost query first, then in those around it.

use super::Binder;
use super::function::row_version;
use super::scope::{Scope, ScopeColumn};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Expr;
use sqlparser::tokenizer::Span;

impl Binder<'_> {
    /// A column by its name, of this query or of one around it.
    pub(super) fn column(&mut self, table: Option<&str>, name: &str, span: Span) -> Result<Expr> {
        match self.find_column(table, name) {
            Ok(Some((column, level))) => {
                self.note_column(span, &column, level);
                let mut expression = column.expression;
                for _ in 0..level {
                    expression = expression.into_outer();
                }
                Ok(expression)
            }
            Ok(None) => Err(self.at(span, self.no_column(table, name))),
            Err(error) => Err(self.at(span, error)),
        }
    }

    /// A column of a table that is named with its schema, of this query or of one around it.
    pub(super) fn column_of(
        &mut self,
        (schema, table): (&str, &str),
        name: &str,
        span: Span,
    ) -> Result<Expr> {
        let mut scopes = self.scopes.iter().rev().enumerate();
        let found = scopes.find_map(|(level, scope)| {
            let alias = scope.alias_of(schema, table)?;
            Some((level, scope, alias))
        });
        let Some((level, scope, table)) = found else {
            return Err(self.at(span, self.no_table(table)));
        };
        let column = match scope.find(Some(table), name)? {
            None => system_column(scope, Some(table), name)?,
            found => found.cloned(),
        };
        let Some(column) = column else {
            return Err(self.at(span, self.no_column(Some(table), name)));
        };
        self.note_column(span, &column, level);
        let mut expression = column.expression;
        for _ in 0..level {
            expression = expression.into_outer();
        }
        Ok(expression)
    }

    /// The error for a table that is not there, or not by the name of its schema.
    pub(super) fn no_table(&self, table: &str) -> SqlError {
        if !self.knows_table(table) {
            let message = format!("missing FROM-clause entry for table \"{table}\"");
            return SqlError::new(SqlState::UNDEFINED_TABLE, message);
        }
        let message = format!("invalid reference to FROM-clause entry for table \"{table}\"");
        let hint = format!(
            "There is an entry for table \"{table}\", but it cannot be referenced from this part of the query."
        );
        SqlError::new(SqlState::UNDEFINED_TABLE, message).hint(hint)
    }

    /// A column by its name, and the number of scopes that it is out.
    pub(super) fn find_column(
        &self,
        table: Option<&str>,
        name: &str,
    ) -> Result<Option<(ScopeColumn, usize)>> {
        for (level, scope) in self.scopes.iter().rev().enumerate() {
            if let Some(table) = table.filter(|table| scope.is_common(table)) {
                return Err(ambiguous(table));
            }
            if let Some(column) = scope.find(table, name)? {
                return Ok(Some((column.clone(), level)));
            }
            if let Some(column) = system_column(scope, table, name)? {
                return Ok(Some((column, level)));
            }
        }
        Ok(None)
    }

    /// Whether a table of this query, or of one around it, has this name.
    pub(super) fn knows_table(&self, alias: &str) -> bool {
        let mut scopes = self.scopes.iter();
        scopes.any(|scope| scope.tables.iter().any(|table| table.alias == alias))
    }

    fn no_column(&self, table: Option<&str>, name: &str) -> SqlError {
        match table {
            Some(table) if !self.knows_table(table) => {
                let message = format!("missing FROM-clause entry for table \"{table}\"");
                SqlError::new(SqlState::UNDEFINED_TABLE, message)
            }
            Some(table) => {
                let message = format!("column {table}.{name} does not exist");
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            }
            None => {
                let message = format!("column \"{name}\" does not exist");
                let error = SqlError::new(SqlState::UNDEFINED_COLUMN, message);
                match self.like(name) {
                    Some(hint) => error.hint(hint),
                    None => error,
                }
            }
        }
    }

    /// A hint at a column whose name differs in a letter or two.
    fn like(&self, name: &str) -> Option<String> {
        let scope = self.scopes.last()?;
        let close = |column: &&ScopeColumn| {
            let column = &column.name;
            let limit = 1 + name.len() / 4;
            column.len().abs_diff(name.len()) <= limit && differences(column, name) <= limit
        };
        let column = scope.columns.iter().find(close)?;
        let table = column.table.as_deref()?;
        Some(format!(
            "Perhaps you meant to reference the column \"{table}.{}\".",
            column.name
        ))
    }
}

/// The error of a name that tables of several schemas have.
pub(super) fn ambiguous(table: &str) -> SqlError {
    let message = format!("table reference \"{table}\" is ambiguous");
    SqlError::new(SqlState::AMBIGUOUS_ALIAS, message)
}

/// Letters by which two names differ.
fn differences(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, other) in other.iter().enumerate() {
            let same = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = same.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

/// A column that a table has beside its own.
fn system_column(scope: &Scope, table: Option<&str>, name: &str) -> Result<Option<ScopeColumn>> {
    let mut found = scope.system_column(table, name)?;
    if let (Some(column), "xmin") = (&mut found, name) {
        column.expression = row_version(column.expression.clone())?;
    }
    Ok(found)
}
