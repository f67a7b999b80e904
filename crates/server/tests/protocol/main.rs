//! Goal: the protocol, message by message, in the corners that drivers do not reach.
//!
//! Method: a raw client over the Unix socket of a server in this process. It sends bytes and reads
//! whole messages until the server is ready or the end; a conversation is compared as a line of the
//! kinds of its answers, with the text of those that have one.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod encodings;
mod hostile;
mod notifications;
mod portals;
mod slow;
mod transactions;

use indelible::{DataType, Database, Method, Options};
use rustix::net::{RecvFlags, recv};
use server::Server;
use sql::Sql;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A server of a new database, which goes with it.
struct Fixture {
    server: Option<Server>,
    directory: PathBuf,
    sql: Weak<Sql>,
}

impl Fixture {
    fn new(change: impl FnOnce(&mut server::Options)) -> Self {
        Self::over(&Options::new().method(Method::NvmInp), change)
    }

    fn over(options: &Options, change: impl FnOnce(&mut server::Options)) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("indelible-server-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&directory);
        let database = Database::create(&directory, options).unwrap();
        let mut options = server::Options::new(&directory);
        options.socket = Some(directory.clone());
        change(&mut options);
        let sql = Sql::open(database).unwrap();
        Self {
            sql: Arc::downgrade(&sql),
            server: Some(Server::start(sql, options).unwrap()),
            directory,
        }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn raw(&self) -> Client {
        let stream = UnixStream::connect(self.server().socket().unwrap()).unwrap();
        // A server that does not answer fails its test.
        stream
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        Client {
            stream,
            number: 0,
            key: Vec::new(),
        }
    }

    /// A client whose session has begun.
    fn client(&self) -> Client {
        let mut client = self.raw();
        client.begin(3 << 16, &["user", "ann", "database", "shop"]);
        let answers = client.until_ready();
        assert!(answers.starts_with("R S"), "{answers}");
        client
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        drop(self.server.take());
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

struct Client {
    stream: UnixStream,
    number: u32,
    key: Vec<u8>,
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind], length.as_slice(), body].concat()
}

fn query(text: &str) -> Vec<u8> {
    message(b'Q', &[text.as_bytes(), &[0]].concat())
}

fn parse(name: &str, text: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0{text}\0\0\0").as_bytes())
}

/// A Bind with text values and text results.
fn bind(portal: &str, statement: &str, values: &[&str]) -> Vec<u8> {
    let mut body = format!("{portal}\0{statement}\0\0\0").into_bytes();
    body.extend((values.len() as u16).to_be_bytes());
    for value in values {
        body.extend((value.len() as u32).to_be_bytes());
        body.extend(value.as_bytes());
    }
    body.extend([0, 0]);
    message(b'B', &body)
}

fn execute(portal: &str, rows_max: u32) -> Vec<u8> {
    let name = format!("{portal}\0");
    message(b'E', &[name.as_bytes(), &rows_max.to_be_bytes()].concat())
}

fn named(kind: u8, target: u8, name: &str) -> Vec<u8> {
    message(kind, format!("{}{name}\0", char::from(target)).as_bytes())
}

fn sync() -> Vec<u8> {
    message(b'S', b"")
}

impl Client {
    fn send(&mut self, messages: &[Vec<u8>]) {
        self.stream.write_all(&messages.concat()).unwrap();
    }

    fn begin(&mut self, version: u32, settings: &[&str]) {
        let mut body = version.to_be_bytes().to_vec();
        for text in settings {
            body.extend(text.as_bytes());
            body.push(0);
        }
        body.push(0);
        let start = message(b' ', &body);
        self.stream.write_all(&start[1..]).unwrap();
    }

    /// The next message; none at the end of the stream.
    fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes(*head.last_chunk().unwrap());
        let mut body = vec![0; length as usize - 4];
        self.stream.read_exact(&mut body).unwrap();
        Some((head[0], body))
    }

    /// The answers up to the one that says ready, or the end of the stream, in a line.
    fn until_ready(&mut self) -> String {
        let mut line = Vec::new();
        while let Some((kind, body)) = self.next() {
            if kind == b'K' {
                self.number = u32::from_be_bytes(*body.first_chunk().unwrap());
                self.key = body[4..].to_vec();
            }
            line.push(shown(kind, &body));
            if kind == b'Z' {
                return line.join(" ");
            }
        }
        line.push("end".to_owned());
        line.join(" ")
    }

