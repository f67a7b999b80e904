//! Goal: files as people have them are imported as they were meant, or refused with the reason; no
//! good row is lost.
//!
//! Method: a small file with one peculiarity each, from a disk and through a pipe; the imported
//! rows are exported again.

use crate::common::{TestDirectory, fail, run, succeed};
use flate2::write::GzEncoder;
use std::io::Write;
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_indelible");

/// An empty database.
fn database(place: &TestDirectory) -> String {
    let db = place.at("db");
    succeed(&["create", &db]);
    db
}

/// Runs the program with this on its standard input.
fn piped(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    feed(&mut command, input)
}

fn feed(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A program that fails reads no more; the test looks at its error.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Imports a file of this content into a new table with key `id` and exports the table; the notes
/// of the import come second.
fn through(place: &TestDirectory, db: &str, content: &[u8], options: &[&str]) -> (String, String) {
    std::fs::write(place.at("in"), content).unwrap();
    let file = place.at("in");
    let import = ["import", db, "t", &file, "--primary-key", "id"];
    let (code, _, errors) = texts(&run(&[&import[..], options].concat()));
    assert_eq!(code, Some(0), "{errors}");
    let exported = succeed(&["export", db, "t"]);
    succeed(&["tables", "drop", db, "t"]);
    (exported, errors)
}

/// A thousand rows, and the line with this number replaced.
fn rows(replaced: usize, line: &str) -> String {
    let mut lines: Vec<String> = (1..1000).map(|id| format!("{id},name {id}")).collect();
    lines.insert(0, "id,name".into());
    lines[replaced - 1] = line.into();
    lines.join("\n") + "\n"
}

#[test]
fn a_quote_inside_a_field_loses_no_rows() {
    let place = TestDirectory::new();
    let db = database(&place);
    let text = rows(500, "499,5\" pipe");
    let (exported, _) = through(&place, &db, text.as_bytes(), &[]);
    assert_eq!(exported.lines().count(), 1000);
    assert!(exported.contains("499,\"5\"\" pipe\"\n"));
}

#[test]
fn a_forgotten_quote_costs_one_row_from_files_and_pipes() {
    let place = TestDirectory::new();
    let db = database(&place);
    let text = rows(500, "499,\"5 pipe");
    let file = place.file("in.csv", &text);
    let options = ["--primary-key", "id", "--skip-bad-rows", "--format", "json"];
    for (number, from) in [&file, "-"].into_iter().enumerate() {
        let rejects = place.at(&format!("rejects{number}"));
        let table = format!("t{number}");
        let import = ["import", &db, &table, from, "--rejects", &rejects];
        let output = piped(&[&import[..], &options].concat(), text.as_bytes());
        let (code, facts, errors) = texts(&output);
        assert_eq!(code, Some(0), "{errors}");
        assert!(
            facts.contains("\"rows\":998") && facts.contains("\"skipped\":1"),
            "{facts}"
        );
        assert!(
            errors.contains("line 500, field 2: a quote opens this field"),
            "{errors}"
        );
        let rejected = std::fs::read_to_string(&rejects).unwrap();
        assert_eq!(rejected, "id,name\n499,\"5 pipe\n");
    }
    // The rejected rows are a file to be corrected and imported.
    let error = fail(
        2,
        &["import", &db, "t0", &file, "--rejects", &place.at("r")],
    );
    assert!(error.contains("--skip-bad-rows"), "{error}");
    let error = fail(
        2,
        &[
            "import",
            &db,
            "t0",
            &file,
            "--skip-bad-rows",
            "--rejects",
            &place.at("rejects0"),
        ],
    );
    assert!(error.contains("exists already"), "{error}");
    let corrected = place.file("rejects0", "id,name\n499,5 pipe\n");
    succeed(&["import", &db, "t0", &corrected]);
    assert!(succeed(&["export", &db, "t0"]).contains("\n499,5 pipe\n"));
}

#[test]
fn only_bad_rows_are_a_failure() {
    let place = TestDirectory::new();
    let db = database(&place);
    let file = place.file("in.csv", "id,name\n1\n2,a,b\n3,\"x\"y");
    let import = [
        "import",
        &db,
        "t",
        &file,
        "--primary-key",
        "id",
        "--skip-bad-rows",
    ];
    let error = fail(1, &[&import[..], &["--rejects", &place.at("bad")]].concat());
    assert!(error.contains("none of 3 rows"), "{error}");
    assert_eq!(place.read("bad"), "id,name\n1\n2,a,b\n3,\"x\"y\n");
    assert!(fail(1, &["export", &db, "t"]).contains("no table `t`"));
    // The file of rejects can be imported like the original, whatever ends its lines.
    let file = place.file("old.csv", "sep=;\rid;name\r1;a\r2;b;c\rx");
    let import = ["import", &db, "t", &file, "--primary-key", "id"];
    let skip = ["--skip-bad-rows", "--rejects", &place.at("old")];
    succeed(&[&import[..], &skip].concat());
    assert_eq!(place.read("old"), "sep=;\rid;name\r2;b;c\rx\r");
    let error = fail(1, &["import", &db, "t", &place.at("old")]);
    assert!(error.contains("2 of 2 rows"), "{error}");
    // A file without rows is none, and without bad rows there is no file of them.
    let file = place.file("header.csv", "id,name\n");
    let import = [
        "import",
        &db,
        "h",
        &file,
        "--primary-key",
        "id",
        "--skip-bad-rows",
    ];
    succeed(&[&import[..], &["--rejects", &place.at("none")]].concat());
    assert!(!std::path::Path::new(&place.at("none")).exists());
}

#[test]
fn line_ends_of_every_kind_are_read() {
    let place = TestDirectory::new();
    let db = database(&place);
    let expected = "id,name\n1,one\n2,\"a\rb\"\n";
    for line_end in ["\n", "\r\n", "\r"] {
        let text = format!("id,name{line_end}1,one{line_end}2,\"a\rb\"{line_end}");
        assert_eq!(through(&place, &db, text.as_bytes(), &[]).0, expected);
    }
    let mixed = place.file("mixed.csv", "id,name\n1,one\r2,two\r3,three\r");
    let error = fail(1, &["import", &db, "t", &mixed, "--primary-key", "id"]);
    assert!(
        error.contains("line 2: a carriage return stands outside quotes"),
        "{error}"
    );
}

#[test]
fn types_are_inferred_from_pipes() {
    let place = TestDirectory::new();
    let db = database(&place);
    let file = place.file("in.csv", "id,size\n1,2.50\n2,13.75\n");
    let import = ["import", &db, "t", "-", "--primary-key", "id"];
    let (code, facts, errors) = texts(&piped(&import, b"id,size\n1,2.50\n2,13.75\n"));
    assert_eq!(code, Some(0), "{errors}");
    assert!(facts.contains("id:int64,size:decimal(18,2)?"), "{facts}");
    let script = format!("{PROGRAM} import {db} u <(cat {file}) --primary-key id");
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    let (code, facts, errors) = texts(&output);
    assert_eq!(code, Some(0), "{errors}");
    assert!(facts.contains("id:int64,size:decimal(18,2)?"), "{facts}");
    let (code, _, errors) = texts(&piped(&["import", &db, "u", "-"], b"size,id\n7,3\n"));
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(
        succeed(&["export", &db, "u"]),
        "id,size\n1,2.50\n2,13.75\n3,7.00\n"
    );
    let empty = piped(&["import", &db, "e", "-", "--primary-key", "id"], b"");
    let (code, _, errors) = texts(&empty);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("standard input is empty"), "{errors}");
}

