//! One session's side of the locks: one transaction after the other, each locking as it goes and
//! releasing all locks at its end.
//!
//! A request first checks the session's own locks, then those that cover it (its table, its
//! partition, a range of its own), and only then goes to a shard. A request that fails leaves all
//! other locks of the session as they were; the key or range it was for is as before, intention
//! locks that were taken on the way stay.
//!
//! | request | registers in | may wait for |
//! |---|---|---|
//! | partition, table | its head | other owners there |
//! | key | its head | other owners there; exclusive ones then for ranges around it |
//! | range | its tree's bucket | exclusive keys inside of it |

mod escalation;
mod held;
mod savepoint;
mod waits;

pub use held::HeldLock;
pub use savepoint::LockSavepoint;

use super::counters::LockCounters;
use super::graph::LockOwner;
use super::head::{Answer, Request, SessionId, Woken};
use super::inheritance::Inheritance;
use super::manager::{KeyIntent, LockManager};
use super::mode::{KeyMode, Mode, Precedence, Strength};
use super::name::{Name, Space};
use super::owned::{Owned, OwnedKey, OwnedRange, RANGE_WEIGHT, Raise, Whole};
use super::parker::{Interrupt, Parker};
use super::queues::Queues;
use super::range::Interval;
use super::shard::ExclusiveKey;
use super::wait::{Queue, Visible};
use crate::error::Result;
use crate::record::TableId;
use crate::vocabulary::PageId;
use std::sync::Arc;
use std::time::Duration;

/// Tables that are found without a search; the numbers of those made together do not meet.
const RECENT: usize = 16;
/// Idle intention locks that a session keeps.
const IDLE_MAX: usize = 256;

/// Locks of one session. Dropping it gives everything back.
pub struct LockSession {
    manager: Arc<LockManager>,
    id: SessionId,
    visible: Arc<Visible>,
    /// The session in another partition that began the transaction, if this one only takes part in
    /// it.
    owner: Option<LockOwner>,
    parker: Arc<Parker>,
    owned: Owned,
    /// The partition's whole and those of recently used tables, found without a search. They may be
    /// idle, or revoked.
    partition: Option<u32>,
    recent: [Option<(TableId, u32)>; RECENT],
    /// Locks that it may still take without asking.
    rights: u64,
    wait_limit: Duration,
    precedence: Precedence,
    /// Whether many keys become a lock of their table.
    escalates: bool,
    key_intent: KeyIntent,
    /// The number of the last lock of a key that the transaction has made stronger.
    last_raise: Option<u64>,
    waits: u64,
    /// Since this was last set to false.
    has_waited: bool,
    counters: LockCounters,
    woken: Woken,
}

impl std::fmt::Debug for LockSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockSession")
            .field("id", &self.id)
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}

impl LockSession {
    pub(super) fn new(manager: Arc<LockManager>, visible: Arc<Visible>) -> Self {
        Self {
            wait_limit: manager.options().wait_limit,
            key_intent: manager.options().key_intent,
            manager,
            id: visible.id,
            parker: Arc::clone(&visible.parker),
            visible,
            owner: None,
            owned: Owned::new(),
            partition: None,
            recent: [None; RECENT],
            rights: 0,
            precedence: Precedence::Usual,
            escalates: true,
            last_raise: None,
            waits: 0,
            has_waited: false,
            counters: LockCounters::default(),
            woken: Woken::default(),
        }
    }

    /// Changes how long the requests of this session wait.
    pub fn set_wait_limit(&mut self, limit: Duration) {
        self.wait_limit = limit;
    }

    /// Ends waits of this session from other threads.
    pub fn interrupt(&self) -> Interrupt {
        Interrupt(Arc::clone(&self.parker))
    }

    /// A session of the same thread, whose locks belong to this one's transactions and outlive
    /// them. The two do not wait at the same time, and an interrupt ends the waits of both. To be
    /// dropped first.
    #[must_use]
    pub fn companion(&self) -> Self {
        let manager = &self.manager;
        let visible = manager.graph().add(|id| {
            Visible::with_parker(id, Arc::clone(&manager.queues), Arc::clone(&self.parker))
        });
        let mut companion = Self::new(Arc::clone(manager), visible);
        companion.act_for(Some(self.owner()));
        companion
    }

