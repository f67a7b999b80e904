//! Tuples that are read while the owner of their pool works.
//!
//! The bytes are copied before anything in them is used, and their checksums are compared: a reader
//! that was misled, by a damaged pointer or by a block that was used again too early, fails and
//! gives no wrong row.

use super::Tuples;
use pmem::{PmemError, View};
use storage::Result;
use storage::record::Row;
use storage::record::checksum::tuple_is_intact;
use storage::record::variable::{self, HEADER_BYTES};

impl Tuples {
    /// Copies a tuple and its out-of-line fields into `row`; `buffer` is for the fields on their
    /// way.
    pub(in crate::table) fn read_view(
        &self,
        view: &View,
        tuple: u64,
        row: &mut Row,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        view.read(tuple, row.begin_fill())?;
        if !tuple_is_intact(row.tuple_bytes()) {
            return Err(PmemError::corrupted("tuple", tuple, "wrong checksum").into());
        }
        for outline in &self.out_of_line {
            let pointer = row.outline_word(outline.column).unwrap_or(0);
            if pointer == 0 {
                continue;
            }
            let mut header = [0; HEADER_BYTES];
            view.read(pointer, &mut header)?;
            let bytes = variable::content_bytes(header);
            let fits = bytes <= outline.content_bytes_max;
            buffer.clear();
            buffer.resize(if fits { bytes } else { 0 }, 0);
            view.read(pointer.saturating_add(HEADER_BYTES as u64), buffer)?;
            if !variable::is_intact(header, buffer) {
                return Err(PmemError::corrupted("field", pointer, "wrong checksum").into());
            }
            row.set_outline(outline.column, buffer)?;
        }
        Ok(())
    }
}
