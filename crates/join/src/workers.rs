//! Threads of one phase: each gets a state of its own, and all end before the next phase starts.
//!
//! A phase is a scope of threads, so no barrier can be left waiting when one of them panics: the
//! panic continues in the caller. Starting a thread costs tens of microseconds, a phase that is
//! worth threads lasts milliseconds.

use crate::error::{JoinError, Result};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Runs `work` once for each state, the first one on the calling thread, and returns the results in
/// order.
pub(crate) fn run<S, R, F>(states: Vec<S>, work: F) -> Result<Vec<R>>
where
    S: Send,
    R: Send,
    F: Fn(usize, S) -> Result<R> + Sync,
{
    let mut places = Vec::with_capacity(states.len());
    for state in states {
        places.push(Mutex::new(WorkerState::Waits(state)));
    }
    on_threads(places.len(), &|thread| {
        let mut place = lock(&places[thread]);
        if let WorkerState::Waits(state) = mem::replace(&mut *place, WorkerState::Runs) {
            *place = WorkerState::Ended(work(thread, state));
        }
    })?;
    let mut results = Vec::with_capacity(places.len());
    for place in places {
        if let WorkerState::Ended(result) =
            place.into_inner().unwrap_or_else(PoisonError::into_inner)
        {
            results.push(result?);
        }
    }
    Ok(results)
}

/// The work of one thread of a phase.
enum WorkerState<S, R> {
    Waits(S),
    Runs,
    Ended(Result<R>),
}

/// Only its own thread takes it while threads run.
fn lock<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `work` with each number below `threads`, on threads of their own but for the first. Phases
/// are many and this is much to compile, so it knows none of their types.
fn on_threads(threads: usize, work: &(dyn Fn(usize) + Sync)) -> Result<()> {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|thread| std::thread::Builder::new().spawn_scoped(scope, move || work(thread)))
            .collect::<std::io::Result<_>>()
            .map_err(JoinError::Thread)?;
        if threads > 0 {
            work(0);
        }
        for other in others {
            if let Err(panic) = other.join() {
                std::panic::resume_unwind(panic);
            }
        }
        Ok(())
    })
}

/// The part of `slice` that belongs to one of `threads` threads: equal shares of whole `unit`s.
pub(crate) fn share<T>(slice: &[T], thread: usize, threads: usize, unit: usize) -> &[T] {
    let units = slice.len().div_ceil(unit);
    let edge = |thread: usize| (units * thread / threads * unit).min(slice.len());
    &slice[edge(thread)..edge(thread + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_the_slice_once() {
        let slice: Vec<u32> = (0..1003).collect();
        for threads in 1..9 {
            for unit in [1, 8, 64, 2000] {
                let parts = (0..threads).flat_map(|thread| share(&slice, thread, threads, unit));
                assert!(parts.eq(slice.iter()));
            }
        }
    }

    #[test]
    fn results_come_in_order_and_an_error_wins() {
        let doubled = run(vec![1, 2, 3], |thread, state| Ok(thread + state)).unwrap();
        assert_eq!(doubled, [1, 3, 5]);
        let failed = run(vec![0, 1], |thread, _| match thread {
            1 => Err(JoinError::Cancelled),
            _ => Ok(()),
        });
        assert!(matches!(failed, Err(JoinError::Cancelled)));
    }
}
