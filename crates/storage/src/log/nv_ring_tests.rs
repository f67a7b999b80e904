//! How a ring is made: goal and method.
//!
//! Goal: whatever a power cut leaves of a ring's creation, a pool whose block is set is a whole,
//! empty ring, whose blocks nobody else gets.
//!
//! Method: a ring of several pieces is made on the simulated device, with images at each fence and
//! after the last one. Each step of the creation is switched off in turn, and some image must show
//! it.

use super::*;
use pmem::BlockState;
use pmem::device::simulated::{CrashPoint, ImageChoices, SimulatedWorld, WorldOptions};
use std::sync::{Arc, Mutex};

/// Images at each fence.
const IMAGES: usize = 200;
/// Of two pieces.
/// Two pieces.
const SIZE: RingSize = RingSize {
    bytes: 48 << 10,
    piece_bytes_max: 32 << 10,
};
const IDENTITY: RingIdentity = RingIdentity {
    log: LogIdentity {
        database: 5,
        partition: 0,
    },
    ring: 0,
};

/// Reports an image without a whole ring; before the creation has ended, the ring may be missing.
fn look(image: &SimulatedWorld, is_made: bool) -> std::result::Result<(), String> {
    let ring = match NvRing::open(&image.source(), IDENTITY, Access::Write) {
        Err(_) if !is_made => return Ok(()),
        opened => opened.map_err(|error| error.to_string())?,
    };
    let block = ring.index - HEAD_BYTES;
    let sizes = Sizes::of(SIZE);
    let pieces = &ring.pieces[..sizes.pieces as usize];
    for offset in pieces.iter().copied().chain([block]) {
        let found = ring
            .arena
            .block(offset)
            .map_err(|error| error.to_string())?;
        if found.state != BlockState::Allocated {
            return Err(format!("block {offset} is {:?}", found.state));
        }
    }
    let bytes = ring.arena.bytes(block, sizes.head_and_index() as usize);
    let bytes = bytes.map_err(|error| error.to_string())?;
    let is_empty = bytes[HEAD_BYTES as usize..].iter().all(|byte| *byte == 0);
    if bytes[0] == 1 && is_empty && pieces.iter().all(|piece| *piece != 0) {
        return Ok(());
    }
    Err("its head and index are not those of an empty ring".to_owned())
}

/// Errors of the images of a creation in which one step does nothing.
fn create_without(disabled: Option<&str>) -> Vec<String> {
    let world = SimulatedWorld::new(WorldOptions::default());
    if let Some(site) = disabled {
        world.disable(site);
    }
    let found = Arc::new(Mutex::new((0, Vec::new())));
    let seen = Arc::clone(&found);
    let look_at_all = move |world: &SimulatedWorld, is_made| {
        let mut seen = seen.lock().unwrap();
        for choice in ImageChoices::bounded(world, seen.0, IMAGES) {
            seen.0 += 1;
            let looked = look(&world.image(&choice).unwrap(), is_made);
            seen.1.extend(looked.err());
        }
    };
    let at_fences = look_at_all.clone();
    world.observe(move |world, point| {
        if matches!(point, CrashPoint::Fence(_)) {
            at_fences(world, false);
        }
    });
    drop(NvRing::create(&world.source(), IDENTITY, SIZE).unwrap());
    world.unobserve();
    look_at_all(&world, true);
    let mut found = found.lock().unwrap();
    assert!(found.0 > 50, "only {} images", found.0);
    std::mem::take(&mut found.1)
}

#[test]
fn a_ring_whose_block_is_set_is_whole() {
    let wrong = create_without(None);
    assert!(
        wrong.is_empty(),
        "{} wrong, first {}",
        wrong.len(),
        wrong[0]
    );
    for site in ["nv-ring.activate", "nv-ring.zero", "nv-ring.create"] {
        assert!(
            !create_without(Some(site)).is_empty(),
            "no image misses {site}"
        );
    }
}
