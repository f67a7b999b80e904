//! Goal: a copy of pages and the archive after it give the content of every moment in the archive;
//! an archive from which anything is missing never gives a shorter history, but one error that says
//! how far it can be followed.
//!
//! Method: a small engine of each kind of log, whose pages are copied while it works. The content
//! after each transaction is noted with the position of its record and its time, and compared with
//! a rebuild up to there, and to each position and time in between. Then files are removed, cut,
//! exchanged and flipped; and records change together with their checksums, which is a sample of
//! what the fuzz target `archive` does.

use super::archive_tests::{archive, change, new_engine, new_engine_with, reopen};
use super::tests::options;
use super::*;
use crate::engine::create;
use crate::page::PageId;
use disk::simulated::SimulatedDirectory;
use disk::{Directory as _, File as _};
use pmem::device::simulated::{SimulatedWorld, WorldOptions};
use std::collections::BTreeMap;
use std::ops::Range;
use storage::Clock;
use storage::engine::Method;
use storage::log::archive::Archive;
use storage::log::{LogIdentity, Lsn};
use storage::record::Timestamp;
use storage::sync::{AtomicU64, Ordering};

const TABLE: TableId = TableId(1);
/// The new partition is another database's.
const OTHER: u128 = 99;

/// A copy of pages.
pub(super) struct Copy {
    pub(super) base: PagesBase,
    pages: Vec<(PageId, Vec<u8>)>,
}

pub(super) fn copy(engine: &mut dyn Engine) -> Copy {
    let mut pages = Vec::new();
    let file = engine.idle().unwrap().page_file().unwrap();
    let base = file.copy_pages(&mut |_, id, page| {
        pages.push((id, page.to_vec()));
        ControlFlow::Continue(())
    });
    Copy {
        base: base.unwrap(),
        pages,
    }
}

fn opened(world: &SimulatedWorld) -> Archive<SimulatedDirectory> {
    let identity = LogIdentity {
        database: options().database_id,
        partition: 0,
    };
    Archive::open(archive(world), identity).unwrap()
}

/// Content of a partition that is rebuilt from a copy and an archive, up to a point.
fn rebuilt(
    copy: &Copy,
    world: &SimulatedWorld,
    until: Option<Lsn>,
) -> Result<(Replayed, Vec<i64>)> {
    rebuilt_until(copy, &opened(world), until.map(Until::Place))
}

fn rebuilt_until(
    copy: &Copy,
    archive: &Archive<SimulatedDirectory>,
    until: Option<Until>,
) -> Result<(Replayed, Vec<i64>)> {
    let (replayed, mut engine) = partition(copy, archive, until)?;
    assert_eq!(engine.verify()?.damage, Vec::<String>::new());
    Ok((replayed, ids(&mut *engine)))
}

pub(super) fn partition(
    copy: &Copy,
    archive: &Archive<SimulatedDirectory>,
    until: Option<Until>,
) -> Result<(Replayed, Box<dyn Engine>)> {
    let other = SimulatedWorld::new(WorldOptions::default());
    let replayed = begun(copy, archive, &other)?.finish(Some(archive), until, 0)?;
    let engine = crate::engine::open(&Alone(other), Method::DwbOff, &other_options(), &|_| false)?;
    Ok((replayed, engine))
}

/// A partition in another world that has the pages of a copy.
pub(super) fn begun(
    copy: &Copy,
    archive: &Archive<SimulatedDirectory>,
    other: &SimulatedWorld,
) -> Result<Rebuild<SimulatedDirectory>> {
    let options = other_options();
    create(&Alone(other.clone()), Method::DwbOff, &options)?
        .idle()?
        .close()?;
    let files = || SimulatedDirectory::new(other);
    let end = archive.end().unwrap_or_default();
    let mut rebuild = Rebuild::begin((files(), files()), &options, copy.base, end)?;
    for (id, page) in &copy.pages {
        rebuild.page(*id, page)?;
    }
    Ok(rebuild)
}

fn other_options() -> EngineOptions {
    EngineOptions {
        database_id: OTHER,
        ..options()
    }
}

/// Platform without an archive.
struct Alone(SimulatedWorld);

