//! The archive of a log: records that recovery no longer needs, moved to numbered files before
//! their space is reused.
//!
//! ```text
//! file     header | records
//! record   number u64 | bytes u64 | payload, padded with zeros to a multiple of 8
//! ```
//!
//! | header field | bytes | meaning |
//! |---|---|---|
//! | magic | 8 | `INDLARC\n` |
//! | version | 4 | 1 |
//! | partition | 4 | number of the partition |
//! | database | 16 | identity of the database |
//! | number | 8 | the number in the file's name |
//! | first, end | 16 | the file has every record from number `first` up to, but without, `end` |
//! | records | 8 | how many those are |
//! | bytes | 8 | length of the file |
//! | zero | 8 | |
//! | content | 4 | crc32c of everything after the header, seeded with the database's identity |
//! | checksum | 4 | crc32c of all fields before |
//!
//! Invariants, proven by the crash tests:
//! 1. A file is whole and durable before it gets its name, and its name is durable before the log
//!    gives the space of its records back. So a record is in the log, or in the archive, or in
//!    both.
//! 2. A file begins where the one before it ended. After a crash archiving goes on where the newest
//!    file ends, so no record is in two files. A file that begins after that point shows that a log
//!    was used without its archive: a *gap*.
//! 3. A name that is found need not be durable: the process that gave it may have died. Every
//!    opening that may write relies on the names, so it syncs the directory first.
//! 4. After a failure the next attempt begins a new file, which gets the same name, so a sync that
//!    failed is never taken for done.
//!
//! After the asynchronous backup of cold log in NV-Logging (Huang, Schwan, Qureshi: VLDB 2014,
//! section 5.1).

use super::position::{LogIdentity, Lsn};
use super::wal_segment::{damage, other_byte_order, read_u32, read_u64};
use crate::error::{Result, StorageError};
use crate::record::Timestamp;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use disk::{Directory, DiskError, File};
use pmem::site;
use std::ops::ControlFlow;

const KIND: &str = "archive";
const MAGIC: [u8; 8] = *b"INDLARC\n";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 88;
const CHECKED_BYTES: usize = HEADER_BYTES - 4;
const RECORD_HEADER_BYTES: usize = 16;
/// Bytes that are gathered before they go to the file, and read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// Takes the next record of an archive, or breaks off before it.
pub type VisitArchived<'v> = dyn FnMut(Lsn, &[u8]) -> Result<ControlFlow<()>> + 'v;

/// Header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    identity: LogIdentity,
    number: u64,
    first: Lsn,
    end: Lsn,
    records: u64,
    bytes: u64,
    content: u32,
}

impl Header {
    fn encode(&self) -> Vec<u8> {
        let mut fields = Vec::with_capacity(HEADER_BYTES);
        fields.extend_from_slice(&MAGIC);
        fields.extend_from_slice(&VERSION.to_le_bytes());
        fields.extend_from_slice(&self.identity.partition.to_le_bytes());
        fields.extend_from_slice(&self.identity.database.to_le_bytes());
        for word in [
            self.number,
            self.first.0,
            self.end.0,
            self.records,
            self.bytes,
        ] {
            fields.extend_from_slice(&word.to_le_bytes());
        }
        // Keeps the sum of all fields a multiple of 8.
        fields.extend_from_slice(&[0; 8]);
        fields.extend_from_slice(&self.content.to_le_bytes());
        debug_assert_eq!(
            fields.len(),
            CHECKED_BYTES,
            "the fields end at the checksum"
        );
        fields.extend_from_slice(&crc32c::crc32c(&fields).to_le_bytes());
        fields
    }

