//! Constraints of a table that is there: added, renamed and dropped.
//!
//! Rows are looked at before a constraint is kept, so all of them keep it from then on.

use super::alter::table_body;
use super::column::{Written, add_constraint};
use crate::catalog::{Body, Constraint, Object, Oid, Rule, TableBody};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Expr;
use crate::session::Session;
use crate::state::{Loose, quoted};
use crate::types::text_io;
use sql_parse::{cut, ident_text};
use sqlparser::ast::{Ident, TableConstraint};
use std::sync::Arc;

impl Session {
    pub(super) fn rename_constraint(&mut self, oid: Oid, old: &str, new: &str) -> Result<()> {
        let mut object = self.altered(oid)?;
        let (namespace, table) = (object.namespace, object.name.clone());
        let body = table_body(&mut object)?;
        let named = |constraint: &Constraint| constraint.name == old;
        let at = body.constraints.iter().position(named);
        let at = at.ok_or_else(|| no_constraint(old, &table))?;
        let is_index = body.indexes.iter().any(|index| index.name == old);
        self.refuse_name((namespace, &table), new, body, is_index)?;
        new.clone_into(&mut body.constraints[at].name);
        if let Some(index) = body.indexes.iter_mut().find(|index| index.name == old) {
            new.clone_into(&mut index.name);
        }
        self.put(object, None)
    }

