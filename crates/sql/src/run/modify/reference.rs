//! Foreign keys: a row's references must exist, and rows that refer to one that goes follow.
//!
//! A reference takes a share lock of the key of the row it names, so that row stays until the
//! transaction ends. Rows that refer to a key that goes are looked for in the newest state: who
//! inserts one holds that lock, so it has committed, or has not begun.

use super::change::move_row;
use super::key;
use super::noted::{Late, Noted, Pending};
use super::route;
use super::row::{Goal, remove, store};
use super::rules::{key_text, named};
use crate::catalog::{Action, Body};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{KeyRows, Moves, Reference, ReferenceAccess, Target};
use crate::run::lock::{Newest, lock_moved_row, lock_row};
use crate::run::storage::{key_value, read_row};
use crate::run::{Row, Run};
use crate::state::{Side, Violation};
use crate::types::cast::{self, CastContext};
use crate::types::{Category, Datum, Kind, Type};
use indelible::{Direction, Prefix, RowLock};
use sql_bind::Binder;
use sql_parse::{LineIndex, NESTING_MAX};
use std::sync::Arc;

/// Looks at everything that was noted, and what follows from it.
pub(super) fn settle(table: &Target, pending: Pending, run: &mut Run<'_>) -> Result<()> {
    settle_at(table, pending, 0, run)
}

/// Looks at everything that the changes of a statement have noted. Deletions that follow from one
/// may take rows of another, so references are looked for last.
pub(crate) fn settle_late(mut late: Late, run: &mut Run<'_>) -> Result<()> {
    late.retain(|(_, pending)| !pending.is_empty());
    if let [_] = late.as_slice() {
        let mut late = late.into_iter();
        return late.try_for_each(|(table, pending)| settle(&table, pending, run));
    }
    for (table, pending) in &mut late {
        let children = std::mem::take(&mut pending.children);
        let children = Pending {
            children,
            ..Pending::default()
        };
        settle(table, children, run)?;
    }
    for (table, mut pending) in late {
        let moment = run.connection.leave_moment()?;
        if !run.environment.host.keeps_references(table.source.oid) {
            pending.parents.clear();
        }
        for (at, row) in pending.parents {
            require_again(&table, &table.parents[at], &row, run)?;
        }
        run.connection.return_to(moment);
        key::settle(&table, pending.keys, run)?;
    }
    Ok(())
}

fn settle_at(table: &Target, pending: Pending, depth: usize, run: &mut Run<'_>) -> Result<()> {
    if pending.is_empty() {
        return Ok(());
    }
    if depth > NESTING_MAX {
        return Err(sql_parse::too_deep());
    }
    if !run.environment.host.keeps_references(table.source.oid) {
        return key::settle(table, pending.keys, run);
    }
    // Reads see the newest committed rows, and the statement's own changes.
    let moment = run.connection.leave_moment()?;
    for (at, before, after) in pending.children {
        let reference = &table.children[at];
        follow(table, reference, (&before, after.as_ref()), depth, run)?;
    }
    for (at, row) in pending.parents {
        require(table, &table.parents[at], &row, run)?;
    }
    run.connection.return_to(moment);
    key::settle(table, pending.keys, run)
}

/// Keeps a violation for later if the check of the reference is put off.
fn put_off(
    table: &Target,
    reference: &Reference,
    (row, side): (&[Datum], Side),
    run: &mut Run<'_>,
) -> Result<bool> {
    let host = &mut run.environment.host;
    if !host.deferred.has(reference.oid, reference.deferral) {
        return Ok(false);
    }
    let violation = Violation {
        table: table.source.oid,
        constraint: reference.oid,
        row: row.to_vec(),
        side,
    };
    let bytes_max = host.variables.modes().work_mem;
    host.deferred.keep(violation, bytes_max)?;
    Ok(true)
}

/// Looks again at rows that have violated a foreign key, or a unique one.
pub(crate) fn look_again(violations: &[Arc<Violation>], run: &mut Run<'_>) -> Result<()> {
    let moment = run.connection.leave_moment()?;
    let mut known: Option<Arc<Target>> = None;
    for violation in violations {
        run.check()?;
        let table = match known {
            Some(table) if table.source.oid == violation.table => table,
            _ => target_of(violation.table, run)?,
        };
        let is_it = |reference: &&Reference| reference.oid == violation.constraint;
        match &violation.side {
            Side::Child => {
                if let Some(reference) = table.parents.iter().find(is_it) {
                    require_again(&table, reference, &violation.row, run)?;
                }
            }
            Side::Parent(after) => {
                if let Some(reference) = table.children.iter().find(is_it) {
                    let change = (&violation.row, after.as_ref());
                    follow(&table, reference, change, 0, run)?;
                }
            }
            Side::Key => {
                let mut keys = table.keys.iter();
                let at = keys.position(|(_, key)| key.constraint == violation.constraint);
                if let Some(at) = at {
                    key::settle(&table, vec![(at, violation.row.clone())], run)?;
                }
            }
        }
        known = Some(table);
    }
    run.connection.return_to(moment);
    Ok(())
}

