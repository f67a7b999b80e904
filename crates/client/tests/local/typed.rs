//! Typed clients beside the SQL that runs in the same session.
//!
//! Names of statements, interrupts and notices are the session's, so SQL and other threads reach
//! those of the client. Results end, and nothing of them stays.

use crate::scratch::Scratch;
use client::{ResultId, TypedClient, Value};
use sql::types::{Context, Datum};
use sql::{Batch, Flow, OutputColumn, RowSink, SqlError, SqlState};

const MANY: &str = "SELECT g FROM generate_series(1, 100000) g";

/// Takes rows, or fails.
#[derive(Default)]
struct Few {
    fails: bool,
}

impl RowSink for Few {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, _: &Context<'_>) -> Result<Flow, SqlError> {
        if self.fails {
            return Err(SqlError::internal("enough"));
        }
        Ok(if batch.is_empty() {
            Flow::More
        } else {
            Flow::Full
        })
    }
}

fn connected(name: &str) -> (Scratch, TypedClient) {
    let (scratch, sql) = Scratch::open(name);
    (scratch, TypedClient::connect(&sql).unwrap())
}

fn number(client: &mut TypedClient, text: &str, value: i64) -> i64 {
    let done = client.execute(text, vec![Value::One(Datum::Int8(value))]);
    done.unwrap().rows.row(0)[0].int().unwrap()
}

fn begun(client: &mut TypedClient, text: &str) -> ResultId {
    client.execute(text, Vec::new()).unwrap().result.unwrap()
}

/// Statements of texts were known to the client by names that SQL had forgotten, and each of them
/// failed from then on with 26000. Their texts are prepared again.
#[test]
fn statements_come_back_after_deallocate() {
    let (_scratch, mut client) = connected("typed-deallocate");
    let text = "SELECT $1::bigint + 1";
    let run = |client: &mut TypedClient, text: &str| client.execute(text, Vec::new()).map(drop);
    run(&mut client, "CREATE TABLE t (a bigint PRIMARY KEY)").unwrap();
    for forget in ["DEALLOCATE ALL", "DISCARD ALL"] {
        assert_eq!(number(&mut client, text, 1), 2);
        run(&mut client, forget).unwrap();
        assert_eq!(number(&mut client, text, 2), 3);
        client.run(forget, &mut Few::default()).unwrap();
        assert_eq!(number(&mut client, text, 3), 4);
    }
    let insert = "INSERT INTO t VALUES ($1)";
    let mut rows = vec![Value::One(Datum::Int8(1)), Value::One(Datum::Int8(2))];
    assert_eq!(client.execute_all(insert, 2, &mut rows).unwrap(), 2);
    run(&mut client, "DEALLOCATE ALL").unwrap();
    let mut rows = vec![Value::One(Datum::Int8(3)), Value::One(Datum::Int8(4))];
    assert_eq!(client.execute_all(insert, 2, &mut rows).unwrap(), 2);

    // A program's own statement of such a name is neither run nor in the way.
    run(&mut client, "DEALLOCATE ALL").unwrap();
    for at in 1..50 {
        let prepare = format!("PREPARE indelible_{at} (bigint) AS SELECT -1::bigint");
        client.run(&prepare, &mut Few::default()).unwrap();
    }
    assert_eq!(number(&mut client, text, 5), 6);
}

/// An interrupt between two parts of a statement was forgotten when the second one began.
#[test]
fn an_interrupt_between_batches_ends_the_statement() {
    let (_scratch, mut client) = connected("typed-interrupt");
    let interrupt = client.session().interrupt();
    let result = begun(&mut client, MANY);
    client.next_batch(result).unwrap();
    interrupt.raise();
    let error = client.next_batch(result).unwrap_err();
    assert_eq!(error.state, SqlState::QUERY_CANCELED);
    assert!(!client.is_open(result));

    // Without a statement it is nobody's, and one that begins later is not meant.
    interrupt.raise();
    let result = begun(&mut client, MANY);
    assert!(client.next_batch(result).unwrap().is_some());
    interrupt.raise();
    client.close(result).unwrap();
    client.execute("SELECT 1", Vec::new()).unwrap();

    // The rest of a result is read before another statement: it fails, and that one runs.
    let result = begun(&mut client, MANY);
    interrupt.raise();
    let other = begun(&mut client, MANY);
    assert!(client.next_batch(result).is_err());
    assert!(client.next_batch(other).unwrap().is_some());
}

/// Results that a sink had read to their end were kept as long as the client.
#[test]
fn a_result_that_was_pulled_is_forgotten() {
    let (_scratch, mut client) = connected("typed-pull");
    for text in [
        MANY,
        "SELECT 1 / (90000 - g) FROM generate_series(1, 100000) g",
    ] {
        let result = begun(&mut client, text);
        let pulled = loop {
            match client.pull(result, &mut Few::default()) {
                Ok(true) => assert!(client.is_open(result)),
                other => break other,
            }
        };
        assert_eq!(pulled.is_err(), text != MANY);
        assert!(!client.is_open(result));
    }
    let result = begun(&mut client, MANY);
    client.execute("SELECT 1", Vec::new()).unwrap();
    let mut few = Few { fails: true };
    assert!(client.pull(result, &mut few).is_err());
    assert!(!client.is_open(result));
}

