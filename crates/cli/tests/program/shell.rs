//! Goal: what a person types, pastes or reads into the shell of SQL is run once, as it was meant.
//!
//! Method: the program runs scripts from files and pipes, and with a terminal of the program
//! `script` in front of it; each test looks at what is in the database afterwards.

use crate::common::{TestDirectory, fail, run, succeed};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.args(arguments);
    command
}

/// A database with an empty table `t (a integer)`.
fn with_table() -> (TestDirectory, String) {
    let place = TestDirectory::new();
    let database = place.at("db");
    succeed(&["create", &database]);
    succeed(&["sql", &database, "-c", "CREATE TABLE t (a integer)"]);
    (place, database)
}

/// The values of the table, with blanks between them.
fn values(database: &str) -> String {
    let query = "SELECT a FROM t ORDER BY a";
    let rows = succeed(&["sql", database, "-c", query, "--format", "csv"]);
    rows.lines().skip(1).collect::<Vec<_>>().join(" ")
}

/// Runs the shell at a terminal, into which all of this is typed at once; its output.
fn typed(place: &TestDirectory, database: &str, keys: &str) -> String {
    let mut child = Command::new("script")
        .args(["-qec"])
        .arg(format!(
            "{} sql {database}",
            env!("CARGO_BIN_EXE_indelible")
        ))
        .arg("/dev/null")
        .env("TERM", "xterm")
        .env("EDITOR", "true")
        .env("XDG_STATE_HOME", place.at("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(keys.as_bytes()).unwrap();
    let mut output = String::new();
    // A prompt has no end of line; the last key ends the shell.
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut output).unwrap();
    drop(input);
    child.wait().unwrap();
    output
}

/// None of these variables was there, and a script that had gone past a failure ended without a
/// word at its `\set ON_ERROR_STOP on`.
#[test]
fn scripts_see_how_a_statement_went() {
    let (place, database) = with_table();
    let script = place.file(
        "s.sql",
        "\\echo :ERROR :SQLSTATE :ROW_COUNT\nINSERT INTO t VALUES (1), (2);\n\\echo :ROW_COUNT\n\
         SELECT 1/:zero;\n\\echo :ERROR :SQLSTATE :ROW_COUNT\n\\set ON_ERROR_STOP on\n\
         SELECT a FROM t ORDER BY a;\n\\echo :ERROR :SQLSTATE :LAST_ERROR_SQLSTATE :LAST_ERROR_MESSAGE\n\
         SELECT 5 AS x \\gset \\echo :x :ROW_COUNT \\\\ SELECT 'last';\nSELECT 1/0;\nSELECT 'never';\n",
    );
    let arguments = [
        "-v",
        "zero=0",
        "-v",
        "ON_ERROR_STOP=0",
        "--format",
        "csv",
        "-f",
        &script,
    ];
    let output = run(&[&["sql", &database][..], &arguments].concat());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "false 00000 0\n2\ntrue 22012 0\na\n1\n2\nfalse 00000 22012 division by zero\n5 1\n?column?\nlast\n"
    );
    let refused = fail(2, &["sql", &database, "-v", "=1", "-c", "SELECT 1"]);
    assert!(refused.contains("-v NAME=VALUE"), "{refused}");
}

#[test]
fn words_of_commands_may_be_the_output_of_a_program() {
    let (place, database) = with_table();
    let text = "\\set v `printf 'a b\\n'`\n\\echo :'v' `echo :v; exit 0` `exit 1` x\n\
                \\copy t from 'data' (delimiter E'\\t')\n";
    place.file("data", "1\n2\n");
    let script = place.file("s.sql", text);
    let output = program(&["sql", &database, "-f", &script])
        .current_dir(place.at(""))
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "'a b' :v  x\nCOPY 2\n",
        "{errors}"
    );
    assert_eq!(values(&database), "1 2");
}

#[test]
fn everything_that_is_pasted_runs() {
    let (place, database) = with_table();
    let keys = "insert into t values (2);\rinsert into t values (3);\rinsert into t\rvalues (4);\r\
                copy t from stdin;\r5\r6\r\\.\rselect 7 as a \\gset\rinsert into t values (:a) \\g\rquit\r";
    let output = typed(&place, &database, keys);
    assert_eq!(values(&database), "2 3 4 5 6 7", "{output}");
}

