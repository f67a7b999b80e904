//! Goal: texts of a client in an encoding of its own are converted both ways.
//!
//! Method: bytes of Latin-1 in each message that has texts, and the bytes that come back.

use crate::{Client, Fixture, execute, message, sync};

/// A text in Latin-1.
fn latin(text: &str) -> Vec<u8> {
    text.chars()
        .map(|one| u8::try_from(u32::from(one)).unwrap())
        .collect()
}

fn query(text: &str) -> Vec<u8> {
    message(b'Q', &[latin(text), vec![0]].concat())
}

/// The answers up to the one that says ready.
fn answers(client: &mut Client, messages: &[Vec<u8>]) -> Vec<(u8, Vec<u8>)> {
    client.send(messages);
    let mut come = Vec::new();
    while come.last().is_none_or(|(kind, _)| *kind != b'Z') {
        come.push(client.next().unwrap());
    }
    come
}

/// Whether a message of a kind has these bytes somewhere.
fn has(come: &[(u8, Vec<u8>)], kind: u8, bytes: &[u8]) -> bool {
    let mut messages = come.iter().filter(|(own, _)| *own == kind);
    messages.any(|(_, body)| body.windows(bytes.len()).any(|part| part == bytes))
}

fn latin_client(fixture: &Fixture) -> Client {
    let mut client = fixture.raw();
    client.begin(3 << 16, &["user", "ann", "client_encoding", "latin1"]);
    let come = answers(&mut client, &[]);
    assert!(has(&come, b'S', b"client_encoding\0LATIN1\0"));
    client
}

/// Clients with a setting of Latin-1 could not even connect.
#[test]
fn texts_are_those_of_the_client() {
    let fixture = Fixture::new(|_| {});
    let mut client = latin_client(&fixture);
    let come = answers(&mut client, &[query("select 'ä' || length('äö') as \"ü\"")]);
    assert!(has(&come, b'T', b"\xfc\0"));
    assert!(has(&come, b'D', b"\0\0\0\x02\xe42"));
    let come = answers(&mut client, &[query("select array['é', 'x']")]);
    assert!(has(&come, b'D', b"{\xe9,x}"));
    let come = answers(&mut client, &[query("select nein.ä")]);
    assert!(has(
        &come,
        b'E',
        b"Mmissing FROM-clause entry for table \"nein\"\0"
    ));
    let come = answers(&mut client, &[query("select 'ß'::int")]);
    assert!(has(&come, b'E', b"integer: \"\xdf\"\0"));
    assert_eq!(
        client.ask(&[query("select chr(8364)")]),
        "T E[22P05] Z[I]",
        "the Euro is not in Latin-1"
    );
    assert_eq!(
        client.ask(&[query("set client_encoding = 'EUC_JP'")]),
        "E[0A000] Z[I]"
    );
    client.ask(&[query("set client_encoding = 'utf-8'")]);
    assert_eq!(
        client.ask(&[query("select chr(8364)")]),
        "T D[€] C[SELECT 1] Z[I]"
    );
    client.ask(&[query("set client_encoding = 'win1252'")]);
    let come = answers(&mut client, &[query("select chr(8364)")]);
    assert!(has(&come, b'D', b"\0\0\0\x01\x80"));
}

#[test]
fn values_and_copies_are_converted() {
    let fixture = Fixture::new(|_| {});
    let mut client = latin_client(&fixture);
    client.ask(&[query("create table t (a text, b int)")]);
    let parse = [
        &b"\0"[..],
        &latin("select $1 || 'ö', length($1), $2::int[]"),
        b"\0\0\0",
    ];
    // The first value in binary, results in binary too, numbers among them.
    let bind = [&b"\0\0\0\x02\0\x01\0\0\0\x02\0\0\0\x01\xe4\0\0\0\x03{7}\0\x01\0\x01"[..]];
    let messages = [
        message(b'P', &parse.concat()),
        message(b'B', &bind.concat()),
        execute("", 0),
        sync(),
    ];
    let come = answers(&mut client, &messages);
    let bytes = b"\0\0\0\x02\xe4\xf6\0\0\0\x04\0\0\0\x01";
    assert!(has(&come, b'D', bytes), "{come:?}");
    client.send(&[query("copy t from stdin")]);
    client.send(&[
        message(b'd', b"\xe4\t"),
        message(b'd', b"1\n"),
        message(b'c', b""),
    ]);
    assert_eq!(client.until_ready(), "G C[COPY 1] Z[I]");
    let come = answers(&mut client, &[query("copy t to stdout")]);
    assert!(has(&come, b'd', b"\xe4\t1\n"));
    assert_eq!(
        client.ask(&[query("copy t to stdout (format binary)")]),
        "E[0A000] Z[I]"
    );
    let mut other = fixture.client();
    assert_eq!(
        other.ask(&[crate::query("select a from t where a = 'ä'")]),
        "T D[ä] C[SELECT 1] Z[I]"
    );
    // A COPY may name the encoding of its data, whatever the client's is.
    for client in [&mut client, &mut other] {
        let text = "copy t to stdout (encoding 'latin1')";
        assert!(has(&answers(client, &[query(text)]), b'd', b"\xe4\t1\n"));
        client.send(&[query("copy t from stdin (format csv, encoding 'win1252')")]);
        client.send(&[message(b'd', b"\x80,2\n"), message(b'c', b"")]);
        assert_eq!(client.until_ready(), "G C[COPY 1] Z[I]");
    }
    let text = "copy (select a from t where b = 2 limit 1) to stdout (encoding 'utf8')";
    for client in [&mut client, &mut other] {
        assert!(has(
            &answers(client, &[query(text)]),
            b'd',
            "€\n".as_bytes()
        ));
    }
}
