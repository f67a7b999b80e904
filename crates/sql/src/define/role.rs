//! Roles and privileges: `CREATE ROLE` and its kin, `GRANT`, `REVOKE`.
//!
//! Messages and their conditions are PostgreSQL's. Privileges on columns, and those on functions,
//! are not kept.

use crate::catalog::{
    AccessBody, Attribute, Body, Defaults, EVERYONE, Grant as Granted, Names, OWNER, Object, Oid,
    Privilege, RoleBody,
};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use crate::state::{quoted, verifier};
use crate::types::{Kind, text_io};
use sql_parse::{ident_text, object_name};
use sqlparser::ast::{
    Action, AlterRoleOperation, CreateRole, Expr, Grant, GrantObjects, Grantee, GranteeName,
    GranteesType, Ident, ObjectName, Owner, Password, Privileges, Revoke, RoleOption, Statement,
    Value,
};
use std::sync::Arc;

/// Runs such a statement; none if it is another one.
pub(super) fn run(session: &mut Session, statement: &Statement) -> Result<Option<Completion>> {
    let command = match statement {
        Statement::CreateRole(create) => {
            session.create_role(create)?;
            "CREATE ROLE"
        }
        Statement::AlterRole { name, operation } => {
            session.alter_role(name, operation)?;
            "ALTER ROLE"
        }
        Statement::Grant(grant) => {
            session.grant(grant)?;
            "GRANT"
        }
        Statement::Revoke(revoke) => {
            session.revoke(revoke)?;
            "REVOKE"
        }
        Statement::GrantRole(grant) => {
            let is_admin = grant
                .options
                .iter()
                .any(|option| option.name.value.eq_ignore_ascii_case("admin"));
            for role in &grant.roles {
                for member in session.grantees(&grant.grantees)? {
                    session.join_role(role, member, is_admin)?;
                }
            }
            "GRANT ROLE"
        }
        Statement::RevokeRole(revoke) => {
            for role in &revoke.roles {
                for member in session.grantees(&revoke.grantees)? {
                    session.leave_role(role, member)?;
                }
            }
            "REVOKE ROLE"
        }
        _ => return Ok(None),
    };
    Ok(Some(Completion::new(command)))
}

/// Drops roles.
pub(super) fn drop(
    session: &mut Session,
    names: &[ObjectName],
    if_exists: bool,
) -> Result<Completion> {
    session.begin_definition()?;
    session.may_define_roles("permission denied to drop role")?;
    for name in names {
        let (_, name) = object_name(name)?;
        match session.catalog().role_named(&name) {
            Some(role) => session.drop_role(role, &name)?,
            None if if_exists => {
                let message = format!("role \"{name}\" does not exist, skipping");
                session.environment.host.notice(message);
            }
            None => return Err(no_role(&name)),
        }
    }
    Ok(Completion::new("DROP ROLE"))
}

/// The error of a role that does not exist.
pub(crate) fn no_role(name: &str) -> SqlError {
    let message = format!("role \"{name}\" does not exist");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}

impl Session {
    /// Roles are defined by superusers, and by those who may create roles.
    pub(super) fn may_define_roles(&self, message: &str) -> Result<()> {
        let role = self.environment.names.role;
        let catalog = self.catalog();
        if catalog.is_superuser(role) || catalog.has_attribute(role, Attribute::CreateRole) {
            return Ok(());
        }
        Err(refused(message))
    }

    /// Superusers are made and changed by superusers.
    fn may_change(&self, body: &RoleBody, what: &str) -> Result<()> {
        if body.has(Attribute::Superuser)
            && !self.catalog().is_superuser(self.environment.names.role)
        {
            return Err(refused(format!("must be superuser to {what} superusers")));
        }
        Ok(())
    }

    fn create_role(&mut self, create: &CreateRole) -> Result<()> {
        self.begin_definition()?;
        self.may_define_roles("permission denied to create role")?;
        for name in &create.names {
            let (_, name) = object_name(name)?;
            if name.starts_with("pg_") || matches!(name.as_str(), "public" | "none") {
                let message = format!("role name \"{name}\" is reserved");
                return Err(SqlError::new(SqlState("42939"), message));
            }
            if self.catalog().role_named(&name).is_some() {
                let message = format!("role \"{name}\" already exists");
                return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
            }
            let body = self.role_of(create)?;
            self.may_change(&body, "create")?;
            let oid = self.sql.next_oid(1);
            self.put_role(oid, &name, body)?;
            for (roles, is_admin) in [
                (&create.role, false),
                (&create.user, false),
                (&create.admin, true),
            ] {
                for member in roles {
                    let member = self.known_role(&ident_text(member))?;
                    self.join_role(&Ident::with_quote('"', &name), member, is_admin)?;
                }
            }
            for role in create.in_role.iter().chain(&create.in_group) {
                self.join_role(role, oid, false)?;
            }
        }
        Ok(())
    }

