//! `fash` and `fast`: power cuts inside of commits, and openings that make one cut out of two.
//!
//! Rows are short and lie in one tree, so it is plain which pages a transaction changes. The flush
//! or fence of a named site does nothing, and the next opening must show that.

use super::*;
use pmem::PowerFailAtomicity;
use pmem::device::simulated::CrashPoint;

/// Records move on through so many bytes, the fewest that there can be; or each takes the place of
/// the one before.
const MOVING: u64 = 1;
const FIXED: u64 = 0;

/// A table with so many rows, whose numbers are even, in pages of so many bytes.
fn with_rows(method: Method, page_bytes: u32, rows: i64) -> Subject {
    rotating(method, page_bytes, rows, MOVING)
}

fn rotating(method: Method, page_bytes: u32, rows: i64, rotation_bytes: u64) -> Subject {
    let options = EngineOptions {
        page_bytes,
        rotation_bytes,
        ..options(1)
    };
    filled(Subject::with(method, 5, &options), rows)
}

fn filled(mut subject: Subject, rows: i64) -> Subject {
    subject
        .engine
        .idle()
        .unwrap()
        .drop_index(TABLE, INDEX)
        .unwrap();
    subject.change((0..rows).map(|row| 2 * row), 0);
    subject
}

/// Content that an opening of `image` finds.
fn found(image: &SimulatedWorld, method: Method) -> Result<Content, String> {
    let opened = open(image, method, &options(1));
    let mut engine = opened.map_err(|error| error.to_string())?;
    let report = engine.verify().map_err(|error| error.to_string())?;
    if let Some(damage) = report.damage.into_iter().next() {
        return Err(damage);
    }
    Ok(read(&mut *engine, None))
}

/// Opens `image` and goes on there.
fn reopened(subject: &Subject, image: SimulatedWorld) -> Subject {
    Subject {
        method: subject.method,
        engine: open(&image, subject.method, &options(1)).unwrap(),
        world: image,
        content: subject.content.clone(),
        random: 0,
    }
}

/// Cuts the power at each crash point of consecutive transactions; every opening finds the content
/// before or after the current one.
fn cut_throughout(
    (method, page_bytes, rows): (Method, u32, i64),
    transactions: &[&[i64]],
    disabled: &str,
) -> Result<(), String> {
    for rotation in [FIXED, MOVING] {
        let subject = rotating(method, page_bytes, rows, rotation);
        cut_each(subject, transactions, disabled)?;
    }
    Ok(())
}

fn cut_each(mut subject: Subject, transactions: &[&[i64]], disabled: &str) -> Result<(), String> {
    let method = subject.method;
    subject.world.disable(disabled);
    for ids in transactions {
        let before = subject.content.clone();
        let outcome = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&outcome);
        let mut scratch = None;
        subject.world.observe(move |world, _| {
            for choice in ImageChoices::sampled(world, 1, 32) {
                let image = world.image_in(&choice, &mut scratch).unwrap();
                seen.lock().unwrap().push(found(image, method));
            }
        });
        subject.change(ids.iter().copied(), 0);
        subject.world.unobserve();
        let outcome = std::mem::take(&mut *outcome.lock().unwrap());
        assert!(outcome.len() > 2, "{} images", outcome.len());
        for content in outcome {
            let content = content?;
            if content != before && content != subject.content {
                return Err("half of a transaction".to_owned());
            }
        }
    }
    match found(
        &subject.world.image(&ImageChoice::default()).unwrap(),
        method,
    ) {
        Ok(content) if content == subject.content => Ok(()),
        Ok(_) => Err("what was acknowledged is not there".to_owned()),
        Err(error) => Err(error),
    }
}

/// In `fast` lines follow records. A leaf of 512 bytes has a header of one line, one of 4096 bytes
/// with short rows one of two.
#[test]
fn every_cut_leaves_the_headers_of_one_transaction() {
    let transactions: &[&[i64]] = &[&[2, 60], &[4], &[3], &[62, 5], &[64]];
    let small = |method| (method, 512, 60);
    for subject in [
        small(Method::Fash),
        small(Method::Fast),
        (Method::Fash, 4096, 70),
    ] {
        let cut = |disabled| cut_throughout(subject, transactions, disabled);
        assert_eq!(cut("none"), Ok(()), "{subject:?}");
        for site in ["fash.record", "fash.header", "slotted.cells-fence"] {
            assert!(cut(site).is_err(), "{subject:?} without {site}");
        }
    }
}

