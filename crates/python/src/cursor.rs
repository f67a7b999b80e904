//! Cursors: statements, and their rows as objects.
//!
//! A batch of rows stays as it came, and a row becomes objects when it is fetched. A cursor is one
//! thread's at a time: a second one gets an error, since waiting for it could take forever.

use crate::connection::{Connection, Nowhere};
use crate::error::{detached, raised, unfit, unusable};
use crate::stream::Stream;
use crate::{give, take};
use client::{Placeholders, ResultId, TypedClient, Value};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyMapping, PyString, PyTuple};
use sql::{Batch, OutputColumn, SqlError, SqlState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// Rows of `executemany` that run without the interpreter's lock at a time.
const CHUNK_ROWS: usize = 4096;

/// A cursor of a connection, without the parts that Python does as well.
#[pyclass(module = "indelible._core", subclass, frozen)]
pub(crate) struct Cursor {
    connection: Py<PyAny>,
    core: Py<Connection>,
    arraysize: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    /// Rows that the statement has changed or returned, where it has said so.
    rowcount: Option<u64>,
    /// The columns of the result; none if there is none.
    columns: Option<Arc<[OutputColumn]>>,
    /// The same for Python, once it has asked.
    description: Option<Py<PyList>>,
    /// Rows before those of the batch.
    before: u64,
    rows: Batch,
    /// The next one of the batch.
    at: usize,
    /// The rows after the batch.
    rest: Option<ResultId>,
    /// Whether a stream has the rows.
    is_taken: bool,
}

impl State {
    /// Forgets the result; the part of it that the connection has.
    fn forget(&mut self) -> Option<ResultId> {
        let rest = self.rest;
        *self = Self {
            is_closed: self.is_closed,
            ..Self::default()
        };
        rest
    }
}

fn close(client: &mut TypedClient, rest: Option<ResultId>) -> Result<(), SqlError> {
    rest.map_or(Ok(()), |rest| client.close(rest))
}

impl Cursor {
    fn state(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            // A panic while rows became objects has left the result as it was.
            Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
            Err(TryLockError::WouldBlock) => {
                let message =
                    "the cursor is in use by another thread; ask the connection for another one";
                Err(raised(py, unusable(message)))
            }
        }
    }

    /// The state of a cursor that can be used.
    fn usable(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        let state = self.state(py)?;
        if self.core.get().is_closed() {
            let message = "the connection is closed; connect again";
            return Err(raised(py, unusable(message)));
        }
        if state.is_closed {
            let message = "the cursor is closed; ask the connection for another one";
            return Err(raised(py, unusable(message)));
        }
        Ok(state)
    }

    /// The state of a cursor with a result.
    fn with_result(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        let state = self.usable(py)?;
        if state.columns.is_none() {
            let message = "there is no result; execute a statement that returns rows";
            return Err(raised(
                py,
                SqlError::new(SqlState::INVALID_CURSOR_NAME, message),
            ));
        }
        Ok(state)
    }

    /// Reads batches until one has a row that was not fetched; whether there is one.
    fn has_row(&self, py: Python<'_>, state: &mut State) -> PyResult<bool> {
        while state.at >= state.rows.len() {
            let Some(rest) = state.rest else {
                return Ok(false);
            };
            let next = self.core.get().call(py, |client| {
                Ok((client.next_batch(rest)?, client.is_open(rest)))
            });
            let (rows, has_more) = next.inspect_err(|_| state.rest = None)?;
            state.before += state.rows.len() as u64;
            state.rows = rows.unwrap_or_default();
            state.at = 0;
            state.rest = state.rest.filter(|_| has_more);
            if !has_more {
                state.rowcount = Some(state.before + state.rows.len() as u64);
            }
        }
        Ok(true)
    }

    /// Fetches rows into a list, at most so many.
    fn fetch<'py>(&self, py: Python<'py>, rows_max: usize) -> PyResult<Bound<'py, PyList>> {
        let mut state = self.with_result(py)?;
        let list = PyList::empty(py);
        while list.len() < rows_max && self.has_row(py, &mut state)? {
            let wanted = state.at.saturating_add(rows_max - list.len());
            let end = state.rows.len().min(wanted);
            for at in state.at..end {
                list.append(give::row(py, state.rows.row(at))?)?;
            }
            state.at = end;
            // Signals between two batches, while no statement ran.
            py.check_signals()?;
        }
        Ok(list)
    }

    /// Runs one statement for each row; the sum of its counts.
    fn run_all(
        &self,
        text: &Bound<'_, PyString>,
        rows: &Bound<'_, PyAny>,
        has_run: &mut bool,
    ) -> PyResult<u64> {
        let py = text.py();
        let core = self.core.get();
        let placeholders = core.placeholders(text)?;
        let width = placeholders.names.len();
        let mut rows = rows.try_iter()?;
        let (mut count, mut values) = (0, Vec::with_capacity(CHUNK_ROWS * width));
        loop {
            let mut taken = 0;
            for row in rows.by_ref().take(CHUNK_ROWS) {
                gather(&placeholders, &row?, &mut values)?;
                taken += 1;
                if values.len() != taken * width {
                    let given = values.len() + width - taken * width;
                    let message = format!(
                        "the statement has {width} parameters, but {given} values were given"
                    );
                    return Err(raised(
                        py,
                        SqlError::new(SqlState::PROTOCOL_VIOLATION, message),
                    ));
                }
            }
            if taken == 0 {
                return Ok(count);
            }
            *has_run = true;
            let text = &placeholders.text;
            count += core.call(py, |client| client.execute_all(text, taken, &mut values))?;
            py.check_signals()?;
        }
    }
}

