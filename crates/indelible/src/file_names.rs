//! Names of a database's files: which partition one belongs to, and whether the roster lists it.
//!
//! A directory may have files of its user, such as `p0.pool.bak`. So a name counts only if it is
//! exactly one that an engine gives, as `docs/formats.md` lists them; all others are left alone.
//!
//! | name after `pN.` | listed |
//! |---|---|
//! | `pool`, `pages` and the like: one of them a partition | yes |
//! | `wal.NUMBER`, `checkpoint.NUMBER`, `run.NUMBER`, `log.SESSION.NUMBER`, six digits | yes |
//! | `ring.NUMBER`, `nvbatch.NUMBER` | yes |
//! | `archive.NUMBER`, which is in a directory of its own | no |
//! | a kind and `-spare.NUMBER` or `.tmp`, which come and go | no |

use crate::commit_table::{COMMIT_TABLE, COMMIT_TABLE_NEW};

/// The descriptor's file name.
pub(crate) const DESCRIPTOR: &str = "indelible.db";
/// The name under which it is written until it is complete.
pub(crate) const DESCRIPTOR_NEW: &str = "indelible.db.new";
/// Kinds of which a partition has one file.
const SINGLE: [&str; 9] = [
    "pool",
    "pages",
    "nvpages",
    "nvwal",
    "cow",
    "tails",
    "manifest",
    "doublewrite",
    "slots",
];
/// Kinds of which it has any number, and the fewest digits of their numbers.
const NUMBERED: [(&str, usize); 6] = [
    ("wal", 6),
    ("checkpoint", 6),
    ("run", 6),
    (ARCHIVE, 6),
    ("ring", 1),
    ("nvbatch", 1),
];
/// The kind of files that are elsewhere.
const ARCHIVE: &str = "archive";
/// The kind of log segments of one session.
const SESSION_LOG: &str = "log.";

/// Whether a file name is one of a database.
pub(crate) fn is_ours(name: &str) -> bool {
    [DESCRIPTOR, DESCRIPTOR_NEW, COMMIT_TABLE, COMMIT_TABLE_NEW].contains(&name)
        || partition_of(name).is_some()
}

/// The partition that a file with this name belongs to: `p3.pool` is one of partition 3.
pub(crate) fn partition_of(name: &str) -> Option<u32> {
    parse(name).map(|(partition, _)| partition)
}

/// Whether a file of this name is listed once it is there.
pub(crate) fn is_listed(name: &str) -> bool {
    name == COMMIT_TABLE || parse(name).is_some_and(|(_, is_listed)| is_listed)
}

/// The partition of a file, and whether it is listed.
fn parse(name: &str) -> Option<(u32, bool)> {
    let (partition, kind) = name.strip_prefix('p')?.split_once('.')?;
    let number: u32 = partition.parse().ok()?;
    if number.to_string() != partition {
        return None;
    }
    if SINGLE.contains(&kind) {
        return Some((number, true));
    }
    let (kind, last) = kind.rsplit_once('.')?;
    if last == "tmp" {
        let is_kind = SINGLE.contains(&kind) || digits_of(kind).is_some();
        return is_kind.then_some((number, false));
    }
    let (plain, is_spare) = match kind.strip_suffix("-spare") {
        Some(plain) => (plain, true),
        None => (kind, false),
    };
    let is_right = has_digits(last, digits_of(plain)?);
    is_right.then_some((number, !is_spare && plain != ARCHIVE))
}

/// The fewest digits in the names of files of a kind that is numbered.
fn digits_of(kind: &str) -> Option<usize> {
    if let Some(session) = kind.strip_prefix(SESSION_LOG) {
        return has_digits(session, 1).then_some(6);
    }
    let found = NUMBERED.iter().find(|(numbered, _)| *numbered == kind);
    found.map(|&(_, digits)| digits)
}

fn has_digits(text: &str, fewest: usize) -> bool {
    text.len() >= fewest && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_engines_are_known_and_others_are_not() {
        let listed = "p0.pool p12.pages p0.nvpages p0.nvwal p0.cow p0.tails p0.manifest p0.doublewrite p0.slots \
                      p0.wal.000001 p0.checkpoint.1000000 p0.run.000007 p3.log.12.000001 p0.ring.0 p0.nvbatch.1";
        for name in listed.split_whitespace() {
            assert!(is_listed(name) && partition_of(name).is_some(), "{name}");
        }
        let unlisted = "p0.wal-spare.000000 p0.log.1-spare.000002 p0.wal.tmp p0.log.3.tmp p0.manifest.tmp \
                        p0.tails.tmp p0.archive.000001 p0.archive.tmp";
        for name in unlisted.split_whitespace() {
            assert!(!is_listed(name) && is_ours(name), "{name}");
        }
        let others = "p0.pool.bak p0.pool~ p0.pages.gz p00.pool p+1.pool p0.wal.1 p0.wal.000001.old p0.log.x.000001 \
                      p0.bak.tmp p0.ring. p0.log.000001 p.pool pool commits.pool.bak notes.txt";
        for name in others.split_whitespace() {
            assert!(!is_listed(name) && !is_ours(name), "{name}");
        }
    }
}
