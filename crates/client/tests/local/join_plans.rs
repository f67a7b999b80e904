//! Plans of tests of queries, of conditions over windows, and of inner joins among outer ones.
//!
//! Answers are those of PostgreSQL whatever the plan (`tests/sql/slt`), so the plans themselves are
//! looked at.

use crate::between::run;
use crate::plans::plan;
use crate::scratch::Scratch;
use sql::{Session, Sql};
use std::sync::Arc;

/// A shop whose orders have few items each, of customers with few orders each.
fn shop(sql: &Arc<Sql>) -> Session {
    let mut session = sql.connect().unwrap();
    let script = "CREATE TABLE customer (id int PRIMARY KEY, email text UNIQUE); \
         CREATE TABLE orders (id int PRIMARY KEY, customer int, agent int, day date); \
         CREATE INDEX by_customer ON orders (customer); \
         CREATE TABLE product (id int PRIMARY KEY, name text); \
         CREATE TABLE item (id int PRIMARY KEY, order_id int, product int); \
         CREATE INDEX by_order ON item (order_id); \
         INSERT INTO customer SELECT g, 'e' || g FROM generate_series(1, 200) g; \
         INSERT INTO orders SELECT g, g % 200 + 1, g % 190 + 1, date '2024-01-01' + g % 90 \
             FROM generate_series(1, 2000) g; \
         INSERT INTO product SELECT g, 'p' || g FROM generate_series(1, 300) g; \
         INSERT INTO item SELECT g, g / 2 + 1, g % 400 FROM generate_series(1, 4000) g; \
         ANALYZE";
    run(&mut session, script);
    session
}

#[test]
fn few_inner_rows_look_outer_ones_up() {
    let (_scratch, sql) = Scratch::open("plans-few-keys");
    let mut session = shop(&sql);
    let of_customer = "SELECT id FROM orders WHERE customer = 7";
    for (condition, name) in [
        (format!("order_id IN ({of_customer})"), "orders"),
        (
            "EXISTS (SELECT 1 FROM orders o WHERE o.id = order_id AND customer = 7 LIMIT 1)".into(),
            "orders o",
        ),
    ] {
        let inner = format!("->  Index Scan using by_customer on {name}");
        let expected = [
            "Nested Loop",
            "->  HashAggregate",
            "Group Key: id",
            inner.as_str(),
            "Index Cond: (customer = 7)",
            "->  Index Scan using by_order on item",
            "Index Cond: (order_id = id)",
        ];
        let select = format!("SELECT id FROM item WHERE {condition}");
        assert_eq!(plan(&mut session, &select), expected);
        let delete = plan(&mut session, &format!("DELETE FROM item WHERE {condition}"));
        assert_eq!(delete[0], "Delete on item");
        assert_eq!(delete[2..], expected[1..]);
    }
    // Many of them do not, and neither do they where few rows ask them.
    let many =
        "SELECT id FROM item WHERE order_id IN (SELECT id FROM orders WHERE day > '2024-01-05')";
    assert_eq!(plan(&mut session, many)[0], "Hash Semi Join");
    let again = "SELECT (SELECT count(*) FROM item i WHERE i.order_id = c.id \
                 AND i.product IN (SELECT id FROM product WHERE name = 'p5')) FROM customer c";
    assert!(plan(&mut session, again).contains(&"->  Nested Loop Semi Join".into()));
}

