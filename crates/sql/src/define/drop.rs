//! `DROP`.
//!
//! With `CASCADE` everything that needs an object goes first; without it, the error names what
//! would have to go.

use crate::catalog::{
    Body, Catalog, Constraint, Names, Object, Oid, Rule, TableBody, is_of_type, is_typed,
};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use crate::state::SessionNames;
use crate::types::Names as _;
use sql_parse::{DropMissing, Path, object_name};
use sqlparser::ast::{DropBehavior, DropDomain, ObjectName, ObjectType};
use std::sync::Arc;

/// Drops objects.
pub(super) fn drop(
    session: &mut Session,
    kind: ObjectType,
    names: &[ObjectName],
    (if_exists, cascade): (bool, bool),
) -> Result<Completion> {
    let command = match kind {
        ObjectType::Table => "DROP TABLE",
        ObjectType::View => "DROP VIEW",
        ObjectType::MaterializedView => "DROP MATERIALIZED VIEW",
        ObjectType::Index => "DROP INDEX",
        ObjectType::Sequence => "DROP SEQUENCE",
        ObjectType::Schema => "DROP SCHEMA",
        ObjectType::Type => "DROP TYPE",
        other => {
            let instead = "Drop tables, views, indexes, sequences, schemas and types.";
            return Err(SqlError::unsupported(format!("DROP {other}"), instead));
        }
    };
    session.begin_definition()?;
    let mut objects = Vec::with_capacity(names.len());
    for name in names {
        match kind {
            ObjectType::Schema => session.drop_schema(name, if_exists, cascade)?,
            ObjectType::Index => session.drop_index(name, if_exists, cascade)?,
            _ => objects.extend(session.object_to_drop(kind, name, if_exists)?),
        }
    }
    session.drop_all(objects, cascade)?;
    Ok(Completion::new(command))
}