    /// Gives the lock of one key back; false if the session has none.
    pub fn unlock_key(&mut self, tree: PageId, key: &[u64]) -> bool {
        let name = Name::of(Space::Tree(tree), key);
        let Some(number) = self.owned.keys.find(&name) else {
            return false;
        };
        self.owned.order.retain(|held| *held != number);
        self.release_key(number);
        self.wake_all();
        true
    }

    /// Decides whether deadlocks of this session's next requests make it the victim.
    pub fn set_precedence(&mut self, precedence: Precedence) {
        self.precedence = precedence;
    }

    /// The transaction that its locks belong to, for its sessions in other partitions.
    pub fn owner(&self) -> LockOwner {
        let own = || LockOwner(Arc::clone(&self.visible));
        self.owner.clone().unwrap_or_else(own)
    }

    /// Locks from now on belong to the transaction of `owner`, or again to one of the session's
    /// own. Allowed only while no transaction holds locks here: a deadlock search attributes all
    /// locks of a session to its owner.
    pub fn act_for(&mut self, owner: Option<LockOwner>) {
        let id = owner.as_ref().map_or(self.id, |owner| owner.0.id);
        self.visible.set_owner(id);
        self.owner = owner;
    }

    /// Never locks a table instead of many of its keys.
    pub fn keep_keys(&mut self) {
        self.escalates = false;
    }

    /// Locks the partition.
    pub fn lock_partition(&mut self, mode: Mode) -> Result<()> {
        self.lock_whole(Space::Partition, mode.into()).map(drop)
    }

    /// Locks a table, with the intention on the partition. Nothing if the partition's lock covers
    /// it. One that an earlier transaction has needed becomes as weak as this one needs it.
    pub fn lock_table(&mut self, table: TableId, mode: Mode) -> Result<()> {
        let strength = Strength::from(mode);
        let partition = self.lock_whole(Space::Partition, strength.intention())?;
        if self
            .owned
            .wholes
            .get(partition)
            .strength
            .covers_parts(strength)
        {
            return Ok(());
        }
        let known = self.find_whole(Space::Table(table));
        let idle = known.filter(|&whole| !self.owned.wholes.get(whole).is_active);
        let whole = self.lock_whole(Space::Table(table), strength)?;
        let is_revived = idle == Some(whole) && strength.is_intention();
        if is_revived && self.owned.wholes.get(whole).strength != strength {
            self.weaken_whole(whole, strength);
            self.wake_all();
        }
        Ok(())
    }

    /// Takes the intention to change rows of a table, where locks of keys do not come with it
    /// ([`KeyIntent::Shared`]). Nothing if a lock above covers it.
    #[inline]
    pub fn intend_change(&mut self, table: TableId) -> Result<()> {
        self.lock_above(table, Strength::Exclusive, Strength::IntentExclusive)
            .map(drop)
    }

    /// Locks a key of a tree, with the intentions above. Nothing if a lock above covers it, or a
    /// range for a shared one.
    #[inline]
    pub fn lock_key(
        &mut self,
        table: TableId,
        tree: PageId,
        key: &[u64],
        mode: KeyMode,
    ) -> Result<()> {
        let strength = Strength::from(mode);
        let Some(whole) = self.lock_above_key(table, strength)? else {
            return Ok(());
        };
        let name = Name::of(Space::Tree(tree), key);
        if let Some(owned) = self.owned.keys.find(&name) {
            let held = self.owned.keys.get(owned).strength;
            if held.covers(strength) {
                return Ok(());
            }
            let joined = held.join(strength);
            self.acquire_key(&name, tree, joined, Some(held))?;
            let raised = self.owned.next_number();
            let key = self.owned.keys.get_mut(owned);
            key.strength = joined;
            key.raises.push((raised, held));
            self.last_raise = Some(raised);
            return Ok(());
        }
        let is_read = strength == Strength::Shared;
        if is_read && self.owned.has_range_around(tree, key, key) {
            return Ok(());
        }
        self.take_key(&name, tree, strength, whole)
    }

    /// Locks a key for reading although a range of this session covers it, because that range is
    /// going to be released earlier.
    pub fn lock_key_beside_ranges(
        &mut self,
        table: TableId,
        tree: PageId,
        key: &[u64],
    ) -> Result<()> {
        let strength = Strength::Shared;
        let Some(whole) = self.lock_above_key(table, strength)? else {
            return Ok(());
        };
        let name = Name::of(Space::Tree(tree), key);
        if self.owned.keys.find(&name).is_some() {
            return Ok(());
        }
        self.take_key(&name, tree, strength, whole)
    }

