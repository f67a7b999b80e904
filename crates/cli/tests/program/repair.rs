//! Goal: a database that lost a file is never given up: no message advises to remove a file that
//! may hold data, and a file that the others can rebuild is rebuilt.
//!
//! Method: files of databases with rows are removed or emptied, each command's answer is read, and
//! the rows are counted after a repair.

use crate::common::{TestDirectory, fail, is_long, succeed};
use std::fs;

/// A database with a thousand rows.
fn database(place: &TestDirectory, method: &str) -> String {
    let db = place.at(method);
    succeed(&["create", &db, "--method", method, "--partitions", "2"]);
    let rows: Vec<String> = (0..1000).map(|id| format!("{id},name {id}")).collect();
    let file = place.file("rows.csv", &format!("id,name\n{}\n", rows.join("\n")));
    succeed(&["import", &db, "t", &file, "--primary-key", "id"]);
    db
}

/// Whether an error advises to give up files.
fn advises_to_remove(error: &str) -> bool {
    ["remove", "delete", "create it again", "recreate"]
        .iter()
        .any(|word| error.contains(word))
}

#[test]
fn nothing_advises_to_remove_a_database_without_its_descriptor() {
    let place = TestDirectory::new();
    for method in ["nvm-inp", "inp", "cow", "full-page-writes", "nv-logging"] {
        let db = database(&place, method);
        fs::remove_file(format!("{db}/indelible.db")).unwrap();
        for error in [
            fail(1, &["info", &db]),
            fail(2, &["verify", &db]),
            fail(1, &["create", &db]),
            fail(1, &["get", &db, "t", "1"]),
        ] {
            assert!(!advises_to_remove(&error), "{method}: {error}");
            assert!(error.contains("may hold data"), "{method}: {error}");
            assert!(error.contains("indelible repair"), "{method}: {error}");
        }
    }
}

#[test]
fn a_log_elsewhere_counts_as_data() {
    let place = TestDirectory::new();
    let (db, log) = (place.at("db"), place.at("log"));
    succeed(&[
        "create",
        &db,
        "--method",
        "nv-logging",
        "--log-directory",
        &log,
    ]);
    for file in fs::read_dir(&db).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::remove_file(file.path()).unwrap();
        }
    }
    let error = fail(1, &["info", &db]);
    assert!(!advises_to_remove(&error), "{error}");
    assert!(error.contains("p0.ring.0"), "{error}");
}

#[test]
fn nothing_advises_to_remove_a_file_that_is_empty_or_zeroed() {
    let place = TestDirectory::new();
    for method in ["nvm-inp", "inp", "cow", "full-page-writes", "log", "fash"] {
        let db = database(&place, method);
        let files: Vec<_> = fs::read_dir(&db)
            .unwrap()
            .map(|file| file.unwrap().path())
            .filter(|file| !file.ends_with("indelible.db"))
            .collect();
        for file in files {
            let content = fs::read(&file).unwrap();
            for damaged in [Vec::new(), vec![0; content.len()]] {
                fs::write(&file, damaged).unwrap();
                let output = crate::common::run(&["verify", &db]);
                let error = String::from_utf8(output.stderr).unwrap();
                assert!(!advises_to_remove(&error), "{file:?}: {error}");
                fs::write(&file, &content).unwrap();
            }
        }
    }
}

/// Names and contents of the files of a directory.
fn files(directory: &str) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    found.sort();
    found
}

fn rows_of(db: &str) -> usize {
    succeed(&["scan", db, "t", "--limit", "5000", "--format", "json"])
        .lines()
        .count()
}

const METHODS: [&str; 25] = [
    "inp",
    "nvm-inp",
    "cow",
    "nvm-cow",
    "log",
    "nvm-log",
    "full-page-writes",
    "dwb",
    "dwb-batched",
    "dwb-off",
    "disk-replacement",
    "nv-disk",
    "nv-disk-decentralized",
    "nv-logging",
    "distributed-log",
    "in-place",
    "nv-wsp",
    "group-commit",
    "nvm-dwb",
    "nvm-dwb-log",
    "nvm-dwb-log-opt",
    "fash",
    "fast",
    "nvwal",
    "slot-header-journal",
];

