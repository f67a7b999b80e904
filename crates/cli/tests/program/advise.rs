//! Goal: `advise` compares all methods, its counts repeat, its choice follows the objective, and it
//! refuses unusable options with the reason.
//!
//! Method: small samples on the device that only counts, so that no assertion depends on time;
//! traces recorded by `bench`.

use crate::browser;
use crate::common::{TestDirectory, fail, succeed};
use serde_json::Value;

/// A run on small tables, without delays.
const SMALL: [&str; 10] = [
    "advise",
    "--profile",
    "count",
    "--sample-rows",
    "800",
    "--repeat",
    "1",
    "--seconds",
    "0.1",
    "--format",
];

fn advise(arguments: &[&str]) -> Vec<Value> {
    let printed = succeed(&[SMALL.as_slice(), &["json"], arguments].concat());
    printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A number of a method's row.
fn number(rows: &[Value], method: &str, field: &str) -> f64 {
    let row = rows.iter().find(|row| row["method"] == method).unwrap();
    row[field]
        .as_f64()
        .unwrap_or_else(|| panic!("{field} is missing in {row}"))
}

fn first(rows: &[Value]) -> &str {
    rows[0]["method"].as_str().unwrap()
}

#[test]
fn all_methods_are_judged_and_the_counts_repeat() {
    let place = TestDirectory::new();
    let path = place.at("here");
    let run = || advise(&["--rows", "100000", "--path", &path]);
    let rows = run();
    let mut methods: Vec<&str> = rows
        .iter()
        .map(|row| row["method"].as_str().unwrap())
        .collect();
    methods.sort_unstable();
    assert_eq!(
        methods,
        [
            "cow", "fash", "fast", "inp", "log", "nvm-cow", "nvm-inp", "nvm-log"
        ]
    );
    for (rank, row) in (1..).zip(&rows) {
        assert_eq!(row["rank"], rank);
        assert_eq!(row["recommended"], rank == 1);
        assert_eq!(row["extrapolated"], true);
        assert!(row["why"].as_str().unwrap().len() > 20, "{row}");
        assert!(row["txn_per_s"]["value"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["measured"].as_array().unwrap().len(), 3, "{row}");
    }
    let scores: Vec<f64> = rows
        .iter()
        .map(|row| row["score"].as_f64().unwrap())
        .collect();
    assert!(
        scores.is_sorted_by(|a, b| a >= b || (a / b) > 0.97),
        "{scores:?}"
    );
    let again = run();
    for method in methods {
        // A merge or a checkpoint in the background may end one transaction earlier or later.
        for field in ["written_bytes_per_txn", "footprint_bytes", "loads_per_txn"] {
            let (one, other) = (number(&rows, method, field), number(&again, method, field));
            assert!(
                (one / other - 1.0).abs() < 0.05,
                "{method} {field}: {one}, {other}"
            );
        }
    }
    assert_eq!(
        std::fs::read_dir(&path).unwrap().count(),
        0,
        "the databases are removed"
    );
}

#[test]
fn the_choice_follows_what_was_counted() {
    let by_bytes = |arguments: &[&str]| {
        let rows = advise(&[arguments, &["--rows", "200000", "--prefer", "wear"]].concat());
        let least = rows
            .iter()
            .map(|row| row["written_bytes_per_txn"].as_f64().unwrap().max(64.0))
            .fold(f64::INFINITY, f64::min);
        let chosen = first(&rows).to_owned();
        let bytes = number(&rows, &chosen, "written_bytes_per_txn").max(64.0);
        assert!(
            bytes * 0.97 <= least,
            "{chosen} writes {bytes}, the least is {least}"
        );
        rows
    };
    let small = by_bytes(&[
        "--mix",
        "write-heavy",
        "--columns",
        "10",
        "--column-bytes",
        "8",
    ]);
    // A page of 4 KB is copied for a change of 8 bytes; in place it is a few lines.
    let (cow, in_place) = (
        number(&small, "cow", "written_bytes_per_txn"),
        number(&small, "nvm-inp", "written_bytes_per_txn"),
    );
    assert!(cow > 3.0 * in_place, "cow {cow}, nvm-inp {in_place}");
    let large = by_bytes(&[
        "--mix",
        "write-heavy",
        "--columns",
        "1",
        "--column-bytes",
        "2000",
    ]);
    let (log, in_place) = (
        number(&large, "inp", "written_bytes_per_txn"),
        number(&large, "nvm-inp", "written_bytes_per_txn"),
    );
    // Records in blocks of a file, the row, and checkpoints, against one copy and the row.
    assert!(log > in_place, "inp {log}, nvm-inp {in_place}");
    let space = advise(&["--rows", "200000", "--prefer", "space"]);
    let least = space
        .iter()
        .map(|row| row["footprint_bytes"].as_f64().unwrap())
        .fold(f64::INFINITY, f64::min);
    assert!(number(&space, first(&space), "footprint_bytes") * 0.97 <= least);
}

#[test]
fn a_recorded_trace_is_advised_on() {
    let place = TestDirectory::new();
    let (trace, page) = (place.at("run.trace"), place.at("page.html"));
    succeed(&[
        "bench",
        "ycsb",
        "--method",
        "nvm-inp",
        "--mix",
        "write-heavy",
        "--rows",
        "1500",
        "--txns",
        "4000",
        "--record",
        &trace,
    ]);
    let rows = advise(&[
        "--trace",
        &trace,
        "--rows",
        "50000",
        "--method",
        "nvm-inp,inp",
        "--validate",
        "1600",
        "--out",
        &page,
    ]);
    assert_eq!(rows.len(), 2);
    let workload = rows[0]["workload"].as_str().unwrap();
    assert!(
        workload.contains("4,000 transactions") && workload.contains("rows of 1008 bytes"),
        "{workload}"
    );
    assert!(
        rows[0]["validation"]["measured"]["rows"] == 1600,
        "{}",
        rows[0]
    );
    let page = place.read("page.html");
    assert!(page.contains("</html>") && page.contains("<svg") && page.contains("nvm-inp"));
    if let Some(seen) = browser::look(&page) {
        assert_eq!(seen.plots, page.matches("<svg").count());
    }
    let text = succeed(
        &[
            SMALL.as_slice(),
            &["text"],
            &["--trace", &trace, "--method", "nvm-inp,inp"],
        ]
        .concat(),
    );
    assert!(
        text.contains("Use ") && text.contains("One round only"),
        "{text}"
    );
    let csv = succeed(
        &[
            SMALL.as_slice(),
            &["csv"],
            &["--trace", &trace, "--method", "inp"],
        ]
        .concat(),
    );
    assert_eq!(csv.lines().count(), 2, "{csv}");
    what_is_no_whole_trace_is_refused(&place, &trace);
}

fn what_is_no_whole_trace_is_refused(place: &TestDirectory, trace: &str) {
    let bytes = std::fs::read(trace).unwrap();
    std::fs::write(trace, &bytes[..bytes.len() - 9]).unwrap();
    let cut = fail(1, &["advise", "--trace", trace, "--profile", "count"]);
    assert!(
        cut.contains("damaged") && cut.contains("run.trace"),
        "{cut}"
    );
    let foreign = place.file("foreign", "key,value\n1,2\n");
    let refused = fail(1, &["advise", "--trace", &foreign]);
    assert!(refused.contains("not a trace"), "{refused}");
}

#[test]
fn a_tpcc_run_can_be_recorded_and_replayed() {
    let place = TestDirectory::new();
    let trace = place.at("tpcc.trace");
    succeed(&[
        "bench", "tpcc", "--method", "nvm-inp", "--scale", "0.01", "--txns", "300", "--record",
        &trace,
    ]);
    let rows = advise(&["--trace", &trace, "--method", "nvm-inp,cow"]);
    let workload = rows[0]["workload"].as_str().unwrap();
    assert!(workload.contains("9 tables"), "{workload}");
}

#[test]
fn what_makes_no_sense_is_said() {
    let place = TestDirectory::new();
    let missing = place.at("missing");
    let cases: [(&[&str], &str); 13] = [
        (&["--mix", "deletes"], "shares of read, update"),
        (&["--mix", "read=0"], "all shares are 0"),
        (&["--skew", "120/5"], "unknown skew"),
        (&["--rows", "5"], "100"),
        (&["--columns", "0"], "--columns"),
        (&["--update-columns", "11"], "--update-columns"),
        (&["--profile", "tape"], "dram, low, high"),
        (&["--read-latency-ns", "100"], "can only add"),
        (
            &["--profile", "low", "--fence-ns", "5"],
            "cannot be used with",
        ),
        (
            &["--profile", "low", "--primitives", "flush"],
            "--primitives",
        ),
        (&["--method", "volatile"], "volatile keeps nothing"),
        (
            &["--trace", &missing, "--mix", "balanced"],
            "cannot be used with",
        ),
        (&["--endurance", "0"], "1e8"),
    ];
    for (arguments, part) in cases {
        let error = fail(2, &[&["advise"], arguments].concat());
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
    let error = fail(1, &["advise", "--trace", &missing]);
    assert!(error.contains("missing"), "{error}");
    let error = fail(
        2,
        &[
            "bench",
            "ycsb",
            "--method",
            "inp,nvm-inp",
            "--record",
            &missing,
        ],
    );
    assert!(error.contains("--record"), "{error}");
}

/// Of the records each line has its turn, no other line is written by every group, and of two
/// million rows no row is hot. In samples a row is, by chance.
#[test]
fn no_line_wears_out_within_five_years() {
    // Transactions a second, on a medium that endures 1e10 writes.
    for (method, rate) in [("nvm-inp", 1.5e6), ("fast", 0.5e6), ("fash", 0.5e6)] {
        let printed = succeed(&[
            "advise",
            "--profile=count",
            "--rows=2000000",
            "--mix=balanced",
            &format!("--method={method}"),
            "--repeat=1",
            "--seconds=0.1",
            "--format=json",
        ]);
        let row: Value = serde_json::from_str(&printed).unwrap();
        let seconds = 5.0 * 365.25 * 86_400.0;
        let most = number(&[row], method, "hottest_line_writes_per_txn");
        assert!(
            most > 1e-6 && most * rate * seconds < 1e10,
            "{method}: {most}"
        );
    }
}
