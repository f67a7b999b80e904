//! Keys of two sessions.
//!
//! Never do both give rows the same unique key and commit, whatever their isolations and the
//! moments of the checks; and never does a row go that another one refers to.

use crate::between::{Last, run};
use crate::scratch::Scratch;
use sql::types::Context;
use sql::{Batch, Completion, Flow, OutputColumn, RowSink, Session, Sql, SqlError};
use std::sync::Arc;
use std::time::Duration;

/// The state of the error of a statement, or nothing.
pub(crate) fn state_of(session: &mut Session, text: &str) -> String {
    let outcome = session.simple(text, &mut Last::default());
    outcome.map_or_else(|error| error.state.0.to_owned(), |()| String::new())
}

/// Begins a statement that waits for another session; the session comes back with the state of its
/// error.
pub(crate) fn begin_to_wait(
    sql: &Arc<Sql>,
    mut waiter: Session,
    text: String,
) -> std::thread::JoinHandle<(Session, String)> {
    let (number, shown) = (waiter.number(), text.clone());
    let waits = std::thread::spawn(move || {
        let state = state_of(&mut waiter, &text);
        (waiter, state)
    });
    let mut other = sql.connect().unwrap();
    let blocking = format!("SELECT pg_blocking_pids({number})");
    while run(&mut other, &blocking) == Some("{}".to_owned()) {
        assert!(!waits.is_finished(), "it was to wait: {shown}");
        std::thread::sleep(Duration::from_millis(5));
    }
    waits
}

const ISOLATIONS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

#[test]
fn a_key_that_two_sessions_give_is_committed_once() {
    let (_scratch, sql) = Scratch::open("keys-once");
    let mut one = sql.connect().unwrap();
    for isolation in ISOLATIONS {
        for (initially, is_late) in [("IMMEDIATE", false), ("DEFERRED", true)] {
            for (end, expected) in [("COMMIT", "23505"), ("ROLLBACK", "")] {
                let case = format!("{isolation} {initially} {end}");
                run(
                    &mut one,
                    &format!(
                        "DROP TABLE IF EXISTS t; \
                         CREATE TABLE t (k int UNIQUE DEFERRABLE INITIALLY {initially}, n int)"
                    ),
                );
                let mut two = sql.connect().unwrap();
                let begin = format!("BEGIN ISOLATION LEVEL {isolation}; SELECT count(*) FROM t");
                run(&mut one, &begin);
                run(&mut two, &begin);
                run(&mut one, "INSERT INTO t VALUES (1, 1)");
                let insert = "INSERT INTO t VALUES (1, 2)";
                let waits = if is_late {
                    // It does not wait before it has to.
                    run(&mut two, insert);
                    begin_to_wait(&sql, two, "COMMIT".to_owned())
                } else {
                    begin_to_wait(&sql, two, insert.to_owned())
                };
                run(&mut one, end);
                let (mut two, state) = waits.join().unwrap();
                // A transaction that has seen that there is no such row may be told so instead.
                let is_expected = state == expected
                    || (isolation == "SERIALIZABLE" && end == "COMMIT" && state == "40001");
                assert!(is_expected, "{case}: {state}");
                if !is_late {
                    run(&mut two, "COMMIT");
                }
                let count = run(&mut one, "SELECT count(*) FROM t");
                assert_eq!(count.as_deref(), Some("1"), "{case}");
            }
        }
    }
}

#[test]
fn a_key_that_is_being_freed_is_waited_for() {
    let (_scratch, sql) = Scratch::open("keys-freed");
    let mut one = sql.connect().unwrap();
    for change in ["DELETE FROM t", "UPDATE t SET k = 2"] {
        for (end, expected) in [("COMMIT", ""), ("ROLLBACK", "23505")] {
            run(
                &mut one,
                "DROP TABLE IF EXISTS t; CREATE TABLE t (k int PRIMARY KEY DEFERRABLE); \
                 INSERT INTO t VALUES (1)",
            );
            let two = sql.connect().unwrap();
            run(&mut one, &format!("BEGIN; {change}"));
            let waits = begin_to_wait(&sql, two, "INSERT INTO t VALUES (1)".to_owned());
            run(&mut one, end);
            let (_, state) = waits.join().unwrap();
            assert_eq!(state, expected, "{change} {end}");
        }
    }
}

