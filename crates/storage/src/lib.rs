//! The ground floor of the engines: the vocabulary that all of them speak, and the parts that both
//! kinds of engines are made of.
//!
//! Two rooms are above it: `serial_engines` has the engines that run one transaction at a time in a
//! partition, `page_engine` the one whose sessions share a partition's pages. `engines` puts both
//! together.
//!
//! Modules from the ground up; `tests/tests/tidy.rs` says which may use which:
//!
//! | module | job | for |
//! |---|---|---|
//! | `vocabulary`, `error` | shared types, exported by [`engine`]; errors | all |
//! | [`failure`], [`stamp`] | the failure that stops a partition; the generation of a file | all |
//! | [`clock`], [`place`] | times of commits; maps by page or block | page engine, trees |
//! | [`sync`] | locks that schedule tests replace | what threads share |
//! | [`probe`] | what a thread is doing, for measurements | all |
//! | [`record`] | schemas, values, keys, rows | all |
//! | [`log`] | logs in files and rings, write sets, masters, checkpoints, archives | all |
//! | [`table`] | open tables: definition, layout, encoders of keys | all |
//! | [`lock`] | two-phase locking for the sessions of a partition | page engine, connections |
//! | [`engine`] | the traits of engines, the catalogue of methods, options, counts | all |
//! | `platform` | the memories and files of a partition | all |

pub mod clock;
pub mod engine;
mod error;
pub mod failure;
pub mod lock;
pub mod log;
pub mod place;
mod platform;
pub mod probe;
pub mod record;
pub mod stamp;
pub mod sync;
pub mod table;
mod vocabulary;

pub use clock::Clock;
pub use error::{DamagedFile, DuplicateKey, LogFull, Result, StorageError, UNFINISHED, WrongFile};
pub use platform::{DeviceOf, EngineSource, Platform};