#[test]
fn exists_is_a_join_whatever_its_query_does_with_rows() {
    let (_scratch, sql) = Scratch::open("plans-exists");
    let mut session = shop(&sql);
    for (query, is_join) in [
        ("SELECT 1 FROM orders o WHERE o.agent = c.id LIMIT 1", true),
        (
            "SELECT 1 FROM orders o WHERE o.agent = c.id ORDER BY day LIMIT 9",
            true,
        ),
        (
            "SELECT DISTINCT day FROM orders o WHERE o.agent = c.id",
            true,
        ),
        (
            "SELECT DISTINCT ON (day) id FROM orders o WHERE o.agent = c.id ORDER BY day, id",
            true,
        ),
        (
            "SELECT day FROM orders o WHERE o.agent = c.id GROUP BY day",
            true,
        ),
        ("SELECT 1 FROM orders o WHERE o.agent = c.id LIMIT 0", false),
        (
            "SELECT 1 FROM orders o WHERE o.agent = c.id LIMIT 1 OFFSET 1",
            false,
        ),
        ("SELECT count(*) FROM orders o WHERE o.agent = c.id", false),
        (
            "SELECT day FROM orders o WHERE o.agent = c.id GROUP BY day HAVING count(*) > 1",
            false,
        ),
    ] {
        for (not, name) in [("", "Hash Semi Join"), ("NOT ", "Hash Anti Join")] {
            let statement = format!("SELECT id FROM customer c WHERE {not}EXISTS ({query})");
            let first = plan(&mut session, &statement).swap_remove(0);
            assert_eq!(first == name, is_join, "{statement}: {first}");
        }
    }
    // Several tables are not joined as a whole for one row.
    let of_one = "SELECT id FROM customer c WHERE id = 5 AND EXISTS \
                  (SELECT 1 FROM orders o JOIN item i ON i.order_id = o.id \
                   WHERE o.customer = c.id)";
    let lines = plan(&mut session, of_one);
    assert_eq!(lines[0], "Nested Loop Semi Join");
    assert!(lines.contains(&"->  Index Scan using by_customer on orders o".into()));
    let of_all = of_one.replace("id = 5 AND", "");
    assert_eq!(plan(&mut session, &of_all)[0], "Hash Semi Join");
}

#[test]
fn conditions_go_below_windows_and_distinct_on() {
    let (_scratch, sql) = Scratch::open("plans-below");
    let mut session = shop(&sql);
    let row_number =
        "SELECT id, customer, row_number() OVER (PARTITION BY customer ORDER BY day) n";
    let last = "SELECT DISTINCT ON (customer) id, customer FROM orders ORDER BY customer, day DESC";
    for (query, is_below) in [
        (format!("{row_number} FROM orders"), true),
        (
            format!(
                "{row_number}, rank() OVER (PARTITION BY agent, customer ORDER BY id) FROM orders"
            ),
            true,
        ),
        (format!("{row_number}, count(*) OVER () FROM orders"), false),
        (last.into(), true),
        (
            last.replace("(customer)", "(customer, agent)")
                .replace("customer, day", "customer, agent"),
            true,
        ),
        (
            last.replace("ON (customer)", "ON (day)")
                .replace("BY customer, day", "BY day"),
            false,
        ),
    ] {
        let lines = plan(
            &mut session,
            &format!("SELECT id FROM ({query}) s WHERE customer = 7"),
        );
        let is_looked_up = lines
            .last()
            .is_some_and(|line| line == "Index Cond: (customer = 7)");
        assert_eq!(is_looked_up, is_below, "{query}: {lines:?}");
    }
}

#[test]
fn inner_joins_pass_left_ones() {
    let (_scratch, sql) = Scratch::open("plans-outer");
    let mut session = shop(&sql);
    let of_item = "SELECT i.id, p.name FROM item i LEFT JOIN product p ON p.id = i.product";
    let looked_up = [
        "->  Index Scan using product_pkey on product p",
        "Index Cond: (id = product)",
    ];
    let statement = format!("{of_item} JOIN orders o ON o.id = i.order_id WHERE o.customer = 7");
    let lines = plan(&mut session, &statement);
    assert_eq!(
        lines[..6],
        [
            "Nested Loop Left Join",
            "->  Nested Loop",
            "->  Index Scan using by_customer on orders o",
            "Index Cond: (customer = 7)",
            "->  Index Scan using by_order on item i",
            "Index Cond: (order_id = id)",
        ]
    );
    assert_eq!(lines[6..], looked_up);
    // The second left join is an inner one, as the condition of the last one is of its rows.
    let statement = format!(
        "{of_item} LEFT JOIN orders o ON o.id = i.order_id \
         JOIN customer c ON c.id = o.customer WHERE c.email = 'e7'"
    );
    let lines = plan(&mut session, &statement);
    assert_eq!(lines[0], "Nested Loop Left Join");
    assert_eq!(
        lines[3],
        "->  Index Scan using customer_email_key on customer c"
    );
    assert_eq!(lines[lines.len() - 2..], looked_up);
}
