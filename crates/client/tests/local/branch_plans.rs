//! Plans that read several inputs, or the beginning of one: branches of an `OR` with an index each,
//! partitions in an order, groups and windows in the order of an index.
//!
//! Answers are the same whichever way they are found, so the plans themselves are looked at.

use crate::between::run;
use crate::plans::plan;
use crate::scratch::Scratch;
use sql::Session;

/// A table with three indexes, and one with two partitions.
fn tables(session: &mut Session) {
    let script = "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int, c int, d int); \
         CREATE INDEX by_a ON t (a); \
         CREATE INDEX by_b ON t (b, c); \
         INSERT INTO t SELECT i, i % 1000, i % 900, i % 7, i FROM generate_series(1, 5000) i; \
         CREATE TABLE p (k int, n int NOT NULL, PRIMARY KEY (k, n)) PARTITION BY RANGE (k); \
         CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (2000); \
         CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (2000) TO (5000); \
         CREATE INDEX ON p (n); \
         INSERT INTO p SELECT i, i % 700 FROM generate_series(0, 4999) i; \
         ANALYZE t; \
         ANALYZE p";
    run(session, script);
}

#[test]
fn branches_have_an_index_each() {
    let (_scratch, sql) = Scratch::open("plans-branches");
    let mut session = sql.connect().unwrap();
    tables(&mut session);
    let expected = [
        "Bitmap Heap Scan on t",
        "Recheck Cond: ((a = 1) OR ((b = 2) AND (c > 3)))",
        "Filter: (d > 0)",
        "->  BitmapOr",
        "->  Bitmap Index Scan on by_a",
        "Index Cond: (a = 1)",
        "->  Bitmap Index Scan on by_b",
        "Index Cond: ((b = 2) AND (c > 3))",
    ];
    let query = "SELECT id FROM t WHERE (a = 1 OR (b = 2 AND c > 3)) AND d > 0";
    assert_eq!(plan(&mut session, query), expected);
    for change in ["DELETE FROM t", "UPDATE t SET d = 1"] {
        let shown = plan(&mut session, &format!("{change} WHERE a = 1 OR id = 7"));
        assert!(shown.iter().any(|line| line == "->  BitmapOr"), "{shown:?}");
    }
    // The rows of the other side give the keys.
    let joined =
        "SELECT t.id FROM (VALUES (1, 2), (3, 4)) v (x, y) JOIN t ON t.a = v.x OR t.b = v.y";
    let shown = plan(&mut session, joined);
    assert_eq!(shown[0], "Nested Loop");
    assert!(shown.iter().any(|line| line == "->  BitmapOr"), "{shown:?}");
    // Also where the table comes first.
    let joined =
        "SELECT t.id FROM t JOIN (VALUES (1, 2), (3, 4)) v (x, y) ON t.a = v.x OR t.b = v.y";
    assert_eq!(plan(&mut session, joined), shown);
    // One branch reads all rows anyway, or half of them.
    for condition in ["a = 1 OR d = 7", "a = 1 OR id > 7"] {
        let shown = plan(&mut session, &format!("SELECT id FROM t WHERE {condition}"));
        assert_eq!(shown[0], "Seq Scan on t", "{condition}");
    }
}

#[test]
fn partitions_are_merged_in_the_order_of_their_indexes() {
    let (_scratch, sql) = Scratch::open("plans-merged");
    let mut session = sql.connect().unwrap();
    tables(&mut session);
    let expected = [
        "Limit",
        "->  Merge Append",
        "Sort Key: k DESC",
        "->  Seq Scan Backward on p1",
        "->  Seq Scan Backward on p2",
    ];
    let newest = "SELECT * FROM p ORDER BY k DESC LIMIT 3";
    assert_eq!(plan(&mut session, newest), expected);
    let shown = plan(&mut session, "SELECT max(n) FROM p");
    assert_eq!(shown[..3], ["Aggregate", "->  Limit", "->  Merge Append"]);
    let shown = plan(
        &mut session,
        "SELECT id FROM t UNION ALL SELECT k FROM p1 ORDER BY 1 LIMIT 3",
    );
    assert_eq!(shown[1], "->  Merge Append");
}

#[test]
fn groups_and_windows_take_the_order_of_an_index() {
    let (_scratch, sql) = Scratch::open("plans-groups");
    let mut session = sql.connect().unwrap();
    tables(&mut session);
    let groups = "SELECT a, count(*) FROM t GROUP BY a ORDER BY a LIMIT 3";
    let expected = [
        "Limit",
        "->  GroupAggregate",
        "Group Key: a",
        "->  Index Scan using by_a on t",
    ];
    assert_eq!(plan(&mut session, groups), expected);
    let numbered =
        "SELECT * FROM (SELECT id, row_number() OVER (ORDER BY a) n FROM t) s WHERE n < 3";
    let shown = plan(&mut session, numbered);
    assert!(shown.iter().any(|line| line.starts_with("Run Condition: ")));
    assert_eq!(shown.last().unwrap(), "->  Index Scan using by_a on t");
    // Rows with one value of the index are sorted by themselves.
    let some = "SELECT id FROM t ORDER BY a, d DESC LIMIT 3";
    assert_eq!(plan(&mut session, some)[1], "->  Incremental Sort");
    // Without a limit a table of hashes costs less than look-ups.
    let all = plan(&mut session, "SELECT a, count(*) FROM t GROUP BY a");
    assert_eq!(all[0], "HashAggregate");
}
