//! Goal: `bench tpcb` and `bench tatp` run every method, within partitions and over several, and
//! print complete and consistent rows; the standard benchmarks survive kills.
//!
//! Method: small sizes; the program itself checks conditions and content after loading, after each
//! run and after each kill, so success means that they hold. The numbers themselves are judged only
//! as far as the specifications give them.

use crate::common::{TestDirectory, fail, succeed};
use serde_json::Value;

fn rows(benchmark: &str, arguments: &[&str]) -> Vec<Value> {
    let fixed = ["bench", benchmark, "--format", "json"];
    let printed = succeed(&[&fixed, arguments].concat());
    printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn tpcb_runs_over_several_partitions() {
    let place = TestDirectory::new();
    let common = ["--accounts", "500", "--txns", "3000", "--path"];
    let here = place.at("here");
    let several = ["--method", "volatile,inp,nvm-inp", "--branches", "3"];
    let several = [&several[..], &["--partitions", "2"], &common, &[&here]].concat();
    let rows_of_three = rows("tpcb", &several);
    assert_eq!(rows_of_three.len(), 3);
    for row in &rows_of_three {
        assert_eq!(
            (&row["workload"], &row["txns"]),
            (&"tpcb".into(), &3000.into())
        );
        assert_eq!(
            (&row["branches"], &row["accounts"]),
            (&3.into(), &500.into())
        );
        let share = row["distributed_share"].as_f64().unwrap();
        // Partition 1 has two branches, so half of the other ones lie in the other partition, or
        // both.
        assert!((0.05..0.16).contains(&share), "{share}");
        let of_type = &row["by_type"]["account-update"];
        assert_eq!(
            (&of_type["txns"], &of_type["success_rate"]),
            (&3000.into(), &1.0.into())
        );
        assert!(of_type["latency_us"]["p99"].as_f64().unwrap() > 0.0);
        assert_eq!(row["rollbacks"], 0);
    }
    let single = [
        "--method",
        "nvm-inp",
        "--branches",
        "4",
        "--partitions",
        "2",
    ];
    let single = [&single[..], &["--single-partition"], &common, &[&here]].concat();
    let row = &rows("tpcb", &single)[0];
    assert_eq!(row["distributed_share"], 0.0);
    assert_eq!(row["single_partition"], true);
    let left = std::fs::read_dir(here).unwrap().count();
    assert_eq!(left, 0, "the databases are removed");
}

/// Threads that take partitions from each other ran all transactions of a group of one without a
/// sync, and reported them as durable.
#[test]
fn a_group_of_one_makes_each_transaction_durable() {
    let methods = ["--method", "inp,full-page-writes"];
    let size = ["--branches", "2", "--accounts", "100", "--partitions", "2"];
    let run = ["--txns", "60", "--group", "1"];
    for row in rows("tpcb", &[&methods[..], &size, &run].concat()) {
        let syncs = row["per_txn"]["syncs"].as_f64().unwrap();
        assert!(syncs >= 0.99, "{}: {syncs}", row["method"]);
    }
}

#[test]
fn tatp_succeeds_as_often_as_its_rules_say() {
    let standard = ["--method", "volatile,nvm-inp", "--subscribers", "3000"];
    let standard = [&standard[..], &["--partitions", "2", "--txns", "20000"]].concat();
    for row in &rows("tatp", &standard) {
        assert_eq!(
            (&row["workload"], &row["skew"]),
            (&"tatp".into(), &"nurand".into())
        );
        assert_eq!(
            (&row["txns"], &row["subscribers"]),
            (&20_000.into(), &3000.into())
        );
        let of_type = |kind: &str| {
            let numbers = &row["by_type"][kind];
            let rate = numbers["success_rate"].as_f64().unwrap();
            (numbers["txns"].as_u64().unwrap(), rate)
        };
        assert_eq!(of_type("get-subscriber-data"), (7000, 1.0));
        assert_eq!(of_type("update-location"), (2800, 1.0));
        for (kind, txns, rate) in [
            ("get-access-data", 7000, 0.625),
            ("get-new-destination", 2000, 0.148),
            ("update-subscriber-data", 400, 0.625),
            ("insert-call-forwarding", 400, 0.3125),
            ("delete-call-forwarding", 400, 0.3125),
        ] {
            let (ran, succeeded) = of_type(kind);
            assert_eq!(ran, txns);
            assert!((succeeded - rate).abs() < 0.1, "{kind}: {succeeded}");
        }
        let failed = row["rollbacks"].as_f64().unwrap();
        let a_second = row["successful_txn_per_s"].as_f64().unwrap();
        let successful = a_second * row["seconds"].as_f64().unwrap();
        assert!((successful + failed - 20_000.0).abs() < 0.5, "{row}");
    }
    let only = ["--method", "inp", "--subscribers", "500", "--txns", "500"];
    let only = [
        &only[..],
        &["--mix", "update-location", "--choice", "uniform"],
    ]
    .concat();
    let row = &rows("tatp", &only)[0];
    assert_eq!(row["by_type"]["update-location"]["txns"], 500);
    assert_eq!(
        (&row["mix"], &row["skew"]),
        (&"0,0,0,0,1,0,0".into(), &"uniform".into())
    );
}

#[test]
fn people_get_a_table_by_type() {
    let printed = succeed(&[
        "bench",
        "tatp",
        "--method",
        "volatile",
        "--subscribers",
        "200",
        "--txns",
        "1000",
    ]);
    for word in ["get-new-destination", "success", "100.0 %", "footprint"] {
        assert!(printed.contains(word), "{word} is missing in {printed}");
    }
    let common = ["bench", "tpcb", "--method", "volatile", "--accounts", "50"];
    let csv = succeed(&[&common[..], &["--txns", "100", "--format", "csv"]].concat());
    let header = csv.lines().next().unwrap();
    assert!(
        header.contains("by_type.account-update.latency_us.p99"),
        "{header}"
    );
}

/// The content is checked by the program, so a transaction that is lost or run twice would fail it.
#[test]
fn tpcb_runs_over_connections_beside_others() {
    let place = TestDirectory::new();
    let here = place.at("here");
    let common = ["--method", "nvm-inp,inp,full-page-writes", "--path", &here];
    let small = ["--accounts", "200", "--seconds", "0.4"];
    let common = [&common[..], &small, &["--connections", "3"]].concat();
    let beside = [&["--idle", "2"][..], &["--reader"], &[]];
    for (onlooker, partitions) in beside.into_iter().zip(["1", "2", "2"]) {
        let options = [&common[..], onlooker, &["--partitions", partitions]].concat();
        let rows = rows("tpcb", &options);
        assert_eq!(rows.len(), 3);
        for row in &rows {
            let (workers, interactive) = (&row["workers"], &row["interactive"]);
            for phase in [workers, interactive] {
                assert!(phase["txns"].as_u64().unwrap() > 0, "{row}");
                assert!(phase["latency_us"]["p999"].as_f64().unwrap() > 0.0);
            }
            let ratio = row["of_workers"]["median"].as_f64().unwrap();
            assert!(ratio > 0.0, "{row}");
            // Both wait for the disk alike; at the end of a round some may share a sync.
            if row["method"] == "inp" {
                let syncs = |phase: &Value| phase["syncs_per_txn"].as_f64().unwrap();
                let both = [workers, interactive].map(syncs);
                assert!(both.iter().all(|syncs| *syncs > 0.3), "{both:?}");
            }
            let seen = &row["beside"];
            let [idle, looks] = ["idle", "looks"].map(|name| seen[name].as_u64());
            let expected = match onlooker {
                [] => (None, false),
                ["--reader"] => (Some(0), true),
                _ => (Some(2), false),
            };
            assert_eq!((idle, looks > Some(1)), expected, "{row}");
        }
    }
    let hot = ["--connection-isolation", "serializable", "--branches", "1"];
    let row = &rows("tpcb", &[&common[..], &hot].concat())[0];
    let counted = |name| row["interactive"][name].as_u64().unwrap();
    let aborts = ["deadlocks", "timeouts", "serialization_failures"].map(counted);
    assert_eq!(aborts.iter().sum::<u64>(), counted("retries"), "{row}");
    let printed = succeed(&[&["bench", "tpcb"], &common[..], &["--idle", "1"]].concat());
    assert!(printed.contains("3 connections, 1 idle"), "{printed}");
    assert!(printed.contains("syncs/txn"), "{printed}");
    let needs = ["bench", "tpcb", "--method", "inp", "--idle", "1"];
    assert!(fail(2, &needs).contains("--connections"));
}

#[test]
fn kills_and_power_cuts_take_all_benchmarks() {
    for workload in ["tpcc", "tpcb", "tatp", "sysbench"] {
        let common = ["torture", "--method", "nvm-inp,inp", "--workload", workload];
        let killed = succeed(&[&common[..], &["--kills", "2", "--format", "json"]].concat());
        for line in killed.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            assert_eq!(row["workload"], workload, "{row}");
            assert!(row["acknowledged"].as_u64().unwrap() > 0, "{row}");
        }
        let cut = succeed(&[&common[..], &["--images", "20", "--format", "json"]].concat());
        for line in cut.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            assert_eq!((&row["kind"], &row["wrong"]), (&workload.into(), &0.into()));
        }
    }
}

