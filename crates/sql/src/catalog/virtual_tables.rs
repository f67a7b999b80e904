//! Relations of `pg_catalog`: rows that are made of the catalogue when a statement is planned.
//!
//! A plan holds for one version of the catalogue, and so do its rows. Columns are those that have
//! something to tell; a statement that asks for another one is told that it does not exist.

use super::{Body, Catalog, Object, Oid, Origin, PG_CATALOG, PUBLIC, Rule, TableBody};
use crate::types::{Datum, Kind};

/// Rows with the names and types of their columns.
pub(crate) struct VirtualTable {
    pub(crate) columns: Vec<(&'static str, Kind)>,
    pub(crate) rows: Vec<Vec<Datum>>,
}

/// The number of the role that owns everything.
const OWNER: Oid = 10;
/// The method of all indexes.
const BTREE: Oid = 403;

/// The relation with this name.
pub(crate) fn virtual_table(catalog: &Catalog, name: &str) -> Option<VirtualTable> {
    Some(match name {
        "pg_namespace" => namespaces(catalog),
        "pg_class" => classes(catalog),
        "pg_attribute" => attributes(catalog),
        "pg_attrdef" => defaults(catalog),
        "pg_index" => indexes(catalog),
        "pg_constraint" => constraints(catalog),
        "pg_type" => types(catalog),
        "pg_enum" => labels(catalog),
        "pg_sequence" => sequences(catalog),
        "pg_depend" => dependencies(catalog),
        "pg_roles" => roles(),
        "pg_database" => databases(),
        _ => return None,
    })
}

fn text(text: impl AsRef<str>) -> Datum {
    Datum::text(text.as_ref())
}

fn small(number: usize) -> Datum {
    Datum::Int2(number as i16)
}

fn flag(flag: bool) -> Datum {
    Datum::Bool(flag)
}

/// Tables, with their bodies.
fn tables(catalog: &Catalog) -> impl Iterator<Item = (&Object, &TableBody)> {
    catalog.objects().filter_map(|object| match &object.body {
        Body::Table(table) => Some((&**object, table)),
        _ => None,
    })
}

fn namespaces(catalog: &Catalog) -> VirtualTable {
    let made = catalog
        .objects()
        .filter(|object| matches!(object.body, Body::Schema));
    let mut rows: Vec<Vec<Datum>> = made
        .map(|object| {
            vec![
                Datum::Oid(object.oid),
                text(&object.name),
                Datum::Oid(OWNER),
            ]
        })
        .collect();
    for (oid, name) in [(PG_CATALOG, "pg_catalog"), (PUBLIC, "public")] {
        if !rows.iter().any(|row| row[0] == Datum::Oid(oid)) {
            rows.push(vec![Datum::Oid(oid), text(name), Datum::Oid(OWNER)]);
        }
    }
    VirtualTable {
        columns: vec![
            ("oid", Kind::Oid),
            ("nspname", Kind::Name),
            ("nspowner", Kind::Oid),
        ],
        rows,
    }
}

fn classes(catalog: &Catalog) -> VirtualTable {
    let row =
        |oid: Oid, name: &str, namespace: Oid, kind: &str, columns: usize, has_index: bool| {
            vec![
                Datum::Oid(oid),
                text(name),
                Datum::Oid(namespace),
                Datum::Oid(OWNER),
                Datum::Oid(if kind == "i" { BTREE } else { 0 }),
                text(kind),
                small(columns),
                flag(has_index),
                text("p"),
                flag(false),
            ]
        };
    let mut rows = Vec::new();
    for object in catalog.objects() {
        let (kind, columns, has_index) = match &object.body {
            Body::Table(table) => ("r", table.columns.len(), !table.indexes.is_empty()),
            Body::View(view) => ("v", view.columns.len(), false),
            Body::Sequence(_) => ("S", 3, false),
            _ => continue,
        };
        rows.push(row(
            object.oid,
            &object.name,
            object.namespace,
            kind,
            columns,
            has_index,
        ));
        if let Body::Table(table) = &object.body {
            rows.extend(table.indexes.iter().map(|index| {
                row(
                    index.oid,
                    &index.name,
                    object.namespace,
                    "i",
                    index.columns.len(),
                    false,
                )
            }));
        }
    }
    VirtualTable {
        columns: vec![
            ("oid", Kind::Oid),
            ("relname", Kind::Name),
            ("relnamespace", Kind::Oid),
            ("relowner", Kind::Oid),
            ("relam", Kind::Oid),
            ("relkind", Kind::Char),
            ("relnatts", Kind::Int2),
            ("relhasindex", Kind::Bool),
            ("relpersistence", Kind::Char),
            ("relispartition", Kind::Bool),
        ],
        rows,
    }
}

fn attributes(catalog: &Catalog) -> VirtualTable {
    let mut rows = Vec::new();
    for object in catalog.objects() {
        match &object.body {
            Body::Table(table) => {
                for (at, column) in table.columns.iter().enumerate() {
                    let (identity, generated) = match &column.origin {
                        Origin::Given => ("", ""),
                        Origin::Generated(_) => ("", "s"),
                        Origin::Identity { always: true, .. } => ("a", ""),
                        Origin::Identity { .. } => ("d", ""),
                    };
                    let has_default = column.default.is_some() || generated == "s";
                    let data_type = column.domain.unwrap_or(column.data_type.kind.oid());
                    rows.push(vec![
                        Datum::Oid(object.oid),
                        text(&column.name),
                        Datum::Oid(data_type),
                        small(at + 1),
                        Datum::Int4(column.data_type.modifier),
                        flag(column.not_null),
                        flag(has_default),
                        text(identity),
                        text(generated),
                        flag(false),
                    ]);
                }
            }
            Body::View(view) => {
                rows.extend(
                    view.columns
                        .iter()
                        .enumerate()
                        .map(|(at, (name, data_type))| {
                            vec![
                                Datum::Oid(object.oid),
                                text(name),
                                Datum::Oid(data_type.kind.oid()),
                                small(at + 1),
                                Datum::Int4(data_type.modifier),
                                flag(false),
                                flag(false),
                                text(""),
                                text(""),
                                flag(false),
                            ]
                        }),
                );
            }
            _ => {}
        }
    }
    VirtualTable {
        columns: vec![
            ("attrelid", Kind::Oid),
            ("attname", Kind::Name),
            ("atttypid", Kind::Oid),
            ("attnum", Kind::Int2),
            ("atttypmod", Kind::Int4),
            ("attnotnull", Kind::Bool),
            ("atthasdef", Kind::Bool),
            ("attidentity", Kind::Char),
            ("attgenerated", Kind::Char),
            ("attisdropped", Kind::Bool),
        ],
        rows,
    }
}

fn defaults(catalog: &Catalog) -> VirtualTable {
    let mut rows = Vec::new();
    for (object, table) in tables(catalog) {
        for (at, column) in table.columns.iter().enumerate() {
            let expression = match &column.origin {
                Origin::Generated(expression) => Some(expression),
                _ => column.default.as_ref(),
            };
            if let Some(expression) = expression {
                rows.push(vec![
                    Datum::Oid(object.oid + 1 + at as Oid),
                    Datum::Oid(object.oid),
                    small(at + 1),
                    text(expression),
                ]);
            }
        }
    }
    VirtualTable {
        columns: vec![
            ("oid", Kind::Oid),
            ("adrelid", Kind::Oid),
            ("adnum", Kind::Int2),
            ("adbin", Kind::Text),
        ],
        rows,
    }
}

fn indexes(catalog: &Catalog) -> VirtualTable {
    let mut rows = Vec::new();
    for (object, table) in tables(catalog) {
        for index in &table.indexes {
            let is_primary = table.constraints.iter().any(|constraint| {
                constraint.name == index.name && matches!(constraint.rule, Rule::Primary { .. })
            });
            rows.push(vec![
                Datum::Oid(index.oid),
                Datum::Oid(object.oid),
                small(index.columns.len()),
                flag(index.is_unique),
                flag(is_primary),
                flag(true),
            ]);
        }
    }
    VirtualTable {
        columns: vec![
            ("indexrelid", Kind::Oid),
            ("indrelid", Kind::Oid),
            ("indnatts", Kind::Int2),
            ("indisunique", Kind::Bool),
            ("indisprimary", Kind::Bool),
            ("indisvalid", Kind::Bool),
        ],
        rows,
    }
}

fn constraints(catalog: &Catalog) -> VirtualTable {
    let mut rows = Vec::new();
    for (object, table) in tables(catalog) {
        for constraint in &table.constraints {
            let (kind, parent) = match &constraint.rule {
                Rule::Primary { .. } => ("p", 0),
                Rule::Unique { .. } => ("u", 0),
                Rule::Check { .. } => ("c", 0),
                Rule::Foreign(foreign) => ("f", foreign.parent),
            };
            let index = table
                .indexes
                .iter()
                .find(|index| index.name == constraint.name);
            rows.push(vec![
                Datum::Oid(constraint.oid),
                text(&constraint.name),
                Datum::Oid(object.namespace),
                text(kind),
                Datum::Oid(object.oid),
                Datum::Oid(0),
                Datum::Oid(index.filter(|_| kind != "f").map_or(0, |index| index.oid)),
                Datum::Oid(parent),
            ]);
        }
    }
    VirtualTable {
        columns: vec![
            ("oid", Kind::Oid),
            ("conname", Kind::Name),
            ("connamespace", Kind::Oid),
            ("contype", Kind::Char),
            ("conrelid", Kind::Oid),
            ("contypid", Kind::Oid),
            ("conindid", Kind::Oid),
            ("confrelid", Kind::Oid),
        ],
        rows,
    }
}

fn types(catalog: &Catalog) -> VirtualTable {
    let mut rows = Vec::new();
    for object in catalog.objects() {
        let (kind, base, modifier, not_null) = match &object.body {
            Body::Enum(_) => ("e", 0, -1, false),
            Body::Domain(domain) => (
                "d",
                domain.base.kind.oid(),
                domain.base.modifier,
                domain.not_null,
            ),
            _ => continue,
        };
        rows.push(vec![
            Datum::Oid(object.oid),
            text(&object.name),
            Datum::Oid(object.namespace),
            text(kind),
            Datum::Oid(base),
            Datum::Int4(modifier),
            flag(not_null),
        ]);
    }
    VirtualTable {
        columns: vec![
            ("oid", Kind::Oid),
            ("typname", Kind::Name),
            ("typnamespace", Kind::Oid),
            ("typtype", Kind::Char),
            ("typbasetype", Kind::Oid),
            ("typtypmod", Kind::Int4),
            ("typnotnull", Kind::Bool),
        ],
        rows,
    }
}

fn labels(catalog: &Catalog) -> VirtualTable {
    let mut rows = Vec::new();
    for object in catalog.objects() {
        if let Body::Enum(body) = &object.body {
            rows.extend(body.labels.iter().enumerate().map(|(at, label)| {
                vec![
                    Datum::Oid(object.oid),
                    Datum::Float4((at + 1) as f32),
                    text(label),
                ]
            }));
        }
    }
    VirtualTable {
        columns: vec![
            ("enumtypid", Kind::Oid),
            ("enumsortorder", Kind::Float4),
            ("enumlabel", Kind::Name),
        ],
        rows,
    }
}

fn sequences(catalog: &Catalog) -> VirtualTable {
    let mut rows = Vec::new();
    for object in catalog.objects() {
        if let Body::Sequence(body) = &object.body {
            rows.push(vec![
                Datum::Oid(object.oid),
                Datum::Oid(body.data_type.kind.oid()),
                Datum::Int8(body.start),
                Datum::Int8(body.increment),
                Datum::Int8(body.max),
                Datum::Int8(body.min),
                Datum::Int8(body.cache),
                flag(body.cycles),
            ]);
        }
    }
    VirtualTable {
        columns: vec![
            ("seqrelid", Kind::Oid),
            ("seqtypid", Kind::Oid),
            ("seqstart", Kind::Int8),
            ("seqincrement", Kind::Int8),
            ("seqmax", Kind::Int8),
            ("seqmin", Kind::Int8),
            ("seqcache", Kind::Int8),
            ("seqcycle", Kind::Bool),
        ],
        rows,
    }
}

/// Sequences and the columns that they go with.
fn dependencies(catalog: &Catalog) -> VirtualTable {
    let mut rows = Vec::new();
    for object in catalog.objects() {
        let Body::Sequence(sequence) = &object.body else {
            continue;
        };
        let Some((table, at)) = sequence.owner else {
            continue;
        };
        let is_identity = match catalog.object(table).map(|object| &object.body) {
            Some(Body::Table(body)) => {
                matches!(
                    body.columns.get(at).map(|column| &column.origin),
                    Some(Origin::Identity { .. })
                )
            }
            _ => false,
        };
        rows.push(vec![
            Datum::Oid(object.oid),
            Datum::Oid(table),
            Datum::Int4(at as i32 + 1),
            text(if is_identity { "i" } else { "a" }),
        ]);
    }
    VirtualTable {
        columns: vec![
            ("objid", Kind::Oid),
            ("refobjid", Kind::Oid),
            ("refobjsubid", Kind::Int4),
            ("deptype", Kind::Char),
        ],
        rows,
    }
}

fn roles() -> VirtualTable {
    VirtualTable {
        columns: vec![
            ("oid", Kind::Oid),
            ("rolname", Kind::Name),
            ("rolsuper", Kind::Bool),
            ("rolcreaterole", Kind::Bool),
            ("rolcanlogin", Kind::Bool),
        ],
        rows: vec![vec![
            Datum::Oid(OWNER),
            text("indelible"),
            flag(true),
            flag(true),
            flag(true),
        ]],
    }
}

fn databases() -> VirtualTable {
    VirtualTable {
        columns: vec![
            ("oid", Kind::Oid),
            ("datname", Kind::Name),
            ("datdba", Kind::Oid),
            ("encoding", Kind::Int4),
            ("datcollate", Kind::Name),
        ],
        rows: vec![vec![
            Datum::Oid(1),
            text("indelible"),
            Datum::Oid(OWNER),
            Datum::Int4(6),
            text("C"),
        ]],
    }
}
