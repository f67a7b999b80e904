//! Commands of the shell: those with a backslash are PostgreSQL's, those with a dot `SQLite`'s.
//!
//! A command reads its line and nothing else, except for those that run the statement in front of
//! them (`\g` and its kin). Names of tables and files may be quoted.

use super::branch::truth;
use super::failure::{FileFailure, NamedFile, failure_of};
use super::printer::Out;
use super::shell::{Outcome, Shell};
use super::{copy, describe, dump, edit};
use crate::files::{InputFile, is_standard};
use crate::output::{FormatName, stdout};
use anyhow::Result;
use clap::ValueEnum;
use client::script::{Script, reference, substitute};
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
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
  .read FILE, \\i FILE  run a script; \\ir FILE one beside the script that says so
  .mode FORMAT         text, json, csv, markdown, line, tsv
  \\x                   a value a line, on or off
  .timer, \\timing      times of statements, on or off
  \\g [FILE]            run the statement, or the last one again; \\gx a value a line
  \\gexec              run the values of its rows as statements
  \\gset [PREFIX]       keep the row in variables, used as :name or :'name'
  \\watch [SECONDS]     run the statement again and again, until Ctrl-C
  \\e [FILE]            write the statement, or a file, in $VISUAL or $EDITOR
  \\p, \\r               show or forget the statement that is under way
  \\if, \\elif, \\else, \\endif   parts of scripts that run or do not
  \\o [FILE]            results go to a file
  \\set NAME VALUE, \\unset NAME, \\echo TEXT, \\warn TEXT
  \\cd FOLDER, \\! COMMAND   the folder of files, a command of the system
  \\nvm                 fences, flushed lines and bytes of the last commit
  \\errverbose          the last error with its SQLSTATE
  \\q, .quit            the end
";