#[test]
fn a_pipe_that_cannot_be_kept_is_one_clear_error() {
    let place = TestDirectory::new();
    let db = database(&place);
    let mut text = b"id,note\n".to_vec();
    for id in 0..66 {
        text.extend_from_slice(format!("{id},").as_bytes());
        text.resize(text.len() + (1 << 20), b'x');
        text.push(b'\n');
    }
    std::fs::create_dir(place.at("temporary")).unwrap();
    // A limit of the file's size stands in for a full disk; its signal is ignored, so that the
    // write fails.
    let script =
        format!("trap '' XFSZ; ulimit -f 12; exec {PROGRAM} import {db} t - --primary-key id");
    let mut command = Command::new("bash");
    command
        .args(["-c", &script])
        .env("TMPDIR", place.at("temporary"));
    let (code, _, errors) = texts(&feed(&mut command, &text));
    assert_eq!(code, Some(1), "{errors}");
    assert!(
        errors.contains("standard input") && errors.contains("TMPDIR"),
        "{errors}"
    );
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert_eq!(std::fs::read_dir(place.at("temporary")).unwrap().count(), 0);
    assert!(fail(1, &["export", &db, "t"]).contains("no table `t`"));
}

#[test]
fn files_without_a_header_have_columns_all_the_same() {
    let place = TestDirectory::new();
    let db = database(&place);
    let table = "--no-header --columns id,name,size --separator |";
    let options: Vec<&str> = table.split(' ').collect();
    let (exported, _) = through(&place, &db, b"1|one|10|\n2|two||\n", &options);
    assert_eq!(exported, "id,name,size\n1,one,10\n2,two,\n");
    let (exported, _) = through(&place, &db, b"1|one|10\n2|two|\n", &options);
    assert_eq!(exported, "id,name,size\n1,one,10\n2,two,\n");
    // Without names they are numbered, and a separator at the end of every line begins no column.
    let file = place.file("numbered", "1,one,\n2,two,\n");
    let import = [
        "import",
        &db,
        "n",
        &file,
        "--no-header",
        "--primary-key",
        "column1",
    ];
    succeed(&import);
    assert_eq!(
        succeed(&["export", &db, "n"]),
        "column1,column2\n1,one\n2,two\n"
    );
    // An existing table knows its columns.
    let more = place.file("more", "3,three\n");
    succeed(&["import", &db, "n", &more, "--no-header"]);
    let swapped = place.file("swapped", "four,4\n");
    let columns = ["--no-header", "--columns", "column2,column1"];
    succeed(&[&["import", &db, "n", &swapped][..], &columns].concat());
    assert!(succeed(&["export", &db, "n"]).ends_with("3,three\n4,four\n"));
    let nothing = place.file("nothing", "sep=;\n");
    succeed(&["import", &db, "n", &nothing, "--no-header"]);
    // Names in the first line are not taken for a row, and names without the option are not taken
    // for a header.
    let named = place.file("named", "column1,column2\n5,five\n");
    let error = fail(1, &["import", &db, "n", &named, "--no-header"]);
    assert!(
        error.contains("line 1: this line names the columns"),
        "{error}"
    );
    let error = fail(
        2,
        &["import", &db, "n", &more, "--columns", "column1,column2"],
    );
    assert!(error.contains("--no-header"), "{error}");
}

