//! The shell with a person in front of it.
//!
//! Lines are edited, completed and kept in a history, which is a file in the XDG state directory
//! and open to its user only. Data of COPY are lines of the same editor, since it may have read
//! them ahead. Without a terminal standard input is a script.

use super::complete::{NAMES, Typing};
use super::shell::{Outcome, Shell};
use crate::printable::printable;
use crate::streams;
use anyhow::Result;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use std::cell::RefCell;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::rc::Rc;

/// Most statements of the history.
const HISTORY_MAX: usize = 10_000;
/// The prompt of data of COPY.
const DATA_PROMPT: &str = ">> ";

type Lines = Editor<Typing, DefaultHistory>;

/// Reads statements of a person until the end of the input.
pub(super) fn run(shell: &mut Shell) -> Result<()> {
    streams::tell(&format!(
        "indelible {}\nStatements end with a semicolon; \\? is the help, \\q the end.",
        env!("CARGO_PKG_VERSION")
    ));
    let config = Config::builder()
        .history_ignore_space(true)
        .max_history_size(HISTORY_MAX)?
        .completion_type(CompletionType::List)
        .build();
    let mut editor: Lines = Editor::with_config(config)?;
    let has_colours = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    editor.set_helper(Some(Typing::new(has_colours)));
    let history = history_file();
    if let Some(path) = &history {
        // A history that cannot be read is begun anew.
        let _ = editor.load_history(path);
    }
    let editor = Rc::new(RefCell::new(editor));
    let data_editor = Rc::clone(&editor);
    shell.terminal = Some(Rc::new(RefCell::new(move || {
        data_line(&mut data_editor.borrow_mut())
    })));
    // A failure ends its own line only.
    shell.keeps_going = false;
    let mut known_changes = None;
    while !shell.is_over {
        if known_changes != Some(shell.schema_changes)
            && shell.client.status() == client::Status::Idle
        {
            known_changes = Some(shell.schema_changes);
            if let Some(typing) = editor.borrow_mut().helper_mut() {
                typing.names = names(shell);
            }
        }
        let prompt = printable(&shell.prompt()).into_owned();
        let begun = std::mem::take(&mut shell.unfinished);
        let read = editor
            .borrow_mut()
            .readline_with_initial(&prompt, (&begun, ""));
        match read {
            Ok(text) => {
                let mut editor = editor.borrow_mut();
                editor.add_history_entry(text.trim_end())?;
                if let Some(path) = &history {
                    // The statement matters more than its trace.
                    let _ = editor.append_history(path);
                }
                drop(editor);
                let _: Outcome = shell.run(command_of(&text))?;
            }
            // Ctrl-C gives up the line.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        }
    }
    shell.terminal = None;
    Ok(())
}

/// The command for which people write a word of their own, or the text as it is.
fn command_of(text: &str) -> &str {
    match text.trim().trim_end_matches(';') {
        "quit" | "exit" => "\\q",
        "help" => "\\?",
        _ => text,
    }
}

/// The next line of data; none at their end. Ctrl-C gives up the COPY.
fn data_line(editor: &mut Lines) -> io::Result<Option<Vec<u8>>> {
    set_data(editor, true);
    let read = editor.readline(DATA_PROMPT);
    set_data(editor, false);
    match read {
        Ok(line) => Ok(Some((line + "\n").into_bytes())),
        Err(ReadlineError::Eof) => Ok(None),
        Err(ReadlineError::Interrupted) => Err(io::ErrorKind::Interrupted.into()),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn set_data(editor: &mut Lines, are_data: bool) {
    if let Some(typing) = editor.helper_mut() {
        typing.are_data = are_data;
    }
}

/// Names for completion. A catalogue that does not answer has none.
fn names(shell: &mut Shell) -> Vec<String> {
    let answers = shell.client.ask(NAMES).unwrap_or_default();
    let rows = answers
        .last()
        .map(|answer| answer.rows.clone())
        .unwrap_or_default();
    rows.into_iter().flatten().flatten().collect()
}

/// The file of the history, made for its user only.
fn history_file() -> Option<PathBuf> {
    let state = match std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    let folder = state.join("indelible");
    fs::create_dir_all(&folder).ok()?;
    let path = folder.join("history");
    let file = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&path)
        .ok()?;
    // Statements may have secrets in them; an older file may be open to others.
    file.set_permissions(fs::Permissions::from_mode(0o600))
        .ok()?;
    Some(path)
}
