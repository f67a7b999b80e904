//! Transactions over the protocol: texts of several statements, errors and the way to Sync, and all
//! that a rollback undoes.
//!
//! Each conversation is a line of the kinds of its answers.

use crate::{Client, Fixture, bind, execute, named, parse, query, sync};

#[test]
fn texts_of_several_statements_are_one_transaction() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    assert_eq!(client.ask(&[query("")]), "I Z[I]");
    assert_eq!(
        client.ask(&[query("create table t (a int primary key); select 1")]),
        "C[CREATE TABLE] T D[1] C[SELECT 1] Z[I]"
    );
    assert_eq!(
        client.ask(&[query("insert into t values (1); select 1/0; select 2")]),
        "C[INSERT 0 1] T E[22012] Z[I]"
    );
    assert_eq!(
        client.ask(&[query("begin; insert into t values (2)")]),
        "C[BEGIN] C[INSERT 0 1] Z[T]"
    );
    assert_eq!(client.ask(&[query("nonsense")]), "E[42601] Z[E]");
    assert_eq!(client.ask(&[query("select 1")]), "E[25P02] Z[E]");
    assert_eq!(client.ask(&[query("rollback")]), "C[ROLLBACK] Z[I]");
    assert_eq!(
        client.ask(&[query("select * from t")]),
        "T C[SELECT 0] Z[I]"
    );
    assert_eq!(
        client.ask(&[query("drop table if exists gone")]),
        "N[00000] C[DROP TABLE] Z[I]"
    );
}

#[test]
fn errors_of_the_extended_protocol_skip_to_sync() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.ask(&[query("create table t (a int primary key)")]);
    // All of it came at once, and the last part of it is another transaction.
    let answers = client.ask(&[
        parse("", "insert into t values ($1)"),
        bind("", "", &["1"]),
        execute("", 0),
        bind("", "", &["1"]),
        execute("", 0),
        bind("", "", &["2"]),
        sync(),
    ]);
    assert_eq!(answers, "1 2 C[INSERT 0 1] 2 E[23505] Z[I]");
    let answers = client.ask(&[bind("", "", &["3"]), execute("", 0), sync()]);
    assert_eq!(answers, "2 C[INSERT 0 1] Z[I]");
    assert_eq!(
        client.ask(&[query("select a from t")]),
        "T D[3] C[SELECT 1] Z[I]"
    );
    client.ask(&[parse("s", "insert into t values ($1)"), sync()]);
    for (wrong, state) in [
        (parse("s", "select 1"), "42P05"),
        (bind("", "s", &["1", "2"]), "08P01"),
        (bind("", "s", &["x"]), "22P02"),
        (parse("", "select a b c from t"), "42601"),
        // The statement without a name has gone.
        (bind("", "", &["1"]), "26000"),
        (parse("", "select nothing from t"), "42703"),
        (parse("", "select 1; select 2"), "42601"),
        (bind("", "missing", &[]), "26000"),
        (execute("missing", 0), "34000"),
        (named(b'D', b'S', "missing"), "26000"),
        (named(b'D', b'P', "missing"), "34000"),
    ] {
        assert_eq!(client.ask(&[wrong, sync()]), format!("E[{state}] Z[I]"));
    }
    // Closing what does not exist is no error; ROLLBACK is described in a block that has failed.
    let answers = client.ask(&[named(b'C', b'S', "missing"), sync()]);
    assert_eq!(answers, "3 Z[I]");
    assert_eq!(
        client.ask(&[query("begin; select 1/0")]),
        "C[BEGIN] T E[22012] Z[E]"
    );
    let answers = client.ask(&[
        parse("", "rollback"),
        named(b'D', b'S', ""),
        bind("", "", &[]),
        execute("", 0),
        sync(),
    ]);
    assert_eq!(answers, "1 t n 2 C[ROLLBACK] Z[I]");
}

