//! Types: the built-in ones, those of the catalogue, and rows of tables.
//!
//! Numbers, lengths, alignments and places of storage are those of PostgreSQL's `pg_type`, because
//! drivers keep tables of them. The type of a relation's rows has the number of the relation.

use super::rows::{Maker, Rows, Sources, flag, text};
use crate::catalog::{Body, Object, Oid, array_of};
use crate::error::Result;
use crate::types::kind::Category;
use crate::types::kind::KINDS;
use crate::types::{Datum, Kind};
use sql_bind::system::{self, category_letter, input_output, named_oid, storage_of};

pub(super) const MAKERS: &[Maker] = &[("pg_type", types), ("pg_enum", labels)];

/// Values of a type that is not a relation's own.
struct TypeRow<'t> {
    oid: Oid,
    name: &'t str,
    namespace: Oid,
    owner: Datum,
    letter: &'static str,
    kind: Kind,
    element: Oid,
    array: Oid,
}

fn push(row: &TypeRow<'_>, rows: &mut Rows<'_>) {
    let storage = storage_of(row.kind);
    let [input, output, receive, send] = input_output(row.kind);
    let is_pseudo = row.kind.category() == Category::Pseudo && row.kind != Kind::Void;
    let has_binary = !is_pseudo || matches!(row.kind, Kind::Record | Kind::AnyArray);
    let binary = |name: &str| Datum::Oid(if has_binary { named_oid(name) } else { 0 });
    rows.push([
        ("oid", Datum::Oid(row.oid)),
        ("typname", text(row.name)),
        ("typnamespace", Datum::Oid(row.namespace)),
        ("typowner", row.owner.clone()),
        ("typlen", Datum::Int2(row.kind.length())),
        ("typbyval", flag(storage.by_value)),
        ("typtype", text(row.letter)),
        ("typcategory", text(category_letter(row.kind.category()))),
        ("typispreferred", flag(row.kind.is_preferred())),
        (
            "typdelim",
            text(delimiter_of(row.kind).encode_utf8(&mut [0; 4])),
        ),
        ("typelem", Datum::Oid(row.element)),
        ("typarray", Datum::Oid(row.array)),
        ("typinput", Datum::Oid(named_oid(&input))),
        ("typoutput", Datum::Oid(named_oid(&output))),
        ("typreceive", binary(&receive)),
        ("typsend", binary(&send)),
        ("typalign", text(storage.align)),
        ("typstorage", text(storage.place)),
        ("typcollation", Datum::Oid(storage.collation)),
    ]);
}

/// The letter between the elements of arrays of a kind, or of this array.
fn delimiter_of(kind: Kind) -> char {
    let element = kind.element().filter(|_| kind.is_array());
    element.unwrap_or(kind).delimiter()
}

fn types(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for &kind in KINDS {
        let is_pseudo = matches!(kind.category(), Category::Pseudo | Category::Unknown);
        built_in(kind, if is_pseudo { "p" } else { "b" }, rows);
        if let Some(array) = kind.array() {
            built_in(array, if kind == Kind::Record { "p" } else { "b" }, rows);
        }
    }
    names_only(rows);
    for object in from.objects() {
        match &object.body {
            Body::Enum(_) => {
                let kind = Kind::Enum(object.oid);
                let array = Kind::EnumArray(object.oid);
                push(
                    &TypeRow {
                        oid: object.oid,
                        name: &object.name,
                        namespace: object.namespace,
                        owner: from.owner(&object),
                        letter: "e",
                        kind,
                        element: 0,
                        array: array.oid(),
                    },
                    rows,
                );
                push_array(from, &object, (array.oid(), array), rows);
            }
            Body::Domain(_) => domain(from, &object, rows),
            Body::Table(_) | Body::View(_) | Body::Composite(_) => composite(from, &object, rows),
            _ => {}
        }
    }
    Ok(())
}

/// Types that are named here, and that no value has. Clients look up `inet` to print values of
/// their own, which are texts here.
fn names_only(rows: &mut Rows<'_>) {
    let system = system::NAMES_ONLY.iter();
    let types = system.map(|(oid, name)| (*oid, *name, "p", Kind::Any));
    for (oid, name, letter, kind) in types.chain([(869, "inet", "b", Kind::Text)]) {
        let row = TypeRow {
            oid,
            name,
            namespace: crate::catalog::PG_CATALOG,
            owner: Datum::Oid(crate::catalog::OWNER),
            letter,
            kind,
            element: 0,
            array: 0,
        };
        push(&row, rows);
    }
}

