//! Which algorithm suits two relations: the rule behind `auto`.
//!
//! A table that fits the last-level cache is probed as S lies, since partitioning S costs more than such lookups. Above that, every
//! lookup would be a miss, and partitioning wins.

use crate::job::Job;
use crate::machine::machine;
use crate::options::Algorithm;
use crate::tuple::Tuple;

/// The algorithm that runs if `wanted` was asked for.
pub(crate) fn algorithm<T: Tuple>(wanted: Algorithm, job: &Job<'_, T>) -> Algorithm {
    if wanted != Algorithm::Auto {
        return wanted;
    }
    if job.r.len() * T::BYTES * 3 <= machine().l3_bytes / 2 {
        Algorithm::NPart
    } else {
        Algorithm::Radix
    }
}
