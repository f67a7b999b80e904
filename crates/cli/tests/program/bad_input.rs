//! Goal: bad input gets one clear sentence and the right exit code, and nothing is lost or half
//! done.
//!
//! Method: one case a mistake; each error must name the thing, and where it helps the remedy.

use crate::common::{TestDirectory, fail, run, succeed};

/// A database with a small table.
fn database(place: &TestDirectory) -> String {
    let db = place.at("db");
    succeed(&["create", &db]);
    let file = place.file("good.csv", "id,name,size\n1,one,10\n2,two,20\n");
    succeed(&["import", &db, "t", &file, "--primary-key", "id"]);
    db
}

#[test]
fn bad_rows_are_named_by_line_and_column_and_nothing_is_imported() {
    let place = TestDirectory::new();
    let db = database(&place);
    let before = succeed(&["export", &db, "t"]);
    let bad = "id,name,size\n3,three,30\n4,four,many\n5,five\n2,again,1\n,none,1\n6,\"x\"y,1\n";
    let file = place.file("bad.csv", bad);
    let error = fail(1, &["import", &db, "t", &file]);
    for part in [
        "line 3, column `size`: `many` is no value of type int64",
        "line 4: 2 fields, but there are 3 columns",
        "line 5: duplicate key",
        "line 6, column `id`",
        "line 7, field 2: text follows the closing quote",
        "nothing was imported, because 5 of 6 rows",
        "--skip-bad-rows",
    ] {
        assert!(error.contains(part), "no `{part}` in {error}");
    }
    assert_eq!(succeed(&["export", &db, "t"]), before);
    let facts = succeed(&[
        "import",
        &db,
        "t",
        &file,
        "--skip-bad-rows",
        "--format",
        "json",
    ]);
    assert!(
        facts.contains("\"rows\":1") && facts.contains("\"skipped\":5"),
        "{facts}"
    );
    assert_eq!(
        succeed(&["export", &db, "t"]),
        format!("{before}3,three,30\n")
    );
}

#[test]
fn a_failed_import_leaves_no_table() {
    let place = TestDirectory::new();
    let db = database(&place);
    let file = place.file("twice.csv", "id\n1\n1\n");
    assert!(
        fail(1, &["import", &db, "new", &file, "--primary-key", "id"]).contains("duplicate key")
    );
    assert!(fail(1, &["export", &db, "new"]).contains("no table `new`"));
}

#[test]
fn files_that_are_no_tables_are_refused() {
    let place = TestDirectory::new();
    let db = database(&place);
    let import = |content: &str| {
        let file = place.file("file.csv", content);
        fail(1, &["import", &db, "x", &file, "--primary-key", "id"])
    };
    assert!(import("").contains("is empty"));
    assert!(import("id,id\n").contains("named twice"));
    assert!(import("id,,x\n").contains("column 2 of 3 has no name"));
    assert!(import("id\n\"open\n").contains("is never closed"));
    assert!(
        fail(
            1,
            &[
                "import",
                &db,
                "x",
                &place.at("none.csv"),
                "--primary-key",
                "id"
            ]
        )
        .contains("cannot read")
    );
    assert!(
        fail(
            1,
            &["import", &db, "x", &place.at(""), "--primary-key", "id"]
        )
        .contains("is a directory")
    );
    let other = place.file("other.csv", "id,colour\n1,red\n");
    assert!(fail(1, &["import", &db, "t", &other]).contains("no column `colour`"));
}

#[test]
fn mistakes_in_names_and_keys_are_named() {
    let place = TestDirectory::new();
    let db = database(&place);
    assert!(fail(1, &["get", &db, "none", "1"]).contains("no table `none`"));
    assert!(fail(1, &["get", &db, "t", "9"]).contains("no row with key 9"));
    assert!(fail(1, &["get", &db, "t", "nine"]).contains("no value of type int64"));
    assert!(fail(2, &["get", &db, "t", "1", "2"]).contains("2 values were given"));
    assert!(fail(1, &["scan", &db, "t", "--index", "none"]).contains("no index `none`"));
    assert!(
        fail(
            1,
            &[
                "tables",
                "create",
                &db,
                "t",
                "--columns",
                "a:int64",
                "--primary-key",
                "a"
            ]
        )
        .contains("exists already")
    );
    assert!(
        fail(
            2,
            &[
                "tables",
                "create",
                &db,
                "u",
                "--columns",
                "a:number",
                "--primary-key",
                "a"
            ]
        )
        .contains("is no data type")
    );
    assert!(
        fail(
            1,
            &[
                "tables",
                "create",
                &db,
                "u",
                "--columns",
                "a:int64",
                "--primary-key",
                "b"
            ]
        )
        .contains("no column `b`")
    );
    assert!(fail(1, &["tables", "drop", &db, "u"]).contains("no table `u`"));
    assert!(
        fail(
            1,
            &["indexes", "create", &db, "t", "i", "--columns", "colour"]
        )
        .contains("colour")
    );
    assert!(fail(1, &["indexes", "drop", &db, "t", "i"]).contains("no index `i`"));
    let file = place.file("keyless.csv", "a,b\n1,2\n");
    assert!(fail(2, &["import", &db, "u", &file]).contains("--primary-key a"));
    assert!(
        fail(2, &["import", &db, "t", &file, "--types", "a:text"]).contains("leave out --types")
    );
}

