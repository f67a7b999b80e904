//! The ways to rows that plans take: by keys of several columns, and by what statistics say.
//!
//! Answers are the same whichever way they are found, so the plans themselves are looked at.

use crate::between::run;
use crate::scratch::Scratch;
use sql::types::{Context, text_io};
use sql::{Batch, Flow, OutputColumn, RowSink, Session, Sql, SqlError};
use std::sync::Arc;

/// The first column of all rows.
#[derive(Default)]
struct Lines(Vec<String>);

impl RowSink for Lines {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, context: &Context<'_>) -> Result<Flow, SqlError> {
        for row in batch.rows() {
            let line = text_io::print(&row[0], row[0].kind(), context)?;
            self.0.push(line.trim_start().to_owned());
        }
        Ok(Flow::More)
    }
}

/// Tables of an order book, of one warehouse, as no statistics know.
fn orders(sql: &Arc<Sql>) -> Session {
    let mut session = sql.connect().unwrap();
    let script = "CREATE TABLE clients (w int, d int, c int, name text, PRIMARY KEY (w, d, c)); \
         CREATE TABLE heads (w int, d int, o int, client int, PRIMARY KEY (w, d, o)); \
         CREATE INDEX heads_client ON heads (w, d, client, o); \
         CREATE TABLE lines (w int, d int, o int, n int, item int, PRIMARY KEY (w, d, o, n)); \
         CREATE TABLE stock (w int, i int, quantity int, PRIMARY KEY (w, i)); \
         INSERT INTO clients SELECT 1, d, c, 'n' FROM generate_series(1, 5) d, generate_series(1, 100) c; \
         INSERT INTO heads SELECT 1, d, o, o FROM generate_series(1, 5) d, generate_series(1, 100) o; \
         INSERT INTO lines SELECT w, d, o, n, o FROM heads, generate_series(1, 4) n; \
         INSERT INTO stock SELECT 1, i, i FROM generate_series(1, 20000) i";
    run(&mut session, script);
    session
}

/// The lines of a plan, without the space before them.
fn plan(session: &mut Session, statement: &str) -> Vec<String> {
    lines(session, &format!("EXPLAIN (COSTS OFF) {statement}"))
}

fn lines(session: &mut Session, statement: &str) -> Vec<String> {
    let mut lines = Lines::default();
    session.simple(statement, &mut lines).unwrap();
    lines.0
}

#[test]
fn keys_are_made_of_constants_and_of_other_rows() {
    let (_scratch, sql) = Scratch::open("plans-keys");
    let mut session = orders(&sql);
    // The district of an order is that of its client too.
    let client = "SELECT name FROM heads h, clients c \
                  WHERE h.w = 1 AND c.w = h.w AND h.d = 2 AND c.d = h.d AND c.c = 3 AND h.o = 9";
    let expected = [
        "Nested Loop",
        "->  Index Scan using heads_pkey on heads h",
        "Index Cond: ((w = 1) AND (d = 2) AND (o = 9))",
        "->  Index Scan using clients_pkey on clients c",
        "Index Cond: ((w = 1) AND (d = 2) AND (c = 3))",
    ];
    assert_eq!(plan(&mut session, client), expected);
    // A part of the key is a constant, and the rest comes from the row of the other table.
    let stock = "SELECT count(*) FROM lines l, stock s WHERE l.w = 1 AND l.d = 2 AND l.o = 9 \
                 AND s.w = 1 AND s.i = l.item AND s.quantity < 10";
    let expected = [
        "Aggregate",
        "->  Nested Loop",
        "->  Index Scan using lines_pkey on lines l",
        "Index Cond: ((w = 1) AND (d = 2) AND (o = 9))",
        "->  Index Scan using stock_pkey on stock s",
        "Index Cond: ((w = 1) AND (i = item))",
        "Filter: (quantity < 10)",
    ];
    assert_eq!(plan(&mut session, stock), expected);
    let list = "SELECT o FROM heads WHERE w = 1 AND d = 2 AND o = ANY ('{5,6}'::int[])";
    let expected = [
        "Index Scan using heads_pkey on heads",
        "Index Cond: ((w = 1) AND (d = 2) AND (o = ANY ('{5,6}'::integer[])))",
    ];
    assert_eq!(plan(&mut session, list), expected);
    let rows = "SELECT quantity FROM stock WHERE (w, i) IN ((1, 2), (1, 5))";
    let expected = [
        "Index Scan using stock_pkey on stock",
        "Index Cond: ((w = 1) AND (i = 2)) OR ((w = 1) AND (i = 5))",
    ];
    assert_eq!(plan(&mut session, rows), expected);
}