#[test]
fn a_lost_descriptor_is_rebuilt_on_every_method() {
    let place = TestDirectory::new();
    // Without `LONG_TESTS` every fourth method has to do.
    for method in METHODS.into_iter().step_by(if is_long() { 1 } else { 4 }) {
        let db = database(&place, method);
        let descriptor = format!("{db}/indelible.db");
        let info = |db: &str| -> Vec<String> {
            let text = succeed(&["info", db]);
            let kept = text.lines().filter(|line| {
                [
                    "identity",
                    "method",
                    "partitions",
                    "layout",
                    "node bytes",
                    "fences",
                ]
                .iter()
                .any(|name| line.starts_with(name))
            });
            kept.map(str::to_owned).collect()
        };
        let before = info(&db);
        fs::remove_file(&descriptor).unwrap();
        let all = files(&db);
        let said = succeed(&["repair", &db, "--dry-run"]);
        assert!(
            said.contains("would rebuild") && said.contains("indelible.db"),
            "{said}"
        );
        assert_eq!(files(&db), all, "{method}: a rehearsal changes nothing");
        let said = succeed(&["repair", &db]);
        assert!(
            said.contains("verify") && said.contains("sound"),
            "{method}: {said}"
        );
        assert_eq!((info(&db), rows_of(&db)), (before, 1000), "{method}");
        // A repair keeps the damaged file.
        fs::write(&descriptor, "garbage").unwrap();
        let said = succeed(&["repair", &db, "--format", "json"]);
        let facts: serde_json::Value = serde_json::from_str(&said).unwrap();
        let kept = format!("{}/indelible.db", facts["replaced_files"].as_str().unwrap());
        assert_eq!(fs::read(kept).unwrap(), b"garbage");
        assert_eq!(rows_of(&db), 1000, "{method}");
        let said = succeed(&["repair", &db]);
        assert!(
            said.contains("nothing: what can be rebuilt is whole"),
            "{said}"
        );
    }
}

#[test]
fn a_lost_commit_table_is_rebuilt_where_no_transaction_needs_it() {
    let place = TestDirectory::new();
    for method in [
        "nvm-inp",
        "inp",
        "cow",
        "full-page-writes",
        "nv-logging",
        "log",
    ] {
        let db = database(&place, method);
        fs::remove_file(format!("{db}/commits.pool")).unwrap();
        let said = succeed(&["repair", &db]);
        assert!(
            said.contains("commits.pool") && said.contains("sound"),
            "{said}"
        );
        assert_eq!(rows_of(&db), 1000, "{method}");
        // New tables get numbers that no other has.
        let columns = ["--columns", "id:int64", "--primary-key", "id"];
        succeed(&[&["tables", "create", &db, "u"][..], &columns].concat());
        assert!(succeed(&["verify", &db]).starts_with("sound"));
        // With the copy in the new table the descriptor can be lost again.
        fs::remove_file(format!("{db}/indelible.db")).unwrap();
        succeed(&["repair", &db]);
        assert_eq!(rows_of(&db), 1000, "{method}");
    }
}