    fn role_of(&self, create: &CreateRole) -> Result<RoleBody> {
        let mut body = RoleBody::new();
        let attributes = [
            (Attribute::Superuser, create.superuser),
            (Attribute::Inherit, create.inherit),
            (Attribute::CreateRole, create.create_role),
            (Attribute::CreateDatabase, create.create_db),
            (Attribute::Login, create.login),
            (Attribute::Replication, create.replication),
            (Attribute::BypassRowSecurity, create.bypassrls),
        ];
        for (attribute, has) in attributes {
            if let Some(has) = has {
                body.set(attribute, has);
            }
        }
        if let Some(limit) = &create.connection_limit {
            body.connection_limit = number_of(limit)?;
        }
        if let Some(moment) = &create.valid_until {
            body.valid_until = self.moment_of(moment)?;
        }
        if let Some(password) = &create.password {
            body.verifier = verifier_of(password)?;
        }
        Ok(body)
    }

    fn alter_role(&mut self, name: &Ident, operation: &AlterRoleOperation) -> Result<()> {
        self.begin_definition()?;
        let name = ident_text(name);
        let role = self.known_role(&name)?;
        let own_password = matches!(operation, AlterRoleOperation::WithOptions { options }
            if options.iter().all(|option| matches!(option, RoleOption::Password(_))));
        if role != self.environment.names.role || !own_password {
            self.may_define_roles("permission denied")?;
        }
        let Some(mut body) = self.catalog().role(role).cloned() else {
            let instead = "Create a role for your client, and alter that one.";
            return Err(SqlError::unsupported(
                format!("altering the role \"{name}\", which owns the database,"),
                instead,
            ));
        };
        self.may_change(&body, "alter")?;
        let mut new_name = name;
        match operation {
            AlterRoleOperation::WithOptions { options } => {
                for option in options {
                    self.change_role(&mut body, option)?;
                }
                self.may_change(&body, "alter")?;
            }
            AlterRoleOperation::RenameRole { role_name } => {
                new_name = ident_text(role_name);
                if self.catalog().role_named(&new_name).is_some() {
                    let message = format!("role \"{new_name}\" already exists");
                    return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
                }
            }
            other => {
                let instead = "Let the client set it when it connects.";
                return Err(SqlError::unsupported(
                    format!("ALTER ROLE {other}"),
                    instead,
                ));
            }
        }
        self.put_role(role, &new_name, body)
    }

    fn change_role(&self, body: &mut RoleBody, option: &RoleOption) -> Result<()> {
        match option {
            RoleOption::SuperUser(has) => body.set(Attribute::Superuser, *has),
            RoleOption::Inherit(has) => body.set(Attribute::Inherit, *has),
            RoleOption::CreateRole(has) => body.set(Attribute::CreateRole, *has),
            RoleOption::CreateDB(has) => body.set(Attribute::CreateDatabase, *has),
            RoleOption::Login(has) => body.set(Attribute::Login, *has),
            RoleOption::Replication(has) => body.set(Attribute::Replication, *has),
            RoleOption::BypassRLS(has) => body.set(Attribute::BypassRowSecurity, *has),
            RoleOption::ConnectionLimit(limit) => body.connection_limit = number_of(limit)?,
            RoleOption::ValidUntil(moment) => body.valid_until = self.moment_of(moment)?,
            RoleOption::Password(password) => body.verifier = verifier_of(password)?,
        }
        Ok(())
    }

    fn moment_of(&self, text: &Expr) -> Result<Option<i64>> {
        let context = self.environment.context();
        match text_io::parse(Kind::Timestamptz, &literal(text)?, &context)? {
            crate::types::Datum::Timestamptz(moment) => Ok(Some(moment)),
            _ => Ok(None),
        }
    }

    fn put_role(&mut self, oid: Oid, name: &str, body: RoleBody) -> Result<()> {
        self.write_object(
            Object {
                oid,
                namespace: 0,
                name: name.to_owned(),
                comment: None,
                body: Body::Role(body),
            },
            None,
        )
    }

