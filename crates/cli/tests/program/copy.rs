//! Goal: `backup`, `restore` and `convert` make the same database again, or say in one sentence why
//! not and leave nothing.
//!
//! Method: the shipped data set goes through all of them; then a damaged backup, a full disk and
//! places that are taken.

use crate::common::{AIRPORTS, TestDirectory, fail, run, succeed};
use indelible::Timestamp;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

/// A database with the data set and an index; its path and its dump.
fn imported(place: &TestDirectory) -> (String, String) {
    let db = place.at("db");
    succeed(&["create", &db, "--method", "nvm-inp", "--partitions", "2"]);
    succeed(&["import", &db, "airports", AIRPORTS, "--primary-key", "iata"]);
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
    let place = TestDirectory::new();
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
    let place = TestDirectory::new();
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
    fail(1, &["restore", AIRPORTS, &place.at("new")]);
    assert_eq!(names(&place), ["db", "db.backup"]);
}

#[test]
fn a_copy_has_its_log_and_archive_where_they_are_wanted() {
    let place = TestDirectory::new();
    let (db, dump) = imported(&place);
    let file = place.at("db.backup");
    succeed(&["backup", &db, &file]);
    let [log, archive, other_log, other_archive] =
        ["log", "archive", "other.log", "other.archive"].map(|name| place.at(name));
    let (restored, converted) = (place.at("restored"), place.at("converted"));
    let method = ["--method", "nv-logging"];
    let places = ["--log-directory", &log, "--archive", &archive];
    succeed(&[&["restore", &file, &restored], &method[..], &places].concat());
    let method = ["--method", "distributed-log"];
    let places = ["--log-directory", &other_log, "--archive", &other_archive];
    succeed(&[&["convert", &restored, &converted], &method[..], &places].concat());
    for (database, log, archive) in [
        (&restored, &log, &archive),
        (&converted, &other_log, &other_archive),
    ] {
        assert_eq!(&succeed(&["dump", database]), &dump);
        let leads_to = |link: &str, directory: &str| {
            let found = std::fs::canonicalize(format!("{database}/{link}")).unwrap();
            assert_eq!(found, std::fs::canonicalize(directory).unwrap());
            let is_empty = std::fs::read_dir(directory).unwrap().next().is_none();
            assert!(!is_empty, "{directory}");
        };
        leads_to("log", log);
        leads_to("archive", archive);
        assert!(succeed(&["info", database]).contains("archive"));
        assert!(succeed(&["verify", database]).starts_with("sound"));
    }
}

#[test]
fn an_archive_is_replayed_over_a_backup_of_pages() {
    let place = TestDirectory::new();
    let (db, first) = imported(&place);
    let [db_of_pages, archive, rows, base, new] =
        ["paged", "archive", "rows", "base", "new"].map(|name| place.at(name));
    let one = ["--partitions", "1", "--archive", &archive];
    let convert = ["convert", &db, &db_of_pages, "--method", "nv-logging"];
    succeed(&[&convert[..], &one].concat());
    succeed(&["backup", "--pages", &db_of_pages, &base]);
    assert!(succeed(&["backup", "--check", &base]).contains("sound"));
    let import = ["import", &db_of_pages, "again", AIRPORTS];
    succeed(&[&import[..], &["--primary-key", "iata"]].concat());
    let middle = succeed(&["dump", &db_of_pages]);
    let since = UNIX_EPOCH.elapsed().unwrap().as_micros();
    let then = Timestamp(i64::try_from(since).unwrap()).to_string();
    let index = ["indexes", "create", &db_of_pages, "again", "by_city"];
    succeed(&[&index[..], &["--columns", "city"]].concat());
    let info = succeed(&["info", &db_of_pages]);
    assert!(info.contains("commits from"), "{info}");
    let second = succeed(&["dump", &db_of_pages]);
    succeed(&["restore", &base, &new]);
    assert_eq!(succeed(&["dump", &new]), first);
    let newer = place.at("newer");
    let replay = ["--replay", &archive, "--method", "nvm-inp"];
    let report = succeed(&[&["restore", &base, &newer], &replay[..]].concat());
    assert!(report.contains("up to"), "{report}");
    assert_eq!(succeed(&["dump", &newer]), second);
    assert!(succeed(&["verify", &newer]).starts_with("sound"));
    let earlier = place.at("earlier");
    let until = ["--replay", &archive, "--until", &then];
    let report = succeed(&[&["restore", &base, &earlier], &until[..]].concat());
    assert!(report.contains("the last one of"), "{report}");
    assert_eq!(succeed(&["dump", &earlier]), middle);
    assert_ne!(middle, second);
    // A refused copy prints one sentence, and leaves nothing.
    let none = place.at("none");
    let refused = |arguments: &[&str]| {
        let error = fail(1, &[&["restore"], arguments].concat());
        assert!(!std::path::Path::new(&none).exists());
        assert!(!names(&place).iter().any(|name| name.contains("rebuilt")));
        error
    };
    let far = ["--replay", &archive, "--until", "99999999"];
    let told = refused(&[&[base.as_str(), &none], &far[..]].concat());
    assert!(told.contains("the archive ends at"), "{told}");
    let future = ["--replay", &archive, "--until", "2999-01-01T00:00:00Z"];
    let told = refused(&[&[base.as_str(), &none], &future[..]].concat());
    assert!(told.contains("the newest commit of the archive"), "{told}");
    let past = ["--replay", &archive, "--until", "2001-01-01T00:00:00Z"];
    let told = refused(&[&[base.as_str(), &none], &past[..]].concat());
    assert!(told.contains("before the backup"), "{told}");
    let early = ["--replay", &archive, "--until", "1"];
    let told = refused(&[&[base.as_str(), &none], &early[..]].concat());
    assert!(told.contains("the backup stands at"), "{told}");
    succeed(&["backup", &db_of_pages, &rows]);
    let replay = ["--replay", archive.as_str()];
    let told = fail(2, &[&["restore", &rows, &none], &replay[..]].concat());
    assert!(told.contains("--pages"), "{told}");
    let mut files: Vec<String> = std::fs::read_dir(&archive)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let [.., gone, last] = &files[..] else {
        panic!("{files:?}");
    };
    std::fs::remove_file(format!("{archive}/{gone}")).unwrap();
    let told = refused(&[&[base.as_str(), &none], &replay[..]].concat());
    assert!(told.contains(last) && told.contains("last point"), "{told}");
    let told = fail(2, &["backup", "--pages", &db, &rows, "--force"]);
    assert!(told.contains("rows instead"), "{told}");
}

