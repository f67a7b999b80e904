//! Rows as text: comma-separated values into a table and out of it, whole databases from a dump.
//!
//! A room of its own, because each of these runs once a field: the program around it is compiled without optimisation, and this one is
//! not. So what the program calls for all rows has no type or closure to be filled in, or it would be compiled where it is called.
//!
//! | module | job |
//! |---|---|
//! | `records` | records of fields, read and written so that a round trip changes nothing |
//! | `infer` | the type of a column from its texts |
//! | `import` | a file into a table |
//! | `export` | the rows of a table into a file |
//! | `load` | a dump into a database |
//! | `digits` | numbers for people |

mod digits;
mod export;
mod import;
mod infer;
mod load;
mod records;

pub use digits::{group_digits, thousands};
pub use export::write_rows;
pub use import::{Input, Inserted, Problems};
pub use infer::Guess;
pub use load::{DUMP_VERSION, Loader};
pub use records::write_record;
