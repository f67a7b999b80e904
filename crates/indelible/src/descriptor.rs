//! The descriptor: the small file by which a directory is recognised as a database.
//!
//! It is written last when a database is created, under a temporary name that is synced and then
//! renamed, so a directory either has a whole descriptor or its creation was interrupted. Its
//! record never changes afterwards. The two places after it, which the [`Roster`] takes in turn,
//! change at each opening and each orderly end. Partition files carry the database's identity as
//! well, so files of two databases cannot be mixed.
//!
//! ```text
//! file     record, 128 bytes | zeros to 4096 | roster of an even generation | roster of an odd one
//! ```
//!
//! Version 1 is the record alone: such a database opens as it did, and its first opening for
//! writing makes it version 2.
//!
//! | field | offset | bytes | meaning |
//! |---|---|---|---|
//! | magic | 0 | 8 | `INDELIBL` |
//! | version | 8 | 4 | format version, 2; in a backup 1 |
//! | endianness | 12 | 4 | `0x0A0B_0C0D` as the writer stores it |
//! | identity | 16 | 16 | random, which distinguishes two databases |
//! | method | 32 | 4 | [`Method::code`] |
//! | partitions | 36 | 4 | from 1 |
//! | layout | 40 | 4 | 1 together, 2 separate |
//! | node bytes | 44 | 4 | bytes of an index node |
//! | domain | 48 | 4 | the domain asked for at creation, 0 if none was |
//! | fences | 52 | 4 | 1 shared, 2 as in the paper |
//! | created | 56 | 8 | seconds since 1970 |
//! | memtable bytes | 64 | 8 | of log-structured methods; 0 if none were asked for at creation |
//! | roster bytes | 72 | 4 | of each place for a roster, from version 2 on |
//! | zero | 76 | 48 | for later versions |
//! | checksum | 124 | 4 | CRC-32C of the bytes before |

use crate::error::{Error, Result};
pub(crate) use crate::file_names::DESCRIPTOR;
use crate::file_names::{DESCRIPTOR_NEW, is_ours, partition_of};
use crate::roster::{ROSTER_HEAD_BYTES, Roster};
use disk::{Directory, File};
use pmem::{Domain, Site, site};
use storage::engine::{FenceOrder, Method};
use storage::record::LayoutKind;

const MAGIC: [u8; 8] = *b"INDELIBL";
const VERSION: u32 = 2;
/// Position of the first roster.
const ROSTERS_AT: u64 = 4096;
/// Bytes of a place for a roster are a multiple of this.
const ROSTER_BYTES: usize = 4096;
const ROSTER_BYTES_AT: usize = 72;
/// The longest roster that is believed, with about a million files.
const ROSTER_BYTES_MAX: u64 = 64 << 20;
const ENDIANNESS: u32 = 0x0A0B_0C0D;
/// Length of the record.
pub(crate) const BYTES: usize = 128;
const CHECKSUM_AT: usize = BYTES - 4;

/// Settings that are fixed when a database is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) database_id: u128,
    pub(crate) method: Method,
    pub(crate) partitions: u32,
    pub(crate) layout: LayoutKind,
    pub(crate) node_bytes: u32,
    pub(crate) domain: Option<Domain>,
    pub(crate) fences: FenceOrder,
    pub(crate) created_s: u64,
    pub(crate) memtable_bytes: Option<u64>,
}

impl Descriptor {
    /// Writes the descriptor durably; afterwards the directory is a database.
    pub(crate) fn write(&self, files: &impl Directory, roster: &Roster) -> Result<()> {
        if files.exists(DESCRIPTOR_NEW)? {
            files.remove(DESCRIPTOR_NEW)?;
        }
        let mut file = files.create(DESCRIPTOR_NEW)?;
        let written = self.write_whole(&mut file, roster);
        drop(file);
        if written.is_err() {
            // The space is given back; the first error is the one to report.
            let _ = files.remove(DESCRIPTOR_NEW);
        }
        written?;
        files.rename(DESCRIPTOR_NEW, DESCRIPTOR)?;
        // commit point: the directory is a database from here on.
        files.sync(site!("database.descriptor-name"))?;
        Ok(())
    }

