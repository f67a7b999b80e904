//! One shard of the heads: a hash table under a mutex, and which of its keys are locked
//! exclusively.
//!
//! A range has to find the exclusive keys inside it, of any holder. They are in a list of their
//! own, because few locks are exclusive at a time, and `exclusives` tells for a sixteenth of all
//! trees whether a search can find any. The number is stored under the mutex and read without;
//! writers store it and then read the number of ranges (`range`), ranges do the reverse, in one
//! total order.

use super::head::{Answer, Head, Request, SessionId, Woken};
use super::mode::Strength;
use super::name::{Name, NameTable, Space};
use crate::record::TableId;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};
use crate::vocabulary::PageId;

/// Groups of trees that are counted together.
const TREE_GROUPS: usize = 16;
const NOT_LISTED: u32 = u32::MAX;

/// An exclusive key that is in the way of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExclusiveKey {
    pub(super) session: SessionId,
    pub(super) shard: u32,
    pub(super) entry: u32,
}

struct Lock {
    head: Head,
    /// Its place in the list of exclusive keys.
    listed_at: u32,
}

impl Default for Lock {
    fn default() -> Self {
        Self {
            head: Head::default(),
            listed_at: NOT_LISTED,
        }
    }
}

struct Locks {
    table: NameTable<Lock>,
    /// Keys with an exclusive holder.
    exclusive: Vec<u32>,
}

/// A part of all heads. Two cache lines, as the processor fetches them in pairs.
#[repr(align(128))]
pub(super) struct Shard {
    number: u32,
    locks: Mutex<Locks>,
    exclusives: [AtomicU32; TREE_GROUPS],
}

