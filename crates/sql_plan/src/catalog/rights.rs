//! The rights of roles on objects.
//!
//! A superuser may do everything. Another role has the rights that it was granted, those of the
//! roles that it is a member of, and everyone's.

use super::grants::{AccessBody, Grant, Privilege};
use super::oid::{
    DATABASE, DATABASE_OWNER, EVERYONE, INDELIBLE, INFORMATION_SCHEMA, OWNER, Oid, PG_CATALOG,
    PUBLIC,
};
use super::predefined::held_on_all;
use super::{Body, Catalog, Names};

impl Catalog {
    /// The owner and the privileges of an object, as they are kept.
    fn kept_access(&self, object: Oid) -> Option<&AccessBody> {
        let oid = self.find_oid(Names::Access, 0, &object.to_string())?;
        match &self.object(oid)?.body {
            Body::Access(access) => Some(access),
            _ => None,
        }
    }

    /// The comment on the database, which stands beside its privileges.
    pub fn database_comment(&self) -> Option<&str> {
        let oid = self.find_oid(Names::Access, 0, &DATABASE.to_string())?;
        self.object(oid)?.comment.as_deref()
    }

    /// The owner of an object, and all privileges on it.
    pub fn access(&self, object: Oid) -> AccessBody {
        let first = AccessBody {
            object,
            owner: self.owner(object),
            grants: Vec::new(),
        };
        let kept = self.kept_access(object).unwrap_or(&first);
        kept.in_full(self.kind(object))
    }

    /// The letter of the kind of an object.
    pub fn kind(&self, object: Oid) -> char {
        match self.object(object) {
            Some(object) => object.kind_letter(),
            None if object == DATABASE => 'd',
            None => 'T',
        }
    }

    /// The owner of an object.
    pub fn owner(&self, object: Oid) -> Oid {
        match self.kept_access(object) {
            Some(access) => access.owner,
            None if object == PUBLIC => DATABASE_OWNER,
            None => OWNER,
        }
    }

    /// Whether a role may do as an object's owner does.
    pub fn owns(&self, role: Oid, object: Oid) -> bool {
        self.is_superuser(role) || self.memberships(role, true).contains(&self.owner(object))
    }

    /// Whether a role has one of some privileges on an object.
    pub fn may(&self, role: Oid, object: Oid, privileges: i64) -> bool {
        self.held(role, object).0 & privileges != 0
    }

    /// Whether a role may grant one of some privileges on an object.
    pub fn may_grant(&self, role: Oid, object: Oid, privileges: i64) -> bool {
        self.held(role, object).1 & privileges != 0
    }

    /// The privileges of a role on an object, and those that it may grant.
    fn held(&self, role: Oid, object: Oid) -> (i64, i64) {
        if self.is_superuser(role) {
            return (!0, !0);
        }
        let roles = self.memberships(role, true);
        let (mut held, grantable) = self.access(object).held_by(&roles);
        held |= held_on_all(&roles, self.kind(object));
        if [PG_CATALOG, INFORMATION_SCHEMA, INDELIBLE].contains(&object) {
            held |= Privilege::Usage.bit();
        }
        (held, grantable)
    }

    /// The list of access of an object, as PostgreSQL prints its entries; none if nothing was
    /// granted or revoked.
    pub fn access_list(&self, object: Oid) -> Option<Vec<String>> {
        let kept = self.kept_access(object);
        if object != PUBLIC && kept.is_none_or(|kept| kept.grants.is_empty()) {
            return None;
        }
        Some(self.grant_texts(&self.access(object).grants))
    }

    /// A list of grants, as PostgreSQL prints its entries.
    pub fn grant_texts(&self, grants: &[Grant]) -> Vec<String> {
        let name = |role: Oid| match role {
            EVERYONE => "",
            role => self.role_name(role).unwrap_or("?"),
        };
        let texts = grants.iter().map(|grant| {
            let letters = Privilege::letters(grant.privileges, grant.grantable);
            format!("{}={letters}/{}", name(grant.grantee), name(grant.grantor))
        });
        texts.collect()
    }
}
