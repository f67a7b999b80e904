//! `WITHIN GROUP`: aggregates over the values of a group in an order.
//!
//! Percentiles and the mode are aggregates whose arguments are the direct ones, then the key of the
//! order. Ranks of a row that is not there count the rows that come before it, so they are made of
//! counts with a filter.

use super::Binder;
use super::scope::Clause;
use crate::callable::functions;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{AggregateCall, AggregateFunction, Expr, Pending, SortKey};
use crate::types::function::Body;
use crate::types::{Datum, Kind, Type};
use sqlparser::ast;

/// Aggregates that need an order.
pub(super) const ORDERED_SETS: &[&str] = &["percentile_cont", "percentile_disc", "mode"];
/// Aggregates of a row that is not there.
const HYPOTHETICAL: &[&str] = &["rank", "dense_rank", "percent_rank", "cume_dist"];

impl Binder<'_> {
    /// A call with `WITHIN GROUP`.
    pub(super) fn ordered_set(&mut self, name: &str, tree: &ast::Function) -> Result<Expr> {
        let is_hypothetical = HYPOTHETICAL.contains(&name);
        if tree.over.is_some() {
            let message = format!("OVER is not supported for ordered-set aggregate {name}");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let outer = self.scope().clause;
        self.check_place(name, false, outer)?;
        self.scope().clause = Clause::Aggregate;
        let bound = self.ordered_parts(name, tree);
        self.scope().clause = outer;
        let (direct, order, filter) = bound?;
        if !is_hypothetical && !ORDERED_SETS.contains(&name) {
            let keys = order.iter().map(|key| &key.expression);
            let kinds: Vec<Kind> = direct.iter().chain(keys).map(Expr::kind).collect();
            functions().resolve(name, &kinds, false)?;
            return Err(not_ordered(name));
        }
        if is_hypothetical {
            return self.hypothetical(name, direct, order, filter.as_ref());
        }
        let [key] = <[SortKey; 1]>::try_from(order).map_err(|_| not_ordered(name))?;
        let mut values = direct;
        values.push(key.expression.clone());
        let kinds: Vec<Kind> = values.iter().map(Expr::kind).collect();
        let resolved = functions().resolve(name, &kinds, false)?;
        let values = self.fitted(values, &resolved)?;
        let expression = values.last().cloned().unwrap_or(key.expression);
        let Body::Aggregate(aggregate) = resolved.function.body else {
            return Err(not_ordered(name));
        };
        let argument_types = values.iter().map(Expr::data_type).collect();
        Ok(self.pending(AggregateCall {
            function: AggregateFunction {
                function: resolved.function,
                aggregate,
                argument_types,
            },
            arguments: values,
            is_distinct: false,
            order: vec![SortKey { expression, ..key }],
            filter,
            data_type: resolved.result.plain(),
        }))
    }

    /// Direct arguments, keys of the order, and the filter of a call.
    fn ordered_parts(
        &mut self,
        name: &str,
        tree: &ast::Function,
    ) -> Result<(Vec<Expr>, Vec<SortKey>, Option<Expr>)> {
        let arguments = self.arguments(name, tree)?;
        if arguments.is_distinct {
            let message = "cannot use DISTINCT with WITHIN GROUP";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        if !arguments.order.is_empty() {
            let message = "cannot use multiple ORDER BY clauses with WITHIN GROUP";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let order = self.sort_keys(&tree.within_group)?;
        let filter = tree.filter.as_ref();
        let filter = filter.map(|filter| self.condition(filter, "FILTER"));
        Ok((arguments.values, order, filter.transpose()?))
    }

    /// Keeps an aggregate for the groups of the query.
    fn pending(&mut self, call: AggregateCall) -> Expr {
        let data_type = call.data_type;
        let aggregates = &mut self.scope().aggregates;
        aggregates.push(call);
        Expr::Pending(Pending::Aggregate, aggregates.len() - 1, data_type)
    }

    /// The rank of a row that is not there.
    fn hypothetical(
        &mut self,
        name: &str,
        direct: Vec<Expr>,
        order: Vec<SortKey>,
        filter: Option<&Expr>,
    ) -> Result<Expr> {
        if direct.len() != order.len() {
            let kinds: Vec<String> = direct
                .iter()
                .chain(order.iter().map(|key| &key.expression))
                .map(|value| value.kind().name())
                .collect();
            let message = format!("function {name}({}) does not exist", kinds.join(", "));
            let hint = format!(
                "To use the hypothetical-set aggregate {name}, the number of hypothetical direct arguments (here {}) must match the number of ordering columns (here {}).",
                direct.len(),
                order.len()
            );
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message).hint(hint));
        }
        let mut pairs = Vec::with_capacity(order.len());
        for (value, key) in direct.into_iter().zip(order) {
            let parts = vec![value, key.expression.clone()];
            let (mut both, _) = self.unify("WITHIN GROUP", parts)?;
            let expression = both.pop().unwrap_or_else(|| key.expression.clone());
            let value = both.pop().unwrap_or_else(|| key.expression.clone());
            pairs.push((value, SortKey { expression, ..key }));
        }
        let before = self.comes_before(&pairs)?;
        let filtered = |condition: Expr| match filter {
            Some(filter) => condition.and(filter.clone()),
            None => condition,
        };
        let one = Expr::Constant(Datum::Int8(1), Kind::Int8.plain());
        if name == "dense_rank" {
            let keys = pairs.iter().map(|(_, key)| key.expression.clone());
            let row = self.row_of(keys.collect())?;
            let count = self.count(Some(row), Some(filtered(before)))?;
            return self.operator("+", vec![count, one]);
        }
        if name == "cume_dist" {
            let peers = pairs.iter().map(|(value, key)| {
                Expr::IsDistinct(Box::new((key.expression.clone(), value.clone())), true)
            });
            let until = Expr::Or(vec![before, Expr::all(peers.collect())]);
            let until = self.count(None, Some(filtered(until)))?;
            let all = self.count(None, filter.cloned())?;
            let (until, all) = (
                self.operator("+", vec![until, one.clone()])?,
                self.operator("+", vec![all, one])?,
            );
            return self.share(until, all);
        }
        let rank = self.count(None, Some(filtered(before)))?;
        if name == "rank" {
            return self.operator("+", vec![rank, one]);
        }
        let all = self.count(None, filter.cloned())?;
        let zero = Expr::Constant(Datum::Int8(0), Kind::Int8.plain());
        let is_empty = self.operator("=", vec![all.clone(), zero])?;
        let nothing = Expr::Constant(Datum::Float8(0.0), Kind::Float8.plain());
        let share = self.share(rank, all)?;
        Ok(Expr::Case(vec![(is_empty, nothing)], Box::new(share)))
    }

    fn share(&mut self, part: Expr, whole: Expr) -> Result<Expr> {
        let float = |binder: &mut Self, value| binder.cast_to(value, Kind::Float8.plain());
        let (part, whole) = (float(self, part)?, float(self, whole)?);
        self.operator("/", vec![part, whole])
    }

    /// Whether a row comes before the one of these values.
    fn comes_before(&mut self, pairs: &[(Expr, SortKey)]) -> Result<Expr> {
        let mut result: Option<Expr> = None;
        for (value, key) in pairs.iter().rev() {
            let own = &key.expression;
            let operator = if key.descends { ">" } else { "<" };
            let less = self.operator(operator, vec![own.clone(), value.clone()])?;
            let (null, other) = match key.nulls_first {
                true => (own, value),
                false => (value, own),
            };
            let is_null = |part: &Expr, negated| Expr::IsNull(Box::new(part.clone()), negated);
            let by_null = is_null(null, false).and(is_null(other, true));
            let first = Expr::Or(vec![
                Expr::IsTruth(Box::new(less), Some(true), false),
                by_null,
            ]);
            result = Some(match result {
                None => first,
                Some(rest) => {
                    let pair = Box::new((own.clone(), value.clone()));
                    let is_equal = Expr::IsDistinct(pair, true);
                    Expr::Or(vec![first, is_equal.and(rest)])
                }
            });
        }
        Ok(result.unwrap_or_else(|| Expr::boolean(false)))
    }

    /// The number of rows, or of distinct values, that meet a condition.
    fn count(&mut self, distinct: Option<Expr>, filter: Option<Expr>) -> Result<Expr> {
        let is_distinct = distinct.is_some();
        let arguments: Vec<Expr> = distinct.into_iter().collect();
        let kinds: Vec<Kind> = arguments.iter().map(Expr::kind).collect();
        let resolved = functions().resolve("count", &kinds, false)?;
        let Body::Aggregate(aggregate) = resolved.function.body else {
            return Err(SqlError::internal("count is an aggregate"));
        };
        let argument_types: std::sync::Arc<[Type]> =
            arguments.iter().map(Expr::data_type).collect();
        Ok(self.pending(AggregateCall {
            function: AggregateFunction {
                function: resolved.function,
                aggregate,
                argument_types,
            },
            arguments,
            is_distinct,
            order: Vec::new(),
            filter,
            data_type: Kind::Int8.plain(),
        }))
    }
}

fn not_ordered(name: &str) -> SqlError {
    let message = format!("{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP");
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
}
