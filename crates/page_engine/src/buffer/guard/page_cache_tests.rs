//! The page cache without an engine: goal and method.
//!
//! Goal: what is put is read without a call to the file; versions that a newer one replaces cost no
//! write; a version on its way home is left alone; a failure loses nothing; every state that a
//! power cut or the death of the process leaves has the newest version of each page, here or at
//! home.
//!
//! Method: a small area on the simulated device, with a file of pages that their numbers and LSNs
//! identify. Threads of their own put pages, read them and write them back at once.

use super::super::{NvSlots, test_page};
use super::*;
use crate::buffer::offsets::first_page;
use crate::page::Header;
use disk::simulated::{Call, Effect, Fault, Repeat, SimulatedDirectory, SimulatedFile};
use disk::{Directory, File};
use pmem::device::simulated::{
    CrashPoint, ImageChoice, ImageChoices, SimulatedWorld, WorldOptions, mix,
};
use pmem::{Access, Memory, MemorySource};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use storage::log::{LogIdentity, Lsn};

const IDENTITY: LogIdentity = LogIdentity {
    database: 5,
    partition: 0,
};
const BYTES: usize = 1024;
const FILE: &str = "pages";
const PAGES: u32 = 40;
/// Images at each crash point.
const IMAGES: usize = 5;

type Cache = PageCache<SimulatedFile>;
/// The version of each page.
type Versions = BTreeMap<u32, u64>;

/// A page whose LSN is its version.
fn page(number: u32, version: u64) -> Vec<u8> {
    test_page(PageId(number), Lsn(version), BYTES)
}

fn version_of(page: &[u8]) -> u64 {
    Header(page).lsn().0
}

fn file(world: &SimulatedWorld) -> SimulatedFile {
    SimulatedDirectory::new(world).open(FILE).unwrap()
}

fn over(world: &SimulatedWorld, slots: NvSlots<pmem::device::simulated::SimulatedSource>) -> Cache {
    let homes = vec![file(world), file(world)];
    let end = Arc::new(AtomicU32::new(first_page(BYTES).0 + PAGES));
    PageCache::open(Box::new(slots), BYTES, Access::Write, homes, end).unwrap()
}

fn number(page: u32) -> u32 {
    first_page(BYTES).0 + page
}

/// A file whose pages have version 1, and a new area of the fewest slots.
fn new(world: &SimulatedWorld) -> Cache {
    let directory = SimulatedDirectory::new(world);
    let mut file = directory.create(FILE).unwrap();
    for page_number in 0..PAGES {
        let at = u64::from(number(page_number)) * BYTES as u64;
        file.write_at(at, &page(number(page_number), 1)).unwrap();
    }
    file.sync(pmem::site!("page-cache.test-file")).unwrap();
    directory.sync(pmem::site!("page-cache.test-name")).unwrap();
    let slots = NvSlots::create(&world.source(), IDENTITY, BYTES, 0).unwrap();
    over(world, slots)
}

fn reopened(world: &SimulatedWorld) -> Cache {
    let slots = NvSlots::open(&world.source(), IDENTITY, Access::Write, BYTES).unwrap();
    over(world, slots)
}

fn put(cache: &Cache, pages: &[(u32, u64)]) -> storage::Result<()> {
    let ids: Vec<PageId> = pages
        .iter()
        .map(|(page, _)| PageId(number(*page)))
        .collect();
    let bytes: Vec<u8> = pages
        .iter()
        .flat_map(|(page_number, version)| page(number(*page_number), *version))
        .collect();
    cache.put(&ids, &bytes).map(drop)
}

/// The version of a page, wherever it is.
fn version(world: &SimulatedWorld, cache: &Cache, page: u32) -> u64 {
    let (id, mut bytes) = (PageId(number(page)), vec![0; BYTES]);
    if !cache.read(id, &mut bytes).unwrap() {
        let at = u64::from(id.0) * BYTES as u64;
        file(world).read_at(at, &mut bytes).unwrap();
    }
    assert!(Header(&bytes).is_intact(id), "page {page} is torn");
    version_of(&bytes)
}

#[test]
fn a_page_is_read_where_it_was_put_and_goes_home_when_room_is_needed() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let cache = new(&world);
    let directory = SimulatedDirectory::new(&world);
    put(&cache, &[(3, 7), (4, 8)]).unwrap();
    let before = directory.counters();
    assert_eq!(
        (version(&world, &cache, 3), version(&world, &cache, 4)),
        (7, 8)
    );
    assert_eq!(
        directory.counters(),
        before,
        "a page of the area is read from the file"
    );
    assert_eq!(cache.area().pages_from_area, 2);
    let all: Vec<(u32, u64)> = (0..PAGES).map(|page| (page, 10)).collect();
    put(&cache, &all).unwrap();
    let counters = cache.area();
    assert!(
        counters.home_writes >= u64::from(PAGES) - counters.slots,
        "{counters:?}"
    );
    assert!(
        counters.home_syncs > 0 && counters.flights_by_writers > 0,
        "{counters:?}"
    );
    for page in 0..PAGES {
        assert_eq!(version(&world, &cache, page), 10);
    }
}

