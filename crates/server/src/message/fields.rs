//! Fields of a body, in order: big-endian numbers, texts that a zero byte ends, values with their
//! length.
//!
//! Counts and lengths are a client's word: nothing is taken from a body that is not there, and no
//! memory is reserved for more than the body can have.

use std::fmt;

/// A body that does not have the fields of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// It ends inside of a field.
    TooShort,
    /// Bytes follow the last field.
    TooLong,
    /// A field has a value that it cannot have.
    BadField(&'static str),
    /// The first message cannot be so long: the client speaks another protocol.
    StartUpTooLong,
    /// No message has this kind.
    UnknownKind(u8),
    /// Bytes follow a wish for encryption before it is answered.
    BytesBeforeEncryption,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => f.write_str("insufficient data left in message"),
            Self::TooLong => f.write_str("invalid message format"),
            Self::BadField(name) => write!(f, "invalid {name} in message"),
            Self::StartUpTooLong => f.write_str("invalid length of startup packet"),
            Self::BytesBeforeEncryption => {
                f.write_str("received unencrypted data after SSL request")
            }
            Self::UnknownKind(kind) => write!(f, "invalid frontend message type {kind}"),
        }
    }
}

/// The rest of a body.
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Malformed::TooShort)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Malformed::TooShort)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// A text that a zero byte ends; its encoding is not checked.
    pub(crate) fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let text = self.bytes(end.ok_or(Malformed::TooShort)?)?;
        self.0 = &self.0[1..];
        Ok(text)
    }

    /// A value after its length, of which -1 is NULL.
    pub(crate) fn value(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.u32()? {
            u32::MAX => Ok(None),
            length => self.bytes(length as usize).map(Some),
        }
    }

    /// So many fields, each read by `field`.
    pub(crate) fn list<T>(
        &mut self,
        count: u16,
        field: impl Fn(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        (0..count).map(|_| field(self)).collect()
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// The end of the body, or an error if more follows.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed::TooLong)
        }
    }
}
