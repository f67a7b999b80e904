//! Changes of the catalogue within a transaction.
//!
//! The table of objects is locked first, so at most one transaction defines things at a time, and
//! its catalogue is the newest one with its own changes.

use crate::catalog::{Body, Names, OWNER, Object, Oid, Privilege, Rule, store};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::state::Loose;
use indelible::TableLock;
use sql_parse::{NAME_BYTES_MAX, cut, object_name};
use sqlparser::ast::ObjectName;
use std::sync::Arc;

impl Session {
    /// Gets ready to define something: no other transaction defines anything until this one ends,
    /// and its catalogue is the newest.
    pub(crate) fn begin_definition(&mut self) -> Result<()> {
        if self.transaction.access == indelible::Mode::ReadOnly {
            let message = "cannot execute a definition in a read-only transaction";
            return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        if self.transaction.defines {
            return Ok(());
        }
        let table = store::table(self.sql.database())?;
        let wait = self.environment.wait();
        self.connection
            .lock_table(&table, TableLock::Exclusive, wait)?;
        self.sql.refresh(&mut self.environment.names.catalog);
        let role = self.environment.names.role;
        if self.catalog().role_name(role).is_none() {
            let message = format!("role {role} was concurrently dropped");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        self.transaction.defines = true;
        // The transaction has defined nothing before its savepoints, and others may have.
        for savepoint in &mut self.transaction.savepoints {
            savepoint.catalog = Arc::clone(&self.environment.names.catalog);
        }
        Ok(())
    }

    /// As [`Session::write_object`], if the session's role may. A new object needs a schema in
    /// which the role may create, and belongs to it; another one must belong to the role.
    pub(crate) fn put(
        &mut self,
        mut object: Object,
        handle: Option<indelible::Table>,
    ) -> Result<()> {
        let role = self.environment.names.role;
        let known = self.catalog().object(object.oid).cloned();
        match &known {
            Some(known) => self.must_own(known)?,
            None => self.may_create(object.namespace)?,
        }
        self.name_in_full(&mut object);
        self.check_lasts(&object)?;
        self.lock_referred(known.as_deref(), &object)?;
        let readers = match &known {
            Some(known) => self.readers_of_names(known, &object),
            None => Vec::new(),
        };
        let kind = object.kind_letter();
        let access = self.catalog().default_access(role, &object);
        let is_owned = role != OWNER || !access.clone().kept(kind).grants.is_empty();
        self.write_object(object, handle)?;
        self.follow_names(readers)?;
        if known.is_none() && is_owned {
            self.put_access(access)?;
        }
        Ok(())
    }

    /// Locks the tables to which a table refers from now on: who changes their rows has to look at
    /// the rows of this one.
    fn lock_referred(&mut self, known: Option<&Object>, object: &Object) -> Result<()> {
        let constraints = |object: &Object| match &object.body {
            Body::Table(body) => body.constraints.clone(),
            _ => Vec::new(),
        };
        let old = known.map_or_else(Vec::new, constraints);
        for constraint in constraints(object) {
            let is_new = old.iter().all(|old| old.oid != constraint.oid);
            if let (true, Rule::Foreign(foreign)) = (is_new, &constraint.rule) {
                self.lock_rows_of(foreign.parent)?;
            }
        }
        Ok(())
    }

    /// Fails unless the session's role owns an object, or the object goes with another one.
    pub(crate) fn must_own(&self, object: &Object) -> Result<()> {
        let role = self.environment.names.role;
        if self.drops.depth > 0 || self.catalog().owns(role, object.oid) {
            return Ok(());
        }
        let message = format!("must be owner of {} {}", object.kind_name(), object.name);
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    /// As [`Session::must_own`], where the message names a part of the object.
    pub(super) fn must_own_as(&self, object: &Object, (kind, name): (&str, &str)) -> Result<()> {
        self.must_own(object).map_err(|error| {
            let message = format!("must be owner of {kind} {name}");
            SqlError { message, ..error }
        })
    }

    /// Fails unless the session's role may drop an object: its owner, and that of its schema.
    pub(super) fn may_drop(&self, object: &Object) -> Result<()> {
        let role = self.environment.names.role;
        if self.catalog().owns(role, object.namespace) {
            return Ok(());
        }
        self.must_own(object)
    }

    /// Fails unless the session's role may create objects in a schema, or a schema.
    pub(super) fn may_create(&self, namespace: Oid) -> Result<()> {
        let names = &self.environment.names;
        if self.is_temporary(namespace) {
            return Ok(());
        }
        match names.catalog.object(namespace) {
            Some(schema) => names.check(names.role, schema, Privilege::Create.bit()),
            None => {
                let message = format!(
                    "permission denied for database {}",
                    self.environment.host.database
                );
                self.check_on_database(Privilege::Create, &message)
            }
        }
    }

    /// Fails unless the session's role may move an object to a schema.
    pub(super) fn may_move(&self, object: &Object, namespace: Oid) -> Result<()> {
        if let Body::Sequence(sequence) = &object.body
            && let Some((table, _)) = sequence.owner
        {
            let message = "cannot move an owned sequence into another schema";
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            return Err(error.detail(self.link_of(object, table)));
        }
        if self.is_temporary(namespace) || self.is_temporary(object.namespace) {
            let message = "cannot move objects into or out of temporary schemas";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        self.may_create(namespace)
    }

    /// Adds an object to the catalogue of the transaction, or replaces the one with its number.
    pub(crate) fn write_object(
        &mut self,
        object: Object,
        handle: Option<indelible::Table>,
    ) -> Result<()> {
        let deferred = &self.environment.host.deferred;
        deferred.check_none_of(&object, "ALTER TABLE")?;
        let of = match &object.body {
            Body::Access(access) => self.catalog().object(access.object),
            _ => None,
        };
        let namespace = of.map_or(object.namespace, |of| of.namespace);
        if !self.is_temporary(namespace) && !self.is_others(namespace) {
            let table = store::table(self.sql.database())?;
            store::put(&table, &mut self.connection, &object)?;
        }
        let catalog = Arc::make_mut(&mut self.environment.names.catalog);
        catalog.version = self.sql.next_version();
        if let Some(handle) = handle {
            catalog.set_handle(object.oid, handle);
        }
        catalog.put(object);
        Ok(())
    }

    /// Removes an object from the catalogue of the transaction.
    pub(crate) fn remove(&mut self, oid: Oid) -> Result<()> {
        if let Some(object) = self.catalog().object(oid).cloned()
            && !matches!(
                object.body,
                Body::Role(_) | Body::Access(_) | Body::Defaults(_)
            )
        {
            self.must_own(&object)?;
            if matches!(object.body, Body::Schema) {
                self.forget_defaults(oid)?;
            }
            let access = self.catalog().find_oid(Names::Access, 0, &oid.to_string());
            if let Some(access) = access {
                self.remove(access)?;
            }
        }
        if let Some(object) = self.catalog().object(oid) {
            let deferred = &self.environment.host.deferred;
            deferred.check_none_of(object, "DROP TABLE")?;
        }
        let table = store::table(self.sql.database())?;
        store::remove(&table, &mut self.connection, oid)?;
        if let Some(object) = self.catalog().object(oid).cloned() {
            match &object.body {
                Body::Table(body) => {
                    self.transaction
                        .loose
                        .push(Loose::Table(body.physical.clone()));
                }
                Body::Sequence(sequence) => {
                    let number = sequence.number(oid);
                    self.transaction.loose.push(Loose::Sequence(number));
                }
                _ => {}
            }
        }
        let catalog = Arc::make_mut(&mut self.environment.names.catalog);
        catalog.version = self.sql.next_version();
        catalog.remove(oid);
        Ok(())
    }

    /// Whether a schema is that of the session's temporary objects, which have no rows in the
    /// catalogue: they go with the session.
    pub(super) fn is_temporary(&self, namespace: Oid) -> bool {
        self.environment.names.temporary == Some(namespace)
    }

    /// The schema of the session's temporary objects.
    ///
    /// # Errors
    ///
    /// 42501 if the session's role may not make any.
    pub(crate) fn temporary_schema(&mut self) -> Result<Oid> {
        let database = &self.environment.host.database;
        let message =
            format!("permission denied to create temporary tables in database \"{database}\"");
        self.check_on_database(Privilege::Temporary, &message)?;
        let known = self.environment.names.temporary;
        if let Some(oid) = known
            && self.catalog().object(oid).is_some()
        {
            return Ok(oid);
        }
        // One that was rolled back with its transaction is made again.
        let oid = known.unwrap_or_else(|| self.sql.next_oid(1));
        self.environment.names.temporary = Some(oid);
        let catalog = Arc::make_mut(&mut self.environment.names.catalog);
        catalog.put(Object {
            oid,
            namespace: 0,
            name: format!("pg_temp_{}", self.environment.host.peer.number),
            comment: None,
            body: Body::Schema,
        });
        Ok(oid)
    }

    /// The schema with a name, for a new object; that of temporary objects may be the first one.
    pub(super) fn schema_for_new(&mut self, name: &str) -> Result<Oid> {
        match name {
            "pg_temp" => self.temporary_schema(),
            name => self.environment.names.schema(name),
        }
    }

    /// The schema and the name of a new object, in the schema that is given if one is; none if the
    /// object is there already and may be.
    pub(crate) fn new_name_in(
        &mut self,
        target: Option<Oid>,
        name: &ObjectName,
        if_not_exists: bool,
    ) -> Result<Option<(Oid, String)>> {
        let (schema, name) = object_name(name)?;
        let namespace = match (target, &schema) {
            (Some(target), Some(schema)) if self.schema_for_new(schema)? != target => {
                let message = "cannot create temporary relation in non-temporary schema";
                return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
            }
            (Some(target), _) => target,
            (None, Some(schema)) => self.schema_for_new(schema)?,
            (None, None) => self.environment.names.target_schema()?,
        };
        if self.is_taken(namespace, &name) {
            let message = format!("relation \"{name}\" already exists");
            let error = SqlError::new(SqlState::DUPLICATE_TABLE, message);
            let host = &mut self.environment.host;
            return host.skip_or_fail(if_not_exists, error).map(|()| None);
        }
        self.refuse_type_of_name(namespace, &name)?;
        Ok(Some((namespace, name)))
    }

    /// Whether a relation of a schema has a name.
    pub(crate) fn is_taken(&self, namespace: Oid, name: &str) -> bool {
        let known = self
            .catalog()
            .find_oid(Names::Relations, namespace, name)
            .is_some();
        let is_typed = || {
            let table = self.sql.database().table(name).ok();
            table.is_some_and(|table| crate::catalog::typed_table(&table).is_some())
        };
        known || (namespace == crate::catalog::PUBLIC && is_typed())
    }

    /// A name for a part of a table: its parts joined, with a number if that is taken.
    pub(crate) fn free_name(&self, namespace: Oid, parts: &[&str], taken: &[String]) -> String {
        let is_free = |name: &String| !taken.contains(name) && !self.is_taken(namespace, name);
        names_of(parts).find(is_free).unwrap_or_default()
    }
}

/// Names for a part of a table: the table, its columns and a word, which gets a number from the
/// second name on. Where they are too long, the longer one of the table and its columns is cut.
pub(super) fn names_of<'p>(parts: &'p [&str]) -> impl Iterator<Item = String> + 'p {
    let (table, columns, word) = match parts {
        [table, columns @ .., word] => (*table, columns.join("_"), *word),
        _ => ("", String::new(), ""),
    };
    let columns = cut(columns);
    (0_u32..).map(move |number| {
        let end = match number {
            0 => format!("_{word}"),
            number => format!("_{word}{number}"),
        };
        let between = if columns.is_empty() { "" } else { "_" };
        let room = NAME_BYTES_MAX.saturating_sub(end.len() + between.len());
        let (mut first, mut second) = (table.len(), columns.len());
        while first + second > room {
            match first > second {
                true => first -= 1,
                false => second -= 1,
            }
        }
        let first = &table[..table.floor_char_boundary(first)];
        let second = &columns[..columns.floor_char_boundary(second)];
        format!("{first}{between}{second}{end}")
    })
}
