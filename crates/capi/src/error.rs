//! The error of a call, for the program to look at.
//!
//! A thread keeps the error of its last call that failed, and a connection that of its own. The
//! texts of the one that was asked for are kept until the thread asks again.

use crate::code::INDELIBLE_OK;
use crate::edge::{call, check_size, out};
use crate::failure::{Texts, last};
use crate::handle::{self, indelible_connection};
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

thread_local! {
    /// The error whose texts the thread has been given.
    static GIVEN: RefCell<Option<Arc<Texts>>> = const { RefCell::new(None) };
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
        Err(_) => last(),
    }
}