#[test]
fn mistakes_are_named_with_their_mend() {
    let wrong = |benchmark: &str, arguments: &[&str]| {
        let fixed = ["bench", benchmark, "--method", "inp"];
        fail(2, &[&fixed, arguments].concat())
    };
    let several = ["--partitions", "2"];
    let branches = [&["--branches", "1"], &several[..]].concat();
    assert!(wrong("tpcb", &branches).contains("use more branches"));
    assert!(wrong("tpcb", &["--accounts", "200000"]).contains("100000"));
    let subscribers = [&["--subscribers", "1"], &several[..]].concat();
    assert!(wrong("tatp", &subscribers).contains("use more subscribers"));
    assert!(wrong("tatp", &["--mix", "update"]).contains("update-location"));
    assert!(wrong("tatp", &["--choice", "zipf"]).contains("use nurand or uniform"));
    assert!(fail(2, &["bench", "tatp", "--method", "std-map"]).contains("std-map"));
    assert!(succeed(&["bench", "tpcb", "--help"]).contains("--single-partition"));
}

#[test]
fn axes_take_the_place_of_a_method() {
    let place = TestDirectory::new();
    let here = place.at("here");
    let run = ["--path", &here, "--txns", "20", "--accounts", "100"];
    for (axes, method, guard, log) in [
        (
            &["--pages", "ssd"][..],
            "full-page-writes",
            "full-page-writes",
            "central",
        ),
        (
            &[
                "--log",
                "per-transaction",
                "--guard",
                "dwb-batched",
                "--persist",
                "flush-on-commit",
            ],
            "nv-logging",
            "dwb-batched",
            "per-transaction, flush-on-commit",
        ),
        (
            &["--log", "decentralized"],
            "nv-disk-decentralized+full-page-writes",
            "full-page-writes",
            "decentralized",
        ),
        (
            &["--pages", "nvm"],
            "in-place",
            "before-images",
            "per-transaction, undo",
        ),
    ] {
        let row = &rows("tpcb", &[axes, &run].concat())[0];
        assert_eq!(row["method"], method);
        assert_eq!((&row["guard"], &row["log"]), (&guard.into(), &log.into()));
    }
    let database = place.at("database");
    let combined = "distributed-log+full-page-writes";
    succeed(&["create", &database, "--log", "distributed"]);
    assert!(succeed(&["info", &database]).contains(combined));
    assert!(succeed(&["verify", &database]).starts_with("sound"));
    let refused = |axes: &[&str]| fail(2, &[&["bench", "tpcb"], axes, &run].concat());
    assert!(refused(&["--guard", "before-images"]).contains("use dwb or full-page-writes"));
    assert!(
        refused(&["--pages", "nvm", "--log", "central"]).contains("per-transaction or volatile")
    );
    assert!(refused(&["--log", "none"]).contains("decentralized"));
    assert!(refused(&["--log", "central", "--method", "dwb"]).contains("cannot be used with"));
    assert!(refused(&[]).contains("--method"));
}

