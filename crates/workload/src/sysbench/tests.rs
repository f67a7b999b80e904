//! Goal: rows, statements and ids are those of sysbench's OLTP scripts, and the check notices
//! violations of each condition.
//!
//! Method: small databases; the statements of each script counted; each statement's effect compared
//! with a model; runs of every method over several partitions in parallel and of threads that share
//! one; one row changed for each condition, which must then be violated, and for faults that no
//! condition sees, which the comparison with the list must see.

use super::digits::{C_GROUPS, PAD_GROUPS, are_groups};
use super::schema::{Key, column};
use super::*;
use crate::columns::{integer, text};
use crate::testing::{TestDatabase, content, count, run_at_once, step};
use crate::{Script, Workload, WorkloadError};
use indelible::{Database, Direction, Method, Row, Table, Transaction};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

fn options(script: OltpScript, partitions: u32) -> SysbenchOptions {
    SysbenchOptions {
        script,
        tables: 3,
        rows: 400,
        range_size: 20,
        partitions,
        transactions: 600,
        seed: 7,
        ..SysbenchOptions::default()
    }
}

fn loaded(place: &TestDatabase, options: SysbenchOptions) -> (Sysbench, Tables) {
    let workload = Sysbench::new(options).unwrap();
    let tables = workload.load(place.database(), |_| ()).unwrap();
    (workload, tables)
}

fn rows(database: &Database, table: &Table) -> BTreeMap<i64, Row> {
    let mut rows = BTreeMap::new();
    database
        .read(|reader| {
            reader.scan(table, .., Direction::Forward, |row| {
                rows.insert(integer(row, column::ID), row.clone());
                ControlFlow::Continue(())
            })
        })
        .unwrap();
    rows
}

#[test]
fn the_rows_are_those_of_sysbench() {
    for partitions in [1, 3] {
        let place = TestDatabase::new("sysbench-rows", Method::Volatile, partitions);
        let (workload, tables) = loaded(&place, options(OltpScript::ReadWrite, partitions));
        let database = place.database();
        assert_eq!((tables.0.len(), workload.rows()), (3, 1200));
        let mut texts = BTreeSet::new();
        for (number, SbTest { table, by_k }) in (1..).zip(&tables.0) {
            assert_eq!(table.name(), format!("sbtest{number}"));
            assert_eq!(by_k.name(), format!("k_{number}"));
            let columns = table.definition().columns;
            assert_eq!(columns.len(), if partitions == 1 { 4 } else { 5 });
            let rows = rows(database, table);
            assert!(rows.keys().copied().eq(1..=400));
            for row in rows.values() {
                assert!((1..=400).contains(&integer(row, column::K)));
                let (c, pad) = (text(row, column::C), text(row, column::PAD));
                assert_eq!((c.len(), pad.len()), (119, 59));
                assert!(
                    are_groups(c, C_GROUPS) && are_groups(pad, PAD_GROUPS),
                    "{c} {pad}"
                );
                texts.insert((c.to_owned(), pad.to_owned()));
            }
        }
        assert_eq!(texts.len(), 1200);
        let unrun = vec![0..=0; partitions as usize];
        workload.check(database, &unrun).unwrap();
    }
    let defaults = SysbenchOptions::default();
    assert_eq!((defaults.rows, defaults.range_size), (10_000, 100));
    assert_eq!(defaults.distribution, Distribution::Special);
}

#[test]
fn each_script_has_its_statements() {
    use Action::{Append, Delete, Insert, PointSelect, UpdateIndex, UpdateNonIndex};
    let ranges = [
        Action::SimpleRange,
        Action::SumRange,
        Action::OrderRange,
        Action::DistinctRange,
    ];
    let reads = [&[PointSelect; 10][..], &ranges].concat();
    let writes = vec![UpdateIndex, UpdateNonIndex, Delete, Insert];
    for (script, statements) in [
        (
            OltpScript::ReadWrite,
            [reads.clone(), writes.clone()].concat(),
        ),
        (OltpScript::ReadOnly, reads),
        (OltpScript::WriteOnly, writes),
        (OltpScript::PointSelect, vec![PointSelect]),
        (OltpScript::UpdateIndex, vec![UpdateIndex]),
        (OltpScript::UpdateNonIndex, vec![UpdateNonIndex]),
        (OltpScript::Insert, vec![Append]),
        (OltpScript::Delete, vec![Delete]),
    ] {
        let workload = Sysbench::new(options(script, 2)).unwrap();
        for list in 0..2 {
            let made = workload.list(list);
            assert_eq!(made.len(), 300 * statements.len());
            for event in made.chunks(statements.len()) {
                let actions: Vec<Action> = event.iter().map(|one| one.action).collect();
                assert_eq!(actions, statements);
                check_event(event, list);
            }
        }
        assert_eq!(script.name().parse(), Ok(script));
    }
    assert!(
        "oltp"
            .parse::<OltpScript>()
            .unwrap_err()
            .contains("read-only")
    );
}

