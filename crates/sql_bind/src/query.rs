//! Queries: `WITH`, set operations, `VALUES`, and the order and limit of the whole.
//!
//! A query of `WITH` is bound once, and computed once for all its uses unless it reads rows of the
//! queries around it. The limit and the order of a query apply to its last form.

use super::locking::Locking;
use super::order::EQUALITY;
use super::scope::{Clause, Scope};
use super::select::check_width;
use super::{Binder, Bound, all_columns, ident_text, output_columns, recursion};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{
    Expr, Limit, Node, OutputColumn, Project, Recursive, SetKind, SetOperation, Shared, Sort,
    SortKey, Values, Wanted, Working,
};
use crate::types::overload::common_kind;
use crate::types::{Kind, Type};
use sql_parse::{FETCHED, mark_of};
use sqlparser::ast::{
    self, Cte, CteAsMaterialized, Fetch, LimitClause, OrderByKind, Query, SetExpr, SetOperator,
    SetQuantifier, With,
};
use std::sync::Arc;

/// A query that can be named in the queries after it.
#[derive(Clone)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) columns: Vec<OutputColumn>,
    pub(super) rows: NamedRows,
    /// Levels of its plan.
    pub(super) levels: usize,
}

/// Levels of a query: it makes a plan deeper by more than an operator does.
const QUERY_LEVELS: usize = 6;

/// The rows of a named query.
#[derive(Clone)]
pub(super) enum NamedRows {
    /// Computed once for all uses.
    Shared(Arc<Shared>),
    /// A change that returns nothing.
    Nothing,
    /// The last round of the query itself, which may be named within so many scopes.
    Working(Arc<Working>, usize),
    /// One that reads rows of the queries around it, as of so many scopes: computed at each use.
    Inline(Node, usize),
}

/// Limit and offset of a query.
#[derive(Default)]
pub(super) struct Bounds {
    pub(super) limit: Option<Expr>,
    pub(super) offset: Option<Expr>,
    pub(super) with_ties: bool,
}

