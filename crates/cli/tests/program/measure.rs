//! Goal: the measuring commands run from end to end at small settings and print complete rows.
//!
//! Method: a small benchmark of each method with its content check, emulated and native, and a
//! crash search of a few images. The numbers themselves are not judged here.

use crate::browser::look;
use crate::common::{TestDirectory, fail, run, succeed};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Fields that every row must have.
const FIELDS: [&str; 24] = [
    "method",
    "mix",
    "skew",
    "rows",
    "partitions",
    "threads",
    "layout",
    "update_columns",
    "domain",
    "primitives",
    "survives",
    "device",
    "profile",
    "txns",
    "seconds",
    "txn_per_s",
    "latency_us",
    "cpu_us_per_txn",
    "per_txn",
    "footprint_bytes",
    "commit",
    "seed",
    "machine",
    "workload",
];

fn rows(arguments: &[&str]) -> Vec<Value> {
    let printed = succeed(&[&["bench", "ycsb", "--format", "json"], arguments].concat());
    printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_method_runs_every_mix_and_ends_with_the_right_content() {
    let place = TestDirectory::new();
    let rows = rows(&[
        "--method",
        "volatile,inp,nvm-inp,std-map,static-array",
        "--mix",
        "all",
        "--rows",
        "2000",
        "--txns",
        "6000",
        "--partitions",
        "2",
        "--path",
        &place.at("here"),
    ]);
    assert_eq!(rows.len(), 20);
    for row in &rows {
        for field in FIELDS {
            assert!(!row[field].is_null(), "{field} is missing in {row}");
        }
        assert_eq!(row["txns"], 6000);
        assert!(row["latency_us"]["p99"].as_f64().unwrap() > 0.0);
    }
    let left = std::fs::read_dir(place.at("here")).unwrap().count();
    assert_eq!(left, 0, "the databases are removed");
}

#[test]
fn announced_rows_are_measured_beside_the_plain_ones() {
    let place = TestDirectory::new();
    let arguments = [
        "--rows",
        "500",
        "--txns",
        "900",
        "--announce",
        "3",
        "--path",
    ];
    let here = place.at("here");
    let with = |method| [&arguments[..], &[&here, "--method", method]].concat();
    let rows = rows(&with("static-array,nvm-inp,volatile"));
    let found: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row["method"].as_str().unwrap(),
                row["announced_ahead"].as_u64(),
            )
        })
        .collect();
    let expected = [
        ("static-array", None),
        ("nvm-inp", None),
        ("nvm-inp", Some(3)),
        ("volatile", None),
    ];
    assert_eq!(found, expected);
    let refused = [&["bench", "ycsb"][..], &with("inp")].concat();
    assert!(fail(2, &refused).contains("--announce is for nvm-inp"));
}

#[test]
fn the_emulated_device_counts_the_same_every_time() {
    let place = TestDirectory::new();
    let run = || {
        let rows = rows(&[
            "--method",
            "nvm-inp",
            "--mix",
            "balanced",
            "--rows",
            "500",
            "--txns",
            "2000",
            "--device",
            "emulated",
            "--profile",
            "count",
            "--path",
            &place.at("here"),
        ]);
        rows[0]["per_txn"].clone()
    };
    let first = run();
    assert!(first["fences"].as_f64().unwrap() > 0.0, "{first}");
    assert!(first["loads"].as_f64().unwrap() > 0.0, "{first}");
    assert_eq!(first, run());
}

/// The files of a method lie on the emulated device as well: a row has ten columns of 100 bytes,
/// wherever it is read from.
#[test]
fn what_files_read_reaches_the_emulated_device() {
    let rows = rows(&[
        "--method",
        "inp,cow,log,nvm-log",
        "--mix",
        "read-only",
        "--rows",
        "2000",
        "--txns",
        "2000",
        "--memtable-bytes",
        "65536",
        "--cache-bytes",
        "32768",
        "--device",
        "emulated",
        "--profile",
        "count",
    ]);
    assert_eq!(rows.len(), 4);
    for row in rows {
        let loads = row["per_txn"]["loads"].as_f64().unwrap();
        assert!(loads > 12.0, "{row}");
    }
}

