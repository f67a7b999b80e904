//! Goal: values and texts that no driver sends end in one error, and the others go on.
//!
//! Method: binary values by hand, statements that nest or grow without end, and conversations in
//! which a wait, a limit or the end of a part of the transaction comes at the wrong moment.

use crate::{Client, Fixture, bind, execute, message, named, parse, query, sync};
use std::time::Duration;

/// A Parse that declares the types of its parameters.
fn parse_typed(text: &str, types: &[u32]) -> Vec<u8> {
    let mut body = format!("\0{text}\0").into_bytes();
    body.extend((types.len() as u16).to_be_bytes());
    body.extend(types.iter().flat_map(|oid| oid.to_be_bytes()));
    message(b'P', &body)
}

/// A Bind with one binary value.
fn bind_binary(value: &[u8]) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 1, 0, 1, 0, 1];
    body.extend((value.len() as u32).to_be_bytes());
    body.extend(value);
    body.extend([0, 0]);
    message(b'B', &body)
}

fn ask_binary(client: &mut Client, text: &str, oid: u32, value: &[u8]) -> String {
    client.ask(&[
        parse_typed(text, &[oid]),
        bind_binary(value),
        execute("", 0),
        sync(),
    ])
}

#[test]
fn binary_rows_do_not_nest_without_end() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.ask(&[query("create type pair as (a int, b int)")]);
    let levels = (0..100_000_u32).rev();
    // One field each, a row again, and its bytes.
    let heads = levels.flat_map(|below| [1, 2249, below * 12]);
    let nested: Vec<u8> = heads.flat_map(u32::to_be_bytes).collect();
    let answers = ask_binary(&mut client, "select $1 is null", 2249, &nested);
    assert_eq!(answers, "1 E[0A000] Z[I]");
    // Three fields of a type that has two.
    let oid = client.number_of("select 'pair'::regtype::oid");
    let mut pair = vec![0, 0, 0, 2];
    for value in [1_u32, 2] {
        pair.extend(
            [23_u32, 4, value]
                .iter()
                .flat_map(|word| word.to_be_bytes()),
        );
    }
    let answers = ask_binary(&mut client, "select ($1).b", oid, &pair);
    assert_eq!(answers, "1 2 D[2] C[SELECT 1] Z[I]");
    for fields in [1, 3, u32::MAX] {
        pair[..4].copy_from_slice(&fields.to_be_bytes());
        let answers = ask_binary(&mut client, "select ($1).b", oid, &pair);
        assert_eq!(answers, "1 E[42804] Z[I]", "{fields}");
    }
}

#[test]
fn binary_moments_are_in_their_range() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    let last = i64::MAX.to_be_bytes();
    let beyond = (i64::MAX - 15).to_be_bytes();
    for oid in [1114, 1184] {
        let text = "select $1 = 'infinity'";
        assert_eq!(
            ask_binary(&mut client, text, oid, &last),
            "1 2 D[t] C[SELECT 1] Z[I]"
        );
        assert_eq!(
            ask_binary(&mut client, text, oid, &beyond),
            "1 E[22008] Z[I]"
        );
    }
    let day = (i32::MIN + 1).to_be_bytes();
    assert_eq!(
        ask_binary(&mut client, "select $1 = 'today'", 1082, &day),
        "1 E[22008] Z[I]"
    );
    let zoned = [&0_i64.to_be_bytes()[..], &i32::MIN.to_be_bytes()].concat();
    assert_eq!(
        ask_binary(&mut client, "select $1 is null", 1266, &zoned),
        "1 E[22009] Z[I]"
    );
}

#[test]
fn statements_grow_to_a_limit() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    for (first, link) in [("true", " or true"), ("1", " is null")] {
        let text = format!("select {first}{}", link.repeat(300_000));
        assert_eq!(client.ask(&[query(&text)]), "E[54001] Z[I]");
    }
    let columns = |count: usize| format!("select {}", vec!["1"; count].join(","));
    assert!(client.ask(&[query(&columns(1664))]).starts_with("T D["));
    assert_eq!(client.ask(&[query(&columns(1665))]), "E[54011] Z[I]");
    assert_eq!(
        client.ask(&[query(&format!("values ({})", &columns(70_000)[7..]))]),
        "E[54011] Z[I]"
    );
    let many: Vec<_> = (0..10_000)
        .map(|number| parse(&format!("p{number}"), "select 1"))
        .chain([sync()])
        .collect();
    assert!(client.ask(&many).ends_with("1 1 Z[I]"));
    assert_eq!(
        client.ask(&[parse("one more", "select 1"), sync()]),
        "E[53400] Z[I]"
    );
    assert_eq!(
        client.ask(&[parse("", "select 1"), sync()]),
        "1 Z[I]",
        "one without a name takes no room"
    );
}