    /// All answers up to the end of the stream, in a line.
    fn until_end(&mut self) -> String {
        let mut line = Vec::new();
        while let Some((kind, body)) = self.next() {
            line.push(shown(kind, &body));
        }
        line.push("end".to_owned());
        line.join(" ")
    }

    fn has_no_answer(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(&self.stream, &mut [0], flags).is_err()
    }

    /// The number that a query answers.
    fn number_of(&mut self, text: &str) -> u32 {
        let answers = self.ask(&[query(text)]);
        let digits: String = answers.chars().filter(char::is_ascii_digit).collect();
        // The tag has the last one.
        digits[..digits.len() - 1].parse().unwrap()
    }

    fn ask(&mut self, messages: &[Vec<u8>]) -> String {
        self.send(messages);
        self.until_ready()
    }
}

/// A message as a word: its kind, and of some the content.
fn shown(kind: u8, body: &[u8]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let kind_name = char::from(kind);
    match kind {
        b'Z' | b'C' => format!("{kind_name}[{}]", text(body).trim_end_matches('\0')),
        b'E' | b'N' => {
            let mut fields = body.split(|byte| *byte == 0);
            let state = fields.rfind(|field| field.first() == Some(&b'C'));
            format!("{kind_name}[{}]", text(&state.unwrap()[1..]))
        }
        b'D' => {
            let mut rest = &body[2..];
            let mut values = Vec::new();
            while let Some((length, tail)) = rest.split_first_chunk() {
                let length = i32::from_be_bytes(*length);
                let (value, tail) = tail.split_at(usize::try_from(length).unwrap_or(0));
                values.push(if length < 0 {
                    "NULL".into()
                } else {
                    text(value)
                });
                rest = tail;
            }
            format!("D[{}]", values.join(","))
        }
        _ => kind_name.to_string(),
    }
}

#[test]
fn rows_are_copied_in_and_out() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.ask(&[query("create table t (a int, b text)")]);
    let data = |text: &str| message(b'd', text.as_bytes());
    // A record may be cut anywhere.
    let answers = client.ask(&[
        query("copy t from stdin"),
        data("1\tone\n2"),
        data("\t\\N\n"),
        message(b'c', b""),
    ]);
    assert_eq!(answers, "G C[COPY 2] Z[I]");
    assert_eq!(
        client.ask(&[query("copy t to stdout")]),
        "H d d c C[COPY 2] Z[I]"
    );
    assert_eq!(
        client.ask(&[query("copy (select 1 where false) to stdout")]),
        "H c C[COPY 0] Z[I]"
    );
    // Forms that the parser alone has cannot be written and read again.
    for rows in [
        "select * from rows from (generate_series(1, 2), generate_series(1, 1)) as t (a, b)",
        "select sum(i) over (order by i rows 1 preceding exclude current row) \
         from generate_series(1, 2) i",
        "select i from generate_series(1, 3) i order by i fetch first (1 + 1) rows only",
    ] {
        let text = format!("copy ({rows}) to stdout");
        let answer = client.ask(&[query(&text)]);
        assert_eq!(answer, "H d d c C[COPY 2] Z[I]", "{rows}");
    }
    let refused = "copy (delete from t where false) to stdout";
    assert_eq!(client.ask(&[query(refused)]), "E[0A000] Z[I]");
    let answers = client.ask(&[query("copy t from stdin"), message(b'f', b"enough\0")]);
    assert_eq!(answers, "G E[57014] Z[I]");
    // The rest of the data is left out after the error.
    let answers = client.ask(&[
        query("copy t from stdin"),
        data("x\ty\n"),
        data("3\tthree\n"),
        message(b'c', b""),
        query("select count(*) from t"),
    ]);
    assert_eq!(answers, "G E[22P02] Z[I]");
    assert_eq!(client.until_ready(), "T D[2] C[SELECT 1] Z[I]");
}

