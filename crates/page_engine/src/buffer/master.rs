//! The master record: the start of recovery, and the properties of the file of pages.
//!
//! ```text
//! file     record 0 at 0 and again at 512 | record 1 at 4096 and again at 4608
//!          | pages from 8192, or from one page, on
//! record   magic 8 | version u32 | page bytes u32 | database u128 | partition u32 | guard u32
//!          | generation u64 | segment u64 | LSN u64 | redo LSN u64 | zeros u64
//!          | next transaction u64 | catalogue u32 | pages u32 | crc32c u32 | zeros to 512
//! ```
//!
//! The records are written in turn; the one with the higher generation counts. Each has two copies,
//! in neighbouring sectors: a torn record was never acknowledged, and damage to one sector of the
//! newest leaves the other copy, so it cannot bring an older state back, whose log is gone.

use crate::page::{PAGE_BYTES, PageId};
use disk::{File, SECTOR_BYTES};
use pmem::Site;
use storage::log::{LogIdentity, LogStart, Lsn};
use storage::record::{DecodeError, Reader};
use storage::{Result, StorageError};

const MAGIC: [u8; 8] = *b"INDPAG\x1a\x01";
const VERSION: u32 = 2;
const RECORD_BYTES: usize = SECTOR_BYTES as usize;
const RECORD_AT: [u64; 2] = [0, 4096];
/// Bytes before the first page.
pub(super) const HEAD_BYTES: u64 = 8192;

/// The master record: state that a checkpoint leaves for recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Master {
    /// Grows by one a record.
    pub generation: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// The guard of page writes, by its number.
    pub guard: u32,
    /// Where the log begins: no transaction that was open at the checkpoint has an earlier record.
    pub start: LogStart,
    /// Where redo begins: all earlier changes are in the pages.
    pub redo: Lsn,
    /// No earlier transaction has this number or a higher one.
    pub next_txn: u64,
    /// Root of the catalogue.
    pub catalogue: PageId,
    /// Pages that the file has room for, at least.
    pub pages: u32,
}

impl Master {
    fn encode(&self, identity: LogIdentity) -> [u8; RECORD_BYTES] {
        let mut bytes = Vec::with_capacity(RECORD_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.page_bytes.to_le_bytes());
        bytes.extend_from_slice(&identity.database.to_le_bytes());
        bytes.extend_from_slice(&identity.partition.to_le_bytes());
        bytes.extend_from_slice(&self.guard.to_le_bytes());
        let longs = [
            self.generation,
            self.start.segment,
            self.start.lsn.0,
            self.redo.0,
            0,
            self.next_txn,
        ];
        for long in longs {
            bytes.extend_from_slice(&long.to_le_bytes());
        }
        bytes.extend_from_slice(&self.catalogue.0.to_le_bytes());
        bytes.extend_from_slice(&self.pages.to_le_bytes());
        debug_assert!(
            PAGE_BYTES.contains(&self.page_bytes) && self.page_bytes.is_power_of_two(),
            "pages of {} bytes",
            self.page_bytes
        );
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        let mut record = [0; RECORD_BYTES];
        record[..bytes.len()].copy_from_slice(&bytes);
        record
    }

    /// Writes the record in the place whose turn it is. It counts once the file is synced.
    pub(super) fn write<F: File>(&self, identity: LogIdentity, file: &mut F) -> Result<()> {
        let record = self.encode(identity);
        let mut both = [0; 2 * RECORD_BYTES];
        both[..RECORD_BYTES].copy_from_slice(&record);
        both[RECORD_BYTES..].copy_from_slice(&record);
        file.write_at(RECORD_AT[(self.generation % 2) as usize], &both)?;
        Ok(())
    }

    /// Writes what both places must have in a new file.
    pub(super) fn write_both<F: File>(
        &mut self,
        identity: LogIdentity,
        file: &mut F,
        site: &'static Site,
    ) -> Result<()> {
        self.write(identity, file)?;
        self.generation += 1;
        self.write(identity, file)?;
        Ok(file.sync(site)?)
    }