#[test]
fn a_portal_stops_at_its_limit_and_ends_with_its_transaction() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    let answers = client.ask(&[
        parse("s", "select generate_series(1, $1::int)"),
        bind("p", "s", &["3"]),
        named(b'D', b'P', "p"),
        execute("p", 2),
        execute("p", 2),
        sync(),
    ]);
    assert_eq!(answers, "1 2 T D[1] D[2] s D[3] C[SELECT 1] Z[I]");
    let answers = client.ask(&[bind("p", "s", &["3"]), execute("p", 2), sync()]);
    assert_eq!(answers, "2 D[1] D[2] s Z[I]");
    assert_eq!(client.ask(&[execute("p", 2), sync()]), "E[34000] Z[I]");
    let answers = client.ask(&[parse("", ""), bind("", "", &[]), execute("", 0), sync()]);
    assert_eq!(answers, "1 2 I Z[I]");
    let answers = client.ask(&[
        parse("", "show server_encoding"),
        bind("", "", &[]),
        named(b'D', b'P', ""),
        execute("", 0),
        sync(),
    ]);
    assert_eq!(answers, "1 2 T D[UTF8] C[SHOW] Z[I]");
}

#[test]
fn a_rollback_tells_settings_and_ends_portals() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    let set = query("begin; set datestyle = 'SQL, DMY'");
    assert_eq!(
        client.ask(std::slice::from_ref(&set)),
        "C[BEGIN] C[SET] S Z[T]"
    );
    assert_eq!(client.ask(&[query("rollback")]), "C[ROLLBACK] S Z[I]");
    client.ask(&[set]);
    // The error has undone it already.
    assert_eq!(client.ask(&[query("nonsense")]), "E[42601] S Z[E]");
    assert_eq!(client.ask(&[query("rollback")]), "C[ROLLBACK] Z[I]");
    assert_eq!(
        client.ask(&[query("set datestyle = 'German'; select 1/0")]),
        "C[SET] T E[22012] Z[I]"
    );
    assert_eq!(
        client.ask(&[query("begin; savepoint s")]),
        "C[BEGIN] C[SAVEPOINT] Z[T]"
    );
    let answers = client.ask(&[
        parse("s", "select generate_series(1, $1::int)"),
        bind("p", "s", &["3"]),
        execute("p", 1),
        sync(),
    ]);
    assert_eq!(answers, "1 2 D[1] s Z[T]");
    assert_eq!(client.ask(&[query("rollback to s")]), "C[ROLLBACK] Z[T]");
    assert_eq!(client.ask(&[execute("p", 1), sync()]), "E[34000] Z[E]");
    assert_eq!(client.ask(&[query("rollback to s")]), "C[ROLLBACK] Z[T]");
    let answers = client.ask(&[bind("p", "s", &["2"]), execute("p", 0), sync()]);
    assert_eq!(answers, "2 D[1] D[2] C[SELECT 2] Z[T]");
}

/// Its statement's name may be another one's by the time that it runs.
#[test]
fn a_portal_runs_the_statement_that_it_was_bound_to() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.ask(&[query("create table t (a int); insert into t values (7)")]);
    let answers = client.ask(&[
        parse("", "select a from t where a = $1"),
        bind("a", "", &["7"]),
        parse("", "delete from t where a = $1"),
        execute("a", 0),
        sync(),
    ]);
    assert_eq!(answers, "1 2 1 D[7] C[SELECT 1] Z[I]");
    let answers = client.ask(&[
        parse("s", "select a from t where a = $1"),
        bind("a", "s", &["7"]),
        named(b'C', b'S', "s"),
        execute("a", 0),
        sync(),
    ]);
    assert_eq!(answers, "1 2 3 D[7] C[SELECT 1] Z[I]");
}

