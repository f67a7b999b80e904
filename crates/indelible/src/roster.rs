//! The roster: the list of the database's files, and their generation.
//!
//! It is in the descriptor's file, in two places that take turns, so that a torn one leaves the one
//! before. Each opening for writing and each orderly end takes the next generation. First every
//! file that changes in place is stamped with it ([`storage::stamp`]); then, when all partitions
//! were opened or closed, the roster is written with it. So a refused file can still be replaced by
//! the right one, which is of the generation before. Commits do not touch the roster.
//!
//! | state | generation of a file | files |
//! |---|---|---|
//! | running | the roster's, or the next one after a crash in between | those with stamps exist |
//! | closed | the same | all exist, as long as they were at the end or longer |
//!
//! If a stamp shows that an opening has begun since, a closed database is checked like a running
//! one.
//!
//! A file with an older stamp is an older copy of itself; if one has a newer stamp, the descriptor
//! is an older copy. Files without a stamp are proven by their logs: `docs/recovery/lost-files.md`
//! has the argument for each kind. Opening for reading stores nothing.
//!
//! | field | bytes | meaning |
//! |---|---|---|
//! | checksum | 4 | CRC-32C of the rest, from the database's identity |
//! | bytes | 4 | of all fields |
//! | generation | 8 | from 1; its lowest bit says which place |
//! | state | 4 | 1 running, 2 closed |
//! | files | 4 | how many; then for each: place 4, bytes 8, length of the name 4, name |

use crate::commit_table::COMMIT_TABLE;
use crate::descriptor::{self, Descriptor};
use crate::error::{Error, Result};
use crate::file_names;
use disk::{Directory, DiskError, File};
use pmem::{Access, Extent, MemorySource, Part, site};
use storage::engine::{LogKind, Method, PagesKind};
use storage::record::Reader;
use storage::{Platform, StorageError, stamp};

/// The last state that the database noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It was open for writing; a crash may have ended that.
    Running,
    /// It was closed in order.
    Closed,
}

/// Location of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileLocation {
    /// Among the files of the database.
    Files,
    /// In the log's own directory.
    Log,
    /// Among the memories, if these are not files of a directory: on a modelled device.
    Memories,
}

/// A file that must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    place: FileLocation,
    bytes: u64,
    name: String,
}

/// The files that the database must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roster {
    pub(crate) generation: u64,
    state: State,
    files: Vec<Listed>,
}

/// The generation of a database that was just created, whose files have no stamps yet.
const FIRST: u64 = 1;
/// Bytes of a roster's checksum and length.
pub(crate) const ROSTER_HEAD_BYTES: usize = 8;

impl Roster {
    /// The roster of a new database, all of whose files are there.
    pub(crate) fn first<P: Platform>(platform: &P, recorded: &Descriptor) -> Result<Self> {
        let places = Directories::of(platform)?;
        let files = places.files(platform, recorded, State::Running)?;
        Ok(Self {
            generation: FIRST,
            state: State::Running,
            files,
        })
    }

    /// The next roster of a database whose files are about to be made again, so that nothing is
    /// known of them.
    pub(crate) fn without_files(&self) -> Self {
        Self {
            generation: self.generation + 1,
            state: State::Running,
            files: Vec::new(),
        }
    }

    /// The roster of a database whose descriptor or commit table is rebuilt, and whether the
    /// existing list is of an earlier generation. Only the generation of its files is known then,
    /// so this fails if a file other than the `lost` one is missing or an older copy of itself.
    pub(crate) fn rebuilt<P: Platform>(
        platform: &P,
        recorded: &Descriptor,
        lost: Option<&str>,
    ) -> Result<(Self, bool)> {
        let is_kept = |listed: &Listed| Some(listed.name.as_str()) != lost;
        let of = |generation: u64| Self {
            generation,
            state: State::Running,
            files: Vec::new(),
        };
        let known = Descriptor::read_whole(&platform.files(0)?).ok();
        let known = known.and_then(|(_, roster)| roster);
        let has_list = known.is_some();
        if let Some(mut roster) = known {
            roster.files.retain(is_kept);
            match roster.check(platform, recorded) {
                Err(Error::Storage(StorageError::LostFile(lost)))
                    if lost.file == descriptor::DESCRIPTOR => {}
                checked => return checked.map(|()| (of(roster.generation), false)),
            }
        }
        let places = Directories::of(platform)?;
        let mut all = Vec::new();
        for listed in places.files(platform, recorded, State::Running)? {
            let found = places.look(platform, recorded, &listed)?;
            all.push((listed, found.and_then(|found| found.generation)));
        }
        let newest = all.iter().filter_map(|&(_, found)| found).max();
        let newest = newest.unwrap_or_default().max(FIRST);
        // A crash may have come between the stamps of the newest generation.
        let before = of((newest - 1).max(FIRST));
        for (listed, found) in all.iter().filter(|(listed, _)| is_kept(listed)) {
            if found.is_some() || !is_ring(&listed.name) {
                before.check_stamp(listed, *found)?;
            }
        }
        Ok((of(newest), has_list))
    }

