//! Goal: `lab run` makes rows, a table, verdicts and a page from the smallest setting, continues
//! after a kill, and refuses experiments that it cannot run.
//!
//! Method: figures of every kind of run at `--smoke`; one run is killed with SIGKILL in the middle
//! and begun again, which must keep its rows and measure only the others. No number is judged: at
//! this size they mean nothing. The page is looked at in a real browser where there is one.

use crate::browser;
use crate::common::{TestDirectory, fail, is_long, run, succeed};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn rows(place: &TestDirectory, out: &str) -> Vec<Value> {
    let text = place.read(&format!("{out}/rows.jsonl"));
    // The last line may be torn while a run goes on.
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    text[..whole]
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The lines that a run printed, two for each experiment.
fn counted(printed: &str, experiments: usize) {
    let lines: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2 * experiments);
    for line in &lines {
        assert!(line["rows"].as_u64().unwrap() > 0, "{line}");
        // Two rounds judge nothing.
        assert_eq!(line["inside"], 0, "{line}");
    }
}

/// The file of verdicts has every field, for both variants.
fn check_verdicts(place: &TestDirectory) {
    let text = place.read("out/verdicts.jsonl");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!lines.is_empty());
    let variants: BTreeSet<&str> = lines
        .iter()
        .map(|line| line["variant"].as_str().unwrap())
        .collect();
    assert_eq!(variants, ["ours", "paper"].into());
    for line in &lines {
        assert!(line["experiment"].is_string() && line["statement"].is_string());
        assert!(line["headline"].is_boolean() && line["own_goal"].is_boolean());
        let [low, value, high] = ["low", "value", "high"].map(|name| line[name].as_f64());
        assert!(low <= value && value <= high, "{line}");
        let range = ["paper_low", "paper_high"].map(|name| line.get(name).unwrap().as_f64());
        assert!(range[1].is_none() || range[0] <= range[1], "{line}");
        assert_eq!(line["verdict"], "not measured", "{line}");
    }
}

#[test]
fn every_kind_of_run_gives_rows_and_a_page() {
    let place = TestDirectory::new();
    let out = place.at("out");
    let names = [
        "n-store/fig1",
        "n-store/fig11",
        "n-store/fig12",
        "n-store/fig13",
        "n-store/table3",
        "n-store/fig16",
    ];
    let arguments = [
        &["lab", "run"],
        names.as_slice(),
        &["--smoke", "--out", &out],
    ]
    .concat();
    let printed = succeed(&[arguments.as_slice(), &["--format", "json"]].concat());
    counted(&printed, names.len());
    check_verdicts(&place);
    let rows = rows(&place, "out");
    let kinds: BTreeSet<&str> = rows
        .iter()
        .map(|row| row["kind"].as_str().unwrap())
        .collect();
    let expected = [
        "costs",
        "device",
        "recovery",
        "tpcc",
        "ycsb",
        "ycsb-sampled",
    ];
    assert_eq!(kinds, expected.into());
    check_rows(&rows);
    check_files(&place, rows.len());
    let page = place.read("out/report.html");
    let plots = page.matches("<svg").count();
    assert!(plots >= names.len());
    if let Some(seen) = browser::look(&page) {
        assert_eq!(seen.plots, plots);
        for name in ["Figure 1:", "Figure 13:", "Table 3:", "Figure 16:"] {
            let found = seen.headings.iter().any(|text| text.starts_with(name));
            assert!(found, "{name}: {:?}", seen.headings);
        }
    }
}

#[test]
fn joins_have_rows_and_a_page_as_well() {
    let place = TestDirectory::new();
    let out = place.at("out");
    let arguments = ["lab", "run", "joins/all", "--smoke", "--out", &out];
    let printed = succeed(&[arguments.as_slice(), &["--format", "json"]].concat());
    counted(&printed, 7);
    let before = rows(&place, "out");
    check_rows(&before);
    for row in &before {
        assert_eq!(row["kind"], "join");
        let configuration = row["configuration"].as_str().unwrap();
        assert!(configuration.contains("--r ") && configuration.contains("--s "));
        assert!(!configuration.contains("--relations"), "{configuration}");
        for metric in [
            "tuples_per_s",
            "scratch_bytes",
            "cold_s",
            "partition_percent",
        ] {
            let median = row["metrics"][metric]["median"].as_f64();
            assert!(median.is_some_and(f64::is_finite), "{metric}: {row}");
        }
    }
    let page = place.read("out/report.html");
    assert!(page.contains("published code on two cores") && page.contains("m=8"));
    for loader in ["<script", "src=", "href=", "url(", "@import"] {
        assert!(!page.contains(loader), "{loader}");
    }
    if let Some(seen) = browser::look(&page) {
        assert_eq!(seen.plots, page.matches("<svg").count());
        for name in [
            "Figure 11:",
            "Sort or hash",
            "Figure 18:",
            "Kernel against kernel",
        ] {
            let found = seen.headings.iter().any(|text| text.starts_with(name));
            assert!(found, "{name}: {:?}", seen.headings);
        }
    }
    succeed(&arguments);
    assert_eq!(rows(&place, "out"), before, "nothing is measured twice");
    two_papers_share_a_page(&place, &out);
}