/// Runs a command. `place` is that of the command in a file; the flag tells whether the script is
/// a file.
pub(super) fn run(
    shell: &mut Shell,
    line: &str,
    (script, is_file): (&mut Script<'_>, bool),
    place: &str,
) -> Result<Outcome> {
    let (name, written) = match line.split_once(char::is_whitespace) {
        Some((name, rest)) => (name, rest.trim()),
        None => (line, ""),
    };
    // A semicolon after a command has no meaning, and people write it.
    let name = name.trim_end_matches(';');
    if shell.restricted.is_some() && name != "\\unrestrict" {
        let sentence = "backslash commands are restricted; only \\unrestrict is allowed";
        return Ok(shell.refuse(place, sentence));
    }
    // Commands in backquotes are none of ours on the lines of some, and may not run for one.
    let words = match name {
        "\\!" | "\\copy" => Vec::new(),
        "\\unrestrict" => words(written, None),
        _ => words(written, Some(&|name| shell.variable(name))),
    };
    let rest = substitute(written, |name| shell.variable(name)).into_owned();
    let rest = rest.as_str();
    if let Some(outcome) = setting(shell, name, &words, place) {
        return Ok(outcome);
    }
    if prints(shell, name, &words, script)? {
        shell.out.flush()?;
        return Ok(Outcome::Done);
    }
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    match name {
        "\\q" | ".quit" | ".exit" => shell.is_over = true,
        "\\r" => drop(script.take_buffer()),
        "\\!" => return run_program(shell, rest, place),
        "\\o" | ".output" => return redirect(shell, word(0), place),
        "\\i" | ".read" => return read(shell, word(0), place),
        "\\ir" => return read_beside(shell, word(0), place),
        "\\nvm" => return nvm(shell, place),
        "\\copy" => return copy::copy(shell, rest, (script, is_file), place),
        ".import" => return copy::import(shell, &words, place),
        ".tables" => return describe::names(shell, describe::first_pattern(rest)),
        ".schema" => return dump::schema(shell, word(0)),
        ".dump" => return dump::all(shell, word(0)),
        "\\e" => return Ok(edit::edit(shell, script, word(0), place)),
        "\\g" | "\\gx" | "\\gset" | "\\gexec" | "\\watch" => {
            let text = statement_under_way(shell, script).to_owned();
            script.take_buffer();
            return again(shell, name, &text, word(0), place);
        }
        _ if name.starts_with("\\d") || name.starts_with("\\l") => {
            let pattern = describe::first_pattern(rest);
            return match describe::describe(shell, &name[1..], pattern)? {
                Some(outcome) => Ok(outcome),
                None => Ok(unknown(shell, name, place)),
            };
        }
        "\\pset" | "\\a" | "\\t" | "\\H" | "\\f" | "\\C" | "\\T" => {
            let sentence = format!(
                "{name} is not supported; choose text, json, csv, markdown, line or tsv by .mode"
            );
            return Ok(shell.refuse(place, &sentence));
        }
        _ => return Ok(unknown(shell, name, place)),
    }
    Ok(Outcome::Done)
}

/// Runs a command that changes a setting of the shell; none if it is another one.
fn setting(shell: &mut Shell, name: &str, words: &[String], place: &str) -> Option<Outcome> {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    match name {
        "\\x" => {
            return Some(set_flag(
                shell,
                |shell| &mut shell.is_expanded,
                word(0),
                place,
            ));
        }
        "\\timing" | ".timer" => {
            return Some(set_flag(
                shell,
                |shell| &mut shell.has_timer,
                word(0),
                place,
            ));
        }
        ".mode" => return Some(mode(shell, word(0), place)),
        "\\pset" if word(0) == "format" => return Some(mode(shell, word(1), place)),
        "\\set" if !words.is_empty() => return Some(set(shell, words, place)),
        "\\unset" => {
            shell.variables.remove(word(0));
        }
        "\\getenv" => {
            if let Ok(value) = std::env::var(word(1)) {
                shell.variables.insert(word(0).to_owned(), value);
            }
        }
        "\\restrict" if word(0).is_empty() => {
            return Some(shell.refuse(place, "\\restrict: missing key"));
        }
        "\\restrict" => shell.restricted = Some(word(0).to_owned()),
        "\\unrestrict" => return Some(unrestrict(shell, word(0), place)),
        "\\cd" => return Some(change_directory(shell, word(0), place)),
        "\\encoding" if word(0).to_ascii_uppercase().replace('-', "") == "UTF8" => {}
        _ => return None,
    }
    Some(Outcome::Done)
}

/// Runs a command that only prints; false if it is another one.
fn prints(shell: &mut Shell, name: &str, words: &[String], script: &Script<'_>) -> Result<bool> {
    match name {
        "\\?" | ".help" | "\\h" | "\\help" => write!(shell.out, "{HELP}")?,
        "\\echo" | "\\qecho" => match words.split_first() {
            Some((option, rest)) if option == "-n" => write!(shell.out, "{}", rest.join(" "))?,
            _ => writeln!(shell.out, "{}", words.join(" "))?,
        },
        "\\warn" => crate::streams::tell(&words.join(" ")),
        "\\set" => {
            for (name, value) in &shell.variables {
                writeln!(shell.out, "{name} = '{value}'")?;
            }
        }
        "\\encoding" if words.is_empty() => writeln!(shell.out, "UTF8")?,
        "\\p" => {
            let text = statement_under_way(shell, script).to_owned();
            writeln!(shell.out, "{text}")?;
        }
        "\\conninfo" => writeln!(shell.out, "You are connected to \"{}\".", shell.name)?,
        "\\errverbose" => match shell.last_error.clone() {
            Some(error) => {
                super::report::tell_as(&error, "", None, super::report::Verbosity::Verbose);
            }
            None => writeln!(shell.out, "There is no previous error.")?,
        },
        _ => return Ok(false),
    }
    Ok(true)
}

fn unknown(shell: &mut Shell, name: &str, place: &str) -> Outcome {
    shell.refuse(place, &format!("invalid command {name}\nTry \\? for help."))
}

fn set_flag(
    shell: &mut Shell,
    flag: impl Fn(&mut Shell) -> &mut bool,
    word: &str,
    place: &str,
) -> Outcome {
    let value = match word {
        "" => !*flag(shell),
        word => match truth(word) {
            Some(value) => value,
            None => {
                return shell.refuse(
                    place,
                    &format!("there is no setting `{word}`; use on or off"),
                );
            }
        },
    };
    *flag(shell) = value;
    Outcome::Done
}

/// Sets a variable. Those by which PostgreSQL's shell runs statements in another way do so here, or
/// are refused.
pub(super) fn set(shell: &mut Shell, words: &[String], place: &str) -> Outcome {
    let (name, value) = (words[0].clone(), words[1..].concat());
    let is_on = truth(&value);
    let refused = match name.as_str() {
        "AUTOCOMMIT" if is_on == Some(false) => "each statement commits for itself; write BEGIN",
        "ON_ERROR_ROLLBACK" if is_on != Some(false) => "write SAVEPOINT and ROLLBACK TO",
        "SINGLELINE" | "SINGLESTEP" if is_on != Some(false) => "a statement ends with a semicolon",
        _ => "",
    };
    if !refused.is_empty() {
        return shell.refuse(
            place,
            &format!("\\set {name} {value} is not supported; {refused}"),
        );
    }
    if name == "ON_ERROR_STOP" {
        shell.keeps_going = is_on == Some(false);
    }
    shell.variables.insert(name, value);
    Outcome::Done
}

fn unrestrict(shell: &mut Shell, key: &str, place: &str) -> Outcome {
    match shell.restricted.as_deref() {
        None => shell.refuse(place, "\\unrestrict: not currently in restricted mode"),
        Some(known) if known != key => shell.refuse(place, "\\unrestrict: wrong key"),
        Some(_) => {
            shell.restricted = None;
            Outcome::Done
        }
    }
}

fn change_directory(shell: &mut Shell, folder: &str, place: &str) -> Outcome {
    let folder = at_home(if folder.is_empty() { "~" } else { folder });
    match std::env::set_current_dir(&*folder) {
        Ok(()) => Outcome::Done,
        Err(error) => shell.refuse(place, &format!("cannot change to {folder}: {error}")),
    }
}

/// The name of a file, with the user's own folder in the place of a first `~`.
pub(super) fn at_home(file: &str) -> Cow<'_, str> {
    let rest = file.strip_prefix('~');
    match (rest, std::env::var("HOME")) {
        (Some(rest), Ok(home)) if rest.is_empty() || rest.starts_with('/') => (home + rest).into(),
        _ => file.into(),
    }
}

