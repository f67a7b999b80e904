//! Goal: a statement beside another session's change of a table's definition uses the table of one
//! moment: it waits, or its snapshot is refused, and never sees a table without its rows.
//!
//! Method: sessions take turns, one of them in a thread where it waits; the outcomes are those of a
//! PostgreSQL 15, except where a test says that they are stricter.

use crate::between::run;
use crate::keys::{begin_to_wait, state_of};
use crate::scratch::Scratch;
use sql::{Session, Sql};
use std::sync::Arc;

const TABLES: &str = "DROP TABLE IF EXISTS t, o, c CASCADE; CREATE TABLE t (id int PRIMARY KEY, v int); \
    INSERT INTO t VALUES (1, 1), (2, 2), (3, 3); CREATE TABLE o (n int); \
    CREATE TABLE c (id int PRIMARY KEY, t int REFERENCES t)";

/// Definitions that give the table other rows below, or none.
const CHANGES: [&str; 6] = [
    "ALTER TABLE t ADD COLUMN w int DEFAULT 4",
    "ALTER TABLE t DROP COLUMN v",
    "TRUNCATE t CASCADE",
    "CREATE INDEX ON t ((v + 1))",
    "CREATE INDEX ON t (v) WHERE v > 1",
    "DROP TABLE t CASCADE",
];

fn tables(name: &str) -> (Scratch, Arc<Sql>, Session, Session) {
    let (scratch, sql) = Scratch::open(name);
    let (mut one, two) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(&mut one, TABLES);
    (scratch, sql, one, two)
}

#[test]
fn a_change_waits_for_those_who_have_read_the_table() {
    let (_scratch, sql, mut reader, mut other) = tables("definitions-read");
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        for change in CHANGES {
            for read in [
                "SELECT count(*) FROM t",
                "DECLARE k CURSOR FOR SELECT * FROM t; FETCH 1 FROM k",
                "PREPARE q AS SELECT count(*) FROM t; EXECUTE q",
                "INSERT INTO c VALUES (1, 1)",
            ] {
                run(&mut reader, &format!("DEALLOCATE ALL; {TABLES}"));
                run(
                    &mut reader,
                    &format!("BEGIN ISOLATION LEVEL {level}; {read}"),
                );
                let waits = begin_to_wait(&sql, other, change.to_owned());
                let count = run(&mut reader, "SELECT count(*) FROM t");
                assert_eq!(count.as_deref(), Some("3"), "{change} beside {read}");
                run(&mut reader, "ROLLBACK");
                let state;
                (other, state) = waits.join().unwrap();
                assert_eq!(state, "", "{change}");
            }
        }
    }
}

/// Stricter than PostgreSQL, which sees the rows where it does not write them anew, and otherwise
/// none.
#[test]
fn a_snapshot_from_before_a_change_is_refused_the_table() {
    let (_scratch, _sql, mut old, mut other) = tables("definitions-snapshot");
    for change in CHANGES.iter().filter(|change| !change.starts_with("DROP")) {
        for statement in [
            "SELECT count(*) FROM t",
            "UPDATE t SET id = id + 10",
            "INSERT INTO c VALUES (1, 1)",
            "INSERT INTO o SELECT count(*) FROM t",
            "SELECT * FROM t FOR UPDATE",
        ] {
            run(&mut old, TABLES);
            run(
                &mut old,
                "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM o",
            );
            run(&mut other, change);
            assert_eq!(
                state_of(&mut old, statement),
                "40001",
                "{change}; {statement}"
            );
            run(&mut old, "ROLLBACK");
        }
    }
    // Own changes are none of others, and neither is a table that is new.
    let (_scratch, _sql, mut own, mut other) = tables("definitions-own");
    run(
        &mut own,
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t",
    );
    run(
        &mut other,
        "CREATE TABLE late (n int); ALTER TABLE o ADD x int",
    );
    assert_eq!(
        run(&mut own, "SELECT count(*) FROM late").as_deref(),
        Some("0")
    );
    run(&mut own, "ALTER TABLE t ADD COLUMN w int; TRUNCATE c");
    assert_eq!(
        run(&mut own, "SELECT count(*) FROM t").as_deref(),
        Some("3")
    );
    run(&mut own, "COMMIT");
}

