//! Goal: a limit of the operating system that is too low for all partitions is named, with a number
//! that works, and leaves nothing.
//!
//! Method: a shell sets the limit for the program; following the advice of the error must succeed.

use crate::common::{TestDirectory, succeed};
use indelible::{Database, Method};
use std::fs;
use std::process::Command;

const METHODS: [Method; 6] = [
    Method::NvmInp,
    Method::Inp,
    Method::Log,
    Method::Cow,
    Method::FullPageWrites,
    Method::NvDiskDecentralized,
];

/// Runs the program under a limit; its error, if it fails. Its threads share one heap: one of
/// their own takes 64 to 128 MiB of addresses, at a moment that no measurement can foresee.
fn limited(limit: &str, arguments: &[&str]) -> Result<(), String> {
    let program = env!("CARGO_BIN_EXE_indelible");
    let script = format!("{limit} && exec {program} {}", arguments.join(" "));
    let mut bash = Command::new("bash");
    let bash = bash.args(["-c", &script]).env("MALLOC_ARENA_MAX", "1");
    let output = bash.output().unwrap();
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
    Err(errors)
}

/// The number that follows these words.
fn number_after<'e>(errors: &'e str, words: &str) -> &'e str {
    let rest = errors
        .split(words)
        .nth(1)
        .unwrap_or_else(|| panic!("{errors}"));
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    &rest[..end]
}

fn create_as_advised(method: Method, limit: &str, partitions: &str) {
    let place = TestDirectory::new();
    let db = place.at("db");
    let name = method.name();
    let create = |partitions| ["create", &db, "--method", name, "--partitions", partitions];
    let errors = limited(limit, &create(partitions)).unwrap_err();
    let (command, _) = limit.rsplit_once(' ').unwrap();
    assert!(errors.contains(command), "{method}: {errors}");
    assert!(!fs::exists(&db).unwrap(), "{method}");
    let fitting = number_after(&errors, "at most ");
    limited(limit, &create(fitting)).unwrap();
    limited(limit, &["verify", &db]).unwrap();
    Database::remove(&db).unwrap();
    let raised = format!(
        "{command} {}",
        number_after(&errors, &format!("{command} "))
    );
    limited(&raised, &create(partitions)).unwrap_or_else(|errors| panic!("{raised}: {errors}"));
}

#[test]
fn too_many_partitions_for_open_files_are_refused_with_a_number_that_fits() {
    for method in METHODS {
        create_as_advised(method, "ulimit -n 64", "60");
    }
}

#[test]
fn too_many_partitions_for_addresses_are_refused_with_a_number_that_fits() {
    for method in METHODS {
        // Most methods take little. A buffer pool has 128 MiB, and threads have stacks in addition.
        let (limit, partitions) = if method.is_paged() {
            ("ulimit -v 2000000", "40")
        } else {
            ("ulimit -v 300000", "200")
        };
        create_as_advised(method, limit, partitions);
    }
}

#[test]
fn a_database_that_exists_says_what_it_takes() {
    let place = TestDirectory::new();
    let db = place.at("db");
    succeed(&[
        "create",
        &db,
        "--method",
        "full-page-writes",
        "--partitions",
        "40",
    ]);
    let errors = limited("ulimit -n 40", &["info", &db]).unwrap_err();
    let raised = format!("ulimit -n {}", number_after(&errors, "ulimit -n "));
    limited(&raised, &["info", &db]).unwrap();
    succeed(&["verify", &db]);
}
