//! Roles, and what they may do with objects.
//!
//! An object belongs to the role that has made it. Its owner may do everything with it, a superuser
//! may do everything with all objects, and others may do what was granted to them, to a role that
//! they are members of, or to all. An object without an [`AccessBody`] belongs to the role that
//! owns the database, and nothing was granted.

use super::oid::{INDELIBLE, INFORMATION_SCHEMA, OWNER, Oid, PG_CATALOG, PUBLIC};
use super::{Body, Catalog, Names, Object};
use crate::error::Result;
use sql_values::codec::{Reader, Writer};
use std::collections::BTreeSet;

/// The name of the role that owns the database.
pub const OWNER_NAME: &str = "indelible";

/// The role that owns the schema `public` in the catalogue, as in PostgreSQL.
pub const DATABASE_OWNER: Oid = 6171;
/// Its name.
pub const DATABASE_OWNER_NAME: &str = "pg_database_owner";
/// The grantee that is everyone.
pub const EVERYONE: Oid = 0;

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

/// The owner of an object, and what others may do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessBody {
    /// The object.
    pub object: Oid,
    /// The role that it belongs to.
    pub owner: Oid,
    /// The privileges of other roles.
    pub grants: Vec<Grant>,
}

/// Privileges of a role on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The role that has them, or [`EVERYONE`].
    pub grantee: Oid,
    /// The role that has given them.
    pub grantor: Oid,
    /// Bits of privileges, and of those that may be granted on.
    pub privileges: i64,
    /// Bits of those that it may grant on.
    pub grantable: i64,
}

/// A right on an object, as a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// Adding rows.
    Insert = 1,
    /// Reading rows, or the value of a sequence.
    Select = 2,
    /// Changing rows, or the value of a sequence.
    Update = 4,
    /// Deleting rows.
    Delete = 8,
    /// Emptying a table.
    Truncate = 16,
    /// Foreign keys that refer to a table.
    References = 32,
    /// Kept for dumps; there are no triggers.
    Trigger = 64,
    /// Using a schema, a sequence, a type or a function.
    Usage = 128,
    /// Making objects in a schema.
    Create = 256,
    /// Calling a function; kept for functions that will be made.
    Execute = 512,
}

impl Privilege {
    /// All of them, with their letters in lists of access and their words, in PostgreSQL's order.
    pub const ALL: [(Self, char, &'static str); 10] = [
        (Self::Insert, 'a', "INSERT"),
        (Self::Select, 'r', "SELECT"),
        (Self::Update, 'w', "UPDATE"),
        (Self::Delete, 'd', "DELETE"),
        (Self::Truncate, 'D', "TRUNCATE"),
        (Self::References, 'x', "REFERENCES"),
        (Self::Trigger, 't', "TRIGGER"),
        (Self::Execute, 'X', "EXECUTE"),
        (Self::Usage, 'U', "USAGE"),
        (Self::Create, 'C', "CREATE"),
    ];

    /// The bit by which sets of privileges have it.
    pub fn bit(self) -> i64 {
        self as i64
    }

    /// The bits of the privileges that an object of a kind has.
    pub fn of(body: &Body) -> i64 {
        match body {
            Body::Table(_) | Body::View(_) => 127,
            Body::Sequence(_) => Self::Select.bit() | Self::Update.bit() | Self::Usage.bit(),
            Body::Schema => Self::Usage.bit() | Self::Create.bit(),
            _ => Self::Usage.bit(),
        }
    }

    /// The letters of a set of bits; those that may be granted on have a star.
    pub fn letters(privileges: i64, grantable: i64) -> String {
        let mut letters = String::new();
        for (privilege, letter, _) in Self::ALL {
            if privileges & privilege.bit() != 0 {
                letters.push(letter);
            }
            if grantable & privilege.bit() != 0 {
                letters.push('*');
            }
        }
        letters
    }
}

impl Default for RoleBody {
    fn default() -> Self {
        Self::new()
    }
}

impl RoleBody {
    /// A role that may do nothing but inherit.
    pub fn new() -> Self {
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

impl AccessBody {
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.number(self.object.into());
        writer.number(self.owner.into());
        write_grants(writer, &self.grants);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            object: reader.integer()?,
            owner: reader.integer()?,
            grants: read_grants(reader)?,
        })
    }
}