fn built_in(kind: Kind, letter: &'static str, rows: &mut Rows<'_>) {
    push(
        &TypeRow {
            oid: kind.oid(),
            name: &kind.catalogue_name(),
            namespace: crate::catalog::PG_CATALOG,
            owner: Datum::Oid(crate::catalog::OWNER),
            letter,
            kind,
            element: match kind {
                Kind::Name => Kind::Char.oid(),
                // Their coordinates.
                Kind::Point => Kind::Float8.oid(),
                Kind::Lseg | Kind::Box => Kind::Point.oid(),
                _ => kind.element().map_or(0, Kind::oid),
            },
            array: kind.array().map_or(0, Kind::oid),
        },
        rows,
    );
}

fn domain(from: &Sources<'_>, object: &Object, rows: &mut Rows<'_>) {
    let Body::Domain(domain) = &object.body else {
        return;
    };
    let (kind, mut modifier) = (domain.base.kind, domain.base.modifier);
    if domain.elements.is_some() {
        modifier = -1;
    }
    let storage = storage_of(kind);
    let [_, output, _, send] = input_output(kind);
    let default = domain.default.as_ref();
    let default = default.map(|default| from.definitions().value(default, domain.base));
    let default = default.map_or(Datum::Null, text);
    let array = kind.array().map(|array| (array_of(object.oid), array));
    if let Some(array) = array {
        push_array(from, object, array, rows);
    }
    let below = domain.elements.unwrap_or(kind.oid());
    rows.push([
        ("oid", Datum::Oid(object.oid)),
        ("typname", text(&object.name)),
        ("typnamespace", Datum::Oid(object.namespace)),
        ("typowner", from.owner(object)),
        ("typlen", Datum::Int2(kind.length())),
        ("typbyval", flag(storage.by_value)),
        ("typarray", Datum::Oid(array.map_or(0, |(oid, _)| oid))),
        ("typtype", text("d")),
        ("typcategory", text(category_letter(kind.category()))),
        ("typinput", Datum::Oid(named_oid("domain_in"))),
        ("typoutput", Datum::Oid(named_oid(&output))),
        ("typreceive", Datum::Oid(named_oid("domain_recv"))),
        ("typsend", Datum::Oid(named_oid(&send))),
        ("typalign", text(storage.align)),
        ("typstorage", text(storage.place)),
        ("typnotnull", flag(domain.not_null)),
        ("typbasetype", Datum::Oid(below)),
        ("typtypmod", Datum::Int4(modifier)),
        ("typcollation", Datum::Oid(storage.collation)),
        ("typdefaultbin", default.clone()),
        ("typdefault", default),
    ]);
}

/// The type of arrays of a type.
fn push_array(from: &Sources<'_>, object: &Object, (oid, array): (Oid, Kind), rows: &mut Rows<'_>) {
    push(
        &TypeRow {
            oid,
            name: &format!("_{}", object.name),
            namespace: object.namespace,
            owner: from.owner(object),
            letter: "b",
            kind: array,
            element: object.oid,
            array: 0,
        },
        rows,
    );
}

/// The type of a relation's rows.
fn composite(from: &Sources<'_>, object: &Object, rows: &mut Rows<'_>) {
    let kind = Kind::Composite(object.oid);
    let array = Kind::CompositeArray(object.oid);
    push_array(from, object, (array.oid(), array), rows);
    let storage = storage_of(kind);
    let [input, output, receive, send] = input_output(kind);
    rows.push([
        ("oid", Datum::Oid(object.oid)),
        ("typname", text(&object.name)),
        ("typnamespace", Datum::Oid(object.namespace)),
        ("typowner", from.owner(object)),
        ("typlen", Datum::Int2(kind.length())),
        ("typbyval", flag(storage.by_value)),
        ("typtype", text("c")),
        ("typcategory", text("C")),
        ("typrelid", Datum::Oid(object.oid)),
        ("typarray", Datum::Oid(array.oid())),
        ("typinput", Datum::Oid(named_oid(&input))),
        ("typoutput", Datum::Oid(named_oid(&output))),
        ("typreceive", Datum::Oid(named_oid(&receive))),
        ("typsend", Datum::Oid(named_oid(&send))),
        ("typalign", text(storage.align)),
        ("typstorage", text(storage.place)),
    ]);
}

fn labels(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for object in from.names.catalog.objects() {
        let Body::Enum(body) = &object.body else {
            continue;
        };
        for (at, label) in body.labels.iter().enumerate() {
            let place = at as Oid + 1;
            rows.push([
                // Labels have no numbers of their own.
                ("oid", Datum::Oid(object.oid.wrapping_add(place << 22))),
                ("enumtypid", Datum::Oid(object.oid)),
                ("enumsortorder", Datum::Float4(place as f32)),
                ("enumlabel", text(label)),
            ]);
        }
    }
    Ok(())
}
