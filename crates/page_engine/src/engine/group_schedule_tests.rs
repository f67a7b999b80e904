//! Goal: in no order of threads does a reader miss the commit that it has read, nor does a sync
//! settle a commit that it does not cover.
//!
//! Method: three sessions commit changes of one row under a lock that each gives back before its
//! commit is durable, over a log that is a counter; between them they read the row and sync.
//! `shuttle` chooses the order.
//!
//! `cargo test -p page_engine --features schedules --lib schedule_tests`

use super::*;
use shuttle::thread::spawn;
use std::sync::Arc;
use storage::sync::{Mutex, lock};

/// Schedules of each kind that the test tries.
const SCHEDULES: usize = 5_000;
/// Changes of thread that a schedule of the second kind has beyond those that waiting forces.
const CHANGES: usize = 3;

struct Model {
    group: Group,
    /// The last record.
    log: AtomicU64,
    synced: AtomicU64,
    /// The ticket of the transaction that has changed the row last.
    row: Mutex<u64>,
}

impl Model {
    fn commit(&self, durability: Durability) {
        let mut row = lock(&self.row);
        let record = self.log.fetch_add(1, Ordering::SeqCst) + 1;
        *row = self.group.note(Lsn(record), durability).0;
        drop(row);
        if self.group.due(durability) == Due::Now {
            self.sync(CommitTicket(record));
        }
    }

    fn sync(&self, ticket: CommitTicket) {
        let joined = self.group.begin_sync();
        let end = self.log.load(Ordering::SeqCst);
        assert!(joined.newest.0 <= end && ticket.0 <= end);
        // Records have numbers without a gap, so every counted commit is among them.
        assert!(joined.count <= joined.newest.0);
        self.synced.fetch_max(end, Ordering::SeqCst);
        self.group.end_sync(joined);
    }

    fn read(&self) {
        let seen = *lock(&self.row);
        let newest = self.group.newest();
        assert!(newest.0 >= seen);
        if newest.0 > self.synced.load(Ordering::SeqCst) {
            self.sync(newest);
        }
        assert!(self.synced.load(Ordering::SeqCst) >= seen);
    }
}

fn commits_are_seen_and_settled() {
    let options = GroupCommitOptions {
        transactions_max: 2,
        wait_us_max: u64::MAX,
    };
    let model = Arc::new(Model {
        group: Group::new(options),
        log: AtomicU64::new(0),
        synced: AtomicU64::new(0),
        row: Mutex::new(0),
    });
    let kinds = [Durability::Group, Durability::None, Durability::Immediate];
    let threads: Vec<_> = kinds
        .into_iter()
        .map(|durability| {
            let model = Arc::clone(&model);
            spawn(move || {
                model.commit(durability);
                model.read();
                model.commit(Durability::Group);
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no thread has failed");
    }
    // Of four that have waited, at most one is not settled.
    let waiting = &model.group.waiting;
    let settled = waiting.settled.load(Ordering::SeqCst);
    assert!(settled <= 4 && settled + 1 >= waiting.joined.load(Ordering::SeqCst));
}

#[test]
fn a_commit_that_was_read_is_found_and_a_sync_settles_what_it_covers() {
    shuttle::check_random(commits_are_seen_and_settled, SCHEDULES);
    shuttle::check_pct(commits_are_seen_and_settled, SCHEDULES, CHANGES);
}