#[test]
fn places_that_are_no_databases_are_refused() {
    let place = TestDirectory::new();
    assert!(fail(1, &["info", &place.at("nothing")]).contains("there is no database"));
    let file = place.file("file", "hello");
    assert!(fail(1, &["info", &file]).contains("is not a database"));
    let db = database(&place);
    assert!(fail(1, &["create", &db]).contains("not empty"));
    assert!(
        fail(1, &["export", &db, "t", &place.at("no/such/file.csv")]).contains("cannot create")
    );
    assert!(fail(2, &["export", &db, "t", &file]).contains("--force"));
    succeed(&["export", &db, "t", &file, "--force"]);
}

#[test]
fn verify_tells_sound_from_damaged_from_unreadable() {
    let place = TestDirectory::new();
    let db = database(&place);
    assert_eq!(run(&["verify", &db]).status.code(), Some(0));
    assert!(fail(2, &["verify", &place.at("nothing")]).contains("the check could not be made"));
    std::fs::write(format!("{db}/indelible.db"), "garbage").unwrap();
    assert!(fail(2, &["verify", &db]).contains("damaged"));
}

/// A list of operations that selects nothing finds nothing wrong, and an update that changes
/// nothing is fast.
#[test]
fn runs_that_would_test_nothing_are_usage_errors() {
    let torture = |more: &[&str]| fail(2, &[&["torture", "--method", "inp"], more].concat());
    assert!(torture(&["--operations", "100000-100001"]).contains("has operations 0 to"));
    assert!(torture(&["--operations", "5-3"]).contains("ends before it begins"));
    let faults = torture(&["--faults", "--only", "zzzz"]);
    assert!(faults.contains("begins with `zzzz`"), "{faults}");
    let btree = ["bench", "btree-insert", "--method", "fast", "--record", "8"];
    for mix in ["update", "mixed"] {
        let error = fail(2, &[&btree[..], &["--mix", mix, "--rows", "9"]].concat());
        assert!(error.contains("--record 9"), "{error}");
    }
}

#[test]
fn unknown_words_and_impossible_pairs_are_usage_errors() {
    let place = TestDirectory::new();
    let new = place.at("new");
    assert!(fail(2, &["create", &new, "--method", "wal"]).contains("nvm-inp"));
    assert!(fail(2, &["create", &new, "--partitions", "0"]).contains("partitions"));
    assert!(fail(2, &["create", &new, "--node-bytes", "300"]).contains("power of two"));
    assert!(
        fail(
            2,
            &["create", &new, "--method", "volatile", "--domain", "flush"]
        )
        .contains("volatile")
    );
    assert!(
        fail(
            2,
            &["bench", "ycsb", "--method", "nvm-inp", "--mix", "most"]
        )
        .contains("read-heavy")
    );
    assert!(
        fail(
            2,
            &["bench", "ycsb", "--method", "nvm-inp", "--profile", "high"]
        )
        .contains("--device emulated")
    );
    assert!(
        fail(
            2,
            &[
                "bench",
                "ycsb",
                "--method",
                "nvm-inp",
                "--txns",
                "5",
                "--seconds",
                "1"
            ]
        )
        .contains("--txns")
    );
    assert!(
        fail(
            2,
            &["bench", "ycsb", "--method", "inp", "--fences", "paper"]
        )
        .contains("nvm-inp")
    );
    assert!(fail(2, &["torture", "--method", "volatile"]).contains("keeps nothing"));
    assert!(fail(2, &["torture", "--method", "inp", "--scenario", "none"]).contains("no scenario"));
    let torture = |more: &[&str]| fail(2, &[&["torture", "--method", "inp"], more].concat());
    assert!(torture(&["--connections", "1"]).contains("2..=64"));
    let mutate = torture(&["--connections", "8", "--mutate"]);
    assert!(
        mutate.contains("cannot be used with '--mutate'"),
        "{mutate}"
    );
    let nobody = torture(&["--histories", "10", "--sessions", "0"]);
    assert!(nobody.contains("add --connections"), "{nobody}");
    // The name is checked when the steps are known.
    let error = torture(&["--fences", "paper"]);
    assert!(error.contains("use --method nvm-inp,nvm-log"), "{error}");
    let search = ["torture", "--method", "inp", "--images", "100", "--without"];
    let unknown = fail(2, &[&search[..], &["wal.flsh"]].concat());
    assert!(unknown.contains("no step `wal.flsh`"), "{unknown}");
    assert!(unknown.contains("names are wal.flush,"), "{unknown}");
    assert!(fail(2, &["device", &place.at("none")]).contains("no directory"));
    assert!(fail(2, &["frobnicate"]).contains("frobnicate"));
    assert!(!std::path::Path::new(&new).exists(), "nothing was made");
}

#[cfg(target_os = "linux")]
#[test]
fn durability_is_not_claimed_on_shared_memory() {
    if !std::path::Path::new("/dev/shm").is_dir() {
        return;
    }
    let place = TestDirectory::new();
    let error = fail(1, &["create", &place.at("db"), "--domain", "flush"]);
    assert!(
        error.contains("shared memory") || error.contains("process"),
        "{error}"
    );
}
