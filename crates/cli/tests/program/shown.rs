//! Goal: output for people is short, safe and helpful; output for programs is exact.
//!
//! Method: long values, control characters in data, names and files, and the mistakes and first
//! steps of a newcomer, each with the words that must be in the answer, or must not be.

use crate::common::{TestDirectory, fail, run, succeed};

/// Text that would turn a terminal red, clear it, and turn the order of reading.
const WILD: &str = "a\u{1b}[31mb\u{9b}2Jc\u{202e}d\u{2066}e\u{200b}f\u{7}g";

/// Standard output and error of a command, whether it succeeds or not.
fn all(arguments: &[&str]) -> String {
    let output = run(arguments);
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8(text).unwrap()
}

/// Whether nothing in a text commands a terminal.
fn is_tame(text: &str) -> bool {
    text.chars()
        .all(|letter| letter == '\n' || !letter.is_control())
        && !text.contains(['\u{202e}', '\u{2066}', '\u{200b}'])
}

#[test]
fn a_long_value_is_cut_for_people_and_whole_for_programs() {
    let place = TestDirectory::new();
    let db = place.at("db");
    succeed(&["create", &db]);
    let long = "long ".repeat(1 << 20);
    let file = place.file("long.csv", &format!("id,note\n1,{long}\n2,short\n"));
    succeed(&[
        "import",
        &db,
        "t",
        &file,
        "--primary-key",
        "id",
        "--types",
        "note:text",
    ]);
    for command in ["get", "scan"] {
        let mut arguments = vec![command, &db, "t"];
        if command == "get" {
            arguments.push("1");
        }
        let output = run(&arguments);
        let (text, note) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        );
        assert!(text.len() < 3000, "{} bytes", text.len());
        assert!(text.contains("\u{2026} (5.0 MiB in all)"), "{text}");
        assert!(note.contains("--format json"), "{note}");
        arguments.extend(["--format", "json"]);
        assert!(succeed(&arguments).contains(&long));
        arguments.pop();
        arguments.push("csv");
        assert!(succeed(&arguments).contains(&long));
    }
    assert_eq!(run(&["get", &db, "t", "2"]).stderr, b"");
}

#[test]
fn a_long_scan_prints_every_row() {
    let place = TestDirectory::new();
    let db = place.at("db");
    succeed(&["create", &db]);
    let rows: Vec<String> = (0..3000).map(|id| format!("{id},name {id}")).collect();
    let file = place.file("rows.csv", &format!("id,name\n{}\n", rows.join("\n")));
    succeed(&["import", &db, "t", &file, "--primary-key", "id"]);
    let text = succeed(&["scan", &db, "t", "--limit", "5000"]);
    assert_eq!(text.lines().count(), 3002);
    assert!(text.ends_with("| 2999 | name 2999 |\n"), "{text}");
    let text = succeed(&["scan", &db, "t", "--backward", "--limit", "2"]);
    assert_eq!(
        text,
        "| id   | name      |\n|------|-----------|\n| 2999 | name 2999 |\n| 2998 | name 2998 |\n"
    );
}

