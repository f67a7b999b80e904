//! Files that are no text, or none in UTF-8, known by their first bytes.
//!
//! Read as separated values they would give rows of nonsense, or one error a row. So each is
//! refused with its kind and the remedy; files that are not recognised for certain are left to the
//! reader of records.

/// Why these bytes at the start of a file cannot be separated values; `None` if they may be.
pub(crate) fn reason(head: &[u8]) -> Option<&'static str> {
    Some(match head {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => {
            "it is in UTF-16; convert it first, for example with iconv -f UTF-16 -t UTF-8"
        }
        [1..=255, 0, 1..=255, 0, ..] => {
            "it is in UTF-16; convert it first, for example with iconv -f UTF-16LE -t UTF-8"
        }
        [0, 1..=255, 0, 1..=255, ..] => {
            "it is in UTF-16; convert it first, for example with iconv -f UTF-16BE -t UTF-8"
        }
        [b'P', b'K', 3, 4, ..] => {
            "it is a ZIP archive or a spreadsheet; extract it, or save the sheet as CSV, first"
        }
        [0xD0, 0xCF, 0x11, 0xE0, ..] => "it is a spreadsheet; save the sheet as CSV first",
        [0x1F, 0x8B, ..] | [0x28, 0xB5, 0x2F, 0xFD, ..] => {
            "it is compressed more than once; decompress it first"
        }
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => {
            "it is compressed with xz; decompress it first (gzip and Zstandard are read as they are)"
        }
        [b'B', b'Z', b'h', _, 0x31, 0x41, 0x59, 0x26, ..] => {
            "it is compressed with bzip2; decompress it first (gzip and Zstandard are read as they are)"
        }
        [0x04, 0x22, 0x4D, 0x18, ..] => {
            "it is compressed with LZ4; decompress it first (gzip and Zstandard are read as they are)"
        }
        [b'P', b'A', b'R', b'1', ..] => "it is a Parquet file; export it as CSV first",
        _ if head.starts_with(b"SQLite format 3\0") => {
            "it is a SQLite database; export its table as CSV first"
        }
        _ => return None,
    })
}
