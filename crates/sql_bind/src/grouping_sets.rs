//! `GROUPING SETS`, `ROLLUP` and `CUBE`.
//!
//! Each set of keys is an aggregate of its own over the same rows, which are computed once; the
//! results follow one another, with NULL for the keys that a set does not have. `GROUPING` is a
//! constant of each set.

use super::Binder;
use super::select::Item;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{
    Aggregate, AggregateCall, Expr, Node, Pending, Project, SetKind, SetOperation, Shared,
};
use crate::types::{Datum, Kind, Type};
use sql_parse::Copied;
use sqlparser::ast;
use std::sync::Arc;

/// Sets of positions of keys.
type Sets = Vec<Vec<usize>>;

/// Most sets of a query.
const SETS_MAX: usize = 4096;

/// The keys of a query, and the sets of them by which its rows are grouped.
pub(super) struct Groups {
    pub(super) keys: Vec<Expr>,
    /// None if all keys make the only set.
    pub(super) sets: Option<Sets>,
}

impl Groups {
    /// Leaves out sets of the same keys.
    pub(super) fn make_distinct(&mut self) {
        let mut known: Sets = Vec::new();
        let Some(sets) = &mut self.sets else { return };
        sets.retain(|set| {
            let mut keys = set.clone();
            keys.sort_unstable();
            let is_new = !known.contains(&keys);
            known.push(keys);
            is_new
        });
    }
}

impl Binder<'_> {
    /// The keys and sets of `GROUP BY`.
    pub(super) fn grouping_sets(&mut self, trees: &[ast::Expr], items: &[Item]) -> Result<Groups> {
        let mut keys = Vec::new();
        let mut sets: Sets = vec![Vec::new()];
        let mut has_sets = false;
        for tree in trees {
            has_sets |= elements_of(tree).is_some();
            let factor = self.sets_of(tree, items, &mut keys)?;
            if sets.len().saturating_mul(factor.len()) > SETS_MAX {
                let message = format!("too many grouping sets present (maximum {SETS_MAX})");
                return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
            }
            let pairs = sets.iter().flat_map(|one| {
                factor.iter().map(move |other| {
                    let mut both = one.clone();
                    both.extend(other.iter().filter(|key| !one.contains(key)));
                    both
                })
            });
            sets = pairs.collect();
        }
        Ok(Groups {
            keys,
            sets: has_sets.then_some(sets),
        })
    }

    /// The sets of one element of `GROUP BY`.
    fn sets_of(&mut self, tree: &ast::Expr, items: &[Item], keys: &mut Vec<Expr>) -> Result<Sets> {
        let Some((kind, elements)) = elements_of(tree) else {
            let parts = match tree {
                ast::Expr::Tuple(parts) => parts.as_slice(),
                other => std::slice::from_ref(other),
            };
            return Ok(vec![self.key_set(parts, items, keys)?]);
        };
        if kind == SetsKind::Sets {
            let mut sets = Vec::new();
            for element in elements {
                match element.as_slice() {
                    [only] if elements_of(only).is_some() => {
                        sets.extend(self.sets_of(only, items, keys)?);
                    }
                    parts => sets.push(self.key_set(parts, items, keys)?),
                }
            }
            return Ok(sets);
        }
        let mut parts = Vec::with_capacity(elements.len());
        for element in elements {
            parts.push(self.key_set(&element, items, keys)?);
        }
        if kind == SetsKind::Rollup {
            let prefixes = (0..=parts.len()).rev().map(|count| parts[..count].concat());
            return Ok(prefixes.collect());
        }
        if parts.len() > 12 {
            let message = "CUBE is limited to 12 elements";
            return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message));
        }
        let subsets = (0..1_usize << parts.len()).rev().map(|chosen| {
            let chosen = parts
                .iter()
                .enumerate()
                .filter(|(at, _)| chosen >> (parts.len() - 1 - at) & 1 == 1);
            chosen.flat_map(|(_, set)| set.iter().copied()).collect()
        });
        Ok(subsets.collect())
    }

    /// Positions of keys, which are added if they are new.
    fn key_set(
        &mut self,
        parts: &[ast::Expr],
        items: &[Item],
        keys: &mut Vec<Expr>,
    ) -> Result<Vec<usize>> {
        let mut set = Vec::with_capacity(parts.len());
        for part in parts {
            let key = self.group(part, items)?;
            let known = keys.iter().position(|known| known.is_same(&key));
            set.push(known.unwrap_or_else(|| {
                keys.push(key);
                keys.len() - 1
            }));
        }
        Ok(set)
    }

    /// `GROUPING(keys)`: a bit for each key, set where the row's set does not have it.
    pub(super) fn grouping(&mut self, keys: Vec<Expr>) -> Result<Expr> {
        if keys.len() > 31 {
            let message = "GROUPING must have fewer than 32 arguments";
            return Err(SqlError::new(SqlState::TOO_MANY_ARGUMENTS, message));
        }
        let groupings = &mut self.scope().groupings;
        groupings.push(keys);
        let at = groupings.len() - 1;
        Ok(Expr::Pending(Pending::Grouping, at, Kind::Int4.plain()))
    }

    /// The rows of all sets: keys, results of the calls, results of `GROUPING`.
    pub(super) fn grouped_by_sets(
        &mut self,
        input: Node,
        mut groups: Groups,
        calls: &[AggregateCall],
        groupings: &[Vec<Expr>],
    ) -> Result<Node> {
        let all = vec![(0..groups.keys.len()).collect()];
        let sets = groups.sets.take().unwrap_or(all);
        let mut masks = Vec::with_capacity(groupings.len());
        for keys in groupings {
            let places = keys.iter().map(|key| {
                let mut known = groups.keys.iter();
                known.position(|known| known.is_same(key)).ok_or_else(|| {
                    let message = "arguments to GROUPING must be grouping expressions of the associated query level";
                    SqlError::new(SqlState::GROUPING_ERROR, message)
                })
            });
            masks.push(places.collect::<Result<Vec<_>>>()?);
        }
        let input = self.with_sets(input, groups.keys.iter_mut().collect())?;
        let input = if sets.len() > 1 {
            self.shared_input(input)?
        } else {
            input
        };
        let mut parts = sets
            .iter()
            .map(|set| one_set(&input, &groups, set, calls, &masks));
        let first = parts.next().unwrap_or_else(|| input.clone());
        Ok(parts.fold(first, |left, right| {
            SetOperation {
                kind: SetKind::Union,
                all: true,
                left,
                right,
                order: None,
            }
            .into()
        }))
    }

    /// Rows that several parts of a plan read, computed once unless they depend on outer rows.
    fn shared_input(&mut self, mut node: Node) -> Result<Node> {
        let mut reads_outer = false;
        node.walk(0, &mut |part, depth| {
            reads_outer |= matches!(part, Expr::Outer(level, ..) if *level > depth);
            Ok(!reads_outer)
        })?;
        if reads_outer {
            return Ok(node);
        }
        let number = self.shared_count;
        self.shared_count += 1;
        let width = node.width();
        Ok(Node::Shared(Arc::new(Shared {
            number,
            node,
            width,
            is_kept: false,
            rows: None,
        })))
    }
}

