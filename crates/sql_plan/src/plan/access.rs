//! The way to a table's rows: the index that the conditions of a scan make the most of.
//!
//! A condition helps if it compares a column with a value that does not depend on the row: for
//! equality, with the elements of an array, or as an end of a range. Equality takes the condition's
//! place; ranges are tested again on the rows, because long texts and NULLs are not exactly where
//! the keys say.

use super::expression::{Expr, Quantified};
use super::node::{Access, Bound, KeyRange, Scan, Source, System};
use crate::types::cast::CastContext;
use crate::types::{Kind, Type, storage};

/// An index, or the primary key.
struct Candidate {
    index: Option<String>,
    columns: Vec<usize>,
    is_unique: bool,
}

/// A way, its worth, and the conditions that it ensures.
struct Choice {
    access: Access,
    worth: u32,
    ensured: Vec<usize>,
}

/// Lets a scan use an index for its conditions; the rest of them stay.
pub(super) fn choose(scan: &mut Scan, conditions: Vec<Expr>) {
    let mut best: Option<Choice> = None;
    for candidate in candidates(&scan.source) {
        let choices = [
            by_range(&scan.source, &candidate, &conditions),
            by_elements(&scan.source, &candidate, &conditions),
            by_rows(&scan.source, &candidate, &conditions),
        ];
        for choice in choices.into_iter().flatten() {
            if best.as_ref().is_none_or(|best| choice.worth > best.worth) {
                best = Some(choice);
            }
        }
    }
    let mut ensured = Vec::new();
    if let Some(best) = best {
        scan.access = best.access;
        ensured = best.ensured;
    }
    let rest = conditions.into_iter().enumerate();
    let rest = rest
        .filter(|(at, _)| !ensured.contains(at))
        .map(|(_, condition)| condition);
    let rest: Vec<Expr> = scan.condition.take().into_iter().chain(rest).collect();
    scan.condition = (!rest.is_empty()).then(|| Expr::all(rest));
}

/// Lets a relation of the system look up rows by the first condition of equality that it can.
pub(super) fn choose_key(system: &mut System, mut conditions: Vec<Expr>) {
    let columns = &system.columns;
    let kind_of = |at: usize| {
        columns
            .get(at)
            .map_or(Kind::Unknown, |(_, kind)| *kind)
            .plain()
    };
    let found = conditions.iter().enumerate().find_map(|(at, condition)| {
        match comparison(&kind_of, condition)? {
            (column, "=", value) => Some((at, (column, value.clone()))),
            _ => None,
        }
    });
    if let Some((at, key)) = found {
        conditions.remove(at);
        system.key = Some(key);
    }
    let rest: Vec<Expr> = system
        .condition
        .take()
        .into_iter()
        .chain(conditions)
        .collect();
    system.condition = (!rest.is_empty()).then(|| Expr::all(rest));
}

/// Whether the scan finds at most one row.
pub(super) fn is_unique(scan: &Scan) -> bool {
    match &scan.access {
        Access::Range(range) => candidates(&scan.source).iter().any(|candidate| {
            candidate.index == range.index
                && candidate.is_unique
                && range.prefix.len() == candidate.columns.len()
        }),
        _ => false,
    }
}

/// Columns of the primary key and of each index, and whether they are unique.
pub(super) fn keys_of(source: &Source) -> Vec<(Vec<usize>, bool)> {
    let all = candidates(source).into_iter();
    all.map(|key| (key.columns, key.is_unique)).collect()
}

fn candidates(source: &Source) -> Vec<Candidate> {
    let definition = source.table.definition();
    let primary = Candidate {
        index: None,
        columns: source.key.to_vec(),
        is_unique: true,
    };
    let others = definition.indexes.into_iter().map(|index| Candidate {
        index: Some(index.name),
        columns: index.columns,
        is_unique: index.unique,
    });
    std::iter::once(primary).chain(others).collect()
}

/// The column that an expression is, if converting it changes no value.
pub(super) fn column_of(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Column(at, _) => Some(*at),
        // `COLLATE "C"`, which all keys have.
        Expr::Cast(inner, target, CastContext::Explicit) if inner.data_type() == *target => {
            column_of(inner)
        }
        Expr::Cast(inner, target, _) if target.modifier < 0 => match (&**inner, target.kind) {
            (
                Expr::Column(
                    at,
                    Type {
                        kind: Kind::Varchar | Kind::Name,
                        ..
                    },
                ),
                Kind::Text,
            ) => Some(*at),
            _ => None,
        },
        _ => None,
    }
}

/// Whether values of a kind are values of a column's keys.
pub(super) fn fits(column: Type, value: Kind) -> bool {
    use Kind::{Int2, Int4, Int8, Name, Text, Varchar};
    let is_integer = |kind| matches!(kind, Int2 | Int4 | Int8);
    let is_text = |kind| matches!(kind, Text | Varchar | Name);
    column.kind == value
        || (is_integer(column.kind) && is_integer(value))
        || (is_text(column.kind) && is_text(value))
}