    fn known_role(&self, name: &str) -> Result<Oid> {
        self.catalog().role_named(name).ok_or_else(|| no_role(name))
    }

    fn drop_role(&mut self, role: Oid, name: &str) -> Result<()> {
        if role == self.environment.names.role || role == OWNER {
            let message = "current user cannot be dropped";
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, message));
        }
        if let Some(body) = self.catalog().role(role) {
            self.may_change(body, "drop")?;
        }
        let catalog = Arc::clone(self.catalog());
        let is_named = catalog.objects().any(|object| match &object.body {
            Body::Access(access) => {
                access.owner == role || access.grants.iter().any(|grant| grant.grantee == role)
            }
            Body::Defaults(body) => match &body.of {
                Defaults::Objects { grants, .. } => {
                    body.role == role || grants.iter().any(|grant| grant.grantee == role)
                }
                Defaults::Settings { .. } => false,
            },
            _ => false,
        });
        if is_named {
            let message =
                format!("role \"{name}\" cannot be dropped because some objects depend on it");
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                message,
            ));
        }
        for object in catalog.objects() {
            if let Body::Role(body) = &object.body
                && body.members.iter().any(|(member, _)| *member == role)
            {
                let mut body = body.clone();
                body.members.retain(|(member, _)| *member != role);
                self.put_role(object.oid, &object.name, body)?;
            }
        }
        self.forget_defaults(role)?;
        self.remove(role)
    }

    /// Makes a role a member of another one.
    fn join_role(&mut self, role: &Ident, member: Oid, is_admin: bool) -> Result<()> {
        let (role, name, mut body) = self.role_to_change(role)?;
        if self.catalog().memberships(role, false).contains(&member) {
            let catalog = self.catalog();
            let message = format!(
                "role \"{name}\" is a member of role \"{}\"",
                catalog.role_name(member).unwrap_or("?")
            );
            return Err(SqlError::new(SqlState("0LP01"), message));
        }
        body.members.retain(|(one, _)| *one != member);
        body.members.push((member, is_admin));
        self.put_role(role, &name, body)
    }

    fn leave_role(&mut self, role: &Ident, member: Oid) -> Result<()> {
        let (role, name, mut body) = self.role_to_change(role)?;
        body.members.retain(|(one, _)| *one != member);
        self.put_role(role, &name, body)
    }

    /// A role whose members the session's role may change.
    fn role_to_change(&mut self, role: &Ident) -> Result<(Oid, String, RoleBody)> {
        self.begin_definition()?;
        let name = ident_text(role);
        let role = self.known_role(&name)?;
        let body = self.catalog().role(role).cloned();
        let own = self.environment.names.role;
        let body = body.ok_or_else(|| refused("must be superuser to alter superusers"))?;
        if !body.members.contains(&(own, true)) {
            let message = format!("must have admin option on role \"{name}\"");
            self.may_define_roles(&message)?;
        }
        self.may_change(&body, "alter")?;
        Ok((role, name, body))
    }

    /// The roles that a statement names; 0 is everyone.
    pub(super) fn grantees(&self, grantees: &[Grantee]) -> Result<Vec<Oid>> {
        let each = grantees.iter().map(|grantee| match &grantee.name {
            _ if grantee.grantee_type == GranteesType::Public => Ok(EVERYONE),
            Some(GranteeName::ObjectName(name)) => match object_name(name)?.1.as_str() {
                "public" => Ok(EVERYONE),
                "current_user" | "current_role" => Ok(self.environment.names.role),
                "session_user" => Ok(self.environment.host.session_role),
                name => self.known_role(name),
            },
            _ => Err(no_role("")),
        });
        each.collect()
    }

    fn grant(&mut self, grant: &Grant) -> Result<()> {
        self.begin_definition()?;
        let grantees = self.grantees(&grant.grantees)?;
        for object in self.objects_of(grant.objects.as_ref())? {
            let privileges = privileges_of(&grant.privileges, &object)?;
            let privileges = self.grantable(&object, privileges, "were granted")?;
            if privileges == 0 {
                continue;
            }
            let mut access = self.access_of(&object);
            for grantee in &grantees {
                let grantable = if grant.with_grant_option {
                    privileges
                } else {
                    0
                };
                let mut known = access.grants.iter_mut();
                match known.find(|known| known.grantee == *grantee) {
                    Some(known) => {
                        known.privileges |= privileges;
                        known.grantable |= grantable;
                    }
                    None => access.grants.push(Granted {
                        grantee: *grantee,
                        grantor: access.owner,
                        privileges,
                        grantable,
                    }),
                }
            }
            self.put_access(access)?;
        }
        Ok(())
    }

    fn revoke(&mut self, revoke: &Revoke) -> Result<()> {
        self.begin_definition()?;
        let grantees = self.grantees(&revoke.grantees)?;
        for object in self.objects_of(revoke.objects.as_ref())? {
            let privileges = privileges_of(&revoke.privileges, &object)?;
            let privileges = self.grantable(&object, privileges, "could be revoked")?;
            let mut access = self.access_of(&object);
            for grant in &mut access.grants {
                if grantees.contains(&grant.grantee) {
                    grant.grantable &= !privileges;
                    if !revoke.grant_option_for {
                        grant.privileges &= !privileges;
                    }
                }
            }
            access.grants.retain(|grant| grant.privileges != 0);
            self.put_access(access)?;
        }
        Ok(())
    }

    /// Those of some privileges that the session's role may grant and revoke: all if it owns the
    /// object, else those that it has with the grant option. A role that has none of them is
    /// warned, and one without any privilege on the object is refused.
    fn grantable(&mut self, object: &Object, privileges: i64, done: &str) -> Result<i64> {
        let (role, catalog) = (self.environment.names.role, self.catalog());
        if catalog.owns(role, object.oid) {
            return Ok(privileges);
        }
        let roles = catalog.memberships(role, true);
        let grants = catalog.access(object.oid);
        let grants = grants.map_or(&[][..], |access| &access.grants).iter();
        let own = grants.filter(|grant| roles.contains(&grant.grantee));
        let grantable = own.fold(0, |bits, grant| bits | grant.grantable) & privileges;
        if grantable == 0 {
            let all = Privilege::of(&object.body);
            self.environment.names.check(role, object, all)?;
            let message = format!("no privileges {done} for \"{}\"", object.name);
            self.environment.host.warning(SqlState("01007"), message);
        }
        Ok(grantable)
    }

    /// The objects that a statement names.
    fn objects_of(&self, objects: Option<&GrantObjects>) -> Result<Vec<Arc<Object>>> {
        let in_schemas = |schemas: &[ObjectName], is_wanted: fn(&Body) -> bool| {
            let mut found = Vec::new();
            for schema in schemas {
                let schema = self.environment.names.schema(&object_name(schema)?.1)?;
                let objects = self
                    .catalog()
                    .objects()
                    .filter(|object| object.namespace == schema && is_wanted(&object.body));
                found.extend(objects.cloned());
            }
            Ok(found)
        };
        match objects {
            Some(
                GrantObjects::Tables(names)
                | GrantObjects::Views(names)
                | GrantObjects::Sequences(names),
            ) => {
                let each = names.iter().map(|name| {
                    let (schema, name) = object_name(name)?;
                    let names = &self.environment.names;
                    let found = names.find(Names::Relations, schema.as_deref(), &name);
                    let found = found.cloned();
                    found.ok_or_else(|| sql_bind::no_relation(schema.as_deref(), &name))
                });
                each.collect()
            }
            Some(GrantObjects::Schemas(names)) => {
                let each = names.iter().map(|name| {
                    let oid = self.environment.names.schema(&object_name(name)?.1)?;
                    let schema = self.catalog().object(oid).cloned();
                    schema.ok_or_else(|| SqlError::internal("a schema has an object"))
                });
                each.collect()
            }
            Some(GrantObjects::AllTablesInSchema { schemas }) => in_schemas(schemas, |body| {
                matches!(body, Body::Table(_) | Body::View(_))
            }),
            Some(GrantObjects::AllSequencesInSchema { schemas }) => {
                in_schemas(schemas, |body| matches!(body, Body::Sequence(_)))
            }
            // Everyone may connect to the database and call its functions.
            Some(
                GrantObjects::Databases(_)
                | GrantObjects::Functions(_)
                | GrantObjects::AllFunctionsInSchema { .. },
            ) => Ok(Vec::new()),
            _ => Err(SqlError::unsupported(
                "privileges on these objects",
                "Grant privileges on tables, sequences and schemas.",
            )),
        }
    }

    /// The owner and the grants of an object.
    fn access_of(&self, object: &Object) -> AccessBody {
        let access = self.catalog().access(object.oid).cloned();
        access.unwrap_or_else(|| AccessBody {
            object: object.oid,
            owner: OWNER,
            grants: Vec::new(),
        })
    }

    pub(super) fn put_access(&mut self, access: AccessBody) -> Result<()> {
        let name = access.object.to_string();
        let known = self.catalog().find_oid(Names::Access, 0, &name);
        let oid = known.unwrap_or_else(|| self.sql.next_oid(1));
        self.write_object(
            Object {
                oid,
                namespace: 0,
                name,
                comment: None,
                body: Body::Access(access),
            },
            None,
        )
    }

    /// Gives an object to a role that the session's role is a member of.
    pub(super) fn change_owner(&mut self, oid: Oid, owner: &Owner) -> Result<()> {
        let names = &self.environment.names;
        let owner = match owner {
            Owner::Ident(name) => self.known_role(&ident_text(name))?,
            Owner::CurrentRole | Owner::CurrentUser => names.role,
            Owner::SessionUser => self.environment.host.session_role,
        };
        let Some(object) = self.catalog().object(oid).cloned() else {
            return Ok(());
        };
        self.must_own(&object)?;
        if !self.may_become(names.role, owner) {
            let name = names.catalog.role_name(owner).unwrap_or("?");
            return Err(refused(format!("must be member of role \"{name}\"")));
        }
        self.set_owner(&object, owner)
    }

    /// Whether a role may take another one with `SET ROLE`.
    pub(crate) fn may_become(&self, role: Oid, other: Oid) -> bool {
        let catalog = self.catalog();
        catalog.is_superuser(role) || catalog.memberships(role, false).contains(&other)
    }

    /// Gives an object another owner.
    pub(super) fn set_owner(&mut self, object: &Object, owner: Oid) -> Result<()> {
        let access = AccessBody {
            owner,
            ..self.access_of(object)
        };
        self.put_access(access)
    }
}

