//! Goal: data that enters a database through the program comes out the same, by every way out.
//!
//! Method: the shipped data set and a small file with every type, NULLs, quotes and line ends are
//! imported, exported, dumped, loaded and looked at.

use crate::common::{AIRPORTS, TestDirectory, fail, succeed};
use flate2::write::GzEncoder;
use std::io::Write;

const TYPES: &str = "\
id,flag,small,amount,ratio,code,name,note,raw,day,moment,token
1,true,-5,12.50,1.5,ab,plain,,\\x00ff,2026-11-21,2026-11-21 05:19:14.5,6ba7b810-9dad-11d1-80b4-00c04fd430c8
2,,,,,,\"a,b \"\"c\"\"\",\"two
lines\",,,,
3,false,7,-0.01,0.1,x,\"\",\"\",\\x,1969-12-31,1969-12-31 23:59:59,00000000-0000-0000-0000-000000000000
";
const TYPE_LIST: &str = "flag:bool,small:int16,amount:decimal(10,2),ratio:float64,code:char(4),\
name:varchar(40),note:text,raw:bytes,day:date,moment:timestamp,token:uuid";

#[test]
fn the_shipped_data_set_comes_back_as_it_is() {
    let place = TestDirectory::new();
    let db = place.at("db");
    succeed(&["create", &db, "--partitions", "3"]);
    let facts = succeed(&[
        "import",
        &db,
        "airports",
        AIRPORTS,
        "--primary-key",
        "iata",
        "--format",
        "json",
    ]);
    assert!(facts.contains("\"rows\":3376"), "{facts}");
    let found = succeed(&["get", &db, "airports", "BOS", "--format", "json"]);
    assert!(
        found.contains("Boston") && found.contains("42.36"),
        "{found}"
    );
    succeed(&["export", &db, "airports", &place.at("out.csv")]);
    let mut exported: Vec<String> = place.read("out.csv").lines().map(str::to_owned).collect();
    let mut original: Vec<String> = std::fs::read_to_string(AIRPORTS)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    // The header stays first; the table's order is that of its key.
    exported[1..].sort();
    original[1..].sort();
    let differ = exported
        .iter()
        .zip(&original)
        .filter(|(a, b)| a != b)
        .count();
    assert_eq!((exported.len(), differ), (original.len(), 0));
    assert!(succeed(&["verify", &db]).starts_with("sound"));
}

#[test]
fn every_type_survives_export_and_import() {
    let place = TestDirectory::new();
    let (db, file) = (place.at("db"), place.file("in.csv", TYPES));
    succeed(&["create", &db]);
    succeed(&[
        "import",
        &db,
        "t",
        &file,
        "--primary-key",
        "id",
        "--types",
        TYPE_LIST,
    ]);
    let exported = succeed(&["export", &db, "t"]);
    assert_eq!(exported, TYPES.replace("14.5,", "14.500000,"));
    let again = place.file("again.csv", &exported);
    succeed(&[
        "import",
        &db,
        "u",
        &again,
        "--primary-key",
        "id",
        "--types",
        TYPE_LIST,
    ]);
    assert_eq!(succeed(&["export", &db, "u"]), exported);
}

#[test]
fn a_dump_holds_the_whole_database() {
    let place = TestDirectory::new();
    let (db, copy) = (place.at("db"), place.at("copy"));
    succeed(&["create", &db, "--partitions", "2"]);
    let file = place.file("in.csv", TYPES);
    succeed(&[
        "import",
        &db,
        "t",
        &file,
        "--primary-key",
        "id",
        "--types",
        TYPE_LIST,
    ]);
    succeed(&[
        "indexes",
        "create",
        &db,
        "t",
        "by name",
        "--columns",
        "name",
    ]);
    succeed(&[
        "indexes",
        "create",
        &db,
        "t",
        "tokens",
        "--columns",
        "token",
        "--unique",
    ]);
    succeed(&[
        "tables",
        "create",
        &db,
        "empty",
        "--columns",
        "a:int32,b:text?",
        "--primary-key",
        "a",
        "--partitioning",
        "modulo",
    ]);
    succeed(&["dump", &db, &place.at("a.dump")]);
    succeed(&["load", &copy, &place.at("a.dump"), "--partitions", "3"]);
    succeed(&["dump", &copy, &place.at("b.dump")]);
    assert_eq!(place.read("a.dump"), place.read("b.dump"));
    assert!(place.read("a.dump").contains("unique-index,tokens,token"));
    assert!(succeed(&["verify", &copy]).starts_with("sound"));
    compressed_dumps_are_read(&place);
    let whole = place.read("a.dump");
    let cut = place.file("cut.dump", &whole[..whole.len() - 20]);
    let error = fail(1, &["load", &place.at("third"), &cut]);
    assert!(
        error.contains("cut off") || error.contains("damaged"),
        "{error}"
    );
    assert!(!std::path::Path::new(&place.at("third")).exists());
    let error = fail(1, &["load", &place.at("third"), &place.file("none", "")]);
    assert!(error.contains("none: the dump ends too early"), "{error}");
    assert!(fail(1, &["load", &copy, &place.at("a.dump")]).contains("not empty"));
}

/// They were refused as ones that are compressed more than once.
fn compressed_dumps_are_read(place: &TestDirectory) {
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(place.read("a.dump").as_bytes()).unwrap();
    std::fs::write(place.at("a.dump.gz"), gzip.finish().unwrap()).unwrap();
    let (again, dumped) = (place.at("again"), place.at("again.dump"));
    succeed(&["load", &again, &place.at("a.dump.gz")]);
    succeed(&["dump", &again, &dumped]);
    assert_eq!(place.read("again.dump"), place.read("a.dump"));
}

#[test]
fn scans_follow_keys_and_indexes() {
    let place = TestDirectory::new();
    let db = place.at("db");
    succeed(&["create", &db, "--partitions", "2"]);
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
    let keys = |arguments: &[&str]| -> Vec<String> {
        let printed = succeed(&[&["scan", &db, "airports", "--format", "csv"], arguments].concat());
        let rows = printed.lines().skip(1);
        rows.map(|row| row.split(',').next().unwrap().to_owned())
            .collect()
    };
    let forward = keys(&["--from", "BOS", "--to", "BUZ"]);
    let mut backward = keys(&["--from", "BOS", "--to", "BUZ", "--backward"]);
    backward.reverse();
    assert!(forward.len() > 3 && forward.is_sorted());
    assert_eq!(forward, backward);
    assert_eq!(keys(&["--index", "by_state", "--prefix", "TX"]).len(), 209);
    assert_eq!(keys(&["--limit", "7"]).len(), 7);
    let listed = succeed(&["indexes", "list", &db, "airports", "--format", "csv"]);
    assert!(listed.contains("by_state,state,false"), "{listed}");
    succeed(&["indexes", "drop", &db, "airports", "by_state"]);
    assert!(fail(1, &["scan", &db, "airports", "--index", "by_state"]).contains("by_state"));
    succeed(&["tables", "drop", &db, "airports"]);
    assert!(fail(1, &["scan", &db, "airports"]).contains("no table `airports`"));
}

#[test]
fn info_says_what_a_database_is() {
    let place = TestDirectory::new();
    let db = place.at("db");
    succeed(&["create", &db, "--method", "inp", "--layout", "separate"]);
    let info = succeed(&["info", &db, "--format", "json"]);
    assert!(
        info.contains("\"method\":\"inp\"") && info.contains("\"layout\":\"separate\""),
        "{info}"
    );
}