/// As [`require`], of a row that may have gone or changed since.
fn require_again(
    table: &Target,
    reference: &Reference,
    row: &Row,
    run: &mut Run<'_>,
) -> Result<()> {
    let lock = (RowLock::KeyShare, run.environment.wait());
    match lock_row(&table.source, row, lock, run)? {
        Newest::Row(newest) if has_same(&reference.columns, &newest, row) => {
            require(table, reference, &newest, run)
        }
        _ => Ok(()),
    }
}

/// Whether two rows of a table are alike in some columns.
fn has_same(columns: &[usize], one: &[Datum], other: &[Datum]) -> bool {
    columns.iter().all(|&at| one[at].is_alike(&other[at]))
}

/// The values of some columns.
fn values_of(row: &[Datum], columns: &[usize]) -> Row {
    columns.iter().map(|&at| row[at].clone()).collect()
}

/// Fails if a reference of a row names no row.
fn require(table: &Target, reference: &Reference, row: &[Datum], run: &mut Run<'_>) -> Result<()> {
    let values = values_of(row, &reference.columns);
    let nulls = values.iter().filter(|value| value.is_null()).count();
    if nulls > 0 && (!reference.is_full || nulls == values.len()) {
        return Ok(());
    }
    let violation = |detail: String| {
        let message = format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
            table.source.name, reference.constraint
        );
        let error = SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message).detail(detail);
        named(table, error).named(|names| names.constraint = Some(reference.constraint.clone()))
    };
    if nulls > 0 {
        if put_off(table, reference, (row, Side::Child), run)? {
            return Ok(());
        }
        let detail = "MATCH FULL does not allow mixing of null and nonnull key values.";
        return Err(violation(detail.to_owned()));
    }
    let lock = (RowLock::KeyShare, run.environment.wait());
    for other in reference
        .others
        .iter()
        .filter(|other| other.may_have(&values))
    {
        for parent in rows_with(other, &values, run)? {
            let locked = match other.partition.is_empty() {
                true => lock_row(&other.source, &parent, lock, run)?,
                false => lock_moved_row(&other.source, &parent, lock, run)?,
            };
            if let Newest::Row(parent) = locked
                && has_values(&parent, &other.columns, &values, run)
            {
                return Ok(());
            }
        }
    }
    if put_off(table, reference, (row, Side::Child), run)? {
        return Ok(());
    }
    let key = key_text(table, &reference.columns, row, &run.environment.context())?;
    Err(violation(format!(
        "Key {key} is not present in table \"{}\".",
        reference.other_name
    )))
}

/// A value as a column of another type has it, if one of its values is equal to it.
fn converted(value: &Datum, to: Type, run: &Run<'_>) -> Option<Datum> {
    let (from, own) = (value.kind(), to.kind);
    let have_one_form = |kinds: &[Kind]| kinds.contains(&from) && kinds.contains(&own);
    let is_convertible = |kind: Kind| {
        use Kind::{Date, Float4, Float8, Int2, Int4, Int8, Numeric, Timestamp, Timestamptz};
        let numbers = matches!(kind, Int2 | Int4 | Int8 | Float4 | Float8 | Numeric);
        let moments = matches!(kind, Date | Timestamp | Timestamptz);
        numbers || moments || kind.category() == Category::String
    };
    if from == own
        || !is_convertible(from)
        || !is_convertible(own)
        || have_one_form(&[Kind::Int2, Kind::Int4, Kind::Int8])
        || have_one_form(&[Kind::Float4, Kind::Float8])
        || are_texts(from, own) && !is_padded(from, own)
    {
        return Some(value.clone());
    }
    let context = run.environment.context();
    let cast = |value: Datum, from, to: Kind| {
        let to = to.plain();
        cast::cast(value, from, to, CastContext::Explicit, &context).ok()
    };
    let there = cast(value.clone(), from, own)?;
    // Numbers are compared as floats with floats, and texts without the blanks at their end.
    if own == Kind::Float8 || is_padded(from, own) {
        return Some(there);
    }
    let back = cast(there.clone(), own, from)?;
    (back == *value).then_some(there)
}

/// A value as a column of a child follows with it.
fn assigned(value: &Datum, to: Type, run: &Run<'_>) -> Result<Datum> {
    let (context, how) = (run.environment.context(), CastContext::Assignment);
    match converted(value, to, run) {
        Some(value) => Ok(value),
        None => cast::cast(value.clone(), value.kind(), to, how, &context),
    }
}