#[test]
fn a_prepared_transaction_keeps_its_keys() {
    let (_scratch, sql) = Scratch::open("keys-prepared");
    let mut one = sql.connect().unwrap();
    for (end, expected) in [("COMMIT", "23505"), ("ROLLBACK", "")] {
        run(
            &mut one,
            "DROP TABLE IF EXISTS t; \
             CREATE TABLE t (k int UNIQUE DEFERRABLE INITIALLY DEFERRED)",
        );
        let two = sql.connect().unwrap();
        run(
            &mut one,
            "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'p'",
        );
        let waits = begin_to_wait(&sql, two, "INSERT INTO t VALUES (1)".to_owned());
        run(&mut one, &format!("{end} PREPARED 'p'"));
        let (_, state) = waits.join().unwrap();
        assert_eq!(state, expected, "{end}");
    }
}

/// A row that was committed after the snapshot of the other transaction keeps what it refers to.
#[test]
fn a_reference_that_a_snapshot_does_not_show_is_kept() {
    let (_scratch, sql) = Scratch::open("keys-references");
    let (mut one, mut two) = (sql.connect().unwrap(), sql.connect().unwrap());
    for isolation in ISOLATIONS {
        // PostgreSQL has the same states.
        for (action, expected) in [("NO ACTION", "23503"), ("CASCADE", "40001")] {
            let case = format!("{isolation} {action}");
            run(
                &mut one,
                &format!(
                    "DROP TABLE IF EXISTS c, p; CREATE TABLE p (k int PRIMARY KEY); \
                     CREATE TABLE c (k int REFERENCES p ON DELETE {action}); \
                     INSERT INTO p VALUES (1)"
                ),
            );
            let begin = format!("BEGIN ISOLATION LEVEL {isolation}; SELECT count(*) FROM c");
            run(&mut one, &begin);
            run(&mut two, "INSERT INTO c VALUES (1)");
            let state = state_of(&mut one, "DELETE FROM p");
            let is_expected = state == expected
                || isolation == "READ COMMITTED" && action == "CASCADE" && state.is_empty();
            assert!(is_expected, "{case}: {state}");
            state_of(&mut one, "COMMIT");
            let orphans = "SELECT count(*) FROM c WHERE k NOT IN (SELECT k FROM p)";
            assert_eq!(run(&mut one, orphans).as_deref(), Some("0"), "{case}");
        }
    }
}

/// Statements that were reported as complete.
#[derive(Default)]
struct Completions(usize);

impl RowSink for Completions {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, _: &Batch, _: &Context<'_>) -> Result<Flow, SqlError> {
        Ok(Flow::More)
    }

    fn complete(&mut self, _: &Completion) -> Result<(), SqlError> {
        self.0 += 1;
        Ok(())
    }
}

#[test]
fn a_statement_is_complete_when_its_transaction_has_committed() {
    let (_scratch, sql) = Scratch::open("keys-complete");
    let mut session = sql.connect().unwrap();
    let table = "CREATE TABLE t (a integer UNIQUE DEFERRABLE INITIALLY DEFERRED)";
    run(&mut session, table);
    let mut told = Completions::default();
    session
        .simple("INSERT INTO t VALUES (1)", &mut told)
        .unwrap();
    assert_eq!(told.0, 1);
    for text in [
        "INSERT INTO t VALUES (1)",
        "SELECT 1; INSERT INTO t VALUES (1)",
    ] {
        let mut told = Completions::default();
        let error = session.simple(text, &mut told).unwrap_err();
        let before = text.matches(';').count();
        assert_eq!((error.state.0, told.0), ("23505", before));
    }
}