    /// Fails if a file is missing, cut short or an older copy of itself.
    pub(crate) fn check<P: Platform>(&self, platform: &P, recorded: &Descriptor) -> Result<()> {
        let places = Directories::of(platform)?;
        // Earlier versions have listed files of the user, such as `p0.pool.bak`.
        let files = self.files.iter();
        let files: Vec<&Listed> = files
            .filter(|listed| file_names::is_listed(&listed.name))
            .collect();
        let mut found = Vec::with_capacity(files.len());
        for listed in &files {
            found.push(places.look(platform, recorded, listed)?);
        }
        // An opening that was interrupted, or refused, may have changed anything after its stamps.
        let has_begun = |found: &Option<Found>| {
            let generation = found.as_ref().and_then(|found| found.generation);
            generation == Some(self.generation + 1)
        };
        let is_as_closed = self.state == State::Closed && !found.iter().any(has_begun);
        for (listed, found) in files.into_iter().zip(found) {
            let name = &listed.name;
            let is_stamped = stamp::place(name).is_some();
            // The creation of a ring may be repeated by the next opening, and the first ring tells
            // how many count.
            let is_needed = is_as_closed || is_stamped && !is_ring(name);
            let Some(found) = found else {
                if is_needed {
                    return Err(lost(name, "is missing"));
                }
                continue;
            };
            if is_as_closed && found.bytes < listed.bytes {
                let (found, was) = (found.bytes, listed.bytes);
                let problem =
                    format!("has {found} bytes, and had {was} when the database was closed");
                return Err(lost(name, problem));
            }
            if is_stamped && (is_needed || found.generation.is_some()) {
                self.check_stamp(listed, found.generation)?;
            }
        }
        Ok(())
    }

    fn check_stamp(&self, listed: &Listed, found: Option<u64>) -> Result<()> {
        let expected = self.generation;
        match found {
            Some(found) if found == expected || found == expected + 1 => Ok(()),
            Some(found) if found > expected => Err(lost(
                descriptor::DESCRIPTOR,
                format!(
                    "is an older copy of itself: it is of generation {expected}, and {} is of generation {found}",
                    listed.name
                ),
            )),
            None if expected == FIRST => Ok(()),
            Some(found) => Err(lost(
                &listed.name,
                format!(
                    "is an older copy of itself: it is of generation {found}, and the database of generation {expected}"
                ),
            )),
            None => Err(lost(
                &listed.name,
                "is cut short, or is another file: the stamp of the database is not in it",
            )),
        }
    }

    /// Begins the generation after `newest`: stamps the files of the database that have a place for
    /// it. The generation counts once its roster is written.
    pub(crate) fn begin<P: Platform>(
        platform: &P,
        recorded: &Descriptor,
        newest: u64,
    ) -> Result<Self> {
        let places = Directories::of(platform)?;
        let generation = newest.max(FIRST) + 1;
        Ok(Self {
            generation,
            state: State::Running,
            files: places.stamp(platform, recorded, generation)?,
        })
    }

    /// The stamp of a file that is made anew for this generation.
    pub(crate) fn stamp(&self, recorded: &Descriptor) -> u64 {
        stamp::word(recorded.database_id, self.generation)
    }

    /// The generation that a database of format 1 has by its files; 0 if they have none.
    pub(crate) fn found<P: Platform>(platform: &P, recorded: &Descriptor) -> Result<u64> {
        let places = Directories::of(platform)?;
        let mut newest = 0;
        for listed in places.files(platform, recorded, State::Running)? {
            let found = places.look(platform, recorded, &listed)?;
            let generation = found.and_then(|found| found.generation);
            newest = newest.max(generation.unwrap_or_default());
        }
        Ok(newest)
    }

