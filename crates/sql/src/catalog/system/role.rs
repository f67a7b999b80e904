//! Roles, their members and defaults, and the database that they own.
//!
//! The role that owns the database is no object of the catalogue; it is the first row. The name of
//! the database is the one by which the session's client knows it; its own one is another row.

use super::rows::{Maker, Rows, Sources, array, flag, text};
use crate::catalog::{
    Attribute, Body, DATABASE, DATABASE_OWNER, DATABASE_OWNER_NAME, Defaults, OWNER, OWNER_NAME,
    PREDEFINED, RoleBody, memberships_from_the_beginning,
};
use crate::error::Result;
use crate::types::{Datum, Kind};

pub(super) const MAKERS: &[Maker] = &[
    ("pg_authid", roles),
    ("pg_auth_members", members),
    ("pg_database", databases),
    ("pg_db_role_setting", settings),
    ("pg_default_acl", default_privileges),
];

fn roles(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let mut owner = RoleBody::new();
    for attribute in [
        Attribute::Superuser,
        Attribute::CreateRole,
        Attribute::CreateDatabase,
        Attribute::Login,
        Attribute::Replication,
        Attribute::BypassRowSecurity,
    ] {
        owner.set(attribute, true);
    }
    role(OWNER, OWNER_NAME, &owner, rows);
    role(DATABASE_OWNER, DATABASE_OWNER_NAME, &RoleBody::new(), rows);
    for (name, oid) in PREDEFINED {
        if from.names.catalog.object(oid).is_none() {
            role(oid, name, &RoleBody::new(), rows);
        }
    }
    for object in from.names.catalog.objects() {
        if let Body::Role(body) = &object.body {
            role(object.oid, &object.name, body, rows);
        }
    }
    Ok(())
}

/// The verifier of a password is shown to nobody.
fn role(oid: u32, name: &str, body: &RoleBody, rows: &mut Rows<'_>) {
    let has = |attribute| flag(body.has(attribute));
    rows.push([
        ("oid", Datum::Oid(oid)),
        ("rolname", text(name)),
        ("rolsuper", has(Attribute::Superuser)),
        ("rolinherit", has(Attribute::Inherit)),
        ("rolcreaterole", has(Attribute::CreateRole)),
        ("rolcreatedb", has(Attribute::CreateDatabase)),
        ("rolcanlogin", has(Attribute::Login)),
        ("rolreplication", has(Attribute::Replication)),
        ("rolbypassrls", has(Attribute::BypassRowSecurity)),
        ("rolconnlimit", Datum::Int4(body.connection_limit as i32)),
        (
            "rolvaliduntil",
            body.valid_until.map_or(Datum::Null, Datum::Timestamptz),
        ),
    ]);
}

fn members(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let mut push = |role: u32, member: u32, is_admin: bool| {
        rows.push([
            ("roleid", Datum::Oid(role)),
            ("member", Datum::Oid(member)),
            ("grantor", Datum::Oid(OWNER)),
            ("admin_option", flag(is_admin)),
        ]);
    };
    for (_, member) in PREDEFINED {
        for role in memberships_from_the_beginning(member) {
            push(*role, member, false);
        }
    }
    for object in from.names.catalog.objects() {
        let Body::Role(body) = &object.body else {
            continue;
        };
        for (member, is_admin) in &body.members {
            push(object.oid, *member, *is_admin);
        }
    }
    Ok(())
}

fn databases(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let (shown, own) = (&from.session.database, &from.session.own_database);
    let own = (own != shown).then_some((DATABASE - 1, own));
    for (oid, name) in [Some((DATABASE, shown)), own].into_iter().flatten() {
        rows.push([
            ("oid", Datum::Oid(oid)),
            ("datname", text(name)),
            ("datdba", Datum::Oid(OWNER)),
            // Programs that go through all databases must not meet this one twice.
            ("datallowconn", flag(oid == DATABASE)),
            ("datfrozenxid", Datum::Oid(from.session.xid())),
            ("datacl", from.access_list(DATABASE)),
        ]);
    }
    Ok(())
}

fn settings(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (_, body) in from.names.catalog.all_defaults() {
        let Defaults::Settings {
            in_database,
            values,
        } = &body.of
        else {
            continue;
        };
        let values = values.iter();
        let values = values.map(|(name, value)| Datum::text(format!("{name}={value}")));
        rows.push([
            (
                "setdatabase",
                Datum::Oid(if *in_database { DATABASE } else { 0 }),
            ),
            ("setrole", Datum::Oid(body.role)),
            ("setconfig", array(Kind::Text, values)),
        ]);
    }
    Ok(())
}

fn default_privileges(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let catalog = &from.names.catalog;
    for (oid, body) in catalog.all_defaults() {
        let Defaults::Objects {
            schema,
            kind,
            grants,
        } = &body.of
        else {
            continue;
        };
        let entries = catalog.grant_texts(grants).into_iter().map(Datum::text);
        rows.push([
            ("oid", Datum::Oid(oid)),
            ("defaclrole", Datum::Oid(body.role)),
            ("defaclnamespace", Datum::Oid(*schema)),
            ("defaclobjtype", text(kind.to_string())),
            ("defaclacl", array(Kind::Text, entries)),
        ]);
    }
    Ok(())
}