#[test]
fn separators_are_named_and_suggested() {
    let place = TestDirectory::new();
    let db = database(&place);
    let expected = "id,size\n1,\"2,5\"\n";
    let cases: [(&str, &[&str]); 5] = [
        ("id\tsize\n1\t2,5\n", &["--separator", "tab"]),
        ("id;size\n1;2,5\n", &["--separator", "semicolon"]),
        ("id|size\n1|2,5\n", &["--separator", "|"]),
        ("sep=;\r\nid;size\r\n1;2,5\r\n", &[]),
        ("\u{FEFF}sep=\t\nid\tsize\n1\t2,5\n", &[]),
    ];
    for (text, options) in cases {
        assert_eq!(
            through(&place, &db, text.as_bytes(), options).0,
            expected,
            "{text:?}"
        );
    }
    let file = place.file("in", "id;size\n1;2\n");
    let import = ["import", &db, "t", &file, "--primary-key", "id"];
    assert!(fail(2, &import).contains("add --separator ';'"));
    let file = place.file("in", "id\tsize\n1\t2\n");
    let import = ["import", &db, "t", &file];
    assert!(fail(2, &import).contains("add --separator tab"));
    succeed(&[
        "tables",
        "create",
        &db,
        "u",
        "--columns",
        "id:int64,size:int64",
        "--primary-key",
        "id",
    ]);
    assert!(fail(1, &["import", &db, "u", &file]).contains("add --separator tab"));
    let file = place.file("in", "1|2\n");
    assert!(fail(1, &["import", &db, "u", &file, "--no-header"]).contains("add --separator '|'"));
    let file = place.file("in", "sep=;\nid;size\n");
    let error = fail(1, &["import", &db, "u", &file, "--separator", ","]);
    assert!(error.contains("leave out --separator"), "{error}");
    let same = ["--separator", "#", "--comment", "#"];
    assert!(
        fail(2, &[&["import", &db, "u", &file][..], &same].concat()).contains("same character")
    );
}