/// Drops a domain.
pub(super) fn drop_domain(session: &mut Session, domain: &DropDomain) -> Result<Completion> {
    session.begin_definition()?;
    let found = session.object_to_drop(ObjectType::Type, &domain.name, domain.if_exists)?;
    if let Some(other) = found
        .as_ref()
        .filter(|object| !matches!(object.body, Body::Domain(_)))
    {
        let message = format!("\"{}\" is not a domain", other.name);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    let cascade = matches!(domain.drop_behavior, Some(DropBehavior::Cascade));
    session.drop_all(found.into_iter().collect(), cascade)?;
    Ok(Completion::new("DROP DOMAIN"))
}

/// Tells that there are no objects of a kind that does not exist here.
pub(super) fn drop_missing(session: &mut Session, missing: &DropMissing) -> Result<Completion> {
    session.begin_definition()?;
    let kind = missing.command.trim_start_matches("DROP ").to_lowercase();
    let mut of_table = String::new();
    if let Some(Path { schema, name }) = &missing.table {
        let names = &session.environment.names;
        let found = names.find(Names::Relations, schema.as_deref(), name);
        if found.is_none() {
            let notice = format!("relation \"{name}\" does not exist, skipping");
            session.environment.host.notice(notice);
            return Ok(Completion::new(missing.command));
        }
        of_table = format!(" for relation \"{name}\"");
    }
    for object in &missing.objects {
        let notice = format!("{kind} {object}{of_table} does not exist, skipping");
        session.environment.host.notice(notice);
    }
    Ok(Completion::new(missing.command))
}

fn is_kind(object: &Object, kind: ObjectType) -> bool {
    matches!(
        (&object.body, kind),
        (
            Body::Table(TableBody {
                materialized: None,
                ..
            }),
            ObjectType::Table
        ) | (
            Body::Table(TableBody {
                materialized: Some(_),
                ..
            }),
            ObjectType::MaterializedView
        ) | (Body::View(_), ObjectType::View)
            | (Body::Sequence(_), ObjectType::Sequence)
            | (
                Body::Enum(_) | Body::Domain(_) | Body::Composite(_),
                ObjectType::Type
            )
    )
}

/// The kind and the name of an object, as errors tell them.
pub(super) fn label_of(names: &SessionNames, object: &Object) -> String {
    let (kind, name) = (object.kind_name(), names.visible_name(object));
    match &object.body {
        Body::Function(body) => {
            let arguments = body.arguments.iter().enumerate();
            let types = arguments.map(|(at, (_, data_type))| {
                let domain = body.argument_domain(at);
                let domain = domain.and_then(|oid| names.type_text(oid));
                let of_user = domain.or_else(|| names.type_name(data_type.kind));
                of_user.unwrap_or_else(|| data_type.to_string())
            });
            format!("{kind} {name}({})", types.collect::<Vec<_>>().join(","))
        }
        _ => format!("{kind} {name}"),
    }
}

impl Session {
    /// Drops objects that may depend on each other.
    fn drop_all(&mut self, objects: Vec<Arc<Object>>, cascade: bool) -> Result<()> {
        let oids = |objects: &[Arc<Object>]| -> Vec<Oid> {
            objects.iter().map(|object| object.oid).collect()
        };
        self.drop_keys_among(&oids(&objects))?;
        let (left, _) = self.drop_in_order(objects, cascade)?;
        // Those that are left need each other, or others need them.
        let all = oids(&left);
        let (_, refused) = self.together(&all, |session| session.drop_in_order(left, cascade))?;
        refused.map_or(Ok(()), Err)
    }

    /// Drops objects in an order in which none needs another one; those that are left, and why.
    fn drop_in_order(
        &mut self,
        mut objects: Vec<Arc<Object>>,
        cascade: bool,
    ) -> Result<(Vec<Arc<Object>>, Option<SqlError>)> {
        loop {
            let before = objects.len();
            let mut refused = None;
            for object in std::mem::take(&mut objects) {
                if self.catalog().object(object.oid).is_none() {
                    continue;
                }
                match self.drop_with_dependents(&object, cascade) {
                    Err(error) if error.state == SqlState::DEPENDENT_OBJECTS_STILL_EXIST => {
                        refused = Some(error);
                        objects.push(object);
                    }
                    dropped => dropped?,
                }
            }
            if objects.is_empty() || objects.len() == before {
                return Ok((objects, refused));
            }
        }
    }

    /// Drops the foreign keys among tables that go together, which may need each other.
    pub(super) fn drop_keys_among(&mut self, going: &[Oid]) -> Result<()> {
        let catalog = self.catalog();
        let references = going.iter().flat_map(|oid| catalog.references_to(*oid));
        let among = references.filter(|(child, constraint, foreign)| {
            let is_written_here = catalog.written_for(child, constraint).oid == child.oid;
            is_written_here && child.oid != foreign.parent && going.contains(&child.oid)
        });
        let among = among.map(|(child, constraint, _)| (child.oid, constraint.oid));
        let mut among = among.collect::<Vec<_>>().into_iter();
        self.dropping(|session| {
            among.try_for_each(|(child, constraint)| session.drop_constraint(child, constraint))
        })
    }

    /// The object with a name; none if it is missing and may be.
    fn object_to_drop(
        &mut self,
        kind: ObjectType,
        name: &ObjectName,
        if_exists: bool,
    ) -> Result<Option<Arc<Object>>> {
        let (schema, name) = object_name(name)?;
        let word = kind.to_string().to_lowercase();
        let group = if kind == ObjectType::Type {
            Names::Types
        } else {
            Names::Relations
        };
        let found = self
            .environment
            .names
            .find(group, schema.as_deref(), &name)
            .cloned();
        let Some(object) = found.filter(|object| object.name == name) else {
            let typed = self.relation_or_typed(schema.as_deref(), &name);
            if kind == ObjectType::Table && typed.is_some_and(|typed| is_typed(typed.oid)) {
                return Err(self.no_definition(schema.as_deref(), &name));
            }
            let message = format!("{word} \"{name}\" does not exist");
            if if_exists {
                self.environment.host.notice(format!("{message}, skipping"));
                return Ok(None);
            }
            let state = match kind {
                ObjectType::Type => SqlState::UNDEFINED_OBJECT,
                _ => SqlState::UNDEFINED_TABLE,
            };
            return Err(SqlError::new(state, message));
        };
        if !is_kind(&object, kind) {
            let article = if word.starts_with('i') { "an" } else { "a" };
            let message = format!("\"{name}\" is not {article} {word}");
            let hint = format!(
                "Use DROP {} to remove {}.",
                object.kind_name().to_uppercase(),
                name
            );
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint));
        }
        self.may_drop(&object)?;
        Ok(Some(object))
    }

    /// Drops an object, and with `cascade` everything that needs it.
    pub(super) fn drop_with_dependents(
        &mut self,
        object: &Arc<Object>,
        cascade: bool,
    ) -> Result<()> {
        self.refuse_identity(object)?;
        let catalog = self.catalog();
        let from_above = catalog.references_from_above(object.oid);
        let from_above = from_above.filter(|(.., foreign)| foreign.parent != object.oid);
        let users = from_above.filter_map(|(child, constraint, _)| {
            let is_written_here = catalog.written_for(child, constraint).oid == child.oid;
            is_written_here.then(|| foreign_key_of(child, constraint))
        });
        let users = users.collect();
        self.together(&[object.oid], |session| {
            session.dropping(|session| session.drop_family(object, users, cascade))
        })
    }

    /// Drops things that the session's role need not own.
    pub(super) fn dropping(&mut self, drop: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.drops.depth == LEVELS_MAX {
            let message = "too many objects depend on each other, one on the next";
            let error = SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message);
            return Err(error.hint("Drop the last ones of them first."));
        }
        self.drops.depth += 1;
        let dropped = drop(self);
        self.drops.depth -= 1;
        dropped
    }

    /// Calls `drop`, which drops these objects, so that none of them keeps the others.
    fn together<R>(
        &mut self,
        going: &[Oid],
        drop: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        let mut new = going.to_vec();
        new.retain(|oid| self.drops.going.insert(*oid));
        let dropped = drop(self);
        for oid in new {
            self.drops.going.remove(&oid);
        }
        dropped
    }

    /// Drops an object with its partitions, and with `cascade` everything that needs it, of which
    /// some is known.
    fn drop_family(
        &mut self,
        object: &Arc<Object>,
        dependents: Vec<(String, Dependent)>,
        cascade: bool,
    ) -> Result<()> {
        // Partitions are parts of their table.
        for heir in self.catalog().heirs(object.oid) {
            let partition = self.catalog().object(heir).cloned();
            let partition = partition.filter(|heir| is_partition(heir));
            if let Some(partition) = partition {
                self.drop_family(&partition, Vec::new(), cascade)?;
            }
        }
        let owned = self.sequences_of(object.oid);
        let dependents = dependents
            .into_iter()
            .chain(self.dependents(object.oid))
            .map(|(what, one)| (object.oid, what, one));
        let mut needs: Vec<Need> = dependents.collect();
        for &sequence in &owned {
            let mut others = self.dependents(sequence);
            others.retain(|(_, one)| !one.is_part_of(object.oid));
            needs.extend(others.into_iter().map(|(what, one)| (sequence, what, one)));
        }
        let going = &self.drops.going;
        needs.retain(|(.., one)| !matches!(one, Dependent::Object(oid) if going.contains(oid)));
        if !needs.is_empty() && !cascade {
            return Err(self.still_needed(object, &needs));
        }
        for (needed, what, dependent) in needs {
            if self.is_there(&dependent) {
                self.environment.host.cascades.push(what);
                self.drop_dependent(dependent, needed)?;
            }
        }
        self.refuse_readers(object, "DROP TABLE")?;
        self.lock_alone(object.oid)?;
        for oid in owned {
            self.remove(oid)?;
        }
        self.remove(object.oid)
    }

    /// The error of an object that others need.
    fn still_needed(&self, object: &Object, needs: &[Need]) -> SqlError {
        let label = |object: &Object| label_of(&self.environment.names, object);
        let detail = needs.iter().map(|(needed, what, _)| {
            let needed = self.catalog().object(*needed);
            let needed = needed.map_or_else(|| label(object), |needed| label(needed));
            format!("{what} depends on {needed}")
        });
        let detail = detail.collect::<Vec<_>>().join("\n");
        let message = format!(
            "cannot drop {} because other objects depend on it",
            label(object)
        );
        SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .detail(detail)
            .hint("Use DROP ... CASCADE to drop the dependent objects too.")
    }

    /// The sequences that belong to columns of a table.
    fn sequences_of(&self, table: Oid) -> Vec<Oid> {
        let is_owned = |object: &&Arc<Object>| {
            matches!(&object.body, Body::Sequence(sequence)
                if sequence.owner.is_some_and(|(owner, _)| owner == table))
        };
        let owned = self.catalog().objects().filter(is_owned);
        owned.map(|sequence| sequence.oid).collect()
    }

    /// Drops a thing that needs another one; `function` is that one, if it is a function.
    fn drop_dependent(&mut self, dependent: Dependent, function: Oid) -> Result<()> {
        match dependent {
            Dependent::Object(oid) => {
                if let Some(object) = self.catalog().object(oid).cloned() {
                    self.drop_with_dependents(&object, true)?;
                }
            }
            Dependent::Column(table, column) => {
                self.drop_column(table, &column, true, true)?;
            }
            Dependent::Constraint(table, constraint) => {
                self.drop_constraint(table, constraint)?;
            }
            Dependent::Default(table, column) => self.drop_default(table, &column)?,
            Dependent::Index(index) => {
                if let Some((object, index)) = self.catalog().index(index) {
                    let (object, name) = (Arc::clone(object), index.name.clone());
                    self.drop_index_of(object, &name, true)?;
                }
            }
            Dependent::Domain(domain) => self.forget_function(domain, function)?,
        }
        Ok(())
    }

    fn drop_default(&mut self, table: Oid, column: &str) -> Result<()> {
        let mut table = self.altered(table)?;
        if let Body::Table(body) = &mut table.body
            && let Some(at) = body.column(column)
        {
            body.columns[at].default = None;
        }
        self.put(table, None)
    }

    /// Whether a thing has not gone with another one.
    fn is_there(&self, dependent: &Dependent) -> bool {
        let catalog = self.catalog();
        match dependent {
            Dependent::Object(oid) | Dependent::Domain(oid) => catalog.object(*oid).is_some(),
            Dependent::Constraint(_, constraint) => catalog.constraint(*constraint).is_some(),
            Dependent::Column(table, name) | Dependent::Default(table, name) => {
                let table = catalog.object(*table).map(|table| &table.body);
                matches!(table, Some(Body::Table(body)) if body.column(name).is_some())
            }
            Dependent::Index(index) => catalog.index(*index).is_some(),
        }
    }

    /// Everything that needs an object.
    fn dependents(&self, oid: Oid) -> Vec<(String, Dependent)> {
        let mut found = Vec::new();
        found.extend(self.users_of_name(oid));
        found.extend(self.functions_by_default(oid));
        for other in self.catalog().objects() {
            match &other.body {
                Body::View(_) | Body::Table(_) if Catalog::reads(other, oid) => {
                    let what = format!("{} {}", other.kind_name(), other.name);
                    found.push((what, Dependent::Object(other.oid)));
                }
                Body::Table(table) if table.lineage.parents.contains(&oid) => {
                    found.push((
                        format!("table {}", other.name),
                        Dependent::Object(other.oid),
                    ));
                }
                Body::Domain(_) | Body::Composite(_) if other.is_made_of(oid) => {
                    let known = |(_, one): &(String, Dependent)| matches!(one, Dependent::Object(known) if *known == other.oid);
                    if !found.iter().any(known) {
                        let what = format!("type {}", other.name);
                        found.push((what, Dependent::Object(other.oid)));
                    }
                }
                Body::Table(table) if other.oid != oid => {
                    for (at, column) in table.columns.iter().enumerate() {
                        let is_user = is_of_type((column.data_type, column.domain), oid);
                        // A materialized view has the columns of its query.
                        let is_kept = || {
                            let is_key = self.is_partition_key(table, at, &other.name);
                            table.materialized.is_some() || is_key.unwrap_or(false)
                        };
                        if is_user && is_kept() {
                            let what = format!("{} {}", other.kind_name(), other.name);
                            found.push((what, Dependent::Object(other.oid)));
                            break;
                        }
                        if is_user {
                            found.push((
                                format!("column {} of table {}", column.name, other.name),
                                Dependent::Column(other.oid, column.name.clone()),
                            ));
                        }
                    }
                    for constraint in &table.constraints {
                        let is_user =
                            matches!(&constraint.rule, Rule::Foreign(one) if one.parent == oid);
                        let written_for = self.catalog().written_for(other, constraint);
                        if is_user && written_for.oid == other.oid {
                            found.push(foreign_key_of(other, constraint));
                        }
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Drops a constraint of a table, and those that its partitions have from it.
    pub(super) fn drop_constraint(&mut self, table: Oid, constraint: Oid) -> Result<()> {
        let below = self.catalog().constraints_below(table, constraint);
        let below = below.into_iter().map(|(heir, own)| (heir, own.oid));
        for (table, constraint) in [(table, constraint)]
            .into_iter()
            .chain(below.collect::<Vec<_>>())
        {
            let Some(object) = self.catalog().object(table) else {
                continue;
            };
            let mut object = Object::clone(object);
            if let Body::Table(body) = &mut object.body {
                body.constraints.retain(|own| own.oid != constraint);
            }
            self.put(object, None)?;
        }
        Ok(())
    }

    /// Drops the foreign keys to columns of a table before these, or what makes them unique, go;
    /// fails if there are any without CASCADE. Both are named, what goes and what they need.
    pub(super) fn drop_users(
        &mut self,
        oid: Oid,
        (what, needed): (&str, &str),
        cascade: bool,
        reads: impl Fn(Oid, &[usize]) -> bool,
    ) -> Result<()> {
        let users: Vec<(Oid, Oid, String)> = self
            .catalog()
            .references_to(oid)
            .filter(|(_, constraint, foreign)| reads(constraint.oid, &foreign.parent_columns))
            .filter(|(child, constraint, _)| {
                let written_for = self.catalog().written_for(child, constraint);
                written_for.oid == child.oid
            })
            .map(|(child, constraint, _)| {
                let (user, _) = foreign_key_of(child, constraint);
                (child.oid, constraint.oid, user)
            })
            .collect();
        if !users.is_empty() && !cascade {
            let message = format!("cannot drop {what} because other objects depend on it");
            let detail = users
                .iter()
                .map(|(.., user)| format!("{user} depends on {needed}"));
            let detail = detail.collect::<Vec<_>>().join("\n");
            let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
            return Err(
                SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                    .detail(detail)
                    .hint(hint),
            );
        }
        for (child, constraint, user) in users {
            let host = &mut self.environment.host;
            host.cascades.push(user);
            self.drop_constraint(child, constraint)?;
        }
        Ok(())
    }

    pub(super) fn drop_schema(
        &mut self,
        name: &ObjectName,
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        let (_, name) = object_name(name)?;
        let Some(oid) = self.catalog().schema(&name) else {
            let message = format!("schema \"{name}\" does not exist");
            if if_exists {
                self.environment.host.notice(format!("{message}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
        };
        if oid < crate::catalog::FIRST_OID && oid != crate::catalog::PUBLIC {
            let message =
                format!("cannot drop schema {name} because it is required by the database system");
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                message,
            ));
        }
        if let Some(schema) = self.catalog().object(oid) {
            self.must_own(schema)?;
        }
        loop {
            let inside = self
                .catalog()
                .objects()
                .filter(|object| object.namespace == oid)
                .min_by_key(|object| match object.body {
                    Body::View(_) => 0,
                    Body::Table(TableBody {
                        materialized: Some(_),
                        ..
                    }) => 0,
                    Body::Table(_) => 1,
                    // Types and functions go after the tables that need them.
                    _ => 2,
                });
            let Some(object) = inside.cloned() else {
                break;
            };
            if !cascade {
                let message =
                    format!("cannot drop schema {name} because other objects depend on it");
                let detail = format!(
                    "{} {} depends on schema {name}",
                    object.kind_name(),
                    object.name
                );
                let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
                let state = SqlState::DEPENDENT_OBJECTS_STILL_EXIST;
                return Err(SqlError::new(state, message).detail(detail).hint(hint));
            }
            self.tell_of_cascade(&object);
            self.drop_with_dependents(&object, true)?;
        }
        self.remove(oid)
    }
}

impl Session {
    /// Tells that an object goes with its schema; not of what goes with another object there.
    fn tell_of_cascade(&mut self, object: &Object) {
        let is_part = match &object.body {
            Body::Sequence(sequence) => sequence.owner.is_some(),
            Body::Access(_) => true,
            _ => is_partition(object),
        };
        if is_part {
            return;
        }
        let names = &self.environment.names;
        let arguments = match &object.body {
            Body::Function(_) => {
                let label = label_of(names, object);
                label.find('(').map(|at| label[at..].to_owned())
            }
            _ => None,
        };
        let (kind, name) = (object.kind_name(), names.visible_name(object));
        let arguments = arguments.unwrap_or_default();
        let what = format!("{kind} {name}{arguments}");
        self.environment.host.cascades.push(what);
    }
}

fn is_partition(object: &Object) -> bool {
    matches!(&object.body, Body::Table(table) if table.lineage.bound.is_some())
}

/// A foreign key as a thing that needs the table that it refers to.
fn foreign_key_of(table: &Object, constraint: &Constraint) -> (String, Dependent) {
    let what = format!("constraint {} on table {}", constraint.name, table.name);
    (what, Dependent::Constraint(table.oid, constraint.oid))
}

/// Levels of objects that are dropped one for another, which the stack has room for.
const LEVELS_MAX: usize = 100;

/// A thing that needs an object.
pub(super) enum Dependent {
    Object(Oid),
    Constraint(Oid, Oid),
    Column(Oid, String),
    /// The default of a column, which goes without it.
    Default(Oid, String),
    /// An index.
    Index(Oid),
    /// Checks of a domain.
    Domain(Oid),
}

/// A thing that needs an object, how it is told, and the object.
type Need = (Oid, String, Dependent);

impl Dependent {
    /// Whether it is a table or a part of it.
    fn is_part_of(&self, table: Oid) -> bool {
        match self {
            Self::Object(oid)
            | Self::Constraint(oid, _)
            | Self::Column(oid, _)
            | Self::Default(oid, _) => *oid == table,
            Self::Index(..) | Self::Domain(_) => false,
        }
    }
}
