//! Calls that fail on purpose.
//!
//! A [`Fault`] names the calls it counts and the one that fails, so a test can sweep the number
//! over a whole scenario. The outcome of a failed sync is part of the fault, because an engine must
//! cope with either outcome.

use std::io::ErrorKind;

/// A failure to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The calls that are counted, from the moment of injection.
    pub call: Call,
    /// How many of them succeed first.
    pub nth: u64,
    /// How often it fails then.
    pub repeat: Repeat,
    /// How.
    pub effect: Effect,
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Every call.
    Any,
    /// Reading bytes or the length of a file.
    Read,
    /// Writing bytes or setting the length of a file.
    Write,
    /// Sync of a file or the directory.
    Sync,
    /// Creating, opening, listing, removing and renaming.
    Name,
}

/// How often a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// One call fails.
    Once,
    /// That call and all counted ones after it fail.
    Forever,
}

/// The effect of the failing call. An effect of another kind of call than the one it strikes is a
/// plain error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing is done; a failed sync keeps a seeded part of the unsynced changes and loses the
    /// rest.
    Error(ErrorKind),
    /// A write stores its first half, then fails.
    ShortWrite(ErrorKind),
    /// A sync fails and everything unsynced is lost for ever, though reads still see it.
    SyncLost(ErrorKind),
    /// A sync fails although everything became durable.
    SyncKept(ErrorKind),
    /// A sync reports success and does nothing; unsynced changes stay unsynced.
    SyncLies,
}

/// The faults of one disk.
#[derive(Default)]
pub(super) struct Faults {
    calls: u64,
    /// Calls by kind, in the order of [`Call`].
    kinds: [u64; 5],
    strikes: u64,
    pending: Vec<(Fault, u64)>,
}

impl Faults {
    pub(super) fn inject(&mut self, fault: Fault) {
        self.pending.push((fault, 0));
    }

    /// Takes all faults back.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }

    /// Calls so far, failed ones included.
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// Calls of one kind so far, failed ones included.
    pub(super) fn calls_of(&self, call: Call) -> u64 {
        if call == Call::Any {
            self.calls
        } else {
            self.kinds[call as usize]
        }
    }

    /// Calls that a fault let fail, or that lied.
    pub(super) fn strikes(&self) -> u64 {
        self.strikes
    }

    /// Counts a call and returns the fault that strikes it.
    pub(super) fn strike(&mut self, call: Call) -> Option<Effect> {
        self.calls += 1;
        self.kinds[call as usize] += 1;
        let mut effect = None;
        for (fault, counted) in &mut self.pending {
            if fault.call != Call::Any && fault.call != call {
                continue;
            }
            let strikes = match fault.repeat {
                Repeat::Once => *counted == fault.nth,
                Repeat::Forever => *counted >= fault.nth,
            };
            *counted += 1;
            if strikes {
                effect = Some(fault.effect);
            }
        }
        self.strikes += u64::from(effect.is_some());
        effect
    }
}

impl Effect {
    /// The error that the caller sees.
    pub(super) fn kind(self) -> ErrorKind {
        match self {
            Self::Error(kind)
            | Self::ShortWrite(kind)
            | Self::SyncLost(kind)
            | Self::SyncKept(kind) => kind,
            Self::SyncLies => ErrorKind::Other,
        }
    }
}