/// A comparison of a column with a value: column, operator seen from it, value.
pub(super) fn comparison<'e>(
    type_of: &dyn Fn(usize) -> Type,
    condition: &'e Expr,
) -> Option<(usize, &'static str, &'e Expr)> {
    let Expr::Call(call) = condition else {
        return None;
    };
    let [left, right] = call.arguments.as_slice() else {
        return None;
    };
    if !call.is_operator {
        return None;
    }
    let (column, name, value) = match (column_of(left), column_of(right)) {
        (Some(at), _) if !right.reads_row() => (at, call.function.name, right),
        (_, Some(at)) if !left.reads_row() => (at, mirrored(call.function.name)?, left),
        _ => return None,
    };
    let is_fixed = !Expr::has_volatile(value);
    (is_fixed && fits(type_of(column), value.kind())).then_some((column, name, value))
}

/// The operator with its sides exchanged.
fn mirrored(name: &str) -> Option<&'static str> {
    Some(match name {
        "=" => "=",
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        _ => return None,
    })
}

/// A value for the column, by a condition of equality.
fn equal_to(source: &Source, column: usize, conditions: &[Expr]) -> Option<(usize, Expr)> {
    conditions.iter().enumerate().find_map(|(at, condition)| {
        match comparison(&|at| source.column_type(at), condition)? {
            (found, "=", value) if found == column => Some((at, value.clone())),
            _ => None,
        }
    })
}

/// Equality of the first columns, and a range of the next one.
fn by_range(source: &Source, candidate: &Candidate, conditions: &[Expr]) -> Option<Choice> {
    let (mut prefix, mut ensured) = (Vec::new(), Vec::new());
    for &column in &candidate.columns {
        match equal_to(source, column, conditions) {
            Some((at, value)) => {
                prefix.push(value);
                ensured.push(at);
            }
            None => break,
        }
    }
    let (mut low, mut high) = (None, None);
    if let Some(&next) = candidate.columns.get(prefix.len())
        && is_ordered(source.column_type(next))
    {
        for condition in conditions {
            let Some((column, name, value)) = comparison(&|at| source.column_type(at), condition)
            else {
                continue;
            };
            if column != next {
                continue;
            }
            let bound = Bound {
                value: value.clone(),
                is_included: name.ends_with('='),
            };
            match name {
                ">" | ">=" => low = low.or(Some(bound)),
                "<" | "<=" => high = high.or(Some(bound)),
                _ => {}
            }
        }
    }
    let ends = u32::from(low.is_some()) + u32::from(high.is_some());
    if prefix.is_empty() && ends == 0 {
        return None;
    }
    let is_one = candidate.is_unique && prefix.len() == candidate.columns.len();
    let primary = u32::from(candidate.index.is_none());
    let worth = if is_one {
        1000
    } else {
        8 * prefix.len() as u32 + 2 * ends
    } + primary;
    Some(Choice {
        access: Access::Range(KeyRange {
            index: candidate.index.clone(),
            prefix,
            low,
            high,
            backward: false,
        }),
        worth,
        ensured,
    })
}

/// Whether keys of a column are in the order of its values.
pub(super) fn is_ordered(data_type: Type) -> bool {
    storage::has_exact_keys(data_type) && data_type.kind != Kind::Numeric
}

/// Whether a condition is true exactly where a column is an element of the condition's array.
pub(super) fn is_element(column: usize, test: &Quantified, source: &Source) -> bool {
    let is_equality = match &test.condition {
        Expr::Call(call) => {
            call.is_equality()
                && matches!(call.arguments[..], [Expr::Column(0, _), Expr::Column(1, _)])
        }
        _ => false,
    };
    let element = test.array.kind().element();
    !test.is_all
        && is_equality
        && column_of(&test.left) == Some(column)
        && element.is_some_and(|element| fits(source.column_type(column), element))
}

/// The first column is an element of an array.
fn by_elements(source: &Source, candidate: &Candidate, conditions: &[Expr]) -> Option<Choice> {
    let &first = candidate.columns.first()?;
    conditions.iter().enumerate().find_map(|(at, condition)| {
        let Expr::Quantified(test) = condition else {
            return None;
        };
        let is_it = is_element(first, test, source)
            && !test.array.reads_row()
            && !Expr::has_volatile(&test.array);
        is_it.then(|| Choice {
            access: Access::Elements {
                index: candidate.index.clone(),
                array: test.array.clone(),
            },
            worth: 7,
            ensured: vec![at],
        })
    })
}

/// The first columns are those of one of several rows.
fn by_rows(source: &Source, candidate: &Candidate, conditions: &[Expr]) -> Option<Choice> {
    conditions.iter().enumerate().find_map(|(at, condition)| {
        let Expr::Or(rows) = condition else {
            return None;
        };
        let mut keys = Vec::with_capacity(rows.len());
        let mut width = None;
        for row in rows {
            let parts = row.clone().conjuncts();
            let mut key = Vec::new();
            for &column in &candidate.columns {
                match equal_to(source, column, &parts) {
                    Some((_, value)) => key.push(value),
                    None => break,
                }
            }
            // All of the row must be in the key, so that the key ensures it.
            if key.is_empty()
                || key.len() != parts.len()
                || *width.get_or_insert(key.len()) != key.len()
            {
                return None;
            }
            keys.push(key);
        }
        let worth = 8 * width? as u32 - 1;
        Some(Choice {
            access: Access::Keys {
                index: candidate.index.clone(),
                keys,
            },
            worth,
            ensured: vec![at],
        })
    })
}
