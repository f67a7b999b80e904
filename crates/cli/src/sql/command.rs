//! Commands of the shell: those with a backslash are PostgreSQL's, those with a dot `SQLite`'s.
//!
//! A command reads its line and nothing else, except for those that run the statement in front of
//! them (`\g` and its kin). Names of tables and files may be quoted.

use super::printer::{Input, Out};
use super::shell::{Data, Outcome, Shell};
use super::{describe, dump, edit};
use crate::files::InputFile;
use crate::output::{FormatName, stdout};
use anyhow::Result;
use clap::ValueEnum;
use client::script::Script;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;

/// Most scripts that read each other.
const DEPTH_MAX: u32 = 16;

const HELP: &str = "\
Statements end with a semicolon. Ctrl-C stops one, Ctrl-D ends the shell.

  \\d [NAME]            tables, views and sequences, or the columns and indexes of one
  \\dt \\di \\dv \\ds      tables, indexes, views, sequences   [PATTERN]
  \\dn \\du \\df \\dT \\l   schemas, roles, functions, types, databases   [PATTERN]
  .tables .schema      names of tables; statements that make them   [NAME]
  .dump                everything as a script of SQL   [NAME]
  .import FILE TABLE   rows of a CSV file with a header
  \\copy TABLE from FILE | to FILE   COPY with a file of this machine
  .read FILE, \\i FILE  run a script
  .mode FORMAT         text, json, csv, markdown, line, tsv
  \\x                   a value a line, on or off
  .timer, \\timing      times of statements, on or off
  \\g [FILE]            run the statement, or the last one again; \\gx a value a line
  \\gset [PREFIX]       keep the row in variables, used as :name or :'name'
  \\watch [SECONDS]     run the statement again and again, until Ctrl-C
  \\e                   write the statement in $VISUAL or $EDITOR
  \\o [FILE]            results go to a file
  \\set NAME VALUE, \\unset NAME, \\echo TEXT
  \\nvm                 fences, flushed lines and bytes of the last commit
  \\errverbose          the last error with its SQLSTATE
  \\q, .quit            the end
";

/// Runs a command. `place` is that of the command in a file.
pub(super) fn run(
    shell: &mut Shell,
    line: &str,
    script: &mut Script<'_>,
    place: &str,
) -> Result<Outcome> {
    let (name, rest) = match line.split_once(char::is_whitespace) {
        Some((name, rest)) => (name, rest.trim()),
        None => (line, ""),
    };
    let words = words(rest);
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    match name {
        "\\q" | ".quit" | ".exit" => shell.is_over = true,
        "\\?" | ".help" | "\\h" | "\\help" => write!(shell.out, "{HELP}")?,
        "\\x" => set_flag(&mut shell.is_expanded, word(0)),
        "\\timing" | ".timer" => set_flag(&mut shell.has_timer, word(0)),
        ".mode" => return Ok(mode(shell, word(0), place)),
        "\\pset" if word(0) == "format" => return Ok(mode(shell, word(1), place)),
        "\\echo" | "\\qecho" => writeln!(shell.out, "{}", words.join(" "))?,
        "\\set" => {
            let value = words.get(1..).unwrap_or_default().concat();
            shell.variables.insert(word(0).to_owned(), value);
        }
        "\\unset" => {
            shell.variables.remove(word(0));
        }
        "\\getenv" => {
            if let Ok(value) = std::env::var(word(1)) {
                shell.variables.insert(word(0).to_owned(), value);
            }
        }
        "\\o" | ".output" => return redirect(shell, word(0), place),
        "\\i" | "\\ir" | ".read" => return read(shell, word(0), place),
        "\\p" => writeln!(shell.out, "{}", shell.last)?,
        "\\r" => drop(script.take_buffer()),
        "\\conninfo" => writeln!(shell.out, "You are connected to \"{}\".", shell.name)?,
        "\\errverbose" => match shell.last_error.clone() {
            Some(error) => {
                super::report::tell_as(&error, "", None, super::report::Verbosity::Verbose);
            }
            None => writeln!(shell.out, "There is no previous error.")?,
        },
        "\\nvm" => return nvm(shell, place),
        "\\copy" => return copy(shell, rest, place),
        ".import" => return import(shell, &words, place),
        ".tables" => return describe::names(shell, word(0)),
        ".schema" => return dump::schema(shell, word(0)),
        ".dump" => return dump::all(shell, word(0)),
        "\\e" => return edit::edit(shell, script, place),
        "\\g" | "\\gx" | "\\gset" | "\\watch" => {
            let text = statement_before(shell, script);
            return again(shell, name, &text, word(0), place);
        }
        _ if name.starts_with("\\d") || name.starts_with("\\l") => {
            return match describe::describe(shell, &name[1..], word(0))? {
                Some(outcome) => Ok(outcome),
                None => Ok(unknown(shell, name, place)),
            };
        }
        _ => return Ok(unknown(shell, name, place)),
    }
    shell.out.flush()?;
    Ok(Outcome::Done)
}

