//! The manifest: which runs there are, and where replay of the log starts. A flush or a merge
//! counts from the moment that its manifest replaces the old one.
//!
//! It is written under another name, synced, and renamed over the old one; the directory is synced
//! before and after, so the runs that it names are there whenever it is. Runs that no manifest
//! names are orphans of a crash and are removed at opening.
//!
//! An opening may read a name that is in the system's cache only: the last sync of the directory
//! may have failed. A *mark* decides that: it is written after that sync, so a manifest that has it
//! is durable under its name, whether the mark is durable itself or not. A manifest without it is
//! written again before any step that only the older one would forbid, such as removing files that
//! the older one needs.
//!
//! | field | bytes | meaning |
//! |---|---|---|
//! | magic | 8 | `INDLLSM\n` |
//! | version | 4 | [`VERSION`] |
//! | partition | 4 | number of the partition |
//! | database | 16 | identity of the database |
//! | segment, position | 16 | where replay of the log starts |
//! | ticket | 8 | the newest commit that is in the runs |
//! | layout, node bytes | 16 | settings of the partition |
//! | next tree | 8 | the number of the next new tree |
//! | runs | 4 | how many; then for each: level 4, number 8, bytes 8; newest first |
//! | tables | 4 | how many; then for each, as they were at the start of replay: |
//! | | | length 4, definition, number of trees 4, their numbers, 8 each |
//! | checksum | 4 | crc32c of all before |
//! | mark | 8 | `SETTLED\n`; before the sync of its name zeros |

use super::format::{damage, read_u32, read_u64};
use disk::{Directory, File};
use pmem::site;
use storage::engine::CommitTicket;
use storage::log::{LogIdentity, LogStart, Lsn};
use storage::record::TableDef;
use storage::{Result, StorageError};

const MAGIC: [u8; 8] = *b"INDLLSM\n";
const VERSION: u32 = 1;
const FIXED_BYTES: usize = 80;
/// Behind the checksum of a manifest whose name is durable.
const MARK: [u8; 8] = *b"SETTLED\n";
/// Longest manifest that is believed.
const BYTES_MAX: u64 = 1 << 30;

/// One run, as the manifest names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunEntry {
    pub(crate) level: u32,
    pub(crate) number: u64,
    pub(crate) bytes: u64,
}

/// Content of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) start: LogStart,
    pub(crate) ticket: CommitTicket,
    pub(crate) settings: [u64; 2],
    /// Newest first.
    pub(crate) runs: Vec<RunEntry>,
    /// Definitions with the numbers of their trees.
    pub(crate) tables: Vec<(TableDef, Vec<u64>)>,
    /// The number of the next new tree.
    pub(crate) next_tree: u64,
}

fn name(identity: LogIdentity) -> String {
    format!("p{}.manifest", identity.partition)
}

/// Whether the partition has files that a new one would mix with.
pub(crate) fn exists<D: Directory>(directory: &D, identity: LogIdentity) -> Result<bool> {
    Ok(directory.exists(&name(identity))?)
}

impl Manifest {
    /// Puts this manifest in the place of the old one; durable when it returns. A full disk leaves
    /// the old one in force; any other error may leave either, so the caller stops.
    pub(crate) fn write<D: Directory>(&self, directory: &D, identity: LogIdentity) -> Result<()> {
        let unpublished = format!("{}.tmp", name(identity));
        if directory.exists(&unpublished)? {
            directory.remove(&unpublished)?;
        }
        let mut bytes = self.encode(identity);
        let mark_at = bytes.len() as u64;
        bytes.extend_from_slice(&[0; MARK.len()]);
        let written = directory.create(&unpublished).and_then(|mut file| {
            file.write_at(0, &bytes)?;
            file.sync(site!("lsm.manifest-content"))?;
            Ok(file)
        });
        let mut file = match written {
            Ok(file) => file,
            Err(error) => {
                // The space goes back at once, not only at the next attempt.
                let _ = directory.remove(&unpublished);
                return Err(error.into());
            }
        };
        // The names of the runs are durable before the manifest that needs them can be.
        directory.sync(site!("lsm.run-names"))?;
        directory.rename(&unpublished, &name(identity))?;
        // commit point: recovery takes what the file of this name says
        directory.sync(site!("lsm.manifest-publish"))?;
        // Without its mark the manifest is written once more by the next opening, and is as good.
        let _ = file.write_at(mark_at, &MARK);
        Ok(())
    }

    /// Reads the partition's manifest, and whether its name is known to be durable: if not it must
    /// be written again before anything is removed. A partition that exists has one.
    pub(crate) fn read<D: Directory>(directory: &D, identity: LogIdentity) -> Result<(Self, bool)> {
        let file = name(identity);
        if !directory.exists(&file)? {
            let partition = identity.partition;
            let reason = format!("partition {partition} has no manifest; put its files back");
            return Err(StorageError::foreign_file(file, reason));
        }
        let mut open = directory.open(&file)?;
        let length = open.bytes()?;
        if length > BYTES_MAX {
            return Err(damage(&file, 0, "no manifest is so long"));
        }
        let mut bytes = vec![0; length as usize];
        open.read_at(0, &mut bytes)?;
        match bytes.split_last_chunk() {
            Some((content, mark)) => Ok((Self::decode(&file, identity, content)?, *mark == MARK)),
            None => Err(damage(&file, length, "the file ends too early")),
        }
    }

