//! Kept reports that are older than the code that they measure.
//!
//! A report is a directory with rows. It is stale if git knows a commit, after that of its rows,
//! that changes a room which their runs go through, or if the rows come from changes that no commit
//! has. Nothing fails because of that, since measuring again takes an hour; pages and CI say it.

use super::experiment::Kind;
use super::rows::LabRow;
use measure::machine;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Rooms under every database.
const DATABASE: [&str; 7] = [
    "pmem",
    "disk",
    "storage",
    "engines",
    "indelible",
    "workload",
    "measure",
];

/// Rooms that decide the numbers of a kind of run; all of a kind that this version does not know.
fn rooms(kind: Option<Kind>) -> BTreeSet<&'static str> {
    let (has_database, own): (bool, &[&str]) = match kind {
        Some(Kind::Join) => (false, &["join", "measure"]),
        Some(Kind::Device) => (false, &["pmem", "disk", "measure"]),
        Some(Kind::Paged | Kind::PagedProbed | Kind::Priced) => (true, &["page_engine"]),
        Some(Kind::Ycsb | Kind::YcsbSampled | Kind::Tpcc | Kind::Recovery | Kind::Costs) => {
            (true, &["serial_engines"])
        }
        // Methods of both kinds insert into a tree.
        Some(Kind::Btree | Kind::BtreeProbed) => (true, &["serial_engines", "page_engine"]),
        None => (true, &["serial_engines", "page_engine", "join"]),
    };
    let database = DATABASE.into_iter().filter(|_| has_database);
    database.chain(own.iter().copied()).collect()
}

/// The commits of rows as the foot of a page names them, with the changes since.
pub fn commits<'r>(rows: impl Iterator<Item = &'r LabRow>) -> String {
    let text =
        |(commit, rows): (&str, Vec<&LabRow>)| match changes_since(commit, &rows, Path::new(".")) {
            Some(changes) if changes > 0 => {
                format!("{commit} (stale: {changes} later commits change what it measures)")
            }
            _ if machine::is_dirty(commit) => format!("{commit} (with uncommitted changes)"),
            _ => commit.to_owned(),
        };
    let texts: Vec<String> = by_commit(rows).into_iter().map(text).collect();
    texts.join("; ")
}

/// Rows by their commits.
pub fn by_commit<'r>(rows: impl Iterator<Item = &'r LabRow>) -> BTreeMap<&'r str, Vec<&'r LabRow>> {
    let mut commits: BTreeMap<&str, Vec<&LabRow>> = BTreeMap::new();
    for row in rows {
        commits.entry(&row.commit).or_default().push(row);
    }
    commits
}

/// Commits after `commit` that change what the rows measure; none where git does not know. It is
/// asked in `place`, which lies in the repository.
pub fn changes_since(commit: &str, rows: &[&LabRow], place: &Path) -> Option<u64> {
    let rooms = rows.iter().flat_map(|row| rooms(Kind::named(&row.kind)));
    let paths: BTreeSet<String> = rooms.map(|room| format!(":/crates/{room}/src")).collect();
    let range = format!("{}..HEAD", commit.trim_end_matches('+'));
    let output = Command::new("git")
        .arg("-C")
        .arg(place)
        .args(["rev-list", "--count", &range, "--"])
        .args(paths)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.trim().parse().ok()
}

/// Whether rows of a commit are stale, after so many changes of what they measure.
pub fn state(commit: &str, changes: Option<u64>) -> &'static str {
    match changes {
        _ if machine::is_dirty(commit) => "stale: with uncommitted changes",
        None => "unknown: git does not know the commit",
        Some(0) => "current",
        Some(_) => "stale",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_stale_after_a_change_of_its_engines() {
        assert_eq!(state("abc", Some(0)), "current");
        assert_eq!(state("abc", Some(3)), "stale");
        assert!(state("abc+", Some(0)).starts_with("stale"));
        assert!(state("abc", None).starts_with("unknown"));
        assert_eq!(changes_since("0000000", &[], Path::new(".")), None);
    }

    #[test]
    fn each_kind_names_rooms_that_are_there() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let known = Kind::ALL.map(Some);
        for kind in known.into_iter().chain([None]) {
            for room in rooms(kind) {
                assert!(crates.join(room).join("src").is_dir(), "{room}");
            }
        }
        assert!(!rooms(Some(Kind::Join)).contains("storage"));
        assert!(rooms(Some(Kind::Paged)).contains("page_engine"));
    }
}
