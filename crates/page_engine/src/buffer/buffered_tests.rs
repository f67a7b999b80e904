//! Many threads in one pool: goal and method.
//!
//! Goal: a thread that reads a page from the file waits for no read or write of another one. A
//! thread that needs a frame finds clean ones where there is a cleaner, and does not fail because
//! all are latched for a moment.
//!
//! Method: a device whose calls wait for the test, which sees which threads are in the middle of
//! one.

use super::super::central_log::CentralLog;
use super::super::file::PageFileOptions;
use super::super::frame::Frame;
use super::super::master::Master;
use super::super::offsets::first_page;
use super::super::replacement::{AHEAD_MIN, FULL_WAIT};
use super::super::test_device::{Call, Device};
use super::*;
use crate::buffer::PageFile;
use crate::page::{Header, PageKind, PageOp, header};
use pmem::Access;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use storage::StorageError;
use storage::engine::Guard;
use storage::log::{LogIdentity, LogStart, WalOptions};

const IDENTITY: LogIdentity = LogIdentity {
    database: 3,
    partition: 0,
};
const PAGE_BYTES: usize = 1024;
/// More than the pool has frames.
const PAGES: u32 = 200;
/// Longer than anything takes that does not wait for ever.
const LONG: Duration = Duration::from_mins(30);

type TestPool = Arc<TestFrames>;

/// Frames with what is below them, as a pool has them.
struct TestFrames {
    frames: Buffered<Device>,
    below: Arc<Below<Device>>,
}

impl TestFrames {
    fn read(&self, id: PageId) -> Result<ReadGuard<'_>> {
        self.frames.read(id)
    }

    fn write(&self, id: PageId) -> Result<WriteGuard<'_>> {
        self.frames.write(id, Fill::Read)
    }

    fn write_all(&self) -> Result<()> {
        self.frames.write_all(&mut |_, _| Ok(()))
    }

    fn clean(&self) -> Result<()> {
        self.frames.clean()
    }
}

fn page_at(number: u32) -> PageId {
    PageId(first_page(PAGE_BYTES).0 + number)
}

/// A pool of the fewest frames over a file of empty leaves.
fn pool_on(device: &Device) -> TestPool {
    let options = PageFileOptions {
        identity: IDENTITY,
        access: Access::Write,
        guard: Guard::FullPageWrites,
    };
    let master = Master {
        generation: 0,
        page_bytes: PAGE_BYTES as u32,
        guard: Guard::FullPageWrites.code(),
        start: LogStart::NEW,
        redo: LogStart::NEW.lsn,
        next_txn: 1,
        catalogue: first_page(PAGE_BYTES),
        pages: 0,
    };
    let pages: Vec<_> = (0..PAGES)
        .map(|number| {
            let mut page = vec![0; PAGE_BYTES];
            PageOp::Format {
                kind: PageKind::Leaf,
                level: 0,
                key_words: 1,
                link: PageId(0),
            }
            .apply(&mut page, page_at(number))
            .unwrap();
            header::seal(&mut page);
            page
        })
        .collect();
    let file = PageFile::create(device, &options, master, &pages, None).unwrap();
    let log = CentralLog::open(
        Access::Write,
        device.clone(),
        IDENTITY,
        WalOptions::default(),
        LogStart::NEW,
        &mut |_, _| Ok(()),
        None,
    );
    let below = Arc::new(Below::new(file, Box::new(log.unwrap())).unwrap());
    Arc::new(TestFrames {
        frames: Buffered::new(Arc::clone(&below), 0).unwrap(),
        below,
    })
}

/// A call of one kind waits in its middle until the test lets it go on, once the test has asked for
/// that.
struct Gate {
    is_armed: Arc<AtomicBool>,
    began: Receiver<()>,
    go_on: Sender<()>,
}

fn gated(kind: Call) -> (Device, Gate) {
    let is_armed = Arc::new(AtomicBool::new(false));
    let (say, began) = channel();
    let (go_on, wait) = channel();
    let wait = Mutex::new(wait);
    let armed = Arc::clone(&is_armed);
    let device = Device::new(move |call| {
        if call == kind && armed.load(Ordering::SeqCst) {
            say.send(()).unwrap();
            wait.lock().unwrap().recv_timeout(LONG).unwrap();
        }
        true
    });
    let gate = Gate {
        is_armed,
        began,
        go_on,
    };
    (device, gate)
}

/// Reads pages in a thread, and says when that is done.
fn read_in_thread(pool: &TestPool, pages: std::ops::Range<u32>) -> Receiver<Result<()>> {
    let (say, heard) = channel();
    let pool = Arc::clone(pool);
    std::thread::spawn(move || {
        let read = |number| {
            let page = pool.read(page_at(number))?;
            assert_eq!(Header(page.bytes()).number(), page_at(number));
            Ok(())
        };
        let _ = say.send(pages.into_iter().try_for_each(read));
    });
    heard
}

