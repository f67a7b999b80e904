//! Constraints of a table that is there: added, renamed and dropped.
//!
//! Rows are looked at before a constraint is kept, so all of them keep it from then on.

use super::alter::table_body;
use super::column::{Written, add_constraint};
use crate::catalog::{Body, Column, Constraint, Object, Oid, Rule};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Expr;
use crate::session::Session;
use crate::state::{Loose, quoted};
use sqlparser::ast::TableConstraint;

impl Session {
    pub(super) fn rename_constraint(&mut self, oid: Oid, old: &str, new: &str) -> Result<()> {
        let mut object = self.altered(oid)?;
        let table = object.name.clone();
        let body = table_body(&mut object)?;
        let constraint = body
            .constraints
            .iter_mut()
            .find(|constraint| constraint.name == old);
        let constraint = constraint.ok_or_else(|| no_constraint(old, &table))?;
        new.clone_into(&mut constraint.name);
        if let Some(index) = body.indexes.iter_mut().find(|index| index.name == old) {
            new.clone_into(&mut index.name);
        }
        self.put(object, None)
    }

    pub(super) fn add_constraint(&mut self, oid: Oid, constraint: &TableConstraint) -> Result<()> {
        match constraint {
            TableConstraint::PrimaryKeyUsingIndex(using) => self.use_index(oid, using, true),
            TableConstraint::UniqueUsingIndex(using) => self.use_index(oid, using, false),
            _ => {
                let mut written = Written::default();
                add_constraint(&mut written, constraint)?;
                self.add_written(oid, written)
            }
        }
    }

    /// Adds constraints that all rows of the table must keep.
    pub(super) fn add_written(&mut self, oid: Oid, mut written: Written) -> Result<()> {
        let mut object = self.altered(oid)?;
        let (namespace, table) = (object.namespace, object.name.clone());
        let body = table_body(&mut object)?.clone();
        let mut taken: Vec<String> = body
            .constraints
            .iter()
            .map(|constraint| constraint.name.clone())
            .collect();
        for foreign in std::mem::take(&mut written.foreign) {
            let constraint = self.foreign_key(&object, &foreign, &taken)?;
            taken.push(constraint.name.clone());
            if written.is_unproven {
                table_body(&mut object)?.unproven.push(constraint.oid);
            } else {
                self.check_foreign(&object, &constraint)?;
            }
            table_body(&mut object)?.constraints.push(constraint);
        }
        let has_keys = !written.primary.is_empty() || !written.unique.is_empty();
        if !written.primary.is_empty() && body.primary().is_some() {
            let message = format!("multiple primary keys for table \"{table}\" are not allowed");
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        let mut new = table_body(&mut object)?.clone();
        let mut columns = new.columns.clone();
        self.add_keys(
            &written,
            (namespace, &table),
            &mut columns,
            &mut new,
            &mut taken,
        )?;
        for (own, column, condition) in &written.checks {
            let constraint = self.check_constraint(
                (own.clone(), column.as_deref(), condition),
                &table,
                &columns,
                &mut taken,
            )?;
            new.unproven
                .extend(written.is_unproven.then_some(constraint.oid));
            new.constraints.push(constraint);
        }
        new.columns = columns;
        self.check_partition_keys(&new)?;
        *table_body(&mut object)? = new;
        self.check_rows(&object, &written)?;
        if has_keys {
            let values =
                (0..body.columns.len()).map(|at| Expr::Column(at, body.columns[at].data_type));
            return self
                .rewrite(&body, object, values.collect())
                .map_err(|error| {
                    let names = error.names.as_ref();
                    let name = names.and_then(|names| names.constraint.clone());
                    super::index::of_build(error, &name.unwrap_or_default())
                });
        }
        self.put(object, None)
    }

    /// Fails if a row breaks one of the new checks.
    fn check_rows(&mut self, object: &Object, written: &Written) -> Result<()> {
        let Body::Table(body) = &object.body else {
            return Ok(());
        };
        if written.is_unproven {
            return Ok(());
        }
        let mut new = body.constraints.iter().rev().take(written.checks.len());
        new.try_for_each(|constraint| self.check_check(object, constraint))
    }

    /// Fails if a row breaks a check.
    fn check_check(&mut self, object: &Object, constraint: &Constraint) -> Result<()> {
        let (Body::Table(body), Rule::Check { condition }) = (&object.body, &constraint.rule)
        else {
            return Ok(());
        };
        let condition = self.bound_check(condition, &object.name, &body.columns)?;
        let broken = Expr::IsTruth(Box::new(condition), Some(false), false);
        if self.has_row(object.oid, broken)? {
            let message = format!(
                "check constraint \"{}\" of relation \"{}\" is violated by some row",
                constraint.name, object.name
            );
            return Err(SqlError::new(SqlState::CHECK_VIOLATION, message)
                .named(|names| names.constraint = Some(constraint.name.clone())));
        }
        Ok(())
    }

    /// Adds a constraint that rows which are there may break.
    pub(super) fn add_unproven(&mut self, oid: Oid, constraint: &TableConstraint) -> Result<()> {
        let kind = match constraint {
            TableConstraint::PrimaryKey(_) | TableConstraint::PrimaryKeyUsingIndex(_) => {
                "PRIMARY KEY"
            }
            TableConstraint::Unique(_) | TableConstraint::UniqueUsingIndex(_) => "UNIQUE",
            _ => {
                let mut written = Written {
                    is_unproven: true,
                    ..Written::default()
                };
                add_constraint(&mut written, constraint)?;
                return self.add_written(oid, written);
            }
        };
        let message = format!("{kind} constraints cannot be marked NOT VALID");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    }

    /// Looks at all rows, which keep the constraint from then on.
    pub(super) fn prove_constraint(&mut self, oid: Oid, name: &str) -> Result<()> {
        let mut object = self.altered(oid)?;
        let table = object.name.clone();
        let body = table_body(&mut object)?;
        let mut constraints = body.constraints.iter();
        let constraint = constraints.find(|constraint| constraint.name == name);
        let constraint = constraint
            .ok_or_else(|| no_constraint(name, &table))?
            .clone();
        if let Rule::Primary { .. } | Rule::Unique { .. } = constraint.rule {
            let message = format!(
                "constraint \"{name}\" of relation \"{table}\" is not a foreign key or check constraint"
            );
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        if !body.unproven.contains(&constraint.oid) {
            return Ok(());
        }
        body.unproven.retain(|own| *own != constraint.oid);
        self.check_check(&object, &constraint)?;
        self.check_foreign(&object, &constraint)?;
        self.put(object, None)
    }

    /// Fails if a row's new reference names no row.
    fn check_foreign(&mut self, object: &Object, constraint: &Constraint) -> Result<()> {
        let Rule::Foreign(foreign) = &constraint.rule else {
            return Ok(());
        };
        let Body::Table(body) = &object.body else {
            return Ok(());
        };
        let parent = self.altered(foreign.parent)?;
        let Body::Table(parent_body) = &parent.body else {
            return Ok(());
        };
        let name = |object: &Object| {
            let schema = self.catalog().object(object.namespace);
            let schema = schema.map_or("public", |schema| &schema.name);
            format!("{}.{}", quoted(schema), quoted(&object.name))
        };
        let quoted = |columns: &[Column], places: &[usize], alias: &str| -> Vec<String> {
            let names = places.iter().map(|&at| quoted(&columns[at].name));
            names.map(|column| format!("{alias}.{column}")).collect()
        };
        let own = quoted(&body.columns, &foreign.columns, "c");
        let theirs = quoted(&parent_body.columns, &foreign.parent_columns, "p");
        let not_null: Vec<String> = own
            .iter()
            .map(|column| format!("{column} is not null"))
            .collect();
        let equal: Vec<String> = own
            .iter()
            .zip(&theirs)
            .map(|(one, other)| format!("{one} = {other}"))
            .collect();
        let text = format!(
            "select 1 from {} c where {} and not exists (select 1 from {} p where {}) limit 1",
            name(object),
            not_null.join(" and "),
            name(&parent),
            equal.join(" and ")
        );
        if self.query_rows(&text)?.is_empty() {
            return Ok(());
        }
        let message = format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
            object.name, constraint.name
        );
        let detail = format!("A key is not present in table \"{}\".", parent.name);
        Err(SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message).detail(detail))
    }

