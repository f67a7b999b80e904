//! The plan cache of a database: which statements find a plan, and that nobody can tell.
//!
//! Results, types and errors with their places are compared with those of a session that makes a
//! plan of each statement as it stands.

use crate::scratch::Scratch;
use sql::types::{Context, Datum, Kind};
use sql::{Batch, Flow, OutputColumn, RowSink, Session, SqlError};

/// The columns and rows of a result.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    columns: Vec<(String, Kind)>,
    rows: Vec<Vec<Datum>>,
}

impl RowSink for Answer {
    fn describe(&mut self, columns: &[OutputColumn]) -> Result<(), SqlError> {
        let columns = columns.iter();
        self.columns = columns
            .map(|column| (column.name.clone(), column.data_type.kind))
            .collect();
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, _: &Context<'_>) -> Result<Flow, SqlError> {
        self.rows.extend(batch.rows().map(<[Datum]>::to_vec));
        Ok(Flow::More)
    }
}

fn ask(session: &mut Session, text: &str) -> Result<Answer, SqlError> {
    let mut answer = Answer::default();
    session.simple(text, &mut answer).map(|()| answer)
}

fn run(session: &mut Session, text: &str) {
    ask(session, text).unwrap();
}

const TABLE: &str = "create table t (a int primary key, b varchar(3), c numeric(4,1), d date); \
                     insert into t values (1, 'x', 1.5, '2000-01-01')";

#[test]
fn a_statement_finds_the_plan_of_the_ones_before_it() {
    let (_scratch, sql) = Scratch::open("lifted-hits");
    let mut session = sql.connect().unwrap();
    run(&mut session, TABLE);
    for number in 2..10 {
        let text = format!("insert into t values ({number}, '{number}''', {number}.25, NULL)");
        run(&mut session, &text);
    }
    // The first is noted, the second makes the plan and runs by it.
    assert_eq!(sql.plan_cache_hits(), 6);
    let mut other = sql.connect().unwrap();
    for number in 1..5 {
        let found = ask(
            &mut other,
            &format!("select b, c from t where a = {number}"),
        );
        assert_eq!(found.unwrap().rows.len(), 1);
    }
    assert_eq!(sql.plan_cache_hits(), 8);
    // Another form of a literal is another plan.
    run(&mut other, "select b, c from t where a = 3000000000");
    assert_eq!(sql.plan_cache_hits(), 8);
    run(&mut other, "set plan_cache_mode = force_custom_plan");
    run(&mut other, "select b, c from t where a = 5");
    assert_eq!(sql.plan_cache_hits(), 8);
}

/// A definition, another search path and a temporary table make other plans.
#[test]
fn a_plan_is_of_its_catalogue_and_its_settings() {
    let (_scratch, sql) = Scratch::open("lifted-keys");
    let mut session = sql.connect().unwrap();
    run(&mut session, TABLE);
    let query = "select * from t where a = 1";
    for _ in 0..3 {
        assert_eq!(ask(&mut session, query).unwrap().columns.len(), 4);
    }
    run(&mut session, "alter table t add column e int");
    assert_eq!(ask(&mut session, query).unwrap().columns.len(), 5);
    run(
        &mut session,
        "create schema s; create table s.t (a int); set search_path = s",
    );
    for _ in 0..3 {
        assert_eq!(ask(&mut session, query).unwrap().columns.len(), 1);
    }
    run(&mut session, "create temporary table t (a int, b int)");
    for _ in 0..3 {
        assert_eq!(ask(&mut session, query).unwrap().columns.len(), 2);
    }
    // A date is read as the session wants it.
    run(&mut session, "drop table t; set search_path = public");
    run(
        &mut session,
        "insert into t values (7, 'y', 1, '2000-01-31')",
    );
    for (style, rows) in [("mdy", 2), ("dmy", 1), ("mdy", 2), ("dmy", 1)] {
        run(&mut session, &format!("set datestyle = {style}"));
        for _ in 0..3 {
            let found = ask(&mut session, "select a from t where d < '02/01/2000'");
            assert_eq!(found.unwrap().rows.len(), rows, "{style}");
        }
    }
}

/// Errors are those of the statement as it stands, with their places.
#[test]
fn errors_are_the_same() {
    let (_scratch, sql) = Scratch::open("lifted-errors");
    let mut cached = sql.connect().unwrap();
    let mut ordinary = sql.connect().unwrap();
    run(&mut cached, TABLE);
    run(&mut cached, "set plan_cache_mode = force_generic_plan");
    run(&mut ordinary, "set plan_cache_mode = force_custom_plan");
    for text in [
        "select a from t where a = 'x'",
        "select a from t where d = 'never'",
        "select a from t where a = 1 / 0",
        "select a from t where a in (1, 'y')",
        "select a from t where b like 5",
        "insert into t values (2, 'long', 1, null)",
        "insert into t values (2, 'x', 12345.6, null)",
        "insert into t values (2, 'x', 'NaN', null)",
        "insert into t values (1, 'x', 1, null)",
        "insert into t values (3000000000)",
        "insert into t (a, b) values (1)",
        "insert into t (a) values (2), (3, 4)",
        "update t set b = 'long' where a = 1",
        "update t set a = true where b = 'x'",
        "update t set c = c * 99999 where a = 1",
        "delete from t where a = '1' and nothing = 3",
        "select a from t where a = 5 order by 2",
        "select a from t where a = 5 limit -1",
    ] {
        for _ in 0..2 {
            let one = ask(&mut cached, text).unwrap_err();
            let other = ask(&mut ordinary, text).unwrap_err();
            assert_eq!(one, other, "{text}");
        }
    }
    // Texts that mean another moment each time, and plans that tell about the database.
    for text in [
        "select d <= 'today', b, 'x', 1 from t where d < 'tomorrow' and a = -(-1)",
        "select * from (values (1, 'a')) as v (n, s) where n = 1",
        "select relname from pg_class where relname = 't'",
        "select a, 5 from t where a = any (array[1, 2]) group by 1, 2 having a < 5 order by 1",
        "select case 'x' when b then 1 else 2 end from t where 'x' between b and 'y'",
        "select a from t where (a, b) in ((1, 'x'), (2, 'y')) and c = 1.50 and b > 'a '",
        "select a from t where d + 1 = '2000-01-02' and d - interval '1 day' < '2000-01-01'",
    ] {
        for _ in 0..3 {
            let one = ask(&mut cached, text).unwrap();
            assert_eq!(one, ask(&mut ordinary, text).unwrap(), "{text}");
        }
    }
}
