//! Roles: `CREATE ROLE` and its kin, and `GRANT` and `REVOKE` of their memberships.
//!
//! Messages and their conditions are PostgreSQL's.

use crate::catalog::{Attribute, Body, EVERYONE, OWNER, Object, Oid, RoleBody, predefined_name};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use crate::state::verifier;
use crate::types::{Kind, text_io};
use sql_parse::{ident_text, object_name};
use sqlparser::ast::{
    AlterRoleOperation, CreateRole, Expr, Grantee, Ident, ObjectName, Password, RoleOption,
    Statement,
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
        Statement::GrantRole(grant) => {
            session.check_grantor(grant.granted_by.as_ref())?;
            let is_admin = grant
                .options
                .iter()
                .any(|option| option.name.value.eq_ignore_ascii_case("admin"));
            for role in &grant.roles {
                for member in session.members_named(&grant.grantees)? {
                    session.join_role(role, member, is_admin)?;
                }
            }
            "GRANT ROLE"
        }
        Statement::RevokeRole(revoke) => {
            session.check_grantor(revoke.granted_by.as_ref())?;
            for role in &revoke.roles {
                for member in session.members_named(&revoke.grantees)? {
                    session.leave_role(role, member, revoke.option_for.is_some())?;
                }
            }
            "REVOKE ROLE"
        }
        _ => return Ok(None),
    };
    Ok(Some(Completion::new(command)))
}

/// Objects that the error of a role that cannot be dropped names at most.
const NEEDS_MAX: usize = 100;

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

/// Fails for a role that is there from the beginning, which nobody alters.
pub(super) fn check_not_reserved(role: Oid) -> Result<()> {
    let Some(name) = predefined_name(role) else {
        return Ok(());
    };
    let message = format!("role name \"{name}\" is reserved");
    let error = SqlError::new(SqlState("42939"), message);
    Err(error.detail("Cannot alter reserved roles."))
}

