//! Calls to memories that fail on purpose.
//!
//! As with the faults of simulated files, a fault counts the calls of one kind from its injection
//! on, so that a test can sweep its number over a scenario. The effect of a failed fence is
//! undecided: any image that was possible before it is possible after it. The handle then refuses
//! further fences and growth, as a native memory does after a failed sync.

use crate::error::PmemError;
use std::io::{Error, ErrorKind};

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryCall {
    /// Creating or growing a durable memory.
    Space,
    /// Making or growing a volatile memory.
    Volatile,
    /// A fence of a durable memory.
    Fence,
}

impl MemoryCall {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Space, Self::Volatile, Self::Fence];
}

/// A failure to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFault {
    /// The calls that are counted, from the moment of injection.
    pub call: MemoryCall,
    /// How many of them succeed first.
    pub nth: u64,
    /// Whether all counted calls after it fail as well.
    pub forever: bool,
    /// Whether the error is a full device; the operating system's otherwise.
    pub full: bool,
}

/// The faults of one world.
#[derive(Default)]
pub(super) struct MemoryFaults {
    calls: [u64; MemoryCall::ALL.len()],
    strikes: u64,
    pending: Vec<(MemoryFault, u64)>,
}

impl MemoryFaults {
    pub(super) fn inject(&mut self, fault: MemoryFault) {
        self.pending.push((fault, 0));
    }

    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }

    /// Calls of a kind so far, failed ones included.
    pub(super) fn calls(&self, call: MemoryCall) -> u64 {
        self.calls[call as usize]
    }

    /// Calls that failed.
    pub(super) fn strikes(&self) -> u64 {
        self.strikes
    }

    /// Counts a call; the error where a fault strikes.
    pub(super) fn strike(&mut self, call: MemoryCall, wanted_bytes: u64) -> Result<(), PmemError> {
        self.calls[call as usize] += 1;
        let mut struck = None;
        for (fault, counted) in &mut self.pending {
            if fault.call != call {
                continue;
            }
            if *counted == fault.nth || (fault.forever && *counted > fault.nth) {
                struck = Some(fault.full);
            }
            *counted += 1;
        }
        let Some(full) = struck else { return Ok(()) };
        self.strikes += 1;
        if full {
            let limit = "the simulated device is full".to_owned();
            return Err(PmemError::OutOfSpace {
                wanted_bytes,
                limit,
            });
        }
        let action = match call {
            MemoryCall::Space | MemoryCall::Volatile => "allocate",
            MemoryCall::Fence => "sync",
        };
        Err(PmemError::Io {
            action,
            path: "a simulated memory".into(),
            source: Error::from(ErrorKind::Other),
        })
    }
}
