//! Locks of rows and tables that statements take, as far as other sessions meet them.
//!
//! Nobody sleeps where a statement must not wait; where it has to, a short limit ends its wait.

use crate::between::run;
use crate::scratch::Scratch;
use crate::waits::{state, waits};

/// Rows that refer to a row are inserted beside an update of it that names its keys, unless they
/// get other values.
#[test]
fn an_update_that_keeps_the_values_of_keys_goes_with_references() {
    let (_scratch, sql) = Scratch::open("row-locks-keys");
    let (mut holder, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut holder,
        "CREATE TABLE p (a int PRIMARY KEY, u int UNIQUE, v varchar(9) UNIQUE, b text); \
         CREATE TABLE c (a int REFERENCES p); \
         CREATE TABLE q (a int, k int, b int, PRIMARY KEY (a, k)) PARTITION BY LIST (k); \
         CREATE TABLE q1 PARTITION OF q FOR VALUES IN (1); \
         CREATE TABLE q2 PARTITION OF q FOR VALUES IN (2); \
         CREATE TABLE d (a int, k int, FOREIGN KEY (a, k) REFERENCES q); \
         INSERT INTO p VALUES (1, 10, 'x', 'x'), (2, 20, 'y', 'y'); INSERT INTO q VALUES (1, 1, 1)",
    );
    for session in [&mut holder, &mut other] {
        let save = "PREPARE save AS UPDATE p SET u = $1, v = $2, b = $3 WHERE a = $4";
        run(session, save);
    }
    run(&mut other, "SET lock_timeout = '100ms'");
    let merge = "MERGE INTO p USING (VALUES (1, $)) w(a, u) ON w.a = p.a WHEN MATCHED THEN \
                 UPDATE SET a = w.a, u = w.u";
    let upsert = "INSERT INTO p VALUES (1, $) ON CONFLICT (a) DO UPDATE SET a = excluded.a, \
                  u = excluded.u";
    let from = "UPDATE p SET a = w.a, u = w.u FROM (VALUES (1, $), (2, 20)) w(a, u) \
                WHERE w.a = p.a";
    for (text, same, another) in [
        ("UPDATE p SET u = $, b = 'z' WHERE a = 1", "10", "11"),
        ("EXECUTE save($, 'x', 'z', 1)", "10", "11"),
        ("EXECUTE save(10, $, 'z', 1)", "'x'", "'w'"),
        ("UPDATE p SET a = $, u = 10, b = 'z' WHERE a = 1", "1", "3"),
        ("UPDATE p SET u = u + $", "0", "1"),
        (from, "10", "11"),
        (merge, "10", "11"),
        (upsert, "10", "11"),
        ("UPDATE q SET a = $, k = 1, b = 2", "1", "2"),
        ("UPDATE q SET k = $", "1", "2"),
    ] {
        let insert = if text.contains(" q ") {
            "INSERT INTO d VALUES (1, 1)"
        } else {
            "INSERT INTO c VALUES (1)"
        };
        for (value, answer) in [(same, ""), (another, "55P03")] {
            let text = text.replace('$', value);
            run(&mut holder, &format!("BEGIN; {text}"));
            assert_eq!(state(&mut other, insert), answer, "{text}");
            run(&mut holder, "ROLLBACK");
            run(&mut other, "DELETE FROM c; DELETE FROM d");
            // The other order.
            run(&mut holder, &format!("BEGIN; {insert}"));
            assert_eq!(
                state(&mut other, &format!("BEGIN; {text}")),
                answer,
                "{text}"
            );
            run(&mut other, "ROLLBACK");
            run(&mut holder, "ROLLBACK");
        }
    }
}

/// Of a row that changes while an update waits for it the newest values count.
#[test]
fn an_update_that_has_waited_compares_the_newest_keys() {
    let (_scratch, sql) = Scratch::open("row-locks-newest");
    let (mut holder, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut holder,
        "CREATE TABLE p (a int PRIMARY KEY, u int UNIQUE); CREATE TABLE c (a int REFERENCES p); \
         INSERT INTO p VALUES (1, 10)",
    );
    run(&mut other, "SET lock_timeout = '100ms'");
    for (text, found) in [
        ("UPDATE p SET u = 10 WHERE a = 1", "10"),
        ("UPDATE p SET u = 10 WHERE u < 20", "10"),
        ("UPDATE p SET u = u + 1", "12"),
    ] {
        run(
            &mut holder,
            "UPDATE p SET u = 10; BEGIN; UPDATE p SET u = 11",
        );
        let (ready, done) = std::sync::mpsc::channel();
        let (go, may_end) = std::sync::mpsc::channel();
        let thread = waits(&sql, sql.connect().unwrap(), move |session| {
            run(session, &format!("BEGIN; {text}"));
            ready.send(()).unwrap();
            may_end.recv().unwrap();
            run(session, "COMMIT; SELECT u FROM p").unwrap_or_default()
        });
        run(&mut holder, "COMMIT");
        done.recv().unwrap();
        assert_eq!(
            state(&mut other, "INSERT INTO c VALUES (1)"),
            "55P03",
            "{text}"
        );
        go.send(()).unwrap();
        assert_eq!(thread.join().unwrap(), found, "{text}");
    }
}

