//! Other names, schemas and owners of objects.
//!
//! A name must be free in its schema. Texts of the catalogue that have the old name are written
//! anew with the change, so that an object works on under its new name.

use super::alter::{no_column, table_body};
use super::column::refuse_system_name;
use super::constraint::relation_exists;
use super::view::{check_distinct, named};
use crate::catalog::{Body, Names, Object, Oid};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use sql_parse::{Alter, AlterKind, ObjectChange, Path, ident_text, object_name};
use sqlparser::ast::{Ident, RenameTableNameKind, Statement};
use std::sync::Arc;

/// Changes the name, schema or owner of an object.
pub(super) fn alter(session: &mut Session, alter: &Alter) -> Result<Completion> {
    session.begin_definition()?;
    let completion = Completion::new(match alter.kind {
        AlterKind::Schema => "ALTER SCHEMA",
        AlterKind::Domain => "ALTER DOMAIN",
        AlterKind::Type => "ALTER TYPE",
        AlterKind::View => "ALTER VIEW",
        AlterKind::MaterializedView => "ALTER MATERIALIZED VIEW",
        AlterKind::Index => "ALTER INDEX",
        AlterKind::Function => "ALTER FUNCTION",
    });
    let object = match session.object_to_alter(alter) {
        Ok(object) => object,
        Err(error) if alter.if_exists => {
            let notice = format!("{}, skipping", error.message);
            session.environment.host.notice(notice);
            return Ok(completion);
        }
        Err(error) => return Err(error),
    };
    match (&alter.change, alter.kind) {
        (ObjectChange::Rename(new), AlterKind::Index) => {
            session.rename_index(&object, &alter.name.name, new)?;
        }
        (_, AlterKind::Index) => {
            let instead = "An index has the schema and the owner of its table.";
            return Err(SqlError::unsupported("this change of an index", instead));
        }
        (ObjectChange::Domain(change), _) => super::domain::change(session, &object, change)?,
        (ObjectChange::Options(options), _) => session.change_view_options(&object, options)?,
        (ObjectChange::Owner(owner), _) => session.change_owner(object.oid, owner)?,
        (ObjectChange::Rename(new), _) => session.rename_object(&object, new)?,
        (ObjectChange::RenameColumn(old, new), _) => {
            session.rename_column(object.oid, old, new)?;
        }
        (ObjectChange::SetSchema(_), AlterKind::Schema) => {
            let message = "a schema is in no other schema";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        (ObjectChange::SetSchema(schema), _) => session.move_object(&object, schema)?,
    }
    Ok(completion)
}

/// The key by which an object is found, and how messages name it.
fn key_of(object: &Object, name: &str) -> (Names, String, String) {
    match &object.body {
        Body::Function(body) => {
            let arguments = body.arguments.iter();
            let types = arguments.map(|(_, data_type)| data_type.to_string());
            let shown = format!("{name}({})", types.collect::<Vec<_>>().join(", "));
            (Names::Functions, body.key(name), shown)
        }
        Body::Enum(_) | Body::Domain(_) | Body::Composite(_) => {
            (Names::Types, name.to_owned(), format!("\"{name}\""))
        }
        _ => (Names::Relations, name.to_owned(), format!("\"{name}\"")),
    }
}

impl Session {
    /// The object that a statement names.
    fn object_to_alter(&mut self, alter: &Alter) -> Result<Arc<Object>> {
        let (schema, name) = (alter.name.schema.as_deref(), alter.name.name.as_str());
        let wrong = |what: &str| {
            let message = format!("\"{name}\" is not {what}");
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        };
        let names = &self.environment.names;
        match alter.kind {
            AlterKind::Schema => {
                let oid = names.schema(name)?;
                let object = names.catalog.object(oid).cloned();
                object.ok_or_else(|| SqlError::internal("a schema has an object"))
            }
            AlterKind::Domain | AlterKind::Type => {
                let found = names.find(Names::Types, schema, name).cloned();
                let object = found.ok_or_else(|| {
                    let message = format!("type \"{}\" does not exist", shown(&alter.name));
                    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                })?;
                match &object.body {
                    Body::Domain(_) => Ok(object),
                    _ if alter.kind == AlterKind::Domain => wrong("a domain"),
                    _ => Ok(object),
                }
            }
            AlterKind::View => {
                let object = self.relation_at(&alter.name)?;
                match &object.body {
                    Body::View(_) => Ok(object),
                    _ => wrong("a view"),
                }
            }
            AlterKind::MaterializedView => {
                let object = self.relation_at(&alter.name)?;
                match super::materialized::materialized(&object) {
                    Some(_) => Ok(object),
                    None => wrong("a materialized view"),
                }
            }
            AlterKind::Index => {
                let found = names.find(Names::Relations, schema, name).cloned();
                match found {
                    Some(object) if object.name == name => wrong("an index"),
                    Some(object) => Ok(object),
                    None => {
                        let message = format!("relation \"{}\" does not exist", shown(&alter.name));
                        Err(SqlError::new(SqlState::UNDEFINED_TABLE, message))
                    }
                }
            }
            AlterKind::Function => {
                let found = match alter.function.as_deref() {
                    Some(function) => self.function_described(function)?,
                    None => return Err(SqlError::internal("a function is described")),
                };
                found.map_err(|message| SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
            }
        }
    }

    /// The function that a `DROP FUNCTION` names.
    pub(super) fn function_described(
        &mut self,
        statement: &Statement,
    ) -> Result<std::result::Result<Arc<Object>, String>> {
        match statement {
            Statement::DropFunction(drop) if drop.func_desc.len() == 1 => {
                self.described(&drop.func_desc[0])
            }
            _ => Err(SqlError::internal("a function is described")),
        }
    }

    /// Gives an object that is no index another name.
    pub(super) fn rename_object(&mut self, object: &Object, new: &str) -> Result<()> {
        if matches!(object.body, Body::Schema) {
            return self.rename_schema(object, new);
        }
        let mut object = object.clone();
        self.refuse_taken(&object, object.namespace, new, false)?;
        new.clone_into(&mut object.name);
        self.put(object, None)
    }

    fn move_object(&mut self, object: &Object, schema: &str) -> Result<()> {
        let namespace = self.environment.names.schema(schema)?;
        if namespace == object.namespace {
            return Ok(());
        }
        self.may_move(object, namespace)?;
        let mut object = object.clone();
        match object.body {
            Body::Table(_) => self.refuse_taken_in(&object, (namespace, schema))?,
            _ => self.refuse_taken(&object, namespace, &object.name, true)?,
        }
        object.namespace = namespace;
        self.put(object, None)
    }

    /// Fails if another object has the name.
    fn refuse_taken(
        &self,
        object: &Object,
        namespace: Oid,
        name: &str,
        is_moved: bool,
    ) -> Result<()> {
        let (group, key, shown) = key_of(object, name);
        let is_taken = match group {
            Names::Relations => self.is_taken(namespace, name),
            group => self.catalog().find(group, namespace, &key).is_some(),
        };
        if !is_taken {
            let has_type = match &object.body {
                Body::Table(_) | Body::View(_) => self.has_type(namespace, name),
                _ => group == Names::Types && self.has_type(namespace, name),
            };
            return match has_type {
                true => Err(super::types::type_exists(name)),
                false => Ok(()),
            };
        }
        let schema = self.catalog().object(namespace);
        let schema = schema.map_or("", |schema| schema.name.as_str());
        let (kind, state) = match group {
            Names::Functions => ("function", SqlState::DUPLICATE_FUNCTION),
            Names::Types => ("type", SqlState::DUPLICATE_OBJECT),
            _ => ("relation", SqlState::DUPLICATE_TABLE),
        };
        let message = match is_moved || group == Names::Functions {
            true => format!("{kind} {shown} already exists in schema \"{schema}\""),
            false => format!("{kind} {shown} already exists"),
        };
        Err(SqlError::new(state, message))
    }

    /// Gives a schema another name.
    fn rename_schema(&mut self, object: &Object, new: &str) -> Result<()> {
        super::schema::check_name(new)?;
        if self.catalog().schema(new).is_some() {
            let message = format!("schema \"{new}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message));
        }
        let mut renamed = object.clone();
        new.clone_into(&mut renamed.name);
        self.put(renamed, None)
    }

    /// Gives an index of a table another name, and the constraint that it is.
    pub(super) fn rename_index(&mut self, table: &Object, old: &str, new: &str) -> Result<()> {
        if self.is_taken(table.namespace, new) {
            return Err(relation_exists(new));
        }
        let mut object = table.clone();
        let body = table_body(&mut object)?;
        let named = |name: &str| name == old;
        if body.constraints.iter().any(|one| named(&one.name)) {
            return self.rename_constraint(table.oid, old, new);
        }
        if let Some(index) = body.indexes.iter_mut().find(|index| named(&index.name)) {
            new.clone_into(&mut index.name);
        }
        self.put(object, None)
    }

    pub(super) fn rename(&mut self, oid: Oid, name: &RenameTableNameKind) -> Result<()> {
        let (RenameTableNameKind::As(name) | RenameTableNameKind::To(name)) = name;
        let (_, name) = object_name(name)?;
        let object = self.altered(oid)?;
        self.rename_object(&object, &name)
    }

    pub(super) fn rename_column(&mut self, oid: Oid, old: &Ident, new: &Ident) -> Result<()> {
        let (old, new) = (ident_text(old), ident_text(new));
        let mut object = self.altered(oid)?;
        let table = object.name.clone();
        if let Body::View(view) = &mut object.body {
            let before = view.columns.clone();
            let at = before.iter().position(|(name, _)| *name == old);
            view.columns[at.ok_or_else(|| no_column(&old, &table))?].0 = new;
            check_distinct(&view.columns)?;
            view.query = named(std::mem::take(&mut view.query), &before, &view.columns)?;
            return self.put(object, None);
        }
        refuse_system_name(&new)?;
        let body = table_body(&mut object)?;
        let at = body.column(&old).ok_or_else(|| no_column(&old, &table))?;
        if body.column(&new).is_some() {
            let message = format!("column \"{new}\" of relation \"{table}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        table_body(&mut object)?.columns[at].name = new;
        self.put(object, None)
    }
}

fn shown(path: &Path) -> String {
    match &path.schema {
        Some(schema) => format!("{schema}.{}", path.name),
        None => path.name.clone(),
    }
}