/// The bits of the privileges that a statement names for an object.
fn privileges_of(privileges: &Privileges, object: &Object) -> Result<i64> {
    let all = Privilege::of(&object.body);
    privileges_among(privileges, (all, object.kind_name()))
}

/// The bits of the privileges that a statement names, of those that a kind of objects has.
pub(super) fn privileges_among(
    privileges: &Privileges,
    (all, kind): (i64, &'static str),
) -> Result<i64> {
    let actions = match privileges {
        Privileges::All { .. } => return Ok(all),
        Privileges::Actions(actions) => actions,
    };
    let mut bits = 0;
    for action in actions {
        let (privilege, columns) = match action {
            Action::Select { columns } => (Privilege::Select, columns.as_ref()),
            Action::Insert { columns } => (Privilege::Insert, columns.as_ref()),
            Action::Update { columns } => (Privilege::Update, columns.as_ref()),
            Action::References { columns } => (Privilege::References, columns.as_ref()),
            Action::Delete => (Privilege::Delete, None),
            Action::Truncate => (Privilege::Truncate, None),
            Action::Trigger => (Privilege::Trigger, None),
            Action::Usage => (Privilege::Usage, None),
            Action::Create { .. } => (Privilege::Create, None),
            Action::Execute { .. } => (Privilege::Execute, None),
            // The database has no privileges of its own.
            Action::Connect | Action::Temporary => continue,
            other => {
                let message = format!("unrecognized privilege type \"{other}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        if columns.is_some() {
            let instead = "Grant it on the table, or on a view of the columns.";
            return Err(SqlError::unsupported("a privilege on columns", instead));
        }
        if privilege.bit() & all == 0 {
            let message = format!("invalid privilege type {action} for {kind}");
            return Err(SqlError::new(SqlState("0LP01"), message));
        }
        bits |= privilege.bit();
    }
    Ok(bits)
}

fn verifier_of(password: &Password) -> Result<Option<String>> {
    match password {
        Password::NullPassword => Ok(None),
        Password::Password(text) => {
            let text = literal(text)?;
            Ok((!text.is_empty()).then(|| verifier(&text)))
        }
    }
}

fn literal(value: &Expr) -> Result<String> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Ok(text.clone()),
            other => Ok(other.to_string()),
        },
        other => {
            let message = format!("syntax error at or near \"{}\"", quoted(&other.to_string()));
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}

fn number_of(value: &Expr) -> Result<i64> {
    let text = value.to_string();
    let number = text.replace(' ', "").parse::<i64>().ok();
    number.filter(|number| *number >= -1).ok_or_else(|| {
        let message = format!("invalid connection limit: {text}");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })
}
