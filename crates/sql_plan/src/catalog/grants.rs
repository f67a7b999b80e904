//! Owners of objects, and what others may do with them.
//!
//! An object belongs to the role that has made it, and a superuser may do everything with all
//! objects. Others may do what was granted to them, to a role that they are members of, or to
//! everyone. A grant has the role that gave it, its *grantor*, and ends with the grantor's right to
//! give it: who grants what follows PostgreSQL (its manual, section 5.7, and `GRANT`, `REVOKE`).
//!
//! An object without an [`AccessBody`] belongs to the role that owns the database, with the
//! privileges of [`initial`]. Those are kept only if they have changed: an entry stands beside the
//! initial one, or replaces it if it has the mark [`REPLACES`].

use super::oid::{EVERYONE, Oid, PUBLIC};
use crate::error::{Result, SqlError, SqlState};
use sql_values::codec::{Reader, Writer};
use std::collections::BTreeSet;

/// The bit of a kept entry that stands instead of the initial one. Builds before it ignore it.
const REPLACES: i64 = 1 << 32;

/// The owner of an object, and the privileges on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessBody {
    /// The object.
    pub object: Oid,
    /// The role that it belongs to.
    pub owner: Oid,
    /// The privileges of all roles, the owner's among them; as kept, those that are not initial.
    pub grants: Vec<Grant>,
}

/// The roles whose privileges a role has, itself among them.
pub type RolesOf<'r> = &'r dyn Fn(Oid) -> BTreeSet<Oid>;

/// Privileges of a role on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The role that has them, or [`EVERYONE`].
    pub grantee: Oid,
    /// The role that has given them.
    pub grantor: Oid,
    /// Bits of privileges.
    pub privileges: i64,
    /// Bits of those that the role may grant. The owner may grant all in any case.
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
    /// Calling a function.
    Execute = 512,
    /// Beginning a session in the database.
    Connect = 1024,
    /// Making temporary objects in the database.
    Temporary = 2048,
}

