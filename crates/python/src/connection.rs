//! A session of a database, and the transaction that it has open.
//!
//! Calls of several threads take turns at the connection's lock, without the interpreter's lock.
//! `interrupt` alone needs neither. A call that comes from inside of another one, by a function of
//! Python that this one calls, is an error, since its turn would never come. Each call says
//! afterwards whether a transaction is open, which is read without the lock. In a child of `fork`
//! every call is refused, and the end of the object leaves what belongs to the parent as it is.

use crate::database::Handle;
use crate::error::{detached, raised, unusable};
use crate::interrupt::InterruptScope;
use crate::load;
use arrow_array::RecordBatchReader;
use client::{Placeholders, ResultId, TypedClient};
use indelible::Interrupt;
use pmem::ProcessStamp;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyMemoryView, PyString};
use sql::types::Context;
use sql::{
    Batch, Completion, CopyShape, Flow, OutputColumn, RowSink, SqlError, SqlState,
    TransactionStatus,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// Texts whose parameters are known, at most.
const TEXTS_MAX: usize = 256;

/// The part of a connection that streams of its results share with it.
pub(crate) struct Shared {
    client: Mutex<Option<Open>>,
    /// The thread that has the client, by [`thread_number`]; 0 if none has.
    owner: AtomicUsize,
    /// Results that were dropped while a thread had the client, which the next call closes.
    dropped: Mutex<Vec<ResultId>>,
    interrupt: Interrupt,
    stamp: ProcessStamp,
    /// Unique in the process.
    number: u64,
    /// Whether a transaction block is open, failed ones included.
    is_open: AtomicBool,
    is_closed: AtomicBool,
}

/// An open session. A stream of a connection that nobody has any more keeps its database open, and
/// known as open to those who connect; so the client ends first.
struct Open {
    client: TypedClient,
    _database: Handle,
}

/// The client for the time of a call.
struct Turn<'s> {
    client: MutexGuard<'s, Option<Open>>,
    owner: &'s AtomicUsize,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // The lock is free only after this.
        self.owner.store(0, Ordering::Relaxed);
    }
}

/// A number of this thread, which no other one that lives has.
fn thread_number() -> usize {
    thread_local! {
        static HERE: u8 = const { 1 };
    }
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

impl Shared {
    /// Fails if this thread has the client already: a function that a call has called calls again.
    fn check_turn(&self) -> Result<(), SqlError> {
        if self.owner.load(Ordering::Relaxed) == thread_number() {
            let message = "a function that a call of the connection has called cannot use the same connection; give it \
                another one";
            return Err(unusable(message));
        }
        Ok(())
    }

    /// The client, when no other thread has it.
    fn turn(&self) -> Result<Turn<'_>, SqlError> {
        self.check_turn()?;
        let client = self.client.lock().map_err(|_| {
            unusable("an earlier call of the connection was stopped; open another one")
        })?;
        self.owner.store(thread_number(), Ordering::Relaxed);
        Ok(Turn {
            client,
            owner: &self.owner,
        })
    }

    /// Calls `work` with the client, when no other thread has it.
    pub(crate) fn with<R>(
        &self,
        work: impl FnOnce(&mut TypedClient) -> Result<R, SqlError>,
    ) -> Result<R, SqlError> {
        if !self.stamp.is_here() {
            return Err(indelible::Error::Forked.into());
        }
        let mut turn = self.turn()?;
        match &mut *turn.client {
            Some(Open { client, .. }) => {
                for result in self.take_dropped() {
                    // An error of the end of its transaction is nobody's.
                    let _ = client.close(result);
                }
                let result = work(client);
                let is_open = client.session().status() != TransactionStatus::Idle;
                self.is_open.store(is_open, Ordering::Relaxed);
                result
            }
            None => Err(unusable("the connection is closed; connect again")),
        }
    }
}

impl Shared {
    /// As [`Shared::with`]; Ctrl-C ends the statement that `work` runs.
    pub(crate) fn with_signals<R>(
        &self,
        work: impl FnOnce(&mut TypedClient) -> Result<R, SqlError>,
    ) -> Result<R, SqlError> {
        let _scope = InterruptScope::new(self.number, &self.interrupt);
        self.with(work)
    }

    /// Forgets a result, or leaves that to the next call if a thread works with the connection: the
    /// one that drops a result may have the interpreter's lock, and must not wait.
    pub(crate) fn close_if_free(&self, result: ResultId) {
        if !self.stamp.is_here() {
            return;
        }
        match self.client.try_lock() {
            Ok(mut client) => {
                if let Some(Open { client, .. }) = &mut *client {
                    // An error of the end of its transaction is nobody's.
                    let _ = client.close(result);
                }
            }
            Err(TryLockError::WouldBlock) => self.dropped().push(result),
            Err(TryLockError::Poisoned(_)) => {}
        }
    }

