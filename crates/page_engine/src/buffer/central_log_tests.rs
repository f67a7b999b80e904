//! Many threads make records durable: goal and method.
//!
//! Goal: a thread that only appends waits for no sync and no new file, threads that wait share
//! syncs, and records that are reported durable are durable.
//!
//! Method: a device whose calls wait for the test, so that each thread is at a known point. The
//! durable records are read from the state that a power cut would leave at that moment.

use super::super::test_device::{Call, Device};
use super::*;
use crate::buffer::log::append_bytes;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;
use storage::sync::lock;

const IDENTITY: LogIdentity = LogIdentity {
    database: 7,
    partition: 1,
};
const OPTIONS: WalOptions = WalOptions {
    segment_bytes: 4096,
    long_segment_bytes: 0,
    buffer_bytes_max: 1024,
    spare_bytes_max: 8 << 10,
    reserve_bytes: 0,
};
/// Longer than anything takes that does not wait for ever.
const LONG: Duration = Duration::from_mins(30);
const THREADS: u8 = 8;

type Log = Arc<CentralLog<Device>>;

/// Control of a running call: the test learns of its begin, and decides how it ends.
struct Gate {
    began: Receiver<()>,
    end: Sender<bool>,
}

/// A device with control of the syncs that make records durable.
fn gated() -> (Device, Gate) {
    gated_at(Call::SyncLog)
}

fn gated_at(kind: Call) -> (Device, Gate) {
    let (say, began) = channel();
    let (end, ended) = channel();
    let ended = Mutex::new(ended);
    let device = Device::new(move |call| {
        if call != kind {
            return true;
        }
        say.send(()).unwrap();
        lock(&ended).recv_timeout(LONG).unwrap()
    });
    (device, Gate { began, end })
}

fn open(device: &Device) -> Log {
    let log = CentralLog::open(
        Access::Write,
        device.clone(),
        IDENTITY,
        OPTIONS,
        LogStart::NEW,
        &mut |_, _| Ok(()),
        None,
    );
    Arc::new(log.unwrap())
}

/// The segments that have their names.
fn segments(device: &Device) -> Vec<String> {
    let mut names = device.names();
    names.retain(|name| name.contains(".wal.") && !name.ends_with("tmp"));
    names
}

fn append(log: &Log, payload: &[u8]) -> Result<Lsn> {
    append_bytes(&**log, UndoSpace::Keep(0), payload)
}

/// The first bytes of all records that a power cut leaves now.
fn survivors(device: &Device) -> Vec<u8> {
    let left = device.after_power_cut();
    let mut found = Vec::new();
    let log = CentralLog::open(
        Access::Write,
        left,
        IDENTITY,
        OPTIONS,
        LogStart::NEW,
        &mut |_, record| {
            found.push(record[0]);
            Ok(())
        },
        None,
    );
    log.unwrap();
    found
}

/// A thread that appends a record, says so, and makes it durable.
fn commit(log: &Log, payload: Vec<u8>, appended: &Sender<()>) -> JoinHandle<Result<()>> {
    let (log, appended) = (Arc::clone(log), appended.clone());
    spawn(move || {
        let lsn = append(&log, &payload)?;
        appended.send(()).unwrap();
        log.flush_to(lsn)
    })
}

#[test]
fn who_appends_does_not_wait_for_a_sync_and_who_waits_shares_the_next() {
    let (device, gate) = gated();
    let log = open(&device);
    let (appended, heard) = channel();
    let leader = commit(&log, vec![100], &appended);
    heard.recv_timeout(LONG).unwrap();
    gate.began.recv_timeout(LONG).unwrap();
    let others: Vec<_> = (0..THREADS)
        .map(|number| commit(&log, vec![number], &appended))
        .collect();
    // All records are in the log, and the sync of the first one still runs.
    for _ in &others {
        heard.recv_timeout(LONG).unwrap();
    }
    assert_eq!((device.syncs(), log.synced()), (0, Lsn::FIRST));
    assert_eq!(survivors(&device), []);
    gate.end.send(true).unwrap();
    gate.began.recv_timeout(LONG).unwrap();
    leader.join().unwrap().unwrap();
    assert_eq!(survivors(&device), [100]);
    gate.end.send(true).unwrap();
    for thread in others {
        thread.join().unwrap().unwrap();
    }
    assert_eq!(device.syncs(), 2);
    let mut left = survivors(&device);
    left.sort_unstable();
    assert_eq!(left, [0, 1, 2, 3, 4, 5, 6, 7, 100]);
}

