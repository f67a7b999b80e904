//! Prints tuples a second of each algorithm for sizes given on the command line.
//!
//! ```text
//! cargo bench -p join -- --r 16000000 --s 16000000 --threads 2 [--algorithm radix,n-part] [--kernel avx2] [--tuple 8|16]
//!     [--zipf Z] [--sparse] [--match P] [--repeats N] [--bits B] [--second B] [--table auto|linear|chain] [--network] [--bloom auto|always|never] [--runs N]
//! ```
//!
//! Scratch memory is warm from the second run on; the best run counts. Count and sums are checked in every run. Without arguments (as under
//! `cargo test --benches`), sizes are small.

#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]

use join::data::{KeyRange, Workload};
use join::{
    Algorithm, BloomUse, Joined, Kernel, Options, Relation, RunSort, Scratch, TableKind, Tuning,
    Tuple, Tuple8, Tuple16, join_in,
};
use std::collections::HashMap;
use std::error::Error;
use std::fmt::Debug;
use std::str::FromStr;

type Answer<T> = Result<T, Box<dyn Error>>;

/// Arguments by name.
struct Arguments(HashMap<String, String>);

impl Arguments {
    fn read() -> Self {
        let mut all = HashMap::new();
        let mut words = std::env::args().skip(1).peekable();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--") else {
                continue;
            };
            let value = words.next_if(|value| !value.starts_with("--"));
            all.insert(name.to_owned(), value.unwrap_or_default());
        }
        Self(all)
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn get<V: FromStr>(&self, name: &str) -> Answer<Option<V>>
    where
        V::Err: Error + 'static,
    {
        Ok(self.0.get(name).map(|value| value.parse()).transpose()?)
    }
}

fn tuning(arguments: &Arguments) -> Answer<Tuning> {
    Ok(Tuning {
        partition_bits: arguments.get("bits")?,
        second_pass_bits: arguments.get("second")?,
        table: match arguments.0.get("table").map(String::as_str) {
            Some("linear") => TableKind::LinearProbe,
            Some("chain") => TableKind::BucketChain,
            _ => TableKind::Auto,
        },
        run_sort: if arguments.has("network") {
            RunSort::Network
        } else {
            RunSort::Radix
        },
        bloom: match arguments.0.get("bloom").map(String::as_str) {
            Some("always") => BloomUse::Always,
            Some("never") => BloomUse::Never,
            _ => BloomUse::Auto,
        },
    })
}

fn report<T: Tuple>(joined: &Joined<T>) {
    let stats = &joined.stats;
    let phases = stats.phases.iter().map(|time| {
        let milliseconds = time.elapsed.as_secs_f64() * 1e3;
        format!("{} {milliseconds:.1}", time.phase)
    });
    println!(
        "{:6} {:8} {:8.1} M/s {:8.1} ms  partitions {} passes {} filtered {} scratch {} MiB  [{}]",
        stats.algorithm.name(),
        stats.kernel,
        stats.tuples_per_s() / 1e6,
        stats.elapsed.as_secs_f64() * 1e3,
        stats.partitions,
        stats.passes,
        stats.filtered_tuples,
        stats.scratch_bytes >> 20,
        phases.collect::<Vec<_>>().join(", "),
    );
}

fn measure<T: Tuple>(arguments: &Arguments) -> Answer<()> {
    let workload = Workload {
        keys: if arguments.has("sparse") {
            KeyRange::Sparse
        } else {
            KeyRange::Dense
        },
        zipf: arguments.get("zipf")?.unwrap_or(0.0),
        match_rate: arguments.get("match")?.unwrap_or(1.0),
        repeats: arguments.get("repeats")?.unwrap_or(1),
        ..Workload::uniform(
            arguments.get("r")?.unwrap_or(100_000),
            arguments.get("s")?.unwrap_or(100_000),
        )
    };
    let threads = arguments.get("threads")?;
    let made = workload.generate::<T>(threads.unwrap_or(2));
    let names = arguments.0.get("algorithm").cloned().unwrap_or_default();
    let chosen: Vec<Algorithm> = match names.as_str() {
        "" => Algorithm::ALL.to_vec(),
        names => names.split(',').map(str::parse).collect::<Result<_, _>>()?,
    };
    let options = Options {
        kernel: arguments.get::<Kernel>("kernel")?.unwrap_or_default(),
        threads,
        tuning: tuning(arguments)?,
        ..Options::default()
    };
    let mut scratch = Scratch::new();
    for algorithm in chosen {
        let options = Options {
            algorithm,
            ..options
        };
        let mut best: Option<Joined<T>> = None;
        for _ in 0..arguments.get("runs")?.unwrap_or(3_usize) {
            let (r, s) = (Relation::new(&made.r), Relation::new(&made.s));
            let joined = join_in(&mut scratch, r, s, &options)?;
            assert_eq!(joined.totals, made.totals, "{algorithm} is wrong");
            let is_better = |best: &Joined<T>| joined.stats.elapsed < best.stats.elapsed;
            if best.as_ref().is_none_or(is_better) {
                best = Some(joined);
            }
        }
        if let Some(best) = best {
            report(&best);
        }
    }
    Ok(())
}

fn main() -> Result<(), impl Debug> {
    let arguments = Arguments::read();
    match arguments.0.get("tuple").map(String::as_str) {
        Some("16") => measure::<Tuple16>(&arguments),
        _ => measure::<Tuple8>(&arguments),
    }
}
