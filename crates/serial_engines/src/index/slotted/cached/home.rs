//! The file where the pages of `nvwal` and `slot-header-journal` are at home.
//!
//! ```text
//! file         [identity, 256 bytes][the same, with the stamp of the database in its last 8 bytes]
//!              …[pages from the second on]
//! identity     magic 8 | version u32 | page bytes u32 | database u128 | partition u32
//!              | crc32c u32 | zeros to 256
//! ```
//!
//! The first page is written and synced before anything refers to the file, and never again. The
//! others are written by checkpoints alone.

use disk::{Directory, DiskCounters, File};
use pmem::site;
use storage::{Result, StorageError, stamp};

const MAGIC: [u8; 8] = *b"INDNVW\x1a\x01";
const VERSION: u32 = 1;
const IDENTITY_BYTES: usize = 256;
const CHECKED_BYTES: usize = 36;
const _: () = assert!(stamp::NVWAL_AT + stamp::BYTES == 2 * IDENTITY_BYTES);
/// The file grows by an eighth of itself, within these bounds.
const GROWTH_BYTES_MIN: u64 = 64 << 10;
const GROWTH_BYTES_MAX: u64 = 32 << 20;

/// Identity of a file: its database, partition and page size.
#[derive(Clone, Copy, Debug)]
pub struct HomeIdentity {
    /// Identity of the database.
    pub database: u128,
    /// Number of the partition.
    pub partition: u32,
    /// Bytes of a page.
    pub page_bytes: usize,
}

impl HomeIdentity {
    fn name(self) -> String {
        format!("p{}.nvwal", self.partition)
    }

    fn encode(self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.page_bytes as u32).to_le_bytes());
        bytes.extend_from_slice(&self.database.to_le_bytes());
        bytes.extend_from_slice(&self.partition.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes.resize(IDENTITY_BYTES, 0);
        bytes
    }
}

/// The file of a partition, whatever device it is on.
pub(super) trait Home: Send {
    /// Fills `out` from `offset`.
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<()>;

    /// Writes at `offset`.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Makes what was written durable.
    fn sync(&mut self) -> Result<()>;

    /// Makes the file so long at least.
    fn grow(&mut self, bytes: u64) -> Result<()>;

    /// Its length.
    fn bytes(&self) -> u64;

    /// Counters of the device.
    fn counters(&self) -> DiskCounters;

    /// An error with the place of the damage in the file.
    fn damaged(&self, offset: u64, detail: String) -> StorageError;
}

/// A file in a directory.
pub(super) struct HomeFile<D: Directory> {
    directory: D,
    file: D::File,
    name: String,
    bytes: u64,
}

impl<D: Directory> HomeFile<D> {
    /// Pages of the file of a new partition, in use or not.
    pub(super) fn pages_of_new(identity: HomeIdentity) -> u64 {
        GROWTH_BYTES_MIN.div_ceil(identity.page_bytes as u64)
    }

    /// Makes the file of a new partition, with the pages `first` after the one of its identity;
    /// durable when it returns.
    pub(super) fn create(directory: D, identity: HomeIdentity, first: &[Vec<u8>]) -> Result<Self> {
        let name = identity.name();
        if directory.exists(&name)? {
            let reason = "another database has files here; choose an empty directory".to_owned();
            return Err(StorageError::foreign_file(name, reason));
        }
        let mut file = directory.create(&name)?;
        let bytes = Self::pages_of_new(identity) * identity.page_bytes as u64;
        file.set_bytes(bytes)?;
        file.write_at(0, &identity.encode().repeat(2))?;
        for (number, page) in (1_u64..).zip(first) {
            file.write_at(number * identity.page_bytes as u64, page)?;
        }
        file.sync(site!("nvwal.create-file"))?;
        directory.sync(site!("nvwal.create-name"))?;
        Ok(Self {
            directory,
            file,
            name,
            bytes,
        })
    }

    /// Opens the file of a partition, which has `bytes_min` bytes at least.
    pub(super) fn open(directory: D, identity: HomeIdentity, bytes_min: u64) -> Result<Self> {
        let name = identity.name();
        let mut file = directory.open(&name)?;
        let bytes = file.bytes()?;
        let mut found = [0; 2 * IDENTITY_BYTES];
        if bytes >= found.len() as u64 {
            file.read_at(0, &mut found)?;
        }
        // The database checks it.
        found[stamp::NVWAL_AT..].fill(0);
        let (first, second) = found.split_at(IDENTITY_BYTES);
        let expected = identity.encode();
        if first != expected && second != expected {
            return Err(refusal(name, first));
        }
        let home = Self {
            directory,
            file,
            name,
            bytes,
        };
        if bytes < bytes_min {
            let detail = format!("it was cut to {bytes} bytes; restore it from a backup");
            return Err(home.damaged(bytes, detail));
        }
        Ok(home)
    }
}

/// Why a file with this identity is not the one that was looked for.
fn refusal(file: String, found: &[u8]) -> StorageError {
    let (checked, sum) = found.split_at(CHECKED_BYTES);
    let version = u32::from_le_bytes([found[8], found[9], found[10], found[11]]);
    let reason = if found[..8] != MAGIC {
        "it is no file of this method".to_owned()
    } else if version > VERSION {
        format!(
            "written by a newer version (format {version}, this program reads up to {VERSION}); upgrade the program"
        )
    } else if crc32c::crc32c(checked).to_le_bytes() != sum[..4] {
        return StorageError::damaged_file(file, 0, "its checksum is wrong");
    } else {
        "it belongs to another database or partition; put the right file back".to_owned()
    };
    StorageError::foreign_file(file, reason)
}

impl<D: Directory> Home for HomeFile<D> {
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<()> {
        Ok(self.file.read_at(offset, out)?)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_at(offset, bytes)?;
        self.bytes = self.bytes.max(offset + bytes.len() as u64);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        // commit point: what was written is at home, and the log may be freed
        Ok(self.file.sync(site!("nvwal.home"))?)
    }

    fn grow(&mut self, bytes: u64) -> Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let step = (self.bytes / 8).clamp(GROWTH_BYTES_MIN, GROWTH_BYTES_MAX);
        let wanted = bytes.max(self.bytes + step);
        self.bytes = match self.file.set_bytes(wanted) {
            Err(disk::DiskError::OutOfSpace { .. }) if wanted > bytes => {
                self.file.set_bytes(bytes)?;
                bytes
            }
            result => result.map(|()| wanted)?,
        };
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn counters(&self) -> DiskCounters {
        self.directory.counters()
    }

    fn damaged(&self, offset: u64, detail: String) -> StorageError {
        StorageError::damaged_file(self.name.clone(), offset, detail)
    }
}
