//! Goal: in no order of threads a record is reported durable that is not, a thread waits for a sync
//! that nobody leads, or a segment or checkpoint begins while earlier records are not durable.
//!
//! Method: three threads append and wait on the real code, over a device that lets others run in
//! the middle of each sync and each creation of a file, and makes durable only what was written
//! before a sync began. After each wait
//! the test reads what a power cut would leave just then. Segments are so small that some begin
//! while a sync runs. `shuttle` chooses the order; a lost signal is a deadlock, which it reports.
//!
//! `cargo test -p page_engine --features schedules --lib schedule_tests`

use super::*;
use crate::buffer::log::append_bytes;
use crate::buffer::test_device::{Call, Device};
use shuttle::thread::{spawn, yield_now};
use std::sync::Arc;
use storage::log::LogIdentity;

/// Schedules of each kind that a test tries.
const SCHEDULES: usize = 10_000;
/// Changes of thread that a schedule of the second kind has beyond those that waiting forces.
const CHANGES: usize = 3;
const IDENTITY: LogIdentity = LogIdentity {
    database: 7,
    partition: 1,
};
const OPTIONS: WalOptions = WalOptions {
    segment_bytes: 256,
    long_segment_bytes: 0,
    buffer_bytes_max: 64,
    spare_bytes_max: 8 << 10,
    reserve_bytes: 0,
};

type Log = Arc<CentralLog<Device>>;
type Work = fn(&Log, &Device, u8);

fn open(device: Device, found: &mut Vec<u8>) -> CentralLog<Device> {
    let opened = CentralLog::open(
        Access::Write,
        device,
        IDENTITY,
        OPTIONS,
        LogStart::NEW,
        &mut |_, record| {
            found.push(record[0]);
            Ok(())
        },
        None,
    );
    opened.expect("what is durable can be opened")
}

fn survivors(device: &Device) -> Vec<u8> {
    let mut found = Vec::new();
    open(device.after_power_cut(), &mut found);
    found
}

fn append(log: &Log, number: u8) -> Result<Lsn> {
    append_bytes(&**log, UndoSpace::Keep(0), &[number; 40])
}

/// Two records, each durable before the next one.
fn commit(log: &Log, device: &Device, number: u8) {
    for number in [number, number + 1] {
        let Ok(lsn) = append(log, number) else {
            assert!(log.is_poisoned());
            return;
        };
        match log.flush_to(lsn) {
            Ok(()) => assert!(survivors(device).contains(&number)),
            Err(_) => assert!(log.is_poisoned()),
        }
    }
}

/// A checkpoint between two records.
fn checkpoint(log: &Log, device: &Device, number: u8) {
    let (first, start) = (append(log, number), log.begin_checkpoint());
    if let (Ok(first), Ok(start)) = (first, start) {
        assert!(start.redo > first && log.synced() >= start.redo);
        assert!(survivors(device).contains(&number));
    } else {
        assert!(log.is_poisoned());
    }
    commit(log, device, number + 1);
}

fn explore(fails: bool, works: [Work; 3]) {
    let test = move || {
        let failures = std::sync::Mutex::new(u32::from(fails));
        let device = Device::new(move |call| {
            yield_now();
            if call != Call::SyncLog {
                return true;
            }
            // The second sync fails, if one is to fail.
            let mut left = failures.lock().expect("nobody panics with it");
            *left += u32::from(*left > 0);
            *left != 3
        });
        let log = Arc::new(open(device.clone(), &mut Vec::new()));
        let threads: Vec<_> = works
            .into_iter()
            .zip([10, 20, 30])
            .map(|(work, number)| {
                let (log, device) = (Arc::clone(&log), device.clone());
                spawn(move || work(&log, &device, number))
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread has failed");
        }
        assert_eq!(log.is_poisoned(), fails);
        assert!(device.syncs() > 1);
    };
    shuttle::check_random(test, SCHEDULES);
    shuttle::check_pct(test, SCHEDULES, CHANGES);
}

#[test]
fn what_is_said_to_be_durable_is() {
    explore(false, [commit, commit, commit]);
}

#[test]
fn a_checkpoint_begins_behind_all_that_is_durable() {
    explore(false, [commit, commit, checkpoint]);
}

#[test]
fn a_sync_that_fails_ends_every_wait() {
    explore(true, [commit, commit, checkpoint]);
}
