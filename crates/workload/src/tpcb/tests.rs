//! Goal: rows, inputs and the transaction are those of TPC-B, and its conditions notice violations.
//!
//! Method: small databases; runs of every method over several partitions in parallel; one value
//! changed for each condition, which must then be violated.

use super::schema::{account, branch, history, teller};
use super::*;
use crate::columns::{integer, text};
use crate::testing::{TestDatabase, content, count, run_at_once, step};
use crate::{RoutedScript, Script, Workload, WorkloadError};
use indelible::{Direction, Method, Table, Transaction, Value};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

fn options(branches: u32, partitions: u32) -> TpcbOptions {
    TpcbOptions {
        branches,
        partitions,
        accounts: 100,
        transactions: 3000,
        seed: 7,
        ..TpcbOptions::default()
    }
}

#[test]
fn the_rows_are_those_of_clause_4() {
    let place = TestDatabase::new("tpcb-rows", Method::Volatile, 2);
    let workload = Tpcb::new(options(3, 2)).unwrap();
    let loaded = std::sync::atomic::AtomicU64::new(0);
    let tables = workload
        .load(place.database(), |rows| {
            loaded.fetch_add(rows, std::sync::atomic::Ordering::Relaxed);
        })
        .unwrap();
    let rows = |table| count(place.database(), table);
    assert_eq!((rows(&tables.branch), rows(&tables.teller)), (3, 30));
    assert_eq!((rows(&tables.account), rows(&tables.history)), (300, 0));
    assert_eq!(loaded.into_inner(), workload.rows());
    let full = TpcbOptions::default();
    assert_eq!((full.accounts, full.rows()), (100_000, 8 * 100_011));
    let database = place.database();
    let mut ids = BTreeSet::new();
    database
        .read(|reader| {
            reader.scan(&tables.account, .., Direction::Forward, |row| {
                let id = integer(row, account::ID);
                assert_eq!(integer(row, account::BRANCH), (id - 1) / 100 + 1);
                assert_eq!(integer(row, account::BALANCE), 0);
                assert_eq!(text(row, account::FILLER).len(), 84);
                ids.insert(id);
                ControlFlow::Continue(())
            })
        })
        .unwrap();
    assert!(ids.into_iter().eq(1..=300));
    workload.check(database, &[0..=0, 0..=0]).unwrap();
}

#[test]
fn inputs_are_those_of_clause_5() {
    let options = TpcbOptions {
        transactions: 100_000,
        ..options(4, 2)
    };
    let workload = Tpcb::new(options.clone()).unwrap();
    let (mut local, mut tellers, mut branches) = (0, BTreeSet::new(), BTreeSet::new());
    for partition in 0..2 {
        for input in workload.list(partition) {
            assert_eq!(input.branch.cast_unsigned() % 2, partition);
            assert_eq!((input.teller - 1) / TELLERS + 1, input.branch);
            assert_eq!((input.account - 1) / 100 + 1, input.account_branch);
            assert!((-999_999..=999_999).contains(&input.delta));
            local += u32::from(input.branch == input.account_branch);
            tellers.insert(input.teller);
            branches.insert((input.branch, input.account_branch));
        }
    }
    assert!((84_500..85_500).contains(&local), "{local} of 100,000");
    assert_eq!((tellers.len(), branches.len()), (40, 16));
    let again = Tpcb::new(options.clone()).unwrap();
    assert_eq!(again.list(1), workload.list(1));
    let other = Tpcb::new(TpcbOptions { seed: 8, ..options }).unwrap();
    assert_ne!(other.list(1), workload.list(1));
}

#[test]
fn one_partition_is_an_option() {
    for branches in [2, 4] {
        let options = TpcbOptions {
            single_partition: true,
            ..options(branches, 2)
        };
        let workload = Tpcb::new(options).unwrap();
        let list = workload.list(1);
        assert!(list.iter().all(|input| input.account_branch % 2 == 1));
        let is_remote = |input: &Input| input.branch != input.account_branch;
        assert_eq!(list.iter().any(is_remote), branches == 4);
    }
}

