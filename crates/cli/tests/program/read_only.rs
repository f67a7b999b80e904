//! Goal: a database that cannot be written can be read by every command that only reads, by several
//! of them at once.
//!
//! Method: modes mean nothing to root, so root runs the program as somebody else; where that cannot
//! be, the test says so and ends.

use crate::common::{AIRPORTS, TestDirectory, fail, run, succeed};
use indelible::{Database, Method, Mode, Options};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};

const METHODS: [Method; 7] = [
    Method::NvmInp,
    Method::Inp,
    Method::Cow,
    Method::Log,
    Method::FullPageWrites,
    Method::NvLogging,
    Method::InPlace,
];

/// Runs the program as somebody who may not write in directories of this user.
fn as_reader(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_indelible");
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let mut command = if is_root {
        let mut command = Command::new("setpriv");
        let other = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        command.args(other).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.args(arguments).output().unwrap()
}

fn can_run_as_reader() -> bool {
    let can = Command::new("setpriv").arg("--version").output().is_ok()
        && as_reader(&["--version"]).status.success();
    if !can {
        eprintln!("skipped: the program cannot be run as another user here");
    }
    can
}

fn set_modes(path: &str, directory: u32, file: u32) {
    for entry in fs::read_dir(path).unwrap() {
        fs::set_permissions(entry.unwrap().path(), Permissions::from_mode(file)).unwrap();
    }
    fs::set_permissions(path, Permissions::from_mode(directory)).unwrap();
}

fn imported(place: &TestDirectory, method: Method) -> String {
    let db = place.at(method.name());
    let partitions = ["--partitions", "2"];
    succeed(&[&["create", &db, "--method", method.name()], &partitions[..]].concat());
    succeed(&["import", &db, "airports", AIRPORTS, "--primary-key", "iata"]);
    db
}

fn readers(db: &str) -> [Vec<&str>; 11] {
    [
        vec!["get", db, "airports", "JFK"],
        vec!["scan", db, "airports", "--limit", "3"],
        vec!["tables", "list", db],
        vec!["indexes", "list", db, "airports"],
        vec!["describe", db, "airports"],
        vec!["verify", db],
        vec!["export", db, "airports"],
        vec!["dump", db],
        vec!["dump", db, "--sql"],
        vec!["info", db],
        vec!["backup", db, "-"],
    ]
}

#[test]
fn commands_that_only_read_need_no_right_to_write() {
    if !can_run_as_reader() {
        return;
    }
    for method in METHODS {
        let place = TestDirectory::new();
        let db = imported(&place, method);
        set_modes(&db, 0o555, 0o444);
        for command in readers(&db) {
            let output = as_reader(&command);
            let errors = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{method}, {command:?}: {errors}");
            if command[0] != "info" && command[0] != "backup" {
                assert_eq!(String::from_utf8(output.stdout).unwrap(), succeed(&command));
            }
        }
        let query = ["sql", &db, "-c", "SELECT count(*) FROM airports"];
        let printed = as_reader(&query).stdout;
        assert!(String::from_utf8(printed).unwrap().contains("3376"));
        let output = as_reader(&["tables", "drop", &db, "airports"]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && errors.contains("ermission"),
            "{errors}"
        );
        set_modes(&db, 0o755, 0o644);
    }
}

/// SQL opened every database for writing.
#[test]
fn tables_of_sql_are_read_without_the_right_to_write() {
    if !can_run_as_reader() {
        return;
    }
    let place = TestDirectory::new();
    let db = place.at("db");
    succeed(&["create", &db]);
    let text = "CREATE TABLE t (id serial PRIMARY KEY, n numeric); INSERT INTO t (n) VALUES (1.5)";
    succeed(&["sql", &db, "-c", text]);
    set_modes(&db, 0o555, 0o444);
    let dump = as_reader(&["dump", &db, "--sql"]);
    assert!(String::from_utf8(dump.stdout).unwrap().contains("1\t1.5\n"));
    let output = as_reader(&["sql", &db, "-c", "INSERT INTO t (n) VALUES (2)"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("ERROR") && errors.contains("read"),
        "{errors}"
    );
    set_modes(&db, 0o755, 0o644);
}

/// `info` opened a database with an archive for writing, to look at that.
#[test]
fn info_tells_of_an_archive_without_the_right_to_write() {
    if !can_run_as_reader() {
        return;
    }
    for method in [
        Method::FullPageWrites,
        Method::NvDiskDecentralized,
        Method::NvLogging,
        Method::DistributedLog,
    ] {
        let place = TestDirectory::new();
        let (db, archive) = (place.at(method.name()), place.at("archive"));
        succeed(&[
            "create",
            &db,
            "--method",
            method.name(),
            "--archive",
            &archive,
        ]);
        succeed(&["import", &db, "airports", AIRPORTS, "--primary-key", "iata"]);
        set_modes(&archive, 0o555, 0o444);
        fs::set_permissions(&db, Permissions::from_mode(0o555)).unwrap();
        for entry in fs::read_dir(&db).unwrap() {
            let path = entry.unwrap().path();
            if !path.is_symlink() {
                fs::set_permissions(path, Permissions::from_mode(0o444)).unwrap();
            }
        }
        let output = as_reader(&["info", &db]);
        let told = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{method}: {errors}");
        let line = told
            .lines()
            .find(|line| line.contains("archive of partition 0"));
        assert!(
            line.is_some_and(|line| line.contains("records")),
            "{method}: {told}"
        );
        fs::set_permissions(&db, Permissions::from_mode(0o755)).unwrap();
        set_modes(&archive, 0o755, 0o644);
    }
}

#[test]
fn readers_run_at_once_and_keep_writers_out() {
    for method in METHODS {
        let place = TestDirectory::new();
        let db = imported(&place, method);
        let reading = Options::new().mode(Mode::ReadOnly);
        let open = Database::open_with(&db, &reading).unwrap();
        for command in readers(&db) {
            let output = run(&command);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{method}, {command:?}: {errors}");
        }
        let told = fail(1, &["tables", "drop", &db, "airports"]);
        assert!(told.contains("in use"), "{told}");
        open.close().unwrap();
        let open = Database::open(&db).unwrap();
        let told = fail(1, &["get", &db, "airports", "JFK"]);
        assert!(told.contains("in use"), "{told}");
        drop(open);
        succeed(&["tables", "drop", &db, "airports"]);
    }
}

/// The files of an open database are those that a kill leaves.
fn killed(place: &TestDirectory, db: &str) -> String {
    let copy = place.at("killed");
    let open = Database::open(db).unwrap();
    let table = open.table("airports").unwrap();
    open.transaction(|t| t.delete(&table, "JFK").map(drop))
        .unwrap();
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(db).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), Path::new(&copy).join(entry.file_name())).unwrap();
    }
    copy
}

