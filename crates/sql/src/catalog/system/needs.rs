//! Dependencies of types and texts: columns, fields and arguments on their types, and defaults,
//! checks and views on what they name.
//!
//! Names in texts are looked up as they stand now, since the catalogue keeps no list of them.

use super::rows::{
    CLASS, CONSTRAINT, DEFAULT, PROC, REWRITE, Rows, Sources, TYPE, default_oid, domain_check_oid,
    text,
};
use crate::catalog::{Body, Materialized, OWNER, Object, Oid, Rule, ViewBody, domain_of, is_typed};
use crate::error::{Result, SqlError};
use crate::types::{Datum, Kind, Type};
use sql_bind::{Binder, Resolved, object_scope};
use sql_parse::LineIndex;
use sqlparser::ast::Statement;
use std::collections::BTreeSet;

/// An object or a part of one: the relation of the catalogue that it is in, its number there, and a
/// column.
type Part = (Oid, Oid, i32);

/// Adds the rows of an object.
pub(super) fn of_texts_and_types(from: &Sources<'_>, object: &Object, rows: &mut Rows<'_>) {
    let oid = object.oid;
    let mut add = |part: Part, needed: Vec<Oid>| {
        for needed in needed {
            push(from, part, needed, rows);
        }
    };
    let named = |text: &String| from.named_by(object, text);
    match &object.body {
        Body::Table(table) => {
            for (at, column) in table.columns.iter().enumerate() {
                let domain = column.domain.map(domain_of);
                let typed = domain.or_else(|| defined(column.data_type));
                add((CLASS, oid, at as i32 + 1), typed.into_iter().collect());
                let texts = column
                    .expression()
                    .filter(|text| !text.starts_with("nextval('"));
                let needed = texts.map(|text| named(&text.to_owned()));
                add(
                    (DEFAULT, default_oid(oid, at), 0),
                    needed.unwrap_or_default(),
                );
            }
            for constraint in &table.constraints {
                if let Rule::Check { condition, .. } = &constraint.rule {
                    add((CONSTRAINT, constraint.oid, 0), named(condition));
                }
            }
            if let Some(Materialized { reads, .. }) = &table.materialized {
                add((REWRITE, oid, 0), reads.clone());
            }
        }
        Body::View(view) => of_view(from, (oid, view), rows),
        Body::Domain(domain) => {
            let elements = domain.elements.map(domain_of);
            let base = elements.or_else(|| defined(domain.base));
            add((TYPE, oid, 0), base.into_iter().collect());
            let default = domain.default.iter().flat_map(named).collect();
            add((TYPE, oid, 0), default);
            for (at, (_, condition)) in domain.checks.iter().enumerate() {
                add((CONSTRAINT, domain_check_oid(oid, at), 0), named(condition));
            }
        }
        Body::Composite(body) => {
            for (at, (_, data_type)) in body.fields.iter().enumerate() {
                let domain = body.field_domain(at).map(domain_of);
                let needed = domain.or_else(|| defined(*data_type));
                add((CLASS, oid, at as i32 + 1), needed.into_iter().collect());
            }
        }
        Body::Function(function) => {
            let arguments = function.arguments.iter().map(|(_, data_type)| *data_type);
            let types = arguments.chain([function.result]);
            let domains = function.domains.iter().filter(|domain| **domain != 0);
            let domains = domains.map(|domain| domain_of(*domain));
            let needed = types.filter_map(defined).chain(domains);
            add((PROC, oid, 0), needed.collect());
            let defaults = function.defaults.iter().flat_map(named).collect();
            add((PROC, oid, 0), defaults);
        }
        _ => {}
    }
}

