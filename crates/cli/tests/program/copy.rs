//! Goal: `backup`, `restore` and `convert` make the same database again, or say in one sentence why not and leave nothing.
//!
//! Method: the shipped data set goes through all of them; then a damaged backup, a full disk and places that are taken.

use crate::common::{Place, fail, run, succeed};
use std::process::Command;

fn airports() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/data/airports.csv")
}

/// A database with the data set and an index; its path and what `dump` says about it.
fn imported(place: &Place) -> (String, String) {
    let db = place.at("db");
    succeed(&["create", &db, "--method", "nvm-inp", "--partitions", "2"]);
    succeed(&[
        "import",
        &db,
        "airports",
        airports(),
        "--primary-key",
        "iata",
    ]);
    succeed(&[
        "indexes",
        "create",
        &db,
        "airports",
        "by_state",
        "--columns",
        "state",
    ]);
    let dump = succeed(&["dump", &db]);
    (db, dump)
}

#[test]
fn a_backup_restores_and_a_conversion_converts() {
    let place = Place::new();
    let (db, dump) = imported(&place);
    let file = place.at("db.backup");
    let facts = succeed(&["backup", &db, &file, "--format", "json"]);
    assert!(
        facts.contains("\"rows\":3376") && facts.contains("\"file_bytes\":"),
        "{facts}"
    );
    let content = facts
        .split("\"content\":")
        .nth(1)
        .unwrap()
        .split(',')
        .next()
        .unwrap();
    let checked = succeed(&["backup", "--check", &file, "--format", "json"]);
    assert!(
        checked.contains("sound") && checked.contains(content),
        "{checked}"
    );
    let copy = place.at("copy");
    let facts = succeed(&[
        "restore", &file, &copy, "--method", "inp", "--format", "json",
    ]);
    assert!(
        facts.contains("\"method\":\"inp\"") && facts.contains(content),
        "{facts}"
    );
    assert_eq!(succeed(&["dump", &copy]), dump);
    let other = place.at("other");
    let facts = succeed(&[
        "convert", &copy, &other, "--method", "nvm-inp", "--format", "json",
    ]);
    assert!(
        facts.contains("\"from_method\":\"inp\"") && facts.contains(content),
        "{facts}"
    );
    assert_eq!(succeed(&["dump", &other]), dump);
    assert!(succeed(&["verify", &other]).starts_with("sound"));
}

#[test]
fn what_cannot_be_done_leaves_nothing() {
    let place = Place::new();
    let (db, _) = imported(&place);
    let file = place.at("db.backup");
    succeed(&["backup", &db, &file]);
    fail(2, &["backup", &db, &file]);
    succeed(&["backup", &db, &file, "--force"]);
    let error = fail(1, &["restore", &file, &db]);
    assert!(error.contains("not empty"), "{error}");
    let error = fail(1, &["convert", &db, &db, "--method", "inp"]);
    assert!(error.contains("not empty"), "{error}");
    fail(
        2,
        &["convert", &db, &place.at("new"), "--method", "volatile"],
    );
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let error = fail(1, &["restore", &file, &place.at("new")]);
    assert!(
        error.contains("damaged") && error.lines().count() == 1,
        "{error}"
    );
    fail(1, &["backup", "--check", &file]);
    fail(1, &["restore", airports(), &place.at("new")]);
    assert_eq!(names(&place), ["db", "db.backup"]);
}

#[test]
fn a_file_that_cannot_grow_leaves_no_backup() {
    let place = Place::new();
    let (db, dump) = imported(&place);
    // A limit of the file's size stands in for a full disk; its signal is ignored, so that the write fails.
    let script = format!(
        "trap '' XFSZ; ulimit -f 8; exec {} backup {db} {}",
        env!("CARGO_BIN_EXE_indelible"),
        place.at("db.backup"),
    );
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && !errors.contains("panicked"),
        "{errors}"
    );
    assert_eq!(names(&place), ["db"]);
    assert_eq!(succeed(&["dump", &db]), dump);
    assert!(
        run(&["backup", &db, &place.at("db.backup")])
            .status
            .success()
    );
}

fn names(place: &Place) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(place.at("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