impl Platform for Alone {
    type Memories = pmem::device::simulated::SimulatedSource;
    type Files = SimulatedDirectory;

    fn memories(&self, _partition: u32) -> Self::Memories {
        self.0.source()
    }

    fn files(&self, _partition: u32) -> disk::Result<SimulatedDirectory> {
        Ok(SimulatedDirectory::new(&self.0))
    }
}

/// The keys that a partition has.
pub(super) fn ids(engine: &mut dyn Engine) -> Vec<i64> {
    let mut found = Vec::new();
    engine.begin().unwrap();
    for id in 0..20 {
        let key = super::tests::key_of(engine, id);
        let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
        if engine.get(TABLE, &key, &mut row).unwrap() {
            found.push(id);
        }
    }
    engine.abort().unwrap();
    found
}

/// Works after a copy; returns the content after each commit, by the position of its record, and at
/// the end.
fn work(world: &SimulatedWorld, method: Method) -> (Copy, BTreeMap<Lsn, Vec<i64>>, Vec<i64>) {
    let mut engine = new_engine(world, method);
    for id in 0..8 {
        change(&mut *engine, id).unwrap();
    }
    let copied = copy(&mut *engine);
    let mut moments = BTreeMap::from([(copied.base.lsn, ids(&mut *engine))]);
    for round in 0..3 {
        for id in 0..5 {
            change(&mut *engine, id * 3 + round).unwrap();
            // The ticket is the place of the commit's record.
            moments.insert(Lsn(engine.promised().0 + 1), ids(&mut *engine));
        }
        engine.idle().unwrap().checkpoint().unwrap();
        engine.sessions().unwrap().assist().unwrap();
    }
    engine.idle().unwrap().close().unwrap();
    let all = ids(&mut *engine);
    drop(engine);
    reopen(world, method).unwrap();
    (copied, moments, all)
}

const METHODS: [Method; 4] = [
    Method::FullPageWrites,
    Method::NvDiskDecentralized,
    Method::NvLogging,
    Method::DistributedLog,
];

#[test]
fn every_moment_of_the_archive_can_be_reached() {
    for method in METHODS {
        let world = SimulatedWorld::new(WorldOptions::default());
        let (copy, moments, all) = work(&world, method);
        let (replayed, found) = rebuilt(&copy, &world, None).unwrap();
        assert_eq!(found, all, "{method}");
        assert_eq!(Some(replayed.reached), opened(&world).end());
        assert!(replayed.committed >= 15, "{method}: {replayed:?}");
        let mut undone = 0;
        let end = replayed.reached.0;
        let points = (copy.base.lsn.0..end).step_by(((end - copy.base.lsn.0) / 60 + 1) as usize);
        for until in points.map(Lsn).chain(moments.keys().copied()) {
            let (replayed, found) = rebuilt(&copy, &world, Some(until)).unwrap();
            let (_, expected) = moments.range(..=until).next_back().unwrap();
            assert_eq!(&found, expected, "{method} up to {until:?}");
            undone += replayed.undone;
        }
        assert!(undone > 0, "{method}: no point lies in a transaction");
    }
}

#[test]
fn a_point_behind_the_archive_and_a_copy_from_later_are_refused() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let (copied, ..) = work(&world, Method::Dwb);
    let end = opened(&world).end().unwrap();
    let error = rebuilt(&copied, &world, Some(Lsn(end.0 + 1))).unwrap_err();
    let told = error.to_string();
    assert!(told.contains(&format!("ends at {}", end.0)), "{told}");
}

