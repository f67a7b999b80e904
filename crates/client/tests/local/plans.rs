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
pub(crate) fn plan(session: &mut Session, statement: &str) -> Vec<String> {
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

/// A table with indexes of expressions and of parts of its rows, and one with the same rows alone.
fn people(sql: &Arc<Sql>) -> Session {
    let mut session = sql.connect().unwrap();
    let script = "CREATE TABLE bare (id int PRIMARY KEY, email text, name varchar(20), score int NOT NULL, \
                                     state text, gone date, active boolean); \
         INSERT INTO bare SELECT i, CASE WHEN i % 9 <> 0 THEN 'User' || i % 500 END, 'N' || i % 50, i % 100, \
             CASE i % 40 WHEN 0 THEN 'queued' WHEN 1 THEN NULL WHEN 2 THEN 'failed' ELSE 'done' END, \
             CASE WHEN i % 3 = 0 THEN date '2024-01-01' + i % 30 END, nullif(i % 7, 0) = 1 \
             FROM generate_series(1, 1000) i; \
         CREATE TABLE people (LIKE bare INCLUDING ALL); \
         INSERT INTO people SELECT * FROM bare; \
         CREATE INDEX by_email ON people (lower(email)); \
         CREATE INDEX by_name ON people (upper(name), score); \
         CREATE INDEX by_sum ON people ((score + id)); \
         CREATE INDEX queued ON people (id) WHERE state = 'queued'; \
         CREATE INDEX kept ON people (score) WHERE gone IS NULL; \
         CREATE INDEX active ON people (score, lower(name)) WHERE active; \
         CREATE INDEX high ON people (state) WHERE score > 90; \
         CREATE INDEX dated ON people (name) WHERE gone IS NOT NULL";
    run(&mut session, script);
    session
}

#[test]
fn indexes_of_expressions_are_read() {
    let (_scratch, sql) = Scratch::open("plans-expressions");
    let mut session = people(&sql);
    let by = |name: &str| format!("Index Scan using {name} on people");
    let mut check = |condition: &str, name: &str, expected: &[&str]| {
        let lines = plan(&mut session, &format!("SELECT id FROM people {condition}"));
        assert_eq!(lines[0], by(name), "{condition}");
        assert_eq!(lines[1..], *expected, "{condition}");
    };
    let cond = "Index Cond: (lower(email) = 'user1'::text)";
    check("WHERE lower(email) = 'user1'", "by_email", &[cond]);
    check("WHERE 'user1' = lower(email)", "by_email", &[cond]);
    let filter = "Filter: (score < 5)";
    check(
        "WHERE lower(email) = 'user1' AND score < 5",
        "by_email",
        &[cond, filter],
    );
    check(
        "WHERE lower(email) = ANY ('{user1,user2}')",
        "by_email",
        &["Index Cond: (lower(email) = ANY ('{user1,user2}'::text[]))"],
    );
    check(
        "WHERE lower(email) > 'user98'",
        "by_email",
        &[
            "Index Cond: (lower(email) > 'user98'::text)",
            "Filter: (lower(email) > 'user98'::text)",
        ],
    );
    check(
        "WHERE upper(name) = 'N5' AND score = 5",
        "by_name",
        &["Index Cond: ((upper((name)::text) = 'N5'::text) AND (score = 5))"],
    );
}

#[test]
fn indexes_of_expressions_give_orders_and_are_looked_up() {
    let (_scratch, sql) = Scratch::open("plans-expressions-others");
    let mut session = people(&sql);
    let by = |name: &str| format!("Index Scan using {name} on people");
    // Few rows of an order, and a range in its order.
    let lines = plan(
        &mut session,
        "SELECT id FROM people ORDER BY score + id DESC LIMIT 3",
    );
    assert_eq!(
        lines,
        ["Limit", "->  Index Scan Backward using by_sum on people"]
    );
    let lines = plan(
        &mut session,
        "SELECT id FROM people WHERE score + id > 1080 ORDER BY score + id",
    );
    assert_eq!(lines[0], by("by_sum"));
    // Changes, queries inside, and joins.
    for (statement, line) in [
        ("DELETE FROM people WHERE lower(email) = 'user1'", 1),
        (
            "UPDATE people SET score = 1 WHERE lower(email) = 'user1'",
            1,
        ),
        (
            "SELECT id FROM (SELECT lower(email) AS mail, id FROM people) p WHERE mail = 'user1'",
            0,
        ),
    ] {
        let lines = plan(&mut session, statement);
        let shown = lines[line].trim_start_matches("->  ");
        assert_eq!(shown, by("by_email"), "{statement}");
        let cond = "Index Cond: (lower(email) = 'user1'::text)";
        assert_eq!(lines[line + 1], cond, "{statement}");
    }
    let join =
        "SELECT p.id FROM (VALUES ('user1'), ('user2')) v(e) JOIN people p ON lower(p.email) = v.e";
    let lines = plan(&mut session, join);
    assert_eq!(lines[0], "Nested Loop");
    assert_eq!(lines[2], "->  Index Scan using by_email on people p");
    run(
        &mut session,
        "PREPARE q AS SELECT id FROM people WHERE lower(email) = lower($1)",
    );
    let lines = plan(&mut session, "EXECUTE q('USER1')");
    assert_eq!(lines[0], by("by_email"));
}

#[test]
fn indexes_of_a_part_are_read_where_conditions_imply_it() {
    let (_scratch, sql) = Scratch::open("plans-parts");
    let mut session = people(&sql);
    let mut first = |condition: &str| {
        let statement = format!("SELECT id FROM people WHERE {condition}");
        let line = plan(&mut session, &statement).swap_remove(0);
        let name = line
            .strip_prefix("Index Scan using ")
            .map(|rest| rest.replace(" on people", ""));
        name.unwrap_or(line)
    };
    for (condition, expected) in [
        ("state = 'queued'", "queued"),
        ("'queued' = state AND id > 5", "queued"),
        ("state IN ('queued') AND id > 900", "queued"),
        ("gone IS NULL AND score = 5", "kept"),
        ("active AND score = 5 AND lower(name) = 'n5'", "active"),
        ("active = true AND score = 5", "active"),
        ("active IS TRUE AND score = 5", "active"),
        ("score > 90 AND state = 'x'", "high"),
        ("90 < score AND state = 'x'", "high"),
        ("score >= 91 AND state = 'x'", "high"),
        ("score > 95 AND state = 'x'", "high"),
        ("score = 95 AND state = 'x'", "high"),
        ("score IN (95, 96) AND state = 'x'", "high"),
        ("(score = 95 OR score > 97) AND state = 'x'", "high"),
        ("gone > '2024-01-05' AND name = 'N5'", "dated"),
        ("gone + 1 = '2024-01-05' AND name = 'N5'", "dated"),
        // Those that do not follow.
        ("state = 'failed' AND score < 0", "Seq Scan on people"),
        (
            "(state = 'queued' OR state = 'failed') AND score < 0",
            "Seq Scan on people",
        ),
        ("score = 5 AND gone IS NOT NULL", "Seq Scan on people"),
        ("NOT active AND score = 5", "Seq Scan on people"),
        ("score >= 90 AND state = 'x'", "Seq Scan on people"),
        ("score IN (90, 96) AND state = 'x'", "Seq Scan on people"),
        (
            "(gone > '2024-01-05' OR score = 1) AND name = 'N5'",
            "Seq Scan on people",
        ),
        (
            "(gone > '2024-01-05') IS NULL AND name = 'N5'",
            "Seq Scan on people",
        ),
        (
            "(gone IS NOT NULL) = false AND name = 'N5'",
            "Seq Scan on people",
        ),
        (
            "(gone IS NULL) IS NOT NULL AND name = 'N5'",
            "Seq Scan on people",
        ),
    ] {
        assert_eq!(first(condition), expected, "{condition}");
    }
}

#[test]
fn parameters_imply_nothing() {
    let (_scratch, sql) = Scratch::open("plans-parts-parameters");
    let mut session = people(&sql);
    // In a prepared statement, or in the place of a literal.
    run(
        &mut session,
        "PREPARE q AS SELECT id FROM people WHERE state = $1",
    );
    let by_parameter = plan(&mut session, "EXECUTE q('queued')");
    assert_eq!(by_parameter[0], "Seq Scan on people");
    for _ in 0..3 {
        for (state, count) in [("queued", "25"), ("failed", "25"), ("done", "925")] {
            let statement = format!("SELECT count(*) FROM people WHERE state = '{state}'");
            assert_eq!(lines(&mut session, &statement), [count]);
        }
    }
    let few = "SELECT id FROM people WHERE state = 'queued' ORDER BY id LIMIT 2";
    let expected = ["Limit", "->  Index Scan using queued on people"];
    assert_eq!(plan(&mut session, few), expected);
    assert_eq!(lines(&mut session, few), ["40", "80"]);
}

/// Rows are the same whether or not there are indexes to find them.
#[test]
fn indexes_of_expressions_find_what_conditions_say() {
    let (_scratch, sql) = Scratch::open("plans-same");
    let mut session = people(&sql);
    let changes = "UPDATE {} SET email = 'x' || id, score = score + 1 WHERE id % 11 = 0; \
                   UPDATE {} SET state = 'queued', gone = NULL WHERE id % 13 = 0; \
                   UPDATE {} SET active = NOT active, name = NULL WHERE id % 17 = 0; \
                   DELETE FROM {} WHERE id % 19 = 0";
    for table in ["bare", "people"] {
        run(&mut session, &changes.replace("{}", table));
    }
    let keys = [
        "lower(email) = 'user7'",
        "lower(email) < 'user2'",
        "lower(email) IS NULL",
        "lower(email) IN ('user7', 'user8', NULL)",
        "upper(name) = 'N7' AND score < 60",
        "upper(name) >= 'N7'",
        "score + id = 107",
        "score + id BETWEEN 100 AND 120",
        "score = 8",
        "score <= 8",
        "score > 93",
        "name = 'N7'",
        "lower(name) = 'n7' AND score = 7",
        "id < 300",
        "true",
    ];
    let parts = [
        "state = 'queued'",
        "state <> 'queued'",
        "gone IS NULL",
        "gone IS NOT NULL",
        "gone > '2024-01-20'",
        "active",
        "NOT active",
        "active IS NOT TRUE",
        "score > 90",
        "score >= 90",
        "(state = 'queued' OR score > 95)",
        "true",
    ];
    for key in keys {
        for part in parts {
            for order in [
                "",
                " ORDER BY id LIMIT 5",
                " ORDER BY score + id, id DESC LIMIT 5",
            ] {
                let rows = |session: &mut Session, table: &str| {
                    let query =
                        format!("SELECT id, score FROM {table} WHERE {key} AND {part}{order}");
                    let sum = "SELECT count(*) || ' ' || coalesce(sum(id), 0)";
                    lines(session, &format!("{sum} FROM ({query}) AS found"))
                };
                let expected = rows(&mut session, "bare");
                assert_eq!(
                    rows(&mut session, "people"),
                    expected,
                    "{key} AND {part}{order}"
                );
            }
        }
    }
}

/// An index gives an order if few rows are wanted.
#[test]
fn indexes_give_orders_of_few_rows() {
    let (_scratch, sql) = Scratch::open("plans-orders");
    let mut session = sql.connect().unwrap();
    let script = "CREATE TABLE o (id int PRIMARY KEY, c int NOT NULL, n int); \
         CREATE INDEX by_c ON o (c); \
         CREATE INDEX by_n ON o (n); \
         INSERT INTO o SELECT i, 5000 - i, nullif(i, 7) FROM generate_series(1, 3000) i";
    run(&mut session, script);
    let few = "SELECT id FROM o ORDER BY c LIMIT 3";
    let expected = ["Limit", "->  Index Scan using by_c on o"];
    assert_eq!(plan(&mut session, few), expected);
    assert_eq!(lines(&mut session, few), ["3000", "2999", "2998"]);
    let range = "SELECT id FROM o WHERE n < 9 ORDER BY n DESC";
    let shown = plan(&mut session, range);
    assert_eq!(shown[0], "Index Scan Backward using by_n on o");
    assert_eq!(
        lines(&mut session, range),
        ["8", "6", "5", "4", "3", "2", "1"]
    );
    let with_null = "SELECT id FROM o ORDER BY n DESC LIMIT 3";
    let shown = plan(&mut session, with_null);
    assert_eq!(shown[1], "->  Index Scan Backward using by_n on o");
    assert_eq!(lines(&mut session, with_null), ["7", "3000", "2999"]);
    // Many rows are sorted at less cost.
    let many = "SELECT id FROM o ORDER BY c LIMIT 1000";
    assert_eq!(plan(&mut session, many)[1], "->  Sort");
    assert_eq!(lines(&mut session, "SELECT min(c) FROM o"), ["2000"]);
}

#[test]
fn indexes_give_orders_of_texts_and_of_columns_with_null() {
    let (_scratch, sql) = Scratch::open("plans-text-orders");
    let mut session = sql.connect().unwrap();
    run(
        &mut session,
        "CREATE TABLE t (id int PRIMARY KEY, made date, name text, size int); \
         CREATE INDEX t_made ON t (made); CREATE INDEX t_name ON t (name); \
         CREATE INDEX t_size ON t (size, name)",
    );
    let mut plan_of = |tail: &str| plan(&mut session, &format!("SELECT id FROM t {tail}"));
    // NULL lies apart, and keys behind the columns are there too; an offset counts.
    for tail in [
        "ORDER BY made LIMIT 5",
        "ORDER BY made DESC LIMIT 5",
        "ORDER BY made NULLS FIRST, id LIMIT 5 OFFSET 20",
        "ORDER BY made DESC NULLS LAST, id DESC LIMIT 5",
    ] {
        let backward = if tail.contains("DESC") {
            " Backward"
        } else {
            ""
        };
        let expected = [
            "Limit".to_owned(),
            format!("->  Index Scan{backward} using t_made on t"),
        ];
        assert_eq!(plan_of(tail), expected, "{tail}");
    }
    // Long texts that begin alike are sorted among themselves.
    let incremental = |key: &str, index: &str| {
        [
            "Limit".to_owned(),
            "->  Incremental Sort".to_owned(),
            format!("Sort Key: {key}"),
            format!("->  Index Scan{index} on t"),
        ]
    };
    let expected = incremental("name DESC", " Backward using t_name");
    assert_eq!(plan_of("ORDER BY name DESC LIMIT 5"), expected);
    let expected = incremental("size, name NULLS FIRST", " using t_size");
    assert_eq!(plan_of("ORDER BY size, name NULLS FIRST LIMIT 5"), expected);
    // NULL of a later column lies among the others, and other orders begin as the index does.
    let expected = incremental("size, name", " using t_size");
    assert_eq!(plan_of("ORDER BY size, name LIMIT 5"), expected);
    let expected = incremental("made, id DESC", " using t_made");
    assert_eq!(plan_of("ORDER BY made, id DESC LIMIT 5"), expected);
    let sorts = |plan: &[String]| plan.iter().any(|line| line == "->  Sort");
    for tail in ["ORDER BY made LIMIT 5000 OFFSET 100", "ORDER BY made"] {
        let plan = plan_of(tail);
        assert!(sorts(&plan) || plan[0] == "Sort", "{tail}: {plan:?}");
    }
    let ends = ["min(name)", "max(name)", "min(made)", "max(made)"];
    for end in ends {
        let plan = plan(&mut session, &format!("SELECT {end} FROM t"));
        assert!(
            plan.iter().any(|line| line.starts_with("->  Index Scan")),
            "{end}: {plan:?}"
        );
    }
}

#[test]
fn patterns_and_null_lead_by_an_index() {
    let (_scratch, sql) = Scratch::open("plans-patterns");
    let mut session = sql.connect().unwrap();
    run(
        &mut session,
        "CREATE TABLE t (id int PRIMARY KEY, name text, code varchar(9), gone date); \
         CREATE INDEX t_name ON t (name); CREATE INDEX t_code ON t (code); \
         CREATE INDEX t_gone ON t (gone); CREATE INDEX t_both ON t (code, gone); \
         INSERT INTO t SELECT n, 'n' || n, 'c' || n, CASE WHEN n % 50 > 0 THEN now()::date END \
         FROM generate_series(1, 2000) n; ANALYZE t",
    );
    let mut plan_of = |condition: &str| {
        let statement = format!("SELECT id FROM t WHERE {condition}");
        plan(&mut session, &statement)
    };
    let of_name = [
        "Index Scan using t_name on t",
        "Index Cond: (name ~~ 'n12%'::text)",
        "Filter: (name ~~ 'n12%'::text)",
    ];
    assert_eq!(plan_of("name LIKE 'n12%'"), of_name);
    for (condition, index) in [
        ("code LIKE 'c1_'", "t_code"),
        ("code LIKE 'c#_%' ESCAPE '#'", "t_code"),
        ("gone IS NULL", "t_gone"),
        ("code = 'c50' AND gone IS NULL", "t_both"),
    ] {
        let plan = plan_of(condition);
        let expected = format!("Index Scan using {index} on t");
        assert_eq!(plan[0], expected, "{condition}");
    }
    // All rows, or most of them.
    for condition in [
        "name LIKE '%12'",
        "name LIKE '_1%'",
        "name ILIKE 'n12%'",
        "name NOT LIKE 'n12%'",
        "gone IS NOT NULL",
    ] {
        assert_eq!(plan_of(condition)[0], "Seq Scan on t", "{condition}");
    }
}
