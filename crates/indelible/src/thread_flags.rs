//! The databases on which this thread has an open transaction, or the turn of those that run again.
//!
//! A second transaction on the same thread could wait for the first for ever, so it is refused at
//! once. Each open database has a bit of a thread-local word. The databases after the 63rd share
//! the last bit, which can only refuse more; for the turn it does not count.

use crate::error::{Error, Result};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

const SHARED_BIT: u64 = 1 << 63;

#[cfg(not(feature = "schedules"))]
thread_local! {
    static OPEN: Cell<u64> = const { Cell::new(0) };
    static TURN: Cell<u64> = const { Cell::new(0) };
}
#[cfg(feature = "schedules")]
shuttle::thread_local! {
    static OPEN: Cell<u64> = Cell::new(0);
    static TURN: Cell<u64> = Cell::new(0);
}
static IN_USE: AtomicU64 = AtomicU64::new(0);

/// Set while a transaction is open on this thread. Not `Send`: the flag is the thread's.
pub(crate) struct OpenFlag {
    bit: u64,
    thread: PhantomData<*const ()>,
}

impl OpenFlag {
    #[inline]
    pub(crate) fn set(bit: u64) -> Result<Self> {
        let open = OPEN.with(Cell::get);
        if open & bit != 0 {
            return Err(Error::TransactionOpen);
        }
        OPEN.with(|word| word.set(open | bit));
        Ok(Self {
            bit,
            thread: PhantomData,
        })
    }
}

impl Drop for OpenFlag {
    #[inline]
    fn drop(&mut self) {
        // A thread that ends has no transaction to refuse, so it does not matter if the word is
        // gone already.
        let _ = OPEN.try_with(|open| open.set(open.get() & !self.bit));
    }
}

/// Set while a transaction of this thread has the turn (`retry`). Not `Send`.
pub(crate) struct TurnFlag {
    bit: u64,
    thread: PhantomData<*const ()>,
}

impl TurnFlag {
    pub(crate) fn set(bit: u64) -> Self {
        TURN.with(|turn| turn.set(turn.get() | bit));
        Self {
            bit,
            thread: PhantomData,
        }
    }

    /// Whether the next transaction of this thread on a database has its turn.
    #[inline]
    pub(crate) fn is_set(bit: u64) -> bool {
        TURN.with(Cell::get) & bit & !SHARED_BIT != 0
    }
}

impl Drop for TurnFlag {
    fn drop(&mut self) {
        let _ = TURN.try_with(|turn| turn.set(turn.get() & !self.bit));
    }
}

/// The bit of one open database, given back when it closes.
pub(crate) struct FlagBit(pub(crate) u64);

impl FlagBit {
    pub(crate) fn new() -> Self {
        let mut used = IN_USE.load(Ordering::Relaxed);
        loop {
            let bit = 1u64.checked_shl(used.trailing_ones()).unwrap_or(SHARED_BIT);
            if bit == SHARED_BIT {
                return Self(SHARED_BIT);
            }
            let taken = IN_USE.compare_exchange_weak(
                used,
                used | bit,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => return Self(bit),
                Err(now) => used = now,
            }
        }
    }
}

impl Drop for FlagBit {
    fn drop(&mut self) {
        if self.0 != SHARED_BIT {
            IN_USE.fetch_and(!self.0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_transaction_a_thread_and_database() {
        let (one, other) = (FlagBit::new(), FlagBit::new());
        assert_ne!(one.0, other.0);
        let flag = OpenFlag::set(one.0).unwrap();
        assert!(matches!(OpenFlag::set(one.0), Err(Error::TransactionOpen)));
        let second = OpenFlag::set(other.0).unwrap();
        drop(flag);
        assert!(OpenFlag::set(other.0).is_err());
        drop(OpenFlag::set(one.0).unwrap());
        drop(second);
        let bit = one.0;
        std::thread::spawn(move || assert!(OpenFlag::set(bit).is_ok()))
            .join()
            .unwrap();
    }

    #[test]
    fn more_databases_than_bits_share_the_last() {
        let many: Vec<FlagBit> = (0..70).map(|_| FlagBit::new()).collect();
        assert_eq!(many.last().unwrap().0, SHARED_BIT);
    }
}
