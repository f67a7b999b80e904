//! Goal: output goes where it is sent and replaces nothing but a regular file; a pipe will do for
//! input as well.
//!
//! Method: each command that writes a file writes over everything that a path can name, with the
//! full device and the pipe without a reader in the place of standard output.

use crate::common::{AIRPORTS, TestDirectory, fail, run, succeed};
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::{Command, Output, Stdio};

/// A database with the data set.
fn imported(place: &TestDirectory) -> String {
    let db = place.at("db");
    succeed(&["create", &db, "--method", "full-page-writes"]);
    succeed(&["import", &db, "airports", AIRPORTS, "--primary-key", "iata"]);
    db
}

/// The commands that write a file, with the arguments before its name.
fn writers(db: &str) -> [Vec<&str>; 4] {
    [
        vec!["export", db, "airports"],
        vec!["dump", db],
        vec!["backup", db],
        vec!["backup", "--pages", db],
    ]
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    command.args(arguments);
    command
}

/// Standard output of a command.
fn printed(arguments: &[&str]) -> Vec<u8> {
    let output = run(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    output.stdout
}

/// Runs the program with these bytes as standard input.
fn fed(arguments: &[&str], bytes: &[u8]) -> Output {
    let mut command = program(arguments);
    command.stdin(Stdio::piped());
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    // A command that has seen enough closes its end.
    let _ = child.stdin.take().unwrap().write_all(bytes);
    child.wait_with_output().unwrap()
}

#[test]
fn pipes_and_sockets_take_what_is_written_and_stay() {
    let place = TestDirectory::new();
    let db = imported(&place);
    let (pipe, socket) = (place.at("pipe"), place.at("socket"));
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let listener = UnixListener::bind(&socket).unwrap();
    let accept = || {
        let mut bytes = Vec::new();
        let mut stream = listener.accept().unwrap().0;
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    };
    for command in writers(&db) {
        let expected = printed(&[&command[..], &["-"]].concat());
        for force in [&[][..], &["--force"]] {
            std::thread::scope(|threads| {
                let reader = threads.spawn(|| fs::read(&pipe).unwrap());
                succeed(&[&command[..], &[&pipe], force].concat());
                same(&reader.join().unwrap(), &expected);
                let reader = threads.spawn(accept);
                succeed(&[&command[..], &[&socket], force].concat());
                same(&reader.join().unwrap(), &expected);
            });
            let kind = |path: &str| fs::symlink_metadata(path).unwrap().file_type();
            assert!(kind(&pipe).is_fifo() && kind(&socket).is_socket());
        }
        succeed(&[&command[..], &["/dev/null"]].concat());
        let told = fail(1, &[&command[..], &[&place.at(".")], &["--force"]].concat());
        assert!(told.contains("is a directory"), "{told}");
    }
}

/// Backups say when they were taken, so only their length is the same.
fn same(found: &[u8], expected: &[u8]) {
    assert_eq!(found.len(), expected.len());
    if expected.starts_with(b"iata") || expected.starts_with(b"indelible-dump") {
        assert!(found == expected);
    }
}

#[test]
fn device_nodes_are_written_and_stay() {
    let place = TestDirectory::new();
    let db = imported(&place);
    let node = place.at("node");
    let made = Command::new("mknod").args([&node, "c", "1", "3"]).output();
    if !made.is_ok_and(|made| made.status.success()) || File::create(&node).is_err() {
        println!("skipped: no device node can be made or used here");
        return;
    }
    for command in writers(&db) {
        succeed(&[&command[..], &[&node, "--force"]].concat());
        let kind = fs::symlink_metadata(&node).unwrap().file_type();
        assert!(kind.is_char_device(), "{command:?}");
    }
}

#[test]
fn a_replaced_file_keeps_its_mode_and_its_links() {
    let place = TestDirectory::new();
    let db = imported(&place);
    let (file, link) = (place.at("file"), place.at("link"));
    symlink("file", &link).unwrap();
    for command in writers(&db) {
        succeed(&[&command[..], &[&link]].concat());
        for mode in [0o600, 0o440] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert!(fail(2, &[&command[..], &[&link]].concat()).contains("--force"));
            succeed(&[&command[..], &[&link, "--force"]].concat());
            let found = fs::symlink_metadata(&file).unwrap();
            assert_eq!(found.permissions().mode() & 0o7777, mode, "{command:?}");
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        }
        fs::remove_file(&file).unwrap();
    }
}