#[test]
fn nv_logging_has_rows_and_a_page_as_well() {
    let place = TestDirectory::new();
    let out = place.at("out");
    let names: &[&str] = if is_long() {
        &[
            "nv-logging/fig9",
            "nv-logging/fig14",
            "nv-logging/fig15",
            "nv-logging/fig16",
        ]
    } else {
        &["nv-logging/fig9", "nv-logging/fig15", "nv-logging/fig16"]
    };
    let run = [&["lab", "run"], names, &["--smoke", "--out", &out]].concat();
    let printed = succeed(&[run.as_slice(), &["--format", "json"]].concat());
    counted(&printed, names.len());
    check_verdicts(&place);
    let before = rows(&place, "out");
    check_rows(&before);
    let kinds: BTreeSet<&str> = before
        .iter()
        .map(|row| row["kind"].as_str().unwrap())
        .collect();
    // Prices are no runs, so they leave no rows of their own.
    assert_eq!(kinds, ["device", "paged", "paged-probed"].into());
    for row in before.iter().filter(|row| row["kind"] == "paged-probed") {
        check_probes(row);
    }
    let page = place.read("out/report.html");
    assert!(page.contains("section 6.6") && page.contains("txn/s/$"));
    if let Some(seen) = browser::look(&page) {
        assert_eq!(seen.plots, page.matches("<svg").count());
    }
    succeed(&run);
    assert_eq!(rows(&place, "out"), before, "nothing is measured twice");
    // Other prices need no other run, and wrong ones are refused.
    let priced = [
        "lab",
        "report",
        "nv-logging/fig16",
        "--smoke",
        "--out",
        &out,
    ];
    let of_flash = [priced.as_slice(), &["--disk-price", "0.7"]].concat();
    succeed(&of_flash);
    assert_ne!(place.read("out/report.html"), page);
    let wrong = [priced.as_slice(), &["--disk-price", "0"]].concat();
    assert!(fail(2, &wrong).contains("dollars a gigabyte"));
}

#[test]
fn nvram_era_has_rows_and_a_page_as_well() {
    let place = TestDirectory::new();
    let out = place.at("out");
    let run = [
        "lab",
        "run",
        "nvram-era/fig6",
        "--smoke",
        "--out",
        &out,
        "--format",
        "json",
    ];
    let printed = succeed(&run);
    counted(&printed, 1);
    let measured = rows(&place, "out");
    check_rows(&measured);
    // Three designs, three workloads, two barriers; one of the designs has a variant of the paper.
    assert_eq!(measured.len(), 18 + 6);
    let variants = measured.iter().map(|row| row["variant"].as_str().unwrap());
    assert_eq!(variants.filter(|variant| *variant == "paper").count(), 6);
    for row in &measured {
        assert!(row["metrics"]["latency_p95_us"]["median"].as_f64() > Some(0.0));
    }
    let page = place.read("out/report.html");
    assert!(page.contains("persist barrier") || page.contains("barriers of 3"));
    a_row_is_measured_again(&place, &out, &measured[0]);
    let stale = succeed(&["lab", "stale", &place.at(""), "--format", "json"]);
    let line: Value = serde_json::from_str(stale.trim()).unwrap();
    assert_eq!(line["report"], "out");
    assert_eq!(line["rows"], measured.len());
    let itself = succeed(&["lab", "stale", &out, "--format", "json"]);
    let line: Value = serde_json::from_str(itself.trim()).unwrap();
    assert_eq!(line["rows"], measured.len());
    std::fs::create_dir(place.at("empty")).unwrap();
    assert!(fail(2, &["lab", "stale", &place.at("empty")]).contains("rows.jsonl"));
    reports_only_read(&place);
}

