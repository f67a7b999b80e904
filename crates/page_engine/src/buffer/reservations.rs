//! Undo-space reservations: bytes of a shared log that the rollbacks of open transactions need, and
//! the newest checkpoint when each transaction began to log.
//!
//! A reservation lasts as long as its transaction, so bytes that a rollback has already logged are
//! counted twice. So if there is room for the sum of all reservations each time one grows, there is
//! room for every rollback.

/// The reservations of sessions, by their number among those that share the log. `S` is a position
/// in the log.
#[derive(Debug)]
pub(super) struct UndoReservations<S> {
    reservations: Vec<Claim<S>>,
    /// Sum of the bytes of all reservations.
    reserved: u64,
}

#[derive(Clone, Copy, Debug)]
struct Claim<S> {
    bytes: u64,
    /// The newest checkpoint when the transaction's first record was appended.
    since: Option<S>,
}

impl<S: Copy> UndoReservations<S> {
    /// No session needs anything.
    pub(super) fn new() -> Self {
        Self {
            reservations: Vec::new(),
            reserved: 0,
        }
    }

    /// Bytes that all reservations need together.
    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Bytes that all reservations would need together if a session needed `bytes`.
    pub(super) fn reserved_with(&self, session: u32, bytes: u64) -> u64 {
        let claim = self.reservations.get(session as usize);
        self.reserved - claim.map_or(0, |claim| claim.bytes) + bytes
    }

    /// Notes that a session needs `bytes`, for which there is room, and where the newest checkpoint
    /// is.
    pub(super) fn claim(&mut self, session: u32, bytes: u64, newest: S) {
        self.reserved = self.reserved_with(session, bytes);
        let place = session as usize;
        if self.reservations.len() <= place {
            let none = Claim {
                bytes: 0,
                since: None,
            };
            self.reservations.resize(place + 1, none);
        }
        let claim = &mut self.reservations[place];
        claim.bytes = bytes;
        claim.since.get_or_insert(newest);
        self.check();
    }

    /// Notes that a session needs nothing any more.
    pub(super) fn end(&mut self, session: u32) {
        if let Some(claim) = self.reservations.get_mut(session as usize) {
            self.reserved -= claim.bytes;
            claim.bytes = 0;
            claim.since = None;
        }
        self.check();
    }

    fn check(&self) {
        debug_assert_eq!(
            self.reserved,
            self.reservations.iter().map(|claim| claim.bytes).sum(),
            "the reserved bytes are not the sum of all reservations"
        );
    }

    /// The newest checkpoints when the open transactions began.
    pub(super) fn since(&self) -> impl Iterator<Item = S> {
        self.reservations.iter().filter_map(|claim| claim.since)
    }
}
