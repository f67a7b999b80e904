//! Both directions of a connection, with their buffers.
//!
//! Requests are read as they have come, many at once, and answers are sent when no whole request is
//! left, at Flush, or when there are 64 KiB of them. So a pipeline of statements costs one read and
//! one write. Memory for a request is taken as its bytes come, not as its length promises.

use crate::message::{Answers, Malformed};
use crate::socket::Socket;
use crate::spin::{Awake, Waits};
use crate::tls::{Encryption, Identity};
use crate::waker::Waker;
use sql::ShownEncryption;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// Bytes that are read at once.
const INPUT_BYTES: usize = 16 << 10;
/// Answers are sent when there are so many bytes of them.
const OUTPUT_BYTES: usize = 64 << 10;
/// Buffers that have grown larger for a request or an answer are given back.
const KEPT_BYTES: usize = 2 * OUTPUT_BYTES;

/// The end of a connection.
#[derive(Debug, Error)]
pub(crate) enum Broken {
    /// The client has gone without a word.
    #[error("the client has gone")]
    Gone,
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// A message is not as the protocol has it.
    #[error("{0}")]
    Malformed(Malformed),
    #[error("a message of {0} bytes is larger than max_message_bytes")]
    TooLarge(usize),
}

impl From<Malformed> for Broken {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// The connection to a client.
pub(crate) struct Link {
    socket: Arc<Socket>,
    waits: Waits,
    /// Wakes a thread that waits for a request, once the session listens to a channel.
    waker: Option<Arc<Waker>>,
    encryption: Option<Box<Encryption>>,
    /// Bytes that have come, from `start` to `end`.
    input: Box<[u8]>,
    start: usize,
    end: usize,
    pub(crate) answers: Answers,
    /// Most bytes of a request.
    message_bytes_max: usize,
}

impl Link {
    pub(crate) fn new(socket: Arc<Socket>, awake: &Arc<Awake>, message_bytes_max: usize) -> Self {
        Self {
            socket,
            waits: Waits::new(awake),
            waker: None,
            encryption: None,
            input: vec![0; INPUT_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            answers: Answers::default(),
            message_bytes_max,
        }
    }

    /// Lets requests have so many bytes.
    pub(crate) fn set_message_bytes_max(&mut self, bytes: usize) {
        self.message_bytes_max = bytes;
    }

    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// The thread's waker; it has one from now on.
    pub(crate) fn waker(&mut self) -> io::Result<&Arc<Waker>> {
        if self.waker.is_none() {
            self.waker = Some(Arc::new(Waker::new()?));
        }
        Ok(self.waker.as_ref().expect("it has just been made"))
    }

    pub(crate) fn has_waker(&self) -> bool {
        self.waker.is_some()
    }

    /// Encrypts everything from now on. Bytes that came before that would be taken for bytes of the
    /// encrypted stream, so there may be none (CVE-2021-23222).
    pub(crate) fn encrypt(&mut self, identity: &Identity) -> Result<(), Broken> {
        if self.start < self.end {
            return Err(Malformed::BytesBeforeEncryption.into());
        }
        self.encryption = Some(Box::new(Encryption::begin(identity)?));
        Ok(())
    }

    /// How the connection is encrypted, for `pg_stat_ssl`.
    pub(crate) fn shown_encryption(&self) -> Option<ShownEncryption> {
        self.encryption.as_ref()?.shown()
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.encryption.is_some()
    }

    /// The hash of the certificate that a proof of a password is bound to, if there is one.
    pub(crate) fn binding(&self) -> Option<&[u8]> {
        self.encryption.as_ref()?.binding.as_deref()
    }

    /// Whether a whole request has come.
    pub(crate) fn has_request(&self) -> bool {
        let come = &self.input[self.start..self.end];
        come.get(1..5)
            .and_then(|length| length.try_into().ok())
            .is_some_and(|length| come.len() > u32::from_be_bytes(length) as usize)
    }

    /// Waits until a part of a request has come, after it has sent the answers; false if the waker
    /// has woken it before.
    pub(crate) fn wait(&mut self) -> Result<bool, Broken> {
        if !self.has_request() {
            self.flush()?;
        }
        let waker = self.waker.clone();
        Ok(self.start < self.end || self.fill(waker.as_deref())?)
    }

    /// Reads the next request into `body`, and returns its kind. Waits for it, and sends the
    /// answers before.
    pub(crate) fn request(&mut self, body: &mut Vec<u8>) -> Result<u8, Broken> {
        if !self.has_request() {
            self.flush()?;
        }
        let mut kind = [0];
        self.read_exact(&mut kind)?;
        self.body(body)?;
        Ok(kind[0])
    }

    /// Reads a length, and so many bytes of a body.
    pub(crate) fn body(&mut self, body: &mut Vec<u8>) -> Result<(), Broken> {
        let mut length = [0; 4];
        self.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        let bytes = length.checked_sub(4).ok_or(Malformed::TooShort)?;
        if bytes > self.message_bytes_max {
            return Err(Broken::TooLarge(bytes));
        }
        body.clear();
        body.shrink_to(KEPT_BYTES);
        while body.len() < bytes {
            if self.start == self.end {
                self.fill(None)?;
            }
            let taken = (bytes - body.len()).min(self.end - self.start);
            body.extend_from_slice(&self.input[self.start..][..taken]);
            self.start += taken;
        }
        Ok(())
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), Broken> {
        for byte in bytes {
            if self.start == self.end {
                self.fill(None)?;
            }
            *byte = self.input[self.start];
            self.start += 1;
        }
        Ok(())
    }

    /// Reads more, with nothing left of what was read before; false if it was woken.
    fn fill(&mut self, waker: Option<&Waker>) -> Result<bool, Broken> {
        (self.start, self.end) = (0, 0);
        let Self {
            socket,
            waits,
            input,
            ..
        } = self;
        loop {
            let come = match &mut self.encryption {
                None => waits.read(socket, waker, input),
                Some(encryption) => encryption.read(socket, waits, waker, input),
            };
            match come {
                Ok(Some(0)) => return Err(Broken::Gone),
                Ok(Some(bytes)) => {
                    self.end = bytes;
                    return Ok(true);
                }
                Ok(None) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends the answers if there are many.
    pub(crate) fn flush_much(&mut self) -> io::Result<()> {
        if self.answers.bytes.len() < OUTPUT_BYTES {
            return Ok(());
        }
        self.flush()
    }

    /// Sends all answers.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut rest = self.answers.bytes.as_slice();
        while !rest.is_empty() {
            let sent = match &mut self.encryption {
                None => self.socket.write(rest),
                Some(encryption) => encryption.write(&self.socket, rest),
            };
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => rest = &rest[sent..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Half a message has gone: nothing can follow it.
                    self.answers.bytes.clear();
                    return Err(error);
                }
            }
        }
        self.answers.bytes.clear();
        self.answers.bytes.shrink_to(KEPT_BYTES);
        Ok(())
    }

    /// Sends one byte, the answer to a wish for encryption.
    pub(crate) fn send_byte(&mut self, byte: u8) -> io::Result<()> {
        self.answers.bytes.push(byte);
        self.flush()
    }
}

impl Drop for Link {
    /// The other end sees that nothing was cut off.
    fn drop(&mut self) {
        if let Some(encryption) = &mut self.encryption {
            encryption.end(&self.socket);
        }
    }
}
