//! Main-memory equi-joins of two relations, by the algorithms of "Multi-Core, Main-Memory Joins:
//! Sort vs. Hash Revisited" (VLDB 2013).
//!
//! A relation is a slice of tuples, each a key with a payload: 4 + 4 bytes ([`Tuple8`]) or 8 + 8
//! bytes ([`Tuple16`]). Every pair of a tuple of R and a tuple of S with equal keys is a match;
//! keys may repeat on both sides, every value is allowed, and inputs are never modified. Matches
//! are counted and summed, stored, or passed to a function in batches.
//!
//! ```
//! use join::{Options, Relation, Tuple, Tuple8, join};
//!
//! let customers: Vec<Tuple8> = (1..=3).map(|key| Tuple8::new(key, 100 * key)).collect();
//! let orders = [Tuple8::new(2, 7), Tuple8::new(2, 8), Tuple8::new(5, 9)];
//! let joined = join(
//!     Relation::new(&customers),
//!     Relation::new(&orders),
//!     &Options::default(),
//! )?;
//! assert_eq!(joined.totals.count, 2);
//! assert_eq!(joined.totals.r_payload_sum, 400);
//! assert_eq!(joined.totals.s_payload_sum, 15);
//! # Ok::<(), join::JoinError>(())
//! ```
//!
//! R should be the smaller side: tables are built for it. A caller who joins often keeps a
//! [`Scratch`] and uses [`join_in`], because fresh memory costs up to as much as a join.
//!
//! | module | job |
//! |---|---|
//! | `radix`, `n_part` | the hash joins |
//! | `m_way`, `m_pass`, `mpsm`, `sort` | the sort-merge joins |
//! | `partition`, `units`, `table`, `shared`, `bloom` | the parts of both |
//! | `choose` | which algorithm `auto` is, and why ([`explain`]) |
//! | `simd` | the inner loops that need more than plain Rust |
//! | `scratch` | memory on huge pages, kept from join to join |
//! | [`data`] | seeded relations as in the paper |

#[cfg(not(target_pointer_width = "64"))]
compile_error!("sizes of joins are counted in 64 bits");

mod bloom;
mod choose;
pub mod data;
mod error;
mod job;
mod m_pass;
mod m_way;
mod machine;
mod monitor;
mod mpsm;
mod n_part;
mod options;
mod output;
mod partition;
mod radix;
mod scratch;
mod shared;
mod simd;
mod sort;
mod stats;
mod table;
mod tuple;
mod units;
mod workers;

pub use choose::{Explanation, explain};
pub use error::{JoinError, Result};
pub use monitor::Monitor;
pub use options::{Algorithm, BloomUse, Kernel, Options, RunSort, THREADS_MAX, TableKind, Tuning};
pub use output::{BATCH_PAIRS, OnBatch, Output, Pair, Totals};
pub use scratch::Scratch;
pub use stats::{JoinStats, PhaseTime, TableWork};
pub use tuple::{Relation, TUPLES_MAX, Tuple, Tuple8, Tuple16, Word, zip_columns};

use job::{Done, Job};
use output::{Deliver, PairSink, Sink, Watched};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tuple::PerTuple;

/// The result of a join.
#[derive(Clone, Debug)]
pub struct Joined<T: Tuple> {
    /// Number of matches and sums of their payloads.
    pub totals: Totals,
    /// All matches in chunks, if they were asked for with [`Output::Pairs`].
    pub pairs: Vec<Vec<Pair<T::Word>>>,
    /// How it was done.
    pub stats: JoinStats,
}

/// Joins two relations in scratch memory of its own. See [`join_in`].
pub fn join<T: Tuple>(
    r: Relation<'_, T>,
    s: Relation<'_, T>,
    options: &Options<'_, T>,
) -> Result<Joined<T>> {
    join_in(&mut Scratch::new(), r, s, options)
}