    fn dropped(&self) -> MutexGuard<'_, Vec<ResultId>> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_dropped(&self) -> Vec<ResultId> {
        std::mem::take(&mut *self.dropped())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.stamp.is_here() {
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
    autocommit: AtomicBool,
    texts: Mutex<Texts>,
}

/// Texts of statements whose parameters are known.
#[derive(Default)]
struct Texts {
    known: HashMap<String, Arc<Placeholders>>,
    /// The object that was looked for last: loops have the same one again and again.
    latest: Option<(Py<PyString>, Arc<Placeholders>)>,
}

impl Texts {
    /// The statement of a text.
    fn statement(&mut self, content: &str) -> Result<Arc<Placeholders>, SqlError> {
        if let Some(known) = self.known.get(content) {
            return Ok(Arc::clone(known));
        }
        let read = Placeholders::read(content)?;
        if !content[read.end..].trim().is_empty() {
            let message =
                "one statement at a time has parameters and results; use executescript for several";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        if self.known.len() >= TEXTS_MAX {
            self.known.clear();
        }
        let read = Arc::new(read);
        self.known.insert(content.to_owned(), Arc::clone(&read));
        Ok(read)
    }
}

impl Connection {
    pub(crate) fn new(mut client: TypedClient, database: Handle) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        crate::interrupt::start();
        Self {
            shared: Arc::new(Shared {
                interrupt: client.session().interrupt(),
                client: Mutex::new(Some(Open {
                    client,
                    _database: database,
                })),
                owner: AtomicUsize::new(0),
                dropped: Mutex::default(),
                stamp: ProcessStamp::new(),
                number: NUMBER.fetch_add(1, Ordering::Relaxed),
                is_open: AtomicBool::new(false),
                is_closed: AtomicBool::new(false),
            }),
            autocommit: AtomicBool::new(false),
            texts: Mutex::default(),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Works with the client, without the interpreter's lock; Ctrl-C ends it.
    pub(crate) fn call<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut TypedClient) -> Result<R, SqlError> + Send,
    ) -> PyResult<R> {
        if !self.shared.stamp.is_here() {
            return Err(raised(py, indelible::Error::Forked.into()));
        }
        let guard = InterruptScope::new(self.shared.number, &self.shared.interrupt);
        let result = detached(py, || self.shared.with(work));
        if guard.is_some() && result.is_err() {
            // The handler of Ctrl-C raises KeyboardInterrupt, which tells more.
            drop(guard);
            py.check_signals()?;
        }
        result
    }

    /// Begins a transaction, if none is open and statements are none by themselves.
    pub(crate) fn begin_if_needed(&self, client: &mut TypedClient) -> Result<(), SqlError> {
        if !self.autocommit() {
            begin(client)?;
        }
        Ok(())
    }

    /// The statement of a text, with its parameters as numbers.
    pub(crate) fn placeholders(&self, text: &Bound<'_, PyString>) -> PyResult<Arc<Placeholders>> {
        let content = text.to_str()?;
        // Code of Python may give up the interpreter's lock, so none runs while the texts are
        // locked: a thread that waits for them has it.
        let (found, _before) = {
            let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((latest, known)) = &texts.latest
                && latest.is(text)
            {
                return Ok(Arc::clone(known));
            }
            let found = texts.statement(content);
            let latest = found.as_ref().ok().cloned();
            let latest = latest.map(|found| (text.clone().unbind(), found));
            (found, std::mem::replace(&mut texts.latest, latest))
        };
        found.map_err(|error| raised(text.py(), error))
    }

    /// Does work of many calls as one transaction: one of its own, which ends with it if statements
    /// are transactions by themselves, or the open one, which fails if a part of the work has run.
    pub(crate) fn together(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut bool) -> PyResult<u64>,
    ) -> PyResult<u64> {
        let has_begun = self.call(py, begin)?;
        let mut has_run = false;
        let count = work(&mut has_run);
        let ends = has_begun && self.autocommit();
        self.call(py, |client| match &count {
            Ok(_) if ends => client.execute("COMMIT", Vec::new()).map(drop),
            Err(_) if ends => client.execute("ROLLBACK", Vec::new()).map(drop),
            Err(_) if has_run => {
                // Nothing is left of a part of the rows.
                client.session().fail();
                Ok(())
            }
            _ => Ok(()),
        })?;
        count
    }
}

/// Begins a transaction, if none is open; whether it did.
pub(crate) fn begin(client: &mut TypedClient) -> Result<bool, SqlError> {
    let is_idle = client.session().status() == TransactionStatus::Idle;
    if is_idle {
        client.execute("BEGIN", Vec::new())?;
    }
    Ok(is_idle)
}

#[pymethods]
impl Connection {
    /// Whether a transaction is open.
    #[getter]
    fn is_open(&self) -> bool {
        self.shared.is_open.load(Ordering::Relaxed)
    }

