//! Indexes and constraints.
//!
//! A condition is printed from its bound form, so `conbin` reads back as the same condition. The
//! conditions of a domain have no numbers of their own: theirs follow from the domain's.

use super::rows::{Maker, Rows, Sources, array, domain_check_oid, flag, small, text, vector};
use crate::catalog::{
    Action, Body, Catalog, Constraint, Deferral, Foreign, Index, Object, Oid, Rule, TableBody,
};
use crate::error::Result;
use crate::state::parts_of;
use crate::types::{Datum, Kind};
use sql_bind::system::{operator_class, storage_of};

pub(super) const MAKERS: &[Maker] = &[("pg_index", indexes), ("pg_constraint", constraints)];

/// Bits of `indoption`: the column descends, and its NULLs come first.
const DESCENDS: i16 = 1;
const NULLS_FIRST: i16 = 2;

fn indexes(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    from.each_table(|object, table| {
        for index in &table.indexes {
            let is_primary = table.constraints.iter().any(|constraint| {
                constraint.name == index.name && matches!(constraint.rule, Rule::Primary { .. })
            });
            let kinds = || index.columns.iter().filter_map(|at| key_kind(table, *at));
            let form = table.form(index.oid);
            let predicate = form.and_then(|form| form.predicate.as_ref());
            let predicate = predicate.map(|condition| from.definitions().check(object, condition));
            let options = index.options.iter().map(|(descends, nulls_first)| {
                let descends = if *descends { DESCENDS } else { 0 };
                let nulls_first = if *nulls_first { NULLS_FIRST } else { 0 };
                Datum::Int2(descends | nulls_first)
            });
            let collations = kinds().map(|kind| Datum::Oid(storage_of(kind).collation));
            let classes = kinds().map(|kind| Datum::Oid(operator_class(kind)));
            let included = table.included_of(index.oid);
            let numbers = key_numbers(table, index).chain(included.iter().map(|at| at + 1));
            let places = (1..).zip(key_numbers(table, index));
            let places = places.filter(|(_, number)| *number == 0);
            let definitions = from.definitions();
            let expressions = places.filter_map(|(place, _)| definitions.index(index.oid, place));
            let expressions: Vec<String> = expressions.collect();
            let expressions = match expressions.is_empty() {
                true => Datum::Null,
                false => text(expressions.join(", ")),
            };
            rows.push([
                ("indexrelid", Datum::Oid(index.oid)),
                ("indrelid", Datum::Oid(object.oid)),
                ("indnatts", small(index.columns.len() + included.len())),
                ("indnkeyatts", small(index.columns.len())),
                ("indisunique", flag(index.is_unique)),
                ("indisprimary", flag(is_primary)),
                (
                    "indnullsnotdistinct",
                    flag(table.alike.contains(&index.oid)),
                ),
                (
                    "indimmediate",
                    flag(table.deferral(index) == Deferral::Never),
                ),
                ("indkey", vector(Kind::Int2, numbers.map(small))),
                ("indexprs", expressions),
                ("indpred", predicate.map_or(Datum::Null, text)),
                ("indcollation", vector(Kind::Oid, collations)),
                ("indclass", vector(Kind::Oid, classes)),
                ("indoption", vector(Kind::Int2, options)),
            ]);
        }
        Ok(())
    })
}

/// The kind of a column of an index, which may be a hidden one.
fn key_kind(table: &TableBody, at: usize) -> Option<Kind> {
    let count = table.columns.len();
    match at.checked_sub(count) {
        None => Some(table.columns[at].data_type.kind),
        Some(at) => table.hidden.get(at).map(|hidden| hidden.data_type.kind),
    }
}

/// Numbers of the columns of an index from 1; 0 for an expression.
pub(super) fn key_numbers<'k>(
    table: &'k TableBody,
    index: &'k Index,
) -> impl Iterator<Item = usize> + 'k {
    let form = table.form(index.oid);
    index.columns.iter().enumerate().map(move |(number, at)| {
        let written = form.and_then(|form| form.keys.get(number));
        let named = written.and_then(|key| table.column(&parts_of(key).concat()));
        match written {
            None => at + 1,
            Some(_) => named.map_or(0, |at| at + 1),
        }
    })
}

fn constraints(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    from.each_table(|object, table| {
        for constraint in &table.constraints {
            table_constraint(from, (object, table), constraint, rows);
        }
        Ok(())
    })?;
    for object in from.names.catalog.objects() {
        if let Body::Domain(domain) = &object.body {
            for (at, (name, condition)) in domain.checks.iter().enumerate() {
                rows.push([
                    ("oid", Datum::Oid(domain_check_oid(object.oid, at))),
                    ("conname", text(name)),
                    ("connamespace", Datum::Oid(object.namespace)),
                    ("contype", text("c")),
                    ("contypid", Datum::Oid(object.oid)),
                    ("convalidated", flag(!domain.unproven.contains(name))),
                    ("conbin", text(from.definitions().check(object, condition))),
                ]);
            }
        }
    }
    Ok(())
}

