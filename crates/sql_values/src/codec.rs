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
pub struct Writer {
    bytes: Vec<u8>,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// A body without content.
    pub fn new() -> Self {
        Self {
            bytes: vec![VERSION],
        }
    }

    /// The bytes of the body.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Adds a byte.
    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Adds a truth value, as a byte.
    pub fn flag(&mut self, flag: bool) {
        self.byte(u8::from(flag));
    }

    /// Adds a number, in eight bytes.
    pub fn number(&mut self, number: i64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    /// Adds a text after its length.
    pub fn text(&mut self, text: &str) {
        self.length(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn length(&mut self, length: usize) {
        self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
    }

    /// Adds items after their count.
    pub fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.length(items.len());
        for item in items {
            write(self, item);
        }
    }

    /// Adds whether there is an item, and the item.
    pub fn option<T>(&mut self, item: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.flag(item.is_some());
        if let Some(item) = item {
            write(self, item);
        }
    }
}

/// Reads a body.
pub struct Reader<'b> {
    bytes: &'b [u8],
    /// The object, for errors.
    name: &'b str,
}

type Result<T> = std::result::Result<T, SqlError>;

impl<'b> Reader<'b> {
    /// A reader of the body of the object with a name, which errors name.
    pub fn new(name: &'b str, bytes: &'b [u8]) -> Result<Self> {
        let mut reader = Self { bytes, name };
        if reader.byte()? != VERSION {
            return Err(reader.damaged());
        }
        Ok(reader)
    }

    #[cold]
    /// The error of a body that cannot be read.
    pub fn damaged(&self) -> SqlError {
        let name = self.name;
        SqlError::new(
            SqlState::DATA_CORRUPTED,
            format!("the definition of \"{name}\" cannot be read"),
        )
        .hint("Run the program that has written it if that is a newer one, or `indelible verify`.")
    }

    /// Whether all has been read.
    pub fn is_at_end(&self) -> bool {
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

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.take()?))
    }

    /// The next truth value.
    pub fn flag(&mut self) -> Result<bool> {
        Ok(self.byte()? != 0)
    }

    /// The next number.
    pub fn number(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.take()?))
    }

    /// A number of another integer type.
    pub fn integer<T: TryFrom<i64>>(&mut self) -> Result<T> {
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

    /// The next text.
    pub fn text(&mut self) -> Result<String> {
        let length = self.length()?;
        let (text, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        String::from_utf8(text.to_vec()).map_err(|_| self.damaged())
    }

    /// The next items, as many as their count says.
    pub fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let length = self.length()?;
        (0..length).map(|_| read(self)).collect()
    }

    /// A list at the end of a body; none in bodies that were written without it.
    pub fn rest<T>(&mut self, read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        if self.is_at_end() {
            return Ok(Vec::new());
        }
        self.list(read)
    }

    /// The next item, if there is one.
    pub fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.flag()? {
            read(self).map(Some)
        } else {
            Ok(None)
        }
    }
}