#[test]
fn versions_that_newer_ones_replace_are_never_written_home() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let cache = new(&world);
    for version in 2..200 {
        put(&cache, &[(1, version), (2, version)]).unwrap();
    }
    let counters = cache.area();
    assert_eq!(
        (counters.home_writes, counters.slots_used),
        (0, 2),
        "{counters:?}"
    );
    assert_eq!(counters.holes_reclaimed, 2 * 197);
    assert_eq!(version(&world, &cache, 1), 199);
}

#[test]
fn a_version_on_its_way_home_is_left_alone_and_a_newer_one_waits_for_it() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let cache = new(&world);
    let most = cache.area().slots as u32;
    let all: Vec<(u32, u64)> = (0..most - 1).map(|page| (page, 2)).collect();
    put(&cache, &all).unwrap();
    cache.assist().unwrap();
    let going_home: Vec<u32> = (0..PAGES)
        .filter(|page| {
            let id = PageId(number(*page));
            let shard = cache.shard(id);
            shard
                .get(&id)
                .is_some_and(|versions| versions.going_home.is_some())
        })
        .collect();
    assert!(!going_home.is_empty(), "no batch has begun");
    put(&cache, &[(going_home[0], 3)]).unwrap();
    // Another batch must not take the newer version past the older one.
    assert!(
        cache
            .claim()
            .iter()
            .all(|claim| claim.page.0 != number(going_home[0]))
    );
    assert_eq!(version(&world, &cache, going_home[0]), 3);
    let holes = cache.area().holes_reclaimed;
    cache.assist().unwrap();
    assert_eq!(
        cache.area().holes_reclaimed,
        holes,
        "a version on its way home is no hole"
    );
    assert_eq!(version(&world, &cache, going_home[0]), 3);
    assert!(
        !going_home
            .iter()
            .skip(1)
            .any(|page| cache.has(PageId(number(*page))))
    );
    drop(cache);
    assert_eq!(version(&world, &reopened(&world), going_home[0]), 3);
}

#[test]
fn the_oldest_versions_go_home_first_and_replaced_ones_never() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let cache = new(&world);
    let most = cache.area().slots as u32 - 1;
    for page in 0..most {
        put(&cache, &[(page, 2)]).unwrap();
    }
    put(&cache, &[(0, 3)]).unwrap();
    let claims = std::iter::repeat_with(|| cache.claim()).take_while(|claims| !claims.is_empty());
    let claimed: Vec<u32> = claims.flatten().map(|claim| claim.page.0).collect();
    let expected: Vec<u32> = (1..most).chain([0]).map(number).collect();
    assert_eq!(claimed, expected);
}

#[test]
fn a_page_that_was_often_written_goes_home_later_and_not_never() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let cache = new(&world);
    let slots = cache.count() as u32;
    for version in 2..5 {
        put(&cache, &[(0, version)]).unwrap();
    }
    let has_often_written = || cache.has(PageId(number(0)));
    let mut others = 0;
    // Others come and go, each once.
    while has_often_written() && others < 10 * slots {
        others += 1;
        put(&cache, &[(1 + others % (PAGES - 1), 2 + u64::from(others))]).unwrap();
    }
    assert!(
        (2 * slots..5 * slots).contains(&others),
        "it has written_home when {others} others had come"
    );
    assert_eq!(version(&world, &cache, 0), 4);
    // It is known that it was there.
    put(&cache, &[(0, 1000)]).unwrap();
    let before = others;
    while has_often_written() && others < before + 10 * slots {
        others += 1;
        put(&cache, &[(1 + others % (PAGES - 1), 2 + u64::from(others))]).unwrap();
    }
    let came = others - before;
    assert!((slots..3 * slots).contains(&came), "when {came} had come");
}

#[test]
fn a_batch_that_fails_leaves_its_versions() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let cache = new(&world);
    let directory = SimulatedDirectory::new(&world);
    let most = cache.area().slots as u32;
    let all: Vec<(u32, u64)> = (0..most).map(|page| (page, 5)).collect();
    put(&cache, &all).unwrap();
    for call in [Call::Write, Call::Sync] {
        directory.inject(Fault {
            call,
            nth: 0,
            repeat: Repeat::Once,
            effect: Effect::Error(std::io::ErrorKind::Other),
        });
        put(&cache, &[(most, 6)]).unwrap_err();
        for page in 0..most {
            assert_eq!(version(&world, &cache, page), 5, "{call:?}");
        }
    }
    drop(cache);
    let cache = reopened(&world);
    for page in 0..most {
        assert_eq!(version(&world, &cache, page), 5);
    }
    put(&cache, &[(most, 6)]).unwrap();
}

