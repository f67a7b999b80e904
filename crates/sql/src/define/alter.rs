//! `ALTER TABLE` and its kin.
//!
//! A change of columns makes another table below and copies the rows into it, converted; a change
//! of names, defaults or constraints changes the catalogue only, after the rows that are there have
//! been looked at.

use super::column::{DEFAULT, Written};
use super::immutable::Mutable;
use crate::catalog::{Body, Column, Names, Object, Oid, Origin, Rule, TableBody};
use crate::error::{ErrorNames, Result, SqlError, SqlState};
use crate::plan::{Access, Expr, Filter, Node, Project, Scan};
use crate::session::Session;
use crate::sink::Completion;
use crate::state::Loose;
use crate::types::Kind;
use sql_bind::{TypeName, row_scope, type_named};
use sql_parse::{
    DROP_EXPRESSION, has_subquery, ident_text, identity_change, in_passes, mark_of, object_name,
    stored_text,
};
use sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, DataType, DropBehavior,
    RenameTableNameKind,
};

/// Changes a table.
pub(super) fn alter(session: &mut Session, alter: &AlterTable) -> Result<Completion> {
    session.begin_definition()?;
    let completion = Completion::new("ALTER TABLE");
    let (schema, name) = object_name(&alter.name)?;
    let found = session
        .environment
        .names
        .find(Names::Relations, schema.as_deref(), &name)
        .cloned();
    let Some(object) = found else {
        if alter.if_exists
            && session
                .relation_or_typed(schema.as_deref(), &name)
                .is_none()
        {
            let message = format!("relation \"{name}\" does not exist, skipping");
            session.environment.host.notice(message);
            return Ok(completion);
        }
        return Err(session.no_definition(schema.as_deref(), &name));
    };
    session.must_own(&object)?;
    session.refuse_readers(&object, "ALTER TABLE")?;
    session.lock_alone(object.oid)?;
    // The name may be that of an index of the table.
    let is_index = object.name != name;
    for operation in in_passes(&alter.operations)? {
        check_kind(&object, &name, operation)?;
        match operation {
            AlterTableOperation::RenameTable {
                table_name: RenameTableNameKind::As(new) | RenameTableNameKind::To(new),
            } if is_index => session.rename_index(&object, &name, &object_name(new)?.1)?,
            AlterTableOperation::RenameColumn {
                old_column_name,
                new_column_name,
            } if matches!(object.body, Body::View(_)) => {
                session.rename_column(object.oid, old_column_name, new_column_name)?;
            }
            _ => session.alter_family(object.oid, operation, alter.only)?,
        }
    }
    Ok(completion)
}

/// Fails if an operation is none of what has this name: another relation than a table, or an index
/// of the object.
fn check_kind(object: &Object, name: &str, operation: &AlterTableOperation) -> Result<()> {
    use AlterTableOperation as Operation;
    let is_index = object.name != name;
    let is_materialized = super::materialized::materialized(object).is_some();
    let kind = match &object.body {
        _ if is_index => "indexes",
        Body::View(_) => "views",
        Body::Sequence(_) => "sequences",
        _ if is_materialized => "materialized views",
        _ => return Ok(()),
    };
    let is_possible = match operation {
        Operation::RenameConstraint { old_name, .. } if !is_materialized || is_index => {
            let constraint = ident_text(old_name);
            let message =
                format!("constraint \"{constraint}\" for table \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        Operation::RenameTable { .. } => true,
        Operation::OwnerTo { .. } => !is_index,
        Operation::RenameColumn { .. } => !is_index && !matches!(object.body, Body::Sequence(_)),
        Operation::AddConstraint { .. }
        | Operation::AddColumn { .. }
        | Operation::DropColumn { .. }
        | Operation::AlterColumn { .. } => false,
        _ => is_materialized && !is_index,
    };
    if is_possible {
        return Ok(());
    }
    let shown = operation.to_string();
    let words: Vec<&str> = shown.split(' ').take(2).collect();
    let action = words.join(" ");
    let message = format!("ALTER action {action} cannot be performed on relation \"{name}\"");
    let detail = format!("This operation is not supported for {kind}.");
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).detail(detail))
}

