//! Objects of Python as values of SQL.
//!
//! The type of the object decides; what a statement wants of it is decided later, by
//! [`client::Value`]. Subclasses count as their base. Numbers of `NumPy` count as what their `item`
//! returns, and its arrays, of any length, as what their `tolist` returns. Missing values of
//! pandas, `NaT` and `NA`, are NULL.

use crate::error::{raised, unfit};
use client::Value;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyInt, PyList,
    PyMemoryView, PyString, PyTime, PyTuple,
};
use sql::types::datetime::calendar::{DAY, HOUR, MINUTE, SECOND, days_of};
use sql::types::{Datum, Interval, Numeric, Timetz};
use sql::{SqlError, SqlState};

/// Deepest nesting of lists.
const DEPTH_MAX: usize = 6;

/// Adds the values of a sequence.
pub(crate) fn values(parameters: &Bound<'_, PyAny>, values: &mut Vec<Value>) -> PyResult<()> {
    if let Ok(tuple) = parameters.cast::<PyTuple>() {
        for object in tuple.iter_borrowed() {
            values.push(value(&object)?);
        }
        return Ok(());
    }
    if parameters.is_instance_of::<PyString>() || parameters.is_instance_of::<PyBytes>() {
        let message =
            "parameters are a sequence or a mapping of values, not one text; write (value,)";
        return Err(raised(parameters.py(), unfit(message)));
    }
    for object in parameters.try_iter()? {
        values.push(value(&object?)?);
    }
    Ok(())
}

/// The value of an object.
pub(crate) fn value(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    nested(object, 0)
}

fn nested(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        if depth == DEPTH_MAX {
            let message = "lists are nested deeper than six levels; pass a text of JSON";
            return Err(raised(object.py(), unfit(message)));
        }
        let items = object.try_iter()?;
        let items = items.map(|item| nested(&item?, depth + 1));
        return Ok(Value::List(items.collect::<PyResult<_>>()?));
    }
    match datum(object)? {
        Some(datum) => Ok(Value::One(datum)),
        None => of_library(object, depth),
    }
}

/// The value of an object of one of the types that Python itself has.
fn datum(object: &Bound<'_, PyAny>) -> PyResult<Option<Datum>> {
    if object.is_none() {
        return Ok(Some(Datum::Null));
    }
    // The types that most values have, before the search through subclasses.
    if object.is_exact_instance_of::<PyInt>()
        && let Ok(number) = object.extract::<i64>()
    {
        return Ok(Some(Datum::Int8(number)));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Some(Datum::text(text.to_str()?)));
    }
    if object.is_instance_of::<PyBool>() {
        return Ok(Some(Datum::Bool(object.extract()?)));
    }
    if object.is_instance_of::<PyInt>() {
        return match object.extract::<i64>() {
            Ok(number) => Ok(Some(Datum::Int8(number))),
            Err(_) => number(object).map(Some),
        };
    }
    if object.is_instance_of::<PyFloat>() {
        return Ok(Some(Datum::Float8(object.extract()?)));
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Some(Datum::bytes(bytes.as_bytes())));
    }
    if object.is_instance_of::<PyByteArray>() || object.is_instance_of::<PyMemoryView>() {
        let bytes = object.py().get_type::<PyBytes>().call1((object,))?;
        return Ok(Some(Datum::bytes(bytes.cast::<PyBytes>()?.as_bytes())));
    }
    moment(object)
}

/// Dates and times.
fn moment(object: &Bound<'_, PyAny>) -> PyResult<Option<Datum>> {
    Ok(if object.is_instance_of::<PyDateTime>() {
        // The missing one of pandas is a datetime by its class, and has no fields.
        if object.ne(object)? {
            return Ok(Some(Datum::Null));
        }
        let micros = date_days(object)? * DAY + time_micros(object)?;
        Some(match offset_micros(object)? {
            Some(offset) => Datum::Timestamptz(micros - offset),
            None => Datum::Timestamp(micros),
        })
    } else if object.is_instance_of::<PyDate>() {
        i32::try_from(date_days(object)?).ok().map(Datum::Date)
    } else if object.is_instance_of::<PyTime>() {
        let micros = time_micros(object)?;
        Some(match offset_micros(object)? {
            Some(offset) => Datum::Timetz(Timetz {
                micros,
                zone: i32::try_from(-offset / SECOND).unwrap_or(0),
            }),
            None => Datum::Time(micros),
        })
    } else if let Ok(delta) = object.cast::<PyDelta>() {
        let micros = field(delta, "seconds")? * SECOND + field(delta, "microseconds")?;
        let days = delta.getattr("days")?.extract()?;
        Some(Datum::Interval(Interval::new(0, days, micros)))
    } else {
        None
    })
}