/// Records come around: each slot has had several, and the newest counts wherever it lies.
#[test]
fn the_newest_record_counts_in_whichever_slot() {
    for method in [Method::Fash, Method::Fast] {
        for earlier in [29, 30, 31, 62, 95] {
            let came_around = || {
                let mut subject = with_rows(method, 512, 60);
                for number in 0..earlier {
                    subject.change([2 + number % 3, 60 + number % 5], 0);
                }
                subject
            };
            let transactions: &[&[i64]] = &[&[4, 62], &[2, 60, 90], &[3, 64]];
            let cut = |disabled| cut_each(came_around(), transactions, disabled);
            assert_eq!(cut("none"), Ok(()), "{method} after {earlier}");
            for site in ["fash.record", "fash.header"] {
                assert!(
                    cut(site).is_err(),
                    "{method} after {earlier} without {site}"
                );
            }
        }
    }
}

/// A pool is made where words of slots are not durable when the partition is.
#[test]
fn slots_are_durable_before_the_partition_is_there() {
    for (disabled, opens) in [("none", true), ("slotted.create-slot", false)] {
        let world = SimulatedWorld::new(WorldOptions {
            seed: 5,
            ..WorldOptions::default()
        });
        world.disable(disabled);
        let options = EngineOptions {
            rotation_bytes: MOVING,
            ..options(1)
        };
        let mut engine = create(&world, Method::Fash, &options).unwrap();
        engine.idle().unwrap().create_table(&table()).unwrap();
        let image = world.image(&ImageChoice::default()).unwrap();
        assert_eq!(found(&image, Method::Fash).is_ok(), opens, "{disabled}");
    }
}

/// The words of two records that follow each other lie in different slots; a flipped bit in any
/// word is damage and never brings older content back.
#[test]
fn a_flipped_bit_in_a_slot_brings_nothing_back() {
    let mut subject = with_rows(Method::Fash, 512, 60);
    for number in 0..40 {
        subject.change([2 + number % 3, 60 + number % 5], 0);
    }
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lines);
    subject.world.observe(move |world, point| {
        if matches!(point, CrashPoint::Fence(site) if site.name == "fash.record-fence") {
            let first = world.units().iter().map(|unit| unit.index).min();
            seen.lock().unwrap().extend(first);
        }
    });
    subject.change([2, 60], 0);
    subject.change([4, 62], 0);
    subject.world.unobserve();
    subject.engine.idle().unwrap().close().unwrap();
    let lines = std::mem::take(&mut *lines.lock().unwrap());
    assert_eq!(lines.len(), 2);
    assert_ne!(lines[0], lines[1]);
    for line in lines {
        for bit in 0..64 {
            let image = subject.world.image(&ImageChoice::default()).unwrap();
            let (name, _) = image.memory_lengths().remove(0);
            image
                .damage(&name, 64 * line + bit / 8, 1 << (bit % 8))
                .unwrap();
            let error = found(&image, Method::Fash).unwrap_err();
            assert!(error.contains("check bits"), "{error}");
        }
    }
}

/// All images that a power cut before the record's fence may leave of a transaction's record.
fn record_in_pieces(subject: &mut Subject, ids: [i64; 2]) -> Vec<SimulatedWorld> {
    let images = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&images);
    subject.world.observe(move |world, point| {
        let is_record =
            |point| matches!(point, CrashPoint::Fence(site) if site.name == "fash.record-fence");
        if is_record(point) {
            assert_eq!(world.units().len(), 2, "lines of the record");
            let choices = ImageChoices::exhaustive(world, 100).unwrap();
            let images = choices.map(|choice| world.image(&choice).unwrap());
            seen.lock().unwrap().extend(images);
        }
    });
    subject.change(ids, 0);
    subject.world.unobserve();
    std::mem::take(&mut *images.lock().unwrap())
}

/// A cut tears a record. The transaction after the next opening has a record whose second line is
/// the same, and is cut as well.
fn torn_twice(rotation: u64, disabled: &str) -> Result<(), String> {
    let mut first = rotating(Method::Fash, 512, 60, rotation);
    let before = first.content.clone();
    first.world.disable(disabled);
    for image in record_in_pieces(&mut first, [2, 60]) {
        let mut second = reopened(&first, image);
        if read(&mut *second.engine, None) != before {
            continue;
        }
        second.content = before.clone();
        for image in record_in_pieces(&mut second, [4, 60]) {
            let content = found(&image, Method::Fash)?;
            if content != before && content != second.content {
                return Err("a transaction that did not count".to_owned());
            }
        }
    }
    Ok(())
}

#[test]
fn a_torn_record_is_not_made_whole_by_the_next_one() {
    assert_eq!(torn_twice(FIXED, "none"), Ok(()));
    assert!(torn_twice(FIXED, "fash.torn-record").is_err());
    // Nothing needs to be taken out of slots.
    assert_eq!(torn_twice(MOVING, "none"), Ok(()));
    assert_eq!(torn_twice(MOVING, "fash.torn-record"), Ok(()));
}