#[test]
fn what_is_missing_or_damaged_is_named_with_the_last_point() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let (copy, moments, _) = work(&world, Method::Dwb);
    let files = archive(&world);
    let names = files.list().unwrap();
    let needed: Vec<_> = names[1..].to_vec();
    assert!(needed.len() > 1, "{names:?}");
    let content: Vec<Vec<u8>> = names.iter().map(|name| bytes_of(&files, name)).collect();
    let mut errors = 0;
    for (name, bytes) in names.iter().zip(&content).skip(1) {
        let is_last = names.last() == Some(name);
        let mut damaged = vec![bytes[..bytes.len() - 8].to_vec(), content[0].clone()];
        for at in (0..bytes.len()).step_by(bytes.len() / 40 + 1) {
            damaged.push(bytes.clone());
            damaged.last_mut().unwrap()[at] ^= 1 << (at % 8);
        }
        for wrong in damaged {
            put(&files, name, &wrong);
            // Damage of the newest file is found when the archive is opened.
            let identity = LogIdentity {
                database: options().database_id,
                partition: 0,
            };
            let told = match Archive::open(archive(&world), identity) {
                Err(error) => error.to_string(),
                Ok(_) => rebuilt(&copy, &world, None).unwrap_err().to_string(),
            };
            assert!(told.contains(name.as_str()), "{told}");
            errors += 1;
        }
        files.remove(name).unwrap();
        if !is_last {
            let told = rebuilt(&copy, &world, None).unwrap_err().to_string();
            let point = told.split("without it ").nth(1).unwrap();
            let point = Lsn(point.split(' ').next().unwrap().parse().unwrap());
            // Up to there it works, and nothing is missing.
            let (_, found) = rebuilt(&copy, &world, Some(point)).unwrap();
            let (_, expected) = moments.range(..=point).next_back().unwrap();
            assert_eq!(&found, expected, "{told}");
        }
        put(&files, name, bytes);
    }
    assert!(errors > 60, "{errors} errors");
    rebuilt(&copy, &world, None).unwrap();
}

/// Works after a copy with the times of a clock, one for each commit; returns the content after
/// each, in the order of the log.
fn work_timed(
    world: &SimulatedWorld,
    method: Method,
    times: &[u64],
) -> (Copy, Vec<(Timestamp, Vec<i64>)>) {
    let micros = Arc::new(AtomicU64::new(NOON));
    let options = EngineOptions {
        clock: Clock::Set(Arc::clone(&micros)),
        ..options()
    };
    let mut engine = new_engine_with(world, method, &options);
    for id in 0..4 {
        change(&mut *engine, id).unwrap();
    }
    let copied = copy(&mut *engine);
    let mut moments = Vec::new();
    for (id, &now) in (0..).zip(times) {
        micros.store(NOON + now, Ordering::Relaxed);
        change(&mut *engine, id % 7).unwrap();
        moments.push((time(now), ids(&mut *engine)));
        if id % 5 == 4 {
            engine.idle().unwrap().checkpoint().unwrap();
            engine.sessions().unwrap().assist().unwrap();
        }
    }
    engine.idle().unwrap().close().unwrap();
    (copied, moments)
}

const NOON: u64 = 1_790_000_000_000_000;

fn time(micros: u64) -> Timestamp {
    Timestamp((NOON + micros).cast_signed())
}

fn at(micros: u64) -> Until {
    Until::Time(time(micros))
}

#[test]
fn every_time_in_the_archive_can_be_reached() {
    // Two commits at one time, and a clock that was set back and catches up.
    let times = [10, 20, 20, 35, 50, 15, 30, 49, 50, 51, 90, 91];
    for method in METHODS {
        let world = SimulatedWorld::new(WorldOptions::default());
        let (copy, moments) = work_timed(&world, method, &times);
        let archive = opened(&world);
        for until in 10..=91 {
            let (replayed, found) = rebuilt_until(&copy, &archive, Some(at(until))).unwrap();
            let is_later = |(made, _): &(Timestamp, _)| *made > time(until);
            let end = moments.iter().position(is_later).unwrap_or(moments.len());
            assert_eq!(found, moments[end - 1].1, "{method} at {until}");
            assert_eq!(replayed.committed, end as u64, "{method} at {until}");
            let last = moments[..end].iter().map(|(made, _)| *made).max();
            assert_eq!(replayed.time, last);
        }
        let told = |until| {
            let refused = rebuilt_until(&copy, &archive, Some(at(until)));
            refused.unwrap_err().to_string()
        };
        assert!(told(9).contains("before the backup"), "{}", told(9));
        assert!(told(92).contains("cannot be reached"), "{}", told(92));
        let (all, _) = rebuilt_until(&copy, &archive, None).unwrap();
        assert_eq!(all.committed, times.len() as u64);
    }
}