impl Binder<'_> {
    /// A query that sees the scopes around it.
    pub(super) fn query(&mut self, query: &Query) -> Result<Bound> {
        self.deeper_by(QUERY_LEVELS, |binder| {
            let known = binder.shared.len();
            let bound = binder.whole_query(query);
            binder.shared.truncate(known);
            bound
        })
    }

    fn whole_query(&mut self, query: &Query) -> Result<Bound> {
        let mut locks = std::mem::take(&mut self.pushed);
        for clause in &query.locks {
            locks.push(Locking::of_clause(clause)?);
        }
        if let Some(with) = &query.with {
            self.with(with)?;
        }
        let order: &[ast::OrderByExpr] = match &query.order_by {
            None => &[],
            Some(order) => match &order.kind {
                OrderByKind::Expressions(order) => order,
                OrderByKind::All(_) => {
                    let instead = "Name the columns.";
                    return Err(SqlError::unsupported("ORDER BY ALL", instead));
                }
            },
        };
        if let Some(fetch) = &query.fetch
            && fetch.with_ties
        {
            self.check_ties(query, fetch)?;
        }
        match &*query.body {
            SetExpr::Select(select) => self.select(select, order, Some(query), locks),
            body => {
                match (body, locks.first()) {
                    (SetExpr::SetOperation { .. }, Some(clause)) => {
                        let problem = "is not allowed with UNION/INTERSECT/EXCEPT";
                        return Err(clause.refused(problem));
                    }
                    (SetExpr::Values(_), Some(clause)) if !query.locks.is_empty() => {
                        return Err(clause.refused("cannot be applied to VALUES"));
                    }
                    (SetExpr::Query(_), _) => self.pushed = locks,
                    _ => {}
                }
                let bound = self.set_body(body)?;
                let (bounds, _) = self.within(Scope::default(), |binder| binder.bounds(query));
                self.ordered(bound, order, bounds?)
            }
        }
    }

    /// The limit and offset of a query. They see the columns of its rows, and must not read them.
    pub(super) fn bounds(&mut self, query: &Query) -> Result<Bounds> {
        self.scope().clause = Clause::Limit;
        let mut bounds = Bounds::default();
        match &query.limit_clause {
            None => {}
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                bounds.limit = self.bound_of(limit.as_ref(), "LIMIT")?;
                let offset = offset.as_ref().map(|offset| &offset.value);
                bounds.offset = self.bound_of(offset, "OFFSET")?;
            }
            Some(LimitClause::OffsetCommaLimit { .. }) => {
                let message = "LIMIT #,# syntax is not supported";
                let hint = "Use separate LIMIT and OFFSET clauses.";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).hint(hint));
            }
        }
        let Some(fetch) = &query.fetch else {
            return Ok(bounds);
        };
        bounds.with_ties = fetch.with_ties;
        if fetch.quantity.as_ref().is_some_and(is_of_limit) {
            return Ok(bounds);
        }
        if bounds.limit.is_some() {
            let message = "multiple LIMIT clauses not allowed";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        bounds.limit = match &fetch.quantity {
            Some(quantity) => self.bound_of(Some(quantity), "LIMIT")?,
            None => Some(Expr::Constant(
                crate::types::Datum::Int8(1),
                Kind::Int8.plain(),
            )),
        };
        Ok(bounds)
    }

    /// Fails unless a query may have `FETCH FIRST ... WITH TIES`.
    fn check_ties(&self, query: &Query, fetch: &Fetch) -> Result<()> {
        let skips = |lock: &ast::LockClause| lock.nonblock == Some(ast::NonBlock::SkipLocked);
        let message = match () {
            () if query.order_by.is_none() => {
                "WITH TIES cannot be specified without ORDER BY clause"
            }
            () if query.locks.iter().any(skips) => {
                "SKIP LOCKED and WITH TIES options cannot be used together"
            }
            () => "",
        };
        if !message.is_empty() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let of_limit = match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit, .. }) => limit.as_ref(),
            _ => None,
        };
        let mut counts = of_limit.into_iter().chain(&fetch.quantity);
        if counts.any(is_null) && !self.is_of_catalogue() {
            let message = "row count cannot be null in FETCH FIRST ... WITH TIES clause";
            let state = SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE;
            return Err(SqlError::new(state, message));
        }
        Ok(())
    }

    /// A number of rows. It is computed outside of the query's rows.
    fn bound_of(&mut self, tree: Option<&ast::Expr>, clause: &str) -> Result<Option<Expr>> {
        let Some(tree) = tree else { return Ok(None) };
        if let ast::Expr::Identifier(word) = tree
            && word.value.eq_ignore_ascii_case("all")
        {
            return Ok(None);
        }
        let mut expression = self.expression(tree)?;
        let kind = expression.kind();
        if kind == Kind::Numeric || kind == Kind::Float8 {
            expression = self.cast_to(expression, Kind::Int8.plain())?;
        }
        let expression = self.coerce(expression, Kind::Int8.plain()).map_err(|_| {
            let message = format!("argument of {clause} must be type bigint, not type {kind}");
            SqlError::new(SqlState::DATATYPE_MISMATCH, message)
        })?;
        if expression.reads_row() {
            let message = format!("argument of {clause} must not contain variables");
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        Ok(Some(expression))
    }

    pub(super) fn with(&mut self, with: &With) -> Result<()> {
        self.settled(|binder| binder.named_queries(with))
    }

    fn named_queries(&mut self, with: &With) -> Result<()> {
        let mut seen: Vec<String> = Vec::with_capacity(with.cte_tables.len());
        for cte in recursion::in_order(with, mentions)? {
            let name = ident_text(&cte.alias.name);
            if seen.contains(&name) {
                let message = format!("WITH query name \"{name}\" specified more than once");
                let error = SqlError::new(SqlState::DUPLICATE_ALIAS, message);
                return Err(self.at(cte.alias.name.span, error));
            }
            seen.push(name.clone());
            let reached = std::mem::replace(&mut self.reached, self.depth);
            let mut named = if super::search::has_clauses(&cte.query) {
                if !with.recursive || !mentions(&cte.query, &name) {
                    let message = "WITH query is not recursive";
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                let cte = self.searched(cte, &name)?;
                self.common(&cte, &name)?
            } else if with.recursive && mentions(&cte.query, &name) {
                self.recursive(cte, &name)?
            } else {
                self.common(cte, &name)?
            };
            named.levels = self.reached - self.depth;
            self.reached = self.reached.max(reached);
            self.shared.push(named);
        }
        Ok(())
    }

    /// A query of `WITH` that does not name itself.
    fn common(&mut self, cte: &Cte, name: &str) -> Result<Named> {
        if let SetExpr::Insert(change) | SetExpr::Update(change) | SetExpr::Delete(change) =
            &*cte.query.body
        {
            return self.changing(cte, change, name);
        }
        if matches!(&*cte.query.body, SetExpr::Merge(_)) {
            let message = "MERGE not supported in WITH query";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let bound = self.query(&cte.query)?;
        let columns = renamed(bound.columns, name, &cte.alias.columns)?;
        Ok(Named {
            name: name.to_owned(),
            rows: self.shared_rows(bound.node, columns.len(), cte)?,
            columns,
            levels: 0,
        })
    }

    /// A query of `WITH` that changes rows. It runs once, before the rest of the statement, which
    /// sees the rows as they were before.
    fn changing(&mut self, cte: &Cte, change: &ast::Statement, name: &str) -> Result<Named> {
        if self.depth > QUERY_LEVELS || !self.scopes.is_empty() || !self.views.is_empty() {
            let message =
                "WITH clause containing a data-modifying statement must be at the top level";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let known = self.shared.len();
        if let Some(with) = &cte.query.with {
            self.deeper_by(QUERY_LEVELS + 1, |binder| binder.with(with))?;
        }
        let (node, columns, _) = self
            .change(change)?
            .ok_or_else(|| SqlError::internal("a statement that changes rows"))?;
        self.shared.truncate(known);
        let number = self.shared_count;
        self.shared_count += 1;
        let width = node.width();
        let shared = Arc::new(Shared {
            number,
            node,
            width,
            is_kept: true,
            rows: None,
        });
        self.changes.push(Node::Shared(Arc::clone(&shared)));
        let Some(columns) = columns else {
            return Ok(Named {
                name: name.to_owned(),
                rows: NamedRows::Nothing,
                columns: Vec::new(),
                levels: 0,
            });
        };
        Ok(Named {
            name: name.to_owned(),
            rows: NamedRows::Shared(shared),
            columns: renamed(columns, name, &cte.alias.columns)?,
            levels: 0,
        })
    }

    fn shared_rows(&mut self, mut node: Node, width: usize, cte: &Cte) -> Result<NamedRows> {
        let mut is_kept = matches!(cte.materialized, Some(CteAsMaterialized::Materialized));
        let mut reads_outer = false;
        node.walk(0, &mut |part, depth| {
            reads_outer |= matches!(part, Expr::Outer(level, ..) if *level > depth);
            is_kept |= matches!(part, Expr::Call(call) if !call.is_stable());
            Ok(!reads_outer)
        })?;
        // The rows of a round are others in the next one.
        if reads_outer || recursion::is_in_round(&mut node) {
            return Ok(NamedRows::Inline(node, self.scopes.len()));
        }
        let number = self.shared_count;
        self.shared_count += 1;
        Ok(NamedRows::Shared(Arc::new(Shared {
            number,
            node,
            width,
            is_kept,
            rows: None,
        })))
    }

    /// A query of `WITH RECURSIVE`: a first part, and one that names the query itself.
    fn recursive(&mut self, cte: &Cte, name: &str) -> Result<Named> {
        let SetExpr::SetOperation {
            op: SetOperator::Union,
            set_quantifier,
            left,
            right,
        } = &*cte.query.body
        else {
            let message = format!(
                "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
            );
            return Err(SqlError::new(SqlState::INVALID_RECURSION, message));
        };
        if cte.query.order_by.is_some() || cte.query.limit_clause.is_some() {
            let instead = "Order or limit the query that reads it.";
            return Err(SqlError::unsupported(
                "ORDER BY or LIMIT in a recursive query",
                instead,
            ));
        }
        recursion::check(name, &cte.query, left, right)?;
        let known = self.shared.len();
        if let Some(with) = &cte.query.with {
            self.with(with)?;
        }
        let start = self.set_body(left)?;
        let columns = renamed(start.columns.clone(), name, &cte.alias.columns)?;
        let number = self.shared_count;
        self.shared_count += 1;
        let width = columns.len();
        let types: Vec<Type> = columns.iter().map(|column| column.data_type).collect();
        self.shared.push(Named {
            name: name.to_owned(),
            columns: columns.clone(),
            rows: NamedRows::Working(
                Arc::new(Working {
                    number,
                    types: types.as_slice().into(),
                }),
                self.scopes.len(),
            ),
            levels: 0,
        });
        let mut step = self.set_body(right)?;
        self.shared.truncate(known);
        recursion::check_groups(&mut step.node, number)?;
        if step.columns.len() != width {
            return Err(differing_widths("UNION"));
        }
        check_step(name, &columns, &step.columns)?;
        let step = self.converted(step, &types)?;
        let all = matches!(set_quantifier, SetQuantifier::All);
        if !all {
            self.compared(types.iter().map(|one| one.kind), EQUALITY)?;
        }
        let node = Recursive {
            number,
            start: start.node,
            step: step.node,
            all,
            width,
        };
        Ok(Named {
            name: name.to_owned(),
            columns,
            rows: self.shared_rows(node.into(), width, cte)?,
            levels: 0,
        })
    }

    /// A part of a query that is no `SELECT` with an order of its own.
    fn set_body(&mut self, body: &SetExpr) -> Result<Bound> {
        match body {
            SetExpr::Select(select) => self.select(select, &[], None, Vec::new()),
            SetExpr::Query(query) => self.query(query),
            SetExpr::Values(values) => self.values_rows(values, None),
            SetExpr::SetOperation {
                op,
                set_quantifier,
                left,
                right,
            } => self.set_operation(*op, *set_quantifier, (left, right)),
            SetExpr::Table(table) => self.table_rows(table),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                let instead = "Run the statement on its own.";
                Err(SqlError::unsupported(
                    "a statement that changes rows here",
                    instead,
                ))
            }
        }
    }

    fn set_operation(
        &mut self,
        op: SetOperator,
        quantifier: SetQuantifier,
        (left, right): (&SetExpr, &SetExpr),
    ) -> Result<Bound> {
        let (kind, name) = match op {
            SetOperator::Union => (SetKind::Union, "UNION"),
            SetOperator::Intersect => (SetKind::Intersect, "INTERSECT"),
            SetOperator::Except | SetOperator::Minus => (SetKind::Except, "EXCEPT"),
        };
        let all = match quantifier {
            SetQuantifier::All => true,
            SetQuantifier::Distinct | SetQuantifier::None => false,
            _ => {
                return Err(SqlError::unsupported(
                    "BY NAME",
                    "Name the columns in one order.",
                ));
            }
        };
        let (left, right) = self
            .deeper(|binder| Ok((binder.unsettled_body(left)?, binder.unsettled_body(right)?)))?;
        if left.columns.len() != right.columns.len() {
            return Err(differing_widths(name));
        }
        let mut types = Vec::with_capacity(left.columns.len());
        for (one, other) in left.columns.iter().zip(&right.columns) {
            let kinds = [one.data_type.kind, other.data_type.kind];
            let kind = common_kind(name, &kinds)?;
            let is_same = one.data_type == other.data_type && kinds[0] != Kind::Unknown;
            types.push(if is_same { one.data_type } else { kind.plain() });
        }
        if !all || kind != SetKind::Union {
            self.compared(types.iter().map(|one| one.kind), EQUALITY)?;
        }
        let (left, right) = (
            self.converted(left, &types)?,
            self.converted(right, &types)?,
        );
        Ok(Bound {
            node: SetOperation {
                kind,
                all,
                left: left.node,
                right: right.node,
                order: None,
            }
            .into(),
            columns: left
                .columns
                .into_iter()
                .map(|column| OutputColumn {
                    table: 0,
                    position: 0,
                    ..column
                })
                .collect(),
        })
    }

    /// A part of a set operation: literals keep no type until both parts are known.
    fn unsettled_body(&mut self, body: &SetExpr) -> Result<Bound> {
        let was = std::mem::replace(&mut self.keeps_unknown, true);
        let bound = self.set_body(body);
        self.keeps_unknown = was;
        bound
    }

    /// Binds a part of a query whose literals get their types there, and not from a set operation
    /// or a table of which the query around it is a part.
    pub(super) fn settled<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> R {
        let was = std::mem::replace(&mut self.keeps_unknown, false);
        let bound = body(self);
        self.keeps_unknown = was;
        bound
    }

    /// The rows of a query with columns of these types.
    pub(super) fn converted(&mut self, bound: Bound, types: &[Type]) -> Result<Bound> {
        let is_same = bound
            .columns
            .iter()
            .zip(types)
            .all(|(column, to)| column.data_type == *to);
        if is_same {
            return Ok(bound);
        }
        // Literals are converted where they stand.
        if let Node::Project(project) = &bound.node
            && project
                .expressions
                .iter()
                .any(|one| one.kind() == Kind::Unknown)
        {
            let mut project = Project::clone(project);
            let expressions = std::mem::take(&mut project.expressions);
            for (expression, to) in expressions.into_iter().zip(types) {
                project.expressions.push(self.coerce(expression, *to)?);
            }
            return Ok(Bound {
                node: project.into(),
                columns: with_types(bound.columns, types),
            });
        }
        let columns = all_columns(bound.columns.iter().map(|column| column.data_type));
        let columns = columns.into_iter().zip(types);
        let columns = columns.map(|(column, to)| self.coerce(column, *to));
        let project = Project {
            input: bound.node,
            expressions: columns.collect::<Result<_>>()?,
            has_sets: false,
        };
        Ok(Bound {
            node: project.into(),
            columns: with_types(bound.columns, types),
        })
    }

    /// `VALUES`: the columns have the types to which all rows convert, or those that are given.
    pub(super) fn values_rows(
        &mut self,
        values: &ast::Values,
        types: Option<&[Type]>,
    ) -> Result<Bound> {
        let mut rows: Vec<Vec<Expr>> = Vec::with_capacity(values.rows.len());
        let (bound, _) = self.within(Scope::default(), |binder| {
            binder.scope().clause = Clause::Values;
            for row in &values.rows {
                rows.push(binder.listed(&row.content)?);
            }
            Ok(())
        });
        bound?;
        let width = rows.first().map_or(0, Vec::len);
        check_width(width)?;
        if rows.iter().any(|row| row.len() != width) {
            let message = "VALUES lists must all be the same length";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let mut columns = Vec::with_capacity(width);
        for at in 0..width {
            let column: Vec<Expr> = rows.iter().map(|row| row[at].clone()).collect();
            let (column, data_type) = match types.and_then(|types| types.get(at)) {
                Some(data_type) => (column, *data_type),
                None if self.keeps_unknown
                    && column.iter().all(|one| one.kind() == Kind::Unknown) =>
                {
                    (column, Kind::Text.plain())
                }
                None => self.unify("VALUES", column)?,
            };
            for (row, value) in rows.iter_mut().zip(column) {
                row[at] = match value.kind() {
                    Kind::Unknown => self.coerce(value, data_type)?,
                    _ => value,
                };
            }
            columns.push((format!("column{}", at + 1), data_type));
        }
        let columns = columns
            .iter()
            .map(|(name, data_type)| (name.as_str(), *data_type));
        Ok(Bound {
            columns: output_columns(columns),
            node: Values { rows, width }.into(),
        })
    }

    /// A query with an order over its columns, and a limit.
    fn ordered(
        &mut self,
        bound: Bound,
        order: &[ast::OrderByExpr],
        bounds: Bounds,
    ) -> Result<Bound> {
        let mut keys = Vec::with_capacity(order.len());
        for key in order {
            let found = self.output_column(&key.expr, &bound.columns, |_, _| false)?;
            let Some(at) = found else {
                return Err(self.no_output(&key.expr, &bound.columns));
            };
            let column = Expr::Column(at, bound.columns[at].data_type);
            keys.push(super::order::sort_key(column, &key.options)?);
        }
        let node = limited(sorted(bound.node, keys.clone(), &bounds), keys, bounds);
        Ok(Bound { node, ..bound })
    }

    /// The error of an order by something else than a column of the result.
    fn no_output(&mut self, tree: &ast::Expr, columns: &[OutputColumn]) -> SqlError {
        let columns = columns.iter();
        let columns = columns.map(|column| (column.name.clone(), column.data_type));
        let bound = super::row_scope("", columns)
            .and_then(|scope| self.expression_in(scope, Clause::OrderBy, tree).0);
        if let Err(error) = bound {
            return error;
        }
        let message = "invalid UNION/INTERSECT/EXCEPT ORDER BY clause";
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .detail("Only result column names can be used, not expressions or functions.")
            .hint("Add the expression/function to every SELECT, or move the UNION into a FROM clause.")
    }
}

/// Rows in an order; a limit tells how many are wanted.
pub(super) fn sorted(input: Node, keys: Vec<SortKey>, bounds: &Bounds) -> Node {
    if keys.is_empty() {
        return input;
    }
    let wanted = bounds.limit.as_ref().map(|count| Wanted {
        count: count.clone(),
        skipped: bounds.offset.clone(),
    });
    // The limit computes them too, and must get the same.
    let is_fixed = |wanted: &Wanted| {
        let mut parts = std::iter::once(&wanted.count).chain(&wanted.skipped);
        !parts.any(Expr::has_volatile)
    };
    Sort {
        input,
        keys,
        wanted: wanted.filter(|wanted| !bounds.with_ties && is_fixed(wanted)),
        presorted: None,
    }
    .into()
}

/// Some of the rows.
pub(super) fn limited(input: Node, keys: Vec<SortKey>, bounds: Bounds) -> Node {
    if bounds.limit.is_none() && bounds.offset.is_none() {
        return input;
    }
    Limit {
        input,
        count: bounds.limit,
        offset: bounds.offset,
        ties: bounds.with_ties.then_some(keys),
    }
    .into()
}

fn with_types(columns: Vec<OutputColumn>, types: &[Type]) -> Vec<OutputColumn> {
    let columns = columns.into_iter().zip(types);
    columns
        .map(|(column, data_type)| OutputColumn {
            data_type: *data_type,
            ..column
        })
        .collect()
}

/// Fails if the second part of a recursive query has other types than the first.
fn check_step(name: &str, columns: &[OutputColumn], step: &[OutputColumn]) -> Result<()> {
    for (at, (column, found)) in columns.iter().zip(step).enumerate() {
        let common = common_kind("UNION", &[column.data_type.kind, found.data_type.kind])?;
        if common != column.data_type.kind {
            let message = format!(
                "recursive query \"{name}\" column {} has type {} in non-recursive term but type {} overall",
                at + 1,
                column.data_type,
                common
            );
            let hint = "Cast the output of the non-recursive term to the correct type.";
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).hint(hint));
        }
    }
    Ok(())
}

fn differing_widths(name: &str) -> SqlError {
    let message = format!("each {name} query must have the same number of columns");
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// Columns with the names of an alias, as far as it has names.
pub(super) fn renamed(
    mut columns: Vec<OutputColumn>,
    alias: &str,
    names: &[ast::TableAliasColumnDef],
) -> Result<Vec<OutputColumn>> {
    if names.len() > columns.len() {
        let message = format!(
            "table \"{alias}\" has {} columns available but {} columns specified",
            columns.len(),
            names.len()
        );
        return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
    }
    for (column, name) in columns.iter_mut().zip(names) {
        column.name = ident_text(&name.name);
    }
    Ok(columns)
}

/// Whether the count of `FETCH FIRST` is that of `LIMIT`.
fn is_of_limit(quantity: &ast::Expr) -> bool {
    let ast::Expr::Value(value) = quantity else {
        return false;
    };
    let ast::Value::SingleQuotedString(text) = &value.value else {
        return false;
    };
    mark_of(&ast::Ident::new(text)) == Some(FETCHED)
}

/// Whether an expression is the word `NULL`, in brackets or without.
fn is_null(tree: &ast::Expr) -> bool {
    match tree {
        ast::Expr::Nested(inside) => is_null(inside),
        ast::Expr::Value(value) => value.value == ast::Value::Null,
        _ => false,
    }
}

/// Whether a query names a table.
fn mentions(query: &Query, name: &str) -> bool {
    let mut found = false;
    super::from::tables_of(query, &mut |table| found |= table == name);
    found
}