/// A report made missing directories, replaced pages of others, and cut off a last line.
fn reports_only_read(place: &TestDirectory) {
    let missing = place.at("missing");
    let report = ["lab", "report", "nvram-era/fig6", "--smoke", "--out"];
    assert!(fail(1, &[&report[..], &[&missing]].concat()).contains("rows.jsonl"));
    assert!(!Path::new(&missing).exists());
    place.file("empty/report.html", "mine");
    let empty = place.at("empty");
    fail(1, &[&report[..], &[&empty]].concat());
    assert_eq!(place.read("empty/report.html"), "mine");
    let text = place.read("out/rows.jsonl");
    place.file("out/rows.jsonl", text.trim_end());
    let out = place.at("out");
    let twice = ["--variants", "paper,paper", "--format", "json"];
    let printed = succeed(&[&report[..], &[&out], &twice].concat());
    assert_eq!(printed.lines().count(), 1, "{printed}");
    let line: Value = serde_json::from_str(printed.trim()).unwrap();
    assert_eq!(line["rows"], 18, "the last row counts");
    assert_eq!(place.read("out/rows.jsonl"), text.trim_end());
}

/// Every number of a row is there again, and a name that is none is refused.
fn a_row_is_measured_again(place: &TestDirectory, out: &str, row: &Value) {
    let config = row["config"].as_str().unwrap();
    let again = ["lab", "replay", config, "--out", out, "--format", "json"];
    // Whether two rounds agree is chance.
    let done = run(&again);
    assert!(matches!(done.status.code(), Some(0 | 1)), "{done:?}");
    let printed = String::from_utf8(done.stdout).unwrap();
    let metrics = row["metrics"].as_object().unwrap();
    let names = printed.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["agrees"] == "yes" || line["agrees"] == "no", "{line}");
        for side in ["row", "again"] {
            let [low, value, high] = ["_low", "", "_high"].map(|end| &line[side.to_owned() + end]);
            assert!(low.as_f64().unwrap() <= value.as_f64().unwrap(), "{line}");
            assert!(value.as_f64().unwrap() <= high.as_f64().unwrap(), "{line}");
        }
        line["metric"].as_str().unwrap().to_owned()
    });
    assert!(names.eq(metrics.keys().cloned()));
    assert!(fail(2, &["lab", "replay", "none", "--out", out]).contains("no row"));
    assert_eq!(rows(place, "out").len(), 24, "no row is added");
    let mut other = row.clone();
    for sample in other["samples"].as_array_mut().unwrap() {
        for value in sample["metrics"].as_object_mut().unwrap().values_mut() {
            *value = (value.as_f64().unwrap() * 1e6 + 1e6).into();
        }
    }
    std::fs::create_dir(place.at("other")).unwrap();
    place.file("other/rows.jsonl", &format!("{other}\n"));
    let replay = ["lab", "replay", config, "--out", &place.at("other")];
    assert!(fail(1, &replay).contains("does not agree"));
    std::fs::remove_dir_all(place.at("other")).unwrap();
}

/// The threads' activities add up, and insertions were seen.
fn check_probes(row: &Value) {
    let median = |name: &str| row["metrics"][name]["median"].as_f64().unwrap();
    let parts = [
        "log_percent",
        "log_wait_percent",
        "locks_percent",
        "database_percent",
        "rest_percent",
    ];
    let sum: f64 = parts.iter().map(|part| median(part)).sum();
    assert!((sum - 100.0).abs() < 0.1, "{row}");
    assert!(median("inserts_per_s") > 0.0, "{row}");
    let latencies = ["insert_p50_us", "insert_p99_us", "insert_max_us"].map(median);
    assert!(latencies.is_sorted(), "{row}");
}

fn two_papers_share_a_page(place: &TestDirectory, out: &str) {
    let names = ["joins/fig11", "n-store/fig1"];
    let arguments = [
        &["lab", "report"],
        names.as_slice(),
        &["--smoke", "--out", out],
    ]
    .concat();
    let printed = succeed(&arguments);
    assert!(printed.contains("joins/fig11") && printed.contains("n-store/fig1"));
    let page = place.read("out/report.html");
    for heading in [
        "joins: Verdicts",
        "n-store: Verdicts",
        "joins: Figure 11",
        "n-store: Figure 1",
    ] {
        assert!(page.contains(heading), "{heading}");
    }
}

/// Every row is complete, and the sampled shares of time add up.
fn check_rows(rows: &[Value]) {
    for row in rows {
        for field in [
            "commit",
            "config",
            "configuration",
            "seed",
            "repeats",
            "machine",
            "size",
            "variant",
        ] {
            assert!(!row[field].is_null(), "{field}: {row}");
        }
        let samples = row["samples"].as_array().unwrap();
        let rounds: Vec<u64> = samples
            .iter()
            .map(|sample| sample["round"].as_u64().unwrap())
            .collect();
        assert_eq!(rounds, [0, 1], "{row}");
        assert!(samples[0]["order"].as_u64() < samples[1]["order"].as_u64());
        let metrics = row["metrics"].as_object().unwrap();
        assert!(!metrics.is_empty());
        for spread in metrics.values() {
            let [min, median, max] =
                ["min", "median", "max"].map(|name| spread[name].as_f64().unwrap());
            assert!(min <= median && median <= max, "{row}");
        }
    }
    let sampled = rows.iter().filter(|row| row["kind"] == "ycsb-sampled");
    for row in sampled {
        let parts = [
            "storage_percent",
            "recovery_percent",
            "index_percent",
            "other_percent",
        ];
        let sum: f64 = parts
            .iter()
            .map(|part| row["metrics"][part]["median"].as_f64().unwrap())
            .sum();
        assert!((sum - 100.0).abs() < 0.1, "{row}");
    }
}