    /// Reads a header, and checks that the file is the one that its name and its database say.
    fn decode(
        name: &str,
        identity: LogIdentity,
        number: u64,
        data: &[u8],
        file_bytes: u64,
    ) -> Result<Self> {
        let foreign = |reason: String| StorageError::foreign_file(name, reason);
        if !data.starts_with(&MAGIC) {
            return Err(foreign(
                "it does not begin as a file of an archive does".to_owned(),
            ));
        }
        let short = || damage(name, data.len() as u64, "the file ends in its header");
        let version = read_u32(data, 8).ok_or_else(short)?;
        if let Some(reason) = other_byte_order(version, 1..=VERSION) {
            return Err(foreign(reason.to_owned()));
        }
        let sum = read_u32(data, CHECKED_BYTES).ok_or_else(short)?;
        if crc32c::crc32c(data.get(..CHECKED_BYTES).ok_or_else(short)?) != sum {
            return Err(damage(name, 0, "the checksum of the header is wrong"));
        }
        if version != VERSION {
            let reason = format!("it has version {version}; this program reads {VERSION}");
            return Err(foreign(reason));
        }
        let word = |at| read_u64(data, at).ok_or_else(short);
        let database = u128::from(word(16)?) | u128::from(word(24)?) << 64;
        let header = Self {
            identity: LogIdentity {
                partition: read_u32(data, 12).ok_or_else(short)?,
                database,
            },
            number: word(32)?,
            first: Lsn(word(40)?),
            end: Lsn(word(48)?),
            records: word(56)?,
            bytes: word(64)?,
            content: read_u32(data, 80).ok_or_else(short)?,
        };
        if header.identity != identity {
            return Err(foreign(
                "it belongs to another database or partition; give each database an archive of its own"
                    .to_owned(),
            ));
        }
        if header.number != number {
            let reason = format!("it is file {} under another name", header.number);
            return Err(foreign(reason));
        }
        if header.bytes != file_bytes {
            let detail = format!(
                "the file has {file_bytes} bytes instead of {}",
                header.bytes
            );
            return Err(damage(name, file_bytes, detail));
        }
        if header.end < header.first {
            return Err(damage(name, 48, "it ends in front of where it begins"));
        }
        if header.end >= Lsn::END {
            return Err(damage(name, 48, "it ends behind every place of a log"));
        }
        Ok(header)
    }
}

/// Content of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveRange {
    /// Files.
    pub files: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// The first record's number, and the one after the last; none for an empty archive.
    pub range: Option<(Lsn, Lsn)>,
    /// Records in between that are not there: their log was used without its archive.
    pub gaps: Vec<(Lsn, Lsn)>,
    /// When the first and the newest of the commits in it were made which have a time.
    pub times: Option<(Timestamp, Timestamp)>,
}

impl ArchiveRange {
    /// Notes that the log goes on at `first`, and whether earlier records are missing.
    pub fn add_gap(&mut self, first: Lsn) {
        if let Some((_, end)) = self.range.filter(|(_, end)| *end < first) {
            self.gaps.push((end, first));
        }
    }

    /// Notes when a commit was made.
    pub fn add_time(&mut self, time: Timestamp) {
        let first = self.times.map_or(time, |(first, _)| first);
        // A clock that was set back makes nothing earlier.
        let newest = self.times.map_or(time, |(_, newest)| newest.max(time));
        self.times = Some((first, newest));
    }
}

/// How an archive fares, for those who watch it without the log.
#[derive(Debug, Default)]
pub struct ArchiveWatch {
    taken: AtomicU64,
    failed: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl ArchiveWatch {
    /// Notes whether the archive has taken records, and returns it.
    pub fn note(&self, added: &Result<()>) -> bool {
        let (count, failure) = match added {
            Ok(()) => (&self.taken, None),
            Err(error) => (&self.failed, Some(error.to_string())),
        };
        count.fetch_add(1, Ordering::Relaxed);
        *lock(&self.failure) = failure;
        added.is_ok()
    }

    /// Times that it has taken records, and that it has not, since the opening.
    pub fn counts(&self) -> (u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.taken), of(&self.failed))
    }

    /// The error of the last attempt, if it failed.
    pub fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }
}

/// The archive of one partition's log.
pub struct Archive<D: Directory> {
    directory: D,
    identity: LogIdentity,
    /// Number of the next file.
    next: u64,
    /// Behind the newest record.
    end: Option<Lsn>,
}

/// A file that gets records.
pub struct ArchiveFile<F> {
    file: F,
    header: Header,
    buffer: Vec<u8>,
    written: u64,
}

impl<D: Directory> Archive<D> {
    /// Opens the archive of a log, or begins one. Writes nothing.
    pub fn open(directory: D, identity: LogIdentity) -> Result<Self> {
        let mut archive = Self {
            directory,
            identity,
            next: 1,
            end: None,
        };
        if let Some(&number) = identity.numbers(&archive.directory, KIND)?.last() {
            let header = archive.open_file(number)?.1;
            archive.next = number + 1;
            archive.end = Some(header.end);
        }
        Ok(archive)
    }

    /// Makes the names durable that were found, before the log relies on their files.
    pub fn secure(&self) -> Result<()> {
        if self.end.is_some() {
            // commit point: what a process that has died put into the archive is there for good
            self.directory.sync(site!("archive.found"))?;
        }
        Ok(())
    }

    /// Behind the newest record that it has; none if it has none.
    pub fn end(&self) -> Option<Lsn> {
        self.end
    }

