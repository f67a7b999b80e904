//! `SEARCH` and `CYCLE` of recursive queries, in terms of other queries as the standard does it.
//!
//! The query gets columns of its own for the path or the depth of each row. Its parts become
//! queries around those of the statement, written as text and read again.

use super::{Binder, ident_text, object_name};
use crate::error::{Result, SqlError, SqlState};
use crate::names::quoted;
use crate::types::text_io::append;
use sql_parse::{CYCLE, Copied, SEARCH, mark_of};
use sqlparser::ast::{
    Cte, Expr as Tree, Ident, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    SetOperator, Statement, TableAlias, TableFactor, TableWithJoins, Value,
};

/// `SEARCH DEPTH FIRST BY columns SET sequence`.
struct Search {
    is_depth: bool,
    sequence: String,
    columns: Vec<String>,
}

/// `CYCLE columns SET mark TO value DEFAULT value USING path`.
struct Cycle {
    mark: String,
    path: String,
    to: String,
    default: String,
    columns: Vec<String>,
}

/// The clauses of a query.
#[derive(Default)]
struct Clauses {
    search: Option<Search>,
    cycle: Option<Cycle>,
}

/// Whether a query of `WITH` has one of the clauses.
pub(super) fn has_clauses(query: &Query) -> bool {
    let queries = query.with.iter().flat_map(|with| &with.cte_tables);
    let mut marks = queries.filter_map(|cte| mark_of(&cte.alias.name));
    marks.any(|mark| mark == SEARCH || mark == CYCLE)
}

/// Takes the clauses out of a query.
fn take_clauses(query: &mut Query) -> Result<Clauses> {
    let mut clauses = Clauses::default();
    let Some(with) = &mut query.with else {
        return Ok(clauses);
    };
    let mut kept = Vec::new();
    for cte in std::mem::take(&mut with.cte_tables) {
        let broken = || SqlError::internal("a clause of a recursive query");
        let mark = mark_of(&cte.alias.name).map(str::to_owned);
        match mark.as_deref() {
            Some(SEARCH) => {
                let values = values_of(&cte.query).ok_or_else(broken)?;
                let [order, sequence, columns @ ..] = values.as_slice() else {
                    return Err(broken());
                };
                clauses.search = Some(Search {
                    is_depth: name_of(order) == "depth",
                    sequence: name_of(sequence),
                    columns: columns.iter().map(|one| name_of(one)).collect(),
                });
            }
            Some(CYCLE) => {
                let values = values_of(&cte.query).ok_or_else(broken)?;
                let [mark, path, to, default, columns @ ..] = values.as_slice() else {
                    return Err(broken());
                };
                clauses.cycle = Some(Cycle {
                    mark: name_of(mark),
                    path: name_of(path),
                    to: to.to_string(),
                    default: default.to_string(),
                    columns: columns.iter().map(|one| name_of(one)).collect(),
                });
            }
            _ => kept.push(cte),
        }
    }
    with.cte_tables = kept;
    query.with = query.with.take().filter(|with| !with.cte_tables.is_empty());
    Ok(clauses)
}

fn values_of(query: &Query) -> Option<Vec<&Tree>> {
    let SetExpr::Select(select) = &*query.body else {
        return None;
    };
    let items = select.projection.iter().map(|item| match item {
        SelectItem::UnnamedExpr(tree) => Some(tree),
        _ => None,
    });
    items.collect()
}

