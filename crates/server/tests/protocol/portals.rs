//! Goal: prepared statements and portals do what PostgreSQL's do when they run again, in parts, or
//! after their tables have changed.
//!
//! Method: each conversation is a line of the kinds of its answers, as PostgreSQL 15 gives it.

use crate::{Client, Fixture, bind, execute, message, named, parse, query, sync};

/// A client beside a table of three rows.
fn client_with_rows(fixture: &Fixture) -> Client {
    let mut client = fixture.client();
    client.ask(&[query(
        "create table t (a int, b text); insert into t values (1, 'x'), (2, 'y'), (3, 'z')",
    )]);
    client
}

/// Runs the portal without a name of a text, with limits of rows one after the other.
fn run(client: &mut Client, text: &str, limits: &[u32]) -> String {
    let mut messages = vec![parse("", text), bind("", "", &[])];
    messages.extend(limits.iter().map(|limit| execute("", *limit)));
    messages.push(sync());
    client.ask(&messages)
}

/// The parameters of a statement got other types, and its results other columns, when a table had
/// changed after the client was told of them. The former stay, and the latter are an error.
#[test]
fn prepared_statements_keep_their_types() {
    let fixture = Fixture::new(|_| {});
    let mut client = client_with_rows(&fixture);
    client.ask(&[
        parse("all", "select * from t"),
        parse("new", "insert into t values ($1, $2) returning *"),
        parse("one", "select b from t where a = $1"),
        sync(),
    ]);
    client.ask(&[query("alter table t add c int")]);
    for name in ["all", "new"] {
        let values: &[&str] = if name == "new" { &["4", "u"] } else { &[] };
        assert_eq!(
            client.ask(&[bind("", name, values), execute("", 0), sync()]),
            "E[0A000] Z[I]"
        );
    }
    assert_eq!(
        client.ask(&[named(b'D', b'S', "all"), sync()]),
        "E[0A000] Z[I]"
    );
    let one = [bind("", "one", &["1"]), execute("", 0), sync()];
    assert_eq!(client.ask(&one), "2 D[x] C[SELECT 1] Z[I]");
    client.ask(&[query("alter table t alter a type text")]);
    assert_eq!(client.ask(&one), "E[42883] Z[I]");
    client.ask(&[query("alter table t drop c, alter a type int using a::int")]);
    assert_eq!(client.ask(&one), "2 D[x] C[SELECT 1] Z[I]");
    assert_eq!(
        client.ask(&[bind("", "all", &[]), execute("", 1), sync()]),
        "2 D[1,x] s Z[I]"
    );
    client.ask(&[query("alter table t rename b to d")]);
    assert_eq!(client.ask(&[bind("", "all", &[]), sync()]), "E[0A000] Z[I]");
}

/// Another session changed a table between Bind and Execute, and rows came with other columns than
/// those that the client was told of.
#[test]
fn a_portal_keeps_the_columns_of_its_statement() {
    let fixture = Fixture::new(|_| {});
    let mut client = client_with_rows(&fixture);
    let mut other = fixture.client();
    client.ask(&[parse("s", "select * from t"), sync()]);
    client.send(&[bind("p", "s", &[]), message(b'H', b"")]);
    assert_eq!(client.next().unwrap().0, b'2');
    other.ask(&[query("alter table t add c int")]);
    assert_eq!(client.ask(&[execute("p", 0), sync()]), "E[0A000] Z[I]");
}

/// Drivers such as pgjdbc and that of Rails prepare a statement again for an error of this routine
/// alone, and had failed with each call.
#[test]
fn a_changed_result_is_reported_with_its_routine() {
    let fixture = Fixture::new(|_| {});
    let mut client = client_with_rows(&fixture);
    client.ask(&[
        parse("s", "select * from t"),
        named(b'D', b'S', "s"),
        sync(),
    ]);
    client.ask(&[query("alter table t add c int")]);
    client.send(&[bind("", "s", &[]), execute("", 0), sync()]);
    let error = std::iter::from_fn(|| client.next()).find(|(kind, _)| *kind == b'E');
    let (_, body) = error.unwrap();
    let fields: Vec<&[u8]> = body.split(|byte| *byte == 0).collect();
    assert!(fields.contains(&&b"C0A000"[..]), "{fields:?}");
    assert!(
        fields.contains(&&b"RRevalidateCachedQuery"[..]),
        "{fields:?}"
    );
}

/// JDBC declares the parameter of a function's result as void, and counts it as an argument.
#[test]
fn parameters_of_type_void_are_no_arguments() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.ask(&[query(
        "create function twice(i int) returns int language sql as 'select i * 2'",
    )]);
    let text = "select * from twice($1, $2) as result\0";
    let types = [2278_u32, 23].map(u32::to_be_bytes).concat();
    let body = [b"\0", text.as_bytes(), &2_u16.to_be_bytes(), &types].concat();
    let nothing = (-1_i32).to_be_bytes();
    let four = [&1_u32.to_be_bytes()[..], b"4"].concat();
    let values = [
        &b"\0\0\0\0"[..],
        &2_u16.to_be_bytes(),
        &nothing,
        &four,
        b"\0\0",
    ];
    let bound = message(b'B', &values.concat());
    assert_eq!(
        client.ask(&[message(b'P', &body), bound, execute("", 0), sync()]),
        "1 2 D[8] C[SELECT 1] Z[I]"
    );
}

