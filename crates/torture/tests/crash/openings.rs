//! The life of a database's generations under power cuts and deaths of the process.
//!
//! Goal: wherever an opening or an orderly end was cut off, the next opening judges the files
//! rightly: none is called missing or older, and all rows are there. Method: a database of a few
//! rows is created, closed and opened on the simulated device. At each crash point images of a
//! power cut are opened; and the process dies there, the next one opens the database, and the power
//! is cut at the crash points of that opening and after it. A creation that was cut off has either
//! made a whole database, or is known not to have ended. Each flush, fence and sync of these steps
//! is left out once, and its loss must be noticed.

use crate::common;
use indelible::{DataType, Database, Method};
use pmem::device::simulated::{CrashPoint, SimulatedWorld, WorldOptions, mix};
use pmem::{Access, Arena, MemorySource, RootIndex};
use std::sync::{Arc, Mutex};
use storage::Platform;
use torture::SimulatedPlatform;

const ROWS: i64 = 3;
const POINT_IMAGES: usize = 3;
/// One in this many crash points of the partitions has images taken: the search of the engines
/// covers all of them.
const POINT_ONE_IN: u64 = 4;
/// Sites that make the stamps and the list of files durable.
const SITES: [&str; 8] = [
    "database.descriptor-bytes",
    "database.descriptor-name",
    "database.descriptor-found",
    "database.roster",
    "database.roster-found",
    "database.stamp-file",
    "database.stamp",
    "database.stamp-fence",
];

type Found = Arc<Mutex<Result<u64, String>>>;

/// Opens the database, checks that all rows are there, and says so.
fn open(world: &SimulatedWorld, method: Method, rows: i64) -> Result<Database, String> {
    let opened = Database::open_on(SimulatedPlatform::new(world), &common::options(method, 2));
    let database = opened.map_err(|error| error.to_string())?;
    let report = database.verify().map_err(|error| error.to_string())?;
    if let Some(damage) = report.damage.first() {
        return Err(damage.clone());
    }
    let found = match database.table("t") {
        Ok(table) => database.read(|r| r.count(&table, ..)),
        Err(_) => Ok(0),
    };
    match found {
        Ok(found) if found.cast_signed() == rows => Ok(database),
        found => Err(format!("{found:?} rows instead of {rows}")),
    }
}

/// Opens a few of the images that a power cut may leave here.
fn cut(world: &SimulatedWorld, method: Method, rows: i64) -> Result<u64, String> {
    common::look_at_images(world, POINT_IMAGES, &mut None, |image| {
        open(image, method, rows).map(drop)
    })
}

/// Whether the commit table says that the database was complete once.
fn has_been_complete(world: &SimulatedWorld) -> bool {
    let memories = SimulatedPlatform::new(world).memories(0);
    let table = memories.open("commits.pool", Access::Read);
    let table = table.and_then(|memory| Arena::open_read_only(memory, "commits.pool".as_ref()));
    table
        .is_ok_and(|table| table.root(RootIndex::new(0)) != 0 && table.root(RootIndex::new(1)) == 0)
}

/// Opens a database whose creation may have been cut off. One that cannot be opened must be known
/// to hold nothing, so that the next creation may replace it.
fn open_beginning(world: &SimulatedWorld, method: Method) -> Result<(), String> {
    match open(world, method, 0) {
        Err(error) if has_been_complete(world) => Err(format!("it was complete: {error}")),
        _ => Ok(()),
    }
}

/// Whether images are taken here: at each step of stamps, lists and tails, and at a few steps of
/// the partitions.
fn is_looked_at(world: &SimulatedWorld, point: CrashPoint) -> bool {
    let (CrashPoint::Fence(site) | CrashPoint::Sync(site)) = point else {
        return false;
    };
    let is_ours = ["database.", "tails."]
        .iter()
        .any(|of| site.name.starts_with(of));
    is_ours || mix(world.events()).is_multiple_of(POINT_ONE_IN)
}

