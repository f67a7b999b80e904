//! Goal: a power cut at any fence of a long history, and another one in the recovery after
//! it, leave whole transactions of `nvm-inp`, and the partition works on.
//!
//! Method: random transactions on few rows, so that blocks and slots of the index are used again
//! within a batch of commits, some with more rows than a record has checksums for. At sampled
//! points images of the simulated device are opened, compared with the content before or after the
//! open transaction, checked, and changed. `LONG_TESTS=1` takes more of them.

use super::*;
use std::collections::BTreeMap;

type Content = BTreeMap<i64, i64>;

/// Highest number of a row.
const ROWS: i64 = 60;
const TRANSACTIONS: u64 = 160;

/// A random number that follows from its place.
fn mixed(place: u64) -> u64 {
    let word = place.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 16
}

/// Changes a row, and the content as it should be then.
fn step(engine: &mut TestEngine, content: &mut Content, random: u64) {
    let id = (random % ROWS.cast_unsigned()).cast_signed();
    let value = (random >> 8 & 0xfff).cast_signed();
    let key = key(engine, id);
    match content.insert(id, value) {
        None => {
            let mut row = Row::new(engine.tables()[0].layout.clone());
            row.set(0, id).unwrap();
            row.set(1, value).unwrap();
            engine.insert(TABLE, &row).unwrap();
        }
        Some(_) if (random >> 32).is_multiple_of(4) => {
            assert!(engine.delete(TABLE, &key).unwrap());
            content.remove(&id);
        }
        Some(_) => update(engine, id, value),
    }
}

/// Does the steps of a transaction, which is open then; returns the content after it.
fn steps(engine: &mut TestEngine, content: &Content, random: u64) -> Content {
    let mut after = content.clone();
    engine.begin().unwrap();
    let count = match random & 15 {
        0 => 24,
        1..=3 => 4,
        _ => 1,
    };
    for number in 0..count {
        step(engine, &mut after, mixed(random ^ number << 40));
    }
    after
}

fn content(engine: &mut TestEngine) -> Content {
    let range = ScanRange {
        table: TABLE,
        index: None,
        low: key(engine, 0),
        high: key(engine, ROWS),
        direction: Direction::Forward,
    };
    let mut content = Content::new();
    let mut visit = |row: &Row| {
        if let (ValueRef::Int64(id), ValueRef::Int64(value)) = (row.get(0), row.get(1)) {
            content.insert(id, value);
        }
        ControlFlow::Continue(())
    };
    engine.begin().unwrap();
    engine.scan(&range, &mut visit).unwrap();
    engine.abort().unwrap();
    content
}

/// Opens an image and compares it; then changes it, cuts the power again, and compares that.
fn check(image: &SimulatedWorld, allowed: &[Content], place: u64) {
    let mut engine = open(image, FenceOrder::Single);
    let mut found = content(&mut engine);
    assert!(allowed.contains(&found), "{place}: {found:?}");
    assert_eq!(engine.verify().unwrap().damage, [""; 0], "{place}");
    for number in 0..3 {
        found = steps(&mut engine, &found, mixed(place << 8 | number));
        engine.commit(Durability::Immediate).unwrap();
    }
    let mut engine = open(&cut(image), FenceOrder::Single);
    assert_eq!(content(&mut engine), found, "{place}, after three more");
    assert_eq!(engine.verify().unwrap().damage, [""; 0], "{place}");
}

/// Images of a world, some of them cut once more while they recover.
fn check_images(world: &SimulatedWorld, allowed: &[Content], place: u64) -> u64 {
    let mut checked = 0;
    for choice in ImageChoices::bounded(world, place, 3) {
        let image = world.image(&choice).unwrap();
        let nested = Arc::new(Mutex::new(Vec::new()));
        let (seen, mut points) = (Arc::clone(&nested), place);
        image.observe(move |image, _| {
            points += 1;
            if mixed(points).is_multiple_of(5) {
                let choices = ImageChoices::bounded(image, points, 2);
                let images = choices.map(|choice| image.image(&choice).unwrap());
                seen.lock().unwrap().extend(images);
            }
        });
        drop(open(&image, FenceOrder::Single));
        image.unobserve();
        let nested = std::mem::take(&mut *nested.lock().unwrap());
        for image in nested.iter().chain([&image]) {
            check(image, allowed, place);
            checked += 1;
        }
    }
    checked
}

#[test]
fn a_cut_anywhere_leaves_whole_transactions() {
    let (seeds, share) = match std::env::var_os("LONG_TESTS") {
        Some(_) => (24, 1),
        None => (3, 9),
    };
    let mut all = 0;
    for seed in 0..seeds {
        let world = SimulatedWorld::new(WorldOptions {
            seed,
            ..WorldOptions::default()
        });
        let mut engine = create(&world, FenceOrder::Single);
        let allowed = Arc::new(Mutex::new(vec![Content::new()]));
        let images = Arc::new(Mutex::new(0));
        let (shared, sum, mut points) = (Arc::clone(&allowed), Arc::clone(&images), seed << 32);
        world.observe(move |world, _| {
            points += 1;
            if mixed(points).is_multiple_of(share) {
                let allowed = shared.lock().unwrap().clone();
                *sum.lock().unwrap() += check_images(world, &allowed, points);
            }
        });
        for number in 0..TRANSACTIONS {
            let random = mixed(seed << 32 | number);
            let before = allowed.lock().unwrap()[0].clone();
            let after = steps(&mut engine, &before, random);
            if (random >> 20).is_multiple_of(8) {
                engine.abort().unwrap();
                continue;
            }
            allowed.lock().unwrap().push(after);
            engine.commit(Durability::Immediate).unwrap();
            allowed.lock().unwrap().remove(0);
        }
        world.unobserve();
        all += *images.lock().unwrap();
    }
    assert!(all > 400, "{all} images");
}