#[test]
fn threads_share_a_partition() {
    let place = TestDirectory::new();
    let here = place.at("here");
    let common = [
        "--method",
        "full-page-writes,nv-logging",
        "--threads",
        "3",
        "--ring",
        "1000000",
        "--path",
    ];
    let common = [&common[..], &[&here, "--pool", "8000000", "--txns", "900"]].concat();
    for (benchmark, size) in [
        ("tpcb", &["--branches", "2", "--accounts", "100"][..]),
        ("tatp", &["--subscribers", "60", "--mix", "update-location"]),
        ("tpcc", &["--warehouses", "4", "--scale", "0.001"]),
        ("ycsb", &["--rows", "50", "--mix", "write-heavy"]),
    ] {
        let rows = rows(benchmark, &[&common, size].concat());
        assert_eq!(rows.len(), 2);
        let expected = [
            ("full-page-writes", "central"),
            ("dwb-batched", "per-transaction, flush-on-insert"),
        ];
        for (row, (guard, log)) in rows.iter().zip(expected) {
            assert_eq!(
                (&row["threads"], &row["partitions"]),
                (&3.into(), &1.into())
            );
            assert_eq!((&row["txns"], &row["guard"]), (&900.into(), &guard.into()));
            assert_eq!(row["pool_bytes"], 8_000_000);
            assert_eq!(
                (&row["log"], &row["commit_mode"]),
                (&log.into(), &"group".into())
            );
            assert!(row["conflicts"].is_u64(), "{row}");
        }
    }
    let refused = |arguments: &[&str]| {
        fail(
            2,
            &[&["bench", "tpcb", "--threads", "2"], arguments].concat(),
        )
    };
    assert!(refused(&["--method", "dwb,inp"]).contains("use --partitions 2"));
    for size in ["--ring", "--rings", "--area", "--outlines"] {
        let ignored = refused(&["--method", "dwb,full-page-writes", size, "4000000"]);
        let told = format!("option `{size}`: methods `dwb`, `full-page-writes` have no");
        assert!(ignored.contains(&told), "{ignored}");
    }
    assert!(
        refused(&["--method", "dwb", "--partitions", "3"]).contains("leave one of the two out")
    );
}

