//! Goal: a database that lost a file is never given up: no message advises to remove what may hold data.
//!
//! Method: files of databases with rows are removed or emptied, and each command's answer is read.

use crate::common::{Place, fail, succeed};

/// A database with a thousand rows.
fn database(place: &Place, method: &str) -> String {
    let db = place.at(method);
    succeed(&["create", &db, "--method", method, "--partitions", "2"]);
    let rows: String = (0..1000).map(|id| format!("{id},name {id}\n")).collect();
    let file = place.file("rows.csv", &format!("id,name\n{rows}"));
    succeed(&["import", &db, "t", &file, "--primary-key", "id"]);
    db
}

/// Whether an error tells to give up files.
fn advises_to_remove(error: &str) -> bool {
    ["remove", "delete", "create it again", "recreate"]
        .iter()
        .any(|word| error.contains(word))
}

#[test]
fn nothing_advises_to_remove_a_database_without_its_descriptor() {
    let place = Place::new();
    for method in ["nvm-inp", "inp", "cow", "full-page-writes", "nv-logging"] {
        let db = database(&place, method);
        std::fs::remove_file(format!("{db}/indelible.db")).unwrap();
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
    let place = Place::new();
    let (db, log) = (place.at("db"), place.at("log"));
    succeed(&[
        "create",
        &db,
        "--method",
        "nv-logging",
        "--log-directory",
        &log,
    ]);
    for file in std::fs::read_dir(&db).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            std::fs::remove_file(file.path()).unwrap();
        }
    }
    let error = fail(1, &["info", &db]);
    assert!(!advises_to_remove(&error), "{error}");
    assert!(error.contains("p0.ring.0"), "{error}");
}

#[test]
fn nothing_advises_to_remove_a_file_that_is_empty_or_zeroed() {
    let place = Place::new();
    for method in ["nvm-inp", "inp", "cow", "full-page-writes", "log", "fash"] {
        let db = database(&place, method);
        let files: Vec<_> = std::fs::read_dir(&db)
            .unwrap()
            .map(|file| file.unwrap().path())
            .filter(|file| !file.ends_with("indelible.db"))
            .collect();
        for file in files {
            let content = std::fs::read(&file).unwrap();
            for damaged in [Vec::new(), vec![0; content.len()]] {
                std::fs::write(&file, damaged).unwrap();
                let output = crate::common::run(&["verify", &db]);
                let error = String::from_utf8(output.stderr).unwrap();
                assert!(!advises_to_remove(&error), "{file:?}: {error}");
                std::fs::write(&file, &content).unwrap();
            }
        }
    }
}
