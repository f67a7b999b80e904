//! `INSERT`, with `ON CONFLICT` and without, of keys that rows have which others use.
//!
//! It waits for those who take or free a key, and not for others. An insertion that leaves or
//! changes the row in the way has no stronger lock of it than that needs.

use crate::between::run;
use crate::scratch::Scratch;
use crate::waits::{state, waits};
use sql::{Session, Sql};
use std::sync::Arc;

/// A session whose waits end, so that a test fails where it was not to wait.
fn hasty(sql: &Arc<Sql>) -> Session {
    let mut session = sql.connect().unwrap();
    run(&mut session, "SET lock_timeout = '5s'");
    session
}

fn family(name: &str) -> (Scratch, Arc<Sql>, Session) {
    let (scratch, sql) = Scratch::open(name);
    let mut one = sql.connect().unwrap();
    run(
        &mut one,
        "CREATE TABLE p (id int PRIMARY KEY, u int UNIQUE, v int DEFAULT 0); \
         INSERT INTO p VALUES (1, 1), (2, 2); CREATE TABLE c (p int REFERENCES p); \
         CREATE TABLE k (id int PRIMARY KEY); INSERT INTO k VALUES (1); \
         CREATE TABLE ck (k int REFERENCES k)",
    );
    (scratch, sql, one)
}

#[test]
fn a_row_that_is_left_is_not_locked() {
    let (_scratch, sql, mut one) = family("conflicts-left");
    let mut other = hasty(&sql);
    run(
        &mut one,
        "BEGIN; INSERT INTO p VALUES (1, 5) ON CONFLICT DO NOTHING; \
         INSERT INTO p VALUES (9, 2) ON CONFLICT (u) DO NOTHING; SAVEPOINT s",
    );
    assert_eq!(state(&mut one, "INSERT INTO p VALUES (9, 1)"), "23505");
    run(&mut one, "ROLLBACK TO s");
    for text in [
        "SELECT 1 FROM p FOR UPDATE NOWAIT",
        "INSERT INTO p VALUES (5, 5), (9, 9)",
        "UPDATE p SET u = u + 10",
        "DELETE FROM p",
    ] {
        assert_eq!(state(&mut other, text), "", "{text}");
    }
    run(&mut one, "COMMIT");
}

/// Locks that were there before the insertion stay.
#[test]
fn earlier_locks_of_the_row_stay() {
    let (_scratch, sql, mut one) = family("conflicts-earlier");
    let mut other = sql.connect().unwrap();
    run(
        &mut one,
        "BEGIN; UPDATE p SET v = 1 WHERE id = 1; SELECT 1 FROM p WHERE id = 2 FOR UPDATE; \
         INSERT INTO p VALUES (3, 3); INSERT INTO p VALUES (1, 7), (2, 7), (3, 7), (7, 3) \
         ON CONFLICT DO NOTHING",
    );
    for (text, answer) in [
        ("SELECT 1 FROM p WHERE id = 1 FOR KEY SHARE NOWAIT", ""),
        ("SELECT 1 FROM p WHERE id = 1 FOR SHARE NOWAIT", "55P03"),
        ("SELECT 1 FROM p WHERE id = 2 FOR KEY SHARE NOWAIT", "55P03"),
        (
            "SET lock_timeout = '100ms'; INSERT INTO p VALUES (3, 9)",
            "55P03",
        ),
        (
            "SET lock_timeout = '100ms'; INSERT INTO p VALUES (9, 3)",
            "55P03",
        ),
    ] {
        assert_eq!(state(&mut other, text), answer, "{text}");
    }
    run(&mut one, "COMMIT");
}

/// PostgreSQL waits for an `UPDATE`, too, though it leaves the key.
#[test]
fn a_key_that_is_there_is_found_beside_those_who_leave_it() {
    let (_scratch, sql, mut one) = family("conflicts-beside");
    let mut other = hasty(&sql);
    for held in [
        "SELECT 1 FROM p FOR KEY SHARE",
        "SELECT 1 FROM p FOR SHARE",
        "SELECT 1 FROM p FOR NO KEY UPDATE",
        "UPDATE p SET v = v + 1",
        "INSERT INTO c VALUES (1)",
        "INSERT INTO p VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = 7",
    ] {
        run(&mut one, &format!("BEGIN; {held}"));
        for (text, answer) in [
            ("INSERT INTO p VALUES (1, 5) ON CONFLICT DO NOTHING", ""),
            ("INSERT INTO p VALUES (5, 1) ON CONFLICT (u) DO NOTHING", ""),
            ("INSERT INTO p VALUES (1, 5)", "23505"),
            ("BEGIN; INSERT INTO p VALUES (1, 5)", "23505"),
            ("ROLLBACK", ""),
        ] {
            assert_eq!(state(&mut other, text), answer, "{held}, {text}");
        }
        run(&mut one, "ROLLBACK");
    }
    // Without other keys, a statement that stands alone looks at its commit only.
    run(&mut one, "BEGIN; INSERT INTO ck VALUES (1)");
    assert_eq!(state(&mut other, "INSERT INTO k VALUES (1)"), "23505");
    run(&mut one, "COMMIT");
}