#[test]
fn control_characters_are_shown_to_people_and_kept_for_programs() {
    let place = TestDirectory::new();
    let db = place.at("db");
    succeed(&["create", &db]);
    let file = place.file("wild.csv", &format!("id,{WILD}\n1,{WILD}\n"));
    let table = format!("t{WILD}");
    let mut shown = all(&["import", &db, &table, &file, "--primary-key", "id"]);
    let bad = place.file(
        &format!("bad{WILD}.csv"),
        &format!("id,{WILD}\nx{WILD},1\n"),
    );
    let key = format!("no{WILD}");
    for arguments in [
        &["get", &db, &table, "1"][..],
        &["get", &db, &table, "2"],
        &["get", &db, &table, &key],
        &["get", &db, &key, "1"],
        &["scan", &db, &table],
        &["scan", &db, &table, "--index", &key],
        &["tables", "list", &db],
        &["describe", &db, &table],
        &["info", &db],
        &["verify", &db],
        &["import", &db, &table, &bad],
        &["import", &db, &table, &key],
        &["export", &db, &table, &place.at(&key)],
        &["dump", &db, &place.at(&format!("dump{WILD}"))],
        &["backup", &db, &place.at(&format!("backup{WILD}"))],
        &["load", &place.at("other"), &bad],
        &["restore", &bad, &place.at("other")],
        &["info", &key],
        &["create", &db, "--method", &key],
        &[&key],
        &["indexes", "create", &db, &table, &key, "--columns", WILD],
        &["indexes", "list", &db, &table],
        &["indexes", "drop", &db, &table, &key],
        &["tables", "drop", &db, &key],
    ] {
        let text = all(arguments);
        assert!(is_tame(&text), "{arguments:?}: {text:?}");
        shown += &text;
    }
    assert!(shown.contains("a\\u{1b}[31mb\\u{9b}2Jc\\u{202e}d\\u{2066}e\\u{200b}f\\u{7}g"));
    let csv = succeed(&["scan", &db, &table, "--format", "csv"]);
    assert_eq!(csv, format!("id,{WILD}\n1,{WILD}\n"));
    assert_eq!(succeed(&["export", &db, &table]), csv);
    let json = succeed(&["get", &db, &table, "1", "--format", "json"]);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value[WILD], WILD);
    assert!(is_tame(&all(&["tables", "drop", &db, &table])));
}

#[test]
fn commands_say_what_they_did_in_one_line() {
    let place = TestDirectory::new();
    let db = place.at("db");
    succeed(&["create", &db]);
    let columns = ["--columns", "id:int64,name:text?", "--primary-key", "id"];
    let create = |name| [&["tables", "create", &db, name][..], &columns].concat();
    assert_eq!(
        succeed(&create("t")),
        "created table t: 2 columns, primary key id\n"
    );
    let json = succeed(&[&create("u")[..], &["--format", "json"]].concat());
    assert!(
        json.starts_with("{\"table\":\"u\",\"created\":true,"),
        "{json}"
    );
    let index = [
        "indexes",
        "create",
        &db,
        "t",
        "by_name",
        "--columns",
        "name",
    ];
    assert_eq!(
        succeed(&index),
        "created index by_name of table t on name\n"
    );
    let export = place.at("t.csv");
    let said = succeed(&["export", &db, "t", &export]);
    assert_eq!(said, format!("exported 0 rows of table t to {export}\n"));
    let dump = place.at("dump");
    let said = succeed(&["dump", &db, &dump]);
    assert_eq!(said, format!("dumped 2 tables with 0 rows to {dump}\n"));
    // If data goes to standard output, the line goes to standard error.
    assert_eq!(succeed(&["export", &db, "t"]), "id,name\n");
    assert!(all(&["export", &db, "t"]).contains("exported 0 rows of table t to -"));
    let said = succeed(&["indexes", "drop", &db, "t", "by_name"]);
    assert_eq!(said, "dropped index by_name of table t\n");
    let said = succeed(&["tables", "drop", &db, "t"]);
    assert_eq!(said, "dropped table t with 0 rows and 0 indexes\n");
}