/// Looks at crash points from now on.
fn watch(
    world: &SimulatedWorld,
    found: &Found,
    look: impl Fn(&SimulatedWorld) -> Result<u64, String> + Send + 'static,
) {
    let found = Arc::clone(found);
    world.observe(move |world, point| {
        let mut found = found.lock().expect("one thread");
        let Ok(images) = *found else { return };
        if !is_looked_at(world, point) {
            return;
        }
        *found = look(world)
            .map(|more| images + more)
            .map_err(|error| format!("{point:?}: {error}"));
    });
}

/// The process dies, and the power is cut while the next one opens the database and when it has.
fn die(
    world: &SimulatedWorld,
    method: Method,
    rows: i64,
    was_created: bool,
) -> Result<u64, String> {
    let next = world.death().map_err(|error| error.to_string())?;
    let found: Found = Arc::new(Mutex::new(Ok(0)));
    if was_created {
        watch(&next, &found, move |world| cut(world, method, rows));
    }
    let opened = open(&next, method, rows);
    next.unobserve();
    let images = found.lock().expect("one thread").clone();
    let images = images.map_err(|error| format!("in the opening after a death: {error}"))?;
    match opened {
        Err(_) if !was_created => open_beginning(&next, method).map(|()| images),
        opened => {
            let _running = opened.map_err(|error| format!("after a death: {error}"))?;
            let more = cut(&next, method, rows);
            more.map(|more| images + more)
                .map_err(|error| format!("when it was opened after a death: {error}"))
        }
    }
}

fn run(method: Method, disabled: Option<&str>) -> Result<u64, String> {
    let world = SimulatedWorld::new(WorldOptions::default());
    if let Some(site) = disabled {
        world.disable(site);
    }
    let found: Found = Arc::new(Mutex::new(Ok(0)));
    let text = |error: indelible::Error| error.to_string();
    watch(&world, &found, move |world| {
        let cut = common::look_at_images(world, POINT_IMAGES, &mut None, |image| {
            open_beginning(image, method)
        });
        Ok(cut? + die(world, method, 0, false)?)
    });
    let created = Database::create_on(SimulatedPlatform::new(&world), &common::options(method, 2));
    world.unobserve();
    let database = created.map_err(text)?;
    let after = world.death().map_err(|error| error.to_string())?;
    assert!(has_been_complete(&after), "its creation has ended");
    found.lock().expect("one thread").clone()?;
    let table = database
        .create_table("t")
        .column("id", DataType::Int64)
        .create()
        .map_err(text)?;
    database
        .transaction(|t| (0..ROWS).try_for_each(|id| t.insert(&table, (id,))))
        .map_err(text)?;
    drop(table);
    watch(&world, &found, move |world| {
        Ok(cut(world, method, ROWS)? + die(world, method, ROWS, true)?)
    });
    let lived = database.close().map_err(text).and_then(|()| {
        for _ in 0..2 {
            open(&world, method, ROWS)?;
            let database = open(&world, method, ROWS)?;
            database.close().map_err(text)?;
        }
        Ok(())
    });
    world.unobserve();
    found
        .lock()
        .expect("one thread")
        .clone()
        .and_then(|images| lived.map(|()| images))
}

#[test]
fn no_cut_makes_a_file_missing_or_older() {
    // Without `LONG_TESTS` every sixth method has to do: a kind of files is in several.
    let step = if std::env::var_os("LONG_TESTS").is_some() {
        1
    } else {
        6
    };
    let methods = Method::distinct().filter(|method| method.is_durable());
    for method in methods.step_by(step) {
        let images = run(method, None).unwrap_or_else(|error| panic!("{method}: {error}"));
        println!("{method}: {images} images");
        assert!(images > 100, "{method}: {images}");
    }
}

#[test]
fn every_durable_step_is_needed() {
    for site in SITES {
        let missed = [Method::Inp, Method::NvmInp].map(|method| run(method, Some(site)).is_err());
        assert!(missed.contains(&true), "{site}");
    }
}
