//! Goal: connections are encrypted where a certificate says so, and wrong files are refused.
//!
//! Method: a client of `rustls` that trusts the certificate of the test, and copies of its files
//! that differ in one thing each. Proofs of passwords bound to the certificate are tested by psql
//! and psycopg in `tests/clients`.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use indelible::{Database, Method};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use server::{Options, ServeError, Server, TlsError, TlsFiles};
use sql::Sql;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The request for encryption.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

struct Scratch(PathBuf);

impl Scratch {
    /// A directory with a database, a certificate and its key.
    fn new(name: &str) -> Self {
        let name = format!("indelible-tls-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        for file in ["server.pem", "expired.pem", "server.key", "other.key"] {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates");
            fs::copy(source.join(file), path.join(file)).unwrap();
            fs::set_permissions(path.join(file), Permissions::from_mode(0o600)).unwrap();
        }
        Self(path)
    }

    fn files(&self, certificate: &str, key: &str) -> TlsFiles {
        TlsFiles {
            certificate: self.0.join(certificate),
            key: self.0.join(key),
        }
    }

    fn options(&self) -> Options {
        let mut options = Options::new(self.0.join("db"));
        options.listen = Some("127.0.0.1:0".parse().unwrap());
        options.tls = Some(self.files("server.pem", "server.key"));
        options
    }

    fn start(&self, change: impl FnOnce(&mut Options)) -> Result<Server, ServeError> {
        let path = self.0.join("db");
        let _ = fs::remove_dir_all(&path);
        let options = indelible::Options::new().method(Method::NvmInp);
        let database = Database::create(&path, &options).unwrap();
        let mut options = self.options();
        change(&mut options);
        Server::start(Sql::open(database).unwrap(), options)
    }

    fn refusal(&self, change: impl FnOnce(&mut Options)) -> String {
        self.start(change).err().unwrap().to_string()
    }

    /// An encrypted session of a client that trusts the certificate alone.
    fn client(&self, server: &Server) -> StreamOwned<ClientConnection, TcpStream> {
        let (stream, answer) = asked(server);
        assert_eq!(answer, b'S');
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(self.0.join("server.pem")).unwrap();
        roots.add(certificate).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut client = StreamOwned::new(connection, stream);
        let body = b"\0\x03\0\0user\0ann\0\0";
        let length = (body.len() as u32 + 4).to_be_bytes();
        client
            .write_all(&[&length, body.as_slice()].concat())
            .unwrap();
        until_ready(&mut client);
        client
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A stream that has asked for encryption, and been answered.
fn asked(server: &Server) -> (TcpStream, u8) {
    let mut stream = TcpStream::connect(server.address().unwrap()).unwrap();
    stream.write_all(&TLS_REQUEST).unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    (stream, answer[0])
}

/// Reads messages until the server is ready; the sum of their lengths.
fn until_ready(client: &mut impl Read) -> usize {
    let mut sum = 0;
    loop {
        let mut head = [0; 5];
        client.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes(*head.last_chunk().unwrap()) as usize;
        client.read_exact(&mut vec![0; length - 4]).unwrap();
        sum += length;
        assert_ne!(head[0], b'E');
        if head[0] == b'Z' {
            return sum;
        }
    }
}

fn query(client: &mut impl Write, text: &str) {
    let length = (text.len() as u32 + 5).to_be_bytes();
    let message = [b"Q".as_slice(), &length, text.as_bytes(), b"\0"].concat();
    client.write_all(&message).unwrap();
}

#[test]
fn sessions_are_encrypted() {
    let scratch = Scratch::new("sessions");
    let server = scratch.start(|options| options.trusts = true).unwrap();
    let mut client = scratch.client(&server);
    query(
        &mut client,
        "select repeat('x', 1000) from generate_series(1, 2000)",
    );
    assert!(until_ready(&mut client) > 2_000_000);
    // A request of many records.
    query(
        &mut client,
        &format!("select length('{}')", "y".repeat(1 << 20)),
    );
    until_ready(&mut client);
    // A session of before the reload goes on, and another one begins.
    server.reload(scratch.options()).unwrap();
    query(&mut client, "select 1");
    until_ready(&mut client);
    scratch.client(&server);
    // A certificate that cannot be used is not taken.
    fs::copy(scratch.0.join("other.key"), scratch.0.join("server.key")).unwrap();
    assert!(matches!(
        server.reload(scratch.options()),
        Err(TlsError::Mismatch(..))
    ));
    scratch.client(&server);
}

/// The end of a session was a stream cut off, without a word.
#[test]
fn sessions_that_are_ended_are_told_why() {
    let scratch = Scratch::new("ended");
    let server = scratch.start(|options| options.trusts = true).unwrap();
    let mut client = scratch.client(&server);
    query(&mut client, "set idle_session_timeout = 50");
    until_ready(&mut client);
    let mut last = Vec::new();
    client.read_to_end(&mut last).unwrap();
    let text = String::from_utf8_lossy(&last);
    assert!(text.starts_with('E') && text.contains("57P05"), "{text}");
}

#[test]
fn nothing_may_come_before_the_handshake() {
    let scratch = Scratch::new("before");
    let server = scratch.start(|options| options.trusts = true).unwrap();
    let mut stream = TcpStream::connect(server.address().unwrap()).unwrap();
    // A session in clear text behind the wish, as one in the middle would smuggle in.
    let begin = b"\0\0\0\x12\0\x03\0\0user\0ann\0\0";
    stream
        .write_all(&[TLS_REQUEST.as_slice(), begin].concat())
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let text = String::from_utf8_lossy(&answer);
    assert!(
        text.contains("08P01") && !text.contains("server_version"),
        "{text}"
    );
    // Without a certificate there is no encryption, and the client goes on or leaves.
    let server = scratch.start(|options| options.tls = None).unwrap();
    assert_eq!(asked(&server).1, b'N');
}

#[test]
fn wrong_files_are_refused_by_name() {
    let scratch = Scratch::new("wrong");
    let with = |certificate: &str, key: &str| {
        let refusal =
            scratch.refusal(|options| options.tls = Some(scratch.files(certificate, key)));
        refusal.replace(&format!("{}/", scratch.0.display()), "")
    };
    assert_eq!(
        with("server.pem", "other.key"),
        "other.key is not the key of the certificate server.pem"
    );
    assert_eq!(
        with("expired.pem", "server.key"),
        "the certificate expired.pem has expired (at 20210101000000 UTC); renew it"
    );
    assert!(with("missing.pem", "server.key").starts_with("cannot read missing.pem: "));
    assert!(with("server.pem", "missing.key").starts_with("cannot read missing.key: "));
    assert!(with("server.pem", "server.pem").starts_with("cannot read server.pem: "));
    assert_eq!(
        with("server.key", "server.key"),
        "there is no certificate in server.key; it has to be in PEM"
    );
    fs::set_permissions(scratch.0.join("other.key"), Permissions::from_mode(0o640)).unwrap();
    assert_eq!(
        with("server.pem", "other.key"),
        "other users can read the key other.key; run: chmod 600 other.key"
    );
}

#[test]
fn other_machines_need_encryption_and_passwords() {
    let scratch = Scratch::new("machines");
    let all = Some("0.0.0.0:0".parse().unwrap());
    for (with_tls, trusts) in [(false, false), (true, true)] {
        let refusal = scratch.refusal(|options| {
            options.listen = all;
            options.trusts = trusts;
            options.tls = options.tls.take().filter(|_| with_tls);
        });
        assert!(
            refusal.contains("can be reached from other machines"),
            "{refusal}"
        );
    }
    assert!(scratch.start(|options| options.listen = all).is_ok());
    let refusal = scratch.refusal(|options| options.http = all);
    assert!(refusal.contains("listen on 127.0.0.1"), "{refusal}");
}