    /// Begins a file with the records from `first` on. Removes the file of an earlier attempt.
    pub fn begin(&self, first: Lsn) -> Result<ArchiveFile<D::File>> {
        assert!(
            self.end <= Some(first),
            "a record is in one file of an archive only"
        );
        let name = self.unpublished_name();
        if self.directory.exists(&name)? {
            self.directory.remove(&name)?;
        }
        let header = Header {
            identity: self.identity,
            number: self.next,
            first,
            end: first,
            records: 0,
            bytes: 0,
            content: seed(self.identity),
        };
        Ok(ArchiveFile {
            file: self.directory.create(&name)?,
            header,
            buffer: Vec::new(),
            written: HEADER_BYTES as u64,
        })
    }

    /// Ends a file that has every record before `end`, durably. Afterwards the log may use their
    /// space again.
    pub fn publish(&mut self, mut file: ArchiveFile<D::File>, end: Lsn) -> Result<()> {
        assert!(
            file.header.number == self.next && file.header.end <= end,
            "a file of an archive ends after its records"
        );
        file.write()?;
        file.header.end = end;
        file.header.bytes = file.written;
        file.file.write_at(0, &file.header.encode())?;
        file.file.sync(site!("archive.file"))?;
        let name = self.identity.file_name(KIND, file.header.number);
        self.directory.rename_new(&self.unpublished_name(), &name)?;
        // commit point: the records are in the archive, and the log may give their space back
        self.directory.sync(site!("archive.publish"))?;
        self.next += 1;
        self.end = Some(end);
        Ok(())
    }

    /// Removes what an attempt that failed has left, for its space.
    pub fn clear(&self) {
        // If that fails too, the next attempt does it.
        let _ = self.directory.remove(&self.unpublished_name());
    }

    /// Reads all files, hands their records to `visit` in their order, and returns their range.
    /// Fails at the first file that is not as it was written.
    pub fn read(&self, visit: &mut dyn FnMut(Lsn, &[u8])) -> Result<ArchiveRange> {
        let mut found = ArchiveRange::default();
        for number in self.identity.numbers(&self.directory, KIND)? {
            let name = self.identity.file_name(KIND, number);
            let (mut file, header) = self.open_file(number)?;
            let end = found.range.map_or(header.first, |(_, end)| end);
            if header.first < end {
                let detail = format!(
                    "it has records from {} on, and the file before it those in front of {}",
                    header.first.0, end.0
                );
                return Err(damage(&name, 40, detail));
            }
            if header.first > end {
                found.gaps.push((end, header.first));
            }
            read_records(&name, &mut file, &header, &mut |lsn, bytes| {
                visit(lsn, bytes);
                Ok(())
            })?;
            found.files += 1;
            found.records += header.records;
            found.bytes += header.bytes;
            let first = found.range.map_or(header.first, |(first, _)| first);
            found.range = Some((first, header.end));
        }
        Ok(found)
    }

    /// Hands the records from `from` on to `visit`, in their order and without a gap: those before
    /// `until`, or all, or those before the one at which `visit` breaks off. Returns where they
    /// end.
    ///
    /// # Errors
    /// A file that is missing, cut off, foreign or damaged, with its name and the last point that
    /// can be reached; a point that the archive does not have.
    pub fn replay(
        &self,
        from: Lsn,
        until: Option<Lsn>,
        visit: &mut VisitArchived<'_>,
    ) -> Result<Lsn> {
        if let Some(until) = until.filter(|until| *until < from) {
            return Err(StorageError::Unsupported(format!(
                "the backup stands at {}, behind {}: choose a later point, or an older backup",
                from.0, until.0
            )));
        }
        let mut reached = from;
        for number in self.identity.numbers(&self.directory, KIND)? {
            if until.is_some_and(|until| until <= reached) {
                break;
            }
            let name = self.identity.file_name(KIND, number);
            let opened = self.open_file(number);
            let (mut file, header) = opened.map_err(|error| limited(error, reached))?;
            if header.end <= reached {
                continue;
            }
            if header.first > reached {
                let detail = format!(
                    "it begins at {}, and what is in front ends at {}: a file is missing, or the log was used without its archive",
                    header.first.0, reached.0
                );
                return Err(limited(damage(&name, 40, detail), reached));
            }
            let end = until.unwrap_or(header.end).min(header.end);
            let (mut visited, mut last) = (Ok(ControlFlow::Continue(())), reached);
            let read = read_records(&name, &mut file, &header, &mut |lsn, bytes| {
                if (reached..end).contains(&lsn) {
                    visited = visit(lsn, bytes);
                    last = lsn;
                }
                match visited {
                    Ok(ControlFlow::Continue(())) => Ok(()),
                    // It ends the reading.
                    _ => Err(StorageError::Poisoned),
                }
            });
            if visited?.is_break() {
                return Ok(last);
            }
            read.map_err(|error| limited(error, reached))?;
            reached = end;
        }
        match until.filter(|until| *until > reached) {
            Some(until) => Err(StorageError::Unsupported(format!(
                "the archive ends at {}, so {} cannot be reached: choose an earlier point",
                reached.0, until.0
            ))),
            None => Ok(reached),
        }
    }

