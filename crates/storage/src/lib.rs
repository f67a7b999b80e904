//! Storage engines and the parts they are made of.
//!
//! From the ground up: `vocabulary` (types that all folders share), `record` (schemas, values, keys, rows), `index` and `log` over the memory and disk devices, `table` (tuples
//! and the upkeep of their indexes, shared by the in-place engines), and `engine` (policy only: what is
//! written before commit, at commit, at recovery). No engine uses another.

pub mod buffer;
mod clock;
pub mod engine;
mod error;
mod failure;
pub mod index;
pub mod lock;
pub mod log;
pub mod lsm;
pub mod page;
pub mod paged;
mod place;
mod platform;
pub mod probe;
pub mod record;
pub mod stamp;
mod sync;
pub mod table;
mod vocabulary;

pub use clock::Clock;
pub use error::{Result, StorageError};
pub use platform::Platform;