/// A limit of the size of files stands in for a full disk. Its signal is ignored, so that the write
/// fails. It leaves room for the stamp at 8 KiB that an opening for writing puts into each file.
#[test]
fn a_disk_that_fills_up_leaves_the_old_file() {
    let place = TestDirectory::new();
    let db = imported(&place);
    let file = place.file("file", "old");
    let before = fs::read_dir(place.at(".")).unwrap().count();
    for command in writers(&db) {
        let words = [&[env!("CARGO_BIN_EXE_indelible")], &command[..]].concat();
        let script = format!(
            "trap '' XFSZ; ulimit -f 12; exec {} {file} --force",
            words.join(" ")
        );
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(&file), "{errors}");
        assert_eq!(place.read("file"), "old");
        assert_eq!(fs::read_dir(place.at(".")).unwrap().count(), before);
    }
}

#[test]
fn dumps_and_backups_go_through_pipes() {
    let place = TestDirectory::new();
    let db = imported(&place);
    let dump = printed(&["dump", &db, "-"]);
    for (number, command) in writers(&db).iter().enumerate().skip(1) {
        let new = place.at(&format!("new{number}"));
        let bytes = printed(&[&command[..], &["-"]].concat());
        let into: &[&str] = match number {
            1 => &["load", &new, "-"],
            _ => &["restore", "-", &new],
        };
        let cut = fed(into, &bytes[..bytes.len() - 3]);
        assert_eq!(cut.status.code(), Some(1));
        assert!(!fs::exists(&new).unwrap(), "{command:?}");
        let whole = fed(into, &bytes);
        let errors = String::from_utf8_lossy(&whole.stderr);
        assert!(whole.status.success(), "{command:?}: {errors}");
        assert!(printed(&["dump", &new]) == dump);
        if number > 1 {
            let checked = fed(&["backup", "--check", "-"], &bytes);
            assert!(String::from_utf8_lossy(&checked.stdout).contains("sound"));
        }
    }
    assert_eq!(fs::read_dir(place.at(".")).unwrap().count(), 4);
}

/// If data goes to standard output, the report goes to standard error.
#[test]
fn data_on_standard_output_stands_there_alone() {
    let place = TestDirectory::new();
    let db = imported(&place);
    for command in writers(&db) {
        let output = run(&[&command[..], &["-"]].concat());
        assert!(!output.stderr.is_empty(), "{command:?}");
        let file = place.at("file");
        succeed(&[&command[..], &[&file]].concat());
        same(&output.stdout, &fs::read(&file).unwrap());
        fs::remove_file(&file).unwrap();
    }
}

/// Commands that change something, each a success on a database as [`imported`] makes one, with its
/// expected results.
fn changes(place: &TestDirectory, db: &str) -> Vec<Vec<String>> {
    let [new, other, third] = ["new", "other", "third"].map(|name| place.at(name));
    let (dump, backup, csv) = (place.at("dump"), place.at("backup"), place.at("csv"));
    let lines = [
        format!("dump {db} {dump}"),
        format!("backup {db} {backup}"),
        format!("export {db} airports {csv}"),
        format!("create {new}"),
        format!("import {new} airports {AIRPORTS} --primary-key iata"),
        format!("indexes create {new} airports by_state --columns state"),
        format!("indexes drop {new} airports by_state"),
        format!("tables create {new} t --columns a:int64 --primary-key a"),
        format!("tables drop {new} t"),
        format!("load {other} {dump}"),
        format!("restore {backup} {third}"),
        format!("convert {db} {third}.converted --method inp"),
        format!("shrink {db}"),
    ];
    let words = lines.map(|line| line.split(' ').map(str::to_owned).collect());
    words.into()
}

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_full_standard_output_is_an_error_that_names_it() {
    let place = TestDirectory::new();
    let db = imported(&place);
    let index = ["indexes", "create", &db, "airports", "by_state"];
    succeed(&[&index[..], &["--columns", "state"]].concat());
    let reads = [
        &["get", &db, "airports", "JFK"][..],
        &["scan", &db, "airports"],
        &["tables", "list", &db],
        &["indexes", "list", &db, "airports"],
        &["describe", &db, "airports"],
        &["info", &db],
        &["verify", &db],
        &["device", &place.at(".")],
        &["export", &db, "airports"],
        &["dump", &db],
        &["backup", &db, "-"],
        &["completions", "bash"],
        &["torture", "--method", "nvm-inp", "--images", "20"],
        &[
            "bench", "ycsb", "--method", "nvm-inp", "--rows", "100", "--txns", "100",
        ],
        &[
            "bench",
            "join",
            "--algorithm",
            "radix",
            "--r",
            "1000",
            "--s",
            "1000",
        ],
    ];
    for command in reads {
        for format in ["text", "json", "csv"] {
            let mut command = program(command);
            let output = command.args(["--format", format]).stdout(full()).output();
            let output = output.unwrap();
            let errors = String::from_utf8(output.stderr).unwrap();
            let is_told = errors.contains("cannot write to standard output: ");
            assert!(
                is_told && !errors.contains("its work"),
                "{command:?}: {errors}"
            );
            assert!(!errors.contains("panicked"), "{command:?}: {errors}");
            assert!(matches!(output.status.code(), Some(1 | 2)), "{command:?}");
        }
    }
    for help in [
        &["--help"][..],
        &["--version"],
        &["import", "--help"],
        &["help", "scan"],
    ] {
        let output = program(help).stdout(full()).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains("standard output"), "{help:?}: {errors}");
        assert_eq!(output.status.code(), Some(1), "{help:?}");
    }
}