    /// Writes all of a new file, with room for rosters that are twice as long, durable except for
    /// its name.
    fn write_whole(&self, file: &mut impl File, roster: &Roster) -> Result<()> {
        let roster_of = roster.encode(self.database_id);
        let room = (2 * roster_of.len()).next_multiple_of(ROSTER_BYTES);
        let mut record = self.encode();
        record[8..12].copy_from_slice(&VERSION.to_le_bytes());
        record[ROSTER_BYTES_AT..ROSTER_BYTES_AT + 4].copy_from_slice(&(room as u32).to_le_bytes());
        seal(&mut record);
        file.set_bytes(ROSTERS_AT + 2 * room as u64)?;
        file.write_at(0, &record)?;
        file.write_at(roster_at(roster, room as u64), &roster_of)?;
        Ok(file.sync(site!("database.descriptor-bytes"))?)
    }

    /// Writes a roster to the place whose turn it is, durably.
    pub(crate) fn write_roster(&self, files: &impl Directory, roster: &Roster) -> Result<()> {
        self.put_roster(files, roster, site!("database.roster"))
    }

    fn put_roster(
        &self,
        files: &impl Directory,
        roster: &Roster,
        site: &'static Site,
    ) -> Result<()> {
        let mut file = files.open(DESCRIPTOR)?;
        let room = rooms(&mut file)?.unwrap_or_default();
        let bytes = roster.encode(self.database_id);
        if bytes.len() as u64 > room {
            drop(file);
            return self.write(files, roster);
        }
        file.write_at(roster_at(roster, room), &bytes)?;
        Ok(file.sync(site)?)
    }

    /// Makes the roster that was found durable. It, or the name of its file, may be in a cache
    /// only, and no file may be of a later generation than the one after the newest durable roster.
    pub(crate) fn secure_roster(&self, files: &impl Directory, found: &Roster) -> Result<()> {
        self.put_roster(files, found, site!("database.roster-found"))?;
        Ok(files.sync(site!("database.descriptor-found"))?)
    }

    /// As [`Descriptor::read`], with the newest roster; a database of format 1 has none.
    pub(crate) fn read_whole(files: &impl Directory) -> Result<(Self, Option<Roster>)> {
        let recorded = Self::read_record(files)?;
        let mut file = files.open(DESCRIPTOR)?;
        let Some(room) = rooms(&mut file)? else {
            return Ok((recorded, None));
        };
        let (found, wanted) = (file.bytes()?, ROSTERS_AT + 2 * room);
        if found < wanted {
            return Err(damaged(format!("it has {found} bytes instead of {wanted}")));
        }
        let mut newest: Option<Roster> = None;
        for place in 0..2 {
            let at = ROSTERS_AT + place * room;
            let mut head = [0; ROSTER_HEAD_BYTES];
            file.read_at(at, &mut head)?;
            let length = u64::from(Roster::length(head)).max(head.len() as u64);
            if length > room.min(ROSTER_BYTES_MAX) {
                continue;
            }
            let mut bytes = vec![0; length as usize];
            file.read_at(at, &mut bytes)?;
            let read = Roster::decode(&bytes, recorded.database_id);
            newest = newest
                .into_iter()
                .chain(read)
                .max_by_key(|roster| roster.generation);
        }
        match newest {
            Some(roster) => Ok((recorded, Some(roster))),
            None => Err(damaged("neither list of its files is as it was written")),
        }
    }

    /// Reads the descriptor of a directory.
    pub(crate) fn read(files: &impl Directory) -> Result<Self> {
        Self::read_whole(files).map(|(recorded, _)| recorded)
    }

    fn read_record(files: &impl Directory) -> Result<Self> {
        if !files.exists(DESCRIPTOR)? {
            return Err(no_descriptor(&files.list()?));
        }
        let mut file = files.open(DESCRIPTOR)?;
        let found = file.bytes()?;
        if found < BYTES as u64 {
            return Err(Error::DamagedDescriptor {
                detail: format!("it has {found} bytes instead of {BYTES}"),
            });
        }
        let mut bytes = [0; BYTES];
        file.read_at(0, &mut bytes)?;
        Self::decode(&bytes)
    }

    /// The record as version 1 has it, which a backup keeps.
    pub(crate) fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(8, &1_u32.to_le_bytes());
        put(12, &ENDIANNESS.to_le_bytes());
        put(16, &self.database_id.to_le_bytes());
        put(32, &self.method.code().to_le_bytes());
        put(36, &self.partitions.to_le_bytes());
        put(40, &layout_code(self.layout).to_le_bytes());
        put(44, &self.node_bytes.to_le_bytes());
        put(48, &domain_code(self.domain).to_le_bytes());
        put(52, &fences_code(self.fences).to_le_bytes());
        put(56, &self.created_s.to_le_bytes());
        put(64, &self.memtable_bytes.unwrap_or(0).to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Its content without the identity and the time, for the copy in the commit table.
    pub(crate) fn words(&self) -> [u64; 4] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [
            pair(self.method.code(), self.partitions),
            pair(layout_code(self.layout), self.node_bytes),
            pair(domain_code(self.domain), fences_code(self.fences)),
            self.memtable_bytes.unwrap_or(0),
        ]
    }