fn check_event(event: &[Statement], partition: u32) {
    let own = partition * 200 + 1..=partition * 200 + 200;
    for statement in event {
        let id = if statement.action == Action::Append {
            statement.k
        } else {
            statement.id
        };
        assert!(own.contains(&id) && statement.table < 3, "{statement:?}");
    }
    let points: Vec<_> = event
        .iter()
        .filter(|one| one.action == Action::PointSelect)
        .collect();
    assert!(points.windows(2).all(|two| two[0].table == two[1].table));
    if let [.., delete, insert] = event {
        assert!(
            insert.action != Action::Insert
                || (delete.table, delete.id) == (insert.table, insert.id)
        );
    }
}

#[test]
fn lists_follow_from_the_seed() {
    let first = Sysbench::new(options(OltpScript::ReadWrite, 2)).unwrap();
    let again = Sysbench::new(options(OltpScript::ReadWrite, 2)).unwrap();
    assert_eq!(first.list(1), again.list(1));
    let other = SysbenchOptions {
        seed: 8,
        ..options(OltpScript::ReadWrite, 2)
    };
    assert_ne!(first.list(1), Sysbench::new(other).unwrap().list(1));
    let tables: BTreeSet<u16> = first.list(0).iter().map(|one| one.table).collect();
    assert_eq!(tables.len(), 3);
}

/// Each statement is a transaction, so that its effect can be read.
#[test]
fn statements_do_what_their_sql_says() {
    let place = TestDatabase::new("sysbench-statements", Method::Volatile, 1);
    let (workload, tables) = loaded(
        &place,
        SysbenchOptions {
            scope: Scope::Statement,
            ..options(OltpScript::ReadWrite, 1)
        },
    );
    let database = place.database();
    let mut runner = workload.runner(database, &tables, 0, 0).unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..90 {
        let statement = runner.statements()[0];
        assert_eq!(runner.statements().len(), 1);
        assert_eq!(Action::ALL[runner.kind()], statement.action);
        let table = &tables.0[usize::from(statement.table)].table;
        let before = rows(database, table);
        assert!(step(database, &mut runner));
        check_statement(
            statement,
            runner.answer(),
            (&before, &rows(database, table)),
        );
        seen.insert(statement.action.name());
    }
    assert_eq!(seen.len(), 9);
    workload.check(database, &[90..=90]).unwrap();
}

type RowsById = BTreeMap<i64, Row>;

fn check_statement(statement: Statement, answer: &Answer, (before, after): (&RowsById, &RowsById)) {
    let id = i64::from(statement.id);
    let in_range: Vec<&Row> = before.range(id..id + 20).map(|(_, row)| row).collect();
    let mut sorted: Vec<&[u8]> = in_range
        .iter()
        .map(|row| text(row, column::C).as_bytes())
        .collect();
    sorted.sort_unstable();
    match statement.action {
        Action::PointSelect => assert_eq!(answer.rows, 1),
        Action::SimpleRange => assert_eq!(answer.rows, in_range.len() as u64),
        Action::SumRange => {
            let sum: i64 = in_range.iter().map(|row| integer(row, column::K)).sum();
            assert_eq!(answer.sum, sum);
        }
        Action::OrderRange | Action::DistinctRange => {
            assert!(answer.sorted.iter().map(<[u8; 119]>::as_slice).eq(sorted));
        }
        _ => {}
    }
    let changed: Vec<i64> = before
        .keys()
        .chain(after.keys())
        .copied()
        .filter(|id| before.get(id) != after.get(id))
        .collect();
    let values = |rows: &RowsById| {
        let row = rows.get(&id)?;
        let [c, pad] = [column::C, column::PAD].map(|at| text(row, at).to_owned());
        Some((integer(row, column::K), c, pad))
    };
    let (old, new) = (values(before), values(after));
    match statement.action {
        Action::UpdateIndex => {
            let (k, c, pad) = old.unwrap();
            assert_eq!(new, Some((k + 1, c, pad)));
        }
        Action::UpdateNonIndex => {
            let ((k, c, pad), new) = (old.unwrap(), new.unwrap());
            assert!((k, &pad) == (new.0, &new.2) && c != new.1);
        }
        Action::Delete => assert!(old.is_some() && new.is_none()),
        Action::Insert => {
            assert!(old.is_none());
            assert_eq!(new.unwrap().0, i64::from(statement.k));
        }
        _ => assert!(changed.is_empty()),
    }
    assert!(changed.iter().all(|changed| *changed == id));
}

