//! Functions that tell what a role may do, and lists of access.
//!
//! Names and numbers of objects are looked up as `regclass` and its kin do it: a name that nothing
//! has is an error, a number gives NULL.

use super::describe::{number, record, rows};
use super::host::HostCall;
use crate::catalog::{DATABASE, Privilege};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Kind::{self, Text};
use crate::types::{Context, Datum, Names as _};

/// The words of privileges; a table's are those of columns too.
const WORDS: &[&str] = &[
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "TRUNCATE",
    "REFERENCES",
    "TRIGGER",
    "USAGE",
    "CREATE",
    "CONNECT",
    "TEMPORARY",
    "TEMP",
    "EXECUTE",
    "RULE",
    "MEMBER",
];

impl HostCall<'_> {
    /// The result of a function of this module; none if it is another one.
    pub(super) fn privilege(
        &self,
        context: &Context<'_>,
        function: &str,
        arguments: &[Datum],
    ) -> Result<Option<Datum>> {
        let Some((words, target)) = arguments.split_last() else {
            return Ok(None);
        };
        let kind = match function {
            "has_table_privilege" | "has_any_column_privilege" | "has_sequence_privilege" => {
                Kind::Regclass
            }
            "has_column_privilege" => Kind::Regclass,
            "has_schema_privilege" => Kind::Regnamespace,
            "has_type_privilege" => Kind::Regtype,
            "has_function_privilege" => Kind::Regprocedure,
            "pg_has_role" => Kind::Regrole,
            "has_database_privilege"
            | "has_language_privilege"
            | "has_tablespace_privilege"
            | "has_foreign_data_wrapper_privilege"
            | "has_server_privilege" => Kind::Oid,
            _ => return Ok(None),
        };
        let words = words.str()?;
        check_words(words)?;
        let is_column = function == "has_column_privilege";
        let ((true, [before @ .., object, _]) | (false, [before @ .., object])) =
            (is_column, target)
        else {
            return Ok(None);
        };
        let role = match before {
            [Datum::Text(name)] => self.named(context, Kind::Regrole, name)?,
            [Datum::Oid(role)] => *role,
            _ => self.names.role,
        };
        let database = Datum::Oid(DATABASE);
        let object = match object {
            Datum::Text(name) if function == "has_database_privilege" => {
                let session = &self.session;
                if **name != *session.database && **name != *session.own_database {
                    let message = format!("database \"{name}\" does not exist");
                    return Err(SqlError::new(SqlState("3D000"), message));
                }
                &database
            }
            other => other,
        };
        self.may(context, (role, kind), object, words).map(Some)
    }

    /// The number of an object by its name: roles and schemas are named as they are, all others as
    /// in a statement.
    fn named(&self, context: &Context<'_>, kind: Kind, name: &str) -> Result<u32> {
        let catalog = &self.names.catalog;
        let (found, state, word) = match kind {
            Kind::Regrole => (catalog.role_named(name), SqlState::UNDEFINED_OBJECT, "role"),
            Kind::Regnamespace => (
                catalog.schema(name),
                SqlState::INVALID_SCHEMA_NAME,
                "schema",
            ),
            _ => return context.names.object_oid(kind, name),
        };
        found.ok_or_else(|| SqlError::new(state, format!("{word} \"{name}\" does not exist")))
    }

    /// Whether a role has one of some privileges on an object; NULL for a number that nothing has.
    fn may(
        &self,
        context: &Context<'_>,
        (role, kind): (u32, Kind),
        object: &Datum,
        words: &str,
    ) -> Result<Datum> {
        let oid = match object {
            Datum::Text(name) if kind != Kind::Oid => self.named(context, kind, name)?,
            Datum::Oid(oid) => *oid,
            // Everyone may connect to the database, and use its languages.
            _ => return Ok(Datum::Bool(true)),
        };
        let catalog = &self.names.catalog;
        if kind == Kind::Oid && oid != DATABASE {
            return Ok(Datum::Bool(true));
        }
        if kind != Kind::Oid && context.names.object_name(kind, oid).is_none() {
            return Ok(Datum::Null);
        }
        if catalog.is_superuser(role) {
            return Ok(Datum::Bool(true));
        }
        if kind == Kind::Regrole {
            return Ok(Datum::Bool(self.has_role(role, oid, words)));
        }
        let words: Vec<String> = words
            .split(',')
            .map(|word| word.trim().to_uppercase())
            .collect();
        let bits = |suffix: &str| {
            let words = words.iter().filter_map(|word| word.strip_suffix(suffix));
            let bits = words.filter_map(|word| {
                let word = if word == "TEMP" { "TEMPORARY" } else { word };
                let mut all = Privilege::ALL.iter();
                all.find(|(_, _, one)| *one == word)
                    .map(|(privilege, ..)| privilege.bit())
            });
            bits.fold(0, |bits, bit| bits | bit)
        };
        let (held, grantable) = (bits(""), bits(" WITH GRANT OPTION"));
        Ok(Datum::Bool(
            if catalog.object(oid).is_some() || oid == DATABASE {
                catalog.may(role, oid, held) || catalog.may_grant(role, oid, grantable)
            } else {
                // Everyone reads relations of the system, and uses their types and functions.
                kind != Kind::Regclass || held & Privilege::Select.bit() != 0
            },
        ))
    }

    /// Whether a role is a member of another one in one of some ways.
    fn has_role(&self, role: u32, other: u32, words: &str) -> bool {
        let catalog = &self.names.catalog;
        words.split(',').any(|word| {
            let word = word.trim().to_uppercase();
            let roles = catalog.memberships(role, word == "USAGE");
            if !word.ends_with(" OPTION") {
                return roles.contains(&other);
            }
            let members = catalog.role(other).map_or(&[][..], |body| &body.members);
            let mut members = members.iter();
            members.any(|(member, is_admin)| *is_admin && roles.contains(member))
        })
    }

    /// Lists of access: the one that an object has if nothing was granted, and one as rows.
    pub(super) fn access_list(&self, function: &str, arguments: &[Datum]) -> Result<Datum> {
        if function == "aclexplode" {
            let entries = arguments[0].array()?.elements.iter();
            let entries = entries.filter_map(|entry| entry.str().ok());
            let mut exploded = Vec::new();
            for entry in entries {
                exploded.extend(self.exploded(entry));
            }
            return Ok(rows(Kind::Record, exploded));
        }
        let owner = match number(&arguments[1]) {
            Some(owner) => self.names.object_name(Kind::Regrole, owner),
            None => None,
        };
        let owner = owner.unwrap_or_default();
        let letters = match arguments[0].str()? {
            "r" | "c" => "arwdDxt",
            "s" => "rwU",
            "n" => "UC",
            "d" => "CTc",
            "f" => "X",
            _ => "U",
        };
        let public = match arguments[0].str()? {
            "d" => Some(format!("=Tc/{owner}")),
            "f" => Some(format!("=X/{owner}")),
            "T" | "l" => Some(format!("=U/{owner}")),
            _ => None,
        };
        let entries = public
            .into_iter()
            .chain([format!("{owner}={letters}/{owner}")]);
        Ok(rows(Text, entries.map(Datum::text).collect()))
    }

    /// The rows of an entry of a list of access: `grantee=letters/grantor`.
    fn exploded(&self, entry: &str) -> Vec<Datum> {
        let Some((grantee, rest)) = entry.split_once('=') else {
            return Vec::new();
        };
        let (letters, grantor) = rest.split_once('/').unwrap_or((rest, ""));
        let oid = |name: &str| match name {
            "" => Datum::Oid(0),
            name => self
                .names
                .object_oid(Kind::Regrole, name)
                .map_or(Datum::Oid(0), Datum::Oid),
        };
        let mut letters = letters.chars().peekable();
        let mut rows = Vec::new();
        while let Some(letter) = letters.next() {
            let is_grantable = letters.next_if_eq(&'*').is_some();
            rows.push(record(vec![
                oid(grantor),
                oid(grantee),
                Datum::text(word_of(letter)),
                Datum::Bool(is_grantable),
            ]));
        }
        rows
    }
}

/// The word of a letter in a list of access.
fn word_of(letter: char) -> &'static str {
    match letter {
        'r' => "SELECT",
        'a' => "INSERT",
        'w' => "UPDATE",
        'd' => "DELETE",
        'D' => "TRUNCATE",
        'x' => "REFERENCES",
        't' => "TRIGGER",
        'U' => "USAGE",
        'C' => "CREATE",
        'c' => "CONNECT",
        'T' => "TEMPORARY",
        'X' => "EXECUTE",
        _ => "",
    }
}

/// Fails for a word that is no privilege; several have commas between them.
fn check_words(words: &str) -> Result<()> {
    for word in words.split(',') {
        let upper = word.trim().to_uppercase();
        let plain = upper
            .strip_suffix(" WITH GRANT OPTION")
            .or_else(|| upper.strip_suffix(" WITH ADMIN OPTION"))
            .unwrap_or(&upper);
        if !WORDS.contains(&plain) {
            let message = format!("unrecognized privilege type: \"{}\"", word.trim());
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    }
    Ok(())
}
