//! Sessions that act on each other: notifications, and ends from outside.
//!
//! Each test has sessions of one database in one thread, or a thread that waits.

use crate::scratch::Scratch;
use indelible::{Database, Durability, Options};
use sql::types::Context;
use sql::{Batch, Flow, Notification, OutputColumn, RowSink, Session, Sql, SqlError, WakeReason};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The first value of the last row, as text.
#[derive(Default)]
pub(crate) struct Last(pub(crate) Option<String>);

impl RowSink for Last {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, context: &Context<'_>) -> Result<Flow, SqlError> {
        for row in batch.rows() {
            let text = sql::types::text_io::print(&row[0], row[0].kind(), context)?;
            self.0 = Some(text);
        }
        Ok(Flow::More)
    }
}

pub(crate) fn run(session: &mut Session, text: &str) -> Option<String> {
    let mut last = Last::default();
    session.simple(text, &mut last).unwrap();
    last.0
}

fn texts(notifications: &[Notification]) -> Vec<(&str, &str)> {
    let pairs = notifications.iter();
    pairs
        .map(|one| (one.channel.as_str(), one.payload.as_str()))
        .collect()
}

#[test]
fn notifications_come_at_commit_and_once() {
    let (_scratch, sql) = Scratch::open("between-notify");
    let (mut listener, mut sender) = (sql.connect().unwrap(), sql.connect().unwrap());
    let woken = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&woken);
    listener.on_wake(Arc::new(move |reason| {
        assert_eq!(reason, WakeReason::Notifications);
        count.fetch_add(1, Ordering::SeqCst);
    }));
    assert!(!listener.is_listening());
    run(&mut listener, "LISTEN news; LISTEN \"Other\"");
    assert!(listener.is_listening());
    assert_eq!(
        run(
            &mut listener,
            "SELECT string_agg(c, ',') FROM pg_listening_channels() c"
        ),
        Some("Other,news".to_owned())
    );
    run(
        &mut sender,
        "BEGIN; NOTIFY news, 'a'; NOTIFY news, 'a'; SELECT pg_notify('Other', 'b')",
    );
    assert!(listener.take_notifications().is_empty());
    run(
        &mut sender,
        "SAVEPOINT s; NOTIFY news, 'undone'; ROLLBACK TO s; COMMIT",
    );
    let come = listener.take_notifications();
    assert_eq!(texts(&come), [("news", "a"), ("Other", "b")]);
    assert_eq!(come[0].sender, sender.number());
    assert_eq!(woken.load(Ordering::SeqCst), 1);
    run(&mut sender, "BEGIN; NOTIFY news, 'never'; ROLLBACK");
    run(&mut listener, "UNLISTEN news");
    run(&mut sender, "NOTIFY news, 'nobody'; NOTIFY \"Other\"");
    assert_eq!(texts(&listener.take_notifications()), [("Other", "")]);
    assert!(sender.take_notifications().is_empty());
}

#[test]
fn a_session_that_listens_hears_itself() {
    let (_scratch, sql) = Scratch::open("between-itself");
    let mut session = sql.connect().unwrap();
    run(&mut session, "LISTEN c; NOTIFY c, 'x'");
    assert_eq!(texts(&session.take_notifications()), [("c", "x")]);
    let long = "y".repeat(8000);
    let error = session
        .simple(&format!("NOTIFY c, '{long}'"), &mut Last::default())
        .unwrap_err();
    assert_eq!(error.state.0, "22023");
}