#[test]
fn a_statement_that_waits_for_a_change_uses_the_new_table() {
    for (change, statement, expected) in [
        (
            "ALTER TABLE t ADD COLUMN w int DEFAULT 4",
            "SELECT * FROM t FOR UPDATE",
            "3",
        ),
        (
            "ALTER TABLE t ADD COLUMN w int DEFAULT 4",
            "INSERT INTO c VALUES (1, 1)",
            "3",
        ),
        ("ALTER TABLE t ADD COLUMN w int DEFAULT 4", "EXECUTE q", "3"),
        (
            "ALTER TABLE t ADD COLUMN w int DEFAULT 4",
            "SELECT count(*) FROM t",
            "3",
        ),
        (
            "ALTER TABLE t ADD COLUMN w int DEFAULT 4",
            "LOCK TABLE t IN SHARE MODE",
            "3",
        ),
        (
            "ALTER TABLE t ADD COLUMN w int DEFAULT 4",
            "COPY t TO STDOUT",
            "3",
        ),
        (
            "TRUNCATE t CASCADE; INSERT INTO t VALUES (8, 8)",
            "SELECT * FROM t FOR UPDATE",
            "1",
        ),
        (
            "DROP TABLE t CASCADE; CREATE TABLE t (id int PRIMARY KEY, v int)",
            "SELECT * FROM t FOR UPDATE",
            "0",
        ),
        (
            "LOCK TABLE t IN ACCESS EXCLUSIVE MODE; DELETE FROM t",
            "SELECT * FROM t WHERE id = 1",
            "0",
        ),
    ] {
        let (_scratch, sql, mut holder, mut waiter) = tables("definitions-wait");
        run(
            &mut waiter,
            "PREPARE q AS SELECT id FROM t WHERE id = 1 FOR UPDATE",
        );
        run(&mut holder, &format!("BEGIN; {change}"));
        run(&mut waiter, "BEGIN");
        let waits = begin_to_wait(&sql, waiter, statement.to_owned());
        run(&mut holder, "COMMIT");
        let (mut waiter, state) = waits.join().unwrap();
        assert_eq!(state, "", "{statement} beside {change}");
        let count = run(&mut waiter, "SELECT count(*) FROM t");
        assert_eq!(
            count.as_deref(),
            Some(expected),
            "{statement} beside {change}"
        );
        // The table that it has is the one that others would have to wait for.
        let waits = begin_to_wait(&sql, holder, "DROP TABLE t CASCADE".to_owned());
        run(&mut waiter, "ROLLBACK");
        assert_eq!(waits.join().unwrap().1, "");
    }
}

/// A row that was locked in the table that a change has replaced was locked in vain.
#[test]
fn an_update_beside_a_lock_after_a_change_is_not_lost() {
    let (_scratch, sql, mut holder, mut locker) = tables("definitions-lost");
    run(
        &mut holder,
        "BEGIN; ALTER TABLE t ADD COLUMN w int DEFAULT 4",
    );
    run(&mut locker, "BEGIN");
    let waits = begin_to_wait(
        &sql,
        locker,
        "SELECT v FROM t WHERE id = 1 FOR UPDATE".to_owned(),
    );
    run(&mut holder, "COMMIT");
    let (mut locker, state) = waits.join().unwrap();
    assert_eq!(state, "");
    let update = "UPDATE t SET v = v + 100 WHERE id = 1";
    let waits = begin_to_wait(&sql, holder, update.to_owned());
    run(&mut locker, "UPDATE t SET v = 1 + 1 WHERE id = 1; COMMIT");
    let (mut holder, _) = waits.join().unwrap();
    let value = run(&mut holder, "SELECT v FROM t WHERE id = 1");
    assert_eq!(value.as_deref(), Some("102"));
}

