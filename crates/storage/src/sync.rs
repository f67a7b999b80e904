//! Locks, signals and atomic numbers of what threads share in this room.
//!
//! They are the standard library's. With the feature `schedules` they are those of `shuttle`, which
//! runs one thread at a time and chooses the next one at each of these steps, so that schedule
//! tests go through orders that real threads seldom take. There is no time there: a wait with a
//! limit ends by a signal only, so a signal that is lost is a deadlock and is found. Orders weaker
//! than sequential consistency are not tried.

#[cfg(feature = "schedules")]
pub use shuttle::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};
use std::sync::PoisonError;
#[cfg(not(feature = "schedules"))]
pub use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

/// A value alone on its cache lines, which processors fetch in pairs: a write to it does not
/// invalidate lines that others only read.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

impl<T> std::ops::Deref for CachePadded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// The guard of a lock, also of one whose holder has panicked: what it protects is changed in steps
/// that do not panic.
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pause of some cycles before the next try.
#[inline]
pub fn spin_loop() {
    #[cfg(not(feature = "schedules"))]
    std::hint::spin_loop();
}

/// A place where a schedule test may let another thread go on.
#[inline]
pub fn yield_to_others() {
    #[cfg(feature = "schedules")]
    shuttle::thread::yield_now();
}
