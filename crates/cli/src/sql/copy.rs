//! `\copy` and `.import`: COPY with a file of this machine.
//!
//! `\copy` reads the lines after it where its source is `stdin`, as COPY itself does, and the input
//! of the program where that is `pstdin`.

use super::command::{at_home, into_file, words};
use super::dump;
use super::failure::NamedFile;
use super::printer::Input;
use super::shell::{Data, Outcome, Shell};
use crate::files::InputFile;
use anyhow::Result;
use client::script::{Kind, Script, tokens};
use std::fs::File;
use std::path::Path;

const USAGE: &str = "\\copy: write `\\copy TABLE from FILE OPTIONS`, or `to FILE`";
const NO_PROGRAM: &str = "\\copy: programs are not run from here; give a file, or `pstdin` or `pstdout` with a pipe around `indelible sql`";

/// The parts of a `\copy`.
struct Parts {
    /// A table, or a query in parentheses.
    target: String,
    is_from: bool,
    file: String,
    /// Whether the file stands in quotes, so that its name is no word of the command.
    is_quoted: bool,
    options: String,
}

/// `\copy`: a COPY whose file is read or written here.
pub(super) fn copy(
    shell: &mut Shell,
    rest: &str,
    (script, is_file): (&mut Script<'_>, bool),
    place: &str,
) -> Result<Outcome> {
    let Some(mut parts) = parts_of(rest) else {
        return Ok(shell.refuse(place, USAGE));
    };
    parts.file = at_home(&parts.file).into_owned();
    let word = if parts.is_quoted { "" } else { &parts.file };
    let word = word.to_ascii_lowercase();
    if word == "program" {
        return Ok(shell.refuse(place, NO_PROGRAM));
    }
    let direction = if parts.is_from {
        "FROM STDIN"
    } else {
        "TO STDOUT"
    };
    let statement = format!("COPY {} {direction} {}", parts.target, parts.options);
    match (parts.is_from, word.as_str()) {
        (true, "stdin") if is_file || shell.terminal.is_some() => {
            script.skip_line();
            let mut data = Data::script(script, shell.terminal.clone());
            shell.statement_from(&statement, place, &mut data)
        }
        (true, "stdin" | "pstdin") => {
            shell.statement_from(&statement, place, &mut Data::Given(Input::Lines))
        }
        (true, _) => match File::open(&parts.file) {
            Ok(file) => from_file(shell, &statement, (Box::new(file), parts.file), place),
            Err(error) => Ok(shell.refuse(place, &format!("cannot read {}: {error}", parts.file))),
        },
        (false, "stdout") => shell.statement(&statement, place),
        (false, "pstdout") => into_file(shell, "stdout", place, |shell| {
            shell.statement(&statement, place)
        }),
        (false, _) => into_file(shell, &parts.file, place, |shell| {
            shell.statement(&statement, place)
        }),
    }
}

fn from_file(
    shell: &mut Shell,
    statement: &str,
    (file, name): (Box<dyn std::io::Read>, String),
    place: &str,
) -> Result<Outcome> {
    let mut data = Data::Given(Input::File(NamedFile { file, name }));
    shell.statement_from(statement, place, &mut data)
}

fn parts_of(text: &str) -> Option<Parts> {
    let (mut depth, mut at) = (0_i32, 0);
    for token in tokens(text) {
        let word = token.text;
        match word {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ if depth == 0 && at > 0 && token.kind == Kind::Word => {
                let is_from = word.eq_ignore_ascii_case("from");
                if is_from || word.eq_ignore_ascii_case("to") {
                    let rest = text[at + word.len()..].trim_start();
                    let first = tokens(rest).next()?;
                    let is_quoted = first.kind == Kind::Text && first.is_closed;
                    let end = if is_quoted {
                        first.text.len()
                    } else {
                        rest.find(char::is_whitespace).unwrap_or(rest.len())
                    };
                    return Some(Parts {
                        target: text[..at].trim().to_owned(),
                        is_from,
                        file: words(&rest[..end], None).pop()?,
                        is_quoted,
                        options: rest[end..].trim().trim_end_matches(';').to_owned(),
                    });
                }
            }
            _ => {}
        }
        at += word.len();
    }
    None
}

/// `.import`: rows of a CSV file.
pub(super) fn import(shell: &mut Shell, words: &[String], place: &str) -> Result<Outcome> {
    let [file, table] = words else {
        return Ok(shell.refuse(place, ".import: write `.import FILE TABLE`"));
    };
    let input = match InputFile::open(Path::new(&*at_home(file))) {
        Ok(input) => input,
        Err(error) => return Ok(shell.refuse(place, &crate::failure::sentence(&error))),
    };
    let text = format!(
        "COPY {} FROM STDIN (FORMAT csv, HEADER true)",
        dump::quoted_path(table)
    );
    from_file(shell, &text, (input.bytes, input.name), place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_a_target_a_file_and_options() {
        let parts = |text: &str| {
            parts_of(text).map(|parts| {
                let direction = if parts.is_from { "from" } else { "to" };
                format!(
                    "{}|{direction}|{}|{}",
                    parts.target, parts.file, parts.options
                )
            })
        };
        assert_eq!(
            parts("t(a, b) FROM 'x y.csv' csv header").unwrap(),
            "t(a, b)|from|x y.csv|csv header"
        );
        assert_eq!(
            parts("(select a from t) to stdout").unwrap(),
            "(select a from t)|to|stdout|"
        );
        assert_eq!(parts("t from 'it''s.csv';").unwrap(), "t|from|it's.csv|");
        assert_eq!(parts("t to"), None);
        assert_eq!(parts("t x"), None);
    }
}