/// The groups of one set, in the row that all sets have.
fn one_set(
    input: &Node,
    groups: &Groups,
    set: &[usize],
    calls: &[AggregateCall],
    masks: &[Vec<usize>],
) -> Node {
    let keys: Vec<Expr> = set.iter().map(|&at| groups.keys[at].clone()).collect();
    let count = keys.len();
    let all_keys = groups.keys.iter().enumerate().map(|(at, key)| {
        let data_type: Type = key.data_type();
        match set.iter().position(|own| *own == at) {
            Some(place) => Expr::Column(place, data_type),
            None => Expr::null(data_type),
        }
    });
    let results = calls.iter().enumerate();
    let results = results.map(|(at, call)| Expr::Column(count + at, call.data_type));
    let masks = masks.iter().map(|keys| {
        let bits = keys
            .iter()
            .fold(0_i32, |bits, key| bits << 1 | i32::from(!set.contains(key)));
        Expr::Constant(Datum::Int4(bits), Kind::Int4.plain())
    });
    let expressions = all_keys.chain(results).chain(masks).collect();
    let aggregate = Aggregate {
        input: input.clone(),
        keys,
        calls: calls.to_vec(),
        is_ordered: false,
    };
    Project {
        input: aggregate.into(),
        expressions,
        has_sets: false,
    }
    .into()
}

/// The kind of an element with several sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SetsKind {
    Sets,
    Rollup,
    Cube,
}

/// The parts of an element of `GROUP BY` that means several sets. Inside of another one the parser
/// takes it for a call.
fn elements_of(tree: &ast::Expr) -> Option<(SetsKind, Vec<Vec<ast::Expr>>)> {
    match tree {
        ast::Expr::GroupingSets(elements) => Some((SetsKind::Sets, elements.copied())),
        ast::Expr::Rollup(elements) => Some((SetsKind::Rollup, elements.copied())),
        ast::Expr::Cube(elements) => Some((SetsKind::Cube, elements.copied())),
        ast::Expr::Function(function) => {
            let kind = match function.name.to_string().to_lowercase().as_str() {
                "rollup" => SetsKind::Rollup,
                "cube" => SetsKind::Cube,
                _ => return None,
            };
            let ast::FunctionArguments::List(list) = &function.args else {
                return None;
            };
            let elements = list.args.iter().map(|argument| match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(tree)) => Some(match tree {
                    ast::Expr::Tuple(parts) => parts.copied(),
                    ast::Expr::Nested(inner) => vec![inner.as_ref().copied()],
                    other => vec![other.copied()],
                }),
                _ => None,
            });
            Some((kind, elements.collect::<Option<_>>()?))
        }
        _ => None,
    }
}