/// `DISCARD ALL` left temporary tables and held cursors alive, and did the rest inside of blocks,
/// whose end could not undo it.
#[test]
fn all_is_discarded_outside_of_transactions_alone() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.ask(&[query(
        "create temp table t (a int); insert into t values (1)",
    )]);
    client.ask(&[query(
        "begin; declare c cursor with hold for select a from t; commit",
    )]);
    assert_eq!(
        client.ask(&[query("begin; discard all")]),
        "C[BEGIN] E[25001] Z[E]"
    );
    client.ask(&[query("rollback")]);
    for text in ["select 1; discard all", "discard all; select 1"] {
        let answers = client.ask(&[query(text)]);
        assert!(answers.ends_with("E[25001] Z[I]"), "{answers}");
    }
    let discard = [parse("", "discard all"), bind("", "", &[]), execute("", 0)].concat();
    assert_eq!(
        client.ask(&[
            parse("", "select a from t"),
            bind("", "", &[]),
            execute("", 0),
            discard.clone(),
            sync()
        ]),
        "1 2 D[1] C[SELECT 1] 1 2 E[25001] Z[I]"
    );
    assert_eq!(client.ask(&[query("fetch 0 from c")]), "T C[FETCH 0] Z[I]");
    assert_eq!(client.ask(&[discard, sync()]), "1 2 C[DISCARD ALL] Z[I]");
    assert_eq!(client.ask(&[query("fetch 0 from c")]), "E[34000] Z[I]");
    assert_eq!(client.ask(&[query("select a from t")]), "E[42P01] Z[I]");
    client.ask(&[query("create temp table t (a int)")]);
    assert_eq!(client.ask(&[query("discard all")]), "C[DISCARD ALL] Z[I]");
    assert_eq!(client.ask(&[query("select a from t")]), "E[42P01] Z[I]");
    // Its smaller kin is undone with its transaction.
    client.ask(&[query("create temp table t (a int)")]);
    assert_eq!(
        client.ask(&[query("begin; discard temp; select a from t")]),
        "C[BEGIN] C[DISCARD TEMP] E[42P01] Z[E]"
    );
    assert_eq!(
        client.ask(&[query("rollback; select a from t")]),
        "C[ROLLBACK] T C[SELECT 0] Z[I]"
    );
}

/// Statements of a text without BEGIN were prepared, or committed, without a warning. Those of a
/// pipeline were prepared, and what ends a prepared transaction ran in a text with others.
#[test]
fn transactions_without_a_block_end_with_a_warning() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.ask(&[query("create table t (a int)")]);
    let piped = |client: &mut Client, texts: &[&str]| {
        let one = |text: &&str| [parse("", text), bind("", "", &[]), execute("", 0)].concat();
        let mut messages: Vec<_> = texts.iter().map(one).collect();
        messages.push(sync());
        client.ask(&messages)
    };
    for (text, answers) in [
        (
            "insert into t values (1); prepare transaction 'x'",
            "C[INSERT 0 1] N[25P01] C[PREPARE TRANSACTION] Z[I]",
        ),
        ("prepare transaction 'y'", "N[25P01] C[ROLLBACK] Z[I]"),
        (
            "prepare transaction 'y'; select 1",
            "N[25P01] C[PREPARE TRANSACTION] T D[1] C[SELECT 1] Z[I]",
        ),
        ("rollback prepared 'y'; select 1", "E[25001] Z[I]"),
        ("rollback prepared 'y'", "C[ROLLBACK PREPARED] Z[I]"),
        (
            "insert into t values (2); commit; select 1",
            "C[INSERT 0 1] N[25P01] C[COMMIT] T D[1] C[SELECT 1] Z[I]",
        ),
    ] {
        assert_eq!(client.ask(&[query(text)]), answers, "{text}");
    }
    for (end, answers) in [
        ("prepare transaction 'z'", "N[25P01] C[ROLLBACK]"),
        ("commit", "N[25P01] C[COMMIT]"),
    ] {
        assert_eq!(
            piped(&mut client, &["insert into t values (3)", end]),
            format!("1 2 C[INSERT 0 1] 1 2 {answers} Z[I]")
        );
    }
    assert_eq!(
        client.ask(&[query("select a from t; select gid from pg_prepared_xacts")]),
        "T D[2] D[3] D[3] C[SELECT 3] T D[x] C[SELECT 1] Z[I]"
    );
    client.ask(&[query("rollback prepared 'x'")]);
}
