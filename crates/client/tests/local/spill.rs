//! Goal: statements that keep more rows than `work_mem` give the same rows as with plenty of
//! memory, and end in one clear error where the files have no room either.
//!
//! Method: random queries run in two sessions, one of which has the least memory there is. A
//! failure prints the seed of its query, which `SPILL_SEED` runs again; `SPILL_QUERIES` is the
//! number of queries.

use crate::scratch::Scratch;
use sql::types::Context;
use sql::{Batch, Flow, OutputColumn, RowSink, Session, SqlError, SqlState};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// All rows of the last result, as text.
#[derive(Default)]
struct Rows(Vec<String>);

impl RowSink for Rows {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
        self.0.clear();
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, context: &Context<'_>) -> Result<Flow, SqlError> {
        for row in batch.rows() {
            let values = row.iter().map(|value| {
                if value.is_null() {
                    return Ok("NULL".to_owned());
                }
                sql::types::text_io::print(value, value.kind(), context)
            });
            let values: Vec<String> = values.collect::<Result<_, _>>()?;
            self.0.push(values.join("|"));
        }
        Ok(Flow::More)
    }
}

fn run(session: &mut Session, text: &str) -> Result<Vec<String>, SqlError> {
    let mut rows = Rows::default();
    session.simple(text, &mut rows)?;
    Ok(rows.0)
}

/// Tables whose rows take some times the least memory.
const TABLES: &str = "
CREATE TABLE a (id int PRIMARY KEY, k int, u int, t text, n numeric, d date, r int[]);
INSERT INTO a SELECT i, nullif(i % 23, 0), (i * 7919) % 3001, 'text ' || (i * 31 % 700),
    (i % 100) / 7.0, date '2000-01-01' + i % 400, ARRAY[i % 5, i % 3]
    FROM generate_series(1, 2000) i;
CREATE TABLE b (id int PRIMARY KEY, k int, u int, t text);
INSERT INTO b SELECT i, CASE WHEN i % 3 = 0 THEN i % 40 END, (i * 104729) % 3001,
    'text ' || (i * 17 % 900) FROM generate_series(1, 1200) i;
CREATE TABLE s (id int PRIMARY KEY, k int, t text);
INSERT INTO s SELECT i, CASE WHEN i % 50 = 0 THEN i ELSE 7 END, repeat('s', i % 40)
    FROM generate_series(1, 700) i;
";

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (self.0 >> 33) % limit
    }

    fn pick<'p>(&mut self, parts: &[&'p str]) -> &'p str {
        parts[self.below(parts.len() as u64) as usize]
    }
}

/// A join of tables, one of which may have one key in nearly all of its rows.
fn join(random: &mut Random) -> String {
    match random.below(4) {
        0 | 1 => {
            let kind = random.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
            let shared = random.pick(&["u", "t", "id"]);
            let more = match kind {
                "FULL JOIN" => "",
                _ => random.pick(&["", " AND a.id < b.id", " AND a.k = b.k"]),
            };
            format!("SELECT a.*, b.* FROM a {kind} b ON a.{shared} = b.{shared}{more}")
        }
        2 => {
            let not = random.pick(&["", "NOT "]);
            let inner = random.pick(&["a", "s"]);
            format!(
                "SELECT * FROM {inner} x WHERE {not}EXISTS (SELECT FROM b WHERE b.k = x.k AND \
         b.id > x.id)"
            )
        }
        _ => {
            let kind = random.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
            format!(
                "SELECT x.id, y.id, y.t FROM (SELECT * FROM s WHERE id % 9 = 0) x {kind} s y ON \
         x.k = y.k"
            )
        }
    }
}

