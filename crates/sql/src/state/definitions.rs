//! Texts of definitions: constraints, indexes and views, as `pg_get_...def` returns them.
//!
//! They are made from the catalogue when they are asked for, never kept. psql's `\d`, dumps and
//! object-relational mappers read them back, so their form is PostgreSQL's.

use super::names::{SessionNames, quoted};
use crate::catalog::{Action, Body, Foreign, Object, Oid, Rule, TableBody};

/// The definition of a constraint.
pub(super) fn constraint(names: &SessionNames, oid: Oid) -> Option<String> {
    names.catalog.objects().find_map(|object| {
        let Body::Table(table) = &object.body else {
            return None;
        };
        let constraint = table
            .constraints
            .iter()
            .find(|constraint| constraint.oid == oid)?;
        Some(match &constraint.rule {
            Rule::Primary { columns } => format!("PRIMARY KEY ({})", list(table, columns)),
            Rule::Unique { columns } => format!("UNIQUE ({})", list(table, columns)),
            Rule::Check { condition } => format!("CHECK ({condition})"),
            Rule::Foreign(foreign) => reference(names, table, foreign),
        })
    })
}

fn reference(names: &SessionNames, table: &TableBody, foreign: &Foreign) -> String {
    let parent = names.catalog.object(foreign.parent);
    let target = parent.map(|parent| {
        let columns = match &parent.body {
            Body::Table(body) => list(body, &foreign.parent_columns),
            _ => String::new(),
        };
        format!("{}({columns})", names.visible_name(parent))
    });
    let action = |event: &str, action: Action| match action {
        Action::Nothing => String::new(),
        Action::Restrict => format!(" ON {event} RESTRICT"),
        Action::Cascade => format!(" ON {event} CASCADE"),
        Action::SetNull => format!(" ON {event} SET NULL"),
        Action::SetDefault => format!(" ON {event} SET DEFAULT"),
    };
    format!(
        "FOREIGN KEY ({}) REFERENCES {}{}{}{}",
        list(table, &foreign.columns),
        target.unwrap_or_default(),
        if foreign.is_full { " MATCH FULL" } else { "" },
        action("UPDATE", foreign.on_update),
        action("DELETE", foreign.on_delete)
    )
}

/// The definition of an index.
pub(super) fn index(names: &SessionNames, oid: Oid) -> Option<String> {
    let (object, index) = names.catalog.index(oid)?;
    let Body::Table(table) = &object.body else {
        return None;
    };
    let columns = index
        .columns
        .iter()
        .zip(&index.options)
        .map(|(at, (descends, nulls_first))| {
            let name = table.columns.get(*at).map_or("?", |column| &column.name);
            let order = match (descends, nulls_first) {
                (false, false) => "",
                (false, true) => " NULLS FIRST",
                (true, true) => " DESC",
                (true, false) => " DESC NULLS LAST",
            };
            format!("{}{order}", quoted(name))
        });
    Some(format!(
        "CREATE {}INDEX {} ON {} USING btree ({})",
        if index.is_unique { "UNIQUE " } else { "" },
        quoted(&index.name),
        full_name(names, object),
        columns.collect::<Vec<_>>().join(", ")
    ))
}

/// The query of a view.
pub(super) fn view(names: &SessionNames, oid: Oid) -> Option<String> {
    match &names.catalog.object(oid)?.body {
        Body::View(view) => Some(format!("{};", view.query)),
        _ => None,
    }
}

fn full_name(names: &SessionNames, object: &Object) -> String {
    let schema = match object.namespace {
        crate::catalog::PUBLIC => "public".to_owned(),
        namespace => names
            .catalog
            .object(namespace)
            .map_or_else(String::new, |schema| quoted(&schema.name)),
    };
    format!("{schema}.{}", quoted(&object.name))
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
