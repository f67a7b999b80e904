//! `ALTER TABLE` of tables that others inherit from: the others stay alike.
//!
//! A column that is there by inheritance is dropped, renamed and retyped only with the one above.
//! Keys and references are those of a table itself, unless it is a partition.

use super::alter::table_body;
use crate::catalog::{Body, Column, Constraint, Oid, Rule, TableBody};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use sql_parse::{Copied, ident_text};
use sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, ColumnDef, ColumnOption, Ident, TableConstraint,
};

/// The hint of errors about a change that partitions must have too.
const WITHOUT_ONLY: &str = "Do not specify the ONLY keyword.";

impl Session {
    /// Changes a table, and those that inherit from it where they must stay alike.
    pub(super) fn alter_family(
        &mut self,
        oid: Oid,
        operation: &AlterTableOperation,
        is_only: bool,
    ) -> Result<()> {
        use AlterTableOperation as Operation;
        match operation {
            Operation::AttachPartitionOf {
                partition,
                for_values,
            } => return self.attach(oid, partition, for_values),
            Operation::DetachPartitionOf { partition, .. } => return self.detach(oid, partition),
            Operation::Inherit { parent } => return self.inherit(oid, parent),
            Operation::NoInherit { parent } => return self.disinherit(oid, parent),
            Operation::DropConstraint { .. }
            | Operation::RenameConstraint { .. }
            | Operation::ValidateConstraint { .. } => {
                return self.alter_linked(oid, operation, is_only);
            }
            Operation::AddColumn { column_def, .. }
                if self.is_partitioned(oid)? && has_references(column_def) =>
            {
                return self.add_referring_column(oid, operation, is_only);
            }
            Operation::AddConstraint { constraint, .. } if is_only => {
                self.refuse_constraint_alone(oid, constraint)?;
            }
            Operation::AddColumn { .. }
            | Operation::DropColumn { .. }
            | Operation::RenameColumn { .. }
            | Operation::AlterColumn { .. }
            | Operation::AddConstraint { .. } => self.refuse_alone(oid, operation)?,
            _ => return self.alter_one(oid, operation),
        }
        if let Operation::AddColumn {
            column_def,
            if_not_exists: true,
            ..
        } = operation
            && self.has_column(oid, &ident_text(&column_def.name))?
        {
            return self.alter_one(oid, operation);
        }
        if is_only {
            self.refuse_without_heirs(oid, operation)?;
        }
        self.alter_one(oid, operation)?;
        if !is_only {
            self.alter_heirs(oid, operation)?;
        }
        if let Operation::AlterColumn {
            column_name,
            op: AlterColumnOperation::SetDataType { .. },
        } = operation
        {
            self.check_keys_of_column(oid, &ident_text(column_name))?;
        }
        Ok(())
    }

    /// Changes the tables that inherit from one as it was changed.
    fn alter_heirs(&mut self, oid: Oid, operation: &AlterTableOperation) -> Result<()> {
        let mut above = table_body(&mut self.altered(oid)?)?.clone();
        let added = above.constraints.pop();
        let name = added.as_ref().map(|constraint| constraint.name.as_str());
        for heir in self.catalog().heirs(oid) {
            let is_partition = self.is_partition(heir)?;
            if let Some(operation) = for_heir(operation, name, is_partition) {
                self.alter_heir(heir, &operation, (&above, added.as_ref()))?;
            }
        }
        Ok(())
    }