#[test]
fn the_transaction_does_what_clause_1_says() {
    let place = TestDatabase::new("tpcb-profile", Method::Volatile, 1);
    let workload = Tpcb::new(options(2, 1)).unwrap();
    let tables = workload.load(place.database(), |_| ()).unwrap();
    let mut runner = workload.runner(place.database(), &tables, 0, 0).unwrap();
    let input = runner.input();
    step(place.database(), &mut runner);
    let delta = i64::from(input.delta);
    assert_eq!(runner.balance(), delta);
    let get = |table: &Table, key: &[Value], column| {
        let row = place.database().read(|reader| reader.get(table, key));
        integer(&row.unwrap().unwrap(), column)
    };
    let account = [input.account_branch.into(), input.account.into()];
    assert_eq!(get(&tables.account, &account, account::BALANCE), delta);
    let teller = [input.branch.into(), input.teller.into()];
    assert_eq!(get(&tables.teller, &teller, teller::BALANCE), delta);
    let branch = [input.branch.into()];
    assert_eq!(get(&tables.branch, &branch, branch::BALANCE), delta);
    let noted = [input.branch.into(), 1_i64.into()];
    for (column, value) in [
        (history::DELTA, delta),
        (history::TELLER, input.teller.into()),
        (history::ACCOUNT, input.account.into()),
        (history::ACCOUNT_BRANCH, input.account_branch.into()),
    ] {
        assert_eq!(get(&tables.history, &noted, column), value);
    }
}

#[test]
fn every_method_ends_with_the_same_consistent_content() {
    let mut contents = Vec::new();
    for method in Method::distinct() {
        let place = TestDatabase::new("tpcb-methods", method, 3);
        let workload = Tpcb::new(options(5, 3)).unwrap();
        let tables = workload.load(place.database(), |_| ()).unwrap();
        let mut partitions = Vec::new();
        let runner = workload.runner(place.database(), &tables, 0, 1).unwrap();
        runner.partitions(&mut partitions);
        assert!(partitions.contains(&0));
        run_at_once(place.database(), &workload, &tables, 300);
        let done = [300..=300, 300..=300, 300..=300];
        workload.check(place.database(), &done).unwrap();
        let lost = workload.check(place.database(), &[300..=300, 298..=299, 300..=300]);
        assert!(
            matches!(lost, Err(WorkloadError::Lost { partition: 1, .. })),
            "{lost:?}"
        );
        assert!(place.database().verify().unwrap().damage.is_empty());
        // Balances do not depend on the order in which threads met, and neither do the numbers in
        // one branch's history.
        contents.push((method, content(place.database())));
    }
    for (method, content) in &contents[1..] {
        assert_eq!(content, &contents[0].1, "{method}");
    }
}

