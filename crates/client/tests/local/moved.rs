//! Goal: a row that another transaction moves to another key or partition is not passed over by a
//! statement that saw it where it was.
//!
//! Method: a session waits in a thread for the lock of the row, or has it in its snapshot; the
//! outcomes are those of a PostgreSQL 15.

use crate::between::run;
use crate::keys::{begin_to_wait, state_of};
use crate::scratch::Scratch;

const MOVED: &str = "40001";

/// The moving transaction ends while the other one waits for its row.
#[test]
fn a_row_that_goes_to_another_partition_is_an_error_for_those_who_wait() {
    let (_scratch, sql) = Scratch::open("moved-partition");
    let mut one = sql.connect().unwrap();
    for keys in ["", ", PRIMARY KEY (a, b)"] {
        for statement in [
            "UPDATE t SET c = 7 WHERE b = 1",
            "UPDATE t SET c = 7 WHERE a = 1 AND b = 1",
            "DELETE FROM t WHERE a = 1 AND b = 1",
            "SELECT * FROM t1 WHERE b = 1 FOR UPDATE",
        ] {
            for (end, expected) in [("COMMIT", MOVED), ("ROLLBACK", "")] {
                run(
                    &mut one,
                    &format!(
                        "DROP TABLE IF EXISTS t; \
                         CREATE TABLE t (a int, b int, c int{keys}) PARTITION BY LIST (a); \
                         CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1); \
                         CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2); \
                         INSERT INTO t VALUES (1, 1, 1), (1, 2, 2)"
                    ),
                );
                run(&mut one, "BEGIN; UPDATE t SET a = 2 WHERE b = 1");
                let two = sql.connect().unwrap();
                let waits = begin_to_wait(&sql, two, statement.to_owned());
                run(&mut one, end);
                let (_, state) = waits.join().unwrap();
                assert_eq!(state, expected, "{statement} {keys} {end}");
            }
        }
        // A row that is deleted is gone for all, and one whose move was undone is there.
        let statement = "UPDATE t SET c = 7 WHERE b = 2";
        run(&mut one, "BEGIN; DELETE FROM t WHERE b = 2");
        let waits = begin_to_wait(&sql, sql.connect().unwrap(), statement.to_owned());
        run(&mut one, "COMMIT");
        assert_eq!(waits.join().unwrap().1, "");
    }
}

/// An update of all rows passed those over whose primary key changed meanwhile.
#[test]
fn a_row_with_a_new_key_is_changed_where_it_is() {
    let (_scratch, sql) = Scratch::open("moved-key");
    let mut one = sql.connect().unwrap();
    for (statement, expected) in [
        ("UPDATE t SET v = v + 10", "2:11 7:11"),
        ("UPDATE t SET v = v + 10 WHERE id = 1", "2:1 7:1"),
        ("DELETE FROM t WHERE v = 1", ""),
        ("UPDATE t SET id = id + 20", "22:1 27:1"),
    ] {
        run(
            &mut one,
            "DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v int); \
             INSERT INTO t VALUES (1, 1), (2, 1)",
        );
        run(&mut one, "BEGIN; UPDATE t SET id = 7 WHERE id = 1");
        let waits = begin_to_wait(&sql, sql.connect().unwrap(), statement.to_owned());
        run(&mut one, "COMMIT");
        assert_eq!(waits.join().unwrap().1, "", "{statement}");
        let rows = run(
            &mut one,
            "SELECT coalesce(string_agg(id || ':' || v, ' ' ORDER BY id), '') FROM t",
        );
        assert_eq!(rows.as_deref(), Some(expected), "{statement}");
    }
}

/// Above read committed any change of a row is an error, and a new statement sees where it is.
#[test]
fn moves_are_errors_above_read_committed() {
    let (_scratch, sql) = Scratch::open("moved-levels");
    let (mut one, mut two) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut one,
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)",
    );
    run(
        &mut two,
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t",
    );
    run(&mut one, "UPDATE t SET id = 7");
    assert_eq!(state_of(&mut two, "UPDATE t SET v = 3"), MOVED);
    run(&mut two, "ROLLBACK; UPDATE t SET v = 3");
    let row = run(&mut one, "SELECT id || ':' || v FROM t");
    assert_eq!(row.as_deref(), Some("7:3"));
}

/// A row that got another key does not meet a condition on the key, whatever the strength of the
/// lock: `FOR KEY SHARE` returns what it has seen only where the keys are the same.
#[test]
fn a_locking_read_tests_its_condition_on_the_new_key() {
    let (_scratch, sql) = Scratch::open("moved-read");
    let mut one = sql.connect().unwrap();
    for strength in ["KEY SHARE", "SHARE", "NO KEY UPDATE", "UPDATE"] {
        for (condition, expected) in [("id = 1", ""), ("v > 0", "2 7")] {
            run(
                &mut one,
                "DROP TABLE IF EXISTS t, seen; CREATE TABLE t (id int PRIMARY KEY, v int); \
                 CREATE TABLE seen (id int); INSERT INTO t VALUES (1, 1), (2, 1)",
            );
            run(
                &mut one,
                "BEGIN; UPDATE t SET v = 2 WHERE id = 1; UPDATE t SET id = 7 WHERE id = 1",
            );
            let statement =
                format!("INSERT INTO seen SELECT id FROM t WHERE {condition} FOR {strength}");
            let waits = begin_to_wait(&sql, sql.connect().unwrap(), statement.clone());
            run(&mut one, "COMMIT");
            assert_eq!(waits.join().unwrap().1, "", "{statement}");
            let seen = run(
                &mut one,
                "SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), '') FROM seen",
            );
            assert_eq!(seen.as_deref(), Some(expected), "{statement}");
        }
    }
}