    /// Adds a column to a partitioned table, and its references when all partitions have it.
    fn add_referring_column(
        &mut self,
        oid: Oid,
        operation: &AlterTableOperation,
        is_only: bool,
    ) -> Result<()> {
        let mut operation = operation.copied();
        let mut references = Vec::new();
        if let AlterTableOperation::AddColumn { column_def, .. } = &mut operation {
            let mut object = self.altered(oid)?;
            let name = ident_text(&column_def.name);
            // With IF NOT EXISTS nothing is done to a column that is there.
            let is_new = table_body(&mut object)?.column(&name).is_none();
            for option in std::mem::take(&mut column_def.options) {
                let ColumnOption::ForeignKey(mut foreign) = option.option else {
                    column_def.options.push(option);
                    continue;
                };
                foreign.columns = vec![column_def.name.clone()];
                foreign.name = foreign.name.or(option.name);
                references.extend(is_new.then_some(foreign));
            }
        }
        self.alter_family(oid, &operation, is_only)?;
        for foreign in references {
            let operation = AlterTableOperation::AddConstraint {
                constraint: TableConstraint::ForeignKey(foreign),
                not_valid: false,
            };
            self.alter_family(oid, &operation, is_only)?;
        }
        Ok(())
    }

    pub(super) fn is_partitioned(&self, oid: Oid) -> Result<bool> {
        let mut object = self.altered(oid)?;
        Ok(table_body(&mut object)?.lineage.scheme.is_some())
    }

    fn is_partition(&self, oid: Oid) -> Result<bool> {
        Ok(table_body(&mut self.altered(oid)?)?.lineage.bound.is_some())
    }

    /// Fails if a table must not be changed without the one above.
    fn refuse_alone(&self, oid: Oid, operation: &AlterTableOperation) -> Result<()> {
        match operation {
            AlterTableOperation::AddColumn { .. } if self.is_partition(oid)? => {
                let message = "cannot add column to a partition";
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            AlterTableOperation::DropColumn { column_names, .. } => column_names
                .iter()
                .try_for_each(|name| self.refuse_inherited(oid, &ident_text(name), "drop")),
            AlterTableOperation::RenameColumn {
                old_column_name, ..
            } => self.refuse_inherited(oid, &ident_text(old_column_name), "rename"),
            AlterTableOperation::AlterColumn {
                column_name,
                op: AlterColumnOperation::SetDataType { .. },
            } => self.refuse_inherited(oid, &ident_text(column_name), "alter"),
            AlterTableOperation::AlterColumn {
                column_name,
                op: AlterColumnOperation::DropNotNull,
            } => self.refuse_nulls_of_partition(oid, &ident_text(column_name)),
            _ => Ok(()),
        }
    }

    fn has_column(&self, oid: Oid, name: &str) -> Result<bool> {
        Ok(table_body(&mut self.altered(oid)?)?.column(name).is_some())
    }

    /// Fails if a table must not be changed without those that inherit from it.
    fn refuse_without_heirs(&self, oid: Oid, operation: &AlterTableOperation) -> Result<()> {
        use AlterColumnOperation as Change;
        use AlterTableOperation as Operation;
        if self.catalog().heirs(oid).is_empty() {
            return Ok(());
        }
        let is_partitioned = self.is_partitioned(oid)?;
        let message = match operation {
            Operation::AddColumn { .. } => "column must be added to child tables too".to_owned(),
            Operation::RenameColumn {
                old_column_name, ..
            } => {
                let name = ident_text(old_column_name);
                format!("inherited column \"{name}\" must be renamed in child tables too")
            }
            Operation::AlterColumn {
                column_name,
                op: Change::SetDataType { .. },
            } => {
                let name = ident_text(column_name);
                format!("type of inherited column \"{name}\" must be changed in child tables too")
            }
            Operation::AlterColumn {
                column_name,
                op: Change::SetNotNull,
            } if is_partitioned => return self.refuse_nulls_below(oid, &ident_text(column_name)),
            Operation::DropColumn { .. } if is_partitioned => {
                return Err(refused_alone("drop column"));
            }
            Operation::AlterColumn {
                op: Change::DropNotNull,
                ..
            } if is_partitioned => return Err(refused_alone("remove constraint")),
            _ => return Ok(()),
        };
        Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
    }

    /// Fails if a column of a partition may be NULL.
    fn refuse_nulls_below(&self, oid: Oid, name: &str) -> Result<()> {
        for heir in self.catalog().heirs(oid) {
            let mut heir = self.altered(heir)?;
            let table = heir.name.clone();
            let body = table_body(&mut heir)?;
            let column = body.column(name).map(|at| &body.columns[at]);
            if column.is_some_and(|column| !column.not_null) {
                let message = "constraint must be added to child tables too";
                let error = SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message);
                let detail =
                    format!("Column \"{name}\" of relation \"{table}\" is not already NOT NULL.");
                return Err(error.detail(detail).hint(WITHOUT_ONLY));
            }
        }
        Ok(())
    }

