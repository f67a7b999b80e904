//! Rows that never differ: access methods, operator classes, collations, languages.
//!
//! They are those of PostgreSQL that say something true here; their numbers are PostgreSQL's.

use super::depend::PLPGSQL;
use super::rows::{Maker, Rows, Sources, flag, text};
use crate::catalog::{Body, Names, Oid, PUBLIC};
use crate::define::{BUILT_IN, LANGUAGE};
use crate::error::Result;
use crate::types::Datum;
use sql_bind::system::OPERATOR_CLASSES;

pub(super) const MAKERS: &[Maker] = &[
    ("pg_am", access_methods),
    ("pg_opclass", operator_classes),
    ("pg_opfamily", operator_families),
    ("pg_collation", collations),
    ("pg_language", languages),
    ("pg_extension", extensions),
    ("pg_available_extensions", available_extensions),
    ("pg_tablespace", tablespaces),
];

const BTREE: Oid = 403;

fn access_methods(_: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (oid, name, kind) in [(2, "heap", "t"), (BTREE, "btree", "i"), (405, "hash", "i")] {
        rows.push([
            ("oid", Datum::Oid(oid)),
            ("amname", text(name)),
            ("amhandler", Datum::Oid(0)),
            ("amtype", text(kind)),
        ]);
    }
    Ok(())
}

fn operator_classes(_: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (oid, name, family, _, kind) in OPERATOR_CLASSES {
        rows.push([
            ("oid", Datum::Oid(*oid)),
            ("opcmethod", Datum::Oid(BTREE)),
            ("opcname", text(name)),
            ("opcfamily", Datum::Oid(*family)),
            ("opcintype", Datum::Oid(kind.oid())),
        ]);
    }
    Ok(())
}

fn operator_families(_: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let mut seen = Vec::new();
    for (_, _, family, name, _) in OPERATOR_CLASSES {
        if !seen.contains(family) {
            seen.push(*family);
            rows.push([
                ("oid", Datum::Oid(*family)),
                ("opfmethod", Datum::Oid(BTREE)),
                ("opfname", text(name)),
            ]);
        }
    }
    Ok(())
}

fn collations(_: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let collations = [(100, "default", "d"), (950, "C", "c"), (951, "POSIX", "c")];
    for (oid, name, provider) in collations {
        let locale = if provider == "c" {
            text(name)
        } else {
            Datum::Null
        };
        rows.push([
            ("oid", Datum::Oid(oid)),
            ("collname", text(name)),
            ("collprovider", text(provider)),
            ("collcollate", locale.clone()),
            ("collctype", locale),
        ]);
    }
    Ok(())
}

fn languages(_: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (oid, name, is_trusted) in [(12, "internal", false), (14, "sql", true)] {
        rows.push([
            ("oid", Datum::Oid(oid)),
            ("lanname", text(name)),
            ("lanpltrusted", flag(is_trusted)),
        ]);
    }
    Ok(())
}

/// Every database of PostgreSQL has this extension; tools ask for it.
fn extensions(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    rows.push([
        ("oid", Datum::Oid(PLPGSQL)),
        ("extname", text("plpgsql")),
        ("extversion", text("1.0")),
    ]);
    for object in from.names.catalog.objects() {
        let mut known = BUILT_IN.iter();
        let known = known.find(|(name, ..)| *name == object.name);
        if let (Body::Extension, Some((name, version, _))) = (&object.body, known) {
            rows.push([
                ("oid", Datum::Oid(object.oid)),
                ("extname", text(name)),
                ("extowner", from.owner(object)),
                ("extnamespace", Datum::Oid(PUBLIC)),
                ("extversion", text(version)),
            ]);
        }
    }
    Ok(())
}

fn available_extensions(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let catalog = &from.names.catalog;
    for (name, version, comment) in [LANGUAGE].into_iter().chain(BUILT_IN) {
        let is_made = name == LANGUAGE.0 || catalog.find_oid(Names::Extensions, 0, name).is_some();
        rows.push([
            ("name", text(name)),
            ("default_version", text(version)),
            (
                "installed_version",
                if is_made { text(version) } else { Datum::Null },
            ),
            ("comment", text(comment)),
        ]);
    }
    Ok(())
}

fn tablespaces(_: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (oid, name) in [(1663, "pg_default"), (1664, "pg_global")] {
        rows.push([("oid", Datum::Oid(oid)), ("spcname", text(name))]);
    }
    Ok(())
}
