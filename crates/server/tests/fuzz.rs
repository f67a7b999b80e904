//! Goal: no message, however wrong, harms anybody but the connection that sent it.
//!
//! Method: conversations that are right are changed (bytes flipped, cut out, doubled, lengths
//! replaced), and sent to a server in this process by a client that then says nothing more. The
//! server answers with whole messages and ends the connection; none of its threads panics, and a
//! client that has been there all the time gets its answer. `FUZZ_SECONDS` sets how long.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use indelible::{Database, Method, Options};
use server::Server;
use sql::Sql;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static PANICS: AtomicU32 = AtomicU32::new(0);

/// Random numbers of a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

fn message(kind: &[u8], body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [kind, length.as_slice(), body].concat()
}

fn start() -> Vec<u8> {
    let body = [&(3_u32 << 16).to_be_bytes(), b"user\0ann\0\0".as_slice()].concat();
    message(b"", &body)
}

/// The messages of a conversation.
fn conversation(random: &mut Random) -> Vec<Vec<u8>> {
    let all: &[(&[u8], &[u8])] = &[
        (b"Q", b"select 1, 'two', null; select 3\0"),
        (b"Q", b"begin; insert into t values (1, 'one')\0"),
        (b"Q", b"copy t from stdin\0"),
        (b"d", b"1\tone\n2\t"),
        (b"d", b"two\n"),
        (b"c", b""),
        (b"f", b"enough\0"),
        (b"Q", b"copy t to stdout\0"),
        (
            b"P",
            b"s\0select $1::int + a from t where b = $2\0\0\x02\0\0\0\x17\0\0\0\0",
        ),
        (b"P", b"\0insert into t values ($1, $2)\0\0\0"),
        (
            b"B",
            b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x04\0\0\0\x07\0\0\0\x01x\0\x01\0\x01",
        ),
        (b"B", b"\0\0\0\0\0\x02\0\0\0\x019\xff\xff\xff\xff\0\0"),
        (b"D", b"Ss\0"),
        (b"D", b"Pp\0"),
        (b"E", b"p\0\0\0\0\x01"),
        (b"E", b"\0\0\0\0\0"),
        (b"C", b"Ss\0"),
        (b"H", b""),
        (b"S", b""),
        (b"F", b"\0\0\0\0"),
        (b"X", b""),
    ];
    let mut messages = vec![start()];
    for _ in 0..random.below(12) {
        let (kind, body) = all[random.below(all.len())];
        messages.push(message(kind, body));
    }
    messages
}

/// Changes a conversation in a few places.
fn change(messages: &mut [Vec<u8>], random: &mut Random) {
    for _ in 0..random.below(4) {
        let chosen = random.below(messages.len());
        let bytes = &mut messages[chosen];
        if bytes.is_empty() {
            continue;
        }
        let at = random.below(bytes.len());
        match random.below(5) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes.truncate(at),
            2 => {
                let doubled = bytes[at..].to_vec();
                bytes.extend(doubled);
            }
            3 => {
                let length = [0, 3, 4, u32::MAX, 1 << 20][random.below(5)];
                let place = usize::from(chosen > 0);
                if bytes.len() >= place + 4 {
                    bytes[place..place + 4].copy_from_slice(&length.to_be_bytes());
                }
            }
            _ => bytes[at] = random.next() as u8,
        }
    }
}

/// Checks that answers are whole messages of kinds that there are.
fn check_answers(mut answers: &[u8], seed: u64) {
    while let Some((kind, rest)) = answers.split_first() {
        if *kind == b'N' && rest.is_empty() {
            return;
        }
        assert!(
            b"123ACDEGHIKNRSTZcdnstv".contains(kind),
            "seed {seed}: {kind}"
        );
        let length: [u8; 4] = rest
            .get(..4)
            .map_or([0; 4], |bytes| bytes.try_into().unwrap());
        let length = u32::from_be_bytes(length) as usize;
        assert!((4..=rest.len()).contains(&length), "seed {seed}: {length}");
        answers = &rest[length..];
    }
}

#[test]
fn changed_conversations_harm_nobody() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        told(info);
    }));
    let directory = std::env::temp_dir().join(format!("indelible-fuzz-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let options = Options::new().method(Method::NvmInp);
    let database = Database::create(&directory, &options).unwrap();
    let mut options = server::Options::new(&directory);
    options.socket = Some(directory.clone());
    let server = Server::start(Sql::open(database).unwrap(), options).unwrap();
    let connect = || {
        let stream = UnixStream::connect(server.socket().unwrap()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        stream
    };
    let talk = |messages: &[Vec<u8>]| {
        let mut stream = connect();
        // The server may have ended the connection before all of it has gone.
        let _ = stream.write_all(&messages.concat());
        let _ = stream.shutdown(Shutdown::Write);
        let mut answers = Vec::new();
        if let Err(error) = stream.read_to_end(&mut answers) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
            return None;
        }
        Some(answers)
    };
    let table = message(b"Q", b"create table t (a int, b text)\0");
    talk(&[start(), table]).unwrap();
    let mut bystander = connect();
    bystander.write_all(&start()).unwrap();

    let seconds = std::env::var("FUZZ_SECONDS").map_or(2, |text| text.parse().unwrap());
    let end = Instant::now() + Duration::from_secs(seconds);
    let first = std::env::var("FUZZ_SEED").map_or(1, |text| text.parse().unwrap());
    let mut seed: u64 = first;
    while Instant::now() < end || seed == first {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut messages = conversation(&mut random);
        change(&mut messages, &mut random);
        if let Some(answers) = talk(&messages) {
            check_answers(&answers, seed);
        }
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "seed {seed}");
        seed += 1;
    }
    bystander
        .write_all(&message(b"Q", b"select 'here'\0"))
        .unwrap();
    bystander.shutdown(Shutdown::Write).unwrap();
    let mut answers = Vec::new();
    bystander.read_to_end(&mut answers).unwrap();
    assert!(answers.windows(4).any(|part| part == b"here"));
    drop(server);
    std::fs::remove_dir_all(&directory).unwrap();
}