#[test]
fn versions_and_options_are_negotiated() {
    let fixture = Fixture::new(|_| {});
    for (version, key_bytes) in [(3 << 16, 4), (3 << 16 | 2, 16)] {
        let mut client = fixture.raw();
        // Wishes for encryption, which there is none of.
        for wish in [80_877_104_u32, 80_877_103] {
            let start = message(b' ', &wish.to_be_bytes());
            client.stream.write_all(&start[1..]).unwrap();
            let mut answer = [0];
            client.stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, *b"N");
        }
        client.begin(
            version,
            &["user", "ann", "options", "-c statement_timeout=1min"],
        );
        let answers = client.until_ready();
        assert!(answers.starts_with("R S"), "{answers}");
        assert_eq!(client.key.len(), key_bytes);
        assert_eq!(
            client.ask(&[query("show statement_timeout")]),
            "T D[1min] C[SHOW] Z[I]"
        );
        // A change that drivers depend on is told.
        assert_eq!(
            client.ask(&[query("set timezone to 'Europe/Berlin'")]),
            "C[SET] S Z[I]"
        );
    }
    let mut client = fixture.raw();
    client.begin(3 << 16 | 0x270f, &["user", "ann", "_pq_.new", "1"]);
    let answers = client.until_ready();
    assert!(answers.starts_with("v R S"), "{answers}");
    for (version, settings, state) in [
        (2 << 16, &[] as &[&str], "0A000"),
        (3 << 16, &["database", "shop"], "28000"),
        (3 << 16, &["user", "ann", "color", "red"], "42704"),
        (3 << 16, &["user", "ann", "replication", "true"], "0A000"),
    ] {
        let mut client = fixture.raw();
        client.begin(version, settings);
        assert_eq!(client.until_ready(), format!("E[{state}] end"));
    }
}

#[test]
fn malformed_messages_end_their_connection_alone() {
    let fixture = Fixture::new(|options| options.message_bytes_max = 1 << 20);
    let mut other = fixture.client();
    other.ask(&[query("begin")]);
    for wrong in [
        message(b'Q', b"select 1"),
        message(b'?', b""),
        message(b'S', b"more"),
        message(b'B', b"\0\0\0\x01"),
        b"Q\0\0\0\x03".to_vec(),
        b"Q\x7f\xff\xff\xff".to_vec(),
    ] {
        let mut client = fixture.client();
        assert_eq!(client.ask(&[wrong]), "E[08P01] end");
    }
    let mut client = fixture.client();
    assert_eq!(
        client.ask(&[message(b'Q', b"select '\xff'\0")]),
        "E[22021] Z[I]"
    );
    // A client that ends in the middle of a message is not missed.
    client.send(&[b"Q\0\0\0".to_vec()]);
    drop(client);
    assert_eq!(
        other.ask(&[query("select 1; commit")]),
        "T D[1] C[SELECT 1] C[COMMIT] Z[I]"
    );
}

#[test]
fn statements_are_cancelled_by_their_key_alone() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.send(&[query("select pg_sleep(600)")]);
    let mut body = 80_877_102_u32.to_be_bytes().to_vec();
    body.extend(client.number.to_be_bytes());
    let cancel = |key: &[u8]| {
        let mut raw = fixture.raw();
        let start = message(b' ', &[&body, key].concat());
        raw.stream.write_all(&start[1..]).unwrap();
        // The server ends the connection when it has done as it was asked.
        assert_eq!(raw.until_ready(), "end");
    };
    let mut wrong = client.key.clone();
    wrong[3] ^= 1;
    cancel(&wrong);
    cancel(&client.key[..3]);
    assert!(client.has_no_answer());
    // The statement may not run yet, and only one that runs is cancelled.
    while client.has_no_answer() {
        cancel(&client.key);
    }
    assert_eq!(client.until_ready(), "T E[57014] Z[I]");
    // A key of another time does nothing.
    cancel(&client.key);
    assert_eq!(client.ask(&[query("select 1")]), "T D[1] C[SELECT 1] Z[I]");
}

#[test]
fn sessions_end_when_they_last_too_long() {
    let hurried = Fixture::new(|options| options.start_wait = Duration::from_millis(50));
    assert_eq!(hurried.raw().until_ready(), "E[28000] end");
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    client.ask(&[query(
        "set statement_timeout = 20; set idle_in_transaction_session_timeout = 20",
    )]);
    assert_eq!(
        client.ask(&[query("select pg_sleep(600)")]),
        "T E[57014] Z[I]"
    );
    client.ask(&[query("begin")]);
    assert_eq!(client.until_ready(), "E[25P03] end");
    let mut client = fixture.client();
    client.ask(&[query("set idle_session_timeout = 20")]);
    assert_eq!(client.until_ready(), "E[57P05] end");
}