#[test]
fn pages_are_read_while_others_are_written() {
    let (device, gate) = gated(Call::WritePages);
    let pool = pool_on(&device);
    pool.write(page_at(0)).unwrap().bytes_mut();
    gate.is_armed.store(true, Ordering::SeqCst);
    let writer = std::thread::spawn({
        let pool = Arc::clone(&pool);
        move || pool.write_all()
    });
    gate.began.recv_timeout(LONG).unwrap();
    let read = read_in_thread(&pool, 1..40);
    read.recv_timeout(LONG).unwrap().unwrap();
    gate.go_on.send(()).unwrap();
    writer.join().unwrap().unwrap();
}

#[test]
fn as_many_pages_are_read_at_once_as_are_wanted() {
    const READERS: usize = 8;
    let inside = Arc::new((Mutex::new(0), Condvar::new()));
    let most = Arc::new(AtomicUsize::new(0));
    let device = Device::new({
        let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
        move |call| {
            if call != Call::ReadPage {
                return true;
            }
            let (readers, all_here) = &*inside;
            let mut readers = readers.lock().unwrap();
            *readers += 1;
            most.fetch_max(*readers, Ordering::SeqCst);
            all_here.notify_all();
            let waited = all_here.wait_timeout_while(readers, LONG, |readers| *readers < READERS);
            !waited.unwrap().1.timed_out()
        }
    });
    let pool = pool_on(&device);
    let reads: Vec<_> = (0..READERS as u32)
        .map(|number| read_in_thread(&pool, number..number + 1))
        .collect();
    for read in reads {
        read.recv_timeout(2 * LONG).unwrap().unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), READERS);
}

/// A pool whose calls say in which thread pages are written.
fn pool_with_writers() -> (TestPool, Arc<Mutex<Vec<ThreadId>>>) {
    let writers = Arc::new(Mutex::new(Vec::new()));
    let device = Device::new({
        let writers = Arc::clone(&writers);
        move |call| {
            if call == Call::WritePages {
                writers.lock().unwrap().push(std::thread::current().id());
            }
            true
        }
    });
    let pool = pool_on(&device);
    writers.lock().unwrap().clear();
    (pool, writers)
}

fn dirty_frames(pool: &TestPool) -> usize {
    let is_dirty = |frame: &&Frame| frame.dirty.load(Ordering::SeqCst);
    pool.frames
        .replacement
        .frames
        .iter()
        .filter(is_dirty)
        .count()
}

/// Waits until something holds.
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_cleaner_writes_ahead_of_those_who_need_frames() {
    let (pool, writers) = pool_with_writers();
    let cleaner = std::thread::spawn({
        let pool = Arc::clone(&pool);
        move || pool.clean()
    });
    wait_until("the cleaner has begun", || {
        pool.frames.replacement.cleaner.is_present()
    });
    let cleaner_id = cleaner.thread().id();
    // Three times around, with a dirty page in every fourth frame.
    for number in 0..PAGES - 1 {
        if number % 4 == 0 {
            pool.write(page_at(number)).unwrap().bytes_mut();
        } else {
            drop(pool.read(page_at(number)).unwrap());
        }
        let hand = pool.frames.replacement.hand.load(Ordering::SeqCst);
        wait_until("the frames in front of the hand are clean", || {
            let ahead = (hand..FRAMES_MIN).chain(0..hand).take(AHEAD_MIN / 2);
            pool.frames.replacement.cleaner.wake();
            ahead.into_iter().all(|number| {
                !pool.frames.replacement.frames[number]
                    .dirty
                    .load(Ordering::SeqCst)
            })
        });
    }
    let writers = writers.lock().unwrap().clone();
    assert!(writers.len() > 5);
    assert!(writers.iter().all(|&writer| writer == cleaner_id));
    pool.frames.end_cleaning();
    cleaner.join().unwrap().unwrap();
    assert!(!pool.frames.replacement.cleaner.is_present());
}

#[test]
fn without_a_cleaner_whoever_needs_a_frame_writes() {
    let (pool, writers) = pool_with_writers();
    for number in 0..PAGES {
        pool.write(page_at(number)).unwrap().bytes_mut();
    }
    let me = std::thread::current().id();
    let writers = writers.lock().unwrap().clone();
    assert!(!writers.is_empty() && writers.iter().all(|&writer| writer == me));
    assert!(dirty_frames(&pool) <= FRAMES_MIN);
}

#[test]
fn a_cleaner_that_cannot_write_stops_who_needs_a_frame() {
    let fails = Arc::new(AtomicBool::new(false));
    let device = Device::new({
        let fails = Arc::clone(&fails);
        move |call| call != Call::WritePages || !fails.load(Ordering::SeqCst)
    });
    let pool = pool_on(&device);
    fails.store(true, Ordering::SeqCst);
    let cleaner = std::thread::spawn({
        let pool = Arc::clone(&pool);
        move || pool.clean()
    });
    let mut changed = (0..PAGES).map(|number| {
        let mut page = pool.write(page_at(number))?;
        page.bytes_mut();
        Ok(())
    });
    let failed: Result<()> = changed.by_ref().collect();
    let is_told = |error: &StorageError| {
        let cause = match error {
            StorageError::Stopped { cause } => cause.clone(),
            error => error.to_string(),
        };
        cause.contains("use pages")
    };
    assert!(failed.as_ref().is_err_and(is_told), "{failed:?}");
    // Although the device works again, nobody writes after a failure.
    fails.store(false, Ordering::SeqCst);
    let again = pool.write_all();
    assert!(
        matches!(again, Err(StorageError::Stopped { .. })),
        "{again:?}"
    );
    pool.frames.end_cleaning();
    // It may have come to nothing before the session did.
    assert!(cleaner.join().unwrap().as_ref().err().is_none_or(is_told));
}

