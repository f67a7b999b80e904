//! `completions`: a script that lets a shell complete commands and options.
//!
//! It is made from the same description of the command line that reads it, so it knows every
//! option.

use crate::args::{self, CompletionsArgs};
use crate::output::stdout;
use anyhow::Result;
use std::io::Write;

/// Runs the command.
pub(crate) fn run(args: &CompletionsArgs) -> Result<()> {
    // The generator panics where it cannot write, so it writes into memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "indelible", &mut script);
    let mut out = stdout();
    out.write_all(&script)?;
    Ok(out.flush()?)
}
