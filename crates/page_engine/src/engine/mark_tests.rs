//! Goal: up to the newest mark of both, the archives of two partitions have the content of one
//! moment, whatever a power cut leaves, also between the two marks.
//!
//! Method: two small engines on one simulated device, with archives on a disk of their own, which
//! move on at different times; every sync is a crash point. Of each image the archives are repeated
//! over copies of pages, at once and after the partitions have gone on.

use super::archive_tests::{Archived, archive, change, new_engine_with};
use super::rebuild_tests::{Copy, begun, copy, ids, partition};
use super::tests::options;
use super::*;
use crate::engine::open;
use disk::simulated::SimulatedDirectory;
use pmem::device::simulated::{CrashPoint, ImageChoices, SimulatedWorld, WorldOptions};
use std::collections::BTreeMap;
use std::sync::Mutex;
use storage::engine::Method;
use storage::log::LogIdentity;
use storage::log::archive::Archive;

const METHODS: [Method; 4] = [
    Method::FullPageWrites,
    Method::NvDiskDecentralized,
    Method::NvLogging,
    Method::DistributedLog,
];

/// Content of both partitions at each mark.
type Moments = BTreeMap<GlobalTxnId, [Vec<i64>; 2]>;

fn options_of(partition: u32) -> EngineOptions {
    EngineOptions {
        partition,
        ..options()
    }
}

fn archive_of(world: &SimulatedWorld, partition: u32) -> Archive<SimulatedDirectory> {
    let identity = LogIdentity {
        database: options().database_id,
        partition,
    };
    Archive::open(archive(world), identity).unwrap()
}

/// The newest mark that both archives have. Checks that their content there is that of the mark's
/// time.
fn check(world: &SimulatedWorld, copies: &[Copy], moments: &Moments) -> Option<GlobalTxnId> {
    let archives = [0, 1].map(|partition| archive_of(world, partition));
    let marks = [0, 1].map(|at| {
        let other = SimulatedWorld::new(WorldOptions::default());
        let rebuild = begun(&copies[at], &archives[at], &other).unwrap();
        rebuild.marks(&archives[at], None).unwrap()
    });
    let in_both = marks[0].iter().rev().find_map(|mark| {
        let same = marks[1].iter().find(|other| other.number == mark.number)?;
        Some([*mark, *same])
    })?;
    for (at, mark) in in_both.iter().enumerate() {
        let until = Some(Until::Place(mark.place));
        let (_, mut engine) = partition(&copies[at], &archives[at], until).unwrap();
        let expected = &moments[&mark.number][at];
        assert_eq!(&ids(&mut *engine), expected, "partition {at} at {mark:?}");
    }
    Some(in_both[0].number)
}

/// Marks both partitions, between which `meanwhile` happens.
fn mark(
    engines: &mut [Box<dyn Engine>],
    moments: &mut Moments,
    number: u64,
    meanwhile: impl FnOnce(&mut dyn Engine),
) {
    let number = GlobalTxnId(number);
    moments.insert(number, [0, 1].map(|at| ids(&mut *engines[at])));
    engines[0]
        .idle()
        .unwrap()
        .marks()
        .unwrap()
        .mark(number)
        .unwrap();
    meanwhile(&mut *engines[0]);
    engines[1]
        .idle()
        .unwrap()
        .marks()
        .unwrap()
        .mark(number)
        .unwrap();
}

/// Opens the image of a cut, goes on and ends; the archives have the last mark then.
fn go_on(image: &SimulatedWorld, method: Method, copies: &[Copy], moments: &mut Moments) {
    let open = |partition| {
        let options = options_of(partition);
        open(&Archived(image.clone()), method, &options, &|_| false).unwrap()
    };
    let mut engines = [open(0), open(1)];
    check(image, copies, moments);
    // Numbers of marks also rise above those that a cut has left in one log only.
    let number = 1000;
    for engine in &mut engines {
        change(&mut **engine, 5).unwrap();
    }
    mark(&mut engines, moments, number, |_| ());
    for engine in &mut engines {
        engine.idle().unwrap().close().unwrap();
    }
    drop(engines);
    let newest = check(image, copies, moments);
    assert_eq!(newest, Some(GlobalTxnId(number)));
}

#[test]
fn a_power_cut_leaves_one_moment_that_both_archives_have() {
    for method in METHODS {
        let world = SimulatedWorld::new(WorldOptions::default());
        let new = |partition| new_engine_with(&world, method, &options_of(partition));
        let mut engines = [new(0), new(1)];
        let copies: Arc<[Copy; 2]> = Arc::new([0, 1].map(|at| copy(&mut *engines[at])));
        let moments: Arc<Mutex<Moments>> = Arc::default();
        let images = Arc::new(Mutex::new(0));
        let (known, count, mine) = (
            Arc::clone(&moments),
            Arc::clone(&images),
            Arc::clone(&copies),
        );
        let (mut points, mut scratch) = (0, None);
        world.observe(move |world, point| {
            points += 1;
            if !matches!(point, CrashPoint::Sync(_)) {
                return;
            }
            for choice in ImageChoices::bounded(world, points, 2) {
                let image = world.image_in(&choice, &mut scratch).unwrap();
                let mut moments = known.lock().unwrap().clone();
                go_on(image, method, &*mine, &mut moments);
                *count.lock().unwrap() += 1;
            }
        });
        for round in 0..4 {
            for engine in &mut engines {
                change(&mut **engine, round).unwrap();
            }
            let number = 1 + u64::try_from(round).unwrap();
            let mut known = moments.lock().unwrap().clone();
            known.insert(GlobalTxnId(number), [0, 1].map(|at| ids(&mut *engines[at])));
            *moments.lock().unwrap() = known.clone();
            mark(&mut engines, &mut known, number, |first| {
                // A cut between the two marks finds the first one in its archive.
                if round % 2 == 1 {
                    first.idle().unwrap().checkpoint().unwrap();
                    first.sessions().unwrap().assist().unwrap();
                }
            });
            // The first one goes on without the second one.
            change(&mut *engines[0], 10 + round).unwrap();
            if round == 2 {
                engines[1].idle().unwrap().checkpoint().unwrap();
                engines[1].sessions().unwrap().assist().unwrap();
            }
        }
        world.unobserve();
        let images = *images.lock().unwrap();
        assert!(images > 20, "{method}: {images} images");
        let known = moments.lock().unwrap();
        assert_eq!(
            check(&world, &*copies, &known),
            Some(GlobalTxnId(3)),
            "{method}"
        );
    }
}
