//! The doublewrite area in durable memory without an engine: goal and method.
//!
//! Goal: whatever a power cut leaves of a batch, an opening finds of each page the newest copy that
//! was durable; a slot that is seen cleared stays so.
//!
//! Method: an area of the fewest slots on the simulated device, and batches that bring one page
//! around to the slot that it had.

use super::super::{NvSlots, test_page};
use super::*;
use pmem::Access;
use pmem::device::simulated::{
    CrashPoint, ImageChoice, ImageChoices, SimulatedWorld, WorldOptions,
};
use std::sync::{Arc, Mutex};
use storage::log::{LogIdentity, Lsn};

const IDENTITY: LogIdentity = LogIdentity {
    database: 5,
    partition: 0,
};
const BYTES: usize = 1024;
const PAGE: PageId = PageId(9);

fn new(world: &SimulatedWorld) -> NvDoubleWrite {
    let slots = NvSlots::create(&world.source(), IDENTITY, BYTES, 0).unwrap();
    NvDoubleWrite::new(Box::new(slots), BYTES)
}

fn opened(world: &SimulatedWorld) -> NvDoubleWrite {
    let slots = NvSlots::open(&world.source(), IDENTITY, Access::Write, BYTES).unwrap();
    NvDoubleWrite::new(Box::new(slots), BYTES)
}

fn protect(area: &mut NvDoubleWrite, id: PageId, lsn: u64) -> Result<()> {
    area.protect(&[id], &test_page(id, Lsn(lsn), BYTES))
}

/// The LSN of the copy that an opening would bring home.
fn found(world: &SimulatedWorld) -> Option<u64> {
    let copies = opened(world).found().unwrap().unwrap_or_default();
    let mut copies = copies.iter().filter(|(id, _)| *id == PAGE);
    copies.next().map(|(_, page)| Header(page).lsn().0)
}

/// Cuts at the fence of a batch that has the slot of the page's first copy; the least LSN that an
/// opening has found.
#[test]
fn an_older_copy_below_a_newer_header_is_not_taken_for_the_page() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut area = new(&world);
    let slots = area.room() as u32;
    protect(&mut area, PAGE, 5).unwrap();
    area.note_synced();
    protect(&mut area, PAGE, 60).unwrap();
    for other in 0..slots - 2 {
        protect(&mut area, PageId(100 + other), 70).unwrap();
    }
    let lsns = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lsns);
    let mut scratch = None;
    world.observe(move |world, point| {
        if matches!(point, CrashPoint::Fence(_)) {
            for choice in ImageChoices::bounded(world, 3, 400) {
                let image = world.image_in(&choice, &mut scratch).unwrap();
                seen.lock().unwrap().push(found(image));
            }
        }
    });
    assert_eq!(area.room(), 1, "the slot of the first copy is the last one");
    protect(&mut area, PAGE, 100).unwrap();
    world.unobserve();
    let lsns = lsns.lock().unwrap();
    assert!(lsns.contains(&Some(100)), "no image has the new copy");
    for lsn in lsns.iter() {
        assert!(matches!(lsn, Some(60 | 100)), "{lsn:?} was taken");
    }
}

/// The process clears the area and dies when that can be seen and is not durable. The next one goes
/// by what it sees, and the power is cut.
fn die_while_clearing(world: &SimulatedWorld, area: &mut NvDoubleWrite) {
    let deaths = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&deaths);
    world.observe(move |world, point| {
        if !matches!(point, CrashPoint::Fence(site) if site.name == "nv-slots.cleared") {
            return;
        }
        *counted.lock().unwrap() += 1;
        let next = world.death().unwrap();
        assert_eq!(found(&next), None);
        let mut area = opened(&next);
        if area.found().unwrap().is_some() {
            area.secure().unwrap();
        }
        area.clear().unwrap();
        let left = next.image(&ImageChoice { units: Vec::new() }).unwrap();
        assert_eq!(found(&left), None, "it came back");
    });
    area.note_synced();
    area.clear().unwrap();
    world.unobserve();
    assert_eq!(*deaths.lock().unwrap(), 1);
}

#[test]
fn a_slot_that_is_seen_cleared_stays_so() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut area = new(&world);
    protect(&mut area, PAGE, 5).unwrap();
    // A power cut may lose the note that the area is in use, which is never flushed, and keep the
    // copy.
    let cut = world.image(&ImageChoice { units: Vec::new() }).unwrap();
    die_while_clearing(&world, &mut area);
    drop(area);
    assert!(
        opened(&world).found().unwrap().is_none(),
        "nothing is left to do"
    );
    let mut area = opened(&cut);
    assert!(area.found().unwrap().is_some(), "the copy is there");
    area.secure().unwrap();
    die_while_clearing(&cut, &mut area);
}
