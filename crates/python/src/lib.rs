//! The core of the Python module `indelible`.
//!
//! The package in `python/indelible` is what people see: PEP 249, context managers, names and
//! documentation. The core has what needs the library: statements with values of both sides,
//! columns of Arrow, joins. Each call gives up the interpreter's lock while it works.
//!
//! | module | job |
//! |---|---|
//! | `database`, `connection` | an open database; a session and its transaction |
//! | `cursor` | statements and their rows |
//! | `give`, `take` | values of SQL as objects of Python, and the other way round |
//! | `columns`, `stream`, `load` | rows as Arrow arrays, their stream, and arrays as rows |
//! | `join` | joins of Arrow columns |
//! | `error` | errors as exceptions |
//! | `interrupt` | Ctrl-C |
//!
//! `unsafe` is at two edges: the handler of a signal, and the structures of Arrow's C interface,
//! which come from other libraries.

mod columns;
mod connection;
mod cursor;
mod database;
mod error;
mod give;
mod interrupt;
mod join;
mod load;
mod stream;
mod take;

/// The compiled part of `indelible`.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use crate::connection::Connection;
    #[pymodule_export]
    use crate::cursor::Cursor;
    #[pymodule_export]
    use crate::database::{Database, check_backup, device, methods, restore};
    #[pymodule_export]
    use crate::join::join;
    #[pymodule_export]
    use crate::stream::Stream;
}
