//! The guards under a file of pages, without a pool: goal and method.
//!
//! Goal: every state that a power cut leaves has each page whole, and as new as the guard has
//! promised, also if the cut comes while the next process brings home the pages of one that died.
//! After a failure nothing is acknowledged.
//!
//! Method: a file of pages on the simulated device with an area of the fewest slots. At each fence
//! or sync each image is opened and repaired. Each site that this needs is switched off in turn,
//! and some image must show it.

use super::*;
use crate::buffer::master::Master;
use crate::buffer::offsets::first_page;
use crate::buffer::write_back::SessionWrites;
use crate::buffer::{PageFile, PageFileOptions};
use crate::page::{Header, PageKind, PageOp, header};
use disk::simulated::{Call, Effect, Fault, Repeat, SimulatedDirectory};
use pmem::device::simulated::{CrashPoint, ImageChoices, SimulatedWorld, WorldOptions};
use pmem::{Access, site};
use std::sync::{Arc, Mutex};
use storage::engine::Guard;
use storage::log::{LogIdentity, LogStart, Lsn};

/// Two sectors, so that one can tear.
const BYTES: usize = 1024;
/// More than the area has slots.
const PAGES: u32 = 20;
/// Images at each crash point.
const IMAGES: usize = 40;
/// The same where one page is on its way and each word of its copy may be lost.
const REPAIR_IMAGES: usize = 400;
const IDENTITY: LogIdentity = LogIdentity {
    database: 5,
    partition: 0,
};

type Pages = PageFile<SimulatedDirectory>;

/// A sealed page, for all tests of guards.
pub(super) fn test_page(id: PageId, lsn: Lsn, bytes: usize) -> Vec<u8> {
    let mut page = vec![0; bytes];
    let format = PageOp::Format {
        kind: PageKind::Leaf,
        level: 0,
        key_words: 1,
        link: PageId(0),
    };
    format.apply(&mut page, id).unwrap();
    header::set_lsn(&mut page, lsn);
    header::seal(&mut page);
    page
}

fn id(page: u32) -> PageId {
    PageId(first_page(BYTES).0 + page)
}

/// A page whose version shows in both sectors.
fn page(number: u32, version: u64) -> Vec<u8> {
    let mut page = test_page(id(number), Lsn(version), BYTES);
    page[BYTES - 8..].copy_from_slice(&version.to_le_bytes());
    header::seal(&mut page);
    page
}

fn options(guard: Guard) -> PageFileOptions {
    PageFileOptions {
        identity: IDENTITY,
        access: Access::Write,
        guard,
    }
}

/// A file whose pages have version 1.
fn new(world: &SimulatedWorld, guard: Guard) -> Pages {
    let master = Master {
        generation: 0,
        page_bytes: BYTES as u32,
        guard: guard.code(),
        start: LogStart::NEW,
        redo: LogStart::NEW.lsn,
        next_txn: 1,
        catalogue: first_page(BYTES),
        pages: 0,
    };
    let pages: Vec<_> = (0..PAGES).map(|number| page(number, 1)).collect();
    let slots = guard.has_slots().then(|| {
        let slots = NvSlots::create(&world.source(), IDENTITY, BYTES, 0).unwrap();
        Box::new(slots) as Box<dyn Slots>
    });
    let directory = SimulatedDirectory::new(world);
    PageFile::create(&directory, &options(guard), master, &pages, slots).unwrap()
}

/// Opens the file and brings home what the guard has.
fn repaired(image: &SimulatedWorld, guard: Guard) -> Pages {
    let directory = SimulatedDirectory::new(image);
    let mut slots = |bytes| {
        if !guard.has_slots() {
            return Ok(None);
        }
        let slots = NvSlots::open(&image.source(), IDENTITY, Access::Write, bytes)?;
        Ok(Some(Box::new(slots) as Box<dyn Slots>))
    };
    let mut pages = PageFile::open(&directory, &options(guard), &mut slots).unwrap();
    pages.repair(Access::Write).unwrap();
    pages
}

/// Checks that each page of an image is whole, and not older than `least`.
fn look(image: &SimulatedWorld, guard: Guard, least: &[u64]) -> std::result::Result<(), String> {
    let mut pages = repaired(image, guard);
    assert_eq!(pages.check().unwrap(), Vec::<String>::new());
    let readers = pages.readers().unwrap();
    for (number, least) in (0..PAGES).zip(least) {
        let mut bytes = vec![0; BYTES];
        if !readers.read(id(number), &mut bytes).unwrap() {
            return Err(format!("page {number} is torn"));
        }
        let version = Header(&bytes).lsn().0;
        if version < *least {
            return Err(format!("page {number} has {version}, not {least}"));
        }
    }
    Ok(())
}

