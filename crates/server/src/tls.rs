//! Encryption by TLS 1.2 and 1.3.
//!
//! The server has one certificate for all connections, read at its start and again when it is told
//! to; connections that have begun keep theirs. Bytes are encrypted between the link and the
//! socket, so nothing above the link knows of it. The handshake is a part of the first read.

use crate::certificate;
use crate::socket::Socket;
use crate::spin::Waits;
use crate::waker::Waker;
use crate::{TlsError, TlsFiles};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{InconsistentKeys, ProtocolVersion, ServerConfig, ServerConnection};
use sql::ShownEncryption;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

/// Encrypted bytes that are read at once.
const RAW_BYTES: usize = 16 << 10;

/// The certificate of the server, and its key.
pub(crate) struct Identity {
    config: Arc<ServerConfig>,
    /// The hash of the certificate that clients bind their proof of a password to.
    binding: Option<Vec<u8>>,
}

impl Identity {
    /// Reads and checks the files.
    pub(crate) fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let TlsFiles { certificate, key } = files;
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| TlsError::unreadable(certificate, &error))?;
        let own = chain.first();
        let own = own.ok_or_else(|| TlsError::NoCertificate(certificate.clone()))?;
        if let Some(end) = certificate::expired_at(own) {
            return Err(TlsError::Expired(certificate.clone(), end));
        }
        let binding = certificate::end_point(own);
        check_permissions(key)?;
        let secret =
            PrivateKeyDer::from_pem_file(key).map_err(|error| TlsError::no_key(key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder
                    .with_no_client_auth()
                    .with_single_cert(chain, secret)
            })
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                    TlsError::Mismatch(key.clone(), certificate.clone())
                }
                error => TlsError::Unusable(key.clone(), error.to_string()),
            })?;
        let config = Arc::new(config);
        Ok(Self { config, binding })
    }
}

/// Fails if others can read the key.
fn check_permissions(key: &Path) -> Result<(), TlsError> {
    let metadata = std::fs::metadata(key)
        .map_err(|error| TlsError::Unreadable(key.to_owned(), error.to_string()))?;
    match metadata.permissions().mode() & 0o077 {
        0 => Ok(()),
        _ => Err(TlsError::NotSecret(key.to_owned())),
    }
}

impl TlsError {
    fn unreadable(path: &Path, error: &pem::Error) -> Self {
        Self::Unreadable(path.to_owned(), error.to_string())
    }

    fn no_key(path: &Path, error: &pem::Error) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        match error {
            pem::Error::NoItemsFound if text.contains("ENCRYPTED") => {
                Self::Encrypted(path.to_owned())
            }
            error => Self::unreadable(path, error),
        }
    }
}

/// The encryption of a connection.
pub(crate) struct Encryption {
    /// That of the certificate which the client was shown.
    pub(crate) binding: Option<Vec<u8>>,
    connection: ServerConnection,
    /// Encrypted bytes that have come, from `start` to `end`.
    raw: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Encryption {
    pub(crate) fn begin(identity: &Identity) -> io::Result<Self> {
        let connection = ServerConnection::new(Arc::clone(&identity.config));
        Ok(Self {
            connection: connection.map_err(io::Error::other)?,
            binding: identity.binding.clone(),
            raw: vec![0; RAW_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
        })
    }

    /// The protocol and the cipher, by the names that OpenSSL has for them.
    pub(crate) fn shown(&self) -> Option<ShownEncryption> {
        let version = match self.connection.protocol_version()? {
            ProtocolVersion::TLSv1_3 => "TLSv1.3".to_owned(),
            ProtocolVersion::TLSv1_2 => "TLSv1.2".to_owned(),
            other => other.as_str().unwrap_or_default().to_owned(),
        };
        let suite = self.connection.negotiated_cipher_suite()?.suite();
        let suite = suite.as_str().unwrap_or_default();
        let bits = if suite.contains("AES_128") { 128 } else { 256 };
        let cipher = if let Some(rest) = suite.strip_prefix("TLS13_") {
            format!("TLS_{rest}")
        } else {
            let words = suite.trim_start_matches("TLS_").replace("WITH_", "");
            let words = words.replace("AES_", "AES");
            let words = words.replace("POLY1305_SHA256", "POLY1305");
            words.replace('_', "-")
        };
        Some(ShownEncryption {
            version,
            cipher,
            bits,
        })
    }

    /// Reads what comes next; none if the waker has woken the thread before.
    pub(crate) fn read(
        &mut self,
        socket: &Socket,
        waits: &mut Waits,
        waker: Option<&Waker>,
        buffer: &mut [u8],
    ) -> io::Result<Option<usize>> {
        loop {
            match self.connection.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                come => return come.map(Some),
            }
            if self.start == self.end {
                let Some(come) = waits.read(socket, waker, &mut self.raw)? else {
                    return Ok(None);
                };
                if come == 0 {
                    // The other end is gone, or this one reads no more.
                    return Ok(Some(0));
                }
                (self.start, self.end) = (0, come);
            }
            let mut raw = &self.raw[self.start..self.end];
            self.start += self.connection.read_tls(&mut raw)?;
            let state = self.connection.process_new_packets();
            self.send(socket)?;
            state.map_err(io::Error::other)?;
        }
    }

    /// Sends bytes, or a part of them: as many as it says.
    pub(crate) fn write(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.connection.writer().write(bytes)?;
        self.send(socket)?;
        Ok(taken)
    }

    /// Says that nothing follows.
    pub(crate) fn end(&mut self, socket: &Socket) {
        self.connection.send_close_notify();
        // The other end may have gone.
        let _ = self.send(socket);
    }

    fn send(&mut self, mut socket: &Socket) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut socket) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}
