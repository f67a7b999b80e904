//! Defaults of roles, and everything of a role at once: `ALTER DEFAULT PRIVILEGES`, settings with
//! which sessions begin, `REASSIGN OWNED` and `DROP OWNED`.
//!
//! Defaults act when an object is made or a session begins; changing them changes nothing that is
//! there. Objects of a role are dropped in an order in which none needs another one.

use super::drop::label_of;
use super::grant::{Change, privileges_among};
use crate::catalog::{
    AccessBody, Body, Defaults, DefaultsBody, Grant, OWNER, Object, Oid, initial,
    privileges_of_kind,
};
use crate::error::{Result, SqlError, SqlState};
use crate::session::{Session, shown_name};
use crate::sink::Completion;
use crate::state::unknown_setting;
use sql_parse::{DefaultChange, DefaultPrivileges, SessionDefaults};
use sqlparser::ast::{Ident, ObjectName, Reset, Statement};
use std::sync::Arc;

/// Changes privileges on objects that roles will make.
pub(super) fn privileges(session: &mut Session, written: &DefaultPrivileges) -> Result<Completion> {
    session.begin_definition()?;
    let names = &session.environment.names;
    let schemas = written.schemas.iter().map(|schema| names.schema(schema));
    let mut schemas: Vec<Oid> = schemas.collect::<Result<_>>()?;
    if written.kind == 'n' && !schemas.is_empty() {
        let message = "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS";
        return Err(SqlError::new(SqlState("0LP01"), message));
    }
    if schemas.is_empty() {
        schemas.push(0);
    }
    let mut roles = session.roles_named(&written.roles)?;
    if roles.is_empty() {
        roles.push(session.environment.names.role);
    }
    for role in roles {
        session.must_be(role)?;
        for schema in &schemas {
            session.change_privileges(role, *schema, (written.kind, &written.change))?;
        }
    }
    Ok(Completion::new("ALTER DEFAULT PRIVILEGES"))
}

/// Changes settings with which sessions begin.
pub(super) fn settings(session: &mut Session, written: &SessionDefaults) -> Result<Completion> {
    session.begin_definition()?;
    let completion = Completion::new(match (&written.role, &written.database) {
        (None, Some(_)) => "ALTER DATABASE",
        _ => "ALTER ROLE",
    });
    let role = match &written.role {
        Some(role) => session.roles_named(std::slice::from_ref(role))?[0],
        None => 0,
    };
    super::role::check_not_reserved(role)?;
    if let Some(database) = &written.database {
        session.check_database(database)?;
    }
    let catalog = session.catalog();
    let own = session.environment.names.role;
    if !catalog.is_superuser(own) && (role == 0 || role != own) {
        let message = "permission denied to alter settings of others";
        match role {
            0 => return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)),
            role if catalog.is_superuser(role) => {
                let message = "must be superuser to alter superusers";
                return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
            _ => session.may_define_roles("permission denied")?,
        }
    }
    let mut body = DefaultsBody {
        role,
        of: Defaults::Settings {
            in_database: written.database.is_some(),
            values: Vec::new(),
        },
    };
    if let Some((_, known)) = session.catalog().defaults(&body.key()) {
        body = known.clone();
    }
    if let Defaults::Settings { values, .. } = &mut body.of {
        let change = session.default_change(&written.change)?;
        match change {
            None => values.clear(),
            Some((name, None)) => values.retain(|(known, _)| *known != name),
            Some((name, Some(value))) => {
                match values.iter_mut().find(|(known, _)| *known == name) {
                    Some(known) => known.1 = value,
                    None => values.push((name, value)),
                }
            }
        }
    }
    session.put_defaults(body)?;
    Ok(completion)
}

/// Gives all objects of roles to another one.
pub(super) fn reassign(session: &mut Session, from: &[String], to: &str) -> Result<Completion> {
    session.begin_definition()?;
    let from = session.roles_named(from)?;
    let to = session.roles_named(&[to.to_owned()])?[0];
    for role in from.iter().chain([&to]) {
        session.must_act_for(*role, "reassign")?;
    }
    if from.contains(&OWNER) {
        let name = crate::catalog::OWNER_NAME;
        let message = format!(
            "cannot reassign ownership of objects owned by role {name} because they are required by the database system"
        );
        return Err(SqlError::new(SqlState("2BP01"), message));
    }
    for access in session.accesses() {
        if !from.contains(&access.owner) {
            continue;
        }
        session.put_access(access.given_to(to))?;
    }
    Ok(Completion::new("REASSIGN OWNED"))
}

