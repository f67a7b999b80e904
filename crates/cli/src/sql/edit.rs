//! `\e`: the statement in the user's editor.
//!
//! The text goes to a file of this command's own, and what the editor leaves there is run.

use super::shell::{Outcome, Shell};
use crate::scratch::Scratch;
use anyhow::Result;
use client::script::Script;
use std::fs;
use std::process::Command;

/// Edits the statement that is under way, or the last one, and runs it.
pub(super) fn edit(shell: &mut Shell, script: &mut Script<'_>, place: &str) -> Result<Outcome> {
    let mut text = script.take_buffer();
    if text.trim().is_empty() {
        text.clone_from(&shell.last);
    }
    let folder = Scratch::in_directory(&std::env::temp_dir())?;
    let path = folder.path().join("statement.sql");
    fs::write(&path, format!("{text}\n"))?;
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var(name).ok());
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    // The setting may have options, as in `code --wait`.
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$0\""))
        .arg(&path)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => {
            return Ok(shell.refuse(
                place,
                &format!("the editor `{editor}` ended with {status}; nothing is run"),
            ));
        }
        Err(error) => {
            return Ok(shell.refuse(
                place,
                &format!("cannot start the editor `{editor}`: {error}; set EDITOR"),
            ));
        }
    }
    let text = fs::read_to_string(&path)?;
    drop(folder);
    shell.run(&text, None)
}
