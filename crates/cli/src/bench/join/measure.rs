//! Relations in memory, and joins over them: each checked, each timed.
//!
//! One measurement is a join in fresh scratch memory, which counts as the cold one, and then repeats in the same memory. The row of
//! a run is that of its median repeat, so that its phases add up to its time. A join whose count or sums are not those that the
//! generator knows ends the command.

use super::super::measure::cpu_seconds;
use crate::args::JoinArgs;
use crate::machine::available_bytes;
use crate::output::{bytes, thousands};
use crate::progress;
use anyhow::{Result, bail};
use join::data::{Relations, Workload};
use join::{
    Algorithm, Explanation, JoinStats, Options, Relation, Scratch, Totals, Tuple, explain, join_in,
};

/// Two relations and what their join has to find.
pub(super) struct Inputs<T: Tuple> {
    made: Relations<T>,
    /// What a join may use for scratch, if there is a limit.
    scratch_bytes_max: Option<u64>,
}

/// One join.
#[derive(Clone, Debug)]
pub(crate) struct Timed {
    pub(crate) stats: JoinStats,
    /// Processor time of all threads.
    pub(crate) cpu_seconds: f64,
}

impl Timed {
    pub(crate) fn seconds(&self) -> f64 {
        self.stats.elapsed.as_secs_f64()
    }
}

/// The joins of one algorithm with one kernel.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// What was asked for.
    pub(crate) algorithm: Algorithm,
    /// Why, where the library picked.
    pub(crate) explanation: Option<Explanation>,
    /// In fresh scratch memory.
    pub(crate) cold: Timed,
    /// In warm scratch memory, in the order in which they ran; at least one.
    pub(crate) warm: Vec<Timed>,
    /// What every one of them found.
    pub(crate) totals: Totals,
}

impl Measured {
    /// The repeat whose time is the median; of an even number of them, the faster one in the middle.
    pub(crate) fn median(&self) -> &Timed {
        let mut order: Vec<&Timed> = self.warm.iter().collect();
        order.sort_by_key(|timed| timed.stats.elapsed);
        order[(order.len() - 1) / 2]
    }

    /// The least and the greatest time of the repeats, in seconds.
    pub(crate) fn spread(&self) -> (f64, f64) {
        let seconds = || self.warm.iter().map(Timed::seconds);
        (
            seconds().fold(f64::INFINITY, f64::min),
            seconds().fold(0.0, f64::max),
        )
    }
}

impl<T: Tuple> Inputs<T> {
    /// Makes the relations, if memory holds them and what the algorithms need at least.
    pub(super) fn make(
        args: &JoinArgs,
        workload: &Workload,
        algorithms: &[Algorithm],
    ) -> Result<Self> {
        let limit_bytes = args.memory_bytes.or_else(available_bytes);
        let inputs_bytes = (workload.r_tuples + workload.s_tuples) as u64 * T::BYTES as u64;
        if let Some(limit_bytes) = limit_bytes {
            for algorithm in algorithms {
                let scratch_bytes = least_scratch_bytes::<T>(*algorithm, workload);
                let needed_bytes = inputs_bytes + scratch_bytes;
                if needed_bytes > limit_bytes {
                    bail!(
                        "{algorithm} needs {needed_bytes} bytes at least, {} for the relations and {} to work in; {limit_bytes} are \
                         available, so nothing was made",
                        bytes(inputs_bytes),
                        bytes(scratch_bytes),
                    );
                }
            }
        }
        let note = progress::spinner(format!(
            "making {} and {} tuples",
            thousands(workload.r_tuples as u64),
            thousands(workload.s_tuples as u64)
        ));
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let made = workload.generate(threads);
        note.finish_and_clear();
        Ok(Self {
            made,
            scratch_bytes_max: args
                .memory_bytes
                .map(|limit_bytes| limit_bytes.saturating_sub(inputs_bytes)),
        })
    }

    /// Joins in fresh memory, then `repeats` times in the same.
    pub(super) fn measure(&self, options: &Options<'_, T>, repeats: u32) -> Result<Measured> {
        let mut scratch = Scratch::new();
        let cold = self.join(&mut scratch, options)?;
        let warm = (0..repeats).map(|_| self.join(&mut scratch, options));
        Ok(Measured {
            algorithm: options.algorithm,
            explanation: self.explain(options)?,
            cold,
            warm: warm.collect::<Result<_>>()?,
            totals: self.made.totals,
        })
    }

    /// Why the library picks what it picks; nothing if the caller has picked.
    pub(super) fn explain(&self, options: &Options<'_, T>) -> Result<Option<Explanation>> {
        if options.algorithm != Algorithm::Auto {
            return Ok(None);
        }
        Ok(Some(explain(self.r(), self.s(), &self.limited(options))?))
    }

