//! The choice of an algorithm for two relations: the rule of `auto`, and its explanation.
//!
//! Samples and sizes show one of these cases:
//! - The table of R fits half of the last-level cache: `n-part`, since a lookup costs less than
//!   moving the tuple. But if keys are dense, nearly all of S has partners without skew, and the
//!   array takes more than a fifth of the cache: `radix`.
//! - S is skewed, and the table is a few times the cache: `n-part`, since most lookups hit hot
//!   lines.
//! - Few tuples of S have partners, and keys are sparse: `radix`, whose filter drops the others
//!   before they are moved.
//! - Else: `radix`, since every lookup in one table would be a miss.
//! - The choice needs more scratch memory than is allowed: the other one of the two, if it needs
//!   less.
//!
//! Sort-merge is never chosen: it is compute-bound, and two to three times slower than `radix` at
//! every size that was tried. All samples together cost about a millisecond for each million tuples
//! of R, and only where their answer can change the choice.

use crate::error::Result;
use crate::job::{Job, dense_extent, looks_dense};
use crate::machine::machine;
use crate::options::{Algorithm, Options};
use crate::tuple::{Relation, Tuple, Word};
use crate::{n_part, radix};
use std::fmt;

/// Tuples of S whose keys are counted to see skew.
const SKEW_SAMPLE: usize = 1024;
/// S counts as skewed if at most this part of the sample's keys are different.
const SKEWED_DISTINCT_MAX: f64 = 0.7;
/// Tuples of S whose partners are looked for.
const MATCH_SAMPLE: usize = 256;
/// Few tuples of S have partners if at most this part of the sample has.
const FEW_MATCHES_MAX: f64 = 0.35;
/// The same where a table is well inside the last-level cache, so that a lookup costs little.
const FEW_IN_CACHE_MAX: f64 = 0.18;
/// A table of about the first-level cache: a lookup in it costs no more than one in a filter.
const TINY_TABLE_BYTES: usize = 32 << 10;

/// A large array pays only where many tuples of S have no partners, for which `radix` does most of
/// its work in vain.
const MANY_MATCHES_MIN: f64 = 0.7;

/// The reasons for the choice between algorithms.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The algorithm that runs.
    pub algorithm: Algorithm,
    /// Why, as a sentence.
    pub reason: String,
    /// Whether the keys of R look dense, so that arrays are tried first.
    pub dense: bool,
    /// Bytes of one table for all of R.
    pub table_bytes: u64,
    /// The part of different keys in a sample of S, if that was looked at; little means skew.
    pub distinct_in_s: Option<f64>,
    /// The part of a sample of S that has partners, if that was looked at.
    pub match_rate: Option<f64>,
    /// Scratch memory of the algorithm, in bytes, for `radix` and `n-part`.
    pub scratch_bytes: Option<u64>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = if self.dense { "dense" } else { "sparse" };
        let mebibytes = self.table_bytes as f64 / f64::from(1 << 20);
        write!(formatter, "{}: {}", self.algorithm, self.reason)?;
        write!(formatter, " (keys of R {keys}, table {mebibytes:.1} MiB")?;
        if let Some(distinct) = self.distinct_in_s {
            write!(
                formatter,
                ", {:.0} % of a sample of S distinct",
                distinct * 100.0
            )?;
        }
        if let Some(rate) = self.match_rate {
            write!(
                formatter,
                ", {:.0} % of a sample of S has partners",
                rate * 100.0
            )?;
        }
        write!(formatter, ")")
    }
}

/// Says which algorithm [`join`](crate::join) would take for these relations and options, and why.
/// Nothing is joined.
pub fn explain<T: Tuple>(
    r: Relation<'_, T>,
    s: Relation<'_, T>,
    options: &Options<'_, T>,
) -> Result<Explanation> {
    let job = Job::new(r, s, options)?;
    let mut found = choose(options.algorithm, &job);
    found.scratch_bytes = scratch_bytes(found.algorithm, &job);
    Ok(found)
}

/// The choice for a job, without the scratch memory: planning it takes as long as all samples.
pub(crate) fn choose<T: Tuple>(wanted: Algorithm, job: &Job<'_, T>) -> Explanation {
    let dense = looks_dense(job.r);
    let table_bytes = n_part::table_bytes(job.r, dense);
    let mut found = Explanation {
        algorithm: wanted,
        reason: "it was asked for".to_owned(),
        dense,
        table_bytes: table_bytes as u64,
        distinct_in_s: None,
        match_rate: None,
        scratch_bytes: None,
    };
    if wanted == Algorithm::Auto {
        (found.algorithm, found.reason) = pick(job, table_bytes, &mut found);
        respect_memory(job, &mut found);
    }
    found
}