    /// The descriptor whose copy this is; none if the words are zero, or are not those of a
    /// descriptor.
    pub(crate) fn from_words(database_id: u128, created_s: u64, words: [u64; 4]) -> Option<Self> {
        let (low, high) = (
            |at: usize| words[at] as u32,
            |at: usize| (words[at] >> 32) as u32,
        );
        Some(Self {
            database_id,
            method: Method::from_code(low(0))?,
            partitions: high(0),
            layout: layout_of(low(1)).ok()?,
            node_bytes: high(1),
            domain: domain_of(low(2)).ok()?,
            fences: fences_of(high(2)).ok()?,
            created_s,
            memtable_bytes: Some(words[3]).filter(|bytes| *bytes > 0),
        })
    }

    /// The checks come in this order so that the message names the real cause: a foreign file
    /// before a damaged one, a newer version (whose checksum may be elsewhere) before a wrong
    /// checksum.
    pub(crate) fn decode(bytes: &[u8; BYTES]) -> Result<Self> {
        let word = |at: usize| -> u32 {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if bytes[..8] != MAGIC {
            return Err(damaged("it does not begin with the mark of a database"));
        }
        if word(12) == ENDIANNESS.swap_bytes() {
            return Err(Error::OtherEndian);
        }
        let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
        let intact = checksum == word(CHECKSUM_AT);
        if word(8) > VERSION && (intact || word(12) == ENDIANNESS && word(8) < 1 << 16) {
            return Err(Error::NewerVersion {
                found: word(8),
                supported: VERSION,
            });
        }
        if !intact {
            let found = word(CHECKSUM_AT);
            return Err(damaged(format!(
                "its checksum is {found:#010x}, its bytes give {checksum:#010x}"
            )));
        }
        let code = word(32);
        Ok(Self {
            database_id: u128::from(long(16)) | u128::from(long(24)) << 64,
            method: Method::from_code(code)
                .ok_or_else(|| damaged(format!("it names method number {code}")))?,
            partitions: word(36),
            layout: layout_of(word(40))?,
            node_bytes: word(44),
            domain: domain_of(word(48))?,
            fences: fences_of(word(52))?,
            created_s: long(56),
            memtable_bytes: Some(long(64)).filter(|bytes| *bytes > 0),
        })
    }
}

/// Writes the checksum of a record.
fn seal(record: &mut [u8; BYTES]) {
    let checksum = crc32c::crc32c(&record[..CHECKSUM_AT]);
    record[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
}

/// The bytes of each place for a roster in a decoded descriptor; none in version 1.
fn rooms(file: &mut impl File) -> Result<Option<u64>> {
    let mut record = [0; BYTES];
    file.read_at(0, &mut record)?;
    let number = |at: usize| record[at..].first_chunk().copied().map(u32::from_le_bytes);
    let room = number(ROSTER_BYTES_AT).map(u64::from);
    Ok(room.filter(|_| number(8) >= Some(2)))
}

/// Position of a roster in the file.
fn roster_at(roster: &Roster, room: u64) -> u64 {
    ROSTERS_AT + roster.generation % 2 * room
}

/// Says why a directory without a descriptor is no database.
fn no_descriptor(names: &[String]) -> Error {
    let left: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| is_ours(name))
        .collect();
    if left.is_empty() {
        return Error::NotADatabase {
            path: DESCRIPTOR.into(),
            reason: "the file is not there; create a database first, or correct the path".into(),
        };
    }
    let files = left.join(", ");
    // The partitions are made before the descriptor, so without it they may be empty or hold
    // everything.
    if left.iter().any(|name| partition_of(name).is_some()) {
        Error::NoDescriptor { files }
    } else {
        Error::Incomplete { files }
    }
}

fn damaged(detail: impl Into<String>) -> Error {
    Error::DamagedDescriptor {
        detail: detail.into(),
    }
}

fn layout_code(layout: LayoutKind) -> u32 {
    match layout {
        LayoutKind::Together => 1,
        LayoutKind::Separate => 2,
    }
}

fn layout_of(code: u32) -> Result<LayoutKind> {
    match code {
        1 => Ok(LayoutKind::Together),
        2 => Ok(LayoutKind::Separate),
        _ => Err(damaged(format!("it names layout number {code}"))),
    }
}

fn domain_code(domain: Option<Domain>) -> u32 {
    match domain {
        None => 0,
        Some(Domain::Process) => 1,
        Some(Domain::File) => 2,
        Some(Domain::Flush) => 3,
        Some(Domain::FlushFree) => 4,
    }
}

fn domain_of(code: u32) -> Result<Option<Domain>> {
    Ok(match code {
        0 => None,
        1 => Some(Domain::Process),
        2 => Some(Domain::File),
        3 => Some(Domain::Flush),
        4 => Some(Domain::FlushFree),
        _ => return Err(damaged(format!("it names domain number {code}"))),
    })
}

fn fences_code(fences: FenceOrder) -> u32 {
    match fences {
        FenceOrder::Shared => 1,
        FenceOrder::Paper => 2,
        FenceOrder::Single => 3,
    }
}

fn fences_of(code: u32) -> Result<FenceOrder> {
    match code {
        1 => Ok(FenceOrder::Shared),
        2 => Ok(FenceOrder::Paper),
        3 => Ok(FenceOrder::Single),
        _ => Err(damaged(format!("it names fence order number {code}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Descriptor {
        Descriptor {
            database_id: 0x0123_4567_89AB_CDEF_0011_2233_4455_6677,
            method: Method::NvmInp,
            partitions: 3,
            layout: LayoutKind::Separate,
            node_bytes: 512,
            domain: Some(Domain::Flush),
            fences: FenceOrder::Paper,
            created_s: 1_700_000_000,
            memtable_bytes: Some(1 << 20),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Descriptor::decode(&sample().encode()).unwrap(), sample());
        let Descriptor {
            database_id,
            created_s,
            ..
        } = sample();
        let copy = Descriptor::from_words(database_id, created_s, sample().words());
        assert_eq!(copy, Some(sample()));
        assert_eq!(Descriptor::from_words(database_id, created_s, [0; 4]), None);
    }

    #[test]
    fn every_flipped_bit_is_an_error() {
        let whole = sample().encode();
        for bit in 0..BYTES * 8 {
            let mut bytes = whole;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(
                Descriptor::decode(&bytes).is_err(),
                "bit {bit} went unnoticed"
            );
        }
    }

    /// A descriptor could ask for gigabytes of memory, with a file that is long and empty.
    #[test]
    fn a_list_of_files_is_read_as_long_as_it_is() {
        let path = std::env::temp_dir().join(format!("indelible-long-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let files = engines::files_in(&path).unwrap();
        let room = u32::MAX / 4096 * 4096;
        let mut record = sample().encode();
        record[8..12].copy_from_slice(&VERSION.to_le_bytes());
        record[ROSTER_BYTES_AT..ROSTER_BYTES_AT + 4].copy_from_slice(&room.to_le_bytes());
        seal(&mut record);
        std::fs::write(path.join(DESCRIPTOR), record).unwrap();
        let file = std::fs::File::options()
            .write(true)
            .open(path.join(DESCRIPTOR));
        let file = file.unwrap();
        file.set_len(ROSTERS_AT + 2 * u64::from(room)).unwrap();
        for length in [0, room] {
            std::os::unix::fs::FileExt::write_all_at(&file, &length.to_le_bytes(), ROSTERS_AT + 4)
                .unwrap();
            let error = Descriptor::read_whole(&files).unwrap_err();
            assert!(matches!(error, Error::DamagedDescriptor { .. }), "{error}");
        }
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn newer_version_and_other_endian_are_named() {
        let mut newer = sample().encode();
        newer[8] = 3;
        assert!(matches!(
            Descriptor::decode(&newer),
            Err(Error::NewerVersion { found: 3, .. })
        ));
        let mut other = sample().encode();
        other[12..16].reverse();
        assert!(matches!(
            Descriptor::decode(&other),
            Err(Error::OtherEndian)
        ));
    }

    #[test]
    fn what_is_left_of_a_creation_is_recognised() {
        let mut names = vec!["commits.pool".to_owned()];
        assert!(matches!(no_descriptor(&names), Error::Incomplete { .. }));
        names.push("p0.pool".to_owned());
        let error = no_descriptor(&names);
        assert!(matches!(error, Error::NoDescriptor { .. }));
        assert!(!error.to_string().contains("remove"), "{error}");
        assert!(matches!(
            no_descriptor(&["notes.txt".to_owned()]),
            Error::NotADatabase { .. }
        ));
    }
}