fn unknown(shell: &mut Shell, name: &str, place: &str) -> Outcome {
    shell.refuse(place, &format!("invalid command {name}\nTry \\? for help."))
}

fn set_flag(flag: &mut bool, word: &str) {
    *flag = match word {
        "on" => true,
        "off" => false,
        _ => !*flag,
    };
}

fn mode(shell: &mut Shell, word: &str, place: &str) -> Outcome {
    match FormatName::from_str(word, true) {
        Ok(format) => shell.format = format,
        Err(_) => {
            return shell.refuse(
                place,
                &format!("there is no mode `{word}`; use text, json, csv, markdown, line or tsv"),
            );
        }
    }
    Outcome::Done
}

fn nvm(shell: &mut Shell, place: &str) -> Result<Outcome> {
    let Some(cost) = shell.client.cost() else {
        return Ok(shell.refuse(
            place,
            "no commit whose cost is known; it is known for a database in a directory, after a statement",
        ));
    };
    writeln!(shell.out, "{cost}")?;
    shell.out.flush()?;
    Ok(Outcome::Done)
}

/// The words of a line: quotes of either kind keep blanks, and two are one.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut letters = text.chars().peekable();
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        if letters.peek().is_none() {
            return words;
        }
        let mut word = String::new();
        let mut quote = None;
        while let Some(letter) =
            letters.next_if(|letter| quote.is_some() || !letter.is_whitespace())
        {
            match quote {
                None if letter == '\'' || letter == '"' => quote = Some(letter),
                Some(open) if letter == open => {
                    if letters.next_if_eq(&open).is_some() {
                        word.push(open);
                    } else {
                        quote = None;
                    }
                }
                _ => word.push(letter),
            }
        }
        words.push(word);
    }
}

/// Sends results to a file from here on, or back to standard output.
fn redirect(shell: &mut Shell, file: &str, place: &str) -> Result<Outcome> {
    shell.out.flush()?;
    if file.is_empty() || file == "stdout" {
        shell.out = Out::new(stdout());
        return Ok(Outcome::Done);
    }
    match File::create(file) {
        Ok(file) => shell.out = Out::new(std::io::BufWriter::new(file)),
        Err(error) => return Ok(shell.refuse(place, &format!("cannot write {file}: {error}"))),
    }
    Ok(Outcome::Done)
}

/// Runs a script.
pub(super) fn read(shell: &mut Shell, file: &str, place: &str) -> Result<Outcome> {
    if shell.depth == DEPTH_MAX {
        return Ok(shell.refuse(
            place,
            &format!(
                "{file} is read by {DEPTH_MAX} scripts that read each other; take out one of them"
            ),
        ));
    }
    let mut bytes = Vec::new();
    let read = InputFile::open(Path::new(file)).and_then(|mut input| {
        input.bytes.read_to_end(&mut bytes)?;
        Ok(input.name)
    });
    let name = match read {
        Ok(name) => name,
        Err(error) => return Ok(shell.refuse(place, &crate::failure::sentence(&error))),
    };
    let Ok(text) = String::from_utf8(bytes) else {
        return Ok(shell.refuse(
            place,
            &format!("{name} is not UTF-8; convert it, for example with iconv"),
        ));
    };
    shell.depth += 1;
    let outcome = shell.run(&text, Some(&name));
    shell.depth -= 1;
    outcome
}

/// The statement that is under way, or else the last one.
fn statement_before(shell: &Shell, script: &mut Script<'_>) -> String {
    let text = script.take_buffer();
    if text.trim().is_empty() {
        shell.last.clone()
    } else {
        text
    }
}

fn again(shell: &mut Shell, name: &str, text: &str, word: &str, place: &str) -> Result<Outcome> {
    match name {
        "\\gset" => keep_row(shell, text, word, place),
        "\\watch" => watch(shell, text, word, place),
        _ => {
            let (out, was_expanded) = (shell.out.clone(), shell.is_expanded);
            shell.is_expanded |= name == "\\gx";
            let redirected = match word {
                "" => Outcome::Done,
                file => redirect(shell, file, place)?,
            };
            let outcome = match redirected {
                Outcome::Done => shell.statement(text, place, None)?,
                Outcome::Failed => Outcome::Failed,
            };
            (shell.out, shell.is_expanded) = (out, was_expanded);
            Ok(outcome)
        }
    }
}

/// Keeps the only row of a statement in variables named by its columns.
fn keep_row(shell: &mut Shell, text: &str, prefix: &str, place: &str) -> Result<Outcome> {
    let text =
        client::script::substitute(text, |name| shell.variables.get(name).cloned()).into_owned();
    let Some(answers) = shell.ask(&text)? else {
        return Ok(Outcome::Failed);
    };
    let answer = answers.last().cloned().unwrap_or_default();
    let [row] = answer.rows.as_slice() else {
        return Ok(shell.refuse(
            place,
            if answer.rows.is_empty() {
                "no rows returned for \\gset"
            } else {
                "more than one row returned for \\gset"
            },
        ));
    };
    for (column, value) in answer.columns.iter().zip(row) {
        let name = format!("{prefix}{}", column.name);
        match value {
            Some(value) => drop(shell.variables.insert(name, value.clone())),
            None => drop(shell.variables.remove(&name)),
        }
    }
    Ok(Outcome::Done)
}

