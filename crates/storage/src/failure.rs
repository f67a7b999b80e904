//! The first failure of a log, a file or a partition, after which nobody goes on.
//!
//! A durable step that fails leaves the medium in an unknown state, so what was acknowledged rests
//! on nothing that comes later. The caller of the failed step gets its own error. All others learn
//! that the partition is stopped, and why: [`StorageError::Stopped`].
//!
//! Invariant: the cause is there as soon as the failure is, and never changes. So every refused
//! call gets the cause, however early it comes.

use crate::error::StorageError;
use std::sync::OnceLock;

/// The first failure, if there is one.
#[derive(Debug, Default)]
pub struct Failure(OnceLock<String>);

impl Failure {
    /// Notes that `error` stops everything. Returns the error to report: `error` itself for the
    /// first one, and that everything is stopped for later ones.
    #[cold]
    pub fn note(&self, error: StorageError) -> StorageError {
        if self.0.set(cause(&error)).is_ok() && !matches!(error, StorageError::Poisoned) {
            return error;
        }
        self.refusal()
    }

    /// Notes that `error` stops everything, where another caller reports it.
    #[cold]
    pub fn note_of(&self, error: &StorageError) {
        let _ = self.0.set(cause(error));
    }

    /// Whether there is one.
    #[inline]
    pub fn is_noted(&self) -> bool {
        self.0.get().is_some()
    }

    /// Fails once there is one.
    #[inline]
    pub fn require_none(&self) -> Result<(), StorageError> {
        if self.is_noted() {
            return Err(self.refusal());
        }
        Ok(())
    }

    /// The error for all callers but that of the failed step.
    #[cold]
    pub fn refusal(&self) -> StorageError {
        match self.0.get() {
            Some(cause) => StorageError::Stopped {
                cause: cause.clone(),
            },
            None => StorageError::Poisoned,
        }
    }
}

/// The first cause, however many have passed it on.
fn cause(error: &StorageError) -> String {
    match error {
        StorageError::Stopped { cause } => cause.clone(),
        error => error.to_string(),
    }
}
