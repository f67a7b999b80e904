//! `INSERT`, with its conflicts.
//!
//! Each column of the table gets an expression over the rows of the input: a column of them, or
//! its default. Defaults in `VALUES` are bound where they stand.

use super::scope::{Clause, Scope};
use super::table::BoundTable;
use super::target::{AssignTarget, is_default};
use super::view::Verb;
use super::{Binder, Changed, all_columns, ident_text, object_name};
use crate::catalog::{Body, Column, Origin, Privilege};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Change, Conflict, Expr, Insert, Modify, Node, Target, UniqueKey, Values};
use crate::types::{Datum, Kind};
use sqlparser::ast::{
    self, ConflictTarget, InsertOverriding, OnConflict, OnConflictAction, OnInsert, SetExpr,
    TableObject,
};
use std::sync::Arc;

impl Binder<'_> {
    pub(super) fn insert(&mut self, insert: &ast::Insert) -> Result<Changed> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported(
                "INSERT into this",
                "Insert into a table.",
            ));
        };
        let (schema, name) = object_name(name)?;
        let change = (Verb::Insert, Privilege::Insert.bit());
        let mut table = self.changed((schema.as_deref(), &name), change)?;
        self.check_conflict(&table, insert)?;
        let places = self.insert_columns(&table, insert)?;
        let (input, given) = self.insert_rows(&table, &places, insert)?;
        table.given = (places.iter().zip(&given).map(|(target, _)| target.at))
            .chain(self.assigned_on_conflict(&table, insert))
            .collect();
        let target = self.target_below((&table, &table))?;
        let values = self.insert_values(&table, &places, &given, insert.overriding.as_ref())?;
        let alias = insert
            .table_alias
            .as_ref()
            .map(|alias| ident_text(&alias.alias));
        let alias = alias.unwrap_or_else(|| name.clone());
        let conflict = match &insert.on {
            None => None,
            Some(OnInsert::OnConflict(conflict)) => {
                Some(self.conflict((&table, &table), &target, &alias, conflict)?)
            }
            Some(_) => {
                let instead = "Use ON CONFLICT ... DO UPDATE.";
                return Err(SqlError::unsupported("ON DUPLICATE KEY UPDATE", instead));
            }
        };
        let on_conflict = match &insert.on {
            Some(OnInsert::OnConflict(conflict)) => Some((conflict, alias.as_str())),
            _ => None,
        };
        let router = self.router(&table, on_conflict)?;
        let mut scope = Scope::default();
        self.add_member(&mut scope, (&table, &table), &alias)?;
        if let Some(last) = scope.tables.last_mut().filter(|_| table.view.is_none()) {
            let (next, xid) = (scope.width, Kind::Xid.plain());
            match (&router, &conflict) {
                (Some(_), _) => {
                    last.table_oid = Some(Expr::Column(next, Kind::Oid.plain()));
                    // Its partitions have keys of their own.
                    last.row_place = None;
                }
                (None, Some(Conflict::Update { .. })) => {
                    last.changed_by = Some(Expr::Column(next, xid));
                }
                (None, _) => last.changed_by = Some(Expr::Constant(Datum::Oid(0), xid)),
            }
        }
        let (returning, columns) = self.returning(insert.returning.as_deref(), scope)?;
        self.check_reads(&table, &table, returning.iter().flatten())?;
        let change = Change::Insert(Insert {
            values,
            conflict,
            router,
        });
        let modify = Modify {
            table: target,
            input,
            change,
            returning,
        };
        Ok((modify.into(), columns))
    }

    /// Fails unless the rights are there that the remedy for conflicts needs.
    fn check_conflict(&self, table: &BoundTable, insert: &ast::Insert) -> Result<()> {
        let Some(OnInsert::OnConflict(conflict)) = &insert.on else {
            return Ok(());
        };
        if matches!(conflict.action, OnConflictAction::DoUpdate(_)) {
            self.check_access(table.named(), Privilege::Update.bit())?;
        }
        // It tells which keys there are.
        match conflict.conflict_target {
            Some(_) => self.check_access(table.named(), Privilege::Select.bit()),
            None => Ok(()),
        }
    }

    /// The columns that `DO UPDATE` assigns to.
    fn assigned_on_conflict(&self, table: &BoundTable, insert: &ast::Insert) -> Vec<usize> {
        match &insert.on {
            Some(OnInsert::OnConflict(OnConflict {
                action: OnConflictAction::DoUpdate(update),
                ..
            })) => self.assigned_places(table, &update.assignments),
            _ => Vec::new(),
        }
    }

    /// The insertion of all columns of rows into a table. Rules that rows of the table may break
    /// are left out: the rows may be its own.
    pub fn insert_all(&mut self, oid: u32, input: Node) -> Result<Node> {
        let mut table = self.target_by_oid(oid)?;
        let object = self.names.catalog.object(oid);
        if let Some(Body::Table(body)) = object.map(|object| &object.body)
            && !body.unproven.is_empty()
        {
            let is_proven = |name: &str| {
                let mut constraints = body.constraints.iter();
                let own = constraints.find(|constraint| constraint.name == name);
                own.is_none_or(|own| !body.unproven.contains(&own.oid))
            };
            let target = Arc::make_mut(&mut table);
            target.checks.retain(|(name, _)| is_proven(name));
            target
                .parents
                .retain(|reference| !body.unproven.contains(&reference.oid));
        }
        let (visible, hidden) = table.source.types.split_at(table.visible);
        let mut values = all_columns(visible.iter().copied());
        values.extend(hidden.iter().copied().map(Expr::null));
        let change = Change::Insert(Insert {
            values,
            conflict: None,
            router: None,
        });
        Ok(Modify {
            table,
            input,
            change,
            returning: None,
        }
        .into())
    }

    /// Positions of the columns that the statement gives values for.
    fn insert_columns(
        &self,
        table: &BoundTable,
        insert: &ast::Insert,
    ) -> Result<Vec<AssignTarget>> {
        let body = table.body();
        if insert.columns.is_empty() {
            let Some(view) = &table.view else {
                return Ok((0..body.columns.len()).map(AssignTarget::whole).collect());
            };
            // Columns that are expressions take no values; a statement without values gives none.
            let given = match insert.source.as_deref().map(|query| &*query.body) {
                Some(SetExpr::Values(values)) => {
                    values.rows.first().map_or(0, |row| row.content.len())
                }
                Some(_) => usize::MAX,
                None => 0,
            };
            let columns = view.output().into_iter().take(given);
            let places = columns.map(|column| {
                let place = table.place_of(&column.name)?;
                let gone = || SqlError::internal("a column of a view's table");
                place.map(AssignTarget::whole).ok_or_else(gone)
            });
            return places.collect();
        }
        let mut places: Vec<AssignTarget> = Vec::with_capacity(insert.columns.len());
        for name in &insert.columns {
            let target = self.assign_target(table, name)?;
            let is_whole = |one: &AssignTarget| one.subscripts.is_empty();
            let mut known = places.iter().filter(|known| known.at == target.at);
            if known.any(|known| is_whole(known) || is_whole(&target)) {
                let column = &body.columns[target.at].name;
                let message = format!("column \"{column}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            places.push(target);
        }
        Ok(places)
    }

    /// The rows that the statement gives, and for each of their columns whether some row has a
    /// value for it that is no default.
    fn insert_rows(
        &mut self,
        table: &BoundTable,
        places: &[AssignTarget],
        insert: &ast::Insert,
    ) -> Result<(Node, Vec<bool>)> {
        let Some(query) = &insert.source else {
            let node = Values {
                rows: vec![Vec::new()],
                width: 0,
            };
            return Ok((node.into(), Vec::new()));
        };
        let is_plain = query.with.is_none()
            && query.order_by.is_none()
            && query.limit_clause.is_none()
            && query.fetch.is_none();
        if let (true, SetExpr::Values(values)) = (is_plain, &*query.body) {
            let width = values.rows.first().map_or(0, |row| row.content.len());
            check_width(width, places, insert)?;
            return self.value_rows(table, places, values);
        }
        let bound = {
            let was = std::mem::replace(&mut self.keeps_unknown, true);
            let bound = self.query(query);
            self.keeps_unknown = was;
            bound?
        };
        check_width(bound.columns.len(), places, insert)?;
        let columns = &table.body().columns;
        let kinds = bound.columns.iter().map(|column| column.data_type);
        let types = kinds.zip(places).map(|(found, target)| {
            if found.kind == Kind::Unknown {
                target.data_type(&columns[target.at])
            } else {
                Ok(found)
            }
        });
        let types = types.collect::<Result<Vec<_>>>()?;
        let bound = self.converted(bound, &types)?;
        let width = bound.columns.len();
        let values = all_columns(types);
        let mut assigned = Vec::with_capacity(width);
        for (value, target) in values.into_iter().zip(places) {
            assigned.push(self.assign_to(target, &columns[target.at], value)?);
        }
        let node = crate::plan::Project {
            input: bound.node,
            expressions: assigned,
            has_sets: false,
        };
        Ok((node.into(), vec![true; width]))
    }

    /// The rows of `VALUES`: each value is one of its column, `DEFAULT` stands for the default.
    fn value_rows(
        &mut self,
        table: &BoundTable,
        places: &[AssignTarget],
        values: &ast::Values,
    ) -> Result<(Node, Vec<bool>)> {
        let columns = table.body().columns.clone();
        let width = values.rows.first().map_or(0, |row| row.content.len());
        check_count(width, places.len())?;
        let mut given = vec![false; width];
        let mut rows = Vec::with_capacity(values.rows.len());
        let mut has_sets = false;
        // A single row is a list of values to select.
        let clause = match values.rows.len() {
            1 => Clause::ValuesRow,
            _ => Clause::Values,
        };
        for row in &values.rows {
            if row.content.len() != width {
                let message = "VALUES lists must all be the same length";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            let mut bound = Vec::with_capacity(width);
            for ((tree, target), given) in row.content.iter().zip(places).zip(&mut given) {
                let column = &columns[target.at];
                if is_default(tree) {
                    target.check_default()?;
                    bound.push(self.default_of(column)?);
                    continue;
                }
                *given = true;
                let (value, scope) = self.expression_in(Scope::default(), clause, tree);
                has_sets |= scope.has_sets;
                let span = sqlparser::ast::Spanned::span(tree);
                let value = value?;
                let value = self.assign_to(target, column, value);
                bound.push(value.map_err(|error| self.at(span, error))?);
            }
            rows.push(bound);
        }
        if has_sets {
            let row = Values {
                rows: vec![Vec::new()],
                width: 0,
            };
            let mut expressions = rows.pop().unwrap_or_default();
            let input = self.with_sets(row.into(), expressions.iter_mut().collect())?;
            let node = crate::plan::Project {
                input,
                expressions,
                has_sets: false,
            };
            return Ok((node.into(), given));
        }
        Ok((Values { rows, width }.into(), given))
    }

    /// The value of each column of the table over the rows that the statement gives.
    fn insert_values(
        &mut self,
        table: &BoundTable,
        places: &[AssignTarget],
        given: &[bool],
        overriding: Option<&InsertOverriding>,
    ) -> Result<Vec<Expr>> {
        let columns = table.body().columns.clone();
        let mut values = Vec::with_capacity(columns.len());
        for (at, column) in columns.iter().enumerate() {
            let place = (0..given.len()).find(|place| places[*place].at == at);
            let is_given = place.is_some_and(|place| given[place]);
            if is_given {
                refuse_generated(column, overriding)?;
            }
            let takes_default = matches!(overriding, Some(InsertOverriding::User))
                && matches!(column.origin, Origin::Identity { .. });
            values.push(match place {
                Some(place) if !takes_default && places[place].subscripts.is_empty() => {
                    Expr::Column(place, column.data_type)
                }
                Some(_) if !takes_default => self.inserted_parts(at, column, places)?,
                _ => self.default_of(column)?,
            });
        }
        let hidden = table.body().hidden.iter();
        values.extend(hidden.map(|hidden| Expr::null(hidden.data_type)));
        Ok(values)
    }

    /// The value of a column whose parts are given.
    fn inserted_parts(
        &mut self,
        at: usize,
        column: &Column,
        places: &[AssignTarget],
    ) -> Result<Expr> {
        let mut value = Expr::null(column.data_type);
        for (place, target) in places.iter().enumerate().filter(|(_, one)| one.at == at) {
            let part = Expr::Column(place, target.data_type(column)?);
            value = self.with_target(value, target, part)?;
        }
        Ok(value)
    }

    /// `ON CONFLICT`, for rows of a member of the table's family.
    pub(super) fn conflict(
        &mut self,
        (root, table): (&BoundTable, &BoundTable),
        target: &Target,
        alias: &str,
        conflict: &OnConflict,
    ) -> Result<Conflict> {
        let key = match &conflict.conflict_target {
            None => None,
            Some(named) => Some(conflict_key(self, table, target, named)?),
        };
        check_arbiters(key.as_ref(), target)?;
        let update = match &conflict.action {
            OnConflictAction::DoNothing => {
                return Ok(Conflict::Nothing(key.into_iter().collect()));
            }
            OnConflictAction::DoUpdate(update) => update,
        };
        let key = key.ok_or_else(|| {
            let message =
                "ON CONFLICT DO UPDATE requires inference specification or constraint name";
            SqlError::new(SqlState::SYNTAX_ERROR, message)
                .hint("For example, ON CONFLICT (column_name).")
        })?;
        let mut scope = Scope::default();
        self.add_member(&mut scope, (root, table), alias)?;
        let mut excluded = Scope::default();
        self.add_member(&mut excluded, (root, table), "excluded")?;
        scope.append(excluded)?;
        let (bound, _) = self.within(scope, |binder| {
            binder.scope().clause = Clause::Set;
            let set = binder.assignments(table, &update.assignments)?;
            binder.scope().clause = Clause::Where;
            let condition = update
                .selection
                .as_ref()
                .map(|tree| binder.condition(tree, "WHERE"));
            Ok((set, condition.transpose()?))
        });
        let (set, condition) = bound?;
        let view = root.view.as_deref();
        let shown = view.map(|view| view.shown(root, table)).transpose()?;
        Ok(Conflict::Update {
            key,
            shown: shown.unwrap_or_default(),
            set,
            condition,
        })
    }
}

/// The key that a conflict is about.
fn conflict_key(
    binder: &mut Binder<'_>,
    table: &BoundTable,
    target: &Target,
    named: &ConflictTarget,
) -> Result<UniqueKey> {
    match named {
        ConflictTarget::OnConstraint(name) => {
            let (_, name) = object_name(name)?;
            let found = target.keys.iter().find(|(key, _)| *key == name);
            found.map(|(_, key)| key.clone()).ok_or_else(|| {
                let table = &table.object.name;
                let message = format!("constraint \"{name}\" for table \"{table}\" does not exist");
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            })
        }
        ConflictTarget::Columns { columns, predicate } => {
            binder.inferred_key(table, target, (columns, predicate.as_ref()))
        }
    }
}

/// Fails if a key that a conflict may be about is not looked after by the table below.
fn check_arbiters(key: Option<&UniqueKey>, target: &Target) -> Result<()> {
    let all = target.keys.iter().map(|(_, key)| key);
    let all = all.filter(|_| key.is_none());
    for key in key.into_iter().chain(all) {
        if key.may_wait() {
            let message = "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters";
            let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
            return Err(SqlError::new(state, message));
        }
        if key.nulls_alike {
            let found = "ON CONFLICT about a key with NULLS NOT DISTINCT";
            return Err(SqlError::unsupported(found, "Name another key."));
        }
    }
    Ok(())
}

/// Values for a column that is always generated are refused.
pub(super) fn refuse_generated(
    column: &Column,
    overriding: Option<&InsertOverriding>,
) -> Result<()> {
    let detail = match &column.origin {
        Origin::Generated(_) => format!("Column \"{}\" is a generated column.", column.name),
        Origin::Identity { always: true, .. } if overriding.is_none() => {
            format!(
                "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
                column.name
            )
        }
        _ => return Ok(()),
    };
    let message = format!(
        "cannot insert a non-DEFAULT value into column \"{}\"",
        column.name
    );
    let error = SqlError::new(SqlState::GENERATED_ALWAYS, message).detail(detail);
    Err(match column.origin {
        Origin::Identity { .. } => error.hint("Use OVERRIDING SYSTEM VALUE to override."),
        _ => error,
    })
}

fn check_width(found: usize, places: &[AssignTarget], insert: &ast::Insert) -> Result<()> {
    if insert.columns.is_empty() && found <= places.len() {
        return Ok(());
    }
    check_count(found, places.len())?;
    if found < places.len() {
        let message = "INSERT has more target columns than expressions";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    Ok(())
}

fn check_count(found: usize, wanted: usize) -> Result<()> {
    if found > wanted {
        let message = "INSERT has more expressions than target columns";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    Ok(())
}
