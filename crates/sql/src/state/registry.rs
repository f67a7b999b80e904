//! The sessions of an open database, as others see them.
//!
//! Each session has a [`Peer`] that any thread may look at: its client, the statement that it runs,
//! its counts. Through it others end a statement or the session, and send it
//! notifications. A session that sleeps until its client says something is woken by a function
//! that its server gives.

use super::{Block, now};
use crate::error::{Result, SqlError, SqlState};
use indelible::{CommitReport, Connection, Database, Interrupt, LockKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Bytes of a statement's text that others see, as in PostgreSQL's `track_activity_query_size`.
const TEXT_BYTES_MAX: usize = 1024;
/// Bytes of notifications that wait for a session which does not take them: commits that would add
/// to them fail.
const WAITING_BYTES_MAX: usize = 128 << 20;

/// All sessions, by their numbers.
#[derive(Default)]
pub(crate) struct Registry {
    peers: RwLock<BTreeMap<i32, Arc<Peer>>>,
    /// Held by a transaction with notifications from before its commit until they are delivered, so
    /// that they come in the order of the commits, and there is room for them.
    delivery: Mutex<()>,
    /// Counts of the sessions that have ended.
    ended: Counts,
}

/// Transactions of a session, and the cost of its commits.
#[derive(Debug, Default)]
pub(crate) struct Counts([AtomicU64; cost::COUNTS]);

/// The places of counts.
pub(crate) mod cost {
    pub(crate) const COMMITTED: usize = 0;
    pub(crate) const ROLLED_BACK: usize = 1;
    pub(crate) const CHANGES: usize = 2;
    pub(crate) const FENCES: usize = 3;
    pub(crate) const LINES_FLUSHED: usize = 4;
    pub(crate) const BYTES_STORED: usize = 5;
    pub(crate) const BYTES_WRITTEN: usize = 6;
    /// The number of counts.
    pub(crate) const COUNTS: usize = 7;
}

/// A message of `NOTIFY`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Notification {
    /// The number of the session that has sent it.
    pub sender: i32,
    /// The channel.
    pub channel: String,
    /// The text.
    pub payload: String,
}

/// A reason to wake a session's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// There are notifications.
    Notifications,
    /// The session is to end.
    End,
}

/// Wakes a session's thread.
pub type Wake = Arc<dyn Fn(WakeReason) + Send + Sync>;

/// A session, as others see it.
pub(crate) struct Peer {
    pub(crate) number: i32,
    /// The moment of its begin, in microseconds since 2000-01-01 UTC.
    pub(crate) started_at: i64,
    pub(crate) interrupt: Interrupt,
    /// The number by which the database knows its locks.
    lock_owner: AtomicU32,
    pub(crate) counts: Counts,
    is_terminated: AtomicBool,
    shown: Mutex<Shown>,
    inbox: Mutex<Inbox>,
}

/// The part of a session that changes with its statements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    /// Address and port of the client; none for one of this process.
    pub(crate) client: Option<(String, u16)>,
    /// Address and port at which the client has reached the server.
    pub(crate) server: Option<(String, u16)>,
    /// The encryption of the connection, if it has one.
    pub(crate) encryption: Option<ShownEncryption>,
    pub(crate) application_name: String,
    pub(crate) role: u32,
    pub(crate) is_active: bool,
    pub(crate) block: Option<Block>,
    /// The statement that runs, or that ran last.
    pub(crate) text: String,
    pub(crate) text_begun_at: i64,
    pub(crate) state_changed_at: i64,
    pub(crate) transaction_begun_at: i64,
}

/// How a connection is encrypted, for `pg_stat_ssl`.
#[derive(Clone, Debug)]
pub struct ShownEncryption {
    /// The version of the protocol, as `TLSv1.3`.
    pub version: String,
    /// The cipher by its name in OpenSSL.
    pub cipher: String,
    /// Bits of its key.
    pub bits: i32,
}

#[derive(Default)]
struct Inbox {
    channels: BTreeSet<String>,
    waiting: Vec<Arc<Notification>>,
    waiting_bytes: usize,
    wake: Option<Wake>,
}

