//! TPC-C under power cuts.
//!
//! Goal: at every crash point of transactions over two partitions, recovery leaves a database in which all consistency
//! conditions of TPC-C hold and no acknowledged transaction is missing. Method: a tiny workload on the simulated device; at the crash
//! points a few images are opened, checked deeply, and compared with how far the list was run.

#![expect(clippy::unwrap_used, reason = "a test ends at what it cannot do")]

use indelible::{Database, Method, Options, TransactionOptions};
use pmem::device::simulated::{ImageChoice, ImageChoices, SimulatedWorld, WorldOptions, mix};
use std::sync::{Arc, Mutex};
use torture::SimulatedPlatform;
use workload::tpcc::{Scale, Tpcc, TpccOptions, check_consistency, is_rollback};

const PARTITIONS: u32 = 2;
const TRANSACTIONS: u64 = 50;
/// Crash points between two that are looked at.
const POINTS_STEP: u64 = 5;
const POINT_IMAGES: usize = 2;

#[derive(Default)]
struct Watch {
    /// Transactions acknowledged in each partition, and the partition that has begun another.
    acknowledged: Vec<u64>,
    running: Option<usize>,
    points: u64,
    images: u64,
    failure: Option<String>,
}

fn options(method: Method) -> Options {
    Options::new()
        .method(method)
        .partitions(PARTITIONS)
        .pool_bytes(1 << 20)
        .identity(7)
}

fn workload() -> Tpcc {
    Tpcc::new(TpccOptions {
        warehouses: 2,
        partitions: PARTITIONS,
        scale: Scale {
            items: 20,
            customers: 10,
        },
        transactions: 1000,
        seed: 11,
        ..TpccOptions::default()
    })
    .unwrap()
}

/// Opens an image and compares it with how far the lists were run.
fn check(
    image: &SimulatedWorld,
    method: Method,
    workload: &Tpcc,
    watch: &Watch,
) -> Result<(), String> {
    let database = Database::open_on(SimulatedPlatform::new(image), &options(method))
        .map_err(|error| format!("opening: {error}"))?;
    let done: Vec<_> = watch
        .acknowledged
        .iter()
        .enumerate()
        .map(|(partition, count)| *count..=count + u64::from(watch.running == Some(partition)))
        .collect();
    workload
        .check(&database, &done)
        .map_err(|error| error.to_string())?;
    match database
        .verify()
        .map_err(|error| error.to_string())?
        .damage
        .first()
    {
        Some(first) => Err(format!("verify: {first}")),
        None => Ok(()),
    }
}

fn observe(world: &SimulatedWorld, method: Method, watch: &Arc<Mutex<Watch>>) {
    let (watch, workload) = (Arc::clone(watch), workload());
    let mut scratch: Option<SimulatedWorld> = None;
    world.observe(move |world, point| {
        let mut watch = watch.lock().unwrap();
        watch.points += 1;
        if watch.points % POINTS_STEP != 0 {
            return;
        }
        for choice in ImageChoices::bounded(world, mix(world.events()), POINT_IMAGES) {
            if watch.failure.is_some() {
                return;
            }
            let mut image = scratch
                .take()
                .unwrap_or_else(|| world.image(&ImageChoice::default()).unwrap());
            world.image_into(&choice, &mut image).unwrap();
            watch.images += 1;
            if let Err(what) = check(&image, method, &workload, &watch) {
                watch.failure = Some(format!("{point:?}: {what}; {}", world.describe(&choice)));
                return;
            }
            scratch = Some(image);
        }
    });
}

/// Runs the lists of both partitions in turn and checks images all the time.
fn run(method: Method) -> Watch {
    let world = SimulatedWorld::new(WorldOptions {
        capacity_bytes: 64 << 20,
        ..WorldOptions::default()
    });
    let database = Database::create_on(SimulatedPlatform::new(&world), &options(method)).unwrap();
    let workload = workload();
    let tables = workload.load(&database, |_| ()).unwrap();
    let mut runners: Vec<_> = (0..PARTITIONS)
        .map(|partition| workload.runner(&database, &tables, partition, 0).unwrap())
        .collect();
    let watch = Arc::new(Mutex::new(Watch {
        acknowledged: vec![0; runners.len()],
        ..Watch::default()
    }));
    observe(&world, method, &watch);
    let mut partitions = Vec::new();
    for number in 0..TRANSACTIONS as usize {
        let partition = number % runners.len();
        let runner = &mut runners[partition];
        watch.lock().unwrap().running = Some(partition);
        runner.partitions(&mut partitions);
        let options = TransactionOptions::new().partitions(partitions.iter().copied());
        let done = database.transaction_with(&options, |t| runner.step(t));
        assert!(done.is_ok() || done.is_err_and(|error| is_rollback(&error)));
        runner.next();
        let mut now = watch.lock().unwrap();
        now.running = None;
        now.acknowledged[partition] = runner.position();
        if now.failure.is_some() {
            break;
        }
    }
    world.unobserve();
    assert_eq!(check_consistency(&database).unwrap().violated, 0);
    std::mem::take(&mut *watch.lock().unwrap())
}

#[test]
fn the_conditions_hold_after_every_power_cut() {
    for method in Method::ALL.into_iter().filter(|method| method.is_durable()) {
        let watch = run(method);
        println!("{method}: {} points, {} images", watch.points, watch.images);
        assert_eq!(watch.failure, None, "{method}");
        assert!(watch.images > 10, "{method}: {} images", watch.images);
    }
}