impl Privilege {
    /// All of them, with their letters in lists of access and their words, in PostgreSQL's order.
    pub const ALL: [(Self, char, &'static str); 12] = [
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
        (Self::Temporary, 'T', "TEMPORARY"),
        (Self::Connect, 'c', "CONNECT"),
    ];

    /// The bit by which sets of privileges have it.
    pub fn bit(self) -> i64 {
        self as i64
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

/// The bits of the privileges on objects of a kind; that of the database is `d`.
pub fn privileges_of_kind(kind: char) -> i64 {
    let of = |privileges: &[Privilege]| privileges.iter().map(|one| one.bit()).sum();
    match kind {
        'r' => 127,
        'S' => of(&[Privilege::Select, Privilege::Update, Privilege::Usage]),
        'n' => of(&[Privilege::Usage, Privilege::Create]),
        'f' => Privilege::Execute.bit(),
        'd' => of(&[Privilege::Create, Privilege::Connect, Privilege::Temporary]),
        _ => Privilege::Usage.bit(),
    }
}

/// The privileges on new objects before anything was said: those of the owner, and everyone's on
/// functions, types and the database. What a schema adds to them is nothing.
pub fn initial(role: Oid, schema: Oid, kind: char) -> Vec<Grant> {
    if schema != 0 {
        return Vec::new();
    }
    let grant = |grantee, privileges| Grant {
        grantee,
        grantor: role,
        privileges,
        grantable: 0,
    };
    let all = privileges_of_kind(kind);
    let everyone = match kind {
        'f' | 'T' => Some(grant(EVERYONE, all)),
        'd' => Some(grant(EVERYONE, all & !Privilege::Create.bit())),
        _ => None,
    };
    everyone.into_iter().chain([grant(role, all)]).collect()
}

impl AccessBody {
    /// The privileges that hold before anything was granted.
    fn initial(&self, kind: char) -> Vec<Grant> {
        let mut grants = initial(self.owner, 0, kind);
        if self.object == PUBLIC {
            grants.push(Grant {
                grantee: EVERYONE,
                grantor: self.owner,
                privileges: Privilege::Usage.bit(),
                grantable: 0,
            });
        }
        grants
    }

    /// All of it, of what is kept.
    pub(super) fn in_full(&self, kind: char) -> Self {
        let mut full = Self {
            grants: Vec::new(),
            ..*self
        };
        let unmarked = |grant: &Grant| Grant {
            privileges: grant.privileges & !REPLACES,
            ..*grant
        };
        for first in self.initial(kind) {
            let mut kept = self.grants.iter();
            let instead =
                kept.find(|one| is_for_same(one, &first) && one.privileges & REPLACES != 0);
            full.add(instead.map_or(first, unmarked));
        }
        for grant in &self.grants {
            full.add(unmarked(grant));
        }
        full
    }

    /// The part of it that is kept.
    #[must_use]
    pub fn kept(mut self, kind: char) -> Self {
        for first in self.initial(kind) {
            let place = self.grants.iter().position(|one| is_for_same(one, &first));
            match place {
                Some(place) if self.grants[place] == first => drop(self.grants.remove(place)),
                Some(place) if first.privileges & !self.grants[place].privileges != 0 => {
                    self.grants[place].privileges |= REPLACES;
                }
                Some(_) => {}
                None => self.grants.push(Grant {
                    privileges: REPLACES,
                    ..first
                }),
            }
        }
        self
    }

    /// The privileges that one of some roles has, and those that it may grant.
    pub fn held_by(&self, roles: &BTreeSet<Oid>) -> (i64, i64) {
        let own = |grant: &&Grant| grant.grantee == EVERYONE || roles.contains(&grant.grantee);
        let held = self.grants.iter().filter(own);
        let (privileges, grantable) = held.fold((0, 0), |(privileges, grantable), grant| {
            (privileges | grant.privileges, grantable | grant.grantable)
        });
        let is_owner = roles.contains(&self.owner);
        (privileges, if is_owner { !0 } else { grantable })
    }

    /// Those of some privileges that one of some roles may grant.
    fn grantable_by(&self, roles: &BTreeSet<Oid>, privileges: i64) -> i64 {
        self.held_by(roles).1 & privileges
    }

    /// The role in whose name one of some roles grants or revokes privileges, and those of them
    /// that it may: the owner, or else the first that may do most.
    pub fn grantor(&self, (role, roles): (Oid, &BTreeSet<Oid>), privileges: i64) -> (Oid, i64) {
        if roles.contains(&self.owner) {
            return (self.owner, privileges);
        }
        let by = |role| self.grantable_by(&BTreeSet::from([role]), privileges);
        let mut best = (role, by(role));
        for other in roles {
            let may = by(*other);
            if may.count_ones() > best.1.count_ones() {
                best = (*other, may);
            }
        }
        best
    }

    /// Adds privileges to those of their grantee.
    pub(super) fn add(&mut self, grant: Grant) {
        match self.grants.iter_mut().find(|one| is_for_same(one, &grant)) {
            Some(known) => {
                known.privileges |= grant.privileges;
                known.grantable |= grant.grantable;
            }
            None if grant.privileges != 0 => self.grants.push(grant),
            None => {}
        }
    }

    /// Grants privileges.
    ///
    /// # Errors
    ///
    /// 0LP01 if everyone is to grant them, or the grantor has them from the grantee alone.
    pub fn grant(&mut self, grant: Grant, roles: RolesOf<'_>) -> Result<()> {
        let refused = |message: &str| Err(SqlError::new(SqlState("0LP01"), message));
        if grant.grantable != 0 && grant.grantee == EVERYONE {
            return refused("grant options can only be granted to roles");
        }
        if grant.grantable != 0 && grant.grantor != self.owner {
            let mut without = self.clone();
            let given = self
                .grants
                .iter()
                .filter(|one| one.grantee == grant.grantee);
            for one in given {
                let all = Grant {
                    grantable: !0,
                    ..*one
                };
                without.revoke(all, (true, true), roles)?;
            }
            let left = without.grantable_by(&roles(grant.grantor), grant.grantable);
            if left != grant.grantable {
                return refused("grant options cannot be granted back to your own grantor");
            }
        }
        self.add(grant);
        Ok(())
    }

    /// Revokes privileges of a grantee that a grantor gave, or with `options_only` the right to
    /// grant them; with `cascade` also what the grantee could give by them alone.
    ///
    /// # Errors
    ///
    /// 2BP01 without `cascade` if the grantee has given such privileges.
    pub fn revoke(
        &mut self,
        gone: Grant,
        (options_only, cascade): (bool, bool),
        roles: RolesOf<'_>,
    ) -> Result<()> {
        let mut known = self.grants.iter_mut();
        let Some(known) = known.find(|one| is_for_same(one, &gone)) else {
            return Ok(());
        };
        let lost = known.grantable & gone.grantable;
        known.grantable &= !gone.grantable;
        if !options_only {
            known.privileges &= !gone.privileges;
        }
        self.grants.retain(|one| one.privileges != 0);
        let lost = lost & !self.grantable_by(&roles(gone.grantee), lost);
        let given = |one: &&Grant| one.grantor == gone.grantee && one.privileges & lost != 0;
        while let Some(given) = self.grants.iter().find(given).copied() {
            if !cascade {
                let state = SqlState::DEPENDENT_OBJECTS_STILL_EXIST;
                return Err(SqlError::new(state, "dependent privileges exist")
                    .hint("Use CASCADE to revoke them too."));
            }
            let dependent = Grant {
                privileges: lost,
                grantable: lost,
                ..given
            };
            self.revoke(dependent, (false, true), roles)?;
        }
        Ok(())
    }

    /// Gives the object to another role: it has what its owner had, and has given what it gave.
    #[must_use]
    pub fn given_to(&self, owner: Oid) -> Self {
        let mut given = Self {
            owner,
            grants: Vec::new(),
            ..*self
        };
        let new = |role| if role == self.owner { owner } else { role };
        for grant in &self.grants {
            given.add(Grant {
                grantee: new(grant.grantee),
                grantor: new(grant.grantor),
                ..*grant
            });
        }
        given
    }

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

/// Whether two grants are from one role to one role.
fn is_for_same(one: &Grant, other: &Grant) -> bool {
    (one.grantee, one.grantor) == (other.grantee, other.grantor)
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
