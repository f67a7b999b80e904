//! An open database, and the calls that need none.
//!
//! A process opens a directory once: connections to a path that is open already share the database
//! of the first one. It closes with the last of them.

use crate::connection::Connection;
use crate::error::{detached, raised, unusable};
use client::TypedClient;
use indelible::{
    Choice, CopyProgress, CopyReport, CopyStage, Database as Opened, Durability, Isolation, Mode,
    Options,
};
use pmem::ProcessStamp;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use sql::{Sql, SqlError, SqlState};
use std::collections::HashMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Databases that this process has open, by directory.
static OPEN: Mutex<Option<Registry>> = Mutex::new(None);

struct Registry {
    stamp: ProcessStamp,
    databases: HashMap<PathBuf, (bool, Weak<Shared>)>,
}

pub(crate) struct Shared {
    sql: Arc<Sql>,
    stamp: ProcessStamp,
}

impl Shared {
    fn sql(&self) -> Result<&Arc<Sql>, SqlError> {
        if self.stamp.is_here() {
            Ok(&self.sql)
        } else {
            Err(failed(indelible::Error::Forked))
        }
    }

    fn opened(&self) -> Result<&Opened, SqlError> {
        Ok(self.sql()?.database())
    }
}

/// A use of an open database. The last one closes it under the lock of all that are open: a thread
/// that opens the directory again finds it open, or waits until it is closed.
pub(crate) struct Handle(Option<Arc<Shared>>);

impl Deref for Handle {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.0.as_ref().expect("only its drop takes it out")
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let shared = self.0.take();
        if shared.as_ref().is_some_and(|shared| shared.stamp.is_here()) {
            let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
            drop(shared);
            drop(open);
        } else {
            // In a forked child it is the parent's.
            std::mem::forget(shared);
        }
    }
}

/// An open database.
#[pyclass(module = "indelible._core", frozen)]
pub(crate) struct Database {
    /// None once it is closed.
    shared: Mutex<Option<Handle>>,
}

fn failed(error: indelible::Error) -> SqlError {
    error.into()
}

impl Database {
    fn of(shared: Handle) -> Self {
        Self {
            shared: Mutex::new(Some(shared)),
        }
    }

    fn shared(&self) -> Result<Handle, SqlError> {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = shared.as_ref().map(|shared| Handle(shared.0.clone()));
        shared.ok_or_else(|| unusable("the connection is closed; connect again"))
    }
}

#[pymethods]
impl Database {
    /// Opens or creates the database of a directory.
    #[new]
    #[pyo3(signature = (path, *, method=None, read_only=false, create=true, isolation=None, durability=None, log_directory=None, pool_bytes=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "they are options with names in Python"
    )]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        method: Option<&str>,
        read_only: bool,
        create: bool,
        isolation: Option<&str>,
        durability: Option<&str>,
        log_directory: Option<PathBuf>,
        pool_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let options = || -> Result<Options, SqlError> {
            let mut options = Options::new();
            if let Some(method) = method {
                options = options.method(method.parse::<Choice>().map_err(failed)?);
            }
            if let Some(name) = isolation {
                options = options.isolation(isolation_named(name)?);
            }
            if let Some(name) = durability {
                options = options.durability(durability_named(name)?);
            }
            if let Some(directory) = log_directory {
                options = options.log_directory(directory);
            }
            if let Some(bytes) = pool_bytes {
                options = options.pool_bytes(bytes);
            }
            Ok(if read_only {
                options.mode(Mode::ReadOnly)
            } else {
                options
            })
        };
        let options = options().map_err(|error| raised(py, error))?;
        let is_existing = read_only || !create;
        let shared = detached(py, || open(&path, &options, read_only, is_existing))?;
        Ok(Self::of(shared))
    }

    /// Opens a session.
    fn connect(&self, py: Python<'_>) -> PyResult<Connection> {
        let opened = detached(py, || {
            let handle = self.shared()?;
            Ok((TypedClient::connect(handle.sql()?)?, handle))
        });
        let (client, handle) = opened?;
        Ok(Connection::new(client, handle))
    }

    /// Another handle of the same database, with an end of its own.
    fn share(&self, py: Python<'_>) -> PyResult<Self> {
        let shared = self.shared().map_err(|error| raised(py, error))?;
        Ok(Self::of(shared))
    }

    /// Ends the handle; the last one closes the database. A second time does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = shared.take();
        drop(shared);
        detached(py, || {
            drop(ended);
            Ok(())
        })
    }

    /// The name of the storage method.
    fn method(&self, py: Python<'_>) -> PyResult<&'static str> {
        detached(py, || Ok(self.shared()?.opened()?.method().name()))
    }

    /// The failures that a commit survives.
    fn survives(&self, py: Python<'_>) -> PyResult<&'static str> {
        detached(py, || Ok(self.shared()?.opened()?.survives()))
    }

    /// Checks everything: a list of damage, and counts by name.
    fn verify<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, u64)> {
        let report = detached(py, || self.shared()?.opened()?.verify().map_err(failed))?;
        let damage = report.damage.iter().map(ToString::to_string);
        Ok((PyList::new(py, damage.collect::<Vec<_>>())?, report.rows))
    }

    /// Makes recovery short from here.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.shared()?.opened()?.checkpoint().map_err(failed))
    }

    /// Writes a backup; `watch` is told the stage and the rows so far.
    #[pyo3(signature = (file, watch=None))]
    fn backup<'py>(
        &self,
        py: Python<'py>,
        file: PathBuf,
        watch: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        watched(py, watch, |watch| {
            self.shared()?
                .opened()?
                .backup_with(&file, indelible::Existing::Refuse, &mut |progress| {
                    watch(progress);
                })
                .map_err(failed)
        })
    }
}

