//! Statements that wait for another transaction, and find other rows or definitions after that.
//!
//! A session waits in a thread of its own; the test goes on when the database says that it does.

use crate::between::{Last, run};
use crate::scratch::Scratch;
use sql::types::Context;
use sql::{Batch, CopyShape, Flow, OutputColumn, RowSink, Session, Sql, SqlError};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The state of an error; empty if a statement has none.
fn state_of(outcome: Result<(), SqlError>) -> String {
    outcome.map_or_else(|error| error.state.0.to_owned(), |()| String::new())
}

pub(crate) fn state(session: &mut Session, text: &str) -> String {
    state_of(session.simple(text, &mut Last::default()))
}

/// A client that copies the row `3, -5`.
#[derive(Default)]
struct Copies(bool);

impl RowSink for Copies {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, _: &Batch, _: &Context<'_>) -> Result<Flow, SqlError> {
        Ok(Flow::More)
    }

    fn copy_begins(&mut self, _: &CopyShape) -> Result<(), SqlError> {
        Ok(())
    }

    fn copy_in(&mut self, data: &mut Vec<u8>) -> Result<bool, SqlError> {
        if std::mem::replace(&mut self.0, true) {
            return Ok(false);
        }
        data.extend_from_slice(b"3\t-5\n");
        Ok(true)
    }
}

/// Runs a text in another thread, until it waits for a lock.
pub(crate) fn waits(
    sql: &Arc<Sql>,
    mut session: Session,
    body: impl FnOnce(&mut Session) -> String + Send + 'static,
) -> JoinHandle<String> {
    let number = session.number();
    let thread = std::thread::spawn(move || body(&mut session));
    let mut other = sql.connect().unwrap();
    let blocking = format!("SELECT pg_blocking_pids({number})");
    while run(&mut other, &blocking) == Some("{}".to_owned()) && !thread.is_finished() {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(!thread.is_finished(), "it waits");
    thread
}

/// A row was deleted to which a table refers that was made during the wait.
#[test]
fn rows_to_which_new_tables_refer_stay() {
    for define in [
        "CREATE TABLE new (r int REFERENCES p)",
        "CREATE TABLE new PARTITION OF above FOR VALUES IN (1)",
        "ALTER TABLE new ADD FOREIGN KEY (r) REFERENCES p NOT VALID",
    ] {
        for change in ["DELETE FROM p", "UPDATE p SET id = 5"] {
            let (_scratch, sql) = Scratch::open("waits-references");
            let (mut holder, waiter) = (sql.connect().unwrap(), sql.connect().unwrap());
            run(&mut holder, "CREATE TABLE p (id int PRIMARY KEY)");
            run(&mut holder, "INSERT INTO p VALUES (1)");
            if define.contains("above") {
                let above = "CREATE TABLE above (r int REFERENCES p) PARTITION BY LIST (r)";
                run(&mut holder, above);
            } else if define.contains("ALTER") {
                run(&mut holder, "CREATE TABLE new (r int)");
            }
            run(&mut holder, "BEGIN");
            run(&mut holder, define);
            run(&mut holder, "INSERT INTO new VALUES (1)");
            let waiter = waits(&sql, waiter, move |session| state(session, change));
            run(&mut holder, "COMMIT");
            assert_eq!(waiter.join().unwrap(), "23503", "{define}; {change}");
        }
    }
}

/// A plan that was made before the wait does not know the constraint.
#[test]
fn rows_keep_to_constraints_that_were_made_meanwhile() {
    type Body = fn(&mut Session) -> String;
    let insert: Body = |session| state(session, "INSERT INTO t VALUES (3, -5)");
    let execute: Body = |session| state(session, "EXECUTE ins(3, -5)");
    let copy: Body =
        |session| state_of(session.simple("COPY t FROM STDIN", &mut Copies::default()));
    let explain: Body = |session| state(session, "EXPLAIN ANALYZE INSERT INTO t VALUES (3, -5)");
    for body in [insert, execute, copy, explain] {
        let (_scratch, sql) = Scratch::open("waits-plans");
        let (mut holder, mut waiter) = (sql.connect().unwrap(), sql.connect().unwrap());
        run(&mut holder, "CREATE TABLE t (id int PRIMARY KEY, x int)");
        run(&mut waiter, "PREPARE ins AS INSERT INTO t VALUES ($1, $2)");
        for row in ["(1, 1)", "(2, 1)"] {
            run(&mut waiter, &format!("INSERT INTO t VALUES {row}"));
            run(
                &mut waiter,
                &format!("DELETE FROM t WHERE id = {}", &row[1..2]),
            );
            run(&mut waiter, &format!("EXECUTE ins{row}"));
        }
        run(&mut holder, "BEGIN; ALTER TABLE t ADD CHECK (x > 0)");
        let thread = waits(&sql, waiter, body);
        run(&mut holder, "COMMIT");
        assert_eq!(thread.join().unwrap(), "23514");
    }
}

/// Each pair of rows is tested again, as none of them has changed the row yet.
#[test]
fn another_row_of_from_may_still_meet_a_row_that_has_changed() {
    let (_scratch, sql) = Scratch::open("waits-pairs");
    let (mut holder, waiter) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut holder,
        "CREATE TABLE t (id int PRIMARY KEY, x int, note text);
         CREATE TABLE s (id int, lim int, val text);
         INSERT INTO t VALUES (1, 1, ''); INSERT INTO s VALUES (1, 5, 'a'), (1, 100, 'b')",
    );
    run(&mut holder, "BEGIN; UPDATE t SET x = 50 WHERE id = 1");
    let thread = waits(&sql, waiter, |session| {
        state(
            session,
            "UPDATE t SET note = s.val FROM s WHERE t.id = s.id AND t.x < s.lim",
        )
    });
    run(&mut holder, "COMMIT");
    assert_eq!(thread.join().unwrap(), "");
    assert_eq!(run(&mut holder, "SELECT note FROM t").as_deref(), Some("b"));
}

