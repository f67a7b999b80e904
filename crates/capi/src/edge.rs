//! The edge to C: pointers of the caller become references for the time of a call, and panics
//! become errors.
//!
//! Each pointer is checked for NULL here, with the name of the argument in the error. All else
//! about it only the caller can promise, as in any C interface.

use crate::code::{INDELIBLE_MISUSE, INDELIBLE_TOOBIG, INDELIBLE_VALUE_BYTES_MAX};
use crate::failure::{Failure, keep};
use crate::handle::Connection;
use sql::SqlState;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a call; its error is kept for the thread and for the connection.
pub(crate) fn call(
    connection: Option<&Connection>,
    body: impl FnOnce() -> Result<c_int, Failure>,
) -> c_int {
    // A panic stops in the middle of a change at most of this connection, whose lock is poisoned
    // by it, and of a partition, which then refuses every later call.
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        Err(Failure::new(
            INDELIBLE_MISUSE,
            SqlState::INTERNAL_ERROR,
            "the call stopped at a broken invariant of the library; close the connection, and report the message on the \
             standard error stream",
        ))
    });
    match result {
        Ok(code) => code,
        Err(failure) => {
            let code = failure.code;
            let texts = failure.texts();
            keep(&texts);
            if let Some(connection) = connection {
                connection.keep_error(&texts);
            }
            code
        }
    }
}

/// The place of an out-argument.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes it.
    pub(crate) fn set(self, value: T) {
        // SAFETY: it is not NULL, and the caller has given it for the time of the call, as the
        // place of a `T` that need not be initialised.
        unsafe { self.0.write(value) }
    }
}

/// An out-argument, which must not be NULL.
pub(crate) fn out<T>(pointer: *mut T, name: &str) -> Result<Out<T>, Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    Ok(Out(pointer))
}

/// The size that the caller has written into the first field of a structure, which must not be
/// NULL; at least that of the structure in this version.
pub(crate) fn check_size<T>(structure: *const T, name: &str) -> Result<usize, Failure> {
    // SAFETY: it is not NULL, and structures of the interface begin with a size that the caller has
    // set.
    let size = unsafe { structure.cast::<usize>().read() };
    if size < size_of::<T>() {
        let message = format!("set `size` of {name} to its size before the call");
        return Err(Failure::misuse(message));
    }
    Ok(size)
}

fn null(name: &str) -> Failure {
    Failure::misuse(format!("the argument `{name}` is NULL"))
}

/// A text that ends with a zero byte.
pub(crate) fn text<'t>(pointer: *const c_char, name: &str) -> Result<&'t str, Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: the caller promises a zero byte, and leaves the text alone during the call.
    let content = unsafe { CStr::from_ptr(pointer) };
    utf8(content.to_bytes(), name)
}

/// Bytes of the caller. A negative length means: up to the first zero byte.
pub(crate) fn bytes<'t>(
    pointer: *const c_char,
    length: i64,
    name: &str,
) -> Result<&'t [u8], Failure> {
    if length > INDELIBLE_VALUE_BYTES_MAX {
        let message = format!(
            "`{name}` has {length} bytes, at most {INDELIBLE_VALUE_BYTES_MAX} are possible; store it in parts"
        );
        let state = SqlState::PROGRAM_LIMIT_EXCEEDED;
        return Err(Failure::new(INDELIBLE_TOOBIG, state, message));
    }
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(null(name));
    }
    let Ok(length) = usize::try_from(length) else {
        // SAFETY: as for `text`.
        return Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes());
    };
    // SAFETY: the caller promises so many bytes, and leaves them alone during the call.
    Ok(unsafe { std::slice::from_raw_parts(pointer.cast(), length) })
}

pub(crate) fn utf8<'t>(bytes: &'t [u8], name: &str) -> Result<&'t str, Failure> {
    std::str::from_utf8(bytes).map_err(|error| {
        let message = format!("`{name}` is not UTF-8: {error}");
        Failure::from(sql::SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            message,
        ))
    })
}
