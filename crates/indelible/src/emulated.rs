//! A database on an emulated device: real files in a directory, with chosen latencies and full
//! counting.
//!
//! Each partition has an emulator of its own, whose modelled cache is its share of the whole one,
//! so that the counts of a seed repeat whatever other threads do. Files of a device without
//! latencies of its own ([`FileProfile::NONE`]) are files on the imitated memory, and charged to
//! their partition's emulator. The others are on an imitated disk. Used with
//! [`Database::create_on`](crate::Database::create_on) and
//! [`Database::open_on`](crate::Database::open_on).

use crate::error::Result;
use crate::options::Options;
use crate::platform::{NativePlatform, make_directory, native_options};
use disk::{Delays, EmulatedDirectory, EmulatorCharges, FileProfile};
use engines::{Files, Model, ModelledFiles, ModelledMemories, ModelledPlatform};
use pmem::device::emulated::{ClockChoice, EmulatedSource, EmulationOptions, Emulator};
use pmem::{Either, Part};
use std::path::Path;
use storage::engine::{Cleaning, Daemon, Decide, Engine, EngineOptions, Method};
use storage::{EngineSource, Platform};

/// The devices of a database on an emulated memory, in a directory that is locked for the lifetime
/// of this value.
pub struct EmulatedPlatform {
    model: ModelledPlatform,
    emulators: Vec<Emulator>,
    delays: Delays,
}

/// Source of the partitions' devices.
struct Devices {
    native: NativePlatform,
    emulators: Vec<Emulator>,
    disks: Disks,
    delays: Delays,
}

/// Devices of the files of a database.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disks {
    /// The device of the files of tables, and of all others but those of logs.
    pub files: FileProfile,
    /// The device of the files of logs, in page methods.
    pub log_files: FileProfile,
}

impl From<FileProfile> for Disks {
    /// One device for all files.
    fn from(files: FileProfile) -> Self {
        Self {
            files,
            log_files: files,
        }
    }
}

impl EmulatedPlatform {
    /// The devices of a database in `path`, a directory that is made if it does not exist.
    /// `options` give the number of partitions (1 if it is not set), the domain and the primitives;
    /// all partitions share `memory`.
    pub fn new(
        path: impl AsRef<Path>,
        options: &Options,
        memory: &EmulationOptions,
        disks: impl Into<Disks>,
    ) -> Result<Self> {
        options.check()?;
        make_directory(path.as_ref())?;
        let native = NativePlatform::new(
            path.as_ref(),
            options.mode.access(),
            native_options(options, options.domain),
        )?;
        let partitions = options.partitions.unwrap_or(1);
        let emulators: Vec<_> = (0..partitions)
            .map(|_| Emulator::new(memory.clone().share(partitions)))
            .collect::<Result<_, _>>()?;
        let (disks, delays): (Disks, _) = (disks.into(), Delays::default());
        let model = ModelledPlatform::new(Devices {
            native,
            emulators: emulators.clone(),
            disks,
            delays: delays.clone(),
        });
        Ok(Self {
            model,
            emulators,
            delays,
        })
    }

    /// With real delays, threads do background work, clean pages and write them home. On a virtual
    /// clock everything is the same each time.
    fn with_daemon(&self, options: &EngineOptions) -> EngineOptions {
        let is_real = |emulator: &Emulator| emulator.options().clock == ClockChoice::Real;
        let (daemon, cleaning) = if self.emulators.iter().all(is_real) {
            (Daemon::Thread, Cleaning::InBackground)
        } else {
            (Daemon::BySteps, options.cleaning)
        };
        EngineOptions {
            daemon,
            cleaning,
            ..options.clone()
        }
    }

    /// Whether disks delay anything.
    pub fn delays(&self) -> &Delays {
        &self.delays
    }

    /// The emulator of each partition; clones keep counting while the database has the platform.
    pub fn emulators(&self) -> &[Emulator] {
        &self.emulators
    }
}

impl Devices {
    fn emulator(&self, partition: u32) -> &Emulator {
        // A database with more partitions than were announced shares the emulators.
        &self.emulators[partition as usize % self.emulators.len()]
    }

