//! Point plans allocate at their first run only; below them an index may, as it does for the typed
//! interface, and a part of the lock table when it has more locks at once than ever.
//!
//! The allocator of this program counts. One test only, because the count is of all threads.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use indelible::{DataType, Database, Method, Options, Transaction};
use sql::types::{Context, Datum, Kind};
use sql::{Batch, Flow, OutputColumn, RowSink, Session, Sql, SqlError};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations of 200 runs by which parts of the lock table grow, at most; which part a lock is in
/// depends on the numbers of tables.
const GROWTH_MAX: usize = 12;

/// Counts the rows.
#[derive(Default)]
struct Rows(usize);

impl RowSink for Rows {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, _: &Context<'_>) -> Result<Flow, SqlError> {
        self.0 += batch.len();
        Ok(Flow::More)
    }
}

/// Runs a prepared statement as a client of the protocol does.
fn execute(session: &mut Session, statement: &str, values: &[Datum]) -> usize {
    let mut rows = Rows::default();
    session.bind("", statement, values).unwrap();
    session.execute_portal("", 0, &mut rows).unwrap();
    session.sync().unwrap();
    rows.0
}

/// Runs it as a binding does, without a portal.
fn execute_point(session: &mut Session, statement: &str, values: &mut Vec<Datum>) -> usize {
    let mut rows = Rows::default();
    let done = session.execute_point(statement, values, &mut rows);
    assert!(done.unwrap().is_some() && values.is_empty());
    rows.0
}

/// Allocations of some runs, after the first ones.
fn allocations(runs: std::ops::Range<i32>, mut run: impl FnMut(i32)) -> usize {
    let first = runs.start + 200;
    (runs.start..first).for_each(&mut run);
    let region = Region::new(COUNTING);
    (first..runs.end).for_each(&mut run);
    region.change().allocations
}

/// Allocations of the typed interface, insertions and deletions: those of the index below.
fn typed_allocations(database: &Database) -> (usize, usize) {
    let table = database
        .create_table("typed")
        .column("id", DataType::Int32)
        .column("balance", DataType::Int64)
        .primary_key(["id"])
        .create()
        .unwrap();
    let run = |body: &dyn Fn(&mut Transaction<'_>) -> indelible::Result<()>| {
        database
            .transaction(|transaction| body(transaction))
            .unwrap();
    };
    (0..1000).for_each(|at| run(&|transaction| transaction.insert(&table, (at, 0_i64))));
    let inserted = allocations(2000..2400, |at| {
        run(&|transaction| transaction.insert(&table, (at, 5_i64)));
    });
    let deleted = allocations(2000..2400, |at| {
        run(&|transaction| transaction.delete(&table, at).map(drop));
    });
    (inserted, deleted)
}

#[test]
fn point_plans_do_not_allocate_after_their_first_run() {
    let directory = std::env::temp_dir().join(format!("indelible-allocs-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let database = Database::create(&directory, &Options::new().method(Method::NvmInp)).unwrap();
    let sql = Sql::open(database).unwrap();
    let mut session = sql.connect().unwrap();
    let made = "create table account (id int primary key, branch int not null, \
                balance bigint check (balance > -1000000), owner varchar(20), since timestamp); \
                insert into account select g, g % 10, 0, 'nobody', now() \
                from generate_series(1, 1000) g";
    session.simple(made, &mut Rows::default()).unwrap();
    let int = |value| Datum::Int4(value);
    for (name, text) in [
        ("select", "select balance, since from account where id = $1"),
        (
            "update",
            "update account set balance = balance + $1 where id = $2 returning balance",
        ),
        (
            "insert",
            "insert into account values ($1, $2, $3, $4, now())",
        ),
        ("delete", "delete from account where id = $1"),
    ] {
        session.prepare(name, text, &[]).unwrap();
    }
    let described = session.describe_statement("update").unwrap();
    assert_eq!(described.parameters()[1].kind, Kind::Int4);
    let selected = allocations(0..400, |at| {
        assert_eq!(execute(&mut session, "select", &[int(at % 1000 + 1)]), 1);
    });
    assert_eq!(selected, 0, "select");
    let updated = allocations(0..400, |at| {
        let values = [Datum::Int8(1), int(at % 1000 + 1)];
        assert_eq!(execute(&mut session, "update", &values), 1);
    });
    let mut values = Vec::with_capacity(2);
    let without_portals = allocations(0..400, |at| {
        values.push(int(at % 1000 + 1));
        assert_eq!(execute_point(&mut session, "select", &mut values), 1);
        values.extend([Datum::Int8(1), int(at % 1000 + 1)]);
        assert_eq!(execute_point(&mut session, "update", &mut values), 1);
    });
    let owner = Datum::text("somebody");
    let inserted = allocations(2000..2400, |at| {
        let values = [int(at), int(1), Datum::Int8(5), owner.clone()];
        execute(&mut session, "insert", &values);
    });
    let deleted = allocations(2000..2400, |at| {
        execute(&mut session, "delete", &[int(at)]);
    });
    let texts: Vec<String> = (1..401)
        .map(|at| format!("update account set balance = balance - 1 where id = {at}"))
        .collect();
    let mut texts = texts.into_iter();
    let inlined = allocations(0..400, |_| {
        let text = texts.next().unwrap();
        session.simple(&text, &mut Rows::default()).unwrap();
    });
    let grown = [updated, without_portals, inlined];
    assert!(grown.iter().all(|count| *count <= GROWTH_MAX), "{grown:?}");
    // Without a connection typed transactions leave nothing for others.
    drop(session);
    let typed = typed_allocations(sql.database());
    assert!(
        inserted <= typed.0 + GROWTH_MAX && deleted <= typed.1 + GROWTH_MAX,
        "insert, delete: {inserted} {deleted}, typed: {typed:?}"
    );
    drop(sql);
    std::fs::remove_dir_all(&directory).unwrap();
}
