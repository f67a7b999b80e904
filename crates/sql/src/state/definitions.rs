//! Texts of definitions: constraints, indexes, views and expressions, as `pg_get_...` returns them.
//!
//! They are made from the catalogue when they are asked for, never kept. psql's `\d`, dumps and
//! object-relational mappers read them back, so their form is PostgreSQL's. An expression that can
//! no longer be understood is printed as it was written.

use crate::catalog::{
    Action, Body, Column, Deferral, Foreign, Index, Object, Oid, Rule, TableBody, domain_check,
    domain_of, typed_by_oid,
};
use crate::error::Result;
use crate::plan::Expr;
use crate::types::{Context, Kind, Type};
use indelible::Database;
use sql_bind::{Binder, KEPT_CALLS, KeptCall, row_scope};
use sql_bind::{SessionNames, quoted};
use sql_parse::LineIndex;
use sql_plan::print::Printer;

/// Everything that texts of definitions are made of.
#[derive(Clone, Copy)]
pub(crate) struct Definitions<'d> {
    pub(crate) names: &'d SessionNames,
    pub(crate) database: &'d Database,
    pub(crate) context: Context<'d>,
    /// Whether brackets that are not needed are left out.
    pub(crate) pretty: bool,
}

impl Definitions<'_> {
    /// The definition of a constraint.
    pub(crate) fn constraint(&self, oid: Oid) -> Option<String> {
        let typed = typed_by_oid(self.database, oid);
        if let Some(Body::Table(table)) = typed.as_ref().map(|object| &object.body) {
            return Some(format!("PRIMARY KEY ({})", list(table, &table.key)));
        }
        let catalog = &self.names.catalog;
        let Some((object, constraint)) = catalog.constraint(oid) else {
            let (object, at) = domain_check(catalog, oid)?;
            let Body::Domain(domain) = &object.body else {
                return None;
            };
            let (name, condition) = domain.checks.get(at)?;
            let check = check_of(&self.check(object, condition));
            return Some(match domain.unproven.contains(name) {
                true => format!("{check} NOT VALID"),
                false => check,
            });
        };
        let Body::Table(table) = &object.body else {
            return None;
        };
        let rule = match &constraint.rule {
            Rule::Primary { columns, .. } => {
                let included = table.included_with(&constraint.name);
                format!(
                    "PRIMARY KEY {}",
                    with_included(table, &list(table, columns), included)
                )
            }
            Rule::Unique { columns, .. } => {
                let included = table.included_with(&constraint.name);
                let mut indexes = table.indexes.iter();
                let is_alike = indexes
                    .any(|index| index.name == constraint.name && table.alike.contains(&index.oid));
                let nulls = if is_alike { "NULLS NOT DISTINCT " } else { "" };
                let columns = with_included(table, &list(table, columns), included);
                format!("UNIQUE {nulls}{columns}")
            }
            Rule::Check { condition } => {
                let is_alone = table.alone.contains(&constraint.oid);
                let alone = if is_alone { " NO INHERIT" } else { "" };
                check_of(&self.check(object, condition)) + alone
            }
            Rule::Foreign(foreign) => self.reference(table, foreign),
        };
        let deferral = match constraint.rule.deferral() {
            Deferral::Never => "",
            Deferral::Possible => " DEFERRABLE",
            Deferral::Initial => " DEFERRABLE INITIALLY DEFERRED",
        };
        let is_unproven = table.unproven.contains(&constraint.oid);
        let proof = if is_unproven { " NOT VALID" } else { "" };
        Some(format!("{rule}{deferral}{proof}"))
    }

    fn reference(&self, table: &TableBody, foreign: &Foreign) -> String {
        let parent = self.names.catalog.object(foreign.parent);
        let target = parent.map(|parent| {
            let columns = match &parent.body {
                Body::Table(body) => list(body, &foreign.parent_columns),
                _ => String::new(),
            };
            format!("{}({columns})", self.names.visible_name(parent))
        });
        let action = |event: &str, action: Action| match action {
            Action::Nothing => String::new(),
            Action::Restrict => format!(" ON {event} RESTRICT"),
            Action::Cascade => format!(" ON {event} CASCADE"),
            Action::SetNull => format!(" ON {event} SET NULL"),
            Action::SetDefault => format!(" ON {event} SET DEFAULT"),
        };
        let set = match foreign.set_on_delete.as_slice() {
            [] => String::new(),
            columns => format!(" ({})", list(table, columns)),
        };
        format!(
            "FOREIGN KEY ({}) REFERENCES {}{}{}{}{set}",
            list(table, &foreign.columns),
            target.unwrap_or_default(),
            if foreign.is_full { " MATCH FULL" } else { "" },
            action("UPDATE", foreign.on_update),
            action("DELETE", foreign.on_delete),
        )
    }

    /// The definition of an index, or of one of its columns from 1.
    pub(crate) fn index(&self, oid: Oid, column: usize) -> Option<String> {
        let typed = typed_by_oid(self.database, oid);
        let object = match &typed {
            Some(object) => object,
            None => self.names.catalog.index(oid)?.0,
        };
        let Body::Table(table) = &object.body else {
            return None;
        };
        let index = table.indexes.iter().find(|index| index.oid == oid)?;
        let mut keys = self.index_keys(object, table, index);
        if let Some(at) = column.checked_sub(1) {
            let included = table.included_of(oid).iter();
            keys.extend(included.map(|at| list(table, &[*at])));
            return Some(keys.into_iter().nth(at).unwrap_or_default());
        }
        let name = if self.pretty {
            self.names.visible_name(object)
        } else {
            self.full_name(object)
        };
        let form = table.form(index.oid);
        let predicate = form.and_then(|form| form.predicate.as_ref());
        let predicate = predicate.map_or_else(String::new, |text| {
            let columns = columns_of(object);
            let bound = self.bound(object, text, Some(Kind::Bool.plain()));
            format!(" WHERE {}", self.printed(bound, &columns, text))
        });
        Some(format!(
            "CREATE {}INDEX {} ON {}{name} USING btree {}{predicate}",
            if index.is_unique { "UNIQUE " } else { "" },
            quoted(&index.name),
            if table.lineage.scheme.is_some() {
                "ONLY "
            } else {
                ""
            },
            index_columns(table, index, &keys)
        ))
    }

    /// The keys of an index: a name and a call need no brackets.
    fn index_keys(&self, object: &Object, table: &TableBody, index: &Index) -> Vec<String> {
        let Some(form) = table.form(index.oid) else {
            return index.columns.iter().map(|at| list(table, &[*at])).collect();
        };
        let columns = columns_of(object);
        let keys = form.keys.iter().map(|key| {
            let bound = self.bound(object, key, None);
            let is_bare = matches!(&bound, Ok((expression, _)) if looks_like_call(expression));
            let printed = self.printed(bound, &columns, key);
            match is_bare {
                true => printed,
                false => format!("({printed})"),
            }
        });
        keys.collect()
    }

    /// The query of a view.
    pub(crate) fn view(&self, oid: Oid) -> Option<String> {
        match &self.names.catalog.object(oid)?.body {
            Body::View(view) => Some(format!(" {};", sql_bind::shown(&view.query))),
            Body::Table(table) => {
                let view = table.materialized.as_ref()?;
                Some(format!(" {};", sql_bind::shown(&view.query)))
            }
            _ => None,
        }
    }

    fn full_name(&self, object: &Object) -> String {
        let schema = self.names.catalog.object(object.namespace);
        let schema = schema.map_or_else(String::new, |schema| quoted(&schema.name));
        format!("{schema}.{}", quoted(&object.name))
    }

    /// A condition over the columns of a table, or over `VALUE` of a domain.
    pub(crate) fn check(&self, object: &Object, condition: &str) -> String {
        let columns = columns_of(object);
        let bound = self.bound(object, condition, Some(Kind::Bool.plain()));
        self.printed(bound, &columns, condition)
    }

    /// The columns that a condition over a table reads.
    pub(crate) fn columns_read(&self, object: &Object, condition: &str) -> Vec<usize> {
        let mut read = Vec::new();
        if let Ok((bound, calls)) = self.bound(object, condition, None) {
            let arguments = calls.iter().flat_map(|call| &call.arguments);
            for expression in arguments.chain([&bound]) {
                expression.columns(&mut |at| {
                    if at < KEPT_CALLS && !read.contains(&at) {
                        read.push(at);
                    }
                });
            }
        }
        read.sort_unstable();
        read
    }

    /// The default of a column, or the expression that it is generated by.
    pub(crate) fn default(&self, object: &Object, column: &Column, expression: &str) -> String {
        let columns = columns_of(object);
        let wanted = column.data_type.kind.plain();
        self.printed(
            self.bound(object, expression, Some(wanted)),
            &columns,
            expression,
        )
    }

    /// An expression without columns, as a value of a type.
    pub(crate) fn value(&self, text: &str, data_type: Type) -> String {
        let places = LineIndex::default();
        let mut binder = Binder::new(self.names, self.database, self.context, &places);
        binder.keep_calls();
        let bound = row_scope("", [])
            .and_then(|scope| binder.stored_value(text, scope, Some((data_type.kind.plain(), ""))))
            .map(|bound| (bound, binder.kept_calls()));
        self.printed(bound, &[], text)
    }

    /// An expression that one of these functions has printed, in the other form.
    pub(crate) fn reprinted(&self, text: &str, relation: Oid) -> String {
        match self.names.catalog.object(relation) {
            Some(object) if self.pretty => {
                self.printed(self.bound(object, text, None), &columns_of(object), text)
            }
            _ => text.to_owned(),
        }
    }

    fn bound(&self, object: &Object, text: &str, wanted: Option<Type>) -> Result<Bound> {
        let places = LineIndex::default();
        let mut binder = Binder::new(self.names, self.database, self.context, &places);
        binder.keep_calls();
        let columns = match &object.body {
            Body::Table(table) => table
                .columns
                .iter()
                .map(|column| (column.name.clone(), column.data_type))
                .collect(),
            Body::View(view) => view.columns.clone(),
            Body::Domain(domain) => vec![("value".to_owned(), domain.base)],
            _ => Vec::new(),
        };
        let scope = row_scope(&object.name, columns)?;
        let bound = binder.stored_value(text, scope, wanted.map(|wanted| (wanted, "")))?;
        Ok((bound, binder.kept_calls()))
    }

    fn printed(&self, bound: Result<Bound>, columns: &[String], written: &str) -> String {
        let text = bound.and_then(|(bound, calls)| self.print(&bound, (columns, &calls)));
        text.unwrap_or_else(|_| written.to_owned())
    }

    /// Prints an expression over a row whose columns are followed by calls that were kept.
    fn print(&self, expression: &Expr, row: (&[String], &[KeptCall])) -> Result<String> {
        self.with_printer(row, &|printer| printer.print(expression))
    }

    fn with_printer(
        &self,
        row: (&[String], &[KeptCall]),
        print: &dyn Fn(&Printer<'_>) -> Result<String>,
    ) -> Result<String> {
        let (columns, calls) = row;
        let call_text = |call: &KeptCall| {
            let arguments = self.with_printer(row, &|printer| printer.arguments(&call.arguments));
            if self.names.catalog.below(domain_of(call.function)).is_some() {
                let domain = self.names.type_text(call.function);
                let (value, domain) = (arguments.unwrap_or_default(), domain.unwrap_or_default());
                return format!("({value})::{domain}");
            }
            let function = self.names.catalog.object(call.function);
            let name = function.map(|function| self.names.visible_name(function));
            format!(
                "{}({})",
                name.unwrap_or_default(),
                arguments.unwrap_or_default()
            )
        };
        let column = |at: usize| match at.checked_sub(KEPT_CALLS).and_then(|at| calls.get(at)) {
            Some(call) => call_text(call),
            None => columns.get(at).cloned().unwrap_or_default(),
        };
        print(&Printer {
            context: self.context,
            column: &column,
            pretty: self.pretty,
        })
    }
}

