//! The `indelible` program: try, operate, measure and torture a database from the command line.
//!
//! Each command is a module of its own; this file only chooses. Results go to standard output,
//! everything else to standard error. A failure is one sentence there and an exit code (see
//! [`failure`]).

mod advise;
mod args;
mod backup;
mod bench;
mod columns;
mod completions;
mod convert;
mod create;
mod dump;
mod export;
mod failure;
mod files;
mod import;
mod inspect;
mod kill;
mod lab;
mod machine;
mod output;
mod printable;
mod progress;
mod query;
mod quickstart;
mod reading;
mod repair;
mod report;
mod restore;
mod scratch;
mod serve;
mod sheet;
mod sql;
mod sqlite;
mod streams;
mod tables;
mod torture;

use anyhow::Result;
use args::{Command, CommandLine, RoleCommand};
use failure::Work;
use output::Format;
use std::io::ErrorKind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let line = args::parse();
    // A server has an end of its own.
    if !matches!(line.command, Command::Serve(_)) {
        scratch::remove_on_interrupt();
    }
    // For a script, "cannot be checked" and "is damaged" are different answers.
    let is_check = matches!(line.command, Command::Verify(_));
    let work = Work::before_the_report(&line.command);
    let outcome = run(line).and_then(|code| {
        match streams::flush() {
            // The reader that has gone away made the command fail already.
            Err(error) if error.kind() == ErrorKind::BrokenPipe && code != ExitCode::SUCCESS => {}
            flushed => flushed?,
        }
        Ok(code)
    });
    outcome.unwrap_or_else(|error| match failure::tell(&error, work) {
        failure::FAILED if is_check => failure::UNUSABLE.into(),
        code => code.into(),
    })
}

fn run(line: CommandLine) -> Result<ExitCode> {
    let format = Format::try_from(line.format);
    match line.command {
        Command::Quickstart(args) => quickstart::run(&args, format?)?,
        Command::Victim(args) => kill::victim::run(&args)?,
        Command::Torture(args) => return torture::run(&args, format?),
        Command::Create(args) => create::run(&args, format?)?,
        Command::Import(args) => import::run(&args, format?)?,
        Command::Export(args) => export::run(&args, format?)?,
        Command::Dump(args) => dump::dump(&args, format?)?,
        Command::Load(args) => dump::load(&args, format?)?,
        Command::Backup(args) => backup::run(&args, format?)?,
        Command::Restore(args) => restore::run(&args, format?)?,
        Command::Convert(args) => convert::run(&args, format?)?,
        Command::Tables(command) => tables::run_tables(&command, format?)?,
        Command::Indexes(command) => tables::run_indexes(&command, format?)?,
        Command::Describe(args) => tables::describe(&args, format?)?,
        Command::Get(args) => query::get(&args, format?)?,
        Command::Scan(args) => query::scan(&args, format?)?,
        Command::Sql(args) => return sql::run(&args, line.format),
        Command::Serve(args) => serve::run(&args)?,
        Command::Config(args) => serve::show_configuration(&args, format?)?,
        Command::Role(RoleCommand::Create(args)) => serve::create_role(&args)?,
        Command::Info(args) => inspect::info(&args, format?)?,
        Command::Verify(args) => return inspect::verify(&args, format?),
        Command::Repair(args) => return repair::run(&args, format?),
        Command::Shrink(args) => inspect::shrink(&args, format?)?,
        Command::Device(args) => inspect::device(&args, format?)?,
        Command::Bench(command) => bench::run(command, format?)?,
        Command::Completions(args) => completions::run(&args)?,
        Command::Lab(command) => return lab::run(&command, format?),
        Command::Advise(args) => advise::run(&args, format?)?,
    }
    Ok(ExitCode::SUCCESS)
}
