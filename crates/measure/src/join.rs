//! Relations in memory, and joins over them: each checked, each timed.
//!
//! One measurement is a join in fresh scratch memory, which counts as the cold one, and then
//! repeats in the same memory. The row of a run is that of its median repeat, so that its phases
//! add up to its time. A join whose count or sums differ from the generator's is an error. Joins
//! are compiled once for each width of tuples, here; callers of [`Inputs`] do not know the width.

use crate::run::cpu_seconds;
use anyhow::{Context, Result, bail};
use join::data::{Relations, Workload};
use join::{
    Algorithm, Explanation, JoinError, JoinStats, Kernel, Options, Relation, Scratch, Totals,
    Tuning, Tuple, Tuple8, Tuple16, explain, join_in,
};

/// Short joins are repeated until each algorithm has run for so long, but not more often than this.
const SECONDS_MIN: f64 = 0.5;
const TURNS_MAX: u32 = 40;

/// Bytes of a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 4 of key, 4 of payload.
    Eight,
    /// 8 of key, 8 of payload.
    Sixteen,
}

impl Width {
    /// The number.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Eight => Tuple8::BYTES as u64,
            Self::Sixteen => Tuple16::BYTES as u64,
        }
    }
}

/// How relations are joined.
#[derive(Clone, Copy, Debug, Default)]
pub struct JoinOptions {
    /// By what.
    pub algorithm: Algorithm,
    /// With which instructions.
    pub kernel: Kernel,
    /// By how many threads; the library chooses if nothing is said.
    pub threads: Option<usize>,
    /// Settings for experiments.
    pub tuning: Tuning,
}

/// Two relations and the expected totals of their join.
pub struct Inputs {
    made: Made,
    /// The most scratch memory of a join, if there is a limit.
    scratch_bytes_max: Option<u64>,
}

/// Relations of one of the widths.
enum Made {
    Eight(Relations<Tuple8>),
    Sixteen(Relations<Tuple16>),
}

/// One join.
#[derive(Clone, Debug)]
pub struct Timed {
    /// The library's report.
    pub stats: JoinStats,
    /// Processor time of all threads.
    pub cpu_seconds: f64,
}

impl Timed {
    /// From its call to its return.
    pub fn seconds(&self) -> f64 {
        self.stats.elapsed.as_secs_f64()
    }
}

/// The joins of one algorithm with one kernel.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The algorithm asked for.
    pub algorithm: Algorithm,
    /// Why, where the library picked.
    pub explanation: Option<Explanation>,
    /// In fresh scratch memory.
    pub cold: Timed,
    /// In warm scratch memory, in the order in which they ran; at least one.
    pub warm: Vec<Timed>,
    /// The totals that every one of them found.
    pub totals: Totals,
}

impl Measured {
    /// The repeat whose time is the median; of an even number of them, the faster one in the
    /// middle.
    pub fn median(&self) -> &Timed {
        let mut order: Vec<&Timed> = self.warm.iter().collect();
        order.sort_by_key(|timed| timed.stats.elapsed);
        order[(order.len() - 1) / 2]
    }

    /// The least and the greatest time of the repeats, in seconds.
    pub fn spread(&self) -> (f64, f64) {
        let seconds = || self.warm.iter().map(Timed::seconds);
        (
            seconds().fold(f64::INFINITY, f64::min),
            seconds().fold(0.0, f64::max),
        )
    }
}

/// Least seconds of each algorithm, in their order, over a number of turns.
pub struct Turns {
    /// The least of each.
    pub seconds: Vec<f64>,
    /// Turns that count.
    pub count: u32,
    /// Statistics of `auto`.
    pub picked: JoinStats,
}

