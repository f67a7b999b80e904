//! Queries inside expressions.
//!
//! The query sees the row as the next outer one. Comparisons are bound over values of the row,
//! followed by a row of the query, so they do not depend on the width of the former.

use super::once::{fields_of, let_in};
use super::row_place::integer_key;
use super::{Binder, Bound};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Expr, Node, Pending, Project, RowTest, Subquery, SubqueryTest};
use crate::types::{Kind, Type};
use sqlparser::ast::{Query, SelectItem, SetExpr};
use std::cmp::Ordering;
use std::sync::Arc;

impl Binder<'_> {
    /// A query inside an expression: it sees the row as the next outer one.
    fn inner(&mut self, query: &Query) -> Result<Bound> {
        self.settled(|binder| binder.query(query))
    }

    pub(super) fn subquery(
        &mut self,
        mut bound: Bound,
        test: SubqueryTest,
        data_type: Type,
    ) -> Result<Expr> {
        let mut is_correlated = false;
        bound.node.walk(1, &mut |part, depth| {
            let level = match part {
                Expr::Outer(level, ..) | Expr::Pending(Pending::Outer(level), ..) => Some(*level),
                _ => None,
            };
            is_correlated |= level.is_some_and(|level| level >= depth);
            Ok(true)
        })?;
        Ok(Expr::Subquery(Arc::new(Subquery {
            node: bound.node,
            test,
            data_type,
            is_correlated,
        })))
    }

    pub(super) fn exists(&mut self, query: &Query, negated: bool) -> Result<Expr> {
        let mut bound = self.inner(query)?;
        // The values of the rows do not matter, and are not computed.
        if let Node::Project(project) = &bound.node
            && !project.has_sets
        {
            bound.node = project.input.clone();
        }
        let exists = self.subquery(bound, SubqueryTest::Exists, Kind::Bool.plain())?;
        Ok(if negated {
            Expr::Not(Box::new(exists))
        } else {
            exists
        })
    }

    pub(super) fn scalar_subquery(&mut self, query: &Query) -> Result<Expr> {
        let bound = self.inner(query)?;
        let data_type = one_column(&bound)?;
        self.subquery(bound, SubqueryTest::Scalar, data_type)
    }

    pub(super) fn array_subquery(&mut self, query: &Query) -> Result<Expr> {
        let bound = self.inner(query)?;
        let Type { kind, modifier } = one_column(&bound)?;
        let of_arrays = Some(kind).filter(|kind| kind.is_array());
        let array = of_arrays.or_else(|| kind.array()).ok_or_else(|| {
            let message = format!("could not find array type for data type {kind}");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })?;
        let data_type = Type {
            kind: array,
            modifier,
        };
        self.subquery(bound, SubqueryTest::Array(kind), data_type)
    }

    pub(super) fn in_subquery(&mut self, left: Expr, query: &Query) -> Result<Expr> {
        self.quantified_subquery(left, "=", query, false)
    }

    /// A comparison of a value or a row with the rows of a query.
    pub(super) fn quantified_subquery(
        &mut self,
        left: Expr,
        name: &str,
        query: &Query,
        is_all: bool,
    ) -> Result<Expr> {
        let bound = self.inner(query)?;
        let left = fields(left);
        let types: Vec<Type> = bound
            .columns
            .iter()
            .map(|column| column.data_type)
            .collect();
        check_width(left.len(), types.len())?;
        let mut own_values = Vec::with_capacity(left.len());
        for (value, data_type) in left.into_iter().zip(&types) {
            let is_unknown = value.kind() == Kind::Unknown;
            own_values.push(if is_unknown {
                self.coerce(value, data_type.kind.plain())?
            } else {
                value
            });
        }
        // The place of a row with an integer for a key is compared by that.
        let place = match own_values.as_slice() {
            [place] if name == "=" && !is_all && types[0].kind == Kind::Tid => {
                integer_key(place).map(|key| (place.clone(), key.clone()))
            }
            _ => None,
        };
        if let Some((_, key)) = &place {
            own_values = vec![key.clone()];
        }
        let width = own_values.len();
        let own = own_values.iter().enumerate();
        let own: Vec<Expr> = own
            .map(|(at, value)| Expr::Column(at, value.data_type()))
            .collect();
        let theirs = types.iter().enumerate();
        let mut theirs: Vec<Expr> = theirs
            .map(|(at, one)| Expr::Column(width + at, *one))
            .collect();
        if let Some((place, _)) = place {
            theirs = vec![self.key_of_place(&place, theirs.remove(0))?];
        }
        let condition = self.row_test(name, own, theirs)?;
        let test = RowTest {
            left: own_values,
            condition: Box::new(condition),
        };
        let test = if is_all {
            SubqueryTest::All(test)
        } else {
            SubqueryTest::Any(test)
        };
        self.subquery(bound, test, Kind::Bool.plain())
    }

    /// A row compared with the only row of a query: NULL if it has none.
    pub(super) fn row_subquery(&mut self, left: Expr, name: &str, query: &Query) -> Result<Expr> {
        let width = left.fields().map_or(1, |shape| shape.types.len());
        let (row, types) = self.record_subquery(query)?;
        check_width(width, types.len())?;
        // A query that gives the same row to all of its copies may stand beside each field, where
        // an index serves the comparison.
        let is_fixed = matches!(&row, Expr::Subquery(query) if !query.is_correlated);
        if is_fixed && name == "=" && !row.has_volatile() {
            let right = self.row_of(fields_of(&row, &types))?;
            return self.operator(name, vec![left, right]);
        }
        let (number, read) = self.new_value(row.data_type());
        let right = self.row_of(fields_of(&read, &types))?;
        let compared = self.operator(name, vec![left, right])?;
        Ok(let_in(number, row, compared))
    }

    /// The only row of a query as a value, with the types of its fields.
    pub(super) fn record_subquery(&mut self, query: &Query) -> Result<(Expr, Vec<Type>)> {
        let mut bound = self.inner(query)?;
        let types: Vec<Type> = bound
            .columns
            .iter()
            .map(|column| column.data_type)
            .collect();
        let row = self.row_of(super::all_columns(types.iter().copied()))?;
        bound.node = Project {
            input: bound.node,
            expressions: vec![row],
            has_sets: false,
        }
        .into();
        let row = self.subquery(bound, SubqueryTest::Scalar, Kind::Record.plain())?;
        Ok((row, types))
    }

    fn row_test(&mut self, name: &str, left: Vec<Expr>, right: Vec<Expr>) -> Result<Expr> {
        if left.len() == 1 {
            return self.operator(name, left.into_iter().chain(right).collect());
        }
        let (left, right) = (self.row_of(left)?, self.row_of(right)?);
        self.operator(name, vec![left, right])
    }

    /// The name of the column of a query inside an expression.
    pub(super) fn subquery_name(&self, query: &Query) -> String {
        let SetExpr::Select(select) = &*query.body else {
            return "?column?".to_owned();
        };
        match select.projection.as_slice() {
            [SelectItem::UnnamedExpr(tree)] => self.column_name(tree),
            [SelectItem::ExprWithAlias { alias, .. }] => super::ident_text(alias),
            _ => "?column?".to_owned(),
        }
    }
}

/// Fails unless a query has as many columns as the row that it is compared with.
fn check_width(row: usize, columns: usize) -> Result<()> {
    let message = match row.cmp(&columns) {
        Ordering::Less => "subquery has too many columns",
        Ordering::Equal => return Ok(()),
        Ordering::Greater => "subquery has too few columns",
    };
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}

/// The fields of a row, or the value itself.
fn fields(value: Expr) -> Vec<Expr> {
    match value {
        Expr::Row(fields, _) => fields,
        other => vec![other],
    }
}

/// The type of the only column of a query.
fn one_column(bound: &Bound) -> Result<Type> {
    match bound.columns.as_slice() {
        [column] => Ok(column.data_type),
        _ => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "subquery must return only one column",
        )),
    }
}
