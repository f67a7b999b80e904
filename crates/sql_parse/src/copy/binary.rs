//! The binary format of `COPY`: a header, records of fields with their lengths, and an end.
//!
//! | part | bytes |
//! |---|---|
//! | signature | `PGCOPY\n\377\r\n\0` |
//! | flags | 4, of which the upper 16 bits must be known |
//! | extension | 4 for its length, and as many that are skipped |
//! | record | 2 for the number of fields; for each 4 for its length (-1 is NULL), and its bytes |
//! | end | 2: -1; data without it are whole as well |

use super::read::check_record_bytes;
use sql_values::error::{Result, SqlError, SqlState};

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// Flags that must be understood; none of them is.
const CRITICAL_FLAGS: u32 = 0xffff_0000;

/// Appends the header.
pub fn write_header(out: &mut Vec<u8>) {
    out.extend(SIGNATURE);
    out.extend([0; 8]);
}

/// Appends a record.
pub fn write_fields(out: &mut Vec<u8>, fields: &[Option<Vec<u8>>]) {
    out.extend((fields.len() as u16).to_be_bytes());
    for field in fields {
        match field {
            None => out.extend((-1_i32).to_be_bytes()),
            Some(bytes) => {
                out.extend((bytes.len() as u32).to_be_bytes());
                out.extend(bytes);
            }
        }
    }
}

/// Appends the end.
pub fn write_end(out: &mut Vec<u8>) {
    out.extend((-1_i16).to_be_bytes());
}

/// Cuts bytes into records.
#[derive(Default)]
pub struct BinaryReader {
    buffer: Vec<u8>,
    at: usize,
    has_ended: bool,
    has_header: bool,
}

type More<'m> = dyn FnMut(&mut Vec<u8>) -> Result<bool> + 'm;

impl BinaryReader {
    /// The next record; none at the end. `more` appends bytes, and says false at their end.
    pub fn next(&mut self, more: &mut More<'_>) -> Result<Option<Vec<Option<Vec<u8>>>>> {
        if !self.has_header {
            self.header(more)?;
            self.has_header = true;
        }
        if self.ends_here(more)? {
            return Ok(None);
        }
        let count = i16::from_be_bytes(self.array(more)?);
        if count == -1 {
            while !self.has_ended {
                self.buffer.clear();
                self.has_ended = !more(&mut self.buffer)?;
            }
            return Ok(None);
        }
        let count = usize::try_from(count).map_err(|_| bad("invalid field count"))?;
        let mut fields = Vec::with_capacity(count);
        let mut record_bytes = 0;
        for _ in 0..count {
            let length = i32::from_be_bytes(self.array(more)?);
            fields.push(match length {
                -1 => None,
                length => {
                    let length = usize::try_from(length).map_err(|_| bad("invalid field size"))?;
                    record_bytes += length;
                    check_record_bytes(record_bytes)?;
                    Some(self.take(length, more)?.to_vec())
                }
            });
        }
        Ok(Some(fields))
    }

    /// Whether the data end where a record could begin: some clients leave the end out.
    fn ends_here(&mut self, more: &mut More<'_>) -> Result<bool> {
        while self.at == self.buffer.len() {
            if self.has_ended {
                return Ok(true);
            }
            self.buffer.clear();
            self.at = 0;
            self.has_ended = !more(&mut self.buffer)?;
        }
        Ok(false)
    }

    fn header(&mut self, more: &mut More<'_>) -> Result<()> {
        let wrong = |_| bad("COPY file signature not recognized");
        let signature = self.take(SIGNATURE.len(), more).map_err(wrong)?;
        if signature != SIGNATURE {
            return Err(bad("COPY file signature not recognized"));
        }
        let flags = u32::from_be_bytes(self.array(more)?);
        if flags & CRITICAL_FLAGS != 0 {
            return Err(bad("unrecognized critical flags in COPY file header"));
        }
        let extension = i32::from_be_bytes(self.array(more)?);
        let extension = usize::try_from(extension)
            .map_err(|_| bad("invalid COPY file header (wrong length)"))?;
        check_record_bytes(extension)?;
        self.take(extension, more).map(drop)
    }

    fn array<const N: usize>(&mut self, more: &mut More<'_>) -> Result<[u8; N]> {
        let bytes = self.take(N, more)?;
        <[u8; N]>::try_from(bytes).map_err(|_| unexpected_end())
    }

    fn take(&mut self, count: usize, more: &mut More<'_>) -> Result<&[u8]> {
        while self.buffer.len() - self.at < count {
            if self.has_ended {
                return Err(unexpected_end());
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            self.has_ended = !more(&mut self.buffer)?;
        }
        let start = self.at;
        self.at += count;
        Ok(&self.buffer[start..self.at])
    }
}

fn bad(message: &str) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

fn unexpected_end() -> SqlError {
    bad("unexpected EOF in COPY data")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back_in_pieces_of_any_size() {
        let records = [
            vec![Some(vec![1, 2]), None],
            vec![Some(Vec::new()), Some(vec![9])],
        ];
        let mut data = Vec::new();
        write_header(&mut data);
        for record in &records {
            write_fields(&mut data, record);
        }
        write_end(&mut data);
        for size in 1..data.len() {
            let mut pieces = data.chunks(size);
            let mut more = |out: &mut Vec<u8>| {
                let piece = pieces.next();
                out.extend(piece.into_iter().flatten());
                Ok(piece.is_some())
            };
            let mut reader = BinaryReader::default();
            for record in &records {
                assert_eq!(reader.next(&mut more).unwrap().as_ref(), Some(record));
            }
            assert_eq!(reader.next(&mut more).unwrap(), None);
        }
    }

    #[test]
    fn damaged_bytes_are_one_error() {
        let mut data = Vec::new();
        write_header(&mut data);
        data.extend([0, 1, 0, 0, 0, 9, 1]);
        for end in 0..data.len() {
            let mut pieces = Some(data[..end].to_vec());
            let mut reader = BinaryReader::default();
            let refused = reader.next(&mut |out| {
                let piece = pieces.take();
                out.extend(piece.iter().flatten());
                Ok(piece.is_some())
            });
            if end == SIGNATURE.len() + 8 {
                assert_eq!(refused.unwrap(), None);
                continue;
            }
            assert_eq!(refused.unwrap_err().state, SqlState::BAD_COPY_FILE_FORMAT);
        }
    }
}
