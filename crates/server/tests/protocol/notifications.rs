//! Notifications: when they come, and how many there may be.
//!
//! Each conversation is a line of the kinds of its answers.

use crate::{Fixture, message, parse, query, sync};

#[test]
fn notifications_come_between_transactions() {
    let fixture = Fixture::new(|_| {});
    let (mut listener, mut sender) = (fixture.client(), fixture.client());
    listener.ask(&[query("listen news")]);
    sender.ask(&[query("begin; notify news, 'a'; notify news, 'b'")]);
    sender.ask(&[query("commit")]);
    // The listener is idle: they come without a question.
    for text in ["a", "b"] {
        let (kind, body) = listener.next().unwrap();
        let expected = [
            &sender.number.to_be_bytes(),
            format!("news\0{text}\0").as_bytes(),
        ]
        .concat();
        assert_eq!((kind, body), (b'A', expected));
    }
    // In a transaction they wait for its end, and come before the server says that it is ready.
    listener.ask(&[query("begin")]);
    sender.ask(&[query("notify news, 'c'")]);
    assert_eq!(
        listener.ask(&[query("select 1")]),
        "T D[1] C[SELECT 1] Z[T]"
    );
    assert!(listener.has_no_answer());
    assert_eq!(listener.ask(&[query("commit")]), "C[COMMIT] A Z[I]");
    // Neither between Parse and Sync.
    assert_eq!(
        listener.ask(&[parse("", "select 1"), message(b'H', b""), sync()]),
        "1 Z[I]"
    );
    listener.send(&[parse("", "select 1"), message(b'H', b"")]);
    assert_eq!(listener.next().unwrap().0, b'1');
    sender.ask(&[query("notify news, 'd'")]);
    assert!(listener.has_no_answer());
    assert_eq!(listener.ask(&[sync()]), "A Z[I]");
    // A session hears itself, and after UNLISTEN nothing.
    assert_eq!(listener.ask(&[query("notify news")]), "C[NOTIFY] A Z[I]");
    listener.ask(&[query("unlisten news")]);
    sender.ask(&[query("notify news")]);
    assert_eq!(
        listener.ask(&[query("select 1")]),
        "T D[1] C[SELECT 1] Z[I]"
    );
}

/// Each payload was compared with all before it, and listeners lost those after the first 100,000.
#[test]
fn many_notifications_of_a_transaction_all_come() {
    let fixture = Fixture::new(|_| {});
    let (mut listener, mut sender) = (fixture.client(), fixture.client());
    listener.ask(&[query("listen news")]);
    listener.ask(&[query("begin")]);
    let notify =
        "select count(pg_notify('news', (n % 300000)::text)) from generate_series(1, 600000) n";
    assert_eq!(sender.ask(&[query(notify)]), "T D[600000] C[SELECT 1] Z[I]");
    let answers = listener.ask(&[query("commit")]);
    assert_eq!(answers, format!("C[COMMIT] {}Z[I]", "A ".repeat(300_000)));
}

/// Notifications that a listener did not take in time were lost without a word. Their sender's
/// commit fails now, as in PostgreSQL.
#[test]
fn notifications_that_nobody_takes_fail_their_transaction() {
    let fixture = Fixture::new(|_| {});
    let (mut listener, mut sender) = (fixture.client(), fixture.client());
    sender.ask(&[query("create table t (a int)")]);
    listener.ask(&[query("listen news")]);
    listener.ask(&[query("begin")]);
    let notify = "insert into t values (1);
         select count(pg_notify('news', repeat('x', 7900) || n)) from generate_series(1, 10000) n";
    let sent = "C[INSERT 0 1] T D[10000]";
    assert_eq!(
        sender.ask(&[query(notify)]),
        format!("{sent} C[SELECT 1] Z[I]")
    );
    assert_eq!(
        sender.ask(&[query(notify)]),
        format!("{sent} E[54000] Z[I]")
    );
    assert_eq!(
        sender.ask(&[query("notify other; select count(*) from t")]),
        "C[NOTIFY] T D[1] C[SELECT 1] Z[I]"
    );
    let answers = listener.ask(&[query("commit")]);
    assert_eq!(answers, format!("C[COMMIT] {}Z[I]", "A ".repeat(10_000)));
    assert_eq!(
        sender.ask(&[query(notify)]),
        format!("{sent} C[SELECT 1] Z[I]")
    );
}

/// Rolling back to a savepoint forgets what was announced after it, which can be announced again.
#[test]
fn notifications_are_undone_with_their_savepoint() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.ask(&[query("listen news")]);
    client.ask(&[query(
        "begin; notify news, 'a'; savepoint s; notify news, 'b'",
    )]);
    client.ask(&[query("rollback to s; notify news, 'a'; notify news, 'b'")]);
    assert_eq!(client.ask(&[query("commit")]), "C[COMMIT] A A Z[I]");
}
