//! Dependencies between objects: `pg_depend`.
//!
//! Tools find with it the constraint that an index belongs to, the columns of indexes and
//! constraints, and the objects of a schema. A row without `refobjsubid` is about a whole object.

use super::needs;
use super::rows::{
    CLASS, CONSTRAINT, DEFAULT, Maker, NAMESPACE, PROC, REWRITE, Rows, Sources, TYPE, default_oid,
    text,
};
use super::schema::catalogue_of;
use crate::catalog::{
    Body, Catalog, INDELIBLE, Index, Names, Object, Oid, Origin, Rule, TableBody,
};
use crate::error::Result;
use crate::state::parts_of;
use crate::types::Datum;

pub(super) const MAKERS: &[Maker] = &[("pg_depend", dependencies)];

/// Numbers of `pg_extension`, and of the extension that is there.
pub(super) const EXTENSION: Oid = 3079;
pub(super) const PLPGSQL: Oid = 13_559;

/// An object: its catalogue, its number, and the column from 1.
type Part = (Oid, Oid, usize);

fn push(own: Part, other: Part, kind: &str, rows: &mut Rows<'_>) {
    rows.push([
        ("classid", Datum::Oid(own.0)),
        ("objid", Datum::Oid(own.1)),
        ("objsubid", Datum::Int4(own.2 as i32)),
        ("refclassid", Datum::Oid(other.0)),
        ("refobjid", Datum::Oid(other.1)),
        ("refobjsubid", Datum::Int4(other.2 as i32)),
        ("deptype", text(kind)),
    ]);
}