/// A key is waited for while others insert or delete its row.
#[test]
fn a_key_that_is_taken_or_freed_is_waited_for() {
    for (change, end, answer, rows) in [
        ("DELETE FROM p WHERE id = 1", "COMMIT", "", "1 5 0,2 2 0"),
        (
            "DELETE FROM p WHERE id = 1",
            "ROLLBACK",
            "23505",
            "1 1 0,2 2 0",
        ),
        (
            "UPDATE p SET id = 7 WHERE id = 1",
            "COMMIT",
            "",
            "1 5 0,2 2 0,7 1 0",
        ),
    ] {
        let (_scratch, sql, mut one) = family("conflicts-waits");
        run(&mut one, &format!("BEGIN; {change}"));
        let thread = waits(&sql, sql.connect().unwrap(), |session| {
            state(session, "INSERT INTO p VALUES (1, 5)")
        });
        run(&mut one, end);
        assert_eq!(thread.join().unwrap(), answer, "{change}, {end}");
        let found = "SELECT string_agg(concat_ws(' ', id, u, v), ',' ORDER BY id) FROM p";
        assert_eq!(run(&mut one, found).as_deref(), Some(rows), "{change}");
    }
}

/// One of those who wait gets a key that is free again; none is a victim of the others.
#[test]
fn those_who_wait_for_a_key_take_turns() {
    for (end, inserted) in [("ROLLBACK", 1), ("COMMIT", 0)] {
        let (_scratch, sql, mut one) = family("conflicts-turns");
        run(&mut one, "BEGIN; INSERT INTO p VALUES (7, 7)");
        let threads = [1, 2, 3, 4].map(|_| {
            waits(&sql, sql.connect().unwrap(), |session| {
                state(session, "BEGIN; INSERT INTO p VALUES (7, 8); COMMIT")
            })
        });
        run(&mut one, end);
        let mut ended = threads.map(|thread| thread.join().unwrap());
        ended.sort();
        let expected = [0, 1, 2, 3].map(|at| if at < inserted { "" } else { "23505" });
        assert_eq!(ended, expected, "{end}");
    }
}

/// References to a row may come and stay, as long as its keys do.
#[test]
fn an_upsert_locks_what_an_update_does() {
    let (_scratch, sql, mut one) = family("conflicts-strength");
    let mut other = hasty(&sql);
    let upsert = "INSERT INTO p VALUES (1, 1, 5) ON CONFLICT (id) DO UPDATE SET v = excluded.v";
    run(&mut one, &format!("BEGIN; {upsert}"));
    assert_eq!(state(&mut other, "BEGIN; INSERT INTO c VALUES (1)"), "");
    assert_eq!(
        state(&mut other, "SELECT 1 FROM p WHERE id = 1 FOR SHARE NOWAIT"),
        "55P03"
    );
    run(&mut one, "COMMIT");
    run(&mut other, "ROLLBACK; BEGIN; INSERT INTO c VALUES (1)");
    run(&mut one, "SET lock_timeout = '5s'");
    let of_key = "INSERT INTO p VALUES (9, 1) ON CONFLICT (u) DO UPDATE SET v = 6";
    for text in [upsert, of_key] {
        assert_eq!(state(&mut one, text), "", "{text}");
    }
    run(&mut one, "SET lock_timeout = '100ms'");
    let moves = "INSERT INTO p VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET id = 8";
    assert_eq!(state(&mut one, moves), "55P03");
    run(&mut other, "COMMIT");
    assert_eq!(state(&mut one, moves), "23503");
    assert_eq!(
        run(&mut one, "SELECT v FROM p WHERE id = 1").as_deref(),
        Some("6")
    );
}

/// A row that has another key after the wait is not in the way any more.
#[test]
fn the_row_in_the_way_may_get_another_key() {
    let (_scratch, sql, mut one) = family("conflicts-moved");
    run(&mut one, "BEGIN; UPDATE p SET v = 1 WHERE id = 1");
    let thread = waits(&sql, sql.connect().unwrap(), |session| {
        state(
            session,
            "INSERT INTO p VALUES (9, 1) ON CONFLICT (u) DO UPDATE SET v = 100",
        )
    });
    run(&mut one, "UPDATE p SET u = 50 WHERE id = 1; COMMIT");
    assert_eq!(thread.join().unwrap(), "");
    let found = "SELECT string_agg(concat_ws(' ', id, u, v), ',' ORDER BY id) FROM p";
    assert_eq!(run(&mut one, found).as_deref(), Some("1 50 1,2 2 0,9 1 0"));
}

/// A row that the snapshot does not show is a failure to be tried again.
#[test]
fn a_row_after_the_snapshot_is_no_duplicate() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        for text in [
            "INSERT INTO p VALUES (4, 3) ON CONFLICT (u) DO UPDATE SET v = p.v + 1",
            "INSERT INTO p VALUES (4, 3) ON CONFLICT (u) DO NOTHING",
            "INSERT INTO p VALUES (4, 3) ON CONFLICT DO NOTHING",
            "INSERT INTO p VALUES (1, 3) ON CONFLICT (u) DO UPDATE SET v = 7",
            "INSERT INTO p VALUES (1, 3) ON CONFLICT (u) DO NOTHING",
            "INSERT INTO p VALUES (3, 4) ON CONFLICT (id) DO UPDATE SET v = 7",
        ] {
            let (_scratch, sql, mut one) = family("conflicts-snapshot");
            let mut other = sql.connect().unwrap();
            run(
                &mut one,
                &format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM p"),
            );
            run(&mut other, "INSERT INTO p VALUES (3, 3)");
            assert_eq!(state(&mut one, text), "40001", "{level}, {text}");
        }
    }
}
