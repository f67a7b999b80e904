//! The process that holds the lock of a directory, for the message to a refused opener.
//!
//! The lock of a database is a lock of its directory (`flock`), which carries no name. The kernel
//! lists all locks in `/proc/locks` with process, device and inode, so the holder is looked up
//! there, and only after the lock was refused. The answer is a hint: the holder may have ended
//! since, or be in another container, where its number is not known here.

use std::fmt;
use std::fs::{self, File};
use std::os::linux::fs::MetadataExt;

/// A process that has a database open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub process: u32,
    /// The name of its program, empty if it cannot be read.
    pub command: String,
}

impl Holder {
    /// Looks for the process that holds a lock of this file.
    pub(crate) fn find(file: &File) -> Option<Self> {
        let metadata = file.metadata().ok()?;
        let locks = fs::read_to_string("/proc/locks").ok()?;
        let process = locked_by(&locks, metadata.st_dev(), metadata.st_ino())?;
        let command = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        Some(Self {
            process,
            command: command.trim_end().to_owned(),
        })
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.process == std::process::id() {
            return f.write_str("this process");
        }
        write!(f, "process {}", self.process)?;
        if self.command.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", self.command)
        }
    }
}

/// The process in a list such as `1: FLOCK ADVISORY WRITE 4242 00:1a:5678 0 EOF`. Some filesystems
/// list another device than `stat` reports, so a lock of the same inode elsewhere is the second
/// best answer.
fn locked_by(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let major = (device >> 8 & 0xFFF) | (device >> 32 & !0xFFF);
    let minor = (device & 0xFF) | (device >> 12 & !0xFF);
    let exact = format!("{major:02x}:{minor:02x}:{inode}");
    let same_inode = format!(":{inode}");
    let mut second_best = None;
    for line in locks.lines() {
        let mut fields = line.split_whitespace().skip(1);
        let (Some("FLOCK"), Some(process), Some(place)) =
            (fields.next(), fields.nth(2), fields.next())
        else {
            continue;
        };
        // A process of another container is listed as 0 or as -1.
        let Some(process) = process.parse().ok().filter(|process| *process > 0) else {
            continue;
        };
        if place == exact {
            return Some(process);
        }
        if place.ends_with(&same_inode) {
            second_best = Some(process);
        }
    }
    second_best
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: &str = "\
1: FLOCK  ADVISORY  WRITE 31 00:1a:77 0 EOF
2: -> FLOCK  ADVISORY  WRITE 32 00:1a:78 0 EOF
3: POSIX  ADVISORY  READ 33 00:1a:78 128 128
4: FLOCK  ADVISORY  READ -1 00:1a:78 0 EOF
5: FLOCK  ADVISORY  WRITE 34 103:05:78 0 EOF
6: FLOCK  ADVISORY  WRITE 35 00:1a:78 0 EOF
7: FLOCK  ADVISORY  WRITE 36 00:1a:178 0 EOF
";

    #[test]
    fn the_holder_is_the_process_with_the_lock_of_this_file() {
        assert_eq!(locked_by(LOCKS, 0x1A, 77), Some(31));
        assert_eq!(locked_by(LOCKS, 0x1A, 78), Some(35));
        assert_eq!(locked_by(LOCKS, 0x1_0305, 78), Some(34));
        assert_eq!(locked_by(LOCKS, 0x99, 178), Some(36), "another device");
        assert_eq!(locked_by(LOCKS, 0x1A, 8), None);
        assert_eq!(locked_by("", 0x1A, 77), None);
    }
}