/// An expression, and the calls of functions of users in it.
type Bound = (Expr, Vec<KeptCall>);

/// Whether an expression is printed as a call is, which needs no brackets as a key.
fn looks_like_call(expression: &Expr) -> bool {
    match expression {
        Expr::Column(..) | Expr::Coalesce(_) | Expr::Extreme(..) => true,
        Expr::Call(call) => !call.is_operator && call.function.name != "array_subscript",
        _ => false,
    }
}

fn check_of(condition: &str) -> String {
    format!("CHECK ({condition})")
}

/// The names of the columns that an expression of an object reads, as they are printed.
fn columns_of(object: &Object) -> Vec<String> {
    match &object.body {
        Body::Table(table) => table.columns.iter().map(|one| quoted(&one.name)).collect(),
        Body::View(view) => view.columns.iter().map(|(name, _)| quoted(name)).collect(),
        Body::Domain(_) => vec!["VALUE".to_owned()],
        _ => Vec::new(),
    }
}

/// Names of the columns of an index: one that is there already gets a number.
pub(crate) fn distinct_names(wanted: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for wanted in wanted {
        let numbered = (1..).map(|number| format!("{wanted}{number}"));
        let mut names_of = std::iter::once(wanted.clone()).chain(numbered);
        let free = names_of.find(|name| !names.contains(name));
        names.extend(free);
    }
    names
}

/// The keys of an index in their order, and the columns of INCLUDE.
pub(crate) fn index_columns(table: &TableBody, index: &Index, keys: &[String]) -> String {
    let columns = keys.iter().zip(&index.options);
    let columns = columns.map(|(key, (descends, nulls_first))| {
        let order = match (descends, nulls_first) {
            (false, false) => "",
            (false, true) => " NULLS FIRST",
            (true, true) => " DESC",
            (true, false) => " DESC NULLS LAST",
        };
        format!("{key}{order}")
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    let columns = with_included(table, &columns, table.included_of(index.oid));
    if table.alike.contains(&index.oid) {
        return columns + " NULLS NOT DISTINCT";
    }
    columns
}

/// Columns of a key in brackets, and those of INCLUDE.
fn with_included(table: &TableBody, columns: &str, included: &[usize]) -> String {
    match included {
        [] => format!("({columns})"),
        included => format!("({columns}) INCLUDE ({})", list(table, included)),
    }
}

fn list(table: &TableBody, columns: &[usize]) -> String {
    let name = |at: &usize| {
        table
            .columns
            .get(*at)
            .map_or_else(String::new, |column| quoted(&column.name))
    };
    columns.iter().map(name).collect::<Vec<_>>().join(", ")
}