fn pick<T: Tuple>(
    job: &Job<'_, T>,
    table_bytes: usize,
    found: &mut Explanation,
) -> (Algorithm, String) {
    let l3_bytes = machine().l3_bytes;
    let choice = |algorithm, reason: &str| (algorithm, reason.to_owned());
    if table_bytes <= l3_bytes / 2 {
        if found.dense && table_bytes > l3_bytes / 5 {
            let inside = sampled_inside(job.r, job.s);
            found.match_rate = Some(inside);
            if inside >= MANY_MATCHES_MIN {
                let distinct = sampled_distinct(job.s);
                found.distinct_in_s = Some(distinct);
                if distinct > SKEWED_DISTINCT_MAX {
                    return choice(
                        Algorithm::Radix,
                        "the array of R takes a good part of the cache, and nearly every tuple of S would look into it",
                    );
                }
            }
        }
        let is_tiny = table_bytes <= TINY_TABLE_BYTES;
        if !found.dense && !is_tiny && job.s.len() >= job.r.len() * 4 {
            let rate = sampled_match_rate(job.r, job.s);
            found.match_rate = Some(rate);
            let few = if table_bytes <= l3_bytes / 4 {
                FEW_IN_CACHE_MAX
            } else {
                FEW_MATCHES_MAX
            };
            if rate <= few {
                return choice(
                    Algorithm::Radix,
                    "few tuples of S have partners, and a filter drops the others first",
                );
            }
        }
        return choice(
            Algorithm::NPart,
            "the table of R fits the cache, so looking up costs less than partitioning S",
        );
    }
    if table_bytes <= l3_bytes * 4 {
        let distinct = sampled_distinct(job.s);
        found.distinct_in_s = Some(distinct);
        if distinct <= SKEWED_DISTINCT_MAX {
            return choice(
                Algorithm::NPart,
                "S is skewed, so most lookups hit a hot part of the table",
            );
        }
    }
    choice(
        Algorithm::Radix,
        "the table of R is larger than the cache, and every lookup in it would be a miss",
    )
}

/// Takes the other hash join if the choice does not fit the caller's limit.
fn respect_memory<T: Tuple>(job: &Job<'_, T>, found: &mut Explanation) {
    let Some(limit_bytes) = job.scratch_bytes_max else {
        return;
    };
    let other = if found.algorithm == Algorithm::Radix {
        Algorithm::NPart
    } else {
        Algorithm::Radix
    };
    let fits = |algorithm| scratch_bytes(algorithm, job).is_some_and(|bytes| bytes <= limit_bytes);
    if !fits(found.algorithm) && fits(other) {
        found.reason = format!(
            "{} would need more scratch memory than is allowed",
            found.algorithm
        );
        found.algorithm = other;
    }
}

fn scratch_bytes<T: Tuple>(algorithm: Algorithm, job: &Job<'_, T>) -> Option<u64> {
    match algorithm {
        Algorithm::Radix => Some(radix::scratch_bytes(job, &radix::Plan::new(job)) as u64),
        Algorithm::NPart => Some(n_part::scratch_bytes(job) as u64),
        _ => None,
    }
}

/// The part of different keys in a sample of S.
fn sampled_distinct<T: Tuple>(s: &[T]) -> f64 {
    let step = (s.len() / SKEW_SAMPLE).max(1);
    let mut keys: Vec<_> = s.iter().step_by(step).map(|tuple| tuple.key()).collect();
    let all = keys.len().max(1);
    keys.sort_unstable();
    keys.dedup();
    keys.len() as f64 / all as f64
}

/// The part of a sample of S whose keys lie where those of a dense R do.
fn sampled_inside<T: Tuple>(r: &[T], s: &[T]) -> f64 {
    let Some((low, high)) = dense_extent(r) else {
        return 0.0;
    };
    let step = (s.len() / MATCH_SAMPLE).max(1);
    let keys = || s.iter().step_by(step).map(|tuple| tuple.key().into());
    let inside = keys()
        .filter(|key: &u64| (low..=high).contains(key))
        .count();
    inside as f64 / keys().count().max(1) as f64
}