    fn open_file(&self, number: u64) -> Result<(D::File, Header)> {
        let name = self.identity.file_name(KIND, number);
        let mut file = self.directory.open(&name)?;
        let bytes = file.bytes()?;
        let mut data = vec![0; HEADER_BYTES.min(bytes as usize)];
        file.read_at(0, &mut data)?;
        let header = Header::decode(&name, self.identity, number, &data, bytes)?;
        Ok((file, header))
    }

    fn unpublished_name(&self) -> String {
        format!("p{}.{KIND}.tmp", self.identity.partition)
    }
}

impl<F: File> ArchiveFile<F> {
    /// Adds the next record.
    pub fn push(&mut self, lsn: Lsn, payload: &[u8]) -> Result<(), DiskError> {
        self.buffer.extend_from_slice(&lsn.0.to_le_bytes());
        self.buffer
            .extend_from_slice(&(payload.len() as u64).to_le_bytes());
        self.buffer.extend_from_slice(payload);
        assert!(
            lsn >= self.header.end,
            "the records of an archive are in their order"
        );
        self.header.end = Lsn(lsn.0 + 1);
        let padded = self.buffer.len().next_multiple_of(8);
        self.buffer.resize(padded, 0);
        self.header.records += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), DiskError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file.write_at(self.written, &self.buffer)?;
        self.header.content = crc32c::crc32c_append(self.header.content, &self.buffer);
        debug_assert!(
            self.buffer.len().is_multiple_of(8),
            "records consist of words"
        );
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Seed of the checksums of an archive's contents.
fn seed(identity: LogIdentity) -> u32 {
    crc32c::crc32c(&identity.database.to_le_bytes())
}

/// The error of a file after which no record can be reached.
#[cold]
fn limited(error: StorageError, reached: Lsn) -> StorageError {
    let limit = format!(
        "without it {} is the last point that can be reached",
        reached.0
    );
    match error {
        StorageError::DamagedFile(mut damage) => {
            damage.detail = format!("{}; {limit}", damage.detail);
            StorageError::DamagedFile(damage)
        }
        StorageError::ForeignFile(mut wrong) => {
            wrong.problem = format!("{}; {limit}", wrong.problem);
            StorageError::ForeignFile(wrong)
        }
        error => error,
    }
}

/// Hands the records of a file to `visit`, if the whole file is as it was written.
fn read_records<F: File>(
    name: &str,
    file: &mut F,
    header: &Header,
    visit: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut content = seed(header.identity);
    let mut data = vec![0; BUFFER_BYTES];
    let mut at = HEADER_BYTES as u64;
    while at < header.bytes {
        let piece = (header.bytes - at).min(BUFFER_BYTES as u64) as usize;
        file.read_at(at, &mut data[..piece])?;
        content = crc32c::crc32c_append(content, &data[..piece]);
        at += piece as u64;
    }
    if content != header.content {
        let detail = "the checksum of its records is wrong";
        return Err(damage(name, HEADER_BYTES as u64, detail));
    }
    let (mut at, mut next, mut records) = (HEADER_BYTES as u64, header.first, 0);
    while at < header.bytes {
        let wrong = || damage(name, at, "a record is not one of the file's");
        let mut head = [0; RECORD_HEADER_BYTES];
        if header.bytes - at < head.len() as u64 {
            return Err(wrong());
        }
        file.read_at(at, &mut head)?;
        let lsn = Lsn(read_u64(&head, 0).ok_or_else(wrong)?);
        let bytes = read_u64(&head, 8).ok_or_else(wrong)?;
        let end = bytes
            .checked_next_multiple_of(8)
            .and_then(|bytes| bytes.checked_add(at + head.len() as u64));
        let end = end.filter(|end| *end <= header.bytes && lsn >= next && lsn < header.end);
        let end = end.ok_or_else(wrong)?;
        let mut payload = vec![0; bytes as usize];
        file.read_at(at + head.len() as u64, &mut payload)?;
        visit(lsn, &payload)?;
        (at, next, records) = (end, Lsn(lsn.0 + 1), records + 1);
    }
    if records != header.records {
        let detail = format!("it has {records} records instead of {}", header.records);
        return Err(damage(name, 56, detail));
    }
    Ok(())
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