#[test]
fn archives_of_several_partitions_are_replayed_up_to_a_mark_of_all() {
    let place = TestDirectory::new();
    let (db, first) = imported(&place);
    let [paged, archive, base, new] =
        ["paged", "archive", "base", "new"].map(|name| place.at(name));
    let options = ["--method", "nv-logging", "--archive", &archive];
    succeed(&[&["convert", &db, &paged], &options[..]].concat());
    succeed(&["backup", "--pages", &paged, &base]);
    assert!(succeed(&["backup", "--check", &base]).contains("sound"));
    let import = ["import", &paged, "again", AIRPORTS];
    succeed(&[&import[..], &["--primary-key", "iata"]].concat());
    let middle = succeed(&["dump", &paged]);
    let since = UNIX_EPOCH.elapsed().unwrap().as_micros();
    let then = Timestamp(i64::try_from(since).unwrap()).to_string();
    succeed(&["tables", "drop", &paged, "airports"]);
    let second = succeed(&["dump", &paged]);
    let replay = ["--replay", archive.as_str(), "--method", "nvm-inp"];
    let report = succeed(&[&["restore", &base, &new], &replay[..]].concat());
    assert!(report.contains("the mark of"), "{report}");
    assert_eq!(succeed(&["dump", &new]), second);
    let earlier = place.at("earlier");
    let until = ["--replay", &archive, "--until", &then];
    let report = succeed(&[&["restore", &base, &earlier], &until[..]].concat());
    assert!(report.contains("the mark of"), "{report}");
    assert_eq!(succeed(&["dump", &earlier]), middle);
    let alone = place.at("alone");
    succeed(&["restore", &base, &alone]);
    assert_eq!(succeed(&["dump", &alone]), first);
    let none = place.at("none");
    let until = ["--replay", &archive, "--until", "81920"];
    let told = fail(2, &[&["restore", &base, &none], &until[..]].concat());
    assert!(
        told.contains("2 partitions") && told.contains("give a time"),
        "{told}"
    );
    assert!(!std::path::Path::new(&none).exists());
}

