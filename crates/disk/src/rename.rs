//! Giving a file a name that nothing else has.
//!
//! `rename` replaces what has the new name. Between a check that the name is free and the rename,
//! another process may take it, and its file would be gone. So the kernel is asked to refuse
//! (`RENAME_NOREPLACE`). File systems without that get a second name first, which fails if it is
//! taken; those without hard links either are checked.

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Renames a file; fails with `AlreadyExists` if something has the new name.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => by_second_name(from, to),
        renamed => Ok(renamed?),
    }
}

/// As [`rename_new`], in two steps.
fn by_second_name(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
        Err(_) if fs::symlink_metadata(to).is_ok() => Err(ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_stays_as_it_is() {
        let directory = std::env::temp_dir().join(format!("disk-rename-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (from, to) = (directory.join("from"), directory.join("to"));
        for rename in [rename_new, by_second_name] {
            fs::write(&from, "new").unwrap();
            fs::write(&to, "old").unwrap();
            let error = rename(&from, &to).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            assert_eq!(fs::read_to_string(&to).unwrap(), "old");
            fs::remove_file(&to).unwrap();
            rename(&from, &to).unwrap();
            assert_eq!(fs::read_to_string(&to).unwrap(), "new");
            assert!(!from.exists());
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