/// Whether columns of a row have values that are equal to others, of other types even.
fn has_values(row: &[Datum], columns: &[usize], values: &[Datum], run: &Run<'_>) -> bool {
    let as_other = |one: &Datum, other: &Datum| {
        converted(one, other.kind().plain(), run).as_ref() == Some(other)
    };
    let mut pairs = columns.iter().zip(values);
    pairs.all(|(&at, value)| {
        let own = &row[at];
        own == value || as_other(own, value) || as_other(value, own)
    })
}

fn are_texts(one: Kind, other: Kind) -> bool {
    [one, other]
        .iter()
        .all(|kind| kind.category() == Category::String)
}

/// Whether one of two types of texts leaves the blanks at the end out of comparisons.
fn is_padded(one: Kind, other: Kind) -> bool {
    are_texts(one, other) && (one == Kind::Bpchar) != (other == Kind::Bpchar)
}

/// Rows of a table with these values.
fn rows_with(table: &KeyRows, values: &[Datum], run: &mut Run<'_>) -> Result<Vec<Row>> {
    let (source, columns) = (&table.source, &table.columns);
    let pairs = columns.iter().zip(values);
    let there = pairs.map(|(&at, value)| converted(value, source.column_type(at), run));
    let Some(there) = there.collect::<Option<Vec<_>>>() else {
        return Ok(Vec::new());
    };
    let key = columns.iter().zip(&there);
    let key = key.map(|(&at, value)| key_value(value, source.column_type(at), run));
    let Some(key) = key.collect::<Option<Vec<_>>>() else {
        return Ok(Vec::new());
    };
    // Several keys are equal to such a value.
    let mut pairs = columns.iter().zip(values);
    let has_several = pairs.any(|(&at, value)| {
        let own = source.column_type(at).kind;
        own != Kind::Bpchar && is_padded(value.kind(), own)
    });
    let mut scan = match &table.access {
        _ if has_several => run.connection.scan(&source.table, .., Direction::Forward)?,
        ReferenceAccess::Primary => {
            run.connection
                .scan(&source.table, Prefix(key), Direction::Forward)?
        }
        ReferenceAccess::Index(name) => {
            let index = source.table.index(name)?;
            run.connection
                .scan_index(&index, Prefix(key), Direction::Forward)?
        }
        ReferenceAccess::All => run.connection.scan(&source.table, .., Direction::Forward)?,
    };
    let (mut found, mut batch) = (Vec::new(), Vec::new());
    while scan.next_batch(run.connection, &mut batch)? {
        for stored in &batch {
            let mut row = Row::with_capacity(source.width());
            read_row(source, stored, None, &run.environment.context(), &mut row)?;
            let is_it = has_values(&row, columns, values, run);
            if is_it {
                found.push(row);
            }
        }
    }
    Ok(found)
}

/// The newest rows of a table with these values, whether the transaction sees them or not: they
/// must not be left behind.
fn newest_with(table: &KeyRows, values: &[Datum], run: &mut Run<'_>) -> Result<Vec<Row>> {
    if !run.state.is_of_snapshot {
        return rows_with(table, values, run);
    }
    let moment = run.connection.leave_snapshot()?;
    let rows = rows_with(table, values, run);
    run.connection.return_to(moment);
    rows
}