#[test]
fn commits_without_a_time_are_no_moment() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let (copy, moments, _) = work(&world, Method::Dwb);
    let refused = rebuilt_until(&copy, &opened(&world), Some(at(0))).unwrap_err();
    assert!(refused.to_string().contains("has no time"), "{refused}");
    // Where earlier versions counted commits, there is no time either.
    assert_eq!(storage::clock::decode(moments.len() as u64), None);
}

/// Of a file of an archive.
const HEADER_BYTES: usize = 88;

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    /// A number below a bound; 0 if there is none.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) % bound.max(1) as u64) as usize
    }
}

/// Gives a file of an archive the checksums that its bytes should have.
fn seal(file: &mut [u8]) {
    let database = crc32c::crc32c(&file[16..32]);
    let content = crc32c::crc32c_append(database, &file[HEADER_BYTES..]);
    file[80..84].copy_from_slice(&content.to_le_bytes());
    let header = crc32c::crc32c(&file[..84]);
    file[84..88].copy_from_slice(&header.to_le_bytes());
}

/// Where the records of a file are.
fn records_of(file: &[u8]) -> Vec<Range<usize>> {
    let (mut at, mut found) = (HEADER_BYTES, Vec::new());
    while let Some((bytes, _)) = file.get(at + 8..).and_then(<[u8]>::split_first_chunk) {
        let padded = u64::from_le_bytes(*bytes).checked_next_multiple_of(8);
        let end = padded.and_then(|padded| padded.checked_add(at as u64 + 16));
        let Some(end) = end.filter(|end| *end <= file.len() as u64) else {
            break;
        };
        found.push(at..end as usize);
        at = end as usize;
    }
    found
}

/// Makes the largest number of four or eight bytes.
fn put_ones(file: &mut [u8], at: usize, random: &mut Random) {
    let bytes = 4 + random.below(2) * 4;
    if let Some(number) = file.get_mut(at..at + bytes) {
        number.fill(0xff);
    }
}

/// Makes one file of an archive hostile.
fn make_hostile(files: &mut BTreeMap<String, Vec<u8>>, other: &[Vec<u8>], random: &mut Random) {
    let names: Vec<String> = files.keys().cloned().collect();
    let name = &names[random.below(names.len())];
    let kind = random.below(10);
    let donor = match kind {
        0 => other[random.below(other.len())].clone(),
        _ => files[&names[random.below(names.len())]].clone(),
    };
    let file = files.get_mut(name).unwrap();
    let records = records_of(file);
    let one = records.get(random.below(records.len())).cloned();
    let one = one.unwrap_or(0..file.len());
    match kind {
        // Another database's, or another place's.
        0 | 1 => *file = donor,
        2 => file.truncate(random.below(file.len())),
        3 => drop(file.drain(one)),
        4 => {
            let twice = file[one.clone()].to_vec();
            file.splice(one.end..one.end, twice);
        }
        // A transaction or a page that no writer comes to, and a place where no log gets.
        5 => put_ones(file, one.start + 17, random),
        6 => put_ones(file, 48, random),
        _ => {
            let within = if kind == 7 { 0..HEADER_BYTES } else { one };
            let place = within.start + random.below(within.len());
            let end = file.len().min(place + 1 + random.below(8));
            let start = file.len().min(place);
            let value = [0, 1, 0x7f, 0x80, 0xff, random.below(256) as u8];
            file[start..end].fill(value[random.below(value.len())]);
        }
    }
    if file.len() >= HEADER_BYTES {
        if kind >= 2 && kind != 7 {
            // The counts fit as well.
            let counts = [records_of(file).len() as u64, file.len() as u64];
            for (at, count) in [56, 64].into_iter().zip(counts) {
                file[at..at + 8].copy_from_slice(&count.to_le_bytes());
            }
        }
        seal(file);
    }
}