    /// Locks a key that the session has no lock on.
    #[inline]
    fn take_key(
        &mut self,
        name: &Name<'_>,
        tree: PageId,
        strength: Strength,
        whole: u32,
    ) -> Result<()> {
        self.take_right()?;
        let entry = match self.acquire_key(name, tree, strength, None) {
            Ok(entry) => entry,
            Err(error) => {
                self.rights += 1;
                return Err(error);
            }
        };
        let owned = self.owned.keys.insert(name);
        *self.owned.keys.get_mut(owned) = OwnedKey {
            strength,
            entry,
            whole,
            number: self.owned.next_number(),
            raises: Vec::new(),
        };
        self.owned.order.push(owned);
        self.count_below(whole, 1);
        Ok(())
    }

    /// Locks all keys of a tree from `low` to `high` for reading, those that are not there too:
    /// until the transaction ends nobody else inserts, changes or deletes one. Merges with a range
    /// of this session that it touches. True if it had to wait, so that what was read before may
    /// have changed.
    pub fn lock_range(
        &mut self,
        table: TableId,
        tree: PageId,
        low: &[u64],
        high: &[u64],
    ) -> Result<bool> {
        self.has_waited = false;
        let Some(whole) = self.lock_above_key(table, Strength::Shared)? else {
            return Ok(self.has_waited);
        };
        if low > high || self.owned.has_range_around(tree, low, high) {
            return Ok(self.has_waited);
        }
        let mut interval = Interval::new(low, high);
        let marked = self.owned.marked;
        let mut merged = Vec::new();
        for own in self.owned.ranges.iter().filter(|own| own.tree == tree) {
            if own.number >= marked && own.interval.touches(&interval) {
                merged.push(own.range);
            }
        }
        for own in self.owned.ranges.iter().filter(|own| own.tree == tree) {
            if merged.contains(&own.range) {
                interval.include(&own.interval);
            }
        }
        let range = self.acquire_range(tree, &interval)?;
        if !merged.is_empty() {
            self.manager.queues.bucket(tree).absorb(range, &merged);
            let absorbed = self
                .owned
                .take_ranges(|own| own.tree == tree && merged.contains(&own.range));
            self.discount(&absorbed);
        }
        let number = self.owned.next_number();
        self.owned.ranges.push(OwnedRange {
            tree,
            interval,
            range,
            whole,
            number,
        });
        self.count_below(whole, RANGE_WEIGHT);
        Ok(self.has_waited)
    }

    /// The transaction has ended: gives all back but intention locks that may stay idle.
    pub fn end(&mut self) {
        self.release_all();
        if self.owned.wholes.count() > IDLE_MAX {
            self.release_idle();
        }
        self.finish();
    }

    /// As `end`, and gives idle locks back too.
    pub fn end_all(&mut self) {
        self.release_all();
        self.release_idle();
        self.finish();
    }

    /// Takes the intention to change rows of a table; whether nobody else has a lock in it, or of
    /// it, or waits for one. Idle intentions of others are revoked, so whoever locks something in
    /// the table later does so after this look at it.
    ///
    /// # Errors
    ///
    /// Those of a lock on the table that others have.
    pub fn is_alone_in(&mut self, table: TableId) -> Result<bool> {
        let intention = Strength::IntentExclusive;
        let Some(whole) = self.lock_above(table, Strength::Exclusive, intention)? else {
            return Ok(true);
        };
        let entry = self.owned.wholes.get(whole).entry;
        let shard = Queues::shard_of(self.owned.wholes.name(whole).hash);
        Ok(self.manager.queues.shard(shard).is_alone(entry, self.id))
    }

    /// Its number, unique among the sessions that there are.
    pub fn number(&self) -> u32 {
        self.id
    }

    /// Number of locks of the transaction, intention locks included.
    pub fn held(&self) -> usize {
        self.owned.count()
    }

