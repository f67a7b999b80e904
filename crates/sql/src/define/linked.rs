//! Constraints of families: those that partitions have from their table, and checks that tables
//! have from those that they inherit from.
//!
//! No link is kept: a key belongs to the one above by its index, a foreign key by what it says, and
//! a check by its name ([`crate::catalog::Catalog::constraint_above`]). So all of a family change
//! together, and none of them changes alone.

use super::alter::table_body;
use super::column::Written;
use super::index::create_forms;
use super::like::keys_like;
use crate::catalog::{Body, Constraint, Index, Object, Oid, Rule, TableBody};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::state::quoted;
use indelible::TableLock;
use sql_parse::ident_text;
use sqlparser::ast::{AlterTableOperation as Operation, Ident, TableConstraint};

impl Session {
    /// Drops, renames or proves a constraint of a table, and those that others have from it.
    pub(super) fn alter_linked(
        &mut self,
        oid: Oid,
        operation: &Operation,
        is_only: bool,
    ) -> Result<()> {
        let (Operation::DropConstraint { name, .. }
        | Operation::ValidateConstraint { name }
        | Operation::RenameConstraint { old_name: name, .. }) = operation
        else {
            return self.alter_one(oid, operation);
        };
        let name = ident_text(name);
        let object = self.altered(oid)?;
        let Body::Table(body) = &object.body else {
            return self.alter_one(oid, operation);
        };
        let Some(constraint) = body.constraints.iter().find(|one| one.name == name) else {
            return self.alter_one(oid, operation);
        };
        let catalog = self.catalog();
        let is_check = matches!(constraint.rule, Rule::Check { .. });
        let verb = match operation {
            Operation::DropConstraint { .. } => "drop",
            Operation::RenameConstraint { .. } => "rename",
            _ => "",
        };
        // Only checks belong together by their names.
        let is_alone = verb == "rename" && !is_check;
        if !verb.is_empty() && !is_alone && catalog.constraint_above(oid, constraint).is_some() {
            let table = &object.name;
            let message =
                format!("cannot {verb} inherited constraint \"{name}\" of relation \"{table}\"");
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        let below = catalog.constraints_below(oid, constraint.oid).into_iter();
        let below = below.filter(|_| !is_alone);
        let below: Vec<(Oid, String)> = below.map(|(heir, own)| (heir, own.name.clone())).collect();
        if is_only && verb == "drop" && !below.is_empty() && body.lineage.scheme.is_some() {
            let message =
                "cannot remove constraint from only the partitioned table when partitions exist";
            let hint = "Do not specify the ONLY keyword.";
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message).hint(hint));
        }
        let is_unproven = body.unproven.contains(&constraint.oid);
        if is_only && verb.is_empty() && is_check && is_unproven && !below.is_empty() {
            let message = "constraint must be validated on child tables too";
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        self.alter_one(oid, operation)?;
        for (heir, own) in below.into_iter().filter(|_| !is_only) {
            let mut operation = operation.clone();
            if let Operation::DropConstraint { name, .. }
            | Operation::ValidateConstraint { name }
            | Operation::RenameConstraint { old_name: name, .. } = &mut operation
            {
                *name = Ident::with_quote('"', own);
            }
            self.alter_one(heir, &operation)?;
        }
        Ok(())
    }