#[test]
fn layouts_and_columns_are_options() {
    let rows = rows(&[
        "--method",
        "nvm-inp",
        "--layout",
        "separate",
        "--update-columns",
        "10",
        "--rows",
        "500",
        "--txns",
        "1000",
        "--skew",
        "high",
        "--fences",
        "paper",
        "--primitives",
        "flush",
    ]);
    assert_eq!(rows[0]["layout"], "separate");
    assert_eq!(rows[0]["update_columns"], 10);
    assert_eq!(rows[0]["primitives"], "flush");
}

#[test]
fn a_short_crash_search_finds_nothing_wrong() {
    for method in ["nvm-inp", "inp"] {
        let printed = succeed(&[
            "torture", "--method", method, "--images", "300", "--format", "json",
        ]);
        let row: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(row["wrong"], 0, "{row}");
        assert!(row["images"].as_u64().unwrap() >= 300, "{row}");
        assert!(row["rounds"].as_u64().unwrap() >= 1, "{row}");
    }
}

/// Searches with few images tested the same rounds whatever their seed was, without a word.
#[test]
fn a_search_that_does_not_come_to_its_seed_says_so() {
    let search = ["torture", "--method", "nvm-inp", "--format", "csv"];
    let few = run(&[&search[..], &["--images", "20"]].concat());
    let errors = String::from_utf8(few.stderr).unwrap();
    assert!(errors.contains("the same with every seed"), "{errors}");
    let own = ["--images", "20", "--without", "undo.commit-record-fence"];
    let wrong = run(&[&search[..], &own].concat());
    let errors = String::from_utf8(wrong.stderr).unwrap();
    assert!(!errors.contains("the same with every seed"), "{errors}");
    let printed = String::from_utf8(few.stdout).unwrap();
    let header = printed.lines().next().unwrap();
    assert!(
        header.ends_with("rounds,corpus_rounds,failure,replay,operations"),
        "{header}"
    );
    // A run of several methods has one header.
    for kind in [["--images", "20"], ["--kills", "1"]] {
        let several = ["torture", "--method", "nvm-inp,inp", "--format", "csv"];
        let printed = succeed(&[&several[..], &kind].concat());
        assert_eq!(printed.lines().count(), 3, "{printed}");
    }
}

#[test]
fn connections_are_searched_and_judged() {
    let search = ["--connections", "4", "--images", "300"];
    let levels = ["serializable", "repeatable-read", "read-committed"];
    let histories = levels.map(|level| {
        let history = ["--connections", "4", "--histories", "500", "--isolation"];
        [&history[..], &[level]].concat()
    });
    for options in histories.iter().chain([&search.to_vec()]) {
        let torture = ["torture", "--method", "nvm-inp", "--format", "json"];
        let printed = succeed(&[&torture[..], options].concat());
        let row: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(row["wrong"], 0, "{row}");
    }
}

#[test]
fn a_database_survives_many_kills() {
    for method in ["nvm-inp", "inp"] {
        let printed = succeed(&[
            "torture", "--method", method, "--kills", "7", "--format", "json",
        ]);
        let row: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(
            (&row["kills"], &row["wrong"]),
            (&7.into(), &0.into()),
            "{row}"
        );
    }
}

#[test]
fn quickstart_survives_its_own_kill() {
    let place = TestDirectory::new();
    let printed = succeed(&[
        "quickstart",
        "--rows",
        "500",
        "--seconds",
        "0.02",
        "--report",
        &place.at("page.html"),
        "--path",
        &place.at("here"),
    ]);
    assert!(printed.contains("none is there half"), "{printed}");
    let page = place.read("page.html");
    assert!(page.contains("</html>") && page.contains("<svg"));
    // Three methods are shown, in the page and on the terminal; the others fold away.
    let (shown, folded) = page.split_once("<details><summary>All 23 methods").unwrap();
    for (method, is_shown) in [
        ("nvm-inp", true),
        ("full-page-writes", true),
        ("volatile", true),
        ("nvm-cow", false),
        ("nvwal", false),
    ] {
        let row = format!("<th scope=\"row\">{method}</th>");
        assert_eq!(shown.contains(&row), is_shown, "{method}");
        assert!(folded.contains(&row), "{method}");
        assert_eq!(
            printed.contains(&format!("| {method} ")),
            is_shown,
            "{method}"
        );
    }
    if let Some(seen) = look(&page) {
        assert_eq!(
            seen.headings,
            ["The medium", "Killed in full flight", "What a method costs"]
        );
        assert_eq!(seen.plots, 12);
    }
    assert_eq!(std::fs::read_dir(place.at("here")).unwrap().count(), 0);
}

