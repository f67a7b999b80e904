//! The unique index that `ON CONFLICT (keys) WHERE condition` means.
//!
//! Its keys are those that are written, in any order, and its condition, if it has one, follows
//! from the one that is written.

use super::scope::Clause;
use super::select::row_scope;
use super::table::BoundTable;
use super::{Binder, TextOrigin, ident_text};
use crate::catalog::{Index, IndexForm};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Expr, Target, UniqueKey, implies};
use sql_parse::{mark_of, parse_expression};
use sqlparser::ast;

impl Binder<'_> {
    /// The unique key with these columns and expressions.
    pub(super) fn inferred_key(
        &mut self,
        table: &BoundTable,
        target: &Target,
        (names, predicate): (&[ast::Ident], Option<&ast::Expr>),
    ) -> Result<UniqueKey> {
        let mut wanted: Vec<Expr> = Vec::with_capacity(names.len());
        for name in names {
            let key = match mark_of(name) {
                Some(text) => parse_expression(text)?,
                None => {
                    let text = ident_text(name);
                    let at = table.place_of(&text)?.ok_or_else(|| {
                        let message = format!("column \"{text}\" does not exist");
                        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
                    })?;
                    let column = &table.body().columns[at].name;
                    ast::Expr::Identifier(ast::Ident::with_quote('"', column))
                }
            };
            let key = self.over_row(table, &key)?;
            if !wanted.iter().any(|known| known.is_same(&key)) {
                wanted.push(key);
            }
        }
        let condition = predicate.map(|tree| self.over_row(table, tree));
        let condition = condition
            .transpose()?
            .map_or_else(Vec::new, Expr::conjuncts);
        let body = table.body();
        for index in body.indexes.iter().filter(|index| index.is_unique) {
            let form = body.form(index.oid).cloned();
            let keys = self.keys_of(table, index, form.as_ref())?;
            let has = |one: &[Expr], key: &Expr| one.iter().any(|own| own.is_same(key));
            let is_same = keys.iter().all(|key| has(&wanted, key))
                && wanted.iter().all(|key| has(&keys, key));
            let rows = form.as_ref().and_then(|form| form.predicate.as_deref());
            let implied = match rows {
                None => true,
                Some(text) => {
                    let rows = self.over_row(table, &parse_expression(text)?)?;
                    implies(&condition, &rows)
                }
            };
            let known = target.keys.iter().find(|(name, _)| *name == index.name);
            if let (true, true, Some((_, key))) = (is_same, implied, known) {
                return Ok(key.clone());
            }
        }
        let message =
            "there is no unique or exclusion constraint matching the ON CONFLICT specification";
        Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message))
    }

    /// The keys of an index as expressions over the row.
    fn keys_of(
        &mut self,
        table: &BoundTable,
        index: &Index,
        form: Option<&IndexForm>,
    ) -> Result<Vec<Expr>> {
        let Some(form) = form else {
            let columns = &table.body().columns;
            let keys = index.columns.iter();
            return Ok(keys
                .map(|&at| Expr::Column(at, columns[at].data_type))
                .collect());
        };
        let keys = form.keys.iter();
        let origin = std::mem::replace(&mut self.origin, TextOrigin::Catalogue);
        let keys = keys.map(|key| self.over_row(table, &parse_expression(key)?));
        let keys = keys.collect();
        self.origin = origin;
        keys
    }

    /// An expression over the row of a table.
    fn over_row(&mut self, table: &BoundTable, tree: &ast::Expr) -> Result<Expr> {
        let columns = table.body().columns.iter();
        let columns = columns.map(|column| (column.name.clone(), column.data_type));
        let scope = row_scope(&table.object.name, columns)?;
        self.expression_in(scope, Clause::Stored, tree).0
    }
}