impl Shard {
    pub(super) fn new(number: u32) -> Self {
        Self {
            number,
            locks: Mutex::new(Locks {
                table: NameTable::new(),
                exclusive: Vec::new(),
            }),
            exclusives: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Requests the lock of this name; returns its entry, if it is held or waited for.
    #[inline]
    pub(super) fn request(&self, name: &Name<'_>, request: &Request<'_>) -> (Answer, u32) {
        let mut locks = lock(&self.locks);
        let entry = match locks.table.find(name) {
            Some(entry) => entry,
            None => locks.table.insert(name),
        };
        let answer = locks.table.get_mut(entry).head.request(request);
        self.list(&mut locks, entry);
        (answer, entry)
    }

    /// Gives a session's lock back; true if it was exclusive.
    #[inline]
    pub(super) fn release(&self, entry: u32, session: SessionId, woken: &mut Woken) -> bool {
        let mut locks = lock(&self.locks);
        let strength = locks.table.get_mut(entry).head.release(session, woken);
        self.tidy(&mut locks, entry);
        strength == Some(Strength::Exclusive)
    }

    /// Whether a session is the only one that holds a lock or waits for it, without idle locks.
    pub(super) fn is_alone(&self, entry: u32, session: SessionId) -> bool {
        let mut locks = lock(&self.locks);
        locks.table.get_mut(entry).head.is_alone(session)
    }

    /// Takes a conversion to exclusive back.
    pub(super) fn weaken(
        &self,
        entry: u32,
        session: SessionId,
        strength: Strength,
        woken: &mut Woken,
    ) {
        let mut locks = lock(&self.locks);
        let head = &mut locks.table.get_mut(entry).head;
        head.weaken(session, strength, woken);
        self.tidy(&mut locks, entry);
    }

    /// Takes a request out of the queue; false if it is granted.
    pub(super) fn withdraw(&self, entry: u32, session: SessionId, woken: &mut Woken) -> bool {
        let mut locks = lock(&self.locks);
        let withdrawn = locks.table.get_mut(entry).head.withdraw(session, woken);
        self.tidy(&mut locks, entry);
        withdrawn
    }

    /// Grants a request in the queue if that is possible now, as [`Head::claim`].
    pub(super) fn claim(&self, entry: u32, session: SessionId, woken: &mut Woken) -> bool {
        let mut locks = lock(&self.locks);
        let is_granted = locks.table.get_mut(entry).head.claim(session, woken);
        self.tidy(&mut locks, entry);
        is_granted
    }

    /// Sessions that a session waits for in the queue of this entry.
    pub(super) fn blockers(&self, entry: u32, session: SessionId, found: &mut Vec<SessionId>) {
        let locks = lock(&self.locks);
        locks.table.get(entry).head.blockers(session, found);
    }

    /// The tree of a key, if the entry is one.
    pub(super) fn tree_of(&self, entry: u32) -> Option<PageId> {
        let locks = lock(&self.locks);
        match locks.table.name(entry).space {
            Space::Tree(tree) => Some(tree),
            Space::Partition | Space::Table(_) => None,
        }
    }

    /// The keys of a tree that others than `session` hold exclusively, where `is_inside`.
    pub(super) fn exclusive_keys(
        &self,
        tree: PageId,
        session: SessionId,
        is_inside: impl Fn(&[u64]) -> bool,
        found: &mut Vec<ExclusiveKey>,
    ) {
        if self.exclusives[group(tree)].load(Ordering::SeqCst) == 0 {
            return;
        }
        let locks = lock(&self.locks);
        for entry in &locks.exclusive {
            let name = locks.table.name(*entry);
            if name.space != Space::Tree(tree) || !is_inside(name.key) {
                continue;
            }
            let holder = locks.table.get(*entry).head.exclusive_holder();
            if let Some(holder) = holder.filter(|holder| *holder != session) {
                found.push(ExclusiveKey {
                    session: holder,
                    shard: self.number,
                    entry: *entry,
                });
            }
        }
    }

    /// Visits the transactions that hold or want locks of tables here, as [`Head::claims`].
    pub(super) fn table_claims(&self, visit: &mut dyn FnMut(TableId, SessionId, Strength, bool)) {
        let locks = lock(&self.locks);
        for entry in locks.table.numbers() {
            let Space::Table(table) = locks.table.name(entry).space else {
                continue;
            };
            let head = &locks.table.get(entry).head;
            head.claims(&mut |session, strength, is_held| {
                visit(table, session, strength, is_held);
            });
        }
    }

    /// How many locks have a head here.
    #[cfg(test)]
    pub(super) fn heads(&self) -> usize {
        let locks = lock(&self.locks);
        assert!(locks.exclusive.len() <= locks.table.count());
        locks.table.count()
    }

    fn tidy(&self, locks: &mut Locks, entry: u32) {
        self.list(locks, entry);
        if locks.table.get(entry).head.is_unused() {
            locks.table.remove(entry);
        }
    }

    /// Brings the list of exclusive keys up to date with a head.
    #[inline]
    fn list(&self, locks: &mut Locks, entry: u32) {
        let held = locks.table.get(entry);
        let is_exclusive = held.head.exclusive_holder().is_some();
        let at = held.listed_at;
        if is_exclusive == (at != NOT_LISTED) {
            return;
        }
        let Space::Tree(tree) = locks.table.name(entry).space else {
            return;
        };
        let count = &self.exclusives[group(tree)];
        // The mutex makes this the only store at a time.
        let before = count.load(Ordering::Relaxed);
        if is_exclusive {
            locks.table.get_mut(entry).listed_at = locks.exclusive.len() as u32;
            locks.exclusive.push(entry);
            count.store(before + 1, Ordering::SeqCst);
        } else {
            locks.exclusive.swap_remove(at as usize);
            if let Some(moved) = locks.exclusive.get(at as usize) {
                locks.table.get_mut(*moved).listed_at = at;
            }
            locks.table.get_mut(entry).listed_at = NOT_LISTED;
            count.store(before - 1, Ordering::SeqCst);
        }
    }
}

fn group(tree: PageId) -> usize {
    tree.0 as usize % TREE_GROUPS
}