/// Writes a page by itself.
fn write_single(pages: &Pages, number: u32, version: u64) -> Result<()> {
    let readers = pages.readers().unwrap();
    let write_back = readers.write_back();
    assert_eq!(write_back.session_writes(), SessionWrites::Single);
    write_back.write_single(id(number), &page(number, version))
}

/// Number of images of a run in which one step does nothing, and their errors. Each step writes one
/// page to its next version.
fn explore(guard: Guard, disabled: Option<&str>, steps: u32) -> (u64, Vec<String>) {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut pages = new(&world, guard);
    if let Some(site) = disabled {
        world.disable(site);
    }
    let least = Arc::new(Mutex::new(vec![1; PAGES as usize]));
    let found = Arc::new(Mutex::new((0_u64, Vec::new())));
    let (promised, seen) = (Arc::clone(&least), Arc::clone(&found));
    let mut scratch = None;
    world.observe(move |world, point| {
        if !matches!(point, CrashPoint::Sync(_) | CrashPoint::Fence(_)) {
            return;
        }
        let (mut seen, promised) = (seen.lock().unwrap(), promised.lock().unwrap());
        for choice in ImageChoices::bounded(world, seen.0, IMAGES) {
            seen.0 += 1;
            let image = world.image_in(&choice, &mut scratch).unwrap();
            let looked = look(image, guard, &promised);
            seen.1
                .extend(looked.err().map(|what| format!("{point:?}: {what}")));
        }
    });
    for step in 0..steps {
        let (number, version) = (step % PAGES, 2 + u64::from(step / PAGES));
        if guard == Guard::DoubleWriteSingles {
            write_single(&pages, number, version).unwrap();
        } else {
            pages.write(&[id(number)], &page(number, version)).unwrap();
        }
        // In the doublewrite area of a file a page is only kept from being torn.
        if guard != Guard::DoubleWrite {
            least.lock().unwrap()[number as usize] = version;
        }
    }
    world.unobserve();
    let mut found = found.lock().unwrap();
    (found.0, std::mem::take(&mut found.1))
}

/// The process dies before a batch is durable in the area, although all of it can be read. Returns
/// the errors of images of the next process's repair, in which one step does nothing.
fn repair_after_death(disabled: Option<&'static str>) -> Vec<String> {
    let guard = Guard::NvDoubleWrite;
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut pages = new(&world, guard);
    let found = Arc::new(Mutex::new((0, Vec::new())));
    let all = Arc::clone(&found);
    world.observe(move |world, point| {
        if !matches!(point, CrashPoint::Fence(site) if site.name == "nv-slots.put") {
            return;
        }
        let next = world.death().unwrap();
        if let Some(site) = disabled {
            next.disable(site);
        }
        let seen = Arc::clone(&all);
        let mut scratch = None;
        next.observe(move |next, point| {
            let mut seen = seen.lock().unwrap();
            if matches!(point, CrashPoint::Sync(_) | CrashPoint::Fence(_)) {
                for choice in ImageChoices::bounded(next, 3, REPAIR_IMAGES) {
                    seen.0 += 1;
                    let image = next.image_in(&choice, &mut scratch).unwrap();
                    let looked = look(image, guard, &[1; PAGES as usize]);
                    seen.1
                        .extend(looked.err().map(|what| format!("{point:?}: {what}")));
                }
            }
        });
        drop(repaired(&next, guard));
        next.unobserve();
    });
    pages.write(&[id(3)], &page(3, 2)).unwrap();
    world.unobserve();
    let mut found = found.lock().unwrap();
    assert!(found.0 > 5, "only {} images", found.0);
    std::mem::take(&mut found.1)
}

#[test]
fn every_cut_leaves_each_page_whole() {
    for (guard, steps) in [
        (Guard::DoubleWriteSingles, 6),
        (Guard::DoubleWrite, 6),
        (Guard::NvDoubleWrite, 2 * PAGES),
    ] {
        let (images, wrong) = explore(guard, None, steps);
        assert!(images > 50, "{guard:?}: only {images} images");
        assert!(
            wrong.is_empty(),
            "{guard:?}: {} wrong, first {}",
            wrong.len(),
            wrong[0]
        );
    }
    let wrong = repair_after_death(None);
    assert!(wrong.is_empty(), "{}", wrong[0]);
}