#[test]
fn hostile_archives_are_refused_or_give_a_partition() {
    let mut outcomes = [0, 0];
    for (number, method) in METHODS.into_iter().enumerate() {
        let mut random = Random(number as u64);
        let world = SimulatedWorld::new(WorldOptions::default());
        let (copy, ..) = work(&world, method);
        let read = |world| {
            let files = archive(world);
            let names = files.list().unwrap();
            let content = names
                .into_iter()
                .map(|name| (bytes_of(&files, &name), name));
            content.map(|(bytes, name)| (name, bytes)).collect()
        };
        let whole: BTreeMap<String, Vec<u8>> = read(&world);
        let foreign = SimulatedWorld::new(WorldOptions::default());
        let mut engine = new_engine_with(
            &foreign,
            method,
            &EngineOptions {
                database_id: OTHER,
                ..options()
            },
        );
        change(&mut *engine, 1).unwrap();
        engine.idle().unwrap().close().unwrap();
        let foreign: Vec<Vec<u8>> = read(&foreign).into_values().collect();
        for _ in 0..HOSTILE {
            let mut files = whole.clone();
            for _ in 0..=random.below(3) {
                make_hostile(&mut files, &foreign, &mut random);
            }
            let hostile = SimulatedWorld::new(WorldOptions::default());
            for (name, bytes) in &files {
                put(&archive(&hostile), name, bytes);
            }
            outcomes[usize::from(is_partition(&copy, &hostile))] += 1;
        }
    }
    assert!(outcomes.iter().all(|count| *count > 20), "{outcomes:?}");
}

/// Archives for each method.
const HOSTILE: usize = 150;

/// Whether there is a partition that can be read, or else an error.
fn is_partition(copy: &Copy, world: &SimulatedWorld) -> bool {
    let identity = LogIdentity {
        database: options().database_id,
        partition: 0,
    };
    let opened = Archive::open(archive(world), identity);
    opened.is_ok_and(|archive| {
        let _ = archive.read(&mut |_, _| {});
        let made = partition(copy, &archive, None);
        made.is_ok_and(|(_, mut engine)| engine.verify().is_ok())
    })
}

fn bytes_of(files: &SimulatedDirectory, name: &str) -> Vec<u8> {
    let mut file = files.open(name).unwrap();
    let mut bytes = vec![0; file.bytes().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn put(files: &SimulatedDirectory, name: &str, bytes: &[u8]) {
    if files.exists(name).unwrap() {
        files.remove(name).unwrap();
    }
    files.create(name).unwrap().write_at(0, bytes).unwrap();
}

/// A backup that claims billions of pages got a file of as many bytes before the first of them had
/// come.
#[test]
fn a_copy_takes_room_as_its_maps_come_and_no_more() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let (whole, _, _) = work(&world, Method::FullPageWrites);
    let far = PageId(u32::MAX - 1);
    let claims = |far_at: Option<usize>| {
        let mut copy = Copy {
            base: PagesBase {
                pages: u32::MAX,
                ..whole.base
            },
            pages: whole.pages.clone(),
        };
        if let Some(at) = far_at {
            let page = copy.pages[0].1.clone();
            copy.pages.insert(at, (far, page));
        }
        let other = SimulatedWorld::new(WorldOptions::default());
        let begun = begun(&copy, &opened(&world), &other).map(drop);
        let file = SimulatedDirectory::new(&other).open("p0.pages").unwrap();
        (begun, file.bytes().unwrap())
    };
    let page_bytes = u64::from(whole.base.page_bytes);
    let most = u64::from(whole.base.pages) * page_bytes + (4 << 20);
    let (begun, bytes) = claims(None);
    begun.unwrap();
    assert!(bytes <= most, "{bytes} bytes");
    for at in [0, whole.pages.len()] {
        let (begun, bytes) = claims(Some(at));
        let told = begun.unwrap_err().to_string();
        assert!(told.contains("in front of the map"), "{told}");
        assert!(bytes <= most, "{bytes} bytes");
    }
    // The claim is no reason to believe a record that names a page far away.
    let mut claiming = Copy {
        base: whole.base,
        pages: whole.pages.clone(),
    };
    claiming.base.pages = u32::MAX;
    let (_, held) = rebuilt(&claiming, &world, None).unwrap();
    assert_eq!(held, rebuilt(&whole, &world, None).unwrap().1);
}
