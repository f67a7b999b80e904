//! The columns of two relations as raw little-endian files, one a column, for engines in other
//! processes.
//!
//! The files hold exactly the keys and payloads that our own join is given, in the same order. They
//! lie in shared memory, are written through a small buffer, and are gone as soon as every engine
//! has read them.

use anyhow::{Context, Result};
use join::data::Relations;
use join::{Tuple, Word};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Bytes that are written at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes `r_key`, `r_payload`, `s_key` and `s_payload` into a directory.
pub(crate) fn write<T: Tuple>(directory: &Path, relations: &Relations<T>) -> Result<()> {
    for (name, tuples) in [("r", &relations.r), ("s", &relations.s)] {
        column(directory, &format!("{name}_key"), tuples, T::key)?;
        column(directory, &format!("{name}_payload"), tuples, T::payload)?;
    }
    Ok(())
}

fn column<T: Tuple>(
    directory: &Path,
    name: &str,
    tuples: &[T],
    value: impl Fn(T) -> T::Word,
) -> Result<()> {
    let written = || -> std::io::Result<()> {
        let mut file = File::create(directory.join(name))?;
        let value_bytes = size_of::<T::Word>();
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        for some in tuples.chunks(BUFFER_BYTES / value_bytes) {
            buffer.clear();
            for tuple in some {
                let wide = to_u64(value(*tuple)).to_le_bytes();
                buffer.extend_from_slice(&wide[..value_bytes]);
            }
            file.write_all(&buffer)?;
        }
        Ok(())
    };
    written().with_context(|| format!("cannot write the column {name} in {}", directory.display()))
}

fn to_u64<W: Word>(word: W) -> u64 {
    word.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use join::data::Workload;
    use join::{Tuple8, Tuple16};

    #[test]
    fn a_column_is_its_values_in_order() {
        let scratch = Scratch::new().unwrap();
        let made = Workload::uniform(300_000, 1).generate::<Tuple8>(2);
        write(scratch.path(), &made).unwrap();
        let bytes = std::fs::read(scratch.path().join("r_payload")).unwrap();
        let read = bytes.as_chunks::<4>().0.iter();
        let read: Vec<u32> = read.map(|bytes| u32::from_le_bytes(*bytes)).collect();
        let written: Vec<u32> = made.r.iter().map(|tuple| tuple.payload()).collect();
        assert!(read == written);
        let made = Workload::uniform(2, 3).generate::<Tuple16>(1);
        write(scratch.path(), &made).unwrap();
        let bytes = std::fs::read(scratch.path().join("s_key")).unwrap();
        assert_eq!(bytes[..8], made.s[0].key().to_le_bytes());
        assert_eq!(bytes.len(), 24);
    }
}
