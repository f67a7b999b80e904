//! The worker: a process that runs one target over many inputs, until its time is over or it dies.
//!
//! A panic is caught and reported on standard output, one line each: `failure`, the input's number,
//! what happened. Before each input its number is written to the progress file, so that the
//! supervisor knows what killed a worker: an abort, a stack overflow, a signal, an allocation
//! beyond the limit. The limit on memory is one of the operating system (private writable memory),
//! so it counts what is mapped as well as what is allocated.

use crate::input::Input;
use crate::mutate::Seed;
use crate::random::Random;
use crate::targets::Target;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest time of one input.
pub const INPUT_TIME_MAX: Duration = Duration::from_secs(1);
/// Most memory that an input may take, beyond what the worker has when it begins.
pub const MEMORY_BYTES_MAX: u64 = 256 << 20;

/// Which inputs a worker runs.
pub struct Job<'j> {
    /// The run's seed.
    pub seed: u64,
    /// Number of the first input.
    pub first: u64,
    /// Time for all of them.
    pub time: Duration,
    /// Where the number of the current input is kept.
    pub progress: &'j Path,
}

/// Outcome of one input.
enum Verdict {
    Taken,
    Refused,
    Failed(String),
}

/// Runs inputs until the time is over; the outcome is told on standard output.
pub fn work(target: &Target, saved: &[Input], job: &Job<'_>) -> Result<(), String> {
    let seeds = (target.seeds)()?;
    let progress = File::create(job.progress).map_err(|error| error.to_string())?;
    let panics = catch_panics();
    limit_memory()?;
    let (start, mut number, mut taken) = (Instant::now(), job.first, 0_u64);
    while start.elapsed() < job.time {
        // A worker that dies here is judged by this number.
        progress
            .write_at(&number.to_le_bytes(), 0)
            .map_err(|error| error.to_string())?;
        let input = input_of(&target.name, &seeds, saved, job.seed, number);
        match judge(target, &input, &panics) {
            Verdict::Taken => taken += 1,
            Verdict::Refused => {}
            Verdict::Failed(what) => println!("failure\t{number}\t{what}"),
        }
        number += 1;
    }
    println!("done\t{}\t{taken}", number - job.first);
    Ok(())
}

/// Runs one input; the error says what it did.
pub fn replay(target: &Target, input: &Input) -> Result<(), String> {
    let panics = catch_panics();
    limit_memory()?;
    match judge(target, input, &panics) {
        Verdict::Failed(what) => Err(what),
        Verdict::Taken | Verdict::Refused => Ok(()),
    }
}

/// Input number `number` of a run. Saved inputs come first and as they are, later also mutated.
pub fn input_of(target: &str, seeds: &[Seed], saved: &[Input], seed: u64, number: u64) -> Input {
    if let Some(input) = saved.get(number as usize) {
        return input.clone();
    }
    let mut random = Random::of_input(target, seed, number);
    if random.once_in(8)
        && let Some(input) = random.pick(saved)
    {
        return Seed::plain(input.clone()).mutated(&mut random);
    }
    let found = random.pick(seeds);
    found.map_or_else(Input::default, |seed| seed.mutated(&mut random))
}

fn judge(target: &Target, input: &Input, panics: &Mutex<String>) -> Verdict {
    let mut slow = Duration::ZERO;
    // A machine that was busy is given a second chance.
    for _ in 0..2 {
        let start = Instant::now();
        let answer = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
        slow = start.elapsed();
        match answer {
            Err(_) => {
                let message = panics.lock().unwrap_or_else(PoisonError::into_inner);
                return Verdict::Failed(message.replace(['\n', '\t'], " "));
            }
            Ok(true) if slow < INPUT_TIME_MAX => return Verdict::Taken,
            Ok(false) if slow < INPUT_TIME_MAX => return Verdict::Refused,
            Ok(_) => {}
        }
    }
    Verdict::Failed(format!("took {} ms", slow.as_millis()))
}

/// Keeps the newest panic's place and message instead of printing them.
fn catch_panics() -> Arc<Mutex<String>> {
    let newest = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&newest);
    panic::set_hook(Box::new(move |info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let message = info.payload_as_str().unwrap_or("a panic without a message");
        *kept.lock().unwrap_or_else(PoisonError::into_inner) =
            format!("panicked at {place}: {message}");
    }));
    newest
}

fn limit_memory() -> Result<(), String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    let used = kibibytes.ok_or("the kernel does not tell how much memory is in use")? << 10;
    let limit = Rlimit {
        current: Some(used + MEMORY_BYTES_MAX),
        maximum: getrlimit(Resource::Data).maximum,
    };
    setrlimit(Resource::Data, limit).map_err(|error| error.to_string())
}
