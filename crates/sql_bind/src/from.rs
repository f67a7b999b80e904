//! `FROM`: tables, views, queries, functions, and joins of them.
//!
//! Each part has its rows and its scope. A lateral part sees the part before it as the next outer
//! row; others see only the queries around their own.

use super::lateral::{deepen, leave_left, reads_left};
use super::query::NamedRows;
use super::scope::{Clause, Scope, ScopeColumn};
use super::source::Source;
use super::{Binder, ident_text, object_name};
use crate::catalog::{Body, Object, Privilege};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Expr, Functions, Join, JoinKind, JoinMethod, Node, OutputColumn};
use crate::types::{Kind, Type};
use sql_parse::{Copied, ROWS_FROM, mark_of};
use sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, Ident, JoinConstraint, JoinOperator, Query, SetExpr,
    Spanned, TableAlias, TableFactor, TableWithJoins,
};
use std::sync::Arc;

impl Binder<'_> {
    /// All of `FROM`: its parts, each with all rows of those before it.
    pub(super) fn from(&mut self, parts: &[TableWithJoins]) -> Result<Source> {
        let mut whole: Option<Source> = None;
        for part in parts {
            whole = Some(match whole {
                None => self.with_joins(part)?,
                Some(left) => {
                    // A lateral part sees those before it.
                    let (right, left) = self.beside(left, |binder| binder.with_joins(part))?;
                    self.joined(left, right, (JoinKind::Inner, &JoinConstraint::None))?
                }
            });
        }
        Ok(whole.unwrap_or_else(Source::nothing))
    }

    /// Binds a part of `FROM` while the part on its left waits.
    fn beside(
        &mut self,
        left: Source,
        body: impl FnOnce(&mut Self) -> Result<Source>,
    ) -> Result<(Source, Source)> {
        self.lateral.push(left.scope);
        let right = body(self);
        let scope = self.lateral.pop().unwrap_or_default();
        Ok((
            right?,
            Source {
                node: left.node,
                scope,
            },
        ))
    }

    fn with_joins(&mut self, part: &TableWithJoins) -> Result<Source> {
        let mut left = self.factor(&part.relation)?;
        for join in &part.joins {
            let (kind, constraint) = join_of(&join.join_operator)?;
            let (right, kept) = self.beside(left, |binder| binder.factor(&join.relation))?;
            if let JoinConstraint::Natural = constraint {
                let names = common_names(&kept.scope, &right.scope);
                self.note_natural(join.relation.span(), &names);
            }
            left = self.joined(kept, right, (kind, constraint))?;
        }
        Ok(left)
    }

    /// Two parts, joined.
    fn joined(
        &mut self,
        mut left: Source,
        mut right: Source,
        (kind, constraint): (JoinKind, &JoinConstraint),
    ) -> Result<Source> {
        let is_lateral = reads_left(&mut right.node)?;
        if !is_lateral {
            leave_left(&mut right.node)?;
        }
        if is_lateral && matches!(kind, JoinKind::Right | JoinKind::Full) {
            let message = "the combining JOIN type must be INNER or LEFT for a LATERAL reference";
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        let names = match constraint {
            JoinConstraint::Using(names) | JoinConstraint::UsingAlias(names, _) => {
                let names = names
                    .iter()
                    .map(|name| object_name(name).map(|(_, name)| name));
                Some(names.collect::<Result<Vec<_>>>()?)
            }
            JoinConstraint::Natural => Some(common_names(&left.scope, &right.scope)),
            JoinConstraint::On(_) | JoinConstraint::None => None,
        };
        if matches!(kind, JoinKind::Left | JoinKind::Full) {
            right.make_optional();
        }
        if matches!(kind, JoinKind::Right | JoinKind::Full) {
            left.make_optional();
        }
        let left_width = left.scope.width;
        let mut scope = left.scope;
        scope.append(right.scope)?;
        if self.log.is_some() && scope.tables.iter().any(|table| table.common_name.is_some()) {
            let found = "a text that the catalogue keeps, with two tables of one name";
            return Err(SqlError::unsupported(found, "Give them other names."));
        }
        let mut condition = None;
        if let Some(names) = names {
            condition = self.merge_columns(&mut scope, left_width, &names, kind)?;
            if let JoinConstraint::UsingAlias(_, alias) = constraint {
                scope.name_merged(&ident_text(alias), names.len())?;
            }
        }
        if let JoinConstraint::On(tree) = constraint {
            let (mut on, lefts) = self.apart(|binder| {
                let (on, kept) = binder.within(std::mem::take(&mut scope), |binder| {
                    binder.scope().clause = Clause::JoinOn;
                    binder.condition(tree, "JOIN/ON")
                });
                scope = kept;
                on
            })?;
            on.walk(0, &mut deepen(lefts))?;
            condition = Some(on);
        }
        let method = if is_lateral {
            JoinMethod::Lateral
        } else {
            JoinMethod::Loop
        };
        let join = Join {
            kind,
            left: left.node,
            right: right.node,
            condition,
            method,
        };
        Ok(Source {
            node: join.into(),
            scope,
        })
    }

    /// Columns of `USING` appear once, before all others.
    fn merge_columns(
        &mut self,
        scope: &mut Scope,
        left_width: usize,
        names: &[String],
        kind: JoinKind,
    ) -> Result<Option<Expr>> {
        let mut conditions = Vec::new();
        let mut merged = Vec::new();
        for name in names {
            let side = |is_left: bool| {
                let mut found = (0..scope.columns.len()).filter(|at| {
                    let column = &scope.columns[*at];
                    let first = first_column(&column.expression);
                    column.is_visible && column.name == *name && (first < left_width) == is_left
                });
                match (found.next(), found.next()) {
                    (Some(at), None) => Ok(at),
                    (Some(_), Some(_)) => {
                        let side = if is_left { "left" } else { "right" };
                        let message = format!(
                            "common column name \"{name}\" appears more than once in {side} table"
                        );
                        Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message))
                    }
                    (None, _) => {
                        let side = if is_left { "left" } else { "right" };
                        let message = format!(
                            "column \"{name}\" specified in USING clause does not exist in {side} table"
                        );
                        Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
                    }
                }
            };
            let (left, right) = (side(true)?, side(false)?);
            self.note_merged(scope, [left, right]);
            let pair = [left, right].map(|at| scope.columns[at].expression.clone());
            conditions.push(self.operator("=", pair.to_vec())?);
            let [left_value, right_value] = pair;
            let (mut both, _) = self.unify("JOIN/USING", vec![left_value, right_value])?;
            let expression = match kind {
                JoinKind::Full => Expr::Coalesce(both),
                JoinKind::Right => both.swap_remove(1),
                _ => both.swap_remove(0),
            };
            for at in [left, right] {
                scope.columns[at].is_visible = false;
            }
            let origin = scope.columns[if kind == JoinKind::Right { right } else { left }].origin;
            merged.push(ScopeColumn {
                table: None,
                name: name.clone(),
                expression,
                is_visible: true,
                origin,
                fields: None,
            });
        }
        scope.columns.splice(0..0, merged);
        Ok((!conditions.is_empty()).then(|| Expr::all(conditions)))
    }

    fn factor(&mut self, factor: &TableFactor) -> Result<Source> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                sample: None,
                inheritance,
                ..
            } => {
                let bound = self
                    .apart(|binder| binder.relation(name, alias.as_ref(), inheritance.as_ref()));
                let (mut source, lefts) = bound.map_err(|error| self.at(name.span(), error))?;
                source.node.walk(0, &mut deepen(lefts))?;
                Ok(source)
            }
            TableFactor::Table {
                sample: Some(_), ..
            } => {
                let instead = "Use WHERE random() < fraction.";
                Err(SqlError::unsupported("TABLESAMPLE", instead))
            }
            TableFactor::Table {
                name,
                alias,
                args: Some(args),
                with_ordinality,
                ..
            } => self.called(name, &args.args, alias.as_ref(), *with_ordinality),
            TableFactor::Function {
                name,
                args,
                alias,
                with_ordinality,
                ..
            } => self.called(name, args, alias.as_ref(), *with_ordinality),
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_ordinality,
                ..
            } => self.unnest(array_exprs, alias.as_ref(), *with_ordinality),
            TableFactor::Derived {
                lateral,
                subquery,
                alias,
                ..
            } => self.derived(*lateral, subquery, alias.as_ref()),
            TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                let mut source = self.with_joins(table_with_joins)?;
                if let Some(alias) = alias {
                    source.scope = self.aliased_join(&source.scope, alias)?;
                }
                Ok(source)
            }
            other => {
                let instead = "Use a table, a query or a function.";
                Err(SqlError::unsupported(format!("{other} in FROM"), instead))
            }
        }
    }

    /// A join in brackets with a name of its own hides the names inside.
    fn aliased_join(&mut self, scope: &Scope, alias: &TableAlias) -> Result<Scope> {
        let name = ident_text(&alias.name);
        let columns: Vec<ScopeColumn> = scope.visible().cloned().collect();
        let outputs = columns.iter().map(|column| OutputColumn {
            name: column.name.clone(),
            data_type: column.expression.data_type(),
            table: column.origin.0,
            position: column.origin.1,
        });
        let outputs = super::query::renamed(outputs.collect(), &name, &alias.columns)?;
        let table: Arc<str> = name.as_str().into();
        let columns = columns
            .into_iter()
            .zip(outputs)
            .map(|(column, output)| ScopeColumn {
                table: Some(Arc::clone(&table)),
                name: output.name,
                ..column
            });
        let mut new = Scope {
            columns: columns.collect(),
            width: scope.width,
            ..Scope::default()
        };
        new.name_table(&name);
        Ok(new)
    }

    /// The rows of a query of `WITH` that is named here.
    fn named_rows(&self, name: &str, rows: NamedRows) -> Result<Node> {
        Ok(match rows {
            NamedRows::Shared(shared) => Node::Shared(shared),
            NamedRows::Working(working, scopes) if self.scopes.len() <= scopes => {
                Node::Working(working)
            }
            NamedRows::Nothing => {
                let message = format!("WITH query \"{name}\" does not have a RETURNING clause");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            NamedRows::Working(..) => {
                let message = format!(
                    "recursive reference to query \"{name}\" must not appear within a subquery"
                );
                return Err(SqlError::new(SqlState::INVALID_RECURSION, message));
            }
            NamedRows::Inline(mut node, scopes) => {
                let deeper = self.scopes.len().saturating_sub(scopes);
                node.walk(0, &mut |part, depth| {
                    if let Expr::Outer(level, ..) = part
                        && *level > depth
                    {
                        *level += deeper;
                    }
                    Ok(true)
                })?;
                node
            }
        })
    }

    /// A table, a view, or a query of `WITH`, by its name.
    fn relation(
        &mut self,
        written: &ast::ObjectName,
        alias: Option<&TableAlias>,
        marker: Option<&ast::TableInheritance>,
    ) -> Result<Source> {
        let (schema, name) = object_name(written)?;
        let shown = alias.map_or_else(|| name.clone(), |alias| ident_text(&alias.name));
        let names = alias.map_or(&[][..], |alias| alias.columns.as_slice());
        if schema.is_none()
            && let Some(named) = self
                .shared
                .iter()
                .rev()
                .find(|named| named.name == name)
                .cloned()
        {
            self.reach(named.levels)?;
            let node = self.named_rows(&name, named.rows)?;
            let columns = super::query::renamed(named.columns, &shown, names)?;
            let source = self.source_of(node, &shown, columns)?;
            return Ok(source.unlockable("a WITH query"));
        }
        if let Some(relation) = self.system_relation(schema.as_deref(), &name) {
            let mut source = self.system_rows(relation, &shown, names)?;
            source.name_schema(alias.map_or(relation.schema, |_| ""));
            return Ok(source);
        }
        let object = self
            .names
            .find(crate::catalog::Names::Relations, schema.as_deref(), &name);
        let object = object.cloned();
        let mut source = self.object_rows(written, (object.as_ref(), &shown), alias, marker)?;
        if let Some(object) = &object {
            let schema = self.names.schema_of(object);
            source.name_schema(alias.map_or(schema.as_str(), |_| ""));
        }
        Ok(source)
    }

    /// The rows of a table or a view that was found by its name.
    fn object_rows(
        &mut self,
        written: &ast::ObjectName,
        (object, shown): (Option<&Arc<Object>>, &str),
        alias: Option<&TableAlias>,
        marker: Option<&ast::TableInheritance>,
    ) -> Result<Source> {
        let (schema, name) = object_name(written)?;
        let names = alias.map_or(&[][..], |alias| alias.columns.as_slice());
        if let Some(object) = object {
            let known_as = alias.is_none().then_some(name.as_str());
            self.note_object(written, object.oid, known_as);
            self.note_read(object.oid);
            self.check_access(object, Privilege::Select.bit())?;
            self.check_locking(object, shown)?;
        }
        match object.map(|object| (object.oid, &object.body)) {
            Some((oid, Body::View(view))) => {
                let view = view.clone();
                self.pushed = self.locking_of(shown);
                let bound = self.view(oid, &name, &view)?;
                let columns = super::query::renamed(bound.columns, shown, names)?;
                let mut part = self.source_of(bound.node, shown, columns)?;
                if let Some(last) = part.scope.tables.last_mut() {
                    last.is_stored = true;
                    last.place = self.note_table(written, oid, alias);
                }
                Ok(part)
            }
            Some((oid, Body::Sequence(_))) => self.sequence_rows(oid, shown),
            _ => {
                let table = self.table(schema.as_deref(), &name)?;
                let view = table.body().materialized.as_ref();
                if view.is_some_and(|view| !view.is_populated) {
                    return self.unpopulated(&table, shown, names);
                }
                let oid = table.object.oid;
                let mut part = self.family_rows(table, alias, marker)?;
                if let Some(last) = part.scope.tables.last_mut() {
                    last.place = self.note_table(written, oid, alias);
                }
                Ok(part)
            }
        }
    }

    pub(super) fn source_of(
        &mut self,
        node: Node,
        alias: &str,
        columns: Vec<OutputColumn>,
    ) -> Result<Source> {
        let mut scope = Scope::default();
        let columns = columns.into_iter();
        let columns = columns.map(|column| {
            (
                column.name,
                column.data_type,
                (column.table, column.position),
            )
        });
        scope.add_table(alias, columns)?;
        for (at, column) in scope.columns.iter_mut().enumerate() {
            let kind = column.expression.kind();
            let is_text = matches!(kind, Kind::Text | Kind::Varchar | Kind::Unknown);
            if is_text && node.has_c_collation(at) {
                column.expression = column.expression.clone().collated();
            }
            if kind == Kind::Record {
                column.fields = node.fields(at);
            }
        }
        Ok(Source { node, scope })
    }

    /// A query in brackets. It sees the parts before it only if it is lateral.
    fn derived(
        &mut self,
        lateral: bool,
        query: &Query,
        alias: Option<&TableAlias>,
    ) -> Result<Source> {
        let name = alias.map(|alias| ident_text(&alias.name)).ok_or_else(|| {
            let message = "subquery in FROM must have an alias";
            SqlError::new(SqlState::SYNTAX_ERROR, message)
                .hint("For example, FROM (SELECT ...) [AS] foo.")
        })?;
        self.pushed = self.locking_of(&name);
        let bound = if lateral {
            self.lateral_part(|binder| binder.query(query))?
        } else {
            let (mut bound, lefts) = self.apart(|binder| binder.query(query))?;
            bound.node.walk(0, &mut deepen(lefts))?;
            bound
        };
        let names = alias.map_or(&[][..], |alias| alias.columns.as_slice());
        let columns = super::query::renamed(bound.columns, &name, names)?;
        self.source_of(bound.node, &name, columns)
    }

    fn unnest(
        &mut self,
        arrays: &[ast::Expr],
        alias: Option<&TableAlias>,
        ordinality: bool,
    ) -> Result<Source> {
        let name = ast::ObjectName::from(vec![Ident::new("unnest")]);
        let arguments: Vec<Vec<FunctionArg>> = arrays
            .iter()
            .map(|array| vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(array.copied()))])
            .collect();
        let calls: Vec<_> = arguments
            .iter()
            .map(|one| (&name, one.as_slice()))
            .collect();
        self.table_function(&calls, alias, ordinality)
    }

    /// A function in `FROM`, or those of `ROWS FROM`.
    fn called(
        &mut self,
        name: &ast::ObjectName,
        arguments: &[FunctionArg],
        alias: Option<&TableAlias>,
        ordinality: bool,
    ) -> Result<Source> {
        let is_list = matches!(name.0.as_slice(), [ast::ObjectNamePart::Identifier(one)]
            if mark_of(one) == Some(ROWS_FROM));
        if !is_list {
            if let Some(relation) = rows_as_function(name, arguments) {
                return self.relation(&relation, alias, None);
            }
            // Several arrays are several functions, one beside the other.
            let is_unnest = object_name(name)?.1 == "unnest";
            let calls: Vec<_> = match is_unnest && arguments.len() > 1 {
                true => arguments.chunks(1).map(|one| (name, one)).collect(),
                false => vec![(name, arguments)],
            };
            return self.table_function(&calls, alias, ordinality);
        }
        let calls = arguments.iter().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Function(call))) => {
                let own = match &call.args {
                    ast::FunctionArguments::List(list) => list.args.as_slice(),
                    _ => &[],
                };
                Ok((&call.name, own))
            }
            other => {
                let message = format!("syntax error at or near \"{other}\"");
                Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
            }
        });
        let calls = calls.collect::<Result<Vec<_>>>()?;
        self.table_function(&calls, alias, ordinality)
    }

    /// Functions in `FROM`.
    fn table_function(
        &mut self,
        calls: &[(&ast::ObjectName, &[FunctionArg])],
        alias: Option<&TableAlias>,
        has_ordinality: bool,
    ) -> Result<Source> {
        let first = calls
            .first()
            .map(|(name, _)| object_name(name))
            .transpose()?;
        let function = first.map_or_else(String::new, |(_, name)| name);
        let shown = alias.map_or_else(|| function.clone(), |alias| ident_text(&alias.name));
        let bound = self.lateral_part(|binder| {
            let mut bound = Vec::new();
            for (name, arguments) in calls {
                if let Some(call) = binder.record_call(name, arguments, alias)? {
                    bound.push(call);
                    continue;
                }
                let tree = call_tree(name, arguments);
                let (call, _) = binder.expression_in(Scope::default(), Clause::From, &tree);
                bound.push(call?);
            }
            Ok(bound)
        })?;
        let mut columns: Vec<(String, Type)> = Vec::new();
        let mut widths = Vec::new();
        for (call, (name, _)) in bound.iter().zip(calls) {
            let own = self.function_columns(call, &object_name(name)?.1);
            let is_row = matches!(call.kind(), Kind::Record | Kind::Composite(_));
            widths.push(is_row.then_some(own.len()));
            columns.extend(own);
        }
        if let [(name, _)] = columns.as_mut_slice()
            && let Some(own) = self.only_column(&function)
        {
            *name = own;
        }
        // A function of one column without a name of its own is named by its alias.
        if let ([(name, _)], Some(alias)) = (columns.as_mut_slice(), alias)
            && *name == function
        {
            *name = ident_text(&alias.name);
        }
        let is_value = widths == [None];
        if has_ordinality {
            columns.push(("ordinality".to_owned(), Kind::Int8.plain()));
        }
        let outputs =
            super::output_columns(columns.iter().map(|(name, one)| (name.as_str(), *one)));
        let names = alias.map_or(&[][..], |alias| alias.columns.as_slice());
        let outputs = super::query::renamed(outputs, &shown, names)?;
        let node = Functions {
            calls: bound.clone(),
            widths,
            has_ordinality,
        };
        let is_value = is_value && !has_ordinality;
        let node = self.with_domains(node.into(), alias, (&bound, &columns))?;
        let mut source = self.source_of(node, &shown, outputs)?;
        for table in &mut source.scope.tables {
            table.is_value = is_value;
        }
        Ok(source.unlockable("a function"))
    }
}