impl Session {
    /// The table with a number, to be changed.
    pub(super) fn altered(&self, oid: Oid) -> Result<Object> {
        let object = self
            .catalog()
            .object(oid)
            .map(|object| Object::clone(object));
        object.ok_or_else(|| SqlError::internal("the table that is altered"))
    }

    pub(super) fn alter_one(&mut self, oid: Oid, operation: &AlterTableOperation) -> Result<()> {
        match operation {
            AlterTableOperation::RenameTable { table_name } => self.rename(oid, table_name),
            AlterTableOperation::RenameColumn {
                old_column_name,
                new_column_name,
            } => self.rename_column(oid, old_column_name, new_column_name),
            AlterTableOperation::RenameConstraint { old_name, new_name } => {
                self.rename_constraint(oid, &ident_text(old_name), &ident_text(new_name))
            }
            AlterTableOperation::AddConstraint {
                constraint,
                not_valid: false,
            } => self.add_constraint(oid, constraint),
            AlterTableOperation::AddConstraint { constraint, .. } => {
                self.add_unproven(oid, constraint)
            }
            AlterTableOperation::ValidateConstraint { name } => {
                self.prove_constraint(oid, &ident_text(name))
            }
            AlterTableOperation::DropConstraint {
                if_exists,
                name,
                drop_behavior,
            } => {
                let cascade = *drop_behavior == Some(DropBehavior::Cascade);
                self.drop_constraint_named(oid, &ident_text(name), *if_exists, cascade)
            }
            AlterTableOperation::AddColumn {
                column_def,
                if_not_exists,
                ..
            } => self.add_column(oid, column_def, *if_not_exists),
            AlterTableOperation::DropColumn {
                column_names,
                if_exists,
                drop_behavior,
                ..
            } => {
                let cascade = *drop_behavior == Some(DropBehavior::Cascade);
                for name in column_names {
                    self.drop_column(oid, &ident_text(name), *if_exists, cascade)?;
                }
                Ok(())
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                self.alter_column(oid, &ident_text(column_name), op)
            }
            AlterTableOperation::OwnerTo { new_owner } => self.change_owner(oid, new_owner),
            AlterTableOperation::ReplicaIdentity { .. } => Ok(()),
            AlterTableOperation::DisableTrigger { name } => self.switch_triggers(oid, name, true),
            AlterTableOperation::EnableTrigger { name } => self.switch_triggers(oid, name, false),
            other => {
                let instead = "See `docs/sql.md` for the changes of tables that there are.";
                Err(SqlError::unsupported(
                    format!("ALTER TABLE {other}"),
                    instead,
                ))
            }
        }
    }

    pub(super) fn bound_check(&self, text: &str, table: &str, columns: &[Column]) -> Result<Expr> {
        let columns = columns
            .iter()
            .map(|column| (column.name.clone(), column.data_type));
        let scope = row_scope(table, columns)?;
        self.binding(|binder| binder.stored(text, scope))
    }

    /// An error with the names of a table, and others.
    pub(super) fn named_of(
        &self,
        table: &Object,
        error: SqlError,
        others: impl FnOnce(&mut ErrorNames),
    ) -> SqlError {
        let schema = self.catalog().object(table.namespace);
        error.named(|names| {
            names.schema = schema.map(|schema| schema.name.clone());
            names.table = Some(table.name.clone());
            others(names);
        })
    }

    /// Whether a table has a row for which a condition holds.
    pub(super) fn has_row(&mut self, oid: Oid, condition: Expr) -> Result<bool> {
        self.lock_rows_of(oid)?;
        let scan = self.scan_of(oid)?;
        let found = Filter {
            input: scan,
            condition,
        };
        let rows = self.with_newest(|session| session.rows_of(&found.into()))?;
        Ok(!rows.is_empty())
    }

