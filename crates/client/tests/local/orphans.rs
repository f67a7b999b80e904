//! Goal: the remains of definitions that did not commit go, and do not delay an opening.
//!
//! Method: a table below that no definition names, as a crash leaves it.

use crate::between::run;
use crate::scratch::Scratch;
use indelible::{DataType, Database, Owner, TransactionOptions};
use sql::Sql;

const NAME: &str = "#1.1";
/// More than a few steps delete.
const ROWS: i64 = 2000;

fn make_orphan(database: &Database) {
    let table = database
        .create_table(NAME)
        .column("id", DataType::Int64)
        .owner(Owner::Sql)
        .create()
        .unwrap();
    let unchecked = TransactionOptions::new().unchecked(true);
    database
        .transaction_with(&unchecked, |t| {
            (0..ROWS).try_for_each(|id| t.insert(&table, (id,)))
        })
        .unwrap();
}

fn has_orphan(sql: &Sql) -> bool {
    sql.database().table(NAME).is_ok()
}

#[test]
fn an_opening_drops_what_no_definition_names() {
    let (scratch, sql) = Scratch::open("orphans-open");
    make_orphan(sql.database());
    sql.close().unwrap();
    let sql = Sql::open(Database::open(scratch.directory()).unwrap()).unwrap();
    assert!(!has_orphan(&sql));
}

/// The first statement after a crash waited until a table of a million rows was dropped.
#[test]
fn sessions_need_not_wait_for_orphans() {
    let (scratch, sql) = Scratch::open("orphans-later");
    make_orphan(sql.database());
    sql.close().unwrap();
    let open = || Sql::open_at_once(Database::open(scratch.directory()).unwrap()).unwrap();
    let sql = open();
    let mut session = sql.connect().unwrap();
    run(
        &mut session,
        "CREATE TABLE t (a int); INSERT INTO t VALUES (1)",
    );
    assert!(has_orphan(&sql));
    let mut steps = 0;
    let goes_on = || {
        steps += 1;
        // Nobody holds a partition between two steps.
        run(&mut session, "UPDATE t SET a = a + 1");
        steps < 3
    };
    sql.drop_orphans(goes_on).unwrap();
    assert_eq!(steps, 3);
    assert!(has_orphan(&sql), "it was to end early");
    drop(session);
    sql.close().unwrap();

    let sql = open();
    assert!(has_orphan(&sql), "the next opening finds the rest");
    sql.drop_orphans(|| true).unwrap();
    assert!(!has_orphan(&sql));
    let mut session = sql.connect().unwrap();
    assert_eq!(run(&mut session, "SELECT a FROM t").as_deref(), Some("4"));
    assert_eq!(sql.database().verify().unwrap().damage, [""; 0]);
}