#[test]
fn recovery_that_is_due_is_made_or_asked_for() {
    if !can_run_as_reader() {
        return;
    }
    for method in [Method::FullPageWrites, Method::NvLogging, Method::Inp] {
        let place = TestDirectory::new();
        let db = imported(&place, method);
        let copy = killed(&place, &db);
        set_modes(&copy, 0o555, 0o444);
        let output = as_reader(&["scan", &copy, "airports", "--limit", "1"]);
        let errors = String::from_utf8(output.stderr).unwrap();
        if method == Method::Inp {
            // It is recovered in memory.
            assert!(output.status.success(), "{errors}");
        } else {
            let is_told = errors.contains("once for writing") && errors.contains("copy the whole");
            assert!(!output.status.success() && is_told, "{method}: {errors}");
        }
        set_modes(&copy, 0o755, 0o644);
        assert!(fail(1, &["get", &copy, "airports", "JFK"]).contains("no row"));
    }
}

/// A restore that replays an archive asked for the right to write into it.
#[test]
fn an_archive_is_replayed_without_the_right_to_write() {
    if !can_run_as_reader() {
        return;
    }
    let place = TestDirectory::new();
    let [db, archive, file, new] = ["db", "archive", "file", "new"].map(|name| place.at(name));
    let method = ["--method", "nv-logging", "--archive", &archive];
    succeed(&[&["create", &db], &method[..]].concat());
    succeed(&["backup", "--pages", &db, &file]);
    succeed(&["import", &db, "airports", AIRPORTS, "--primary-key", "iata"]);
    set_modes(&archive, 0o555, 0o444);
    fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
    fs::create_dir(&new).unwrap();
    fs::set_permissions(&new, Permissions::from_mode(0o777)).unwrap();
    let copy = format!("{new}/copy");
    let output = as_reader(&["restore", &file, &copy, "--replay", &archive]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    assert!(succeed(&["tables", "list", &copy]).contains("airports"));
}
