//! Results column by column are those that come row by row, errors included.
//!
//! Each query runs twice, for a sink of rows and for one of columns. How many columns come as
//! arrays of one plain type is compared too, so that the cheap way is known to be taken.

use crate::scratch::Scratch;
use sql::types::{Context, Datum};
use sql::{Batch, ColumnValues, Columns, Flow, OutputColumn, RowSink, Session, SqlError};

/// Rows of a result, and how they came.
#[derive(Default)]
struct Answer {
    takes_columns: bool,
    rows: Vec<Vec<Datum>>,
    /// Columns of batches that were arrays of one plain type.
    plain: usize,
    batches_of_columns: usize,
}

impl RowSink for Answer {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, _: &Context<'_>) -> Result<Flow, SqlError> {
        self.rows.extend(batch.rows().map(<[Datum]>::to_vec));
        Ok(Flow::More)
    }

    fn takes_columns(&self) -> bool {
        self.takes_columns
    }

    fn columns(&mut self, columns: &Columns, _: &Context<'_>) -> Result<Flow, SqlError> {
        self.batches_of_columns += 1;
        let all = columns.columns();
        let is_plain = |column: &&ColumnValues| !matches!(column, ColumnValues::Other(_));
        self.plain += all.iter().filter(is_plain).count();
        for at in 0..columns.len() {
            self.rows
                .push(all.iter().map(|column| column.get(at)).collect());
        }
        Ok(Flow::More)
    }
}

fn ask(session: &mut Session, text: &str, takes_columns: bool) -> (Answer, Option<SqlError>) {
    let mut answer = Answer {
        takes_columns,
        ..Answer::default()
    };
    let error = session.simple(text, &mut answer).err();
    (answer, error)
}

fn with_session(name: &str, body: impl FnOnce(&mut Session)) {
    let (_scratch, sql) = Scratch::open(&format!("columns-{name}"));
    body(&mut sql.connect().unwrap());
}

/// A query, and how many of its columns are arrays of plain values.
const QUERIES: &[(&str, usize)] = &[
    (
        "select g, g * 2, g * 0.5::float8 from generate_series(1, 3000::bigint) g",
        9,
    ),
    (
        "select g, g + 1, 7, g - 5000000000, g::float8 - 1.5::float8 from generate_series(1, 10) g",
        5,
    ),
    (
        "select g * 0.0::float8, -g from generate_series(-2, 2) g",
        2,
    ),
    (
        "select n, o from generate_series(5, 1, -2) with ordinality as s(n, o)",
        2,
    ),
    ("select * from t order by a", 1),
    ("select a, b, c, d, e from t", 1),
    ("select a + 1, b * 2 from t where a < 3", 1),
    ("select d, a from t where c > 0", 1),
    (
        "select nextval('s'), nextval('s') from generate_series(1, 3)",
        2,
    ),
    ("select g from generate_series(1, 0) g", 0),
];

#[test]
fn columns_have_the_values_of_rows() {
    with_session("values", |session| {
        let (_, error) = ask(
            session,
            "create table t (a int primary key, b bigint, c float8, d text, e numeric(5,2)); \
             insert into t values (1, 10, 1.5, 'one', 1.25), (2, null, -1, null, null), \
             (3, 30, null, 'three', 3); create sequence s",
            false,
        );
        assert!(error.is_none(), "{error:?}");
        for (query, plain) in QUERIES {
            let (rows, error) = ask(session, query, false);
            assert!(error.is_none(), "{query}: {error:?}");
            assert_eq!(rows.batches_of_columns, 0);
            let _ = ask(session, "select setval('s', 1, false)", false);
            let (columns, error) = ask(session, query, true);
            assert!(error.is_none(), "{query}: {error:?}");
            if query.contains("nextval") {
                let two: Vec<i64> = columns
                    .rows
                    .iter()
                    .flatten()
                    .map(|n| n.int().unwrap())
                    .collect();
                assert_eq!(two, [1, 2, 3, 4, 5, 6]);
            } else {
                assert_eq!(rows.rows, columns.rows, "{query}");
            }
            assert_eq!(columns.plain, *plain, "{query}");
        }
    });
}

#[test]
fn errors_are_those_of_rows() {
    with_session("errors", |session| {
        for query in [
            "select g * 4000000000000000000, 1 / (g - 3) from generate_series(1, 5::bigint) g",
            "select 1 / (g - 2), g * 4000000000000000000 from generate_series(1, 5::bigint) g",
            "select g * 1000000 from generate_series(2000, 3000) g",
            "select g * 1e308::float8 from generate_series(1, 3) g",
            "select g - 9223372036854775807 from generate_series(-3, 0::bigint) g",
        ] {
            let (rows, one) = ask(session, query, false);
            let (columns, other) = ask(session, query, true);
            let (one, other) = (one.unwrap(), other.unwrap());
            assert_eq!(
                (one.state, one.message),
                (other.state, other.message),
                "{query}"
            );
            assert_eq!(rows.rows, columns.rows);
        }
    });
}