/// Runs a statement until it fails or Ctrl-C stops the program's wait for the next time.
fn watch(shell: &mut Shell, text: &str, seconds: &str, place: &str) -> Result<Outcome> {
    let seconds = if seconds.is_empty() { "2" } else { seconds };
    let pause = crate::args::parse_seconds(seconds);
    let pause = match pause {
        Ok(seconds) => Duration::from_secs_f64(seconds),
        Err(remedy) => {
            return Ok(shell.refuse(place, &format!("`{seconds}` is no time to wait; {remedy}")));
        }
    };
    loop {
        if shell.statement(text, place, None)? == Outcome::Failed {
            return Ok(Outcome::Failed);
        }
        if !super::interrupt::sleep(pause) {
            return Ok(Outcome::Done);
        }
    }
}

/// `\copy`: a COPY whose file is read or written here.
fn copy(shell: &mut Shell, rest: &str, place: &str) -> Result<Outcome> {
    let Some((target, direction, file, options)) = copy_parts(rest) else {
        return Ok(shell.refuse(
            place,
            "\\copy: write `\\copy TABLE from FILE OPTIONS`, or `to FILE`",
        ));
    };
    let statement = |stream: &str| format!("COPY {target} {direction} {stream} {options}");
    if direction == "from" {
        if file == "stdin" {
            return shell.statement_from(
                &statement("STDIN"),
                place,
                &mut Data::Given(Input::Lines),
            );
        }
        return match File::open(&file) {
            Ok(open) => {
                let mut data = Data::Given(Input::File(Box::new(BufReader::new(open))));
                shell.statement_from(&statement("STDIN"), place, &mut data)
            }
            Err(error) => Ok(shell.refuse(place, &format!("cannot read {file}: {error}"))),
        };
    }
    let out = shell.out.clone();
    let redirected = match file.as_str() {
        "stdout" => Outcome::Done,
        file => redirect(shell, file, place)?,
    };
    let outcome = match redirected {
        Outcome::Done => shell.statement(&statement("STDOUT"), place, None)?,
        Outcome::Failed => Outcome::Failed,
    };
    shell.out = out;
    Ok(outcome)
}

/// Target, `from` or `to`, file, and options of a `\copy`. The target may be a query in
/// parentheses.
fn copy_parts(text: &str) -> Option<(String, &'static str, String, String)> {
    let mut depth = 0_i32;
    let mut at = 0;
    for token in client::script::tokens(text) {
        match token.text {
            "(" => depth += 1,
            ")" => depth -= 1,
            word if depth == 0 && at > 0 => {
                let direction = ["from", "to"]
                    .into_iter()
                    .find(|name| word.eq_ignore_ascii_case(name));
                if let Some(direction) = direction {
                    let rest = text[at + word.len()..].trim_start();
                    let end = match rest.strip_prefix('\'') {
                        Some(quoted) => quoted.find('\'')? + 2,
                        None => rest.find(char::is_whitespace).unwrap_or(rest.len()),
                    };
                    let file = words(&rest[..end]).pop()?;
                    return Some((
                        text[..at].trim().to_owned(),
                        direction,
                        file,
                        rest[end..].trim().to_owned(),
                    ));
                }
            }
            _ => {}
        }
        at += token.text.len();
    }
    None
}

/// `.import`: rows of a CSV file.
fn import(shell: &mut Shell, words: &[String], place: &str) -> Result<Outcome> {
    let [file, table] = words else {
        return Ok(shell.refuse(place, ".import: write `.import FILE TABLE`"));
    };
    let input = match InputFile::open(Path::new(file)) {
        Ok(input) => input,
        Err(error) => return Ok(shell.refuse(place, &crate::failure::sentence(&error))),
    };
    let text = format!(
        "COPY {} FROM STDIN (FORMAT csv, HEADER true)",
        dump::quoted_path(table)
    );
    let mut data = Data::Given(Input::File(Box::new(BufReader::new(input.bytes))));
    shell.statement_from(&text, place, &mut data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_may_be_quoted() {
        assert_eq!(
            words("a  'b c' \"d\"\"e\" f'g'"),
            ["a", "b c", "d\"e", "fg"]
        );
        assert_eq!(words("'' x"), ["", "x"]);
        assert_eq!(words(""), Vec::<String>::new());
    }

    #[test]
    fn a_copy_has_a_target_a_file_and_options() {
        let parts = |text: &str| {
            copy_parts(text).map(|(target, direction, file, options)| {
                format!("{target}|{direction}|{file}|{options}")
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
        assert_eq!(parts("t to"), None);
        assert_eq!(parts("t x"), None);
    }
}