#[test]
fn statements_of_prepare_keep_their_types() {
    let fixture = Fixture::new(|_| {});
    let mut client = client_with_rows(&fixture);
    client.ask(&[query("prepare p as select * from t")]);
    client.ask(&[query("prepare q as insert into t values ($1, $2)")]);
    client.ask(&[query("alter table t alter a type text")]);
    for text in ["execute p", "explain execute p"] {
        assert_eq!(client.ask(&[query(text)]), "E[0A000] Z[I]");
    }
    assert_eq!(client.ask(&[query("execute q('k', 'l')")]), "E[22P02] Z[I]");
    assert_eq!(
        client.ask(&[query("execute q(4, 'u')")]),
        "C[INSERT 0 1] Z[I]"
    );
    client.ask(&[query("alter table t alter a type int using a::int")]);
    assert_eq!(
        client.ask(&[query("execute p")]),
        "T D[1,x] D[2,y] D[3,z] D[4,u] C[SELECT 4] Z[I]"
    );
    client.ask(&[query(
        "create table v (a varchar(10)); prepare r as select * from v",
    )]);
    client.ask(&[query("alter table v alter a type varchar(20)")]);
    assert_eq!(client.ask(&[query("execute r")]), "E[0A000] Z[I]");
}

/// A portal that had come to its end was not there any more.
#[test]
fn portals_run_again_after_their_end() {
    let fixture = Fixture::new(|_| {});
    let mut client = client_with_rows(&fixture);
    for (text, limits, answers) in [
        (
            "select a from t",
            &[0, 0, 2][..],
            "D[1] D[2] D[3] C[SELECT 3] C[SELECT 0] C[SELECT 0] Z[I]",
        ),
        (
            "select a from t",
            &[2, 2, 2],
            "D[1] D[2] s D[3] C[SELECT 1] C[SELECT 0] Z[I]",
        ),
        (
            "insert into t values (4)",
            &[0, 0],
            "C[INSERT 0 1] E[55000] Z[I]",
        ),
        (
            "insert into t values (4), (5), (6) returning a",
            &[2, 0, 0],
            "D[4] D[5] s D[6] C[INSERT 0 1] C[INSERT 0 0] Z[I]",
        ),
        (
            "update t set a = a where a = 4 returning a",
            &[0, 0],
            "D[4] C[UPDATE 1] C[UPDATE 0] Z[I]",
        ),
        ("begin", &[0, 0], "C[BEGIN] E[55000] Z[E]"),
        ("rollback", &[0, 0], "C[ROLLBACK] E[34000] Z[I]"),
        ("", &[0, 0], "I I Z[I]"),
        (
            "create table u (a int)",
            &[0, 0],
            "C[CREATE TABLE] E[55000] Z[I]",
        ),
        (
            "show server_encoding",
            &[0, 0],
            "D[UTF8] C[SHOW] C[SHOW] Z[I]",
        ),
    ] {
        let shown = run(&mut client, text, limits);
        assert_eq!(shown, format!("1 2 {answers}"), "{text}");
    }
    // A portal of a text without a statement ends with its transaction too.
    for _ in 0..2 {
        let empty = [parse("", ""), bind("p", "", &[]), execute("p", 0), sync()];
        assert_eq!(client.ask(&empty), "1 2 I Z[I]");
    }
}

/// The limit of Execute held for plans alone.
#[test]
fn rows_of_other_statements_come_in_parts() {
    let fixture = Fixture::new(|_| {});
    let mut client = client_with_rows(&fixture);
    client.ask(&[query(
        "prepare p as select a from t; prepare i as insert into t values (7)",
    )]);
    client.ask(&[query("begin; declare c cursor for select a from t")]);
    for (text, limits, answers) in [
        (
            "fetch 3 from c",
            &[2, 2, 2][..],
            "D[1] D[2] s D[3] C[FETCH 1] C[FETCH 0] Z[T]",
        ),
        ("move backward 3 in c", &[2], "C[MOVE 2] Z[T]"),
        (
            "execute p",
            &[2, 0, 0],
            "D[1] D[2] s D[3] C[SELECT 1] C[SELECT 0] Z[T]",
        ),
        ("execute i", &[1], "C[INSERT 0 1] Z[T]"),
        (
            "show server_encoding",
            &[1, 1, 1],
            "D[UTF8] s C[SHOW] C[SHOW] Z[T]",
        ),
        (
            "explain (costs off) select a from t limit 1",
            &[1, 1, 0],
            "D[Limit] s D[  ->  Seq Scan on t] s C[EXPLAIN] Z[T]",
        ),
    ] {
        let shown = run(&mut client, text, limits);
        assert_eq!(shown, format!("1 2 {answers}"), "{text}");
    }
}

