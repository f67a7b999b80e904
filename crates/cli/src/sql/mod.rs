//! `sql`: statements on a database, from the command line, from files, or from a person.
//!
//! Everything here speaks to a [`client::Client`], so it works on a directory and on a server.
//! The commands of the shell that list objects ask PostgreSQL's catalogue, which both have.

mod against;
mod branch;
mod command;
mod complete;
mod copy;
mod describe;
mod dump;
mod edit;
mod failure;
mod interactive;
mod interrupt;
mod order;
mod parts;
mod pieces;
mod printer;
mod random;
mod report;
mod shell;
mod test;

pub(crate) use ::sql::types::function::string::quote_ident as quoted;
pub(crate) use dump::literal;
pub(crate) use interrupt::{cancel as cancel_statement, guard};

use crate::args::SqlArgs;
use crate::failure::{FAILED, Usage};
use crate::output::FormatName;
use crate::reading;
use crate::streams;
use anyhow::Result;
use client::{Address, Client, LocalClient, WireClient};
use indelible::Database;
use shell::{Outcome, Shell};
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

/// Runs `sql`. A reader who goes away ends it without a word, and with the exit code of a failure,
/// since statements may be left that were not run.
pub(crate) fn run(args: &SqlArgs, format: FormatName) -> Result<ExitCode> {
    match run_all(args, format) {
        Err(error) if streams::refusal(&error) == Some(ErrorKind::BrokenPipe) => Ok(FAILED.into()),
        ended => ended,
    }
}

fn run_all(args: &SqlArgs, format: FormatName) -> Result<ExitCode> {
    let (client, name) = open(&args.database)?;
    if !args.test.is_empty() {
        return test::run(args, &*client, format);
    }
    if let Some(statements) = args.random {
        return random::run(args, client, statements, format);
    }
    if let Some(address) = &args.against {
        return against::run(args, client, address, format);
    }
    let mut shell = Shell::new(client, name, format);
    shell.keeps_going = args.keep_going;
    shell.directory.clone_from(&args.database);
    for variable in &args.variables {
        let (name, value) = variable.split_once('=').unwrap_or((variable.as_str(), ""));
        let words = [name.to_owned(), value.to_owned()];
        if name.is_empty() || command::set(&mut shell, &words, "") == Outcome::Failed {
            return Err(Usage::error(format!(
                "-v {variable} is no setting; write -v NAME=VALUE"
            )));
        }
    }
    let mut outcome = Outcome::Done;
    for text in &args.commands {
        if outcome == Outcome::Done {
            outcome = shell.run(text)?;
        }
    }
    for file in &args.files {
        if outcome == Outcome::Done || args.keep_going {
            outcome = outcome.and(command::read(&mut shell, &file.to_string_lossy(), "")?);
        }
    }
    if args.commands.is_empty() && args.files.is_empty() {
        if std::io::stdin().is_terminal() {
            interactive::run(&mut shell)?;
        } else {
            outcome = command::read(&mut shell, "-", "")?;
        }
    }
    Ok(match outcome {
        Outcome::Done => ExitCode::SUCCESS,
        Outcome::Failed => FAILED.into(),
    })
}

/// Writes everything as a script.
pub(crate) fn dump(database: &Path, out: &mut dyn Write) -> Result<dump::Dumped> {
    let mut client = if Address::is_address(&database.to_string_lossy()) {
        open(database)?.0
    } else {
        let database = reading::open(database)?;
        database.check_rows()?;
        Box::new(LocalClient::open(database)?)
    };
    dump::write(&mut *client, out, "", dump::Extent::Everything)
}

/// A client of the database in a directory, or of the server at an address, with the name that a
/// prompt shows.
fn open(database: &Path) -> Result<(Box<dyn Client>, String)> {
    let text = database.to_string_lossy();
    if Address::is_address(&text) {
        let address: Address = text
            .parse()
            .map_err(|error| Usage::error(format!("{error}")))?;
        let client = WireClient::connect(&address)?;
        return Ok((Box::new(client), address.database));
    }
    let name = database.file_name().unwrap_or_default().to_string_lossy();
    // One that cannot be written can be read.
    let opened = match Database::open(database) {
        Err(error) if reading::cannot_write(&error) => reading::open(database)?,
        opened => opened?,
    };
    let client = LocalClient::open(opened)?;
    Ok((Box::new(client), name.into_owned()))
}