/// Drops all objects of roles, and takes their privileges away.
pub(super) fn drop_owned(
    session: &mut Session,
    roles: &[String],
    cascade: bool,
) -> Result<Completion> {
    session.begin_definition()?;
    let roles = session.roles_named(roles)?;
    for role in &roles {
        session.must_act_for(*role, "drop")?;
    }
    if roles.contains(&OWNER) {
        let name = crate::catalog::OWNER_NAME;
        let message = format!(
            "cannot drop objects owned by role {name} because they are required by the database system"
        );
        return Err(SqlError::new(SqlState("2BP01"), message));
    }
    session.drop_all_of(&roles, cascade)?;
    let catalog = Arc::clone(session.catalog());
    let roles_of = |role| catalog.memberships(role, true);
    for access in session.accesses() {
        let mut left = access.clone();
        for grant in &access.grants {
            if roles.contains(&grant.grantee) {
                let all = Grant {
                    grantable: !0,
                    ..*grant
                };
                left.revoke(all, (false, true), &roles_of)?;
            }
        }
        if left != access {
            session.put_access(left)?;
        }
    }
    for (oid, mut body) in session.copied_defaults() {
        let of_role = roles.contains(&body.role);
        match &mut body.of {
            Defaults::Objects { .. } if of_role => session.remove(oid)?,
            Defaults::Objects { grants, .. } => {
                grants.retain(|grant| !roles.contains(&grant.grantee));
                session.put_defaults(body)?;
            }
            Defaults::Settings { .. } => {}
        }
    }
    Ok(Completion::new("DROP OWNED"))
}

impl Session {
    /// The numbers of roles.
    fn roles_named(&self, names: &[String]) -> Result<Vec<Oid>> {
        names.iter().map(|name| self.role_of_word(name)).collect()
    }