/// The rows of the tables below are locked, and no others than those that are read.
#[test]
fn rows_of_views_and_queries_are_locked() {
    let (_scratch, sql) = Scratch::open("waits-views");
    let (mut holder, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut holder,
        "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3);
         CREATE VIEW v AS SELECT n AS m, id AS i FROM t; CREATE VIEW w AS SELECT i FROM v WHERE m < 9;
         CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id);
         CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (9); INSERT INTO p VALUES (1), (2);
         CREATE VIEW vp AS SELECT id AS i FROM p",
    );
    for (query, table) in [
        ("SELECT * FROM w WHERE i = 1 FOR UPDATE", "t"),
        ("SELECT * FROM v AS x WHERE i < 2 FOR UPDATE OF x", "t"),
        (
            "SELECT * FROM (SELECT id FROM t) q WHERE id = 1 FOR UPDATE",
            "t",
        ),
        ("(SELECT * FROM t WHERE id = 1) FOR UPDATE", "t"),
        ("SELECT * FROM vp WHERE i = 1 FOR UPDATE", "p"),
    ] {
        run(&mut holder, &format!("BEGIN; {query}"));
        for (id, answer) in [(1, "55P03"), (2, "")] {
            let text = format!("SELECT 1 FROM {table} WHERE id = {id} FOR UPDATE NOWAIT");
            assert_eq!(state(&mut other, &text), answer, "{query}, row {id}");
        }
        run(&mut holder, "COMMIT");
    }
    run(&mut holder, "BEGIN; UPDATE t SET n = 20 WHERE id = 2");
    let waiter = sql.connect().unwrap();
    let thread = waits(&sql, waiter, |session| {
        let ids = run(
            session,
            "SELECT string_agg(i::text, ',') FROM (SELECT i FROM v WHERE m < 9 FOR UPDATE) q",
        );
        ids.unwrap_or_default()
    });
    run(&mut holder, "COMMIT");
    assert_eq!(thread.join().unwrap(), "1,3");
}

/// The condition of a join counts as one of `WHERE`.
#[test]
fn a_row_that_changes_meanwhile_meets_its_join_again() {
    for join in [
        "JOIN c ON c.id = v.x AND c.a < 50",
        "JOIN c ON c.id = v.x AND c.a = v.x",
        "LEFT JOIN c ON c.id = v.x AND c.a = v.x WHERE c.a > 0",
    ] {
        let (_scratch, sql) = Scratch::open("waits-joins");
        let (mut holder, waiter) = (sql.connect().unwrap(), sql.connect().unwrap());
        run(
            &mut holder,
            "CREATE TABLE c (id int PRIMARY KEY, a int); CREATE TABLE v (x int PRIMARY KEY); \
             INSERT INTO c VALUES (4, 4), (5, 5); INSERT INTO v VALUES (4), (5)",
        );
        run(&mut holder, "BEGIN; UPDATE c SET a = 77 WHERE id = 5");
        let text = format!(
            "SELECT string_agg(id::text, ',') \
             FROM (SELECT c.id FROM v {join} FOR UPDATE OF c) s"
        );
        let found = waits(&sql, waiter, move |session| {
            run(session, &text).unwrap_or_default()
        });
        run(&mut holder, "COMMIT");
        assert_eq!(found.join().unwrap(), "4", "{join}");
    }
}

