//! A session of a database, with its statements and results.
//!
//! Calls of several threads take turns at the connection's lock, without the interpreter's lock.
//! `interrupt` alone needs neither. In a child of `fork` every call is refused, and the end of the
//! object leaves what belongs to the parent as it is.

use crate::error::{detached, raised, unfit, unusable};
use crate::interrupt::Guard;
use crate::stream::Stream;
use crate::{give, load, take};
use client::{Placeholders, ResultId, TypedClient, Value};
use indelible::Interrupt;
use pmem::ProcessMark;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping};
use sql::types::Context;
use sql::{Batch, Completion, Flow, OutputColumn, RowSink, SqlError, SqlState, TransactionStatus};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Texts whose parameters are known, at most.
const TEXTS_MAX: usize = 256;
/// Rows of `executemany` that run without the interpreter's lock at a time.
pub(crate) const CHUNK_ROWS: usize = 1024;

/// The part of a connection that streams of its results share with it.
pub(crate) struct Shared {
    client: Mutex<Option<TypedClient>>,
    interrupt: Interrupt,
    mark: ProcessMark,
}

impl Shared {
    /// Calls `work` with the client, when no other thread has it.
    pub(crate) fn with<R>(
        &self,
        work: impl FnOnce(&mut TypedClient) -> Result<R, SqlError>,
    ) -> Result<R, SqlError> {
        if !self.mark.is_here() {
            return Err(indelible::Error::Forked.into());
        }
        let mut client = self.client.lock().map_err(|_| {
            unusable("an earlier call of the connection was stopped; open another one")
        })?;
        match &mut *client {
            Some(client) => work(client),
            None => Err(unusable("the connection is closed; connect again")),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.mark.is_here() {
            let client = self
                .client
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(client.take());
        }
    }
}

/// One session.
#[pyclass(module = "indelible._core", frozen)]
pub(crate) struct Connection {
    shared: Arc<Shared>,
    texts: Mutex<HashMap<String, Arc<Placeholders>>>,
}

/// A statement that has begun, for Python: number of the result, columns, command, count.
type Begun<'py> = (
    Option<u64>,
    Option<Bound<'py, PyList>>,
    &'static str,
    Option<u64>,
);

impl Connection {
    pub(crate) fn new(mut client: TypedClient) -> Self {
        Self {
            shared: Arc::new(Shared {
                interrupt: client.session().interrupt(),
                client: Mutex::new(Some(client)),
                mark: ProcessMark::new(),
            }),
            texts: Mutex::default(),
        }
    }

    /// Works with the client; Ctrl-C ends it.
    fn call<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut TypedClient) -> Result<R, SqlError> + Send,
    ) -> PyResult<R> {
        let guard = Guard::new(&self.shared.interrupt);
        let result = detached(py, || self.shared.with(work));
        if guard.is_some() && result.is_err() {
            // The handler of Ctrl-C raises KeyboardInterrupt, which tells more.
            drop(guard);
            py.check_signals()?;
        }
        result
    }

    /// The statement of a text, with its parameters as numbers.
    fn placeholders(&self, py: Python<'_>, text: &str) -> PyResult<Arc<Placeholders>> {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = texts.get(text) {
            return Ok(Arc::clone(known));
        }
        let read = Placeholders::read(text).map_err(|error| raised(py, error))?;
        if !text[read.end..].trim().is_empty() {
            let message =
                "one statement at a time has parameters and results; use executescript for several";
            return Err(raised(py, SqlError::new(SqlState::SYNTAX_ERROR, message)));
        }
        if texts.len() >= TEXTS_MAX {
            texts.clear();
        }
        let read = Arc::new(read);
        texts.insert(text.to_owned(), Arc::clone(&read));
        Ok(read)
    }

    fn values(placeholders: &Placeholders, parameters: &Bound<'_, PyAny>) -> PyResult<Vec<Value>> {
        let py = parameters.py();
        let Ok(mapping) = parameters.cast::<PyMapping>() else {
            return take::values(parameters);
        };
        let named = placeholders.names.iter().map(|name| {
            let Some(name) = name else {
                let message = "a mapping gives values to parameters with names; write :name, or pass a sequence";
                return Err(raised(py, unfit(message)));
            };
            match mapping.get_item(name) {
                Ok(object) => take::value(&object),
                Err(_) => Err(raised(py, unfit(format!("there is no value for parameter :{name}")))),
            }
        });
        named.collect()
    }
}