#[test]
fn a_database_shrinks_and_other_methods_say_why_not() {
    let place = TestDirectory::new();
    let (db, dump) = imported(&place);
    let paged = place.at("paged");
    succeed(&["convert", &db, &paged, "--method", "full-page-writes"]);
    let import = ["import", &paged, "again", AIRPORTS];
    succeed(&[&import[..], &["--primary-key", "iata"]].concat());
    succeed(&["tables", "drop", &paged, "again"]);
    let report = succeed(&["shrink", &paged, "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let bytes = |name: &str| report[name].as_u64().unwrap();
    let (before, after) = (bytes("bytes_before"), bytes("bytes_after"));
    assert!(after < before, "{report}");
    let files = (0..2).map(|partition| format!("{paged}/p{partition}.pages"));
    let found: u64 = files
        .map(|file| std::fs::metadata(file).unwrap().len())
        .sum();
    assert_eq!(found, after);
    assert_eq!(succeed(&["dump", &paged]), dump);
    assert!(succeed(&["verify", &paged]).starts_with("sound"));
    let told = fail(1, &["shrink", &db]);
    assert!(told.contains("convert"), "{told}");
}

#[test]
fn a_copy_that_fails_leaves_its_log_and_archive_empty_and_those_of_others_alone() {
    let place = TestDirectory::new();
    let (db, _) = imported(&place);
    let file = place.at("db.backup");
    succeed(&["backup", &db, &file]);
    let (log, archive) = (place.at("log"), place.at("archive"));
    let paged = ["--method", "nv-logging"];
    let other = place.at("other");
    let kept = place.at("kept");
    succeed(&[&["create", &other], &paged[..], &["--archive", &kept]].concat());
    succeed(&[
        "import",
        &other,
        "airports",
        AIRPORTS,
        "--primary-key",
        "iata",
    ]);
    let files = |directory: &str| std::fs::read_dir(directory).unwrap().count();
    let before = files(&kept);
    assert!(before > 0);
    let restore = |arguments: &[&str]| {
        let fixed = ["restore", &file, &place.at("new")];
        fail(1, &[&fixed, arguments].concat())
    };
    let foreign = restore(&[&paged[..], &["--archive", &kept]].concat());
    assert!(foreign.contains("another database"), "{foreign}");
    assert_eq!(files(&kept), before);
    let mut bytes = std::fs::read(&file).unwrap();
    let place_of_end = bytes.len() - 40;
    bytes[place_of_end] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let places = ["--log-directory", &log, "--archive", &archive];
    let damaged = restore(&[&paged[..], &places].concat());
    assert!(damaged.contains("damaged"), "{damaged}");
    assert_eq!((files(&log), files(&archive)), (0, 0));
    let tuples = ["restore", &file, &place.at("new"), "--method", "inp"];
    for option in ["--log-directory", "--archive"] {
        let refused = fail(2, &[&tuples[..], &[option, &archive]].concat());
        assert!(refused.contains("nv-logging"), "{refused}");
    }
    assert!(!std::path::Path::new(&place.at("new")).exists());
}

#[test]
fn a_file_that_cannot_grow_leaves_no_backup() {
    let place = TestDirectory::new();
    let (db, dump) = imported(&place);
    // A limit of the file's size stands in for a full disk; its signal is ignored, so that the
    // write fails.
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

fn names(place: &TestDirectory) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(place.at("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A link at the place was found out after all work.
#[test]
fn a_link_is_no_place_for_a_database() {
    let place = TestDirectory::new();
    let (db, dump) = imported(&place);
    let [file, text, empty, link] = ["file", "text", "empty", "link"].map(|name| place.at(name));
    succeed(&["backup", &db, &file]);
    std::fs::write(&text, dump).unwrap();
    std::fs::create_dir(&empty).unwrap();
    std::os::unix::fs::symlink(&empty, &link).unwrap();
    for command in [
        &["restore", &file, &link][..],
        &["convert", &db, &link, "--method", "inp"],
        &["load", &link, &text],
    ] {
        let error = fail(1, command);
        assert!(error.contains("a symbolic link"), "{error}");
    }
    succeed(&["load", &empty, &text]);
    assert_eq!(names(&place), ["db", "empty", "file", "link", "text"]);
}

/// Ctrl-C left the unfinished database, the files of its log, and half a backup.
#[test]
fn an_interrupted_copy_leaves_nothing() {
    let place = TestDirectory::new();
    let (db, _) = imported(&place);
    let [file, new, log] = ["file", "new", "log"].map(|name| place.at(name));
    succeed(&["backup", &db, &file]);
    let bytes = std::fs::read(&file).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(["restore", "-", &new, "--method", "nv-logging"])
        .args(["--log-directory", &log])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&bytes[..bytes.len() / 2]).unwrap();
    let unfinished = place.at(&format!("new.unfinished-{}/indelible.db", child.id()));
    while !std::path::Path::new(&unfinished).exists() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before its end");
        std::thread::yield_now();
    }
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(&place), ["db", "file", "log"]);
    assert!(std::fs::read_dir(&log).unwrap().next().is_none());
}
