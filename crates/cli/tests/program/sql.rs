//! Goal: `indelible sql` does what a person and a script expect of a shell.
//!
//! Method: the program runs statements on a new database, from the command line, from files and
//! from standard input, and each test looks at what it printed and how it ended.

use crate::common::{TestDirectory, fail, run, succeed};
use std::io::Write;
use std::process::{Command, Stdio};

const ROWS: &str =
    "CREATE TABLE t (id integer PRIMARY KEY, name text, price numeric(8,2), ok boolean);
    INSERT INTO t VALUES (1, 'one|1', 1.50, true), (2, NULL, -2, false), (3, '', NULL, NULL);";

/// A database with the table.
fn with_rows() -> (TestDirectory, String) {
    let place = TestDirectory::new();
    let database = place.at("db");
    succeed(&["create", &database]);
    succeed(&["sql", &database, "-c", ROWS]);
    (place, database)
}

#[test]
fn each_format_prints_rows_in_its_way() {
    let (_place, database) = with_rows();
    let shown = |format: &str| {
        succeed(&[
            "sql",
            &database,
            "-c",
            "SELECT * FROM t ORDER BY id",
            "--format",
            format,
        ])
    };
    assert_eq!(
        shown("csv"),
        "id,name,price,ok\n1,one|1,1.50,t\n2,,-2.00,f\n3,\"\",,\n"
    );
    assert_eq!(
        shown("json"),
        "{\"id\":1,\"name\":\"one|1\",\"price\":1.50,\"ok\":true}\n\
         {\"id\":2,\"name\":null,\"price\":-2.00,\"ok\":false}\n\
         {\"id\":3,\"name\":\"\",\"price\":null,\"ok\":null}\n"
    );
    assert_eq!(
        shown("tsv"),
        "id\tname\tprice\tok\n1\tone|1\t1.50\tt\n2\t\\N\t-2.00\tf\n3\t\t\\N\t\\N\n"
    );
    assert!(
        shown("markdown").contains("|  1 | one\\|1 |"),
        "{}",
        shown("markdown")
    );
    assert!(
        shown("line").starts_with("id    = 1\nname  = one|1\n"),
        "{}",
        shown("line")
    );
    let table = shown("table");
    assert!(
        table.starts_with("| id | name  | price | ok   |\n") && table.ends_with("(3 rows)\n\n"),
        "{table}"
    );
}

#[test]
fn an_error_has_its_place_and_ends_the_text() {
    let (_place, database) = with_rows();
    let error = fail(
        1,
        &[
            "sql",
            &database,
            "-c",
            "SELECT 1; SELECT id,\n  nmae FROM t; DELETE FROM t",
        ],
    );
    assert!(
        error.starts_with(
            "ERROR:  column \"nmae\" does not exist\nLINE 2:   nmae FROM t\n          ^"
        ),
        "{error}"
    );
    let count = succeed(&[
        "sql",
        &database,
        "-c",
        "SELECT count(*) FROM t",
        "--format",
        "csv",
    ]);
    assert_eq!(count, "count\n3\n");
}

#[test]
fn a_script_has_data_variables_and_commands() {
    let (place, database) = with_rows();
    place.file(
        "more.sql",
        "SELECT max(id) + :step AS next FROM t \\gset\nINSERT INTO t VALUES (:next, :'word');\n",
    );
    let script = place.file(
        "all.sql",
        &format!(
            "-- data stand behind their statement\nCOPY t (id, name) FROM stdin;\n7\tseven\n8\t\\N\n\\.\n\
             \\set step 5\n\\set word 'it''s'\n\\i {}\n.mode csv\nSELECT id, name FROM t WHERE id > 3 ORDER BY id;\n\\echo end\n",
            place.at("more.sql")
        ),
    );
    let printed = succeed(&["sql", &database, "-f", &script]);
    assert_eq!(
        printed,
        "COPY 2\nINSERT 0 1\nid,name\n7,seven\n8,\n13,it's\nend\n"
    );
    let broken = place.file("broken.sql", "SELECT 1;\nSELECT 1 / 0;\nDELETE FROM t;\n");
    let error = fail(1, &["sql", &database, "-f", &broken]);
    assert!(
        error.starts_with(&format!("{broken}:2: ERROR:  division by zero")),
        "{error}"
    );
    fail(1, &["sql", &database, "-f", &broken, "--keep-going"]);
    let count = succeed(&[
        "sql",
        &database,
        "-c",
        "SELECT count(*) FROM t",
        "--format",
        "csv",
    ]);
    assert_eq!(count, "count\n0\n");
}