/// The rows that follow another one are locked for what happens to them.
#[test]
fn rows_that_follow_keep_references_to_them_valid() {
    let (_scratch, sql) = Scratch::open("row-locks-follow");
    let (mut holder, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut holder,
        "CREATE TABLE g (a int PRIMARY KEY, b int); \
         CREATE TABLE m (a int PRIMARY KEY, g int REFERENCES g ON UPDATE CASCADE ON DELETE SET NULL); \
         CREATE TABLE c (m int REFERENCES m); INSERT INTO g VALUES (1, 1); INSERT INTO m VALUES (7, 1)",
    );
    run(&mut other, "SET lock_timeout = '100ms'");
    for (text, lock) in [
        ("UPDATE g SET a = 1, b = 2", ""),
        ("UPDATE g SET a = 2", "55P03"),
        ("DELETE FROM g", "55P03"),
    ] {
        run(&mut holder, &format!("BEGIN; {text}"));
        assert_eq!(state(&mut other, "INSERT INTO c VALUES (7)"), "", "{text}");
        let for_update = "BEGIN; SELECT a FROM m FOR UPDATE";
        assert_eq!(state(&mut other, for_update), lock, "{text}");
        run(&mut other, "ROLLBACK");
        run(&mut holder, "ROLLBACK");
    }
}

/// Rows are locked beside a table that is locked against changes.
#[test]
fn a_table_in_share_mode_lets_rows_be_locked() {
    let (_scratch, sql) = Scratch::open("row-locks-tables");
    let (mut holder, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    let made = "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 1), (2, 2); \
                UPDATE t SET b = 5";
    run(&mut holder, made);
    run(&mut other, "UPDATE t SET b = 6; SET lock_timeout = '100ms'");
    for (mode, locks, changes) in [
        ("ROW EXCLUSIVE", "", ""),
        ("SHARE UPDATE EXCLUSIVE", "", ""),
        ("SHARE", "", "55P03"),
        ("SHARE ROW EXCLUSIVE", "", "55P03"),
        ("EXCLUSIVE", "55P03", "55P03"),
    ] {
        run(&mut holder, &format!("BEGIN; LOCK TABLE t IN {mode} MODE"));
        for strength in ["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"] {
            let select = format!("SELECT b FROM t WHERE a = 1 FOR {strength}");
            assert_eq!(state(&mut other, &select), locks, "{mode} {strength}");
        }
        for change in [
            "UPDATE t SET b = 1 WHERE a = 9",
            "DELETE FROM t WHERE a = 9",
        ] {
            assert_eq!(state(&mut other, change), changes, "{mode} {change}");
        }
        run(&mut holder, "ROLLBACK; BEGIN; SELECT b FROM t FOR UPDATE");
        let lock = format!("BEGIN; LOCK TABLE t IN {mode} MODE");
        assert_eq!(state(&mut other, &lock), locks, "{mode}");
        run(&mut other, "ROLLBACK");
        run(&mut holder, "ROLLBACK");
    }
    run(&mut holder, "BEGIN; SELECT b FROM t FOR UPDATE");
    assert_eq!(state(&mut other, "CREATE INDEX ON t (b)"), "");
}

/// Others see whether a session waits for a table, a row, an advisory lock or its client.
#[test]
fn others_see_what_a_session_waits_for() {
    let (_scratch, sql) = Scratch::open("row-locks-events");
    let (mut holder, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut holder,
        "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 1)",
    );
    let event = |number: i32| {
        format!(
            "SELECT concat_ws(' ', wait_event_type, wait_event) FROM pg_stat_activity \
             WHERE pid = {number}"
        )
    };
    let own = event(other.number());
    assert_eq!(run(&mut other, &own).as_deref(), Some(""));
    let idle = event(holder.number());
    for (held, wanted, expected, locks) in [
        (
            "LOCK TABLE t",
            "SELECT b FROM t",
            "Lock relation",
            "relation",
        ),
        (
            "UPDATE t SET b = 2",
            "DELETE FROM t",
            "Lock transactionid",
            "transactionid",
        ),
        (
            "SELECT pg_advisory_xact_lock(5)",
            "SELECT pg_advisory_lock(5)",
            "Lock advisory",
            "transactionid",
        ),
    ] {
        run(&mut holder, &format!("BEGIN; {held}"));
        assert_eq!(run(&mut other, &idle).as_deref(), Some("Client ClientRead"));
        let waiter = sql.connect().unwrap();
        let waiting = event(waiter.number());
        let thread = waits(&sql, waiter, |session| state(session, wanted));
        assert_eq!(run(&mut other, &waiting).as_deref(), Some(expected));
        let all = "SELECT string_agg(locktype, ',') FROM pg_locks WHERE NOT granted";
        assert_eq!(run(&mut other, all).as_deref(), Some(locks));
        run(&mut holder, "ROLLBACK");
        assert_eq!(thread.join().unwrap(), "");
    }
}