    /// One join, checked and timed.
    pub(super) fn join(&self, scratch: &mut Scratch, options: &Options<'_, T>) -> Result<Timed> {
        let cpu_start = cpu_seconds();
        let joined = join_in(scratch, self.r(), self.s(), &self.limited(options))?;
        let cpu_seconds = cpu_seconds() - cpu_start;
        compare(joined.totals, self.made.totals)?;
        Ok(Timed {
            stats: joined.stats,
            cpu_seconds,
        })
    }

    fn limited<'o>(&self, options: &Options<'o, T>) -> Options<'o, T> {
        Options {
            scratch_bytes_max: self.scratch_bytes_max,
            ..*options
        }
    }

    fn r(&self) -> Relation<'_, T> {
        Relation::new(&self.made.r)
    }

    fn s(&self) -> Relation<'_, T> {
        Relation::new(&self.made.s)
    }
}

/// The scratch memory below which an algorithm cannot work: copies of what it moves. The library knows the rest when it sees the relations.
fn least_scratch_bytes<T: Tuple>(algorithm: Algorithm, workload: &Workload) -> u64 {
    let (r, s) = (workload.r_tuples as u64, workload.s_tuples as u64);
    let tuples = match algorithm {
        Algorithm::Auto | Algorithm::NPart => r / 2,
        Algorithm::Radix | Algorithm::MWay | Algorithm::MPass => r + s,
        Algorithm::Mpsm => 2 * (r + s),
    };
    tuples * T::BYTES as u64
}

/// Refuses a result that is not the generator's.
fn compare(found: Totals, known: Totals) -> Result<()> {
    if found == known {
        return Ok(());
    }
    bail!("the join is wrong: it found {found:?}, and {known:?} are there")
}

/// The payloads of all pairs, of both sides, added up; a short name of a result.
pub(super) fn checksum(totals: Totals) -> String {
    let sum = totals.r_payload_sum.wrapping_add(totals.s_payload_sum);
    format!("{sum:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{BenchCommand, Command, CommandLine};
    use clap::Parser;
    use join::{Tuple8, Tuple16};

    fn args(words: &[&str]) -> JoinArgs {
        let words = [&["indelible", "bench", "join"], words].concat();
        match CommandLine::parse_from(words).command {
            Command::Bench(BenchCommand::Join(args)) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_result_that_is_off_by_one_is_refused() {
        let known = Totals {
            count: 10,
            r_payload_sum: 20,
            s_payload_sum: 30,
        };
        compare(known, known).unwrap();
        for found in [
            Totals { count: 9, ..known },
            Totals {
                r_payload_sum: 21,
                ..known
            },
            Totals {
                s_payload_sum: 31,
                ..known
            },
        ] {
            let error = compare(found, known).unwrap_err().to_string();
            assert!(error.contains("the join is wrong"), "{error}");
        }
        assert_eq!(checksum(known), "0000000000000032");
    }

    #[test]
    fn memory_is_counted_before_relations_are_made() {
        let args = args(&[
            "--algorithm",
            "all",
            "--r",
            "1000000",
            "--memory-bytes",
            "50000000",
        ]);
        let workload = Workload::uniform(1_000_000, 1_000_000);
        let ends_well = |algorithm| Inputs::<Tuple8>::make(&args, &workload, &[algorithm]).is_ok();
        assert!(ends_well(Algorithm::Radix) && ends_well(Algorithm::Mpsm));
        // 2 x 16 MB of relations, and as much to work in.
        let Err(error) = Inputs::<Tuple16>::make(&args, &workload, &[Algorithm::Radix]) else {
            panic!("64 MB do not fit 50 MB");
        };
        assert!(error.to_string().contains("64000000 bytes"), "{error}");
    }

    #[test]
    fn the_median_is_one_of_the_repeats() {
        let args = args(&["--algorithm", "auto", "--r", "3000"]);
        let workload = Workload::uniform(3000, 9000);
        let inputs = Inputs::<Tuple8>::make(&args, &workload, &[Algorithm::Auto]).unwrap();
        let measured = inputs.measure(&Options::default(), 4).unwrap();
        let (least, greatest) = measured.spread();
        let median = measured.median().seconds();
        let faster = measured.warm.iter().filter(|one| one.seconds() < median);
        assert!(faster.count() <= 1 && least <= median && median <= greatest);
        let picked = measured.explanation.unwrap().algorithm;
        assert_eq!(picked, measured.warm[0].stats.algorithm);
    }
}
