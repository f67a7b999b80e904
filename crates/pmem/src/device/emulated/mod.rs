//! The emulated device: another memory whose bytes are real and whose time is chosen.
//!
//! Every access of a wrapped memory goes through a model of the last-level cache. Misses are
//! counted, per part of the database, and delayed as a slower memory would delay them. Counts
//! depend on the accesses alone, never on time: the same accesses give the same counts. The claims
//! and limits of the model are in docs/emulation.md.
//!
//! | module | job |
//! |---|---|
//! | `profile` | which memory is imitated: latencies and bandwidth by name or by value |
//! | `options` | profile, cache and bookkeeping of one emulator |
//! | `emulator` | one partition's device: the rules of counts and delays |
//! | `lane` | the queue, prefetches and counts of one thread |
//! | `model_time` | the model's own time, sampled |
//! | `cache` | the modelled cache |
//! | `clock` | time, real or virtual, and waiting |
//! | `wear` | writes per region and per line |
//! | `memory` | [`EmulatedMemory`] and [`EmulatedSource`] |

mod cache;
mod clock;
mod emulator;
mod lane;
mod memory;
mod model_time;
mod options;
mod profile;
#[cfg(test)]
mod tests;
mod wear;

pub use clock::Clock;
pub use emulator::{Emulator, Injected, Region};
pub use memory::{EmulatedMemory, EmulatedSource};
pub use model_time::ModelTime;
pub use options::{ClockChoice, EmulationOptions, FlushEffect, Loads, WearMap};
pub use profile::{DRAM_READ_NS, Profile};
pub use wear::{RegionWear, WEAR_REGION_BYTES, Wear};