/// Runs a command of the system's shell, or that shell.
fn run_program(shell: &mut Shell, command: &str, place: &str) -> Result<Outcome> {
    shell.out.flush()?;
    let mut program = Command::new("sh");
    if !command.is_empty() {
        program.args(["-c", command]);
    }
    Ok(match program.status() {
        Ok(_) => Outcome::Done,
        Err(error) => shell.refuse(place, &format!("cannot run sh: {error}")),
    })
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

/// The value of a variable, if it is set.
type Values<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The words of a line: quotes of either kind keep blanks, and two are one. Outside of quotes there
/// may be variables, whose values are not cut, and in single ones escapes, unless `values` is none.
pub(super) fn words(text: &str, values: Option<Values<'_>>) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let mut word = String::new();
        while let Some(letter) = rest.chars().next().filter(|one| !one.is_whitespace()) {
            let variable = values.and_then(|values| reference(rest, values));
            rest = if let Some((value, length)) = variable {
                word.push_str(&value);
                &rest[length..]
            } else if let Some((command, after)) = in_backquotes(rest).filter(|_| values.is_some())
            {
                word.push_str(&output_of(command));
                after
            } else if letter == '\'' || letter == '"' {
                let has_escapes = letter == '\'' && values.is_some();
                unquote(&rest[1..], (letter, has_escapes), &mut word)
            } else {
                word.push(letter);
                &rest[letter.len_utf8()..]
            };
        }
        words.push(word);
        rest = rest.trim_start();
    }
    words
}

/// The command of the system's shell that a text begins with, and the text after it.
fn in_backquotes(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('`')?.split_once('`')
}

/// The standard output of a command of the system's shell, without the end of its last line. One
/// that fails has told why, and has none.
fn output_of(command: &str) -> String {
    let mut program = Command::new("sh");
    program.args(["-c", command]).stderr(Stdio::inherit());
    let output = program.output().ok().filter(|one| one.status.success());
    let bytes = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.trim_end_matches(['\n', '\r']).to_owned()
}