/// The rest of the data of a COPY that had failed, or a Flush, made an idle session one that runs:
/// it had no limits any more, and was told of no notifications.
#[test]
fn sessions_stay_idle_after_the_rest_of_a_copy() {
    let fixture = Fixture::new(|_| {});
    for rest in [
        [message(b'd', b"2\n"), message(b'c', b"")].concat(),
        message(b'f', b"enough\0"),
        message(b'H', b""),
    ] {
        let mut client = fixture.client();
        client.ask(&[query("create table if not exists t (a int)")]);
        // All at once: the rest has come before the session is idle.
        client.send(&[
            query("set idle_session_timeout = 50"),
            query("copy t from stdin"),
            message(b'd', b"x\n"),
            rest,
        ]);
        assert_eq!(client.until_ready(), "C[SET] Z[I]");
        assert_eq!(client.until_ready(), "G E[22P02] Z[I]");
        assert_eq!(client.until_ready(), "E[57P05] end");
    }
}

#[test]
fn each_statement_of_a_text_has_the_time_of_its_own() {
    let fixture = Fixture::new(|_| {});
    let mut client = fixture.client();
    // The limit holds from the statement after it on, and for each one anew.
    assert_eq!(
        client.ask(&[query(
            "set statement_timeout = 400; select pg_sleep(0.3); select pg_sleep(0.3); \
             select pg_sleep(600)"
        )]),
        "C[SET] T D[] C[SELECT 1] T D[] C[SELECT 1] T E[57014] Z[I]"
    );
    // The error has undone it.
    client.ask(&[query("set statement_timeout = 400")]);
    let answers = client.ask(&[
        parse("", "select pg_sleep(600)"),
        bind("", "", &[]),
        execute("", 0),
        sync(),
    ]);
    assert_eq!(answers, "1 2 E[57014] Z[I]");
}

#[test]
fn sessions_end_each_other() {
    let fixture = Fixture::new(|_| {});
    let (mut one, mut other) = (fixture.client(), fixture.client());
    let end = |what: &str, number: u32| query(&format!("select pg_{what}_backend({number})"));
    // An idle session has nothing to cancel, and its next statement is not meant.
    other.ask(&[end("cancel", one.number)]);
    assert_eq!(one.ask(&[query("select 1")]), "T D[1] C[SELECT 1] Z[I]");
    other.ask(&[end("terminate", one.number)]);
    assert_eq!(one.until_ready(), "E[57P01] end");
    // In a statement, in a transaction, in the middle of a COPY, and while it listens.
    for text in [
        "select pg_sleep(600)",
        "begin",
        "create table t (a int); copy t from stdin",
        "listen news",
    ] {
        let mut victim = fixture.client();
        victim.send(&[query(text)]);
        while victim.has_no_answer() && !text.contains("sleep") {
            std::thread::yield_now();
        }
        other.ask(&[end("terminate", victim.number)]);
        let answers = victim.until_end();
        assert!(answers.ends_with("E[57P01] end"), "{text}: {answers}");
        assert_eq!(answers.matches("E[").count(), 1, "{text}: {answers}");
    }
    other.send(&[end("terminate", other.number)]);
    assert!(other.until_end().ends_with("E[57P01] end"));
}

#[test]
fn a_server_backs_up_and_verifies() {
    let fixture = Fixture::new(|_| {});
    let (mut owner, mut open) = (fixture.client(), fixture.client());
    owner.ask(&[query(
        "create table t (a int primary key); insert into t values (1), (2)",
    )]);
    // Others may be in a transaction meanwhile.
    open.ask(&[query("begin; insert into t values (3)")]);
    let file = fixture.directory.with_extension("backup");
    let backup = format!("BACKUP TO '{}'", file.display());
    let answers = owner.ask(&[query(&backup)]);
    assert!(answers.contains("D[method,nvm-inp]"), "{answers}");
    assert!(
        owner.ask(&[query(&backup)]).starts_with("E["),
        "the file exists"
    );
    let backed_up = owner.ask(&[query(&format!("{backup} FORCE"))]);
    assert!(backed_up.ends_with("C[SELECT 10] Z[I]"), "{backed_up}");
    let answers = owner.ask(&[query("verify;")]);
    assert!(
        !answers.contains("damage") && answers.ends_with("C[SELECT 4] Z[I]"),
        "{answers}"
    );
    assert_eq!(open.ask(&[query("commit")]), "C[COMMIT] Z[I]");
    assert_eq!(owner.ask(&[query("begin; verify")]), "E[42601] Z[I]");
    owner.ask(&[query("begin")]);
    assert_eq!(owner.ask(&[query("verify")]), "E[25001] Z[E]");
    owner.ask(&[query("rollback; create role ann login")]);
    assert_eq!(fixture.client().ask(&[query("verify")]), "E[42501] Z[I]");
    let restored = fixture.directory.with_extension("restored");
    let _ = std::fs::remove_dir_all(&restored);
    let report = Database::restore(&file, &restored, &Options::new()).unwrap();
    let content = format!("D[content,{:016x}]", report.content);
    assert!(backed_up.contains(&content), "{content}: {backed_up}");
    std::fs::remove_file(file).unwrap();
    std::fs::remove_dir_all(restored).unwrap();
}

