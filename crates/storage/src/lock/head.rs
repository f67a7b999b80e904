//! The head of one lock: its holders, its queue of waiters, and the order of grants.
//!
//! 1. No two holders have modes that exclude each other.
//! 2. A request is granted when it conflicts with no other holder and no waiter before it. A
//!    request that is compatible with all of them passes the waiters, which delays nobody.
//!    Requests that *pass* do not wait for waiters that want an exclusive lock: who deletes a row,
//!    or changes its key, waits until nobody refers to it, and holds nobody up till then.
//! 3. A conversion is queued after other conversions and before new requests.
//! 4. The first waiter of a queue conflicts with a holder, or has been woken and is going to claim
//!    the lock: every release, withdrawal and grant calls `promote`.
//! 5. A lock without holders goes to whoever is awake: to be awake takes a sleeper as long as many
//!    short transactions. The first waiter is passed so [`PASSES_MAX`] times at most, and then it
//!    has the lock before it is awake.

use super::inheritance::Inheritance;
use super::mode::Strength;
use super::parker::Parker;
use std::sync::Arc;

/// How often those who are awake may pass a first waiter that sleeps.
pub(super) const PASSES_MAX: u32 = 16;

/// The number of a session, unique in its wait-for graph.
pub(super) type SessionId = u32;

/// A session that holds the lock.
pub(super) struct Holder {
    pub(super) session: SessionId,
    pub(super) strength: Strength,
    /// Of locks that may be inherited.
    pub(super) inheritance: Option<Arc<Inheritance>>,
}

/// A session that waits for it.
struct Waiter {
    session: SessionId,
    strength: Strength,
    is_conversion: bool,
    passes: bool,
    inheritance: Option<Arc<Inheritance>>,
    parker: Arc<Parker>,
}

/// A request, as it comes to a head.
#[derive(Clone)]
pub(super) struct Request<'a> {
    pub(super) session: SessionId,
    /// Strength of the session's lock once granted: for a conversion it includes the strength held
    /// before.
    pub(super) strength: Strength,
    /// Whether no waiter for an exclusive lock is in its way: it is a lock of a row that lets
    /// references to it in, or is one.
    pub(super) passes: bool,
    /// Of locks that may be inherited.
    pub(super) inheritance: Option<&'a Arc<Inheritance>>,
    /// Woken when the request is granted later; without one, a request that would have to wait is
    /// refused.
    pub(super) parker: Option<&'a Arc<Parker>>,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Granted,
    /// It is in the queue.
    Queued,
    /// It would have had to wait.
    Refused,
}

/// Sessions to be signalled when the mutex is free again.
#[derive(Default)]
pub(super) struct Woken {
    /// They can go on.
    pub(super) granted: Vec<Arc<Parker>>,
    /// They sleep, and can claim the lock, or can do so when those have ended. To be awake then
    /// takes them as long as some short transactions.
    pub(super) next: Vec<Arc<Parker>>,
}

/// One lock.
#[derive(Default)]
pub(super) struct Head {
    holders: Vec<Holder>,
    queue: Vec<Waiter>,
    /// How often the first waiter was passed.
    passes: u32,
}

impl Head {
    /// Grants, queues or refuses.
    #[inline]
    pub(super) fn request(&mut self, request: &Request<'_>) -> Answer {
        if self.holders.is_empty() && self.queue.is_empty() {
            self.hold(request.session, request.strength, request.inheritance);
            return Answer::Granted;
        }
        self.request_beside_others(request)
    }

    fn request_beside_others(&mut self, request: &Request<'_>) -> Answer {
        let held = self.holder(request.session).map(|holder| holder.strength);
        let is_conversion = held.is_some();
        // Those who wait for what the session has cannot go first.
        let behind = match held {
            Some(held) => self
                .queue
                .iter()
                .take_while(|waiter| waiter.is_conversion && !held.conflicts(waiter.strength))
                .count(),
            None => self.queue.len(),
        };
        let in_front = self.strengths_before(behind, request.passes);
        if self.is_free_for(request.session, request.strength, in_front)
            || self.may_pass(behind, request.strength)
        {
            self.hold(request.session, request.strength, request.inheritance);
            return Answer::Granted;
        }
        let Some(parker) = request.parker else {
            return Answer::Refused;
        };
        self.queue.insert(
            behind,
            Waiter {
                session: request.session,
                strength: request.strength,
                is_conversion,
                passes: request.passes,
                inheritance: request.inheritance.cloned(),
                parker: Arc::clone(parker),
            },
        );
        // An idle lock that was just revoked may have been the last one in the way.
        let holders = self.holders.len();
        self.want_all();
        if self.holders.len() < holders
            && self.is_free_for(request.session, request.strength, in_front)
        {
            self.queue.remove(behind);
            self.hold(request.session, request.strength, request.inheritance);
            return Answer::Granted;
        }
        Answer::Queued
    }

