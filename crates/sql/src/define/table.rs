//! `CREATE TABLE`, also of a query or like another table.
//!
//! Rows of a table without a primary key have a hidden number. The table below has the name of the
//! table where that is free, so the typed interface finds it.

use super::column::{
    CHECK, Written, WrittenCheck, WrittenKey, add_constraint, deferral_of, refuse_system_name,
};
use super::constraint::{refuse_taken, relation_exists};
use super::immutable::Mutable;
use super::reference::check_reference;
use crate::catalog::{
    Action, Body, Column, Constraint, Deferral, Foreign, Index, Lineage, Names, Object, Oid,
    Origin, Rule, TableBody,
};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use crate::state::Loose;
use crate::types::{Kind, storage};
use indelible::{
    Column as StoredColumn, DataType, IndexDef, IndexId, KeyRule, Owner, TableDef, TableId,
    TableLock,
};
use sql_parse::{LIKE, MARK, Parsed, Path, SET_COLUMNS, ident_text, mark_of, object_name};
use sqlparser::ast::{
    ConstraintCharacteristics, ConstraintReferenceMatchKind, CreateTable, ForeignKeyConstraint,
    ObjectName, ObjectNamePart, ReferentialAction,
};
use std::sync::Arc;

/// The column below for hidden numbers of rows.
const ROW_NUMBER: &str = "#row";

/// Creates a table.
pub(super) fn create(
    session: &mut Session,
    parsed: &Parsed,
    create: &CreateTable,
) -> Result<Completion> {
    session.begin_definition()?;
    let target = create
        .temporary
        .then(|| session.temporary_schema())
        .transpose()?;
    let Some((namespace, name)) =
        session.new_name_in(target, &create.name, create.if_not_exists)?
    else {
        let is_filled = create.query.is_some();
        return Ok(Completion::new(if is_filled {
            "CREATE TABLE AS"
        } else {
            "CREATE TABLE"
        }));
    };
    if create.on_commit.is_some() && !session.is_temporary(namespace) {
        let message = "ON COMMIT can only be used on temporary tables";
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    }
    if let Some(query) = &create.query {
        let names: Vec<_> = create.columns.iter().map(|one| one.name.clone()).collect();
        let with_data = create.with_data.as_ref().is_none_or(|with| with.data);
        let table = (namespace, name.as_str());
        let completion = session.create_as(parsed, table, (&names, with_data), query)?;
        if let Some(oid) = session
            .catalog()
            .find_oid(Names::Relations, namespace, &name)
        {
            session.note_on_commit(oid, create.on_commit.as_ref());
        }
        return Ok(completion);
    }
    let oid = session.sql.next_oid(1);
    let parents = session.parents_of(create, namespace)?;
    let (columns, written) = session.written_columns(create, (oid, namespace, &name), &parents)?;
    if create.partition_by.is_some() {
        written.refuse_alone(&name)?;
    }
    let scheme = match &create.partition_by {
        Some(tree) => Some(session.scheme(tree, &name, &columns)?),
        None => None,
    };
    let bound = match (parents.first(), &create.for_values) {
        (Some(parent), Some(bound)) => {
            Some(session.partition_bound(parent, (oid, &name), bound)?)
        }
        _ => None,
    };
    session.make_table(oid, (namespace, &name), columns, &written)?;
    let lineage = Lineage {
        parents: parents.iter().map(|parent| parent.oid).collect(),
        scheme,
        bound,
    };
    session.set_lineage(oid, lineage)?;
    super::index::create_forms(session, oid, &written.forms)?;
    session.note_on_commit(oid, create.on_commit.as_ref());
    Ok(Completion::new("CREATE TABLE"))
}

