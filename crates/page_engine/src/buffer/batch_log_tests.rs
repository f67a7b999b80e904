//! A batch whose pages somebody has: goal and method.
//!
//! Goal: a page that stays latched makes the batch fail with an error that names the remedy and
//! without effect, and a reader of a page delays no batch. Method: the test has the latch itself,
//! and the log tries for a moment instead of for seconds.

use super::*;
use crate::buffer::NvPages;
use crate::page::header::seal;
use disk::simulated::SimulatedDirectory;
use pmem::device::simulated::{SimulatedSource, SimulatedWorld, WorldOptions};
use storage::log::LogIdentity;

const IDENTITY: LogIdentity = LogIdentity {
    database: 7,
    partition: 0,
};
const PAGE_BYTES: usize = 1024;

/// A log over one page, which the current batch has changed.
fn log_with_a_page() -> (BatchLog<SimulatedSource, SimulatedDirectory>, PageId) {
    let world = SimulatedWorld::new(WorldOptions::default());
    let memories = world.source();
    let mut page = vec![0; PAGE_BYTES];
    seal(&mut page);
    let (source, pages) = NvPages::create(&memories, IDENTITY, PAGE_BYTES, &[page]).unwrap();
    let first = source.first();
    BatchStore::create(&memories, IDENTITY, 64 << 10).unwrap();
    let store = BatchStore::open(&memories, IDENTITY, pmem::Access::Write).unwrap();
    let resident = ResidentPages::new(Box::new(source), first, pages, Some(store.end()));
    let (files, resident) = (SimulatedDirectory::new(&world), Arc::new(resident));
    let log = BatchLog::new(store, files, Arc::clone(&resident), PAGE_BYTES);
    let log = BatchLog {
        latch_wait: Duration::from_millis(1),
        ..log
    };
    let apply: &mut ApplyRecord<'_> = &mut |_, changed| {
        changed.push(first);
        let frame = resident.frame(first).unwrap();
        frame.dirty.store(true, Ordering::Relaxed);
        Ok(())
    };
    let buffer = &mut Vec::new();
    let mut record = NewRecord::new(log.record_start(), buffer);
    record.head(&Head::Change);
    log.append_applying(UndoSpace::Keep(0), record, (1, apply))
        .unwrap();
    (log, first)
}

#[test]
fn a_page_that_stays_latched_is_an_error_that_has_done_nothing() {
    let (log, page) = log_with_a_page();
    let resident = Arc::clone(&log.resident);
    let before = log.synced();
    let latch = resident.frame(page).unwrap().latch.write().unwrap();
    let error = log.flush().unwrap_err().to_string();
    assert!(
        error.contains("a page of the batch stays in use"),
        "{error}"
    );
    assert!(error.contains("end the scan"), "{error}");
    assert_eq!((log.synced(), log.is_poisoned()), (before, false));
    drop(latch);
    log.flush().unwrap();
    assert!(log.synced() > before);
}

#[test]
fn who_reads_a_page_holds_no_batch_up() {
    let (log, page) = log_with_a_page();
    let resident = Arc::clone(&log.resident);
    let before = log.synced();
    let latch = resident.frame(page).unwrap().latch.read().unwrap();
    log.flush().unwrap();
    assert!(log.synced() > before);
    drop(latch);
}
