//! Giving a file a name that nothing else has.
//!
//! `rename` replaces what has the new name. Between a check that the name is free and the rename,
//! another process may take it, and its file would be gone. So the kernel is asked to refuse
//! (`RENAME_NOREPLACE`). File systems without that get a second name first, which fails if it is
//! taken; those without hard links either are checked.

use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, RenameFlags, linkat, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;
use std::path::Path;

/// Renames a file of a directory; fails with `EXIST` if something has the new name.
pub(crate) fn rename_new(at: BorrowedFd<'_>, from: &Path, to: &Path) -> rustix::io::Result<()> {
    match renameat_with(at, from, at, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => by_second_name(at, from, to),
        renamed => renamed,
    }
}

/// As [`rename_new`], in two steps.
fn by_second_name(at: BorrowedFd<'_>, from: &Path, to: &Path) -> rustix::io::Result<()> {
    match linkat(at, from, at, to, AtFlags::empty()) {
        Ok(()) => unlinkat(at, from, AtFlags::empty()),
        Err(Errno::EXIST) => Err(Errno::EXIST),
        Err(_) if statat(at, to, AtFlags::SYMLINK_NOFOLLOW).is_ok() => Err(Errno::EXIST),
        Err(_) => renameat(at, from, at, to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;
    use std::fs;

    #[test]
    fn a_name_that_is_taken_stays_as_it_is() {
        let directory = std::env::temp_dir().join(format!("disk-rename-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (from, to) = (directory.join("from"), directory.join("to"));
        for rename in [rename_new, by_second_name] {
            fs::write(&from, "new").unwrap();
            fs::write(&to, "old").unwrap();
            assert_eq!(rename(CWD, &from, &to), Err(Errno::EXIST));
            assert_eq!(fs::read_to_string(&to).unwrap(), "old");
            fs::remove_file(&to).unwrap();
            rename(CWD, &from, &to).unwrap();
            assert_eq!(fs::read_to_string(&to).unwrap(), "new");
            assert!(!from.exists());
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