    fn encode(&self, identity: LogIdentity) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&identity.partition.to_le_bytes());
        bytes.extend_from_slice(&identity.database.to_le_bytes());
        let words = [self.start.segment, self.start.lsn.0, self.ticket.0];
        for word in words
            .into_iter()
            .chain(self.settings)
            .chain([self.next_tree])
        {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        debug_assert_eq!(
            bytes.len(),
            FIXED_BYTES,
            "the lists begin behind the fields"
        );
        bytes.extend_from_slice(&(self.runs.len() as u32).to_le_bytes());
        for run in &self.runs {
            bytes.extend_from_slice(&run.level.to_le_bytes());
            bytes.extend_from_slice(&run.number.to_le_bytes());
            bytes.extend_from_slice(&run.bytes.to_le_bytes());
        }
        bytes.extend_from_slice(&(self.tables.len() as u32).to_le_bytes());
        for (table, trees) in &self.tables {
            let def = table.encode();
            bytes.extend_from_slice(&(def.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&def);
            bytes.extend_from_slice(&(trees.len() as u32).to_le_bytes());
            for tree in trees {
                bytes.extend_from_slice(&tree.to_le_bytes());
            }
        }
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    fn decode(file: &str, identity: LogIdentity, bytes: &[u8]) -> Result<Self> {
        let foreign = |reason: String| StorageError::foreign_file(file, reason);
        if bytes.get(..8) != Some(&MAGIC) {
            let reason = "it does not begin as a manifest does".to_owned();
            return Err(foreign(reason));
        }
        let short = || damage(file, bytes.len() as u64, "the file ends too early");
        let (fields, sum) = bytes.split_last_chunk::<4>().ok_or_else(short)?;
        if crc32c::crc32c(fields) != u32::from_le_bytes(*sum) {
            return Err(damage(file, 0, "the checksum of the manifest is wrong"));
        }
        let version = read_u32(bytes, 8).ok_or_else(short)?;
        if version != VERSION {
            let reason = format!("it has version {version}; this program reads {VERSION}");
            return Err(foreign(reason));
        }
        let word = |index: usize| read_u64(fields, 32 + index * 8).ok_or_else(short);
        let mut manifest = Self {
            start: LogStart {
                segment: word(0)?,
                lsn: Lsn(word(1)?),
            },
            ticket: CommitTicket(word(2)?),
            settings: [word(3)?, word(4)?],
            next_tree: word(5)?,
            runs: Vec::new(),
            tables: Vec::new(),
        };
        let mut at = FIXED_BYTES;
        let number = |at: &mut usize| {
            let found = read_u32(fields, *at).ok_or_else(short);
            *at += 4;
            found
        };
        for _ in 0..number(&mut at)? {
            let level = number(&mut at)?;
            manifest.runs.push(RunEntry {
                level,
                number: read_u64(fields, at).ok_or_else(short)?,
                bytes: read_u64(fields, at + 8).ok_or_else(short)?,
            });
            at += 16;
        }
        for _ in 0..number(&mut at)? {
            let length = number(&mut at)? as usize;
            let def = fields
                .get(at..at.saturating_add(length))
                .ok_or_else(short)?;
            let def = TableDef::decode(def)
                .map_err(|error| damage(file, at as u64, error.to_string()))?;
            at += length;
            let count = number(&mut at)? as usize;
            if count > fields.len() / 8 {
                return Err(short());
            }
            let trees = (0..count)
                .map(|tree| read_u64(fields, at + tree * 8).ok_or_else(short))
                .collect::<Result<_>>()?;
            at += count * 8;
            manifest.tables.push((def, trees));
        }
        if manifest.encode(identity) != bytes {
            let reason = "it belongs to another database or partition".to_owned();
            return Err(foreign(reason));
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::record::{Column, DataType, TableId};

    #[test]
    fn a_manifest_is_read_back_and_notices_each_flipped_bit() {
        let identity = LogIdentity {
            database: 3,
            partition: 2,
        };
        let columns = vec![Column::new("id", DataType::Int64)];
        let run = RunEntry {
            level: 1,
            number: 7,
            bytes: 100,
        };
        let manifest = Manifest {
            start: LogStart::NEW,
            ticket: CommitTicket(9),
            settings: [1, 512],
            runs: vec![run],
            tables: vec![(TableDef::new(TableId(1), "t", columns, vec![0]), vec![4])],
            next_tree: 5,
        };
        let bytes = manifest.encode(identity);
        assert_eq!(Manifest::decode("m", identity, &bytes).unwrap(), manifest);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(
                Manifest::decode("m", identity, &flipped).is_err(),
                "bit {bit}"
            );
        }
        for length in 0..bytes.len() {
            assert!(Manifest::decode("m", identity, &bytes[..length]).is_err());
        }
    }
}
