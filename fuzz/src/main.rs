//! Fuzzing with hostile bytes: every reader of a medium is given mutated files of our own making.
//!
//! An input fails if the program panics, takes more than a second or more than 256 MiB, or dies. It
//! is saved, and one line is printed that replays it. Inputs are a function of target, seed and
//! number, so a run repeats; there is no feedback from coverage, and no need of a nightly compiler.
//! Half of the inputs have their checksums made right again.
//!
//! ```sh
//! cargo run --release --manifest-path fuzz/Cargo.toml -- --target all --seconds 120 --seed 1
//! ```

mod files;
mod find;
mod input;
mod mutate;
mod random;
mod seal;
mod supervise;
mod targets;
mod worker;

use input::Input;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use supervise::Run;
use targets::Target;
use worker::Job;

const HELP: &str = "\
Gives hostile bytes to every reader of a medium.

    fuzz [--target NAME|all] [--seconds S] [--seed S]    all targets share the seconds
    fuzz --target NAME --replay FILE                     one saved input
    fuzz --list                                          the targets and their seeds

    --artifacts DIR                                      where faults are saved, instead of fuzz/artifacts

A fixed fault moves to fuzz/corpus/TARGET, which is run first.
Exit code: 0 nothing found, 1 faults, 2 the run itself failed.";

/// Arguments of the command line.
struct Arguments {
    target: String,
    seconds: u64,
    seed: u64,
    replay: Option<PathBuf>,
    artifacts: PathBuf,
    list: bool,
    worker: bool,
    first: u64,
    milliseconds: u64,
    progress: PathBuf,
}

impl Arguments {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut found = Self {
            target: "all".to_owned(),
            seconds: 60,
            seed: 1,
            replay: None,
            artifacts: home().join("artifacts"),
            list: false,
            worker: false,
            first: 0,
            milliseconds: 0,
            progress: PathBuf::new(),
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
            let number = |text: String| {
                text.parse::<u64>()
                    .map_err(|_| format!("{word} {text}: a number is wanted"))
            };
            match word.as_str() {
                "--target" => found.target = value()?,
                "--seconds" => found.seconds = number(value()?)?,
                "--seed" => found.seed = number(value()?)?,
                "--replay" => found.replay = Some(value()?.into()),
                "--artifacts" => found.artifacts = value()?.into(),
                "--list" => found.list = true,
                "--worker" => found.worker = true,
                "--first" => found.first = number(value()?)?,
                "--milliseconds" => found.milliseconds = number(value()?)?,
                "--progress" => found.progress = value()?.into(),
                _ => return Err(HELP.to_owned()),
            }
        }
        Ok(found)
    }
}

fn main() -> ExitCode {
    match Arguments::read(std::env::args().skip(1)).and_then(|arguments| run(&arguments)) {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let mut targets = targets::all();
    if arguments.target != "all" {
        targets.extend(targets::planted());
        targets.retain(|target| target.name == arguments.target);
    }
    let Some(target) = targets.first() else {
        let names: Vec<String> = targets::all()
            .into_iter()
            .map(|target| target.name)
            .collect();
        return Err(format!(
            "there is no target {}; there are {}",
            arguments.target,
            names.join(", ")
        ));
    };
    if arguments.worker {
        let job = Job {
            seed: arguments.seed,
            first: arguments.first,
            time: Duration::from_millis(arguments.milliseconds),
            progress: &arguments.progress,
        };
        worker::work(target, &saved_inputs(&target.name)?, &job)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.list {
        return list(&targets);
    }
    if let Some(path) = &arguments.replay {
        return Ok(match worker::replay(target, &Input::load(path)?) {
            Ok(()) => {
                println!("{}: nothing happened", path.display());
                ExitCode::SUCCESS
            }
            Err(what) => {
                println!("{}: {what}", path.display());
                ExitCode::from(1)
            }
        });
    }
    fuzz(&targets, arguments)
}

fn list(targets: &[Target]) -> Result<ExitCode, String> {
    for target in targets {
        let seeds = (target.seeds)()?;
        let bytes: usize = seeds
            .iter()
            .flat_map(|seed| &seed.input.parts)
            .map(|part| part.bytes.len())
            .sum();
        let seals: usize = seeds.iter().map(|seed| seed.seals.len()).sum();
        println!(
            "{}: {} seeds, {bytes} bytes, {seals} checksums",
            target.name,
            seeds.len()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs each target for its share of the time.
fn fuzz(targets: &[Target], arguments: &Arguments) -> Result<ExitCode, String> {
    let scratch = files::Scratch::new("supervisor").map_err(|error| error.to_string())?;
    let share = Duration::from_secs(arguments.seconds) / targets.len() as u32;
    let mut faults = 0;
    for target in targets {
        let run = Run {
            target,
            seed: arguments.seed,
            time: share,
            saved: &saved_inputs(&target.name)?,
            artifacts: &arguments.artifacts,
            scratch: scratch.path(),
        };
        let outcome = run.go()?;
        println!(
            "{}: {} inputs, {} taken, {} faults",
            target.name,
            outcome.inputs,
            outcome.taken,
            outcome.faults.len()
        );
        for (what, path) in &outcome.faults {
            println!(
                "  {what}\n    cargo run --release --manifest-path fuzz/Cargo.toml -- --target {} --replay {}",
                target.name,
                path.display()
            );
        }
        faults += outcome.faults.len();
    }
    Ok(if faults == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

/// The folder of this workspace.
fn home() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Inputs that were faults once and are fixed, by name.
fn saved_inputs(target: &str) -> Result<Vec<Input>, String> {
    let folder: &Path = &home().join("corpus").join(target);
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().map(|path| Input::load(path)).collect()
}