    /// Fails if a column of a partition is NOT NULL in the table above.
    fn refuse_nulls_of_partition(&self, oid: Oid, name: &str) -> Result<()> {
        let mut object = self.altered(oid)?;
        let lineage = &table_body(&mut object)?.lineage;
        let (Some(_), Some(parent)) = (&lineage.bound, lineage.parents.first()) else {
            return Ok(());
        };
        let mut parent = self.altered(*parent)?;
        let above = table_body(&mut parent)?;
        let column = above.column(name).map(|at| &above.columns[at]);
        if column.is_some_and(|column| column.not_null) {
            let message = format!("column \"{name}\" is marked NOT NULL in parent table");
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        Ok(())
    }

    /// Fails if a table has a column of its own that cannot be the one which is added to the table
    /// above; whether it has one that can.
    fn merges_column(&mut self, oid: Oid, added: &Column) -> Result<bool> {
        let mut heir = self.altered(oid)?;
        let Body::Table(body) = &heir.body else {
            return Ok(false);
        };
        let Some(own) = body.column(&added.name).map(|at| &body.columns[at]) else {
            return Ok(false);
        };
        let (name, child) = (&added.name, &heir.name);
        if (own.data_type, own.domain) != (added.data_type, added.domain) {
            let message =
                format!("child table \"{child}\" has different type for column \"{name}\"");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let notice = format!("merging definition of column \"{name}\" for child \"{child}\"");
        let at = body.column(name);
        self.environment.host.notice(notice);
        // One that no other table above has is the table's own.
        if self.parents_with(&heir, name) == 1 {
            table_body(&mut heir)?.local.extend(at);
            self.put(heir, None)?;
        }
        Ok(true)
    }

    /// Changes a table as the one that it inherits from was changed: `above`, with the constraint
    /// that was added to it last.
    fn alter_heir(
        &mut self,
        oid: Oid,
        operation: &AlterTableOperation,
        above: (&TableBody, Option<&Constraint>),
    ) -> Result<()> {
        if let AlterTableOperation::DropColumn { column_names, .. } = operation {
            // A table that has the column from another one too keeps it, and its own one.
            let heir = self.altered(oid)?;
            let is_kept = |name: &String| {
                let is_local = matches!(&heir.body, Body::Table(body)
                    if body.column(name).is_some_and(|at| body.local.contains(&at)));
                is_local || self.parents_with(&heir, name) > 0
            };
            if column_names
                .iter()
                .map(ident_text)
                .any(|name| is_kept(&name))
            {
                return Ok(());
            }
        }
        if let AlterTableOperation::AddColumn { .. } = operation
            && let Some(added) = above.0.columns.last()
            && self.merges_column(oid, added)?
        {
            return Ok(());
        }
        match (operation, above) {
            (AlterTableOperation::AddConstraint { .. }, (above, Some(added))) => {
                self.inherit_constraint(oid, operation, (above, added))?;
            }
            _ => self.alter_one(oid, operation)?,
        }
        for heir in self.catalog().heirs(oid) {
            self.alter_heir(heir, operation, above)?;
        }
        Ok(())
    }

    /// Adds a constraint as the table above has it, unless the table has the same one already.
    fn inherit_constraint(
        &mut self,
        oid: Oid,
        operation: &AlterTableOperation,
        (above, added): (&TableBody, &Constraint),
    ) -> Result<()> {
        let mut object = self.altered(oid)?;
        let heir = object.name.clone();
        let body = table_body(&mut object)?;
        let mut constraints = body.constraints.iter();
        if let Some(own) = constraints.find(|own| is_same((body, own), (above, added))) {
            if body.alone.contains(&own.oid) {
                let message = format!(
                    "constraint \"{}\" conflicts with non-inherited constraint on relation \"{}\"",
                    own.name, heir
                );
                return Err(SqlError::new(SqlState("42P17"), message));
            }
            if let Rule::Check { .. } = added.rule {
                let name = &added.name;
                let message = format!("merging constraint \"{name}\" with inherited definition");
                self.environment.host.notice(message);
            }
            return Ok(());
        }
        let mut operation = operation.copied();
        if let AlterTableOperation::AddConstraint {
            constraint: TableConstraint::ForeignKey(foreign),
            ..
        } = &mut operation
            && body.constraint_names().contains(&added.name)
        {
            foreign.name = None;
        }
        self.alter_one(oid, &operation)
    }
}

/// The error of a change that partitions must have too.
fn refused_alone(what: &str) -> SqlError {
    let message = format!("cannot {what} from only the partitioned table when partitions exist");
    SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message).hint(WITHOUT_ONLY)
}

/// Whether a constraint is the one that a table would have from the table above.
fn is_same(
    (body, own): (&TableBody, &Constraint),
    (above, added): (&TableBody, &Constraint),
) -> bool {
    let names = |body: &TableBody, columns: &[usize]| -> Vec<String> {
        let columns = columns.iter().filter_map(|at| body.columns.get(*at));
        columns.map(|column| column.name.clone()).collect()
    };
    match (&own.rule, &added.rule) {
        (Rule::Check { condition }, Rule::Check { condition: other }) => {
            own.name == added.name && condition == other
        }
        (Rule::Foreign(foreign), Rule::Foreign(other)) => foreign.is_like(body, (other, above)),
        (
            Rule::Primary { columns, deferral },
            Rule::Primary {
                columns: other,
                deferral: others,
            },
        )
        | (
            Rule::Unique { columns, deferral },
            Rule::Unique {
                columns: other,
                deferral: others,
            },
        ) => deferral == others && names(body, columns) == names(above, other),
        _ => false,
    }
}

fn has_references(column: &ColumnDef) -> bool {
    let mut options = column.options.iter();
    options.any(|option| matches!(option.option, ColumnOption::ForeignKey(_)))
}

/// The change of a table that inherits from one that was changed, with the name of the constraint
/// that was added to it; none if it stays as it is.
fn for_heir(
    operation: &AlterTableOperation,
    added: Option<&str>,
    is_partition: bool,
) -> Option<AlterTableOperation> {
    let mut operation = operation.copied();
    match &mut operation {
        AlterTableOperation::AddColumn { column_def, .. } => {
            let is_alone = |option: &ColumnOption| matches!(option, ColumnOption::Check(check) if check.no_inherit);
            column_def.options.retain(|one| !is_alone(&one.option));
        }
        AlterTableOperation::AddConstraint {
            constraint: TableConstraint::Check(check),
            ..
        } if check.no_inherit => return None,
        AlterTableOperation::AddConstraint {
            constraint: TableConstraint::Check(check),
            ..
        } => check.name = added.map(|name| Ident::with_quote('"', name)),
        AlterTableOperation::AddConstraint { .. } if !is_partition => return None,
        AlterTableOperation::AddConstraint {
            constraint: TableConstraint::ForeignKey(foreign),
            ..
        } => foreign.name = added.map(|name| Ident::with_quote('"', name)),
        // An index of each partition has a name of its own.
        AlterTableOperation::AddConstraint {
            constraint: TableConstraint::Unique(key),
            ..
        } => key.name = None,
        AlterTableOperation::AddConstraint {
            constraint: TableConstraint::PrimaryKey(key),
            ..
        } => key.name = None,
        _ => {}
    }
    Some(operation)
}