/// The tree of a call.
fn call_tree(name: &ast::ObjectName, arguments: &[FunctionArg]) -> ast::Expr {
    ast::Expr::Function(ast::Function {
        name: name.clone(),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.iter().map(Copied::copied).collect(),
            clauses: Vec::new(),
        }),
        within_group: Vec::new(),
        filter: None,
        null_treatment: None,
        over: None,
    })
}

/// The least column that an expression reads.
fn first_column(expression: &Expr) -> usize {
    let mut first = usize::MAX;
    expression.columns(&mut |at| first = first.min(at));
    first
}

/// Names of columns that both sides have.
fn common_names(left: &Scope, right: &Scope) -> Vec<String> {
    let names = left.visible().map(|column| column.name.clone());
    names
        .filter(|name| right.visible().any(|column| column.name == *name))
        .collect()
}

/// The kind of a join, and its condition.
fn join_of(operator: &JoinOperator) -> Result<(JoinKind, &JoinConstraint)> {
    Ok(match operator {
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => {
            (JoinKind::Inner, constraint)
        }
        JoinOperator::CrossJoin(constraint) => (JoinKind::Inner, constraint),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
            (JoinKind::Left, constraint)
        }
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
            (JoinKind::Right, constraint)
        }
        JoinOperator::FullOuter(constraint) => (JoinKind::Full, constraint),
        _ => {
            let instead = "Use INNER, LEFT, RIGHT, FULL or CROSS JOIN.";
            return Err(SqlError::unsupported("this kind of join", instead));
        }
    })
}

