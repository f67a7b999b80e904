//! Crash search: transactions on the simulated device, and every state that a power cut may leave
//! checked.
//!
//! At each crash point of a run (before a fence or sync takes effect, when a commit is called, when
//! it is acknowledged) images of the device are recovered and compared with the states that the
//! oracle allows. Every acknowledged transaction is there whole, every other one whole or not at
//! all, and only if its commit had been called. A recovered image must also pass the engine's deep
//! check (indexes agree with tables, no block leaked or used twice), be left alone by a second
//! recovery, survive a cut in its own recovery, and go on working.
//!
//! | module | job |
//! |---|---|
//! | [`search`] | random transactions, sampled images |
//! | [`scenarios`] | short scripts, all images |
//! | [`mutation`] | proves of each flush, fence and sync that its removal is noticed |
//! | [`corpus`] | rounds that once failed, replayed first |
//! | [`minimise`] | the shortest list of operations that still fails |
//! | [`flips`] | single bits of a closed database turned over |
//! | [`truncations`] | files of a closed database cut off |
//! | [`faults`] | calls to files and memories that fail, writes that tear |
//! | [`standard`] | the same with TPC-C, TPC-B, TATP on several partitions, with their conditions |
//! | [`history`] | concurrent sessions on a real device: whether an order fits their observations |
//! | [`damage`] | the report of `flips` and `truncations`, and their parallel search |
//! | `model`, `generate` | the oracle, the transactions |
//! | `script`, `drive`, `check`, `compare` | how both meet the engine |
//! | `connections` | the same with interleaved connections instead of transactions |
//! | `access` | statements of closures and of connections |
//! | `exhaustive` | all images of a moment |
//! | `death` | processes that die without a power cut |
//! | `kinds` | the kinds of bytes of a database |

mod access;
mod check;
mod compare;
mod connections;
pub mod corpus;
pub mod damage;
mod death;
mod drive;
mod exhaustive;
pub mod faults;
pub mod flips;
mod generate;
pub mod history;
mod kinds;
pub mod minimise;
mod model;
pub mod mutation;
pub mod scenarios;
mod script;
pub mod search;
pub mod standard;
pub mod truncations;

pub use check::Failure;
pub use indelible::SimulatedPlatform;
pub use script::Selection;
