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