/// A cut loses the headers that a record has. The opening stores them, and a record of other pages
/// is written over that one.
fn redone_and_cut(method: Method, disabled: &str) -> Result<(), String> {
    let mut subject = with_rows(method, 512, 60);
    subject.change([2, 30], 0);
    let image = subject.world.image(&ImageChoice::default()).unwrap();
    image.disable(disabled);
    let mut next = reopened(&subject, image);
    next.change([70, 100], 0);
    let content = found(&next.world.image(&ImageChoice::default()).unwrap(), method)?;
    if content == next.content {
        Ok(())
    } else {
        Err("what was acknowledged is not there".to_owned())
    }
}

#[test]
fn what_recovery_stores_is_durable_before_the_next_record() {
    for method in [Method::Fash, Method::Fast] {
        assert_eq!(redone_and_cut(method, "none"), Ok(()));
        let without = redone_and_cut(method, "fash.redo-header");
        assert!(without.is_err(), "{method}");
    }
}

/// A bit flips in the header that a splice belongs to, while the one that it makes is lost.
#[test]
fn a_splice_is_refused_where_the_header_before_is_damaged() {
    let mut subject = with_rows(Method::Fash, 4096, 70);
    let mut refused = 0;
    for id in [2, 4] {
        subject.change([id], 0);
        // Two lines of one place are under way; the line between them is of the other place.
        let lines: Vec<u64> = subject
            .world
            .units()
            .iter()
            .map(|unit| unit.index)
            .collect();
        let &[first, last] = &lines[..] else {
            panic!("lines {lines:?}");
        };
        assert_eq!(first + 2, last);
        for byte in 0..64 {
            let image = subject.world.image(&ImageChoice::default()).unwrap();
            let (name, _) = image.memory_lengths().remove(0);
            let at = (first + 1) * 64 + byte;
            image.damage(&name, at, 1 << (byte % 8)).unwrap();
            match found(&image, Method::Fash) {
                Ok(content) => assert_eq!(content, subject.content, "byte {byte}"),
                Err(error) => {
                    assert!(error.contains("slotted page"), "{error}");
                    refused += 1;
                }
            }
        }
    }
    // All of a first line, and the slots in use of a second one.
    assert!((65..128).contains(&refused), "{refused}");
}

/// Flips bits of the last record of a partition that was closed, one at a time, and cuts the power.
/// The lines of the record are those that are under way before the fence that commits it.
fn closed_and_flipped(method: Method, disabled: &str) -> Result<(), String> {
    let mut subject = with_rows(method, 512, 60);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lines);
    subject.world.observe(move |world, point| {
        if matches!(point, CrashPoint::Fence(site) if site.name == "fash.record-fence") {
            let units = world.units();
            seen.lock()
                .unwrap()
                .extend(units.iter().map(|unit| unit.index));
        }
    });
    // Two pages: `fast` takes a record as well.
    subject.change([2, 60], 0);
    subject.world.unobserve();
    subject.world.disable(disabled);
    subject.engine.idle().unwrap().close().unwrap();
    let lines = std::mem::take(&mut *lines.lock().unwrap());
    assert_eq!(lines.len(), 2);
    for byte in lines.iter().flat_map(|line| 64 * line..64 * (line + 1)) {
        let image = subject.world.image(&ImageChoice::default()).unwrap();
        let (name, _) = image.memory_lengths().remove(0);
        image.damage(&name, byte, 1 << (byte % 8)).unwrap();
        if found(&image, method).is_ok_and(|content| content != subject.content) {
            return Err(format!("byte {byte} brings older content back"));
        }
    }
    Ok(())
}

/// The headers of the last record were flushed and not waited for when a partition was closed.
/// After a power cut only the record had them, and an opening took a record with a flipped bit for
/// a torn one: the last transaction was lost without an error.
#[test]
fn a_partition_that_is_closed_does_not_need_its_record() {
    for method in [Method::Fash, Method::Fast] {
        assert_eq!(closed_and_flipped(method, "none"), Ok(()));
        let without = closed_and_flipped(method, "fash.settle-fence");
        assert!(without.is_err(), "{method}");
    }
}

/// Transactions of one row each in `fast`, which relies on lines of 64 bytes that survive whole, on
/// a platform that keeps so much. The images of the cuts are opened without that reliance.
fn cut_with_whole_lines(kept: PowerFailAtomicity, disabled: &str) -> Result<(), String> {
    let options = EngineOptions {
        atomicity: PowerFailAtomicity::Line,
        ..options(1)
    };
    let world = WorldOptions {
        seed: 5,
        atomicity: kept,
        ..WorldOptions::default()
    };
    let subject = filled(Subject::in_world(Method::Fast, world, &options), 60);
    // A record follows lines, and lines follow a record.
    cut_each(subject, &[&[2], &[3], &[5, 80], &[7], &[9]], disabled)
}