#[test]
fn a_sync_that_has_failed_ahead_is_one_of_the_checkpoint() {
    let fails = Arc::new(AtomicBool::new(false));
    let device = Device::new({
        let fails = Arc::clone(&fails);
        // It fails once, and only one handle gets the error.
        move |call| call != Call::SyncPages || !fails.swap(false, Ordering::SeqCst)
    });
    let pool = pool_on(&device);
    pool.write(page_at(0)).unwrap().bytes_mut();
    pool.write_all().unwrap();
    fails.store(true, Ordering::SeqCst);
    assert!(pool.below.readers.write_back().sync_ahead().is_err());
    let master = pool.below.file().master();
    let failed = pool.below.file().checkpoint(master);
    assert!(matches!(failed, Err(StorageError::Poisoned)), "{failed:?}");
}

#[test]
fn who_finds_all_frames_latched_waits_a_moment_and_not_for_ever() {
    let (pool, _) = pool_with_writers();
    let latch_all = || -> Vec<_> {
        let pages = 0..FRAMES_MIN as u32;
        pages
            .map(|number| pool.read(page_at(number)).unwrap())
            .collect()
    };
    // Where this thread gets no time for as long as the other one waits, there is another round.
    loop {
        let (latched, start) = (latch_all(), Instant::now());
        let read = read_in_thread(&pool, 100..101);
        std::thread::sleep(FULL_WAIT / 10);
        drop(latched);
        let read = read.recv_timeout(LONG).unwrap();
        if read.is_ok() {
            break;
        }
        assert!(start.elapsed() >= FULL_WAIT, "{read:?}");
    }
    let _latched = latch_all();
    let read = read_in_thread(&pool, 110..111);
    let failed = read.recv_timeout(LONG).unwrap();
    let text = failed.unwrap_err().to_string();
    assert!(text.contains("in use at once"), "{text}");
}

#[test]
fn who_finds_a_clean_frame_does_not_wait_for_a_page_that_is_written() {
    let (device, gate) = gated(Call::WritePages);
    let pool = pool_on(&device);
    // The hand is at the first frame, and only that one is dirty.
    pool.write(page_at(0)).unwrap().bytes_mut();
    for number in 1..FRAMES_MIN as u32 {
        drop(pool.read(page_at(number)).unwrap());
    }
    gate.is_armed.store(true, Ordering::SeqCst);
    let writes = read_in_thread(&pool, 100..101);
    gate.began.recv_timeout(LONG).unwrap();
    let reads = read_in_thread(&pool, 101..120);
    reads.recv_timeout(LONG).unwrap().unwrap();
    gate.go_on.send(()).unwrap();
    writes.recv_timeout(LONG).unwrap().unwrap();
    assert_eq!(dirty_frames(&pool), 0);
}

#[test]
fn pages_that_were_fetched_wait_for_who_asked_and_keep_no_frame_from_others() {
    let (pool, _) = pool_with_writers();
    let fetcher = std::thread::spawn({
        let pool = Arc::clone(&pool);
        move || pool.frames.fetch()
    });
    wait_until("the fetcher has begun", || pool.frames.fetcher.is_present());
    let is_here = |number| pool.frames.replacement.table.get(page_at(number)).is_some();
    // Behind the end is a page that nobody can read; it ends nothing.
    let mut pages = [150, 20_000, 151].map(page_at).into_iter();
    pool.frames.will_read(&mut pages);
    wait_until("pages are here that nobody has read", || {
        is_here(150) && is_here(151)
    });
    let uses = |number| {
        let frame = pool.frames.replacement.table.get(page_at(number)).unwrap();
        pool.frames.replacement.frames[frame]
            .uses
            .load(Ordering::SeqCst)
    };
    wait_until("they count as not used", || uses(151) == FETCHED);
    drop(pool.read(page_at(150)).unwrap());
    assert_eq!(uses(150), 0, "as if it had been read in just now");
    drop(pool.read(page_at(150)).unwrap());
    assert_eq!(uses(150), 1);
    // Two ways around: the one that was used once is gone, and the one that was never used before
    // it.
    for number in 0..2 * FRAMES_MIN as u32 {
        drop(pool.read(page_at(number)).unwrap());
    }
    assert!(!is_here(150) && !is_here(151));
    assert!(!is_here(20_000));
    pool.frames.end_fetching();
    fetcher.join().unwrap();
    assert!(!pool.frames.fetcher.is_present());
}
