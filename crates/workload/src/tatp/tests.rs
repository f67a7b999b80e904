//! Goal: rows, inputs and transactions are those of TATP, and the check notices violations of each
//! condition.
//!
//! Method: small databases; shares and success rates against those of the specification; runs of
//! every method over several partitions in parallel; one row changed for each condition, which must
//! then be violated, and for faults that no condition sees, which the comparison with the list must
//! see.

use super::schema::{access_info, call_forwarding, special_facility, subscriber};
use super::*;
use crate::columns::{flag, integer, text};
use crate::testing::{TestDatabase, content, count, run_at_once, step};
use crate::{Script, Workload, WorkloadError};
use indelible::{Database, Direction, Method, Prefix, Row, Table, Transaction, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

fn options(subscribers: u32, partitions: u32) -> TatpOptions {
    TatpOptions {
        subscribers,
        partitions,
        transactions: 4000,
        seed: 7,
        ..TatpOptions::default()
    }
}

fn scan(database: &Database, table: &Table, mut visit: impl FnMut(&Row)) {
    database
        .read(|reader| {
            reader.scan(table, .., Direction::Forward, |row| {
                visit(row);
                ControlFlow::Continue(())
            })
        })
        .unwrap();
}

#[test]
fn the_rows_are_those_of_the_specification() {
    let place = TestDatabase::new("tatp-rows", Method::Volatile, 3);
    let workload = Tatp::new(options(4000, 3)).unwrap();
    let loaded = std::sync::atomic::AtomicU64::new(0);
    let tables = workload
        .load(place.database(), |rows| {
            loaded.fetch_add(rows, std::sync::atomic::Ordering::Relaxed);
        })
        .unwrap();
    let database = place.database();
    let rows = |table| count(database, table);
    let loaded = loaded.into_inner();
    assert!(loaded.abs_diff(workload.rows()) < loaded / 50, "{loaded}");
    assert_eq!(rows(&tables.subscriber), 4000);
    let (infos, facilities) = (rows(&tables.access_info), rows(&tables.special_facility));
    let forwardings = rows(&tables.call_forwarding);
    assert_eq!(4000 + infos + facilities + forwardings, loaded);
    assert!((9700..10_300).contains(&infos), "{infos}");
    assert!((9700..10_300).contains(&facilities), "{facilities}");
    assert!((14_400..15_600).contains(&forwardings), "{forwardings}");
    let mut active = 0;
    scan(database, &tables.special_facility, |row| {
        active += u64::from(flag(row, special_facility::IS_ACTIVE));
    });
    let percent = active * 100 / facilities;
    assert!((83..=87).contains(&percent), "{percent}");
    scan(database, &tables.subscriber, |row| {
        let id = integer(row, subscriber::ID);
        assert_eq!(text(row, subscriber::NUMBER), format!("{id:015}"));
        assert_eq!(integer(row, subscriber::REGION), id % 3);
        assert!((0..16).contains(&integer(row, subscriber::HEX + 9)));
        assert!((0..256).contains(&integer(row, subscriber::BYTES)));
    });
    scan(database, &tables.access_info, |row| {
        assert!((1..=4).contains(&integer(row, access_info::TYPE)));
        assert_eq!(text(row, access_info::DATA_3).len(), 3);
        assert_eq!(text(row, access_info::DATA_4).len(), 5);
    });
    scan(database, &tables.call_forwarding, |row| {
        let start = integer(row, call_forwarding::START_TIME);
        let end = integer(row, call_forwarding::END_TIME);
        assert!([0, 8, 16].contains(&start) && (1..=8).contains(&(end - start)));
        assert_eq!(text(row, call_forwarding::NUMBER).len(), 15);
    });
    workload.check(database, &[0..=0, 0..=0, 0..=0]).unwrap();
}

#[test]
fn inputs_are_those_of_the_specification() {
    // Of as many draws as there are subscribers, 63 in a hundred differ if each is as likely as the
    // others.
    for (choice, distinct) in [
        (Choice::Uneven, 10_000..40_000),
        (Choice::Even, 62_000..64_500),
    ] {
        let options = TatpOptions {
            transactions: 100_000,
            choice,
            ..options(100_000, 2)
        };
        let workload = Tatp::new(options).unwrap();
        let (mut counts, mut seen) = (BTreeMap::new(), BTreeSet::new());
        for partition in 0..2 {
            for input in workload.list(partition) {
                *counts.entry(input.kind().name()).or_insert(0) += 1;
                let subscriber = input.subscriber();
                assert!((1..=100_000).contains(&subscriber));
                assert_eq!(subscriber % 2, partition);
                seen.insert(subscriber);
            }
        }
        // Decks: the shares are exact.
        assert_eq!(counts["get-subscriber-data"], 35_000);
        assert_eq!(counts["get-access-data"], 35_000);
        assert_eq!(counts["update-location"], 14_000);
        assert_eq!(counts["get-new-destination"], 10_000);
        assert_eq!(counts["delete-call-forwarding"], 2000);
        let seen = seen.len();
        assert!(distinct.contains(&seen), "{seen} of 100,000, {choice:?}");
    }
}

#[test]
fn success_rates_are_those_of_the_rules() {
    for kind in Kind::ALL {
        let options = TatpOptions {
            mix: kind.name().parse().unwrap(),
            transactions: 2500,
            choice: Choice::Even,
            ..options(20_000, 1)
        };
        let place = TestDatabase::new("tatp-rates", Method::Volatile, 1);
        let workload = Tatp::new(options).unwrap();
        let tables = workload.load(place.database(), |_| ()).unwrap();
        let mut runner = workload.runner(place.database(), &tables, 0, 0).unwrap();
        let succeeded = (0..2500)
            .filter(|_| step(place.database(), &mut runner))
            .count();
        let percent = succeeded as f64 / 25.0;
        let expected = kind.success_percent();
        assert!((percent - expected).abs() < 3.5, "{kind}: {percent}");
        workload.check(place.database(), &[2500..=2500]).unwrap();
    }
}

#[test]
fn every_method_ends_with_the_same_consistent_content() {
    let mut contents = Vec::new();
    let changing: Mix = "0,1,0,10,10,10,10".parse().unwrap();
    for method in Method::distinct() {
        let place = TestDatabase::new("tatp-methods", method, 3);
        let workload = Tatp::new(TatpOptions {
            mix: changing,
            ..options(100, 3)
        })
        .unwrap();
        let tables = workload.load(place.database(), |_| ()).unwrap();
        run_at_once(place.database(), &workload, &tables, 400);
        let done = [400..=400, 400..=400, 400..=400];
        workload.check(place.database(), &done).unwrap();
        let lost = workload.check(place.database(), &[400..=400, 1..=300, 400..=400]);
        assert!(
            matches!(lost, Err(WorkloadError::Lost { partition: 1, .. })),
            "{lost:?}"
        );
        assert!(place.database().verify().unwrap().damage.is_empty());
        contents.push((method, content(place.database())));
    }
    for (method, content) in &contents[1..] {
        assert_eq!(content, &contents[0].1, "{method}");
    }
}

/// One change of rows of subscriber 2, and the conditions that must then be violated; none where
/// only the comparison sees it.
type Break = (
    &'static str,
    &'static [u8],
    fn(&mut Transaction<'_>, &Tables) -> indelible::Result<()>,
);

fn first_of(t: &mut Transaction<'_>, table: &Table) -> indelible::Result<Row> {
    Ok(t.collect(table, Prefix((0_i16, 2)))?.remove(0))
}

fn set(
    t: &mut Transaction<'_>,
    table: &Table,
    column: usize,
    value: impl Into<Value>,
) -> indelible::Result<()> {
    let mut row = first_of(t, table)?;
    let value: Value = value.into();
    row.set(column, value.as_ref())?;
    assert!(!t.upsert(table, &row)?, "there is such a row");
    Ok(())
}

const BREAKS: [Break; 10] = [
    ("a subscriber lost", &[1, 3, 4, 5], |t, tables| {
        t.delete(&tables.subscriber, (0_i16, 2)).map(drop)
    }),
    ("another number", &[2], |t, tables| {
        set(t, &tables.subscriber, subscriber::NUMBER, "9")
    }),
    ("no access info", &[3], |t, tables| {
        for row in t.collect(&tables.access_info, Prefix((0_i16, 2)))? {
            let number = integer(&row, access_info::TYPE) as i16;
            t.delete(&tables.access_info, (0_i16, 2, number))?;
        }
        Ok(())
    }),
    ("a fifth facility", &[4], |t, tables| {
        let mut row = first_of(t, &tables.special_facility)?;
        row.set(special_facility::TYPE, 5_i16)?;
        t.insert(&tables.special_facility, &row)
    }),
    ("a forwarding without facility", &[5], |t, tables| {
        let mut row = first_of(t, &tables.call_forwarding)?;
        row.set(call_forwarding::TYPE, 7_i16)?;
        t.insert(&tables.call_forwarding, &row)
    }),
    ("a forwarding at an odd hour", &[5], |t, tables| {
        let mut row = first_of(t, &tables.call_forwarding)?;
        row.set(call_forwarding::START_TIME, 3_i16)?;
        t.insert(&tables.call_forwarding, &row)
    }),
    ("an end beyond the day", &[6], |t, tables| {
        let table = &tables.call_forwarding;
        set(t, table, call_forwarding::END_TIME, 25_i16)
    }),
    ("a flag turned", &[], |t, tables| {
        let row = first_of(t, &tables.subscriber)?;
        let bit = flag(&row, subscriber::BITS + 4);
        set(t, &tables.subscriber, subscriber::BITS + 4, !bit)
    }),
    ("another access info", &[], |t, tables| {
        set(t, &tables.access_info, access_info::DATA_4, "zzzzz")
    }),
    ("another destination", &[], |t, tables| {
        set(t, &tables.call_forwarding, call_forwarding::NUMBER, "1")
    }),
];

#[test]
fn each_broken_row_is_seen() {
    let mut seen = BTreeSet::new();
    for (what, conditions, break_row) in BREAKS {
        let place = TestDatabase::new("tatp-broken", Method::Volatile, 2);
        // With this seed subscriber 2 has rows in all tables.
        let workload = Tatp::new(options(50, 2)).unwrap();
        let tables = workload.load(place.database(), |_| ()).unwrap();
        let none = [0..=0, 0..=0];
        workload.check(place.database(), &none).unwrap();
        place
            .database()
            .transaction(|t| break_row(t, &tables))
            .unwrap();
        let checked = workload.check_consistency(place.database()).unwrap();
        let violations = &checked.findings.violations;
        let violated: BTreeSet<u8> = violations.iter().map(|v| v.condition).collect();
        let expected = conditions.iter().copied().collect();
        assert_eq!(violated, expected, "{what}: {violations:?}");
        seen.extend(violated);
        let error = workload.check(place.database(), &none).unwrap_err();
        let is_lost = matches!(error, WorkloadError::Lost { .. });
        assert_eq!(is_lost, conditions.is_empty(), "{what}: {error}");
    }
    assert_eq!(seen, (1..=6).collect());
}

#[test]
fn mixes_and_options_are_checked() {
    assert_eq!("35,10,35,2,14,2,2".parse(), Ok(Mix::STANDARD));
    let only: Mix = "update-location".parse().unwrap();
    assert_eq!(only.cards(), [0, 0, 0, 0, 1, 0, 0]);
    let error = "update".parse::<Mix>().unwrap_err();
    assert!(error.contains("update-location"), "{error}");
    assert!("zipf".parse::<Choice>().unwrap_err().contains("uniform"));
    for (bad, option) in [
        (options(1, 0), "partitions"),
        (options(1, 2), "subscribers"),
    ] {
        let error = Tatp::new(bad).unwrap_err().to_string();
        assert!(error.contains(&format!("`{option}`")), "{error}");
    }
}

#[test]
fn a_runner_goes_on_after_reopening() {
    let mut place = TestDatabase::new("tatp-reopen", Method::NvmInp, 1);
    let workload = Tatp::new(options(100, 1)).unwrap();
    let tables = workload.load(place.database(), |_| ()).unwrap();
    run_at_once(place.database(), &workload, &tables, 500);
    drop(tables);
    drop(place.database.take());
    place.database = Some(Database::open(&place.path).unwrap());
    let tables = Tatp::tables(place.database()).unwrap();
    let mut runner = workload.runner(place.database(), &tables, 0, 500).unwrap();
    while runner.position() < 700 {
        step(place.database(), &mut runner);
    }
    workload.check(place.database(), &[700..=700]).unwrap();
}

#[test]
fn threads_that_share_subscribers_leave_what_one_of_them_has_written() {
    let place = TestDatabase::shared("tatp-shared", 3);
    let workload = Tatp::new(TatpOptions {
        threads: 3,
        mix: Mix::new(&[1, 1, 1, 10, 10, 10, 10]).unwrap(),
        transactions: 6000,
        ..options(50, 1)
    })
    .unwrap();
    let tables = workload.load(place.database(), |_| ()).unwrap();
    run_at_once(place.database(), &workload, &tables, 1500);
    let done = [1500..=1500, 1500..=1500, 1500..=1500];
    workload.check(place.database(), &done).unwrap();
    // Each subscriber has many writers, but none of them has written this.
    place
        .database()
        .transaction(|t| {
            let mut changes = tables.subscriber.changes();
            changes.set(subscriber::VLR_LOCATION, 7_i64)?;
            let key = [Value::from(0_i16), Value::from(5)];
            t.update(&tables.subscriber, &key[..], &changes).map(drop)
        })
        .unwrap();
    let lost = workload.check(place.database(), &done);
    assert!(
        matches!(lost, Err(WorkloadError::Lost { partition: 0, .. })),
        "{lost:?}"
    );
}