/// Joins two relations in scratch memory that the caller keeps.
///
/// Fails before any work if an option is out of range, the kernel is not there, or the scratch
/// memory would exceed its limit; later only with [`JoinError::Cancelled`]. Panics of the caller's
/// batch function go through.
pub fn join_in<T: Tuple>(
    scratch: &mut Scratch,
    r: Relation<'_, T>,
    s: Relation<'_, T>,
    options: &Options<'_, T>,
) -> Result<Joined<T>> {
    T::call::<Join>(Asked {
        scratch,
        r,
        s,
        options,
    })
}

/// The arguments of a join.
struct Asked<'a, T: Tuple> {
    scratch: &'a mut Scratch,
    r: Relation<'a, T>,
    s: Relation<'a, T>,
    options: &'a Options<'a, T>,
}

/// [`join_tuples`] of each type of tuple.
struct Join;

impl PerTuple for Join {
    type Argument<'a, T: Tuple> = Asked<'a, T>;
    type Output<T: Tuple> = Result<Joined<T>>;

    fn of_8(asked: Asked<'_, Tuple8>) -> Result<Joined<Tuple8>> {
        join_tuples(asked)
    }

    fn of_16(asked: Asked<'_, Tuple16>) -> Result<Joined<Tuple16>> {
        join_tuples(asked)
    }
}

fn join_tuples<T: Tuple>(asked: Asked<'_, T>) -> Result<Joined<T>> {
    let Asked {
        scratch,
        r,
        s,
        options,
    } = asked;
    let started = Instant::now();
    let job = Job::new(r, s, options)?;
    job.watch.advance(0)?;
    let algorithm = match options.algorithm {
        Algorithm::Auto => choose::choose(Algorithm::Auto, &job).algorithm,
        asked_for => asked_for,
    };
    let pairs = Mutex::new(Vec::new());
    let keep = |batch: &mut Vec<Pair<T::Word>>| {
        let full = std::mem::replace(batch, Vec::with_capacity(BATCH_PAIRS));
        let mut pairs = pairs.lock().unwrap_or_else(PoisonError::into_inner);
        pairs.push(full);
    };
    let to_pairs = |deliver: Deliver<'_, T::Word>, scratch| {
        run(algorithm, &job, scratch, || PairSink::new(deliver))
    };
    let done = match options.output {
        Output::Aggregate => run(algorithm, &job, scratch, Totals::default)?,
        Output::Pairs => to_pairs(&keep, scratch)?,
        Output::Batches(on_batch) => to_pairs(&|batch| on_batch(batch), scratch)?,
    };
    job.watch.finish();
    Ok(Joined {
        totals: done.totals,
        pairs: pairs.into_inner().unwrap_or_else(PoisonError::into_inner),
        stats: JoinStats {
            algorithm,
            kernel: job.isa.name(),
            threads: job.threads,
            r_tuples: r.len() as u64,
            s_tuples: s.len() as u64,
            tuple_bytes: T::BYTES,
            partitions: done.partitions,
            passes: done.passes,
            filtered_tuples: done.filtered_tuples,
            tables: done.tables,
            scratch_bytes: done.scratch_bytes,
            phases: done.clock.into_phases(),
            elapsed: started.elapsed(),
        },
    })
}

fn run<T: Tuple, K: Sink<T>>(
    algorithm: Algorithm,
    job: &Job<'_, T>,
    scratch: &mut Scratch,
    new_sink: impl Fn() -> K + Sync,
) -> Result<Done> {
    if job.r.is_empty() || job.s.is_empty() {
        return Ok(Done::nothing());
    }
    let new_sink = || Watched::new(new_sink(), job.watch);
    match algorithm {
        Algorithm::Auto | Algorithm::Radix => radix::run(job, scratch, new_sink),
        Algorithm::NPart => n_part::run(job, scratch, new_sink),
        Algorithm::MWay => m_way::run(job, scratch, new_sink),
        Algorithm::MPass => m_pass::run(job, scratch, new_sink),
        Algorithm::Mpsm => mpsm::run(job, scratch, new_sink),
    }
}
