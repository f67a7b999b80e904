//! `GRANT` and `REVOKE` of privileges on objects, and owners of objects.
//!
//! A role grants in the name of the object's owner, or of a role with the grant option that it is a
//! member of; what was given by a grant ends with it. Privileges on columns are not kept.

use super::role::refused;
use crate::catalog::{
    AccessBody, Body, Catalog, DATABASE, EVERYONE, Grant as Granted, Names, Object, Oid, Privilege,
    privileges_of_kind,
};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use sql_bind::functions;
use sql_parse::{ident_text, object_name};
use sqlparser::ast::{
    Action, CascadeOption, FunctionDesc, Grant, GrantObjects, Grantee, GranteeName, GranteesType,
    Ident, ObjectName, Owner, Privileges, Revoke,
};
use std::sync::Arc;

/// Grants privileges.
pub(super) fn grant(session: &mut Session, grant: &Grant) -> Result<Completion> {
    let change = Change::Grant {
        with_option: grant.with_grant_option,
    };
    let of = (grant.objects.as_ref(), &grant.privileges);
    session.change_grants(of, (&grant.grantees, grant.granted_by.as_ref()), change)?;
    Ok(Completion::new("GRANT"))
}

/// Revokes privileges.
pub(super) fn revoke(session: &mut Session, revoke: &Revoke) -> Result<Completion> {
    let change = Change::of(revoke);
    let of = (revoke.objects.as_ref(), &revoke.privileges);
    session.change_grants(of, (&revoke.grantees, revoke.granted_by.as_ref()), change)?;
    Ok(Completion::new("REVOKE"))
}

/// A change of privileges.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// They are granted.
    Grant { with_option: bool },
    /// They are revoked.
    Revoke { options_only: bool, cascade: bool },
}

impl Change {
    /// The change that a statement asks for.
    pub(super) fn of(revoke: &Revoke) -> Self {
        Self::Revoke {
            options_only: revoke.grant_option_for,
            cascade: matches!(revoke.cascade, Some(CascadeOption::Cascade)),
        }
    }

    /// Makes it for a grantee.
    pub(super) fn make(
        self,
        access: &mut AccessBody,
        (grantee, grantor): (Oid, Oid),
        (privileges, catalog): (i64, &Catalog),
    ) -> Result<()> {
        let roles = |role| catalog.memberships(role, true);
        let mut grant = Granted {
            grantee,
            grantor,
            privileges,
            grantable: privileges,
        };
        match self {
            Self::Grant { with_option } => {
                if !with_option {
                    grant.grantable = 0;
                }
                access.grant(grant, &roles)
            }
            Self::Revoke {
                options_only,
                cascade,
            } => access.revoke(grant, (options_only, cascade), &roles),
        }
    }
}

/// An object of which privileges change, as messages name it.
struct Target {
    oid: Oid,
    name: String,
    kind: char,
    kind_name: &'static str,
}

impl Target {
    fn of(object: &Object) -> Self {
        Self {
            oid: object.oid,
            name: object.name.clone(),
            kind: object.kind_letter(),
            kind_name: object.kind_name(),
        }
    }
}

impl Session {
    /// The role that a word names, which may stand for one.
    pub(super) fn role_of_word(&self, word: &str) -> Result<Oid> {
        match word {
            "current_user" | "current_role" => Ok(self.environment.names.role),
            "session_user" => Ok(self.environment.host.session_role),
            name => self.known_role(name),
        }
    }

    /// The roles that a statement names.
    pub(super) fn grantees(&self, grantees: &[Grantee]) -> Result<Vec<Oid>> {
        let each = grantees.iter().map(|grantee| match &grantee.name {
            _ if grantee.grantee_type == GranteesType::Public => Ok(EVERYONE),
            Some(GranteeName::ObjectName(name)) => match object_name(name)?.1.as_str() {
                "public" => Ok(EVERYONE),
                name => self.role_of_word(name),
            },
            _ => Err(super::role::no_role("")),
        });
        each.collect()
    }