/// A cursor of DECLARE was no portal for Execute, Close and Bind.
#[test]
fn cursors_are_portals() {
    let fixture = Fixture::new(|_| {});
    let mut client = client_with_rows(&fixture);
    client.ask(&[query("begin; declare c cursor for select a, b from t")]);
    assert_eq!(
        client.ask(&[
            execute("c", 1),
            named(b'D', b'P', "c"),
            execute("c", 1),
            execute("c", 0),
            execute("c", 0),
            sync()
        ]),
        "D[1,x] s T D[2,y] s D[3,z] C[SELECT 1] C[SELECT 0] Z[T]"
    );
    assert_eq!(
        client.ask(&[
            query("savepoint s"),
            parse("", "select 1"),
            bind("c", "", &[]),
            sync()
        ]),
        "C[SAVEPOINT] Z[T]"
    );
    assert_eq!(client.until_ready(), "1 E[42P03] Z[E]");
    client.ask(&[query("rollback to s")]);
    assert_eq!(
        client.ask(&[named(b'C', b'P', "c"), execute("c", 0), sync()]),
        "3 E[34000] Z[E]"
    );
    assert_eq!(
        client.ask(&[query("rollback to s; fetch from c")]),
        "C[ROLLBACK] E[34000] Z[E]"
    );
}

/// The tags of statements that make tables of rows said that there were none.
#[test]
fn tables_of_queries_have_their_rows_in_the_tag() {
    let fixture = Fixture::new(|_| {});
    let mut client = client_with_rows(&fixture);
    for (text, answers) in [
        ("create table u as select a from t", "C[SELECT 3]"),
        ("select a into v from t", "C[SELECT 3]"),
        (
            "create materialized view w as select a from t",
            "C[SELECT 3]",
        ),
        (
            "create table y as select a from t with no data",
            "C[CREATE TABLE AS]",
        ),
        (
            "create materialized view z as select a from t with no data",
            "C[CREATE MATERIALIZED VIEW]",
        ),
    ] {
        let shown = run(&mut client, text, &[0]);
        assert_eq!(shown, format!("1 2 {answers} Z[I]"), "{text}");
    }
}

/// Answers to messages without rows were kept until the server had no more requests to read: a
/// client could make it keep hundreds of megabytes.
#[test]
fn answers_of_a_pipeline_are_sent_when_there_are_many() {
    let fixture = Fixture::new(|_| {});
    let (mut client, mut other) = (fixture.client(), fixture.client());
    other.ask(&[query("select pg_advisory_lock(1)")]);
    let columns = (0..1000).map(|n| format!("1 as a{n}")).collect::<Vec<_>>();
    let wide = format!("select {}", columns.join(", "));
    client.ask(&[
        parse("wide", &wide),
        parse("lock", "select pg_advisory_lock(1)"),
        sync(),
    ]);
    let mut messages = vec![named(b'D', b'S', "wide"); 10];
    messages.extend([bind("", "lock", &[]), execute("", 0), sync()]);
    client.send(&messages);
    // The lock is not there, so what comes has been sent before the end of the last request.
    assert_eq!(client.next().unwrap().0, b't');
    other.ask(&[query("select pg_advisory_unlock(1)")]);
    let answers = format!("T {}2 D[] C[SELECT 1] Z[I]", "t T ".repeat(9));
    assert_eq!(client.until_ready(), answers);
}

#[test]
fn binary_cursors_answer_in_binary() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.ask(&[query("begin; declare c binary cursor for select 65")]);
    assert_eq!(
        client.ask(&[query("fetch c; select 65")]),
        "T D[\0\0\0A] C[FETCH 1] T D[65] C[SELECT 1] Z[T]"
    );
}

/// An error in the data of a COPY named neither the line nor the column.
#[test]
fn errors_of_copied_data_have_their_place() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.ask(&[query("create table copied (a int, b text)")]);
    let long = format!("1\t{}", "x".repeat(200));
    for (data, place) in [
        (
            "1\ty\nx\tz\n",
            "COPY copied, line 2, column a: \"x\"".to_owned(),
        ),
        ("1\n", "COPY copied, line 1: \"1\"".to_owned()),
        ("1\t2\t3\n", "COPY copied, line 1: \"1\t2\t3\"".to_owned()),
        ("x\n", "COPY copied, line 1, column a: \"x\"".to_owned()),
        (
            &format!("{long}\tz\n"),
            format!("COPY copied, line 1: \"{}...\"", &long[..100]),
        ),
    ] {
        client.send(&[
            query("copy copied from stdin"),
            message(b'd', data.as_bytes()),
            message(b'c', b""),
        ]);
        let mut found = None;
        while let Some((kind, body)) = client.next().filter(|(kind, _)| *kind != b'Z') {
            if kind == b'E' {
                let mut fields = body.split(|byte| *byte == 0);
                let place = fields.find_map(|field| field.strip_prefix(b"W"));
                found = place.map(|place| String::from_utf8_lossy(place).into_owned());
            }
        }
        assert_eq!(found, Some(place));
    }
}
