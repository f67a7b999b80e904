//! `nvwal` and `slot-header-journal`: openings that find much in the log.
//!
//! An opening applies the log page by page, when a page is read or on its way home. So what these
//! tests vary is how much was read between the opening and the checkpoint that follows, inside of
//! which the power is cut.

use super::*;

/// Pages that can tear, and a log that takes all that a test changes.
fn options_of_a_long_log() -> EngineOptions {
    EngineOptions {
        page_bytes: 1024,
        ring_bytes: 256 << 10,
        ..options(1)
    }
}

fn opened(method: Method, image: &SimulatedWorld) -> Result<Box<dyn Engine>, String> {
    let options = options_of_a_long_log();
    let opened = open(image, method, &options);
    opened.map_err(|error| error.to_string())
}

fn found(method: Method, image: &SimulatedWorld) -> Result<Content, String> {
    let mut engine = opened(method, image)?;
    let report = engine.verify().map_err(|error| error.to_string())?;
    match report.damage.into_iter().next() {
        Some(damage) => Err(damage),
        None => Ok(read(&mut *engine, None)),
    }
}

/// A partition whose pages are at home, and a log of changes to most of them: changed again,
/// brought into use and given up.
fn with_a_log(method: Method) -> Subject {
    let mut subject = Subject::with(method, 5, &options_of_a_long_log());
    subject.change(0..200, 40);
    subject.engine.idle().unwrap().checkpoint().unwrap();
    for first in 0..5 {
        subject.change((first..200).step_by(5), 60);
        subject.change((first..200).step_by(7), 60);
    }
    subject.change([900, 901], 3000);
    subject.change(120..160, 10);
    subject
}

/// Reads of the file from the opening on.
fn reads(engine: &dyn Engine) -> u64 {
    engine.status().disk.reads
}

/// Opens the images of a cut, reads rows of these numbers, and cuts the power again inside of a
/// checkpoint.
fn cut_in_a_checkpoint(
    method: Method,
    rows: std::ops::Range<i64>,
    disabled: &str,
) -> Result<(), String> {
    let mut subject = with_a_log(method);
    let image = subject.world.image(&ImageChoice::default()).unwrap();
    subject.engine = opened(method, &image)?;
    subject.engine.begin().unwrap();
    let mut row = Row::new(Arc::clone(&subject.engine.tables()[0].layout));
    for id in rows {
        let key = subject.key(id);
        let is_there = subject.engine.get(TABLE, &key, &mut row).unwrap();
        assert_eq!(is_there, subject.content.contains_key(&id));
    }
    subject.engine.abort().unwrap();
    image.disable(disabled);
    let images = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&images);
    let mut scratch = None;
    image.observe(move |world, _| {
        for choice in ImageChoices::sampled(world, 1, 40) {
            let image = world.image_in(&choice, &mut scratch).unwrap();
            seen.lock().unwrap().push(found(method, image));
        }
    });
    subject.engine.idle().unwrap().checkpoint().unwrap();
    image.unobserve();
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 20, "{} images", images.len());
    let last = found(method, &image.image(&ImageChoice::default()).unwrap());
    for content in images.into_iter().chain([last]) {
        if content? != subject.content {
            return Err("what was acknowledged is not there".to_owned());
        }
    }
    assert_eq!(read(&mut *subject.engine, None), subject.content);
    Ok(())
}

#[test]
fn what_nobody_has_read_since_the_opening_comes_home_as_well() {
    for method in BEHIND_FRAMES {
        for rows in [0..0, 40..60, 0..300] {
            let cut = cut_in_a_checkpoint(method, rows.clone(), "none");
            assert_eq!(cut, Ok(()), "{method}, {rows:?}");
            let without = cut_in_a_checkpoint(method, rows, "nvwal.home");
            assert!(without.is_err(), "{method}");
        }
    }
}

/// Transactions change some pages that the log has and give some of them up, before anybody reads
/// the rest.
#[test]
fn transactions_go_on_over_a_log_that_is_not_applied() {
    for method in BEHIND_FRAMES {
        go_on_over_a_log(method);
    }
}

fn go_on_over_a_log(method: Method) {
    let mut subject = with_a_log(method);
    for round in 0..4 {
        let image = subject.world.image(&ImageChoice::default()).unwrap();
        subject.engine = opened(method, &image).unwrap();
        subject.world = image;
        subject.change((10 * round..10 * round + 8).chain([900]), 50);
        if round == 2 {
            subject.engine.idle().unwrap().checkpoint().unwrap();
        }
        let image = subject.world.image(&ImageChoice::default()).unwrap();
        assert_eq!(found(method, &image).as_ref(), Ok(&subject.content));
    }
    verified(&mut *subject.engine);
    subject.check();
}

/// An opening read every page that the log names, which took most of its time.
#[test]
fn an_opening_reads_no_page_because_the_log_names_it() {
    let subject = with_a_log(Method::Nvwal);
    let image = subject.world.image(&ImageChoice::default()).unwrap();
    let before = SimulatedDirectory::new(&image).counters().reads;
    let mut engine = opened(Method::Nvwal, &image).unwrap();
    let opening = reads(&*engine) - before;
    assert!(opening < 12, "{opening} reads");
    assert_eq!(read(&mut *engine, None), subject.content);
    let all = reads(&*engine) - before;
    assert!(all > 3 * opening, "{all} reads");
}

/// Bytes that transactions of one row each, all over a table, write to files: to those of pages and
/// those of logs.
fn file_bytes(method: Method, ring_bytes: u64, buffer_bytes: u64) -> u64 {
    let options = EngineOptions {
        page_bytes: 4096,
        buffer_bytes,
        ring_bytes,
        checkpoint_log_bytes: 256 << 10,
        ..options(1)
    };
    let mut subject = Subject::with(method, 5, &options);
    subject.change((0..2000).map(|row| 2 * row), 90);
    subject.engine.idle().unwrap().checkpoint().unwrap();
    let before = subject.engine.status().disk.bytes_written;
    for step in 0..600 {
        subject.change([2 * (step * 1009 % 2000) + 1], 90);
    }
    subject.engine.idle().unwrap().checkpoint().unwrap();
    subject.engine.status().disk.bytes_written - before
}

/// The last claim of the talk on `fash` and `fast`: with a journal of slot headers in a small
/// memory less is written to block storage than by what else keeps pages whole there. That is so
/// where frames are enough for all pages, so that the length of the journal alone makes it write.
#[test]
fn a_small_journal_of_headers_saves_writes_to_files() {
    let frames = 4 << 20;
    let journal = |bytes| file_bytes(Method::SlotHeaderJournal, bytes, frames);
    // As much journal as the others have log between two checkpoints, and as much as by default.
    for (bytes, least_percent) in [(256 << 10, 150), (1 << 20, 300)] {
        let written = journal(bytes);
        for method in [Method::FullPageWrites, Method::Dwb] {
            let percent = file_bytes(method, 0, frames) * 100 / written;
            assert!(percent >= least_percent, "{method}: {percent} %");
        }
    }
    assert!(journal(16 << 10) > 2 * journal(256 << 10));
}