    pub(super) fn drop_constraint_named(
        &mut self,
        oid: Oid,
        name: &str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        let mut object = self.altered(oid)?;
        let table = object.name.clone();
        let body = table_body(&mut object)?;
        let Some(at) = body
            .constraints
            .iter()
            .position(|constraint| constraint.name == name)
        else {
            if if_exists {
                let message = format!(
                    "constraint \"{name}\" of relation \"{table}\" does not exist, skipping"
                );
                self.environment.host.notice(message);
                return Ok(());
            }
            return Err(no_constraint(name, &table));
        };
        let old = body.clone();
        let constraint = body.constraints.remove(at);
        let (columns, is_primary) = match &constraint.rule {
            Rule::Primary { columns, .. } => (columns.clone(), true),
            Rule::Unique { columns, .. } => (columns.clone(), false),
            Rule::Check { .. } | Rule::Foreign(_) => return self.put(object, None),
        };
        let what = format!("constraint {name} on table {table}");
        self.drop_users(oid, &what, cascade, |used| used == columns)?;
        let body = table_body(&mut object)?;
        body.indexes.retain(|index| index.name != name);
        if is_primary {
            body.key.clear();
            let values = old.columns.iter().enumerate();
            let values = values.map(|(at, column)| Expr::Column(at, column.data_type));
            return self.rewrite(&old, object, values.collect());
        }
        let physical = body.physical.clone();
        let index = old.indexes.iter().find(|index| index.name == name);
        if let Some(index) = index.and_then(|index| index.physical.clone()) {
            self.transaction.loose.push(Loose::Index {
                table: physical,
                index,
            });
        }
        self.put(object, None)
    }
}

fn no_constraint(name: &str, table: &str) -> SqlError {
    let message = format!("constraint \"{name}\" of relation \"{table}\" does not exist");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}
