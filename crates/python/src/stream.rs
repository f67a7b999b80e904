//! Arrow's stream interface: results for other libraries, and theirs for us.
//!
//! A stream is handed over once, in a capsule with the name that the interface prescribes. The
//! consumer takes the structure out of it; one that nobody took is released with the capsule.

use crate::columns::{Gather, schema};
use crate::connection::Shared;
use crate::error::{caught, raised, unfit};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use client::ResultId;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use sql::{Batch, OutputColumn, RowSink, SqlError};
use std::ffi::CStr;
use std::sync::{Arc, Mutex, PoisonError};

const NAME: &CStr = c"arrow_array_stream";

/// A stream of record batches that can be taken once.
#[pyclass(module = "indelible._core", frozen)]
pub(crate) struct Stream {
    reader: Mutex<Option<Box<dyn RecordBatchReader + Send>>>,
}

impl Stream {
    pub(crate) fn new(reader: Box<dyn RecordBatchReader + Send>) -> Self {
        Self {
            reader: Mutex::new(Some(reader)),
        }
    }

    /// A result: its first rows, and those that follow.
    pub(crate) fn of_result(
        connection: Arc<Shared>,
        columns: &[OutputColumn],
        (first, rest): (Batch, Option<ResultId>),
        batch_rows: usize,
    ) -> Self {
        let schema = schema(columns);
        let gather = Gather::new(&schema, columns, batch_rows.max(1));
        Self::new(Box::new(Batches {
            connection,
            schema,
            gather,
            first: Some(first),
            rest,
        }))
    }
}

#[pymethods]
impl Stream {
    /// The stream in a capsule. A schema that is asked for may be ignored, and is.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let taken = self
            .reader
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let reader = taken.ok_or_else(|| {
            raised(
                py,
                unfit("the rows of this result have been taken already; execute it again"),
            )
        })?;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), NAME)
    }
}

/// Reads a result batch by batch, whichever thread asks.
struct Batches {
    connection: Arc<Shared>,
    schema: SchemaRef,
    gather: Gather,
    first: Option<Batch>,
    rest: Option<ResultId>,
}

impl Batches {
    /// Gathers until there are enough rows for a batch, or no more.
    fn fill(&mut self) -> Result<(), SqlError> {
        let Self { gather, first, .. } = self;
        let first = first.take();
        if first.is_some() || gather.has_later() {
            self.connection.with(|client| {
                let context = client.session().context();
                match first {
                    Some(first) => gather.rows(&first, &context).map(drop),
                    None => gather.add_later(&context),
                }
            })?;
        }
        while let Some(rest) = self.rest
            && !gather.is_full()
        {
            // It has no more if it fails.
            self.rest = None;
            let has_more = self
                .connection
                .with_signals(|client| client.pull(rest, gather))?;
            self.rest = has_more.then_some(rest);
        }
        Ok(())
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        if let Some(rest) = self.rest {
            // A library of C releases the stream, and nothing may unwind into it.
            let _ = caught(|| {
                self.connection.close_if_free(rest);
                Ok(())
            });
        }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // A library of C has called, and nothing may unwind into it.
        let filled = caught(|| {
            self.fill()?;
            let batch = self.gather.finish();
            batch.map_err(|error| SqlError::internal(error.to_string()))
        });
        let ended = filled.inspect_err(|_| {
            self.rest = None;
            self.gather.clear();
        });
        let told = ended.map_err(|error| {
            let text = format!("{}: {}", error.state, error.message);
            ArrowError::ExternalError(text.into())
        });
        told.transpose()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The stream of an object with `__arrow_c_stream__`.
pub(crate) fn reader(data: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let py = data.py();
    if !data.hasattr("__arrow_c_stream__")? {
        let name = data.get_type().qualname()?;
        let message = format!(
            "{name} has no __arrow_c_stream__; pass a table of pyarrow, polars or pandas, or make one of it"
        );
        return Err(raised(py, unfit(message)));
    }
    let capsule = data.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let stream = capsule
        .pointer_checked(Some(NAME))?
        .cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds such a structure, by the interface of Arrow; the reader
    // takes its content and leaves a released structure, so that the capsule's end does nothing.
    let reader = unsafe { RecordBatchStreamReader::from_raw(stream.as_ptr()) };
    reader.map_err(|error| {
        raised(
            py,
            unfit(format!("the stream of Arrow cannot be read: {error}")),
        )
    })
}
