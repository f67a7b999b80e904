//! Locks, signals and atomic numbers that threads share in partitions and in the commit table.
//!
//! They are the standard library's. With the feature `schedules` they are those of `shuttle`, which
//! runs one thread at a time and chooses the next one at each of these steps, so that
//! `schedule_tests` go through orders that real threads seldom take. There is no time: a wait with
//! a limit ends by a signal only, so a lost signal is a deadlock and is found. Orders weaker than
//! sequential consistency are not tried.

#[cfg(feature = "schedules")]
pub(crate) use shuttle::thread::sleep;
#[cfg(not(feature = "schedules"))]
pub(crate) use std::thread::sleep;

#[cfg(feature = "schedules")]
pub(crate) use shuttle::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};
#[cfg(not(feature = "schedules"))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

/// A pause of some cycles before the next try.
#[inline]
pub(crate) fn spin_loop() {
    #[cfg(not(feature = "schedules"))]
    std::hint::spin_loop();
}