/// Of two indexes the one with fewer rows is taken, which only statistics know; and they reach
/// plans that are kept.
#[test]
fn queries_and_places_are_keys() {
    let (_scratch, sql) = Scratch::open("plans-queries");
    let mut session = orders(&sql);
    run(&mut session, "CREATE TABLE log (line text)");
    let newest = "(SELECT c FROM clients ORDER BY c LIMIT 1 FOR UPDATE SKIP LOCKED)";
    let update = format!("UPDATE clients SET name = '' WHERE w = 1 AND d = 2 AND c = {newest}");
    let place = "(SELECT ctid FROM log LIMIT 1)";
    for (statement, table) in [
        (update.as_str(), "clients"),
        (
            "SELECT * FROM heads WHERE w = (SELECT 1) AND d = 3",
            "heads",
        ),
        (
            "SELECT * FROM stock WHERE w = ANY (ARRAY(SELECT 1))",
            "stock",
        ),
        (&format!("DELETE FROM log WHERE ctid = {place}"), "log"),
        (
            &format!("DELETE FROM log WHERE ctid = ANY (ARRAY{place})"),
            "log",
        ),
        ("SELECT * FROM log WHERE ctid IN ('(0,1)', '(0,2)')", "log"),
    ] {
        let lines = plan(&mut session, statement);
        let is_found = |line: &String| line.contains("Index Scan") && line.contains(table);
        assert!(lines.iter().any(is_found), "{lines:#?}");
    }
    // A query that reads the row is asked for each of them.
    let lines = plan(&mut session, "SELECT * FROM stock s WHERE w = (SELECT s.i)");
    assert!(
        !lines.iter().any(|line| line.contains("Index Cond")),
        "{lines:#?}"
    );
}

#[test]
fn statistics_of_changed_tables_reach_plans_that_are_kept() {
    let (_scratch, sql) = Scratch::open("plans-statistics");
    let mut session = sql.connect().unwrap();
    let script = "CREATE TABLE t (id int PRIMARY KEY, a int, b int); \
         CREATE INDEX by_a ON t (a); \
         CREATE INDEX by_b ON t (b); \
         PREPARE q AS SELECT id FROM t WHERE a = $1 AND b = $2; \
         INSERT INTO t SELECT i, i % 3, i FROM generate_series(1, 1000) i";
    run(&mut session, script);
    let index = |session: &mut Session| {
        let shown = plan(session, "EXECUTE q(1, 1)");
        shown[0].clone()
    };
    let by = |name: &str| format!("Index Scan using {name} on t");
    assert_eq!(index(&mut session), by("by_a"));
    sql.analyze_changed(|| false).unwrap();
    assert_eq!(index(&mut session), by("by_a"), "nothing goes on");
    sql.analyze_changed(|| true).unwrap();
    assert_eq!(index(&mut session), by("by_b"));
    // A tenth and fifty are needed for other statistics.
    let estimate = |session: &mut Session| lines(session, "EXPLAIN SELECT FROM t WHERE a = 2");
    let more = "INSERT INTO t SELECT i, i, i FROM generate_series";
    for (rows, is_enough) in [("(1001, 1150)", false), ("(1151, 1151)", true)] {
        run(&mut session, &format!("{more}{rows} i"));
        let before = estimate(&mut session);
        sql.analyze_changed(|| true).unwrap();
        let after = estimate(&mut session);
        assert_eq!(after != before, is_enough, "{before:?} {after:?}");
    }
}
