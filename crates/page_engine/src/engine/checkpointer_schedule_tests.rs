//! Goal: in no order of threads does a session wait for ever for the thread that writes
//! checkpoints, whatever ends first, nor does the thread miss the end.
//!
//! Method: two sessions append to a log that is a number, each sees to it as a session of the
//! engine does, and one also writes a checkpoint by itself, as somebody who wants one; the thread
//! writes those that are due, or fails at its second. `shuttle` chooses the order, and finds a wait
//! that nobody ends.
//!
//! `cargo test -p page_engine --features schedules --lib schedule_tests`

use super::*;
use shuttle::thread::spawn;
use std::sync::Arc;

/// Schedules of each kind that the test tries.
const SCHEDULES: usize = 5_000;
/// Changes of thread that a schedule of the second kind has beyond those that waiting forces.
const CHANGES: usize = 4;
/// Records after which a checkpoint is due, and after which it is urgent.
const DUE: u64 = 1;
const URGENT: u64 = 2;
const RECORDS: u64 = 4;

#[derive(Default)]
struct Model {
    checkpointer: Checkpointer,
    /// Records since the newest checkpoint.
    log: AtomicU64,
    one_at_a_time: Mutex<()>,
}

impl Model {
    fn checkpoint(&self, writer: Writer) {
        let _one_at_a_time = lock(&self.one_at_a_time);
        if self.log.load(Ordering::SeqCst) >= DUE {
            self.log.store(0, Ordering::SeqCst);
            self.checkpointer.note(writer);
        }
    }

    fn append(&self) {
        let log = self.log.fetch_add(1, Ordering::SeqCst) + 1;
        if log < DUE {
            return;
        }
        if !self.checkpointer.wake() {
            return self.checkpoint(Writer::Session);
        }
        self.checkpointer
            .wait_if(|| self.log.load(Ordering::SeqCst) >= URGENT);
    }

    fn run(&self, looks_max: u64) {
        let present = self.checkpointer.begin();
        let mut looks = 0;
        while present.next() {
            if looks == looks_max {
                return;
            }
            self.checkpoint(Writer::Thread);
            present.looked();
            looks += 1;
        }
    }
}

fn nobody_waits_for_ever(looks_max: u64) {
    let model = Arc::new(Model::default());
    let thread = spawn({
        let model = Arc::clone(&model);
        move || model.run(looks_max)
    });
    let sessions = [false, true].map(|wants_one| {
        let model = Arc::clone(&model);
        spawn(move || {
            for record in 0..RECORDS {
                model.append();
                if wants_one && record == 1 {
                    model.checkpoint(Writer::Session);
                }
            }
        })
    });
    for session in sessions {
        session.join().unwrap();
    }
    model.checkpointer.end();
    thread.join().unwrap();
    let counters = model.checkpointer.counters();
    assert!(counters.in_background <= looks_max);
    assert!(counters.in_background + counters.by_sessions > 0);
}

#[test]
fn whoever_waits_for_the_thread_goes_on() {
    shuttle::check_random(|| nobody_waits_for_ever(u64::MAX), SCHEDULES);
    shuttle::check_pct(|| nobody_waits_for_ever(u64::MAX), SCHEDULES, CHANGES);
}

#[test]
fn a_thread_that_is_gone_is_not_waited_for() {
    shuttle::check_random(|| nobody_waits_for_ever(1), SCHEDULES);
    shuttle::check_pct(|| nobody_waits_for_ever(1), SCHEDULES, CHANGES);
}
