//! The storage methods as the help texts list them: in groups, a line each.
//!
//! The README and `docs/methods.md` say more about each. A test holds the list against the
//! catalogue.

use std::fmt::Write as _;

/// The title of a group, and its methods.
type Group = (&'static str, &'static [(&'static str, &'static str)]);

const GROUPS: [Group; 3] = [
    (
        "In durable memory: persistent memory, CXL memory, or /dev/shm",
        &[
            (
                "nvm-inp",
                "tables and indexes that change in place under a small log; the default there",
            ),
            (
                "nvm-cow",
                "copy-on-write trees of pointers to tuples, with snapshots",
            ),
            (
                "nvm-log",
                "a log-structured merge tree whose runs stay in durable memory",
            ),
            (
                "fash",
                "B-trees of slotted pages, with snapshots; a commit logs the headers of its pages",
            ),
            (
                "fast",
                "the same; where one page changed, its header is the commit",
            ),
            (
                "in-place",
                "slotted pages that change in place, with before images in the log",
            ),
            (
                "nv-wsp",
                "the same, for a machine that writes its caches back when the power fails",
            ),
            (
                "group-commit",
                "slotted pages that change in copies; batches of transactions count whole",
            ),
        ],
    ),
    (
        "In files, on any disk",
        &[
            (
                "full-page-writes",
                "pages behind a buffer pool, an ARIES log with whole pages; the default there",
            ),
            (
                "dwb",
                "the same with a doublewrite area instead, as InnoDB 5.6 has it",
            ),
            ("dwb-batched", "the same, in batches only"),
            (
                "dwb-off",
                "the same without the area, for a device that never tears a page",
            ),
            (
                "nv-disk-decentralized",
                "the same with a log file for each session",
            ),
            (
                "inp",
                "tables in ordinary memory, a log and checkpoints in files",
            ),
            (
                "cow",
                "copy-on-write trees in one file behind a page cache, with snapshots",
            ),
            (
                "log",
                "a log-structured merge tree: a log, sorted runs, compaction",
            ),
        ],
    ),
    (
        "Pages in files beside a little durable memory (--log-directory)",
        &[
            (
                "nv-logging",
                "a log in durable memory, a ring for each session; the default there",
            ),
            (
                "distributed-log",
                "the same with a few rings that sessions share, commits in groups",
            ),
            ("nvm-dwb", "a doublewrite area in durable memory"),
            ("nvm-dwb-log", "the same, and the log as in nv-logging"),
            (
                "nvm-dwb-log-opt",
                "the same, with an area that pages are read from as well",
            ),
            (
                "nvwal",
                "slotted pages; a commit logs the bytes that differ in durable memory",
            ),
            (
                "slot-header-journal",
                "the same; a commit logs headers of pages and new cells, in 1 MiB",
            ),
            (
                "nv-disk",
                "dwb-batched with its log in a filesystem on durable memory",
            ),
            (
                "disk-replacement",
                "dwb-batched with pages and log in such a filesystem",
            ),
        ],
    ),
];

/// A help text that the list of methods follows.
pub(super) fn after(examples: &str) -> String {
    let names = GROUPS.iter().flat_map(|(_, methods)| *methods);
    let width = names.map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = format!("{examples}\n\nStorage methods:\n");
    for (group, methods) in GROUPS {
        let _ = writeln!(text, "  {group}");
        for (name, line) in methods {
            let _ = writeln!(text, "    {name:width$}  {line}");
        }
    }
    text.push_str(
        "docs/methods.md says more; `indelible advise` measures which one fits a workload.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use indelible::Method;

    #[test]
    fn every_durable_method_is_listed_once_on_a_short_line() {
        let mut listed: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, methods)| methods.iter().map(|(name, _)| *name))
            .collect();
        let mut durable: Vec<&str> = Method::ALL
            .into_iter()
            .filter(|method| method.is_durable())
            .map(Method::name)
            .collect();
        listed.sort_unstable();
        durable.sort_unstable();
        assert_eq!(listed, durable);
        for line in after("").lines() {
            assert!(line.chars().count() <= 110, "{line}");
        }
    }
}