#[test]
fn statements_and_sessions_are_ended_by_others() {
    let (_scratch, sql) = Scratch::open("between-end");
    let mut victim = sql.connect().unwrap();
    let number = victim.number();
    let sleeper = std::thread::spawn(move || {
        let mut errors = Vec::new();
        for _ in 0..2 {
            let slept = victim.simple("SELECT pg_sleep(60)", &mut Last::default());
            errors.push(slept.unwrap_err().state.0.to_owned());
        }
        let refused = victim.simple("SELECT 1", &mut Last::default());
        errors.push(refused.unwrap_err().state.0.to_owned());
        (errors, victim.is_terminated())
    });
    let mut other = sql.connect().unwrap();
    // Nothing runs, so there is nothing to cancel: the next statement is not meant.
    assert!(sql.cancel(other.number()));
    let is_asleep = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = {number} AND state = 'active' \
         AND query LIKE '%pg_sleep%'"
    );
    let mut wait = || {
        while run(&mut other, &is_asleep) != Some("1".to_owned()) {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait();
    assert!(sql.cancel(number));
    // The second statement begins after the first one has ended.
    std::thread::sleep(Duration::from_millis(200));
    wait();
    let mut other = sql.connect().unwrap();
    let ended = run(
        &mut other,
        &format!("SELECT pg_terminate_backend({number})"),
    );
    assert_eq!(ended, Some("t".to_owned()));
    let (errors, is_terminated) = sleeper.join().unwrap();
    assert_eq!(errors, ["57014", "57P01", "57P01"]);
    assert!(is_terminated);
    assert!(!sql.cancel(number));
}

/// A session waits for another one in the midst of a statement; its reads are of the moment of its
/// beginning nevertheless.
#[test]
fn a_statement_that_waits_reads_its_own_moment() {
    let (_scratch, sql) = Scratch::open("between-moment");
    let (mut holder, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut holder,
        "CREATE TABLE t (id int PRIMARY KEY, name text UNIQUE, n int); CREATE TABLE child (id int REFERENCES t);
         INSERT INTO t VALUES (1, 'one', 0), (2, 'two', 0)",
    );
    let seen = "SELECT string_agg(id || name || n, ',' ORDER BY id) FROM t";
    for (change, answer) in [
        (
            "INSERT INTO t VALUES (1, 'x', 5) ON CONFLICT (id) DO UPDATE SET n = t.n + 10",
            "1one0,2two0",
        ),
        (
            "INSERT INTO t VALUES (9, 'one', 5) ON CONFLICT (name) DO UPDATE SET n = t.n + 10",
            "1one10,2two7",
        ),
        ("INSERT INTO child VALUES (1)", "1one20,2two14"),
    ] {
        run(
            &mut holder,
            "BEGIN; UPDATE t SET n = n + 7 WHERE id = 2; SELECT 1 FROM t WHERE id = 1 FOR UPDATE",
        );
        let mut waiter = sql.connect().unwrap();
        let number = waiter.number();
        let text = format!("WITH c AS ({change}) {seen}");
        let waits = std::thread::spawn(move || run(&mut waiter, &text));
        while run(&mut other, &format!("SELECT pg_blocking_pids({number})"))
            == Some("{}".to_owned())
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        run(&mut holder, "COMMIT");
        assert_eq!(waits.join().unwrap().as_deref(), Some(answer), "{change}");
    }
    assert_eq!(run(&mut other, seen).as_deref(), Some("1one20,2two21"));
}

/// `FOR KEY SHARE` returns the row that it has seen, unless a key of it has changed.
#[test]
fn a_share_of_the_key_keeps_the_row_that_was_seen() {
    let (_scratch, sql) = Scratch::open("between-key-share");
    let (mut holder, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut holder,
        "CREATE TABLE t (id int PRIMARY KEY, name text UNIQUE, n int); INSERT INTO t VALUES (1, 'one', 0)",
    );
    for (strength, change, answer) in [
        ("KEY SHARE", "n = n + 1", "one0"),
        ("SHARE", "n = n + 1", "one2"),
        ("KEY SHARE", "name = 'new'", "new2"),
    ] {
        run(&mut holder, "SELECT pg_advisory_lock(5)");
        let mut waiter = sql.connect().unwrap();
        let number = waiter.number();
        let text = format!(
            "SELECT name || n FROM t WHERE id = 1 AND pg_advisory_xact_lock(5) IS NOT NULL FOR {strength}"
        );
        let waits = std::thread::spawn(move || run(&mut waiter, &text));
        while run(&mut other, &format!("SELECT pg_blocking_pids({number})"))
            == Some("{}".to_owned())
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        run(&mut holder, &format!("UPDATE t SET {change}"));
        run(&mut holder, "SELECT pg_advisory_unlock(5)");
        assert_eq!(
            waits.join().unwrap().as_deref(),
            Some(answer),
            "{strength} {change}"
        );
    }
}

#[test]
fn others_see_who_waits_for_whom() {
    let (_scratch, sql) = Scratch::open("between-waits");
    let (mut holder, mut waiter) = (sql.connect().unwrap(), sql.connect().unwrap());
    let (held, waiting) = (holder.number(), waiter.number());
    run(
        &mut holder,
        "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)",
    );
    run(&mut holder, "BEGIN; UPDATE t SET a = 2");
    let update = std::thread::spawn(move || {
        run(&mut waiter, "UPDATE t SET a = 3");
    });
    let mut other = sql.connect().unwrap();
    let blocking = format!("SELECT pg_blocking_pids({waiting})");
    while run(&mut other, &blocking) == Some("{}".to_owned()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    for (question, answer) in [
        (blocking, format!("{{{held}}}")),
        (format!("SELECT pg_blocking_pids({held})"), "{}".to_owned()),
        (
            format!("SELECT pg_isolation_test_session_is_blocked({waiting}, '{{77,{held}}}')"),
            "t".to_owned(),
        ),
        (
            format!("SELECT pg_isolation_test_session_is_blocked({waiting}, '{{77}}')"),
            "f".to_owned(),
        ),
        (
            "SELECT string_agg(pid || ' ' || mode, ',') FROM pg_locks WHERE NOT granted".to_owned(),
            format!("{waiting} ShareLock"),
        ),
        (
            format!("SELECT granted FROM pg_locks WHERE pid = {held}"),
            "t".to_owned(),
        ),
    ] {
        assert_eq!(run(&mut other, &question), Some(answer), "{question}");
    }
    run(&mut holder, "COMMIT");
    update.join().unwrap();
    let nobody = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    assert_eq!(run(&mut other, nobody), Some("0".to_owned()));
}

#[test]
fn others_see_what_a_session_does() {
    let (_scratch, sql) = Scratch::open("between-activity");
    let (mut one, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    one.set_client("127.0.0.1", 4321);
    run(&mut one, "SET application_name = 'shop'; BEGIN; SELECT 1");
    let seen = "SELECT state || ' ' || application_name || ' ' || client_addr || ' ' || query \
                FROM pg_stat_activity WHERE client_port = 4321";
    assert_eq!(
        run(&mut other, seen),
        Some(
            "idle in transaction shop 127.0.0.1 \
             SET application_name = 'shop'; BEGIN; SELECT 1"
                .to_owned()
        )
    );
    one.set_server("127.0.0.1", 5432);
    let ends = "SELECT inet_server_addr() || ' ' || inet_server_port() || ' ' || \
                inet_client_addr() || ' ' || inet_client_port()";
    let seen = run(&mut one, ends);
    assert_eq!(seen.as_deref(), Some("127.0.0.1 5432 127.0.0.1 4321"));
    let here = "SELECT coalesce(inet_server_addr(), 'here')";
    assert_eq!(run(&mut other, here).as_deref(), Some("here"));
    one.set_database("warehouse");
    let names = "SELECT current_database() || ' ' || string_agg(datname, ' ' ORDER BY oid DESC) \
                 FROM pg_database";
    assert_eq!(
        run(&mut one, names),
        Some("warehouse warehouse indelible".to_owned())
    );
    // Programs such as pg_dumpall go through all databases that allow connections.
    let reached = "SELECT string_agg(datname, ' ') FROM pg_database WHERE datallowconn";
    assert_eq!(run(&mut one, reached), Some("warehouse".to_owned()));
    drop(one);
    assert_eq!(
        run(&mut other, "SELECT count(*) FROM pg_stat_activity"),
        Some("1".to_owned())
    );
}

#[test]
fn sequences_go_on_without_a_gap_after_an_orderly_end() {
    let (scratch, sql) = Scratch::open("between-sequences");
    let mut session = sql.connect().unwrap();
    run(&mut session, "CREATE SEQUENCE one; CREATE SEQUENCE gone");
    let next = "SELECT nextval('one')";
    run(&mut session, "SELECT nextval('gone')");
    run(&mut session, "DROP SEQUENCE gone");
    assert_eq!(run(&mut session, next), Some("1".to_owned()));
    drop(session);
    sql.close().unwrap();

    let open = || Sql::open(Database::open(scratch.directory()).unwrap()).unwrap();
    let sql = open();
    let mut session = sql.connect().unwrap();
    assert_eq!(run(&mut session, next), Some("2".to_owned()));
    drop((session, sql));

    // A handle that holds the partition is not waited for: the rest of the reservation is a gap.
    let sql = open();
    let mut session = sql.connect().unwrap();
    assert_eq!(run(&mut session, next), Some("3".to_owned()));
    let database = sql.database().clone();
    let worker = database.worker(&[0], Durability::Immediate).unwrap();
    drop((session, sql));
    drop(worker);
    drop(database);
    let mut session = open().connect().unwrap();
    assert_eq!(run(&mut session, next), Some("35".to_owned()));
}

/// The schema of temporary objects was rolled back with the first of them, and those that followed
/// were in none.
#[test]
fn temporary_objects_have_a_schema_after_a_rollback() {
    let (_scratch, sql) = Scratch::open("between-temporary");
    let mut session = sql.connect().unwrap();
    run(
        &mut session,
        "BEGIN; CREATE TEMP TABLE a (a integer); ROLLBACK",
    );
    run(&mut session, "CREATE TEMP TABLE b (a integer)");
    let schema = "SELECT n.nspname LIKE 'pg_temp_%' FROM pg_class c \
                  JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = 'b'";
    assert_eq!(run(&mut session, schema), Some("t".to_owned()));
}

#[test]
fn a_session_has_the_rights_of_its_role() {
    let (_scratch, sql) = Scratch::open("between-roles");
    let mut owner = sql.connect().unwrap();
    run(
        &mut owner,
        "CREATE TABLE t (a integer); INSERT INTO t VALUES (7); CREATE ROLE clerk; \
         CREATE ROLE maria LOGIN PASSWORD 'secret' CONNECTION LIMIT 1; GRANT clerk TO maria",
    );
    let code = |role: &str| sql.connect_as(role).err().map(|error| error.state.0);
    assert_eq!(code("clerk"), Some("28000"));
    assert_eq!(code("nobody"), Some("28000"));
    let mut maria = sql.connect_as("maria").unwrap();
    assert_eq!(code("maria"), Some("53300"));
    let refused = maria.simple("SELECT a FROM t", &mut Last::default());
    assert_eq!(
        refused.unwrap_err().message,
        "permission denied for table t"
    );
    run(&mut owner, "GRANT SELECT ON t TO clerk");
    assert_eq!(run(&mut maria, "SELECT a FROM t"), Some("7".to_owned()));
    let verifier = sql.password_verifier("maria").unwrap();
    assert!(verifier.starts_with("SCRAM-SHA-256$4096:"));
    assert_eq!(sql.password_verifier("clerk"), None);
    run(&mut owner, "ALTER ROLE maria VALID UNTIL '2001-01-01'");
    assert_eq!(sql.password_verifier("maria"), None);
}

#[test]
fn a_cursor_reads_the_moment_of_its_declaration() {
    let (_scratch, sql) = Scratch::open("between-cursor");
    let (mut reader, mut writer) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut writer,
        "CREATE TABLE t (a int PRIMARY KEY, b int); CREATE TABLE u (a int PRIMARY KEY, b int); \
         INSERT INTO t VALUES (1, 1), (2, 2); INSERT INTO u SELECT a, 10 * a FROM t",
    );
    let query = "SELECT u.b FROM t, LATERAL (SELECT b FROM u WHERE u.a = t.a + t.b * 0) u";
    run(
        &mut reader,
        &format!("BEGIN; DECLARE c SCROLL CURSOR FOR {query}"),
    );
    run(
        &mut writer,
        "UPDATE u SET b = b + 1; INSERT INTO t VALUES (3, 3)",
    );
    let first = run(&mut reader, "FETCH c");
    assert_eq!(first.as_deref(), Some("10"));
    run(&mut writer, "UPDATE u SET b = b + 1");
    let newest = run(&mut reader, "SELECT max(b) FROM u");
    assert_eq!(newest.as_deref(), Some("22"));
    let last = run(&mut reader, "FETCH ALL FROM c");
    assert_eq!(last.as_deref(), Some("20"));
    assert_eq!(run(&mut reader, "FETCH ABSOLUTE 3 FROM c"), None);
    run(&mut reader, "COMMIT");
}

#[test]
fn locks_outlive_a_change_of_modes() {
    let (_scratch, sql) = Scratch::open("between-modes");
    let (mut one, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(&mut one, "CREATE TABLE t (a int); SET lock_timeout = 0");
    run(
        &mut one,
        "BEGIN; LOCK TABLE t; SELECT pg_advisory_xact_lock(7); ROLLBACK; \
         BEGIN; LOCK TABLE t; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY",
    );
    run(&mut other, "SET lock_timeout = 50");
    let error = other.simple("INSERT INTO t VALUES (1)", &mut Last::default());
    assert_eq!(error.unwrap_err().state.0, "55P03");
    assert_eq!(
        run(&mut one, "SHOW transaction_isolation").as_deref(),
        Some("serializable")
    );
    let error = one.simple("INSERT INTO t VALUES (1)", &mut Last::default());
    assert_eq!(error.unwrap_err().state.0, "25006");
    run(&mut one, "ROLLBACK");
    run(&mut other, "INSERT INTO t VALUES (1)");
}

#[test]
fn a_snapshot_is_that_of_the_first_statement() {
    let (_scratch, sql) = Scratch::open("between-snapshot");
    let (mut reader, mut writer) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(&mut writer, "CREATE TABLE t (a int)");
    for (first, seen) in [("SELECT 1", "0"), ("", "1")] {
        run(&mut writer, "DELETE FROM t");
        run(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ");
        run(&mut reader, first);
        run(&mut writer, "INSERT INTO t VALUES (1)");
        let count = run(&mut reader, "SELECT count(*) FROM t");
        assert_eq!(count.as_deref(), Some(seen), "after {first:?}");
        run(&mut reader, "COMMIT");
    }
}

fn fails(session: &mut Session, text: &str) -> &'static str {
    let failed = session.simple(text, &mut Last::default());
    failed.unwrap_err().state.0
}

/// `ON CONFLICT DO NOTHING` would leave a row out for one that nobody can see.
#[test]
fn a_row_that_the_snapshot_does_not_see_is_no_reason_to_do_nothing() {
    let (_scratch, sql) = Scratch::open("between-unseen");
    let (mut one, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut one,
        "CREATE TABLE t (a int PRIMARY KEY, b int UNIQUE); INSERT INTO t VALUES (1, 1)",
    );
    let inserts = |row: &str| format!("INSERT INTO t VALUES {row} ON CONFLICT DO NOTHING");
    for (row, seen) in [("(2, 20)", "(1, 7)"), ("(30, 3)", "(7, 1)")] {
        for level in ["REPEATABLE READ", "SERIALIZABLE"] {
            run(&mut one, &format!("BEGIN ISOLATION LEVEL {level}"));
            run(&mut one, "SELECT count(*) FROM t");
            run(&mut one, &inserts(seen));
            run(&mut other, &format!("INSERT INTO t VALUES {row}"));
            assert_eq!(fails(&mut one, &inserts(row)), "40001", "{row}, {level}");
            run(&mut one, "ROLLBACK");
            run(&mut other, "DELETE FROM t WHERE a > 1");
        }
        run(&mut one, "BEGIN; SELECT count(*) FROM t");
        run(&mut other, &format!("INSERT INTO t VALUES {row}"));
        run(&mut one, &inserts(row));
        run(&mut one, "COMMIT");
    }
    assert_eq!(run(&mut one, "SELECT count(*) FROM t"), Some("2".into()));
}

/// Nothing but its end can follow, unless there is a savepoint to go back to.
#[test]
fn a_block_that_has_failed_keeps_no_locks() {
    let (_scratch, sql) = Scratch::open("between-failed");
    let (mut one, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(&mut one, "CREATE TABLE t (a int PRIMARY KEY)");
    let takes = "BEGIN; LOCK TABLE t NOWAIT; INSERT INTO t VALUES (1); COMMIT; DELETE FROM t";
    run(&mut one, "BEGIN; LOCK TABLE t; INSERT INTO t VALUES (1)");
    assert_eq!(fails(&mut one, "SELECT 1 / 0"), "22012");
    run(&mut other, takes);
    for refused in ["SELECT 1", "SAVEPOINT s", "ROLLBACK TO s"] {
        let state = fails(&mut one, refused);
        assert!(["25P02", "3B001"].contains(&state), "{refused}: {state}");
    }
    run(&mut one, "COMMIT");
    assert_eq!(run(&mut one, "SELECT count(*) FROM t"), Some("0".into()));
    // Its definitions are gone, and others define while it waits for its end.
    run(
        &mut one,
        "BEGIN; CREATE TABLE u (a int); INSERT INTO u VALUES (1)",
    );
    assert_eq!(fails(&mut one, "SELECT 1 / 0"), "22012");
    run(
        &mut other,
        "CREATE TABLE u (a text); INSERT INTO u VALUES ('mine')",
    );
    run(&mut one, "ROLLBACK");
    assert_eq!(run(&mut one, "SELECT a FROM u"), Some("mine".into()));
    run(
        &mut one,
        "BEGIN; LOCK TABLE t; SAVEPOINT s; INSERT INTO t VALUES (1)",
    );
    assert_eq!(fails(&mut one, "SELECT 1 / 0"), "22012");
    assert_eq!(fails(&mut other, takes), "55P03");
    run(&mut other, "ROLLBACK");
    run(&mut one, "ROLLBACK TO s; INSERT INTO t VALUES (2); COMMIT");
    assert_eq!(run(&mut one, "SELECT a FROM t"), Some("2".into()));
}

/// A value of `pg_stat_statements` for a statement.
fn found(session: &mut Session, what: &str, query: &str) -> String {
    let text = format!("SELECT {what} FROM pg_stat_statements WHERE query = '{query}'");
    run(session, &text).unwrap_or_default()
}

#[test]
fn statements_are_counted_without_their_constants() {
    let (_scratch, sql) = Scratch::open("between-statements");
    let (mut one, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(&mut one, "CREATE TABLE t (a int PRIMARY KEY, b text)");
    run(&mut one, "SELECT pg_stat_statements_reset()");
    for number in 0..5 {
        // The same, by the plan cache and without it, of both sessions.
        let insert = format!("INSERT INTO t VALUES ({number}, 'text {number}')");
        run(if number < 3 { &mut one } else { &mut other }, &insert);
    }
    run(&mut one, "BEGIN; UPDATE t SET b = 'x' WHERE a < 4; COMMIT");
    let insert = "INSERT INTO t VALUES ($1, $2)";
    let looked = found(&mut one, "calls || ' ' || rows || ' ' || commits", insert);
    assert_eq!(looked, "5 5 5");
    let costs = "fences >= 5 AND bytes_stored > 0 AND min_exec_time > 0";
    let times = "total_exec_time BETWEEN calls * min_exec_time AND calls * max_exec_time";
    assert_eq!(
        found(&mut one, &format!("{costs} AND {times}"), insert),
        "t"
    );
    let update = "UPDATE t SET b = $1 WHERE a < $2";
    assert_eq!(found(&mut one, "calls || ' ' || rows", update), "1 4");
    // The commit of a block is a statement of its own.
    assert_eq!(found(&mut one, "fences", update), "0");
    assert_eq!(found(&mut one, "commits", "COMMIT"), "1");
    // Statements of the extended protocol, with the commit that follows.
    one.prepare("p", "INSERT INTO t VALUES ($1, 'p')", &[])
        .unwrap();
    for number in [10, 11] {
        one.bind("", "p", &[sql::types::Datum::Int4(number)])
            .unwrap();
        one.execute_portal("", 0, &mut Last::default()).unwrap();
        one.sync().unwrap();
    }
    let prepared = "INSERT INTO t VALUES ($1, $2)";
    assert_eq!(found(&mut one, "calls || ' ' || commits", prepared), "7 7");
    // A portal that stops and goes on is one call.
    one.prepare("q", "SELECT a AS parts FROM t", &[]).unwrap();
    one.bind("c", "q", &[]).unwrap();
    for _ in 0..4 {
        one.execute_portal("c", 2, &mut Last::default()).unwrap();
    }
    one.sync().unwrap();
    let parts = "SELECT a AS parts FROM t";
    assert_eq!(found(&mut one, "calls || ' ' || rows", parts), "1 7");
    // Statements that fail are not counted; texts of others are for superusers.
    assert_eq!(fails(&mut one, "SELECT 1 / 0 AS failed"), "22012");
    assert_eq!(found(&mut one, "calls", "SELECT $1 / $2 AS failed"), "");
    run(&mut one, "CREATE ROLE clerk LOGIN PASSWORD 'secret'");
    let role = "CREATE ROLE clerk LOGIN PASSWORD $1";
    assert_eq!(found(&mut one, "calls", role), "1");
    let mut clerk = sql.connect_as("clerk").unwrap();
    let hidden = "SELECT count(*) FROM pg_stat_statements
        WHERE query <> '<insufficient privilege>' AND userid <> 'clerk'::regrole";
    assert_eq!(run(&mut clerk, hidden), Some("0".into()));
    assert_eq!(
        fails(&mut clerk, "SELECT pg_stat_statements_reset()"),
        "42501"
    );
    run(
        &mut one,
        "SELECT pg_stat_statements_reset(0, 0, queryid) FROM pg_stat_statements WHERE query = 'COMMIT'",
    );
    assert_eq!(found(&mut one, "calls", "COMMIT"), "");
    assert_eq!(found(&mut one, "calls || ''", insert), "7");
    run(&mut one, "SELECT pg_stat_statements_reset()");
    assert_eq!(found(&mut one, "calls", insert), "");
    let info = "SELECT dealloc || ' ' || (stats_reset <= now()) FROM pg_stat_statements_info";
    assert_eq!(run(&mut one, info), Some("0 true".into()));
}

#[test]
fn execute_counts_under_the_text_of_its_prepare() {
    let (_scratch, sql) = Scratch::open("between-execute");
    let mut one = sql.connect().unwrap();
    run(&mut one, "CREATE TABLE t (a int PRIMARY KEY)");
    run(&mut one, "INSERT INTO t SELECT generate_series(0, 4)");
    // PREPARE is not counted itself.
    let kept = "PREPARE kept AS SELECT a AS one FROM t WHERE a = $1";
    run(&mut one, kept);
    run(&mut one, "EXECUTE kept(1)");
    run(&mut one, "EXECUTE kept(2); DEALLOCATE kept");
    let shown = "calls || ' ' || rows";
    assert_eq!(found(&mut one, shown, kept), "2 2");
    let others = "SELECT count(*) FROM pg_stat_statements
        WHERE query LIKE 'EXECUTE%' OR query LIKE 'DEALLOCATE%'";
    assert_eq!(run(&mut one, others), Some("0".into()));
}

#[test]
fn sessions_begin_with_the_settings_of_their_role() {
    let (_scratch, sql) = Scratch::open("role-settings");
    let mut owner = sql.connect().unwrap();
    run(
        &mut owner,
        "CREATE ROLE maria LOGIN; ALTER ROLE ALL SET lock_timeout = 7; \
         ALTER DATABASE indelible SET work_mem = '2MB'; ALTER ROLE maria SET work_mem = '3MB'; \
         ALTER ROLE maria SET search_path = one, \"Two, three\"; \
         ALTER ROLE maria IN DATABASE indelible SET lock_timeout = 9",
    );
    let begun = |role: &str| {
        let mut session = sql.connect_as(role).unwrap();
        let shown = ["work_mem", "lock_timeout", "search_path"];
        let shown = shown.map(|name| run(&mut session, &format!("SHOW {name}")).unwrap());
        run(&mut session, "SET work_mem = '8MB'; RESET work_mem");
        let again = run(&mut session, "SHOW work_mem").unwrap();
        (shown.join(" | "), again)
    };
    let marias = "3MB | 9ms | one, \"Two, three\"";
    assert_eq!(begun("maria"), (marias.to_owned(), "3MB".to_owned()));
    let others = "2MB | 7ms | \"$user\", public";
    assert_eq!(begun("indelible"), (others.to_owned(), "2MB".to_owned()));
    run(&mut owner, "ALTER ROLE maria RESET ALL");
    run(
        &mut owner,
        "ALTER ROLE maria IN DATABASE indelible RESET ALL",
    );
    assert_eq!(begun("maria").0, others);
    run(&mut owner, "DROP ROLE maria; ALTER ROLE ALL RESET ALL");
    let left = "SELECT string_agg(setrole || array_to_string(setconfig, ','), ' ') \
                FROM pg_db_role_setting";
    assert_eq!(run(&mut owner, left), Some("0work_mem=2MB".to_owned()));
}

#[test]
fn a_prepared_transaction_belongs_to_its_owner() {
    let (_scratch, sql) = Scratch::open("prepared-owner");
    let mut owner = sql.connect().unwrap();
    run(
        &mut owner,
        "CREATE TABLE t (a integer); CREATE ROLE maria LOGIN; CREATE ROLE anna LOGIN; \
         GRANT INSERT ON t TO maria",
    );
    let mut maria = sql.connect_as("maria").unwrap();
    let mut anna = sql.connect_as("anna").unwrap();
    for name in ["one", "two"] {
        let prepare = format!("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION '{name}'");
        run(&mut maria, &prepare);
    }
    let whose = "SELECT owner FROM pg_prepared_xacts WHERE gid = 'one'";
    assert_eq!(run(&mut anna, whose), Some("maria".to_owned()));
    assert_eq!(fails(&mut anna, "COMMIT PREPARED 'one'"), "42501");
    assert_eq!(fails(&mut anna, "ROLLBACK PREPARED 'one'"), "42501");
    run(&mut maria, "COMMIT PREPARED 'one'");
    run(&mut owner, "COMMIT PREPARED 'two'");
    let count = run(&mut owner, "SELECT count(*) FROM t");
    assert_eq!(count, Some("2".to_owned()));
}

/// After a restart the numbers of rows without a key began after the highest committed row, and so
/// did those of rows that wait to be committed.
#[test]
fn rows_of_a_prepared_transaction_keep_their_hidden_numbers() {
    let (scratch, sql) = Scratch::open("prepared-numbers");
    let mut session = sql.connect().unwrap();
    run(&mut session, "CREATE TABLE t (a integer)");
    run(&mut session, "INSERT INTO t VALUES (1)");
    run(
        &mut session,
        "BEGIN; INSERT INTO t VALUES (2), (3); PREPARE TRANSACTION 'one'",
    );
    drop(session);
    sql.close().unwrap();
    let sql = Sql::open(Database::open(scratch.directory()).unwrap()).unwrap();
    let mut session = sql.connect().unwrap();
    run(
        &mut session,
        "SET lock_timeout = '1ms'; INSERT INTO t VALUES (4)",
    );
    run(&mut session, "COMMIT PREPARED 'one'");
    let rows = run(&mut session, "SELECT string_agg(a::text, ' ') FROM t");
    assert_eq!(rows, Some("1 2 3 4".to_owned()));
}

#[test]
fn without_room_nothing_is_prepared() {
    let (scratch, sql) = Scratch::open("prepared-off");
    sql.close().unwrap();
    let options = Options::new().prepared_max(0);
    let database = Database::open_with(scratch.directory(), &options).unwrap();
    let sql = Sql::open(database).unwrap();
    let mut session = sql.connect().unwrap();
    let shown = run(&mut session, "SHOW max_prepared_transactions");
    assert_eq!(shown, Some("0".to_owned()));
    let refused = fails(&mut session, "BEGIN; PREPARE TRANSACTION 'one'");
    assert_eq!(refused, "55000");
    assert_eq!(
        fails(&mut session, "SET max_prepared_transactions = 5"),
        "55P02"
    );
    // In a failed block it only ends it.
    fails(&mut session, "BEGIN; SELECT 1 / 0");
    run(&mut session, "PREPARE TRANSACTION 'one'");
    assert_eq!(session.status(), sql::TransactionStatus::Idle);
}