    /// Gets the intentions for a lock of this mode on a key of the table; nothing if a lock above
    /// covers it.
    #[inline]
    fn lock_above_key(&mut self, table: TableId, strength: Strength) -> Result<Option<u32>> {
        match self.key_intent {
            KeyIntent::OfStrength => self.lock_above(table, strength, strength.intention()),
            // A shared lock of the table keeps changes out, and no exclusive locks.
            KeyIntent::Shared => {
                self.lock_above(table, Strength::Exclusive, Strength::IntentShared)
            }
        }
    }

    /// Gets an intention on the table and above; nothing if a lock there covers a lock of this mode
    /// on its parts.
    #[inline]
    fn lock_above(
        &mut self,
        table: TableId,
        strength: Strength,
        intention: Strength,
    ) -> Result<Option<u32>> {
        if let Some((recent, number)) = self.recent[recent_place(table)]
            && recent == table
            && let whole = self.owned.wholes.get(number)
            && whole.is_active
        {
            let held = whole.strength;
            if held.covers_parts(strength) {
                return Ok(None);
            }
            if held.covers(intention) {
                return Ok(Some(number));
            }
        }
        let partition = self.lock_whole(Space::Partition, intention)?;
        let held = self.owned.wholes.get(partition).strength;
        if held.covers_parts(strength) {
            return Ok(None);
        }
        let whole = self.lock_whole(Space::Table(table), intention)?;
        let held = self.owned.wholes.get(whole).strength;
        Ok((!held.covers_parts(strength)).then_some(whole))
    }

    /// Locks the partition or a table.
    fn lock_whole(&mut self, space: Space, wanted: Strength) -> Result<u32> {
        if let Some(whole) = self.find_whole(space) {
            if self.revive(whole) {
                let held = self.owned.wholes.get(whole).strength;
                if !held.covers(wanted) {
                    let joined = held.join(wanted);
                    self.request(&Name::whole(space), joined, None)?;
                    self.raise_whole(whole, joined);
                }
                return Ok(whole);
            }
            self.forget_whole(whole);
        }
        let name = Name::whole(space);
        self.take_right()?;
        let options = self.manager.options();
        let escalate_at = options.escalate_at;
        let inheritance = options.inherits.then(|| Arc::new(Inheritance::active()));
        let entry = match self.request(&name, wanted, inheritance.as_ref()) {
            Ok(entry) => entry,
            Err(error) => {
                self.rights += 1;
                return Err(error);
            }
        };
        let whole = self.owned.wholes.insert(&name);
        *self.owned.wholes.get_mut(whole) = Whole {
            strength: wanted,
            entry,
            inheritance,
            is_active: true,
            number: self.owned.next_number(),
            weight: 0,
            escalate_at,
        };
        self.owned.active.push(whole);
        self.note_whole(space, whole);
        Ok(whole)
    }

    /// The session's lock of the partition or of a table, perhaps idle or revoked.
    #[inline]
    fn find_whole(&mut self, space: Space) -> Option<u32> {
        let noted = match space {
            Space::Partition => self.partition,
            Space::Table(table) => self.recent[recent_place(table)]
                .filter(|(recent, _)| *recent == table)
                .map(|(_, whole)| whole),
            Space::Tree(_) => None,
        };
        noted.or_else(|| {
            let found = self.owned.wholes.find(&Name::whole(space))?;
            self.note_whole(space, found);
            Some(found)
        })
    }

    fn note_whole(&mut self, space: Space, whole: u32) {
        match space {
            Space::Partition => self.partition = Some(whole),
            Space::Table(table) => self.recent[recent_place(table)] = Some((table, whole)),
            Space::Tree(_) => {}
        }
    }

    /// The session does not have it any more; its number may become another one's.
    fn forget_whole(&mut self, number: u32) {
        self.owned.wholes.remove(number);
        self.rights += 1;
        self.partition = self.partition.filter(|whole| *whole != number);
        for recent in &mut self.recent {
            *recent = recent.filter(|(_, whole)| *whole != number);
        }
    }

    /// Takes an idle lock back if it is one; false if it was revoked.
    fn revive(&mut self, number: u32) -> bool {
        let whole = self.owned.wholes.get_mut(number);
        if whole.is_active {
            return true;
        }
        if !whole
            .inheritance
            .as_ref()
            .is_some_and(|word| word.take_back())
        {
            return false;
        }
        whole.is_active = true;
        self.owned.active.push(number);
        let taken = self.owned.next_number();
        self.owned.wholes.get_mut(number).number = taken;
        self.counters.inherited += 1;
        true
    }