impl Inputs {
    /// Makes the relations. `scratch_bytes_max` limits the scratch memory of their joins.
    pub fn make(width: Width, workload: &Workload, scratch_bytes_max: Option<u64>) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let made = match width {
            Width::Eight => Made::Eight(workload.generate(threads)),
            Width::Sixteen => Made::Sixteen(workload.generate(threads)),
        };
        Self {
            made,
            scratch_bytes_max,
        }
    }

    /// Joins in fresh memory, then `repeats` times in the same.
    pub fn measure(&self, options: &JoinOptions, repeats: u32) -> Result<Measured> {
        let mut scratch = Scratch::new();
        let cold = self.join(&mut scratch, options)?;
        let warm = (0..repeats).map(|_| self.join(&mut scratch, options));
        Ok(Measured {
            algorithm: options.algorithm,
            explanation: self.explain(options)?,
            cold,
            warm: warm.collect::<Result<_>>()?,
            totals: self.totals(),
        })
    }

    /// The reasons for the library's choice; none if the caller has chosen.
    pub fn explain(&self, options: &JoinOptions) -> Result<Option<Explanation>> {
        if options.algorithm != Algorithm::Auto {
            return Ok(None);
        }
        let limit = self.scratch_bytes_max;
        Ok(Some(match &self.made {
            Made::Eight(made) => explain(r(made), s(made), &limited(options, limit))?,
            Made::Sixteen(made) => explain(r(made), s(made), &limited(options, limit))?,
        }))
    }

    /// All of these in turns, one of which is `auto`. The first turn warms the memory, and
    /// determines how many more there are.
    pub fn turns(
        &self,
        choices: &[JoinOptions],
        turns_min: u32,
        scratch: &mut Scratch,
    ) -> Result<Turns> {
        let mut seconds = vec![f64::INFINITY; choices.len()];
        let (mut turns, mut turn, mut picked) = (turns_min, 0, None);
        while turn <= turns {
            let mut slowest = 0.0_f64;
            for index in 0..choices.len() {
                let index = if turn % 2 == 0 {
                    index
                } else {
                    choices.len() - 1 - index
                };
                let (options, least) = (&choices[index], &mut seconds[index]);
                let timed = self.join(scratch, options)?;
                slowest = slowest.max(timed.seconds());
                if turn > 0 {
                    *least = least.min(timed.seconds());
                }
                if options.algorithm == Algorithm::Auto {
                    picked = Some(timed.stats);
                }
            }
            if turn == 0 {
                let is_short = |turns: &u32| f64::from(*turns) * slowest < SECONDS_MIN;
                turns = (turns..TURNS_MAX)
                    .find(|turns| !is_short(turns))
                    .unwrap_or(turns.max(TURNS_MAX));
            }
            turn += 1;
        }
        Ok(Turns {
            seconds,
            count: turns,
            picked: picked.context("auto is one of the choices")?,
        })
    }

    /// One join, checked and timed.
    fn join(&self, scratch: &mut Scratch, options: &JoinOptions) -> Result<Timed> {
        match &self.made {
            Made::Eight(made) => join_of(made, scratch, &limited(options, self.scratch_bytes_max)),
            Made::Sixteen(made) => {
                join_of(made, scratch, &limited(options, self.scratch_bytes_max))
            }
        }
    }

    fn totals(&self) -> Totals {
        match &self.made {
            Made::Eight(made) => made.totals,
            Made::Sixteen(made) => made.totals,
        }
    }
}

fn join_of<T: Tuple>(
    made: &Relations<T>,
    scratch: &mut Scratch,
    options: &Options<'_, T>,
) -> Result<Timed> {
    let cpu_start = cpu_seconds();
    let joined = join_in(scratch, r(made), s(made), options)?;
    let cpu_seconds = cpu_seconds() - cpu_start;
    compare(joined.totals, made.totals)?;
    Ok(Timed {
        stats: joined.stats,
        cpu_seconds,
    })
}

fn limited<'o, T: Tuple>(options: &JoinOptions, scratch_bytes_max: Option<u64>) -> Options<'o, T> {
    Options {
        algorithm: options.algorithm,
        kernel: options.kernel,
        threads: options.threads,
        tuning: options.tuning,
        scratch_bytes_max,
        ..Options::default()
    }
}

fn r<T: Tuple>(made: &Relations<T>) -> Relation<'_, T> {
    Relation::new(&made.r)
}

fn s<T: Tuple>(made: &Relations<T>) -> Relation<'_, T> {
    Relation::new(&made.s)
}

/// The library's check of settings, before there are relations: a kernel that this processor lacks,
/// or a number out of range, is an error.
pub fn probe(kernel: Kernel, tuning: Tuning) -> Result<(), JoinError> {
    let options = Options {
        kernel,
        tuning,
        ..Options::default()
    };
    let nothing = Relation::<Tuple8>::new(&[]);
    explain(nothing, nothing, &options).map(drop)
}

/// Refuses a result that is not the generator's.
fn compare(found: Totals, known: Totals) -> Result<()> {
    if found == known {
        return Ok(());
    }
    bail!("the join is wrong: it found {found:?}, and {known:?} are there")
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }

    #[test]
    fn the_median_is_one_of_the_repeats() {
        let workload = Workload::uniform(3000, 9000);
        let inputs = Inputs::make(Width::Eight, &workload, None);
        let measured = inputs.measure(&JoinOptions::default(), 4).unwrap();
        let (least, greatest) = measured.spread();
        let median = measured.median().seconds();
        let faster = measured.warm.iter().filter(|one| one.seconds() < median);
        assert!(faster.count() <= 1 && least <= median && median <= greatest);
        let picked = measured.explanation.unwrap().algorithm;
        assert_eq!(picked, measured.warm[0].stats.algorithm);
    }
}