/// A function's body has semicolons of its own, which end no statement.
#[test]
fn the_body_of_a_function_is_one_statement() {
    let (_place, database) = with_rows();
    let script = "CREATE FUNCTION up(a int) RETURNS int LANGUAGE sql BEGIN ATOMIC\n\
                  SELECT CASE WHEN a > 0 THEN a + 1 END;\nEND; SELECT up(3)";
    let printed = succeed(&["sql", &database, "--format", "csv", "-c", script]);
    assert_eq!(printed, "up\n4\n");
}

#[test]
fn copy_takes_the_rows_of_its_condition() {
    let (place, database) = with_rows();
    let script = place.file(
        "copied.sql",
        "CREATE TABLE c (a int, b text, n int, d int DEFAULT 1);\n\
         COPY c (a, b) FROM stdin WHERE a > 1 AND b <> 'it''s' AND n IS NULL;\n\
         1\tx\n2\ty\n3\tit's\n4\tz\n\\.\n\
         COPY public.c FROM stdin WITH (FORMAT csv, NULL 'nil') WHERE d IS NULL;\n\
         5,nil,7,nil\n6,w,7,8\n\\.\n\
         .mode csv\nSELECT * FROM c ORDER BY a;\n",
    );
    let printed = succeed(&["sql", &database, "-f", &script]);
    assert_eq!(
        printed,
        "CREATE TABLE\nCOPY 2\nCOPY 1\na,b,n,d\n2,y,,1\n4,z,,1\n5,,7,\n"
    );
    for (condition, message) in [
        (
            "a = (SELECT 1)",
            "cannot use subquery in COPY FROM WHERE condition",
        ),
        (
            "a",
            "argument of WHERE must be type boolean, not type integer",
        ),
        (
            "count(*) = 1",
            "aggregate functions are not allowed in COPY FROM WHERE conditions",
        ),
        ("a = 1 b", "syntax error at or near \"b\""),
        (
            "d = 1",
            "a condition on the default of column \"d\" is not supported",
        ),
    ] {
        let text = format!("COPY c (a, b) FROM stdin WHERE {condition};\n\\.\n");
        let script = place.file("refused.sql", &text);
        let error = fail(1, &["sql", &database, "-f", &script]);
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_condition_of_copy_sees_values_as_the_table_has_them() {
    let (place, database) = with_rows();
    let script = place.file(
        "copied.sql",
        "CREATE DOMAIN pos AS int CHECK (value > 0);\n\
         CREATE TABLE c (n numeric(5,1), v varchar(3), p pos);\n\
         COPY c (n, v) FROM stdin WHERE n = 1.3 AND v = 'abc';\n\
         1.26\tabc  \n1.2\tx\n\\.\n\
         .mode csv\nSELECT n, v, p FROM c;\n",
    );
    let printed = succeed(&["sql", &database, "-f", &script]);
    assert_eq!(
        printed,
        "CREATE DOMAIN\nCREATE TABLE\nCOPY 1\nn,v,p\n1.3,abc,\n"
    );
    for (copy, message) in [
        (
            "(v) FROM stdin WHERE false;\nabcdef",
            "value too long for type character varying(3)",
        ),
        (
            "(p) FROM stdin WHERE p > 5;\n-1",
            "value for domain pos violates check constraint \"pos_check\"",
        ),
    ] {
        let script = place.file("refused.sql", &format!("COPY c {copy}\n\\.\n"));
        let error = fail(1, &["sql", &database, "-f", &script]);
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn copy_reads_intervals_by_the_fields_of_their_types() {
    let (place, database) = with_rows();
    let script = place.file(
        "copied.sql",
        "CREATE TABLE c (h interval hour, s interval minute to second, a interval hour[]);\n\
         COPY c FROM stdin;\n5\t1:30\t{5,NULL}\n\\.\n\
         .mode csv\nSELECT * FROM c;\n",
    );
    let printed = succeed(&["sql", &database, "-f", &script]);
    assert_eq!(
        printed,
        "CREATE TABLE\nCOPY 1\nh,s,a\n05:00:00,00:01:30,\"{05:00:00,NULL}\"\n"
    );
}

#[test]
fn standard_input_is_a_script() {
    let (_place, database) = with_rows();
    let mut child = Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(["sql", &database, "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"SELECT 1 AS a;\nSELECT 2 AS b")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "a\n1\nb\n2\n");
}

#[test]
fn a_dump_makes_the_same_database() {
    let (place, database) = with_rows();
    succeed(&[
        "sql",
        &database,
        "-c",
        "CREATE VIEW v AS SELECT id FROM t WHERE ok; CREATE INDEX t_name ON t (name) INCLUDE (ok);
         CREATE TABLE form (a numeric PRIMARY KEY, b interval UNIQUE);
         INSERT INTO form VALUES (56.50, '24:00'), (7.0, '1 mon');
         COMMENT ON TABLE t IS 'it''s'; COMMENT ON COLUMN t.name IS 'a\\b'; COMMENT ON VIEW v IS 'seen';
         COMMENT ON INDEX t_name IS 'names'; COMMENT ON CONSTRAINT form_pkey ON form IS 'the key'",
    ]);
    let dump = succeed(&["dump", &database, "--sql"]);
    assert_eq!(succeed(&["sql", &database, "-c", ".dump"]), dump);
    let copy = place.at("copy");
    succeed(&["create", &copy]);
    succeed(&["sql", &copy, "-f", &place.file("dump.sql", &dump)]);
    assert_eq!(succeed(&["sql", &copy, "-c", ".dump"]), dump);
    let described = succeed(&["sql", &copy, "-c", "\\d t"]);
    assert!(
        described.contains("\"t_pkey\" PRIMARY KEY, btree (id)"),
        "{described}"
    );
    for kept in [
        "56.50\t24:00:00",
        "INCLUDE (ok)",
        "ON public.form IS 'the key'",
    ] {
        assert!(dump.contains(kept), "{kept}: {dump}");
    }
    assert_eq!(succeed(&["sql", &copy, "-c", ".tables"]), "form\nt\nv\n");
}

/// A sequence that was never used has no state, and a dump cannot make the table of states. Its
/// first number is that of the copy too.
#[test]
fn a_dump_needs_no_numbers_of_sequences() {
    let place = TestDirectory::new();
    let [database, copy] = ["db", "copy"].map(|name| place.at(name));
    for directory in [&database, &copy] {
        succeed(&["create", directory]);
    }
    let definition = "CREATE TABLE t (id serial, a int)";
    succeed(&["sql", &database, "-c", definition]);
    let dump = succeed(&["dump", &database, "--sql"]);
    assert!(dump.contains("nextval('t_id_seq'::regclass)"), "{dump}");
    succeed(&["sql", &copy, "-f", &place.file("dump.sql", &dump)]);
    let insert = "INSERT INTO t (a) VALUES (5) RETURNING id";
    let first = succeed(&["sql", &copy, "-c", insert, "--format", "csv"]);
    assert_eq!(first, "id\n1\n");
}

/// Columns that came from a table above were written as the table's own, and stayed without it;
/// indexes of a partitioned table were valid nowhere but here.
#[test]
fn a_dump_keeps_what_belongs_to_a_table_above() {
    let place = TestDirectory::new();
    let [database, copy] = ["db", "copy"].map(|name| place.at(name));
    for directory in [&database, &copy] {
        succeed(&["create", directory]);
    }
    succeed(&[
        "sql",
        &database,
        "-c",
        "CREATE TABLE up (a int, b int DEFAULT 1, c int DEFAULT 2, d int);
         CREATE TABLE down (d int, e int) INHERITS (up);
         ALTER TABLE down ALTER a SET NOT NULL, ALTER b DROP DEFAULT, ALTER c SET DEFAULT 3;
         INSERT INTO down VALUES (1, 2, 3, 4, 5);
         CREATE TABLE part (k int PRIMARY KEY) PARTITION BY LIST (k);
         CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1); CREATE TABLE refers (k int REFERENCES part)",
    ]);
    let dump = succeed(&["dump", &database, "--sql"]);
    for kept in [
        "CREATE TABLE public.down (\n    d integer,\n    e integer\n) INHERITS (up);",
        "ALTER TABLE ONLY public.down ALTER COLUMN a SET NOT NULL;",
        "ALTER TABLE ONLY public.down ALTER COLUMN b DROP DEFAULT;",
        "ALTER TABLE ONLY public.down ALTER COLUMN c SET DEFAULT 3;",
        "ALTER INDEX public.part_pkey ATTACH PARTITION public.part_1_pkey;",
    ] {
        assert!(dump.contains(kept), "{kept}: {dump}");
    }
    succeed(&["sql", &copy, "-f", &place.file("dump.sql", &dump)]);
    assert_eq!(succeed(&["dump", &copy, "--sql"]), dump);
    succeed(&[
        "sql",
        &copy,
        "-c",
        "ALTER TABLE up DROP COLUMN a, DROP COLUMN d",
    ]);
    let rows = succeed(&["sql", &copy, "-c", "TABLE down", "--format", "csv"]);
    assert_eq!(rows, "b,c,d,e\n2,3,4,5\n");
}

/// The number in the name of the table below came again after an opening, so a table that had been
/// written anew in one process could not be written anew in the next one.
#[test]
fn a_table_is_altered_in_one_process_after_the_other() {
    let (_place, database) = with_rows();
    for column in ["a", "b", "c", "d"] {
        let text = format!("ALTER TABLE t ADD COLUMN {column} integer");
        assert_eq!(succeed(&["sql", &database, "-c", &text]), "ALTER TABLE\n");
    }
}

#[test]
fn tests_say_what_passed() {
    let (place, database) = with_rows();
    let file = place.file(
        "a.slt",
        "statement ok\nCREATE TABLE u (a integer)\n\nquery I\nSELECT count(*) FROM u\n----\n0\n\n\
         query I\nSELECT 1\n----\n2\n\nstatement error 42P01\nSELECT * FROM t\n\nonlyif mysql\nstatement ok\nx\n",
    );
    let output = run(&["sql", &database, "--test", &file, "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["failures"][0]["record"], format!("{file}:9"));
    assert_eq!(
        lines[0]["failures"][0]["reason"],
        "line 1 is `1`, expected `2`"
    );
    let total = &lines[1];
    assert_eq!(
        (&total["passed"], &total["failed"], &total["skipped"]),
        (&3.into(), &1.into(), &1.into())
    );
    let skip = place.file("list", "a.slt:9\n");
    let printed = succeed(&["sql", &database, "--test", &file, "--skip", &skip]);
    assert!(
        printed.contains("\n1 file: 3 passed, 0 failed, 2 skipped in "),
        "{printed}"
    );
}

#[test]
fn bad_input_names_the_remedy() {
    let (place, database) = with_rows();
    for (code, arguments, part) in [
        (
            1,
            vec!["sql", "/nonexistent", "-c", "SELECT 1"],
            "/nonexistent",
        ),
        (
            2,
            vec!["sql", "postgres://h/d?color=red", "-c", "SELECT 1"],
            "postgres://USER@HOST:PORT/DATABASE",
        ),
        (
            1,
            vec!["sql", "postgres:///d?host=/nonexistent", "-c", "SELECT 1"],
            "cannot connect",
        ),
        (
            1,
            vec!["sql", &database, "-c", "\\nothing"],
            "Try \\? for help",
        ),
        (
            1,
            vec!["sql", &database, "-c", ".mode red"],
            "text, json, csv",
        ),
        (
            1,
            vec!["sql", &database, "-f", "/nonexistent.sql"],
            "/nonexistent.sql",
        ),
        (
            1,
            vec![
                "sql",
                &database,
                "-c",
                "SELECT 1 AS a \\gset b extra\nSELECT 1 WHERE false \\gset",
            ],
            "no rows",
        ),
        (
            2,
            vec!["info", &database, "--format", "tsv"],
            "use text, json or csv",
        ),
        (2, vec!["sql", &database, "--skip", "x"], "--test"),
    ] {
        let error = fail(code, &arguments);
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
    let list = place.file("list", "nothing\n");
    let error = fail(2, &["sql", &database, "--test", "x.slt", "--skip", &list]);
    assert!(
        error.contains("line 1") && error.contains("file:line"),
        "{error}"
    );
}

/// `tables drop`, `indexes create` and `indexes drop` changed tables of SQL, whose catalogue then
/// named a table or an index that was not there, and the database was of no use to SQL any more.
#[test]
fn definitions_of_sql_are_changed_in_sql_only() {
    let place = TestDirectory::new();
    let db = place.at("db");
    succeed(&["create", &db]);
    let script = "create table t (id int primary key, name text); create index by_name on t (name)";
    succeed(&["sql", &db, "-c", script]);
    let create = ["indexes", "create", &db, "t", "other", "--columns", "name"];
    for (command, instead) in [
        (&["tables", "drop", &db, "t"][..], "DROP TABLE"),
        (&["indexes", "drop", &db, "t", "by_name"], "DROP INDEX"),
        (&create, "CREATE INDEX"),
    ] {
        let error = fail(1, command);
        assert!(error.contains(instead), "{error}");
    }
    succeed(&[
        "sql",
        &db,
        "-c",
        "insert into t values (1, 'x'); drop table t",
    ]);
}

/// Materialized views, types of fields, owners of sequences and comments on types, schemas and
/// functions were left out of a dump without a word.
#[test]
fn a_dump_has_everything_or_says_what_it_lacks() {
    let place = TestDirectory::new();
    let [database, copy] = ["db", "copy"].map(|name| place.at(name));
    for directory in [&database, &copy] {
        succeed(&["create", directory]);
    }
    succeed(&[
        "sql",
        &database,
        "-c",
        "CREATE EXTENSION pgcrypto; CREATE SCHEMA s; CREATE TYPE mood AS ENUM ('x', 'y'); CREATE TYPE s.pair AS (a int, b mood);
         CREATE TABLE t (id serial PRIMARY KEY, p s.pair); INSERT INTO t (p) VALUES ((1, 'x'));
         CREATE MATERIALIZED VIEW m AS SELECT id FROM t; CREATE UNIQUE INDEX mi ON m (id);
         CREATE VIEW v AS SELECT * FROM m; CREATE MATERIALIZED VIEW n AS SELECT * FROM v WITH NO DATA;
         CREATE FUNCTION f(a int) RETURNS int LANGUAGE sql AS 'SELECT a';
         COMMENT ON MATERIALIZED VIEW m IS '1'; COMMENT ON SCHEMA s IS '2'; COMMENT ON TYPE mood IS '3';
         COMMENT ON FUNCTION f(int) IS '4'",
    ]);
    let dump = succeed(&["dump", &database, "--sql"]);
    assert!(
        dump.contains("CREATE EXTENSION IF NOT EXISTS pgcrypto;"),
        "{dump}"
    );
    succeed(&["sql", &copy, "-f", &place.file("dump.sql", &dump)]);
    assert_eq!(succeed(&["dump", &copy, "--sql"]), dump);
    let rows = succeed(&[
        "sql",
        &copy,
        "-c",
        "SELECT (p).b FROM t JOIN m USING (id)",
        "--format",
        "csv",
    ]);
    assert_eq!(rows, "b\nx\n");
    succeed(&["sql", &copy, "-c", "DROP TABLE t CASCADE"]);
    let left = succeed(&[
        "sql",
        &copy,
        "-c",
        "SELECT count(*) FROM pg_sequence",
        "--format",
        "csv",
    ]);
    assert_eq!(left, "count\n0\n");

    succeed(&["sql", &database, "-c", "CREATE ROLE reader"]);
    succeed(&["sql", &database, "-c", "GRANT SELECT ON t TO reader"]);
    let error = fail(1, &["dump", &database, "--sql"]);
    assert!(
        error.contains("1 roles, 1 relations with privileges"),
        "{error}"
    );
}
