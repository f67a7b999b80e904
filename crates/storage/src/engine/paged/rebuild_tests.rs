//! Goal: a copy of pages and the archive behind it give the content of every moment in the archive; and an archive from which anything is missing
//! never gives a shorter history, but one error that says how far it can be followed.
//!
//! Method: a small engine of each kind of log, whose pages are copied while it works; what it holds behind each transaction is noted with the place of its
//! record, and compared with what is rebuilt up to there, and to each place in between. Then files are removed, cut, exchanged and flipped.

use super::archive_tests::{archive, change, new_engine, reopen};
use super::tests::options;
use super::*;
use crate::engine::{Method, create};
use crate::log::archive::Archive;
use crate::log::{LogIdentity, Lsn};
use crate::page::PageId;
use disk::simulated::SimulatedDirectory;
use disk::{Directory as _, File as _};
use pmem::device::simulated::{SimulatedWorld, WorldOptions};
use std::collections::BTreeMap;

const TABLE: TableId = TableId(1);
/// The new partition is another database's.
const OTHER: u128 = 99;

/// A copy of pages.
struct Copy {
    base: PagesBase,
    pages: Vec<(PageId, Vec<u8>)>,
}

fn copy(engine: &mut dyn Engine) -> Copy {
    let mut pages = Vec::new();
    let base = engine.copy_pages(&mut |_, id, page| {
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

/// What a partition of a copy and an archive holds, up to a point.
fn rebuilt(
    copy: &Copy,
    world: &SimulatedWorld,
    until: Option<Lsn>,
) -> Result<(Replayed, Vec<i64>)> {
    let other = SimulatedWorld::new(WorldOptions::default());
    let options = EngineOptions {
        database_id: OTHER,
        ..options()
    };
    let platform = Alone(other.clone());
    create(&platform, Method::DwbOff, &options)?.close()?;
    let files = || SimulatedDirectory::new(&other);
    let end = opened(world).end().unwrap_or_default();
    let mut rebuild = Rebuild::begin((files(), files()), &options, copy.base, end)?;
    for (id, page) in &copy.pages {
        rebuild.page(*id, page)?;
    }
    let replayed = rebuild.finish(Some(&opened(world)), until, 0)?;
    let mut engine = crate::engine::open(&platform, Method::DwbOff, &options, &|_| false)?;
    assert_eq!(engine.verify()?.damage, Vec::<String>::new());
    Ok((replayed, ids(&mut *engine)))
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
fn ids(engine: &mut dyn Engine) -> Vec<i64> {
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

/// Works behind a copy; says what there was behind each commit, by the place of its record, and at the end.
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
        engine.checkpoint().unwrap();
        engine.assist().unwrap();
    }
    engine.close().unwrap();
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
            // One of the newest file is met by whoever opens the archive.
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