    /// Notes durably that the database was closed in order, after all its files were.
    fn seal<P: Platform>(platform: &P, recorded: &Descriptor, newest: u64) -> Result<()> {
        let begun = Self::begin(platform, recorded, newest)?;
        let places = Directories::of(platform)?;
        let roster = Self {
            state: State::Closed,
            files: places.files(platform, recorded, State::Closed)?,
            ..begun
        };
        // commit point: the next opening misses what is not as it was at this end
        recorded.write_roster(&places.files, &roster)
    }

    /// Whether the database was closed in order.
    pub(crate) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// The roster as bytes, for a database with this identity.
    pub(crate) fn encode(&self, database_id: u128) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        let state: u32 = match self.state {
            State::Running => 1,
            State::Closed => 2,
        };
        bytes.extend_from_slice(&state.to_le_bytes());
        bytes.extend_from_slice(&(self.files.len() as u32).to_le_bytes());
        for listed in &self.files {
            let place: u32 = match listed.place {
                FileLocation::Files => 0,
                FileLocation::Log => 1,
                FileLocation::Memories => 2,
            };
            bytes.extend_from_slice(&place.to_le_bytes());
            bytes.extend_from_slice(&listed.bytes.to_le_bytes());
            bytes.extend_from_slice(&(listed.name.len() as u32).to_le_bytes());
            bytes.extend_from_slice(listed.name.as_bytes());
        }
        let length = bytes.len() as u32;
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        let checksum = checksum(database_id, &bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The bytes of a roster with this beginning, as it says.
    pub(crate) fn length(head: [u8; ROSTER_HEAD_BYTES]) -> u32 {
        let [.., a, b, c, d] = head;
        u32::from_le_bytes([a, b, c, d])
    }

    /// The roster at the front of these bytes, if it is whole.
    pub(crate) fn decode(bytes: &[u8], database_id: u128) -> Option<Self> {
        const WHAT: &str = "a roster";
        let length = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?) as usize;
        let bytes = bytes.get(..length)?;
        let mut reader = Reader::new(bytes);
        if reader.number(WHAT).ok()? != checksum(database_id, bytes.get(4..)?) {
            return None;
        }
        reader.number(WHAT).ok()?;
        let mut long = || reader.array(WHAT).map(u64::from_le_bytes);
        let generation = long().ok()?;
        let state = match reader.number(WHAT).ok()? {
            1 => State::Running,
            2 => State::Closed,
            _ => return None,
        };
        let count = reader.number(WHAT).ok()?;
        let mut files = Vec::new();
        for _ in 0..count {
            let place = match reader.number(WHAT).ok()? {
                0 => FileLocation::Files,
                1 => FileLocation::Log,
                2 => FileLocation::Memories,
                _ => return None,
            };
            files.push(Listed {
                place,
                bytes: reader.array(WHAT).map(u64::from_le_bytes).ok()?,
                name: reader.text(WHAT).ok()?.to_owned(),
            });
        }
        Some(Self {
            generation,
            state,
            files,
        })
    }
}

fn checksum(database_id: u128, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&database_id.to_le_bytes()), bytes)
}

fn lost(file: &str, problem: impl Into<String>) -> Error {
    Error::Storage(StorageError::lost_file(file, problem.into()))
}

/// Observations of a listed file.
struct Found {
    bytes: u64,
    generation: Option<u64>,
}

/// The directories of the database.
struct Directories<D> {
    files: D,
    log: Option<D>,
}

impl<D: Directory> Directories<D> {
    fn of<P: Platform<Files = D>>(platform: &P) -> Result<Self> {
        Ok(Self {
            files: platform.files(0)?,
            log: platform.log_files(0)?,
        })
    }

    fn directory(&self, place: FileLocation) -> Option<&D> {
        match place {
            FileLocation::Files => Some(&self.files),
            FileLocation::Log => self.log.as_ref(),
            FileLocation::Memories => None,
        }
    }

    /// Names of the database's files, in their directories; the descriptor does not list itself.
    fn names(&self) -> Result<Vec<(FileLocation, String)>> {
        let mut names = Vec::new();
        for place in [FileLocation::Files, FileLocation::Log] {
            let Some(directory) = self.directory(place) else {
                continue;
            };
            let all = directory.list()?.into_iter();
            let listed = all.filter(|name| file_names::is_listed(name));
            names.extend(listed.map(|name| (place, name)));
        }
        Ok(names)
    }