/// Turns bits of the area over, which nobody has open.
fn damage(world: &SimulatedWorld, at: u64) {
    let mut memory = world.source().open("p0.slots", Access::Write).unwrap();
    let byte = memory.peek(at, 1)[0] ^ 4;
    memory.store(at, &[byte]);
}

#[test]
fn a_foreign_or_damaged_area_is_an_error_that_names_it() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let cache = new(&world);
    put(&cache, &[(1, 2)]).unwrap();
    let (front, slots) = (128, cache.area().slots);
    drop(cache);
    let opened = |identity, bytes| {
        let slots = NvSlots::open(&world.source(), identity, Access::Write, bytes);
        slots
            .and_then(|slots| slots.scan())
            .map_err(|error| error.to_string())
    };
    let other = LogIdentity {
        database: 6,
        ..IDENTITY
    };
    assert_eq!(opened(IDENTITY, BYTES).unwrap().len(), 1);
    for error in [opened(other, BYTES), opened(IDENTITY, 2 * BYTES)] {
        let text = error.unwrap_err();
        assert!(
            text.contains("p0.slots") && text.contains("another database"),
            "{text}"
        );
    }
    // The head, and each field of the header of the copy.
    for at in [0, 9, 33, 37, 41, front, front + 7, front + 8, front + 12] {
        damage(&world, at);
        let text = opened(IDENTITY, BYTES).unwrap_err();
        assert!(text.contains("p0.slots"), "byte {at}: {text}");
        damage(&world, at);
    }
    // Nobody checks a copy again after the read.
    for at in 0..BYTES as u64 {
        let at = front + 64 * slots + at;
        damage(&world, at);
        let cache = reopened(&world);
        let text = cache.read(PageId(number(1)), &mut vec![0; BYTES]);
        let text = text.unwrap_err().to_string();
        assert!(
            text.contains("p0.slots") && text.contains("copy of a page"),
            "byte {at}: {text}"
        );
        drop(cache);
        damage(&world, at);
    }
    assert_eq!(version(&world, &reopened(&world), 1), 2);
}

/// Puts versions of pages and writes them back; `made` has what has been acknowledged, `begun` what
/// is on its way.
fn run(cache: &Cache, seed: u64, made: &Mutex<Versions>, begun: &Mutex<Versions>) {
    for step in 0..40_u64 {
        let random = mix(seed << 16 ^ step);
        let pages: std::collections::BTreeSet<u32> = (0..=random % 4)
            .map(|place| (mix(random ^ place) % 24) as u32)
            .collect();
        let pages: Vec<(u32, u64)> = pages.into_iter().map(|page| (page, step + 2)).collect();
        begun.lock().unwrap().extend(pages.iter().copied());
        put(cache, &pages).unwrap();
        made.lock().unwrap().extend(pages);
        if random.is_multiple_of(3) {
            cache.assist().unwrap();
        }
    }
}

/// The versions of all pages.
fn versions(world: &SimulatedWorld, cache: &Cache) -> Result<Vec<u64>, String> {
    let found = catch_unwind(AssertUnwindSafe(|| {
        (0..PAGES).map(|page| version(world, cache, page)).collect()
    }));
    found.map_err(|_| "a page cannot be read".to_owned())
}

/// Checks that each page of an image has its last acknowledged version, or one that was on its way.
fn look(image: &SimulatedWorld, made: &Versions, begun: &Versions) -> Result<(), String> {
    // The second opening finds what the first one has left.
    for _ in 0..2 {
        for (page, version) in (0_u32..).zip(versions(image, &reopened(image))?) {
            let least = made.get(&page).copied().unwrap_or(1);
            let most = begun.get(&page).copied().unwrap_or(1);
            if !(least..=most).contains(&version) {
                return Err(format!("page {page} has {version}, not {least} to {most}"));
            }
        }
    }
    Ok(())
}

/// The process dies, another one goes by what it sees, and the power is cut. With `writes_back`
/// everything goes home before.
fn die(world: &SimulatedWorld, writes_back: bool) -> Result<(), String> {
    let next = world.death().unwrap();
    let cache = reopened(&next);
    let seen = versions(&next, &cache)?;
    while writes_back && cache.write_back().unwrap() > 0 {}
    cache.settle().unwrap();
    let image = next.image(&ImageChoice { units: Vec::new() }).unwrap();
    let left = versions(&image, &reopened(&image))?;
    if seen == left {
        return Ok(());
    }
    Err(format!("{seen:?} were seen, and {left:?} are left"))
}