    /// Fails unless the session's role may take a role.
    fn must_be(&self, role: Oid) -> Result<()> {
        if self.may_become(self.environment.names.role, role) {
            return Ok(());
        }
        let name = self.catalog().role_name(role).unwrap_or("?");
        let message = format!("must be member of role \"{name}\"");
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    /// Fails unless the session's role has the rights of a role without taking it.
    fn must_act_for(&self, role: Oid, verb: &str) -> Result<()> {
        let (own, catalog) = (self.environment.names.role, self.catalog());
        if catalog.is_superuser(own) || catalog.memberships(own, true).contains(&role) {
            return Ok(());
        }
        let message = format!("permission denied to {verb} objects");
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    /// Owners and grants of all objects that have them.
    fn accesses(&self) -> Vec<AccessBody> {
        let objects = self.catalog().objects();
        let accesses = objects.filter_map(|object| match &object.body {
            Body::Access(access) => Some(self.catalog().access(access.object)),
            _ => None,
        });
        accesses.collect()
    }

    fn copied_defaults(&self) -> Vec<(Oid, DefaultsBody)> {
        let all = self.catalog().all_defaults();
        all.map(|(oid, body)| (oid, body.clone())).collect()
    }

    /// Forgets the defaults of a role, or those in a schema.
    pub(super) fn forget_defaults(&mut self, gone: Oid) -> Result<()> {
        for (oid, body) in self.copied_defaults() {
            let in_schema = matches!(body.of, Defaults::Objects { schema, .. } if schema == gone);
            if body.role == gone || in_schema {
                self.remove(oid)?;
            }
        }
        Ok(())
    }

    /// Keeps defaults, or forgets them if nothing is left.
    fn put_defaults(&mut self, body: DefaultsBody) -> Result<()> {
        let name = body.key();
        let known = self.catalog().defaults(&name).map(|(oid, _)| oid);
        if body.is_empty() {
            return known.map_or(Ok(()), |oid| self.remove(oid));
        }
        let oid = known.unwrap_or_else(|| self.sql.next_oid(1));
        let object = Object {
            oid,
            namespace: 0,
            name,
            comment: None,
            body: Body::Defaults(body),
        };
        self.write_object(object, None)
    }

    fn change_privileges(
        &mut self,
        role: Oid,
        schema: Oid,
        (kind, change): (char, &Statement),
    ) -> Result<()> {
        let mut body = DefaultsBody {
            role,
            of: Defaults::Objects {
                schema,
                kind,
                grants: initial(role, schema, kind),
            },
        };
        if let Some((_, known)) = self.catalog().defaults(&body.key()) {
            body = known.clone();
        }
        let Defaults::Objects { grants, .. } = &mut body.of else {
            return Ok(());
        };
        let mut access = AccessBody {
            object: 0,
            owner: role,
            grants: std::mem::take(grants),
        };
        let (privileges, grantees, change) = match change {
            Statement::Grant(grant) => {
                let with_option = grant.with_grant_option;
                let change = Change::Grant { with_option };
                (&grant.privileges, &grant.grantees, change)
            }
            Statement::Revoke(revoke) => (&revoke.privileges, &revoke.grantees, Change::of(revoke)),
            _ => {
                let message = "syntax error: GRANT or REVOKE is missing";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        let privileges = privileges_among(privileges, (privileges_of_kind(kind), word_of(kind)))?;
        for grantee in self.grantees(grantees)? {
            let catalog = Arc::clone(self.catalog());
            change.make(&mut access, (grantee, role), (privileges, &catalog))?;
        }
        *grants = access.grants;
        grants.sort_unstable_by_key(|grant| grant.grantee);
        self.put_defaults(body)
    }

    /// The setting that a change is about, and its value, which is checked; none for all settings.
    fn default_change(
        &mut self,
        change: &DefaultChange,
    ) -> Result<Option<(String, Option<String>)>> {
        let (name, value) = match change {
            DefaultChange::Current(name) => {
                let value = self.environment.host.variables.get(name);
                let value = value.ok_or_else(|| unknown_setting(name))?.to_owned();
                (name.to_lowercase(), Some(value))
            }
            DefaultChange::Other(statement) => match &**statement {
                Statement::Reset(reset) => match &reset.reset {
                    Reset::ALL => return Ok(None),
                    Reset::ConfigurationParameter(name) => {
                        (name.to_string().replace('"', "").to_lowercase(), None)
                    }
                    Reset::SessionAuthorization => {
                        let message = "syntax error at or near \"SESSION\"";
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                    }
                },
                Statement::Set(set) => self.setting_of(set)?,
                _ => return Err(SqlError::internal("SET or RESET")),
            },
        };
        self.may_set(&name)?;
        let environment = &self.environment;
        let mut settings = environment.settings.clone();
        let mut variables = environment.host.variables.clone();
        variables.set(&mut settings, &name, value.as_deref())?;
        Ok(Some((shown_name(&name).to_owned(), value)))
    }

    /// The objects that a role owns or has privileges for, as an error tells them.
    pub(super) fn needs_of_role(&self, role: Oid) -> Vec<String> {
        let (names, catalog) = (&self.environment.names, self.catalog());
        let needs = catalog.objects().filter_map(|object| {
            let (owner, grants, label) = match &object.body {
                Body::Access(access) => {
                    let of = catalog.object(access.object);
                    let label = match of {
                        Some(of) => label_of(names, of),
                        None => format!("database {}", self.environment.host.database),
                    };
                    (access.owner, &access.grants, label)
                }
                Body::Defaults(body) => {
                    let Defaults::Objects {
                        schema,
                        kind,
                        grants,
                    } = &body.of
                    else {
                        return None;
                    };
                    let owner = catalog.role_name(body.role).unwrap_or("?");
                    let within = catalog.object(*schema).map(|schema| &schema.name);
                    let within = within.map(|schema| format!(" in schema {schema}"));
                    let label = format!(
                        "default privileges on new {}s belonging to role {owner}{}",
                        word_of(*kind),
                        within.unwrap_or_default()
                    );
                    (body.role, grants, label)
                }
                _ => return None,
            };
            if owner == role {
                return Some(format!("owner of {label}"));
            }
            let mut roles = grants
                .iter()
                .flat_map(|grant| [grant.grantee, grant.grantor]);
            roles
                .any(|one| one == role)
                .then(|| format!("privileges for {label}"))
        });
        needs.collect()
    }

    /// Drops the objects of roles in an order in which none needs another one.
    fn drop_all_of(&mut self, roles: &[Oid], cascade: bool) -> Result<()> {
        let all = self.accesses().into_iter();
        let all = all.filter(|access| roles.contains(&access.owner));
        self.drop_keys_among(&all.map(|access| access.object).collect::<Vec<_>>())?;
        loop {
            let mut failed: Option<SqlError> = None;
            let (mut left, mut is_less) = (0, false);
            for access in self.accesses() {
                let object = self.catalog().object(access.object).cloned();
                let Some(object) = object.filter(|_| roles.contains(&access.owner)) else {
                    continue;
                };
                left += 1;
                match self.drop_one(&object, cascade) {
                    Ok(()) => is_less = true,
                    Err(error) if error.state == SqlState::DEPENDENT_OBJECTS_STILL_EXIST => {
                        failed.get_or_insert(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            match failed {
                Some(error) if !is_less => return Err(error),
                _ if left == 0 => return Ok(()),
                _ => {}
            }
        }
    }

    fn drop_one(&mut self, object: &Arc<Object>, cascade: bool) -> Result<()> {
        match object.body {
            Body::Schema => {
                let name = Ident::with_quote('"', &object.name);
                self.drop_schema(&ObjectName::from(vec![name]), false, cascade)
            }
            _ => self.drop_with_dependents(object, cascade),
        }
    }
}

/// The word of a kind of objects in messages.
fn word_of(kind: char) -> &'static str {
    match kind {
        'r' => "relation",
        'S' => "sequence",
        'f' => "function",
        'T' => "type",
        _ => "schema",
    }
}
