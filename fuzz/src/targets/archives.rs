//! Archives of a log, read and repeated over a copy of pages.
//!
//! The seeds are archives of several files of each kind of log, with a copy of pages from their
//! middle. What is repeated becomes a partition that is opened, checked and changed (`archive`), or
//! a whole database (`restore`), at the end of the archive and at a place in it. What is refused
//! gives no partition, so nothing but an error may come of it.

use super::engine::{TABLE, ask, change, fill, table};
use super::{Target, told};
use crate::files::{MemoryFiles, Scratch};
use crate::find::seals_of;
use crate::input::Input;
use crate::mutate::Seed;
use indelible::{Database, Options, Replay};
use page_engine::engine::{Rebuild, Until};
use pmem::{NativeOptions, NativeSource};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use storage::engine::{Durability, Engine, EngineOptions, Idle, Method, PageId, PagesBase};
use storage::log::archive::Archive;
use storage::log::{LogIdentity, Lsn};
use storage::record::{Row, Timestamp};
use storage::{Clock, Platform};

const IDENTITY: LogIdentity = LogIdentity {
    database: 0xa7c4_17e5,
    partition: 0,
};
/// The new partition is another database's.
const OTHER: u128 = 0x07e8;
/// Logs with records by place, by number in files, and by number in durable memory.
const METHODS: [Method; 3] = [
    Method::FullPageWrites,
    Method::NvDiskDecentralized,
    Method::NvLogging,
];
/// The parts of an input that are not files of the archive.
const BASE: &str = "base";
const PAGES: &str = "pages";
const BACKUP: &str = "backup";
const BUFFER_BYTES: u64 = 1 << 20;
/// When commits of the seeds are made.
const NOON_US: i64 = 1_790_000_000_000_000;

/// The targets of this file.
pub(super) fn targets() -> Vec<Target> {
    vec![
        Target::new("archive", archive_seeds, run_archive),
        Target::new("restore", restore_seeds, run_restore),
    ]
}

/// A partition in DRAM; what lies in durable memory is in a directory.
struct Devices {
    files: MemoryFiles,
    archive: Option<MemoryFiles>,
    memories: PathBuf,
}

impl Platform for Devices {
    type Memories = NativeSource;
    type Files = MemoryFiles;

    fn memories(&self, _partition: u32) -> NativeSource {
        NativeSource::new(&self.memories, NativeOptions::default())
    }

    fn files(&self, _partition: u32) -> disk::Result<MemoryFiles> {
        Ok(self.files.clone())
    }

    fn archive_files(&self, _partition: u32) -> disk::Result<Option<MemoryFiles>> {
        Ok(self.archive.clone())
    }
}

fn options(database_id: u128) -> EngineOptions {
    EngineOptions {
        database_id,
        pool_bytes: 256 << 10,
        checkpoint_log_bytes: 64 << 10,
        buffer_bytes: BUFFER_BYTES,
        ring_bytes: 64 << 10,
        clock: Clock::Set(Arc::new(NOON_US.cast_unsigned().into())),
        ..EngineOptions::default()
    }
}

fn archive_seeds() -> Result<Vec<Seed>, String> {
    let sealed = |input: Input| {
        let seals = seals_of(&input, 0);
        Seed::new(input, seals)
    };
    METHODS
        .into_iter()
        .map(|method| archived(method).map(sealed))
        .collect()
}