#[pymethods]
impl Cursor {
    /// A cursor of a connection of the package.
    #[new]
    fn new(connection: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self {
            core: connection
                .getattr("_core")?
                .cast_into::<Connection>()?
                .unbind(),
            connection: connection.clone().unbind(),
            arraysize: AtomicUsize::new(1),
            state: Mutex::default(),
        })
    }

    /// A cursor that its connection keeps is collected with it: the way back is seen here, and cut
    /// in the connection.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.connection)
    }

    /// The connection that it is of.
    #[getter]
    fn connection(&self, py: Python<'_>) -> Py<PyAny> {
        self.connection.clone_ref(py)
    }

    /// Rows that `fetchmany` fetches by default.
    #[getter]
    fn arraysize(&self) -> usize {
        self.arraysize.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_arraysize(&self, arraysize: usize) {
        self.arraysize.store(arraysize, Ordering::Relaxed);
    }

    /// Rows that the statement has changed or returned, or -1.
    #[getter]
    fn rowcount(&self, py: Python<'_>) -> PyResult<i64> {
        let count = self.state(py)?.rowcount;
        Ok(count.map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX)))
    }

    /// A tuple for each column of the result.
    #[getter]
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let mut state = self.state(py)?;
        if state.description.is_none() {
            let columns = state.columns.as_deref();
            let columns = columns.map(|columns| described(py, columns)).transpose()?;
            state.description = columns.map(Bound::unbind);
        }
        Ok(state.description.as_ref().map(|list| list.bind(py).clone()))
    }

    /// The number of the next row, from 0; None without a result.
    #[getter]
    fn rownumber(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let state = self.state(py)?;
        let has_result = state.columns.is_some();
        Ok(has_result.then(|| state.before + state.at as u64))
    }

    /// Runs one statement as far as its first rows.
    #[pyo3(signature = (operation, parameters=None))]
    fn execute<'py>(
        slf: Bound<'py, Self>,
        operation: &Bound<'py, PyString>,
        parameters: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let (py, this) = (slf.py(), slf.get());
        let mut state = this.usable(py)?;
        let rest = state.forget();
        let core = this.core.get();
        let run = |text: &str, values: Vec<Value>| {
            core.call(py, |client| {
                close(client, rest)?;
                core.begin_if_needed(client)?;
                client.execute(text, values)
            })
        };
        let done = match parameters {
            None => run(operation.to_str()?, Vec::new()),
            Some(parameters) => {
                let placeholders = core.placeholders(operation)?;
                let mut values = Vec::with_capacity(placeholders.names.len());
                gather(&placeholders, parameters, &mut values)?;
                run(&placeholders.text, values)
            }
        }?;
        state.rowcount = done.completion.rows.filter(|_| done.result.is_none());
        state.columns = done.columns;
        state.rows = done.rows;
        state.rest = done.result;
        drop(state);
        Ok(slf)
    }

    /// Runs one statement for each row of parameters.
    fn executemany<'py>(
        slf: Bound<'py, Self>,
        operation: &Bound<'py, PyString>,
        seq_of_parameters: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        let (py, this) = (slf.py(), slf.get());
        let mut state = this.usable(py)?;
        let rest = state.forget();
        let core = this.core.get();
        if rest.is_some() {
            core.call(py, |client| close(client, rest))?;
        }
        let run = |has_run: &mut bool| this.run_all(operation, seq_of_parameters, has_run);
        state.rowcount = Some(core.together(py, run)?);
        drop(state);
        Ok(slf)
    }

    /// Runs all statements of a text.
    fn _script(&self, py: Python<'_>, script: &str) -> PyResult<()> {
        let rest = self.usable(py)?.forget();
        let core = self.core.get();
        core.call(py, |client| {
            close(client, rest)?;
            core.begin_if_needed(client)?;
            client.run(script, &mut Nowhere)
        })
    }

    /// The next row, or None after the last one.
    fn fetchone<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let mut state = self.with_result(py)?;
        if !self.has_row(py, &mut state)? {
            return Ok(None);
        }
        let row = give::row(py, state.rows.row(state.at))?;
        state.at += 1;
        Ok(Some(row))
    }

    /// At most `size` rows; `arraysize` is the default. An empty list after the last one.
    #[pyo3(signature = (size=None))]
    fn fetchmany<'py>(&self, py: Python<'py>, size: Option<usize>) -> PyResult<Bound<'py, PyList>> {
        self.fetch(py, size.unwrap_or_else(|| self.arraysize()))
    }

    /// All rows that are left.
    fn fetchall<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.fetch(py, usize::MAX)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.fetchone(py)
    }

    /// The rows that are next, at most so many, which stay unread; and whether more follow.
    fn _peek<'py>(&self, py: Python<'py>, rows_max: usize) -> PyResult<(Bound<'py, PyList>, bool)> {
        let mut state = self.with_result(py)?;
        self.has_row(py, &mut state)?;
        let end = state.rows.len().min(state.at.saturating_add(rows_max));
        let rows = (state.at..end).map(|at| give::row(py, state.rows.row(at)));
        let list = PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)?;
        Ok((list, end < state.rows.len() || state.rest.is_some()))
    }

    /// The rows as a stream of Arrow.
    fn _stream(&self, py: Python<'_>, batch_rows: usize) -> PyResult<Stream> {
        let mut state = self.with_result(py)?;
        let message = match state.before + state.at as u64 {
            _ if state.is_taken => {
                "the rows of this result have been taken already; execute it again"
            }
            0 => "",
            _ => "rows of this result were fetched already; execute it again to have it as Arrow",
        };
        if !message.is_empty() {
            return Err(raised(py, unusable(message)));
        }
        state.is_taken = true;
        let columns = state.columns.clone().unwrap_or_default();
        let (rows, rest) = (std::mem::take(&mut state.rows), state.rest.take());
        let shared = Arc::clone(self.core.get().shared());
        Ok(Stream::of_result(
            shared,
            &columns,
            (rows, rest),
            batch_rows,
        ))
    }

    /// Says how many rows a COPY had.
    fn _count(&self, py: Python<'_>, rows: Option<u64>) -> PyResult<i64> {
        self.state(py)?.rowcount = rows;
        self.rowcount(py)
    }

    /// Fails if the cursor or its connection is closed.
    fn _check(&self, py: Python<'_>) -> PyResult<()> {
        self.usable(py).map(drop)
    }

    /// Forgets the result.
    #[pyo3(name = "_forget")]
    fn forget(&self, py: Python<'_>) -> PyResult<()> {
        let rest = self.state(py)?.forget();
        let core = self.core.get();
        if rest.is_some() && !core.is_closed() {
            core.call(py, |client| close(client, rest))?;
        }
        Ok(())
    }

    /// Forgets the result at the end of the cursor, which may come in any thread and in the middle
    /// of a call: it waits for nobody.
    fn _drop(&self, py: Python<'_>) {
        let rest = match self.state.try_lock() {
            Ok(mut state) => state.forget(),
            Err(_) => None,
        };
        if let Some(rest) = rest {
            // An error in the destructor of an object is nobody's.
            let _ = detached(py, || {
                self.core.get().shared().close_if_free(rest);
                Ok(())
            });
        }
    }

    /// Forgets the result, and is of no use any more. A second time does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.forget(py)?;
        self.state(py)?.is_closed = true;
        Ok(())
    }
}

