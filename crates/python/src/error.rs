//! Errors as exceptions.
//!
//! The classes are those of the package, by the class of the SQLSTATE, so Python makes them: this
//! module only says what they have to tell.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use sql::{SqlError, SqlState};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The exception of an error.
pub(crate) fn raised(py: Python<'_>, error: SqlError) -> PyErr {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || -> PyResult<PyErr> {
        let make = MAKE.get_or_try_init(py, || -> PyResult<Py<PyAny>> {
            Ok(py
                .import("indelible._errors")?
                .getattr("exception")?
                .unbind())
        })?;
        let names = error.names.unwrap_or_default();
        let told = make.bind(py).call1((
            error.state.0,
            error.message,
            error.detail,
            error.hint,
            error.position,
            names.table,
            names.constraint,
        ))?;
        Ok(PyErr::from_value(told))
    };
    make().unwrap_or_else(|failure| failure)
}

/// Runs work without the interpreter's lock; a panic in it is an error like others.
pub(crate) fn detached<R: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<R, SqlError> + Send,
) -> PyResult<R> {
    py.detach(|| caught(work))
        .map_err(|error| raised(py, error))
}

/// Runs work, whose panic is an error like others.
pub(crate) fn caught<R>(work: impl FnOnce() -> Result<R, SqlError>) -> Result<R, SqlError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let message = "the call stopped at a broken invariant of the library; close the database and open it again, and report the \
            message on the standard error stream";
        Err(SqlError::new(SqlState::INTERNAL_ERROR, message))
    })
}

/// The error of a handle that cannot be used any more, or not so.
pub(crate) fn unusable(message: &str) -> SqlError {
    SqlError::new(SqlState("08003"), message)
}

/// The error of a value that a call cannot take.
pub(crate) fn unfit(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::DATATYPE_MISMATCH, message)
}