#[test]
fn words_for_null_are_null_if_asked_for_and_hinted_at_if_not() {
    let place = TestDirectory::new();
    let db = database(&place);
    let text = b"# made by hand\nid,size,name\n1,NA,NA\n# more\n2,5,\"NA\"\n3,\"\",\n";
    let comment = ["--comment", "#"];
    let (exported, notes) = through(&place, &db, text, &comment);
    assert_eq!(exported, "id,size,name\n1,NA,NA\n2,5,NA\n3,\"\",\n");
    assert!(
        notes.contains("column `size` is text because of `NA`, ``"),
        "{notes}"
    );
    assert!(
        notes.contains("--null 'NA' --null '' makes it int64"),
        "{notes}"
    );
    assert!(!notes.contains("column `name`"), "{notes}");
    let nulls = ["--null", "NA", "--null", ""];
    let (exported, notes) = through(&place, &db, text, &[&comment[..], &nulls].concat());
    assert_eq!(exported, "id,size,name\n1,,\n2,5,NA\n3,,\n");
    assert_eq!(notes, "");
    let file = place.file("in.csv", "id,size\n1,-\n");
    succeed(&[
        "tables",
        "create",
        &db,
        "u",
        "--columns",
        "id:int64,size:int64?",
        "--primary-key",
        "id",
    ]);
    assert!(fail(1, &["import", &db, "u", &file]).contains("add --null '-'"));
    succeed(&["import", &db, "u", &file, "--null", "-"]);
}

#[test]
fn names_of_columns_are_checked_with_their_position() {
    let place = TestDirectory::new();
    let db = database(&place);
    let refused = |text: &str| {
        let file = place.file("in.csv", text);
        fail(1, &["import", &db, "t", &file, "--primary-key", "id"])
    };
    assert!(refused("id,,size\n1,2,3\n").contains("line 1: column 2 of 3 has no name"));
    assert!(refused(",id\n1,2\n").contains("column 1 of 2 has no name"));
    assert!(refused("\n\nid,\"\",x\n").contains("line 3: column 2 of 3 has no name"));
    assert!(refused("id,size,\n1,2,3\n").contains("column 3 has no name"));
    assert!(refused("id,a,a\n").contains("column `a` is named twice"));
    assert!(refused("id,n\0me\n1,2\n").contains("zero bytes"));
    let (exported, _) = through(&place, &db, b"id,size,\n1,2,\n", &[]);
    assert_eq!(exported, "id,size\n1,2\n");
}