#[pymethods]
impl Connection {
    /// Runs one statement as far as its first rows.
    #[pyo3(signature = (text, parameters=None))]
    fn execute<'py>(
        &self,
        py: Python<'py>,
        text: &str,
        parameters: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Begun<'py>> {
        let done = match parameters {
            Some(parameters) => {
                let placeholders = self.placeholders(py, text)?;
                let values = Self::values(&placeholders, parameters)?;
                self.call(py, |client| client.execute(&placeholders.text, &values))
            }
            None => self.call(py, |client| client.execute(text, &[])),
        }?;
        let columns = done
            .result
            .map(|_| described(py, &done.columns))
            .transpose()?;
        let is_open = done.completion.is_suspended;
        let count = done.completion.rows.filter(|_| !is_open);
        Ok((
            done.result.map(ResultId::number),
            columns,
            done.completion.command,
            count,
        ))
    }

    /// Runs one statement for each row of parameters; the sum of its counts.
    fn execute_many(&self, py: Python<'_>, text: &str, rows: &Bound<'_, PyAny>) -> PyResult<u64> {
        let placeholders = self.placeholders(py, text)?;
        let (mut count, mut chunk) = (0, Vec::with_capacity(CHUNK_ROWS));
        for row in rows.try_iter()? {
            chunk.push(Self::values(&placeholders, &row?)?);
            if chunk.len() == CHUNK_ROWS {
                count += self.call(py, |client| client.execute_all(&placeholders.text, &chunk))?;
                chunk.clear();
            }
        }
        Ok(count + self.call(py, |client| client.execute_all(&placeholders.text, &chunk))?)
    }

    /// Runs all statements of a text.
    fn execute_script(&self, py: Python<'_>, text: &str) -> PyResult<()> {
        self.call(py, |client| client.run(text, &mut Nowhere))
    }

    /// The next rows of a result as a list of tuples, and whether there may be more.
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        result: u64,
    ) -> PyResult<(Option<Bound<'py, PyList>>, bool)> {
        let id = ResultId::of(result);
        let next = self.call(py, |client| {
            Ok((client.next_batch(id)?, client.is_open(id)))
        });
        let (batch, has_more) = next?;
        let rows = batch.map(|batch| give::rows(py, &batch)).transpose()?;
        Ok((rows, has_more))
    }

    /// Forgets a result.
    fn close_result(&self, py: Python<'_>, result: u64) -> PyResult<()> {
        self.call(py, |client| client.close(ResultId::of(result)))
    }

    /// The rest of a result as a stream of Arrow.
    fn stream(&self, py: Python<'_>, result: u64, batch_rows: usize) -> PyResult<Stream> {
        let id = ResultId::of(result);
        let columns = self.call(py, |client| Ok(client.columns(id).to_vec()))?;
        Ok(Stream::of_result(
            Arc::clone(&self.shared),
            id,
            &columns,
            batch_rows,
        ))
    }

    /// Inserts the rows of an object with `__arrow_c_stream__` by a statement with a parameter for
    /// each column; their number.
    fn load(&self, py: Python<'_>, text: &str, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        let reader = crate::stream::reader(data)?;
        self.call(py, |client| load::insert(client, text, reader))
    }

    /// Runs `COPY ... FROM STDIN`; `read` returns the next bytes, and none at their end.
    fn copy_in(&self, py: Python<'_>, text: &str, read: Py<PyAny>) -> PyResult<Option<u64>> {
        let mut sink = Copy::new(Some(read), None);
        let result = self.call(py, |client| client.run(text, &mut sink));
        sink.finished(result)
    }

    /// Runs `COPY ... TO STDOUT`; `write` takes bytes.
    fn copy_out(&self, py: Python<'_>, text: &str, write: Py<PyAny>) -> PyResult<Option<u64>> {
        let mut sink = Copy::new(None, Some(write));
        let result = self.call(py, |client| client.run(text, &mut sink));
        sink.finished(result)
    }

    /// Ends the running statement, from any thread.
    fn interrupt(&self, py: Python<'_>) -> PyResult<()> {
        if !self.shared.mark.is_here() {
            return Err(raised(py, indelible::Error::Forked.into()));
        }
        self.shared.interrupt.raise();
        Ok(())
    }

    /// `I` outside of a transaction, `T` inside, `E` in one that has failed.
    fn status(&self, py: Python<'_>) -> PyResult<&'static str> {
        detached(py, || {
            self.shared.with(|client| {
                Ok(match client.session().status() {
                    TransactionStatus::Idle => "I",
                    TransactionStatus::Open => "T",
                    TransactionStatus::Failed => "E",
                })
            })
        })
    }

    /// The value of a setting.
    fn setting(&self, py: Python<'_>, name: &str) -> PyResult<Option<String>> {
        detached(py, || {
            self.shared
                .with(|client| Ok(client.session().setting(name).map(str::to_owned)))
        })
    }

    /// Severity and message of the notices so far.
    fn notices(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        detached(py, || {
            self.shared.with(|client| {
                let notices = client.session().take_notices().into_iter();
                let texts = notices.map(|notice| {
                    let severity = format!("{:?}", notice.severity).to_uppercase();
                    (severity, notice.content.message)
                });
                Ok(texts.collect())
            })
        })
    }

    /// Cost of the last commit, by name.
    fn last_commit<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let report = detached(py, || {
            self.shared.with(|client| {
                Ok(client.session().last_commit().map(|report| {
                    [
                        ("changes", report.changes as u64),
                        ("fences", report.fences),
                        ("lines_flushed", report.lines_flushed),
                        ("bytes_stored", report.bytes_stored),
                        ("bytes_written", report.bytes_written),
                    ]
                }))
            })
        })?;
        let dict = |report: [(&str, u64); 5]| {
            let dict = PyDict::new(py);
            for (name, value) in report {
                dict.set_item(name, value)?;
            }
            Ok(dict)
        };
        report.map(dict).transpose()
    }

    /// Ends the session; an open transaction is rolled back. A second time does nothing.
    fn close(&self, py: Python<'_>) {
        if self.shared.mark.is_here() {
            py.detach(|| {
                let client = self.shared.client.lock();
                drop(client.unwrap_or_else(PoisonError::into_inner).take());
            });
        }
    }
}