/// Adds the values of a row of parameters.
fn gather(
    placeholders: &Placeholders,
    parameters: &Bound<'_, PyAny>,
    values: &mut Vec<Value>,
) -> PyResult<()> {
    let py = parameters.py();
    if parameters.is_exact_instance_of::<PyTuple>() {
        return take::values(parameters, values);
    }
    let Ok(mapping) = parameters.cast::<PyMapping>() else {
        return take::values(parameters, values);
    };
    for name in &placeholders.names {
        let Some(name) = name else {
            let message =
                "a mapping gives values to parameters with names; write :name, or pass a sequence";
            return Err(raised(py, unfit(message)));
        };
        let object = mapping.get_item(name).map_err(|_| {
            raised(
                py,
                unfit(format!("there is no value for parameter :{name}")),
            )
        })?;
        values.push(take::value(&object)?);
    }
    Ok(())
}

/// Columns as PEP 249 describes them.
fn described<'py>(py: Python<'py>, columns: &[OutputColumn]) -> PyResult<Bound<'py, PyList>> {
    let described = columns.iter().map(|column| {
        let of = column.data_type;
        let size = of.kind.length();
        let own_size = (size > 0).then_some(size as usize);
        let (precision, scale) = of.precision().unzip();
        let name = column.name.as_str();
        let size = of.length().or(own_size);
        (
            name,
            of.kind.oid(),
            None::<()>,
            size,
            precision,
            scale,
            None::<()>,
        )
    });
    PyList::new(py, described.collect::<Vec<_>>())
}