/// A query over the tables, and whether the order of its rows is given.
fn query(random: &mut Random) -> (String, bool) {
    let column = random.pick(&["k", "u", "t", "n", "d", "id"]);
    let other = random.pick(&["k", "u", "t", "n", "d", "r"]);
    let order = random.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
    let condition = random.pick(&[
        "",
        " WHERE u > 500",
        " WHERE k IS NOT NULL",
        " WHERE id < 1500",
    ]);
    let limit = random.pick(&["", " LIMIT 5", " LIMIT 900", " LIMIT 700 OFFSET 600"]);
    let shared = random.pick(&["k", "u", "t", "id"]);
    let text = match random.below(12) {
        0 => {
            let text =
                format!("SELECT * FROM a{condition} ORDER BY {column}{order}, {other}, id{limit}");
            return (text, true);
        }
        1 => format!(
            "SELECT {column}, {other}, count(*), sum(id), min(t), max(d), avg(n) FROM a{condition} \
             GROUP BY {column}, {other}"
        ),
        2 => format!(
            "SELECT {column}, count(DISTINCT {other}), string_agg(t, ',' ORDER BY {other}, id), \
             array_agg(DISTINCT k), sum(DISTINCT u) FILTER (WHERE id > 50) FROM a{condition} \
             GROUP BY {column}"
        ),
        3 => format!("SELECT count(DISTINCT {column}), count(DISTINCT {other}) FROM a{condition}"),
        4 => format!("SELECT DISTINCT {column}, {other} FROM a{condition}"),
        5 => {
            let text = format!(
                "SELECT DISTINCT ON ({column}) {column} AS c, {other} AS o, id FROM a{condition} \
                 ORDER BY {column}{order}, {other}, id"
            );
            return (text, true);
        }
        6 => {
            let operation = random.pick(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]);
            let all = match operation {
                "UNION ALL" => "",
                _ => random.pick(&["", " ALL"]),
            };
            format!("SELECT {shared} FROM a{condition} {operation}{all} SELECT {shared} FROM b")
        }
        7..=10 => join(random),
        _ => {
            let function = random.pick(&[
                "row_number()",
                "rank()",
                "sum(id)",
                "lag(t, 2, 'none')",
                "count(*)",
            ]);
            format!(
                "WITH w AS MATERIALIZED (SELECT * FROM a{condition}) SELECT id, {function} OVER \
                 (PARTITION BY {shared} ORDER BY {other}, id) FROM w UNION ALL SELECT id, NULL FROM w \
                 WHERE id IN (SELECT u FROM w)"
            )
        }
    };
    (text, false)
}

#[test]
fn random_queries_give_the_same_rows_in_little_memory() {
    let (_scratch, sql) = Scratch::open("spill-random");
    let (mut small, mut large) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(&mut large, TABLES).unwrap();
    run(&mut small, "SET work_mem = '64kB'").unwrap();
    run(&mut large, "SET work_mem = '1GB'").unwrap();
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|text: String| text.parse().ok())
    };
    let seeds = match number("SPILL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + number("SPILL_QUERIES").unwrap_or(60),
    };
    for seed in seeds {
        let (text, is_ordered) = query(&mut Random(seed * 0x9E37_79B9));
        let answers = [&mut small, &mut large].map(|session| {
            let mut rows = run(session, &text);
            if let (Ok(rows), false) = (&mut rows, is_ordered) {
                rows.sort();
            }
            rows.map_err(|error| error.to_string())
        });
        let [little, plenty] = answers;
        let errors = (little.as_ref().err(), plenty.as_ref().err());
        assert_eq!(errors, (None, None), "SPILL_SEED={seed}: {text}");
        assert!(little == plenty, "SPILL_SEED={seed} differs: {text}");
    }
}

/// Memory comes free while groups lie in files: a group that got a place in the table after that
/// was handed over again from its file.
#[test]
fn groups_in_files_stay_there_until_their_turn() {
    let (_scratch, sql) = Scratch::open("spill-groups");
    let mut session = sql.connect().unwrap();
    run(&mut session, "SET work_mem = '64kB'").unwrap();
    let below = "(SELECT DISTINCT i % 2000 AS k, i % 3 AS z FROM generate_series(1, 60000) i) q";
    for (groups, expected) in [
        (
            format!("SELECT k, count(*) AS c FROM {below} GROUP BY k"),
            "2000|2000|3|3",
        ),
        (
            format!("SELECT DISTINCT k, 1 AS c FROM {below}"),
            "2000|2000|1|1",
        ),
        (
            format!("SELECT k, 1 AS c FROM {below} UNION SELECT 1, 1"),
            "2000|2000|1|1",
        ),
    ] {
        let counts = "count(*), count(DISTINCT k), min(c), max(c)";
        let found = run(&mut session, &format!("SELECT {counts} FROM ({groups}) g")).unwrap();
        assert_eq!(found, [expected], "{groups}");
    }
}

/// The line of a plan that says how an operator has kept its rows.
fn usage(session: &mut Session, query: &str, name: &str) -> String {
    let options = "ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF";
    let plan = run(session, &format!("EXPLAIN ({options}) {query}")).unwrap();
    let line = plan.iter().find(|line| line.trim_start().starts_with(name));
    line.unwrap_or_else(|| panic!("{plan:#?}"))
        .trim()
        .to_owned()
}

