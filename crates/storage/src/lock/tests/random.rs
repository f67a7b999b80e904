//! Threads lock at random, and a plain table of owners checks that no two hold conflicting locks.
//!
//! The model learns of a lock after it is granted, and of its release before it is released, so
//! every lock that it has as held is held. Failed requests abort.

use super::{TABLE, TREE};
use crate::error::StorageError;
use crate::lock::mode::Strength;
use crate::lock::{KeyMode, LockManager, LockOptions, LockSession, Mode};
use crate::record::TableId;
use crate::vocabulary::PageId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const KEYS: u64 = 24;
const SESSIONS: usize = 6;
const TRANSACTIONS: usize = 1500;

const WITH_RANGES: &[KeyMode] = &[KeyMode::Shared, KeyMode::Update, KeyMode::Exclusive];
/// Locks of rows, which ranges do not see.
const OF_ROWS: &[KeyMode] = &[
    KeyMode::KeyShare,
    KeyMode::Shared,
    KeyMode::NoKeyUpdate,
    KeyMode::Exclusive,
];

/// Owners of keys, of ranges and of tables.
#[derive(Default)]
struct Model {
    keys: BTreeMap<(u32, u64), BTreeMap<usize, Strength>>,
    ranges: Vec<(usize, u32, u64, u64)>,
    tables: BTreeMap<usize, Strength>,
}

impl Model {
    fn key(&mut self, session: usize, tree: u32, key: u64, strength: Strength) {
        let owners = self.keys.entry((tree, key)).or_default();
        let joined = owners
            .get(&session)
            .map_or(strength, |held| held.join(strength));
        owners.insert(session, joined);
        for (other, held) in owners.iter().filter(|(other, _)| **other != session) {
            assert!(!joined.conflicts(*held), "{session} and {other} on {key}");
        }
        if strength == Strength::Exclusive {
            let clash = self.ranges.iter().find(|(other, of, low, high)| {
                *other != session && *of == tree && (*low..=*high).contains(&key)
            });
            assert!(clash.is_none(), "{session} changes {key} of {clash:?}");
        }
        self.table_use(
            session,
            Strength::from(KeyMode::Shared)
                .intention()
                .join(strength.intention()),
        );
    }

    fn range(&mut self, session: usize, tree: u32, low: u64, high: u64) {
        for ((_, key), owners) in self.keys.range((tree, low)..=(tree, high)) {
            let clash = owners
                .iter()
                .find(|(other, held)| **other != session && **held == Strength::Exclusive);
            assert!(clash.is_none(), "{session} reads {key} of {clash:?}");
        }
        self.ranges.push((session, tree, low, high));
        self.table_use(session, Strength::IntentShared);
    }

    fn table_use(&mut self, session: usize, strength: Strength) {
        let joined = self
            .tables
            .get(&session)
            .map_or(strength, |held| held.join(strength));
        self.tables.insert(session, joined);
        for (other, held) in self.tables.iter().filter(|(other, _)| **other != session) {
            assert!(!joined.conflicts(*held), "{session} and {other}");
        }
    }

    /// The keys and the table that a session holds.
    fn held(&self, session: usize) -> Held {
        let keys = self.keys.iter();
        let own = keys.filter_map(|(key, owners)| Some((*key, *owners.get(&session)?)));
        (own.collect(), self.tables.get(&session).copied())
    }

    /// A session is about to hold what it has held before.
    fn roll_back(&mut self, session: usize, (keys, table): &Held) {
        for owners in self.keys.values_mut() {
            owners.remove(&session);
        }
        for (key, strength) in keys {
            self.keys
                .entry(*key)
                .or_default()
                .insert(session, *strength);
        }
        self.tables.remove(&session);
        self.tables
            .extend(table.map(|strength| (session, strength)));
    }

    fn end(&mut self, session: usize) {
        for owners in self.keys.values_mut() {
            owners.remove(&session);
        }
        self.ranges.retain(|(owner, ..)| *owner != session);
        self.tables.remove(&session);
    }
}

/// Keys with their strengths, and the strength of the table.
type Held = (Vec<((u32, u64), Strength)>, Option<Strength>);

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// One request, noted in the model when it is granted.
fn step(
    session: &mut LockSession,
    number: usize,
    random: &mut Random,
    model: &Mutex<Model>,
    asked: &[KeyMode],
) -> Result<(), StorageError> {
    let tree = random.below(2) as u32;
    let page = PageId(TREE.0 + tree);
    match random.below(40) {
        0 => {
            let mode = [Mode::Shared, Mode::Exclusive, Mode::SharedIntentExclusive]
                [random.below(3) as usize];
            session.lock_table(TABLE, mode)?;
            model.lock().unwrap().table_use(number, mode.into());
        }
        1..=8 if asked == WITH_RANGES => {
            let low = random.below(KEYS);
            let high = low + random.below(6);
            session.lock_range(TABLE, page, &[low], &[high])?;
            model.lock().unwrap().range(number, tree, low, high);
        }
        _ => {
            let key = random.below(KEYS);
            let mode = asked[random.below(asked.len() as u64) as usize];
            session.lock_key(TABLE, page, &[key], mode)?;
            model.lock().unwrap().key(number, tree, key, mode.into());
        }
    }
    Ok(())
}

fn run(options: LockOptions, asked: &'static [KeyMode]) {
    let manager = LockManager::new(options);
    let model = Arc::new(Mutex::new(Model::default()));
    let threads: Vec<_> = (0..SESSIONS)
        .map(|number| {
            let (mut session, model) = (manager.session(), Arc::clone(&model));
            std::thread::spawn(move || {
                let mut random = Random(number as u64 + 1);
                for _ in 0..TRANSACTIONS {
                    let mut savepoint = None;
                    for _ in 0..=random.below(6) {
                        // Ranges would stay.
                        if asked == OF_ROWS && random.below(4) == 0 {
                            let held = model.lock().unwrap().held(number);
                            savepoint = Some((session.savepoint(), held));
                        }
                        match step(&mut session, number, &mut random, &model, asked) {
                            Ok(()) => {}
                            Err(StorageError::Deadlock { .. }) => break,
                            Err(error) => panic!("{error}"),
                        }
                        if let Some((mark, held)) = &savepoint
                            && random.below(4) == 0
                        {
                            model.lock().unwrap().roll_back(number, held);
                            session.release_since(*mark, PageId(99));
                        }
                        if random.below(4) == 0 {
                            std::thread::yield_now();
                        }
                    }
                    model.lock().unwrap().end(number);
                    session.end();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!((manager.heads(), manager.taken()), (0, 0));
    assert!(manager.queues.bucket(TREE).is_empty());
    let counters = manager.counters();
    assert!(
        counters.waits > 100 && counters.deadlocks > 0,
        "{counters:?}"
    );
    assert_eq!(counters.timeouts, 0);
    assert!(
        manager
            .session()
            .lock_table(TableId(2), Mode::Exclusive)
            .is_ok()
    );
}

#[test]
fn no_two_owners_exclude_each_other() {
    let options = LockOptions {
        wait_limit: Duration::from_mins(1),
        ..LockOptions::default()
    };
    run(options.clone(), WITH_RANGES);
    run(options, OF_ROWS);
}

#[test]
fn nor_without_inheritance_and_with_escalation() {
    let options = LockOptions {
        wait_limit: Duration::from_mins(1),
        inherits: false,
        escalate_at: 5,
        ..LockOptions::default()
    };
    run(options.clone(), WITH_RANGES);
    run(options, OF_ROWS);
}