    /// The transaction has made the lock of a whole stronger.
    fn raise_whole(&mut self, number: u32, strength: Strength) {
        let raised = self.owned.next_number();
        let whole = self.owned.wholes.get_mut(number);
        let before = std::mem::replace(&mut whole.strength, strength);
        self.owned.raises.push(Raise {
            at: raised,
            whole: number,
            before,
            covers_from: u64::MAX,
        });
    }

    /// Makes the lock of a whole weaker.
    fn weaken_whole(&mut self, number: u32, strength: Strength) {
        let whole = self.owned.wholes.get_mut(number);
        whole.strength = strength;
        let entry = whole.entry;
        let shard = Queues::shard_of(self.owned.wholes.name(number).hash);
        let heads = self.manager.queues.shard(shard);
        heads.weaken(entry, self.id, strength, &mut self.woken);
    }

    /// Locks a key, or makes its lock stronger; afterwards it has `strength`, or what it had
    /// `before`.
    #[inline]
    fn acquire_key(
        &mut self,
        name: &Name<'_>,
        tree: PageId,
        strength: Strength,
        before: Option<Strength>,
    ) -> Result<u32> {
        let entry = self.request(name, strength, None)?;
        if strength == Strength::Exclusive && !self.manager.queues.bucket(tree).is_empty() {
            self.pass_ranges(name, tree, entry, before)?;
        }
        Ok(entry)
    }

    /// Waits for the ranges around an exclusive key.
    fn pass_ranges(
        &mut self,
        name: &Name<'_>,
        tree: PageId,
        entry: u32,
        before: Option<Strength>,
    ) -> Result<()> {
        let shard = Queues::shard_of(name.hash);
        let key = ExclusiveKey {
            session: self.id,
            shard,
            entry,
        };
        self.parker.set_back();
        let bucket = self.manager.queues.bucket(tree);
        if bucket.admit_writer(tree, name.key, key, &self.parker) {
            return Ok(());
        }
        let Err(error) = self.wait(Queue::Writer { tree }, || what_key(name)) else {
            return Ok(());
        };
        let heads = self.manager.queues.shard(shard);
        match before {
            Some(before) => heads.weaken(entry, self.id, before, &mut self.woken),
            None => _ = heads.release(entry, self.id, &mut self.woken),
        }
        self.manager
            .queues
            .bucket(tree)
            .forget(key, &mut self.woken);
        self.wake_all();
        Err(error)
    }

    fn acquire_range(&mut self, tree: PageId, interval: &Interval) -> Result<u64> {
        self.take_right()?;
        let own: Vec<&Interval> = self
            .owned
            .ranges
            .iter()
            .filter(|own| own.tree == tree)
            .map(|own| &own.interval)
            .collect();
        self.parker.set_back();
        let (range, is_granted) = self.manager.queues.bucket(tree).register(
            self.manager.queues.shards(),
            self.id,
            (tree, interval),
            &own,
            &self.parker,
        );
        if !is_granted {
            let what = || format!("a range of keys of {}", Space::Tree(tree));
            if let Err(error) = self.wait(Queue::Range { tree, range }, what) {
                self.rights += 1;
                return Err(error);
            }
        }
        self.counters.acquired += 1;
        Ok(range)
    }

    /// Asks a head for a new lock or a stronger one.
    #[inline]
    fn request(
        &mut self,
        name: &Name<'_>,
        strength: Strength,
        inheritance: Option<&Arc<Inheritance>>,
    ) -> Result<u32> {
        self.parker.set_back();
        let shard = Queues::shard_of(name.hash);
        let of_row = [Strength::IntentShared, Strength::SharedIntentExclusive];
        let request = Request {
            session: self.id,
            strength,
            passes: matches!(name.space, Space::Tree(_)) && of_row.contains(&strength),
            inheritance,
            parker: Some(&self.parker),
        };
        let (answer, entry) = self.manager.queues.shard(shard).request(name, &request);
        if answer == Answer::Queued {
            self.wait(Queue::Head { shard, entry }, || what_key(name))?;
        }
        self.counters.acquired += 1;
        Ok(entry)
    }

    #[inline]
    fn take_right(&mut self) -> Result<()> {
        if self.rights == 0 {
            self.rights = self.manager.take_lot()?;
        }
        self.rights -= 1;
        Ok(())
    }