/// One change of one row, and the conditions that must then be violated.
type Break = (
    &'static str,
    &'static [u8],
    fn(&mut Transaction<'_>, &Tables) -> indelible::Result<()>,
);

fn add(
    t: &mut Transaction<'_>,
    table: &Table,
    key: &[Value],
    column: usize,
) -> indelible::Result<()> {
    let row = t.get(table, key)?.unwrap();
    let mut changes = table.changes();
    changes.set(column, integer(&row, column) + 1)?;
    assert!(t.update(table, key, &changes)?);
    Ok(())
}

const BREAKS: [Break; 7] = [
    ("more in a branch", &[1, 2, 6], |t, tables| {
        add(t, &tables.branch, &[2.into()], branch::BALANCE)
    }),
    ("more at a teller", &[1, 3], |t, tables| {
        add(t, &tables.teller, &[2.into(), 11.into()], teller::BALANCE)
    }),
    ("more in an account", &[4, 6], |t, tables| {
        add(
            t,
            &tables.account,
            &[2.into(), 150.into()],
            account::BALANCE,
        )
    }),
    ("an amount noted wrong", &[2, 3, 4], |t, tables| {
        add(
            t,
            &tables.history,
            &[1.into(), 1_i64.into()],
            history::DELTA,
        )
    }),
    ("a transaction forgotten", &[2, 3, 4], |t, tables| {
        t.delete(&tables.history, (2, 1_i64)).map(drop)
    }),
    ("a teller lost", &[1, 3, 5], |t, tables| {
        t.delete(&tables.teller, (1, 3)).map(drop)
    }),
    ("an untouched account too many", &[5], |t, tables| {
        let mut row = tables.account.row();
        row.set(account::BRANCH, 2)?;
        row.set(account::ID, 999)?;
        row.set(account::BALANCE, 0_i64)?;
        row.set(account::FILLER, "")?;
        t.insert(&tables.account, &row)
    }),
];

#[test]
fn each_condition_is_violated_by_a_broken_row() {
    let mut seen = BTreeSet::new();
    for (what, conditions, break_row) in BREAKS {
        let place = TestDatabase::new("tpcb-broken", Method::Volatile, 2);
        let workload = Tpcb::new(options(2, 2)).unwrap();
        let tables = workload.load(place.database(), |_| ()).unwrap();
        run_at_once(place.database(), &workload, &tables, 200);
        let before = check_consistency(place.database()).unwrap();
        assert_eq!(before.findings.violated, 0, "before {what}: {before:?}");
        place
            .database()
            .transaction(|t| break_row(t, &tables))
            .unwrap();
        let checked = check_consistency(place.database()).unwrap();
        let violations = &checked.findings.violations;
        let violated: BTreeSet<u8> = violations.iter().map(|v| v.condition).collect();
        let expected = conditions.iter().copied().collect();
        assert_eq!(violated, expected, "{what}: {violations:?}");
        let error = checked.into_result().unwrap_err().to_string();
        assert!(error.contains("condition"), "{error}");
        seen.extend(violated);
    }
    assert_eq!(seen, (1..=6).collect());
}

#[test]
fn options_are_checked() {
    for (bad, option) in [
        (options(1, 0), "partitions"),
        (options(1, 2), "branches"),
        (options(30_000, 1), "branches"),
        (
            TpcbOptions {
                accounts: 0,
                ..options(1, 1)
            },
            "accounts",
        ),
    ] {
        let error = Tpcb::new(bad).unwrap_err().to_string();
        assert!(error.contains(&format!("`{option}`")), "{error}");
    }
}

#[test]
fn a_runner_goes_on_after_reopening() {
    let mut place = TestDatabase::new("tpcb-reopen", Method::NvmInp, 1);
    let workload = Tpcb::new(options(2, 1)).unwrap();
    let tables = workload.load(place.database(), |_| ()).unwrap();
    run_at_once(place.database(), &workload, &tables, 200);
    drop(tables);
    drop(place.database.take());
    place.database = Some(indelible::Database::open(&place.path).unwrap());
    let tables = Tpcb::tables(place.database()).unwrap();
    let mut runner = workload.runner(place.database(), &tables, 0, 200).unwrap();
    while runner.position() < 300 {
        assert!(step(place.database(), &mut runner));
    }
    workload.check(place.database(), &[300..=300]).unwrap();
}

#[test]
fn threads_that_share_a_partition_leave_what_all_lists_say() {
    let place = TestDatabase::shared("tpcb-shared", 3);
    let workload = Tpcb::new(TpcbOptions {
        threads: 3,
        ..options(2, 1)
    })
    .unwrap();
    let tables = workload.load(place.database(), |_| ()).unwrap();
    run_at_once(place.database(), &workload, &tables, 300);
    let done = [300..=300, 300..=300, 300..=300];
    workload.check(place.database(), &done).unwrap();
    let lost = workload.check(place.database(), &[300..=300, 299..=299, 300..=300]);
    assert!(
        matches!(lost, Err(WorkloadError::Lost { partition: 0, .. })),
        "{lost:?}"
    );
    // Where the runs continue, the numbers in the history continue too.
    let mut runner = workload.runner(place.database(), &tables, 1, 300).unwrap();
    while runner.position() < 310 {
        assert!(step(place.database(), &mut runner));
    }
    let done = [300..=300, 310..=310, 300..=300];
    workload.check(place.database(), &done).unwrap();
}