pub(super) fn refused(message: impl Into<String>) -> SqlError {
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

    /// Roles that see more than others are created by superusers.
    fn may_create_role(&self, body: &RoleBody) -> Result<()> {
        let guarded = [
            (Attribute::Superuser, "superusers"),
            (Attribute::Replication, "replication users"),
            (Attribute::BypassRowSecurity, "bypassrls users"),
        ];
        let is_superuser = self.catalog().is_superuser(self.environment.names.role);
        match guarded.iter().find(|(attribute, _)| body.has(*attribute)) {
            Some((_, kind)) if !is_superuser => {
                Err(refused(format!("must be superuser to create {kind}")))
            }
            _ => self.may_define_roles("permission denied to create role"),
        }
    }

    /// The same for changes; to take such an attribute away needs a superuser too.
    fn may_alter_role(&self, body: &RoleBody, operation: &AlterRoleOperation) -> Result<()> {
        let options = match operation {
            AlterRoleOperation::WithOptions { options } => options.as_slice(),
            AlterRoleOperation::RenameRole { .. } => return self.may_change(body, "rename"),
            _ => &[],
        };
        let sets = |is_it: fn(&RoleOption) -> bool| options.iter().any(is_it);
        let message = if body.has(Attribute::Superuser)
            || sets(|option| matches!(option, RoleOption::SuperUser(_)))
        {
            "must be superuser to alter superuser roles or change superuser attribute"
        } else if body.has(Attribute::Replication)
            || sets(|option| matches!(option, RoleOption::Replication(_)))
        {
            "must be superuser to alter replication roles or change replication attribute"
        } else if sets(|option| matches!(option, RoleOption::BypassRLS(_))) {
            "must be superuser to change bypassrls attribute"
        } else {
            return Ok(());
        };
        if self.catalog().is_superuser(self.environment.names.role) {
            return Ok(());
        }
        Err(refused(message))
    }

    fn create_role(&mut self, create: &CreateRole) -> Result<()> {
        self.begin_definition()?;
        let body = self.role_of(create)?;
        self.may_create_role(&body)?;
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
            let oid = self.sql.next_oid(1);
            self.put_role(oid, &name, body.clone())?;
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

    fn role_of(&mut self, create: &CreateRole) -> Result<RoleBody> {
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
            body.verifier = self.verifier_of(password)?;
        }
        Ok(body)
    }

    fn alter_role(&mut self, name: &Ident, operation: &AlterRoleOperation) -> Result<()> {
        self.begin_definition()?;
        let mut name = ident_text(name);
        let role = self.role_of_word(&name)?;
        check_not_reserved(role)?;
        if let Some(own) = self.catalog().role_name(role) {
            own.clone_into(&mut name);
        }
        if matches!(operation, AlterRoleOperation::RenameRole { .. }) {
            let (own, session) = (
                self.environment.names.role,
                self.environment.host.session_role,
            );
            let who = match role {
                role if role == session => Some("session"),
                role if role == own => Some("current"),
                _ => None,
            };
            if let Some(who) = who {
                let message = format!("{who} user cannot be renamed");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
        }
        let own_password = matches!(operation, AlterRoleOperation::WithOptions { options }
            if options.iter().all(|option| matches!(option, RoleOption::Password(_))));
        let found = self.catalog().role(role).cloned();
        if let Some(body) = &found {
            self.may_alter_role(body, operation)?;
        }
        if role != self.environment.names.role || !own_password {
            self.may_define_roles("permission denied")?;
        }
        let Some(mut body) = found else {
            let instead = "Create a role for your client, and alter that one.";
            return Err(SqlError::unsupported(
                format!("altering the role \"{name}\", which owns the database,"),
                instead,
            ));
        };
        let mut new_name = name;
        match operation {
            AlterRoleOperation::WithOptions { options } => {
                for option in options {
                    self.change_role(&mut body, option)?;
                }
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

    fn change_role(&mut self, body: &mut RoleBody, option: &RoleOption) -> Result<()> {
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
            RoleOption::Password(password) => body.verifier = self.verifier_of(password)?,
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

    pub(super) fn known_role(&self, name: &str) -> Result<Oid> {
        self.catalog().role_named(name).ok_or_else(|| no_role(name))
    }

    fn drop_role(&mut self, role: Oid, name: &str) -> Result<()> {
        if role == self.environment.names.role || role == OWNER {
            let message = "current user cannot be dropped";
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, message));
        }
        if predefined_name(role).is_some() {
            let message =
                format!("cannot drop role {name} because it is required by the database system");
            let state = SqlState::DEPENDENT_OBJECTS_STILL_EXIST;
            return Err(SqlError::new(state, message));
        }
        if role == self.environment.host.session_role {
            let message = "session user cannot be dropped";
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, message));
        }
        if let Some(body) = self.catalog().role(role) {
            self.may_change(body, "drop")?;
        }
        let catalog = Arc::clone(self.catalog());
        let needs = self.needs_of_role(role);
        if !needs.is_empty() {
            let message =
                format!("role \"{name}\" cannot be dropped because some objects depend on it");
            let error = SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message);
            return Err(error.detail(needs[..needs.len().min(NEEDS_MAX)].join("\n")));
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
        let member_name = self.catalog().role_name(member).unwrap_or("?").to_owned();
        if self.catalog().memberships(role, false).contains(&member) {
            let message = format!("role \"{name}\" is a member of role \"{member_name}\"");
            return Err(SqlError::new(SqlState("0LP01"), message));
        }
        match body.members.iter_mut().find(|(one, _)| *one == member) {
            Some((_, was_admin)) if *was_admin || !is_admin => {
                let message =
                    format!("role \"{member_name}\" is already a member of role \"{name}\"");
                self.environment.host.notice(message);
                return Ok(());
            }
            Some((_, was_admin)) => *was_admin = true,
            None => body.members.push((member, is_admin)),
        }
        self.put_role(role, &name, body)
    }

    /// Ends a membership of a role, or with `admin_only` its right to make others members.
    fn leave_role(&mut self, role: &Ident, member: Oid, admin_only: bool) -> Result<()> {
        let (role, name, mut body) = self.role_to_change(role)?;
        let Some(at) = body.members.iter().position(|(one, _)| *one == member) else {
            let member = self.catalog().role_name(member).unwrap_or("?");
            let message = format!("role \"{member}\" is not a member of role \"{name}\"");
            self.environment.host.warning(SqlState("01000"), message);
            return Ok(());
        };
        if admin_only {
            body.members[at].1 = false;
        } else {
            body.members.remove(at);
        }
        self.put_role(role, &name, body)
    }

    /// The form in which a password is kept; none for no password, and for one that cannot be
    /// checked.
    fn verifier_of(&mut self, password: &Password) -> Result<Option<String>> {
        let Password::Password(text) = password else {
            return Ok(None);
        };
        let text = literal(text)?;
        if text.is_empty() {
            return Ok(None);
        }
        let verifier = verifier(&text);
        if verifier.is_none() {
            let message = "MD5 hashes of passwords are not supported: the role has no password until it is set anew";
            self.environment.host.warning(SqlState::WARNING, message);
        }
        Ok(verifier)
    }

    /// The roles that a statement names as members.
    fn members_named(&self, grantees: &[Grantee]) -> Result<Vec<Oid>> {
        let members = self.grantees(grantees)?;
        if members.contains(&EVERYONE) {
            return Err(no_role("public"));
        }
        Ok(members)
    }

    /// Fails for `GRANTED BY` with a role in whose name the session's role may not act.
    fn check_grantor(&self, granted_by: Option<&Ident>) -> Result<()> {
        let Some(grantor) = granted_by else {
            return Ok(());
        };
        let (own, grantor) = (
            self.environment.names.role,
            self.role_of_word(&ident_text(grantor))?,
        );
        if grantor == own || self.catalog().is_superuser(own) {
            return Ok(());
        }
        Err(refused("must be superuser to set grantor"))
    }

    /// A role whose members the session's role may change.
    fn role_to_change(&mut self, role: &Ident) -> Result<(Oid, String, RoleBody)> {
        self.begin_definition()?;
        let name = ident_text(role);
        let role = self.known_role(&name)?;
        let body = self.catalog().role(role).cloned();
        let own = self.environment.names.role;
        let body = body.ok_or_else(|| refused("must be superuser to alter superusers"))?;
        let roles = self.catalog().memberships(own, false);
        let mut members = body.members.iter();
        if !members.any(|(member, is_admin)| *is_admin && roles.contains(member)) {
            let message = format!("must have admin option on role \"{name}\"");
            self.may_define_roles(&message)?;
        }
        self.may_change(&body, "alter")?;
        Ok((role, name, body))
    }
}

fn literal(value: &Expr) -> Result<String> {
    let text = match value {
        Expr::Value(value) => value.value.clone().into_string(),
        _ => None,
    };
    text.ok_or_else(|| {
        let message = format!("syntax error at or near \"{value}\"");
        SqlError::new(SqlState::SYNTAX_ERROR, message)
    })
}

fn number_of(value: &Expr) -> Result<i64> {
    let text = value.to_string();
    let number = text.replace(' ', "").parse::<i64>().ok();
    number.filter(|number| *number >= -1).ok_or_else(|| {
        let message = format!("invalid connection limit: {text}");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })
}