    /// The record that counts, and one sentence for each copy that is not as it was written.
    pub(super) fn read<F: File>(
        name: &str,
        identity: LogIdentity,
        file: &mut F,
    ) -> Result<(Self, Vec<String>)> {
        let foreign = |reason: String| StorageError::foreign_file(name, reason);
        if file.bytes()? < HEAD_BYTES {
            let reason = format!("it is shorter than the {HEAD_BYTES} bytes in front of its pages");
            return Err(StorageError::damaged_file(name, 0, reason));
        }
        let mut found: Option<Self> = None;
        let mut wrong = Vec::new();
        for at in RECORD_AT.into_iter().flat_map(|at| [at, at + SECTOR_BYTES]) {
            let mut record = [0; RECORD_BYTES];
            file.read_at(at, &mut record)?;
            match Self::decode(&record) {
                Ok((owner, _)) if owner != identity => {
                    let whose = if owner.database == identity.database {
                        format!("partition {}, not {}", owner.partition, identity.partition)
                    } else {
                        format!("another database, {:032x}", owner.database)
                    };
                    return Err(foreign(format!("it belongs to {whose}")));
                }
                Ok((_, master)) => {
                    if found.is_none_or(|found| found.generation < master.generation) {
                        found = Some(master);
                    }
                }
                Err(Unreadable::Version(version)) if version == VERSION.swap_bytes() => {
                    return Err(foreign(
                        "it was written on a big-endian machine, and this one is little-endian; dump it there and load it here"
                            .to_owned(),
                    ));
                }
                Err(Unreadable::Version(version)) => {
                    return Err(foreign(format!(
                        "its format has version {version}, and this program reads version {VERSION}"
                    )));
                }
                Err(Unreadable::Damaged(detail)) => {
                    wrong.push(format!("{name} at offset {at} is damaged: {detail}"));
                }
            }
        }
        found.map(|master| (master, wrong)).ok_or_else(|| {
            let detail = "none of its master records is intact".to_owned();
            StorageError::damaged_file(name, 0, detail)
        })
    }

    fn decode(record: &[u8; RECORD_BYTES]) -> Result<(LogIdentity, Self), Unreadable> {
        const WHAT: &str = "a master record";
        let mut reader = Reader::new(record);
        if reader.array::<8>(WHAT)? != MAGIC {
            return Err(Unreadable::Damaged("it is no master record".to_owned()));
        }
        let version = reader.number(WHAT)?;
        let page_bytes = reader.number(WHAT)?;
        let database = u128::from_le_bytes(reader.array(WHAT)?);
        let partition = reader.number(WHAT)?;
        let guard = reader.number(WHAT)?;
        let mut long = || reader.array(WHAT).map(u64::from_le_bytes);
        let generation = long()?;
        let start = LogStart {
            segment: long()?,
            lsn: Lsn(long()?),
        };
        let redo = Lsn(long()?);
        // Earlier versions counted commits there.
        long()?;
        let next_txn = long()?;
        let catalogue = PageId(reader.number(WHAT)?);
        let pages = reader.number(WHAT)?;
        let checked = RECORD_BYTES - reader.remaining();
        let expected = crc32c::crc32c(&record[..checked]);
        let found = reader.number(WHAT)?;
        if version != VERSION {
            return Err(Unreadable::Version(version));
        }
        if expected != found {
            return Err(Unreadable::Damaged(format!(
                "its checksum is {found:08x} instead of {expected:08x}"
            )));
        }
        if !record[checked + 4..].iter().all(|&byte| byte == 0) {
            return Err(Unreadable::Damaged(
                "bytes behind it are not zero".to_owned(),
            ));
        }
        if !PAGE_BYTES.contains(&page_bytes) || !page_bytes.is_power_of_two() {
            return Err(Unreadable::Damaged(format!(
                "its pages have {page_bytes} bytes"
            )));
        }
        let identity = LogIdentity {
            database,
            partition,
        };
        let master = Self {
            generation,
            page_bytes,
            guard,
            start,
            redo,
            next_txn,
            catalogue,
            pages,
        };
        Ok((identity, master))
    }
}

/// Why a record does not count.
enum Unreadable {
    Version(u32),
    Damaged(String),
}

impl From<DecodeError> for Unreadable {
    fn from(error: DecodeError) -> Self {
        Self::Damaged(error.to_string())
    }
}