/// The page loads nothing, and the table has all rows.
fn check_files(place: &TestDirectory, rows: usize) {
    let page = place.read("out/report.html");
    assert!(page.contains("section 5.3"));
    for loader in ["<script", "src=", "href=", "url(", "@import"] {
        assert!(!page.contains(loader), "{loader}");
    }
    let table = place.read("out/rows.csv");
    assert!(table.starts_with("kind,") && table.lines().count() > rows);
}

#[test]
fn a_killed_run_goes_on_where_it_stopped() {
    let place = TestDirectory::new();
    let out = place.at("out");
    let arguments = ["lab", "run", "n-store/fig6", "--smoke", "--out", &out];
    let mut child = Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let file = std::path::PathBuf::from(place.at("out/rows.jsonl"));
    while std::fs::metadata(&file).map_or(0, |data| data.len()) == 0 {
        let is_running = child.try_wait().unwrap().is_none();
        assert!(is_running, "it has ended without a row");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = rows(&place, "out");
    // A torn line, as a kill in the middle of a write would leave it.
    let mut text = place.read("out/rows.jsonl");
    text.push_str("{\"kind\":\"ycsb\",\"par");
    place.file("out/rows.jsonl", &text);
    succeed(&arguments);
    let after = rows(&place, "out");
    assert!(after.len() >= before.len());
    assert_eq!(after[..before.len()], before, "rows that were there stay");
    let configurations: BTreeSet<&str> = after
        .iter()
        .map(|row| row["config"].as_str().unwrap())
        .collect();
    assert_eq!(
        configurations.len(),
        after.len(),
        "no row is measured twice"
    );
    succeed(&arguments);
    assert_eq!(
        rows(&place, "out"),
        after,
        "a run that is whole measures nothing"
    );
    // Figure 9 shows other numbers of the same runs.
    let nine = succeed(&["lab", "report", "n-store/fig9", "--smoke", "--out", &out]);
    assert!(nine.contains("n-store/fig9"));
    assert!(!place.read("out/report.html").contains("runs were made"));
}

#[test]
fn the_list_names_every_figure() {
    let listed = succeed(&["lab", "list"]);
    for number in [
        "fig1", "fig5", "fig6", "fig7", "fig8", "fig9", "fig10", "fig11", "fig12",
    ] {
        assert!(listed.contains(&format!("n-store/{number} ")), "{number}");
    }
    for name in ["fig13", "fig14", "fig15", "fig16", "table3"] {
        assert!(listed.contains(&format!("n-store/{name}")), "{name}");
    }
    for name in [
        "fig11", "phases", "fig15", "fig16", "fig17", "fig18", "kernels",
    ] {
        assert!(listed.contains(&format!("joins/{name} ")), "{name}");
    }
    for number in [6, 7, 8, 9, 11, 12, 13, 14, 15, 16] {
        let name = format!("nv-logging/fig{number} ");
        assert!(listed.contains(&name), "{name}");
    }
    for name in ["nv-logging/fig6-hdd ", "nvram-era/fig5 ", "nvram-era/fig6 "] {
        assert!(listed.contains(name), "{name}");
    }
    // A wrong name is answered with the way to the right ones, before anything is run or made.
    let place = TestDirectory::new();
    for name in ["n-store/fig99", "joins/fig5", "fig5", "all", "joins/", ""] {
        let out = place.at("none");
        let error = fail(2, &["lab", "run", name, "--smoke", "--out", &out]);
        assert!(
            [
                "lab list",
                "n-store/all",
                "joins/all",
                "nv-logging/all",
                "nvram-era/all"
            ]
            .iter()
            .all(|part| error.contains(part)),
            "{error}"
        );
        assert!(!Path::new(&out).exists());
    }
    let error = fail(2, &["lab", "run", "--smoke"]);
    assert!(error.contains("<EXPERIMENTS>"), "{error}");
    let error = fail(2, &["lab", "run", "n-store/fig1", "--smoke", "--full"]);
    assert!(error.contains("cannot be used with"), "{error}");
}