impl Session {
    /// The columns of a new table with its sequences, and the constraints that are written for it.
    fn written_columns(
        &mut self,
        create: &CreateTable,
        (oid, namespace, name): (Oid, Oid, &str),
        parents: &[Arc<Object>],
    ) -> Result<(Vec<Column>, Written)> {
        let mut written = Written::default();
        let is_partition = create.partition_of.is_some();
        let mut columns = self.inherited(parents, is_partition, &mut written)?;
        written.has_copies = !parents.is_empty();
        let inherited = columns.len();
        let mut sequences = Vec::new();
        for definition in &create.columns {
            if is_partition {
                self.refine_column((namespace, name), definition, &mut columns, &mut written)?;
                continue;
            }
            if let Some(options) =
                mark_of(&definition.name).and_then(|mark| mark.strip_prefix(LIKE))
            {
                let source = definition.data_type.to_string();
                let like = self.like((namespace, name), &source, options, &mut written)?;
                for new in like {
                    sequences.extend(new.sequence.map(|(object, _)| (object, columns.len())));
                    columns.push(new.column);
                }
                continue;
            }
            let new = self.new_column((namespace, name), definition, &mut written)?;
            let known = columns.iter().position(|own| own.name == new.column.name);
            if let Some(at) = known {
                if at < inherited {
                    self.merge_column(&mut columns[at], new.column)?;
                    written.local.push(at);
                    continue;
                }
                let message = format!("column \"{}\" specified more than once", new.column.name);
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            sequences.extend(new.sequence.map(|(object, _)| (object, columns.len())));
            columns.push(new.column);
        }
        for constraint in &create.constraints {
            add_constraint(&mut written, constraint)?;
        }
        written.merge_checks(name)?;
        written.merge_keys();
        for (mut object, column) in sequences {
            if let Body::Sequence(sequence) = &mut object.body {
                sequence.owner = Some((oid, column));
            }
            self.put(object, None)?;
        }
        Ok((columns, written))
    }

    /// Makes a table of columns and the constraints that are written for it.
    pub(super) fn make_table(
        &mut self,
        oid: Oid,
        (namespace, name): (Oid, &str),
        mut columns: Vec<Column>,
        written: &Written,
    ) -> Result<()> {
        for column in &columns {
            refuse_system_name(&column.name)?;
        }
        let mut body = TableBody::default();
        let mut names = Vec::new();
        self.add_keys(
            written,
            (namespace, name),
            &mut columns,
            &mut body,
            &mut names,
        )?;
        for check in &written.checks {
            let is_copy = written.has_copies;
            let constraint = self.check_constraint(check, (name, &columns), is_copy, &mut names)?;
            body.alone.extend(check.is_alone.then_some(constraint.oid));
            body.constraints.push(constraint);
        }
        for column in &columns {
            let wanted = Some((column.data_type, column.name.as_str()));
            if let Some(default) = &column.default {
                self.check_text(default, (name, &[]), wanted, written.has_copies)?;
            }
            if let Origin::Generated(value) = &column.origin {
                self.check_text(value, (name, &columns), wanted, written.has_copies)?;
                if !written.has_copies {
                    self.refuse_mutable(value, (name, &columns), &Mutable::Generated)?;
                }
            }
        }
        body.columns = columns;
        body.local.clone_from(&written.local);
        let mut object = Object {
            oid,
            namespace,
            name: name.to_owned(),
            comment: None,
            body: Body::Table(body),
        };
        for foreign in &written.foreign {
            let constraint = self.foreign_key(&object, foreign, &names)?;
            names.push(constraint.name.clone());
            if let Body::Table(body) = &mut object.body {
                body.constraints.push(constraint);
            }
        }
        let handle = self.make_below(&mut object)?;
        self.put(object, Some(handle))
    }

    /// A check that is written.
    pub(super) fn check_constraint(
        &mut self,
        check: &WrittenCheck,
        (table, columns): (&str, &[Column]),
        has_copies: bool,
        taken: &mut Vec<String>,
    ) -> Result<Constraint> {
        let text = self.kept_text(&check.condition, CHECK)?;
        let own = check.name.clone();
        let wanted = Some((Kind::Bool.plain(), "CHECK"));
        let read = self.check_text(&text, (table, columns), wanted, has_copies)?;
        // One that reads a single column has the column's name, wherever it is written.
        let single = match read.as_slice() {
            [at] => columns.get(*at).map(|column| column.name.as_str()),
            _ => None,
        };
        let parts = [Some(table), single, Some("check")];
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        refuse_taken(own.as_deref(), table, taken)?;
        let name = own.unwrap_or_else(|| self.free_constraint(&parts, taken));
        taken.push(name.clone());
        Ok(Constraint {
            oid: self.sql.next_oid(1),
            name,
            rule: Rule::Check { condition: text },
        })
    }

    /// The primary key and the unique keys.
    pub(super) fn add_keys(
        &mut self,
        written: &Written,
        (namespace, name): (Oid, &str),
        columns: &mut [Column],
        body: &mut TableBody,
        names: &mut Vec<String>,
    ) -> Result<()> {
        if written.primary.len() > 1 {
            let message = format!("multiple primary keys for table \"{name}\" are not allowed");
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        let primary = written.primary.iter().map(|key| (key, true));
        let unique = written.unique.iter().map(|key| (key, false));
        for (key, is_primary) in primary.chain(unique) {
            self.add_key((key, is_primary), (namespace, name), columns, body, names)?;
        }
        for (key, is_unique) in &written.indexes {
            let mut parts = vec![name];
            parts.extend(key.iter().map(String::as_str));
            parts.push("idx");
            let own = self.free_name(namespace, &parts, names);
            names.push(own.clone());
            body.indexes.push(Index {
                oid: self.sql.next_oid(1),
                physical: Some(own.clone()),
                name: own,
                columns: places_of(columns, key)?,
                is_unique: *is_unique,
                options: vec![(false, false); key.len()],
            });
        }
        Ok(())
    }

    fn add_key(
        &mut self,
        (key, is_primary): (&WrittenKey, bool),
        (namespace, table): (Oid, &str),
        columns: &mut [Column],
        body: &mut TableBody,
        names: &mut Vec<String>,
    ) -> Result<()> {
        let deferral = key.deferral;
        let places = places_of(columns, &key.columns)?;
        if let Some(name) = &key.name {
            let is_index = body.indexes.iter().any(|index| index.name == *name);
            if is_index || name == table || self.is_taken(namespace, name) {
                return Err(relation_exists(name));
            }
            refuse_taken(Some(name), table, names)?;
        }
        let name = key.name.clone().unwrap_or_else(|| {
            let mut parts = vec![table];
            if is_primary {
                parts.push("pkey");
            } else {
                let columns = key.columns.iter().chain(&key.included);
                parts.extend(columns.map(String::as_str));
                parts.push("key");
            }
            self.free_name(namespace, &parts, names)
        });
        for &at in &places {
            super::index::check_ordered(columns[at].data_type.kind)?;
        }
        names.push(name.clone());
        // A key that rows may have several times for a while is no key of the table below.
        let is_below = is_primary && deferral == Deferral::Never;
        if is_below {
            body.key.clone_from(&places);
        }
        if is_primary {
            for &at in &places {
                columns[at].not_null = true;
            }
        }
        let oid = self.sql.next_oid(1);
        if !key.included.is_empty() {
            let included = places_of(columns, &key.included)?;
            body.included.push((oid, included));
        }
        body.alike.extend(key.nulls_alike.then_some(oid));
        body.indexes.push(Index {
            oid,
            name: name.clone(),
            physical: (!is_below).then(|| name.clone()),
            columns: places.clone(),
            is_unique: true,
            options: vec![(false, false); places.len()],
        });
        let columns = places;
        body.constraints.push(Constraint {
            oid: self.sql.next_oid(1),
            name,
            rule: if is_primary {
                Rule::Primary { columns, deferral }
            } else {
                Rule::Unique { columns, deferral }
            },
        });
        Ok(())
    }

    /// A name for a constraint that makes no relation.
    pub(super) fn free_constraint(&self, parts: &[&str], taken: &[String]) -> String {
        let free = super::change::names_of(parts).find(|name| !taken.contains(name));
        free.unwrap_or_default()
    }

    /// A foreign key as it is written.
    pub(super) fn foreign_key(
        &mut self,
        object: &Object,
        foreign: &ForeignKeyConstraint,
        taken: &[String],
    ) -> Result<Constraint> {
        let Body::Table(body) = &object.body else {
            return Err(SqlError::internal("a table has the foreign key"));
        };
        if foreign.match_kind == Some(ConstraintReferenceMatchKind::Partial) {
            let message = "MATCH PARTIAL not yet implemented";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let names: Vec<String> = foreign.columns.iter().map(ident_text).collect();
        let columns = referring_places(&body.columns, &names)?;
        let mut table = foreign.foreign_table.clone();
        let set_on_delete = set_columns(&mut table, (body, &columns))?;
        let (schema, parent) = object_name(&table)?;
        let found = self.referred_table(object, (schema.as_deref(), &parent))?;
        let Body::Table(parent_body) = &found.body else {
            return Err(SqlError::internal("a referenced relation is a table"));
        };
        let referred: Vec<String> = foreign.referred_columns.iter().map(ident_text).collect();
        let parent_columns = if referred.is_empty() {
            let primary = parent_body.primary().ok_or_else(|| {
                let message = format!("there is no primary key for referenced table \"{parent}\"");
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            })?;
            primary.to_vec()
        } else {
            referring_places(&parent_body.columns, &referred)?
        };
        let mut parts = vec![object.name.as_str()];
        parts.extend(names.iter().map(String::as_str));
        parts.push("fkey");
        let own = foreign.name.as_ref().map(ident_text);
        refuse_taken(own.as_deref(), &object.name, taken)?;
        let name = own.unwrap_or_else(|| self.free_constraint(&parts, taken));
        let referred = (parent.as_str(), parent_body, parent_columns.as_slice());
        refuse_generated(foreign, (body, &columns))?;
        check_reference(&name, (body, &columns), referred)?;
        Ok(Constraint {
            oid: self.sql.next_oid(1),
            name,
            rule: Rule::Foreign(Foreign {
                columns,
                parent: found.oid,
                parent_columns,
                on_update: action_of(foreign.on_update),
                on_delete: action_of(foreign.on_delete),
                set_on_delete,
                is_full: matches!(foreign.match_kind, Some(ConstraintReferenceMatchKind::Full)),
                deferral: deferral_of(foreign.characteristics.as_ref())?,
            }),
        })
    }

    /// Gives the checks of a foreign key another moment.
    pub(super) fn alter_constraint(
        &mut self,
        (path, if_exists): (&Path, bool),
        name: &str,
        deferral: ConstraintCharacteristics,
    ) -> Result<Completion> {
        self.begin_definition()?;
        let completion = Completion::new("ALTER TABLE");
        let mut object = match self.relation_at(path) {
            Ok(object) => Object::clone(&object),
            Err(error) if if_exists => {
                let notice = format!("{}, skipping", error.message);
                self.environment.host.notice(notice);
                return Ok(completion);
            }
            Err(error) => return Err(error),
        };
        let constraints = match &mut object.body {
            Body::Table(body) => body.constraints.as_mut_slice(),
            _ => &mut [],
        };
        let mut constraints = constraints.iter_mut();
        let found = constraints.find(|constraint| constraint.name == name);
        let catalog = self.catalog();
        if let Some(own) = &found
            && let Some((above, one)) = catalog.constraint_above(object.oid, own)
        {
            let table = &path.name;
            let message = format!("cannot alter constraint \"{name}\" on relation \"{table}\"");
            let detail = format!(
                "Constraint \"{name}\" is derived from constraint \"{}\" of relation \"{}\".",
                one.name, above.name
            );
            let hint = "You may alter the constraint it derives from instead.";
            let state = SqlState::WRONG_OBJECT_TYPE;
            return Err(SqlError::new(state, message).detail(detail).hint(hint));
        }
        let (state, problem) = match found.map(|constraint| (constraint.oid, &mut constraint.rule))
        {
            Some((own, Rule::Foreign(foreign))) => {
                let deferral = deferral_of(Some(&deferral))?;
                foreign.deferral = deferral;
                let below = catalog.constraints_below(object.oid, own);
                let below: Vec<(Oid, Oid)> = below
                    .into_iter()
                    .map(|(heir, own)| (heir, own.oid))
                    .collect();
                self.put(object, None)?;
                for (heir, own) in below {
                    self.set_deferral(heir, own, deferral)?;
                }
                return Ok(completion);
            }
            Some(_) => (
                SqlState::WRONG_OBJECT_TYPE,
                "is not a foreign key constraint",
            ),
            None => (SqlState::UNDEFINED_OBJECT, "does not exist"),
        };
        let table = &path.name;
        let message = format!("constraint \"{name}\" of relation \"{table}\" {problem}");
        Err(SqlError::new(state, message))
    }

    fn set_deferral(&mut self, table: Oid, constraint: Oid, deferral: Deferral) -> Result<()> {
        let mut object = self.altered(table)?;
        if let Body::Table(body) = &mut object.body {
            for own in &mut body.constraints {
                if let Rule::Foreign(foreign) = &mut own.rule
                    && own.oid == constraint
                {
                    foreign.deferral = deferral;
                }
            }
        }
        self.put(object, None)
    }

    /// Makes the table below of a table, under its name if that is free.
    pub(super) fn make_below(&mut self, object: &mut Object) -> Result<indelible::Table> {
        let oid = object.oid;
        let Body::Table(body) = &mut object.body else {
            return Err(SqlError::internal("a table has a table below"));
        };
        let free = self.sql.database().table(&object.name).is_err();
        let is_public = object.namespace == crate::catalog::PUBLIC;
        body.physical = if free && is_public {
            object.name.clone()
        } else {
            // Numbers of names below are none of objects, so they come again after an opening.
            loop {
                let name = format!("#{oid}.{}", self.sql.next_oid(1));
                if self.sql.database().table(&name).is_err() {
                    break name;
                }
            }
        };
        body.keep_forms();
        let mut definition = definition_below(body)?;
        if !body.key.is_empty() && definition.validate().is_err() {
            // Each index of the table below has its key too, and a number of the row is shorter.
            body.key.clear();
            for index in &mut body.indexes {
                index.physical = Some(index.name.clone());
            }
            definition = definition_below(body)?;
        }
        self.transaction
            .loose
            .push(Loose::Table(body.physical.clone()));
        let created = self.sql.database().create_table_from(definition);
        let created = created.map_err(|error| of_definition(error.into(), &object.name))?;
        self.environment.host.new_tables.push(created.id());
        self.environment.host.own_tables.push(created.id());
        // Nobody else knows it, and its rows need no locks of their own.
        let wait = self.environment.wait();
        self.connection
            .lock_table(&created, TableLock::AccessExclusive, wait)?;
        Ok(created)
    }
}

/// Errors of a definition below, with the name of the table above.
fn of_definition(error: SqlError, name: &str) -> SqlError {
    error.named(|names| names.table = Some(name.to_owned()))
}

/// The definition of the table below.
pub(super) fn definition_below(body: &TableBody) -> Result<TableDef> {
    let mut columns = Vec::with_capacity(body.columns.len() + 1);
    for column in &body.columns {
        let stored =
            StoredColumn::new(column.name.clone(), storage::column_type(column.data_type)?);
        let is_key = body
            .key
            .iter()
            .any(|&at| body.columns[at].name == column.name);
        columns.push(if column.not_null && is_key {
            stored
        } else {
            stored.nullable()
        });
    }
    for (number, hidden) in (1..).zip(&body.hidden) {
        let stored = storage::column_type(hidden.data_type)?;
        columns.push(StoredColumn::new(format!("#{number}"), stored).nullable());
    }
    let mut key = body.key.clone();
    if key.is_empty() {
        key.push(columns.len());
        columns.push(StoredColumn::new(ROW_NUMBER, DataType::Int64));
    }
    let mut definition = TableDef::new(TableId(0), body.physical.clone(), columns, key);
    definition.keys = KeyRule::Truncated { hash_key: 0 };
    definition.owner = Owner::Sql;
    let indexes = body
        .indexes
        .iter()
        .filter_map(|index| Some((index, index.physical.clone()?)));
    for (id, (index, name)) in (1..).zip(indexes) {
        definition.indexes.push(IndexDef {
            id: IndexId(id),
            name,
            columns: index.columns.clone(),
            unique: index.is_unique && body.deferral(index) == Deferral::Never,
        });
    }
    Ok(definition)
}

/// Positions of columns by their names.
pub(super) fn places_of(columns: &[Column], names: &[String]) -> Result<Vec<usize>> {
    let mut places: Vec<usize> = Vec::with_capacity(names.len());
    for name in names {
        let at = columns.iter().position(|column| column.name == *name);
        let at = at.ok_or_else(|| {
            let message = format!("column \"{name}\" named in key does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        if places.contains(&at) {
            let message = format!("column \"{name}\" appears twice in a key");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        places.push(at);
    }
    Ok(places)
}

/// As [`places_of`], for the columns of a foreign key.
fn referring_places(columns: &[Column], names: &[String]) -> Result<Vec<usize>> {
    let known = |name: &&String| columns.iter().any(|column| column.name == **name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        let message =
            format!("column \"{name}\" referenced in foreign key constraint does not exist");
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
    }
    places_of(columns, names)
}

/// The columns that a deletion sets, which a mark before the name of the parent has.
fn set_columns(
    parent: &mut ObjectName,
    (body, columns): (&TableBody, &[usize]),
) -> Result<Vec<usize>> {
    let mark = match parent.0.first() {
        Some(ObjectNamePart::Identifier(first)) => mark_of(first),
        _ => None,
    };
    let Some(mark) = mark.and_then(|mark| mark.strip_prefix(SET_COLUMNS)) else {
        return Ok(Vec::new());
    };
    let words: Vec<String> = mark.split(MARK).map(str::to_owned).collect();
    let mut words = words.into_iter();
    let (event, action) = (words.next(), words.next().unwrap_or_default());
    parent.0.remove(0);
    if event.as_deref() != Some("DELETE") {
        let message =
            format!("a column list with SET {action} is only supported for ON DELETE actions");
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let set = referring_places(&body.columns, &words.collect::<Vec<_>>())?;
    if let Some(at) = set.iter().find(|at| !columns.contains(at)) {
        let name = &body.columns[*at].name;
        let message = format!(
            "column \"{name}\" referenced in ON DELETE SET action must be part of foreign key"
        );
        return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
    }
    Ok(set)
}

/// Refuses a foreign key that would give a generated column another value.
fn refuse_generated(
    foreign: &ForeignKeyConstraint,
    (body, columns): (&TableBody, &[usize]),
) -> Result<()> {
    let is_generated = |at: &usize| matches!(body.columns[*at].origin, Origin::Generated(_));
    if !columns.iter().any(is_generated) {
        return Ok(());
    }
    let sets = |action| matches!(action_of(action), Action::SetNull | Action::SetDefault);
    let is_cascade = matches!(action_of(foreign.on_update), Action::Cascade);
    let event = match () {
        () if is_cascade || sets(foreign.on_update) => "UPDATE",
        () if sets(foreign.on_delete) => "DELETE",
        () => return Ok(()),
    };
    let message =
        format!("invalid ON {event} action for foreign key constraint containing generated column");
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}

fn action_of(action: Option<ReferentialAction>) -> Action {
    match action {
        None | Some(ReferentialAction::NoAction) => Action::Nothing,
        Some(ReferentialAction::Restrict) => Action::Restrict,
        Some(ReferentialAction::Cascade) => Action::Cascade,
        Some(ReferentialAction::SetNull) => Action::SetNull,
        Some(ReferentialAction::SetDefault) => Action::SetDefault,
    }
}