#[test]
fn data_of_a_failed_copy_are_no_statements() {
    let (place, database) = with_table();
    let keys =
        "copy t from stdin;\rx\rinsert into t values (1);\r\\.\rinsert into t values (2);\r\\q\r";
    let output = typed(&place, &database, keys);
    assert_eq!(values(&database), "2", "{output}");
    let script = place.file(
        "copy.sql",
        "COPY none FROM stdin;\ninsert into t values (1);\n\\.\nCOPY t FROM stdin;\nx\n\
         insert into t values (1);\n\\.\ninsert into t values (3);\n",
    );
    fail(1, &["sql", &database, "-f", &script, "--keep-going"]);
    assert_eq!(values(&database), "2 3");
}

/// The last statement ran again although the editor had changed nothing.
#[test]
fn an_editor_that_changes_nothing_runs_nothing() {
    let (place, database) = with_table();
    let output = typed(&place, &database, "insert into t values (1);\r\\e\r\\q\r");
    assert_eq!(values(&database), "1", "{output}");
    let edited = place.file("edited.sql", "insert into t values (2);\n");
    let script = place.file("edit.sql", &format!("\\e {edited}\n"));
    let edit = |editor: &str| {
        program(&["sql", &database, "-f", &script])
            .env("VISUAL", editor)
            .output()
            .unwrap()
    };
    assert!(edit("true").status.success());
    assert_eq!(values(&database), "1");
    assert!(edit("sed -i s/2/3/").status.success());
    assert_eq!(values(&database), "1 3");
    let output = edit("printf '\\377' >");
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not UTF-8"));
}

/// `.dump` ended the transaction of the user, and what followed was committed.
#[test]
fn a_dump_is_a_part_of_an_open_transaction() {
    let (place, database) = with_table();
    for (script, left) in [
        (
            "begin;\n.dump t\ninsert into t values (1);\nrollback;\n",
            "",
        ),
        ("begin;\ninsert into t values (2);\n.dump t\ncommit;\n", "2"),
    ] {
        let printed = succeed(&["sql", &database, "-f", &place.file("a.sql", script)]);
        assert!(
            printed.contains("COPY public.t (a) FROM stdin;"),
            "{printed}"
        );
        assert_eq!(values(&database), left);
    }
}

/// The exit code said that all was done.
#[test]
fn a_reader_that_goes_away_is_a_failure() {
    let (_place, database) = with_table();
    let rows = "select * from generate_series(1, 100000)";
    let mut child = program(&[
        "sql",
        &database,
        "-c",
        rows,
        "-c",
        "insert into t values (1)",
    ])
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(values(&database), "");
}

