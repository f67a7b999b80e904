//! Options of a database and of a transaction.
//!
//! Some options are recorded when the database is created (method, partitions, layout, node size,
//! domain, fence order). An opening that asks for another value is refused with an error that names
//! both. The others hold while the database is open; the size of a MemTable is recorded too, for
//! openings that ask for none. All options are checked before the first file is touched, and an
//! error names the option and a valid choice.
//!
//! | file | content |
//! |---|---|
//! | `database`, `transaction` | the options that a user sets |
//! | `method_option` | the options that only some methods take |
//! | `check` | ranges, and options that do not go with the method |
//! | `recorded` | options and the descriptor |

mod check;
mod database;
mod method_option;
mod recorded;
mod transaction;

pub use check::{AREA_BYTES_MIN, DIRECT_BYTES_MIN, PARTITIONS_MAX, RINGS_MAX, SESSIONS_MAX};
pub use database::{
    CONNECTIONS_MAX, Choice, LOCKS_MAX, Mode, Options, PREPARED_MAX, SNAPSHOT_MEMORY_MAX,
    TRANSACTION_MEMORY_MAX,
};
pub use method_option::MethodOption;
pub(crate) use recorded::random_identity;
pub use recorded::{AREA_BYTES, BUFFER_BYTES, CACHE_BYTES};
pub use transaction::TransactionOptions;