/// A view needs the columns that it names, functions and types, and relations of which it names no
/// column.
fn of_view(from: &Sources<'_>, (oid, view): (Oid, &ViewBody), rows: &mut Rows<'_>) {
    let resolved = from.resolved_query(&view.query);
    let resolved = resolved.iter();
    let columns: BTreeSet<_> = resolved.clone().flat_map(Resolved::columns).collect();
    let named: BTreeSet<Oid> = resolved.flat_map(Resolved::objects).collect();
    for (table, at) in &columns {
        rows.push(need((REWRITE, oid, 0), (CLASS, *table, *at as i32 + 1)));
    }
    let has_columns = |read: &Oid| columns.iter().any(|(table, _)| table == read);
    let named = named.iter().chain(&view.reads).copied();
    for needed in named.collect::<BTreeSet<Oid>>() {
        if !has_columns(&needed) {
            push(from, (REWRITE, oid, 0), needed, rows);
        }
    }
}

/// The number of a type, if it is one of a user or an array of such.
fn defined(data_type: Type) -> Option<Oid> {
    match data_type.kind {
        Kind::Enum(_) | Kind::EnumArray(_) | Kind::Composite(_) | Kind::CompositeArray(_) => {
            Some(data_type.kind.oid())
        }
        _ => None,
    }
}

fn push(from: &Sources<'_>, (class, oid, column): Part, needed: Oid, rows: &mut Rows<'_>) {
    let object = from.names.catalog.object(needed);
    let is_type = matches!(class, CLASS | PROC | TYPE);
    let needed_class = match object.map(|object| &object.body) {
        Some(Body::Function(_)) => PROC,
        Some(Body::Enum(_) | Body::Domain(_) | Body::Composite(_)) => TYPE,
        // A column or an argument has the rows of a table, or an array.
        Some(Body::Table(_) | Body::View(_)) | None if is_type => TYPE,
        Some(Body::Table(_) | Body::View(_) | Body::Sequence(_)) => CLASS,
        None if is_typed(needed) => CLASS,
        _ => return,
    };
    // The columns of a table are no needs of its own checks.
    if needed_class == CLASS && needed == oid {
        return;
    }
    rows.push(need((class, oid, column), (needed_class, needed, 0)));
}

/// The row of a need.
fn need(own: Part, needed: Part) -> [(&'static str, Datum); 7] {
    [
        ("classid", Datum::Oid(own.0)),
        ("objid", Datum::Oid(own.1)),
        ("objsubid", Datum::Int4(own.2)),
        ("refclassid", Datum::Oid(needed.0)),
        ("refobjid", Datum::Oid(needed.1)),
        ("refobjsubid", Datum::Int4(needed.2)),
        ("deptype", text("n")),
    ]
}

impl Sources<'_> {
    fn named_by(&self, object: &Object, text: &str) -> Vec<Oid> {
        // A literal names nothing.
        if !text.contains(['(', ':', '.']) {
            return Vec::new();
        }
        let resolved = self.resolved(object, text);
        let mut found: Vec<Oid> = resolved.iter().flat_map(Resolved::objects).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    fn resolved(&self, object: &Object, text: &str) -> Result<Resolved> {
        let tree = sql_parse::parse_expression(text)?;
        let scope = object_scope(object)?;
        self.bound(text, |binder| {
            binder.resolved_expression((&tree, None), (scope, Some(object.oid)))
        })
    }

    fn resolved_query(&self, text: &str) -> Result<Resolved> {
        let parsed = sql_parse::parse_stored(text)?;
        match parsed.first().map(|parsed| &*parsed.statement) {
            Some(Statement::Query(query)) => self.bound(text, |binder| binder.resolved(query)),
            _ => Err(SqlError::internal("a view has a query")),
        }
    }

    fn bound<T>(&self, text: &str, body: impl FnOnce(&mut Binder<'_>) -> T) -> T {
        let mut names = self.names.clone();
        (names.role, names.has_all_rights) = (OWNER, true);
        let (database, places) = (self.session.sql.database(), LineIndex::new(text));
        body(&mut Binder::new(&names, database, self.context, &places))
    }
}