    /// The files to list in this state.
    fn files<P: Platform<Files = D>>(
        &self,
        platform: &P,
        recorded: &Descriptor,
        state: State,
    ) -> Result<Vec<Listed>> {
        let mut files = Vec::new();
        for (place, name) in self.stamped_and_others(platform, recorded)? {
            let is_stamped = stamp::place(&name).is_some();
            if state == State::Running && !is_stamped {
                continue;
            }
            let bytes = match self.directory(place) {
                Some(directory) if state == State::Closed => directory.open(&name)?.bytes()?,
                _ => 0,
            };
            files.push(Listed { place, bytes, name });
        }
        Ok(files)
    }

    /// All names, memories of modelled devices among them.
    fn stamped_and_others<P: Platform<Files = D>>(
        &self,
        platform: &P,
        recorded: &Descriptor,
    ) -> Result<Vec<(FileLocation, String)>> {
        let mut names = self.names()?;
        if names.iter().any(|(_, name)| name == COMMIT_TABLE) {
            return Ok(names);
        }
        let is_there = |partition: u32, name: &str| {
            let opened = platform.memories(partition).open(name, Access::Read);
            opened.is_ok()
        };
        let mut add = |partition: u32, name: String| {
            let is_there = is_there(partition, &name);
            if is_there {
                names.push((FileLocation::Memories, name));
            }
            is_there
        };
        add(0, COMMIT_TABLE.to_owned());
        for partition in 0..recorded.partitions {
            for kind in memories(recorded.method) {
                add(partition, format!("p{partition}.{kind}"));
            }
            if has_rings(recorded.method) {
                let mut ring = 0;
                while add(partition, format!("p{partition}.ring.{ring}")) {
                    ring += 1;
                }
            }
        }
        Ok(names)
    }

    /// Observes a file; none if it is missing.
    fn look<P: Platform<Files = D>>(
        &self,
        platform: &P,
        recorded: &Descriptor,
        listed: &Listed,
    ) -> Result<Option<Found>> {
        let generation = |word: u64| stamp::generation(recorded.database_id, word);
        let name = &listed.name;
        let offset = stamp::place(name);
        let Some(directory) = self.directory(listed.place) else {
            if listed.place == FileLocation::Log {
                return Ok(None);
            }
            let source = platform.memories(file_names::partition_of(name).unwrap_or_default());
            let Ok(memory) = source.open(name, Access::Read) else {
                return Ok(None);
            };
            let memory = Extent::new(memory, Part::Other);
            let word = offset.and_then(|offset| memory.get(offset, stamp::BYTES));
            let word = word.and_then(|word| word.first_chunk().copied());
            return Ok(Some(Found {
                bytes: memory.bytes(),
                generation: word.map(u64::from_le_bytes).and_then(generation),
            }));
        };
        if !directory.exists(name)? {
            return Ok(None);
        }
        let mut file = directory.open(name)?;
        let bytes = file.bytes()?;
        let mut word = [0; stamp::BYTES];
        if let Some(offset) = offset.filter(|offset| offset + word.len() as u64 <= bytes) {
            file.read_at(offset, &mut word)?;
        }
        Ok(Some(Found {
            bytes,
            generation: generation(u64::from_le_bytes(word)),
        }))
    }

    /// Stamps all files that change in place, durably, and lists them. A file that has something
    /// else in the place of the stamp is not the database's, or is cut short: its engine refuses
    /// it.
    fn stamp<P: Platform<Files = D>>(
        &self,
        platform: &P,
        recorded: &Descriptor,
        generation: u64,
    ) -> Result<Vec<Listed>> {
        let new = stamp::word(recorded.database_id, generation);
        let is_free = |word: [u8; stamp::BYTES]| {
            let word = u64::from_le_bytes(word);
            word == 0 || stamp::generation(recorded.database_id, word).is_some()
        };
        let mut stamped = Vec::new();
        for (place, name) in self.stamped_and_others(platform, recorded)? {
            let Some(offset) = stamp::place(&name) else {
                continue;
            };
            let mut word = [0; stamp::BYTES];
            let is_stamped = if let Some(directory) = self.directory(place) {
                let mut file = directory.open(&name)?;
                let is_long = file.bytes()? >= offset + word.len() as u64;
                if is_long {
                    file.read_at(offset, &mut word)?;
                }
                let is_right = is_long && is_free(word);
                if is_right {
                    file.write_at(offset, &new.to_le_bytes())?;
                    file.sync(site!("database.stamp-file"))?;
                }
                is_right
            } else {
                let partition = file_names::partition_of(&name).unwrap_or_default();
                let memory = platform.memories(partition).open(&name, Access::Write)?;
                let mut memory = Extent::new(memory, Part::Other);
                let word = memory.get(offset, stamp::BYTES);
                let word = word.and_then(|word| word.first_chunk().copied());
                let is_right = word.is_some_and(is_free);
                if is_right {
                    memory.set_word(offset, new, site!("database.stamp"));
                    memory.fence(site!("database.stamp-fence"))?;
                }
                is_right
            };
            if is_stamped {
                let bytes = 0;
                stamped.push(Listed { place, bytes, name });
            }
        }
        Ok(stamped)
    }
}