/// Adds a text after its quote to a word, and returns the text after the other quote.
fn unquote<'a>(text: &'a str, (quote, has_escapes): (char, bool), word: &mut String) -> &'a str {
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        if letter == quote {
            match rest.strip_prefix(quote) {
                Some(after) => rest = after,
                None => return rest,
            }
        }
        if letter == '\\' && has_escapes {
            rest = unescape(rest, word);
        } else {
            word.push(letter);
        }
    }
    rest
}

/// Adds the character of an escape after its backslash to a word, and returns the text after it.
fn unescape<'a>(text: &'a str, word: &mut String) -> &'a str {
    let Some(letter) = text.chars().next() else {
        return text;
    };
    let (digits, radix, most) = match letter {
        'x' => (&text[1..], 16, 2),
        _ => (text, 8, 3),
    };
    let count = digits
        .chars()
        .take(most)
        .take_while(|one| one.is_digit(radix))
        .count();
    let code = u32::from_str_radix(&digits[..count], radix);
    if let Some(code) = code.ok().and_then(char::from_u32) {
        word.push(code);
        return &digits[count..];
    }
    word.push(match letter {
        'n' => '\n',
        't' => '\t',
        'b' => '\u{8}',
        'r' => '\r',
        'f' => '\u{c}',
        other => other,
    });
    &text[letter.len_utf8()..]
}

/// Sends results to a file from here on, or back to standard output.
fn redirect(shell: &mut Shell, file: &str, place: &str) -> Result<Outcome> {
    shell.out.flush()?;
    let file = &*at_home(file);
    if file.is_empty() || file == "stdout" {
        shell.out = Out::new(stdout());
        return Ok(Outcome::Done);
    }
    if file.starts_with('|') {
        let sentence = "results do not go to programs from here; \
                        send standard output of `indelible sql` there, or use a file";
        return Ok(shell.refuse(place, sentence));
    }
    if let Err(error) = crate::files::refuse_inside(Path::new(file), &shell.directory) {
        return Ok(shell.refuse(place, &crate::failure::sentence(&error)));
    }
    match File::create(file) {
        Ok(open) => {
            let name = file.to_owned();
            shell.out = Out::new(BufWriter::new(NamedFile { file: open, name }));
        }
        Err(error) => return Ok(shell.refuse(place, &format!("cannot write {file}: {error}"))),
    }
    Ok(Outcome::Done)
}

/// Runs something whose results go to a file.
pub(super) fn into_file(
    shell: &mut Shell,
    file: &str,
    place: &str,
    work: impl FnOnce(&mut Shell) -> Result<Outcome>,
) -> Result<Outcome> {
    let before = shell.out.clone();
    if redirect(shell, file, place)? == Outcome::Failed {
        return Ok(Outcome::Failed);
    }
    let mut outcome = work(shell);
    if outcome.is_ok()
        && let Err(error) = shell.out.flush()
    {
        outcome = Err(error.into());
    }
    shell.out = before;
    match outcome {
        Err(error) => match failure_of(&error).cloned() {
            Some(FileFailure { sentence, .. }) => Ok(shell.refuse(place, &sentence)),
            None => Err(error),
        },
        outcome => outcome,
    }
}

/// Runs a script whose name counts from the folder of the script that names it.
fn read_beside(shell: &mut Shell, file: &str, place: &str) -> Result<Outcome> {
    let folder = shell.folders.last().cloned().unwrap_or_default();
    let path = folder.join(file);
    read(shell, &path.to_string_lossy(), place)
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
    let file = at_home(file);
    let path = Path::new(&*file);
    let (mut script, name) = if is_standard(path) {
        (
            Script::of_lines(Box::new(standard_line)),
            "standard input".to_owned(),
        )
    } else {
        let input = match InputFile::open(path) {
            Ok(input) => input,
            Err(error) => return Ok(shell.refuse(place, &crate::failure::sentence(&error))),
        };
        let name = input.name.clone();
        let file = BufReader::new(input.bytes);
        let mut file = NamedFile {
            file,
            name: input.name,
        };
        (Script::of_lines(Box::new(move || file.line())), name)
    };
    // The scripts of a person are no lines of this person.
    let terminal = shell.terminal.take();
    shell.depth += 1;
    shell
        .folders
        .push(path.parent().unwrap_or(Path::new("")).to_owned());
    let outcome = shell.run_script(&mut script, Some(&name));
    shell.folders.pop();
    shell.depth -= 1;
    shell.terminal = terminal;
    // The end of a script is not that of those who read it.
    shell.is_over = false;
    outcome
}

