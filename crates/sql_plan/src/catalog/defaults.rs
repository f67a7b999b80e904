//! Defaults of roles: settings with which their sessions begin, and privileges on the objects that
//! they will make.
//!
//! An object of the catalogue has those of a role in one respect, and is found by both. It is gone
//! when it says what would hold without it.

use super::access::{EVERYONE, Grant, Privilege, read_grants, write_grants};
use super::oid::Oid;
use super::{Body, Catalog, Names, Object};
use crate::error::Result;
use sql_values::codec::{Reader, Writer};

/// Defaults of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultsBody {
    /// The role; 0 for all roles.
    pub role: Oid,
    /// The defaults.
    pub of: Defaults,
}

/// The kinds of defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Defaults {
    /// Settings of sessions.
    Settings {
        /// Whether they are for sessions in the database (`ALTER DATABASE`, `IN DATABASE`).
        in_database: bool,
        /// Names and values.
        values: Vec<(String, String)>,
    },
    /// Privileges on new objects.
    Objects {
        /// Their schema; 0 for all.
        schema: Oid,
        /// Their kind: `r`, `S`, `f`, `T` or `n`.
        kind: char,
        /// The privileges: all, the owner's included, or those that a schema adds.
        grants: Vec<Grant>,
    },
}

impl DefaultsBody {
    /// The name by which its object is found.
    pub fn key(&self) -> String {
        match &self.of {
            Defaults::Settings { in_database, .. } => {
                format!("{}/settings/{in_database}", self.role)
            }
            Defaults::Objects { schema, kind, .. } => format!("{}/{schema}/{kind}", self.role),
        }
    }

    /// Whether there is nothing left of it: it is as if nothing had been said.
    pub fn is_empty(&self) -> bool {
        match &self.of {
            Defaults::Settings { values, .. } => values.is_empty(),
            Defaults::Objects {
                schema,
                kind,
                grants,
            } => *grants == initial(self.role, *schema, *kind),
        }
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        writer.number(self.role.into());
        match &self.of {
            Defaults::Settings {
                in_database,
                values,
            } => {
                writer.byte(0);
                writer.flag(*in_database);
                writer.list(values, |writer, (name, value)| {
                    writer.text(name);
                    writer.text(value);
                });
            }
            Defaults::Objects {
                schema,
                kind,
                grants,
            } => {
                writer.byte(*kind as u8);
                writer.number((*schema).into());
                write_grants(writer, grants);
            }
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let role = reader.integer()?;
        let of = match reader.byte()? {
            0 => Defaults::Settings {
                in_database: reader.flag()?,
                values: reader.list(|reader| Ok((reader.text()?, reader.text()?)))?,
            },
            kind @ (b'r' | b'S' | b'f' | b'T' | b'n') => Defaults::Objects {
                kind: kind.into(),
                schema: reader.integer()?,
                grants: read_grants(reader)?,
            },
            _ => return Err(reader.damaged()),
        };
        Ok(Self { role, of })
    }
}

/// The bits of the privileges on objects of a kind.
pub fn privileges_of_kind(kind: char) -> i64 {
    match kind {
        'r' => 127,
        'S' => Privilege::Select.bit() | Privilege::Update.bit() | Privilege::Usage.bit(),
        'n' => Privilege::Usage.bit() | Privilege::Create.bit(),
        'f' => Privilege::Execute.bit(),
        _ => Privilege::Usage.bit(),
    }
}

/// The privileges on new objects before anything was said: those of the owner, and everyone's on
/// functions and types. What a schema adds is nothing.
pub fn initial(role: Oid, schema: Oid, kind: char) -> Vec<Grant> {
    if schema != 0 {
        return Vec::new();
    }
    let privileges = privileges_of_kind(kind);
    let grant = |grantee| Grant {
        grantee,
        grantor: role,
        privileges,
        grantable: 0,
    };
    let everyone = matches!(kind, 'f' | 'T').then(|| grant(EVERYONE));
    everyone.into_iter().chain([grant(role)]).collect()
}

/// The letter of the kind of an object whose privileges are kept.
fn kind_of(body: &Body) -> Option<char> {
    match body {
        Body::Table(_) | Body::View(_) => Some('r'),
        Body::Sequence(_) => Some('S'),
        Body::Schema => Some('n'),
        _ => None,
    }
}

impl Catalog {
    /// The defaults with a key, with the number of their object.
    pub fn defaults(&self, key: &str) -> Option<(Oid, &DefaultsBody)> {
        let oid = self.find_oid(Names::Access, 0, key)?;
        match &self.object(oid)?.body {
            Body::Defaults(body) => Some((oid, body)),
            _ => None,
        }
    }

    /// All defaults, with the numbers of their objects.
    pub fn all_defaults(&self) -> impl Iterator<Item = (Oid, &DefaultsBody)> {
        self.objects().filter_map(|object| match &object.body {
            Body::Defaults(body) => Some((object.oid, body)),
            _ => None,
        })
    }

    /// The settings with which sessions of a role begin, the weakest first.
    pub fn session_settings(&self, role: Oid) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (role, in_database) in [(0, false), (0, true), (role, false), (role, true)] {
            let key = format!("{role}/settings/{in_database}");
            if let Some((_, body)) = self.defaults(&key)
                && let Defaults::Settings { values, .. } = &body.of
            {
                found.extend(values.iter().cloned());
            }
        }
        found
    }

    /// The privileges of others on an object that a role makes.
    pub fn default_grants(&self, role: Oid, object: &Object) -> Vec<Grant> {
        let Some(kind) = kind_of(&object.body) else {
            return Vec::new();
        };
        let mut grants: Vec<Grant> = Vec::new();
        for schema in [0, object.namespace] {
            let known = self.defaults(&format!("{role}/{schema}/{kind}"));
            let Some(Defaults::Objects { grants: own, .. }) = known.map(|(_, body)| &body.of)
            else {
                continue;
            };
            for grant in own.iter().filter(|grant| grant.grantee != role) {
                match grants
                    .iter_mut()
                    .find(|known| known.grantee == grant.grantee)
                {
                    Some(known) => {
                        known.privileges |= grant.privileges;
                        known.grantable |= grant.grantable;
                    }
                    None => grants.push(*grant),
                }
            }
            // Schemas are in none.
            if object.namespace == 0 {
                break;
            }
        }
        grants
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