/// The time of the last statement before it was that of the commit, which lost the transaction.
#[test]
fn a_commit_has_no_time_of_a_statement() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.ask(&[query(
        "create table t (a int primary key);
         create table r (a int references t deferrable initially deferred);
         set statement_timeout = 300",
    )]);
    client.ask(&[query("begin"), query("insert into r values (1)")]);
    client.until_ready();
    client.ask(&[query("insert into t values (1)")]);
    client.ask(&[query("declare c cursor with hold for select * from t")]);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(client.ask(&[query("commit")]), "C[COMMIT] Z[I]");
    assert_eq!(client.ask(&[query("fetch c")]), "T D[1] C[FETCH 1] Z[I]");
}

#[test]
fn a_statement_has_no_more_time_for_an_advisory_lock() {
    let fixture = Fixture::new(|_| {});
    let (mut holder, mut other) = (fixture.client(), fixture.client());
    holder.ask(&[query("select pg_advisory_lock(1)")]);
    other.ask(&[query("set statement_timeout = 100")]);
    assert_eq!(
        other.ask(&[query("select pg_advisory_lock(1)")]),
        "T E[57014] Z[I]"
    );
}

#[test]
fn parameters_reach_the_query_inside_a_statement() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.ask(&[query(
        "create table t (a int, b text); insert into t values (1, 'x'), (2, 'y')",
    )]);
    let run = |client: &mut Client, text: &str| {
        client.ask(&[
            parse("", text),
            bind("", "", &["2"]),
            execute("", 0),
            sync(),
        ])
    };
    let plan = run(
        &mut client,
        "explain (costs off) select * from t where a = $1",
    );
    assert!(plan.starts_with("1 2 D["), "{plan}");
    assert!(plan.ends_with("C[EXPLAIN] Z[I]"), "{plan}");
    assert_eq!(
        run(
            &mut client,
            "create table u as select b from t where a = $1"
        ),
        "1 2 C[SELECT 1] Z[I]"
    );
    assert_eq!(
        run(&mut client, "select b into v from t where a = $1"),
        "1 2 C[SELECT 1] Z[I]"
    );
    assert_eq!(
        client.ask(&[query("select * from u, v")]),
        "T D[y,y] C[SELECT 1] Z[I]"
    );
    assert_eq!(
        client.ask(&[
            parse("e", "explain select * from t where a = $1"),
            named(b'D', b'S', "e"),
            sync()
        ]),
        "1 t T Z[I]"
    );
    assert_eq!(
        client.ask(&[query("create table w as select $1::int")]),
        "E[42P02] Z[I]"
    );
}

#[test]
fn portals_are_cursors_of_statements_too() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.ask(&[query("begin")]);
    let series = parse("", "select * from generate_series(1, 9) g");
    client.ask(&[series.clone(), bind("p", "", &[]), execute("p", 2), sync()]);
    assert_eq!(client.ask(&[query("move forward 3 p")]), "C[MOVE 3] Z[T]");
    assert_eq!(
        client.ask(&[query("fetch 2 from p")]),
        "T D[6] D[7] C[FETCH 2] Z[T]"
    );
    assert_eq!(
        client.ask(&[execute("p", 1), sync()]),
        "D[8] s Z[T]",
        "the portal goes on after them"
    );
    assert_eq!(
        client.ask(&[query("fetch all from p"), query("fetch all from p")]),
        "T D[9] C[FETCH 1] Z[T]"
    );
    assert_eq!(client.until_ready(), "T C[FETCH 0] Z[T]");
    assert_eq!(client.ask(&[query("close p")]), "C[CLOSE CURSOR] Z[T]");
    assert_eq!(client.ask(&[execute("p", 0), sync()]), "E[34000] Z[E]");
    client.ask(&[query("rollback"), query("begin")]);
    client.until_ready();
    // One that has not begun.
    client.ask(&[series, bind("p", "", &[]), sync()]);
    assert_eq!(client.ask(&[query("move 8 p")]), "C[MOVE 8] Z[T]");
    assert_eq!(client.ask(&[query("fetch p")]), "T D[9] C[FETCH 1] Z[T]");
    assert_eq!(client.ask(&[query("fetch prior from p")]), "E[55000] Z[E]");
}