fn name_of(tree: &Tree) -> String {
    match tree {
        Tree::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.replace("''", "'"),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

fn list(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    quoted.join(", ")
}

fn syntax(message: String) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

fn not_here(message: &str) -> SqlError {
    let message = format!("with a SEARCH or CYCLE clause, {message}");
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

impl Clauses {
    /// Fails if a name of the clauses is not one of the columns, or is there twice.
    fn check(&self, columns: &[String]) -> Result<()> {
        let check_list = |kind: &str, list: &[String]| {
            for (at, name) in list.iter().enumerate() {
                if !columns.contains(name) {
                    let message = "not in WITH query column list";
                    return Err(syntax(format!("{kind} column \"{name}\" {message}")));
                }
                if list[..at].contains(name) {
                    let message = format!("{kind} column \"{name}\" specified more than once");
                    return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                }
            }
            Ok(())
        };
        let check_new = |what: &str, name: &String| match columns.contains(name) {
            true => Err(syntax(format!(
                "{what} column name \"{name}\" already used in WITH query column list"
            ))),
            false => Ok(()),
        };
        let same = |one: &str, other: &str| {
            syntax(format!(
                "{one} column name and {other} column name are the same"
            ))
        };
        if let Some(search) = &self.search {
            check_list("search", &search.columns)?;
            check_new("search sequence", &search.sequence)?;
        }
        if let Some(cycle) = &self.cycle {
            check_list("cycle", &cycle.columns)?;
            check_new("cycle mark", &cycle.mark)?;
            check_new("cycle path", &cycle.path)?;
            if cycle.mark == cycle.path {
                return Err(same("cycle mark", "cycle path"));
            }
        }
        match (&self.search, &self.cycle) {
            (Some(search), Some(cycle)) if search.sequence == cycle.mark => {
                Err(same("search sequence", "cycle mark"))
            }
            (Some(search), Some(cycle)) if search.sequence == cycle.path => {
                Err(same("search sequence", "cycle path"))
            }
            _ => Ok(()),
        }
    }

    /// The columns that the query gets.
    fn own_columns(&self) -> Vec<String> {
        let search = self.search.iter().map(|search| search.sequence.clone());
        let cycle = self.cycle.iter();
        let cycle = cycle.flat_map(|cycle| [cycle.mark.clone(), cycle.path.clone()]);
        search.chain(cycle).collect()
    }

    /// The query around both parts.
    fn text(&self, name: &str, columns: &[String], parts: (&str, &str, &str)) -> String {
        let (left, union, right) = parts;
        let own = self.own_columns();
        let (mut first, mut next, mut shown) = (String::new(), String::new(), String::new());
        let mut end = String::new();
        if let Some(search) = &self.search {
            let (row, sequence) = (list(&search.columns), quoted(&search.sequence));
            if search.is_depth {
                first = format!(", ARRAY[ROW({row})]");
                next = format!(", {sequence} || ROW({row})");
                shown = format!(", {sequence}");
            } else {
                first.push_str(", 0::bigint");
                next = format!(", {sequence} + 1");
                shown = format!(", ROW({sequence}, {row}) AS {sequence}");
            }
        }
        if let Some(cycle) = &self.cycle {
            let (row, mark, path) = (
                list(&cycle.columns),
                quoted(&cycle.mark),
                quoted(&cycle.path),
            );
            let (to, default) = (&cycle.to, &cycle.default);
            append(
                &mut first,
                format_args!(", CASE WHEN false THEN {to} ELSE {default} END, ARRAY[ROW({row})]"),
            );
            append(
                &mut next,
                format_args!(
                    ", CASE WHEN ROW({row}) = ANY ({path}) THEN {to} ELSE {default} END, {path} || ROW({row})"
                ),
            );
            append(&mut shown, format_args!(", {mark}, {path}"));
            end = format!(" WHERE {mark} <> {to}");
        }
        let (name, columns, own) = (quoted(name), list(columns), list(&own));
        format!(
            "WITH RECURSIVE {name}({columns}, {own}) AS (SELECT {columns}{first} FROM ({left}) AS \"left\"({columns}) {union} SELECT {columns}{next} FROM ({right}) AS \"right\"({columns}, {own}){end}) SELECT {columns}{shown} FROM {name}"
        )
    }
}

impl Binder<'_> {
    /// A query of `WITH RECURSIVE` with `SEARCH` or `CYCLE`, as one without them.
    pub(super) fn searched(&mut self, cte: &Cte, name: &str) -> Result<Cte> {
        let mut query = cte.query.as_ref().copied();
        let clauses = take_clauses(&mut query)?;
        let SetExpr::SetOperation {
            op: SetOperator::Union,
            set_quantifier,
            left,
            right,
        } = &*query.body
        else {
            return Err(syntax("WITH query is not recursive".to_owned()));
        };
        if matches!(**left, SetExpr::SetOperation { .. } | SetExpr::Query(_)) {
            return Err(not_here("the left side of the UNION must be a SELECT"));
        }
        let SetExpr::Select(step) = &**right else {
            let message = match &**right {
                SetExpr::Query(query) if query.with.is_some() => return Err(not_at_top(name)),
                SetExpr::Query(query) if matches!(*query.body, SetExpr::SetOperation { .. }) => {
                    let error = not_here("the right side of the UNION must be a SELECT");
                    return Err(syntax(error.message));
                }
                _ => "the right side of the UNION must be a SELECT",
            };
            return Err(not_here(message));
        };
        if query.with.is_some() {
            let instead = "Move it to the WITH of the statement.";
            return Err(SqlError::unsupported(
                "WITH before SEARCH or CYCLE",
                instead,
            ));
        }
        let given = cte.alias.columns.iter();
        let mut columns: Vec<String> = given.map(|column| ident_text(&column.name)).collect();
        let first = Query {
            body: left.copied(),
            ..query.copied()
        };
        let bound = self.query(&first)?;
        for column in bound.columns.iter().skip(columns.len()) {
            columns.push(column.name.clone());
        }
        clauses.check(&columns)?;
        let step = step_with(step, name, &columns, &clauses.own_columns())?;
        let union = format!("UNION {set_quantifier}");
        let parts = (&*left.to_string(), &*union, &*step.to_string());
        let text = clauses.text(name, &columns, parts);
        let parsed = sql_parse::parse_stored(&text)?;
        let Some(Statement::Query(written)) = parsed.first().map(|parsed| &*parsed.statement)
        else {
            return Err(SqlError::internal("the text of a recursive query"));
        };
        Ok(Cte {
            alias: TableAlias {
                columns: Vec::new(),
                ..cte.alias.clone()
            },
            query: written.copied(),
            ..cte.copied()
        })
    }
}

fn not_at_top(name: &str) -> SqlError {
    not_here(&format!(
        "the recursive reference to WITH query \"{name}\" must be at the top level of its right-hand SELECT"
    ))
}

/// The second part of a recursive query, which hands on the columns of its clauses.
fn step_with(select: &Select, name: &str, columns: &[String], own: &[String]) -> Result<Select> {
    let mut tables = Vec::new();
    for part in &select.from {
        aliases(part, name, &mut tables)?;
    }
    let Some((alias, _)) = tables.iter().find(|(_, is_own)| *is_own) else {
        return Err(not_at_top(name));
    };
    let column = |table: &str, column: &String| {
        let names = [table, column].map(|name| Ident::with_quote('"', name));
        SelectItem::UnnamedExpr(Tree::CompoundIdentifier(names.to_vec()))
    };
    let mut items = Vec::with_capacity(select.projection.len() + own.len());
    for item in &select.projection {
        match item {
            SelectItem::Wildcard(options) => {
                for (table, is_own) in &tables {
                    if *is_own {
                        items.extend(columns.iter().map(|one| column(table, one)));
                        continue;
                    }
                    let table = vec![Ident::with_quote('"', table)].into();
                    let kind = SelectItemQualifiedWildcardKind::ObjectName(table);
                    items.push(SelectItem::QualifiedWildcard(kind, options.copied()));
                }
            }
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(table),
                _,
            ) if object_name(table)?.1 == *alias => {
                items.extend(columns.iter().map(|one| column(alias, one)));
            }
            other => items.push(other.copied()),
        }
    }
    items.extend(own.iter().map(|one| column(alias, one)));
    Ok(Select {
        projection: items,
        ..select.copied()
    })
}

/// The names of tables of FROM, and whether they are the rows of the round before.
fn aliases(part: &TableWithJoins, own: &str, found: &mut Vec<(String, bool)>) -> Result<()> {
    let joined = part.joins.iter().map(|join| &join.relation);
    for factor in std::iter::once(&part.relation).chain(joined) {
        match factor {
            TableFactor::Table { name, alias, .. } => {
                let (schema, name) = object_name(name)?;
                let is_own = schema.is_none() && name == own;
                let alias = alias.as_ref().map(|alias| ident_text(&alias.name));
                found.push((alias.unwrap_or(name), is_own));
            }
            TableFactor::Derived { alias, .. } => {
                let alias = alias.as_ref().map(|alias| ident_text(&alias.name));
                found.push((alias.unwrap_or_default(), false));
            }
            TableFactor::NestedJoin {
                table_with_joins, ..
            } => aliases(table_with_joins, own, found)?,
            _ => {}
        }
    }
    Ok(())
}

/// The text of a view's query for people, with the clauses where they belong.
pub fn shown(text: &str) -> String {
    let unmarked = |text: &str| sql_parse::shown_text(text).replace(sql_parse::MARK, "");
    if !text.contains(sql_parse::MARK) {
        return sql_parse::shown_text(text);
    }
    let plain = || unmarked(text);
    let parsed = sql_parse::parse_stored(text).unwrap_or_default();
    let Some(Statement::Query(query)) = parsed.first().map(|parsed| &*parsed.statement) else {
        return plain();
    };
    let mut query = query.as_ref().copied();
    let Some(with) = query.with.take() else {
        return plain();
    };
    let mut queries = Vec::new();
    for mut cte in with.cte_tables {
        let Ok(clauses) = take_clauses(&mut cte.query) else {
            return plain();
        };
        let mut text = cte.to_string();
        if let Some(search) = &clauses.search {
            let order = if search.is_depth { "DEPTH" } else { "BREADTH" };
            let (columns, sequence) = (list(&search.columns), quoted(&search.sequence));
            append(
                &mut text,
                format_args!(" SEARCH {order} FIRST BY {columns} SET {sequence}"),
            );
        }
        if let Some(cycle) = &clauses.cycle {
            let (columns, mark) = (list(&cycle.columns), quoted(&cycle.mark));
            let (to, default, path) = (&cycle.to, &cycle.default, quoted(&cycle.path));
            append(
                &mut text,
                format_args!(" CYCLE {columns} SET {mark} TO {to} DEFAULT {default} USING {path}"),
            );
        }
        queries.push(text);
    }
    let queries = queries.join(", ");
    unmarked(&format!("WITH RECURSIVE {queries} {query}"))
}