#[test]
fn slots_are_limited_and_given_back() {
    let fixture = Fixture::new(|options| options.connections_max = 2);
    let first = fixture.client();
    let _second = fixture.client();
    let mut third = fixture.raw();
    third.begin(3 << 16, &["user", "ann"]);
    assert_eq!(third.until_ready(), "E[53300] end");
    drop((first, third));
    while fixture.server().connections() > 1 {
        std::thread::yield_now();
    }
    fixture.client();
}

#[test]
fn the_end_waits_for_transactions() {
    let mut fixture = Fixture::new(|_| {});
    let mut idle = fixture.client();
    let mut busy = fixture.client();
    busy.ask(&[query(
        "create table t (a int); begin; insert into t values (1)",
    )]);
    let server = fixture.server.take().unwrap();
    let end = std::thread::spawn(move || server.end(Duration::from_mins(10), || false));
    assert_eq!(idle.until_ready(), "E[57P01] end");
    assert_eq!(busy.ask(&[query("commit")]), "C[COMMIT] Z[I]");
    assert_eq!(busy.until_ready(), "E[57P01] end");
    end.join().unwrap();

    let mut fixture = Fixture::new(|_| {});
    let mut busy = fixture.client();
    busy.send(&[query("select pg_sleep(600)")]);
    let server = fixture.server.take().unwrap();
    server.end(Duration::from_mins(10), || true);
    let answers = busy.until_ready();
    assert!(answers.ends_with("E[57P01] end"), "{answers}");
}

#[test]
fn a_client_that_reads_nothing_is_given_up() {
    let fixture = Fixture::new(|options| options.write_wait = Duration::from_millis(100));
    let mut client = fixture.client();
    client.send(&[query(
        "select repeat('x', 1000) from generate_series(1, 100000)",
    )]);
    while fixture.server().connections() > 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    fixture.client();
}

#[test]
fn connections_that_never_begin_leave_room_for_others() {
    let fixture = Fixture::new(|options| {
        options.connections_max = 10;
        options.start_wait = Duration::from_millis(500);
    });
    let mut inside = fixture.client();
    let silent: Vec<Client> = (0..100).map(|_| fixture.raw()).collect();
    assert!(fixture.server().connections() <= 15);
    assert_eq!(inside.ask(&[query("select 1")]), "T D[1] C[SELECT 1] Z[I]");
    for mut client in silent {
        let answers = client.until_ready();
        assert!(
            ["E[53300] end", "E[28000] end"].contains(&answers.as_str()),
            "{answers}"
        );
    }
    while fixture.server().connections() > 1 {
        std::thread::sleep(Duration::from_millis(10));
    }
    fixture.client();
}