    /// Whether `close` was called.
    #[getter]
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.is_closed.load(Ordering::Relaxed)
    }

    /// Whether each statement is a transaction.
    #[getter]
    pub(crate) fn autocommit(&self) -> bool {
        self.autocommit.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_autocommit(&self, autocommit: bool) {
        self.autocommit.store(autocommit, Ordering::Relaxed);
    }

    /// Runs a statement without parameters and rows; its command.
    fn run(&self, py: Python<'_>, text: &str) -> PyResult<&'static str> {
        self.call(py, |client| {
            let done = client.execute(text, Vec::new())?;
            Ok(done.completion.command)
        })
    }

    /// Begins a transaction, if none is open.
    fn begin(&self, py: Python<'_>) -> PyResult<bool> {
        self.call(py, begin)
    }

    /// Runs all statements of a text.
    fn execute_script(&self, py: Python<'_>, text: &str) -> PyResult<()> {
        self.call(py, |client| client.run(text, &mut Nowhere))
    }

    /// Inserts the rows of an object with `__arrow_c_stream__` into a table, whose name is quoted,
    /// by the names of its columns; their number.
    fn load(&self, py: Python<'_>, table: &str, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut reader = crate::stream::reader(data)?;
        let text = load::statement(table, &reader.schema()).map_err(|error| raised(py, error))?;
        self.together(py, |has_run| {
            let mut count = 0;
            // The connection is free meanwhile: its own results may be what is read.
            while let Some(batch) = detached(py, || load::next(&mut reader))? {
                *has_run = true;
                count += self.call(py, |client| load::insert(client, &text, &batch))?;
                py.check_signals()?;
            }
            Ok(count)
        })
    }

    /// Runs `COPY ... FROM STDIN`; `read` returns the next bytes, and none at their end.
    fn copy_in(&self, py: Python<'_>, text: &str, read: Py<PyAny>) -> PyResult<Option<u64>> {
        let mut sink = Copy::new(Some(read), None);
        let result = self.call(py, |client| {
            self.begin_if_needed(client)?;
            client.run(text, &mut sink)
        });
        sink.finished(py, result)
    }

    /// Runs `COPY ... TO STDOUT`; `write` takes bytes.
    fn copy_out(&self, py: Python<'_>, text: &str, write: Py<PyAny>) -> PyResult<Option<u64>> {
        let mut sink = Copy::new(None, Some(write));
        let result = self.call(py, |client| {
            self.begin_if_needed(client)?;
            client.run(text, &mut sink)
        });
        sink.finished(py, result)
    }

    /// Ends the running statement, from any thread.
    fn interrupt(&self, py: Python<'_>) -> PyResult<()> {
        if !self.shared.stamp.is_here() {
            return Err(raised(py, indelible::Error::Forked.into()));
        }
        self.shared.interrupt.raise();
        Ok(())
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
                let notices = client.take_notices().into_iter();
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
                        ("changes", report.changes),
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
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let shared = &self.shared;
        if shared.stamp.is_here() {
            shared.check_turn().map_err(|error| raised(py, error))?;
        }
        shared.is_closed.store(true, Ordering::Relaxed);
        shared.is_open.store(false, Ordering::Relaxed);
        if !shared.stamp.is_here() {
            return Ok(());
        }
        detached(py, || {
            let client = shared.client.lock();
            drop(client.unwrap_or_else(PoisonError::into_inner).take());
            Ok(())
        })
    }
}

/// A sink for results that nobody wants.
pub(crate) struct Nowhere;

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
    /// Whether a COPY in the right direction has begun.
    has_begun: bool,
    /// The exception of a function, which ends the statement.
    failure: Option<PyErr>,
    rows: Option<u64>,
}

impl Copy {
    fn new(read: Option<Py<PyAny>>, write: Option<Py<PyAny>>) -> Self {
        Self {
            read,
            write,
            has_begun: false,
            failure: None,
            rows: None,
        }
    }

    fn finished(self, py: Python<'_>, result: PyResult<()>) -> PyResult<Option<u64>> {
        match self.failure {
            Some(failure) => Err(failure),
            None if result.is_ok() && !self.has_begun => Err(raised(py, self.misdirected())),
            None => result.map(|()| self.rows),
        }
    }

    fn misdirected(&self) -> SqlError {
        let message = if self.read.is_some() {
            "the statement takes no data; bytes are for COPY ... FROM STDIN, a function is for TO STDOUT"
        } else {
            "the statement gives no data; a function is for COPY ... TO STDOUT, bytes are for FROM STDIN"
        };
        SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
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

    fn copy_begins(&mut self, copy: &CopyShape) -> Result<(), SqlError> {
        self.has_begun = copy.is_from_client == self.read.is_some();
        if self.has_begun {
            Ok(())
        } else {
            Err(self.misdirected())
        }
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
            let before = data.len();
            if object.is_instance_of::<PyByteArray>() || object.is_instance_of::<PyMemoryView>() {
                let bytes = py.get_type::<PyBytes>().call1((object,))?;
                data.extend_from_slice(bytes.cast::<PyBytes>()?.as_bytes());
            } else {
                data.extend_from_slice(object.extract()?);
            }
            Ok(data.len() > before)
        });
        self.passed(read)
    }
}
