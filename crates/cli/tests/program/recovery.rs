//! Goal: `bench recovery` kills a process with as much log as was asked for, and every acknowledged
//! update is there afterwards.
//!
//! Method: a few megabytes of log; the program itself compares the rows with the lists. The rows of
//! the result must agree with each other.

use crate::common::{TestDirectory, fail, succeed};
use serde_json::Value;

const SMALL: [&str; 6] = [
    "--log-bytes",
    "6000000",
    "--rows",
    "2000",
    "--open-changes",
    "50",
];

fn rows(arguments: &[&str]) -> Vec<Value> {
    let fixed = ["bench", "recovery", "--format", "json"];
    let printed = succeed(&[&fixed, &SMALL[..], arguments].concat());
    printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn what_the_log_has_is_repeated_and_what_is_open_undone() {
    let place = TestDirectory::new();
    let here = place.at("here");
    let files = ["--method", "full-page-writes,nv-disk", "--path", &here];
    let rings = ["--method", "nv-logging,distributed-log", "--path", &here];
    let rings = [&rings[..], &["--sessions", "6", "--ring", "4000000"]].concat();
    for (methods, sessions) in [(&files[..], 1), (&rings, 6)] {
        for row in rows(methods) {
            let number = |name: &str| row[name].as_f64().unwrap();
            assert_eq!(
                (&row["sessions"], &row["undone"]),
                (&sessions.into(), &1.into()),
                "{row}"
            );
            assert!(number("log_bytes") >= 6e6, "{row}");
            // Records of an update have some hundred bytes.
            assert!(
                (6e6 / 2000.0..6e6 / 100.0).contains(&number("replayed")),
                "{row}"
            );
            assert!(
                number("recovery_ms") > 0.0
                    && number("first_read_ms") >= number("recovery_ms")
                    && number("undone_ms") >= number("first_read_ms")
            );
        }
    }
    assert!(std::fs::read_dir(here).unwrap().next().is_none());
}

#[test]
fn what_it_cannot_measure_is_refused() {
    let tuples = fail(2, &["bench", "recovery", "--method", "inp"]);
    assert!(tuples.contains("nv-logging"), "{tuples}");
    for size in ["--ring", "--area"] {
        let ignored = ["bench", "recovery", "--method", "full-page-writes", size];
        let error = fail(2, &[&ignored[..], &["4000000"]].concat());
        let told = format!("option `{size}`: method `full-page-writes` has no");
        assert!(error.contains(&told), "{error}");
    }
    // Half of a ring is less than the requested length.
    let short = [
        "bench",
        "recovery",
        "--method",
        "nv-logging",
        "--ring",
        "3000000",
    ];
    let error = fail(1, &[&short[..], &SMALL].concat());
    assert!(error.contains("a larger --ring"), "{error}");
}
