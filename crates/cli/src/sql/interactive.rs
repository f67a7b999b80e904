//! The shell with a person in front of it.
//!
//! Lines are edited, completed and kept in a history, which is a file in the XDG state directory
//! and open to its user only. Without a terminal standard input is a script.

use super::complete::{NAMES, Typing};
use super::shell::{Outcome, Shell};
use crate::printable::printable;
use crate::streams;
use anyhow::Result;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use std::fs;
use std::io::IsTerminal;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

/// Most statements of the history.
const HISTORY_MAX: usize = 10_000;

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
    let mut editor: Editor<Typing, DefaultHistory> = Editor::with_config(config)?;
    let has_colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    editor.set_helper(Some(Typing::new(has_colours)));
    let history = history_file();
    if let Some(path) = &history {
        // A history that cannot be read is begun anew.
        let _ = editor.load_history(path);
    }
    // A failure ends its own line only.
    shell.keeps_going = false;
    let mut known_changes = None;
    while !shell.is_over {
        if known_changes != Some(shell.schema_changes)
            && shell.client.status() == client::Status::Idle
        {
            known_changes = Some(shell.schema_changes);
            if let Some(typing) = editor.helper_mut() {
                typing.names = names(shell);
            }
        }
        match editor.readline(&printable(&shell.prompt()).into_owned()) {
            Ok(text) => {
                editor.add_history_entry(text.trim_end())?;
                if let Some(path) = &history {
                    // The statement matters more than its trace.
                    let _ = editor.append_history(path);
                }
                let _: Outcome = shell.run(&text, None)?;
            }
            // Ctrl-C gives up the line.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
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