impl Inbox {
    /// The notifications that the session listens to.
    fn wanted<'n>(
        &self,
        notifications: &'n [Arc<Notification>],
    ) -> impl Iterator<Item = &'n Arc<Notification>> {
        let all = notifications.iter();
        all.filter(|one| self.channels.contains(&one.channel))
    }
}

/// A lock whose content is whole between all statements, so that a panic does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    /// Adds a session.
    pub(crate) fn add(&self, number: i32, connection: &Connection) -> Arc<Peer> {
        let peer = Arc::new(Peer {
            number,
            started_at: now(),
            interrupt: connection.interrupt(),
            lock_owner: connection.lock_owner().into(),
            counts: Counts::default(),
            is_terminated: AtomicBool::new(false),
            shown: Mutex::default(),
            inbox: Mutex::default(),
        });
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        peers.insert(number, Arc::clone(&peer));
        peer
    }

    /// Removes a session that has ended.
    pub(crate) fn remove(&self, peer: &Peer) {
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        if peers.remove(&peer.number).is_some() {
            self.ended.add(&peer.counts);
        }
    }

    /// All sessions.
    pub(crate) fn peers(&self) -> Vec<Arc<Peer>> {
        let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner);
        peers.values().cloned().collect()
    }

    /// The session with a number.
    pub(crate) fn peer(&self, number: i32) -> Option<Arc<Peer>> {
        let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner);
        peers.get(&number).cloned()
    }

    /// The sessions that wait for locks, with those that they wait for; 0 stands for a transaction
    /// without a session, which is a prepared one.
    pub(crate) fn waits(&self, database: &Database) -> BTreeMap<i32, (LockKind, Vec<i32>)> {
        let peers = self.peers();
        let numbers = peers.iter().map(|peer| (peer.lock_owner(), peer.number));
        let numbers: BTreeMap<u32, i32> = numbers.collect();
        let number = |owner: &u32| numbers.get(owner).copied();
        let waits = database.lock_waits().into_iter();
        let named = waits.filter_map(|wait| {
            let blockers = wait.blockers.iter();
            let blockers = blockers.map(|owner| number(owner).unwrap_or_default());
            let blockers = blockers.collect();
            Some((number(&wait.owner)?, (LockKind::of(&wait), blockers)))
        });
        named.collect()
    }

    /// The counts of all sessions, those that have ended among them.
    pub(crate) fn counts(&self) -> [u64; cost::COUNTS] {
        let sum = Counts::default();
        sum.add(&self.ended);
        for peer in self.peers() {
            sum.add(&peer.counts);
        }
        sum.0.map(AtomicU64::into_inner)
    }

    /// Lets a transaction commit whose notifications are delivered next. None if there are none.
    ///
    /// # Errors
    ///
    /// 54000 if too many wait for a session that listens to one of them.
    pub(crate) fn begin_delivery(
        &self,
        notifications: &[Arc<Notification>],
    ) -> Result<Option<MutexGuard<'_, ()>>> {
        if notifications.is_empty() {
            return Ok(None);
        }
        let turn = lock(&self.delivery);
        if self.peers().iter().all(|peer| peer.has_room(notifications)) {
            return Ok(Some(turn));
        }
        let message = "too many notifications in the NOTIFY queue";
        Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
    }

    /// The part of the room for notifications that the session with the most of them takes.
    pub(crate) fn queue_usage(&self) -> f64 {
        let waiting = self.peers().into_iter();
        let most = waiting.map(|peer| lock(&peer.inbox).waiting_bytes).max();
        most.unwrap_or(0) as f64 / WAITING_BYTES_MAX as f64
    }

    /// Hands notifications to the sessions that listen to their channels, the sender among them.
    pub(crate) fn deliver(&self, notifications: &[Arc<Notification>]) {
        if notifications.is_empty() {
            return;
        }
        for peer in self.peers() {
            peer.receive(notifications);
        }
    }
}

impl Notification {
    /// Memory that it takes.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.channel.len() + self.payload.len()
    }
}

impl Counts {
    /// The counts of this moment.
    pub(crate) fn now(&self) -> [u64; cost::COUNTS] {
        std::array::from_fn(|place| self.0[place].load(Ordering::Relaxed))
    }