    fn directory(&self, partition: u32, profile: FileProfile) -> disk::Result<ModelledFiles> {
        let emulator = self.emulator(partition).clone();
        let clock = emulator.clock().clone();
        let files = EmulatedDirectory::new(
            self.native.devices.directory()?,
            profile,
            clock,
            self.delays.clone(),
        );
        Ok(Either::First(if profile == FileProfile::NONE {
            files.charging(EmulatorCharges::new(emulator, part_of))
        } else {
            files
        }))
    }
}

impl Model for Devices {
    fn memories(&self, partition: u32) -> ModelledMemories {
        Either::First(EmulatedSource::new(
            self.native.memories(partition),
            self.emulator(partition).clone(),
        ))
    }

    fn files(&self, partition: u32) -> disk::Result<ModelledFiles> {
        self.directory(partition, self.disks.files)
    }

    fn log_files(&self, partition: u32) -> disk::Result<Option<ModelledFiles>> {
        let Disks { files, log_files } = self.disks;
        let is_apart = files != log_files;
        is_apart
            .then(|| self.directory(partition, log_files))
            .transpose()
    }
}

impl Platform for EmulatedPlatform {
    type Memories = ModelledMemories;
    type Files = Files;

    fn memories(&self, partition: u32) -> ModelledMemories {
        self.model.memories(partition)
    }

    fn files(&self, partition: u32) -> disk::Result<Files> {
        self.model.files(partition)
    }

    fn log_files(&self, partition: u32) -> disk::Result<Option<Files>> {
        self.model.log_files(partition)
    }
}

impl EngineSource for EmulatedPlatform {
    fn create_engine(
        &self,
        method: Method,
        options: &EngineOptions,
    ) -> storage::Result<Box<dyn Engine>> {
        self.model.create_engine(method, &self.with_daemon(options))
    }

    fn open_engine(
        &self,
        method: Method,
        options: &EngineOptions,
        decide: Decide<'_>,
    ) -> storage::Result<Box<dyn Engine>> {
        self.model
            .open_engine(method, &self.with_daemon(options), decide)
    }
}

