//! Groups: keys, aggregates, and the columns that a grouped query may name.
//!
//! Expressions are bound over the rows of the tables first; then each part that is a key or an
//! aggregate is replaced by its column, and a column that is left over is an error.

use super::grouping_sets::Groups;
use super::order::EQUALITY;
use super::scope::ScopeColumn;
use super::select::Item;
use super::{Binder, ident_text};
use crate::catalog::Body;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Aggregate, Expr, Node, Pending, TableRows, Window};
use crate::types::Type;
use sql_parse::{DISTINCT_SETS, mark_of};
use sqlparser::ast::{self, GroupByExpr, Spanned, Value};

impl Binder<'_> {
    /// The keys of `GROUP BY`; none if there is no such clause.
    pub(super) fn groups(
        &mut self,
        groups: &GroupByExpr,
        items: &[Item],
    ) -> Result<Option<Groups>> {
        let trees = match groups {
            GroupByExpr::Expressions(trees, modifiers) if modifiers.is_empty() => trees,
            _ => {
                let instead = "Name the keys.";
                return Err(SqlError::unsupported("GROUP BY ALL", instead));
            }
        };
        let Some(first) = trees.first() else {
            return Ok(None);
        };
        let is_mark = matches!(first, ast::Expr::Identifier(name)
            if mark_of(name) == Some(DISTINCT_SETS));
        let mut groups = self.grouping_sets(&trees[usize::from(is_mark)..], items)?;
        if is_mark {
            groups.make_distinct();
        }
        Ok(Some(groups))
    }

    /// A key: a number or alias of the list, or an expression.
    pub(super) fn group(&mut self, tree: &ast::Expr, items: &[Item]) -> Result<Expr> {
        let key = match tree {
            ast::Expr::Value(value) => match &value.value {
                Value::Number(text, _) => {
                    let at = text
                        .parse::<usize>()
                        .ok()
                        .and_then(|number| number.checked_sub(1));
                    let item = at.and_then(|at| items.get(at)).ok_or_else(|| {
                        let message = format!("GROUP BY position {text} is not in select list");
                        let error = SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
                        self.at(value.span, error)
                    })?;
                    Some(item.expression.clone())
                }
                _ => None,
            },
            ast::Expr::Identifier(name) => {
                let name = ident_text(name);
                // A column of the own tables goes before an alias of the list, which goes before a
                // column of the queries around this one.
                match self.scope().has_column(&name) {
                    true => None,
                    false => {
                        item_named(&name, items).map_err(|error| self.at(tree.span(), error))?
                    }
                }
            }
            _ => None,
        };
        let key = match key {
            Some(key) => key,
            None => {
                let key = self.expression(tree)?;
                self.settle(key)?
            }
        };
        let is_aggregate = key.any(|part, depth| match part {
            Expr::Pending(Pending::Aggregate, ..) => depth == 0,
            // A subquery may have one of this query.
            Expr::Pending(Pending::Outer(level), ..) => *level == depth,
            _ => false,
        });
        if is_aggregate {
            let message = "aggregate functions are not allowed in GROUP BY";
            return Err(self.at(
                tree.span(),
                SqlError::new(SqlState::GROUPING_ERROR, message),
            ));
        }
        self.compared([key.kind()], EQUALITY)?;
        Ok(key)
    }

    /// The rows of the groups; expressions read them from now on.
    pub(super) fn grouped(
        &mut self,
        input: Node,
        groups: Option<Groups>,
        having: &mut Option<Expr>,
        expressions: Vec<&mut Expr>,
    ) -> Result<Node> {
        let calls = std::mem::take(&mut self.scope().aggregates);
        let groupings = std::mem::take(&mut self.scope().groupings);
        if groups.is_none() && calls.is_empty() && having.is_none() && groupings.is_empty() {
            return Ok(input);
        }
        let mut groups = groups.unwrap_or(Groups {
            keys: Vec::new(),
            sets: None,
        });
        if groups.sets.is_none() {
            self.add_dependent(&mut groups.keys);
        }
        let (keys, calls_count) = (&groups.keys, calls.len());
        let mut windows = std::mem::take(&mut self.scope().windows);
        let in_windows = windows.iter_mut().flat_map(|window| {
            let call = &mut window.call;
            let ends = [&mut call.frame.start, &mut call.frame.end];
            let ends = ends.into_iter().filter_map(|end| match end {
                crate::plan::FrameEnd::Preceding(value)
                | crate::plan::FrameEnd::Following(value) => Some(value),
                _ => None,
            });
            let order = window.order.iter_mut().map(|key| &mut key.expression);
            let arguments = call.arguments.iter_mut().chain(call.filter.as_mut());
            arguments
                .chain(window.partition.iter_mut())
                .chain(order)
                .chain(ends)
        });
        for expression in expressions
            .into_iter()
            .chain(having.as_mut())
            .chain(in_windows)
        {
            self.regroup(expression, keys, calls_count)?;
        }
        self.scope().windows = windows;
        if groups.sets.is_some() || !groupings.is_empty() {
            return self.grouped_by_sets(input, groups, &calls, &groupings);
        }
        let mut keys = groups.keys;
        let input = self.with_sets(input, keys.iter_mut().collect())?;
        Ok(Aggregate {
            input,
            keys,
            calls,
            is_ordered: false,
        }
        .into())
    }

    /// Columns of tables whose primary key is grouped by are known for each group.
    fn add_dependent(&mut self, keys: &mut Vec<Expr>) {
        let tables = self.scope().tables.clone();
        for table in tables {
            let Some(&start) = table.columns.first() else {
                continue;
            };
            let found = match &table.rows {
                Some(TableRows::Own(source)) if !source.has_row_number() => {
                    Some((source.key.to_vec(), source.types.to_vec()))
                }
                Some(TableRows::OfFamily(_)) => self.family_key(start),
                _ => None,
            };
            let Some((key, types)) = found else {
                continue;
            };
            let is_key = |at: usize| {
                keys.iter()
                    .any(|key| matches!(key, Expr::Column(own, _) if *own == at))
            };
            if key.iter().all(|column| is_key(start + column)) {
                for (at, data_type) in types.iter().enumerate() {
                    if !is_key_of(keys, start + at) {
                        keys.push(Expr::Column(start + at, *data_type));
                    }
                }
            }
        }
    }

    /// The primary key and the types of the columns of a table that others inherit from, whose
    /// first column is at a place.
    fn family_key(&self, start: usize) -> Option<(Vec<usize>, Vec<Type>)> {
        let mut columns = self.scopes.last()?.columns.iter();
        let is_first =
            |column: &&ScopeColumn| matches!(column.expression, Expr::Column(at, _) if at == start);
        let (oid, _) = columns.find(is_first)?.origin;
        let Body::Table(table) = &self.names.catalog.object(oid)?.body else {
            return None;
        };
        let types = table.columns.iter().map(|column| column.data_type);
        Some((table.primary()?.to_vec(), types.collect()))
    }

    /// Makes an expression read the row of a group.
    fn regroup(&self, expression: &mut Expr, keys: &[Expr], calls: usize) -> Result<()> {
        let mut problem = None;
        expression.walk(0, &mut |part, depth| {
            if depth == 0 {
                if let Expr::Pending(Pending::Aggregate, at, data_type) = part {
                    *part = Expr::Column(keys.len() + *at, *data_type);
                    return Ok(false);
                }
                if let Expr::Pending(Pending::Grouping, at, data_type) = part {
                    *part = Expr::Column(keys.len() + calls + *at, *data_type);
                    return Ok(false);
                }
                if let Some(at) = keys.iter().position(|key| key.is_same(part)) {
                    *part = Expr::Column(at, keys[at].data_type());
                    return Ok(false);
                }
                if let Expr::Column(at, _) = part {
                    problem.get_or_insert(*at);
                }
                return Ok(true);
            }
            if let Expr::Pending(Pending::Outer(level), at, data_type) = part
                && *level == depth
            {
                *part = Expr::Outer(depth, keys.len() + *at, *data_type);
                return Ok(false);
            }
            if let Expr::Outer(level, at, data_type) = part
                && *level == depth
            {
                let is_it = |key: &Expr| matches!(key, Expr::Column(own, _) if own == at);
                match keys.iter().position(is_it) {
                    Some(key) => *part = Expr::Outer(*level, key, *data_type),
                    None => {
                        problem.get_or_insert(*at);
                    }
                }
                return Ok(false);
            }
            Ok(true)
        })?;
        match problem {
            None => Ok(()),
            Some(at) => Err(self.not_grouped(at)),
        }
    }

    fn not_grouped(&self, at: usize) -> SqlError {
        let columns = self
            .scopes
            .last()
            .map_or(&[][..], |scope| scope.columns.as_slice());
        let column = columns
            .iter()
            .find(|column| matches!(column.expression, Expr::Column(own, _) if own == at));
        let name = column.map_or_else(String::new, |column| match &column.table {
            Some(table) => format!("{table}.{}", column.name),
            None => column.name.clone(),
        });
        let message = format!(
            "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
        );
        SqlError::new(SqlState::GROUPING_ERROR, message)
    }

    /// The rows with the results of window functions; the list reads them from now on.
    pub(super) fn windowed(&mut self, mut node: Node, items: &mut [Item]) -> Result<Node> {
        let windows = std::mem::take(&mut self.scope().windows);
        let mut places = vec![0; windows.len()];
        let mut left: Vec<usize> = (0..windows.len()).collect();
        // Functions with one partition and order are computed together.
        while let Some(&first) = left.first() {
            let same: Vec<usize> = left
                .iter()
                .copied()
                .filter(|at| has_same_window(&windows[first], &windows[*at]))
                .collect();
            let width = node.width();
            for (place, at) in same.iter().enumerate() {
                places[*at] = width + place;
            }
            let calls = same.iter().map(|at| windows[*at].call.clone()).collect();
            left.retain(|at| !same.contains(at));
            node = Window {
                input: node,
                partition: windows[first].partition.clone(),
                order: windows[first].order.clone(),
                calls,
                is_ordered: false,
                stop: None,
            }
            .into();
        }
        for item in items {
            item.expression.walk(0, &mut |part, _| {
                if let Expr::Pending(Pending::Window, at, data_type) = part {
                    *part = Expr::Column(places[*at], *data_type);
                }
                Ok(true)
            })?;
        }
        Ok(node)
    }
}

/// The expression of the items with a name, which has to be the same for all of them.
fn item_named(name: &str, items: &[Item]) -> Result<Option<Expr>> {
    let mut named = items.iter().filter(|item| item.column.name == name);
    let first = named.next().map(|item| &item.expression);
    if first.is_some_and(|first| named.any(|other| !other.expression.is_same(first))) {
        let message = format!("GROUP BY \"{name}\" is ambiguous");
        return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message));
    }
    Ok(first.cloned())
}

fn is_key_of(keys: &[Expr], at: usize) -> bool {
    keys.iter()
        .any(|key| matches!(key, Expr::Column(own, _) if *own == at))
}

fn has_same_window(one: &super::scope::PendingWindow, other: &super::scope::PendingWindow) -> bool {
    let same_keys = one.order.len() == other.order.len()
        && one.order.iter().zip(&other.order).all(|(one, other)| {
            one.expression.is_same(&other.expression)
                && one.descends == other.descends
                && one.nulls_first == other.nulls_first
        });
    same_keys
        && one.partition.len() == other.partition.len()
        && one
            .partition
            .iter()
            .zip(&other.partition)
            .all(|(one, other)| one.is_same(other))
}
