//! Indexes whose keys are computed: of expressions, or of a part of the rows.
//!
//! Such an index has hidden columns in the place of its keys. A condition over an expression is one
//! over the hidden column with its values, so each index sees the conditions of a scan in its own
//! way. Rows outside of its part have NULL in all hidden columns, which no comparison finds: the
//! index serves a scan whose conditions imply that of its part.

use super::expression::Expr;
use super::fold::fold_expression;
use super::implies::{implies, is_alike};
use super::node::{ComputedIndex, ComputedKey, Source};
use std::borrow::Cow;

impl ComputedIndex {
    /// An index with its keys, and the condition of its rows.
    pub fn new(name: String, mut keys: Vec<ComputedKey>, part: Option<Expr>) -> Self {
        for key in &mut keys {
            fold_expression(&mut key.value);
        }
        let mut part = part.map_or_else(Vec::new, Expr::conjuncts);
        part.iter_mut().for_each(fold_expression);
        Self { name, keys, part }
    }

    /// An expression over a row as one over the hidden columns, as far as they have its parts.
    fn sees(&self, expression: &Expr) -> Expr {
        let mut seen = expression.clone();
        let walked = seen.walk(0, &mut |part, depth| {
            if depth > 0 {
                return Ok(false);
            }
            let Some(key) = self.keys.iter().find(|key| key.value.is_same(part)) else {
                return Ok(true);
            };
            *part = Expr::Column(key.column, part.data_type());
            Ok(false)
        });
        debug_assert!(walked.is_ok(), "the visitor does not fail");
        seen
    }

    /// Whether a condition is true for all rows that the index has.
    pub(super) fn ensures(&self, condition: &Expr) -> bool {
        self.part.iter().any(|part| is_alike(part, condition))
    }

    /// Whether no row that the index has, and for which the conditions are true, has NULL in a
    /// column; none if it is no hidden one.
    fn is_never_null(&self, column: usize, conditions: &[Expr]) -> Option<bool> {
        let key = self.keys.iter().find(|key| key.column == column)?;
        let is_not_null = Expr::IsNull(Box::new(key.value.clone()), true);
        Some(key.is_never_null || implies(conditions, &is_not_null))
    }

    /// Whether a constant is in its keys or in the condition of its rows.
    pub(super) fn has_constants(&self) -> bool {
        let values = self.keys.iter().map(|key| &key.value);
        let is_constant = |part: &Expr, _| matches!(part, Expr::Constant(..));
        values.chain(&self.part).any(|one| one.any(is_constant))
    }
}

/// An index of a table whose keys are computed, by its name below.
pub(super) fn computed<'s>(source: &'s Source, index: Option<&str>) -> Option<&'s ComputedIndex> {
    let mut all = source.computed.iter();
    index.and_then(|name| all.find(|one| one.name == name))
}

/// Conditions as an index, or the primary key, sees them. None if the index may not have all rows
/// for which they are true.
pub(super) fn seen<'c>(
    source: &Source,
    index: Option<&str>,
    conditions: &'c [Expr],
) -> Option<Cow<'c, [Expr]>> {
    let Some(computed) = computed(source, index) else {
        return Some(Cow::Borrowed(conditions));
    };
    let mut part = computed.part.iter();
    let has_all = part.all(|needed| implies(conditions, needed));
    let seen = conditions.iter().map(|one| computed.sees(one));
    has_all.then(|| seen.collect())
}

/// An expression over a row as an index sees it.
pub(super) fn seen_by<'e>(
    source: &Source,
    index: Option<&str>,
    expression: &'e Expr,
) -> Cow<'e, Expr> {
    match computed(source, index) {
        Some(computed) => Cow::Owned(computed.sees(expression)),
        None => Cow::Borrowed(expression),
    }
}

/// An expression over the hidden columns of the indexes that have all rows, whose statistics tell
/// its values.
pub(super) fn seen_by_all<'e>(source: &Source, expression: &'e Expr) -> Cow<'e, Expr> {
    let whole = source.computed.iter().filter(|one| one.part.is_empty());
    whole.fold(Cow::Borrowed(expression), |seen, one| {
        Cow::Owned(one.sees(&seen))
    })
}

/// Whether no row that is wanted of an index has NULL in one of its columns.
pub(super) fn is_never_null(
    source: &Source,
    (index, column): (Option<&str>, usize),
    conditions: &[Expr],
) -> bool {
    let of_key = computed(source, index).and_then(|one| one.is_never_null(column, conditions));
    of_key.unwrap_or_else(|| {
        let value = Expr::Column(column, source.column_type(column));
        // Keys of the table below are never NULL.
        source.not_null.contains(&column)
            || source.key.contains(&column)
            || implies(conditions, &Expr::IsNull(Box::new(value), true))
    })
}