/// A row that others refer to is changed without a wait for them, as long as its keys keep their
/// values: those of an index over an expression or a part of the rows, too.
#[test]
fn a_row_with_the_same_keys_is_changed_beside_references_to_it() {
    let (_scratch, sql) = Scratch::open("waits-same-keys");
    let (mut one, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut one,
        "CREATE TABLE u (id int PRIMARY KEY, email text, n int DEFAULT 0, live bool DEFAULT true); \
         CREATE UNIQUE INDEX ON u (lower(email)); CREATE UNIQUE INDEX ON u (n) WHERE NOT live; \
         CREATE TABLE o (u int REFERENCES u); INSERT INTO u VALUES (1, 'A'), (2, 'B')",
    );
    run(&mut one, "BEGIN; INSERT INTO o VALUES (1)");
    run(&mut other, "BEGIN; INSERT INTO o VALUES (1)");
    for (text, answer) in [
        ("UPDATE u SET n = n + 1 WHERE id = 1", ""),
        ("UPDATE u SET n = n + 1, live = true WHERE n = 1", ""),
        (
            "SAVEPOINT s; UPDATE u SET email = 'C' WHERE id = 1",
            "55P03",
        ),
    ] {
        run(&mut one, "SET lock_timeout = '100ms'");
        assert_eq!(state(&mut one, text), answer, "{text}");
    }
    run(&mut one, "ROLLBACK TO s; COMMIT");
    run(&mut other, "UPDATE u SET email = 'a' WHERE id = 1; COMMIT");
    let found = run(
        &mut one,
        "SELECT n || email FROM u WHERE lower(email) = 'a'",
    );
    assert_eq!(found.as_deref(), Some("2a"));
    assert_eq!(state(&mut one, "INSERT INTO u VALUES (3, 'A')"), "23505");
}

/// A parent that is committed while the statement waits for another one is there.
#[test]
fn references_are_looked_up_after_each_wait() {
    let (_scratch, sql) = Scratch::open("waits-parents");
    let (mut holder, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut holder,
        "CREATE TABLE p (id int PRIMARY KEY); INSERT INTO p VALUES (1), (2); \
         CREATE TABLE c (a int REFERENCES p, b int REFERENCES p)",
    );
    for (parent, rows) in [(3, "(1, 1), (3, 3)"), (4, "(1, 4)")] {
        run(&mut holder, "BEGIN; DELETE FROM p WHERE id = 1");
        let insert = format!("INSERT INTO c VALUES {rows}");
        let waiter = sql.connect().unwrap();
        let thread = waits(&sql, waiter, move |session| state(session, &insert));
        run(&mut other, &format!("INSERT INTO p VALUES ({parent})"));
        run(&mut holder, "ROLLBACK");
        assert_eq!(thread.join().unwrap(), "", "{rows}");
        run(&mut other, "DELETE FROM c");
    }
    assert_eq!(state(&mut other, "INSERT INTO c VALUES (1, 5)"), "23503");
}

/// The errors of three insertions of one key that wait for a transaction, which ends like this; the
/// rows are deleted then.
fn ends_of_waiters(sql: &Arc<Sql>, holder: &mut Session, end: &str) -> [String; 3] {
    let threads = [1, 2, 3].map(|id| {
        let insert = format!("INSERT INTO t VALUES ({id}, 0)");
        waits(sql, sql.connect().unwrap(), move |session| {
            state(session, &insert)
        })
    });
    run(holder, end);
    let ended = threads.map(|thread| thread.join().unwrap());
    run(holder, "DELETE FROM t WHERE id > 0");
    ended
}