    /// Calls `body`, whose reads see the newest committed rows, whatever the transaction sees: what
    /// is defined is defined for all rows. Their tables are locked, so they stay as they are until
    /// the transaction ends.
    pub(super) fn with_newest<R>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        let moment = self.connection.leave_for_locked()?;
        let result = body(self);
        self.connection.return_to(moment);
        result
    }

    /// All rows of a table.
    fn scan_of(&self, oid: Oid) -> Result<Node> {
        let source = self.binding(|binder| binder.source_by_oid(oid))?;
        Ok(Scan {
            needed: vec![true; source.width()],
            access: Access::All { backward: false },
            condition: None,
            partition: None,
            tests: Vec::new(),
            alias: None,
            source,
        }
        .into())
    }

    fn add_column(
        &mut self,
        oid: Oid,
        definition: &sqlparser::ast::ColumnDef,
        if_not_exists: bool,
    ) -> Result<()> {
        let mut object = self.altered(oid)?;
        let (namespace, table) = (object.namespace, object.name.clone());
        let mut written = Written::default();
        let new = self.new_column((namespace, &table), definition, &mut written)?;
        let old = table_body(&mut object)?.clone();
        if old.column(&new.column.name).is_some() {
            let message = format!(
                "column \"{}\" of relation \"{table}\" already exists",
                new.column.name
            );
            let error = SqlError::new(SqlState::DUPLICATE_COLUMN, message);
            return self.environment.host.skip_or_fail(if_not_exists, error);
        }
        self.refuse_own_rows((oid, &table), new.column.data_type.kind)?;
        if let Some((mut sequence, _)) = new.sequence {
            if let Body::Sequence(body) = &mut sequence.body {
                body.owner = Some((oid, old.columns.len()));
            }
            self.put(sequence, None)?;
        }
        let mut values: Vec<Expr> = old
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| Expr::Column(at, column.data_type))
            .collect();
        values.push(self.column_default(&new.column)?);
        if let Origin::Generated(value) = &new.column.origin {
            self.refuse_mutable(value, (&table, &old.columns), &Mutable::Generated)?;
        }
        table_body(&mut object)?.push_column(new.column);
        self.rewrite(&old, object, values)?;
        self.add_written(oid, written)
    }

    /// The value of a new column for the rows that are there.
    fn column_default(&self, column: &Column) -> Result<Expr> {
        self.binding(|binder| {
            if column.default.is_some() {
                binder.read_new();
            }
            binder.default_of(column)
        })
    }

    /// Fails if partitions are by a column that is to go, or to have another type.
    pub(super) fn refuse_partition_key(
        &self,
        old: &TableBody,
        at: usize,
        (name, table): (&str, &str),
        verb: &str,
    ) -> Result<()> {
        if !self.is_partition_key(old, at, table)? {
            return Ok(());
        }
        let message = format!(
            "cannot {verb} column \"{name}\" because it is part of the partition key of relation \"{table}\""
        );
        Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
    }

    /// Whether the partitions of a table are by a column.
    pub(super) fn is_partition_key(
        &self,
        body: &TableBody,
        at: usize,
        table: &str,
    ) -> Result<bool> {
        for key in body.lineage.scheme.iter().flat_map(|scheme| &scheme.keys) {
            let read = self.check_expression(key, table, &body.columns, None)?;
            if read.contains(&at) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Fails if a column of another table has rows of this one as its values: they are kept as they
    /// were, and have their columns by place.
    pub(super) fn refuse_kept_rows(&self, oid: Oid, table: &str) -> Result<()> {
        let catalog = self.catalog();
        let tables = catalog.objects().filter_map(|object| match &object.body {
            Body::Table(body) => Some((object, body)),
            _ => None,
        });
        for (object, body) in tables {
            let mut columns = body.columns.iter();
            if let Some(column) = columns.find(|one| catalog.has_rows_of(one.data_type.kind, oid)) {
                let (other, column) = (&object.name, &column.name);
                let message = format!(
                    "cannot alter table \"{table}\" because column \"{other}.{column}\" uses its row type"
                );
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
        }
        Ok(())
    }

    /// Fails if a column of a table would have rows of the table in it.
    fn refuse_own_rows(&self, (oid, table): (Oid, &str), kind: Kind) -> Result<()> {
        if !self.catalog().has_rows_of(kind, oid) {
            return Ok(());
        }
        let message = format!("composite type {table} cannot be made a member of itself");
        Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
    }

    /// Makes a generated column an ordinary one, which keeps its values.
    fn drop_expression(&mut self, mut object: Object, at: usize, is_strict: bool) -> Result<()> {
        let table = object.name.clone();
        let column = &mut table_body(&mut object)?.columns[at];
        if matches!(column.origin, Origin::Generated(_)) {
            column.origin = Origin::Given;
            return self.put(object, None);
        }
        let name = &column.name;
        let message =
            format!("column \"{name}\" of relation \"{table}\" is not a stored generated column");
        if is_strict {
            let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
            return Err(SqlError::new(state, message));
        }
        self.environment.host.notice(format!("{message}, skipping"));
        Ok(())
    }

    fn alter_column(&mut self, oid: Oid, name: &str, change: &AlterColumnOperation) -> Result<()> {
        let mut object = self.altered(oid)?;
        let table = object.name.clone();
        let body = table_body(&mut object)?;
        let at = body.column(name).ok_or_else(|| no_column(name, &table))?;
        let data_type = body.columns[at].data_type;
        match change {
            AlterColumnOperation::SetDefault {
                value: sqlparser::ast::Expr::Identifier(word),
            } if mark_of(word).is_some() => {
                let mark = mark_of(word).unwrap_or_default();
                if let Some(rest) = mark.strip_prefix(DROP_EXPRESSION) {
                    return self.drop_expression(object, at, rest.is_empty());
                }
                return self.change_identity(oid, at, &identity_change(mark)?);
            }
            AlterColumnOperation::AddGenerated {
                generated_as,
                sequence_options,
            } => {
                let options = sequence_options.as_deref().unwrap_or_default();
                return self.add_identity(oid, at, generated_as.as_ref(), options);
            }
            AlterColumnOperation::SetDefault { value } => {
                refuse_origin(&body.columns[at], &table, change)?;
                let text = self.kept_text(value, DEFAULT)?;
                self.check_text(&text, (&table, &[]), Some((data_type, name)), false)?;
                let is_null = self.is_null_default(value, &body.columns[at])?;
                table_body(&mut object)?.columns[at].default = (!is_null).then_some(text);
            }
            AlterColumnOperation::DropDefault => {
                refuse_origin(&body.columns[at], &table, change)?;
                body.columns[at].default = None;
            }
            AlterColumnOperation::DropNotNull => {
                refuse_origin(&body.columns[at], &table, change)?;
                if body.primary().is_some_and(|key| key.contains(&at)) {
                    let message = format!("column \"{name}\" is in a primary key");
                    return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
                }
                body.columns[at].not_null = false;
            }
            AlterColumnOperation::SetNotNull => {
                body.columns[at].not_null = true;
                let is_null = Expr::IsNull(Box::new(Expr::Column(at, data_type)), false);
                if self.has_row(oid, is_null)? {
                    return Err(self.contains_nulls(&object, name));
                }
            }
            AlterColumnOperation::SetDataType {
                data_type, using, ..
            } => {
                let target = self.new_type(data_type)?;
                self.refuse_partition_key(body, at, (name, &table), "alter")?;
                self.refuse_generated_readers(body, at, &table)?;
                self.refuse_readers_of_column(oid, at, name)?;
                return self.change_type(object, at, target, using.as_ref());
            }
            other @ AlterColumnOperation::GenericOptions { .. } => {
                let instead = "See `docs/sql.md` for the changes of columns that there are.";
                return Err(SqlError::unsupported(
                    format!("ALTER COLUMN {other}"),
                    instead,
                ));
            }
        }
        self.put(object, None)
    }

    /// The type that a column is to have. Serial ones are only for new columns.
    fn new_type(&self, name: &DataType) -> Result<TypeName> {
        let target = type_named(&self.environment.names, name)?;
        if target.is_serial {
            let name = name.to_string().to_lowercase();
            let message = format!("type \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        Ok(target)
    }

    /// The error of a column that is to be NOT NULL, and is not.
    fn contains_nulls(&self, table: &Object, column: &str) -> SqlError {
        let relation = &table.name;
        let message =
            format!("column \"{column}\" of relation \"{relation}\" contains null values");
        let error = SqlError::new(SqlState::NOT_NULL_VIOLATION, message);
        self.named_of(table, error, |names| {
            names.column = Some(column.to_owned());
        })
    }

    /// Refuses another type of a column that a generated column reads.
    fn refuse_generated_readers(&self, body: &TableBody, at: usize, table: &str) -> Result<()> {
        let readers = self.generated_readers(body, at, table)?;
        let Some(reader) = readers.first() else {
            return Ok(());
        };
        let message = "cannot alter type of a column used by a generated column";
        let read = &body.columns[at].name;
        let detail = format!("Column \"{read}\" is used by generated column \"{reader}\".");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail))
    }

    /// The generated columns of a table that read a column.
    pub(super) fn generated_readers(
        &self,
        body: &TableBody,
        at: usize,
        table: &str,
    ) -> Result<Vec<String>> {
        let mut readers = Vec::new();
        for reader in &body.columns {
            if let Origin::Generated(value) = &reader.origin
                && self
                    .check_expression(value, table, &body.columns, None)?
                    .contains(&at)
            {
                readers.push(reader.name.clone());
            }
        }
        Ok(readers)
    }

    fn change_type(
        &mut self,
        mut object: Object,
        at: usize,
        target: TypeName,
        using: Option<&sqlparser::ast::Expr>,
    ) -> Result<()> {
        let table = object.name.clone();
        let old = table_body(&mut object)?.clone();
        if let (Origin::Generated(_), Some(_)) = (&old.columns[at].origin, using) {
            let message = "cannot specify USING when altering type of generated column";
            let detail = format!("Column \"{}\" is a generated column.", old.columns[at].name);
            return Err(SqlError::new(SqlState("42611"), message).detail(detail));
        }
        let TypeName {
            data_type, domain, ..
        } = target;
        self.refuse_own_rows((object.oid, &table), data_type.kind)?;
        if old.columns[at].data_type.kind != data_type.kind {
            self.refuse_kept_rows(object.oid, &table)?;
        }
        if old.indexes.iter().any(|index| index.columns.contains(&at)) {
            super::index::check_ordered(data_type.kind)?;
        }
        if using.is_some_and(|tree| has_subquery(&stored_text(tree))) {
            let message = "cannot use subquery in transform expression";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let columns = old
            .columns
            .iter()
            .map(|column| (column.name.clone(), column.data_type));
        let scope = row_scope(&table, columns.clone())?;
        let of_default = row_scope(&table, columns)?;
        let before = (at, &old.columns[at]);
        let value =
            self.binding(|binder| binder.converted_column(scope, before, data_type, using))?;
        let before = &old.columns[at];
        let expression =
            self.binding(|binder| binder.converted_expression(of_default, before, data_type))?;
        self.retype_identity(before, data_type)?;
        let values = old
            .columns
            .iter()
            .enumerate()
            .map(|(place, column)| match place == at {
                true => value.clone(),
                false => Expr::Column(place, column.data_type),
            });
        let values = values.collect();
        let column = &mut table_body(&mut object)?.columns[at];
        (column.data_type, column.domain) = (data_type, domain);
        match (&mut column.origin, expression) {
            (Origin::Generated(value), Some(expression)) => *value = expression,
            (_, expression) => column.default = expression,
        }
        self.refuse_mutable_readers(&object, at)?;
        self.retype_hidden(&mut object)?;
        self.rewrite(&old, object, values)
    }

    /// Gives a table another table below, of the rows that are there.
    pub(crate) fn write_anew(&mut self, oid: Oid) -> Result<()> {
        let mut object = self.altered(oid)?;
        let old = table_body(&mut object)?.clone();
        self.rewrite_rows(&old, object)
    }

    /// As [`Session::rewrite`], with the values that the rows have.
    pub(super) fn rewrite_rows(&mut self, old: &TableBody, object: Object) -> Result<()> {
        let values = old.columns.iter().enumerate();
        let values = values.map(|(at, column)| Expr::Column(at, column.data_type));
        self.rewrite(old, object, values.collect())
    }

    /// Gives a table another table below, of the rows that are there: `values` over each old row.
    pub(super) fn rewrite(
        &mut self,
        old: &TableBody,
        mut object: Object,
        values: Vec<Expr>,
    ) -> Result<()> {
        self.lock_alone(object.oid)?;
        let scan = self.scan_of(object.oid)?;
        self.transaction
            .loose
            .push(Loose::Table(old.physical.clone()));
        let body = table_body(&mut object)?;
        for index in &mut body.indexes {
            // A key that was a secondary index may be the primary key now, and the other way round.
            let is_primary = index.is_unique && !body.key.is_empty() && body.key == index.columns;
            let belongs = body.constraints.iter().any(|constraint| {
                constraint.name == index.name && matches!(constraint.rule, Rule::Primary { .. })
            });
            index.physical = (!(is_primary && belongs)).then(|| index.name.clone());
        }
        let handle = self.make_below(&mut object)?;
        let oid = object.oid;
        self.put(object, Some(handle))?;
        let rows = Project {
            input: scan,
            expressions: values,
            has_sets: false,
        };
        // The rows must keep all rules now, whatever the transaction puts off.
        let deferred = self.environment.host.deferred.clone();
        self.environment.host.deferred.choose(None, false);
        let filled = self.with_newest(|session| session.fill_nodes(oid, rows.into()));
        self.environment.host.deferred = deferred;
        filled.map(drop)
    }
}

pub(super) fn table_body(object: &mut Object) -> Result<&mut TableBody> {
    match &mut object.body {
        Body::Table(body) => Ok(body),
        _ => {
            let message = format!("\"{}\" is not a table", object.name);
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
    }
}

pub(super) fn no_column(name: &str, table: &str) -> SqlError {
    let message = format!("column \"{name}\" of relation \"{table}\" does not exist");
    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
}

/// Fails if a column has its values from elsewhere, and so has no default, or is never NULL.
fn refuse_origin(column: &Column, table: &str, change: &AlterColumnOperation) -> Result<()> {
    let (kind, end) = match &column.origin {
        Origin::Identity { .. } => ("an identity column", "DROP IDENTITY"),
        Origin::Generated(_) if !matches!(change, AlterColumnOperation::DropNotNull) => {
            ("a generated column", "DROP EXPRESSION")
        }
        _ => return Ok(()),
    };
    let message = format!(
        "column \"{}\" of relation \"{table}\" is {kind}",
        column.name
    );
    let error = SqlError::new(SqlState::SYNTAX_ERROR, message);
    Err(match change {
        AlterColumnOperation::DropDefault => error.hint(format!(
            "Use ALTER TABLE ... ALTER COLUMN ... {end} instead."
        )),
        _ => error,
    })
}
