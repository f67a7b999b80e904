//! Buffers that lie where direct transfers want them.
//!
//! Such a transfer takes whole blocks: the offset in the file, the length and the address in memory
//! are all multiples of [`BLOCK_BYTES`]. A buffer of the standard library begins anywhere, so its
//! blocks begin at its first aligned address.

/// Unit and alignment of direct transfers: enough for every block device in use.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// A buffer of whole blocks, which lie at addresses that direct transfers accept.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    bytes: Vec<u8>,
    /// Where the blocks begin, and how many bytes they have.
    skip: usize,
    length: usize,
}

impl Blocks {
    /// `length` bytes of any content.
    pub(crate) fn sized(&mut self, length: usize) -> &mut [u8] {
        let wanted = length + BLOCK_BYTES as usize;
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted, 0);
        }
        self.skip = self.bytes.as_ptr().align_offset(BLOCK_BYTES as usize);
        self.length = length;
        &mut self.bytes[self.skip..self.skip + length]
    }

    /// Copies whole blocks.
    pub(crate) fn fill_with(&mut self, data: &[u8]) {
        self.sized(data.len()).copy_from_slice(data);
    }

    /// The bytes that it was last sized to or filled with.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.skip..self.skip + self.length]
    }
}

/// Whether a transfer between this place of a file and these bytes needs no buffer between.
pub(crate) fn is_aligned(offset: u64, data: &[u8]) -> bool {
    let block = BLOCK_BYTES as usize;
    are_whole(offset, data) && data.as_ptr().align_offset(block) == 0
}

/// Whether these bytes of a file are whole blocks.
pub(crate) fn are_whole(offset: u64, data: &[u8]) -> bool {
    offset.is_multiple_of(BLOCK_BYTES) && (data.len() as u64).is_multiple_of(BLOCK_BYTES)
}
