//! Roles and their members.
//!
//! The role that owns the database is not kept: it has every attribute, and no members.

use super::oid::{DATABASE_OWNER, OWNER, Oid};
use super::predefined::{memberships_from_the_beginning, predefined_name, predefined_named};
use super::{Body, Catalog, Names};
use crate::error::Result;
use sql_values::codec::{Reader, Writer};
use std::collections::BTreeSet;

/// The name of the role that owns the database.
pub const OWNER_NAME: &str = "indelible";

/// The name of [`DATABASE_OWNER`].
pub const DATABASE_OWNER_NAME: &str = "pg_database_owner";

/// A property of a role, as a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// May do everything.
    Superuser = 1,
    /// Has the privileges of the roles that it is a member of.
    Inherit = 2,
    /// May make and change other roles.
    CreateRole = 4,
    /// `CREATEDB`; kept for dumps, as there is one database.
    CreateDatabase = 8,
    /// May be the role of a session.
    Login = 16,
    /// Kept for dumps; there is no replication.
    Replication = 32,
    /// Kept for dumps; rows have no policies.
    BypassRowSecurity = 64,
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleBody {
    /// Bits of its attributes.
    pub attributes: i64,
    /// Sessions that it may have, or -1.
    pub connection_limit: i64,
    /// The verifier of its password.
    pub verifier: Option<String>,
    /// The moment after which the password is not valid, in microseconds since 2000-01-01 UTC.
    pub valid_until: Option<i64>,
    /// Its members, and whether each may make others members.
    pub members: Vec<(Oid, bool)>,
}

/// The content of a role that is there from the beginning and has no members.
static BARE: RoleBody = RoleBody::new();

impl Default for RoleBody {
    fn default() -> Self {
        Self::new()
    }
}

impl RoleBody {
    /// A role that may do nothing but inherit.
    pub const fn new() -> Self {
        Self {
            attributes: Attribute::Inherit as i64,
            connection_limit: -1,
            verifier: None,
            valid_until: None,
            members: Vec::new(),
        }
    }

    /// Whether it has an attribute.
    pub fn has(&self, attribute: Attribute) -> bool {
        self.attributes & attribute as i64 != 0
    }

    /// Gives it an attribute, or takes one.
    pub fn set(&mut self, attribute: Attribute, has: bool) {
        self.attributes &= !(attribute as i64);
        if has {
            self.attributes |= attribute as i64;
        }
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        writer.number(self.attributes);
        writer.number(self.connection_limit);
        writer.option(self.verifier.as_ref(), |writer, text| writer.text(text));
        writer.option(self.valid_until.as_ref(), |writer, moment| {
            writer.number(*moment);
        });
        writer.list(&self.members, |writer, (member, is_admin)| {
            writer.number((*member).into());
            writer.flag(*is_admin);
        });
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            attributes: reader.number()?,
            connection_limit: reader.number()?,
            verifier: reader.option(Reader::text)?,
            valid_until: reader.option(Reader::number)?,
            members: reader.list(|reader| Ok((reader.integer()?, reader.flag()?)))?,
        })
    }
}

impl Catalog {
    /// The number of the role with a name.
    pub fn role_named(&self, name: &str) -> Option<Oid> {
        match name {
            OWNER_NAME => Some(OWNER),
            DATABASE_OWNER_NAME => Some(DATABASE_OWNER),
            name => predefined_named(name).or_else(|| self.find_oid(Names::Roles, 0, name)),
        }
    }

    /// The name of a role.
    pub fn role_name(&self, role: Oid) -> Option<&str> {
        match role {
            OWNER => return Some(OWNER_NAME),
            DATABASE_OWNER => return Some(DATABASE_OWNER_NAME),
            _ => {}
        }
        if let Some(name) = predefined_name(role) {
            return Some(name);
        }
        let object = self.object(role)?;
        matches!(object.body, Body::Role(_)).then_some(object.name.as_str())
    }

    /// A role that was made, or is there from the beginning; none for the one that owns the
    /// database.
    pub fn role(&self, role: Oid) -> Option<&RoleBody> {
        match self.object(role).map(|object| &object.body) {
            Some(Body::Role(body)) => Some(body),
            Some(_) => None,
            None => predefined_name(role).map(|_| &BARE),
        }
    }

    /// The roles that were made.
    fn roles(&self) -> impl Iterator<Item = (Oid, &RoleBody)> {
        let all = (Names::Roles, 0, String::new())..(Names::Access, 0, String::new());
        let oids = self.names.range(all).map(|(_, oid)| *oid);
        oids.filter_map(|oid| Some((oid, self.role(oid)?)))
    }

    /// Whether a role has a property. The owner of the database has all of them.
    pub fn has_attribute(&self, role: Oid, attribute: Attribute) -> bool {
        role == OWNER || self.role(role).is_some_and(|body| body.has(attribute))
    }

    /// Whether a role may do everything.
    pub fn is_superuser(&self, role: Oid) -> bool {
        self.has_attribute(role, Attribute::Superuser)
    }

    /// The roles that a role is a member of, itself among them; `inherited` leaves those out whose
    /// privileges it has only after `SET ROLE`.
    pub fn memberships(&self, role: Oid, inherited: bool) -> BTreeSet<Oid> {
        let mut found = BTreeSet::from([role]);
        let mut open = vec![role];
        while let Some(member) = open.pop() {
            if inherited && !self.has_attribute(member, Attribute::Inherit) {
                continue;
            }
            for oid in memberships_from_the_beginning(member) {
                if found.insert(*oid) {
                    open.push(*oid);
                }
            }
            for (oid, body) in self.roles() {
                let is_member = body.members.iter().any(|(one, _)| *one == member);
                if is_member && found.insert(oid) {
                    open.push(oid);
                }
            }
        }
        found
    }

    /// Whether a role has the rights of another one.
    pub fn has_rights_of(&self, role: Oid, other: Oid) -> bool {
        self.is_superuser(role) || self.memberships(role, true).contains(&other)
    }
}