#[test]
fn the_log_is_archived_where_it_is_wanted() {
    let place = TestDirectory::new();
    let (here, cold) = (place.at("here"), place.at("cold"));
    let run = ["--threads", "2", "--ring", "1000000", "--path", &here];
    let methods = ["--method", "nv-logging,distributed-log"];
    for (benchmark, size) in [
        ("tpcb", &["--accounts", "100", "--txns", "20000"][..]),
        (
            "ycsb",
            &["--rows", "50", "--mix", "write-heavy", "--txns", "20000"],
        ),
    ] {
        let common = [size, &run, &methods].concat();
        let given_up = rows(benchmark, &common);
        let archived = rows(benchmark, &[&common[..], &["--archive", &cold]].concat());
        for (given_up, archived) in given_up.iter().zip(&archived) {
            let log = given_up["log"].as_str().unwrap();
            assert_eq!(archived["log"], format!("{log}, archived"));
            assert!(given_up["archive_bytes"].is_null(), "{given_up}");
            // Of 20,000 transactions with some hundred bytes each all but the last few thousand are
            // cold.
            let bytes = archived["archive_bytes"].as_u64().unwrap();
            assert!(bytes > 1_000_000, "{archived}");
        }
        for directory in [&here, &cold] {
            let mut left = std::fs::read_dir(directory).unwrap();
            assert!(left.next().is_none(), "{directory} is not left empty");
        }
    }
    let refused = |arguments: &[&str]| {
        let fixed = ["bench", "tpcb", "--archive", &cold];
        fail(2, &[&fixed, arguments].concat())
    };
    assert!(refused(&["--method", "in-place"]).contains("something to archive"));
    let emulated = ["--method", "nv-logging", "--device", "emulated"];
    assert!(refused(&emulated).contains("leave them out there"));
    let scale = ["bench", "ycsb", "--archive", &cold, "--method", "std-map"];
    assert!(fail(2, &scale).contains("leave it out"));
}

#[test]
fn the_log_lies_where_it_is_wanted() {
    let place = TestDirectory::new();
    let (here, there) = (place.at("here"), place.at("there"));
    let common = ["--accounts", "100", "--txns", "300"];
    let run = |arguments: &[&str]| rows("tpcb", &[&common, arguments].concat());
    let apart = ["--method", "nv-disk", "--path", &here, "--log-path", &there];
    let late = ["--commit", "asynchronous"];
    let row = run(&[&apart[..], &late].concat()).remove(0);
    assert_eq!(row["commit_mode"], "asynchronous, not durable");
    for directory in [&here, &there] {
        let mut left = std::fs::read_dir(directory).unwrap();
        assert!(left.next().is_none(), "{directory} is not left empty");
    }
    // A log on a disk is no traffic of the imitated memory.
    let emulated = ["--method", "disk-replacement", "--device", "emulated"];
    let stores = |arguments: &[&str]| {
        let row = run(&[&emulated[..], arguments].concat()).remove(0);
        row["per_txn"]["log_stores"].as_f64().unwrap()
    };
    let (in_memory, on_disk) = (stores(&[]), stores(&["--log-files", "sync=1000"]));
    assert!(in_memory > on_disk, "{in_memory} and {on_disk} lines");
    let refused = |arguments: &[&str]| fail(2, &[&["bench", "tpcb"], arguments].concat());
    assert!(refused(&["--method", "dwb", "--files", "ssd"]).contains("--device emulated"));
    let inp = refused(&["--method", "dwb,inp", "--commit", "asynchronous"]);
    assert!(inp.contains("a buffer pool"), "{inp}");
    let real = [
        "--method",
        "dwb",
        "--log-path",
        &there,
        "--device",
        "emulated",
    ];
    assert!(refused(&real).contains("--log-files"));
}
