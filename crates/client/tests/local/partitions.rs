//! Partitions that the conditions of a statement leave out of its plan.
//!
//! Answers are the same with and without them, so the plans themselves are looked at.

use crate::between::run;
use crate::scratch::Scratch;
use sql::Session;

/// The partitions of `sale` that the plan of a statement reads.
fn read_by(session: &mut Session, statement: &str) -> Vec<&'static str> {
    let plan = run(session, &format!("EXPLAIN (FORMAT JSON) {statement}")).unwrap();
    let all = [
        "sale_old",
        "sale_2024",
        "sale_ab",
        "sale_none",
        "sale_other",
    ];
    // A change of nothing stands for all, so the names of changes do not count.
    let scans = plan.split("\"Node Type\": \"");
    let scans = scans.filter(|node| {
        node.split('"')
            .next()
            .is_some_and(|kind| kind.contains("Scan"))
    });
    let scans: Vec<&str> = scans.collect();
    let has = |name: &&str| {
        scans
            .iter()
            .any(|scan| scan.contains(&format!("\"{name}\"")))
    };
    all.into_iter().filter(has).collect()
}

#[test]
fn plans_leave_partitions_out_by_constants() {
    let (_scratch, sql) = Scratch::open("partitions-left-out");
    let mut session = sql.connect().unwrap();
    run(
        &mut session,
        "CREATE TABLE sale (at date, shop text, n integer) PARTITION BY RANGE (at); \
         CREATE TABLE sale_old PARTITION OF sale FOR VALUES FROM (MINVALUE) TO ('2024-01-01'); \
         CREATE TABLE sale_2024 PARTITION OF sale FOR VALUES FROM ('2024-01-01') TO ('2025-01-01'); \
         CREATE TABLE sale_rest PARTITION OF sale DEFAULT PARTITION BY LIST (shop); \
         CREATE TABLE sale_ab PARTITION OF sale_rest FOR VALUES IN ('a', 'b'); \
         CREATE TABLE sale_none PARTITION OF sale_rest FOR VALUES IN (NULL); \
         CREATE TABLE sale_other PARTITION OF sale_rest DEFAULT",
    );
    for (condition, expected) in [
        ("at = '2024-05-05'", vec!["sale_2024"]),
        ("at = '2023-05-05' AND shop = 'a'", vec!["sale_old"]),
        (
            "at >= '2024-01-01' AND shop = 'a'",
            vec!["sale_2024", "sale_ab"],
        ),
        (
            "at < '2024-01-01' AND shop IS NULL",
            vec!["sale_old", "sale_none"],
        ),
        ("at IS NULL AND shop = 'z'", vec!["sale_other"]),
        (
            "at IN ('2024-05-05', '2023-05-05')",
            vec!["sale_old", "sale_2024"],
        ),
        ("at = NULL", vec![]),
        (
            "n = 1 AND shop IN ('b', 'z')",
            vec!["sale_old", "sale_2024", "sale_ab", "sale_other"],
        ),
        (
            "at > '2024-06-01' OR n = 1",
            vec![
                "sale_old",
                "sale_2024",
                "sale_ab",
                "sale_none",
                "sale_other",
            ],
        ),
    ] {
        for statement in [
            "SELECT * FROM sale",
            "UPDATE sale SET n = 2",
            "DELETE FROM sale",
        ] {
            let statement = format!("{statement} WHERE {condition}");
            assert_eq!(read_by(&mut session, &statement), expected, "{statement}");
        }
    }
}