#[test]
fn after_a_sync_that_failed_nobody_who_waits_is_told_otherwise() {
    let (device, gate) = gated();
    let log = open(&device);
    let (appended, heard) = channel();
    let leader = commit(&log, vec![100], &appended);
    heard.recv_timeout(LONG).unwrap();
    gate.began.recv_timeout(LONG).unwrap();
    let others: Vec<_> = (0..THREADS)
        .map(|number| commit(&log, vec![number], &appended))
        .collect();
    for _ in &others {
        heard.recv_timeout(LONG).unwrap();
    }
    gate.end.send(false).unwrap();
    assert!(matches!(leader.join().unwrap(), Err(StorageError::Disk(_))));
    for thread in others {
        assert!(matches!(
            thread.join().unwrap(),
            Err(StorageError::Stopped { .. })
        ));
    }
    assert!(matches!(
        append(&log, &[1]),
        Err(StorageError::Stopped { .. })
    ));
    assert!(matches!(log.flush(), Err(StorageError::Stopped { .. })));
    assert_eq!(device.syncs(), 1);
}

/// A record that needs a new segment comes while the old one is synced.
fn roll_while_syncing(succeeds: bool) -> (Device, Log, [Result<()>; 2]) {
    let (device, gate) = gated();
    let log = open(&device);
    let (appended, heard) = channel();
    let leader = commit(&log, vec![1; 3000], &appended);
    heard.recv_timeout(LONG).unwrap();
    gate.began.recv_timeout(LONG).unwrap();
    append(&log, &[2; 500]).unwrap();
    let roller = commit(&log, vec![3; 3000], &appended);
    // The record is in the log already. The device looks whether its segment gets a name too early.
    heard.recv_timeout(LONG).unwrap();
    assert_eq!(segments(&device).len(), 1);
    gate.end.send(succeeds).unwrap();
    // The syncs before the new segment, and that of its own record.
    let _ = gate.end.send(true);
    let _ = gate.end.send(true);
    let ended = [leader.join().unwrap(), roller.join().unwrap()];
    (device, log, ended)
}

#[test]
fn a_new_segment_waits_for_the_sync_of_the_old_one() {
    let (device, _, ended) = roll_while_syncing(true);
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    assert_eq!(survivors(&device), [1, 2, 3]);
    assert_eq!(segments(&device).len(), 2);
}

#[test]
fn no_segment_begins_behind_a_sync_that_failed() {
    let (device, log, ended) = roll_while_syncing(false);
    assert!(ended.iter().all(Result::is_err), "{ended:?}");
    assert!(log.is_poisoned());
    let segments = segments(&device);
    assert_eq!(segments.len(), 1, "{segments:?}");
}

#[test]
fn a_checkpoint_begins_behind_the_sync_that_runs() {
    let (device, gate) = gated();
    let log = open(&device);
    let (appended, heard) = channel();
    let leader = commit(&log, vec![1; 100], &appended);
    heard.recv_timeout(LONG).unwrap();
    gate.began.recv_timeout(LONG).unwrap();
    append(&log, &[2; 100]).unwrap();
    let same = Arc::clone(&log);
    let checkpoint = spawn(move || same.begin_checkpoint());
    gate.end.send(true).unwrap();
    gate.end.send(true).unwrap();
    let start = checkpoint.join().unwrap().unwrap();
    leader.join().unwrap().unwrap();
    assert!(log.synced() >= start.redo);
    assert_eq!(survivors(&device), [1, 2]);
}

