//! Scans of tables, with the indexes of expressions and of a part of the rows that they may read.
//!
//! The expressions of such an index are bound as those of a statement, so that both are the same
//! if they mean the same. An index is left out if they cannot be bound, or if earlier builds have
//! taken expressions whose values depend on more than the row.

use super::select::row_scope;
use super::table::{BoundTable, body_of};
use super::{Binder, TextOrigin};
use crate::catalog::{Column, IndexForm, Object};
use crate::plan::{Access, ComputedIndex, ComputedKey, Expr, Node, Scan};
use crate::types::Kind;
use std::sync::Arc;

impl Binder<'_> {
    /// All rows of one table, which a statement knows by a name.
    pub(super) fn all_of(&mut self, table: &BoundTable, alias: Option<&str>) -> Node {
        let mut source = table.source.clone();
        let columns = table.body().columns.iter().enumerate();
        let not_null = columns.filter(|(_, column)| column.not_null);
        source.not_null = not_null.map(|(at, _)| at).collect();
        source.computed = self.computed_indexes(&table.object);
        let alias = alias.filter(|alias| *alias != source.name);
        Scan {
            alias: alias.map(Into::into),
            access: Access::All { backward: false },
            condition: None,
            needed: vec![true; source.width()],
            partition: table.partition.clone(),
            tests: Vec::new(),
            source,
        }
        .into()
    }

    fn computed_indexes(&mut self, object: &Object) -> Arc<[ComputedIndex]> {
        let forms = &body_of(object).forms;
        // A text that is bound for the catalogue is not run.
        let is_run = self.origin != TextOrigin::ForCatalogue && self.calls.is_none();
        let forms = forms.iter().filter(|_| is_run);
        forms
            .filter_map(|form| self.computed_index(object, form))
            .collect()
    }

    fn computed_index(&mut self, object: &Object, form: &IndexForm) -> Option<ComputedIndex> {
        let body = body_of(object);
        let index = body.indexes.iter().find(|index| index.oid == form.index)?;
        let name = index.physical.clone()?;
        let part = match &form.predicate {
            Some(text) => Some(self.value_over(object, text)?),
            None => None,
        };
        let mut keys = Vec::with_capacity(form.keys.len());
        for (&column, text) in index.columns.iter().zip(&form.keys) {
            let Some(hidden) = column.checked_sub(body.columns.len()) else {
                continue;
            };
            let value = self.value_over(object, text)?;
            let is_of_hidden = value.kind() == body.hidden.get(hidden)?.data_type.kind;
            if !is_of_hidden || !value.reads_row() {
                return None;
            }
            keys.push(ComputedKey {
                column,
                is_never_null: is_never_null(&value, &body.columns),
                value,
            });
        }
        Some(ComputedIndex::new(name, keys, part))
    }

    /// An expression over the row of a table; none unless it depends on the row only.
    fn value_over(&mut self, object: &Object, text: &str) -> Option<Expr> {
        if names_a_moment(text) {
            return None;
        }
        let columns = body_of(object).columns.iter();
        let columns = columns.map(|column| (column.name.clone(), column.data_type));
        let scope = row_scope(&object.name, columns).ok()?;
        let value = self.stored(text, scope).ok()?;
        (!value.is_mutable() && !value.has_query()).then_some(value)
    }
}

/// Whether a text may have a literal that is another day or moment each time it is read.
fn names_a_moment(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let mut words = ["now", "today", "tomorrow", "yesterday"].into_iter();
    words.any(|word| text.contains(word) && text.contains('\''))
}

/// Whether a value of a row is never NULL, as far as its form tells.
fn is_never_null(value: &Expr, columns: &[Column]) -> bool {
    match value {
        Expr::Constant(value, _) => !value.is_null(),
        Expr::Column(at, _) => columns.get(*at).is_some_and(|column| column.not_null),
        Expr::Call(call) => {
            let is_arithmetic = matches!(call.function.name, "+" | "-" | "*" | "/" | "%");
            let mut operands = call.arguments.iter();
            let is_number = |one: &Expr| is_number(one.kind()) && is_never_null(one, columns);
            call.is_operator && is_arithmetic && operands.all(is_number)
        }
        Expr::Cast(operand, to, _) => {
            is_number(to.kind) && is_number(operand.kind()) && is_never_null(operand, columns)
        }
        _ => false,
    }
}

fn is_number(kind: Kind) -> bool {
    use Kind::{Float4, Float8, Int2, Int4, Int8, Numeric};
    matches!(kind, Int2 | Int4 | Int8 | Float4 | Float8 | Numeric)
}