fn piped(database: &str) -> Child {
    program(&["sql", database, "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_pipe_has_its_answer_before_it_ends() {
    let (_place, database) = with_table();
    let mut child = piped(&database);
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for number in ["1", "2"] {
        input
            .write_all(format!("select {number} as n;\n").as_bytes())
            .unwrap();
        let mut lines = [String::new(), String::new()];
        for line in &mut lines {
            output.read_line(line).unwrap();
        }
        assert_eq!(lines[1].trim_end(), number);
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_script_of_psql_runs() {
    let (place, database) = with_table();
    std::fs::create_dir(place.at("sub")).unwrap();
    place.file("sub/beside.sql", "insert into t values (5);\n\\q\n");
    place.file("sub/a.sql", "\\ir beside.sql\ninsert into t values (6);\n");
    let script = place.file(
        "psql.sql",
        &format!(
            "\u{feff}\\restrict abc\ninsert into t values (1);\n\\unrestrict abc\n\
             \\copy t from stdin\n2\n3\n\\.\n\\set on false\n\\if :on\ninsert into t values (4);\n\
             \\elif true\n\\i {}\n\\else\ndrop table t;\n\\endif\n\
             select 'insert into t values (' || n || ')' from generate_series(7, 8) n \\gexec\n\
             \\set ON_ERROR_STOP on\n",
            place.at("sub/a.sql")
        ),
    );
    succeed(&["sql", &database, "-f", &script]);
    assert_eq!(values(&database), "1 2 3 5 6 7 8");
    for (text, message) in [
        (
            "select 1;\n\n\\nothing",
            "bad.sql:3: invalid command \\nothing",
        ),
        (
            "\\restrict a\n\\! touch x",
            "backslash commands are restricted",
        ),
        (
            "\\set AUTOCOMMIT off",
            "\\set AUTOCOMMIT off is not supported",
        ),
        ("\\timing banana", "there is no setting `banana`"),
        ("\\if maybe\n\\endif", "Boolean expected"),
        ("\\if true", "the script ends before the \\endif"),
    ] {
        let error = fail(1, &["sql", &database, "-f", &place.file("bad.sql", text)]);
        assert!(error.contains(message), "{error}");
    }
    assert_eq!(
        succeed(&["sql", &database, "-c", "-- a comment\n\\echo b"]),
        "b\n"
    );
}

#[test]
fn a_file_that_fails_does_not_end_the_shell() {
    let (place, database) = with_table();
    place.file("it's.csv", "9\n");
    let folder = place.at("");
    let script = place.file(
        "files.sql",
        &format!(
            "insert into t values (1);\n\\copy t to /dev/full\n\\copy t from '.'\nselect * from t \\g /dev/full\n\
             \\o /dev/full\nselect * from generate_series(1, 100000);\n\\copy t to program 'cat'\n\
             \\copy t from '{folder}it''s.csv'\n\\echo end\n"
        ),
    );
    let output = run(&["sql", &database, "-f", &script, "--keep-going"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    for (line, message) in [
        (2, "cannot write /dev/full: "),
        (3, "cannot read .: "),
        (4, "cannot write /dev/full: "),
        (6, "cannot write /dev/full: "),
        (7, "\\copy: programs are not run from here"),
    ] {
        let told = format!("{script}:{line}: {message}");
        assert!(errors.contains(&told), "{told}: {errors}");
    }
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.ends_with("end\n"), "{printed}");
    assert_eq!(values(&database), "1 9");
}

#[test]
fn names_in_quotes_are_described_as_they_stand() {
    let (_place, database) = with_table();
    let names = "create table \"Order\" (big int); create table \"order\" (small int); create table \"dot.t\" (q int)";
    succeed(&["sql", &database, "-c", names]);
    for (command, column) in [
        ("\\d \"Order\"", "big"),
        ("\\d \"order\"", "small"),
        ("\\d Order;", "small"),
        ("\\d public.\"dot.t\"", "| q "),
    ] {
        let shown = succeed(&["sql", &database, "-c", command]);
        assert!(shown.contains(column), "{command}: {shown}");
    }
    assert_eq!(
        succeed(&["sql", &database, "-c", ".tables \"Order\""]),
        "Order\n"
    );
}

#[test]
fn descriptions_have_families_indexes_and_sequences() {
    let (_place, database) = with_table();
    succeed(&[
        "sql",
        &database,
        "-c",
        "create table p (a int) partition by range (a); create table p1 partition of p for values from (1) to (9);
         create table heir () inherits (t); create unique index i on t (a) where a > 0;
         create sequence s increment 5; create type pair as (a int, b int)",
    ]);
    for (command, part) in [
        (
            "\\d p",
            "Partition key:\n    RANGE (a)\nPartitions:\n    p1 FOR VALUES FROM (1) TO (9)",
        ),
        ("\\d p1", "Partition of:\n    p FOR VALUES"),
        ("\\d heir", "Inherits:\n    t"),
        ("\\d t", "Child tables:\n    heir"),
        (
            "\\d i",
            "CREATE UNIQUE INDEX i ON public.t USING btree (a) WHERE (a > 0)",
        ),
        ("\\d s", "bigint, start 1, increment 5"),
        ("\\dT", "| composite"),
    ] {
        let shown = succeed(&["sql", &database, "-c", command]);
        assert!(shown.contains(part), "{command}: {shown}");
    }
    let schemas = succeed(&["sql", &database, "-c", "\\dn"]);
    assert!(!schemas.contains("indelible  "), "{schemas}");
}

/// Files of the database that was copied were replaced by the copy.
#[test]
fn no_copy_goes_into_the_database() {
    let place = TestDirectory::new();
    let [database, log] = ["db", "log"].map(|name| place.at(name));
    let method = ["--method", "full-page-writes", "--log-directory", &log];
    succeed(&[&["create", &database][..], &method].concat());
    succeed(&[
        "tables",
        "create",
        &database,
        "t",
        "--columns",
        "a:int64",
        "--primary-key",
        "a",
    ]);
    let inside = [format!("{database}/p0.pages"), format!("{log}/new")];
    for file in &inside {
        for command in [
            &["backup", &database, file, "--force"][..],
            &["dump", &database, file, "--force"],
            &["dump", &database, file, "--force", "--sql"],
            &["export", &database, "t", file, "--force"],
            &["sql", &database, "-c", &format!("\\o {file}")],
        ] {
            let error = fail(1, command);
            assert!(error.contains("belongs to the database"), "{error}");
        }
    }
    succeed(&["verify", &database]);
}

/// Definitions of SQL were lost without a word.
#[test]
fn commands_of_the_typed_interface_leave_tables_of_sql_alone() {
    let (place, database) = with_table();
    let file = place.file("t.csv", "a\n1\n");
    for (command, instead) in [
        (&["dump", &database][..], "dump --sql"),
        (&["export", &database, "t"], "\\copy TABLE to FILE"),
        (&["get", &database, "t", "1"], "SELECT"),
        (&["scan", &database, "t"], "SELECT"),
        (&["import", &database, "t", &file], "\\copy TABLE from FILE"),
    ] {
        let output = run(command);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            error.contains(instead) && output.stdout.is_empty(),
            "{error}"
        );
        assert_eq!(output.status.code(), Some(1));
    }
    succeed(&["sql", &database, "-c", "alter table t add b int"]);
    let error = fail(1, &["export", &database, "t"]);
    assert!(error.contains("\\dt") && !error.contains('#'), "{error}");
}

/// Loads a dump, and compares the dumps of both.
fn loads_again(place: &TestDirectory, database: &str) -> String {
    let copy = place.at("copy");
    succeed(&["create", &copy]);
    let dump = succeed(&["dump", database, "--sql"]);
    succeed(&["sql", &copy, "-f", &place.file("dump.sql", &dump)]);
    dump
}

#[test]
fn a_dump_has_an_order_that_loads() {
    let (place, database) = with_table();
    succeed(&[
        "sql",
        &database,
        "-c",
        "create view va as select 1 x; create view vb as select 2 x;
         create or replace view va as select x from vb; create table t1 (a int);
         create function f0(int) returns int language sql immutable as 'select $1 + 1';
         create function f1(int) returns int language sql immutable as 'select f0($1)';
         create or replace function f0(int) returns int language sql stable as 'select $1 + (select count(*) from t)::int';
         alter table t1 alter a set default f1(3); create type comp as (t t1);
         create domain dom as int default 5; alter table t add d dom; create type mood as enum ('x');
         alter table t add m mood[]; alter table t1 add check (a > f1(0)); insert into t1 values (9)",
    ]);
    let dump = loads_again(&place, &database);
    let at = |text: &str| dump.find(text).unwrap_or_else(|| panic!("{text}: {dump}"));
    assert!(at("VIEW public.vb") < at("VIEW public.va"));
    assert!(at("FUNCTION public.f1") < at("TABLE public.t1"));
    assert!(at("TABLE public.t1") < at("TYPE public.comp"));
    let query = "select (select a from t1), x from va; insert into t1 default values returning a";
    let rows = |database: &str| succeed(&["sql", database, "-c", query, "--format", "csv"]);
    assert_eq!(rows(&place.at("copy")), rows(&database));
}

/// The script ended at the foreign key of a partition, or at the comment on an index of a
/// partitioned table; in PostgreSQL the indexes of partitioned tables stayed invalid, and inherited
/// columns were the heir's own.
#[test]
fn a_dump_of_tables_that_belong_together_loads() {
    let (place, database) = with_table();
    let text = "create table o (i int primary key); insert into o values (1);
        create table p (a int references o, b int, primary key (a, b)) partition by list (a);
        create table p1 partition of p for values in (1); insert into p values (1, 2);
        create index pb on p (b); comment on index pb is 'of p'; create view pv as select * from p;
        create table r (a int, b int, foreign key (a, b) references p);
        create table par (a int default 1, g int generated always as (a * 2) stored, check (a > 0));
        create table chi (d int) inherits (par); insert into chi (d) values (3);
        alter table only chi alter a set default 7; create table late () inherits (chi);
        alter table par add check (a < 9) not valid";
    succeed(&["sql", &database, "-c", text]);
    let dump = loads_again(&place, &database);
    for part in [
        "ALTER TABLE public.p ADD CONSTRAINT p_a_fkey",
        "ALTER INDEX public.pb ATTACH PARTITION public.p1_b_idx",
        "ALTER INDEX public.p_pkey ATTACH PARTITION public.p1_pkey",
        "COMMENT ON INDEX public.pb",
        "CREATE TABLE public.chi (\n    d integer\n) INHERITS (par);",
        "ALTER TABLE ONLY public.chi ALTER COLUMN a SET DEFAULT 7;",
    ] {
        assert!(dump.contains(part), "{part}: {dump}");
    }
    assert!(!dump.contains("p1_a_fkey"), "{dump}");
    let query = "select * from pv; insert into chi default values returning a, g;
        select conrelid::regclass::text, conname from pg_constraint where contype in ('c', 'f') order by 1, 2;
        select obj_description('pb'::regclass)";
    let rows = |database: &str| succeed(&["sql", database, "-c", query, "--format", "csv"]);
    assert_eq!(rows(&place.at("copy")), rows(&database));
}

/// `.dump a.t` was empty, as was that of a name that is not there, and `.dump t` had all tables
/// `t`.
#[test]
fn a_dump_of_one_name_has_that_table_or_fails() {
    let (_place, database) = with_table();
    let text = "create schema s; create table s.t (x int); create table s.\"T\" (y int)";
    succeed(&["sql", &database, "-c", text]);
    let dump = |name: &str| succeed(&["sql", &database, "-c", &format!(".dump {name}")]);
    for (name, made) in [("t", "public.t"), ("s.t", "s.t"), ("s.T", "s.\"T\"")] {
        let dump = dump(name);
        assert_eq!(dump.matches("CREATE TABLE").count(), 1, "{dump}");
        assert!(dump.contains(&format!("CREATE TABLE {made} (")), "{dump}");
    }
    for command in [".dump", ".schema"] {
        let error = fail(1, &["sql", &database, "-c", &format!("{command} s.none")]);
        let expected = "Did not find any relation named \"s.none\".";
        assert!(error.contains(expected), "{error}");
    }
}

/// Values were put into the line of a command before it was cut into words.
#[test]
fn values_with_blanks_are_one_word_of_a_command() {
    let place = TestDirectory::new();
    let database = place.at("db");
    succeed(&["create", &database]);
    let file = place.file("two words.sql", "\\echo read\n");
    let script = format!(
        "\\set x 'a bc'\n\\set y :x\n\\echo :y :'x'\n\\set file '{file}'\n\\i :file\n\
         \\if :{{?none}}\n\\echo no\n\\else\n\\echo -n 'a\\tb'\n\\endif\n"
    );
    let printed = succeed(&["sql", &database, "-f", &place.file("script.sql", &script)]);
    assert_eq!(printed, "a bc 'a bc'\nread\na\tb");
}

#[test]
fn a_dump_keeps_options_and_rows_without_columns() {
    let (place, database) = with_table();
    let text = "create domain d as integer default 5 not null; create table u (x d);
        create table i (id int generated always as identity (start with 100 increment by 10 maxvalue 500 cycle), v text);
        insert into i (v) values ('a'), ('b'); alter sequence i_id_seq rename to other;
        create table e (); insert into e default values; insert into e default values";
    succeed(&["sql", &database, "-c", text]);
    loads_again(&place, &database);
    let query = "insert into i (v) values ('c') returning id; insert into u default values returning x;
        select count(*) from e; select seqmax, seqcycle from pg_sequence where seqrelid = 'other'::regclass";
    let rows = succeed(&["sql", &place.at("copy"), "-c", query, "--format", "csv"]);
    assert_eq!(rows, "id\n120\nx\n5\ncount\n2\nseqmax,seqcycle\n500,t\n");
}

#[test]
fn tables_of_the_typed_interface_are_tables_of_sql() {
    let place = TestDirectory::new();
    let database = place.at("db");
    succeed(&["create", &database]);
    for table in ["one", "two"] {
        let file = place.file("rows.csv", "id,name\n1,a\n2,b\n");
        succeed(&["import", &database, table, &file, "--primary-key", "id"]);
    }
    succeed(&[
        "indexes",
        "create",
        &database,
        "one",
        "by_name",
        "--columns",
        "name",
    ]);
    let dump = loads_again(&place, &database);
    for part in [
        "PRIMARY KEY (id)",
        "CREATE INDEX by_name ON public.one",
        "COPY public.two",
    ] {
        assert!(dump.contains(part), "{part}: {dump}");
    }
    let described = succeed(&["sql", &database, "-c", "\\d one"]);
    assert!(
        described.contains("\"one_pkey\" PRIMARY KEY, btree (id)"),
        "{described}"
    );
    let repeated =
        "select count(*) from (select oid from pg_class group by 1 having count(*) > 1) x;
        select count(*) from (select oid from pg_type group by 1 having count(*) > 1) x";
    let rows = succeed(&["sql", &database, "-c", repeated, "--format", "csv"]);
    assert_eq!(rows, "count\n0\ncount\n0\n");
    let script = place.file(
        "copy.sql",
        "begin;\nlock table one in access share mode;\ncopy one from stdin;\n3\tc\n\\.\ncommit;\ncopy one (name) to stdout;\n",
    );
    let copied = succeed(&["sql", &database, "-f", &script]);
    assert!(copied.ends_with("a\nb\nc\n"), "{copied}");
    for statement in [
        "drop table one",
        "drop table if exists one",
        "alter table one add z int",
        "create index on one (name)",
        "truncate one",
        "comment on table one is 'x'",
        "create table r (a bigint references one)",
        "grant select on one to public",
    ] {
        let error = fail(1, &["sql", &database, "-c", statement]);
        assert!(
            error.contains("typed interface") && error.contains("indelible tables"),
            "{error}"
        );
    }
}
