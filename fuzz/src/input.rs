//! Input of a target: named parts, such as the files of a database or the fields of a record.
//!
//! A saved input is the parts one after the other (name and content, each with its length in eight
//! bytes), packed with LZ4. It holds bytes only, so it replays on every later version of the
//! program, whatever the generator does then.

use std::path::Path;

/// One named piece of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// A file name, or what the bytes are.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}

/// Input of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Its pieces.
    pub parts: Vec<Part>,
}

impl Input {
    /// An input of these pieces.
    pub fn new(parts: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let parts = parts.into_iter();
        let parts = parts.map(|(name, bytes)| Part { name, bytes }).collect();
        Self { parts }
    }

    /// An input of one piece.
    pub fn of(name: &str, bytes: Vec<u8>) -> Self {
        Self::new([(name.to_owned(), bytes)])
    }

    /// The content of a piece; empty if there is none of that name.
    pub fn part(&self, name: &str) -> &[u8] {
        let found = self.parts.iter().find(|part| part.name == name);
        found.map_or(&[], |part| &part.bytes)
    }

    /// A number that depends on all bytes: the seed of what a target does with them.
    pub fn digest(&self) -> u64 {
        let crc = |sum, part: &Part| crc32c::crc32c_append(sum, &part.bytes);
        u64::from(self.parts.iter().fold(0, crc))
    }

    /// Writes it to a file.
    pub fn save(&self, path: &Path) -> std::io::Result<()> {
        let mut plain = Vec::new();
        for part in &self.parts {
            for piece in [part.name.as_bytes(), &part.bytes] {
                plain.extend_from_slice(&(piece.len() as u64).to_le_bytes());
                plain.extend_from_slice(piece);
            }
        }
        std::fs::write(path, lz4_flex::block::compress_prepend_size(&plain))
    }

    /// Reads a saved input; the error is a sentence.
    pub fn load(path: &Path) -> Result<Self, String> {
        let failed = |problem: String| format!("{}: {problem}", path.display());
        let packed = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
        let plain = lz4_flex::block::decompress_size_prepended(&packed)
            .map_err(|error| failed(format!("not a saved input: {error}")))?;
        let mut rest = plain.as_slice();
        let mut pieces = Vec::new();
        while let Some((length, behind)) = rest.split_first_chunk::<8>() {
            let length = u64::from_le_bytes(*length) as usize;
            let (piece, behind) = behind
                .split_at_checked(length)
                .ok_or_else(|| failed("a saved input that is cut off".to_owned()))?;
            pieces.push(piece.to_vec());
            rest = behind;
        }
        let mut parts = Vec::new();
        for pair in pieces.as_chunks::<2>().0 {
            let [name, bytes] = pair;
            parts.push(Part {
                name: String::from_utf8_lossy(name).into_owned(),
                bytes: bytes.clone(),
            });
        }
        Ok(Self { parts })
    }
}