#[test]
fn every_durable_step_is_needed() {
    for (guard, site, steps) in [
        (Guard::DoubleWriteSingles, "single-page.copy", 6),
        (Guard::DoubleWriteSingles, "single-page.home", 6),
        (Guard::DoubleWrite, "double-write.area", 6),
        (Guard::DoubleWrite, "page-guard.home", 6),
        (Guard::NvDoubleWrite, "nv-slots.put", 2 * PAGES),
        (Guard::NvDoubleWrite, "page-guard.home", 2 * PAGES),
    ] {
        let wrong = explore(guard, Some(site), steps).1;
        assert!(!wrong.is_empty(), "{guard:?}: no image misses {site}");
    }
    for site in [
        "nv-slots.copy-again",
        "nv-slots.header-again",
        "nv-slots.renewed",
    ] {
        let wrong = repair_after_death(Some(site));
        assert!(!wrong.is_empty(), "no image misses {site}");
    }
}

#[test]
fn a_page_that_goes_home_by_itself_without_an_area_is_durable_there() {
    for (disabled, is_durable) in [(None, true), (Some("single-page.home"), false)] {
        let world = SimulatedWorld::new(WorldOptions::default());
        let pages = new(&world, Guard::Off);
        if let Some(site) = disabled {
            world.disable(site);
        }
        for number in 0..PAGES {
            write_single(&pages, number, 2).unwrap();
        }
        let written = pages.written();
        let bytes = u64::from(PAGES) * BYTES as u64;
        assert_eq!((written.home_bytes, written.copy_bytes), (bytes, 0));
        let mut images = ImageChoices::bounded(&world, 0, IMAGES);
        let is_whole = images.all(|choice| {
            let image = world.image(&choice).unwrap();
            look(&image, Guard::Off, &[2; PAGES as usize]).is_ok()
        });
        assert_eq!(is_whole, is_durable, "{disabled:?}");
    }
}

#[test]
fn nothing_is_acknowledged_behind_a_failure() {
    // The second call is the one at home.
    for (call, nth, goes_on) in [
        (Call::Write, 0, true),
        (Call::Write, 1, false),
        (Call::Sync, 0, false),
        (Call::Sync, 1, false),
    ] {
        let world = SimulatedWorld::new(WorldOptions::default());
        let mut pages = new(&world, Guard::DoubleWriteSingles);
        SimulatedDirectory::new(&world).inject(Fault {
            call,
            nth,
            repeat: Repeat::Once,
            effect: Effect::Error(std::io::ErrorKind::Other),
        });
        write_single(&pages, 0, 2).unwrap_err();
        let next = write_single(&pages, 1, 2);
        assert_eq!(next.is_ok(), goes_on, "{call:?} {nth}");
        pages.write(&[id(2)], &page(2, 2)).unwrap();
        let synced = pages.sync(site!("page-guard.test"));
        assert_eq!(synced.is_ok(), goes_on, "{call:?} {nth}");
    }
}

#[test]
fn a_copy_stays_whose_page_was_torn_by_a_write_that_failed() {
    // Which call is the one at home.
    for (guard, nth) in [
        (Guard::DoubleWrite, 1),
        (Guard::DoubleWriteSingles, 1),
        (Guard::NvDoubleWrite, 0),
    ] {
        let world = SimulatedWorld::new(WorldOptions::default());
        let mut pages = new(&world, guard);
        SimulatedDirectory::new(&world).inject(Fault {
            call: Call::Write,
            nth,
            repeat: Repeat::Once,
            effect: Effect::ShortWrite(std::io::ErrorKind::Other),
        });
        pages.write(&[id(0)], &page(0, 2)).unwrap_err();
        // More than the area has slots, with all syncs that they ask for.
        for number in 1..PAGES {
            let _ = pages.write(&[id(number)], &page(number, 2));
        }
        pages.sync(site!("page-guard.test-torn")).unwrap_err();
        for choice in ImageChoices::bounded(&world, 0, IMAGES) {
            let image = world.image(&choice).unwrap();
            look(&image, guard, &[1; PAGES as usize]).unwrap();
        }
    }
}