#[test]
fn a_report_that_is_lost_does_not_hide_that_the_work_is_done() {
    let place = TestDirectory::new();
    let db = imported(&place);
    for command in changes(&place, &db) {
        let output = Command::new(env!("CARGO_BIN_EXE_indelible"))
            .args(&command)
            .stdout(full())
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        let is_told = errors.contains("standard output") && errors.contains("has done its work");
        assert!(is_told, "{command:?}: {errors}");
        assert_eq!(output.status.code(), Some(1), "{command:?}");
    }
    // Each command needed the result of the one before it.
    let dump = printed(&["dump", &db]);
    for copy in ["new", "other", "third", "third.converted"] {
        let found = printed(&["dump", &place.at(copy)]);
        assert!(found == dump, "{copy}");
    }
    for file in ["dump", "backup", "csv"] {
        assert!(fs::metadata(place.at(file)).unwrap().len() > 1000, "{file}");
    }
}

#[test]
fn a_reader_that_went_away_ends_a_command_quietly() {
    let place = TestDirectory::new();
    let db = imported(&place);
    for command in [
        &["scan", &db, "airports", "--limit", "5000"][..],
        &["scan", &db, "airports", "--format", "json"],
        &["verify", &db],
        &["--help"],
        // Half of such data is of no use, and who checks exit codes must learn of it.
        &["export", &db, "airports"],
        &["dump", &db],
        &["backup", &db, "-"],
        // Statements may be left that were not run.
        &["sql", &db, "-c", "\\echo a", "-c", "\\echo b"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = program(command).stdout(writer).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        let is_data = ["export", "dump", "backup"].contains(&command[0]);
        let code = output.status.code();
        let fails = is_data || command[0] == "sql";
        assert_eq!(code, Some(i32::from(fails)), "{command:?}");
        assert_eq!(!errors.is_empty(), is_data, "{command:?}: {errors}");
    }
    // A closed pipe is an error if it is the file that the user named.
    let pipe = place.at("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let output = std::thread::scope(|threads| {
        let writer = threads.spawn(|| run(&["dump", &db, &pipe]));
        drop(File::open(&pipe).unwrap());
        writer.join().unwrap()
    });
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains(&pipe), "{errors}");
}

#[test]
fn a_full_standard_error_changes_nothing() {
    let place = TestDirectory::new();
    let db = imported(&place);
    let end = |arguments: &[&str]| program(arguments).stderr(full()).output().unwrap();
    assert_eq!(end(&["info", &place.at("none")]).status.code(), Some(1));
    assert_eq!(
        end(&["scan", &db, "airports", "--limit", "1"])
            .status
            .code(),
        Some(0)
    );
    assert_eq!(end(&["frobnicate"]).status.code(), Some(2));
    let output = end(&["dump", &db]);
    assert!(output.status.success() && output.stdout == printed(&["dump", &db]));
}
