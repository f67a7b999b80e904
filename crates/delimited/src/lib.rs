//! Rows as text: comma-separated values into a table and out of it, whole databases from a dump.
//!
//! A room of its own, because each of these runs once a field: the program around it is compiled
//! without optimisation, and this room with it. So the functions that the program calls for all
//! rows are not generic, or they would be compiled where they are called.
//!
//! | module | job |
//! |---|---|
//! | `source` | the bytes of a file or pipe, plain or compressed, twice if need be |
//! | `foreign` | files that are no text |
//! | `records` | records of fields, each with its line and its bytes |
//! | `infer` | the type of a column from its texts |
//! | `import` | a file into a table |
//! | `export` | the rows of a table into a file |
//! | `load` | a dump into a database |
//! | `digits` | numbers for people |

mod digits;
mod export;
mod foreign;
mod import;
mod infer;
mod load;
mod records;
mod source;

pub use digits::{group_digits, thousands};
pub use export::{write_header, write_record, write_rows};
pub use import::{Input, Inserted, Names, Problems, Reading};
pub use infer::Guess;
pub use load::{DUMP_VERSION, Loader};
pub use records::Dialect;
pub use source::Passes;
