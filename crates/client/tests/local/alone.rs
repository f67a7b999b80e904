//! Queries of one row that stand alone run without a transaction, and nobody can tell.
//!
//! Each is asked as a text, which finds its plan in the cache, and as a prepared statement.

use crate::between::{Last, run};
use crate::scratch::Scratch;
use sql::types::Datum;
use sql::{Session, SqlError, TransactionStatus};

/// The first value of `SELECT v / d FROM t WHERE a = 1`, in both ways, which must agree.
fn ask(session: &mut Session) -> Result<Option<String>, SqlError> {
    let (mut first, mut last) = (Last::default(), Last::default());
    let as_text = session.simple("SELECT v / d FROM t WHERE a = 1", &mut first);
    let mut values = vec![Datum::Int4(1)];
    let prepared = match session.execute_point("p", &mut values, &mut last) {
        // A plan of another moment: it is made again, and kept.
        Ok(None) => {
            let bound = session.bind("", "p", &values);
            let run = bound.and_then(|()| session.execute_portal("", 0, &mut last));
            run.and_then(|_| session.sync())
        }
        other => other.map(drop),
    };
    match (as_text, prepared) {
        (Ok(()), Ok(())) => {
            assert_eq!(first.0, last.0);
            Ok(first.0)
        }
        (Err(one), Err(other)) => {
            assert_eq!(one.state, other.state);
            Err(one)
        }
        (one, other) => panic!("{one:?} as a text, {other:?} prepared"),
    }
}

fn commits(session: &mut Session) -> u64 {
    let counted = "SELECT xact_commit FROM pg_stat_database WHERE xact_commit > 0";
    run(session, counted).unwrap().parse().unwrap()
}

#[test]
fn a_query_that_stands_alone_shows_what_is_committed() {
    let (_scratch, sql) = Scratch::open("alone");
    let (mut reader, mut writer) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut writer,
        "CREATE TABLE t (a int PRIMARY KEY, v int, d int); INSERT INTO t VALUES (1, 8, 2)",
    );
    let text = "SELECT v / d FROM t WHERE a = $1";
    reader.prepare("p", text, &[]).unwrap();
    for _ in 0..3 {
        assert_eq!(ask(&mut reader).unwrap().as_deref(), Some("4"));
    }
    run(&mut writer, "BEGIN; UPDATE t SET v = 6");
    assert_eq!(ask(&mut reader).unwrap().as_deref(), Some("4"));
    run(&mut writer, "COMMIT");
    assert_eq!(ask(&mut reader).unwrap().as_deref(), Some("3"));

    // An error ends it alone.
    run(&mut writer, "UPDATE t SET d = 0");
    assert_eq!(ask(&mut reader).unwrap_err().state.0, "22012");
    assert_eq!(reader.status(), TransactionStatus::Idle);
    run(&mut writer, "UPDATE t SET d = 2");
    assert_eq!(ask(&mut reader).unwrap().as_deref(), Some("3"));
    let before = commits(&mut writer);
    ask(&mut reader).unwrap();
    // The two, and the query for the first count.
    assert_eq!(commits(&mut writer), before + 3);

    // Definitions of others.
    run(
        &mut writer,
        "ALTER TABLE t RENAME v TO w; ALTER TABLE t ADD v int DEFAULT 20",
    );
    assert_eq!(ask(&mut reader).unwrap().as_deref(), Some("10"));
    run(&mut writer, "CREATE ROLE r; GRANT SELECT ON t TO r");
    run(&mut reader, "SET ROLE r");
    assert_eq!(ask(&mut reader).unwrap().as_deref(), Some("10"));
    run(&mut writer, "REVOKE SELECT ON t FROM r");
    assert_eq!(ask(&mut reader).unwrap_err().state.0, "42501");
    run(&mut reader, "RESET ROLE");

    // In a block it is part of the transaction, and with a snapshot it reads that.
    run(&mut reader, "BEGIN; UPDATE t SET v = 2");
    assert_eq!(ask(&mut reader).unwrap().as_deref(), Some("1"));
    run(&mut reader, "ROLLBACK");
    run(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_eq!(ask(&mut reader).unwrap().as_deref(), Some("10"));
    run(&mut writer, "UPDATE t SET v = 4");
    assert_eq!(ask(&mut reader).unwrap().as_deref(), Some("10"));
    run(&mut reader, "COMMIT");
    assert_eq!(ask(&mut reader).unwrap().as_deref(), Some("2"));

    run(&mut writer, "DROP TABLE t");
    assert_eq!(ask(&mut reader).unwrap_err().state.0, "42P01");
}

#[test]
fn what_calls_the_session_has_a_transaction() {
    let (_scratch, sql) = Scratch::open("alone-host");
    let mut session = sql.connect().unwrap();
    run(
        &mut session,
        "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1); CREATE SEQUENCE s; LISTEN c",
    );
    for number in 1..4 {
        let next = run(&mut session, "SELECT nextval('s') FROM t WHERE a = 1");
        assert_eq!(next, Some(number.to_string()));
        run(&mut session, "SELECT pg_notify('c', '') FROM t WHERE a = 1");
        assert_eq!(session.take_notifications().len(), 1);
        let is_now = "SELECT now() = statement_timestamp() AND now() <= clock_timestamp() \
                      FROM t WHERE a = 1";
        assert_eq!(run(&mut session, is_now).as_deref(), Some("t"));
    }
}

#[test]
fn an_insertion_whose_key_is_taken_fails_alike_alone_and_in_a_block() {
    let (_scratch, sql) = Scratch::open("alone-insert");
    let (mut session, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut session,
        "CREATE TABLE t (a int, b text, CONSTRAINT t_key PRIMARY KEY (b, a)); \
         INSERT INTO t VALUES (1, 'x')",
    );
    run(
        &mut other,
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM t",
    );
    let text = "INSERT INTO t VALUES ($1, 'x') RETURNING a";
    session.prepare("p", text, &[]).unwrap();
    let insert = |session: &mut Session, a| {
        let (mut last, mut values) = (Last::default(), vec![Datum::Int4(a)]);
        let done = session.execute_point("p", &mut values, &mut last)?;
        if done.is_none() {
            session.bind("", "p", &[Datum::Int4(a)])?;
            session.execute_portal("", 0, &mut last)?;
            session.sync()?;
        }
        Ok(last.0)
    };
    for a in 2..5 {
        assert_eq!(insert(&mut session, a).unwrap(), Some(a.to_string()));
    }
    for is_in_block in [false, true] {
        if is_in_block {
            run(&mut session, "BEGIN");
        }
        let error: SqlError = insert(&mut session, 1).unwrap_err();
        assert_eq!(error.state.0, "23505");
        let expected = "duplicate key value violates unique constraint \"t_key\"";
        assert_eq!(error.message, expected);
        let detail = "Key (b, a)=(x, 1) already exists.";
        assert_eq!(error.detail.as_deref(), Some(detail));
        let names = error.names.as_ref().unwrap();
        assert_eq!(names.table.as_deref(), Some("t"));
        assert_eq!(names.constraint.as_deref(), Some("t_key"));
        let status = if is_in_block {
            TransactionStatus::Failed
        } else {
            TransactionStatus::Idle
        };
        assert_eq!(session.status(), status);
        run(&mut session, "ROLLBACK");
    }
    assert_eq!(
        run(&mut other, "SELECT count(*) FROM t").as_deref(),
        Some("1")
    );
    assert_eq!(
        run(&mut session, "SELECT count(*) FROM t").as_deref(),
        Some("4")
    );
}
