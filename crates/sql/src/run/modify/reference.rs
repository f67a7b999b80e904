//! Foreign keys: a row's references must exist, and rows that refer to one that goes follow.
//!
//! A reference takes a share lock of the key of the row it names, so that row stays until the
//! transaction ends. Rows that refer to a key that goes are looked for in the newest state: who
//! inserts one holds that lock, so it has committed, or has not begun.

use super::change::move_row;
use super::key;
use super::key_rows::{Gone, Referring, assigned, has_values, other_of, rows_with, values_of};
use super::noted::{Late, Noted, Pending};
use super::route;
use super::row::{Goal, remove, store};
use super::rules::{key_text, named};
use crate::catalog::{Action, Body, Oid};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Moves, Reference, Target};
use crate::run::lock::{Newest, lock_moved_row, lock_row, written_anew};
use crate::run::{Row, Run};
use crate::state::{Side, Violation};
use crate::types::Datum;
use indelible::{RowLock, TableLock, Wait};
use sql_bind::Binder;
use sql_parse::LineIndex;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Looks at everything that was noted, and what follows from it.
pub(super) fn settle(table: &Arc<Target>, pending: Pending, run: &mut Run<'_>) -> Result<()> {
    settle_late(vec![(Arc::clone(table), pending)], run)
}

/// Looks at everything that the changes of a statement have noted.
///
/// Rows that follow are changed in rounds: all that refer to the rows of one round are the next
/// one, so a long chain of rows needs no stack. Deletions may take rows that refer to others, so
/// references are looked for last.
pub(crate) fn settle_late(mut late: Late, run: &mut Run<'_>) -> Result<()> {
    late.retain(|(_, pending)| !pending.is_empty());
    let mut may_have_gone = late.len() > 1;
    let mut targets = Targets::default();
    let mut checks = Late::new();
    let mut rounds = VecDeque::from(late);
    while let Some((table, mut pending)) = rounds.pop_front() {
        run.check()?;
        let gone = std::mem::take(&mut pending.children);
        if run.environment.host.keeps_references(table.source.oid) {
            let next = follow_all(&table, &gone, &mut targets, run)?;
            may_have_gone |= !next.is_empty();
            rounds.extend(next);
        } else {
            pending.parents.clear();
        }
        if !pending.is_empty() {
            checks.push((table, pending));
        }
    }
    for (table, pending) in checks {
        // Reads see the newest committed rows, and the statement's own changes.
        let moment = run.connection.leave_moment()?;
        for (at, row) in pending.parents {
            run.check()?;
            let reference = &table.parents[at];
            match may_have_gone {
                true => require_again(&table, reference, &row, run)?,
                false => require(&table, reference, &row, run)?,
            }
        }
        run.connection.return_to(moment);
        key::settle(&table, pending.keys, run)?;
    }
    Ok(())
}

/// The rules of tables whose rows have followed.
type Targets = HashMap<Oid, Arc<Target>>;

