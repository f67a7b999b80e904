//! Defaults of roles: settings with which their sessions begin, and privileges on the objects that
//! they will make.
//!
//! An object of the catalogue has those of a role in one respect, and is found by both. It is gone
//! when it says what would hold without it.

use super::grants::{AccessBody, Grant, initial, read_grants, write_grants};
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

    /// The owner of an object that a role makes, and the privileges on it.
    pub fn default_access(&self, role: Oid, object: &Object) -> AccessBody {
        let kind = object.kind_letter();
        let said = |schema: Oid| match self.defaults(&format!("{role}/{schema}/{kind}"))?.1.of {
            Defaults::Objects { ref grants, .. } => Some(grants.clone()),
            Defaults::Settings { .. } => None,
        };
        let grants = said(0).unwrap_or_else(|| initial(role, 0, kind));
        let mut access = AccessBody {
            object: object.oid,
            owner: role,
            grants,
        };
        // Schemas are in none.
        if object.namespace != 0 {
            for grant in said(object.namespace).into_iter().flatten() {
                access.add(grant);
            }
        }
        access
    }
}