#[test]
fn compressed_files_are_read_and_other_kinds_are_refused() {
    let place = TestDirectory::new();
    let db = database(&place);
    let text = rows(2, "0,zero");
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let zstandard = ruzstd::encoding::compress_to_vec(text.as_bytes(), level);
    let (plain, _) = through(&place, &db, text.as_bytes(), &[]);
    for bytes in [&gzip, &zstandard] {
        assert_eq!(through(&place, &db, bytes, &[]).0, plain);
        let import = ["import", &db, "p", "-", "--primary-key", "id"];
        let (code, _, errors) = texts(&piped(&import, bytes));
        assert_eq!(code, Some(0), "{errors}");
        assert_eq!(succeed(&["export", &db, "p"]), plain);
        succeed(&["tables", "drop", &db, "p"]);
        std::fs::write(place.at("cut"), &bytes[..bytes.len() - 6]).unwrap();
        let error = fail(
            1,
            &["import", &db, "c", &place.at("cut"), "--primary-key", "id"],
        );
        assert!(error.contains("damaged or cut off"), "{error}");
    }
    let utf16: Vec<u8> = "\u{FEFF}id\n1\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let dump = succeed(&["dump", &db]);
    let kinds: [(&[u8], &str); 4] = [
        (&utf16, "iconv -f UTF-16"),
        (b"PK\x03\x04........", "save the sheet as CSV"),
        (dump.as_bytes(), "indelible load"),
        (
            b"id,name\n1,caf\xE9\n",
            "line 2, field 2: the text is not UTF-8",
        ),
    ];
    for (bytes, expected) in kinds {
        std::fs::write(place.at("in"), bytes).unwrap();
        let error = fail(
            1,
            &["import", &db, "c", &place.at("in"), "--primary-key", "id"],
        );
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn every_text_survives_export_and_import() {
    let place = TestDirectory::new();
    let db = database(&place);
    let header = "\"sep=;\",\" blank \",\"com,ma\"\n";
    let body = [
        "1,\"a\"\"b\",\"\"",
        "2,\"x,y\",",
        "3,\"line\nfeed\",\"carriage\rreturn\"",
        "4, blanks ,\"\r\n\"",
        "5,\"\u{FEFF}mark\",#no comment",
        "6,5\u{2033} pipe,\"\"\"\"",
        "7,\"\n\",\u{1}byte",
    ];
    let text = format!("{header}{}\n", body.join("\n"));
    let file = place.file("in.csv", &text);
    succeed(&["import", &db, "t", &file, "--primary-key", "sep=;"]);
    let exported = succeed(&["export", &db, "t"]);
    assert_eq!(exported, text);
    let long = format!("8,\"{}\",\n", "line\n".repeat(1 << 18));
    let file = place.file("long.csv", &format!("{header}{long}"));
    let import = ["import", &db, "t", &file];
    // The user can say that a long field is not a forgotten quote.
    let error = fail(1, &import);
    assert!(error.contains("--quoted-bytes"), "{error}");
    succeed(&[
        "import",
        &db,
        "u",
        &file,
        "--primary-key",
        "sep=;",
        "--quoted-bytes",
        "2000000",
    ]);
    assert!(succeed(&["export", &db, "u"]).ends_with(&long));
    let dumped = place.at("a.dump");
    succeed(&["dump", &db, &dumped]);
    succeed(&["load", &place.at("copy"), &dumped]);
    assert_eq!(succeed(&["export", &place.at("copy"), "t"]), exported);
    assert!(succeed(&["export", &place.at("copy"), "u"]).ends_with(&long));
}

/// Such texts were imported, and a dump as SQL that had one could not be loaded.
#[test]
fn a_text_with_a_zero_byte_is_a_bad_row() {
    let place = TestDirectory::new();
    let db = database(&place);
    let file = place.file("in.csv", "id,a\n1,\"x\0y\"\n2,z\n");
    let import = ["import", &db, "t", &file, "--primary-key", "id"];
    let error = fail(1, &import);
    assert!(error.contains("line 2, column `a`: a zero byte"), "{error}");
    succeed(&[&import[..], &["--skip-bad-rows"]].concat());
    assert_eq!(succeed(&["export", &db, "t"]), "id,a\n2,z\n");
}

/// The interface for Rust takes such texts, which no script of SQL can have.
#[test]
fn a_dump_as_sql_fails_for_a_text_with_a_zero_byte() {
    let place = TestDirectory::new();
    let db = place.at("db");
    let file = place.file("in.csv", "id,a\n1,x\n");
    succeed(&["create", &db]);
    succeed(&["import", &db, "t", &file, "--primary-key", "id"]);
    let dump = succeed(&["dump", &db]).replace(",x\n", ",\"x\0\"\n");
    let copy = place.at("copy");
    succeed(&["load", &copy, &place.file("a.dump", &dump)]);
    let error = fail(1, &["dump", &copy, "--sql"]);
    assert!(error.contains("zero byte"), "{error}");
}

/// The exit code of an import that is interrupted once it has met the bad rows at the beginning.
fn interrupted_import(place: &TestDirectory, db: &str) -> Option<i32> {
    let bad = "a row of one field\n".repeat(20_000);
    let good: Vec<String> = (0..150_000).map(|id| format!("{id},{id}")).collect();
    let file = place.file("in.csv", &format!("id,n\n{bad}{}\n", good.join("\n")));
    let rejects = place.at("rejects.csv");
    let mut child = Command::new(PROGRAM)
        .args(["import", db, "t", &file, "--primary-key", "id"])
        .args(["--skip-bad-rows", "--rejects", &rejects])
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let has_rejects = || {
        let files = std::fs::read_dir(place.at("")).unwrap().flatten();
        let mut rejects = files.filter(|file| {
            let name = file.file_name();
            name.to_string_lossy().contains("rejects")
        });
        rejects.any(|file| file.metadata().is_ok_and(|found| found.len() > 0))
    };
    while !has_rejects() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let _ = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .stderr(Stdio::null())
        .status();
    child.wait().unwrap().code()
}

/// The empty table stayed, and the same command failed because of it.
#[test]
fn an_interrupted_import_leaves_no_table() {
    // It may end before it is interrupted.
    let interrupted = (0..20).map(|_| TestDirectory::new()).find_map(|place| {
        let db = database(&place);
        let code = interrupted_import(&place, &db);
        assert!([Some(130), Some(0)].contains(&code), "{code:?}");
        (code == Some(130)).then_some((place, db))
    });
    let (place, db) = interrupted.expect("an import is interrupted");
    assert_eq!(
        succeed(&["tables", "list", &db, "--format", "csv"])
            .lines()
            .count(),
        1
    );
    let empty = place.file("empty.csv", "id,n\n");
    let again = ["import", &db, "t", &empty, "--primary-key", "id"];
    succeed(&again);
    // A killed import leaves such a table.
    let error = fail(2, &again);
    assert!(error.contains("`indelible tables drop`"), "{error}");
}

/// All rows are one transaction, whose memory is limited. The error named a field of the library's
/// options, and the program had no option to raise the limit.
#[test]
fn the_memory_of_an_import_has_a_limit_that_can_be_raised() {
    let place = TestDirectory::new();
    let db = database(&place);
    let file = place.file("in.csv", &rows(500, "499,x"));
    let import = ["import", &db, "t", &file, "--primary-key", "id"];
    let with = |bytes| [&import[..], &["--transaction-memory-max", bytes]].concat();
    let error = fail(1, &with("65536"));
    assert!(
        error.contains("and `--transaction-memory-max` is 65536; raise it"),
        "{error}"
    );
    assert_eq!(
        succeed(&["tables", "list", &db, "--format", "csv"])
            .lines()
            .count(),
        1
    );
    let error = fail(2, &with("1"));
    assert!(
        error.contains("option `--transaction-memory-max`: 1 is out of range; use at least 65536"),
        "{error}"
    );
    succeed(&with("1048576"));
    assert_eq!(succeed(&["export", &db, "t"]).lines().count(), 1000);
}