#[test]
fn with_both_lost_a_repair_asks_for_what_no_file_tells() {
    let place = TestDirectory::new();
    for method in [
        "nvm-inp",
        "inp",
        "cow",
        "log",
        "full-page-writes",
        "nv-logging",
        "fash",
        "dwb",
        "in-place",
    ] {
        let db = database(&place, method);
        for name in ["indelible.db", "commits.pool"] {
            fs::remove_file(format!("{db}/{name}")).unwrap();
        }
        let all = files(&db);
        let mut words = vec!["repair", &db];
        let mut error = fail(1, &words);
        if error.contains("--method") {
            words.extend(["--method", method]);
            error = fail(1, &words);
        }
        assert!(error.contains("--partitions 2"), "{method}: {error}");
        assert!(!advises_to_remove(&error), "{error}");
        let too_few = fail(1, &[&words[..], &["--partitions", "1"]].concat());
        assert!(
            too_few.contains("there are files of 2 partitions"),
            "{too_few}"
        );
        let too_many = fail(1, &[&words[..], &["--partitions", "3"]].concat());
        assert!(!advises_to_remove(&too_many), "{too_many}");
        let wrong = fail(
            1,
            &["repair", &db, "--method", "nvwal", "--partitions", "2"],
        );
        assert!(wrong.contains("not those of method nvwal"), "{wrong}");
        assert_eq!(files(&db), all, "{method}: what is refused changes nothing");
        words.extend(["--partitions", "2"]);
        let said = succeed(&words);
        assert!(said.contains("sound"), "{method}: {said}");
        assert_eq!(rows_of(&db), 1000, "{method}");
    }
}

#[test]
fn what_holds_data_is_never_made_up() {
    let place = TestDirectory::new();
    for (method, lost) in [
        ("nvm-inp", "p1.pool"),
        ("cow", "p1.cow"),
        ("full-page-writes", "p0.pages"),
    ] {
        let db = database(&place, method);
        fs::remove_file(format!("{db}/indelible.db")).unwrap();
        fs::remove_file(format!("{db}/{lost}")).unwrap();
        let all = files(&db);
        let error = fail(1, &["repair", &db]);
        assert!(
            error.contains("backup") && !advises_to_remove(&error),
            "{error}"
        );
        assert_eq!(files(&db), all, "{method}: what is refused changes nothing");
    }
    // An interrupted creation holds nothing, and still nobody is told to remove it.
    let db = place.at("empty");
    succeed(&["create", &db, "--method", "inp"]);
    fs::remove_file(format!("{db}/indelible.db")).unwrap();
    let error = fail(1, &["repair", &db]);
    assert!(
        error.contains("hold no tables") && !advises_to_remove(&error),
        "{error}"
    );
    assert!(fail(1, &["repair", &place.at("nothing")]).contains("there is no database"));
}

#[test]
fn an_older_copy_of_a_file_is_not_made_good_by_a_repair() {
    let place = TestDirectory::new();
    for (method, data) in [
        ("nvm-inp", "p1.pool"),
        ("cow", "p0.cow"),
        ("nvwal", "p0.nvwal"),
        ("nv-logging", "p0.ring.0"),
        ("full-page-writes", "commits.pool"),
    ] {
        let db = database(&place, method);
        let descriptor = format!("{db}/indelible.db");
        let data = format!("{db}/{data}");
        let old = [&descriptor, &data].map(|file| fs::read(file).unwrap());
        let columns = ["--columns", "id:int64", "--primary-key", "id"];
        succeed(&[&["tables", "create", &db, "u"][..], &columns].concat());
        // The list of files is made anew from the stamps in the files.
        fs::write(&descriptor, &old[0]).unwrap();
        let error = fail(2, &["verify", &db]);
        assert!(error.contains("indelible.db is an older copy"), "{error}");
        let said = succeed(&["repair", &db]);
        let is_right = said.contains("the list of files") && said.contains("sound");
        assert!(is_right, "{method}: {said}");
        assert_eq!(rows_of(&db), 1000, "{method}");
        // An older copy of a file with data is refused.
        fs::write(&data, &old[1]).unwrap();
        for is_lost in [false, true] {
            if is_lost {
                fs::remove_file(&descriptor).unwrap();
            }
            let all = files(&db);
            let error = fail(1, &["repair", &db]);
            assert!(error.contains("is an older copy"), "{method}: {error}");
            assert!(!advises_to_remove(&error), "{error}");
            assert_eq!(files(&db), all, "{method}: what is refused changes nothing");
        }
    }
}
