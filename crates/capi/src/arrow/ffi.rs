//! The structures of Arrow's C data and stream interfaces, and the functions in them.
//!
//! Private data is a `Box` that the structure's `release` takes back. A consumer may move a child
//! out: it copies the structure and clears its `release`, so what is left is freed as memory only.

use super::Reader;
use super::column::Column;
use crate::failure::Failure;
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Of `errno.h`.
const EIO: c_int = 5;
/// The flag of a field that may be NULL.
const NULLABLE: i64 = 2;

/// A type with the names of its columns.
#[repr(C)]
pub(super) struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

/// Values of a column, or columns of a batch.
#[repr(C)]
pub(super) struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

/// Batches, one after the other.
#[repr(C)]
pub struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

/// Owner of the memory of a schema.
struct SchemaParts {
    format: CString,
    name: CString,
    children: Vec<*mut ArrowSchema>,
}

/// Owner of the memory of an array.
struct ArrayParts {
    /// The buffers point into it.
    _column: Option<Column>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

/// A reader and its last error.
struct StreamParts {
    reader: Reader,
    error: CString,
}

/// The stream of a reader.
pub(super) fn stream(reader: Reader) -> ArrowArrayStream {
    let parts = Box::new(StreamParts {
        reader,
        error: CString::default(),
    });
    ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(parts).cast(),
    }
}

fn schema(format: &str, name: CString, children: Vec<ArrowSchema>) -> ArrowSchema {
    let boxed = children
        .into_iter()
        .map(|child| Box::into_raw(Box::new(child)));
    let mut parts = Box::new(SchemaParts {
        format: CString::new(format).unwrap_or_default(),
        name,
        children: boxed.collect(),
    });
    ArrowSchema {
        format: parts.format.as_ptr(),
        name: parts.name.as_ptr(),
        metadata: ptr::null(),
        flags: if parts.children.is_empty() {
            NULLABLE
        } else {
            0
        },
        n_children: parts.children.len().cast_signed() as i64,
        children: parts.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_schema),
        private_data: Box::into_raw(parts).cast(),
    }
}

/// The array of a column, or of the columns of a batch.
fn array(
    (length, nulls): (i64, i64),
    column: Option<Column>,
    children: Vec<ArrowArray>,
) -> ArrowArray {
    let no_bitmap = || vec![ptr::null()];
    let boxed = children
        .into_iter()
        .map(|child| Box::into_raw(Box::new(child)));
    let mut parts = Box::new(ArrayParts {
        buffers: column.as_ref().map_or_else(no_bitmap, Column::buffers),
        _column: column,
        children: boxed.collect(),
    });
    ArrowArray {
        length,
        null_count: nulls,
        offset: 0,
        n_buffers: parts.buffers.len().cast_signed() as i64,
        n_children: parts.children.len().cast_signed() as i64,
        buffers: parts.buffers.as_mut_ptr(),
        children: parts.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_array),
        private_data: Box::into_raw(parts).cast(),
    }
}

fn released_array() -> ArrowArray {
    ArrowArray {
        length: 0,
        null_count: 0,
        offset: 0,
        n_buffers: 0,
        n_children: 0,
        buffers: ptr::null_mut(),
        children: ptr::null_mut(),
        dictionary: ptr::null_mut(),
        release: None,
        private_data: ptr::null_mut(),
    }
}

/// The private data of a stream that was not released.
fn parts_of<'s>(stream: *mut ArrowArrayStream) -> Option<&'s mut StreamParts> {
    // SAFETY: the interface promises the address of a stream that is not released, for the time of
    // the call and for one thread.
    let stream = unsafe { stream.as_mut() }?;
    // SAFETY: only `stream` makes structures with these functions, and only `release_stream`, which
    // clears the address, frees what is there.
    unsafe { stream.private_data.cast::<StreamParts>().as_mut() }
}

/// Runs a function of a stream; an error is kept for `get_last_error`.
fn run(
    stream: *mut ArrowArrayStream,
    body: impl FnOnce(&mut Reader) -> Result<(), Failure>,
) -> c_int {
    let Some(parts) = parts_of(stream) else {
        return EIO;
    };
    let reader = &mut parts.reader;
    let text = match catch_unwind(AssertUnwindSafe(|| body(reader))) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => format!("{}: {}", failure.error.state, failure.error.message),
        Err(_) => "XX000: the call stopped at a broken invariant of the library".to_owned(),
    };
    parts.error = CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
    EIO
}

unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, to: *mut ArrowSchema) -> c_int {
    run(stream, |reader| {
        let columns = reader.names.iter();
        let columns = columns.map(|(format, name)| schema(format, name.clone(), Vec::new()));
        let whole = ArrowSchema {
            flags: 0,
            ..schema("+s", CString::default(), columns.collect())
        };
        // SAFETY: the consumer gives the place of a schema that need not be initialised.
        unsafe { to.write(whole) };
        Ok(())
    })
}

unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, to: *mut ArrowArray) -> c_int {
    run(stream, |reader| {
        let next = reader
            .next()?
            .map_or_else(released_array, |(columns, rows)| {
                let columns = columns.into_iter();
                let columns = columns.map(|column| {
                    array((column.length(), column.nulls()), Some(column), Vec::new())
                });
                array((rows.cast_signed() as i64, 0), None, columns.collect())
            });
        // SAFETY: as in `get_schema`.
        unsafe { to.write(next) };
        Ok(())
    })
}

unsafe extern "C" fn get_last_error(stream: *mut ArrowArrayStream) -> *const c_char {
    match parts_of(stream) {
        Some(parts) if !parts.error.is_empty() => parts.error.as_ptr(),
        _ => ptr::null(),
    }
}

unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: as in `parts_of`.
    let Some(stream) = (unsafe { stream.as_mut() }) else {
        return;
    };
    stream.release = None;
    let parts: *mut StreamParts =
        std::mem::replace(&mut stream.private_data, ptr::null_mut()).cast();
    if !parts.is_null() {
        // SAFETY: it comes from `stream`, and is taken once.
        let parts = unsafe { Box::from_raw(parts) };
        // A result that cannot be closed leaves its rows to the end of the connection.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(parts)));
    }
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the interface promises the address of a schema that is not released.
    let Some(schema) = (unsafe { schema.as_mut() }) else {
        return;
    };
    schema.release = None;
    let parts: *mut SchemaParts =
        std::mem::replace(&mut schema.private_data, ptr::null_mut()).cast();
    if parts.is_null() {
        return;
    }
    // SAFETY: it comes from `schema`, and is taken once.
    let parts = unsafe { Box::from_raw(parts) };
    for child in parts.children {
        // SAFETY: the child was boxed with its parent, and nobody else frees it.
        let mut child = unsafe { Box::from_raw(child) };
        if let Some(release) = child.release {
            // SAFETY: it is the release of this structure, which nobody has moved out.
            unsafe { release(&raw mut *child) };
        }
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: the interface promises the address of an array that is not released.
    let Some(array) = (unsafe { array.as_mut() }) else {
        return;
    };
    array.release = None;
    let parts: *mut ArrayParts = std::mem::replace(&mut array.private_data, ptr::null_mut()).cast();
    if parts.is_null() {
        return;
    }
    // SAFETY: it comes from `array`, and is taken once.
    let parts = unsafe { Box::from_raw(parts) };
    for child in parts.children {
        // SAFETY: the child was boxed with its parent, and nobody else frees it.
        let mut child = unsafe { Box::from_raw(child) };
        if let Some(release) = child.release {
            // SAFETY: it is the release of this structure, which nobody has moved out.
            unsafe { release(&raw mut *child) };
        }
    }
}