/// A field of a date, a time or a span. Subclasses may answer anything.
fn field(object: &Bound<'_, PyAny>, name: &str) -> PyResult<i64> {
    object.getattr(name)?.extract()
}

fn date_days(date: &Bound<'_, PyAny>) -> PyResult<i64> {
    let (year, month, day) = (
        field(date, "year")?,
        field(date, "month")?,
        field(date, "day")?,
    );
    Ok(days_of(year, month, day))
}

fn time_micros(time: &Bound<'_, PyAny>) -> PyResult<i64> {
    Ok(field(time, "hour")? * HOUR
        + field(time, "minute")? * MINUTE
        + field(time, "second")? * SECOND
        + field(time, "microsecond")?)
}

/// Microseconds east of Greenwich.
fn offset_micros(object: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if object.getattr("tzinfo")?.is_none() {
        return Ok(None);
    }
    let offset = object.call_method0("utcoffset")?;
    let Ok(offset) = offset.cast::<PyDelta>() else {
        return Ok(None);
    };
    let seconds = field(offset, "days")? * 86_400 + field(offset, "seconds")?;
    Ok(Some(seconds * SECOND + field(offset, "microseconds")?))
}

/// Values whose types are in modules of the standard library, documents, and those of `NumPy`.
fn of_library(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    let py = object.py();
    if object.is_instance(&class(py, &DECIMAL, "decimal", "Decimal")?)? {
        return number(object).map(Value::One);
    }
    if object.is_instance(&class(py, &UUID, "uuid", "UUID")?)? {
        let bytes = object.getattr("bytes")?.extract()?;
        return Ok(Value::One(Datum::Uuid(bytes)));
    }
    if object.is_instance_of::<PyDict>() {
        let options = PyDict::new(py);
        options.set_item("allow_nan", false)?;
        let text = class(py, &DUMPS, "json", "dumps")?.call((object,), Some(&options));
        // Numbers that JSON has not; an object that it has not is a TypeError.
        let text = text.map_err(|error| {
            if !error.is_instance_of::<PyValueError>(py) {
                return error;
            }
            let message = format!("a dict is no document of JSON: {}", error.value(py));
            let state = SqlState::INVALID_TEXT_REPRESENTATION;
            raised(py, SqlError::new(state, message))
        })?;
        let document = Datum::Json(text.cast::<PyString>()?.to_str()?.into());
        return Ok(Value::One(document));
    }
    if object.is_instance(&class(py, &ENUM, "enum", "Enum")?)? {
        return nested(&object.getattr("value")?, depth);
    }
    if let Some(plain) = of_array(object)?
        && !plain.get_type().is(object.get_type())
    {
        return nested(&plain, depth);
    }
    let name = object.get_type().qualname()?;
    if name == "NAType" {
        return Ok(Value::One(Datum::Null));
    }
    let message = format!("a value of type {name} is none of SQL; convert it, to a text perhaps");
    Err(raised(py, unfit(message)))
}

/// The list of an array, or the plain object of one of its elements; none of anything else.
fn of_array<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let dimensions = object.getattr("ndim").and_then(|of| of.extract::<usize>());
    let Ok(dimensions) = dimensions else {
        return Ok(None);
    };
    // Moments of a finer unit than Python's would be whole numbers.
    let kind = object.getattr("dtype").and_then(|of| of.getattr("name"));
    let kind = kind
        .and_then(|of| of.extract::<String>())
        .unwrap_or_default();
    let is_numpy = object.get_type().module()? == "numpy";
    let is_fine = ["ns]", "ps]", "fs]", "as]"]
        .iter()
        .any(|unit| kind.ends_with(unit));
    let array = match kind.split_once('[') {
        Some((name @ ("datetime64" | "timedelta64"), _)) if is_numpy && is_fine => {
            object.call_method1("astype", (format!("{name}[us]"),))?
        }
        _ => object.clone(),
    };
    let to_plain = if dimensions == 0 { "item" } else { "tolist" };
    array.call_method0(to_plain).map(Some)
}

static DECIMAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static UUID: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static DUMPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static ENUM: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A name of a module, looked up once.
pub(crate) fn class<'py>(
    py: Python<'py>,
    known: &'static PyOnceLock<Py<PyAny>>,
    module: &str,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let found = known.get_or_try_init(py, || -> PyResult<Py<PyAny>> {
        Ok(py.import(module)?.getattr(name)?.unbind())
    })?;
    Ok(found.bind(py).clone())
}

fn number(object: &Bound<'_, PyAny>) -> PyResult<Datum> {
    let text = object.str()?;
    let parsed = Numeric::parse(text.to_str()?);
    Ok(Datum::Numeric(
        parsed.map_err(|error| raised(object.py(), error))?,
    ))
}
