//! Roles, and the database that they own.

use super::relation::{Maker, Rows, Sources, flag, text};
use crate::catalog::OWNER;
use crate::error::Result;
use crate::types::Datum;

pub(super) const MAKERS: &[Maker] = &[("pg_authid", roles), ("pg_database", databases)];

/// The number of the database: there is one.
pub(crate) const DATABASE: u32 = 5;

fn roles(_: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    rows.push([
        ("oid", Datum::Oid(OWNER)),
        ("rolname", text("indelible")),
        ("rolsuper", flag(true)),
        ("rolinherit", flag(true)),
        ("rolcreaterole", flag(true)),
        ("rolcreatedb", flag(true)),
        ("rolcanlogin", flag(true)),
        ("rolconnlimit", Datum::Int4(-1)),
    ]);
    Ok(())
}

fn databases(_: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    rows.push([
        ("oid", Datum::Oid(DATABASE)),
        ("datname", text("indelible")),
        ("datdba", Datum::Oid(OWNER)),
    ]);
    Ok(())
}