pub(super) fn write_grants(writer: &mut Writer, grants: &[Grant]) {
    writer.list(grants, |writer, grant| {
        writer.number(grant.grantee.into());
        writer.number(grant.grantor.into());
        writer.number(grant.privileges);
        writer.number(grant.grantable);
    });
}

pub(super) fn read_grants(reader: &mut Reader<'_>) -> Result<Vec<Grant>> {
    reader.list(|reader| {
        Ok(Grant {
            grantee: reader.integer()?,
            grantor: reader.integer()?,
            privileges: reader.number()?,
            grantable: reader.number()?,
        })
    })
}

impl Catalog {
    /// The number of the role with a name.
    pub fn role_named(&self, name: &str) -> Option<Oid> {
        match name {
            OWNER_NAME => Some(OWNER),
            DATABASE_OWNER_NAME => Some(DATABASE_OWNER),
            name => self.find_oid(Names::Roles, 0, name),
        }
    }

    /// The name of a role.
    pub fn role_name(&self, role: Oid) -> Option<&str> {
        match role {
            OWNER => return Some(OWNER_NAME),
            DATABASE_OWNER => return Some(DATABASE_OWNER_NAME),
            _ => {}
        }
        let object = self.object(role)?;
        matches!(object.body, Body::Role(_)).then_some(object.name.as_str())
    }

    /// A role that was made; none for the one that owns the database.
    pub fn role(&self, role: Oid) -> Option<&RoleBody> {
        match &self.object(role)?.body {
            Body::Role(body) => Some(body),
            _ => None,
        }
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
            for object in self.objects() {
                let Body::Role(body) = &object.body else {
                    continue;
                };
                let is_member = body.members.iter().any(|(one, _)| *one == member);
                if is_member && found.insert(object.oid) {
                    open.push(object.oid);
                }
            }
        }
        found
    }

    /// The owner and the grants of an object, if it has any of its own.
    pub fn access(&self, object: Oid) -> Option<&AccessBody> {
        let oid = self.find_oid(Names::Access, 0, &object.to_string())?;
        match &self.object(oid)?.body {
            Body::Access(access) => Some(access),
            _ => None,
        }
    }

    /// The owner of an object.
    pub fn owner(&self, object: Oid) -> Oid {
        self.access(object).map_or(OWNER, |access| access.owner)
    }

    /// Whether a role may do as an object's owner does.
    pub fn owns(&self, role: Oid, object: Oid) -> bool {
        self.is_superuser(role) || self.memberships(role, true).contains(&self.owner(object))
    }

    /// Whether a role has one of some privileges on an object.
    pub fn may(&self, role: Oid, object: &Object, privileges: i64) -> bool {
        if self.is_superuser(role) {
            return true;
        }
        let own_schemas = [PUBLIC, PG_CATALOG, INFORMATION_SCHEMA, INDELIBLE];
        if own_schemas.contains(&object.oid) && privileges & Privilege::Usage.bit() != 0 {
            return true;
        }
        let roles = self.memberships(role, true);
        if roles.contains(&self.owner(object.oid)) {
            return true;
        }
        let grants = self.access(object.oid);
        let mut grants = grants.map_or(&[][..], |access| &access.grants).iter();
        grants.any(|grant| {
            grant.privileges & privileges != 0
                && (grant.grantee == EVERYONE || roles.contains(&grant.grantee))
        })
    }

    /// The list of access of an object, as PostgreSQL prints its entries; none if nothing was
    /// granted.
    pub fn access_list(&self, object: &Object) -> Option<Vec<String>> {
        let access = self.access(object.oid)?;
        if access.grants.is_empty() {
            return None;
        }
        let own = Grant {
            grantee: access.owner,
            grantor: access.owner,
            privileges: Privilege::of(&object.body),
            grantable: 0,
        };
        let all: Vec<Grant> = [own].iter().chain(&access.grants).copied().collect();
        Some(self.grant_texts(&all))
    }
}
