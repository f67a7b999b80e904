//! Pages that are written one by one, without a pool: goal and method.
//!
//! Goal: every state that a power cut leaves has each page whole, and no older than it was when its writing was acknowledged; behind a failure nothing is
//! acknowledged.
//!
//! Method: a file of pages on the simulated device, written by one thread, which always takes the same lane.

use super::super::{Guard, test_page};
use super::*;
use crate::buffer::file::first_page;
use crate::buffer::master::Master;
use crate::buffer::{PageFile, PageFileOptions};
use crate::log::{LogIdentity, LogStart, Lsn};
use crate::page::Header;
use disk::simulated::{Call, Effect, Fault, Repeat, SimulatedDirectory};
use pmem::Access;
use pmem::device::simulated::{CrashPoint, ImageChoices, SimulatedWorld, WorldOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Two sectors, so that one can tear.
const BYTES: usize = 1024;
const PAGES: u32 = 3;
/// Images at each crash point.
const IMAGES: usize = 60;
const OPTIONS: PageFileOptions = PageFileOptions {
    identity: LogIdentity {
        database: 5,
        partition: 0,
    },
    access: Access::Write,
    guard: Guard::DoubleWriteSingles,
};

type Pages = PageFile<SimulatedDirectory>;

fn id(page: u32) -> PageId {
    PageId(first_page(BYTES).0 + page)
}

fn page(number: u32, version: u64) -> Vec<u8> {
    let mut page = test_page(id(number), Lsn(version), BYTES);
    // What tears shows in both sectors.
    page[BYTES - 8..].copy_from_slice(&version.to_le_bytes());
    crate::page::header::seal(&mut page);
    page
}

fn new(world: &SimulatedWorld) -> Pages {
    let master = Master {
        generation: 0,
        page_bytes: BYTES as u32,
        guard: OPTIONS.guard.code(),
        start: LogStart::NEW,
        redo: LogStart::NEW.lsn,
        next_txn: 1,
        catalogue: first_page(BYTES),
        pages: 0,
    };
    let pages: Vec<_> = (0..PAGES).map(|number| page(number, 1)).collect();
    PageFile::create(
        &SimulatedDirectory::new(world),
        &OPTIONS,
        master,
        &pages,
        None,
    )
    .unwrap()
}

fn write(pages: &Pages, number: u32, version: u64) -> Result<()> {
    let readers = pages.readers().unwrap();
    readers
        .singles()
        .unwrap()
        .write(id(number), &page(number, version))
}

/// The version of each page after an opening, or what is wrong with one.
fn versions(image: &SimulatedWorld) -> std::result::Result<Vec<u64>, String> {
    let directory = SimulatedDirectory::new(image);
    let mut pages = PageFile::open(&directory, &OPTIONS, &mut |_| Ok(None)).unwrap();
    pages.repair(Access::Write).unwrap();
    assert_eq!(pages.check().unwrap(), Vec::<String>::new());
    let readers = pages.readers().unwrap();
    let version = |number| {
        let mut bytes = vec![0; BYTES];
        readers.read(id(number), &mut bytes).unwrap();
        let is_whole = Header(&bytes).is_intact(id(number));
        is_whole
            .then(|| Header(&bytes).lsn().0)
            .ok_or(format!("page {number} is torn"))
    };
    (0..PAGES).map(version).collect()
}

/// What is wrong with the images of a run in which a step does nothing, and how many there were.
fn explore(disabled: Option<&str>) -> (u64, Vec<String>) {
    let world = SimulatedWorld::new(WorldOptions::default());
    let pages = new(&world);
    if let Some(site) = disabled {
        world.disable(site);
    }
    let made: Arc<Mutex<BTreeMap<u32, u64>>> = Arc::default();
    let found = Arc::new(Mutex::new((0_u64, Vec::new())));
    let (seen_made, seen) = (Arc::clone(&made), Arc::clone(&found));
    world.observe(move |world, point| {
        if !matches!(point, CrashPoint::Sync(_)) {
            return;
        }
        let mut seen = seen.lock().unwrap();
        for choice in ImageChoices::bounded(world, seen.0, IMAGES) {
            seen.0 += 1;
            let looked = versions(&world.image(&choice).unwrap());
            let made = seen_made.lock().unwrap();
            let older = |versions: Vec<u64>| {
                let least = |page| made.get(&page).copied().unwrap_or(1);
                let mut pages = (0..PAGES).zip(versions);
                let older = pages.find(|(page, version)| *version < least(*page));
                older.map(|older| format!("{older:?} is older"))
            };
            let wrong = looked.map_or_else(Some, older);
            seen.1
                .extend(wrong.map(|what| format!("{point:?}: {what}")));
        }
    });
    for step in 0..8_u64 {
        let number = (step % u64::from(PAGES)) as u32;
        write(&pages, number, step + 2).unwrap();
        made.lock().unwrap().insert(number, step + 2);
    }
    world.unobserve();
    assert_eq!(pages.written().single_pages, 8);
    let mut found = found.lock().unwrap();
    (found.0, std::mem::take(&mut found.1))
}

#[test]
fn every_cut_leaves_each_page_whole() {
    let (images, wrong) = explore(None);
    assert!(images > 50, "only {images} images");
    assert!(
        wrong.is_empty(),
        "{} wrong, first {}",
        wrong.len(),
        wrong[0]
    );
}

#[test]
fn both_syncs_are_needed() {
    for site in ["single-page.copy", "single-page.home"] {
        let wrong = explore(Some(site)).1;
        assert!(!wrong.is_empty(), "no image shows that {site} is missing");
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
        let mut pages = new(&world);
        SimulatedDirectory::new(&world).inject(Fault {
            call,
            nth,
            repeat: Repeat::Once,
            effect: Effect::Error(std::io::ErrorKind::Other),
        });
        write(&pages, 0, 2).unwrap_err();
        assert_eq!(write(&pages, 1, 2).is_ok(), goes_on, "{call:?} {nth}");
        pages.write(&[id(2)], &page(2, 2)).unwrap();
        let synced = pages.sync(site!("single-page.test"));
        assert_eq!(synced.is_ok(), goes_on, "{call:?} {nth}");
    }
}
