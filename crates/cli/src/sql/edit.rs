//! `\e`: the statement, or a file, in the user's editor.
//!
//! The statement goes to a file of this command's own. What the editor leaves is run as far as it
//! has semicolons, and the rest of it is the statement that is under way. A text that the editor
//! leaves as it was runs nothing, so there is a way out of every editor.

use super::shell::{Outcome, Shell};
use crate::scratch::Scratch;
use anyhow::{Context, Result, anyhow};
use client::script::Script;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Edits a file, or else the statement that is under way or the last one.
pub(super) fn edit(shell: &mut Shell, script: &mut Script<'_>, file: &str, place: &str) -> Outcome {
    let begun = script.take_buffer();
    let edited = if file.is_empty() {
        let text = if begun.trim().is_empty() {
            &shell.last
        } else {
            &begun
        };
        edit_text(text)
    } else {
        edit_file(Path::new(file))
    };
    match edited {
        Ok(Some(text)) => script.insert(&text),
        Ok(None) => script.insert(&begun),
        Err(error) => {
            script.insert(&begun);
            return shell.refuse(place, &crate::failure::sentence(&error));
        }
    }
    Outcome::Done
}

/// The text that the editor leaves; none if it is the same.
fn edit_text(text: &str) -> Result<Option<String>> {
    let folder = Scratch::in_directory(&std::env::temp_dir())?;
    let path = folder.path().join("statement.sql");
    fs::write(&path, format!("{text}\n")).context("cannot write a file for the editor")?;
    edit_file(&path)
}

fn edit_file(path: &Path) -> Result<Option<String>> {
    let before = fs::read(path).ok();
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var(name).ok());
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    // The setting may have options, as in `code --wait`.
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$0\""))
        .arg(path)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => {
            return Err(anyhow!(
                "the editor `{editor}` ended with {status}; nothing is run"
            ));
        }
        Err(error) => {
            return Err(anyhow!(
                "cannot start the editor `{editor}`: {error}; set EDITOR"
            ));
        }
    }
    let name = path.display();
    let after = fs::read(path).with_context(|| format!("cannot read {name}"))?;
    if before.as_ref() == Some(&after) {
        return Ok(None);
    }
    let text = String::from_utf8(after);
    text.map(Some)
        .map_err(|_| anyhow!("{name} is not UTF-8; nothing is run"))
}
