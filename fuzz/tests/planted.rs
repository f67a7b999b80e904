//! Goal: a panic, an abort, an allocation beyond the limit, a slow input and a wrong answer are
//! each found, saved, and found again in the saved input; and a clean target has no finding.
//!
//! Method: the program is run on targets in which such a fault is planted.

#![allow(
    clippy::unwrap_used,
    reason = "a failed step of a test is a failed test"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fuzz(target: &str, folder: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuzz"));
    command.args(["--target", target, "--seed", "7", "--artifacts"]);
    command.arg(folder).args(more).output().unwrap()
}

fn folder(target: &str) -> PathBuf {
    std::env::temp_dir().join(format!("fuzz-{target}-{}", std::process::id()))
}

#[test]
fn planted_faults_are_found_and_replayed() {
    for (target, sign) in [
        ("planted-panic", "a planted panic"),
        ("planted-abort", "died (signal: 6"),
        ("planted-memory", "memory allocation of"),
        ("planted-sleep", "took 11"),
        ("planted-join", "assertion `left == right` failed"),
    ] {
        let folder = folder(target);
        let found = fuzz(target, &folder, &["--seconds", "4"]);
        let told = String::from_utf8_lossy(&found.stdout).into_owned();
        assert_eq!(found.status.code(), Some(1), "{target}: {told}");
        assert!(told.contains(sign), "{target}: {told}");
        assert!(told.contains(" 1 faults"), "one fault, many inputs: {told}");
        let saved = std::fs::read_dir(&folder).unwrap().next().unwrap();
        let path = saved.unwrap().path();
        let again = fuzz(target, &folder, &["--replay", path.to_str().unwrap()]);
        assert!(
            !again.status.success(),
            "{target}: {path:?} does not repeat"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn a_sound_target_has_no_finding() {
    let folder = folder("schema");
    let found = fuzz("schema", &folder, &["--seconds", "1"]);
    let told = String::from_utf8_lossy(&found.stdout).into_owned();
    assert_eq!(found.status.code(), Some(0), "{told}");
    assert!(!folder.exists());
}

/// Every durable method: its seeds, the first inputs and those of the corpus fit into a worker's
/// memory.
#[test]
fn databases_of_every_method_have_room() {
    let list = fuzz("all", &folder("list"), &["--list"]);
    let list = String::from_utf8(list.stdout).unwrap();
    let names = list
        .lines()
        .filter_map(|line| line.split(':').next())
        .filter(|name| name.starts_with("database-"));
    let mut count = 0;
    for name in names {
        let folder = folder(name);
        let found = fuzz(name, &folder, &["--seconds", "1"]);
        let told = String::from_utf8_lossy(&found.stdout);
        assert_eq!(found.status.code(), Some(0), "{name}: {told}");
        count += 1;
    }
    assert!(count > 20, "{list}");
}

#[test]
fn unknown_words_and_targets_are_refused() {
    let folder = folder("none");
    assert_eq!(fuzz("none", &folder, &[]).status.code(), Some(2));
    assert_eq!(fuzz("schema", &folder, &["--frob"]).status.code(), Some(2));
}