#[test]
fn plans_say_which_operators_have_used_files() {
    let (_scratch, sql) = Scratch::open("spill-plans");
    let mut session = sql.connect().unwrap();
    run(&mut session, TABLES).unwrap();
    let queries = [
        (
            "SELECT * FROM a ORDER BY t",
            "Sort Method:",
            "quicksort  Memory:",
            "external merge  Disk:",
        ),
        (
            "SELECT u FROM a GROUP BY u",
            "Batches:",
            " 1  Memory Usage:",
            "  Disk Usage:",
        ),
        (
            "SELECT DISTINCT u, t FROM a",
            "Batches:",
            " 1  Memory Usage:",
            "  Disk Usage:",
        ),
        (
            "SELECT u FROM a UNION SELECT u FROM b",
            "Batches:",
            " 1  Memory Usage:",
            "  Disk Usage:",
        ),
        (
            "SELECT * FROM b JOIN a ON a.t = b.t",
            "Buckets:",
            "  Batches: 1  Memory",
            "  Batches: ",
        ),
        (
            "SELECT * FROM a ORDER BY t LIMIT 3",
            "Sort Method:",
            "top-N heapsort",
            "top-N heapsort",
        ),
    ];
    for (query, name, plenty, little) in queries {
        run(&mut session, "SET work_mem = '64MB'").unwrap();
        let line = usage(&mut session, query, name);
        assert!(line.contains(plenty) && !line.contains("Disk"), "{line}");
        run(&mut session, "SET work_mem = '64kB'").unwrap();
        let line = usage(&mut session, query, name);
        assert!(line.contains(little), "{line}");
        assert!(!line.contains("Batches: 1 "), "{line}");
    }
    let json = format!("EXPLAIN (ANALYZE, FORMAT JSON) {}", queries[0].0);
    let json = run(&mut session, &json).unwrap().join("\n");
    assert!(json.contains("\"Sort Space Type\": \"Disk\""), "{json}");
}

/// A sort of far more than the least memory.
const LARGE_SORT: &str =
    "SELECT i, repeat('x', 100) FROM generate_series(1, 30000) i ORDER BY i % 1000, i DESC";

#[test]
fn files_are_limited_and_the_session_goes_on() {
    let (_scratch, sql) = Scratch::open("spill-limit");
    let mut session = sql.connect().unwrap();
    run(
        &mut session,
        "SET work_mem = '64kB'; SET temp_file_limit = '200kB'",
    )
    .unwrap();
    for _ in 0..3 {
        let refused = run(&mut session, LARGE_SORT).unwrap_err();
        assert_eq!(refused.state, SqlState::CONFIGURATION_LIMIT_EXCEEDED);
        assert_eq!(
            refused.message,
            "temporary file size exceeds temp_file_limit (200kB)"
        );
        assert_eq!(run(&mut session, "SELECT 1").unwrap(), ["1"]);
    }
    run(&mut session, "SET temp_file_limit = -1").unwrap();
    assert_eq!(run(&mut session, LARGE_SORT).unwrap().len(), 30_000);
    let refused = run(&mut session, "SET work_mem = '10kB'").unwrap_err();
    assert!(
        refused
            .message
            .starts_with("10 kB is outside the valid range")
    );
}

#[test]
fn statements_that_use_files_end_when_they_are_told_to() {
    let (_scratch, sql) = Scratch::open("spill-cancel");
    let mut session = sql.connect().unwrap();
    run(&mut session, "SET work_mem = '64kB'").unwrap();
    let rows = "(SELECT i, i % 100 AS k FROM generate_series(1, 100000000) i) x";
    for query in [
        format!("SELECT * FROM {rows} ORDER BY k"),
        format!("SELECT i, count(*) FROM {rows} GROUP BY i"),
        format!("SELECT DISTINCT i FROM {rows}"),
        format!("SELECT i FROM {rows} EXCEPT SELECT 1"),
        format!("SELECT count(DISTINCT i) FROM {rows}"),
        format!("SELECT count(*) FROM {rows} JOIN generate_series(1, 20000) y ON y = k"),
        format!("SELECT count(*) FROM generate_series(1, 20000) y JOIN {rows} ON y = i"),
        format!("SELECT rank() OVER (PARTITION BY i) FROM {rows}"),
    ] {
        let interrupt = session.interrupt();
        let waiter = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(150));
            interrupt.raise();
        });
        let start = Instant::now();
        let ended = run(&mut session, &query).unwrap_err();
        waiter.join().unwrap();
        assert_eq!(ended.state, SqlState::QUERY_CANCELED, "{query}: {ended}");
        assert!(start.elapsed() < Duration::from_secs(10), "{query}");
        run(&mut session, "SET statement_timeout = '100ms'").unwrap();
        let ended = run(&mut session, &query).unwrap_err();
        assert_eq!(ended.state, SqlState::QUERY_CANCELED, "{query}: {ended}");
        run(&mut session, "SET statement_timeout = 0").unwrap();
    }
}