/// Those who wait for the end of a transaction find no unique index any more that it has dropped.
#[test]
fn an_index_that_is_dropped_counts_for_nobody_who_has_waited() {
    let (_scratch, sql) = Scratch::open("waits-dropped");
    let mut holder = sql.connect().unwrap();
    run(
        &mut holder,
        "CREATE TABLE t (id int PRIMARY KEY, k int); INSERT INTO t VALUES (0, 0)",
    );
    for round in 0..10 {
        run(&mut holder, "ALTER TABLE t ADD CONSTRAINT u UNIQUE (k)");
        run(&mut holder, "BEGIN; ALTER TABLE t DROP CONSTRAINT u");
        let ended = ends_of_waiters(&sql, &mut holder, "COMMIT");
        assert_eq!(ended, ["", "", ""], "round {round}");
    }
}

/// An index counts for nobody once its transaction, or a part of it, is undone.
#[test]
fn an_index_that_is_undone_counts_for_nobody() {
    let (_scratch, sql) = Scratch::open("waits-undone");
    let (mut holder, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut holder,
        "CREATE TABLE t (id int PRIMARY KEY, k int); INSERT INTO t VALUES (0, 0)",
    );
    run(&mut other, "SET lock_timeout = '10s'");
    for (text, answer) in [
        (
            "BEGIN; CREATE UNIQUE INDEX u ON t (k); SELECT 1 / 0",
            "22012",
        ),
        (
            "BEGIN; SAVEPOINT s; CREATE UNIQUE INDEX u ON t (k); ROLLBACK TO s",
            "",
        ),
        (
            "BEGIN; SAVEPOINT s; \
             ALTER TABLE t ADD CONSTRAINT u UNIQUE (k), ADD CONSTRAINT c CHECK (k > 0)",
            "23514",
        ),
    ] {
        assert_eq!(state(&mut holder, text), answer, "{text}");
        let insert = "INSERT INTO t VALUES (1, 0)";
        assert_eq!(state(&mut other, insert), "", "{text}");
        run(&mut holder, "ROLLBACK; DELETE FROM t WHERE id > 0");
    }
    for round in 0..10 {
        run(&mut holder, "BEGIN; CREATE UNIQUE INDEX u ON t (k)");
        let ended = ends_of_waiters(&sql, &mut holder, "ROLLBACK");
        assert_eq!(ended, ["", "", ""], "round {round}");
    }
}

/// A check that is put off waits for others at the commit, and not at the statement.
#[test]
fn references_that_are_put_off_wait_at_the_commit() {
    for (end, answer) in [("ROLLBACK", ""), ("COMMIT", "23503")] {
        let (_scratch, sql) = Scratch::open("waits-put-off");
        let (mut holder, mut waiter) = (sql.connect().unwrap(), sql.connect().unwrap());
        run(
            &mut holder,
            "CREATE TABLE p (id int PRIMARY KEY); INSERT INTO p VALUES (1); \
             CREATE TABLE c (id int, pid int REFERENCES p INITIALLY DEFERRED)",
        );
        run(&mut holder, "BEGIN; DELETE FROM p WHERE id = 1");
        run(&mut waiter, "BEGIN; INSERT INTO c VALUES (1, 1)");
        let thread = waits(&sql, waiter, |session| state(session, "COMMIT"));
        run(&mut holder, end);
        assert_eq!(thread.join().unwrap(), answer);
    }
}

/// A row that has not committed is not there; one that has changed is waited for.
#[test]
fn changes_by_key_do_not_wait_for_new_rows() {
    let (_scratch, sql) = Scratch::open("waits-new-rows");
    let (mut holder, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut holder,
        "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)",
    );
    run(
        &mut holder,
        "BEGIN; INSERT INTO t VALUES (7, 7); UPDATE t SET v = 2 WHERE id = 1",
    );
    run(&mut other, "SET lock_timeout = '100ms'");
    for (text, answer) in [
        ("UPDATE t SET v = 3 WHERE id = 7", ""),
        ("DELETE FROM t WHERE id = 7", ""),
        ("UPDATE t SET v = 3 WHERE id = 1", "55P03"),
    ] {
        assert_eq!(state(&mut other, text), answer, "{text}");
    }
    let thread = waits(&sql, sql.connect().unwrap(), |session| {
        run(session, "UPDATE t SET v = v * 5 WHERE id = 1 RETURNING v").unwrap_or_default()
    });
    run(&mut holder, "COMMIT");
    assert_eq!(thread.join().unwrap(), "10");
    let found = run(&mut other, "SELECT string_agg(id || ':' || v, ' ') FROM t");
    assert_eq!(found.as_deref(), Some("1:10 7:7"));
}