/// The domain, and the place there, of a condition that has a number.
pub(crate) fn domain_check(catalog: &Catalog, oid: Oid) -> Option<(&Object, usize)> {
    catalog.objects().find_map(|object| {
        let Body::Domain(domain) = &object.body else {
            return None;
        };
        let mut places = 0..domain.checks.len();
        let at = places.find(|at| domain_check_oid(object.oid, *at) == oid)?;
        Some((&**object, at))
    })
}

fn table_constraint(
    from: &Sources<'_>,
    (object, table): (&Object, &TableBody),
    constraint: &Constraint,
    rows: &mut Rows<'_>,
) {
    let positions = |columns: &[usize]| array(Kind::Int2, columns.iter().map(|at| small(at + 1)));
    let (kind, keys, foreign, condition) = match &constraint.rule {
        Rule::Primary { columns, .. } => ("p", columns.clone(), None, None),
        Rule::Unique { columns, .. } => ("u", columns.clone(), None, None),
        Rule::Check { condition } => (
            "c",
            from.definitions().columns_read(object, condition),
            None,
            Some(condition),
        ),
        Rule::Foreign(foreign) => ("f", foreign.columns.clone(), Some(foreign), None),
    };
    let index = match foreign {
        Some(foreign) => from.index_of_key(constraint.oid, foreign),
        None => {
            let mut indexes = table.indexes.iter();
            let index = indexes.find(|index| index.name == constraint.name);
            index.map_or(0, |index| index.oid)
        }
    };
    let action = |action: fn(&Foreign) -> Action| {
        foreign.map_or(text(" "), |foreign| text(action_letter(action(foreign))))
    };
    let equalities = foreign.map_or(Datum::Null, |foreign| equalities_of(table, foreign));
    let printed = condition.map(|one| text(from.definitions().check(object, one)));
    let above = from.names.catalog.constraint_above(object.oid, constraint);
    let inherited = i32::from(above.is_some());
    // Checks have no number of the one above.
    let parent = above.filter(|_| !matches!(constraint.rule, Rule::Check { .. }));
    let parent = parent.map_or(0, |(_, above)| above.oid);
    let deferral = constraint.rule.deferral();
    let is_proven = !table.unproven.contains(&constraint.oid);
    let is_alone = condition.is_none() || table.alone.contains(&constraint.oid);
    let full = foreign.map_or(" ", |foreign| if foreign.is_full { "f" } else { "s" });
    rows.push([
        ("oid", Datum::Oid(constraint.oid)),
        ("conname", text(&constraint.name)),
        ("connamespace", Datum::Oid(object.namespace)),
        ("contype", text(kind)),
        ("condeferrable", flag(deferral != Deferral::Never)),
        ("condeferred", flag(deferral == Deferral::Initial)),
        ("convalidated", flag(is_proven)),
        ("conrelid", Datum::Oid(object.oid)),
        ("conindid", Datum::Oid(index)),
        ("conparentid", Datum::Oid(parent)),
        ("conislocal", flag(inherited == 0)),
        ("coninhcount", Datum::Int4(inherited)),
        ("confrelid", Datum::Oid(foreign.map_or(0, |one| one.parent))),
        ("confupdtype", action(|foreign| foreign.on_update)),
        ("confdeltype", action(|foreign| foreign.on_delete)),
        ("confmatchtype", text(full)),
        ("connoinherit", flag(is_alone)),
        ("conkey", positions(&keys)),
        (
            "confkey",
            foreign.map_or(Datum::Null, |one| positions(&one.parent_columns)),
        ),
        (
            "confdelsetcols",
            match foreign.map(|one| one.set_on_delete.as_slice()) {
                None | Some([]) => Datum::Null,
                Some(columns) => positions(columns),
            },
        ),
        ("conpfeqop", equalities.clone()),
        ("conppeqop", equalities.clone()),
        ("conffeqop", equalities),
        ("conbin", printed.unwrap_or(Datum::Null)),
    ]);
}

/// The operators that compare the columns of a foreign key.
fn equalities_of(table: &TableBody, foreign: &Foreign) -> Datum {
    let columns = foreign.columns.iter();
    let columns = columns.filter_map(|at| table.columns.get(*at));
    let operators = columns.map(|column| {
        let kind = column.data_type.kind;
        Datum::Oid(sql_bind::system::operator_oid("=", kind, kind))
    });
    array(Kind::Oid, operators)
}

fn action_letter(action: Action) -> &'static str {
    match action {
        Action::Nothing => "a",
        Action::Restrict => "r",
        Action::Cascade => "c",
        Action::SetNull => "n",
        Action::SetDefault => "d",
    }
}

impl Sources<'_> {
    /// The index of the key that a foreign key refers to.
    pub(super) fn index_of_key(&self, made: Oid, foreign: &Foreign) -> Oid {
        let parent = self.names.catalog.object(foreign.parent);
        let Some(Body::Table(parent)) = parent.map(|parent| &parent.body) else {
            return 0;
        };
        let index = parent.key_of_reference(made, &foreign.parent_columns);
        index.map_or(0, |index| index.oid)
    }
}