/// An archive, and a copy of the pages that stands in the middle of it.
fn archived(method: Method) -> Result<Input, String> {
    let scratch = Scratch::new("seed").map_err(told)?;
    let archive = MemoryFiles::default();
    let devices = Devices {
        files: MemoryFiles::default(),
        archive: Some(archive.clone()),
        memories: scratch.path().to_owned(),
    };
    let mut engine =
        engines::create(&devices, method, &options(IDENTITY.database)).map_err(told)?;
    engine
        .idle()
        .and_then(|idle| idle.create_table(&table()))
        .map_err(told)?;
    let mut copy = (Vec::new(), Vec::new());
    for round in 0..4 {
        if round == 1 {
            copy = copied(&mut *engine)?;
        }
        insert(&mut *engine, round * 20)?;
        // One that stays and one that goes.
        change(&mut *engine)?;
        if round % 2 == 0 {
            engine.commit(Durability::Immediate).map_err(told)?;
            delete_inserted(&mut *engine)?;
        } else {
            engine.abort().map_err(told)?;
        }
        engine.idle().and_then(Idle::checkpoint).map_err(told)?;
        if let Some(sessions) = engine.sessions() {
            sessions.assist().map_err(told)?;
        }
    }
    engine.idle().and_then(Idle::close).map_err(told)?;
    let mut input = Input::new([(BASE.to_owned(), copy.0), (PAGES.to_owned(), copy.1)]);
    input.parts.extend(archive.input().parts);
    Ok(input)
}

fn insert(engine: &mut dyn Engine, first: i64) -> Result<(), String> {
    let layout = Arc::clone(&engine.tables().first().ok_or("there is no table")?.layout);
    engine.begin().map_err(told)?;
    for id in first..first + 20 {
        let mut row = Row::new(Arc::clone(&layout));
        fill(&mut row, id)?;
        engine.insert(TABLE, &row).map_err(told)?;
    }
    engine.commit(Durability::Immediate).map(drop).map_err(told)
}

/// Makes room for the next change, which inserts the same keys.
fn delete_inserted(engine: &mut dyn Engine) -> Result<(), String> {
    let shape = engine.tables().remove(0);
    let mut key = storage::record::KeyBuf::new();
    engine.begin().map_err(told)?;
    for id in 1000..1012_i64 {
        let value = [storage::record::Value::Int64(id)];
        shape
            .primary
            .encode_values(&value, &mut key)
            .map_err(told)?;
        engine.delete(TABLE, &key).map_err(told)?;
    }
    engine.commit(Durability::Immediate).map(drop).map_err(told)
}

/// A copy of pages as two parts: where it stands, and the pages with their numbers.
fn copied(engine: &mut dyn Engine) -> Result<(Vec<u8>, Vec<u8>), String> {
    let mut pages = Vec::new();
    let file = engine.idle().map_err(told)?.page_file();
    let base = file
        .ok_or("the pages lie in no file")?
        .copy_pages(&mut |_, id, page| {
            pages.extend_from_slice(&id.0.to_le_bytes());
            pages.extend_from_slice(page);
            ControlFlow::Continue(())
        });
    let base = base.map_err(told)?;
    let words = [
        u64::from(base.page_bytes),
        u64::from(base.pages),
        base.lsn.0,
        base.next_txn,
        u64::from(base.catalogue.0),
    ];
    Ok((
        words.into_iter().flat_map(u64::to_le_bytes).collect(),
        pages,
    ))
}

/// A copy of pages of the size that partitions of this target have; the rest is hostile.
fn base_of(bytes: &[u8]) -> Option<PagesBase> {
    let (words, _) = bytes.as_chunks::<8>();
    let word = |at: usize| words.get(at).map(|bytes| u64::from_le_bytes(*bytes));
    let page_bytes = options(OTHER).page_bytes;
    let base = PagesBase {
        page_bytes: word(0)? as u32,
        pages: word(1)? as u32,
        lsn: Lsn(word(2)?),
        next_txn: word(3)?,
        catalogue: PageId(word(4)? as u32),
    };
    (base.page_bytes == page_bytes).then_some(base)
}

fn run_archive(input: &Input) -> bool {
    let archive = MemoryFiles::of(input);
    let Ok(archive) = Archive::open(archive, IDENTITY) else {
        return false;
    };
    let is_whole = archive.read(&mut |_, _| {}).is_ok();
    let Some(base) = base_of(input.part(BASE)) else {
        return false;
    };
    let middle = archive
        .end()
        .map(|end| Until::Place(Lsn(base.lsn.0 / 2 + end.0 / 2)));
    let noon = Some(Until::Time(Timestamp(NOON_US)));
    let mut sound = false;
    for until in [None, middle, noon] {
        sound |= rebuilt(input.part(PAGES), base, &archive, until).unwrap_or(false);
    }
    is_whole && sound
}