/// Names, numbers of types, and modifiers of columns.
fn described<'py>(py: Python<'py>, columns: &[OutputColumn]) -> PyResult<Bound<'py, PyList>> {
    let described = columns.iter().map(|column| {
        let of = column.data_type;
        let size = of.kind.length();
        let (precision, scale) = match of.precision() {
            Some((precision, scale)) => (Some(precision), Some(scale)),
            None => (None, None),
        };
        let length = of
            .length()
            .map_or_else(|| (size > 0).then_some(size as usize), Some);
        (
            column.name.as_str(),
            of.kind.oid(),
            length,
            precision,
            scale,
        )
    });
    PyList::new(py, described.collect::<Vec<_>>())
}

/// A sink for results that nobody wants.
struct Nowhere;

impl RowSink for Nowhere {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, _: &Batch, _: &Context<'_>) -> Result<Flow, SqlError> {
        Ok(Flow::More)
    }
}

/// Data of `COPY` between the statement and functions of Python.
struct Copy {
    read: Option<Py<PyAny>>,
    write: Option<Py<PyAny>>,
    /// The exception of a function, which ends the statement.
    failure: Option<PyErr>,
    rows: Option<u64>,
}

impl Copy {
    fn new(read: Option<Py<PyAny>>, write: Option<Py<PyAny>>) -> Self {
        Self {
            read,
            write,
            failure: None,
            rows: None,
        }
    }

    fn finished(self, result: PyResult<()>) -> PyResult<Option<u64>> {
        match self.failure {
            Some(failure) => Err(failure),
            None => result.map(|()| self.rows),
        }
    }

    fn passed<R>(&mut self, result: PyResult<R>) -> Result<R, SqlError> {
        result.map_err(|failure| {
            self.failure = Some(failure);
            SqlError::new(SqlState::QUERY_CANCELED, "a function of the caller failed")
        })
    }
}

impl RowSink for Copy {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, _: &Batch, _: &Context<'_>) -> Result<Flow, SqlError> {
        Ok(Flow::More)
    }

    fn complete(&mut self, completion: &Completion) -> Result<(), SqlError> {
        self.rows = completion.rows;
        Ok(())
    }

    fn copy_out(&mut self, data: &[u8]) -> Result<(), SqlError> {
        let written = Python::attach(|py| match &self.write {
            Some(write) => write.call1(py, (PyBytes::new(py, data),)).map(drop),
            None => Ok(()),
        });
        self.passed(written)
    }

    fn copy_in(&mut self, data: &mut Vec<u8>) -> Result<bool, SqlError> {
        let read = Python::attach(|py| {
            let Some(read) = &self.read else {
                return Ok(false);
            };
            let object = read.bind(py).call0()?;
            let bytes: &[u8] = object.extract()?;
            data.extend_from_slice(bytes);
            Ok(!bytes.is_empty())
        });
        self.passed(read)
    }
}