#[test]
fn direct_transfers_are_measured_or_refused_in_words() {
    let place = TestDirectory::new();
    let here = place.at("here");
    let ycsb = |arguments: &[&str]| {
        let sizes = ["--rows", "3000", "--txns", "3000", "--threads", "2"];
        let setting = ["--path", &here, "--pool", "600000", "--format", "json"];
        run(&[&["bench", "ycsb"], arguments, &sizes, &setting].concat())
    };
    let method = ["--method", "full-page-writes"];
    let output = ycsb(&[&method[..], &["--io", "direct", "--read-floor"]].concat());
    if output.status.success() {
        let row: Value = serde_json::from_slice(&output.stdout).unwrap();
        let floor = |name: &str| row["read_floor"][name].as_f64().unwrap();
        let reads = row["file_reads_per_txn"].as_f64().unwrap();
        assert!(row["io"] == "direct" && reads > 0.1, "{row}");
        assert!(floor("pages_per_s") > 0.0, "{row}");
        let allowed = floor("pages_per_s") / reads;
        assert!((floor("txn_per_s") / allowed - 1.0).abs() < 1e-6, "{row}");
        let share = row["txn_per_s"].as_f64().unwrap() / allowed;
        assert!((floor("share") / share - 1.0).abs() < 1e-6, "{row}");
    } else {
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains("refuses direct I/O"), "{errors}");
    }
    for (arguments, part) in [
        (&["--method", "nvm-inp", "--io", "direct"][..], "nvm-inp"),
        (&["--method", "std-map", "--io", "direct"], "std-map"),
        (
            &[&method[..], &["--read-floor"]].concat(),
            "add --io direct",
        ),
        (
            &[&method[..], &["--io", "direct", "--device", "emulated"]].concat(),
            "emulated",
        ),
        (
            &[&method[..], &["--io", "direct", "--node-bytes", "2048"]].concat(),
            "2048 bytes",
        ),
    ] {
        let output = ycsb(arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(part), "{errors}");
    }
}

/// The directory was refused after all measurements.
#[test]
fn a_report_that_cannot_be_written_is_refused_at_once() {
    let place = TestDirectory::new();
    let report = place.at("missing/report.html");
    let output = run(&["quickstart", "--report", &report]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("report.html"), "{errors}");
    assert_eq!(output.stdout, b"", "nothing is measured before");
}

/// Servers that `bench wire` had started ran on for ever, without their files, when it was
/// interrupted.
#[test]
fn an_interrupted_benchmark_ends_the_servers_that_it_has_started() {
    let place = TestDirectory::new();
    let here = place.at("");
    let mut bench = Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(["bench", "wire", "--idle", "3000", "--path", &here])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let own = bench.id();
    let children = format!("/proc/{own}/task/{own}/children");
    let children = || std::fs::read_to_string(&children).unwrap_or_default();
    while children().trim().is_empty() {
        let is_running = bench.try_wait().unwrap().is_none();
        assert!(is_running, "it has ended without a server");
        std::thread::sleep(Duration::from_millis(1));
    }
    let server = children().trim().to_owned();
    let bench_itself = Pid::from_raw(i32::try_from(own).unwrap()).unwrap();
    kill_process(bench_itself, Signal::INT).unwrap();
    assert_eq!(bench.wait().unwrap().code(), Some(130));
    // The process that has inherited it may not have taken note of its end.
    let has_ended = || {
        let status = std::fs::read_to_string(format!("/proc/{server}/stat"));
        status.map_or(true, |status| status.contains(") Z "))
    };
    while !has_ended() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(std::fs::read_dir(&here).unwrap().count(), 0);
}