fn dependencies(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let catalog = &from.names.catalog;
    // Our own schema belongs to an extension, so that `pg_dump` leaves it alone.
    let own = sql_bind::system::all().iter();
    let own = own.filter(|relation| relation.schema == "indelible");
    let own = own.map(|relation| (CLASS, relation.oid, 0));
    for own in own.chain([(NAMESPACE, INDELIBLE, 0)]) {
        push(own, (EXTENSION, PLPGSQL, 0), "e", rows);
    }
    from.each_table(|object, table| {
        let kind = if table.lineage.bound.is_some() {
            "a"
        } else {
            "n"
        };
        for parent in &table.lineage.parents {
            push((CLASS, object.oid, 0), (CLASS, *parent, 0), kind, rows);
        }
        of_partitions(catalog, table, rows);
        of_defaults(from, (object, table), rows);
        of_indexes(from, (object, table), rows);
        of_constraints(from, (object, table), rows);
        Ok(())
    })?;
    for object in catalog.objects() {
        of_object(from, object, rows);
        match &object.body {
            Body::Sequence(sequence) => {
                let Some((table, at)) = sequence.owner else {
                    continue;
                };
                let is_identity = match catalog.object(table).map(|object| &object.body) {
                    Some(Body::Table(body)) => body
                        .columns
                        .get(at)
                        .is_some_and(|column| matches!(column.origin, Origin::Identity { .. })),
                    _ => false,
                };
                let kind = if is_identity { "i" } else { "a" };
                push((CLASS, object.oid, 0), (CLASS, table, at + 1), kind, rows);
            }
            Body::View(_)
            | Body::Table(TableBody {
                materialized: Some(_),
                ..
            }) => {
                let rule = (REWRITE, object.oid, 0);
                push(rule, (CLASS, object.oid, 0), "i", rows);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Objects depend on their schema, types of rows on their relation, and both on what they name.
fn of_object(from: &Sources<'_>, object: &Object, rows: &mut Rows<'_>) {
    let class = catalogue_of(object);
    let own = (class, object.oid, 0);
    if matches!(class, CLASS | TYPE | PROC) {
        // The relation of a composite type belongs to it, as the type of a relation's rows does.
        push(own, (NAMESPACE, object.namespace, 0), "n", rows);
    }
    let row_type = (TYPE, object.oid, 0);
    match &object.body {
        Body::Table(_) | Body::View(_) => push(row_type, own, "i", rows),
        Body::Composite(_) => push((CLASS, object.oid, 0), row_type, "i", rows),
        _ => {}
    }
    needs::of_texts_and_types(from, object, rows);
}

/// The constraint of a table that an index belongs to.
fn constraint_of(table: &TableBody, index: &Index) -> Option<Oid> {
    let mut constraints = table.constraints.iter();
    let found = constraints.find(|constraint| {
        let is_key = matches!(constraint.rule, Rule::Primary { .. } | Rule::Unique { .. });
        is_key && constraint.name == index.name
    });
    found.map(|constraint| constraint.oid)
}

/// Indexes belong to their constraints, or depend on the columns that they read.
fn of_indexes(from: &Sources<'_>, (object, table): (&Object, &TableBody), rows: &mut Rows<'_>) {
    for index in &table.indexes {
        let own = (CLASS, index.oid, 0);
        if let Some(constraint) = constraint_of(table, index) {
            push(own, (CONSTRAINT, constraint, 0), "i", rows);
            continue;
        }
        let mut read: Vec<usize> = match table.form(index.oid) {
            None => index.columns.clone(),
            Some(form) => {
                let texts = form.keys.iter().chain(&form.predicate);
                let definitions = from.definitions();
                texts
                    .flat_map(|text| definitions.columns_read(object, text))
                    .collect()
            }
        };
        read.extend(table.included_of(index.oid));
        read.sort_unstable();
        read.dedup();
        for at in &read {
            push(own, (CLASS, object.oid, at + 1), "a", rows);
        }
        if read.is_empty() {
            push(own, (CLASS, object.oid, 0), "a", rows);
        }
    }
}

/// Constraints depend on their columns; those that refer to a table on its columns and its key.
fn of_constraints(from: &Sources<'_>, (object, table): (&Object, &TableBody), rows: &mut Rows<'_>) {
    for constraint in &table.constraints {
        let own = (CONSTRAINT, constraint.oid, 0);
        let read = match &constraint.rule {
            Rule::Primary { columns, .. } | Rule::Unique { columns, .. } => {
                let mut read = columns.clone();
                read.extend(table.included_with(&constraint.name));
                read
            }
            Rule::Check { condition } => from.definitions().columns_read(object, condition),
            Rule::Foreign(foreign) => {
                for at in &foreign.parent_columns {
                    push(own, (CLASS, foreign.parent, at + 1), "n", rows);
                }
                push(
                    own,
                    (CLASS, from.index_of_key(constraint.oid, foreign), 0),
                    "n",
                    rows,
                );
                foreign.columns.clone()
            }
        };
        for at in &read {
            push(own, (CLASS, object.oid, at + 1), "a", rows);
        }
        if read.is_empty() {
            push(own, (CLASS, object.oid, 0), "a", rows);
        }
        if matches!(constraint.rule, Rule::Check { .. }) {
            for at in &read {
                push(own, (CLASS, object.oid, at + 1), "n", rows);
            }
        }
    }
}

/// The sequence that a default asks for a number.
fn sequence_of(from: &Sources<'_>, default: &str) -> Option<Oid> {
    let (name, _) = default.strip_prefix("nextval('")?.split_once('\'')?;
    let mut parts = parts_of(name);
    let (name, schema) = (parts.pop()?, parts.pop());
    let found = from
        .names
        .find(Names::Relations, schema.as_deref(), &name)?;
    matches!(found.body, Body::Sequence(_)).then_some(found.oid)
}

/// Indexes and keys of a partition depend on those of its table that they belong to.
fn of_partitions(catalog: &Catalog, table: &TableBody, rows: &mut Rows<'_>) {
    for index in &table.indexes {
        let parent = catalog.partition_parent(index.oid);
        let Some((above, parent)) = parent.and_then(|parent| catalog.index(parent)) else {
            continue;
        };
        let Body::Table(above) = &above.body else {
            continue;
        };
        let keys = constraint_of(table, index).zip(constraint_of(above, parent));
        let keys = keys.map(|(own, above)| (CONSTRAINT, own, above));
        for (class, own, above) in keys.into_iter().chain([(CLASS, index.oid, parent.oid)]) {
            push((class, own, 0), (class, above, 0), "P", rows);
        }
    }
}

/// Defaults depend on their columns, and on the sequences that they ask for numbers.
fn of_defaults(from: &Sources<'_>, (object, table): (&Object, &TableBody), rows: &mut Rows<'_>) {
    for (at, column) in table.columns.iter().enumerate() {
        let value = (DEFAULT, default_oid(object.oid, at), 0);
        if let Origin::Generated(text) = &column.origin {
            for read in from.definitions().columns_read(object, text) {
                push(value, (CLASS, object.oid, read + 1), "n", rows);
            }
            push(value, (CLASS, object.oid, at + 1), "i", rows);
        }
        let Some(default) = &column.default else {
            continue;
        };
        if let Some(sequence) = sequence_of(from, default) {
            push(value, (CLASS, sequence, 0), "n", rows);
        }
        push(value, (CLASS, object.oid, at + 1), "a", rows);
    }
}