/// Makes a partition, and says whether it is sound; none if that was refused.
fn rebuilt(
    pages: &[u8],
    base: PagesBase,
    archive: &Archive<MemoryFiles>,
    until: Option<Until>,
) -> Option<bool> {
    let devices = Devices {
        files: MemoryFiles::default(),
        archive: None,
        memories: PathBuf::new(),
    };
    let options = options(OTHER);
    engines::create(&devices, Method::DwbOff, &options)
        .and_then(|mut engine| engine.idle().and_then(Idle::close))
        .expect("an empty partition is made");
    let end = archive.end().unwrap_or_default();
    let files = || devices.files.clone();
    let mut rebuild = Rebuild::begin((files(), files()), &options, base, end).ok()?;
    for entry in pages.chunks(4 + base.page_bytes as usize) {
        let (id, page) = entry.split_first_chunk()?;
        rebuild.page(PageId(u32::from_le_bytes(*id)), page).ok()?;
    }
    rebuild.finish(Some(archive), until, BUFFER_BYTES).ok()?;
    let mut engine = engines::open(&devices, Method::DwbOff, &options, &|_| false).ok()?;
    Some(ask(&mut *engine))
}

fn restore_seeds() -> Result<Vec<Seed>, String> {
    let seed = |(method, partitions)| {
        let scratch = Scratch::new("seed").map_err(told)?;
        let kept = scratch.path().join("kept");
        backed_up(&scratch, (method, partitions), &kept).map_err(told)?;
        let mut input = Input::default();
        for entry in std::fs::read_dir(&kept).map_err(told)? {
            let entry = entry.map_err(told)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let bytes = std::fs::read(entry.path()).map_err(told)?;
            input.parts.push(crate::input::Part { name, bytes });
        }
        input.parts.sort_by(|one, other| one.name.cmp(&other.name));
        let seals = seals_of(&input, 0);
        Ok(Seed::new(input, seals))
    };
    [
        (Method::FullPageWrites, 1),
        (Method::NvDiskDecentralized, 1),
        (Method::NvLogging, 2),
    ]
    .into_iter()
    .map(seed)
    .collect()
}

/// Works on a database whose archive is `kept`, where a copy of its pages goes as well.
fn backed_up(
    scratch: &Scratch,
    (method, partitions): (Method, u32),
    kept: &std::path::Path,
) -> indelible::Result<()> {
    let options = Options::new()
        .method(method)
        .partitions(partitions)
        .identity(IDENTITY.database)
        .checkpoint_log_bytes(64 << 10)
        .archive(kept);
    let database = Database::create(scratch.path().join("database"), &options)?;
    super::database::populate(&database)?;
    database.backup_pages(kept.join(BACKUP), indelible::Existing::Refuse, &mut |_| {})?;
    let things = database.table("things")?;
    for step in 0..4 {
        database.transaction(|t| {
            for id in 0..10 {
                t.insert(&things, super::database::thing(100 + step * 10 + id))?;
            }
            t.delete(&things, step * 4).map(drop)
        })?;
        database.checkpoint()?;
    }
    database.close()
}

fn run_restore(input: &Input) -> bool {
    let Ok(scratch) = Scratch::of(input) else {
        return false;
    };
    let options = Options::new().buffer_bytes(BUFFER_BYTES);
    let mut sound = false;
    for until in [None, Some(input.digest() % (64 << 10))] {
        let mut replay = Replay::new(scratch.path());
        if let Some(until) = until {
            replay = replay.until(until);
        }
        let path = scratch.path().join("restored");
        let backup = scratch.path().join(BACKUP);
        let restored = Database::restore_replaying(&backup, &replay, &path, &options, &mut |_| {});
        sound |= restored.is_ok();
        assert_eq!(restored.is_ok(), path.exists(), "all or nothing");
        if restored.is_ok() {
            let database = Database::open_with(&path, &options).expect("what was made is opened");
            let report = database.verify().expect("what was made is read");
            assert!(report.damage.is_empty(), "{:?}", report.damage);
        }
        let _ = std::fs::remove_dir_all(&path);
    }
    sound
}