/// The 64-byte mode depends on the platform's promise: where such a line tears, its word is there
/// without its slots.
#[test]
fn whole_lines_are_for_platforms_that_keep_them() {
    assert_eq!(
        cut_with_whole_lines(PowerFailAtomicity::Line, "none"),
        Ok(())
    );
    for site in ["fast.whole-line", "fast.line-fence", "slotted.cells-fence"] {
        let without = cut_with_whole_lines(PowerFailAtomicity::Line, site);
        assert!(without.is_err(), "without {site}");
    }
    let torn = cut_with_whole_lines(PowerFailAtomicity::Word, "none");
    assert!(torn.is_err_and(|error| error.contains("slotted page")));
}

/// A partition moves back and forth between machines that keep 8 bytes and machines that keep 64.
#[test]
fn either_way_goes_on_with_what_the_other_has_left() {
    let mut subject = filled(Subject::new(Method::Fast, 5, 1), 60);
    let mut ways = [PowerFailAtomicity::Line, PowerFailAtomicity::Word]
        .into_iter()
        .cycle();
    for id in [2, 3, 42, 43, 82, 83] {
        let options = EngineOptions {
            atomicity: ways.next().unwrap(),
            ..options(1)
        };
        let image = subject.world.image(&ImageChoice::default()).unwrap();
        let engine = open(&image, Method::Fast, &options).unwrap();
        subject = Subject {
            engine,
            world: image,
            ..subject
        };
        assert_eq!(read(&mut *subject.engine, None), subject.content);
        subject.change([id], 0);
        let counters = subject.engine.status().memory.total();
        let is_whole = options.atomicity == PowerFailAtomicity::Line;
        assert_eq!(counters.bytes_streamed, if is_whole { 64 } else { 0 });
    }
}

/// A process dies when its line is stored and not yet waited for. The next one reads the row, and
/// the power fails.
fn read_after_a_death(disabled: &str) -> Result<(), String> {
    let mut subject = with_rows(Method::Fast, 512, 60);
    let next = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&next);
    subject.world.observe(move |world, point| {
        if matches!(point, CrashPoint::Fence(site) if site.name == "fast.line-fence") {
            *seen.lock().unwrap() = Some(world.death().unwrap());
        }
    });
    subject.change([2], 0);
    subject.world.unobserve();
    let next = next.lock().unwrap().take().unwrap();
    next.disable(disabled);
    let mut engine = open(&next, Method::Fast, &options(1)).unwrap();
    assert_eq!(read(&mut *engine, None), subject.content);
    let image = next.image(&ImageChoice::default()).unwrap();
    match found(&image, Method::Fast) {
        Ok(content) if content == subject.content => Ok(()),
        Ok(_) => Err("what was read is not there".to_owned()),
        Err(error) => Err(error),
    }
}

#[test]
fn what_a_reader_has_seen_is_durable() {
    assert_eq!(read_after_a_death("none"), Ok(()));
    for site in ["slotted.found-header", "slotted.found-fence"] {
        assert!(read_after_a_death(site).is_err(), "without {site}");
    }
}

/// A process dies when its record is stored and not yet waited for. The next process applies the
/// record, and the power fails.
fn done_after_a_death(disabled: &str) -> Result<(), String> {
    let mut subject = with_rows(Method::Fash, 512, 60);
    let before = subject.content.clone();
    let next = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&next);
    subject.world.observe(move |world, point| {
        if matches!(point, CrashPoint::Fence(site) if site.name == "fash.record-fence") {
            *seen.lock().unwrap() = Some(world.death().unwrap());
        }
    });
    subject.change([2, 60], 0);
    subject.world.unobserve();
    let next = next.lock().unwrap().take().unwrap();
    next.disable(disabled);
    let _engine = open(&next, Method::Fash, &options(1)).unwrap();
    for choice in ImageChoices::sampled(&next, 1, 60) {
        let content = found(&next.image(&choice).unwrap(), Method::Fash)?;
        if content != before && content != subject.content {
            return Err("half of a transaction".to_owned());
        }
    }
    Ok(())
}

#[test]
fn a_record_that_is_found_is_durable_before_it_is_done() {
    assert_eq!(done_after_a_death("none"), Ok(()));
    for site in ["fash.found-record", "fash.found-record-fence"] {
        assert!(done_after_a_death(site).is_err(), "without {site}");
    }
}