/// An aggregate over many rows for each row looked once in 1,024 of these whether it is to end.
#[test]
fn windows_over_many_rows_end_when_they_are_told_to() {
    let (_scratch, sql) = Scratch::open("window-cancel");
    let mut session = sql.connect().unwrap();
    run(&mut session, "SET statement_timeout = '300ms'").unwrap();
    let rows = "FROM generate_series(1, 100000) g";
    for function in ["max(g)", "sum(g::double precision)"] {
        let frame = "ORDER BY g ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING";
        let start = Instant::now();
        let query = format!("SELECT {function} OVER ({frame}) {rows}");
        let ended = run(&mut session, &query).unwrap_err();
        assert_eq!(ended.state, SqlState::QUERY_CANCELED, "{query}: {ended}");
        assert!(start.elapsed() < Duration::from_secs(10), "{query}");
    }
}

/// A statement that made a value of more than a gibibyte went on until no memory was left.
#[test]
fn values_of_more_than_a_gibibyte_are_errors() {
    let (_scratch, sql) = Scratch::open("long-values");
    let mut session = sql.connect().unwrap();
    let array = "array_fill(repeat('b', 10000000), ARRAY[1000000])";
    for value in [
        "replace(repeat('a', 10000000), 'a', repeat('b', 1000000))".to_owned(),
        format!("array_to_string({array}, '')"),
        format!("to_jsonb({array})"),
    ] {
        let query = format!("SELECT {value} IS NULL");
        let ended = run(&mut session, &query).unwrap_err();
        assert_eq!(
            ended.state,
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            "{query}: {ended}"
        );
    }
}

#[test]
fn cursors_keep_their_rows_in_files() {
    let (_scratch, sql) = Scratch::open("spill-cursor");
    let mut session = sql.connect().unwrap();
    run(&mut session, "SET work_mem = '64kB'").unwrap();
    let declare = "DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT i, repeat('y', 50) FROM \
                   generate_series(1, 5000) i";
    run(
        &mut session,
        &format!("BEGIN; {declare}; FETCH 10 FROM c; COMMIT"),
    )
    .unwrap();
    let last = run(&mut session, "FETCH LAST FROM c").unwrap();
    assert!(last[0].starts_with("5000|"), "{last:?}");
    let back = run(&mut session, "FETCH BACKWARD 1000 FROM c").unwrap();
    assert!(back[999].starts_with("4000|"), "{}", back[999]);
    let first = run(&mut session, "FETCH ABSOLUTE 3 FROM c").unwrap();
    assert!(first[0].starts_with("3|"), "{first:?}");
}

/// The name of the directory for a run of the next test in a file system of its own.
const SMALL: &str = "SPILL_SMALL";

#[test]
fn a_sort_larger_than_the_disk_is_one_error() {
    let Some(small) = std::env::var_os(SMALL).map(PathBuf::from) else {
        return run_in_small_file_system();
    };
    let (_scratch, sql) = Scratch::open("spill-full");
    let mut session = sql.connect().unwrap();
    run(&mut session, "SET work_mem = '64kB'").unwrap();
    let refused = run(&mut session, LARGE_SORT).unwrap_err();
    assert_eq!(refused.state, SqlState::DISK_FULL, "{refused}");
    let name = format!(
        "could not write to a temporary file in {}: ",
        small.display()
    );
    assert!(refused.message.starts_with(&name), "{refused}");
    let hint = refused.hint.as_deref().unwrap_or_default();
    assert!(
        hint.contains("TMPDIR") && hint.contains("work_mem"),
        "{hint}"
    );
    assert_eq!(run(&mut session, "SELECT 1").unwrap(), ["1"]);
    let left = std::fs::read_dir(&small).unwrap().count();
    assert_eq!(left, 0, "files have no names");
}

/// Runs the test above with temporary files in 1 MiB of memory, where the system lets it.
fn run_in_small_file_system() {
    let small = std::env::temp_dir().join(format!("indelible-spill-small-{}", std::process::id()));
    std::fs::create_dir_all(&small).unwrap();
    let script = "mount -t tmpfs -o size=1m tmpfs \"$TMPDIR\" || exit 77; exec \"$@\"";
    let program = std::env::current_exe().unwrap();
    let status = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(program)
        .args(["--exact", "spill::a_sort_larger_than_the_disk_is_one_error"])
        .env("TMPDIR", &small)
        .env(SMALL, &small)
        .status();
    let _ = std::fs::remove_dir(&small);
    match status.map(|status| status.code()) {
        Ok(Some(0)) => {}
        Ok(Some(1 | 77 | 127)) | Err(_) => eprintln!("skipped: no file system can be mounted here"),
        other => panic!("{other:?}"),
    }
}