    fn change_grants(
        &mut self,
        (objects, privileges): (Option<&GrantObjects>, &Privileges),
        (grantees, granted_by): (&[Grantee], Option<&Ident>),
        change: Change,
    ) -> Result<()> {
        self.begin_definition()?;
        if let Some(grantor) = granted_by
            && self.role_of_word(&ident_text(grantor))? != self.environment.names.role
        {
            let message = "grantor must be current user";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let grantees = self.grantees(grantees)?;
        let is_table = matches!(objects, Some(GrantObjects::Tables(_)));
        for target in self.targets(objects)? {
            let all = privileges_of_kind(target.kind);
            let wanted = match target.kind {
                'S' if is_table => self.on_sequence(privileges, &target)?,
                _ => privileges_among(privileges, (all, target.kind_name))?,
            };
            if wanted == 0 {
                continue;
            }
            let (grantor, wanted) = self.grantor(&target, (privileges, wanted), change)?;
            if wanted == 0 {
                continue;
            }
            let mut access = self.catalog().access(target.oid);
            for grantee in &grantees {
                let catalog = Arc::clone(self.catalog());
                change.make(&mut access, (*grantee, grantor), (wanted, &catalog))?;
            }
            self.put_access(access)?;
        }
        Ok(())
    }

    /// The privileges on a sequence that a statement names as if it were a table.
    fn on_sequence(&mut self, privileges: &Privileges, target: &Target) -> Result<i64> {
        let all = privileges_of_kind('S');
        if matches!(privileges, Privileges::All { .. }) {
            return Ok(all);
        }
        let wanted = privileges_among(privileges, (all | privileges_of_kind('r'), "relation"))?;
        if wanted & !all != 0 {
            let message = format!(
                "sequence \"{}\" only supports USAGE, SELECT, and UPDATE privileges",
                target.name
            );
            self.environment.host.warning(SqlState("0LP01"), message);
        }
        Ok(wanted & all)
    }

    /// The role in whose name the session's role grants or revokes, and those of some privileges
    /// that it may. A role that may do so with some of them, or none, is warned; one without any
    /// privilege on the object is refused.
    fn grantor(
        &mut self,
        target: &Target,
        (written, wanted): (&Privileges, i64),
        change: Change,
    ) -> Result<(Oid, i64)> {
        let (role, catalog) = (self.environment.names.role, self.catalog());
        let access = catalog.access(target.oid);
        if catalog.owns(role, target.oid) {
            return Ok((access.owner, wanted));
        }
        let roles = catalog.memberships(role, true);
        let (grantor, may) = access.grantor((role, &roles), wanted);
        if may == 0 && access.held_by(&roles).0 & privileges_of_kind(target.kind) == 0 {
            let (kind, name) = (target.kind_name, &target.name);
            return Err(refused(format!("permission denied for {kind} {name}")));
        }
        let is_all = matches!(written, Privileges::All { .. });
        let count = match may {
            0 => "no",
            may if may != wanted && !is_all => "not all",
            _ => return Ok((grantor, may)),
        };
        let (state, done) = match change {
            Change::Grant { .. } => ("01007", "were granted"),
            Change::Revoke { .. } => ("01006", "could be revoked"),
        };
        let message = format!("{count} privileges {done} for \"{}\"", target.name);
        self.environment.host.warning(SqlState(state), message);
        Ok((grantor, may))
    }

    /// The objects that a statement names.
    fn targets(&self, objects: Option<&GrantObjects>) -> Result<Vec<Target>> {
        let names = &self.environment.names;
        match objects {
            Some(
                GrantObjects::Tables(relations)
                | GrantObjects::Views(relations)
                | GrantObjects::Sequences(relations),
            ) => {
                let is_sequence = matches!(objects, Some(GrantObjects::Sequences(_)));
                let each = relations.iter().map(|name| {
                    let (schema, name) = object_name(name)?;
                    self.may_look_in(schema.as_deref())?;
                    let found = names.find(Names::Relations, schema.as_deref(), &name);
                    let found =
                        found.ok_or_else(|| self.no_definition(schema.as_deref(), &name))?;
                    if found.name != name {
                        return Err(super::reindex::is_index(&name));
                    }
                    let found = Target::of(found);
                    if is_sequence && found.kind != 'S' {
                        let message = format!("\"{name}\" is not a sequence");
                        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                    }
                    Ok(found)
                });
                each.collect()
            }
            Some(GrantObjects::Schemas(schemas)) => {
                let each = schemas.iter().map(|name| {
                    let oid = names.schema(&object_name(name)?.1)?;
                    let schema = self.catalog().object(oid);
                    let schema = schema.map(|object| Target::of(object));
                    schema.ok_or_else(|| SqlError::internal("a schema has an object"))
                });
                each.collect()
            }
            Some(
                GrantObjects::Functions(functions)
                | GrantObjects::Routines(functions)
                | GrantObjects::Procedures(functions),
            ) => functions.iter().map(|one| self.called(one)).collect(),
            Some(GrantObjects::AllTablesInSchema { schemas }) => self.targets_in(schemas, |body| {
                matches!(body, Body::Table(_) | Body::View(_))
            }),
            Some(GrantObjects::AllSequencesInSchema { schemas }) => {
                self.targets_in(schemas, |body| matches!(body, Body::Sequence(_)))
            }
            Some(
                GrantObjects::AllFunctionsInSchema { schemas }
                | GrantObjects::AllRoutinesInSchema { schemas }
                | GrantObjects::AllProceduresInSchema { schemas },
            ) => self.targets_in(schemas, |body| matches!(body, Body::Function(_))),
            Some(GrantObjects::Databases(databases)) => {
                databases.iter().map(|name| self.database(name)).collect()
            }
            _ => Err(SqlError::unsupported(
                "privileges on these objects",
                "Grant privileges on tables, sequences, functions, schemas and the database.",
            )),
        }
    }

    /// Fails unless the session's role may look for objects in a schema that a statement names.
    fn may_look_in(&self, schema: Option<&str>) -> Result<()> {
        let names = &self.environment.names;
        let schema = schema.and_then(|schema| names.catalog.schema(schema));
        match schema.and_then(|schema| names.catalog.object(schema)) {
            Some(schema) if !self.is_temporary(schema.oid) => {
                self.check_right(schema, Privilege::Usage)
            }
            _ => Ok(()),
        }
    }

    /// The objects of schemas.
    fn targets_in(
        &self,
        schemas: &[ObjectName],
        is_wanted: fn(&Body) -> bool,
    ) -> Result<Vec<Target>> {
        let mut found = Vec::new();
        for schema in schemas {
            let schema = object_name(schema)?.1;
            self.may_look_in(Some(&schema))?;
            let schema = self.environment.names.schema(&schema)?;
            let objects = self.catalog().objects();
            let inside =
                objects.filter(|object| object.namespace == schema && is_wanted(&object.body));
            found.extend(inside.map(|object| Target::of(object)));
        }
        Ok(found)
    }

    fn called(&self, function: &FunctionDesc) -> Result<Target> {
        let (schema, name) = object_name(&function.name)?;
        self.may_look_in(schema.as_deref())?;
        if !functions().named(&name).is_empty() {
            let instead = "Everyone may call it. Grant privileges on functions that you have made.";
            let what = format!("privileges on the built-in function {name}");
            return Err(SqlError::unsupported(what, instead));
        }
        let missing = |message| SqlError::new(SqlState::UNDEFINED_FUNCTION, message);
        let found = self.described(function)?.map_err(missing)?;
        Ok(Target::of(&found))
    }

    fn database(&self, name: &ObjectName) -> Result<Target> {
        let (_, name) = object_name(name)?;
        self.check_database(&name)?;
        Ok(Target {
            oid: DATABASE,
            name,
            kind: 'd',
            kind_name: "database",
        })
    }

    /// Fails unless the database has a name.
    pub(super) fn check_database(&self, name: &str) -> Result<()> {
        let host = &self.environment.host;
        if name == host.database || name == host.own_database {
            return Ok(());
        }
        let message = format!("database \"{name}\" does not exist");
        Err(SqlError::new(SqlState("3D000"), message))
    }

    /// Fails unless the session's role has a privilege on the database.
    pub(super) fn check_on_database(&self, privilege: Privilege, message: &str) -> Result<()> {
        let names = &self.environment.names;
        if names.catalog.may(names.role, DATABASE, privilege.bit()) {
            return Ok(());
        }
        Err(refused(message))
    }

    /// Gives the database a comment, or takes it away.
    pub(super) fn comment_on_database(
        &mut self,
        name: &str,
        comment: Option<String>,
    ) -> Result<()> {
        // Dumps name the database that they come from, and are to go on.
        if let Err(error) = self.check_database(name) {
            self.environment.host.warning(error.state, error.message);
            return Ok(());
        }
        let (role, catalog) = (self.environment.names.role, self.catalog());
        if !catalog.owns(role, DATABASE) {
            return Err(refused(format!("must be owner of database {name}")));
        }
        let access = catalog.access(DATABASE);
        self.put_access_with(access, comment)
    }

    /// Keeps the owner and the privileges of an object.
    pub(super) fn put_access(&mut self, access: AccessBody) -> Result<()> {
        let comment = match access.object {
            DATABASE => self.catalog().database_comment().map(str::to_owned),
            _ => None,
        };
        self.put_access_with(access, comment)
    }

    fn put_access_with(&mut self, access: AccessBody, comment: Option<String>) -> Result<()> {
        let kind = self.catalog().kind(access.object);
        let name = access.object.to_string();
        let known = self.catalog().find_oid(Names::Access, 0, &name);
        let oid = known.unwrap_or_else(|| self.sql.next_oid(1));
        self.write_object(
            Object {
                oid,
                namespace: 0,
                name,
                comment,
                body: Body::Access(access.kept(kind)),
            },
            None,
        )
    }

    /// Gives an object, with the sequences of its columns, to a role that the session's role is a
    /// member of.
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
        if let Body::Sequence(sequence) = &object.body
            && let Some((table, _)) = sequence.owner
            && self.catalog().owner(table) != owner
        {
            let message = format!("cannot change owner of sequence \"{}\"", object.name);
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            return Err(error.detail(self.link_of(&object, table)));
        }
        if self.catalog().owner(oid) == owner {
            return Ok(());
        }
        self.must_own(&object)?;
        self.may_give(&object, owner)?;
        let sequences = self.catalog().objects().filter(|other| match &other.body {
            Body::Sequence(sequence) => sequence.owner.is_some_and(|(table, _)| table == oid),
            _ => false,
        });
        let sequences: Vec<Oid> = sequences.map(|other| other.oid).collect();
        for oid in sequences.into_iter().chain([oid]) {
            let access = self.catalog().access(oid);
            self.put_access(access.given_to(owner))?;
        }
        Ok(())
    }

    /// Fails unless the session's role may give an object to another role, which must be one that
    /// could have made it.
    fn may_give(&self, object: &Arc<Object>, owner: Oid) -> Result<()> {
        let names = &self.environment.names;
        if names.catalog.is_superuser(names.role) {
            return Ok(());
        }
        if !self.may_become(names.role, owner) {
            let name = names.catalog.role_name(owner).unwrap_or("?");
            return Err(refused(format!("must be member of role \"{name}\"")));
        }
        match names.catalog.object(object.namespace) {
            None => self.may_create(object.namespace),
            Some(schema) if self.is_temporary(schema.oid) => Ok(()),
            Some(schema)
                if names
                    .catalog
                    .may(owner, schema.oid, Privilege::Create.bit()) =>
            {
                Ok(())
            }
            Some(schema) => Err(names.denied(schema)),
        }
    }

    /// Whether a role may take another one with `SET ROLE`.
    pub(crate) fn may_become(&self, role: Oid, other: Oid) -> bool {
        let catalog = self.catalog();
        catalog.is_superuser(role) || catalog.memberships(role, false).contains(&other)
    }
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
            Action::Connect => (Privilege::Connect, None),
            Action::Temporary => (Privilege::Temporary, None),
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