    /// Removes a session's lock and returns its strength.
    #[inline]
    pub(super) fn release(&mut self, session: SessionId, woken: &mut Woken) -> Option<Strength> {
        let at = self
            .holders
            .iter()
            .position(|holder| holder.session == session)?;
        let holder = self.holders.swap_remove(at);
        if !self.queue.is_empty() {
            self.promote(woken);
        }
        Some(holder.strength)
    }

    /// Makes a session's lock as weak as it was before a conversion.
    pub(super) fn weaken(&mut self, session: SessionId, strength: Strength, woken: &mut Woken) {
        if let Some(holder) = self.holder(session) {
            holder.strength = strength;
        }
        self.promote(woken);
    }

    /// Takes a session's request out of the queue; false if it has been granted in the meantime.
    pub(super) fn withdraw(&mut self, session: SessionId, woken: &mut Woken) -> bool {
        let Some(at) = self
            .queue
            .iter()
            .position(|waiter| waiter.session == session)
        else {
            return false;
        };
        self.take_waiter(at);
        self.promote(woken);
        true
    }

    /// Grants the request of a session that has been woken, if that is possible now; false if it is
    /// not, or if it was granted before.
    pub(super) fn claim(&mut self, session: SessionId, woken: &mut Woken) -> bool {
        let queue = self.queue.iter();
        let at = queue.take_while(|waiter| waiter.session != session).count();
        let Some(waiter) = self.queue.get(at) else {
            return false;
        };
        let (strength, in_front) = (waiter.strength, self.strengths_before(at, waiter.passes));
        if !self.is_free_for(session, strength, in_front) && !self.may_pass(at, strength) {
            return false;
        }
        let waiter = self.take_waiter(at);
        self.hold(session, strength, waiter.inheritance.as_ref());
        self.promote(woken);
        true
    }

    /// Sessions that a waiting session waits for; none if it does not wait here.
    pub(super) fn blockers(&self, session: SessionId, found: &mut Vec<SessionId>) {
        let Some(at) = self
            .queue
            .iter()
            .position(|waiter| waiter.session == session)
        else {
            return;
        };
        let Waiter {
            strength, passes, ..
        } = self.queue[at];
        let holders = self
            .holders
            .iter()
            .map(|holder| (holder.session, holder.strength));
        let in_front = self.queue[..at]
            .iter()
            .filter(|waiter| !passes || waiter.strength != Strength::Exclusive)
            .map(|waiter| (waiter.session, waiter.strength));
        found.extend(
            holders
                .chain(in_front)
                .filter(|(other, held)| *other != session && strength.conflicts(*held))
                .map(|(other, _)| other),
        );
    }

    /// Visits the transactions that hold it, which `true` is for, and those that wait.
    pub(super) fn claims(&self, visit: &mut dyn FnMut(SessionId, Strength, bool)) {
        for holder in &self.holders {
            let word = holder.inheritance.as_ref();
            if word.is_none_or(|word| word.is_active()) {
                visit(holder.session, holder.strength, true);
            }
        }
        for waiter in &self.queue {
            visit(waiter.session, waiter.strength, false);
        }
    }

    /// Whether nobody but a session locks something in it or waits; idle intentions of others are
    /// revoked.
    pub(super) fn is_alone(&mut self, session: SessionId) -> bool {
        let is_harmless =
            |holder: &Holder| holder.session == session || holder.strength == Strength::AccessShare;
        self.holders
            .retain(|holder| is_harmless(holder) || !holder.is_revocable());
        self.queue.is_empty() && self.holders.iter().all(is_harmless)
    }