/// Lets the rows that refer to a key that has gone follow, as their constraint says.
fn follow(
    table: &Target,
    reference: &Reference,
    (before, after): (&Row, Option<&Row>),
    depth: usize,
    run: &mut Run<'_>,
) -> Result<()> {
    let old = values_of(before, &reference.columns);
    if old.iter().any(Datum::is_null) {
        return Ok(());
    }
    let [other] = reference.others.as_slice() else {
        return Err(SqlError::internal(
            "a reference is one of a table with rows",
        ));
    };
    let rows = newest_with(other, &old, run)?;
    if rows.is_empty() {
        return Ok(());
    }
    let action = if after.is_some() {
        reference.on_update
    } else {
        reference.on_delete
    };
    if matches!(action, Action::Nothing | Action::Restrict) {
        // Another row may have the key by now.
        if action == Action::Nothing
            && (is_taken(table, reference, &old, run)?
                || put_off(
                    table,
                    reference,
                    (before, Side::Parent(after.cloned())),
                    run,
                )?)
        {
            return Ok(());
        }
        return Err(still_referenced(table, reference, before, run)?);
    }
    let set = match after {
        None if !reference.set_on_delete.is_empty() => &reference.set_on_delete,
        _ => &other.columns,
    };
    let child = target_of(reference.other, run)?;
    let lock = (RowLock::Update, run.environment.wait());
    let mut noted = Noted::default();
    for row in rows {
        let Newest::Row(row) = lock_row(&child.source, &row, lock, run)? else {
            continue;
        };
        if !has_values(&row, &other.columns, &old, run) {
            continue;
        }
        let mut changed = row.clone();
        match (action, after) {
            (Action::Cascade, None) => {
                remove(&child, &row, Goal::Delete, &mut noted.pending, run)?;
                continue;
            }
            (Action::Cascade, Some(after)) => {
                for (&to, &from) in other.columns.iter().zip(&reference.columns) {
                    changed[to] = assigned(&after[from], child.source.column_type(to), run)?;
                }
            }
            (Action::SetDefault, _) => {
                for &at in set {
                    changed[at] = default_of(&child, at, run)?;
                }
            }
            _ => set.iter().for_each(|at| changed[*at] = Datum::Null),
        }
        store_or_move(&child, reference, (row, changed), &mut noted, run)?;
    }
    settle_at(&child, noted.pending, depth + 1, run)?;
    let mut routed = noted.routed.into_iter();
    routed.try_for_each(|(table, pending)| settle_at(&table, pending, depth + 1, run))
}

/// Stores a row of a child that has followed its parent; one that its partition does not take any
/// more goes to another of the table that has the foreign key.
fn store_or_move(
    child: &Target,
    reference: &Reference,
    (row, changed): (Row, Row),
    noted: &mut Noted,
    run: &mut Run<'_>,
) -> Result<()> {
    if !route::takes(child, &changed, run)?
        && let Some(moves) = moves_of(reference, run)?
    {
        return move_row(child, &moves, (row, changed), noted, run).map(drop);
    }
    let columns = reference.others.iter().flat_map(|other| &other.columns);
    store(
        child,
        columns.copied(),
        (row, changed),
        &mut noted.pending,
        run,
    )
    .map(drop)
}

/// Whether a row of the table has the values of a key.
fn is_taken(
    table: &Target,
    reference: &Reference,
    old: &[Datum],
    run: &mut Run<'_>,
) -> Result<bool> {
    let own = (table.source.oid, reference.columns.clone());
    let (oid, columns) = reference.above.as_ref().unwrap_or(&own);
    let tables = bound(run, |binder| binder.key_rows(*oid, columns))?;
    for table in tables.iter().filter(|table| table.may_have(old)) {
        if !rows_with(table, old, run)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn still_referenced(
    table: &Target,
    reference: &Reference,
    row: &[Datum],
    run: &Run<'_>,
) -> Result<SqlError> {
    let key = key_text(table, &reference.columns, row, &run.environment.context())?;
    let message = format!(
        "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
        table.source.name, reference.constraint, reference.other_name
    );
    let detail = format!(
        "Key {key} is still referenced from table \"{}\".",
        reference.other_name
    );
    let error = SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message).detail(detail);
    Ok(error.named(|names| {
        names.schema = Some(table.schema.clone());
        names.table = Some(reference.other_name.clone());
        names.constraint = Some(reference.constraint.clone());
    }))
}

/// The rules of a table that follows another one.
fn target_of(oid: u32, run: &Run<'_>) -> Result<Arc<Target>> {
    bound(run, |binder| binder.target_by_oid(oid))
}

/// The way of rows of a child to other partitions of the table that has the foreign key.
fn moves_of(reference: &Reference, run: &Run<'_>) -> Result<Option<Moves>> {
    let catalog = &run.environment.names.catalog;
    let above = catalog.object(reference.other).and_then(|child| {
        let Body::Table(body) = &child.body else {
            return None;
        };
        let mut constraints = body.constraints.iter();
        let own = constraints.find(|own| own.oid == reference.oid)?;
        Some(catalog.written_for(child, own).oid)
    });
    match above.filter(|above| *above != reference.other) {
        Some(above) => bound(run, |binder| binder.moves_below(above, reference.other)),
        None => Ok(None),
    }
}

/// Calls `body` with a binder that belongs to no statement.
fn bound<R>(run: &Run<'_>, body: impl FnOnce(&mut Binder<'_>) -> R) -> R {
    let places = LineIndex::default();
    let environment = &run.environment;
    let database = environment.host.sql.database();
    let mut binder = Binder::new(&environment.names, database, environment.context(), &places);
    body(&mut binder)
}

/// The default of a column.
fn default_of(table: &Target, at: usize, run: &mut Run<'_>) -> Result<Datum> {
    let expression = bound(run, |binder| binder.default_by_oid(table.source.oid, at))?;
    crate::run::evaluate(&expression, &[], run)
}
