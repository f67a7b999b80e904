//! Bytes of schema objects: the body of a row of the hidden table of objects.
//!
//! A body begins with the version of its format. Integers are little-endian, a text or list begins
//! with its length in 32 bits, an option with a byte that is 1 if there is a value. A body that
//! cannot be read is an error that names the object: the medium is damaged, or a newer program has
//! written it.

use crate::error::{SqlError, SqlState};

/// The format that is written, and the newest that is read.
const VERSION: u8 = 1;

/// Writes a body.
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![VERSION],
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.byte(u8::from(flag));
    }

    pub(crate) fn number(&mut self, number: i64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.length(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn length(&mut self, length: usize) {
        self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
    }

    pub(crate) fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.length(items.len());
        for item in items {
            write(self, item);
        }
    }

    pub(crate) fn option<T>(&mut self, item: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.flag(item.is_some());
        if let Some(item) = item {
            write(self, item);
        }
    }
}

/// Reads a body.
pub(crate) struct Reader<'b> {
    bytes: &'b [u8],
    /// The object, for errors.
    name: &'b str,
}

type Result<T> = std::result::Result<T, SqlError>;

impl<'b> Reader<'b> {
    pub(crate) fn new(name: &'b str, bytes: &'b [u8]) -> Result<Self> {
        let mut reader = Self { bytes, name };
        if reader.byte()? != VERSION {
            return Err(reader.damaged());
        }
        Ok(reader)
    }

    #[cold]
    pub(crate) fn damaged(&self) -> SqlError {
        let name = self.name;
        SqlError::new(
            SqlState::DATA_CORRUPTED,
            format!("the definition of \"{name}\" cannot be read"),
        )
        .hint("Run the program that has written it if that is a newer one, or `indelible verify`.")
    }

    /// Whether all has been read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) = self
            .bytes
            .split_first_chunk::<N>()
            .ok_or_else(|| self.damaged())?;
        self.bytes = rest;
        Ok(*first)
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.take()?))
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        Ok(self.byte()? != 0)
    }

    pub(crate) fn number(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.take()?))
    }

    /// A number of another integer type.
    pub(crate) fn integer<T: TryFrom<i64>>(&mut self) -> Result<T> {
        let number = self.number()?;
        T::try_from(number).map_err(|_| self.damaged())
    }

    fn length(&mut self) -> Result<usize> {
        let length = u32::from_le_bytes(self.take()?) as usize;
        // Each item has a byte at least, so a damaged length cannot reserve more than there is.
        if length > self.bytes.len() {
            return Err(self.damaged());
        }
        Ok(length)
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        let length = self.length()?;
        let (text, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        String::from_utf8(text.to_vec()).map_err(|_| self.damaged())
    }

    pub(crate) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let length = self.length()?;
        (0..length).map(|_| read(self)).collect()
    }

    /// A list at the end of a body; none in bodies that were written without it.
    pub(crate) fn rest<T>(&mut self, read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        if self.is_at_end() {
            return Ok(Vec::new());
        }
        self.list(read)
    }

    pub(crate) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        if self.flag()? {
            read(self).map(Some)
        } else {
            Ok(None)
        }
    }
}
