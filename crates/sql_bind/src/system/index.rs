//! Properties of access methods, of indexes and of their columns, by PostgreSQL's names.
//!
//! Indexes are ordered here as B-trees are there, so they have all that a B-tree has. NULL means
//! that there is no such property, or that such a thing has none of this name.

use crate::catalog::{Body, Catalog, Oid};
use crate::error::Result;
use crate::types::Datum;

/// The access methods of indexes.
const BTREE: Oid = 403;
const HASH: Oid = 405;

/// The value of `pg_index_column_has_property`, `pg_index_has_property` or
/// `pg_indexam_has_property`.
pub fn property(catalog: &Catalog, function: &str, arguments: &[Datum]) -> Result<Datum> {
    let [Datum::Oid(oid), rest @ .., name] = arguments else {
        return Ok(Datum::Null);
    };
    let name = name.str()?.to_ascii_lowercase();
    let found = match (function, rest) {
        ("pg_indexam_has_property", _) => access_method_property(*oid, &name),
        (_, []) => catalog.index(*oid).and_then(|_| index_property(&name)),
        (_, [place, ..]) => column_property(catalog, (*oid, place.int()?), &name),
    };
    Ok(found.map_or(Datum::Null, Datum::Bool))
}

fn access_method_property(method: Oid, name: &str) -> Option<bool> {
    let is_btree = method == BTREE;
    let value = match name {
        "can_order" | "can_unique" | "can_multi_col" | "can_include" => is_btree,
        "can_exclude" => true,
        _ => return None,
    };
    (is_btree || method == HASH).then_some(value)
}

fn index_property(name: &str) -> Option<bool> {
    let known = ["clusterable", "index_scan", "bitmap_scan", "backward_scan"];
    known.contains(&name).then_some(true)
}

/// A property of a column from 1 of an index; columns that it only includes have no order.
fn column_property(catalog: &Catalog, (oid, place): (Oid, i64), name: &str) -> Option<bool> {
    let (object, index) = catalog.index(oid)?;
    let Body::Table(table) = &object.body else {
        return None;
    };
    let at = usize::try_from(place).ok()?.checked_sub(1)?;
    if at >= index.columns.len() + table.included_of(oid).len() {
        return None;
    }
    let is_key = at < index.columns.len();
    let (descends, nulls_first) = index.options.get(at).copied().unwrap_or_default();
    let of_key = |value: bool| is_key.then_some(value);
    match name {
        "asc" => of_key(!descends),
        "desc" => of_key(descends),
        "nulls_first" => of_key(nulls_first),
        "nulls_last" => of_key(!nulls_first),
        "search_array" | "search_nulls" => of_key(true),
        "orderable" => Some(is_key),
        "distance_orderable" => Some(false),
        "returnable" => Some(true),
        _ => None,
    }
}
