//! Messages of the protocol: a byte of kind, four bytes of length, a body.
//!
//! A reader takes whole messages only, of at most [`BYTES_MAX`]. Fields of a body are read in
//! order, and each read says by `None` that the body ends too early, so a hostile server cannot
//! make this side panic.

use std::io::{self, Read, Write};

/// Most bytes of a message: PostgreSQL's own limit of a value.
const BYTES_MAX: usize = 1 << 30;

/// A message of the server.
pub(super) struct Message {
    pub(super) kind: u8,
    pub(super) body: Vec<u8>,
}

/// Reads messages.
pub(super) struct Reader<R>(R);

impl<R: Read> Reader<R> {
    pub(super) fn new(source: R) -> Self {
        Self(source)
    }

    /// The next message, or an error at the end of the stream.
    pub(super) fn next(&mut self) -> io::Result<Message> {
        let mut head = [0; 5];
        self.0.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let length = (u32::from_be_bytes(length) as usize)
            .checked_sub(4)
            .filter(|length| *length <= BYTES_MAX)
            .ok_or_else(|| io::Error::other("a message has an impossible length"))?;
        let mut body = Vec::new();
        // Memory is taken as the bytes come, not as the length promises.
        (&mut self.0).take(length as u64).read_to_end(&mut body)?;
        if body.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Message { kind, body })
    }
}

/// Sends a message; the first of a connection has no kind.
pub(super) fn write_message(out: &mut impl Write, kind: Option<u8>, body: &[u8]) -> io::Result<()> {
    let mut message = Vec::with_capacity(body.len() + 5);
    message.extend(kind);
    let length = u32::try_from(body.len() + 4).map_err(io::Error::other)?;
    message.extend(length.to_be_bytes());
    message.extend(body);
    out.write_all(&message)
}

/// The fields of a body.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn skip(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.get(count..)?;
        Some(())
    }

    /// A text that a zero byte ends.
    pub(super) fn text(&mut self) -> Option<&'a str> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(&self.0[..end]).ok()?;
        self.0 = &self.0[end + 1..];
        Some(text)
    }

    /// A value of a row: a length, of which -1 is NULL, and a text.
    #[expect(clippy::option_option, reason = "NULL is not the end of the body")]
    pub(super) fn value(&mut self) -> Option<Option<&'a str>> {
        let length = self.u32()?;
        if length == u32::MAX {
            return Some(None);
        }
        let (value, rest) = self.0.split_at_checked(length as usize)?;
        self.0 = rest;
        std::str::from_utf8(value).ok().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_was_sent() {
        let mut sent = Vec::new();
        write_message(&mut sent, Some(b'Q'), b"select 1\0").unwrap();
        let message = Reader::new(sent.as_slice()).next().unwrap();
        assert_eq!(
            (message.kind, message.body.as_slice()),
            (b'Q', &b"select 1\0"[..])
        );
    }

    #[test]
    fn bodies_that_end_too_early_are_refused() {
        for length in [0, 3, u32::MAX] {
            let head = [b"D".as_slice(), &length.to_be_bytes()].concat();
            assert!(Reader::new(head.as_slice()).next().is_err(), "{length}");
        }
        let short = [b"D".as_slice(), &100_u32.to_be_bytes(), b"abc"].concat();
        assert!(Reader::new(short.as_slice()).next().is_err());
        assert_eq!(Fields::new(&[0, 0, 0, 9, b'x']).value(), None);
        assert_eq!(Fields::new(&[255; 4]).value(), Some(None));
        assert_eq!(Fields::new(b"no end").text(), None);
    }
}
