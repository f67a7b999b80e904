//! Goal: `bench join` measures every algorithm on the same relations, reports correct results, and
//! refuses impossible options before it works.
//!
//! Method: small relations of every kind. The result of a join does not depend on how it was done,
//! so checksums of all algorithms, kernels and thread counts must be one; each mistake must get a
//! sentence that names the thing and exit code 1 or 2. No time is judged.

use crate::common::{fail, run, succeed};
use serde_json::Value;
use std::collections::BTreeSet;

const MEMBERS: [&str; 26] = [
    "algorithm",
    "kernel",
    "r",
    "s",
    "tuple_bytes",
    "threads",
    "zipf",
    "dense",
    "match",
    "copies",
    "hot",
    "repeats",
    "seconds",
    "seconds_min",
    "seconds_max",
    "seconds_cold",
    "cpu_seconds",
    "tuples_per_s",
    "phases",
    "scratch_bytes",
    "matches",
    "checksum",
    "seed",
    "commit",
    "machine",
    "tuning",
];

fn rows(arguments: &[&str]) -> Vec<Value> {
    let printed = succeed(&[&["bench", "join", "--format", "json"], arguments].concat());
    printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_algorithm_finds_the_same_and_says_how() {
    for more in [
        &["--tuple", "8"][..],
        &["--tuple", "16", "--sparse", "--match", "0.1"],
        &["--zipf", "1.25", "--copies", "3", "--threads", "5"],
        &["--zipf", "1.25", "--hot", "0.5"],
    ] {
        let size = ["--algorithm", "all", "--r", "4000", "--s", "20000"];
        let rows = rows(&[&size, more, &["--kernel", "portable,auto"]].concat());
        assert_eq!(rows.len(), 12);
        let mut checksums = BTreeSet::new();
        for row in &rows {
            for member in MEMBERS {
                assert!(!row[member].is_null(), "{member} is missing in {row}");
            }
            let is_auto = row["algorithm"] == "auto";
            for member in ["picked", "reason"] {
                assert_eq!(row[member].is_string(), is_auto, "{row}");
            }
            checksums.insert(row["checksum"].as_str().unwrap());
            check_times(row);
        }
        assert_eq!(checksums.len(), 1, "{checksums:?}");
    }
}

/// The phases are those of the time that is reported, which lies between the least and the most.
fn check_times(row: &Value) {
    let [seconds, least, most] =
        ["seconds", "seconds_min", "seconds_max"].map(|name| row[name].as_f64().unwrap());
    assert!(least <= seconds && seconds <= most, "{row}");
    let phases = row["phases"].as_object().unwrap();
    let sum: f64 = phases.values().map(|value| value.as_f64().unwrap()).sum();
    assert!(sum > 0.0 && sum <= seconds * 1.001, "{row}");
    let speed = row["s"].as_f64().unwrap() / seconds;
    let said = row["tuples_per_s"].as_f64().unwrap();
    assert!((said / speed - 1.0).abs() < 1e-6, "{row}");
    assert!(row["scratch_bytes"].as_u64().unwrap() > 0, "{row}");
}

#[test]
fn relations_are_those_that_were_asked_for() {
    let asked = rows(&[
        "--algorithm",
        "radix",
        "--r",
        "5000",
        "--s",
        "50000",
        "--match",
        "0.1",
        "--sparse",
        "--threads",
        "3",
        "--seed",
        "9",
        "--repeats",
        "2",
    ]);
    let row = &asked[0];
    let expected = [
        ("r", 5000),
        ("s", 50_000),
        ("threads", 3),
        ("seed", 9),
        ("repeats", 2),
    ];
    for (member, value) in expected {
        assert_eq!(row[member], value, "{member}");
    }
    assert_eq!(row["dense"], false);
    let matches = row["matches"].as_u64().unwrap();
    assert!((4000..6000).contains(&matches), "{matches}");
    // Another seed makes other relations; three copies of each key make three pairs of each match.
    let of = |more: &[&str]| {
        let size = ["--algorithm", "n-part", "--r", "3000", "--s", "3000"];
        rows(&[&size, more].concat()).remove(0)
    };
    let (one, other, three) = (of(&[]), of(&["--seed", "2"]), of(&["--copies", "3"]));
    assert_eq!(one["checksum"], of(&[])["checksum"]);
    assert_eq!(one["matches"], 3000);
    assert_eq!(three["matches"], 9000);
    assert_eq!(other["matches"], 3000);
    assert_ne!(
        of(&["--match", "0.5"])["checksum"],
        of(&["--match", "0.5", "--seed", "2"])["checksum"]
    );
    // More threads than tuples are allowed.
    let few = rows(&[
        "--algorithm",
        "all",
        "--r",
        "3",
        "--s",
        "2",
        "--threads",
        "8",
    ]);
    assert!(few.iter().all(|row| row["matches"] == 2), "{few:?}");
    let none = rows(&["--algorithm", "all", "--r", "300", "--match", "0"]);
    assert!(none.iter().all(|row| row["matches"] == 0), "{none:?}");
}

#[test]
fn rows_are_for_people_and_for_spreadsheets_as_well() {
    let size = [
        "bench",
        "join",
        "--algorithm",
        "radix,m-way,auto",
        "--r",
        "2000",
    ];
    let text = succeed(&size);
    for part in [
        "tuples/s",
        "m-way",
        "auto picked n-part: ",
        "2000 pairs",
        "cold",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    let table = succeed(&[size.as_slice(), &["--format", "csv"]].concat());
    let mut lines = table.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    // Only radix joins partitions at once, only m-way sorts; the columns are those of both, each
    // once.
    for name in [
        "phases.partition-r",
        "phases.sort",
        "phases.probe",
        "match",
        "machine.cpu",
    ] {
        let found = header.iter().filter(|own| **own == name).count();
        assert_eq!(found, 1, "{name} in {header:?}");
    }
    assert_eq!(lines.count(), 3);
}

#[test]
fn the_grid_names_the_best_and_the_worst_cell() {
    let mut cells: Vec<Value> = Vec::new();
    for part in ["1/3", "2/3", "3/3"] {
        let grid = ["bench", "join", "--grid", "--grid-part", part];
        let small = ["--r", "256", "--repeats", "1", "--format", "json"];
        let output = run(&[grid.as_slice(), small.as_slice()].concat());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        assert!(errors.contains("of 30 cells. Worst: "), "{errors}");
        let rows = String::from_utf8(output.stdout).unwrap();
        cells.extend(
            rows.lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap()),
        );
    }
    let mut kinds = BTreeSet::new();
    for cell in &cells {
        let kind = ["r", "s", "zipf", "match", "dense"].map(|name| cell[name].to_string());
        assert!(kinds.insert(kind), "twice: {cell}");
        let seconds = cell["seconds"].as_object().unwrap();
        assert_eq!(seconds.len(), 6);
        let best = cell["best"].as_str().unwrap();
        let least = seconds[best].as_f64().unwrap();
        let others = seconds.iter().filter(|(name, _)| *name != "auto");
        assert!(others.clone().count() == 5);
        for (_, other) in others {
            assert!(other.as_f64().unwrap() >= least, "{cell}");
        }
        let picked = cell["picked"].as_str().unwrap();
        for (name, of) in [("ratio", picked), ("auto_ratio", "auto")] {
            let ratio = seconds[of].as_f64().unwrap() / least;
            assert!(
                (cell[name].as_f64().unwrap() - ratio).abs() < 1e-9,
                "{name}: {cell}"
            );
        }
    }
    assert_eq!(kinds.len(), 90);
}

#[test]
fn what_cannot_be_joined_is_refused_with_a_reason() {
    let refused = |code: i32, more: &[&str], parts: &[&str]| {
        let error = fail(code, &[&["bench", "join"], more].concat());
        for part in parts {
            assert!(error.contains(part), "no `{part}` in {error}");
        }
    };
    let usage = |more: &[&str], parts: &[&str]| refused(2, more, parts);
    usage(&["--r", "5"], &["--algorithm"]);
    usage(&["--algorithm", "hash"], &["`hash`", "m-pass"]);
    usage(&["--algorithm", ""], &["radix"]);
    let with = |more: &[&str], parts: &[&str]| {
        usage(&[&["--algorithm", "radix"], more].concat(), parts);
    };
    with(&["--kernel", "sse9"], &["`sse9`", "avx2"]);
    with(&["--r", "0"], &["0", "1.."]);
    with(&["--s", "0"], &["0", "1.."]);
    with(&["--r", "many"], &["many"]);
    with(&["--r", "2147483648"], &["1073741824"]);
    with(&["--match", "2"], &["a part from 0 to 1"]);
    with(&["--hot", "2"], &["a part from 0 to 1"]);
    with(&["--match", "-0.5"], &["-0.5", "a part from 0 to 1"]);
    with(&["--s", "-1"], &["'-1' for '--s"]);
    with(&["--match", "nan"], &["a part from 0 to 1"]);
    with(&["--zipf", "9"], &["from 0 (uniform) to 8"]);
    with(&["--threads", "0"], &["1..=1024"]);
    with(&["--threads", "1025"], &["1..=1024"]);
    with(&["--tuple", "12"], &["8, 16"]);
    with(&["--repeats", "0"], &["1.."]);
    with(
        &["--copies", "9", "--r", "8"],
        &["--copies must be at most --r"],
    );
    with(&["--bits", "15"], &["partition_bits is 15", "1..=14"]);
    with(&["--grid"], &["cannot be used with"]);
    usage(&["--grid", "--zipf", "1"], &["cannot be used with"]);
    usage(&["--grid", "--grid-part", "3/2"], &["for example 1/15"]);
    with(&["--grid-part", "1/2"], &["--grid"]);
    // Too little memory on any machine: the error says how much is needed, and nothing is made.
    let too_large = [
        "--r",
        "1000000",
        "--s",
        "2000000",
        "--memory-bytes",
        "40000000",
    ];
    for algorithm in ["radix", "m-way", "m-pass", "mpsm"] {
        let more = [&["--algorithm", algorithm], too_large.as_slice()].concat();
        let needed = if algorithm == "mpsm" {
            "72000000"
        } else {
            "48000000"
        };
        refused(
            1,
            &more,
            &[needed, "40000000 are available", "nothing was made"],
        );
    }
    // The relations fit into memory, but not the scratch memory that the library asks for.
    let more = [
        "--algorithm",
        "radix",
        "--r",
        "100000",
        "--memory-bytes",
        "3200001",
    ];
    refused(1, &more, &["bytes of scratch memory; 1600001 are allowed"]);
}

/// A kernel that the processor lacks is an error, one that it has is used; which is which differs
/// by machine.
#[test]
fn a_kernel_runs_or_is_refused() {
    for kernel in ["avx512", "avx2", "portable"] {
        let arguments = [
            "bench",
            "join",
            "--algorithm",
            "radix",
            "--r",
            "100",
            "--kernel",
            kernel,
            "--format",
            "json",
        ];
        let output = run(&arguments);
        if output.status.success() {
            let row: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(row["kernel"], kernel);
        } else {
            assert_ne!(kernel, "portable");
            let error = fail(2, &arguments);
            assert!(error.contains("lacks instructions"), "{error}");
            assert!(error.contains(kernel), "{error}");
        }
    }
}
