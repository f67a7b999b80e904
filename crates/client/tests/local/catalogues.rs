//! The catalogue of a transaction that defines something, beside definitions and ends of others.
//!
//! The transaction has a copy, which replaces the catalogue of all when it commits: what others
//! have made or ended in the meantime must not go or come back with it.

use crate::between::run;
use crate::keys::state_of;
use crate::scratch::Scratch;
use indelible::Database;
use sql::Sql;

#[test]
fn what_others_define_after_a_savepoint_stays_after_a_rollback_to_it() {
    let (_scratch, sql) = Scratch::open("catalogue-savepoint");
    let (mut one, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(&mut one, "BEGIN; SAVEPOINT s; SAVEPOINT t");
    run(
        &mut other,
        "CREATE TABLE theirs (a int); INSERT INTO theirs VALUES (1)",
    );
    run(&mut one, "CREATE TABLE first (a int); ROLLBACK TO s");
    assert_eq!(
        run(&mut one, "SELECT count(*) FROM theirs").as_deref(),
        Some("1")
    );
    assert_eq!(
        run(&mut one, "SELECT to_regclass('first') IS NULL").as_deref(),
        Some("t")
    );
    run(&mut one, "CREATE TABLE second (a int); COMMIT");
    for session in [&mut one, &mut other] {
        let count = run(
            session,
            "SELECT count(*) FROM theirs, (SELECT count(*) FROM second) s",
        );
        assert_eq!(count.as_deref(), Some("1"));
    }
}

#[test]
fn temporary_objects_of_an_ended_session_do_not_come_back() {
    let (_scratch, sql) = Scratch::open("catalogue-temporary");
    let (mut one, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut other,
        "CREATE TEMP TABLE theirs (a serial); CREATE TEMP VIEW v AS TABLE theirs",
    );
    run(
        &mut one,
        "CREATE TEMP TABLE own (a int); INSERT INTO own VALUES (1)",
    );
    run(&mut one, "BEGIN; CREATE TABLE made (a int)");
    drop(other);
    run(&mut one, "COMMIT");
    let left = "SELECT count(*) FROM pg_class WHERE relname IN ('theirs', 'theirs_a_seq', 'v')";
    assert_eq!(run(&mut one, left).as_deref(), Some("0"));
    assert_eq!(
        run(&mut one, "SELECT count(*) FROM own").as_deref(),
        Some("1")
    );
    assert_eq!(
        run(&mut one, "SELECT count(*) FROM made").as_deref(),
        Some("0")
    );
}

/// Another session read and changed the rows of a temporary table that inherits from a permanent
/// one, and lost a permanent view when a temporary one took its name.
#[test]
fn temporary_tables_and_views_are_those_of_their_session() {
    let (_scratch, sql) = Scratch::open("catalogue-temporary-heirs");
    let (mut one, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut one,
        "CREATE TABLE up (a int); INSERT INTO up VALUES (1); CREATE VIEW v AS SELECT 5 AS a",
    );
    run(
        &mut other,
        "CREATE TEMP TABLE down () INHERITS (up); INSERT INTO down VALUES (2);
         CREATE OR REPLACE VIEW v AS SELECT a FROM down",
    );
    let sum = "SELECT sum(a) FROM up";
    assert_eq!(run(&mut other, sum).as_deref(), Some("3"));
    assert_eq!(run(&mut one, sum).as_deref(), Some("1"));
    run(&mut one, "UPDATE up SET a = a + 10");
    assert_eq!(run(&mut other, sum).as_deref(), Some("13"));
    run(&mut one, "TRUNCATE up");
    assert_eq!(run(&mut other, sum).as_deref(), Some("2"));
    let view = "SELECT a FROM v";
    assert_eq!(run(&mut other, view).as_deref(), Some("2"));
    assert_eq!(run(&mut one, view).as_deref(), Some("5"));
    drop(other);
    assert_eq!(run(&mut one, view).as_deref(), Some("5"));
}

/// Domains of fields and of elements of arrays are there when the database is opened again, and so
/// are checks that tables below do not have.
#[test]
fn domains_inside_types_last() {
    let (scratch, sql) = Scratch::open("catalogue-domains");
    let mut session = sql.connect().unwrap();
    run(
        &mut session,
        "CREATE DOMAIN positive AS int CHECK (value > 0); CREATE TYPE pair AS (d positive, n int); \
         CREATE DOMAIN short AS positive[] CHECK (cardinality(value) < 3); \
         CREATE TABLE t (c pair, a positive[], s short); \
         CREATE TABLE above (a int CHECK (a > 0) NO INHERIT); CREATE TABLE below () INHERITS (above)",
    );
    drop((session, sql));
    let database = Database::open(scratch.directory()).unwrap();
    let sql = Sql::open(database).unwrap();
    let mut session = sql.connect().unwrap();
    for (statement, state) in [
        ("INSERT INTO t (c) VALUES (row(-1, 1))", "23514"),
        ("INSERT INTO t (a) VALUES ('{-1}')", "23514"),
        ("INSERT INTO t (s) VALUES ('{-1}')", "23514"),
        ("INSERT INTO below VALUES (-1)", ""),
        ("INSERT INTO above VALUES (-1)", "23514"),
        ("DROP DOMAIN positive", "2BP01"),
        // Limits of this database.
        ("CREATE TABLE wrong (a short[])", "0A000"),
        (
            "SELECT jsonb_populate_recordset(null::pair, '[{\"d\":1}]')",
            "0A000",
        ),
    ] {
        assert_eq!(state_of(&mut session, statement), state, "{statement}");
    }
    run(&mut session, "DROP DOMAIN positive CASCADE");
    let left = "SELECT count(*) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 \
        AND NOT attisdropped";
    assert_eq!(run(&mut session, left).as_deref(), Some("0"));
}