fn open(
    path: &Path,
    options: &Options,
    is_read_only: bool,
    is_existing: bool,
) -> Result<Handle, SqlError> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let registry = match &mut *open {
        Some(registry) if registry.stamp.is_here() => registry,
        // Databases of the parent are not this process's.
        other => other.insert(Registry {
            stamp: ProcessStamp::new(),
            databases: HashMap::new(),
        }),
    };
    let known = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if let Some((read_only, shared)) = registry.databases.get(&known)
        && let Some(shared) = shared.upgrade()
    {
        if *read_only != is_read_only {
            // If other threads have closed it meanwhile it ends here, which needs the lock.
            drop(open);
            drop(Handle(Some(shared)));
            let message = "the database is open in this process with another value of read_only; close those connections first";
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, message));
        }
        return Ok(Handle(Some(shared)));
    }
    let database = if is_existing {
        Opened::open_with(path, options)
    } else {
        Opened::open_or_create(path, options)
    };
    let shared = Arc::new(Shared {
        sql: Sql::open(database.map_err(failed)?)?,
        stamp: ProcessStamp::new(),
    });
    let known = path.canonicalize().unwrap_or(known);
    registry
        .databases
        .insert(known, (is_read_only, Arc::downgrade(&shared)));
    Ok(Handle(Some(shared)))
}

fn isolation_named(name: &str) -> Result<Isolation, SqlError> {
    match name {
        "read committed" => Ok(Isolation::ReadCommitted),
        "repeatable read" => Ok(Isolation::RepeatableRead),
        "serializable" => Ok(Isolation::Serializable),
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!(
                "isolation is \"read committed\", \"repeatable read\" or \"serializable\", not \"{name}\""
            ),
        )),
    }
}

fn durability_named(name: &str) -> Result<Durability, SqlError> {
    match name {
        "immediate" => Ok(Durability::Immediate),
        "none" => Ok(Durability::None),
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("durability is \"immediate\" or \"none\", not \"{name}\""),
        )),
    }
}

/// Time between two looks for Ctrl-C.
const LOOK_TIME: Duration = Duration::from_millis(50);

/// Runs a copy whose progress a function of Python is told. An exception there, or by Ctrl-C, ends
/// the copy, of which nothing is left.
fn watched(
    py: Python<'_>,
    watch: Option<Py<PyAny>>,
    work: impl FnOnce(&mut (dyn FnMut(&CopyProgress<'_>) + Send)) -> Result<CopyReport, SqlError> + Send,
) -> PyResult<Bound<'_, PyDict>> {
    let mut failure = None;
    let report = detached(py, || {
        let mut looked = Instant::now();
        let mut tell = |progress: &CopyProgress<'_>| {
            if watch.is_none() && looked.elapsed() < LOOK_TIME {
                return;
            }
            looked = Instant::now();
            let stage = match progress.stage {
                CopyStage::Pages => "pages",
                CopyStage::Rows => "rows",
                CopyStage::Indexes => "indexes",
                CopyStage::Check => "check",
            };
            let told = Python::attach(|py| {
                py.check_signals()?;
                let arguments = (stage, progress.table, progress.rows);
                let called = watch.as_ref().map(|watch| watch.call1(py, arguments));
                called.transpose().map(drop)
            });
            if let Err(error) = told {
                progress.stop();
                failure.get_or_insert(error);
            }
        };
        work(&mut tell)
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    let report = report?;
    let dict = PyDict::new(py);
    dict.set_item("method", report.method.name())?;
    dict.set_item("tables", report.tables)?;
    dict.set_item("indexes", report.indexes)?;
    dict.set_item("rows", report.rows)?;
    dict.set_item("content", format!("{:016x}", report.content))?;
    dict.set_item("file_bytes", report.file_bytes)?;
    Ok(dict)
}

/// Makes a new database of a backup.
#[pyfunction]
#[pyo3(signature = (file, path, *, method=None, watch=None))]
pub(crate) fn restore<'py>(
    py: Python<'py>,
    file: PathBuf,
    path: PathBuf,
    method: Option<&str>,
    watch: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut options = Options::new();
    if let Some(method) = method {
        let choice = method.parse::<Choice>();
        options = options.method(choice.map_err(|error| raised(py, failed(error)))?);
    }
    watched(py, watch, |watch| {
        Opened::restore_with(&file, &path, &options, &mut |progress| watch(progress))
            .map_err(failed)
    })
}

/// Reads a whole backup and compares its checksums.
#[pyfunction]
#[pyo3(signature = (file, watch=None))]
pub(crate) fn check_backup(
    py: Python<'_>,
    file: PathBuf,
    watch: Option<Py<PyAny>>,
) -> PyResult<Bound<'_, PyDict>> {
    watched(py, watch, |watch| {
        Opened::check_backup(&file, &mut |progress| watch(progress)).map_err(failed)
    })
}

/// The promises of a directory's medium.
#[pyfunction]
pub(crate) fn device(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let report = detached(py, || {
        let options = pmem::NativeOptions::default();
        pmem::DeviceReport::measure(&path, options).map_err(|error| failed(error.into()))
    })?;
    let dict = PyDict::new(py);
    dict.set_item("medium", report.medium.name())?;
    dict.set_item("filesystem", &report.filesystem)?;
    dict.set_item("domain", report.domain.name())?;
    dict.set_item("survives", report.survives)?;
    dict.set_item("read_miss_ns", report.read_miss_ns)?;
    Ok(dict)
}

/// The names of the storage methods.
#[pyfunction]
pub(crate) fn methods() -> Vec<&'static str> {
    indelible::Method::ALL
        .into_iter()
        .map(indelible::Method::name)
        .collect()
}