    /// Fails if a constraint cannot get a name, which is that of an index too if it `is_index`.
    pub(super) fn refuse_name(
        &self,
        (namespace, table): (Oid, &str),
        name: &str,
        body: &TableBody,
        is_index: bool,
    ) -> Result<()> {
        if is_index && self.is_taken(namespace, name) {
            return Err(relation_exists(name));
        }
        refuse_taken(Some(name), table, &body.constraint_names())
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
        written.merge_keys();
        let mut object = self.altered(oid)?;
        let (namespace, table) = (object.namespace, object.name.clone());
        let body = table_body(&mut object)?.clone();
        let mut taken = body.constraint_names();
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
        if new.lineage.scheme.is_some() {
            written.refuse_alone(&table)?;
        }
        for check in &written.checks {
            let place = (table.as_str(), columns.as_slice());
            let constraint = self.check_constraint(check, place, written.has_copies, &mut taken)?;
            new.alone.extend(check.is_alone.then_some(constraint.oid));
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
            let error = SqlError::new(SqlState::CHECK_VIOLATION, message);
            return Err(self.named_of(object, error, |names| {
                names.constraint = Some(constraint.name.clone());
            }));
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
            TableConstraint::ForeignKey(foreign) if self.is_partitioned(oid)? => {
                let (table, parent) = (self.altered(oid)?.name, &foreign.foreign_table);
                let message = format!(
                    "cannot add NOT VALID foreign key on partitioned table \"{table}\" referencing relation \"{parent}\""
                );
                let detail = "This feature is not yet supported on partitioned tables.";
                let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
                return Err(error.detail(detail));
            }
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
    pub(super) fn check_foreign(&mut self, object: &Object, constraint: &Constraint) -> Result<()> {
        let Rule::Foreign(foreign) = &constraint.rule else {
            return Ok(());
        };
        let parent = self.altered(foreign.parent)?;
        self.lock_rows_of(parent.oid)?;
        self.lock_rows_of(object.oid)?;
        let own = columns_of(object, &foreign.columns, "c");
        let theirs = columns_of(&parent, &foreign.parent_columns, "p");
        if foreign.is_full {
            self.check_mixed(object, constraint, &own)?;
        }
        let not_null = own.iter().map(|column| format!("{column} is not null"));
        let text = format!(
            "select {} from {} c where {} and not exists (select 1 from {} p where {}) limit 1",
            own.join(", "),
            self.full_name(object),
            not_null.collect::<Vec<_>>().join(" and "),
            self.full_name(&parent),
            equal(&own, &theirs),
        );
        let Some(key) = self.key_found(&text, object, &foreign.columns)? else {
            return Ok(());
        };
        let detail = format!("Key {key} is not present in table \"{}\".", parent.name);
        Err(broken_reference(object, constraint, detail))
    }

    /// Fails if a row has a NULL and another value in the columns of a reference.
    fn check_mixed(
        &mut self,
        object: &Object,
        constraint: &Constraint,
        columns: &[String],
    ) -> Result<()> {
        let any = |rule: &str| {
            let rules = columns.iter().map(|column| format!("{column} {rule}"));
            rules.collect::<Vec<_>>().join(" or ")
        };
        let text = format!(
            "select 1 from {} c where ({}) and ({}) limit 1",
            self.full_name(object),
            any("is null"),
            any("is not null"),
        );
        if self.query_rows(&text)?.is_empty() {
            return Ok(());
        }
        let detail = "MATCH FULL does not allow mixing of null and nonnull key values.";
        Err(broken_reference(object, constraint, detail.to_owned()))
    }

    /// Fails if rows of a partition that is to leave its table are referred to as rows of it.
    pub(super) fn check_leaving(&mut self, partition: &Object) -> Result<()> {
        let catalog = self.catalog();
        let references = catalog.references_from_above(partition.oid);
        let references = references.filter(|(child, constraint, foreign)| {
            let is_written_here = catalog.written_for(child, constraint).oid == child.oid;
            foreign.parent != partition.oid && is_written_here
        });
        let references = references
            .map(|(child, constraint, foreign)| {
                (Arc::clone(child), constraint.name.clone(), foreign.clone())
            })
            .collect::<Vec<_>>();
        if !references.is_empty() {
            self.lock_rows_of(partition.oid)?;
        }
        for (child, constraint, foreign) in references {
            self.lock_rows_of(child.oid)?;
            // A partition has the names of the columns, and not their places.
            let parent = self.altered(foreign.parent)?;
            let own = columns_of(&child, &foreign.columns, "c");
            let theirs = columns_of(&parent, &foreign.parent_columns, "p");
            let text = format!(
                "select {} from {} c, {} p where {} limit 1",
                own.join(", "),
                self.full_name(&child),
                self.full_name(partition),
                equal(&own, &theirs),
            );
            if let Some(key) = self.key_found(&text, &child, &foreign.columns)? {
                let message = format!(
                    "removing partition \"{}\" violates foreign key constraint \"{constraint}\"",
                    partition.name
                );
                let child = &child.name;
                let detail = format!("Key {key} is still referenced from table \"{child}\".");
                return Err(SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message).detail(detail));
            }
        }
        Ok(())
    }

    /// The first row of a query for the values of columns, as errors show a key.
    fn key_found(
        &mut self,
        query: &str,
        object: &Object,
        columns: &[usize],
    ) -> Result<Option<String>> {
        let rows = self.query_rows(query)?;
        let (Some(row), Body::Table(body)) = (rows.first(), &object.body) else {
            return Ok(None);
        };
        let columns = columns.iter().map(|&at| &body.columns[at]);
        let context = self.environment.context();
        let values = columns.clone().zip(row);
        let values = values
            .map(|(column, value)| text_io::print(value, column.data_type.kind, &context))
            .collect::<Result<Vec<_>>>()?;
        let names: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
        Ok(Some(format!(
            "({})=({})",
            names.join(", "),
            values.join(", ")
        )))
    }

    /// The name of a table with its schema, as a statement has it.
    fn full_name(&self, object: &Object) -> String {
        let schema = self.catalog().object(object.namespace);
        let schema = schema.map_or("public", |schema| &schema.name);
        format!("{}.{}", quoted(schema), quoted(&object.name))
    }

    /// `DISABLE TRIGGER` and `ENABLE TRIGGER`: the only triggers are those of foreign keys, and
    /// they go with `ALL`. The session alone does not look at the foreign keys: others go on.
    pub(super) fn switch_triggers(
        &mut self,
        oid: Oid,
        name: &Ident,
        is_disabled: bool,
    ) -> Result<()> {
        let object = self.altered(oid)?;
        let is_word =
            |word: &str| name.quote_style.is_none() && name.value.eq_ignore_ascii_case(word);
        if is_word("user") {
            return Ok(());
        }
        if !is_word("all") {
            let (name, table) = (ident_text(name), &object.name);
            let message = format!("trigger \"{name}\" for table \"{table}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        let tables = self.family_of(oid, false);
        let has_key = |oid: &Oid| {
            let body = self.catalog().object(*oid).map(|object| &object.body);
            let refers = matches!(body, Some(Body::Table(body))
                if body.constraints.iter().any(|one| matches!(one.rule, Rule::Foreign(_))));
            refers || self.catalog().references_to(*oid).next().is_some()
        };
        let role = self.environment.names.role;
        if tables.iter().any(has_key) && !self.catalog().is_superuser(role) {
            let message = "permission denied: \"RI_ConstraintTrigger\" is a system trigger";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        self.environment.host.disable(&tables, is_disabled);
        Ok(())
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
        // Earlier builds have made names that are longer than those of statements.
        let all = &body.constraints;
        let at = all.iter().position(|one| one.name == name);
        let at = at.or_else(|| all.iter().position(|one| cut(one.name.clone()) == name));
        let Some(at) = at else {
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
        let is_primary = match &constraint.rule {
            Rule::Primary { .. } => true,
            Rule::Unique { .. } => false,
            Rule::Check { .. } | Rule::Foreign(_) => return self.put(object, None),
        };
        let what = format!("constraint {name} on table {table}");
        let needed = (what.as_str(), &*format!("index {name}"));
        self.drop_users(oid, needed, cascade, |made, used| {
            let key = old.key_of_reference(made, used);
            key.is_some_and(|index| index.name == name)
        })?;
        // A reference of the table to itself may be gone now.
        let mut object = self.altered(oid)?;
        let body = table_body(&mut object)?;
        body.constraints.retain(|own| own.oid != constraint.oid);
        body.indexes.retain(|index| index.name != name);
        if is_primary {
            let groups = self.views_of(oid);
            body.key.clear();
            self.rewrite_rows(&old, object)?;
            return self.drop_broken_views(groups, &what, cascade);
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

/// Fails if a constraint is to get the name of another one of its table.
pub(super) fn refuse_taken(name: Option<&str>, table: &str, taken: &[String]) -> Result<()> {
    match name {
        Some(name) if taken.iter().any(|one| one == name) => {
            let message = format!("constraint \"{name}\" for relation \"{table}\" already exists");
            Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message))
        }
        _ => Ok(()),
    }
}

/// The error of a relation whose name another one has.
pub(super) fn relation_exists(name: &str) -> SqlError {
    let message = format!("relation \"{name}\" already exists");
    SqlError::new(SqlState::DUPLICATE_TABLE, message)
}

/// The error of a row whose new reference is not kept.
fn broken_reference(object: &Object, constraint: &Constraint, detail: String) -> SqlError {
    let message = format!(
        "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
        object.name, constraint.name
    );
    SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message).detail(detail)
}

/// Columns of a table as a query has them that calls it `alias`.
fn columns_of(object: &Object, columns: &[usize], alias: &str) -> Vec<String> {
    let Body::Table(body) = &object.body else {
        return Vec::new();
    };
    let names = columns.iter().map(|&at| quoted(&body.columns[at].name));
    names.map(|column| format!("{alias}.{column}")).collect()
}

/// The condition that expressions are equal to others.
fn equal(these: &[String], others: &[String]) -> String {
    let pairs = these.iter().zip(others);
    let pairs = pairs.map(|(one, other)| format!("{one} = {other}"));
    pairs.collect::<Vec<_>>().join(" and ")
}

fn no_constraint(name: &str, table: &str) -> SqlError {
    let message = format!("constraint \"{name}\" of relation \"{table}\" does not exist");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}