/// Scripts and distributions take turns over the methods, so that each pair is not run with each.
#[test]
fn every_method_ends_with_the_same_consistent_content() {
    for (script, distribution) in [
        (OltpScript::ReadWrite, Distribution::Special),
        (OltpScript::WriteOnly, Distribution::Zipfian),
        (OltpScript::Insert, Distribution::Uniform),
        (OltpScript::Delete, Distribution::Pareto),
        (OltpScript::UpdateIndex, Distribution::Gaussian),
    ] {
        let mut contents = Vec::new();
        for method in Method::distinct() {
            let place = TestDatabase::new("sysbench-methods", method, 2);
            let options = SysbenchOptions {
                distribution,
                rows: 100,
                ..options(script, 2)
            };
            let (workload, tables) = loaded(&place, options);
            run_at_once(place.database(), &workload, &tables, 60);
            workload
                .check(place.database(), &[60..=60, 59..=60])
                .unwrap();
            if script != OltpScript::Delete {
                let lost = workload.check(place.database(), &[60..=60, 57..=59]);
                assert!(
                    matches!(lost, Err(WorkloadError::Lost { partition: 1, .. })),
                    "{lost:?}"
                );
            }
            assert!(place.database().verify().unwrap().damage.is_empty());
            contents.push((method, content(place.database())));
        }
        for (method, content) in &contents[1..] {
            assert_eq!(content, &contents[0].1, "{method}");
        }
    }
}

#[test]
fn rows_come_and_go_with_insert_and_delete() {
    let place = TestDatabase::new("sysbench-grow", Method::NvmInp, 2);
    let (workload, tables) = loaded(&place, options(OltpScript::Insert, 2));
    // More than a lap of 300.
    run_at_once(place.database(), &workload, &tables, 350);
    workload
        .check(place.database(), &[350..=350, 350..=350])
        .unwrap();
    let lost = workload.check(place.database(), &[350..=350, 349..=349]);
    assert!(matches!(lost, Err(WorkloadError::Lost { .. })), "{lost:?}");
    let all: u64 = tables
        .0
        .iter()
        .map(|one| count(place.database(), &one.table))
        .sum();
    assert_eq!(all, 1200 + 700);
    let mut runner = workload.runner(place.database(), &tables, 0, 350).unwrap();
    assert!(step(place.database(), &mut runner));
    workload
        .check(place.database(), &[351..=351, 350..=350])
        .unwrap();

    let place = TestDatabase::new("sysbench-shrink", Method::NvmInp, 2);
    let (workload, tables) = loaded(&place, options(OltpScript::Delete, 2));
    run_at_once(place.database(), &workload, &tables, 300);
    workload
        .check(place.database(), &[300..=300, 300..=300])
        .unwrap();
    let left: u64 = tables
        .0
        .iter()
        .map(|one| count(place.database(), &one.table))
        .sum();
    let named = |list| workload.list(list).iter().map(|one| (one.table, one.id));
    let deleted: BTreeSet<_> = named(0).chain(named(1)).collect();
    assert_eq!(left, 1200 - deleted.len() as u64);
}