/// A rollback to a savepoint, or a statement that fails, lets others define things again.
#[test]
fn a_definition_that_is_undone_keeps_nobody_waiting() {
    let (_scratch, _sql, mut one, mut two) = tables("definitions-undone");
    run(&mut two, "SET lock_timeout = '10s'");
    for undone in [
        "ALTER TABLE t ADD COLUMN w int",
        "CREATE TABLE t2 (n int); TRUNCATE t CASCADE",
        "LOCK TABLE t IN ACCESS EXCLUSIVE MODE",
        "CREATE UNIQUE INDEX ON t (v)",
    ] {
        run(
            &mut one,
            &format!("BEGIN; INSERT INTO o VALUES (1); SAVEPOINT s; {undone}"),
        );
        run(&mut one, "ROLLBACK TO s");
        run(
            &mut two,
            "INSERT INTO t VALUES (9, 9); DELETE FROM t WHERE id = 9",
        );
        run(
            &mut two,
            "ALTER TABLE t ADD COLUMN z int; ALTER TABLE t DROP COLUMN z",
        );
        run(&mut two, "CREATE TABLE other (n int); DROP TABLE other");
        // The transaction sees what others have defined meanwhile, and may define again.
        run(&mut two, "CREATE TABLE seen (n int)");
        run(
            &mut one,
            "INSERT INTO seen VALUES (1); ALTER TABLE seen ADD COLUMN m int; COMMIT",
        );
        let count = run(&mut two, "SELECT count(m) + count(*) FROM seen");
        assert_eq!(count.as_deref(), Some("1"), "{undone}");
        run(&mut two, "DROP TABLE seen");
        let count = run(&mut one, "SELECT count(v) FROM t");
        assert_eq!(count.as_deref(), Some("3"), "{undone}");
    }
}

#[test]
fn locks_of_tables_exclude_those_of_postgresql() {
    let modes = [
        "ACCESS SHARE",
        "ROW SHARE",
        "ROW EXCLUSIVE",
        "SHARE UPDATE EXCLUSIVE",
        "SHARE",
        "SHARE ROW EXCLUSIVE",
        "EXCLUSIVE",
        "ACCESS EXCLUSIVE",
    ];
    // The first mode of each row that it excludes, and those after it; SHARE lets itself in.
    let excluded = |one: usize, other: usize| match one {
        0 => other == 7,
        1 => other >= 6,
        2 => other >= 4,
        3 => other >= 3,
        4 => other >= 5 || other == 2 || other == 3,
        5 => other >= 2,
        6 => other >= 1,
        _ => true,
    };
    let (_scratch, _sql, mut one, mut two) = tables("definitions-modes");
    for (at, mode) in modes.iter().enumerate() {
        for (other_at, other) in modes.iter().enumerate() {
            run(&mut one, &format!("BEGIN; LOCK TABLE t IN {mode} MODE"));
            run(&mut two, "BEGIN");
            let state = state_of(&mut two, &format!("LOCK TABLE t IN {other} MODE NOWAIT"));
            let expected = if excluded(at, other_at) { "55P03" } else { "" };
            assert_eq!(state, expected, "{other} beside {mode}");
            run(&mut two, "ROLLBACK");
            run(&mut one, "ROLLBACK");
        }
    }
    // Statements take the modes of PostgreSQL.
    for (statement, mode) in [
        ("SELECT count(*) FROM t", "AccessShareLock"),
        ("UPDATE t SET v = v", "RowExclusiveLock"),
        ("ALTER TABLE t ADD z int", "AccessExclusiveLock"),
    ] {
        run(&mut one, &format!("BEGIN; {statement}"));
        let locks = "SELECT string_agg(DISTINCT mode, ' ') FROM pg_locks \
            WHERE relation = 't'::regclass AND granted";
        let held = run(&mut one, locks);
        assert!(held.is_some_and(|held| held.contains(mode)), "{statement}");
        run(&mut one, "ROLLBACK");
    }
}