/// The part of a sample of S that has partners in R, by one reading of R's keys.
fn sampled_match_rate<T: Tuple>(r: &[T], s: &[T]) -> f64 {
    let step = (s.len() / MATCH_SAMPLE).max(1);
    let sample: Vec<_> = s.iter().step_by(step).map(|tuple| tuple.key()).collect();
    let mut keys: Vec<_> = sample.iter().map(|key| (*key, false)).collect();
    keys.sort_unstable();
    keys.dedup();
    // A bit for each of 2^14 hash values keeps nearly all keys of R away from the search.
    let mut bits = [0_u64; 1 << 8];
    let place = |key: T::Word| {
        let hash = key.mixed().wrapping_mul(crate::partition::MULTIPLIER) >> 50;
        (hash as usize / 64, hash % 64)
    };
    for key in &sample {
        let (word, bit) = place(*key);
        bits[word] |= 1 << bit;
    }
    for tuple in r {
        let (word, bit) = place(tuple.key());
        if bits[word] >> bit & 1 == 1
            && let Ok(at) = keys.binary_search_by_key(&tuple.key(), |(key, _)| *key)
        {
            keys[at].1 = true;
        }
    }
    let has_partner = |key: &T::Word| {
        let at = keys.binary_search_by_key(key, |(key, _)| *key);
        at.is_ok_and(|at| keys[at].1)
    };
    let partners = sample.iter().filter(|key| has_partner(key)).count();
    partners as f64 / sample.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{KeyRange, Workload};
    use crate::tuple::Tuple8;

    fn chosen(workload: Workload, scratch_bytes_max: Option<u64>) -> Explanation {
        let made = workload.generate::<Tuple8>(1);
        let options = Options {
            scratch_bytes_max,
            threads: Some(2),
            ..Options::default()
        };
        explain(Relation::new(&made.r), Relation::new(&made.s), &options).unwrap()
    }

    #[test]
    fn small_tables_are_probed_and_large_ones_partitioned() {
        let small = chosen(Workload::uniform(10_000, 100_000), None);
        assert_eq!(small.algorithm, Algorithm::NPart, "{small}");
        assert!(small.dense);
        let sparse = Workload {
            keys: KeyRange::Sparse,
            ..Workload::uniform(machine().l3_bytes / 8, 200_000)
        };
        let large = chosen(sparse, None);
        assert_eq!(large.algorithm, Algorithm::Radix, "{large}");
        assert!(!large.dense);
        let skewed = chosen(
            Workload {
                zipf: 1.5,
                ..sparse
            },
            None,
        );
        assert_eq!(skewed.algorithm, Algorithm::NPart, "{skewed}");
        assert!(skewed.to_string().contains("skewed"));
    }

    #[test]
    fn a_large_array_is_for_s_with_few_partners_or_skew() {
        let dense = Workload::uniform(machine().l3_bytes / 12, machine().l3_bytes / 12);
        let uniform = chosen(dense, None);
        assert_eq!(uniform.algorithm, Algorithm::Radix, "{uniform}");
        let [few, skewed] = [
            Workload {
                match_rate: 0.1,
                ..dense
            },
            Workload { zipf: 1.5, ..dense },
        ];
        for workload in [few, skewed] {
            let found = chosen(workload, None);
            assert_eq!(found.algorithm, Algorithm::NPart, "{found}");
        }
    }

    #[test]
    fn few_matches_call_for_the_filter() {
        let workload = |match_rate| Workload {
            keys: KeyRange::Sparse,
            match_rate,
            ..Workload::uniform(machine().l2_bytes / 8, machine().l2_bytes)
        };
        let few = chosen(workload(0.1), None);
        assert_eq!(few.algorithm, Algorithm::Radix, "{few}");
        let rate = few.match_rate.unwrap();
        assert!((0.02..0.2).contains(&rate), "{rate}");
        let many = chosen(workload(0.9), None);
        assert_eq!(many.algorithm, Algorithm::NPart, "{many}");
    }

    #[test]
    fn a_limit_of_memory_changes_the_choice() {
        let workload = Workload {
            keys: KeyRange::Sparse,
            ..Workload::uniform(1_000, 2_000_000)
        };
        let free = chosen(
            Workload {
                match_rate: 0.1,
                ..workload
            },
            None,
        );
        let n_part = free.scratch_bytes.unwrap();
        assert_eq!(free.algorithm, Algorithm::NPart);
        let sparse = Workload {
            keys: KeyRange::Sparse,
            ..Workload::uniform(machine().l3_bytes / 8, 4_000_000)
        };
        let radix = chosen(sparse, None);
        assert_eq!(radix.algorithm, Algorithm::Radix);
        let other = chosen(sparse, Some(radix.scratch_bytes.unwrap() - 1));
        assert!(other.scratch_bytes.unwrap() > n_part);
        let is_less = other.algorithm == Algorithm::NPart;
        assert_eq!(is_less, other.reason.contains("memory"), "{other}");
    }
}