    fn add(&self, other: &Self) {
        for (sum, count) in self.0.iter().zip(&other.0) {
            sum.fetch_add(count.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Adds a commit and its cost.
    pub(crate) fn committed(&self, report: &CommitReport) {
        let costs = [
            (cost::COMMITTED, 1),
            (cost::CHANGES, report.changes),
            (cost::FENCES, report.fences),
            (cost::LINES_FLUSHED, report.lines_flushed),
            (cost::BYTES_STORED, report.bytes_stored),
            (cost::BYTES_WRITTEN, report.bytes_written),
        ];
        for (place, cost) in costs {
            self.add_own(place, cost);
        }
    }

    /// Adds a transaction that was undone.
    pub(crate) fn rolled_back(&self) {
        self.add_own(cost::ROLLED_BACK, 1);
    }

    /// Adds to a count of a session, which its own thread alone changes.
    fn add_own(&self, place: usize, count: u64) {
        let sum = self.0[place].load(Ordering::Relaxed) + count;
        self.0[place].store(sum, Ordering::Relaxed);
    }
}

impl Peer {
    /// The session runs a statement.
    ///
    /// # Errors
    ///
    /// 57P01 if it is to end.
    pub(crate) fn begin(&self, text: &str) -> Result<i64> {
        let moment = now();
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        let mut shown = lock(&self.shown);
        if self.is_terminated() {
            return Err(self.stopped());
        }
        shown.text.clear();
        shown.text.push_str(&text[..end]);
        shown.is_active = true;
        shown.text_begun_at = moment;
        shown.state_changed_at = moment;
        Ok(moment)
    }

    /// The number by which the database knows its locks.
    pub(crate) fn lock_owner(&self) -> u32 {
        self.lock_owner.load(Ordering::Relaxed)
    }

    /// A prepared transaction has the locks that the session had.
    pub(crate) fn change_lock_owner(&self, owner: u32) {
        self.lock_owner.store(owner, Ordering::Relaxed);
    }

    /// The session waits for its client.
    pub(crate) fn end(&self, block: Block, transaction_begun_at: i64, moment: i64) {
        let mut shown = lock(&self.shown);
        shown.is_active = false;
        shown.block = Some(block);
        shown.transaction_begun_at = transaction_begun_at;
        shown.state_changed_at = moment;
    }

    /// Forgets interrupts of statements that have ended: a statement that begins is not meant.
    pub(crate) fn forget_interrupts(&self) {
        self.interrupt.clear();
    }

    /// Changes what others see.
    pub(crate) fn show(&self, change: impl FnOnce(&mut Shown)) {
        change(&mut lock(&self.shown));
    }

    /// The part that others see.
    pub(crate) fn shown(&self) -> Shown {
        lock(&self.shown).clone()
    }

    /// Ends the statement that runs. If none does, nothing happens: the next one is not meant.
    pub(crate) fn cancel(&self) {
        let shown = lock(&self.shown);
        if shown.is_active {
            self.interrupt.raise();
        }
    }

    /// Ends the session: its statement now, and the session itself as soon as its thread looks.
    pub(crate) fn terminate(&self) {
        self.is_terminated.store(true, Ordering::SeqCst);
        // First, so that a statement that stops finds that it is the last one.
        self.wake(WakeReason::End);
        self.interrupt.raise();
    }

    /// Whether the session is to end.
    pub(crate) fn is_terminated(&self) -> bool {
        self.is_terminated.load(Ordering::SeqCst)
    }

    /// The error of a statement that was ended from outside.
    pub(crate) fn stopped(&self) -> SqlError {
        if self.is_terminated() {
            let message = "terminating connection due to administrator command";
            return SqlError::new(SqlState::ADMIN_SHUTDOWN, message);
        }
        let message = "canceling statement due to user request";
        SqlError::new(SqlState::QUERY_CANCELED, message)
    }

    fn wake(&self, reason: WakeReason) {
        let wake = lock(&self.inbox).wake.clone();
        if let Some(wake) = wake {
            wake(reason);
        }
    }

    /// Sets the function that wakes the session's thread.
    pub(crate) fn set_wake(&self, wake: Wake) {
        lock(&self.inbox).wake = Some(wake);
    }

    /// Whether all notifications that the session listens to can wait for it.
    fn has_room(&self, notifications: &[Arc<Notification>]) -> bool {
        let inbox = lock(&self.inbox);
        let bytes = inbox.wanted(notifications).map(|one| one.bytes());
        inbox.waiting_bytes + bytes.sum::<usize>() <= WAITING_BYTES_MAX
    }

    fn receive(&self, notifications: &[Arc<Notification>]) {
        let mut inbox = lock(&self.inbox);
        let before = inbox.waiting.len();
        let wanted: Vec<_> = inbox.wanted(notifications).cloned().collect();
        inbox.waiting_bytes += wanted.iter().map(|one| one.bytes()).sum::<usize>();
        inbox.waiting.extend(wanted);
        let has_more = inbox.waiting.len() > before;
        drop(inbox);
        if has_more {
            self.wake(WakeReason::Notifications);
        }
    }

    /// Takes the notifications that have come.
    pub(crate) fn take_notifications(&self) -> Vec<Notification> {
        let mut inbox = lock(&self.inbox);
        inbox.waiting_bytes = 0;
        let taken = std::mem::take(&mut inbox.waiting);
        drop(inbox);
        taken.into_iter().map(Arc::unwrap_or_clone).collect()
    }

    /// Begins to listen to a channel, or ends; without a name it ends for all.
    pub(crate) fn listen(&self, change: Listen) {
        let inbox = &mut *lock(&self.inbox);
        match change {
            Listen::Begin(channel) => {
                inbox.channels.insert(channel);
                return;
            }
            Listen::End(channel) => {
                inbox.channels.remove(&channel);
            }
            Listen::EndAll => inbox.channels.clear(),
        }
        // Nobody asks for them any more.
        let waiting = std::mem::take(&mut inbox.waiting);
        inbox.waiting = inbox.wanted(&waiting).cloned().collect();
        inbox.waiting_bytes = inbox.waiting.iter().map(|one| one.bytes()).sum();
    }

    /// Whether the session listens to any channel.
    pub(crate) fn is_listening(&self) -> bool {
        !lock(&self.inbox).channels.is_empty()
    }

    /// The channels that the session listens to.
    pub(crate) fn channels(&self) -> Vec<String> {
        lock(&self.inbox).channels.iter().cloned().collect()
    }
}

/// A change of the channels that a session listens to, at the commit of its transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    Begin(String),
    End(String),
    EndAll,
}

/// Messages and changes of channels that wait for the commit of their transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announced {
    pub(crate) notifications: Vec<Arc<Notification>>,
    /// The same, to find those that come again.
    known: BTreeSet<Arc<Notification>>,
    pub(crate) listens: Vec<Listen>,
}

/// Bytes of a channel's name and of a payload, at most.
const CHANNEL_BYTES_MAX: usize = 63;
const PAYLOAD_BYTES_MAX: usize = 7999;

impl Announced {
    /// Adds a notification; the same one twice in a transaction is sent once.
    ///
    /// # Errors
    ///
    /// 22023 for a name or a text that is too long.
    pub(crate) fn notify(&mut self, sender: i32, channel: &str, payload: &str) -> Result<()> {
        let problem = match (channel.len(), payload.len()) {
            (0, _) => "channel name cannot be empty",
            (length, _) if length > CHANNEL_BYTES_MAX => "channel name too long",
            (_, length) if length > PAYLOAD_BYTES_MAX => "payload string too long",
            _ => {
                let notification = Arc::new(Notification {
                    sender,
                    channel: channel.to_owned(),
                    payload: payload.to_owned(),
                });
                if self.known.insert(Arc::clone(&notification)) {
                    self.notifications.push(notification);
                }
                return Ok(());
            }
        };
        Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, problem))
    }

    /// Forgets what was announced after a point, which rolling back to a savepoint undoes.
    pub(crate) fn truncate(&mut self, (notifications, listens): (usize, usize)) {
        for undone in self.notifications.drain(notifications..) {
            self.known.remove(&undone);
        }
        self.listens.truncate(listens);
    }

    /// The point that [`Announced::truncate`] goes back to.
    pub(crate) fn point(&self) -> (usize, usize) {
        (self.notifications.len(), self.listens.len())
    }
}
