//! Stamps: by which generation of its database a file was last taken into use.
//!
//! The database gives each opening for writing, and each orderly end, the next generation, and
//! stamps every file that is changed in place with it before it notes it in its descriptor. So an
//! older copy of one file is distinguished from the file itself. The files have a word for that
//! which nothing else reads or writes; this module knows where, and what a stamp looks like. Files
//! that are written once, or whose content the log proves (segments, runs, checkpoints, manifests,
//! pages with a log), have none.
//!
//! ```text
//! stamp    generation, 40 bits | 24 bits of a crc32c of it, from the database's identity
//!          (one word, which no power cut tears)
//! ```

use pmem::OWNER_WORD_AT;

/// Bytes of a stamp.
pub const BYTES: usize = 8;

/// In the file of pages of `nvwal`: at the end of the second copy of its identity.
pub const NVWAL_AT: usize = 504;
/// In the memory of pages: two lines after its start.
pub const NV_PAGES_AT: usize = 128;
/// In the area of page copies, and in a memory of batches: after the word in its second line.
pub const SECOND_LINE_AT: usize = 96;
/// In the file of `cow`: between its master records.
pub const COW_AT: usize = 2048;
/// In the tails of a log: in its head.
pub const TAILS_AT: usize = 256;

/// Bits of a stamp that are a checksum.
const CHECK_BITS: u32 = 24;

/// Offset of the stamp in a file of this name, if it has one.
pub fn place(name: &str) -> Option<u64> {
    let (_, kind) = name.split_once('.')?;
    let (kind, _) = kind.split_once('.').unwrap_or((kind, ""));
    Some(match kind {
        "pool" | "ring" => OWNER_WORD_AT,
        "cow" => COW_AT as u64,
        "nvwal" => NVWAL_AT as u64,
        "nvpages" => NV_PAGES_AT as u64,
        "slots" | "nvbatch" => SECOND_LINE_AT as u64,
        "tails" => TAILS_AT as u64,
        _ => return None,
    })
}

/// The word of a generation of a database.
pub fn word(database: u128, generation: u64) -> u64 {
    let salt = crc32c::crc32c(&database.to_le_bytes());
    let checksum = crc32c::crc32c_append(salt, &generation.to_le_bytes());
    generation << CHECK_BITS | u64::from(checksum & ((1 << CHECK_BITS) - 1))
}

/// The generation in a word, if it is a stamp of this database.
pub fn generation(database: u128, found: u64) -> Option<u64> {
    let generation = found >> CHECK_BITS;
    (generation > 0 && word(database, generation) == found).then_some(generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_back_and_nothing_else_is_one() {
        for number in [1, 2, 77, (1 << 40) - 1] {
            let stamp = word(9, number);
            assert_eq!(generation(9, stamp), Some(number));
            assert_eq!(generation(8, stamp), None);
            for bit in 0..64 {
                assert_eq!(generation(9, stamp ^ 1 << bit), None, "bit {bit}");
            }
        }
        assert_eq!(generation(9, 0), None);
    }

    #[test]
    fn files_that_change_in_place_have_a_place() {
        let stamped = "commits.pool p0.pool p7.ring.12 p0.cow p0.nvwal p0.nvpages p0.slots p0.nvbatch.1 p0.tails";
        assert!(stamped.split(' ').all(|name| place(name).is_some()));
        let others =
            "indelible.db p0.pages p0.wal.000001 p0.manifest p0.run.000001 p0.doublewrite log";
        assert!(others.split(' ').all(|name| place(name).is_none()));
    }
}