#[test]
fn machines_ask_for_health_and_counts() {
    let address = "127.0.0.1:0".parse().unwrap();
    let fixture = Fixture::new(|options| options.http = Some(address));
    let mut client = fixture.client();
    client.ask(&[query("nonsense")]);
    let address = fixture.server().http_address().unwrap();
    let get = |line: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get("GET /healthz HTTP/1.1\r\n\r\n").ends_with("\r\n\r\nok\n"));
    // As monitors ask.
    for target in ["/healthz?at=1", "http://host/healthz"] {
        assert!(get(&format!("GET {target} HTTP/1.1\r\n\r\n")).ends_with("\r\n\r\nok\n"));
    }
    let head = get("HEAD /healthz HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("Content-Length: 3\r\n"));
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    let metrics = get("GET /metrics HTTP/1.1\r\n\r\n");
    for line in ["connections 1", "sessions_total 1", "errors_total 1"] {
        assert!(
            metrics.contains(&format!("indelible_{line}\n")),
            "{metrics}"
        );
    }
    assert!(
        metrics.contains("indelible_statement_seconds_bucket{le=\"+Inf\"} 1\n"),
        "{metrics}"
    );
    assert!(get("GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(get("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
}

#[test]
fn people_see_the_status_with_the_token_alone() {
    let address = "127.0.0.1:0".parse().unwrap();
    let fixture = Fixture::new(|options| options.http = Some(address));
    let mut client = fixture.client();
    client.ask(&[query("select 'hidden', 4711 as \"<b>\"")]);
    let address = fixture.server().http_address().unwrap();
    let get = |path: &str, token: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        // A browser's request may come in parts.
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n").as_bytes())
            .unwrap();
        stream
            .write_all(format!("authorization: Bearer {token}\r\n\r\n").as_bytes())
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let page = fixture.server().status_page().unwrap();
    let (_, token) = page.split_once('#').unwrap();
    assert_eq!(token.len(), 32);
    for wrong in ["", &token[1..], "x"] {
        assert!(get("/status.json", wrong).starts_with("HTTP/1.1 401"));
    }
    let html = get("/", "");
    assert!(html.contains("<title>Indelible</title>") && !html.contains("ann"));
    let data = get("/status.json", token);
    assert!(data.contains(r#"select ?, ? as \"<b>\""#), "{data}");
    for hidden in ["hidden", "4711"] {
        assert!(!data.contains(hidden), "{data}");
    }
}

/// The status may wait for who holds a partition. Health does not, however many ask for the status.
#[test]
fn a_held_partition_does_not_keep_health_waiting() {
    let address = "127.0.0.1:0".parse().unwrap();
    let fixture = Fixture::new(|options| options.http = Some(address));
    let address = fixture.server().http_address().unwrap();
    let page = fixture.server().status_page().unwrap();
    let (_, token) = page.split_once('#').unwrap();
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let answer = |mut stream: TcpStream| {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let sql = fixture.sql.upgrade().unwrap();
    let table = sql.database().create_table("held");
    let table = table.column("id", DataType::Int64).create().unwrap();
    let asked: Vec<_> = sql
        .database()
        .transaction(|t| {
            t.insert(&table, (1_i64,))?;
            let asked = (0..8).map(|_| ask("/status.json")).collect();
            assert!(answer(ask("/healthz")).ends_with("\r\n\r\nok\n"));
            Ok(asked)
        })
        .unwrap();
    let answers: Vec<_> = asked.into_iter().map(answer).collect();
    let waited = answers.iter().filter(|one| one.starts_with("HTTP/1.1 200"));
    // Two wait, and one may have come when they had ended. The others are refused at once.
    assert!((2..=3).contains(&waited.count()));
    drop((table, sql));
    assert!(answer(ask("/status.json")).starts_with("HTTP/1.1 200"));
}

/// An archive that failed was told by nobody until the disk of the log was full.
#[test]
fn an_archive_that_fails_is_counted() {
    let archive = std::env::temp_dir().join(format!("indelible-archive-{}", std::process::id()));
    let of_pages = Options::new().method(Method::FullPageWrites);
    let address = "127.0.0.1:0".parse().unwrap();
    let fixture = Fixture::over(&of_pages.archive(&archive), |options| {
        options.http = Some(address);
    });
    let address = fixture.server().http_address().unwrap();
    let metrics = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let mut client = fixture.client();
    client.ask(&[query("create table t (a int primary key)")]);
    assert!(metrics().contains("indelible_archive_fails 0\n"));
    std::fs::remove_dir_all(&archive).unwrap();
    // A thread of its own moves what checkpoints make needless.
    let fails = (0..1000).any(|id| {
        client.ask(&[query(&format!("insert into t values ({id})"))]);
        client.ask(&[query("checkpoint")]);
        std::thread::sleep(Duration::from_millis(5));
        metrics().contains("indelible_archive_fails 1\n")
    });
    assert!(fails);
    let text = "select failed_count > 0 from pg_stat_archiver";
    assert_eq!(client.ask(&[query(text)]), "T D[t] C[SELECT 1] Z[I]");
}

#[test]
fn sessions_show_the_limit_of_connections() {
    let fixture = Fixture::new(|options| options.connections_max = 7);
    let shown = fixture.client().ask(&[query("show max_connections")]);
    assert!(shown.contains("D[7]"), "{shown}");
    let shown = fixture.client().ask(&[query("show data_directory")]);
    let directory = fixture.directory.display().to_string();
    assert!(shown.contains(&directory), "{shown}");
}