/// Calls `note` with the names of the tables that a query names in `FROM`. Its own queries of
/// `WITH` are none.
pub(super) fn tables_of(query: &Query, note: &mut dyn FnMut(&str)) {
    let Some(with) = &query.with else {
        return tables_of_body(&query.body, note);
    };
    let mut known: Vec<String> = Vec::new();
    for cte in &with.cte_tables {
        let name = ident_text(&cte.alias.name);
        if with.recursive {
            known.push(name.clone());
        }
        tables_of(&cte.query, &mut |table| {
            if !known.iter().any(|known| known == table) {
                note(table);
            }
        });
        known.push(name);
    }
    tables_of_body(&query.body, &mut |table| {
        if !known.iter().any(|known| known == table) {
            note(table);
        }
    });
}

fn tables_of_body(body: &SetExpr, note: &mut dyn FnMut(&str)) {
    match body {
        SetExpr::Select(select) => {
            for part in &select.from {
                tables_of_factor(&part.relation, note);
                for join in &part.joins {
                    tables_of_factor(&join.relation, note);
                }
            }
        }
        SetExpr::Query(query) => tables_of(query, note),
        SetExpr::SetOperation { left, right, .. } => {
            tables_of_body(left, note);
            tables_of_body(right, note);
        }
        _ => {}
    }
}

fn tables_of_factor(factor: &TableFactor, note: &mut dyn FnMut(&str)) {
    match factor {
        TableFactor::Table { name, .. } => {
            if let Ok((None, name)) = object_name(name) {
                note(&name);
            }
        }
        TableFactor::Derived { subquery, .. } => tables_of(subquery, note),
        TableFactor::NestedJoin {
            table_with_joins, ..
        } => {
            tables_of_factor(&table_with_joins.relation, note);
            for join in &table_with_joins.joins {
                tables_of_factor(&join.relation, note);
            }
        }
        _ => {}
    }
}

/// The relation of the system that a function without arguments has the rows of.
fn rows_as_function(name: &ast::ObjectName, arguments: &[FunctionArg]) -> Option<ast::ObjectName> {
    let relation = match object_name(name).ok()? {
        (None, name) => name,
        (Some(schema), name) if schema == "pg_catalog" => name,
        _ => return None,
    };
    let relation = match relation.as_str() {
        "pg_show_all_settings" => "pg_settings",
        "pg_available_extensions" => "pg_available_extensions",
        _ => return None,
    };
    let parts = vec![Ident::new("pg_catalog"), Ident::new(relation)];
    arguments.is_empty().then(|| ast::ObjectName::from(parts))
}
