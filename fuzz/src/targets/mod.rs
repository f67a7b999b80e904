//! Targets of hostile input, and their limits: they must not panic, hang, or take the machine's
//! memory.
//!
//! A target makes its seeds with the program's own writers and runs one input. It says whether the
//! input was *taken* (decoded, opened) rather than refused: a target that takes nothing tests only
//! its first check. Where an answer can be wrong, the target asserts, and a failed assertion is a
//! finding like any other panic.

mod archives;
mod database;
mod engine;
mod files;
mod joins;
mod planted;
mod pool;
mod records;

use crate::input::Input;
use crate::mutate::Seed;

/// Something that is given bytes.
pub struct Target {
    /// Its name on the command line.
    pub name: String,
    /// Makes the seeds; they are the same each time.
    pub seeds: Box<dyn Fn() -> Result<Vec<Seed>, String>>,
    /// Runs one input. Says whether it was taken.
    pub run: Box<dyn Fn(&Input) -> bool>,
}

impl Target {
    fn new(
        name: impl Into<String>,
        seeds: impl Fn() -> Result<Vec<Seed>, String> + 'static,
        run: impl Fn(&Input) -> bool + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            seeds: Box::new(seeds),
            run: Box::new(run),
        }
    }
}

/// All targets, from the ground up. Joins read no medium, but take whatever tuples there are, in
/// memory that they manage themselves.
pub fn all() -> Vec<Target> {
    let mut targets = records::targets();
    targets.push(pool::target());
    targets.extend(files::targets());
    targets.extend(engine::targets());
    targets.extend(archives::targets());
    targets.extend(database::targets());
    targets.push(joins::target());
    targets
}

/// Targets with a fault each, for the test of the fuzzer itself.
pub fn planted() -> Vec<Target> {
    let mut targets = planted::targets();
    targets.push(joins::planted());
    targets
}

/// An error as a sentence.
fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
