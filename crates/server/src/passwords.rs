//! Roles that connect with a password.
//!
//! They are in the file `roles` of the database's directory, a line each: name, tab, verifier.
//! Passwords are not in it, and nobody but the owner reads it. It is read for each connection, so a
//! role that is created while a server runs can connect at once.

use crate::scram::Verifier;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The name of the file.
const FILE: &str = "roles";
/// A file that the directory of every database has.
const DESCRIPTOR: &str = "indelible.db";
/// Most bytes of a role's name.
const NAME_BYTES_MAX: usize = 63;

/// A role that cannot be created, or roles that cannot be read.
#[derive(Debug, Error)]
pub enum RoleError {
    /// A directory without a database.
    #[error("there is no database in {0}; make one with `indelible create {0}`")]
    NoDatabase(PathBuf),
    /// A name that a role cannot have.
    #[error("a role's name has 1 to 63 bytes, and no control characters")]
    BadName,
    /// A password that is none.
    #[error("the password is empty")]
    EmptyPassword,
    /// The file cannot be read or written.
    #[error("cannot use {0}")]
    File(PathBuf, #[source] io::Error),
    /// A line of the file is damaged.
    #[error("{0} has a line that is no role: line {1}; create the role again with its name")]
    Damaged(PathBuf, usize),
}

/// Lets a role connect with a password; one of the name that there is gets the new password.
///
/// # Errors
///
/// See [`RoleError`].
pub fn create_role(directory: &Path, name: &str, password: &str) -> Result<(), RoleError> {
    if !directory.join(DESCRIPTOR).is_file() {
        return Err(RoleError::NoDatabase(directory.to_owned()));
    }
    let is_good = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains(char::is_control);
    if !is_good {
        return Err(RoleError::BadName);
    }
    if password.is_empty() {
        return Err(RoleError::EmptyPassword);
    }
    let path = directory.join(FILE);
    let failed = |error| RoleError::File(path.clone(), error);
    let verifier = Verifier::new(password).map_err(failed)?;
    let old = text(&path)?;
    let own = format!("{name}\t{verifier}");
    let others = old.lines().filter(|line| name_of(line) != name);
    let lines = others.chain([own.as_str()]);
    let new: String = lines.flat_map(|line| [line, "\n"]).collect();
    replace(&path, &new).map_err(failed)
}

/// The verifier of a role; none if there is no such role. The flag is whether there is any role.
pub(crate) fn find(directory: &Path, name: &str) -> Result<(Option<Verifier>, bool), RoleError> {
    let path = directory.join(FILE);
    let text = text(&path)?;
    let found = text
        .lines()
        .enumerate()
        .find(|(_, line)| name_of(line) == name);
    let Some((at, line)) = found else {
        return Ok((None, !text.is_empty()));
    };
    let verifier = line
        .split_once('\t')
        .and_then(|(_, text)| text.parse().ok());
    let verifier = verifier.ok_or(RoleError::Damaged(path, at + 1))?;
    Ok((Some(verifier), true))
}

fn name_of(line: &str) -> &str {
    line.split_once('\t').map_or(line, |(name, _)| name)
}

/// The text of the file; empty if there is none.
fn text(path: &Path) -> Result<String, RoleError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(RoleError::File(path.to_owned(), error)),
    }
}

/// Puts a new content in the place of the file: all of it or nothing.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_has_its_last_password() {
        let name = format!("indelible-roles-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        assert!(matches!(
            create_role(&directory, "ann", "one"),
            Err(RoleError::NoDatabase(_))
        ));
        fs::write(directory.join(DESCRIPTOR), "").unwrap();
        assert_eq!(find(&directory, "ann").unwrap(), (None, false));
        create_role(&directory, "ann", "one").unwrap();
        let (first, _) = find(&directory, "ann").unwrap();
        create_role(&directory, "bob", "two").unwrap();
        create_role(&directory, "ann", "three").unwrap();
        let (last, _) = find(&directory, "ann").unwrap();
        assert!(last.is_some() && last != first);
        assert!(find(&directory, "bob").unwrap().0.is_some());
        assert_eq!(find(&directory, "carl").unwrap(), (None, true));
        assert!(matches!(
            create_role(&directory, "a\tb", "x"),
            Err(RoleError::BadName)
        ));
        fs::write(directory.join(FILE), "ann\tnonsense\n").unwrap();
        assert!(matches!(
            find(&directory, "ann"),
            Err(RoleError::Damaged(_, 1))
        ));
        fs::remove_dir_all(&directory).unwrap();
    }
}