    #[inline]
    fn release_key(&mut self, number: u32) {
        let name = self.owned.keys.name(number);
        let (hash, space) = (name.hash, name.space);
        let key = self.owned.keys.get(number);
        let (entry, whole) = (key.entry, key.whole);
        self.owned.keys.remove(number);
        self.owned.wholes.get_mut(whole).weight -= 1;
        self.rights += 1;
        let shard = Queues::shard_of(hash);
        let was_exclusive =
            self.manager
                .queues
                .shard(shard)
                .release(entry, self.id, &mut self.woken);
        let Space::Tree(tree) = space else {
            return;
        };
        let bucket = self.manager.queues.bucket(tree);
        if was_exclusive && !bucket.is_empty() {
            let key = ExclusiveKey {
                session: self.id,
                shard,
                entry,
            };
            bucket.forget(key, &mut self.woken);
        }
    }

    fn release_ranges(&mut self, ranges: &[OwnedRange]) {
        for range in ranges {
            let bucket = self.manager.queues.bucket(range.tree);
            bucket.release(range.range, &mut self.woken);
        }
        self.discount(ranges);
    }

    /// These ranges are no longer held.
    fn discount(&mut self, ranges: &[OwnedRange]) {
        for range in ranges {
            self.owned.wholes.get_mut(range.whole).weight -= RANGE_WEIGHT;
            self.rights += 1;
        }
    }

    fn release_all(&mut self) {
        let mut order = std::mem::take(&mut self.owned.order);
        for key in order.drain(..) {
            self.release_key(key);
        }
        self.owned.order = order;
        self.last_raise = None;
        let ranges = std::mem::take(&mut self.owned.ranges);
        self.release_ranges(&ranges);
        self.owned.raises.clear();
        let mut active = std::mem::take(&mut self.owned.active);
        for number in active.drain(..) {
            self.end_whole(number);
        }
        self.owned.active = active;
    }

    /// The transaction no longer needs the lock of a whole, which stays idle if it may.
    fn end_whole(&mut self, number: u32) {
        let escalate_at = self.manager.options().escalate_at;
        let whole = self.owned.wholes.get_mut(number);
        whole.is_active = false;
        whole.escalate_at = escalate_at;
        let inheritance = whole.inheritance.as_ref();
        let stays = whole.strength.is_intention() && inheritance.is_some_and(|word| word.rest());
        if !stays {
            self.release_whole(number);
        }
    }

    fn release_whole(&mut self, number: u32) {
        let hash = self.owned.wholes.name(number).hash;
        let entry = self.owned.wholes.get(number).entry;
        let shard = self.manager.queues.shard(Queues::shard_of(hash));
        shard.release(entry, self.id, &mut self.woken);
        self.forget_whole(number);
    }

    /// Gives idle locks back. No transaction has any.
    fn release_idle(&mut self) {
        for number in self.owned.wholes.numbers() {
            let inheritance = self.owned.wholes.get(number).inheritance.as_ref();
            if inheritance.is_some_and(|word| word.take_back()) {
                self.release_whole(number);
            } else {
                self.forget_whole(number);
            }
        }
    }

    /// Wakes sessions that can go on, keeps a small stock of rights, and publishes the counters.
    fn finish(&mut self) {
        self.wake_all();
        let lot = self.manager.lot();
        let stock = if lot > 1 { 2 * lot } else { 0 };
        if self.rights > stock {
            self.manager.give_back(self.rights - stock);
            self.rights = stock;
        }
        self.visible.counters.store(&self.counters);
    }

    #[inline]
    fn wake_all(&mut self) {
        for parker in self.woken.granted.drain(..) {
            parker.wake();
        }
        for parker in self.woken.next.drain(..) {
            parker.stir();
        }
    }
}

impl Drop for LockSession {
    fn drop(&mut self) {
        self.end_all();
        self.manager.give_back(self.rights);
        self.manager.leave(self.id, &self.counters);
    }
}

#[inline]
fn recent_place(table: TableId) -> usize {
    table.0 as usize % RECENT
}

fn what_key(name: &Name<'_>) -> String {
    match name.space {
        Space::Tree(_) => format!("a key of {}", name.space),
        _ => name.space.to_string(),
    }
}
