//! Rows by the values of a foreign key, whose columns may have another type in the other table.
//!
//! Rows that refer to several keys are looked for at once: without an index that is one pass over
//! their table, not one for each key.

use crate::catalog::Oid;
use crate::error::{Result, SqlError};
use crate::plan::{KeyRows, Reference, ReferenceAccess, Target};
use crate::run::storage::{key_value, read_row};
use crate::run::{Row, Run};
use crate::types::cast::{self, CastContext};
use crate::types::{Category, Datum, Kind, Type, storage};
use indelible::{Direction, Prefix, Scan};
use std::collections::HashMap;

/// The values of some columns.
pub(super) fn values_of(row: &[Datum], columns: &[usize]) -> Row {
    columns.iter().map(|&at| row[at].clone()).collect()
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
pub(super) fn assigned(value: &Datum, to: Type, run: &Run<'_>) -> Result<Datum> {
    let (context, how) = (run.environment.context(), CastContext::Assignment);
    match converted(value, to, run) {
        Some(value) => Ok(value),
        None => cast::cast(value.clone(), value.kind(), to, how, &context),
    }
}

/// Whether columns of a row have values that are equal to others, of other types even.
pub(super) fn has_values(
    row: &[Datum],
    columns: &[usize],
    values: &[Datum],
    run: &Run<'_>,
) -> bool {
    let mut pairs = columns.iter().zip(values);
    pairs.all(|(&at, value)| is_equal(&row[at], value, run))
}

fn is_equal(own: &Datum, value: &Datum, run: &Run<'_>) -> bool {
    let as_other = |one: &Datum, other: &Datum| {
        converted(one, other.kind().plain(), run).as_ref() == Some(other)
    };
    own == value || as_other(own, value) || as_other(value, own)
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

/// Whether several values of a column are equal to one of another type.
fn has_several(own: Kind, other: Kind) -> bool {
    own != Kind::Bpchar && is_padded(other, own)
}

/// Values as the columns of a table have them; none if no row of it can have equal ones.
fn key_there(table: &KeyRows, values: &[Datum], run: &Run<'_>) -> Option<Row> {
    let pairs = table.columns.iter().zip(values);
    let there = pairs.map(|(&at, value)| converted(value, table.source.column_type(at), run));
    there.collect()
}

/// Rows of a table with these values.
pub(super) fn rows_with(table: &KeyRows, values: &[Datum], run: &mut Run<'_>) -> Result<Vec<Row>> {
    let Some(there) = key_there(table, values, run) else {
        return Ok(Vec::new());
    };
    let mut pairs = table.columns.iter().zip(values);
    if pairs.any(|(&at, value)| has_several(table.source.column_type(at).kind, value.kind())) {
        let mut found = Vec::new();
        let mut sought = Sought::Values(values, &mut found);
        let scan = (run.connection).scan(&table.source.table, .., Direction::Forward)?;
        read(table, scan, &mut sought, run)?;
        return Ok(found);
    }
    let mut found = RowsByKey::from([(there, Vec::new())]);
    fill(table, &mut found, run)?;
    Ok(found.into_values().flatten().collect())
}

/// Rows of a table by the values of its columns of a foreign key.
type RowsByKey = HashMap<Row, Vec<Row>>;

/// The rows that are looked for, and the place for them.
enum Sought<'s> {
    Keys(&'s mut RowsByKey),
    Values(&'s [Datum], &'s mut Vec<Row>),
}

impl Sought<'_> {
    /// The place for a row with a key; none if it is not looked for.
    fn place(&mut self, key: &[Datum], run: &Run<'_>) -> Option<&mut Vec<Row>> {
        match self {
            Self::Keys(rows) => rows.get_mut(key),
            Self::Values(values, rows) => {
                let mut pairs = key.iter().zip(*values);
                let is_it = pairs.all(|(own, value)| is_equal(own, value, run));
                is_it.then_some(rows)
            }
        }
    }
}

/// Finds the rows of a table for each of these keys, which are as its columns have them.
fn fill(table: &KeyRows, found: &mut RowsByKey, run: &mut Run<'_>) -> Result<()> {
    let source = &table.source;
    let index = match &table.access {
        ReferenceAccess::All => {
            let scan = (run.connection).scan(&source.table, .., Direction::Forward)?;
            return read(table, scan, &mut Sought::Keys(found), run);
        }
        ReferenceAccess::Primary => None,
        ReferenceAccess::Index(name) => Some(source.table.index(name)?),
    };
    let keys: Vec<Row> = found.keys().cloned().collect();
    for key in keys {
        run.check()?;
        let pairs = table.columns.iter().zip(&key);
        let key = pairs.map(|(&at, value)| key_value(value, source.column_type(at), run));
        let Some(key) = key.collect::<Option<Vec<_>>>() else {
            continue;
        };
        let connection = &mut *run.connection;
        let scan = match &index {
            None => connection.scan(&source.table, Prefix(key), Direction::Forward)?,
            Some(index) => connection.scan_index(index, Prefix(key), Direction::Forward)?,
        };
        read(table, scan, &mut Sought::Keys(found), run)?;
    }
    Ok(())
}

/// Puts the rows of a scan that are looked for in their places.
fn read(table: &KeyRows, mut scan: Scan, sought: &mut Sought<'_>, run: &mut Run<'_>) -> Result<()> {
    let source = &table.source;
    let (mut batch, mut key) = (Vec::new(), Row::new());
    while scan.next_batch(run.connection, &mut batch)? {
        run.check()?;
        let context = run.environment.context();
        for stored in &batch {
            key.clear();
            for &at in &table.columns {
                let value = stored.get(source.place_of(at));
                key.push(storage::load(value, source.column_type(at), &context)?);
            }
            if let Some(place) = sought.place(&key, run) {
                let mut row = Row::with_capacity(source.width());
                read_row(source, stored, None, &context, &mut row)?;
                place.push(row);
            }
        }
    }
    Ok(())
}

/// A row that has gone or has another key: the position of the reference to it, and the row
/// before and after.
pub(super) type Gone = (usize, Row, Option<Row>);

/// Rows that refer to keys of a table that have gone, found before the first of them follows.
pub(super) struct Referring {
    /// For each reference to the table; a key that is not in it is looked for by itself.
    known: Vec<RowsByKey>,
}

impl Referring {
    /// Finds the rows that refer to rows that have gone.
    pub(super) fn find(table: &Target, gone: &[Gone], run: &mut Run<'_>) -> Result<Self> {
        let mut known = vec![RowsByKey::new(); table.children.len()];
        for (at, before, _) in gone {
            let reference = &table.children[*at];
            let other = other_of(reference)?;
            let mut pairs = reference.columns.iter().zip(&other.columns);
            let kinds = |(&at, &there): (&usize, &usize)| {
                let own = other.source.column_type(there).kind;
                has_several(own, table.source.column_type(at).kind)
            };
            let values = values_of(before, &reference.columns);
            if !pairs.any(kinds)
                && !values.iter().any(Datum::is_null)
                && let Some(key) = key_there(other, &values, run)
            {
                known[*at].insert(key, Vec::new());
            }
        }
        for (reference, found) in table.children.iter().zip(&mut known) {
            if !found.is_empty() {
                newest(run, |run| fill(other_of(reference)?, found, run))?;
            }
        }
        Ok(Self { known })
    }

    /// The rows that refer by the reference at a position to a key that has gone.
    pub(super) fn take(
        &mut self,
        (at, reference): (usize, &Reference),
        values: &[Datum],
        run: &mut Run<'_>,
    ) -> Result<Vec<Row>> {
        let other = other_of(reference)?;
        let key = key_there(other, values, run);
        match key.and_then(|key| self.known[at].get_mut(&key)) {
            Some(rows) => Ok(std::mem::take(rows)),
            None => newest(run, |run| rows_with(other, values, run)),
        }
    }

    /// Takes notice of a row that has followed and may refer to another key that has gone.
    pub(super) fn note(&mut self, references: &[Reference], child: Oid, row: &Row) {
        for (reference, known) in references.iter().zip(&mut self.known) {
            let others = reference.others.iter();
            for other in others.filter(|other| other.source.oid == child) {
                if let Some(rows) = known.get_mut(&values_of(row, &other.columns)) {
                    rows.push(row.clone());
                }
            }
        }
    }

    /// Forgets all rows: they are looked for again, each key by itself.
    pub(super) fn forget(&mut self) {
        self.known.iter_mut().for_each(HashMap::clear);
    }
}

/// The table whose rows refer.
pub(super) fn other_of(reference: &Reference) -> Result<&KeyRows> {
    let [other] = reference.others.as_slice() else {
        return Err(SqlError::internal(
            "a reference is one of a table with rows",
        ));
    };
    Ok(other)
}

/// Looks for the newest rows of a table, whether the transaction sees them or not: they must not
/// be left behind.
fn newest<R>(run: &mut Run<'_>, look: impl FnOnce(&mut Run<'_>) -> Result<R>) -> Result<R> {
    if !run.state.is_of_snapshot {
        return look(run);
    }
    let moment = run.connection.leave_snapshot()?;
    let found = look(run);
    run.connection.return_to(moment);
    found
}