/// The server's record of a portal outlived that of the session.
#[test]
fn portals_end_with_their_savepoint() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.ask(&[query("begin; savepoint s")]);
    client.ask(&[parse("", "select 1"), bind("p", "", &[]), sync()]);
    client.ask(&[query("rollback to s")]);
    assert_eq!(
        client.ask(&[named(b'D', b'P', "p"), sync()]),
        "E[34000] Z[E]"
    );
    client.ask(&[query("rollback"), query("begin")]);
    client.until_ready();
    for round in 0..3 {
        client.ask(&[query("savepoint s")]);
        let portals = (0..900).map(|number| bind(&format!("{round} {number}"), "", &[]));
        let many: Vec<_> = portals.chain([sync()]).collect();
        assert!(client.ask(&many).ends_with("2 Z[T]"), "round {round}");
        client.ask(&[query("rollback to s")]);
    }
}

#[test]
fn nothing_comes_after_unlisten() {
    let fixture = Fixture::new(|_| {});
    let (mut listener, mut sender) = (fixture.client(), fixture.client());
    listener.ask(&[query("listen n"), query("listen m"), query("begin")]);
    listener.until_ready();
    listener.until_ready();
    sender.ask(&[query("notify n; notify m")]);
    assert_eq!(
        listener.ask(&[query("unlisten n"), query("commit")]),
        "C[UNLISTEN] Z[T]"
    );
    assert_eq!(listener.until_ready(), "C[COMMIT] A Z[I]");
}

#[test]
fn a_text_chooses_its_own_notices() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    let drop = "drop table if exists nothing";
    assert_eq!(client.ask(&[query(drop)]), "N[00000] C[DROP TABLE] Z[I]");
    assert_eq!(
        client.ask(&[query(&format!("set client_min_messages = error; {drop}"))]),
        "C[SET] C[DROP TABLE] Z[I]"
    );
}

/// Rows that a condition leaves out, and data after the end, came for ever.
#[test]
fn copies_without_rows_can_be_ended() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.ask(&[query("create table t (a int); set statement_timeout = 200")]);
    for (text, data) in [
        ("copy t from stdin where false", "1\n"),
        ("copy t from stdin", "\\.\n"),
    ] {
        client.send(&[query(text), message(b'd', data.as_bytes())]);
        std::thread::sleep(Duration::from_millis(300));
        client.send(&[message(b'd', b"2\n"), message(b'c', b"")]);
        assert_eq!(client.until_ready(), "G E[57014] Z[I]", "{text}");
    }
}

#[test]
fn connections_that_say_nothing_leave_room_for_others() {
    let fixture = Fixture::new(|options| options.connections_max = 4);
    let mut client = fixture.client();
    let silent: Vec<_> = (0..5).map(|_| fixture.raw()).collect();
    std::thread::sleep(Duration::from_millis(1200));
    let mut others: Vec<_> = (0..3).map(|_| fixture.client()).collect();
    for client in others.iter_mut().chain([&mut client]) {
        assert_eq!(client.ask(&[query("select 1")]), "T D[1] C[SELECT 1] Z[I]");
    }
    drop(silent);
}

#[test]
fn the_last_slots_are_kept_for_superusers() {
    let fixture = Fixture::new(|options| options.connections_max = 10);
    let mut owner = fixture.client();
    owner.ask(&[query("create role guest login")]);
    let mut guests = Vec::new();
    for _ in 0..8 {
        let mut guest = fixture.raw();
        guest.begin(3 << 16, &["user", "guest"]);
        assert!(guest.until_ready().ends_with("Z[I]"));
        guests.push(guest);
    }
    let mut guest = fixture.raw();
    guest.begin(3 << 16, &["user", "guest"]);
    assert_eq!(guest.until_ready(), "E[53300] end");
    let mut second = fixture.client();
    assert_eq!(second.ask(&[query("select 1")]), "T D[1] C[SELECT 1] Z[I]");
}