    /// Fails if a constraint is to be added to a table alone that others must have as well.
    pub(super) fn refuse_constraint_alone(
        &self,
        oid: Oid,
        constraint: &TableConstraint,
    ) -> Result<()> {
        let object = self.altered(oid)?;
        match constraint {
            TableConstraint::ForeignKey(foreign) if self.is_partitioned(oid)? => {
                let message = format!(
                    "cannot use ONLY for foreign key on partitioned table \"{}\" referencing relation \"{}\"",
                    object.name, foreign.foreign_table
                );
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            TableConstraint::Check(check)
                if !check.no_inherit && !self.catalog().heirs(oid).is_empty() =>
            {
                let message = "constraint must be added to child tables too";
                Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
            }
            _ => Ok(()),
        }
    }

    /// Gives a new partition the keys of its table, and so its own partitions.
    pub(super) fn give_keys(&mut self, above: &TableBody, partition: Oid) -> Result<()> {
        let mut object = self.altered(partition)?;
        let written = missing_keys(above, table_body(&mut object)?);
        self.add_written(partition, written)?;
        let object = self.altered(partition)?;
        if let Body::Table(own) = &object.body {
            create_forms(self, partition, &missing_indexes(above, own))?;
        }
        for below in self.catalog().partitions(partition) {
            let mut above = self.altered(partition)?;
            self.give_keys(table_body(&mut above)?, below)?;
        }
        Ok(())
    }

    /// Adds the foreign keys of a table to those of a partition that has none like them.
    pub(super) fn inherit_references(&self, above: &TableBody, body: &mut TableBody) {
        for constraint in &above.constraints {
            let Rule::Foreign(foreign) = &constraint.rule else {
                continue;
            };
            let has_one = body.constraints.iter().any(|own| match &own.rule {
                Rule::Foreign(own) => own.is_like(body, (foreign, above)),
                _ => false,
            });
            if has_one {
                continue;
            }
            let mut foreign = foreign.clone();
            let own = foreign.columns.iter_mut().chain(&mut foreign.set_on_delete);
            for at in own {
                *at = body.column(&above.columns[*at].name).unwrap_or(*at);
            }
            let taken = body.constraint_names();
            let name = match taken.contains(&constraint.name) {
                true => {
                    let mut numbered = (1..).map(|number| format!("{}{number}", constraint.name));
                    let free = numbered.find(|name| !taken.contains(name));
                    free.unwrap_or_default()
                }
                false => constraint.name.clone(),
            };
            body.constraints.push(Constraint {
                oid: self.sql.next_oid(1),
                name,
                rule: Rule::Foreign(foreign),
            });
        }
    }

    /// Gives the partitions of a new partition its foreign keys, and looks at the rows of all.
    pub(super) fn check_new_partition(&mut self, partition: Oid) -> Result<()> {
        let mut object = self.altered(partition)?;
        let body = table_body(&mut object)?.clone();
        for below in self.catalog().partitions(partition) {
            let mut below = self.altered(below)?;
            let oid = below.oid;
            let own = table_body(&mut below)?;
            let before = own.constraints.len();
            self.inherit_references(&body, own);
            if own.constraints.len() > before {
                self.put(below, None)?;
            }
            self.check_new_partition(oid)?;
        }
        if body.lineage.scheme.is_some() {
            return Ok(());
        }
        for constraint in &body.constraints {
            if self
                .catalog()
                .constraint_above(partition, constraint)
                .is_some()
            {
                self.check_foreign(&object, constraint)?;
            }
        }
        Ok(())
    }

    /// Fails if a foreign key that reads a column, or refers to it, does not hold any more.
    pub(super) fn check_keys_of_column(&mut self, oid: Oid, column: &str) -> Result<()> {
        let object = self.altered(oid)?;
        let Body::Table(body) = &object.body else {
            return Ok(());
        };
        let Some(at) = body.column(column) else {
            return Ok(());
        };
        let own = body.constraints.iter();
        let own =
            own.filter(|one| matches!(&one.rule, Rule::Foreign(key) if key.columns.contains(&at)));
        let mut keys: Vec<(Object, Constraint)> =
            own.map(|one| (object.clone(), one.clone())).collect();
        let users = self.catalog().references_to(oid);
        let users = users.filter(|(.., key)| key.parent_columns.contains(&at));
        keys.extend(users.map(|(child, one, _)| (Object::clone(child), one.clone())));
        for (table, constraint) in keys {
            self.check_types_of(&table, &constraint)?;
            self.check_foreign(&table, &constraint)?;
        }
        Ok(())
    }

    /// Fails if columns of a foreign key cannot be compared with those that they refer to.
    fn check_types_of(&self, table: &Object, constraint: &Constraint) -> Result<()> {
        let (Body::Table(body), Rule::Foreign(key)) = (&table.body, &constraint.rule) else {
            return Ok(());
        };
        let mut parent = self.altered(key.parent)?;
        let name = parent.name.clone();
        let referred = (
            name.as_str(),
            &*table_body(&mut parent)?,
            &key.parent_columns[..],
        );
        super::reference::check_reference(&constraint.name, (body, &key.columns), referred)
    }

    /// Fails if a cursor of the session reads a table, which would not survive the command.
    pub(super) fn refuse_readers(&self, object: &Object, command: &str) -> Result<()> {
        if self.has_open_reader_of(object.oid) {
            let message = format!(
                "cannot {command} \"{}\" because it is being used by active queries in this session",
                object.name
            );
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, message));
        }
        Ok(())
    }

    /// Locks a table, if it has rows of its own, for this transaction alone.
    pub(super) fn lock_alone(&mut self, oid: Oid) -> Result<()> {
        if let Some(handle) = self.catalog().handle(oid).cloned() {
            let wait = self.environment.wait();
            self.exclude_others(&handle, wait)?;
        }
        Ok(())
    }

    /// Locks a table and all that inherit from it, so that nobody changes their rows.
    pub(super) fn lock_rows_of(&mut self, oid: Oid) -> Result<()> {
        let wait = self.environment.wait();
        for oid in self.family_of(oid, false) {
            if let Some(handle) = self.catalog().handle(oid).cloned() {
                self.connection
                    .lock_table(&handle, TableLock::Shared, wait)?;
            }
        }
        Ok(())
    }
}

/// The indexes of a table that are no constraints, and that a partition of it has not.
fn missing_indexes(above: &TableBody, own: &TableBody) -> Vec<(bool, String)> {
    let mut missing = above.clone();
    let is_missing = |index: &Index| own.index_below((above, index)).is_none();
    missing.indexes.retain(is_missing);
    let mut written = Written::default();
    keys_like(&missing, &mut written);
    let plain = written.indexes.into_iter().map(|(columns, is_unique)| {
        let columns: Vec<_> = columns.iter().map(|name| quoted(name)).collect();
        (is_unique, format!("({})", columns.join(", ")))
    });
    plain.chain(written.forms).collect()
}

/// The keys of a table that a partition of it has not.
fn missing_keys(above: &TableBody, own: &TableBody) -> Written {
    let mut written = Written::default();
    keys_like(above, &mut written);
    let has = |unique: bool, names: &[String]| {
        own.constraints
            .iter()
            .any(|constraint| match &constraint.rule {
                Rule::Primary { columns, .. } => !unique && columns.len() == names.len(),
                Rule::Unique { columns, .. } => {
                    let columns = columns.iter().map(|&at| &own.columns[at].name);
                    unique && columns.eq(names)
                }
                _ => false,
            })
    };
    written.primary.retain(|key| !has(false, &key.columns));
    written.unique.retain(|key| !has(true, &key.columns));
    written.indexes.clear();
    written
}