/// Lets all rows follow that refer to rows that have gone; returns what that has noted.
fn follow_all(
    table: &Target,
    gone: &[Gone],
    targets: &mut Targets,
    run: &mut Run<'_>,
) -> Result<Late> {
    if gone.is_empty() {
        return Ok(Late::new());
    }
    let moment = run.connection.leave_moment()?;
    let mut following = Following {
        table,
        referring: Referring::find(table, gone, run)?,
        targets,
        noted: BTreeMap::new(),
    };
    for gone in gone {
        run.check()?;
        following.follow(gone, run)?;
    }
    let Following { targets, noted, .. } = following;
    run.connection.return_to(moment);
    let mut late = Late::new();
    for (oid, noted) in noted {
        late.push((Arc::clone(&targets[&oid]), noted.pending));
        late.extend(noted.routed);
    }
    Ok(late)
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
    let is_alike = |one: &Arc<Violation>, other: &Arc<Violation>| {
        let is_parent = |violation: &Violation| matches!(violation.side, Side::Parent(_));
        one.table == other.table && is_parent(one) == is_parent(other)
    };
    for alike in violations.chunk_by(is_alike) {
        let table = target_of(alike[0].table, run)?;
        let mut gone = Vec::new();
        for violation in alike {
            run.check()?;
            let is_it = |reference: &Reference| reference.oid == violation.constraint;
            match &violation.side {
                Side::Child => {
                    if let Some(reference) = table.parents.iter().find(|parent| is_it(parent)) {
                        require_again(&table, reference, &violation.row, run)?;
                    }
                }
                Side::Parent(after) => {
                    let at = table.children.iter().position(is_it);
                    gone.extend(at.map(|at| (at, violation.row.clone(), after.clone())));
                }
                Side::Key => {
                    let mut keys = table.keys.iter();
                    let at = keys.position(|(_, key)| key.constraint == violation.constraint);
                    if let Some(at) = at {
                        key::settle(&table, vec![(at, violation.row.clone())], run)?;
                    }
                }
            }
        }
        let pending = Pending {
            children: gone,
            ..Pending::default()
        };
        settle(&table, pending, run)?;
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
    // A check that is put off does not wait.
    let deferred = &run.environment.host.deferred;
    let wait = match deferred.has(reference.oid, reference.deferral) {
        true => Wait::Never,
        false => run.environment.wait(),
    };
    if is_there(reference, &values, wait, run)?
        || put_off(table, reference, (row, Side::Child), run)?
    {
        return Ok(());
    }
    // Since the moment began, the statement may have waited for other rows.
    drop(run.connection.leave_moment()?);
    if is_there(reference, &values, wait, run)? {
        return Ok(());
    }
    let key = key_text(table, &reference.columns, row, run.environment)?;
    Err(violation(format!(
        "{key} is not present in table \"{}\".",
        reference.other_name
    )))
}

/// Whether a reference with these values names a row, which is locked then.
fn is_there(
    reference: &Reference,
    values: &[Datum],
    wait: Wait,
    run: &mut Run<'_>,
) -> Result<bool> {
    let lock = (RowLock::KeyShare, wait);
    for other in reference
        .others
        .iter()
        .filter(|other| other.may_have(values))
    {
        for parent in rows_with(other, values, run)? {
            let locked = match other.partition.is_empty() {
                true => lock_row(&other.source, &parent, lock, run)?,
                false => lock_moved_row(&other.source, &parent, lock, run)?,
            };
            if let Newest::Row(parent) = locked
                && has_values(&parent, &other.columns, values, run)
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The rows that follow those of a table that have gone.
struct Following<'f> {
    table: &'f Target,
    referring: Referring,
    targets: &'f mut Targets,
    /// By the tables whose rows have followed.
    noted: BTreeMap<Oid, Noted>,
}

impl Following<'_> {
    /// Lets the rows that refer to a key that has gone follow, as their constraint says.
    fn follow(&mut self, gone: &Gone, run: &mut Run<'_>) -> Result<()> {
        let (at, before, after) = gone;
        let reference = &self.table.children[*at];
        let old = values_of(before, &reference.columns);
        if old.iter().any(Datum::is_null) {
            return Ok(());
        }
        let rows = self.referring.take((*at, reference), &old, run)?;
        if rows.is_empty() {
            return Ok(());
        }
        let action = match after {
            Some(_) => reference.on_update,
            None => reference.on_delete,
        };
        if matches!(action, Action::Nothing | Action::Restrict) {
            return match self.is_left(reference, &old, &rows, run)? {
                true => refuse(self.table, reference, (&old, action, gone), run),
                false => Ok(()),
            };
        }
        let child = self.child(reference.other, run)?;
        let columns = &other_of(reference)?.columns;
        let goes = action == Action::Cascade && after.is_none();
        let strength = match goes || child.may_change_key(columns.iter().copied(), None) {
            true => RowLock::Update,
            false => RowLock::NoKeyUpdate,
        };
        let lock = (strength, run.environment.wait());
        let mut is_left = false;
        for row in rows {
            run.check()?;
            if let Newest::Row(row) = lock_row(&child.source, &row, lock, run)?
                && has_values(&row, columns, &old, run)
            {
                let way = (&*child, reference, action);
                let changed = self.change(way, row, after.as_ref(), run)?;
                // A default may be the key that has gone, which is no change of the row.
                is_left |= changed.is_some_and(|row| has_values(&row, columns, &old, run));
            }
        }
        match is_left {
            true => refuse(self.table, reference, (&old, Action::Nothing, gone), run),
            false => Ok(()),
        }
    }

    /// Whether rows that were found still refer to the key: some may have followed another one.
    fn is_left(
        &self,
        reference: &Reference,
        old: &[Datum],
        rows: &[Row],
        run: &mut Run<'_>,
    ) -> Result<bool> {
        if !self.noted.contains_key(&reference.other) {
            return Ok(true);
        }
        let other = other_of(reference)?;
        let lock = (RowLock::KeyShare, run.environment.wait());
        for row in rows {
            if let Newest::Row(row) = lock_row(&other.source, row, lock, run)?
                && has_values(&row, &other.columns, old, run)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The rules of a table whose rows follow.
    fn child(&mut self, oid: Oid, run: &mut Run<'_>) -> Result<Arc<Target>> {
        if let Some(known) = self.targets.get(&oid) {
            return Ok(Arc::clone(known));
        }
        let child = target_of(oid, run)?;
        self.targets.insert(oid, Arc::clone(&child));
        Ok(child)
    }

    /// Changes a row of a child as its parent has changed; returns it unless it is gone or in
    /// another partition.
    fn change(
        &mut self,
        (child, reference, action): (&Target, &Reference, Action),
        row: Row,
        after: Option<&Row>,
        run: &mut Run<'_>,
    ) -> Result<Option<Row>> {
        let columns = &other_of(reference)?.columns;
        let noted = self.noted.entry(reference.other).or_default();
        let mut changed = row.clone();
        let set = match after {
            None if !reference.set_on_delete.is_empty() => &reference.set_on_delete,
            _ => columns,
        };
        match (action, after) {
            (Action::Cascade, None) => {
                remove(child, &row, Goal::Delete, &mut noted.pending, run)?;
                return Ok(None);
            }
            (Action::Cascade, Some(after)) => {
                for (&to, &from) in columns.iter().zip(&reference.columns) {
                    changed[to] = assigned(&after[from], child.source.column_type(to), run)?;
                }
            }
            (Action::SetDefault, _) => {
                for &at in set {
                    changed[at] = default_of(child, at, run)?;
                }
            }
            _ => set.iter().for_each(|at| changed[*at] = Datum::Null),
        }
        let stored = store_or_move(child, reference, (row, changed), noted, run)?;
        match &stored {
            Some(stored) => {
                let references = &self.table.children;
                self.referring.note(references, reference.other, stored);
            }
            None => self.referring.forget(),
        }
        Ok(stored)
    }
}

/// Fails because of rows that refer to a key that has gone, unless it is there again or the check
/// is put off.
fn refuse(
    table: &Target,
    reference: &Reference,
    (old, action, gone): (&[Datum], Action, &Gone),
    run: &mut Run<'_>,
) -> Result<()> {
    let (_, before, after) = gone;
    // Another row may have the key by now.
    if action == Action::Nothing && is_taken(table, reference, old, run)? {
        return Ok(());
    }
    let side = Side::Parent(after.clone());
    if action == Action::Nothing && put_off(table, reference, (before, side), run)? {
        return Ok(());
    }
    Err(still_referenced(table, reference, before, run)?)
}

/// Stores a row of a child that has followed its parent, and returns it; one that its partition
/// does not take any more goes to another of the table that has the foreign key.
fn store_or_move(
    child: &Target,
    reference: &Reference,
    (row, changed): (Row, Row),
    noted: &mut Noted,
    run: &mut Run<'_>,
) -> Result<Option<Row>> {
    if !route::takes(child, &changed, run)?
        && let Some(moves) = moves_of(reference, run)?
    {
        move_row(child, &moves, (row, changed), noted, run)?;
        return Ok(None);
    }
    let columns = reference.others.iter().flat_map(|other| &other.columns);
    let pending = &mut noted.pending;
    store(child, columns.copied(), (row, changed), pending, run).map(Some)
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
    let key = key_text(table, &reference.columns, row, run.environment)?;
    let message = format!(
        "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
        table.source.name, reference.constraint, reference.other_name
    );
    let detail = format!(
        "{key} is still referenced from table \"{}\".",
        reference.other_name
    );
    let error = SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message).detail(detail);
    Ok(error.named(|names| {
        names.schema = Some(table.schema.clone());
        names.table = Some(reference.other_name.clone());
        names.constraint = Some(reference.constraint.clone());
    }))
}

/// The rules of a table that follows another one, which is locked for changes. Those that follow
/// at some distance may have been replaced since the statement began.
fn target_of(oid: u32, run: &mut Run<'_>) -> Result<Arc<Target>> {
    let target = bound(run, |binder| binder.target_by_oid(oid))?;
    let wait = run.environment.wait();
    let table = &target.source.table;
    let locked = run
        .connection
        .lock_table(table, TableLock::IntentExclusive, wait);
    match locked.map_err(SqlError::from) {
        Err(error) if error.state == SqlState::UNDEFINED_TABLE => Err(written_anew()),
        locked => locked.map(|()| target),
    }
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