#[test]
fn an_empty_table_prints_its_columns_and_describe_says_more() {
    let place = TestDirectory::new();
    let db = place.at("db");
    succeed(&["create", &db]);
    let columns = "id:int64,total:decimal(10,2)?,day:date";
    succeed(&[
        "tables",
        "create",
        &db,
        "t",
        "--columns",
        columns,
        "--primary-key",
        "day,id",
    ]);
    succeed(&[
        "indexes",
        "create",
        &db,
        "t",
        "by_total",
        "--columns",
        "total",
        "--unique",
    ]);
    let header = "| id | total | day |\n|----|-------|-----|\n";
    assert_eq!(succeed(&["scan", &db, "t"]), header);
    let text = succeed(&["describe", &db, "t"]);
    for part in [
        "primary key   day, id",
        "| id     | int64         | false    |           2 |          |",
        "| total  | decimal(10,2) | true     |             | by_total |",
        "| day    | date          | false    |           1 |          |",
        "| by_total | total   | true   |",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    let json = succeed(&["describe", &db, "t", "--format", "json"]);
    assert_eq!(json.lines().count(), 3, "{json}");
    let error = fail(1, &["describe", &db, "tt"]);
    assert!(error.contains("the tables are `t`"), "{error}");
}

#[test]
fn near_misses_are_answered_with_what_was_meant() {
    let place = TestDirectory::new();
    let (db, new) = (place.at("db"), place.at("new"));
    succeed(&["create", &db]);
    let error = fail(2, &["create", &new, "--method", "NVM-INP"]);
    assert!(error.contains("did you mean `nvm-inp`?"), "{error}");
    let error = fail(2, &["bench", "ycsb", "--method", "full-page-write"]);
    assert!(
        error.contains("did you mean `full-page-writes`?"),
        "{error}"
    );
    let error = fail(2, &["create", &new, "--partitions", "-1"]);
    assert!(error.contains("-1 is not in 1..=1024"), "{error}");
    let error = fail(2, &["scan", &db, "t", "--limit", "-1"]);
    assert!(error.contains("-1 is not in 0..="), "{error}");
    for (columns, problem) in [
        (
            "a:decimal(99,2)",
            "column `a`: `decimal(99,2)` is no data type: the precision",
        ),
        (
            "a:number",
            "column `a`: `number` is no data type; there are",
        ),
    ] {
        let words = [
            "tables",
            "create",
            &db,
            "t",
            "--columns",
            columns,
            "--primary-key",
            "a",
        ];
        let error = fail(2, &words);
        assert!(error.contains(problem) && !error.contains("``"), "{error}");
    }
    for command in ["create", "load"] {
        let mut words = vec![command, &new];
        let dump = place.at("dump");
        if command == "load" {
            succeed(&["dump", &db, &dump]);
            words.push(&dump);
        }
        words.extend(["--method", "volatile"]);
        let error = fail(2, &words);
        assert!(error.contains("keeps nothing"), "{error}");
        assert!(!std::path::Path::new(&new).exists());
    }
}

#[test]
fn errors_name_nothing_of_the_library() {
    let place = TestDirectory::new();
    let db = place.at("db");
    succeed(&["create", &db]);
    for words in [
        &["get", &db, "none", "1"][..],
        &["export", &db, "none"],
        &["tables", "drop", &db, "none"],
        &["indexes", "create", &db, "none", "i", "--columns", "a"],
        &["create", &place.at("new"), "--memtable-bytes", "1"],
        &[
            "create",
            &place.at("new"),
            "--log-directory",
            &place.at("new"),
        ],
    ] {
        let error = String::from_utf8(run(words).stderr).unwrap();
        assert!(!error.is_empty() && !error.contains("()"), "{error}");
        assert!(
            !error.contains("_bytes") && !error.contains("_directory"),
            "{error}"
        );
    }
}

#[test]
fn in_use_names_the_process() {
    let place = TestDirectory::new();
    let db = place.at("db");
    succeed(&["create", &db]);
    let directory = std::fs::File::open(&db).unwrap();
    directory.lock().unwrap();
    let error = fail(1, &["import", &db, "t", "file.csv"]);
    let pid = std::process::id();
    assert!(
        error.contains(&format!("is in use by process {pid} (")),
        "{error}"
    );
}

#[test]
fn help_lists_the_methods_and_shells_get_completions() {
    let help = succeed(&["create", "--help"]);
    for part in [
        "In durable memory",
        "In files",
        "nvm-inp ",
        "full-page-writes ",
        "nvwal ",
    ] {
        assert!(help.contains(part), "no `{part}` in {help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = succeed(&["completions", shell]);
        for word in ["quickstart", "skip-bad-rows", "describe"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
    assert!(fail(2, &["completions", "cmd"]).contains("possible values"));
}