/// One change of rows, and the conditions that must then be violated.
type Break = (
    &'static str,
    &'static [u8],
    fn(&mut Transaction<'_>, &Table) -> indelible::Result<()>,
);

fn set(
    t: &mut Transaction<'_>,
    table: &Table,
    column: usize,
    value: &str,
) -> indelible::Result<()> {
    let mut changes = table.changes();
    if column == column::K {
        changes.set(column, value.parse::<i32>().unwrap())?;
    } else {
        changes.set(column, value)?;
    }
    assert!(t.update(table, Key(None, 5), &changes)?);
    Ok(())
}

/// A row like another, with an id of its own.
fn copy_to(t: &mut Transaction<'_>, table: &Table, id: i32) -> indelible::Result<()> {
    let mut row = t.get(table, Key(None, 5))?.unwrap();
    row.set(column::ID, id)?;
    t.insert(table, &row)
}

const BREAKS: [Break; 7] = [
    ("a row lost", &[1], |t, table| {
        t.delete(table, Key(None, 5)).map(drop)
    }),
    ("a row too many", &[1], |t, table| copy_to(t, table, 401)),
    ("a row with no id", &[1], |t, table| copy_to(t, table, -3)),
    ("half a text", &[3], |t, table| {
        set(t, table, column::C, "12345678901-12345678901")
    }),
    ("a letter in a text", &[4], |t, table| {
        set(
            t,
            table,
            column::PAD,
            &"12345678901-".repeat(5).replace('9', "x"),
        )
    }),
    ("a count of nothing", &[5], |t, table| {
        set(t, table, column::K, "0")
    }),
    // No condition sees it.
    ("another number", &[], |t, table| {
        set(t, table, column::K, "77")
    }),
];

#[test]
fn each_condition_is_violated_by_a_broken_row() {
    for (what, conditions, break_row) in BREAKS {
        let place = TestDatabase::new("sysbench-broken", Method::Volatile, 1);
        let (workload, tables) = loaded(&place, options(OltpScript::ReadWrite, 1));
        run_at_once(place.database(), &workload, &tables, 20);
        workload.check(place.database(), &[20..=20]).unwrap();
        place
            .database()
            .transaction(|t| break_row(t, &tables.0[1].table))
            .unwrap();
        let checked = workload.check_consistency(place.database()).unwrap();
        let violations = &checked.findings.violations;
        let violated: BTreeSet<u8> = violations.iter().map(|v| v.condition).collect();
        assert_eq!(
            violated,
            conditions.iter().copied().collect(),
            "{what}: {violations:?}"
        );
        let compared = workload.check(place.database(), &[20..=20]);
        let place_of_row = match compared {
            Err(WorkloadError::Lost { place, .. }) => place,
            Err(WorkloadError::Inconsistent { first, .. }) => first[0].place.clone(),
            other => panic!("{what}: {other:?}"),
        };
        assert!(place_of_row.contains("sbtest2"), "{what}: {place_of_row}");
    }
}

#[test]
fn threads_that_share_rows_leave_what_some_order_leaves() {
    for (script, scope) in [
        (OltpScript::ReadWrite, Scope::Event),
        (OltpScript::WriteOnly, Scope::Statement),
        (OltpScript::Delete, Scope::Event),
        (OltpScript::Insert, Scope::Event),
    ] {
        let place = TestDatabase::shared("sysbench-shared", 3);
        let options = SysbenchOptions {
            tables: 1,
            rows: 30,
            threads: 3,
            scope,
            ..options(script, 1)
        };
        let (workload, tables) = loaded(&place, options);
        run_at_once(place.database(), &workload, &tables, 100);
        let done = [100..=100, 100..=100, 100..=100];
        workload.check(place.database(), &done).unwrap();
        if script == OltpScript::Delete {
            continue;
        }
        place
            .database()
            .transaction(|t| {
                let table = &tables.0[0].table;
                let mut changes = table.changes();
                changes.set(column::PAD, &"55555555555-".repeat(5)[..59])?;
                let first = t.collect(table, ..)?.remove(0);
                t.update(table, integer(&first, column::ID), &changes)
                    .map(drop)
            })
            .unwrap();
        let lost = workload.check(place.database(), &done);
        assert!(matches!(lost, Err(WorkloadError::Lost { .. })), "{lost:?}");
    }
}

#[test]
fn options_are_checked() {
    let common = || options(OltpScript::ReadOnly, 2);
    for (bad, option) in [
        (
            SysbenchOptions {
                partitions: 0,
                ..common()
            },
            "partitions",
        ),
        (
            SysbenchOptions {
                tables: 0,
                ..common()
            },
            "tables",
        ),
        (
            SysbenchOptions {
                rows: 1,
                ..common()
            },
            "rows",
        ),
        (
            SysbenchOptions {
                range_size: 0,
                ..common()
            },
            "range-size",
        ),
        (
            SysbenchOptions {
                threads: 0,
                ..common()
            },
            "threads",
        ),
    ] {
        let error = Sysbench::new(bad).unwrap_err().to_string();
        assert!(error.contains(&format!("`{option}`")), "{error}");
    }
}
