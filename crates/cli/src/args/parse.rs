//! The command line as it was typed: how it is parsed, and how it is refused.
//!
//! A negative number is a value of the option before it, so that the answer is the option's range.
//! The text may come from a script or a file's name, so an error shows it without its control
//! characters.

use super::CommandLine;
use crate::failure::{self, Work};
use crate::printable::{printable, printable_lines};
use crate::streams;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, FromArgMatches};
use std::error::Error as _;
use std::ffi::OsString;
use std::num::ParseIntError;

/// Reads the arguments of this process; ends it with an error or a help text if they are none.
pub(crate) fn parse() -> CommandLine {
    let words: Vec<OsString> = std::env::args_os().collect();
    match read(&words) {
        Ok(line) => line,
        Err(error) => refuse(&error, &words),
    }
}

/// The command line with everything that [`parse`] accepts.
pub(crate) fn command() -> Command {
    accept_negative_numbers(CommandLine::command())
}

fn read(words: &[OsString]) -> Result<CommandLine, clap::Error> {
    CommandLine::from_arg_matches(&command().try_get_matches_from(words)?)
}

fn accept_negative_numbers(command: Command) -> Command {
    let accept = |arg: Arg| {
        let takes_value = arg.get_action().takes_values();
        arg.allow_negative_numbers(takes_value)
    };
    command
        .mut_args(accept)
        .mut_subcommands(accept_negative_numbers)
}

/// Prints an error and ends the process.
fn refuse(error: &clap::Error, words: &[OsString]) -> ! {
    if !error.use_stderr() {
        let printed = streams::help(error);
        let code = printed.map_or_else(|error| failure::tell(&error, Work::Printing), |()| 0);
        std::process::exit(code.into());
    }
    let Some(text) = sentence(error, words) else {
        error.exit();
    };
    streams::tell(text.trim_end_matches('\n'));
    std::process::exit(error.exit_code());
}

/// The text of an error, if the parser's own will not do.
fn sentence(error: &clap::Error, words: &[OsString]) -> Option<String> {
    if !error.use_stderr() {
        return None;
    }
    if let Some(range) = range(error, words) {
        let problem = error.source()?.to_string();
        return Some(error.render().to_string().replace(&problem, &range));
    }
    let tame: Vec<OsString> = words
        .iter()
        .map(|word| printable(&word.to_string_lossy()).into_owned().into())
        .collect();
    if tame == words {
        return None;
    }
    // The parser's own text may have lost the control characters or still have them, so it is asked
    // again without any.
    let text = read(&tame)
        .err()
        .map_or_else(|| error.render(), |error| error.render());
    Some(printable_lines(&text.to_string()).into_owned())
}

/// The range of an option that was given a number below zero or beyond its type. The parser tells a
/// range only of numbers that it can read, so it is asked about 0.
fn range(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let is_of_number = error.source()?.is::<ParseIntError>();
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidValue) else {
        return None;
    };
    let digits = given.strip_prefix('-').unwrap_or(given);
    if !is_of_number || digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let with_zero = words.iter().map(|word| {
        let text = word.to_string_lossy();
        match text.strip_suffix(given.as_str()) {
            Some(before) if before.is_empty() || before.ends_with('=') => {
                format!("{before}0").into()
            }
            _ => word.clone(),
        }
    });
    let of_zero = read(&with_zero.collect::<Vec<_>>()).err();
    let told = of_zero
        .filter(|error| error.kind() == ErrorKind::ValueValidation)
        .and_then(|error| error.source().map(ToString::to_string))
        .and_then(|text| text.strip_prefix("0 is not in ").map(str::to_owned));
    let range = told.unwrap_or_else(|| format!("0..={}", u64::MAX));
    Some(format!("{given} is not in {range}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = read(&words).unwrap_err();
        sentence(&error, &words).unwrap_or_else(|| error.render().to_string())
    }

    #[test]
    fn a_negative_number_gets_the_range() {
        for (line, range) in [
            (
                "indelible scan d t --limit -1",
                "-1 is not in 0..=18446744073709551615",
            ),
            (
                "indelible scan d t --limit=-1",
                "-1 is not in 0..=18446744073709551615",
            ),
            (
                "indelible create d --partitions -1",
                "-1 is not in 1..=1024",
            ),
            (
                "indelible create d --node-bytes -256",
                "-256 is not in 128..=16384",
            ),
            ("indelible torture --all --images -5", "-5 is not in 1.."),
            ("indelible bench ycsb --method inp --seconds -1", "above 0"),
            (
                "indelible scan d t --limit 99999999999999999999",
                "is not in 0..=18446744073709551615",
            ),
        ] {
            let text = refused(line);
            assert!(text.contains(range), "{line}: {text}");
            assert!(!text.contains("unexpected argument"), "{line}: {text}");
        }
    }

    #[test]
    fn negative_keys_are_still_keys() {
        for line in [
            "indelible get d t -1",
            "indelible scan d t --from -1 --to -0.5",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert!(read(&words).is_ok(), "{line}");
        }
    }

    #[test]
    fn an_error_shows_what_was_typed_without_its_commands() {
        let text = refused("indelible create d --method \u{1b}[31m");
        assert!(
            text.contains("\\u{1b}[31m") && !text.contains('\u{1b}'),
            "{text}"
        );
        let text = refused("indelible \u{202e}create");
        assert!(
            text.contains("\\u{202e}") && !text.contains('\u{202e}'),
            "{text}"
        );
    }
}
