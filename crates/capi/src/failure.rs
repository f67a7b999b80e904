//! The failure of a call, and the last one of each thread.
//!
//! A call makes a `Failure` of whatever stops it. Its texts are made once, and shared by the
//! thread and the connection that keep them.

use crate::code::{
    INDELIBLE_BUSY, INDELIBLE_ERROR, INDELIBLE_INTERRUPT, INDELIBLE_MISUSE, INDELIBLE_RANGE,
};
use sql::{SqlError, SqlState};
use std::cell::RefCell;
use std::ffi::{CString, c_int};
use std::sync::Arc;

/// The failure of a call.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: c_int,
    pub(crate) error: SqlError,
}

/// A failure as C reads it.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(crate) code: c_int,
    pub(crate) is_retryable: bool,
    pub(crate) state: CString,
    pub(crate) message: CString,
    pub(crate) detail: Option<CString>,
    pub(crate) hint: Option<CString>,
    pub(crate) position: usize,
}

thread_local! {
    /// The error of the last call of the thread that failed.
    static LAST: RefCell<Option<Arc<Texts>>> = const { RefCell::new(None) };
}

/// Whether the same transaction may succeed when it is run again.
fn is_retryable(state: SqlState) -> bool {
    [
        SqlState::SERIALIZATION_FAILURE,
        SqlState::DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::SNAPSHOT_TOO_OLD,
    ]
    .contains(&state)
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        let code = match error.state {
            state if is_retryable(state) => INDELIBLE_BUSY,
            SqlState::QUERY_CANCELED => INDELIBLE_INTERRUPT,
            _ => INDELIBLE_ERROR,
        };
        Self { code, error }
    }
}

impl From<indelible::Error> for Failure {
    fn from(error: indelible::Error) -> Self {
        SqlError::from(error).into()
    }
}

impl Failure {
    pub(crate) fn new(code: c_int, state: SqlState, message: impl Into<String>) -> Self {
        let error = SqlError::new(state, message);
        Self { code, error }
    }

    /// A call that the program must not make.
    pub(crate) fn misuse(message: impl Into<String>) -> Self {
        Self::new(INDELIBLE_MISUSE, SqlState::INVALID_PARAMETER_VALUE, message)
    }

    /// A number outside of its range.
    pub(crate) fn range(message: impl Into<String>) -> Self {
        Self::new(INDELIBLE_RANGE, SqlState::INVALID_PARAMETER_VALUE, message)
    }

    /// The failure as C reads it.
    pub(crate) fn texts(self) -> Arc<Texts> {
        // Zero bytes can come in names only, and would end the text there.
        let text = |text: String| CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
        Arc::new(Texts {
            code: self.code,
            is_retryable: is_retryable(self.error.state),
            state: text(self.error.state.to_string()),
            message: text(self.error.message),
            detail: self.error.detail.map(text),
            hint: self.error.hint.map(text),
            position: self.error.position.unwrap_or(0),
        })
    }
}

/// Keeps the error of a call of this thread.
pub(crate) fn keep(texts: &Arc<Texts>) {
    LAST.with_borrow_mut(|last| *last = Some(Arc::clone(texts)));
}

/// The error of the last call of this thread that failed.
pub(crate) fn last() -> Option<Arc<Texts>> {
    LAST.with_borrow(Option::clone)
}
