//! The loops that the program times, and the clock around them.
//!
//! A room of its own, because the program around it is text: options, reports and help. It is
//! compiled without optimisation, which takes a fifth of the time, and the measured code is
//! compiled here, with optimisation. So the functions that the program calls are not generic, or
//! they would be compiled where they are called.
//!
//! | module | job |
//! |---|---|
//! | [`ycsb`], [`standard`], [`custom`], [`tree`] | workloads on our database, each by one call |
//! | `run` | one worker thread a partition, clocked to the durable acknowledgement |
//! | [`connections`] | interactive transactions, beside an idle connection or a long reader |
//! | [`sql`] | statements of SQL on one row, beside the typed interface |
//! | `shared` | threads that take partitions from each other, and users that think |
//! | `sample` | a timer that samples the part each partition is in, or each thread's activity |
//! | `store` | the same list on anything that keeps rows, also for the workspace `rivals` |
//! | [`std_map`] | the standard library's map as such a thing, for scale |
//! | [`static_rows`] | rows in durable memory at places that never change, for scale |
//! | `static_tree`, `static_array` | how they are found, and how their updates become durable |
//! | [`read_floor`] | pages read at random, with nothing else to do |
//! | [`chunks`] | durable writes through the two interfaces of the device |
//! | [`join`] | joins of two relations, without a database |
//! | [`machine`], [`conditions`] | the machine, and its state during a measurement |
//! | [`counters`] | counters of the processor during a measurement |

pub mod chunks;
pub mod conditions;
pub mod connections;
pub mod counters;
pub mod custom;
pub mod join;
pub mod machine;
pub mod read_floor;
mod run;
mod sample;
mod shared;
pub mod sql;
pub mod standard;
mod static_array;
pub mod static_rows;
mod static_tree;
pub mod std_map;
mod store;
pub mod tree;
pub mod ycsb;

pub use run::{Aborts, Acknowledge, Limit, Measured, Tally};
pub use sample::{Sampling, Seen, Shares};
pub use shared::Users;
pub use store::{Content, measure_stores};