/// Notices that nobody took were kept as long as the session.
#[test]
fn the_newest_notices_are_kept() {
    let (_scratch, mut client) = connected("typed-notices");
    for at in 0..120 {
        let text = format!("DROP TABLE IF EXISTS missing_{at}");
        client.execute(&text, Vec::new()).unwrap();
    }
    let notices = client.take_notices();
    assert_eq!(notices.len(), 50);
    assert!(notices[49].content.message.contains("missing_119"));
    assert!(client.take_notices().is_empty());
}

/// Each object that goes with another one was told of by a notice of its own, and DROP of kinds
/// that do not exist was refused.
#[test]
fn a_drop_tells_of_all_that_goes_or_is_missing_at_once() {
    let (_scratch, mut client) = connected("typed-drops");
    for text in [
        "CREATE TABLE a (c int PRIMARY KEY)",
        "CREATE TABLE b (x int REFERENCES a, y int REFERENCES a)",
        "CREATE FUNCTION f(p a) RETURNS int LANGUAGE sql AS 'SELECT p.c'",
    ] {
        client.execute(text, Vec::new()).unwrap();
    }
    let mut told = |text: &str| -> Vec<(String, Option<String>)> {
        client.execute(text, Vec::new()).unwrap();
        let notices = client.take_notices().into_iter();
        let texts = notices.map(|one| (one.content.message, one.content.detail));
        texts.collect()
    };
    let lines = [
        "drop cascades to constraint b_x_fkey on table b",
        "drop cascades to constraint b_y_fkey on table b",
        "drop cascades to function f(a)",
    ];
    let dropped = told("DROP TABLE a CASCADE");
    assert_eq!(dropped.len(), 1);
    assert_eq!(dropped[0].0, "drop cascades to 3 other objects");
    let mut detail: Vec<&str> = dropped[0].1.as_deref().unwrap().lines().collect();
    detail.sort_unstable();
    assert_eq!(detail, lines);
    told("CREATE VIEW v AS SELECT x FROM b");
    let one = "drop cascades to view v".to_owned();
    assert_eq!(told("ALTER TABLE b DROP x CASCADE"), [(one, None)]);

    for (text, wanted) in [
        (
            "DROP TRIGGER IF EXISTS t ON b",
            "trigger \"t\" for relation \"b\"",
        ),
        ("DROP RULE IF EXISTS t ON gone", "relation \"gone\""),
        (
            "DROP EVENT TRIGGER IF EXISTS e CASCADE",
            "event trigger \"e\"",
        ),
        ("DROP AGGREGATE IF EXISTS s.a(int)", "aggregate s.a(int)"),
    ] {
        let wanted = format!("{wanted} does not exist, skipping");
        assert_eq!(told(text), [(wanted, None)], "{text}");
    }
}

/// Clients tell notices apart by their SQLSTATE, which is that of the error.
#[test]
fn a_notice_of_what_is_there_already_has_its_state() {
    let (_scratch, mut client) = connected("typed-there-already");
    for (text, state) in [
        ("CREATE TABLE IF NOT EXISTS t (a int)", "42P07"),
        ("CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS a", "42P07"),
        ("CREATE INDEX IF NOT EXISTS i ON t (a)", "42P07"),
        ("CREATE SEQUENCE IF NOT EXISTS s", "42P07"),
        (
            "CREATE MATERIALIZED VIEW IF NOT EXISTS m AS SELECT 1",
            "42P07",
        ),
        ("CREATE SCHEMA IF NOT EXISTS x", "42P06"),
        ("CREATE EXTENSION IF NOT EXISTS plpgsql", "42710"),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS b int", "42701"),
        ("ALTER TYPE e ADD VALUE IF NOT EXISTS 'a'", "42710"),
        ("DROP TABLE IF EXISTS gone", "00000"),
    ] {
        if text.starts_with("ALTER TYPE") {
            client
                .execute("CREATE TYPE e AS ENUM ('a')", Vec::new())
                .unwrap();
        }
        client.execute(text, Vec::new()).unwrap();
        client.take_notices();
        client.execute(text, Vec::new()).unwrap();
        let notices = client.take_notices();
        let states: Vec<&str> = notices.iter().map(|one| one.content.state.0).collect();
        assert_eq!(states, [state], "{text}");
    }
}

/// The type of a list was that of its first number, which the others did not fit.
#[test]
fn a_list_of_numbers_has_the_type_of_all() {
    let (_scratch, mut client) = connected("typed-lists");
    let create = "CREATE TABLE t (a numeric[], b json)";
    client.execute(create, Vec::new()).unwrap();
    let list = Value::List(vec![Datum::Int8(1).into(), Datum::Float8(2.5).into()]);
    let insert = "INSERT INTO t (a) VALUES ($1)";
    client.execute(insert, vec![list]).unwrap();
    let shown = client.execute("SELECT a::text FROM t", Vec::new()).unwrap();
    assert!(matches!(&shown.rows.row(0)[0], Datum::Text(text) if **text == *"{1,2.5}"));

    // A document that its language has not checked is checked here.
    let insert = "INSERT INTO t (b) VALUES ($1)";
    let wrong = vec![Value::One(Datum::Json("{\"a\": NaN}".into()))];
    let error = client.execute(insert, wrong).unwrap_err();
    assert_eq!(error.state, SqlState::INVALID_TEXT_REPRESENTATION);
}