    /// Nobody holds it and nobody waits.
    #[inline]
    pub(super) fn is_unused(&self) -> bool {
        self.holders.is_empty() && self.queue.is_empty()
    }

    /// The session that holds it exclusively.
    #[inline]
    pub(super) fn exclusive_holder(&self) -> Option<SessionId> {
        match &*self.holders {
            [holder] if holder.strength == Strength::Exclusive => Some(holder.session),
            _ => None,
        }
    }

    fn holder(&mut self, session: SessionId) -> Option<&mut Holder> {
        self.holders
            .iter_mut()
            .find(|holder| holder.session == session)
    }

    fn hold(
        &mut self,
        session: SessionId,
        strength: Strength,
        inheritance: Option<&Arc<Inheritance>>,
    ) {
        if let Some(holder) = self.holder(session) {
            holder.strength = strength;
            return;
        }
        self.holders.push(Holder {
            session,
            strength,
            inheritance: inheritance.cloned(),
        });
        if !self.queue.is_empty() {
            self.want_all();
        }
    }

    /// Whether nobody excludes this; idle locks that do are revoked.
    fn is_free_for(&mut self, session: SessionId, strength: Strength, in_front: u16) -> bool {
        if strength.excluded() & in_front != 0 {
            return false;
        }
        self.holders.retain(|holder| {
            holder.session == session
                || !strength.conflicts(holder.strength)
                || !holder.is_revocable()
        });
        self.holders
            .iter()
            .all(|holder| holder.session == session || !strength.conflicts(holder.strength))
    }

    /// Somebody waits: no holder goes on without looking at the queue.
    fn want_all(&mut self) {
        self.holders
            .retain(|holder| holder.inheritance.as_ref().is_none_or(|word| word.want()));
    }

    /// Strengths that the first waiters want, as far as a request does not pass them.
    fn strengths_before(&self, waiters: usize, passes: bool) -> u16 {
        let in_front = self.queue[..waiters].iter();
        let all = in_front.fold(0, |set, waiter| set | waiter.strength.bit());
        not_passed(all, passes)
    }

    /// Lets somebody who is awake pass the first waiters, if nobody has the lock and those whom it
    /// delays sleep.
    fn may_pass(&mut self, waiters: usize, strength: Strength) -> bool {
        let mut delayed = self.queue[..waiters].iter();
        let may_pass = self.holders.is_empty()
            && self.passes < PASSES_MAX
            && delayed.all(|waiter| {
                strength.excluded() & waiter.strength.bit() == 0 || !waiter.parker.is_awake()
            });
        self.passes += u32::from(may_pass);
        may_pass
    }

    fn take_waiter(&mut self, at: usize) -> Waiter {
        if at == 0 {
            self.passes = 0;
        }
        self.queue.remove(at)
    }

    /// Grants what can be granted to those who are awake, and wakes those who can claim the rest.
    fn promote(&mut self, woken: &mut Woken) {
        let (mut at, mut in_front, mut has_granted) = (0, 0, false);
        while at < self.queue.len() {
            let waiter = &self.queue[at];
            let (session, strength) = (waiter.session, waiter.strength);
            let before = not_passed(in_front, waiter.passes);
            let is_ready = waiter.parker.is_awake() || self.passes >= PASSES_MAX;
            let is_free = self.is_free_for(session, strength, before);
            if is_ready && (is_free || self.may_pass(at, strength)) {
                let waiter = self.take_waiter(at);
                self.hold(session, strength, waiter.inheritance.as_ref());
                woken.granted.push(waiter.parker);
                has_granted = true;
                continue;
            }
            let parker = &self.queue[at].parker;
            if is_free && parker.is_asleep() {
                woken.next.push(Arc::clone(parker));
            }
            in_front |= strength.bit();
            at += 1;
        }
        let next = self.queue.first().map(|waiter| &waiter.parker);
        if let Some(next) = next.filter(|next| has_granted && next.is_asleep()) {
            woken.next.push(Arc::clone(next));
        }
    }
}

/// The strengths of waiters that are in the way of a request.
fn not_passed(strengths: u16, passes: bool) -> u16 {
    if passes {
        strengths & !Strength::Exclusive.bit()
    } else {
        strengths
    }
}

impl Holder {
    fn is_revocable(&self) -> bool {
        self.inheritance.as_ref().is_some_and(|word| word.revoke())
    }
}