/// The part of the database that a file belongs to.
fn part_of(name: &str) -> Part {
    if name.contains(".wal") || name.contains(".tails") {
        Part::Log
    } else if name.contains(".checkpoint") {
        Part::Checkpoint
    } else {
        Part::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, Database, Method};
    use pmem::device::emulated::Profile;

    #[test]
    fn the_same_transactions_give_the_same_counts() {
        let count = || {
            let path =
                std::env::temp_dir().join(format!("indelible-emulated-{}", std::process::id()));
            let options = Options::new().method(Method::NvmInp).partitions(2);
            let memory = EmulationOptions {
                clock: ClockChoice::Virtual,
                ..EmulationOptions::new(Profile::default())
            };
            let files = FileProfile::default();
            let platform = EmulatedPlatform::new(&path, &options, &memory, files).unwrap();
            let db = Database::create_on(platform, &options).unwrap();
            let table = db
                .create_table("t")
                .column("id", DataType::Int64)
                .create()
                .unwrap();
            db.transaction(|t| (0..100_i64).try_for_each(|id| t.insert(&table, (id,))))
                .unwrap();
            let counted = db.statistics().unwrap().memory;
            drop((table, db));
            std::fs::remove_dir_all(&path).unwrap();
            counted
        };
        let first = count();
        assert!(first.total().loads > 0 && first.fences > 0);
        assert_eq!(first, count());
    }

    /// Lines that each of several lookups loads, one after the other, with a cache that keeps
    /// nothing of the lookups before. A row of the first page was changed in the open transaction.
    fn lines_of_lookups(method: Method, text_bytes: usize) -> Vec<u64> {
        let path = std::env::temp_dir().join(format!(
            "indelible-lookups-{}-{}",
            method.name(),
            std::process::id()
        ));
        let options = Options::new().method(method);
        let memory = EmulationOptions {
            clock: ClockChoice::Virtual,
            cache_bytes: 2048,
            ..EmulationOptions::new(Profile::COUNT)
        };
        let files = FileProfile::default();
        let platform = EmulatedPlatform::new(&path, &options, &memory, files).unwrap();
        let emulator = platform.emulators()[0].clone();
        let db = Database::create_on(platform, &options).unwrap();
        let table = db
            .create_table("t")
            .column("id", DataType::Int64)
            .column("text", DataType::Varchar { max: 200 });
        let table = table.create().unwrap();
        let text = "x".repeat(text_bytes);
        let rows = 400;
        db.transaction(|t| (0..rows).try_for_each(|id: i64| t.insert(&table, (id, text.as_str()))))
            .unwrap();
        let loads = || emulator.counters().parts[Part::Table as usize].loads;
        let lines = db.transaction(|t| {
            t.upsert(&table, (0_i64, "y"))?;
            let ids = (0..rows).map(|id| id * 37 % rows);
            // The first access to a page checks the whole page, and copies the root.
            let lines = ids.map(|id| {
                let before = loads();
                t.get(&table, id)?.expect("it was inserted");
                Ok(loads() - before)
            });
            lines.collect::<crate::Result<Vec<u64>>>()
        });
        let lines = lines.unwrap().split_off(100);
        drop((table, db));
        std::fs::remove_dir_all(&path).unwrap();
        lines
    }

    #[test]
    fn a_lookup_in_durable_pages_loads_what_it_reads() {
        // A page of 8 KiB has some 65 rows: five lines of header and slots, seven keys that are
        // compared, and three lines of the row. The lookup before may have been in the same page
        // and left its header and some slots in the cache.
        let lines = lines_of_lookups(Method::InPlace, 100);
        let in_bounds = lines.iter().all(|lines| (1..=15).contains(lines));
        let sum: u64 = lines.iter().sum();
        assert!(in_bounds && sum >= 4 * lines.len() as u64, "{lines:?}");
        let lines = lines_of_lookups(Method::GroupCommit, 100);
        assert!(lines.iter().all(|&lines| lines <= 15), "{lines:?}");
        // The page that has changed is read in ordinary memory.
        assert!(
            lines.contains(&0) && lines.iter().any(|&lines| lines >= 3),
            "{lines:?}"
        );
    }

    #[test]
    fn a_lookup_in_a_slotted_page_of_many_rows_does_not_read_them_all() {
        // A cache entry was begun at each search in a page with more cells than one has, and given
        // up: such a page has a hundred rows here.
        let lines = lines_of_lookups(Method::Fash, 1);
        assert!(lines.iter().all(|&lines| lines <= 20), "{lines:?}");
    }

    #[test]
    fn only_files_on_the_imitated_memory_are_charged_to_it() {
        // Lines of pages and of the log that reach the imitated memory, with each on it or on a
        // disk.
        let charged = |files, log_files| -> (u64, u64) {
            let path = std::env::temp_dir().join(format!("indelible-disks-{}", std::process::id()));
            let options = Options::new().method(Method::NvDisk);
            let memory = EmulationOptions {
                clock: ClockChoice::Virtual,
                ..EmulationOptions::new(Profile::default())
            };
            let disks = Disks { files, log_files };
            let platform = EmulatedPlatform::new(&path, &options, &memory, disks).unwrap();
            let emulator = platform.emulators()[0].clone();
            let db = Database::create_on(platform, &options).unwrap();
            let table = db.create_table("t").column("id", DataType::Int64);
            let table = table.create().unwrap();
            for id in 0..20_i64 {
                db.transaction(|t| t.insert(&table, (id,))).unwrap();
            }
            let disk = db.statistics().unwrap().disk;
            assert!(disk.bytes_written > 0 && disk.syncs > 20);
            let counters = emulator.counters();
            let [pages, log] =
                [Part::Other, Part::Log].map(|part| counters.parts[part as usize].stores);
            drop((table, db));
            std::fs::remove_dir_all(&path).unwrap();
            (pages, log)
        };
        let (memory, disk) = (FileProfile::NONE, FileProfile::SSD);
        // The words of commits over several partitions are in memory in each case.
        let (pages_least, log_least) = charged(disk, disk);
        let all = charged(memory, memory);
        assert!(all.0 > pages_least && all.1 >= log_least + 20, "{all:?}");
        assert_eq!(charged(memory, disk), (all.0, log_least));
        assert_eq!(charged(disk, memory), (pages_least, all.1));
    }
}