/// Whether a record can be appended while the sync runs that `begin` waits for, which needs
/// everything durable that is in the log.
fn appends_beside(begin: impl FnOnce(&Log) -> Result<()> + Send + 'static) {
    let (device, gate) = gated();
    let log = open(&device);
    append(&log, &[1; 3000]).unwrap();
    let same = Arc::clone(&log);
    let beginning = spawn(move || begin(&same));
    gate.began.recv_timeout(LONG).unwrap();
    // The lock is free: this would wait for the end of the sync, which waits for it.
    append(&log, &[2; 100]).unwrap();
    assert_eq!((device.syncs(), survivors(&device)), (0, Vec::new()));
    gate.end.send(true).unwrap();
    gate.end.send(true).unwrap();
    beginning.join().unwrap().unwrap();
    assert_eq!(survivors(&device)[..2], [1, 2]);
}

#[test]
fn others_append_while_the_sync_runs_that_a_checkpoint_begins_with() {
    appends_beside(|log| log.begin_checkpoint().map(drop));
}

/// A log whose segment is half full when the thread that this returns has made the record durable.
fn half_full(log: &Log) -> JoinHandle<Result<()>> {
    append(log, &[1; 3000]).unwrap();
    let same = Arc::clone(log);
    spawn(move || same.flush())
}

#[test]
fn others_append_and_sync_while_the_next_file_is_made() {
    let (device, gate) = gated_at(Call::Create);
    // The tails and the first segment.
    gate.end.send(true).unwrap();
    gate.end.send(true).unwrap();
    let log = open(&device);
    let maker = half_full(&log);
    for _ in 0..3 {
        gate.began.recv_timeout(LONG).unwrap();
    }
    // These would wait for the end of the creation, which waits for them.
    append(&log, &[2; 100]).unwrap();
    log.flush().unwrap();
    assert_eq!(survivors(&device), [1, 2]);
    gate.end.send(true).unwrap();
    // For a third segment.
    gate.end.send(true).unwrap();
    maker.join().unwrap().unwrap();
    // The file is there: the next segment begins without a further one.
    append(&log, &[3; 2000]).unwrap();
    log.flush().unwrap();
    assert_eq!(segments(&device).len(), 2);
    assert_eq!(survivors(&device), [1, 2, 3]);
}

#[test]
fn others_append_while_a_segment_gets_its_name() {
    let (device, gate) = gated_at(Call::SyncDirectory);
    for _ in 0..2 {
        gate.end.send(true).unwrap();
    }
    let log = open(&device);
    half_full(&log).join().unwrap().unwrap();
    append(&log, &[2; 2000]).unwrap();
    for _ in 0..2 {
        gate.began.recv_timeout(LONG).unwrap();
    }
    assert!(gate.began.try_recv().is_err(), "an append syncs nothing");
    let same = Arc::clone(&log);
    let leader = spawn(move || same.flush());
    gate.began.recv_timeout(LONG).unwrap();
    append(&log, &[3; 100]).unwrap();
    assert_eq!(survivors(&device), [1]);
    gate.end.send(true).unwrap();
    leader.join().unwrap().unwrap();
    log.flush().unwrap();
    assert_eq!(survivors(&device), [1, 2, 3]);
}

#[test]
fn a_checkpoint_syncs_what_others_have_appended_meanwhile_without_the_lock() {
    let (device, gate) = gated();
    let log = open(&device);
    append(&log, &[1; 100]).unwrap();
    let same = Arc::clone(&log);
    let beginning = spawn(move || same.begin_checkpoint());
    gate.began.recv_timeout(LONG).unwrap();
    append(&log, &[2; 100]).unwrap();
    gate.end.send(true).unwrap();
    // The second record is synced for the checkpoint, and the lock is free again.
    gate.began.recv_timeout(LONG).unwrap();
    append(&log, &[3; 100]).unwrap();
    assert_eq!(survivors(&device), [1]);
    gate.end.send(true).unwrap();
    let start = beginning.join().unwrap().unwrap();
    assert!(log.synced() >= start.redo);
    assert_eq!(survivors(&device), [1, 2]);
}
