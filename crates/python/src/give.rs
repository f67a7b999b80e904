//! Values of SQL as objects of Python.
//!
//! Every value has one type there, whatever its column says: numbers with digits after the point
//! are `Decimal`, timestamps with a zone are in UTC. A date or time that Python's types cannot hold
//! is an error that says how to read it.

use crate::error::raised;
use crate::take::class;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBytes, PyDate, PyDateTime, PyDelta, PyList, PyString, PyTime, PyTuple, PyTzInfo,
};
use sql::types::array::Array;
use sql::types::datetime::calendar::{date_of, fields_of, fields_of_time};
use sql::types::interval::MONTH_DAYS;
use sql::types::{Datum, Interval, json};
use sql::{SqlError, SqlState};

static DECIMAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static UUID: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A row as a tuple.
pub(crate) fn row<'py>(py: Python<'py>, row: &[Datum]) -> PyResult<Bound<'py, PyTuple>> {
    if let [datum] = row {
        return PyTuple::new(py, [object(py, datum)?]);
    }
    let objects = row.iter().map(|datum| object(py, datum));
    PyTuple::new(py, objects.collect::<PyResult<Vec<_>>>()?)
}

/// A value as an object.
pub(crate) fn object<'py>(py: Python<'py>, datum: &Datum) -> PyResult<Bound<'py, PyAny>> {
    Ok(match datum {
        Datum::Null => py.None().into_bound(py),
        Datum::Bool(value) => value.into_bound_py_any(py)?,
        Datum::Int2(value) => value.into_bound_py_any(py)?,
        Datum::Int4(value) => value.into_bound_py_any(py)?,
        Datum::Int8(value) => value.into_bound_py_any(py)?,
        Datum::Oid(value) => value.into_bound_py_any(py)?,
        Datum::Tid(value) => value.into_bound_py_any(py)?,
        Datum::Float4(value) => value.into_bound_py_any(py)?,
        Datum::Float8(value) => value.into_bound_py_any(py)?,
        Datum::Numeric(number) => {
            let decimal = class(py, &DECIMAL, "decimal", "Decimal")?;
            decimal.call1((number.to_string(),))?
        }
        Datum::Text(text) | Datum::Bpchar(text) => PyString::new(py, text).into_any(),
        Datum::Enum(label) => PyString::new(py, &label.label).into_any(),
        Datum::Bytea(bytes) => PyBytes::new(py, bytes).into_any(),
        Datum::Uuid(bytes) => {
            let bytes = PyBytes::new(py, bytes);
            class(py, &UUID, "uuid", "UUID")?.call1((py.None(), bytes))?
        }
        Datum::Json(text) => class(py, &LOADS, "json", "loads")?.call1((&**text,))?,
        Datum::Jsonb(document) => document_object(py, document)?,
        Datum::Array(array) => array_object(py, array)?,
        Datum::Record(record) => {
            let fields = record.fields.iter().map(|field| object(py, field));
            PyTuple::new(py, fields.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        _ => moment(py, datum)?,
    })
}

fn document_object<'py>(py: Python<'py>, document: &json::Json) -> PyResult<Bound<'py, PyAny>> {
    let text = document.to_string();
    class(py, &LOADS, "json", "loads")?.call1((text,))
}

/// Dates, times and spans.
fn moment<'py>(py: Python<'py>, datum: &Datum) -> PyResult<Bound<'py, PyAny>> {
    Ok(match datum {
        Datum::Date(days) => {
            let (year, month, day) = date_of(i64::from(*days));
            let year = python_year(py, year)?;
            PyDate::new(py, year, month as u8, day as u8)?.into_any()
        }
        Datum::Time(micros) => time(py, *micros, None)?,
        Datum::Timetz(of_zone) => {
            let offset = PyDelta::new(py, 0, -of_zone.zone, 0, true)?;
            let zone = PyTzInfo::fixed_offset(py, offset)?;
            time(py, of_zone.micros, Some(&zone))?
        }
        Datum::Timestamp(micros) => timestamp(py, *micros, None)?,
        Datum::Timestamptz(micros) => {
            let utc = PyTzInfo::utc(py)?.to_owned();
            timestamp(py, *micros, Some(&utc))?
        }
        Datum::Interval(Interval {
            months,
            days,
            micros,
        }) => {
            let days = i64::from(*months) * MONTH_DAYS + i64::from(*days);
            let (seconds, rest) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
            let days = days + seconds.div_euclid(86_400);
            let days = i32::try_from(days).map_err(|_| outside(py))?;
            let seconds = seconds.rem_euclid(86_400) as i32;
            let span = PyDelta::new(py, days, seconds, rest as i32, true);
            span.map_err(|_| outside(py))?.into_any()
        }
        _ => py.None().into_bound(py),
    })
}

fn time<'py>(
    py: Python<'py>,
    micros: i64,
    zone: Option<&Bound<'py, PyTzInfo>>,
) -> PyResult<Bound<'py, PyAny>> {
    let of = fields_of_time(micros);
    // 24:00:00 is a time of SQL, and none of Python.
    let hour = u8::try_from(of.hour)
        .ok()
        .filter(|hour| *hour < 24)
        .ok_or_else(|| outside(py))?;
    let (second, micro) = (of.second as u8, of.micros as u32);
    Ok(PyTime::new(py, hour, of.minute as u8, second, micro, zone)?.into_any())
}

fn timestamp<'py>(
    py: Python<'py>,
    micros: i64,
    zone: Option<&Bound<'py, PyTzInfo>>,
) -> PyResult<Bound<'py, PyAny>> {
    let of = fields_of(micros);
    let year = python_year(py, of.year)?;
    let (month, day, hour) = (of.month as u8, of.day as u8, of.hour as u8);
    let (minute, second, micro) = (of.minute as u8, of.second as u8, of.micros as u32);
    Ok(PyDateTime::new(py, year, month, day, hour, minute, second, micro, zone)?.into_any())
}

fn python_year(py: Python<'_>, year: i64) -> PyResult<i32> {
    let year = i32::try_from(year).ok();
    year.filter(|year| (1..=9999).contains(year))
        .ok_or_else(|| outside(py))
}

fn outside(py: Python<'_>) -> PyErr {
    let message = "a date, time or span is outside of the range of Python's types; select it as text (column::text)";
    raised(
        py,
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message),
    )
}

/// An array as lists inside of lists.
fn array_object<'py>(py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyAny>> {
    let elements = array.elements.iter().map(|element| object(py, element));
    let mut level = elements.collect::<PyResult<Vec<_>>>()?;
    for dimension in array.dimensions.iter().skip(1).rev() {
        let lists = level
            .chunks(dimension.length)
            .map(|part| PyList::new(py, part));
        let lists = lists.map(|list| list.map(Bound::into_any));
        level = lists.collect::<PyResult<Vec<_>>>()?;
    }
    Ok(PyList::new(py, level)?.into_any())
}