/// The next line of standard input, which others may read as well.
fn standard_line() -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    std::io::stdin().lock().read_until(b'\n', &mut line)?;
    Ok(Some(line).filter(|line| !line.is_empty()))
}

/// The statement that is under way, or else the last one.
fn statement_under_way<'a>(shell: &'a Shell, script: &'a Script<'_>) -> &'a str {
    let text = script.buffer();
    if text.trim().is_empty() {
        &shell.last
    } else {
        text
    }
}

fn again(shell: &mut Shell, name: &str, text: &str, word: &str, place: &str) -> Result<Outcome> {
    match name {
        "\\gset" => keep_row(shell, text, word, place),
        "\\watch" => watch(shell, text, word, place),
        "\\gexec" => run_values(shell, text, place),
        _ => {
            let was_expanded = shell.is_expanded;
            shell.is_expanded |= name == "\\gx";
            let outcome = match word {
                "" => shell.statement(text, place),
                file => into_file(shell, file, place, |shell| shell.statement(text, place)),
            };
            shell.is_expanded = was_expanded;
            outcome
        }
    }
}

/// Runs each value of the rows of a statement as a statement.
fn run_values(shell: &mut Shell, text: &str, place: &str) -> Result<Outcome> {
    let text =
        client::script::substitute(text, |name| shell.variables.get(name).cloned()).into_owned();
    let Some(answers) = shell.ask(&text)? else {
        shell.keep_outcome(Outcome::Failed, 0);
        return Ok(Outcome::Failed);
    };
    let rows = answers.last().map(|answer| answer.rows.clone());
    let mut outcome = Outcome::Done;
    for value in rows.unwrap_or_default().into_iter().flatten().flatten() {
        if outcome == Outcome::Done || shell.keeps_going {
            outcome = outcome.and(shell.statement(&value, place)?);
        }
    }
    Ok(outcome)
}

/// Keeps the only row of a statement in variables named by its columns.
fn keep_row(shell: &mut Shell, text: &str, prefix: &str, place: &str) -> Result<Outcome> {
    let text =
        client::script::substitute(text, |name| shell.variables.get(name).cloned()).into_owned();
    let Some(answers) = shell.ask(&text)? else {
        shell.keep_outcome(Outcome::Failed, 0);
        return Ok(Outcome::Failed);
    };
    let answer = answers.last().cloned().unwrap_or_default();
    shell.keep_outcome(Outcome::Done, answer.rows.len() as u64);
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
        if shell.statement(text, place)? == Outcome::Failed {
            return Ok(Outcome::Failed);
        }
        if !super::interrupt::sleep(pause) {
            return Ok(Outcome::Done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_may_be_quoted() {
        assert_eq!(
            words("a  'b c' \"d\"\"e\" f'g' C:\\x 'y\\n'", None),
            ["a", "b c", "d\"e", "fg", "C:\\x", "y\\n"]
        );
        assert_eq!(words("'' x", None), ["", "x"]);
        assert_eq!(words("", None), Vec::<String>::new());
    }

    /// Values were put into the line before it was cut, so that one with a blank was two words.
    #[test]
    fn values_of_variables_are_not_cut() {
        let value_of = |name: &str| (name == "v").then(|| "it's a".to_owned());
        assert_eq!(
            words(":v=:v :'v' ':v' :{?v}:{?w} :w", Some(&value_of)),
            ["it's a=it's a", "'it''s a'", ":v", "TRUEFALSE", ":w"]
        );
        assert_eq!(
            words(r"'a\nb\'\101\x41\\' 'c", Some(&value_of)),
            ["a\nb'AA\\", "c"]
        );
    }
}
