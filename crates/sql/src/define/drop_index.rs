//! `DROP INDEX`.
//!
//! The indexes of partitions that belong to one of the partitioned table go with it, and not
//! without it.

use super::role::refused;
use crate::catalog::{Body, Index, Names, Object, Oid};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::state::Loose;
use sql_parse::object_name;
use sqlparser::ast::ObjectName;
use std::sync::Arc;

impl Session {
    pub(super) fn drop_index(
        &mut self,
        name: &ObjectName,
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        let (schema, name) = object_name(name)?;
        let found = self
            .environment
            .names
            .find(Names::Relations, schema.as_deref(), &name);
        let Some(object) = found.filter(|object| object.name != name).cloned() else {
            let message = format!("index \"{name}\" does not exist");
            if if_exists {
                self.environment.host.notice(format!("{message}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        };
        if self.may_drop(&object).is_err() {
            return Err(refused(format!("must be owner of index {name}")));
        }
        self.refuse_part_of_index(&object, &name)?;
        self.dropping(|session| session.drop_index_of(object, &name, cascade))
    }

    /// Fails if an index of a partition belongs to one of the partitioned table; those of
    /// constraints belong together.
    fn refuse_part_of_index(&self, object: &Object, name: &str) -> Result<()> {
        let Body::Table(body) = &object.body else {
            return Ok(());
        };
        let catalog = self.catalog();
        let own = body.indexes.iter().find(|index| index.name == name);
        let parent = own.and_then(|own| catalog.partition_parent(own.oid));
        let (Some(own), Some((above, index))) = (own, parent.and_then(|oid| catalog.index(oid)))
        else {
            return Ok(());
        };
        let is_part = match (
            backs_constraint(object, own),
            backs_constraint(above, index),
        ) {
            (false, false) => catalog.partitions(index.oid).contains(&own.oid),
            (own, above) => own == above,
        };
        if !is_part {
            return Ok(());
        }
        let above = &index.name;
        let message = format!("cannot drop index {name} because index {above} requires it");
        let hint = format!("You can drop index {above} instead.");
        Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).hint(hint))
    }

    /// The indexes of a table's partitions that belong to indexes of the table and can be dropped.
    fn indexes_of_partitions(&self, table: Oid) -> Vec<Oid> {
        let catalog = self.catalog();
        let mut found = Vec::new();
        for heir in catalog.heirs(table) {
            let Some(heir) = catalog.object(heir) else {
                continue;
            };
            if let Body::Table(body) = &heir.body {
                let parts = body.indexes.iter().filter(|index| {
                    !backs_constraint(heir, index) && catalog.partition_parent(index.oid).is_some()
                });
                found.extend(parts.map(|index| index.oid));
            }
        }
        found
    }

    /// Drops the index with a name, of a table, and those of its partitions that belong to it.
    pub(super) fn drop_index_of(
        &mut self,
        object: Arc<Object>,
        name: &str,
        cascade: bool,
    ) -> Result<()> {
        let Body::Table(body) = &object.body else {
            return Ok(());
        };
        let mut constraints = body.constraints.iter();
        if constraints.any(|constraint| constraint.name == name) {
            let table = &object.name;
            let message = format!(
                "cannot drop index {name} because constraint {name} on table {table} requires it"
            );
            let hint = format!("You can drop constraint {name} on table {table} instead.");
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).hint(hint));
        }
        self.refuse_readers(&object, "DROP INDEX")?;
        self.lock_alone(object.oid)?;
        let what = format!("index {name}");
        self.drop_users(object.oid, (&what, &what), cascade, |made, used| {
            let key = body.key_of_reference(made, used);
            key.is_some_and(|index| index.name == name)
        })?;
        let parts = self.indexes_of_partitions(object.oid);
        let object = self.catalog().object(object.oid).cloned().unwrap_or(object);
        let mut object = Object::clone(&object);
        let Body::Table(body) = &mut object.body else {
            return Ok(());
        };
        let physical = body.physical.clone();
        let own = body.indexes.iter().find(|index| index.name == name);
        if let Some(oid) = own.map(|index| index.oid) {
            body.forget_form(oid);
        }
        body.indexes.retain(|index| {
            let is_it = index.name == name;
            if let (true, Some(index)) = (is_it, &index.physical) {
                self.transaction.loose.push(Loose::Index {
                    table: physical.clone(),
                    index: index.clone(),
                });
            }
            !is_it
        });
        self.put(object, None)?;
        for part in parts {
            let catalog = self.catalog();
            if catalog.partition_parent(part).is_some() {
                continue;
            }
            if let Some((heir, index)) = catalog.index(part) {
                let (heir, name) = (Arc::clone(heir), index.name.clone());
                self.drop_index_of(heir, &name, cascade)?;
            }
        }
        Ok(())
    }
}

/// Whether an index of a table is there for a constraint.
fn backs_constraint(table: &Object, index: &Index) -> bool {
    let Body::Table(body) = &table.body else {
        return false;
    };
    let mut constraints = body.constraints.iter();
    constraints.any(|constraint| constraint.name == index.name)
}