/// The process that opens an image dies at one of its fences.
fn die_while_opening(image: &SimulatedWorld) -> Result<(), String> {
    let outcome = Arc::new(Mutex::new(Ok(())));
    let seen = Arc::clone(&outcome);
    image.observe(move |image, point| {
        let mut seen = seen.lock().unwrap();
        if seen.is_ok() && matches!(point, CrashPoint::Fence(_)) {
            *seen = die(image, true).map_err(|what| format!("{point:?} of an opening: {what}"));
        }
    });
    drop(reopened(image));
    image.unobserve();
    outcome.lock().unwrap().clone()
}

/// Number of images of a run in which some steps do nothing, and their errors.
fn explore(seed: u64, disabled: &[&str]) -> (u64, Vec<String>) {
    let world = SimulatedWorld::new(WorldOptions::default());
    for site in disabled {
        world.disable(site);
    }
    let cache = new(&world);
    let made: Arc<Mutex<Versions>> = Arc::default();
    let begun: Arc<Mutex<Versions>> = Arc::default();
    let images = Arc::new(Mutex::new((0_u64, Vec::new())));
    let (seen_made, seen_begun) = (Arc::clone(&made), Arc::clone(&begun));
    let found = Arc::clone(&images);
    let mut scratch = None;
    world.observe(move |world, point| {
        if !matches!(point, CrashPoint::Fence(_) | CrashPoint::Sync(_)) {
            return;
        }
        let (made, begun) = (seen_made.lock().unwrap(), seen_begun.lock().unwrap());
        let mut found = found.lock().unwrap();
        if !found.1.is_empty() {
            return;
        }
        for choice in ImageChoices::bounded(world, found.0, IMAGES) {
            found.0 += 1;
            let opened = die_while_opening(world.image_in(&choice, &mut scratch).unwrap());
            let looked = opened.and_then(|()| {
                let image = world.image_in(&choice, &mut scratch).unwrap();
                look(image, &made, &begun)
            });
            found
                .1
                .extend(looked.err().map(|what| format!("{point:?}: {what}")));
        }
        for writes_back in [false, true] {
            let died = die(world, writes_back);
            found
                .1
                .extend(died.err().map(|what| format!("{point:?}, death: {what}")));
        }
    });
    run(&cache, seed, &made, &begun);
    world.unobserve();
    assert!(cache.area().home_writes > 0 && cache.area().holes_reclaimed > 0);
    let mut images = images.lock().unwrap();
    (images.0, std::mem::take(&mut images.1))
}

#[test]
fn every_cut_leaves_the_newest_version_of_each_page() {
    for seed in 0..2 {
        let (images, wrong) = explore(seed, &[]);
        assert!(images > 300, "only {images} images");
        assert!(
            wrong.is_empty(),
            "{} wrong, first {}",
            wrong.len(),
            wrong[0]
        );
    }
}

#[test]
fn every_durable_step_is_needed() {
    for site in [
        "nv-slots.copy",
        "nv-slots.copied",
        "nv-slots.header",
        "nv-slots.put",
        "nv-slots.clear",
        "nv-slots.cleared",
        "nv-slots.header-again",
        "nv-slots.renewed",
        "page-cache.home",
    ] {
        let is_noticed = (0..2).any(|seed| !explore(seed, &[site]).1.is_empty());
        assert!(is_noticed, "no image shows that {site} is missing");
    }
}

#[test]
fn threads_put_read_and_write_back_at_once() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let cache = new(&world);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let fliers = [(); 2].map(|()| scope.spawn(|| cache.run().unwrap()));
        let writers = [0_u32, 1, 2].map(|writer| {
            let (cache, world) = (&cache, &world);
            scope.spawn(move || {
                for step in 0..300_u64 {
                    let page = writer * 12 + (mix(step) % 12) as u32;
                    put(cache, &[(page, step + 2)]).unwrap();
                    assert_eq!(version(world, cache, page), step + 2);
                }
            })
        });
        for writer in writers {
            writer.join().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        cache.end();
        for flier in fliers {
            flier.join().unwrap();
        }
    });
    let counters = cache.area();
    assert!(
        counters.home_writes > 0 && counters.holes_reclaimed > 0,
        "{counters:?}"
    );
    let before: Vec<u64> = (0..PAGES)
        .map(|page| version(&world, &cache, page))
        .collect();
    drop(cache);
    let cache = reopened(&world);
    let after: Vec<u64> = (0..PAGES)
        .map(|page| version(&world, &cache, page))
        .collect();
    assert_eq!(before, after);
}