/// The kinds of memories of a partition, except rings, of which there may be any number.
fn memories(method: Method) -> Vec<&'static str> {
    let Some(axes) = method.axes() else {
        return match method {
            Method::NvmInp
            | Method::NvmCow
            | Method::NvmLog
            | Method::Fash
            | Method::Fast
            | Method::Nvwal
            | Method::SlotHeaderJournal => vec!["pool"],
            _ => Vec::new(),
        };
    };
    let mut kinds = Vec::new();
    if axes.pages == PagesKind::Nvm {
        kinds.push("nvpages");
    }
    if axes.log == LogKind::Volatile {
        kinds.extend(["nvbatch.0", "nvbatch.1"]);
    }
    if axes.guard.has_slots() {
        kinds.push("slots");
    }
    kinds
}

/// Whether a file is a ring of a log.
fn is_ring(name: &str) -> bool {
    name.contains(".ring.")
}

fn has_rings(method: Method) -> bool {
    let axes = method.axes();
    axes.is_some_and(|axes| matches!(axes.log, LogKind::PerTransaction | LogKind::Distributed))
}

/// The part of a platform that an open database keeps: its devices, and the way to close it on
/// them.
pub(crate) trait Keeper: Send + Sync {
    /// Notes durably that the database was closed in order, after all its files were.
    fn seal(&self, recorded: &Descriptor, generation: u64) -> Result<()>;
}

/// A platform whose database is sealed when it is closed.
pub(crate) struct Kept<P>(pub(crate) P);

impl<P: Platform> Keeper for Kept<P> {
    fn seal(&self, recorded: &Descriptor, generation: u64) -> Result<()> {
        match Roster::seal(&self.0, recorded, generation) {
            // All acknowledged transactions are durable; the next opening only knows less.
            Err(Error::Disk(DiskError::OutOfSpace { .. })) => Ok(()),
            sealed => sealed,
        }
    }
}

/// A value that is kept alive and has no files.
pub(crate) struct Held<T>(pub(crate) T);

impl<T: Send + Sync> Keeper for Held<T> {
    fn seal(&self, _: &Descriptor, _: u64) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Database;
    use crate::options::Options;
    use crate::platform::NativePlatform;
    use pmem::device::NativeOptions;

    /// Every file with a name such as `p0.pool.bak` was stamped and listed, and once it was gone
    /// the database did not open any more. Such lists are still there.
    #[test]
    fn a_file_of_the_user_that_was_listed_may_be_gone() {
        let path = std::env::temp_dir().join(format!("indelible-listed-{}", std::process::id()));
        let options = Options::new().method(Method::NvmInp);
        Database::create(&path, &options).unwrap().close().unwrap();
        let native = NativePlatform::new(&path, Access::Write, NativeOptions::default()).unwrap();
        let files = native.files(0).unwrap();
        let (recorded, roster) = Descriptor::read_whole(&files).unwrap();
        let mut roster = roster.unwrap();
        roster.files.push(Listed {
            place: FileLocation::Files,
            bytes: 4096,
            name: "p0.pool.bak".to_owned(),
        });
        recorded.write_roster(&files, &roster).unwrap();
        drop(native);
        Database::open(&path).unwrap().close().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_roster_is_read_back_and_notices_each_flipped_bit() {
        let roster = Roster {
            generation: 7,
            state: State::Closed,
            files: vec![Listed {
                place: FileLocation::Log,
                bytes: 4096,
                name: "p0.pool".to_owned(),
            }],
        };
        let mut bytes = roster.encode(9);
        bytes.resize(4096, 0);
        assert_eq!(Roster::decode(&bytes, 9), Some(roster.clone()));
        assert_eq!(Roster::decode(&bytes, 8), None);
        for bit in 0..roster.encode(9).len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Roster::decode(&flipped, 9), None, "bit {bit}");
        }
    }
}
