//! The error of a call, for the program to look at.
//!
//! A thread keeps the error of its last call that failed, and a connection that of its own. The
//! texts of the one that was asked for are kept until the thread asks again.

use crate::code::{
    INDELIBLE_BUSY, INDELIBLE_ERROR, INDELIBLE_INTERRUPT, INDELIBLE_MISUSE, INDELIBLE_OK,
    INDELIBLE_RANGE,
};
use crate::edge::{call, check_size, out};
use crate::handle::{self, indelible_connection};
use sql::{SqlError, SqlState};
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::Arc;

/// An error. Set size to sizeof(indelible_error_info) before the call, so that later versions can
/// add fields.
#[repr(C)]
pub struct ErrorInfo {
    /// Bytes of the structure.
    pub size: usize,
    /// The code that the call returned.
    pub code: c_int,
    /// Whether the same transaction may succeed when it is run again.
    pub is_retryable: c_int,
    /// SQLSTATE: five characters.
    pub state: *const c_char,
    /// A sentence.
    pub message: *const c_char,
    /// More about the circumstances, or NULL.
    pub detail: *const c_char,
    /// A remedy, or NULL.
    pub hint: *const c_char,
    /// The place in the text of the statement, in characters from 1, or 0.
    pub position: usize,
}

/// The failure of a call.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: c_int,
    pub(crate) error: SqlError,
}

/// A failure as C reads it.
#[derive(Debug)]
pub(crate) struct Texts {
    code: c_int,
    is_retryable: bool,
    state: CString,
    message: CString,
    detail: Option<CString>,
    hint: Option<CString>,
    position: usize,
}

thread_local! {
    /// The error of the last call of the thread that failed.
    static LAST: RefCell<Option<Arc<Texts>>> = const { RefCell::new(None) };
    /// The error whose texts the thread has been given.
    static GIVEN: RefCell<Option<Arc<Texts>>> = const { RefCell::new(None) };
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        let code = match error.state {
            SqlState::SERIALIZATION_FAILURE
            | SqlState::DEADLOCK_DETECTED
            | SqlState::LOCK_NOT_AVAILABLE => INDELIBLE_BUSY,
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
            is_retryable: self.code == INDELIBLE_BUSY,
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

/// Tells about the last call that failed: of the connection and its statements, or, if connection
/// is NULL or closed, of this thread. The texts are valid until this thread calls indelible_error
/// or indelible_message again. Without a failed call the state is 00000.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_error(
    connection: *mut indelible_connection,
    info: *mut ErrorInfo,
) -> c_int {
    call(None, || {
        let asked = out(info, "info")?;
        let size = check_size(info, "indelible_error_info")?;
        let given = last_of(connection);
        let pointer = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |t| t.as_ptr());
        asked.set(match &given {
            None => ErrorInfo {
                size,
                code: INDELIBLE_OK,
                is_retryable: 0,
                state: c"00000".as_ptr(),
                message: c"no call has failed".as_ptr(),
                detail: ptr::null(),
                hint: ptr::null(),
                position: 0,
            },
            Some(texts) => ErrorInfo {
                size,
                code: texts.code,
                is_retryable: c_int::from(texts.is_retryable),
                state: texts.state.as_ptr(),
                message: texts.message.as_ptr(),
                detail: pointer(&texts.detail),
                hint: pointer(&texts.hint),
                position: texts.position,
            },
        });
        GIVEN.with_borrow_mut(|kept| *kept = given);
        Ok(INDELIBLE_OK)
    })
}

/// The message of the same error, never NULL; valid as the texts of indelible_error.
#[unsafe(no_mangle)]
pub extern "C" fn indelible_message(connection: *mut indelible_connection) -> *const c_char {
    let mut message = c"no call has failed".as_ptr();
    call(None, || {
        let given = last_of(connection);
        if let Some(texts) = &given {
            message = texts.message.as_ptr();
        }
        GIVEN.with_borrow_mut(|kept| *kept = given);
        Ok(INDELIBLE_OK)
    });
    message
}

fn last_of(connection: *mut indelible_connection) -> Option<Arc<Texts>> {
    match handle::connection(connection) {
        Ok(connection) => connection.last_error(),
        Err(_) => LAST.with_borrow(Option::clone),
    }
}
